//! Cross-stream batches.

use super::*;
use crate::limits::{
    BATCH_WAIT_MAX, CODING_QUEUES, CODING_WAIT_MIN, GROUPS_MAX, OVERHEAD_PERCENT, OVERHEAD_RESERVE,
    RESERVE_TIME,
};

#[test]
fn a_full_batch_leaves_at_once() {
    let mut harness = IngressHarness::new();
    let flows = [0; 3].map(|_| harness.flow(batched(3, 2)));
    harness.copy(flows[0], 5);
    harness.copy(flows[1], 6);
    assert_eq!(harness.batches(), []);
    harness.copy(flows[2], 7);
    let batches = harness.batches();
    assert_eq!((batches.len(), batches[0].number, batches[0].peer), (1, 0, 0));
    assert_eq!(batches[0].covered, [(1, 5), (2, 6), (3, 7)]);
    assert_eq!(batches[0].repairs.len(), 2);
    assert_eq!((harness.ingress.counters.covered, harness.ingress.counters.cross_stream), (3, 2));
}

#[test]
fn every_packet_of_a_batch_can_be_restored_from_the_others() {
    let mut harness = IngressHarness::new();
    let flows = [0; 3].map(|_| harness.flow(batched(3, 2)));
    for flow in &flows {
        harness.copy(*flow, 5);
    }
    let packets: Vec<_> = (1..4).map(|alias| packet(alias, 5)).collect();
    let batches = harness.batches();
    for repair in &batches[0].repairs {
        for lost in 0..3 {
            assert_eq!(restore(&packets, lost, repair), packets[lost]);
        }
    }
}

#[test]
fn a_batch_that_does_not_fill_leaves_in_time() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(10, 2)));
    harness.copy(flows[0], 0);
    harness.advance(10);
    harness.copy(flows[1], 0);
    harness.advance(BATCH_WAIT_MAX.as_millis() - 10);
    let batches = harness.batches();
    assert_eq!((batches.len(), batches[0].covered.len(), batches[0].repairs.len()), (1, 2, 1));
}

#[test]
fn a_batch_waits_for_a_quarter_of_the_shortest_budget_of_its_flows() {
    let mut harness = IngressHarness::new();
    let patient = harness.flow(batched(10, 2));
    let hurried = harness.flow(FlowConfig { latency_budget: ms(80), ..batched(10, 2) });
    harness.copy(patient, 0);
    harness.advance(10);
    harness.copy(hurried, 0);
    harness.advance(19);
    assert_eq!(harness.batches(), []);
    harness.advance(1);
    assert_eq!(harness.batches()[0].covered.len(), 2);
}

#[test]
fn a_tiny_budget_does_not_flush_at_once() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(FlowConfig { latency_budget: Duration::ZERO, ..batched(10, 2) });
    harness.copy(flow, 0);
    harness.advance(CODING_WAIT_MIN.as_millis() - 1);
    assert_eq!(harness.batches(), []);
    harness.advance(1);
    assert_eq!(harness.batches().len(), 1);
}

#[test]
fn no_batch_holds_two_packets_of_a_flow() {
    let mut harness = IngressHarness::new();
    let flows = [0; 3].map(|_| harness.flow(batched(3, 1)));
    for sequence in 0..10 {
        for flow in &flows {
            harness.copy(*flow, sequence);
        }
    }
    (10..15).for_each(|sequence| harness.copy(flows[0], sequence));
    harness.advance(50);
    for batch in harness.batches() {
        let mut aliases: Vec<u16> = batch.covered.iter().map(|(alias, _)| *alias).collect();
        aliases.dedup();
        assert_eq!(aliases.len(), batch.covered.len());
    }
}

#[test]
fn a_packet_that_stays_alone_is_repeated_while_that_is_affordable() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(batched(10, 2));
    harness.copy(flow, 3);
    harness.advance(BATCH_WAIT_MAX.as_millis());
    let batches = harness.batches();
    assert_eq!((batches[0].covered.len(), batches[0].repairs.len()), (1, 1));
    assert_eq!(batches[0].repairs[0].payload, packet(1, 3));
}

#[test]
fn tenants_that_do_not_share_are_not_coded_together() {
    let mut harness = IngressHarness::new();
    let one = harness.flow(FlowConfig { tenant: 1, shares: false, ..batched(2, 1) });
    let other = harness.flow(FlowConfig { tenant: 2, shares: false, ..batched(2, 1) });
    harness.copy(one, 0);
    harness.copy(other, 0);
    assert_eq!(harness.batches(), []);
    let same = harness.flow(FlowConfig { tenant: 1, shares: false, ..batched(2, 1) });
    harness.copy(same, 0);
    assert_eq!(harness.batches()[0].covered, [(1, 0), (3, 0)]);
}

#[test]
fn groups_and_egress_relays_are_kept_apart_and_so_are_their_batch_numbers() {
    let mut harness = IngressHarness::new();
    let kinds = [(0, 0), (1, 0), (0, 1)].map(|(group, peer)| FlowConfig { group, peer, ..batched(2, 1) });
    let flows: Vec<_> = kinds.into_iter().flat_map(|kind| [harness.flow(kind), harness.flow(kind)]).collect();
    for flow in &flows {
        harness.copy(*flow, 0);
    }
    let batches = harness.batches();
    let covered: Vec<_> =
        batches.iter().map(|batch| (batch.peer, batch.number, batch.covered[0].0)).collect();
    assert_eq!(covered, [(0, 0, 1), (0, 1, 3), (1, 0, 5)]);
}

#[test]
fn digests_go_with_the_batch() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 1)));
    harness.sink.has_digests = true;
    harness.copy(flows[0], 8);
    harness.copy(flows[1], 9);
    assert_eq!(harness.batches()[0].digests, [Some([0, 1, 0, 8]), Some([0, 2, 0, 9])]);
    harness.sink.has_digests = false;
    harness.copy(flows[0], 10);
    harness.copy(flows[1], 11);
    assert_eq!(harness.batches()[0].digests, [None, None]);
}

#[test]
fn repair_bytes_are_those_of_the_longest_packet() {
    let mut harness = IngressHarness::new();
    let flows = [0; 3].map(|_| harness.flow(batched(3, 2)));
    for (flow, length) in flows.into_iter().zip([400, 733, 501]) {
        harness.copy_of(flow, 0, &packet_of(alias(flow).number(), 0, length));
    }
    let batches = harness.batches();
    assert_eq!(batches[0].repairs.iter().map(|repair| repair.payload.len()).collect::<Vec<_>>(), [733, 733]);
}

#[test]
fn repair_bytes_stay_within_the_budget_whoever_sends() {
    for count in [1, 2, 3, 7] {
        let mut harness = IngressHarness::new();
        let flows: Vec<_> = (0..count).map(|_| harness.flow(batched(10, 2))).collect();
        for sequence in 0..2_000 {
            for flow in &flows {
                harness.copy(*flow, sequence);
            }
            harness.advance(20);
        }
        harness.advance(100);
        let sent: usize = harness.lengths.values().sum();
        let batches = harness.batches();
        let repairs = batches.iter().flat_map(|batch| &batch.repairs);
        let bytes: usize = repairs.map(|repair| repair.payload.len()).sum();
        let income = sent * 2 * usize::from(OVERHEAD_PERCENT) / 10 / 100;
        let saved = batched(10, 2).rate.bytes_in(RESERVE_TIME).expect("small").count() * count;
        let reserve = OVERHEAD_RESERVE.max(saved * 2 * u64::from(OVERHEAD_PERCENT) / 10 / 100);
        let budget = income + 2 * usize::try_from(reserve).expect("small");
        assert!(bytes <= budget, "{count} flows: {bytes} bytes, {budget} allowed");
        let counters = harness.ingress.counters;
        let uncovered = counters.uncovered_alone + counters.uncovered_budget;
        assert_eq!(counters.covered + uncovered, counters.copies, "every packet is accounted for");
    }
}

#[test]
fn a_burst_of_one_flow_closes_its_own_oldest_batches() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(batched(10, 2));
    let burst = u64::from(CODING_QUEUES) * 10;
    (0..burst).for_each(|sequence| harness.copy(flow, sequence));
    harness.advance(50);
    let counters = harness.ingress.counters;
    assert_eq!(counters.covered + counters.uncovered_alone, burst);
    assert!(counters.uncovered_alone > 0);
}

#[test]
fn groups_are_so_many_at_most_and_end_with_their_flows() {
    let mut harness = IngressHarness::new();
    let key = |group| registration(FlowSlot(0), FlowConfig { group, ..batched(2, 1) }).group;
    let flows: Vec<_> =
        (0..).take(GROUPS_MAX).map(|group| harness.flow(FlowConfig { group, ..batched(2, 1) })).collect();
    let another = |harness: &IngressHarness, group, tenant| {
        harness.ingress.check_capacity(group, TenantId::new(tenant))
    };
    assert_eq!(another(&harness, key(1_000), 7), Err(Refusal::Full));
    assert_eq!(another(&harness, key(5), 7), Ok(()), "a known group takes more flows");
    assert_eq!(another(&harness, None, 7), Ok(()));
    harness.ingress.unregister(flows[5], harness.now);
    assert_eq!(another(&harness, key(1_000), 7), Ok(()));
    assert_eq!(another(&harness, key(1_000), 0), Err(Refusal::QuotaReached), "it has most of them");
    assert_eq!(harness.ingress.groups.len(), GROUPS_MAX - 1);
}
