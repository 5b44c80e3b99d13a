//! What flows may take, and sources of many flows.

use byway_units::{Bytes, Duration, Rate, Time};

use crate::buckets::Buckets;
use crate::flows::FlowHash;
use crate::limits::{FLOWS_PER_SOURCE_MAX, SHARED_REST};

/// A rate for each flow, and one for each source, or the rate of all its flows that last if that is more: else, who uses each flow but once would never
/// exceed one.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    flows: Buckets,
    sources: Buckets,
    /// The rate without the burst: the share of a flow that owes, charged only for packets let in. `None` where no flow owes. Sources never owe: they
    /// go on with as many flows as they may have.
    paced: Option<Buckets>,
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
    /// Bound on queueing, which is the burst of a flow that owes: a longer one finds no room.
    pub bound: Duration,
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

/// Grounds on which a packet is within an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Its flow has not used up its burst.
    Burst,
    /// Its flow owes, and keeps to the rate.
    Paced,
}

impl Allowance {
    /// Unused.
    pub(crate) fn new(has_debts: bool) -> Self {
        let charges = [UNIT; FLOWS_PER_SOURCE_MAX as usize + 1];
        let paced = has_debts.then(Buckets::new);
        Self { flows: Buckets::new(), sources: Buckets::new(), paced, charges }
    }

    /// From now on.
    pub(crate) fn set(&mut self, terms: Terms) {
        let Terms { of_flow, of_source, burst, least, bound, flows } = terms;
        self.flows.set(of_flow, burst, least, flows);
        if let Some(paced) = &mut self.paced {
            let bits = of_flow.bits_per_second();
            paced.set(Rate::from_bits_per_second(bits - bits / SHARED_REST), bound, least, flows);
        }
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

    /// Returns the grounds on which a packet of these bytes is within the rates of its flow and of
    /// its source, if it is. A flow that lacks its burst owes these bytes from now on; nothing else is
    /// charged before [`Allowance::charge`].
    ///
    /// A counted flow that owes still has its rate: only its bursts are refused until it has paid
    /// back. Neither its source nor other flows of that source pay for it. Excess of a source does
    /// not empty buckets that its many flows share with those of others. Neither do debts of flows
    /// that do not count.
    #[inline]
    pub(crate) fn permit(&mut self, sender: Sender, bytes: u32, now: Time) -> Option<Permit> {
        let permit = if self.flows.lacks(sender.flow, bytes, now) {
            self.permit_paced(sender, bytes, now)?
        } else {
            Permit::Burst
        };
        let charged = self.of_source(sender, bytes);
        (!self.sources.lacks(sender.source, charged, now)).then_some(permit)
    }

    /// Returns whether a flow that lacks its burst keeps to its rate.
    fn permit_paced(&mut self, sender: Sender, bytes: u32, now: Time) -> Option<Permit> {
        let paced = self.paced.as_mut().filter(|_| sender.is_counted)?;
        self.flows.overdraw(sender.flow, bytes);
        (!paced.lacks(sender.flow, bytes, now)).then_some(Permit::Paced)
    }

    /// Charges a packet that is let in on these grounds.
    #[inline]
    pub(crate) fn charge(&mut self, sender: Sender, bytes: u32, permit: Permit) {
        let charged = self.of_source(sender, bytes);
        self.sources.take(sender.source, charged);
        match (permit, &mut self.paced) {
            (Permit::Paced, Some(paced)) => paced.take(sender.flow, bytes),
            _ => self.flows.take(sender.flow, bytes),
        }
    }

    /// Bytes that a packet takes from the bucket of its source.
    fn of_source(&self, sender: Sender, bytes: u32) -> u32 {
        let charge = self.charges[usize::from(sender.lasting.min(FLOWS_PER_SOURCE_MAX))];
        let charged = u64::from(bytes) * u64::from(charge) / u64::from(UNIT);
        u32::try_from(charged).unwrap_or(u32::MAX)
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
            bound: Duration::from_millis(10),
            flows: 0,
        });
        allowance
    }

    fn takes(allowance: &mut Allowance, sender: Sender, now: Time) -> bool {
        let permit = allowance.permit(sender, 1_000, now);
        if let Some(permit) = permit {
            allowance.charge(sender, 1_000, permit);
        }
        permit.is_some()
    }

    /// The bytes that senders take in ten seconds in turn, each time 1,000 of so many in a second.
    fn taken(allowance: &mut Allowance, senders: impl Fn(u64) -> Sender, per_second: u64) -> u64 {
        let packets =
            (0..per_second * 10).map(|nth| (nth, Time::from_nanos(nth * 1_000_000_000 / per_second)));
        packets.filter(|(nth, now)| takes(allowance, senders(*nth), *now)).count() as u64 * 1_000
    }

    #[test]
    fn a_flow_takes_the_rate_and_no_more() {
        assert_eq!(taken(&mut allowance(false, 1), |_| of(1, 1, 1), 100), 1_000_000, "less than it may");
        let taken = taken(&mut allowance(false, 1), |_| of(1, 1, 1), 1_000);
        assert!((1_240_000..=1_270_000).contains(&taken), "{taken} of 1,250,000 and a burst of 12,500");
    }

    #[test]
    fn who_goes_on_beyond_the_rate_has_it_without_bursts_until_it_has_paid_back() {
        let mut allowance = allowance(true, 2);
        assert_eq!(taken(&mut allowance, |_| of(1, 1, 1), 100), 1_000_000, "less than it may");
        // The first 12,500 bytes come at eight times the rate.
        let greedy = taken(&mut allowance, |_| of(2, 2, 1), 1_000);
        assert!(
            (1_220_000..=1_250_000).contains(&greedy),
            "{greedy}: a 64th less than 1,250,000, and a burst"
        );
        let mut at_once = |millis: u64| {
            let after = Time::from_nanos(10_000_000_000) + Duration::from_millis(millis);
            (0..10).filter(|_| takes(&mut allowance, of(2, 2, 1), after)).count()
        };
        assert_eq!(at_once(50), 2, "it owes");
        assert_eq!(at_once(1_000), 10, "12,500 bytes are paid back in 100 ms");
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
            let takes = takes(&mut allowance, of_source(nth), now);
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
