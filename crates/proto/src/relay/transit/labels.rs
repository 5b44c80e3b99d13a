//! Labels of a relay that passes on packets between two others, and the limits of each source.

use alloc::collections::BTreeMap;

use byway_units::{Bytes, Time};
use byway_wire::seal::ReplayWindow;
use byway_wire::{Counter, SessionIndex, TransitLabel};

use crate::limits::{
    TRANSIT_BURST, TRANSIT_LABEL_BYTES, TRANSIT_LABEL_IDLE, TRANSIT_LABEL_UNUSED, TRANSIT_LABELS_MAX,
    TRANSIT_LABELS_PER_SOURCE, TRANSIT_RATE, TRANSIT_REPLIES_BURST, TRANSIT_REPLIES_PER_SECOND,
};
use crate::parts::token_bucket::{Packets, TokenBucket};
use crate::session::SessionId;

/// Relays and session that a label stands for.
#[derive(Debug)]
pub(super) struct Label {
    /// Session with the relay that sends the packets.
    pub(super) source: SessionId,
    /// Session with the relay that receives them.
    pub(super) target: SessionId,
    /// Index that the receiving relay expects.
    pub(super) index: SessionIndex,
    /// Counters of the packets so far: an observer could send them again, at this relay's cost.
    window: ReplayWindow,
    used_at: Time,
}

impl Label {
    /// Records the counter of a packet with a valid digest. Returns false for one that was received
    /// before, or is too old.
    pub(super) fn accept(&mut self, counter_low: u32, now: Time) -> bool {
        let counter = Counter::nearest(counter_low, self.window.highest());
        let is_new = self.window.accept(counter).is_ok();
        if is_new {
            self.used_at = now;
        }
        is_new
    }
}

/// Limits of one relay whose packets this relay passes on.
#[derive(Debug)]
struct SourceLimits {
    rate: TokenBucket<Bytes>,
    replies: TokenBucket<Packets>,
}

impl SourceLimits {
    fn new(now: Time) -> Self {
        Self {
            rate: TokenBucket::of_bytes(TRANSIT_RATE, TRANSIT_BURST, now),
            replies: TokenBucket::of_packets(
                TRANSIT_REPLIES_PER_SECOND,
                Packets::new(TRANSIT_REPLIES_BURST),
                now,
            ),
        }
    }
}

/// All labels of a relay shard. Other relays have at most [`TRANSIT_LABELS_PER_SOURCE`] each.
#[derive(Debug)]
pub(super) struct Labels {
    by_label: BTreeMap<TransitLabel, Label>,
    sources: BTreeMap<SessionId, SourceLimits>,
}

impl Labels {
    pub(super) const fn new() -> Self {
        Self { by_label: BTreeMap::new(), sources: BTreeMap::new() }
    }

    /// Returns the memory of the labels, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.by_label.len() as u64 * TRANSIT_LABEL_BYTES
    }

    /// Returns the relays that a label stands for; `None` for a free one.
    pub(super) fn get_mut(&mut self, label: TransitLabel) -> Option<&mut Label> {
        self.by_label.get_mut(&label)
    }

    /// True if a source may have another request answered, and charges it.
    pub(super) fn may_reply(&mut self, source: SessionId, now: Time) -> bool {
        let limits = self.sources.entry(source).or_insert_with(|| SourceLimits::new(now));
        limits.replies.try_consume(Packets::new(1), now)
    }

    /// True if a packet of a source is within its rate, and charges it.
    pub(super) fn may_pass(&mut self, source: SessionId, bytes: Bytes, now: Time) -> bool {
        let limits = self.sources.entry(source).or_insert_with(|| SourceLimits::new(now));
        limits.rate.try_consume(bytes, now)
    }

    /// Returns the label for packets of a source to a session at another relay. A repeated request
    /// gets the same one. `None` if all labels, or all of this source, are in use.
    pub(super) fn assign(
        &mut self,
        (source, target): (SessionId, SessionId),
        index: SessionIndex,
        now: Time,
    ) -> Option<TransitLabel> {
        let is_same =
            |label: &Label| label.source == source && label.target == target && label.index == index;
        if let Some((known, label)) = self.by_label.iter_mut().find(|(_, label)| is_same(label)) {
            label.used_at = now;
            return Some(*known);
        }
        self.by_label.retain(|_, label| now.saturating_since(label.used_at) < TRANSIT_LABEL_IDLE);
        let own = self.by_label.iter().filter(|(_, label)| label.source == source);
        let (count, oldest) = own.fold((0, None), |(count, oldest), (known, label)| {
            let age = (label.used_at, *known);
            (count + 1, Some(oldest.map_or(age, |oldest: (Time, TransitLabel)| oldest.min(age))))
        });
        if let Some((used_at, oldest)) = oldest.filter(|_| count >= TRANSIT_LABELS_PER_SOURCE) {
            if now.saturating_since(used_at) < TRANSIT_LABEL_UNUSED {
                return None;
            }
            self.by_label.remove(&oldest);
        }
        let mut all = (1..=TransitLabel::MAX).filter_map(TransitLabel::new);
        let free = all.find(|label| !self.by_label.contains_key(label))?;
        let label = Label { source, target, index, window: ReplayWindow::new(), used_at: now };
        self.by_label.insert(free, label);
        debug_assert!(self.by_label.len() <= TRANSIT_LABELS_MAX);
        Some(free)
    }

    /// Removes the labels of a source that has lost its keys, or was removed.
    pub(super) fn forget_source(&mut self, source: SessionId) {
        self.by_label.retain(|_, label| label.source != source);
    }

    /// Removes everything about a relay that was removed.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.by_label.retain(|_, label| label.source != session && label.target != session);
        self.sources.remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    const NOW: Time = Time::START;

    fn index(number: u32) -> SessionIndex {
        SessionIndex::new(number)
    }

    fn assign(labels: &mut Labels, source: u32, target: u32, number: u32, now: Time) -> Option<u8> {
        let sessions = (SessionId(source), SessionId(target));
        labels.assign(sessions, index(number), now).map(TransitLabel::number)
    }

    #[test]
    fn a_repeated_request_gets_the_same_label_and_another_index_another_one() {
        let mut labels = Labels::new();
        assert_eq!(assign(&mut labels, 1, 2, 7, NOW), Some(1));
        assert_eq!(assign(&mut labels, 1, 2, 7, NOW), Some(1));
        assert_eq!(assign(&mut labels, 1, 2, 8, NOW), Some(2));
        assert_eq!(assign(&mut labels, 2, 1, 7, NOW), Some(3));
        let label = labels.get_mut(TransitLabel::new(3).expect("legal")).expect("it is in use");
        assert_eq!((label.source, label.target, label.index), (SessionId(2), SessionId(1), index(7)));
        assert!(labels.get_mut(TransitLabel::new(4).expect("legal")).is_none());
    }

    #[test]
    fn a_source_has_sixteen_labels_of_which_the_oldest_gives_way() {
        let mut labels = Labels::new();
        let at = |number: u32| NOW + Duration::from_secs(u64::from(number));
        for number in 0..16 {
            assert!(assign(&mut labels, 1, 2, number, at(number)).is_some());
        }
        assert_eq!(assign(&mut labels, 9, 2, 0, at(16)), Some(17), "of another source");
        assert_eq!(assign(&mut labels, 1, 2, 0, at(16)), Some(1), "in use again");
        assert_eq!(assign(&mut labels, 1, 2, 99, at(17)), Some(2), "that was unused longest");
        assert_eq!(labels.by_label.len(), 17);
    }

    #[test]
    fn no_label_in_use_gives_way() {
        let mut labels = Labels::new();
        for number in 0..16 {
            assert!(assign(&mut labels, 1, 2, number, NOW).is_some());
        }
        assert_eq!(assign(&mut labels, 1, 2, 99, NOW), None);
        assert_eq!(assign(&mut labels, 1, 2, 99, NOW + TRANSIT_LABEL_UNUSED), Some(1));
    }

    #[test]
    fn all_labels_are_used_up_once_and_free_again_after_five_minutes() {
        let mut labels = Labels::new();
        for source in 0..127 {
            assert!(assign(&mut labels, source, 500, 7, NOW).is_some());
        }
        assert_eq!(assign(&mut labels, 200, 500, 7, NOW), None);
        assert_eq!(labels.bytes(), 127 * TRANSIT_LABEL_BYTES);
        assert_eq!(assign(&mut labels, 200, 500, 7, NOW + TRANSIT_LABEL_IDLE), Some(1));
        assert_eq!(labels.by_label.len(), 1);
    }

    #[test]
    fn each_counter_is_accepted_once() {
        let mut labels = Labels::new();
        assign(&mut labels, 1, 2, 7, NOW);
        let label = labels.get_mut(TransitLabel::new(1).expect("legal")).expect("it is in use");
        let accepted = [5, 7, 6, 5, 7, 8].map(|counter| label.accept(counter, NOW));
        assert_eq!(accepted, [true, true, true, false, false, true]);
    }

    #[test]
    fn packets_of_a_source_are_limited_by_rate_and_burst() {
        let mut labels = Labels::new();
        let packet = Bytes::new(1_024);
        let passed = |labels: &mut Labels, source: u32, now: Time| {
            (0..100_000).take_while(|_| labels.may_pass(SessionId(source), packet, now)).count()
        };
        assert_eq!(passed(&mut labels, 1, NOW), 512, "half a mebibyte at once");
        assert_eq!(passed(&mut labels, 2, NOW), 512, "and as much of another source");
        // 200 Mbit/s are 250 kB in 10 ms, or 244 packets.
        assert_eq!(passed(&mut labels, 1, NOW + Duration::from_millis(10)), 244);
    }

    #[test]
    fn a_source_has_32_requests_answered_at_once_and_8_a_second() {
        let mut labels = Labels::new();
        let answered =
            |labels: &mut Labels, now: Time| (0..100).filter(|_| labels.may_reply(SessionId(1), now)).count();
        assert_eq!(answered(&mut labels, NOW), 32);
        assert_eq!(answered(&mut labels, NOW + Duration::from_secs(1)), 8);
    }

    #[test]
    fn a_relay_that_restarts_or_is_removed_has_no_labels() {
        let mut labels = Labels::new();
        for (source, target) in [(1, 2), (2, 1), (3, 2), (3, 1)] {
            assign(&mut labels, source, target, 7, NOW);
        }
        labels.forget_source(SessionId(1));
        assert_eq!(labels.by_label.len(), 3, "packets to it still have labels");
        labels.forget(SessionId(1));
        assert_eq!(labels.by_label.len(), 1);
    }
}
