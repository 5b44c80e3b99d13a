//! Channel from a source of network state to the controllers of connections.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use byway_state::PathEntry;

use crate::clock::duration;
use crate::feed::Feed;
use crate::limits::{ENTRIES_MAX, ENTRY_LIFETIME};

/// Creates a channel for the entries of one path, in both directions.
#[must_use]
pub fn channel() -> (Publisher, Subscription) {
    let shared = Arc::new(SharedEntries { newest: AtomicU64::new(0), entries: Mutex::new(VecDeque::new()) });
    let publisher = Publisher { shared: Arc::downgrade(&shared) };
    (publisher, Subscription { shared, last_read: 0 })
}

/// Direction of an entry, seen from the sender of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryDirection {
    Forward,
    Back,
}

/// Entry that arrived, and waits for its readers.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedEntry {
    /// Number among all entries of the channel, from 1.
    number: u64,
    pub(crate) received_at: Instant,
    pub(crate) direction: EntryDirection,
    pub(crate) entry: Arc<PathEntry>,
}

#[derive(Debug)]
struct SharedEntries {
    /// Number of the newest entry; 0 if there is none.
    newest: AtomicU64,
    /// Newest entries, oldest first.
    entries: Mutex<VecDeque<ReceivedEntry>>,
}

impl SharedEntries {
    fn lock(&self) -> MutexGuard<'_, VecDeque<ReceivedEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writing end of a channel: a client of a controller's stream, or any other source of entries.
///
/// It never waits for a reader, and stores the entries of 2 s for readers to come.
#[derive(Clone, Debug)]
pub struct Publisher {
    shared: Weak<SharedEntries>,
}

impl Publisher {
    /// Publishes an entry of the direction in which data is sent: from the local address to the
    /// peer's.
    ///
    /// `received_at` is the time at which its ages are right, usually the present. Returns false if
    /// no [`Subscription`] is left: nobody will read entries any more.
    pub fn publish_forward(&mut self, entry: PathEntry, received_at: Instant) -> bool {
        self.publish(EntryDirection::Forward, entry, received_at)
    }

    /// Publishes an entry of the opposite direction, which acknowledgments take.
    ///
    /// The rest is as for [`publish_forward`](Self::publish_forward).
    pub fn publish_back(&mut self, entry: PathEntry, received_at: Instant) -> bool {
        self.publish(EntryDirection::Back, entry, received_at)
    }

    fn publish(&self, direction: EntryDirection, entry: PathEntry, received_at: Instant) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let mut entries = shared.lock();
        let number = shared.newest.load(Ordering::Relaxed) + 1;
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(ReceivedEntry { number, received_at, direction, entry: Arc::new(entry) });
        shared.newest.store(number, Ordering::Release);
        true
    }
}

/// Reading end of a channel. A clone reads on from the same entry.
///
/// It is a [`Feed`] by itself, for an application with one path.
#[derive(Clone, Debug)]
pub struct Subscription {
    shared: Arc<SharedEntries>,
    /// Number of the last entry that was read.
    last_read: u64,
}

impl Subscription {
    /// Returns the entries since the last call, oldest first. Those of over 2 s ago are left out.
    pub(crate) fn read(&mut self, now: Instant) -> Vec<ReceivedEntry> {
        // Controllers ask for each packet: usually there is nothing, and no lock.
        if self.shared.newest.load(Ordering::Acquire) == self.last_read {
            return Vec::new();
        }
        let entries = self.shared.lock();
        let Some(newest) = entries.back() else { return Vec::new() };
        let is_wanted = |received: &&ReceivedEntry| {
            let age = duration(now.saturating_duration_since(received.received_at));
            received.number > self.last_read && age <= ENTRY_LIFETIME
        };
        let unread = entries.iter().filter(is_wanted).cloned().collect();
        self.last_read = newest.number;
        unread
    }
}

impl Feed for Subscription {
    fn subscribe(&self, _local: SocketAddr, _peer: SocketAddr) -> Option<Self> {
        Some(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{at, begin};
    use crate::test_entries::entry;

    fn indices(subscription: &mut Subscription, now: Instant) -> Vec<u64> {
        subscription.read(now).iter().map(|received| received.entry.index()).collect()
    }

    #[test]
    fn each_reader_gets_each_entry_once() {
        let (mut publisher, mut first) = channel();
        let start = begin();
        assert!(publisher.publish_forward(entry(1, 0), start));
        let mut second = first.clone();
        assert_eq!(indices(&mut first, start), [1]);
        assert!(publisher.publish_back(entry(2, 0), start));
        let directions: Vec<_> = first.read(start).iter().map(|received| received.direction).collect();
        assert_eq!(directions, [EntryDirection::Back]);
        assert_eq!(indices(&mut first, start), [0; 0]);
        assert_eq!(indices(&mut second, start), [1, 2]);
    }

    #[test]
    fn a_new_reader_begins_with_the_newest_entries_of_two_seconds() {
        let (mut publisher, subscription) = channel();
        let start = begin();
        for index in 1..=100 {
            publisher.publish_forward(entry(index, 0), at(start, 50 * index));
        }
        let now = at(start, 5_000);
        // 80 entries are stored, and 41 of them are no older than 2 s.
        assert_eq!(indices(&mut subscription.clone(), now), (60..=100).collect::<Vec<_>>());
        // What was too old is not read later, either.
        let mut late = subscription;
        assert_eq!(indices(&mut late, at(start, 10_000)), [0; 0]);
        assert_eq!(indices(&mut late, now), [0; 0]);
    }

    #[test]
    fn a_burst_of_entries_is_bounded() {
        let (mut publisher, mut subscription) = channel();
        let start = begin();
        for index in 1..=1_000 {
            publisher.publish_forward(entry(index, 0), start);
        }
        assert_eq!(indices(&mut subscription, start), (921..=1_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_publisher_learns_that_nobody_reads() {
        let (mut publisher, subscription) = channel();
        let clone = subscription.clone();
        drop(subscription);
        assert!(publisher.publish_forward(entry(1, 0), begin()));
        drop(clone);
        assert!(!publisher.publish_forward(entry(2, 0), begin()));
    }
}
