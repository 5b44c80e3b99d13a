//! Flows are offered to peers, and by them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::{AgentId, FlowId, Time};
use byway_wire::Message;
use byway_wire::messages::{self, OfferRefusal, Offered};

use super::closing::Life;
use super::events::Event;
use super::terms::{Offer, may_offer};
use super::{Agent, Role};
use crate::limits::{
    HASTY_TRIES, OFFER_RETRY, OFFER_RETRY_MAX, OFFERS_PER_PEER_MAX, REFUSAL_STANDS_FOR, REFUSALS_MAX,
    URGENT_OFFERS_MAX,
};
use crate::session::{Origin, SessionId};

/// An offer that this agent made.
#[derive(Debug)]
struct Made {
    offer: Box<Offer>,
    tries: u32,
    /// When to say it (again); `None` once it is accepted.
    next: Option<Time>,
}

/// An offer that a peer made.
#[derive(Debug)]
struct Taken {
    offer: Box<Offer>,
    /// Whether the driver has accepted it; else it was told, and has not answered yet.
    is_accepted: bool,
}

/// An offer of a peer that was refused just now.
#[derive(Debug)]
struct Refused {
    at: Time,
    peer: AgentId,
    flow: FlowId,
    offer: Box<Offer>,
    refusal: OfferRefusal,
}

/// What becomes of an offer that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The driver hears of it.
    IsNew,
    /// The driver knows it.
    IsPending,
    /// It was accepted before.
    IsAccepted,
    /// It was refused just now.
    IsRefused(OfferRefusal),
    /// There are too many.
    HasNoRoom,
}

/// Offers made, and offers taken.
#[derive(Debug, Default)]
pub(super) struct Offers {
    made: BTreeMap<AgentId, BTreeMap<FlowId, Made>>,
    /// When those that are not accepted are to be said.
    due: BTreeSet<(Time, AgentId, FlowId)>,
    taken: BTreeMap<AgentId, BTreeMap<FlowId, Taken>>,
    /// The latest refusals, the oldest first.
    refused: VecDeque<Refused>,
    /// Those that the driver has to hear of.
    pub(super) news: VecDeque<(AgentId, FlowId, Box<Offer>)>,
}

impl Offers {
    /// Makes an offer, or replaces one; `false` if there are too many.
    fn make(&mut self, peer: AgentId, flow: FlowId, offer: Offer, now: Time) -> bool {
        self.withdraw(peer, flow);
        let made = self.made.entry(peer).or_default();
        if made.len() == OFFERS_PER_PEER_MAX {
            return false;
        }
        made.insert(flow, Made { offer: Box::new(offer), tries: 0, next: Some(now) });
        self.due.insert((now, peer, flow));
        true
    }

    fn withdraw(&mut self, peer: AgentId, flow: FlowId) -> Option<Made> {
        let made = self.made.get_mut(&peer)?.remove(&flow)?;
        if let Some(next) = made.next {
            self.due.remove(&(next, peer, flow));
        }
        Some(made)
    }

    /// Forgets a peer.
    pub(super) fn forget(&mut self, peer: AgentId) {
        self.made.remove(&peer);
        self.due.retain(|(_, offered, _)| *offered != peer);
        self.forget_taken(peer);
    }

    /// Forgets what a peer offered.
    fn forget_taken(&mut self, peer: AgentId) {
        self.taken.remove(&peer);
        self.refused.retain(|refused| refused.peer != peer);
        self.news.retain(|(from, ..)| *from != peer);
    }

    /// When an offer is to be said.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// An offer that is to be said now. Call until there is none.
    fn take_due(&mut self, now: Time) -> Option<(AgentId, FlowId, &Offer)> {
        let (_, peer, flow) = self.due.first().copied().filter(|(at, ..)| *at <= now)?;
        self.due.pop_first();
        let made = self.made.get_mut(&peer)?.get_mut(&flow)?;
        let doublings = made.tries.saturating_sub(HASTY_TRIES - 1).min(8);
        let next = now + (OFFER_RETRY * (1 << doublings)).min(OFFER_RETRY_MAX);
        (made.tries, made.next) = (made.tries + 1, Some(next));
        self.due.insert((next, peer, flow));
        Some((peer, flow, &made.offer))
    }

    /// A peer can be spoken to. One that began anew knows of no offer, and its own are void.
    pub(super) fn established(&mut self, peer: AgentId, fresh: bool, now: Time) {
        for (flow, made) in self.made.get_mut(&peer).into_iter().flatten() {
            if let Some(next) = made.next {
                self.due.remove(&(next, peer, *flow));
            }
            if fresh || made.next.is_some() {
                (made.tries, made.next) = (0, Some(now));
                self.due.insert((now, peer, *flow));
            }
        }
        if fresh {
            self.forget_taken(peer);
        }
    }

    /// Returns the offer that this agent made of a flow.
    pub(super) fn made(&self, peer: AgentId, flow: FlowId) -> Option<&Offer> {
        self.made.get(&peer)?.get(&flow).map(|made| &*made.offer)
    }

    /// True if the peer has not answered the offer of a flow.
    pub(super) fn awaits_answer(&self, peer: AgentId, flow: FlowId) -> bool {
        self.made.get(&peer).and_then(|made| made.get(&flow)).is_some_and(|made| made.next.is_some())
    }

    /// True if the driver has not answered a peer's offer of a flow.
    pub(super) fn is_pending(&self, peer: AgentId, flow: FlowId) -> bool {
        self.taken.get(&peer).and_then(|taken| taken.get(&flow)).is_some_and(|taken| !taken.is_accepted)
    }

    /// Takes an answer; what the driver is to know, if it is news.
    fn answered(&mut self, peer: AgentId, flow: FlowId, outcome: Result<(), OfferRefusal>) -> Option<Event> {
        let made = self.made.get_mut(&peer)?.get_mut(&flow)?;
        match outcome {
            Err(OfferRefusal::NotYet) => return None,
            Ok(()) => self.due.remove(&(made.next.take()?, peer, flow)),
            Err(_) => self.withdraw(peer, flow).is_some(),
        };
        Some(Event::OfferAnswered { peer, flow, outcome })
    }

    /// Takes an offer of a peer.
    fn take(&mut self, peer: AgentId, flow: FlowId, offer: Offer, now: Time) -> Verdict {
        self.refused.retain(|refused| now.saturating_since(refused.at) < REFUSAL_STANDS_FOR);
        let is_same =
            |refused: &&Refused| (refused.peer, refused.flow) == (peer, flow) && *refused.offer == offer;
        if let Some(refused) = self.refused.iter().rev().find(is_same) {
            return Verdict::IsRefused(refused.refusal);
        }
        let taken = self.taken.entry(peer).or_default();
        let has_room = taken.len() < OFFERS_PER_PEER_MAX;
        match taken.get(&flow) {
            Some(known) if *known.offer == offer && known.is_accepted => return Verdict::IsAccepted,
            Some(known) if *known.offer == offer => return Verdict::IsPending,
            None if !has_room => return Verdict::HasNoRoom,
            _ => {}
        }
        let offer = Box::new(offer);
        taken.insert(flow, Taken { offer: offer.clone(), is_accepted: false });
        self.news.push_back((peer, flow, offer));
        Verdict::IsNew
    }

    /// The driver answers; `false` if it was asked nothing.
    fn answer(&mut self, peer: AgentId, flow: FlowId, outcome: Result<(), OfferRefusal>, now: Time) -> bool {
        let Some(taken) = self.taken.get_mut(&peer) else {
            return false;
        };
        let Err(refusal) = outcome else {
            return taken.get_mut(&flow).map(|known| known.is_accepted = true).is_some();
        };
        let Some(Taken { offer, .. }) = taken.remove(&flow) else {
            return false;
        };
        if refusal != OfferRefusal::NotYet {
            if self.refused.len() == REFUSALS_MAX {
                self.refused.pop_front();
            }
            self.refused.push_back(Refused { at: now, peer, flow, offer, refusal });
        }
        true
    }

    /// A flow with a peer has ended here: an offer of it that was accepted is not any more.
    pub(super) fn flow_ended(&mut self, peer: AgentId, flow: FlowId) {
        if let Some(taken) = self.taken.get_mut(&peer)
            && taken.get(&flow).is_some_and(|known| known.is_accepted)
        {
            taken.remove(&flow);
        }
    }
}

impl Agent {
    /// Offers a peer that was added a flow in each direction, both of this number: the one that this agent sends by
    /// `offer.forth`, the other one by `offer.back`. An offer of the same number is replaced.
    ///
    /// It is said until the peer answers, which is [`Event::OfferAnswered`], and said anew whenever the peer has
    /// restarted. It stands until it is refused or withdrawn.
    ///
    /// `false`, and nothing is offered, if the peer was not added, if the number is not this agent's to offer (see
    /// [`may_offer`]), if the subject is too long, or if 4,096 offers to this peer stand already.
    pub fn offer(&mut self, peer: AgentId, flow: FlowId, offer: Offer, now: Time) -> bool {
        let is_good = self.life == Life::Open
            && self.peers.contains_key(&peer)
            && may_offer(self.number, peer, flow)
            && offer.to_wire(flow).is_some();
        if !is_good || !self.offers.make(peer, flow, offer, now) {
            return false;
        }
        self.say_offers(now);
        self.finish(now);
        true
    }

    /// Withdraws an offer: it is said no more. A peer that has accepted it is not told; it hears when the flows are closed.
    pub fn withdraw_offer(&mut self, peer: AgentId, flow: FlowId) {
        self.offers.withdraw(peer, flow);
        if let Some(session) = self.peers.get(&peer).copied() {
            self.on_offer_answer((session, flow), false);
        }
    }

    /// Answers an offer of a peer, after [`AgentOutput::Offered`](super::AgentOutput::Offered).
    ///
    /// Before an acceptance, the driver opens the flow with [`Agent::accept_flow`]. Early packets of a
    /// flow that is not open at the answer are dropped and counted as `flows_unknown`.
    ///
    /// The agent answers an accepted offer again without the driver, until one of the flows is closed.
    /// After a refusal, the offer comes up again if the peer repeats it a second later or after that.
    pub fn answer_offer(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        outcome: Result<(), OfferRefusal>,
        now: Time,
    ) {
        if self.offers.answer(peer, flow, outcome, now)
            && let Some(session) = self.peers.get(&peer).copied()
        {
            if self.sessions.is_established(session, now) {
                self.sessions.say_urgently(session, &Message::Offered(Offered { flow, outcome }), now);
            }
            self.release_early((session, flow), outcome.is_ok(), now);
        }
        self.finish(now);
    }

    /// Says the offers that are due.
    pub(super) fn say_offers(&mut self, now: Time) {
        let mut urgent: BTreeMap<SessionId, usize> = BTreeMap::new();
        let mut with_packets = Vec::new();
        while let Some((peer, flow, offer)) = self.offers.take_due(now) {
            self.work.entries += 1;
            let Some(session) = self.peers.get(&peer).copied() else {
                continue;
            };
            // Whoever waits for an answer wants to know whether the other side is still there.
            self.sessions.use_session(session, now);
            let is_established = self.sessions.is_established(session, now);
            let Some(message) = offer.to_wire(flow).filter(|_| is_established) else {
                continue;
            };
            let said = urgent.entry(session).or_default();
            *said += 1;
            if *said > URGENT_OFFERS_MAX {
                self.sessions.say(session, &Message::Offer(message), now);
            } else if self.early.contains((session, flow)) {
                with_packets.push((session, flow));
            } else {
                self.sessions.say_urgently(session, &Message::Offer(message), now);
            }
        }
        if !with_packets.is_empty() {
            // Relays pass on so much for an agent: offers go before data.
            for session in urgent.keys() {
                self.sessions.flush_urgent(*session, now);
            }
        }
        for key in with_packets {
            self.queue_early(key, 0, now);
        }
    }

    /// A peer offers a flow. What the driver need not be asked is answered by the way that it came: an offer comes by
    /// several at once.
    pub(super) fn offered(
        &mut self,
        session: SessionId,
        offer: &messages::Offer<'_>,
        origin: Origin,
        now: Time,
    ) {
        let Some(Role::Peer(peer)) = self.roles.get(&session).copied() else {
            return;
        };
        self.work.entries += self.offers.refused.len() as u64;
        let flow = offer.flow;
        if !may_offer(peer, self.number, flow) {
            self.answer_again(session, flow, Err(OfferRefusal::NumberTaken), origin, now);
            return;
        }
        match self.offers.take(peer, flow, Offer::from_wire(offer), now) {
            // Packets of an offer that this one replaces are not meant for it.
            Verdict::IsNew => self.early_buffer.forget((session, flow)),
            Verdict::IsPending => {}
            Verdict::IsAccepted => self.answer_again(session, flow, Ok(()), origin, now),
            Verdict::IsRefused(refusal) => self.answer_again(session, flow, Err(refusal), origin, now),
            Verdict::HasNoRoom => self.answer_again(session, flow, Err(OfferRefusal::NoRoom), origin, now),
        }
    }

    /// A peer answers an offer.
    pub(super) fn offer_answered(&mut self, session: SessionId, answer: Offered) {
        if let Some(Role::Peer(peer)) = self.roles.get(&session).copied() {
            let event = self.offers.answered(peer, answer.flow, answer.outcome);
            if event.is_some() {
                self.on_offer_answer((session, answer.flow), answer.outcome.is_ok());
            }
            self.events.extend(event);
        }
    }

    /// Returns the peer of a session; `None` for a relay's session.
    pub(super) fn agent_of(&self, session: SessionId) -> Option<AgentId> {
        match self.roles.get(&session) {
            Some(Role::Peer(peer)) => Some(*peer),
            Some(Role::Relay(_)) | None => None,
        }
    }

    fn answer_again(
        &mut self,
        session: SessionId,
        flow: FlowId,
        outcome: Result<(), OfferRefusal>,
        origin: Origin,
        now: Time,
    ) {
        if self.sessions.is_established(session, now) {
            self.sessions.answer_with(session, &Message::Offered(Offered { flow, outcome }), origin, now);
        }
    }
}
