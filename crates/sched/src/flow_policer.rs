//! Policer of flows, and of sources with many flows.

use byway_units::{Bytes, Duration, Rate, Time};

use crate::buckets::Buckets;
use crate::flows::FlowHash;
use crate::limits::{FLOWS_PER_SOURCE_MAX, SHARED_REST};

/// Policer with a rate for each flow, and one for each source. A source's rate is at least that of
/// all its persistent flows. The rate of sources limits senders that use each flow but once,
/// because none of their flows would exceed a flow's rate.
#[derive(Clone, Debug)]
pub(crate) struct FlowPolicer {
    flows: Buckets,
    sources: Buckets,
    /// Buckets of flows in debt, without the burst; only admitted packets take from them. `None` if
    /// flows have no debts. Sources have none: they continue with as many flows as they may have.
    paced: Option<Buckets>,
    /// Charge for a byte of a source, in 1/256, by the number of the source's persistent flows. All
    /// buckets have one refill rate, so a source with a lower rate is charged more.
    charges: [u32; FLOWS_PER_SOURCE_MAX as usize + 1],
}

/// Rates and bursts of a policer for the next interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicerConfig {
    pub flow_rate: Rate,
    pub source_rate: Rate,
    /// Burst of a flow or source, as time at its rate.
    pub burst: Duration,
    /// Least burst of a flow, in bytes.
    pub burst_min: Bytes,
    /// Delay bound of the class, and the burst of a flow in debt: a longer burst does not fit into
    /// the queue.
    pub bound: Duration,
    /// Estimated number of flows that share the buckets.
    pub flows: u32,
}

/// Hashes of a packet's flow and source, and their history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketOrigin {
    pub flow: FlowHash,
    pub source: FlowHash,
    /// Number of the source's persistent flows in the last interval.
    pub persistent_flows: u8,
    /// True if the flow is among the limited number of counted flows of its source.
    pub is_counted: bool,
}

/// Grounds on which the policer admits a packet; they decide which bucket is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// The packet is within the burst of its flow.
    Burst,
    /// The flow has no burst left, but keeps to its rate.
    Paced,
}

impl FlowPolicer {
    /// Creates a policer without a rate. If `has_debts`, flows that exceed their burst go into debt
    /// and still have their rate.
    pub(crate) fn new(has_debts: bool) -> Self {
        let charges = [UNIT; FLOWS_PER_SOURCE_MAX as usize + 1];
        let paced = has_debts.then(Buckets::new);
        Self { flows: Buckets::new(), sources: Buckets::new(), paced, charges }
    }

    /// Sets the rates and bursts for the next interval.
    pub(crate) fn configure(&mut self, config: PolicerConfig) {
        let PolicerConfig { flow_rate, source_rate, burst, burst_min, bound, flows } = config;
        self.flows.configure(flow_rate, burst, burst_min, flows);
        if let Some(paced) = &mut self.paced {
            let bits = flow_rate.bits_per_second();
            paced.configure(Rate::from_bits_per_second(bits - bits / SHARED_REST), bound, burst_min, flows);
        }
        let rate_of_source = |persistent_flows: u64| {
            flow_rate
                .bits_per_second()
                .saturating_mul(persistent_flows)
                .max(source_rate.bits_per_second())
                .max(1)
        };
        let most = rate_of_source(u64::from(FLOWS_PER_SOURCE_MAX));
        for (persistent_flows, charge) in (0..).zip(&mut self.charges) {
            let charged = u128::from(most) * u128::from(UNIT) / u128::from(rate_of_source(persistent_flows));
            *charge = u32::try_from(charged).unwrap_or(u32::MAX);
        }
        let burst_min = Bytes::new(burst_min.count() * u64::from(self.charges[0]) / u64::from(UNIT));
        self.sources.configure(Rate::from_bits_per_second(most), burst, burst_min, flows);
    }

    /// Returns the grounds on which a packet of these bytes is admitted; `None` if it exceeds the
    /// rate of its flow or of its source. If the flow has no burst left, these bytes become its
    /// debt. All other charges follow with [`FlowPolicer::charge`].
    ///
    /// A counted flow in debt still has its rate: only its bursts are refused until the debt is
    /// paid back. Its source and other flows of that source are not charged for the debt. Excess of
    /// a source does not empty buckets that its many flows share with those of others. Neither do
    /// debts of flows that do not count.
    #[inline]
    pub(crate) fn permit(&mut self, sender: PacketOrigin, bytes: u32, now: Time) -> Option<Permit> {
        let permit = if self.flows.lacks(sender.flow, bytes, now) {
            self.permit_paced(sender, bytes, now)?
        } else {
            Permit::Burst
        };
        let charged = self.source_charge(sender, bytes);
        (!self.sources.lacks(sender.source, charged, now)).then_some(permit)
    }

    /// Adds a packet of a flow without burst to the flow's debt. Returns [`Permit::Paced`] if the
    /// flow keeps to its rate, `None` otherwise.
    fn permit_paced(&mut self, sender: PacketOrigin, bytes: u32, now: Time) -> Option<Permit> {
        let paced = self.paced.as_mut().filter(|_| sender.is_counted)?;
        self.flows.overdraw(sender.flow, bytes);
        (!paced.lacks(sender.flow, bytes, now)).then_some(Permit::Paced)
    }

    /// Charges a packet that is admitted on these grounds to its flow and its source.
    #[inline]
    pub(crate) fn charge(&mut self, sender: PacketOrigin, bytes: u32, permit: Permit) {
        let charged = self.source_charge(sender, bytes);
        self.sources.consume(sender.source, charged);
        match (permit, &mut self.paced) {
            (Permit::Paced, Some(paced)) => paced.consume(sender.flow, bytes),
            _ => self.flows.consume(sender.flow, bytes),
        }
    }

    /// Returns the bytes by which a packet of `bytes` bytes lowers the bucket of its source.
    fn source_charge(&self, sender: PacketOrigin, bytes: u32) -> u32 {
        let charge = self.charges[usize::from(sender.persistent_flows.min(FLOWS_PER_SOURCE_MAX))];
        let charged = u64::from(bytes) * u64::from(charge) / u64::from(UNIT);
        u32::try_from(charged).unwrap_or(u32::MAX)
    }
}

/// Charge for a byte of a source with the highest rate.
const UNIT: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> FlowHash {
        FlowHash::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn origin(flow: u64, source: u64, persistent_flows: u8) -> PacketOrigin {
        PacketOrigin {
            flow: hash(flow),
            source: hash(1_000_000 + source),
            persistent_flows,
            is_counted: true,
        }
    }

    fn allowance(has_debts: bool, of_source: u64) -> FlowPolicer {
        let mut allowance = FlowPolicer::new(has_debts);
        allowance.configure(PolicerConfig {
            flow_rate: Rate::from_megabits_per_second(1),
            source_rate: Rate::from_megabits_per_second(of_source),
            burst: Duration::from_millis(100),
            burst_min: Bytes::new(2_000),
            bound: Duration::from_millis(10),
            flows: 0,
        });
        allowance
    }

    fn try_send(allowance: &mut FlowPolicer, sender: PacketOrigin, now: Time) -> bool {
        let permit = allowance.permit(sender, 1_000, now);
        if let Some(permit) = permit {
            allowance.charge(sender, 1_000, permit);
        }
        permit.is_some()
    }

    /// Returns the bytes admitted in ten seconds, from packets of 1,000 bytes, `per_second` of
    /// them.
    fn bytes_admitted(
        allowance: &mut FlowPolicer,
        senders: impl Fn(u64) -> PacketOrigin,
        per_second: u64,
    ) -> u64 {
        let packets =
            (0..per_second * 10).map(|nth| (nth, Time::from_nanos(nth * 1_000_000_000 / per_second)));
        packets.filter(|(nth, now)| try_send(allowance, senders(*nth), *now)).count() as u64 * 1_000
    }

    #[test]
    fn a_flow_takes_the_rate_and_no_more() {
        assert_eq!(
            bytes_admitted(&mut allowance(false, 1), |_| origin(1, 1, 1), 100),
            1_000_000,
            "less than it may"
        );
        let admitted = bytes_admitted(&mut allowance(false, 1), |_| origin(1, 1, 1), 1_000);
        assert!((1_240_000..=1_270_000).contains(&admitted), "{admitted} of 1,250,000 and a burst of 12,500");
    }

    #[test]
    fn who_goes_on_beyond_the_rate_has_it_without_bursts_until_it_has_paid_back() {
        let mut allowance = allowance(true, 2);
        assert_eq!(bytes_admitted(&mut allowance, |_| origin(1, 1, 1), 100), 1_000_000, "less than it may");
        // The first 12,500 bytes arrive at eight times the rate.
        let greedy = bytes_admitted(&mut allowance, |_| origin(2, 2, 1), 1_000);
        assert!(
            (1_220_000..=1_250_000).contains(&greedy),
            "{greedy}: a 64th less than 1,250,000, and a burst"
        );
        let mut at_once = |millis: u64| {
            let after = Time::from_nanos(10_000_000_000) + Duration::from_millis(millis);
            (0..10).filter(|_| try_send(&mut allowance, origin(2, 2, 1), after)).count()
        };
        assert_eq!(at_once(50), 2, "it owes");
        assert_eq!(at_once(1_000), 10, "12,500 bytes are paid back in 100 ms");
    }

    #[test]
    fn a_flow_that_does_not_count_owes_nothing() {
        let mut allowance = allowance(true, 1);
        let admitted =
            bytes_admitted(&mut allowance, |_| PacketOrigin { is_counted: false, ..origin(1, 1, 1) }, 1_000);
        assert!((1_240_000..=1_270_000).contains(&admitted), "{admitted}");
    }

    #[test]
    fn other_flows_of_a_source_do_not_pay_for_one_that_owes() {
        let mut allowance = allowance(true, 1);
        let of_source = |nth: u64| if nth.is_multiple_of(10) { origin(2, 1, 2) } else { origin(1, 1, 2) };
        for nth in 0..10_000 {
            let now = Time::from_nanos(nth * 1_000_000);
            let takes = try_send(&mut allowance, of_source(nth), now);
            assert!(takes || nth % 10 > 0, "{nth}: 100 packets a second are within the rate");
        }
    }

    #[test]
    fn a_source_of_ever_new_flows_takes_its_rate_or_that_of_its_flows_that_last() {
        for (of_source, persistent_flows, megabits) in
            [(1, 0, 1), (1, 1, 1), (1, 8, 8), (5, 0, 5), (5, 8, 8), (1, 100, 32)]
        {
            let new = |nth: u64| origin(nth % 3_000, 1, persistent_flows);
            let admitted = bytes_admitted(&mut allowance(false, of_source), new, 10_000);
            let expected = megabits * 1_250_000;
            assert!(
                (expected..expected + expected / 50 + 8_000).contains(&admitted),
                "{of_source} {persistent_flows}: {admitted} of {expected}"
            );
        }
    }
}
