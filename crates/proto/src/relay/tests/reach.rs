//! Flows whose packets get no further.

use super::*;
use byway_wire::messages::{AliasKnowledge, AliasKnowledges, AliasesKnown};

const UNREACHABLE: Heard = Heard::Registered(Err(Refusal::Unreachable));

/// A flow from this relay to the other one, which knows its receiver.
fn onward() -> Desk {
    let there = grant(1, 2);
    let mut desk = Desk::new(alloc::vec![Grant { ingress: there.egress, egress: there.ingress, ..there }]);
    desk.enter(1);
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    desk.says_known(true);
    desk
}

impl Desk {
    /// The other relay says whether it has a receiver of the flow.
    fn says_known(&mut self, has_receiver: bool) {
        let mut scratch = [[0; AliasKnowledge::BYTES]; 1];
        let alias = Alias::new(1).expect("not zero");
        let mut known = core::iter::once(AliasKnowledge { alias, has_receiver });
        let aliases = AliasKnowledges::collect(&mut known, &mut scratch);
        self.says(OTHER, &Message::AliasesKnown(AliasesKnown { aliases }));
    }

    /// Time passes; when the sender heard something, in milliseconds from now.
    fn passes(&mut self, time: Duration) -> Vec<(u64, Heard)> {
        let begin = self.now;
        let mut heard = Vec::new();
        while self.now < begin + time {
            self.now += ms(10);
            self.exchange();
            let at = self.now.saturating_since(begin).as_millis();
            heard.extend(self.heard(1).into_iter().map(|heard| (at, heard)));
        }
        heard
    }

    /// The sender copies a packet every 10 ms.
    fn copies_for(&mut self, time: Duration) -> Vec<(u64, Heard)> {
        let begin = self.now;
        let mut heard = Vec::new();
        for sequence in 0.. {
            if self.now >= begin + time {
                break;
            }
            let now = self.now;
            let client = self.client(1);
            let (alias, role) = (Alias::new(1).expect("not zero"), EnvelopeRole::Copy);
            let contents = Enveloped {
                role,
                alias,
                sequence_low: sequence,
                coded: &[7; 40],
                ecn: Ecn::NotCapable,
                owner: None,
            };
            client.sessions.send_envelope(client.session, &contents, Urgency::Scavenger, now);
            let since = now.saturating_since(begin).as_millis();
            heard.extend(self.passes(ms(10)).into_iter().map(|(at, heard)| (since + at, heard)));
        }
        heard
    }

    fn other_goes(&mut self) {
        self.clients.retain(|client| client.who != OTHER);
    }
}

#[test]
fn a_sender_whose_packets_get_no_further_is_told_until_it_answers() {
    let mut desk = onward();
    assert_eq!(desk.copies_for(ms(2_000)), []);
    desk.other_goes();
    let heard = desk.copies_for(ms(450));
    assert!(matches!(heard[..], [(350..=450, UNREACHABLE)]), "{heard:?}");
    let again: Vec<u64> =
        desk.copies_for(ms(3_000)).into_iter().map(|(at, _)| at + 450 - heard[0].0).collect();
    assert_eq!(again, [250, 750, 1_750]);
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Err(Refusal::Unreachable));
    assert_eq!(desk.copies_for(ms(10_000)), []);
}

#[test]
fn a_flow_registered_while_the_egress_relay_is_missing_is_told_of_it_and_of_its_return() {
    let mut desk = onward();
    desk.other_goes();
    desk.copies_for(ms(600));
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Err(Refusal::Unreachable));
    assert_eq!(desk.registers(1, flow(1, 2, 2), FlowRole::Sender), Err(Refusal::Unreachable));
    desk.enter(OTHER);
    assert_eq!(desk.passes(ms(2_000)), [], "it restarted, and has no receivers yet");
    desk.says_known(true);
    assert_eq!(desk.passes(ms(2_000)), [(0, Heard::Registered(Ok(1)))].map(|(_, heard)| (10, heard)));
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
}

#[test]
fn an_egress_relay_that_restarts_before_it_is_missed_has_no_receivers_until_it_says_so() {
    let mut desk = onward();
    desk.now += ms(50);
    desk.enter(OTHER);
    assert_eq!(desk.heard(1), [UNREACHABLE]);
    desk.says_known(false);
    assert_eq!(desk.heard(1), []);
    desk.says_known(true);
    assert_eq!(desk.heard(1), [Heard::Registered(Ok(1))]);
    desk.says_known(true);
    assert_eq!(desk.heard(1), [], "once");
}

#[test]
fn a_flow_whose_receiver_never_came_is_not_cut() {
    let there = grant(1, 2);
    let mut desk = Desk::new(alloc::vec![Grant { ingress: there.egress, egress: there.ingress, ..there }]);
    desk.enter(1);
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    desk.says_known(false);
    assert_eq!(desk.passes(ms(3_000)), []);
}
