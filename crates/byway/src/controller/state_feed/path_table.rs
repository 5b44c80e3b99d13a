//! Table of one path, which links report to and applications read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use byway_state::{
    ENTRIES_MAX, LinkId, LinkState, Path, PathEntry, SAMPLE_INTERVAL, StateQuery, Table as StateTable,
};
use byway_units::{Duration, Time};

/// Newest entry of a path, which is encoded once for all streams.
#[derive(Debug)]
pub(super) struct Frame {
    entry: PathEntry,
    made_at: Time,
    text: OnceLock<String>,
}

impl Frame {
    fn new(entry: PathEntry, made_at: Time) -> Self {
        Self { entry, made_at, text: OnceLock::new() }
    }

    /// True if the entry is of the present beat. Ages in its text are those of that beat.
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        now.saturating_since(self.made_at) < SAMPLE_INTERVAL
    }

    /// Returns the index of the entry.
    pub(super) const fn index(&self) -> u64 {
        self.entry.index()
    }

    /// Returns the text of the entry. The first caller encodes it.
    pub(super) fn text(&self, encode: impl FnOnce(&PathEntry) -> String) -> &str {
        self.text.get_or_init(|| encode(&self.entry))
    }
}

/// Entry as a reader gets it, with the time since the table made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadEntry {
    /// The entry.
    pub(super) entry: PathEntry,
    /// Time since the table made the entry, by which its links' states are older.
    pub(super) waited: Duration,
}

/// Table of one path. Its lock is held for one report, one entry, or one query.
#[derive(Debug)]
pub(super) struct PathTable(Mutex<TableState>);

#[derive(Debug)]
struct TableState {
    table: StateTable,
    /// Times at which the latest entries were made, the newest one last.
    made_at: VecDeque<Time>,
    newest: Option<Arc<Frame>>,
}

impl PathTable {
    /// Creates the empty table of a path.
    pub(super) fn new(path: Path) -> Self {
        let table = StateTable::new(path);
        Self(Mutex::new(TableState { table, made_at: VecDeque::new(), newest: None }))
    }

    /// Adds a report of a link of the path.
    pub(super) fn report(&self, state: &LinkState, now: Time) {
        self.state().table.report(state, now);
    }

    /// Makes the next entry, unless the path is unknown. Returns true if it is known.
    pub(super) fn tick(&self, now: Time) -> bool {
        let mut state = self.state();
        let Some(entry) = state.table.tick(now).cloned() else { return false };
        if state.made_at.len() >= ENTRIES_MAX {
            state.made_at.pop_front();
        }
        state.made_at.push_back(now);
        state.newest = Some(Arc::new(Frame::new(entry, now)));
        true
    }

    /// Returns the entries that a query asks for, the oldest one first.
    pub(super) fn read(&self, query: StateQuery, now: Time) -> Vec<ReadEntry> {
        let state = self.state();
        state.table.after(query, now).map(|entry| state.read_entry(entry, now)).collect()
    }

    /// Returns the first entry after an index, if the table has one.
    pub(super) fn next_after(&self, last: u64, now: Time) -> Option<ReadEntry> {
        let state = self.state();
        let entry = state.table.after(StateQuery::new(last, ENTRIES_MAX), now).next()?;
        Some(state.read_entry(entry, now))
    }

    /// Returns the index that precedes the entries of a query, and the index of the newest entry.
    pub(super) fn range(&self, query: StateQuery, now: Time) -> (u64, u64) {
        let state = self.state();
        let newest = state.table.newest().map_or(0, PathEntry::index);
        let first = state.table.after(query, now).next();
        (first.map_or(newest, |entry| entry.index() - 1), newest)
    }

    /// Returns the newest entry, which may be old if the path is unknown.
    pub(super) fn newest(&self) -> Option<Arc<Frame>> {
        self.state().newest.clone()
    }

    /// Returns a link that has not reported yet, or not for 5 s.
    pub(super) fn silent_link(&self, now: Time) -> Option<LinkId> {
        self.state().table.silent_link(now)
    }

    /// Locks the table. It is consistent even after a panic, because each change is one step.
    fn state(&self) -> MutexGuard<'_, TableState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableState {
    fn read_entry(&self, entry: &PathEntry, now: Time) -> ReadEntry {
        let newest = self.table.newest().map_or(0, PathEntry::index);
        let behind = usize::try_from(newest.saturating_sub(entry.index())).unwrap_or(usize::MAX);
        let made_at = self.made_at.iter().rev().nth(behind);
        let waited = made_at.map_or(Duration::ZERO, |made_at| now.saturating_since(*made_at));
        ReadEntry { entry: entry.clone(), waited }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use byway_state::LinkEntry;

    use super::super::topology::Topology;
    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn report(table: &PathTable, now: Time) {
        let entry = LinkEntry::from_published([0.05, 31_250.0, 1_500.0, 625_000.0, 0.01]).expect("usual");
        let state = LinkState::new(Topology::link_id(0), entry, Duration::ZERO).expect("it is young");
        table.report(&state, now);
    }

    /// Returns a table with the entries 1 to `count`, of 50 ms each.
    fn filled(count: u64) -> PathTable {
        let table = PathTable::new(Path::new([Topology::link_id(0)]).expect("a path"));
        for index in 1..=count {
            report(&table, at(50 * index));
            assert!(table.tick(at(50 * index)));
        }
        table
    }

    fn indices(entries: &[ReadEntry]) -> Vec<u64> {
        entries.iter().map(|read| read.entry.index()).collect()
    }

    #[test]
    fn entries_have_the_time_since_they_were_made() {
        let table = filled(120);
        let read = table.read(StateQuery::new(0, 3), at(6_010));
        assert_eq!(indices(&read), [118, 119, 120]);
        let waited = read.iter().map(|read| read.waited.as_millis()).collect::<Vec<_>>();
        assert_eq!(waited, [110, 60, 10]);
        let oldest = table.next_after(20, at(6_000)).expect("it is in the ring");
        assert_eq!((oldest.entry.index(), oldest.waited.as_millis()), (21, 4_950));
    }

    #[test]
    fn the_range_of_a_query_begins_before_its_first_entry() {
        let table = filled(10);
        let range = |last, max| table.range(StateQuery::new(last, max), at(500));
        assert_eq!(range(0, 3), (7, 10));
        assert_eq!(range(8, 40), (8, 10));
        assert_eq!(range(10, 40), (10, 10));
        assert_eq!(range(u64::MAX, 40), (0, 10), "the controller has restarted");
        assert_eq!(range(0, 0), (10, 10));
        assert_eq!(filled(0).range(StateQuery::first(), at(0)), (0, 0));
    }

    #[test]
    fn an_entry_is_encoded_once_however_many_read_it() {
        let table = filled(3);
        let count = Cell::new(0);
        for _ in 0..3 {
            let frame = table.newest().expect("there are entries");
            let text = frame.text(|entry| {
                count.set(count.get() + 1);
                entry.index().to_string()
            });
            assert_eq!((text, frame.index()), ("3", 3));
            assert!(frame.is_fresh(at(199)) && !frame.is_fresh(at(200)));
        }
        assert_eq!(count.get(), 1);
    }

    #[test]
    fn a_silent_link_has_no_news_and_after_five_seconds_the_path_is_unknown() {
        let table = filled(4);
        for tick in 5..=8 {
            assert!(table.tick(at(50 * tick)));
        }
        let newest = table.next_after(7, at(400)).expect("it goes on");
        let link = newest.entry.links()[0];
        assert!(!link.entry().has_news() && link.age().as_millis() == 200);
        assert_eq!((table.tick(at(5_199)), table.silent_link(at(5_199))), (true, None));
        assert_eq!(
            (table.tick(at(5_200)), table.silent_link(at(5_200))),
            (false, Some(Topology::link_id(0)))
        );
    }
}
