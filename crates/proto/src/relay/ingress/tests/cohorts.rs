//! Cohorts: flows that are likely to lose packets together share no batch, where others send.

use byway_wire::messages::NetworkTag;

use super::*;

/// Flow of tenant 1, in batches of this shape.
fn coded_in(packets: u8, repairs: u8) -> FlowConfig {
    FlowConfig { tenant: 1, shares: false, ..batched(packets, repairs) }
}

/// Flows that send a packet each 20 ms.
struct CodedSenders {
    harness: IngressHarness,
    flows: Vec<FlowSlot>,
    sequence: u64,
}

impl CodedSenders {
    /// Flows to receivers in these networks.
    fn new(config: FlowConfig, networks: &[u32]) -> Self {
        let mut harness = IngressHarness::new();
        let flow = |network: &u32| {
            let slot = harness.flow(config);
            harness.ingress.set_receiver_network(slot, NetworkTag::new(*network));
            slot
        };
        let flows = networks.iter().map(flow).collect();
        Self { harness, flows, sequence: 0 }
    }

    /// Sends for some milliseconds. Returns the flows of each batch, as their indices.
    fn send_for(&mut self, millis: u64) -> Vec<Vec<usize>> {
        self.harness.batches();
        for _ in 0..millis / 20 {
            for flow in &self.flows {
                self.harness.copy(*flow, self.sequence);
            }
            self.sequence += 1;
            self.harness.advance(20);
        }
        let flows_of = |batch: Batch| -> Vec<usize> {
            batch.covered.iter().map(|(alias, _)| usize::from(*alias) - 1).collect()
        };
        self.harness.batches().into_iter().map(flows_of).collect()
    }
}

fn has_both(batch: &[usize]) -> bool {
    batch.contains(&0) && batch.contains(&1)
}

#[test]
fn two_flows_to_one_network_share_no_batch_while_others_send() {
    let mut senders = CodedSenders::new(coded_in(2, 1), &[7, 7, 8, 9]);
    let before = senders.send_for(4_000);
    assert!(before.iter().any(|batch| has_both(batch)), "nobody knows yet that others send");
    let batches = senders.send_for(10_000);
    assert_eq!(batches.len(), 1_000, "all are full");
    assert!(batches.iter().all(|batch| batch.len() == 2 && !has_both(batch)));
}

#[test]
fn packets_of_one_network_are_coded_together_where_no_others_send() {
    for networks in [[7; 4], [7, 7, 7, 8]] {
        let mut senders = CodedSenders::new(coded_in(2, 1), &networks);
        senders.send_for(4_000);
        let batches = senders.send_for(4_000);
        assert_eq!(batches.len(), 400);
        assert!(batches.iter().all(|batch| batch.len() == 2));
    }
}

#[test]
fn a_network_that_gets_no_batch_of_its_own_leaves_no_packet_alone() {
    let mut senders = CodedSenders::new(coded_in(2, 1), &[7, 7, 8]);
    senders.send_for(4_000);
    let before = senders.harness.ingress.counters;
    senders.send_for(4_000);
    let counters = senders.harness.ingress.counters;
    assert_eq!(counters.uncovered_alone, before.uncovered_alone);
    assert!(counters.covered - before.covered >= 595, "of 600: {counters:?}");
}

#[test]
fn the_batches_of_sixteen_flows_have_at_most_one_of_each_network() {
    let networks = [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4];
    let mut senders = CodedSenders::new(coded_in(4, 1), &networks);
    senders.send_for(4_000);
    let batches = senders.send_for(2_000);
    assert_eq!(batches.len(), 400);
    for batch in &batches {
        let mut used: Vec<u32> = batch.iter().map(|flow| networks[*flow]).collect();
        used.sort_unstable();
        assert_eq!(used, [1, 2, 3, 4], "{batch:?}");
    }
}

#[test]
fn flows_whose_cohorts_fall_silent_are_coded_with_those_of_others() {
    let networks: Vec<u32> = [1; 4].into_iter().chain(2..14).collect();
    let mut senders = CodedSenders::new(coded_in(4, 1), &networks);
    senders.send_for(6_000);
    let batches = senders.send_for(200);
    let cohort_of = |flow: usize| {
        let with = batches.iter().find(|batch| batch.contains(&flow)).expect("it sends");
        (0..4).find(|first| with.contains(first)).expect("each cohort has one of the first network")
    };
    // One flow of each cohort goes on.
    let remaining = [0, 1, 2, 3].map(|cohort| {
        let other = (4..16).find(|flow| cohort_of(*flow) == cohort).expect("a cohort has four flows");
        senders.flows[if cohort == 0 { 0 } else { other }]
    });
    senders.flows = remaining.to_vec();
    let alone_before = senders.harness.ingress.counters.uncovered_alone;
    let batches = senders.send_for(1_000);
    assert!(batches.len() > 80 && batches.iter().all(|batch| batch.len() >= 2), "{batches:?}");
    assert_eq!(senders.harness.ingress.counters.uncovered_alone, alone_before);
}

#[test]
fn a_flow_that_begins_joins_a_cohort_with_its_first_packet() {
    let mut senders = CodedSenders::new(coded_in(2, 1), &[7, 8, 8, 9, 9, 10]);
    senders.send_for(7_000);
    let newcomer = senders.harness.flow(coded_in(2, 1));
    senders.harness.ingress.set_receiver_network(newcomer, NetworkTag::new(7));
    senders.flows.push(newcomer);
    let batches = senders.send_for(900);
    assert!(batches.iter().any(|batch| batch.contains(&6)));
    assert!(batches.iter().all(|batch| !(batch.contains(&0) && batch.contains(&6))), "{batches:?}");
}

#[test]
fn the_memory_of_cohorts_is_released_with_their_flows() {
    let mut senders = CodedSenders::new(coded_in(2, 1), &[7, 7, 8, 9]);
    senders.send_for(1_900);
    let before = senders.harness.ingress.flow_state_bytes();
    senders.send_for(4_000);
    assert!(senders.harness.ingress.flow_state_bytes() > before, "{before}");
    for flow in core::mem::take(&mut senders.flows) {
        senders.harness.ingress.unregister(flow, senders.harness.now);
    }
    assert!(senders.harness.ingress.flow_state_bytes().is_zero());
}

#[test]
fn an_outage_of_one_tenant_stops_no_block_of_another() {
    let [one, other] = [1, 2].map(|tenant| FlowConfig { tenant, shares: true, ..coded() });
    let mut harness = IngressHarness::new();
    let [out, beside] = [one, other].map(|config| harness.flow(config));
    harness.ingress.set_outage(out, egress_outage(true), harness.now);
    for sequence in 0..20 {
        harness.copy(out, sequence);
        harness.copy(beside, sequence);
        harness.advance(10);
    }
    let repairs = harness.drain_in_stream();
    let blocks_of = |slot| repairs.iter().filter(|repair| repair.alias == alias(slot).number()).count();
    assert_eq!(blocks_of(out), 0);
    assert!(blocks_of(beside) >= 3, "{}", blocks_of(beside));
}
