//! Table of many timers: the earliest is needed often, and most are postponed before they fire.

use alloc::vec::Vec;

use byway_units::Time;

use crate::limits::TIMERS_MAX;

/// Key of a timer: a small number, because it is the index in a table.
///
/// Callers with several timers for each flow use `flow * kinds + kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey(u32);

impl TimerKey {
    /// Returns the key with this number, which is below [`TIMERS_MAX`] for timers that are armed.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number of this key.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Timers by key, each armed for one instant or disarmed.
///
/// Nearly every packet postpones a timer, which only stores the new instant: the heap is corrected
/// when the old instant is due. So a packet costs a few nanoseconds, however many timers there are,
/// and the heap has at most one entry for each.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    slots: Vec<Slot>,
    /// Heap with four children for each node: half as deep as with two, and siblings share a cache
    /// line.
    heap: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Instant at which the timer should fire; `Time::MAX`: never.
    wanted: Time,
    /// Instant in the heap, no later than `wanted`; `Time::MAX`: not in the heap.
    queued: Time,
    /// Index in the heap, if it is there.
    heap_index: u32,
}

impl Slot {
    const UNUSED: Self = Self { wanted: Time::MAX, queued: Time::MAX, heap_index: 0 };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    queued: Time,
    key: TimerKey,
}

const CHILDREN: usize = 4;

impl Timers {
    /// Creates a table without timers.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new(), heap: Vec::new() }
    }

    /// Arms the timer for instant `at`, in place of an earlier instant. A timer at `Time::MAX`
    /// never fires.
    ///
    /// # Panics
    /// If the key is not below [`TIMERS_MAX`].
    pub fn arm(&mut self, key: TimerKey, at: Time) {
        if key.index() >= self.slots.len() {
            self.ensure_slot(key);
        }
        let slot = &mut self.slots[key.index()];
        slot.wanted = at;
        if at < slot.queued {
            self.move_earlier(key, at);
        }
    }

    /// Disarms the timer; it does not fire until it is armed again.
    pub fn disarm(&mut self, key: TimerKey) {
        if let Some(slot) = self.slots.get_mut(key.index()) {
            slot.wanted = Time::MAX;
        }
    }

    /// Returns the instant for which the timer is armed; `None` if it is disarmed.
    #[must_use]
    pub fn armed(&self, key: TimerKey) -> Option<Time> {
        self.slots.get(key.index()).map(|slot| slot.wanted).filter(|wanted| *wanted < Time::MAX)
    }

    /// Returns an instant before which no timer fires; `None` if none is armed. It costs less than
    /// [`earliest`](Self::earliest), and is often earlier.
    #[must_use]
    pub fn not_before(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.queued)
    }

    /// Returns the timer to fire next, and its instant; `None` if none is armed. Of several at the
    /// same instant, it is the one with the lowest key.
    pub fn earliest(&mut self) -> Option<(Time, TimerKey)> {
        while let Some(first) = self.heap.first().copied() {
            let wanted = self.slots[first.key.index()].wanted;
            if wanted == first.queued {
                return Some((wanted, first.key));
            }
            if wanted == Time::MAX {
                self.remove_first();
            } else {
                self.set(0, Entry { queued: wanted, key: first.key });
                self.sink(0);
            }
        }
        None
    }

    /// Disarms and returns the earliest timer whose instant has passed. Call until it returns
    /// `None`, for the order of instant and key.
    pub fn expire(&mut self, now: Time) -> Option<TimerKey> {
        if self.not_before().is_none_or(|earliest| earliest > now) {
            return None;
        }
        let (at, key) = self.earliest()?;
        if at > now {
            return None;
        }
        self.slots[key.index()].wanted = Time::MAX;
        self.remove_first();
        Some(key)
    }

    #[cold]
    fn ensure_slot(&mut self, key: TimerKey) {
        assert!(key.index() < TIMERS_MAX, "timer {} is not below {TIMERS_MAX}", key.0);
        self.slots.resize(key.index() + 1, Slot::UNUSED);
    }

    fn move_earlier(&mut self, key: TimerKey, at: Time) {
        let slot = self.slots[key.index()];
        let entry = Entry { queued: at, key };
        if slot.queued == Time::MAX {
            self.heap.push(entry);
            self.rise(self.heap.len() - 1, entry);
        } else {
            self.rise(slot.heap_index as usize, entry);
        }
    }

    fn remove_first(&mut self) {
        let first = self.heap.swap_remove(0);
        self.slots[first.key.index()].queued = Time::MAX;
        if !self.heap.is_empty() {
            self.set(0, self.heap[0]);
            self.sink(0);
        }
    }

    /// Moves `entry` up in the heap, from `index` to its position.
    fn rise(&mut self, mut index: usize, entry: Entry) {
        while index > 0 {
            let parent = (index - 1) / CHILDREN;
            if self.heap[parent] <= entry {
                break;
            }
            self.set(index, self.heap[parent]);
            index = parent;
        }
        self.set(index, entry);
    }

    /// Moves the entry at `index` down in the heap, to its position.
    fn sink(&mut self, mut index: usize) {
        let entry = self.heap[index];
        while let Some(child) = self.least_child(index).filter(|child| self.heap[*child] < entry) {
            self.set(index, self.heap[child]);
            index = child;
        }
        self.set(index, entry);
    }

    fn least_child(&self, index: usize) -> Option<usize> {
        let first = CHILDREN * index + 1;
        let end = (first + CHILDREN).min(self.heap.len());
        (first..end).min_by_key(|child| self.heap[*child])
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "the heap has no more entries than keys, which are 32 bits"
    )]
    fn set(&mut self, index: usize, entry: Entry) {
        self.heap[index] = entry;
        let slot = &mut self.slots[entry.key.index()];
        slot.queued = entry.queued;
        slot.heap_index = index as u32;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeMap;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u32) -> TimerKey {
        TimerKey::new(number)
    }

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn expired(timers: &mut Timers, now: u64) -> Vec<u32> {
        core::iter::from_fn(|| timers.expire(at(now))).map(TimerKey::number).collect()
    }

    #[test]
    fn timers_fire_in_order_of_instant_and_key() {
        let mut timers = Timers::new();
        for (number, instant) in [(3, 20), (1, 10), (0, 20), (2, 30)] {
            timers.arm(key(number), at(instant));
        }
        assert_eq!(timers.earliest(), Some((at(10), key(1))));
        assert_eq!(expired(&mut timers, 9), []);
        assert_eq!(expired(&mut timers, 20), [1, 0, 3]);
        assert_eq!(expired(&mut timers, 100), [2]);
        assert_eq!((timers.earliest(), timers.not_before()), (None, None));
    }

    #[test]
    fn a_timer_put_off_a_thousand_times_has_one_entry_and_fires_once() {
        let mut timers = Timers::new();
        for instant in 0..1_000 {
            timers.arm(key(0), at(instant));
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.not_before(), Some(at(0)));
        assert_eq!(expired(&mut timers, 998), []);
        assert_eq!(expired(&mut timers, 999), [0]);
        assert_eq!(timers.armed(key(0)), None);
    }

    #[test]
    fn a_timer_brought_forward_fires_at_the_earlier_instant_only() {
        let mut timers = Timers::new();
        for instant in (1..1_000).rev() {
            timers.arm(key(0), at(instant));
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(expired(&mut timers, 1_000), [0]);
    }

    #[test]
    fn a_timer_that_never_was_can_be_disarmed() {
        let mut timers = Timers::new();
        timers.disarm(key(7));
        assert_eq!((timers.armed(key(7)), timers.earliest()), (None, None));
    }

    #[test]
    #[should_panic(expected = "is not below")]
    fn a_key_beyond_the_limit_is_refused() {
        Timers::new().arm(key(u32::MAX), at(1));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Arm(u32, u64),
        Disarm(u32),
        Pass(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0_u32..24, 0_u64..60).prop_map(|(key, later)| Step::Arm(key, later)),
            1 => (0_u32..24).prop_map(Step::Disarm),
            2 => (0_u64..30).prop_map(Step::Pass),
        ];
        proptest::collection::vec(step, 0..200)
    }

    /// A reference implementation that checks all timers.
    fn expire_naive(armed: &mut BTreeMap<u32, u64>, now: u64) -> Vec<u32> {
        let mut due: Vec<_> =
            armed.iter().map(|(key, at)| (*at, *key)).filter(|(at, _)| *at <= now).collect();
        due.sort_unstable();
        armed.retain(|_, at| *at > now);
        due.into_iter().map(|(_, key)| key).collect()
    }

    proptest! {
        #[test]
        fn timers_do_as_a_list_of_all_timers_does(steps in steps()) {
            let (mut timers, mut naive, mut now) = (Timers::new(), BTreeMap::new(), 0);
            for step in steps {
                match step {
                    Step::Arm(number, later) => {
                        timers.arm(key(number), at(now + later));
                        naive.insert(number, now + later);
                    }
                    Step::Disarm(number) => {
                        timers.disarm(key(number));
                        naive.remove(&number);
                    }
                    Step::Pass(span) => {
                        now += span;
                        prop_assert_eq!(expired(&mut timers, now), expire_naive(&mut naive, now));
                    }
                }
                prop_assert!(timers.heap.len() <= 24);
                let earliest = naive.iter().map(|(number, instant)| (at(*instant), key(*number))).min();
                prop_assert!(earliest.is_none_or(|(earliest, _)| timers.not_before() <= Some(earliest)));
                // A copy, because the call would correct lazy entries.
                prop_assert_eq!(timers.clone().earliest(), earliest);
            }
        }
    }
}
