//! Offers of flows to peers, and offers of peers.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::{AgentId, FlowId, Time};
use byway_wire::Message;
use byway_wire::messages::{self, OfferRefusal, OfferReply};

use super::closing::AgentState;
use super::events::Event;
use super::terms::{Offer, may_offer};
use super::{Agent, Role};
use crate::limits::{
    HASTY_TRIES, OFFER_RETRY, OFFER_RETRY_MAX, OFFERS_PER_PEER_MAX, REFUSAL_STANDS_FOR, REFUSALS_MAX,
    URGENT_OFFERS_MAX,
};
use crate::session::{Route, SessionId};

/// Offer that this agent made to a peer.
#[derive(Debug)]
struct SentOffer {
    offer: Box<Offer>,
    tries: u32,
    /// Time of the next transmission; `None` after the peer has accepted it.
    next: Option<Time>,
}

/// Offer that a peer made to this agent.
#[derive(Debug)]
struct ReceivedOffer {
    offer: Box<Offer>,
    /// True if the driver has accepted it. Otherwise the driver has not answered yet.
    is_accepted: bool,
}

/// Offer of a peer that the driver refused recently, with the reason.
#[derive(Debug)]
struct RefusalRecord {
    at: Time,
    peer: AgentId,
    flow: FlowId,
    offer: Box<Offer>,
    refusal: OfferRefusal,
}

/// Result of handling a peer's offer: the answer to send, if no driver is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfferVerdict {
    /// The offer is new, and queued for the driver.
    New,
    /// The driver has not answered the same offer yet.
    Pending,
    /// The driver accepted the same offer before.
    Accepted,
    /// The driver refused the same offer within [`REFUSAL_STANDS_FOR`].
    Refused(OfferRefusal),
    /// The peer has [`OFFERS_PER_PEER_MAX`] offers in force already.
    Full,
}

/// Offers that this agent made to peers and received from them.
#[derive(Debug, Default)]
pub(super) struct Offers {
    sent: BTreeMap<AgentId, BTreeMap<FlowId, SentOffer>>,
    /// Transmission times of sent offers that are not accepted.
    due: BTreeSet<(Time, AgentId, FlowId)>,
    received: BTreeMap<AgentId, BTreeMap<FlowId, ReceivedOffer>>,
    /// Latest refusals of peers' offers, the oldest first.
    refused: VecDeque<RefusalRecord>,
    /// Peers' offers that the driver has not polled yet.
    pub(super) unreported: VecDeque<(AgentId, FlowId, Box<Offer>)>,
}

impl Offers {
    /// Records an offer to a peer, due now, in place of an earlier one of the same number; `false`
    /// if there are too many.
    fn insert_sent(&mut self, peer: AgentId, flow: FlowId, offer: Offer, now: Time) -> bool {
        self.withdraw(peer, flow);
        let sent = self.sent.entry(peer).or_default();
        if sent.len() == OFFERS_PER_PEER_MAX {
            return false;
        }
        sent.insert(flow, SentOffer { offer: Box::new(offer), tries: 0, next: Some(now) });
        self.due.insert((now, peer, flow));
        true
    }

    fn withdraw(&mut self, peer: AgentId, flow: FlowId) -> Option<SentOffer> {
        let sent = self.sent.get_mut(&peer)?.remove(&flow)?;
        if let Some(next) = sent.next {
            self.due.remove(&(next, peer, flow));
        }
        Some(sent)
    }

    /// Forgets a removed peer: all offers to it and from it.
    pub(super) fn forget(&mut self, peer: AgentId) {
        self.sent.remove(&peer);
        self.due.retain(|(_, offered, _)| *offered != peer);
        self.forget_received(peer);
    }

    /// Forgets the offers that a peer made, because it has restarted or was removed.
    fn forget_received(&mut self, peer: AgentId) {
        self.received.remove(&peer);
        self.refused.retain(|refused| refused.peer != peer);
        self.unreported.retain(|(from, ..)| *from != peer);
    }

    /// Returns the time of the next transmission of an offer.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Returns an offer that is due, and schedules its next transmission. Call until it returns
    /// `None`.
    fn pop_due(&mut self, now: Time) -> Option<(AgentId, FlowId, &Offer)> {
        let (_, peer, flow) = self.due.first().copied().filter(|(at, ..)| *at <= now)?;
        self.due.pop_first();
        let sent = self.sent.get_mut(&peer)?.get_mut(&flow)?;
        let doublings = sent.tries.saturating_sub(HASTY_TRIES - 1).min(8);
        let next = now + (OFFER_RETRY * (1 << doublings)).min(OFFER_RETRY_MAX);
        (sent.tries, sent.next) = (sent.tries + 1, Some(next));
        self.due.insert((next, peer, flow));
        Some((peer, flow, &sent.offer))
    }

    /// Makes the unanswered offers to a peer due, because its session is established. If the peer
    /// is `fresh` (it restarted), all offers to it are due, and its own are void.
    pub(super) fn on_established(&mut self, peer: AgentId, fresh: bool, now: Time) {
        for (flow, sent) in self.sent.get_mut(&peer).into_iter().flatten() {
            if let Some(next) = sent.next {
                self.due.remove(&(next, peer, *flow));
            }
            if fresh || sent.next.is_some() {
                (sent.tries, sent.next) = (0, Some(now));
                self.due.insert((now, peer, *flow));
            }
        }
        if fresh {
            self.forget_received(peer);
        }
    }

    /// Returns this agent's offer of a flow to a peer.
    pub(super) fn sent_offer(&self, peer: AgentId, flow: FlowId) -> Option<&Offer> {
        self.sent.get(&peer)?.get(&flow).map(|sent| &*sent.offer)
    }

    /// True if the peer has not answered this agent's offer of a flow.
    pub(super) fn awaits_answer(&self, peer: AgentId, flow: FlowId) -> bool {
        self.sent.get(&peer).and_then(|sent| sent.get(&flow)).is_some_and(|sent| sent.next.is_some())
    }

    /// True if the driver has not answered a peer's offer of a flow.
    pub(super) fn is_pending(&self, peer: AgentId, flow: FlowId) -> bool {
        self.received
            .get(&peer)
            .and_then(|received| received.get(&flow))
            .is_some_and(|received| !received.is_accepted)
    }

    /// Handles a peer's answer to an offer; returns the event for the driver, or `None` for a
    /// repeated answer.
    fn on_reply(&mut self, peer: AgentId, flow: FlowId, outcome: Result<(), OfferRefusal>) -> Option<Event> {
        let sent = self.sent.get_mut(&peer)?.get_mut(&flow)?;
        match outcome {
            Err(OfferRefusal::NotYet) => return None,
            Ok(()) => self.due.remove(&(sent.next.take()?, peer, flow)),
            Err(_) => self.withdraw(peer, flow).is_some(),
        };
        Some(Event::OfferAnswered { peer, flow, outcome })
    }

    /// Handles a peer's offer: queues a new one for the driver, and returns its state.
    fn on_offer(&mut self, peer: AgentId, flow: FlowId, offer: Offer, now: Time) -> OfferVerdict {
        self.refused.retain(|refused| now.saturating_since(refused.at) < REFUSAL_STANDS_FOR);
        let is_same = |refused: &&RefusalRecord| {
            (refused.peer, refused.flow) == (peer, flow) && *refused.offer == offer
        };
        if let Some(refused) = self.refused.iter().rev().find(is_same) {
            return OfferVerdict::Refused(refused.refusal);
        }
        let received = self.received.entry(peer).or_default();
        let has_capacity = received.len() < OFFERS_PER_PEER_MAX;
        match received.get(&flow) {
            Some(known) if *known.offer == offer && known.is_accepted => return OfferVerdict::Accepted,
            Some(known) if *known.offer == offer => return OfferVerdict::Pending,
            None if !has_capacity => return OfferVerdict::Full,
            _ => {}
        }
        let offer = Box::new(offer);
        received.insert(flow, ReceivedOffer { offer: offer.clone(), is_accepted: false });
        self.unreported.push_back((peer, flow, offer));
        OfferVerdict::New
    }

    /// Records the driver's answer to a peer's offer; returns `false` if there is no such offer.
    fn answer(&mut self, peer: AgentId, flow: FlowId, outcome: Result<(), OfferRefusal>, now: Time) -> bool {
        let Some(received) = self.received.get_mut(&peer) else {
            return false;
        };
        let Err(refusal) = outcome else {
            return received.get_mut(&flow).map(|known| known.is_accepted = true).is_some();
        };
        let Some(ReceivedOffer { offer, .. }) = received.remove(&flow) else {
            return false;
        };
        if refusal != OfferRefusal::NotYet {
            if self.refused.len() == REFUSALS_MAX {
                self.refused.pop_front();
            }
            self.refused.push_back(RefusalRecord { at: now, peer, flow, offer, refusal });
        }
        true
    }

    /// Forgets a peer's accepted offer after one of its flows has ended at this agent.
    pub(super) fn on_flow_ended(&mut self, peer: AgentId, flow: FlowId) {
        if let Some(received) = self.received.get_mut(&peer)
            && received.get(&flow).is_some_and(|known| known.is_accepted)
        {
            received.remove(&flow);
        }
    }
}

impl Agent {
    /// Offers a peer that was added a flow in each direction, both with this number: this agent
    /// sends one by `offer.forth`, the peer sends the other by `offer.back`. An offer of the same
    /// number is replaced.
    ///
    /// The agent repeats the offer until the peer answers, which is [`Event::OfferAnswered`], and
    /// again whenever the peer has restarted. It remains in force until it is refused or withdrawn.
    ///
    /// Returns `false`, and offers nothing, in these cases:
    /// - The peer was not added.
    /// - The number is not this agent's to offer, see [`may_offer`].
    /// - The subject is too long.
    /// - 4,096 offers to this peer are in force already.
    pub fn offer(&mut self, peer: AgentId, flow: FlowId, offer: Offer, now: Time) -> bool {
        let is_valid = self.state == AgentState::Open
            && self.peers.contains_key(&peer)
            && may_offer(self.number, peer, flow)
            && offer.to_wire(flow).is_some();
        if !is_valid || !self.offers.insert_sent(peer, flow, offer, now) {
            return false;
        }
        self.send_offers(now);
        self.finish(now);
        true
    }

    /// Withdraws an offer: the agent does not repeat it any more, and drops its early datagrams. A
    /// peer that has accepted it learns of the end when the flows are closed.
    pub fn withdraw_offer(&mut self, peer: AgentId, flow: FlowId) {
        self.offers.withdraw(peer, flow);
        if let Some(session) = self.peers.get(&peer).copied() {
            self.resolve_early_flow((session, flow), false);
        }
    }

    /// Answers an offer of a peer, after [`AgentOutput::Offered`](super::AgentOutput::Offered).
    ///
    /// Before an acceptance, the driver opens the flow with [`Agent::accept_flow`]. Early packets
    /// of a flow that is not open at the answer are dropped and counted as `flows_unknown`.
    ///
    /// The agent answers an accepted offer again without the driver, until one of the flows is
    /// closed. After a refusal, the agent reports the offer again if the peer repeats it after one
    /// second or later.
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
                self.sessions.queue_urgent_message(
                    session,
                    &Message::OfferReply(OfferReply { flow, outcome }),
                    now,
                );
            }
            self.release_early((session, flow), outcome.is_ok(), now);
        }
        self.finish(now);
    }

    /// Sends the offers that are due: on all paths, or on one path beyond [`URGENT_OFFERS_MAX`],
    /// with their early datagrams behind them.
    pub(super) fn send_offers(&mut self, now: Time) {
        let mut urgent: BTreeMap<SessionId, usize> = BTreeMap::new();
        let mut with_packets = Vec::new();
        while let Some((peer, flow, offer)) = self.offers.pop_due(now) {
            self.work.entries += 1;
            let Some(session) = self.peers.get(&peer).copied() else {
                continue;
            };
            // While an offer waits for its answer, the agent needs to know whether the peer is
            // alive.
            self.sessions.use_session(session, now);
            let is_established = self.sessions.is_established(session, now);
            let Some(message) = offer.to_wire(flow).filter(|_| is_established) else {
                continue;
            };
            let urgent_count = urgent.entry(session).or_default();
            *urgent_count += 1;
            if *urgent_count > URGENT_OFFERS_MAX {
                self.sessions.queue_message(session, &Message::Offer(message), now);
            } else if self.early.contains((session, flow)) {
                with_packets.push((session, flow));
            } else {
                self.sessions.queue_urgent_message(session, &Message::Offer(message), now);
            }
        }
        if !with_packets.is_empty() {
            // Relays forward a limited rate for each agent, so offers are sent before early data.
            for session in urgent.keys() {
                self.sessions.flush_urgent(*session, now);
            }
        }
        for key in with_packets {
            self.queue_early(key, 0, now);
        }
    }

    /// Handles a peer's offer message. If no driver is needed, the answer leaves by the path of the
    /// offer, because an offer arrives by several paths at once.
    pub(super) fn on_offer(
        &mut self,
        session: SessionId,
        offer: &messages::Offer<'_>,
        origin: Route,
        now: Time,
    ) {
        let Some(Role::Peer(peer)) = self.roles.get(&session).copied() else {
            return;
        };
        self.work.entries += self.offers.refused.len() as u64;
        let flow = offer.flow;
        if !may_offer(peer, self.number, flow) {
            self.resend_offer_reply(session, flow, Err(OfferRefusal::NumberInUse), origin, now);
            return;
        }
        match self.offers.on_offer(peer, flow, Offer::from_wire(offer), now) {
            // Buffered early packets belong to the earlier offer, which this one replaces.
            OfferVerdict::New => self.early_buffer.forget((session, flow)),
            OfferVerdict::Pending => {}
            OfferVerdict::Accepted => self.resend_offer_reply(session, flow, Ok(()), origin, now),
            OfferVerdict::Refused(refusal) => {
                self.resend_offer_reply(session, flow, Err(refusal), origin, now);
            }
            OfferVerdict::Full => {
                self.resend_offer_reply(session, flow, Err(OfferRefusal::Full), origin, now);
            }
        }
    }

    /// Handles a peer's answer to this agent's offer: reports it to the driver, and sends or drops
    /// early datagrams.
    pub(super) fn on_offer_reply(&mut self, session: SessionId, answer: OfferReply) {
        if let Some(Role::Peer(peer)) = self.roles.get(&session).copied() {
            let event = self.offers.on_reply(peer, answer.flow, answer.outcome);
            if event.is_some() {
                self.resolve_early_flow((session, answer.flow), answer.outcome.is_ok());
            }
            self.events.extend(event);
        }
    }

    /// Returns the peer with this session; `None` for a relay's session.
    pub(super) fn agent_of(&self, session: SessionId) -> Option<AgentId> {
        match self.roles.get(&session) {
            Some(Role::Peer(peer)) => Some(*peer),
            Some(Role::Relay(_)) | None => None,
        }
    }

    /// Answers a peer's offer by the path on which it arrived, if the session is established.
    fn resend_offer_reply(
        &mut self,
        session: SessionId,
        flow: FlowId,
        outcome: Result<(), OfferRefusal>,
        origin: Route,
        now: Time,
    ) {
        if self.sessions.is_established(session, now) {
            self.sessions.send_reply(
                session,
                &Message::OfferReply(OfferReply { flow, outcome }),
                origin,
                now,
            );
        }
    }
}
