//! Flows are offered, and answered for.

use super::*;
use crate::agent::{OfferRefusal, Terms};
use crate::limits::OFFERS_PER_PEER_MAX;

/// A number that the sender may offer, as it is the one with the smaller number.
const FLOW: FlowId = FlowId::new(4);

fn offer(subject: &str) -> Offer {
    let forth = Terms { service: Service::Caching, latency_budget: ms(123), ..Terms::default() };
    Offer { forth, back: Terms { standby: true, ..Terms::default() }, subject: subject.as_bytes().to_vec() }
}

impl Hall {
    fn offers(&mut self, flow: FlowId, offer: Offer) -> bool {
        let is_made = self.agents[SENDER].offer(number(RECEIVER), flow, offer, self.now);
        self.drain(SENDER);
        is_made
    }

    fn answers(&mut self, flow: FlowId, outcome: Result<(), OfferRefusal>) {
        self.agents[RECEIVER].answer_offer(number(SENDER), flow, outcome, self.now);
        self.drain(RECEIVER);
    }

    fn heard_of(&self) -> Vec<&str> {
        let subjects = self.offers.iter().map(|(who, peer, _, offer)| {
            assert_eq!((*who, *peer), (RECEIVER, number(SENDER)));
            core::str::from_utf8(&offer.subject).expect("subjects are text here")
        });
        subjects.collect()
    }

    fn outcomes(&self) -> Vec<Result<(), OfferRefusal>> {
        let outcomes = self.events.iter().filter_map(|(who, event)| match *event {
            Event::OfferAnswered { peer, flow, outcome } => {
                assert_eq!((*who, peer, flow), (SENDER, number(RECEIVER), FLOW));
                Some(outcome)
            }
            _ => None,
        });
        outcomes.collect()
    }

    /// An agent begins anew, in the place of one of the two.
    fn restart(&mut self, who: usize) {
        self.agents[who] = agent(who, 70, 1_000_000 + self.now.as_nanos(), self.now);
    }
}

#[test]
fn an_offer_arrives_as_it_was_made_and_the_answer_comes_back() {
    for outcome in [Ok(()), Err(OfferRefusal::UnknownSubject), Err(OfferRefusal::NoRoom)] {
        let mut hall = Hall::new(&settings(Service::Internet));
        assert!(hall.offers(FLOW, offer("video")));
        hall.run(ms(100));
        assert_eq!(hall.offers, [(RECEIVER, number(SENDER), FLOW, offer("video"))]);
        hall.answers(FLOW, outcome);
        hall.run(ms(100));
        assert_eq!(hall.outcomes(), [outcome]);
        hall.run(ms(60_000));
        assert_eq!((hall.heard_of().len(), hall.outcomes().len()), (1, 1), "it is said no more");
    }
}

#[test]
fn an_offer_begins_the_session_it_needs() {
    let mut hall = Hall::unregistered(&settings(Service::Internet));
    hall.loses(|_| true);
    assert!(hall.offers(FLOW, offer("video")));
    hall.run(ms(20_000));
    hall.loses(|_| false);
    hall.run(ms(8_500));
    assert_eq!(hall.heard_of(), ["video"]);
}

#[test]
fn an_offer_is_said_until_it_is_answered_and_comes_up_once() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.offers(FLOW, offer("video"));
    hall.run(ms(20_000));
    assert_eq!(hall.heard_of(), ["video"]);
    hall.loses(|datagram| datagram.from == RECEIVER && datagram.to == SENDER);
    hall.answers(FLOW, Ok(()));
    hall.run(ms(100));
    assert_eq!(hall.outcomes(), [], "the answer got lost");
    hall.loses(|_| false);
    hall.run(ms(9_000));
    assert_eq!((hall.heard_of(), hall.outcomes()), (alloc::vec!["video"], alloc::vec![Ok(())]));
}

#[test]
fn an_offer_that_is_withdrawn_is_said_no_more() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.loses(|datagram| datagram.from == SENDER && datagram.to == RECEIVER);
    hall.offers(FLOW, offer("video"));
    hall.agents[SENDER].withdraw_offer(number(RECEIVER), FLOW);
    hall.loses(|_| false);
    hall.run(ms(20_000));
    assert_eq!(hall.heard_of(), [] as [&str; 0]);
}

#[test]
fn not_yet_means_to_ask_again() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.offers(FLOW, offer("video"));
    hall.run(ms(100));
    hall.answers(FLOW, Err(OfferRefusal::NotYet));
    hall.run(ms(1_000));
    assert_eq!((hall.heard_of(), hall.outcomes()), (alloc::vec!["video"; 2], alloc::vec![]));
    hall.answers(FLOW, Ok(()));
    hall.run(ms(1_000));
    assert_eq!(hall.outcomes(), [Ok(())]);
}

#[test]
fn another_offer_of_the_same_number_comes_up_again() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.offers(FLOW, offer("video"));
    hall.run(ms(100));
    hall.answers(FLOW, Ok(()));
    hall.run(ms(100));
    hall.offers(FLOW, offer("audio"));
    hall.run(ms(100));
    hall.answers(FLOW, Err(OfferRefusal::NotAllowed));
    hall.run(ms(1_000));
    assert_eq!(hall.heard_of(), ["video", "audio"]);
    assert_eq!(hall.outcomes(), [Ok(()), Err(OfferRefusal::NotAllowed)]);
}

#[test]
fn who_restarts_is_offered_again_what_it_had_accepted() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.offers(FLOW, offer("video"));
    hall.run(ms(100));
    hall.answers(FLOW, Ok(()));
    hall.run(ms(100));
    hall.restart(RECEIVER);
    hall.stream(200);
    assert_eq!(hall.heard_of(), ["video", "video"]);
    hall.answers(FLOW, Err(OfferRefusal::UnknownSubject));
    hall.run(ms(1_000));
    assert_eq!(hall.outcomes(), [Ok(()), Err(OfferRefusal::UnknownSubject)]);
}

#[test]
fn what_an_agent_offered_before_it_restarted_is_void() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.offers(FLOW, offer("video"));
    hall.run(ms(100));
    hall.answers(FLOW, Ok(()));
    hall.run(ms(100));
    hall.restart(SENDER);
    hall.offers(FLOW, offer("video"));
    hall.run(ms(5_000));
    assert_eq!(hall.heard_of(), ["video", "video"], "it comes up, although it was accepted once");
}

#[test]
fn an_offer_whose_flows_were_closed_comes_up_again() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.offers(FLOW, offer("video"));
    hall.run(ms(100));
    let now = hall.now;
    let key = flow_between(number(SENDER), number(RECEIVER), FLOW);
    let received =
        hall.agents[RECEIVER].accept_flow(key, settings(Service::Internet), now).expect("it is new");
    hall.answers(FLOW, Ok(()));
    hall.run(ms(100));
    hall.agents[RECEIVER].close_received_flow(received, hall.now);
    hall.drain(RECEIVER);
    hall.offers(FLOW, offer("video"));
    hall.run(ms(1_000));
    assert_eq!(hall.heard_of(), ["video", "video"]);
}

#[test]
fn nobody_offers_the_other_s_numbers() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let odd = FlowId::new(5);
    assert!(!hall.offers(odd, offer("video")));
    let session = hall.agents[SENDER].peers[&number(RECEIVER)];
    let message = offer("video");
    let message = Message::Offer(message.to_wire(odd).expect("it is short enough"));
    hall.agents[SENDER].sessions.say(session, &message, hall.now);
    hall.agents[SENDER].handle(AgentInput::Deadline, hall.now);
    hall.drain(SENDER);
    let before = hall.sent.len();
    hall.run(ms(100));
    assert_eq!(hall.heard_of(), [] as [&str; 0]);
    assert!(hall.sent[before..].iter().any(|sent| sent.from == RECEIVER && sent.to == SENDER), "an answer");
}

#[test]
fn offers_are_bounded_at_both_ends() {
    let mut hall = Hall::new(&settings(Service::Internet));
    assert!(!hall.agents[SENDER].offer(AgentId::new(77), FLOW, offer("video"), hall.now), "a stranger");
    let long = Offer { subject: alloc::vec![7; 256], ..Offer::default() };
    assert!(!hall.agents[SENDER].offer(number(RECEIVER), FLOW, long, hall.now));
    let numbers = (0..u16::MAX).step_by(2).map(FlowId::new);
    let made = numbers.clone().filter(|flow| {
        let offer = Offer { subject: alloc::vec![1], ..Offer::default() };
        hall.agents[SENDER].offer(number(RECEIVER), *flow, offer, hall.now)
    });
    assert_eq!(made.count(), OFFERS_PER_PEER_MAX);
    hall.drain(SENDER);
    hall.run(ms(100));
    assert_eq!(hall.offers.len(), OFFERS_PER_PEER_MAX);
    // One that is withdrawn here is not forgotten there, and makes no room.
    let first = numbers.clone().next().expect("there are some");
    let another = FlowId::new(u16::MAX - 1);
    hall.agents[SENDER].withdraw_offer(number(RECEIVER), first);
    let is_made = hall.agents[SENDER].offer(number(RECEIVER), another, offer("more"), hall.now);
    assert!(is_made);
    hall.drain(SENDER);
    hall.run(ms(100));
    assert_eq!(hall.offers.len(), OFFERS_PER_PEER_MAX);
    let refused =
        Event::OfferAnswered { peer: number(RECEIVER), flow: another, outcome: Err(OfferRefusal::NoRoom) };
    assert!(hall.events.contains(&(SENDER, refused)));
}

/// How often the receiver's driver hears of an offer that comes so many times, and how many packets go back, if it is
/// answered so at once.
fn answers_to(copies: usize, outcome: Result<(), OfferRefusal>) -> (usize, usize) {
    let mut hall = Hall::new(&settings(Service::Internet));
    let session = hall.agents[SENDER].peers[&number(RECEIVER)];
    let offer = offer("video");
    hall.run(ms(5));
    let before = hall.sent.len();
    for nth in 0..copies {
        let message = Message::Offer(offer.to_wire(FLOW).expect("it is short enough"));
        let now = hall.now;
        hall.agents[SENDER].sessions.send_alone(session, &message, Urgency::Original, now);
        hall.drain(SENDER);
        hall.run(ms(1));
        if nth == 0 {
            hall.run(ms(60));
            hall.answers(FLOW, outcome);
        }
    }
    hall.run(ms(60));
    let back = hall.sent[before..].iter().filter(|sent| sent.from == RECEIVER && sent.to == SENDER);
    (hall.heard_of().len(), back.count())
}

#[test]
fn an_offer_that_comes_by_many_ways_comes_up_once_and_is_answered_once_for_each() {
    for outcome in [Ok(()), Err(OfferRefusal::NotAllowed)] {
        let (heard, answers) = answers_to(100, outcome);
        assert_eq!(heard, 1, "{outcome:?}");
        assert!((100..115).contains(&answers), "{answers}, of which some are probes' replies");
    }
}
