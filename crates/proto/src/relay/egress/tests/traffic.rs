//! Helpers' bytes that are charged to tenants.

use super::*;

/// Harness with one flow of each tenant, from 1 on.
fn flows_of_tenants<const N: usize>() -> (EgressHarness, [FlowSlot; N]) {
    let mut harness = EgressHarness::new();
    let slots = core::array::from_fn(|index| {
        let number = u16::try_from(index + 1).expect("few flows");
        let holder = harness.egress.holder(0, TenantId::new(number.into()));
        let key = FlowKey::new(AgentId::new(1), Receiver::Agent(AgentId::new(2)), FlowId::new(number));
        harness.egress.register((key, holder), Service::Coding, RATE, CONSENT, harness.now)
    });
    (harness, slots)
}

/// Returns the helpers' bytes that each tenant is charged for.
fn returned<const N: usize>(harness: &EgressHarness) -> [u64; N] {
    let mut of_tenants = harness.egress.traffic_by_tenant().map(|(_, traffic)| traffic.returned);
    core::array::from_fn(|_| of_tenants.next().expect("each tenant has an account"))
}

fn bytes(flow: FlowSlot, sequence: u64) -> u64 {
    packet(flow, sequence).len() as u64
}

#[test]
fn helpers_packets_are_charged_to_who_asked() {
    let (mut harness, [flow, a, b]) = flows_of_tenants();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 1);
    harness.answer(a, 9);
    assert_eq!(returned(&harness), [0, 0, 0], "nobody asked");
    harness.nack(flow, 4, 4);
    harness.answer(a, 9);
    harness.answer(b, 2);
    assert!(harness.drain_actions().contains(&cooperative(flow, 4)));
    assert_eq!(returned(&harness), [bytes(a, 9) + bytes(b, 2), 0, 0]);
    harness.answer(b, 2);
    assert_eq!(returned(&harness), [bytes(a, 9) + bytes(b, 2), 0, 0], "once");
}

#[test]
fn two_that_ask_for_one_batch_pay_half_of_each_packet() {
    let (mut harness, [flow, a, b, c]) = flows_of_tenants();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2), (c, 5)], 2);
    harness.nack(flow, 4, 4);
    harness.nack(b, 2, 2);
    harness.answer(a, 9);
    harness.answer(c, 5);
    let actions = harness.drain_actions();
    assert!(actions.contains(&cooperative(flow, 4)) && actions.contains(&cooperative(b, 2)), "{actions:?}");
    let packets = [bytes(a, 9), bytes(c, 5)];
    let half: u64 = packets.iter().map(|bytes| bytes / 2).sum();
    let rest = packets.iter().sum::<u64>() - half;
    assert_eq!(returned(&harness), [half, 0, rest, 0]);
}

#[test]
fn packets_requested_for_a_joint_decode_are_charged_to_who_lost_a_packet_of_their_batch() {
    let (mut harness, [one, other, helper]) = flows_of_tenants();
    harness.batch(0, &[(one, 0), (other, 0)], 1);
    harness.batch(1, &[(one, 0), (helper, 0)], 1);
    harness.nack(one, 0, 0);
    harness.lost(helper, 0, 0);
    harness.drain_actions();
    harness.answer(other, 0);
    assert!(harness.drain_actions().contains(&cooperative(one, 0)));
    assert_eq!(returned(&harness), [bytes(other, 0), 0, 0]);
}
