//! Flows whose packets cannot reach a receiver.

use super::*;
use byway_wire::messages::{AliasStatus, AliasStatuses, AliasesReply, NetworkTags};

const UNREACHABLE: ClientEvent = ClientEvent::Registered(Err(Refusal::Unreachable));

/// A relay with a flow to the other one, which knows its receiver.
fn relay_with_outbound_flow() -> RelayHarness {
    let there = grant(1, 2);
    let mut harness =
        RelayHarness::new(alloc::vec![Grant { ingress: there.egress, egress: there.ingress, ..there }]);
    harness.enter(1);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    harness.send_receiver_status(true);
    harness
}

impl RelayHarness {
    /// Reports as the other relay whether it has a receiver of the flow.
    fn send_receiver_status(&mut self, has_receiver: bool) {
        let mut scratch = [[0; AliasStatus::BYTES]; 1];
        let alias = Alias::new(1).expect("not zero");
        let mut known = core::iter::once(AliasStatus { alias, has_receiver });
        let aliases = AliasStatuses::collect(&mut known, &mut scratch);
        self.send_message(
            OTHER,
            &Message::AliasesReply(AliasesReply { aliases, networks: NetworkTags::EMPTY }),
        );
    }

    /// Advances the time, and returns the sender's events with their times in milliseconds from
    /// now.
    fn advance_collecting(&mut self, time: Duration) -> Vec<(u64, ClientEvent)> {
        let begin = self.now;
        let mut events = Vec::new();
        while self.now < begin + time {
            self.now += ms(10);
            self.exchange();
            let at = self.now.saturating_since(begin).as_millis();
            events.extend(self.drain_events(1).into_iter().map(|event| (at, event)));
        }
        events
    }

    /// Sends a copy every 10 ms as the sender.
    fn copies_for(&mut self, time: Duration) -> Vec<(u64, ClientEvent)> {
        let begin = self.now;
        let mut events = Vec::new();
        for sequence in 0.. {
            if self.now >= begin + time {
                break;
            }
            let now = self.now;
            let client = self.client(1);
            let (alias, role) = (Alias::new(1).expect("not zero"), EnvelopeRole::Copy);
            let contents = EnvelopeContents {
                role,
                alias,
                sequence_low: sequence,
                coded: &[7; 40],
                ecn: Ecn::NotCapable,
                owner: None,
            };
            client.sessions.send_envelope(client.session, &contents, Priority::Scavenger, now);
            let since = now.saturating_since(begin).as_millis();
            events.extend(self.advance_collecting(ms(10)).into_iter().map(|(at, event)| (since + at, event)));
        }
        events
    }

    fn peer_fails(&mut self) {
        self.clients.retain(|client| client.who != OTHER);
    }
}

#[test]
fn a_sender_whose_packets_get_no_further_is_told_until_it_answers() {
    let mut harness = relay_with_outbound_flow();
    assert_eq!(harness.copies_for(ms(2_000)), []);
    harness.peer_fails();
    let events = harness.copies_for(ms(450));
    assert!(matches!(events[..], [(350..=450, UNREACHABLE)]), "{events:?}");
    let again: Vec<u64> =
        harness.copies_for(ms(3_000)).into_iter().map(|(at, _)| at + 450 - events[0].0).collect();
    assert_eq!(again, [250, 750, 1_750]);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Err(Refusal::Unreachable));
    assert_eq!(harness.copies_for(ms(10_000)), []);
}

#[test]
fn a_flow_registered_while_the_egress_relay_is_missing_is_told_of_it_and_of_its_return() {
    let mut harness = relay_with_outbound_flow();
    harness.peer_fails();
    harness.copies_for(ms(600));
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Err(Refusal::Unreachable));
    assert_eq!(harness.registers(1, flow(1, 2, 2), FlowRole::Sender), Err(Refusal::Unreachable));
    harness.enter(OTHER);
    assert_eq!(harness.advance_collecting(ms(2_000)), [], "it restarted, and has no receivers yet");
    harness.send_receiver_status(true);
    assert_eq!(
        harness.advance_collecting(ms(2_000)),
        [(0, ClientEvent::Registered(Ok(1)))].map(|(_, event)| (10, event))
    );
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
}

#[test]
fn an_egress_relay_that_restarts_before_it_is_missed_has_no_receivers_until_it_says_so() {
    let mut harness = relay_with_outbound_flow();
    harness.now += ms(50);
    harness.enter(OTHER);
    assert_eq!(harness.drain_events(1), [UNREACHABLE]);
    harness.send_receiver_status(false);
    assert_eq!(harness.drain_events(1), []);
    harness.send_receiver_status(true);
    assert_eq!(harness.drain_events(1), [ClientEvent::Registered(Ok(1))]);
    harness.send_receiver_status(true);
    assert_eq!(harness.drain_events(1), [], "once");
}

#[test]
fn a_flow_whose_receiver_never_came_is_not_cut() {
    let there = grant(1, 2);
    let mut harness =
        RelayHarness::new(alloc::vec![Grant { ingress: there.egress, egress: there.ingress, ..there }]);
    harness.enter(1);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    harness.send_receiver_status(false);
    assert_eq!(harness.advance_collecting(ms(3_000)), []);
}
