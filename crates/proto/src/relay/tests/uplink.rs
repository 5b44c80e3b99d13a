//! A relay whose packets queue for its uplink.

use byway_sched::Settings;
use byway_units::Rate;

use super::*;
use crate::limits::UPLINK_PACKET;
use crate::reason::Reason;

/// An uplink with this rate and a delay bound of 30 ms for low-delay packets.
fn uplink(rate: Rate) -> UplinkSettings {
    let link = Settings::new(rate, UPLINK_PACKET).and_then(|link| link.with_delay(ms(30)));
    UplinkSettings::new(link.expect("a usual link"))
}

fn granted(service: Service) -> Vec<Grant> {
    let services = Services::NONE.with(service);
    [(1, 2), (3, 4)].map(|(sender, receiver)| Grant { services, ..grant_here(sender, receiver) }).to_vec()
}

impl RelayHarness {
    /// Registers a flow with a latency budget for its sender and its receiver, both at this relay.
    fn registers_within(&mut self, (sender, receiver): (u8, u8), service: Service, budget: Duration) {
        for (who, role) in [(receiver, FlowRole::Receiver), (sender, FlowRole::Sender)] {
            let budget = Microseconds::from_duration(budget);
            let register = Register { budget, ..register(flow(sender, receiver, 1), role, service, CONSENT) };
            self.registers_in_time(who, &register);
        }
        self.advance(ms(300));
    }

    /// Registers a flow for an agent, and waits until the reply has left the queue.
    fn registers_in_time(&mut self, who: u8, register: &Register<'_>) {
        self.client(who).events.clear();
        self.send_message(who, &Message::Register(self.as_granted(register)));
        self.advance(ms(50));
        assert!(self.drain_events(who).contains(&ClientEvent::Registered(Ok(1))));
    }

    /// Adds these agents, one after the other.
    fn enter_slowly(&mut self, agents: impl IntoIterator<Item = u8>) {
        self.advance(ms(50));
        for who in agents {
            self.enter(who);
            self.advance(ms(50));
        }
    }

    fn with_two_flows(uplink: Option<UplinkSettings>, service: Service) -> Self {
        let mut harness = Self::with(Authority::Static(granted(service)), 1_000, 1, uplink);
        harness.enter_slowly(1..=4);
        harness.registers_within((1, 2), service, ms(250));
        harness.registers_within((3, 4), service, ms(100));
        harness
    }

    /// Returns the packets that the relay sent, with times and destinations.
    fn conversation(mut self) -> Vec<(Time, SocketAddr, Vec<u8>)> {
        for sequence in 0..50 {
            self.copies(1, 1, sequence, &packet(1, sequence));
            self.copies(3, 1, sequence, &packet(3, sequence));
            self.advance(ms(10));
        }
        self.nacks(2, 1, 30);
        self.advance(ms(30_000));
        self.sent
    }
}

#[test]
fn an_uplink_that_carries_everything_changes_nothing() {
    let open = RelayHarness::with_two_flows(None, Service::Forwarding).conversation();
    let fast = Some(uplink(Rate::from_megabits_per_second(1_000_000)));
    let mut through = RelayHarness::with_two_flows(fast, Service::Forwarding).conversation();
    // Of packets sent at the same time, low-delay ones leave first.
    let mut sorted = open.clone();
    sorted.sort();
    through.sort();
    assert!(open.len() > 150, "{}", open.len());
    assert!(sorted == through);
}

#[test]
fn without_an_uplink_nothing_waits() {
    let mut harness = RelayHarness::with_two_flows(None, Service::Forwarding);
    for sequence in 0..100 {
        harness.copies(1, 1, sequence, &packet(1, sequence));
    }
    let events = harness.drain_events(2);
    assert_eq!(events.len(), 100);
    assert!(harness.relay.uplink_status().is_none() && harness.relay.uplink_counters().is_none());
    assert!(harness.relay.deadline().is_some_and(|(_, reason)| reason != Reason::Uplink));
}

#[test]
fn packets_of_a_flow_with_a_small_budget_pass_those_that_wait() {
    let mut harness =
        RelayHarness::with_two_flows(Some(uplink(Rate::from_megabits_per_second(4))), Service::Forwarding);
    let began = harness.now;
    for sequence in 0..100 {
        harness.copies(1, 1, sequence, &[7; 450]);
    }
    assert!(
        harness.relay.deadline().is_some_and(|(at, reason)| reason == Reason::Uplink && at < began + ms(3))
    );
    harness.copies(3, 1, 0, &[9; 100]);
    // 100 packets of 500 bytes with headers take 100 ms.
    harness.advance(ms(20));
    assert_eq!(harness.drain_events(4).len(), 1);
    let early = harness.drain_events(2).len();
    assert!((15..=25).contains(&early), "{early}");
    let status = harness.relay.uplink_status().expect("it has one");
    assert!(status.queue.backlog[0].count() > 30_000 && status.queue.backlog[1].is_zero(), "{status:?}");
    harness.advance(ms(100));
    assert_eq!(harness.drain_events(2).len() + early, 100);
    let counters = *harness.relay.uplink_counters().expect("it has one");
    assert_eq!(counters.high_rate, 100);
    assert!(counters.low_delay > 1 && counters.full == 0, "{counters:?}");
}

#[test]
fn an_uplink_comes_and_goes_while_flows_last_and_what_waits_is_lost_by_neither() {
    let mut harness = RelayHarness::with_two_flows(None, Service::Forwarding);
    harness.relay.set_uplink(Some(uplink(Rate::from_megabits_per_second(4))), &[3; 32], harness.now);
    for sequence in 0..100 {
        harness.copies(1, 1, sequence, &[7; 450]);
    }
    harness.copies(3, 1, 0, &[9; 100]);
    harness.advance(ms(20));
    assert_eq!(harness.drain_events(4).len(), 1, "its class was known before");
    let early = harness.drain_events(2).len();
    assert!((15..=25).contains(&early), "{early}");
    // At twice the rate, twice as many packets of 500 bytes leave.
    harness.relay.set_uplink(Some(uplink(Rate::from_megabits_per_second(8))), &[3; 32], harness.now);
    harness.advance(ms(20));
    let faster = harness.drain_events(2).len();
    assert!((35..=45).contains(&faster), "{faster}");
    harness.relay.set_uplink(None, &[3; 32], harness.now);
    assert!(harness.drain(), "the rest goes at once");
    assert_eq!(harness.drain_events(2).len() + early + faster, 100, "all of it");
    assert!(harness.relay.uplink_status().is_none());
    harness.copies(1, 1, 100, &[7; 450]);
    assert_eq!(harness.drain_events(2).len(), 1);
}

#[test]
fn a_flow_with_a_usual_budget_waits_its_turn() {
    let mut harness = RelayHarness::with(
        Authority::Static(granted(Service::Forwarding)),
        1_000,
        1,
        Some(uplink(Rate::from_megabits_per_second(4))),
    );
    harness.enter_slowly(1..=4);
    for ends in [(1, 2), (3, 4)] {
        harness.registers_within(ends, Service::Forwarding, ms(250));
    }
    for sequence in 0..100 {
        harness.copies(1, 1, sequence, &[7; 450]);
    }
    harness.copies(3, 1, 0, &[9; 100]);
    harness.advance(ms(20));
    assert_eq!(harness.drain_events(4), []);
    harness.advance(ms(100));
    assert_eq!(harness.drain_events(4).len(), 1);
}

#[test]
fn repair_packets_are_as_urgent_as_the_most_urgent_packet_that_they_cover() {
    for (budgets, are_low_delay) in [([250, 100], true), ([250, 250], false)] {
        let grants = [(1, 2), (3, 4)].map(|(sender, receiver)| {
            let there = grant_here(sender, receiver);
            Grant { egress: grant(1, 2).ingress, ..there }
        });
        let link = Some(uplink(Rate::from_megabits_per_second(4)));
        let mut harness = RelayHarness::with(Authority::Static(grants.to_vec()), 1_000, 1, link);
        for ((sender, receiver), budget) in [(1, 2), (3, 4)].into_iter().zip(budgets) {
            harness.enter_slowly([sender]);
            let key = flow(sender, receiver, 1);
            let budget = Microseconds::from_duration(ms(budget));
            let role = FlowRole::Sender;
            let wanted = Register {
                budget,
                in_stream: None,
                batch: BlockShape::new(2, 1),
                ..register(key, role, Service::Coding, CONSENT)
            };
            harness.registers_in_time(sender, &wanted);
        }
        harness.send_receivers(&[1, 2]);
        harness.advance(ms(100));
        let before = *harness.relay.uplink_counters().expect("it has one");
        harness.copies(1, 1, 0, &packet(1, 0));
        harness.copies(3, 1, 0, &packet(3, 0));
        harness.advance(ms(5));
        assert_eq!(harness.relay.ingress_counters().cross_stream, 1);
        let after = *harness.relay.uplink_counters().expect("it has one");
        assert_eq!(after.high_rate - before.high_rate, u64::from(!are_low_delay), "{after:?}");
    }
}
