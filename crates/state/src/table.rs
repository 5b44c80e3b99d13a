//! Network state table of one path.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_units::Time;

use crate::limits::{ENTRIES_MAX, ENTRY_LIFETIME};
use crate::link_state::{LinkId, LinkState};
use crate::merge::LinkMerge;
use crate::path::Path;
use crate::path_entry::PathEntry;
use crate::query::StateQuery;

/// Network state table of one direction of a path (section 3.1 of the paper): entries of the last
/// 5 s, at most 100, with indices from 1 without gaps.
///
/// Reports of links arrive at their own times, from links of this network and from neighbours.
/// [`Table::report`] collects them, and [`Table::tick`] makes an entry of what arrived since the
/// last one. A link that did not report has no news in it.
#[derive(Clone, Debug)]
pub struct Table {
    path: Path,
    /// Reports of each link of the path; none from a link that never reported.
    merges: Vec<Option<LinkMerge>>,
    /// Entries with the time at which they were made, oldest first.
    entries: VecDeque<(Time, PathEntry)>,
    newest: u64,
}

impl Table {
    /// Creates an empty table.
    #[must_use]
    pub fn new(path: Path) -> Self {
        let merges = path.links().iter().map(|_| None).collect();
        Self { path, merges, entries: VecDeque::new(), newest: 0 }
    }

    /// Returns the path.
    #[must_use]
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// Changes the path. Indices continue, and so do the reports of links that stay.
    pub fn set_path(&mut self, path: Path) {
        let merge_of = |link: &LinkId| {
            let index = self.path.links().iter().position(|known| known == link)?;
            self.merges[index]
        };
        self.merges = path.links().iter().map(merge_of).collect();
        self.path = path;
    }

    /// Adds a report that arrived at `now`. Returns false if the link is not on the path.
    pub fn report(&mut self, state: &LinkState, now: Time) -> bool {
        let Some(index) = self.path.links().iter().position(|link| *link == state.link()) else {
            return false;
        };
        match &mut self.merges[index] {
            Some(merge) => merge.add(state, now),
            empty => *empty = Some(LinkMerge::new(state, now)),
        }
        true
    }

    /// Makes the next entry and returns it.
    ///
    /// Returns `None` while the path is unknown: while a link has not reported yet, or not for 5 s.
    /// Call it each 50 ms, for all tables at the same time.
    pub fn tick(&mut self, now: Time) -> Option<&PathEntry> {
        let mut links = self.expire(now);
        if self.silent_link(now).is_some() {
            return None;
        }
        links.clear();
        links.extend(self.merges.iter_mut().flatten().map(|merge| merge.flush(now)));
        self.newest += 1;
        // If the clock went backwards, entries still expire in their order.
        let made_at = self.entries.back().map_or(now, |(before, _)| now.max(*before));
        self.entries.push_back((made_at, PathEntry::of_table(self.newest, links)));
        self.newest()
    }

    /// Removes old entries, and one if the ring is full. Returns the buffer of a removed one.
    fn expire(&mut self, now: Time) -> Vec<LinkState> {
        let mut buffer = Vec::new();
        while self.entries.front().is_some_and(|(at, _)| is_old(*at, now))
            || self.entries.len() >= ENTRIES_MAX
        {
            buffer = self.entries.pop_front().map_or_else(Vec::new, |(_, entry)| entry.into_links());
        }
        buffer
    }

    /// Returns a link of the path that has not reported yet, or not for 5 s. Without one, the path
    /// is known.
    #[must_use]
    pub fn silent_link(&self, now: Time) -> Option<LinkId> {
        let is_silent = |merge: &Option<LinkMerge>| merge.is_none_or(|merge| merge.is_silent(now));
        let index = self.merges.iter().position(is_silent)?;
        Some(self.path.links()[index])
    }

    /// Returns the newest entry.
    #[must_use]
    pub fn newest(&self) -> Option<&PathEntry> {
        self.entries.back().map(|(_, entry)| entry)
    }

    /// Returns the newest entries after the query's index, oldest first.
    ///
    /// An index beyond the newest one is from before a restart, and is answered like 0. A reader
    /// that is behind by more than the table holds gets what the table holds.
    ///
    /// Ages are those of the time at which an entry was made ([`Table::tick`]). To a reader that
    /// polls between two of them, add the time since the newest one ([`LinkState::older_by`]).
    #[must_use]
    pub fn after(&self, query: StateQuery, now: Time) -> impl DoubleEndedIterator<Item = &PathEntry> {
        let last = if query.last() > self.newest { 0 } else { query.last() };
        let missing = usize::try_from(self.newest - last).unwrap_or(usize::MAX);
        let count = self.entries.len().min(missing).min(query.entries_max());
        let newest = self.entries.range(self.entries.len() - count..);
        newest.filter(move |(at, _)| !is_old(*at, now)).map(|(_, entry)| entry)
    }
}

fn is_old(made_at: Time, now: Time) -> bool {
    now.saturating_since(made_at) > ENTRY_LIFETIME
}

#[cfg(test)]
mod tests;
