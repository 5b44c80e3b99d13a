//! Tests of offers, and of their answers.

use super::*;
use crate::agent::{OfferRefusal, Terms};
use crate::limits::OFFERS_PER_PEER_MAX;

/// Flow number that the sender may offer, because its agent number is smaller.
const FLOW: FlowId = FlowId::new(4);

fn offer(subject: &str) -> Offer {
    let forth = Terms { service: Service::Caching, latency_budget: ms(123), ..Terms::default() };
    Offer { forth, back: Terms { shares: true, ..Terms::default() }, subject: subject.as_bytes().to_vec() }
}

impl TestNetwork {
    fn offers(&mut self, flow: FlowId, offer: Offer) -> bool {
        let is_made = self.agents[SENDER].offer(number(RECEIVER), flow, offer, self.now);
        self.drain(SENDER);
        is_made
    }

    fn answers(&mut self, flow: FlowId, outcome: Result<(), OfferRefusal>) {
        self.agents[RECEIVER].answer_offer(number(SENDER), flow, outcome, self.now);
        self.drain(RECEIVER);
    }

    fn offered_subjects(&self) -> Vec<&str> {
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

    /// Replaces one of the agents by a new incarnation.
    fn restart(&mut self, who: usize) {
        self.agents[who] = agent(who, 70, 1_000_000 + self.now.as_nanos(), self.now);
    }
}

#[test]
fn an_offer_arrives_as_it_was_made_and_the_answer_comes_back() {
    for outcome in [Ok(()), Err(OfferRefusal::UnknownSubject), Err(OfferRefusal::Full)] {
        let mut network = TestNetwork::new(&settings(Service::Internet));
        assert!(network.offers(FLOW, offer("video")));
        network.run(ms(100));
        assert_eq!(network.offers, [(RECEIVER, number(SENDER), FLOW, offer("video"))]);
        network.answers(FLOW, outcome);
        network.run(ms(100));
        assert_eq!(network.outcomes(), [outcome]);
        network.run(ms(60_000));
        assert_eq!(
            (network.offered_subjects().len(), network.outcomes().len()),
            (1, 1),
            "the offer is not repeated"
        );
    }
}

#[test]
fn an_offer_begins_the_session_it_needs() {
    let mut network = TestNetwork::unregistered(&settings(Service::Internet));
    network.loses(|_| true);
    assert!(network.offers(FLOW, offer("video")));
    network.run(ms(20_000));
    network.loses(|_| false);
    network.run(ms(8_500));
    assert_eq!(network.offered_subjects(), ["video"]);
}

#[test]
fn an_offer_is_said_until_it_is_answered_and_comes_up_once() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.offers(FLOW, offer("video"));
    network.run(ms(20_000));
    assert_eq!(network.offered_subjects(), ["video"]);
    network.loses(|datagram| datagram.from == RECEIVER && datagram.to == SENDER);
    network.answers(FLOW, Ok(()));
    network.run(ms(100));
    assert_eq!(network.outcomes(), [], "the answer got lost");
    network.loses(|_| false);
    network.run(ms(9_000));
    assert_eq!((network.offered_subjects(), network.outcomes()), (alloc::vec!["video"], alloc::vec![Ok(())]));
}

#[test]
fn an_offer_that_is_withdrawn_is_said_no_more() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.loses(|datagram| datagram.from == SENDER && datagram.to == RECEIVER);
    network.offers(FLOW, offer("video"));
    network.agents[SENDER].withdraw_offer(number(RECEIVER), FLOW);
    network.loses(|_| false);
    network.run(ms(20_000));
    assert_eq!(network.offered_subjects(), [] as [&str; 0]);
}

#[test]
fn not_yet_means_to_ask_again() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.offers(FLOW, offer("video"));
    network.run(ms(100));
    network.answers(FLOW, Err(OfferRefusal::NotYet));
    network.run(ms(1_000));
    assert_eq!((network.offered_subjects(), network.outcomes()), (alloc::vec!["video"; 2], alloc::vec![]));
    network.answers(FLOW, Ok(()));
    network.run(ms(1_000));
    assert_eq!(network.outcomes(), [Ok(())]);
}

#[test]
fn another_offer_of_the_same_number_comes_up_again() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.offers(FLOW, offer("video"));
    network.run(ms(100));
    network.answers(FLOW, Ok(()));
    network.run(ms(100));
    network.offers(FLOW, offer("audio"));
    network.run(ms(100));
    network.answers(FLOW, Err(OfferRefusal::NotAllowed));
    network.run(ms(1_000));
    assert_eq!(network.offered_subjects(), ["video", "audio"]);
    assert_eq!(network.outcomes(), [Ok(()), Err(OfferRefusal::NotAllowed)]);
}

#[test]
fn who_restarts_is_offered_again_what_it_had_accepted() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.offers(FLOW, offer("video"));
    network.run(ms(100));
    network.answers(FLOW, Ok(()));
    network.run(ms(100));
    network.restart(RECEIVER);
    network.stream(200);
    assert_eq!(network.offered_subjects(), ["video", "video"]);
    network.answers(FLOW, Err(OfferRefusal::UnknownSubject));
    network.run(ms(1_000));
    assert_eq!(network.outcomes(), [Ok(()), Err(OfferRefusal::UnknownSubject)]);
}

#[test]
fn what_an_agent_offered_before_it_restarted_is_void() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.offers(FLOW, offer("video"));
    network.run(ms(100));
    network.answers(FLOW, Ok(()));
    network.run(ms(100));
    network.restart(SENDER);
    network.offers(FLOW, offer("video"));
    network.run(ms(5_000));
    assert_eq!(
        network.offered_subjects(),
        ["video", "video"],
        "the driver gets the offer again, although it was accepted once"
    );
}

#[test]
fn an_offer_whose_flows_were_closed_comes_up_again() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.offers(FLOW, offer("video"));
    network.run(ms(100));
    let now = network.now;
    let key = flow_between(number(SENDER), number(RECEIVER), FLOW);
    let received =
        network.agents[RECEIVER].accept_flow(key, settings(Service::Internet), now).expect("it is new");
    network.answers(FLOW, Ok(()));
    network.run(ms(100));
    network.agents[RECEIVER].close_received_flow(received, network.now);
    network.drain(RECEIVER);
    network.offers(FLOW, offer("video"));
    network.run(ms(1_000));
    assert_eq!(network.offered_subjects(), ["video", "video"]);
}

#[test]
fn nobody_offers_the_other_s_numbers() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let odd = FlowId::new(5);
    assert!(!network.offers(odd, offer("video")));
    let session = network.agents[SENDER].peers[&number(RECEIVER)];
    let message = offer("video");
    let message = Message::Offer(message.to_wire(odd).expect("it is short enough"));
    network.agents[SENDER].sessions.queue_message(session, &message, network.now);
    network.agents[SENDER].handle(AgentInput::Deadline, network.now);
    network.drain(SENDER);
    let before = network.sent.len();
    network.run(ms(100));
    assert_eq!(network.offered_subjects(), [] as [&str; 0]);
    assert!(
        network.sent[before..].iter().any(|sent| sent.from == RECEIVER && sent.to == SENDER),
        "an answer"
    );
}

#[test]
fn offers_are_bounded_at_both_ends() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    assert!(!network.agents[SENDER].offer(AgentId::new(77), FLOW, offer("video"), network.now), "a stranger");
    let long = Offer { subject: alloc::vec![7; 256], ..Offer::default() };
    assert!(!network.agents[SENDER].offer(number(RECEIVER), FLOW, long, network.now));
    let numbers = (0..u16::MAX).step_by(2).map(FlowId::new);
    let made = numbers.clone().filter(|flow| {
        let offer = Offer { subject: alloc::vec![1], ..Offer::default() };
        network.agents[SENDER].offer(number(RECEIVER), *flow, offer, network.now)
    });
    assert_eq!(made.count(), OFFERS_PER_PEER_MAX);
    network.drain(SENDER);
    network.run(ms(100));
    assert_eq!(network.offers.len(), OFFERS_PER_PEER_MAX);
    // The receiver does not forget an offer that the sender withdraws, so the limit stays reached.
    let first = numbers.clone().next().expect("there are some");
    let another = FlowId::new(u16::MAX - 1);
    network.agents[SENDER].withdraw_offer(number(RECEIVER), first);
    let is_made = network.agents[SENDER].offer(number(RECEIVER), another, offer("more"), network.now);
    assert!(is_made);
    network.drain(SENDER);
    network.run(ms(100));
    assert_eq!(network.offers.len(), OFFERS_PER_PEER_MAX);
    let refused =
        Event::OfferAnswered { peer: number(RECEIVER), flow: another, outcome: Err(OfferRefusal::Full) };
    assert!(network.events.contains(&(SENDER, refused)));
}

/// Sends `copies` of one offer to a receiver that answers the first. Returns the offers that its
/// driver sees, and the packets that it sends back.
fn answers_to(copies: usize, outcome: Result<(), OfferRefusal>) -> (usize, usize) {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let session = network.agents[SENDER].peers[&number(RECEIVER)];
    let offer = offer("video");
    network.run(ms(5));
    let before = network.sent.len();
    for nth in 0..copies {
        let message = Message::Offer(offer.to_wire(FLOW).expect("it is short enough"));
        let now = network.now;
        network.agents[SENDER].sessions.send_alone(session, &message, Priority::Source, now);
        network.drain(SENDER);
        network.run(ms(1));
        if nth == 0 {
            network.run(ms(60));
            network.answers(FLOW, outcome);
        }
    }
    network.run(ms(60));
    let back = network.sent[before..].iter().filter(|sent| sent.from == RECEIVER && sent.to == SENDER);
    (network.offered_subjects().len(), back.count())
}

#[test]
fn an_offer_that_comes_by_many_ways_comes_up_once_and_is_answered_once_for_each() {
    for outcome in [Ok(()), Err(OfferRefusal::NotAllowed)] {
        let (offered, answers) = answers_to(100, outcome);
        assert_eq!(offered, 1, "{outcome:?}");
        assert!((100..115).contains(&answers), "{answers}, of which some are probes' replies");
    }
}
