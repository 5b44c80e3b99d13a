//! A relay whose packets wait for its uplink.

use byway_sched::Settings;
use byway_units::Rate;

use super::*;
use crate::limits::UPLINK_PACKET;
use crate::reason::Reason;

/// A line that carries this much, where low-delay packets wait 30 ms at most.
fn uplink(rate: Rate) -> UplinkSettings {
    let link = Settings::new(rate, UPLINK_PACKET).and_then(|link| link.with_delay(ms(30)));
    UplinkSettings::new(link.expect("a usual line"))
}

fn granted(service: Service) -> Vec<Grant> {
    let services = Services::NONE.with(service);
    [(1, 2), (3, 4)].map(|(sender, receiver)| Grant { services, ..grant_here(sender, receiver) }).to_vec()
}

impl Desk {
    /// Lets an agent register a flow with a latency budget, for both ends to be here.
    fn registers_within(&mut self, (sender, receiver): (u8, u8), service: Service, budget: Duration) {
        for (who, role) in [(receiver, FlowRole::Receiver), (sender, FlowRole::Sender)] {
            let budget = Microseconds::from_duration(budget);
            let register = Register { budget, ..register(flow(sender, receiver, 1), role, service, CONSENT) };
            self.registers_in_time(who, &register);
        }
        self.pass(ms(300));
    }

    /// Lets an agent register a flow, and gives the answer time to leave.
    fn registers_in_time(&mut self, who: u8, register: &Register<'_>) {
        self.client(who).heard.clear();
        self.says(who, &Message::Register(self.as_granted(register)));
        self.pass(ms(50));
        assert!(self.heard(who).contains(&Heard::Registered(Ok(1))));
    }

    /// These agents come, one after the other.
    fn enter_slowly(&mut self, agents: impl IntoIterator<Item = u8>) {
        self.pass(ms(50));
        for who in agents {
            self.enter(who);
            self.pass(ms(50));
        }
    }

    fn with_two_flows(uplink: Option<UplinkSettings>, service: Service) -> Self {
        let mut desk = Self::with(Authority::Static(granted(service)), 1_000, 1, uplink);
        desk.enter_slowly(1..=4);
        desk.registers_within((1, 2), service, ms(250));
        desk.registers_within((3, 4), service, ms(100));
        desk
    }

    /// What it sent, whereto and when.
    fn conversation(mut self) -> Vec<(Time, SocketAddr, Vec<u8>)> {
        for sequence in 0..50 {
            self.copies(1, 1, sequence, &packet(1, sequence));
            self.copies(3, 1, sequence, &packet(3, sequence));
            self.pass(ms(10));
        }
        self.nacks(2, 1, 30);
        self.pass(ms(30_000));
        self.sent
    }
}

#[test]
fn an_uplink_that_carries_everything_changes_nothing() {
    let open = Desk::with_two_flows(None, Service::Forwarding).conversation();
    let fast = Some(uplink(Rate::from_megabits_per_second(1_000_000)));
    let mut through = Desk::with_two_flows(fast, Service::Forwarding).conversation();
    // Of what goes at the same moment, what is of low delay goes first.
    let mut sorted = open.clone();
    sorted.sort();
    through.sort();
    assert!(open.len() > 150, "{}", open.len());
    assert!(sorted == through);
}

#[test]
fn without_an_uplink_nothing_waits() {
    let mut desk = Desk::with_two_flows(None, Service::Forwarding);
    for sequence in 0..100 {
        desk.copies(1, 1, sequence, &packet(1, sequence));
    }
    let heard = desk.heard(2);
    assert_eq!(heard.len(), 100);
    assert!(desk.relay.uplink_status().is_none() && desk.relay.uplink_counters().is_none());
    assert!(desk.relay.deadline().is_some_and(|(_, reason)| reason != Reason::Uplink));
}

#[test]
fn packets_of_a_flow_with_a_small_budget_pass_those_that_wait() {
    let mut desk = Desk::with_two_flows(Some(uplink(Rate::from_megabits_per_second(4))), Service::Forwarding);
    let began = desk.now;
    for sequence in 0..100 {
        desk.copies(1, 1, sequence, &[7; 450]);
    }
    assert!(desk.relay.deadline().is_some_and(|(at, reason)| reason == Reason::Uplink && at < began + ms(3)));
    desk.copies(3, 1, 0, &[9; 100]);
    // 500 bytes each with headers: 100 ms.
    desk.pass(ms(20));
    assert_eq!(desk.heard(4).len(), 1);
    let early = desk.heard(2).len();
    assert!((15..=25).contains(&early), "{early}");
    let status = desk.relay.uplink_status().expect("it has one");
    assert!(status.queue.backlog[0].count() > 30_000 && status.queue.backlog[1].is_zero(), "{status:?}");
    desk.pass(ms(100));
    assert_eq!(desk.heard(2).len() + early, 100);
    let counters = *desk.relay.uplink_counters().expect("it has one");
    assert_eq!(counters.high_rate, 100);
    assert!(counters.low_delay > 1 && counters.full == 0, "{counters:?}");
}

#[test]
fn an_uplink_comes_and_goes_while_flows_last_and_what_waits_is_lost_by_neither() {
    let mut desk = Desk::with_two_flows(None, Service::Forwarding);
    desk.relay.set_uplink(Some(uplink(Rate::from_megabits_per_second(4))), &[3; 32], desk.now);
    for sequence in 0..100 {
        desk.copies(1, 1, sequence, &[7; 450]);
    }
    desk.copies(3, 1, 0, &[9; 100]);
    desk.pass(ms(20));
    assert_eq!(desk.heard(4).len(), 1, "its class was known before");
    let early = desk.heard(2).len();
    assert!((15..=25).contains(&early), "{early}");
    // 500 bytes each with headers: twice as many at twice the rate.
    desk.relay.set_uplink(Some(uplink(Rate::from_megabits_per_second(8))), &[3; 32], desk.now);
    desk.pass(ms(20));
    let faster = desk.heard(2).len();
    assert!((35..=45).contains(&faster), "{faster}");
    desk.relay.set_uplink(None, &[3; 32], desk.now);
    assert!(desk.drain(), "the rest goes at once");
    assert_eq!(desk.heard(2).len() + early + faster, 100, "all of it");
    assert!(desk.relay.uplink_status().is_none());
    desk.copies(1, 1, 100, &[7; 450]);
    assert_eq!(desk.heard(2).len(), 1);
}

#[test]
fn a_flow_with_a_usual_budget_waits_its_turn() {
    let mut desk = Desk::with(
        Authority::Static(granted(Service::Forwarding)),
        1_000,
        1,
        Some(uplink(Rate::from_megabits_per_second(4))),
    );
    desk.enter_slowly(1..=4);
    for ends in [(1, 2), (3, 4)] {
        desk.registers_within(ends, Service::Forwarding, ms(250));
    }
    for sequence in 0..100 {
        desk.copies(1, 1, sequence, &[7; 450]);
    }
    desk.copies(3, 1, 0, &[9; 100]);
    desk.pass(ms(20));
    assert_eq!(desk.heard(4), []);
    desk.pass(ms(100));
    assert_eq!(desk.heard(4).len(), 1);
}

#[test]
fn repair_packets_are_as_urgent_as_the_most_urgent_packet_that_they_cover() {
    for (budgets, are_low_delay) in [([250, 100], true), ([250, 250], false)] {
        let grants = [(1, 2), (3, 4)].map(|(sender, receiver)| {
            let there = grant_here(sender, receiver);
            Grant { egress: grant(1, 2).ingress, ..there }
        });
        let line = Some(uplink(Rate::from_megabits_per_second(4)));
        let mut desk = Desk::with(Authority::Static(grants.to_vec()), 1_000, 1, line);
        for ((sender, receiver), budget) in [(1, 2), (3, 4)].into_iter().zip(budgets) {
            desk.enter_slowly([sender]);
            let key = flow(sender, receiver, 1);
            let budget = Microseconds::from_duration(ms(budget));
            let role = FlowRole::Sender;
            let wanted = Register {
                budget,
                in_stream: None,
                batch: BlockShape::new(2, 1),
                ..register(key, role, Service::Coding, CONSENT)
            };
            desk.registers_in_time(sender, &wanted);
        }
        desk.knows(&[1, 2]);
        desk.pass(ms(100));
        let before = *desk.relay.uplink_counters().expect("it has one");
        desk.copies(1, 1, 0, &packet(1, 0));
        desk.copies(3, 1, 0, &packet(3, 0));
        desk.pass(ms(5));
        assert_eq!(desk.relay.ingress_counters().cross_stream, 1);
        let after = *desk.relay.uplink_counters().expect("it has one");
        assert_eq!(after.high_rate - before.high_rate, u64::from(!are_low_delay), "{after:?}");
    }
}
