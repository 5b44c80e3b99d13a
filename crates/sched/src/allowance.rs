//! What flows may take, and sources of many flows.

use byway_units::{Bytes, Duration, Rate, Time};

use crate::buckets::Buckets;
use crate::flows::FlowHash;
use crate::limits::FLOWS_PER_SOURCE_MAX;

/// A rate for each flow, and one for each source, or the rate of all its flows that last if that is more: else, who uses each flow but once would never
/// exceed one.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    flows: Buckets,
    sources: Buckets,
    /// Whether flows that take more than they may pay it back. Sources do not: they go on with as many flows as they may have.
    has_debts: bool,
    /// What a byte takes from the bucket of a source with so many flows that last, in parts of 256: all buckets fill as fast, and who has less empties them
    /// sooner.
    charges: [u32; FLOWS_PER_SOURCE_MAX as usize + 1],
}

/// What may be taken, by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub of_flow: Rate,
    pub of_source: Rate,
    /// What comes in so much time may be taken at once,
    pub burst: Duration,
    /// or so many bytes if that is more.
    pub least: Bytes,
    /// About how many flows there are.
    pub flows: u32,
}

/// Whose a packet is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub flow: FlowHash,
    pub source: FlowHash,
    /// How many flows of the source last.
    pub lasting: u8,
    /// Whether this flow is among those of its source that count.
    pub is_counted: bool,
}

impl Allowance {
    /// Unused.
    pub(crate) fn new(has_debts: bool) -> Self {
        let charges = [UNIT; FLOWS_PER_SOURCE_MAX as usize + 1];
        Self { flows: Buckets::new(), sources: Buckets::new(), has_debts, charges }
    }

    /// From now on.
    pub(crate) fn set(&mut self, terms: Terms) {
        let Terms { of_flow, of_source, burst, least, flows } = terms;
        self.flows.set(of_flow, burst, least, flows);
        let of_source = |lasting: u64| {
            of_flow.bits_per_second().saturating_mul(lasting).max(of_source.bits_per_second()).max(1)
        };
        let most = of_source(u64::from(FLOWS_PER_SOURCE_MAX));
        for (lasting, charge) in (0..).zip(&mut self.charges) {
            let charged = u128::from(most) * u128::from(UNIT) / u128::from(of_source(lasting));
            *charge = u32::try_from(charged).unwrap_or(u32::MAX);
        }
        let least = Bytes::new(least.count() * u64::from(self.charges[0]) / u64::from(UNIT));
        self.sources.set(Rate::from_bits_per_second(most), burst, least, flows);
    }

    /// Whether the flow may take so many bytes, and its source may; then it has taken them.
    ///
    /// What a flow has too much of is its own matter: neither its source nor that one's other flows pay for it. And what a source has too much of does
    /// not empty the buckets that its many flows share with those of others; nor do debts of more flows than count.
    #[inline]
    pub(crate) fn takes(&mut self, sender: Sender, bytes: u32, now: Time) -> bool {
        if self.flows.lacks(sender.flow, bytes, now) {
            if self.has_debts && sender.is_counted {
                self.flows.overdraw(sender.flow, bytes);
            }
            return false;
        }
        let charge = self.charges[usize::from(sender.lasting.min(FLOWS_PER_SOURCE_MAX))];
        let charged = u64::from(bytes) * u64::from(charge) / u64::from(UNIT);
        let charged = u32::try_from(charged).unwrap_or(u32::MAX);
        if self.sources.lacks(sender.source, charged, now) {
            return false;
        }
        self.sources.take(sender.source, charged);
        self.flows.take(sender.flow, bytes);
        true
    }
}

/// What a byte takes where a source may have as much as any.
const UNIT: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> FlowHash {
        FlowHash::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn of(flow: u64, source: u64, lasting: u8) -> Sender {
        Sender { flow: hash(flow), source: hash(1_000_000 + source), lasting, is_counted: true }
    }

    fn allowance(has_debts: bool, of_source: u64) -> Allowance {
        let mut allowance = Allowance::new(has_debts);
        allowance.set(Terms {
            of_flow: Rate::from_megabits_per_second(1),
            of_source: Rate::from_megabits_per_second(of_source),
            burst: Duration::from_millis(100),
            least: Bytes::new(2_000),
            flows: 0,
        });
        allowance
    }

    /// The bytes that senders take in ten seconds in turn, each time 1,000 of so many in a second.
    fn taken(allowance: &mut Allowance, senders: impl Fn(u64) -> Sender, per_second: u64) -> u64 {
        let packets =
            (0..per_second * 10).map(|nth| (nth, Time::from_nanos(nth * 1_000_000_000 / per_second)));
        packets.filter(|(nth, now)| allowance.takes(senders(*nth), 1_000, *now)).count() as u64 * 1_000
    }

    #[test]
    fn a_flow_takes_the_rate_and_no_more() {
        assert_eq!(taken(&mut allowance(false, 1), |_| of(1, 1, 1), 100), 1_000_000, "less than it may");
        let taken = taken(&mut allowance(false, 1), |_| of(1, 1, 1), 1_000);
        assert!((1_240_000..=1_270_000).contains(&taken), "{taken} of 1,250,000 and a burst of 12,500");
    }

    #[test]
    fn who_goes_on_beyond_the_rate_is_not_within_it_until_it_has_paid_back() {
        let mut allowance = allowance(true, 1);
        assert_eq!(taken(&mut allowance, |_| of(1, 1, 1), 100), 1_000_000, "less than it may");
        // The first 12,500 bytes come at eight times the rate.
        let greedy = taken(&mut allowance, |_| of(2, 2, 1), 1_000);
        assert!(greedy <= 16_000, "{greedy}");
        let after = |millis| Time::from_nanos(10_000_000_000) + Duration::from_millis(millis);
        assert!(!allowance.takes(of(2, 2, 1), 1_000, after(50)));
        assert!(allowance.takes(of(2, 2, 1), 1_000, after(300)), "12,500 bytes are paid back in 100 ms");
    }

    #[test]
    fn a_flow_that_does_not_count_owes_nothing() {
        let mut allowance = allowance(true, 1);
        let taken = taken(&mut allowance, |_| Sender { is_counted: false, ..of(1, 1, 1) }, 1_000);
        assert!((1_240_000..=1_270_000).contains(&taken), "{taken}");
    }

    #[test]
    fn other_flows_of_a_source_do_not_pay_for_one_that_owes() {
        let mut allowance = allowance(true, 1);
        let of_source = |nth: u64| if nth.is_multiple_of(10) { of(2, 1, 2) } else { of(1, 1, 2) };
        for nth in 0..10_000 {
            let now = Time::from_nanos(nth * 1_000_000);
            let takes = allowance.takes(of_source(nth), 1_000, now);
            assert!(takes || nth % 10 > 0, "{nth}: 100 packets a second are within the rate");
        }
    }

    #[test]
    fn a_source_of_ever_new_flows_takes_its_rate_or_that_of_its_flows_that_last() {
        for (of_source, lasting, megabits) in
            [(1, 0, 1), (1, 1, 1), (1, 8, 8), (5, 0, 5), (5, 8, 8), (1, 100, 32)]
        {
            let new = |nth: u64| of(nth % 3_000, 1, lasting);
            let taken = taken(&mut allowance(false, of_source), new, 10_000);
            let expected = megabits * 1_250_000;
            assert!(
                (expected..expected + expected / 50 + 8_000).contains(&taken),
                "{of_source} {lasting}: {taken} of {expected}"
            );
        }
    }
}
