//! Other relays come and go.

use super::*;

const OTHERS_OWN: u8 = 230;

/// A flow from this relay to the other one, of all services.
fn outward(sender: u8, receiver: u8) -> Grant {
    let there = grant(sender, receiver);
    Grant { ingress: there.egress, egress: there.ingress, services: Services::from_bits(31), ..there }
}

/// The other relay, under the key and at the address of `who`.
fn other(who: u8) -> OtherRelay {
    OtherRelay {
        number: RelayId::new(OTHER.into()),
        shard: Shard::new(0),
        key: secret(who).public_key(),
        address: address(who),
    }
}

impl Desk {
    fn removes_other(&mut self) {
        self.relay.remove_relay(RelayId::new(OTHER.into()), Shard::new(0), self.now);
        self.drain();
        self.exchange();
    }

    fn adds(&mut self, other: &OtherRelay) {
        self.relay.add_relay(other, self.now);
        self.drain();
        self.exchange();
    }

    /// Whether copies of flow 1 of agent 1 go on to the other relay.
    fn carries(&mut self, sequence: u32) -> bool {
        let before = self.relay.ingress_counters().carried;
        self.copies(1, 1, sequence, &packet(1, sequence));
        self.relay.ingress_counters().carried > before
    }
}

#[test]
fn flows_to_a_relay_that_was_removed_are_forgotten_and_come_back_with_it() {
    let mut desk = Desk::new(alloc::vec![outward(1, 2)]);
    desk.enter(1);
    let registers =
        |desk: &mut Desk| desk.registers_for(1, flow(1, 2, 1), FlowRole::Sender, Service::Caching);
    assert_eq!(registers(&mut desk), Ok(1));
    desk.knows(&[1]);
    assert!(desk.carries(1));
    let sessions = desk.relay.sessions();
    desk.heard(1);
    desk.removes_other();
    assert_eq!(desk.heard(1), [Heard::Registered(Err(Refusal::OtherRelay))]);
    assert!(!desk.carries(2));
    assert_eq!(registers(&mut desk), Err(Refusal::OtherRelay));
    assert_eq!((desk.relay.sessions(), desk.relay.backlog().rounds), (sessions - 1, 0));
    desk.removes_other();
    desk.clients.retain(|client| client.who != OTHER);
    desk.now += ms(10);
    desk.adds(&other(OTHER));
    desk.enter(OTHER);
    assert_eq!(registers(&mut desk), Ok(1));
    desk.pass(ms(300));
    desk.knows(&[1]);
    assert!(desk.carries(3));
}

#[test]
fn relays_that_come_and_go_take_the_same_ports() {
    let mut desk = Desk::new(alloc::vec![outward(1, 2)]);
    let ports = desk.relay.ports.all().count();
    for _ in 0..100 {
        desk.removes_other();
        desk.adds(&other(OTHERS_OWN));
    }
    assert_eq!(desk.relay.ports.all().count(), ports);
}

#[test]
fn a_relay_that_comes_back_feeds_the_receivers_that_it_fed_before() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.announces(&[flow(1, 2, 1)]);
    desk.repairs(7, 100, 1);
    assert!(desk.relay.egress_counters().repairs_kept > 0);
    let kept = desk.relay.egress_counters().repairs_kept;
    desk.removes_other();
    // And a receiver that was there before the relay is fed by it.
    desk.now += ms(10);
    desk.adds(&other(OTHER));
    desk.enter(OTHER);
    desk.heard(OTHER);
    desk.announces(&[flow(1, 2, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)]);
    desk.repairs(9, 120, 1);
    assert!(desk.relay.egress_counters().repairs_kept > kept);
}

#[test]
fn a_receiver_that_was_there_first_is_fed_by_a_relay_that_is_added_later() {
    let mut desk = Desk::of(Authority::Static(alloc::vec![grant(1, 2)]), 1_000, 0);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.now += ms(10);
    desk.adds(&other(OTHER));
    desk.enter(OTHER);
    desk.announces(&[flow(1, 2, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)]);
}

#[test]
fn a_relay_under_a_new_key_takes_the_place_of_the_one_before() {
    let mut desk = Desk::new(alloc::vec![outward(1, 2)]);
    desk.enter(1);
    let key = flow(1, 2, 1);
    assert_eq!(desk.registers_for(1, key, FlowRole::Sender, Service::Caching), Ok(1));
    desk.knows(&[1]);
    let sessions = desk.relay.sessions();
    desk.adds(&other(OTHERS_OWN));
    assert_eq!(desk.relay.sessions(), sessions);
    assert!(!desk.carries(1), "the new one knows of nothing");
    // The one before is a stranger now.
    desk.now += ms(10);
    desk.enter(OTHER);
    assert_eq!(desk.relay.counters().strangers_refused, 1);
}

#[test]
fn a_relay_at_a_new_address_is_met_there() {
    let mut desk = Desk::new(alloc::vec![outward(1, 2)]);
    let moved = OtherRelay { address: address(OTHERS_OWN), ..other(OTHER) };
    desk.relay.add_relay(&moved, desk.now);
    let mut met = Vec::new();
    while let Some(transmit) = desk.relay.poll() {
        met.push((transmit.to, transmit.bytes[0]));
    }
    assert!(met.contains(&(address(OTHERS_OWN), 4)), "an initiation goes there");
    desk.relay.add_relay(&moved, desk.now);
    assert!(desk.relay.poll().is_none(), "it is known to be there");
}

#[test]
fn another_service_or_another_way_lets_a_flow_begin_anew() {
    let mut desk = Desk::new(alloc::vec![outward(1, 2)]);
    desk.enter(1);
    let key = flow(1, 2, 1);
    assert_eq!(desk.registers_for(1, key, FlowRole::Sender, Service::Coding), Ok(1));
    desk.knows(&[1]);
    assert!(!desk.carries(1));
    assert_eq!(desk.registers_for(1, key, FlowRole::Sender, Service::Forwarding), Ok(1));
    desk.pass(ms(300));
    desk.knows(&[2]);
    assert!(desk.carries(2), "copies go on whole");
    assert_eq!(desk.registers_for(1, key, FlowRole::Sender, Service::Forwarding), Ok(1));
    assert!(desk.carries(3), "what is as before goes on as before");
}

#[test]
fn a_flow_from_an_agent_to_itself_is_a_visit_that_leads_nowhere() {
    let own = Grant { services: Services::NONE.with(Service::Internet), ..grant_here(5, 5) };
    let mut desk = Desk::new(alloc::vec![own]);
    desk.enter(5);
    let key = flow(5, 5, 0);
    assert_eq!(
        desk.registers_for(5, key, FlowRole::Sender, Service::Coding),
        Err(Refusal::ServiceNotGranted)
    );
    assert_eq!(desk.registers_for(5, key, FlowRole::Sender, Service::Internet), Ok(1));
    desk.pass(ms(1_000));
    let next = desk.relay.deadline().map(|(_, reason)| reason);
    assert_ne!(next, Some(crate::Reason::Registration), "nothing is announced");
    assert!(!desk.relay.ingress.onward(crate::relay::ingress::FlowSlot(0)).iter().any(|_| true));
}
