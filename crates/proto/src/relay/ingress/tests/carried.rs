//! Carried copies are sent again to egress relays that miss them, and no more than allowed.

use byway_units::Bytes;
use byway_wire::{RangeSet, Ranges};

use super::*;
use crate::limits::{CARRIED_ASKS_MAX, COPY_BURST};

const ROUND_TRIP: Duration = ms(80);

fn cached() -> Kind {
    Kind { service: Service::Caching, ..coded() }
}

impl Talk {
    /// The egress relay behind a port asks for these; what is sent again, by number.
    fn asks(&mut self, flow: FlowSlot, port: u16, ranges: &Ranges<'_>) -> Vec<u64> {
        self.made.carried.clear();
        self.ingress.resend((flow, EgressPort(port)), ranges, ROUND_TRIP, &mut self.made, self.now);
        self.made.carried.iter().map(|(_, sequence, _)| *sequence).collect()
    }

    fn asks_for(&mut self, flow: FlowSlot, numbers: &[u64]) -> Vec<u64> {
        let mut set = RangeSet::new();
        for number in numbers {
            assert!(set.insert(SequenceNumber::new(*number)));
        }
        self.asks(flow, 0, &set.ranges())
    }
}

#[test]
fn what_an_egress_relay_missed_is_sent_again_as_it_was() {
    let mut talk = Talk::new();
    let flow = talk.flow(cached());
    (0..5).for_each(|sequence| talk.copy(flow, sequence));
    talk.wait(90);
    assert_eq!(talk.asks_for(flow, &[1, 3]), [1, 3]);
    let alias = alias(flow).number();
    assert_eq!(talk.made.carried, [(alias, 1, packet(alias, 1)), (alias, 3, packet(alias, 3))]);
    let counters = talk.ingress.counters;
    assert_eq!((counters.resent, counters.carried, counters.resends_gone), (2, 5, 0));
    assert_eq!(counters.resent_bytes, (packet(alias, 1).len() + packet(alias, 3).len()) as u64);
}

#[test]
fn each_copy_is_sent_again_twice_at_most_and_not_while_it_is_on_its_way() {
    let mut talk = Talk::new();
    let flow = talk.flow(cached());
    talk.copy(flow, 0);
    let mut sent = 0;
    for _ in 0..90 {
        sent += talk.asks_for(flow, &[0]).len();
        talk.wait(10);
    }
    assert_eq!(sent, usize::from(CARRIED_ASKS_MAX));
    // 70, 140, 210 ms: nothing sooner.
    assert_eq!(talk.ingress.counters.resends_refused, 90 - 21);
}

#[test]
fn a_relay_that_asks_for_everything_gets_no_more_than_the_flows_rate() {
    let mut talk = Talk::new();
    let rate = Rate::from_kilobits_per_second(800);
    let flow = talk.flow(Kind { rate, ..cached() });
    let mut sent = 0;
    for sequence in 0..1_000 {
        talk.copy_of(flow, sequence, &packet_of(1, sequence, 900));
        let mut all = RangeSet::new();
        for number in sequence.saturating_sub(200)..=sequence {
            assert!(all.insert(SequenceNumber::new(number)));
        }
        sent += talk.asks(flow, 0, &all.ranges()).len();
        talk.wait(10);
    }
    let burst = rate.bytes_in(COPY_BURST).expect("small").count() / 900;
    let at_most = usize::try_from(burst).expect("small") + 1_112;
    assert!((900..=at_most).contains(&sent), "{sent} of 1,000, of which each may be sent twice");
    assert!(talk.ingress.counters.resends_refused > 0);
}

#[test]
fn only_relays_that_a_flow_goes_to_may_ask() {
    let mut talk = Talk::new();
    let flow = talk.flow(cached());
    talk.copy(flow, 0);
    talk.wait(100);
    let mut set = RangeSet::new();
    assert!(set.insert(SequenceNumber::new(0)));
    assert_eq!(talk.asks(flow, 1, &set.ranges()), []);
    talk.ingress.set_known(flow, EgressPort(0), false);
    assert_eq!(talk.asks(flow, 0, &set.ranges()), [], "nor one that has no receiver any more");
    talk.ingress.set_known(flow, EgressPort(0), true);
    assert_eq!(talk.asks(flow, 0, &set.ranges()), [0]);
}

#[test]
fn what_is_not_kept_is_not_sent_again() {
    let mut talk = Talk::new();
    let flow = talk.flow(cached());
    let some = talk.flow(Kind { copying: Copying::Selective, ..cached() });
    for flow in [flow, some] {
        talk.copy(flow, 0);
    }
    talk.wait(100);
    assert_eq!(talk.asks_for(flow, &[0, 1]), [0]);
    assert_eq!(talk.asks_for(some, &[0]), [], "nobody can tell what is missing");
    talk.wait(1_000);
    assert_eq!(talk.asks_for(flow, &[0]), [], "nobody waits for it any more");
}

#[test]
fn what_was_coded_is_sent_at_once_to_whoever_cannot_restore_it() {
    let mut talk = Talk::new();
    let flow = talk.flow(coded());
    talk.copy(flow, 0);
    assert_eq!(talk.asks_for(flow, &[0]), [0], "it was not sent before");
    assert_eq!(talk.asks_for(flow, &[0]), [], "and now it is under way");
    talk.wait(100);
    assert_eq!(talk.asks_for(flow, &[0]), [0]);
    talk.wait(100);
    assert_eq!(talk.asks_for(flow, &[0]), [], "twice is enough");
}

#[test]
fn what_would_come_too_late_is_not_sent_again() {
    let mut talk = Talk::new();
    // 40 ms to the egress relay, and 10 ms at either end.
    let flow = talk.flow(Kind { latency_budget: ms(180), ..cached() });
    talk.ingress.set_round_trip(flow, ms(20));
    talk.copy(flow, 0);
    talk.copy(flow, 1);
    talk.wait(120);
    assert_eq!(talk.asks_for(flow, &[0]), [0]);
    talk.wait(1);
    assert_eq!(talk.asks_for(flow, &[1]), []);
    assert_eq!(talk.ingress.counters.resends_gone, 1);
}

#[test]
fn the_memory_of_what_was_carried_is_given_back() {
    let mut talk = Talk::new();
    let flow = talk.flow(cached());
    (0..100).for_each(|sequence| talk.copy(flow, sequence));
    assert!(talk.ingress.packets_held() > Bytes::ZERO);
    talk.wait(11_000);
    assert_eq!(talk.ingress.packets_held(), Bytes::ZERO);
}

#[test]
fn copies_that_come_before_the_egress_relay_knows_their_flow_are_carried_on_once_it_does() {
    let services =
        [Service::Caching, Service::Forwarding, Service::Both].map(|service| Kind { service, ..coded() });
    for kind in services {
        let mut talk = Talk::new();
        let flow = talk.flow(kind);
        let port = EgressPort(0);
        talk.ingress.set_known(flow, port, false);
        (0..3).for_each(|sequence| talk.copy(flow, sequence));
        let budget = talk.ingress.flow(flow).expect("it is registered").registration.latency_budget;
        talk.wait(budget.as_millis() - 10);
        (3..5).for_each(|sequence| talk.copy(flow, sequence));
        talk.wait(20);
        assert_eq!(talk.made.carried, [], "nobody takes them");
        talk.ingress.set_known(flow, port, true);
        for _ in 0..2 {
            talk.ingress.carry_waiting(flow, port, &mut talk.made, talk.now);
            let carried: Vec<u64> = talk.made.carried.iter().map(|(_, sequence, _)| *sequence).collect();
            assert_eq!(carried, [3, 4], "once, and what is not too late");
        }
        assert_eq!(talk.ingress.counters.carried, 2);
    }
}
