//! Addition and removal of other relays.

use super::*;

const OTHERS_OWN: u8 = 230;

/// Returns a grant for flows from this relay to the other one, for all services.
fn outward(sender: u8, receiver: u8) -> Grant {
    let there = grant(sender, receiver);
    Grant { ingress: there.egress, egress: there.ingress, services: Services::from_bits(31), ..there }
}

/// Returns the other relay, with the key and the address of `who`.
fn other(who: u8) -> PeerRelay {
    PeerRelay {
        number: RelayId::new(OTHER.into()),
        shard: Shard::new(0),
        key: secret(who).public_key(),
        address: address(who),
    }
}

impl RelayHarness {
    fn removes_other(&mut self) {
        self.relay.remove_relay(RelayId::new(OTHER.into()), Shard::new(0), self.now);
        self.drain();
        self.exchange();
    }

    fn adds(&mut self, other: &PeerRelay) {
        self.relay.add_relay(other, self.now);
        self.drain();
        self.exchange();
    }

    /// True if the relay forwards copies of flow 1 of agent 1 to the other relay.
    fn relays_copy(&mut self, sequence: u32) -> bool {
        let before = self.relay.ingress_counters().copies_relayed;
        self.copies(1, 1, sequence, &packet(1, sequence));
        self.relay.ingress_counters().copies_relayed > before
    }
}

#[test]
fn flows_to_a_relay_that_was_removed_are_forgotten_and_come_back_with_it() {
    let mut harness = RelayHarness::new(alloc::vec![outward(1, 2)]);
    harness.enter(1);
    let registers = |harness: &mut RelayHarness| {
        harness.registers_for(1, flow(1, 2, 1), FlowRole::Sender, Service::Caching)
    };
    assert_eq!(registers(&mut harness), Ok(1));
    harness.send_receivers(&[1]);
    assert!(harness.relays_copy(1));
    let sessions = harness.relay.sessions();
    harness.drain_events(1);
    harness.removes_other();
    assert_eq!(harness.drain_events(1), [ClientEvent::Registered(Err(Refusal::OtherRelay))]);
    assert!(!harness.relays_copy(2));
    assert_eq!(registers(&mut harness), Err(Refusal::OtherRelay));
    assert_eq!((harness.relay.sessions(), harness.relay.backlog().decode_attempts), (sessions - 1, 0));
    harness.removes_other();
    harness.clients.retain(|client| client.who != OTHER);
    harness.now += ms(10);
    harness.adds(&other(OTHER));
    harness.enter(OTHER);
    assert_eq!(registers(&mut harness), Ok(1));
    harness.advance(ms(300));
    harness.send_receivers(&[1]);
    assert!(harness.relays_copy(3));
}

#[test]
fn relays_that_come_and_go_take_the_same_ports() {
    let mut harness = RelayHarness::new(alloc::vec![outward(1, 2)]);
    let peers = harness.relay.peers.ids().count();
    for _ in 0..100 {
        harness.removes_other();
        harness.adds(&other(OTHERS_OWN));
    }
    assert_eq!(harness.relay.peers.ids().count(), peers);
}

#[test]
fn a_relay_that_comes_back_feeds_the_receivers_that_it_fed_before() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.announces(&[flow(1, 2, 1)]);
    harness.repairs(7, 100, 1);
    assert!(harness.relay.egress_counters().repairs_stored > 0);
    let stored_before = harness.relay.egress_counters().repairs_stored;
    harness.removes_other();
    // A receiver from before the relay's return gets packets from it.
    harness.now += ms(10);
    harness.adds(&other(OTHER));
    harness.enter(OTHER);
    harness.drain_events(OTHER);
    harness.announces(&[flow(1, 2, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, true)]);
    harness.repairs(9, 120, 1);
    assert!(harness.relay.egress_counters().repairs_stored > stored_before);
}

#[test]
fn a_receiver_that_was_there_first_is_fed_by_a_relay_that_is_added_later() {
    let mut harness = RelayHarness::of(Authority::Static(alloc::vec![grant(1, 2)]), 1_000, 0);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.now += ms(10);
    harness.adds(&other(OTHER));
    harness.enter(OTHER);
    harness.announces(&[flow(1, 2, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, true)]);
}

#[test]
fn a_relay_under_a_new_key_takes_the_place_of_the_one_before() {
    let mut harness = RelayHarness::new(alloc::vec![outward(1, 2)]);
    harness.enter(1);
    let key = flow(1, 2, 1);
    assert_eq!(harness.registers_for(1, key, FlowRole::Sender, Service::Caching), Ok(1));
    harness.send_receivers(&[1]);
    let sessions = harness.relay.sessions();
    harness.adds(&other(OTHERS_OWN));
    assert_eq!(harness.relay.sessions(), sessions);
    assert!(!harness.relays_copy(1), "the new relay knows no flow");
    // The earlier key is a stranger's now.
    harness.now += ms(10);
    harness.enter(OTHER);
    assert_eq!(harness.relay.counters().strangers_refused, 1);
}

#[test]
fn a_relay_at_a_new_address_is_met_there() {
    let mut harness = RelayHarness::new(alloc::vec![outward(1, 2)]);
    let moved = PeerRelay { address: address(OTHERS_OWN), ..other(OTHER) };
    harness.relay.add_relay(&moved, harness.now);
    let mut met = Vec::new();
    while let Some(transmit) = harness.relay.poll() {
        met.push((transmit.to, transmit.bytes[0]));
    }
    assert!(met.contains(&(address(OTHERS_OWN), 4)), "an initiation goes there");
    harness.relay.add_relay(&moved, harness.now);
    assert!(harness.relay.poll().is_none(), "it is known to be there");
}

#[test]
fn another_service_or_another_way_lets_a_flow_begin_anew() {
    let mut harness = RelayHarness::new(alloc::vec![outward(1, 2)]);
    harness.enter(1);
    let key = flow(1, 2, 1);
    assert_eq!(harness.registers_for(1, key, FlowRole::Sender, Service::Coding), Ok(1));
    harness.send_receivers(&[1]);
    assert!(!harness.relays_copy(1));
    assert_eq!(harness.registers_for(1, key, FlowRole::Sender, Service::Forwarding), Ok(1));
    harness.advance(ms(300));
    harness.send_receivers(&[2]);
    assert!(harness.relays_copy(2), "copies are forwarded whole");
    assert_eq!(harness.registers_for(1, key, FlowRole::Sender, Service::Forwarding), Ok(1));
    assert!(harness.relays_copy(3), "an unchanged relay stays in use");
}

#[test]
fn a_flow_from_an_agent_to_itself_is_a_visit_that_leads_nowhere() {
    let own = Grant { services: Services::NONE.with(Service::Internet), ..grant_here(5, 5) };
    let mut harness = RelayHarness::new(alloc::vec![own]);
    harness.enter(5);
    let key = flow(5, 5, 0);
    assert_eq!(
        harness.registers_for(5, key, FlowRole::Sender, Service::Coding),
        Err(Refusal::ServiceNotGranted)
    );
    assert_eq!(harness.registers_for(5, key, FlowRole::Sender, Service::Internet), Ok(1));
    harness.advance(ms(1_000));
    let next = harness.relay.deadline().map(|(_, reason)| reason);
    assert_ne!(next, Some(crate::Reason::Registration), "no flow is advertised");
    assert!(!harness.relay.ingress.next_hops(crate::relay::ingress::FlowSlot(0)).iter().any(|_| true));
}
