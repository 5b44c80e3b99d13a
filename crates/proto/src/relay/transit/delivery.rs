//! Delivery of packets through a third relay: those sent, compared with those received.
//!
//! A third relay could answer probes and drop everything else. So the receiving relay counts the
//! packets that arrive through third relays, and probe replies on the direct path have the number.

use byway_units::{Duration, Time};

use crate::limits::{TRANSIT_COMPARED_FOR, TRANSIT_LOST_PART, TRANSIT_PACKETS_COMPARED};

/// Numbers of packets at one report, with which later ones are compared.
#[derive(Clone, Copy, Debug)]
struct Baseline {
    sent: u32,
    received: u32,
    since: Time,
}

/// Comparison of the packets sent and received through a third relay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransitDelivery {
    baseline: Option<Baseline>,
    is_lossy: bool,
}

impl TransitDelivery {
    /// True if more packets were missing than a route may lose.
    pub(super) const fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// Records a probe reply: packets sent before the probe was, packets sent until now, and
    /// packets that the other relay had received. All are modulo 2^32.
    ///
    /// Packets in flight never count as missing. Of those sent since the baseline, only the ones
    /// before this probe have to have arrived. Those received since then also include some that
    /// were in flight at the baseline.
    pub(super) fn on_report(&mut self, sent_before: u32, sent: u32, received: u32, now: Time) {
        let Some(baseline) = self.baseline.filter(|known| !is_over(known, now)) else {
            self.baseline = Some(Baseline { sent, received, since: now });
            return;
        };
        let due = sent_before.wrapping_sub(baseline.sent).cast_signed();
        let arrived = received.wrapping_sub(baseline.received).cast_signed();
        let missing = due.saturating_sub(arrived);
        let may_lose = due / TRANSIT_LOST_PART;
        self.is_lossy |= due >= TRANSIT_PACKETS_COMPARED && missing > may_lose;
    }
}

fn is_over(baseline: &Baseline, now: Time) -> bool {
    let age: Duration = now.saturating_since(baseline.since);
    age >= TRANSIT_COMPARED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    /// Returns the milliseconds after which a route counts as lossy. It has this number of packets
    /// a second, each 10 ms, from which `arrives` selects. They need 40 ms, and probes 100 ms there
    /// and as long back, each 200 ms.
    fn lossy_after(per_slot: impl Fn(u64) -> u64, arrives: impl Fn(u64) -> bool) -> Option<u64> {
        let mut delivery = TransitDelivery::default();
        // The numbers of packets before each slot, sent and delivered.
        let (mut sent, mut delivered, mut number) = (alloc::vec![0_u32], alloc::vec![0_u32], 0);
        for slot in 0..1_000 {
            let (mut new, mut through) = (0, 0);
            for _ in 0..per_slot(slot) {
                new += 1;
                through += u32::from(arrives(number));
                number += 1;
            }
            sent.push(sent[sent.len() - 1].wrapping_add(new));
            delivered.push(delivered[delivered.len() - 1].wrapping_add(through));
        }
        // A probe that leaves in slot n is received in slot n + 10, when packets of slot n + 6 have
        // been delivered, and answered in slot n + 20.
        (0..900).step_by(20).find_map(|slot: usize| {
            let now = at(slot as u64 * 10 + 200);
            delivery.on_report(sent[slot], sent[slot + 20], delivered[slot + 6], now);
            delivery.is_lossy().then_some(slot as u64 * 10 + 200)
        })
    }

    #[test]
    fn a_route_that_delivers_all_packets_or_nearly_all_is_right() {
        assert_eq!(lossy_after(|_| 1, |_| true), None);
        assert_eq!(lossy_after(|_| 1, |number: u64| !number.is_multiple_of(10)), None, "a tenth is lost");
    }

    #[test]
    fn bursts_and_pauses_lose_nothing() {
        let bursts = |slot: u64| if slot.is_multiple_of(37) { 60 } else { 0 };
        assert_eq!(lossy_after(bursts, |_| true), None);
        let pauses = |slot: u64| if (slot / 150).is_multiple_of(2) { 10 } else { 0 };
        assert_eq!(lossy_after(pauses, |_| true), None);
    }

    #[test]
    fn a_relay_that_drops_packets_shows_soon() {
        // The first report at 200 ms is the baseline. With 100 packets a second, 40 of those that
        // follow left before the probe of the report at 800 ms.
        assert_eq!(lossy_after(|_| 1, |_| false), Some(800));
        let a_quarter = lossy_after(|_| 1, |number| !number.is_multiple_of(4));
        assert!(a_quarter.is_some_and(|after| after < 2_500), "{a_quarter:?}");
        // Of 1,000 packets a second, 200 are in flight at each report.
        let a_fifth = lossy_after(|_| 10, |number| !number.is_multiple_of(5));
        assert!(a_fifth.is_some_and(|after| after < 3_000), "{a_fifth:?}");
    }

    #[test]
    fn numbers_begin_anew_after_the_highest() {
        let mut delivery = TransitDelivery::default();
        delivery.on_report(u32::MAX - 50, u32::MAX - 40, u32::MAX - 60, at(0));
        delivery.on_report(59, 80, 39, at(200));
        assert!(!delivery.is_lossy(), "all of 100 arrived");
        delivery.on_report(99, 120, 40, at(400));
        assert!(delivery.is_lossy(), "39 of 140 are missing");
    }
}
