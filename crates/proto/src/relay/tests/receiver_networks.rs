//! Networks of receivers' addresses: reported by egress relays, and used by ingress relays.

use super::*;
use crate::relay::ingress::FlowSlot;

/// Returns the networks that the other relay has learned of since the last call.
fn reported(harness: &mut RelayHarness) -> Vec<NetworkTag> {
    core::mem::take(&mut harness.client(OTHER).networks)
}

#[test]
fn an_ingress_relay_learns_which_receivers_share_a_network() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    for (sender, receiver) in [(1, 2), (3, 4)] {
        harness.enter(receiver);
        assert_eq!(harness.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver), Ok(1));
    }
    harness.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    // Both addresses are in 192.0.2.0/24.
    let networks = reported(&mut harness);
    assert_eq!((networks.len(), networks[0] == networks[1]), (2, true));
    assert_ne!(networks[0], NetworkTag::UNKNOWN);
    assert_eq!(networks[0], harness.relay.peers.networks.tag(address(2).ip()));
}

#[test]
fn a_receiver_that_registers_later_is_reported_with_its_network() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.announces(&[flow(1, 2, 1)]);
    assert_eq!(reported(&mut harness), [], "there is no receiver");
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    let network = harness.relay.peers.networks.tag(address(2).ip());
    assert_eq!(reported(&mut harness), [network]);
}

#[test]
fn a_receiver_whose_network_was_unknown_is_reported_with_its_next_message() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.announces(&[flow(1, 2, 1)]);
    reported(&mut harness);
    let session = harness.relay.sessions.find(secret(2).public_key(), Purpose::AgentToRelay, Shard::new(0));
    harness.relay.peers.networks.forget(session.expect("it entered"));
    harness.nacks(2, 1, 5);
    assert_eq!(reported(&mut harness).len(), 1);
    harness.nacks(2, 1, 6);
    assert_eq!(reported(&mut harness), [], "once");
}

#[test]
fn the_sender_s_relay_records_the_network_that_the_other_reports() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut harness = RelayHarness::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    harness.enter(1);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    let mut report = |networks: &[NetworkTag]| {
        let (mut scratch, mut scratch_of_networks) =
            ([[0; AliasStatus::BYTES]; 1], [[0; NetworkTag::BYTES]; 1]);
        let status = AliasStatus { alias: Alias::new(1).expect("not zero"), has_receiver: true };
        let aliases = AliasStatuses::collect(&mut core::iter::once(status), &mut scratch);
        let networks = NetworkTags::collect(&mut networks.iter().copied(), &mut scratch_of_networks);
        harness.send_message(OTHER, &Message::AliasesReply(AliasesReply { aliases, networks }));
        harness.relay.ingress.flow_mut(FlowSlot(0)).map(|flow| flow.receiver_network)
    };
    assert_eq!(report(&[NetworkTag::new(77)]), Some(NetworkTag::new(77)));
    assert_eq!(report(&[]), Some(NetworkTag::UNKNOWN), "a relay of an earlier version");
}

#[test]
fn a_relay_at_both_ends_knows_the_network_by_itself() {
    let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2)]);
    harness.enter(1);
    harness.enter(2);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    let network = harness.relay.peers.networks.tag(address(2).ip());
    let known = harness.relay.ingress.flow_mut(FlowSlot(0)).map(|flow| flow.receiver_network);
    assert_eq!(known, Some(network));
}
