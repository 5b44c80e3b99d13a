//! Cohorts: parts of a coding class, whose flows share batches with each other. Flows that are
//! likely to lose packets together are in different cohorts.
//!
//! A flow joins a cohort with its first packet in each interval, so each other packet costs a
//! comparison.
//!
//! - There are as many cohorts as flows of one risk: the same network or agent of the receiver, or
//!   the same sender. But there are no more than the flows fill with batches. Each flow counts for
//!   that by its participation, the share of batches for which it sends a packet.
//! - A risk that more than half of the flows share separates none of them. Coding peers that lose
//!   packets at the same time are better than none, and other flows may repair the rest.
//! - Flows of one tenant are in all cohorts. One tenant counts for no more cohorts than the flows
//!   of others fill, so it cannot divide these and then be silent.
//! - A flow stays in its cohort as long as that has no more flows of its risks than others.
//!
//! Numbers of risks are counted by their hash, in a table of constant size. Two risks with one hash
//! are separated without need, which makes no batch smaller.

use alloc::boxed::Box;
use core::array;

use byway_units::Duration;

use crate::limits::{COHORT_BUCKETS, COHORTS_MAX};

/// Kinds of risks, in the order of their importance.
const KINDS: usize = 4;

/// Index of the receiver's network among the kinds of risks.
const NETWORK: usize = 0;

/// Index of the tenant. It is no risk, and decides only between cohorts that are alike otherwise.
const TENANT: usize = 3;

/// Participation of a flow that sends at least one packet for each batch.
pub(crate) const PARTICIPATION_UNIT: u32 = 256;

/// Returns the participation of a flow, in parts of [`PARTICIPATION_UNIT`]: the share of batches
/// for which it sends a packet. It sent this many packets in the time that has passed, and they
/// wait for `wait` at most.
pub(crate) fn participation_of(packets: u32, elapsed: Duration, wait: Duration) -> u32 {
    let sent = u128::from(packets) * u128::from(wait.as_nanos()) * u128::from(PARTICIPATION_UNIT);
    let parts = sent.checked_div(u128::from(elapsed.as_nanos())).unwrap_or(0);
    u32::try_from(parts).map_or(PARTICIPATION_UNIT, |parts| parts.min(PARTICIPATION_UNIT))
}

/// Risks of a flow that other flows may share, as numbers; 0 for an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowRisks {
    /// Network of the receiver's address.
    pub(crate) network: u32,
    /// Agent that receives the flow.
    pub(crate) receiver: u32,
    /// Agent that sends the flow.
    pub(crate) sender: u32,
    /// Tenant of the flow.
    pub(crate) tenant: u32,
}

impl FlowRisks {
    const fn by_kind(&self) -> [u32; KINDS] {
        [self.network, self.receiver, self.sender, self.tenant]
    }
}

/// Cohort of a flow in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CohortMembership {
    pub(crate) cohort: u8,
    /// True if the network of the receiver is a risk: at most half of the flows share it.
    pub(crate) is_network_risk: bool,
    /// True if the flows to the receiver's network are no more than the cohorts.
    pub(crate) avoids_network: bool,
}

/// Number of flows of an interval, and the sum of their participation.
#[derive(Clone, Copy, Debug, Default)]
struct FlowTally {
    flows: u32,
    participation: u32,
}

/// Cohorts of one coding class.
#[derive(Debug)]
pub(crate) struct Cohorts {
    /// Number of the latest interval, since the start of time.
    interval: u64,
    /// Number of cohorts in it.
    count: u8,
    current: FlowTally,
    before: FlowTally,
    /// Flows by their risks; `None` while there are too few for two cohorts.
    risks: Option<Box<RiskTable>>,
}

impl Cohorts {
    pub(crate) const fn new() -> Self {
        let none = FlowTally { flows: 0, participation: 0 };
        Self { interval: 0, count: 1, current: none, before: none, risks: None }
    }

    /// Returns the memory of its table, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        if self.risks.is_some() { size_of::<RiskTable>() as u64 } else { 0 }
    }

    /// Counts a flow with its first packet in an interval, and returns its cohort. `former` is its
    /// cohort before, and `participation` that of [`participation_of`].
    ///
    /// A full batch has `batch_packets` packets. The table of risks is allocated if it `may_grow`.
    pub(crate) fn join(
        &mut self,
        risks: &FlowRisks,
        (former, participation): (u8, u32),
        (batch_packets, may_grow): (u8, bool),
        interval: u64,
    ) -> CohortMembership {
        // A batch with an eighth fewer packets counts as full.
        let full = u32::from(batch_packets - batch_packets / 8).max(2);
        self.advance(interval, full, may_grow);
        self.current.flows = self.current.flows.saturating_add(1);
        self.current.participation = self.current.participation.saturating_add(participation);
        match &mut self.risks {
            Some(table) => table.add(risks.by_kind(), former, self.count, self.before.flows),
            None => CohortMembership { cohort: 0, is_network_risk: true, avoids_network: false },
        }
    }

    /// Begins an interval, with as many cohorts as the flows of the one before need and fill.
    fn advance(&mut self, interval: u64, full: u32, may_grow: bool) {
        if interval <= self.interval {
            return;
        }
        let ended = core::mem::take(&mut self.current);
        self.before = if interval == self.interval + 1 { ended } else { FlowTally::default() };
        (self.interval, self.count) = (interval, 1);
        if self.before.flows < 2 * full {
            self.risks = None;
        } else if let Some(table) = &mut self.risks {
            table.begin_interval();
            self.count = table.cohort_count(self.before, full);
        } else if may_grow {
            self.risks = Some(Box::new(RiskTable::EMPTY));
        }
    }
}

/// Flows of an interval by their risks.
#[derive(Debug)]
struct RiskTable {
    /// Number of flows in each cohort, by risk: four bits for each cohort.
    by_cohort: [[u64; COHORT_BUCKETS]; KINDS],
    /// Number of flows by risk.
    flows: [[u16; COHORT_BUCKETS]; KINDS],
    /// Number of flows by risk in the interval before.
    flows_before: [[u16; COHORT_BUCKETS]; KINDS],
    /// Number of flows by cohort.
    sizes: [u16; COHORTS_MAX],
}

impl RiskTable {
    const EMPTY: Self = Self {
        by_cohort: [[0; COHORT_BUCKETS]; KINDS],
        flows: [[0; COHORT_BUCKETS]; KINDS],
        flows_before: [[0; COHORT_BUCKETS]; KINDS],
        sizes: [0; COHORTS_MAX],
    };

    fn begin_interval(&mut self) {
        let flows_before = self.flows;
        *self = Self { flows_before, ..Self::EMPTY };
    }

    /// Returns the number of cohorts for the flows of the interval before, which need `full`
    /// packets for a batch.
    fn cohort_count(&self, before: FlowTally, full: u32) -> u8 {
        let FlowTally { flows, participation } = before;
        let largest_tenant = self.flows_before[TENANT].iter().copied().max().unwrap_or(0);
        let of_others = flows.saturating_sub(largest_tenant.into());
        let participation = u64::from(participation / PARTICIPATION_UNIT);
        // The flows of a tenant count no more than those of all others, if there are any.
        let with_others = participation * 2 * u64::from(of_others) / u64::from(flows.max(1));
        let participation = if of_others == 0 { participation } else { participation.min(with_others) };
        let most = (participation / u64::from(full)).clamp(1, COHORTS_MAX as u64);
        let by_risk = self.flows_before[..TENANT].iter().flatten().map(|flows| u64::from(*flows));
        let needed = by_risk.filter(|sharing| *sharing * 2 <= u64::from(flows)).max().unwrap_or(1);
        u8::try_from(needed.clamp(1, most)).unwrap_or(1)
    }

    /// Adds a flow to one of `count` cohorts. There were `flows` in the interval before.
    fn add(&mut self, risks: [u32; KINDS], former: u8, count: u8, flows: u32) -> CohortMembership {
        let buckets = risks.map(bucket_of);
        let sharing: [u32; KINDS] = array::from_fn(|kind| u32::from(self.flows_before[kind][buckets[kind]]));
        let separates: [bool; KINDS] = array::from_fn(|kind| risks[kind] != 0 && 2 * sharing[kind] <= flows);
        let load = |kind: usize, cohort: u8| {
            if separates[kind] { count_in(self.by_cohort[kind][buckets[kind]], cohort) } else { 0 }
        };
        let size = |cohort: u8| u32::from(self.sizes[usize::from(cohort)]);
        let cohorts = u32::from(count);
        let may_stay = former < count
            && size(former) < flows.div_ceil(cohorts)
            && (0..KINDS)
                .all(|kind| !separates[kind] || load(kind, former) < sharing[kind].div_ceil(cohorts).max(1));
        let loads = |cohort: u8| -> [u32; KINDS] { array::from_fn(|kind| load(kind, cohort)) };
        let best = || (0..count).min_by_key(|cohort| (loads(*cohort), size(*cohort))).unwrap_or(0);
        let cohort = if may_stay { former } else { best() };
        for kind in (0..KINDS).filter(|kind| risks[*kind] != 0) {
            let bucket = buckets[kind];
            let flows = &mut self.flows[kind][bucket];
            *flows = flows.saturating_add(1);
            add_to(&mut self.by_cohort[kind][bucket], cohort);
        }
        let size = &mut self.sizes[usize::from(cohort)];
        *size = size.saturating_add(1);
        let is_network_risk = separates[NETWORK];
        let avoids_network = is_network_risk && count > 1 && sharing[NETWORK] <= cohorts;
        CohortMembership { cohort, is_network_risk, avoids_network }
    }
}

/// Multiplier of Fibonacci hashing: 2^32 divided by the golden ratio. It spreads consecutive
/// numbers (Knuth, The Art of Computer Programming, volume 3, section 6.4).
pub(crate) const FIBONACCI_MULTIPLIER: u32 = 0x9E37_79B9;

/// Returns the bucket of a risk.
const fn bucket_of(risk: u32) -> usize {
    const SHIFT: u32 = u32::BITS - COHORT_BUCKETS.ilog2();
    (risk.wrapping_mul(FIBONACCI_MULTIPLIER) >> SHIFT) as usize
}

const _: () = assert!(COHORT_BUCKETS.is_power_of_two() && COHORTS_MAX * 4 == u64::BITS as usize);

/// Returns the number of flows in a cohort.
fn count_in(by_cohort: u64, cohort: u8) -> u32 {
    u32::try_from((by_cohort >> (4 * u32::from(cohort))) & 15).unwrap_or(15)
}

/// Counts a flow in a cohort. Beyond 15, it is not counted.
fn add_to(by_cohort: &mut u64, cohort: u8) {
    if count_in(*by_cohort, cohort) < 15 {
        *by_cohort += 1 << (4 * u32::from(cohort));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Flows of a class, in the order in which they send, with their cohorts.
    struct CodedFlows {
        cohorts: Cohorts,
        batch_packets: u8,
        interval: u64,
        flows: Vec<(FlowRisks, u32)>,
        members: Vec<CohortMembership>,
    }

    impl CodedFlows {
        /// Flows of one sender and tenant to agents of their own, in these networks.
        fn new(batch_packets: u8, networks: &[u32]) -> Self {
            let flow = |(network, receiver): (&u32, u32)| {
                (FlowRisks { network: *network, receiver, sender: 1, tenant: 1 }, PARTICIPATION_UNIT)
            };
            let flows: Vec<_> = networks.iter().zip(100..).map(flow).collect();
            let none = CohortMembership { cohort: 0, is_network_risk: true, avoids_network: false };
            let members = vec![none; flows.len()];
            Self { cohorts: Cohorts::new(), batch_packets, interval: 0, flows, members }
        }

        /// Sends a packet of each flow in each of some intervals.
        fn send_for(&mut self, intervals: u64) {
            for _ in 0..intervals {
                for ((risks, participation), member) in self.flows.iter().zip(&mut self.members) {
                    let shape = (self.batch_packets, true);
                    *member = self.cohorts.join(risks, (member.cohort, *participation), shape, self.interval);
                }
                self.interval += 1;
            }
        }

        fn cohorts(&self) -> Vec<u8> {
            self.members.iter().map(|member| member.cohort).collect()
        }
    }

    #[test]
    fn two_flows_to_one_network_are_apart_once_others_were_seen_to_send() {
        let mut coded = CodedFlows::new(2, &[7, 7, 8, 9]);
        coded.send_for(2);
        assert_eq!(coded.cohorts(), [0; 4]);
        coded.send_for(1);
        assert_eq!(coded.cohorts(), [0, 1, 0, 1]);
        assert!(coded.members.iter().all(|member| member.avoids_network));
    }

    #[test]
    fn flows_stay_in_their_cohorts() {
        let mut coded = CodedFlows::new(4, &[1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]);
        coded.send_for(3);
        let first = coded.cohorts();
        assert_eq!(first, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        for _ in 0..10 {
            coded.send_for(1);
            assert_eq!(coded.cohorts(), first);
        }
    }

    #[test]
    fn a_network_or_sender_that_most_flows_share_separates_none() {
        for networks in [[7, 7, 7, 8], [7; 4], [1, 2, 3, 4], [0; 4]] {
            let mut coded = CodedFlows::new(2, &networks);
            coded.send_for(5);
            assert_eq!(coded.cohorts(), [0; 4], "{networks:?}");
            assert!(coded.members.iter().all(|member| !member.avoids_network));
        }
    }

    #[test]
    fn flows_of_one_sender_are_apart_where_others_send() {
        let mut coded = CodedFlows::new(2, &[1, 2, 3, 4]);
        (2..4).for_each(|flow| coded.flows[flow].0.sender = 10 + u32::try_from(flow).expect("small"));
        coded.send_for(3);
        let cohorts = coded.cohorts();
        assert_ne!(cohorts[0], cohorts[1]);
        assert_eq!(cohorts.iter().map(|cohort| usize::from(*cohort == 0)).sum::<usize>(), 2);
    }

    #[test]
    fn too_few_flows_for_two_full_batches_stay_together() {
        // Three quarters of two full batches.
        let mut coded = CodedFlows::new(8, &[7, 7, 1, 2, 3, 4, 5, 6, 8, 9, 10, 13]);
        coded.send_for(5);
        assert_eq!((coded.cohorts(), coded.cohorts.bytes()), (vec![0; 12], 0));
        // With two more, each batch lacks an eighth at most.
        let more = [11, 12].map(|network| {
            (FlowRisks { network, receiver: network + 200, ..coded.flows[0].0 }, PARTICIPATION_UNIT)
        });
        coded.flows.extend(more);
        coded.members.extend([coded.members[0]; 2]);
        coded.send_for(3);
        let cohorts = coded.cohorts();
        assert_ne!(cohorts[0], cohorts[1]);
        assert_eq!(cohorts.iter().map(|cohort| usize::from(*cohort == 0)).sum::<usize>(), 7, "{cohorts:?}");
    }

    #[test]
    fn flows_that_send_seldom_fill_no_batches_of_their_own() {
        let mut coded = CodedFlows::new(2, &[7, 7, 8, 9, 10, 11, 12, 13]);
        coded.flows.iter_mut().for_each(|(_, participation)| *participation = PARTICIPATION_UNIT / 4);
        coded.send_for(5);
        assert_eq!(coded.cohorts(), [0; 8], "two packets of eight flows for each batch");
        coded.flows.iter_mut().for_each(|(_, participation)| *participation = PARTICIPATION_UNIT / 2);
        coded.send_for(2);
        assert_eq!(coded.cohorts()[..2], [0, 1]);
    }

    #[test]
    fn after_a_pause_all_flows_share_batches_again() {
        let mut coded = CodedFlows::new(2, &[7, 7, 8, 9]);
        coded.send_for(3);
        assert!(coded.cohorts.bytes() > 0);
        coded.interval += 1;
        coded.send_for(1);
        assert_eq!((coded.cohorts(), coded.cohorts.bytes()), (vec![0; 4], 0));
    }

    #[test]
    fn a_tenant_with_many_flows_leaves_coding_peers_to_those_of_another() {
        let networks: Vec<u32> = (0..112).map(|flow| 1 + flow / 16).chain(50..66).collect();
        let mut coded = CodedFlows::new(8, &networks);
        for (risks, _) in &mut coded.flows[112..] {
            (risks.sender, risks.tenant) = (2, 2);
        }
        coded.send_for(10);
        let of_other = |cohort| {
            coded.cohorts()[112..].iter().map(|member| usize::from(*member == cohort)).sum::<usize>()
        };
        // 16 flows and as many of the large tenant fill four batches.
        let by_cohort = [0, 1, 2, 3].map(of_other);
        assert_eq!(by_cohort.iter().sum::<usize>(), 16, "{by_cohort:?}");
        assert!(by_cohort.iter().all(|members| *members >= 3), "{by_cohort:?}");
    }

    #[test]
    fn participation_is_the_share_of_batches_with_a_packet_of_the_flow() {
        let ms = Duration::from_millis;
        assert_eq!(participation_of(100, ms(2_000), ms(45)), PARTICIPATION_UNIT, "more than one for each");
        assert_eq!(participation_of(20, ms(2_000), ms(50)), PARTICIPATION_UNIT / 2);
        assert_eq!((participation_of(0, ms(2_000), ms(45)), participation_of(9, ms(0), ms(45))), (0, 0));
        assert_eq!(participation_of(u32::MAX, Duration::from_nanos(1), ms(45)), PARTICIPATION_UNIT);
    }
}
