//! Entries of a link of 5 Mbit/s and 50 ms, for tests.

use byway_state::{LinkEntry, LinkId, LinkState, PathEntry};
use byway_units::{Bytes, Duration, Rate};

/// Returns an entry of the link, which sends at its rate.
pub(crate) fn entry(index: u64, backlog: u64) -> PathEntry {
    let (interval, rate) = (Duration::from_millis(50), Rate::from_megabits_per_second(5));
    link_entry(index, LinkEntry::new(interval, rate * interval, Bytes::new(backlog), rate, interval))
}

/// Returns an entry of a link of 8 kbit/s that is full, with the largest backlog of others.
pub(crate) fn crowded_entry(index: u64) -> PathEntry {
    let (interval, rate) = (Duration::from_millis(50), Rate::from_kilobits_per_second(8));
    let backlog = Bytes::new(16 << 20);
    link_entry(index, LinkEntry::new(interval, rate * interval, backlog, rate, interval))
}

fn link_entry(index: u64, entry: Result<LinkEntry, byway_state::EntryError>) -> PathEntry {
    let entry = entry.expect("the values are in range");
    let state = LinkState::new(LinkId::unnamed(0), entry, Duration::ZERO).expect("the entry is new");
    PathEntry::new(index, vec![state]).expect("a link is a path")
}
