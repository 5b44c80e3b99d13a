//! What peers offer: whether they get it, and the flows for it.

use std::net::SocketAddr;

use byway_net::Io;
use byway_proto::LocalAddress;
use byway_proto::agent::{FlowSettings, Offer, OfferRefusal, ReceiveFlowId, SendFlowId, flow_between};
use byway_proto::conventions::{PairUse, Subject, Wish};
use byway_proto::marking::Marking;
use byway_units::{AgentId, Duration, FlowId, Time};

use super::admission::{Admission, admit};
use super::log_limit::Topic;
use super::mappings::{AllInUse, Consent, Endpoint, Mapping, MappingId, Owner, Side};
use super::outsides::Caller;
use super::role::AgentRole;
use super::tunnel::Tunnelled;
use crate::settings::{ExposedAt, without_address};

impl AgentRole {
    /// A peer's application wants to send to something here.
    pub(super) fn offered_by(&mut self, peer: AgentId, flow: FlowId, offer: &Offer, io: &mut Io) {
        let answer = self.accept(peer, flow, offer, io);
        if answer == Err(OfferRefusal::NoRoom) {
            // That has a message of its own.
            self.segments.refused_offers += 1;
        } else if let Err(refusal) = answer
            && self.log_limit.is_due(Topic::OfferRefused, Some(peer), &format!("{refusal:?}"), io.now())
        {
            tracing::info!(peer = self.known.name_of(peer), ?refusal, "refused what a peer offers");
        }
        self.agent.answer_offer(peer, flow, answer, io.now());
    }

    fn accept(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        offer: &Offer,
        io: &mut Io,
    ) -> Result<(), OfferRefusal> {
        let Subject { source, name } = Subject::parse(&offer.subject).ok_or(OfferRefusal::UnknownSubject)?;
        let (name, only) = without_address(&name);
        let subject = Subject { source, name }.bytes();
        let wish = Wish { peer_name: self.known.name_on_map(peer), flow, subject: &subject };
        let Admission { place, source, replaces } = admit(peer, &wish, &self.exposed, &self.mappings)?;
        if only.is_some_and(|address| !self.exposed[place].has(address)) {
            return Err(OfferRefusal::NotHere);
        }
        let is_network = matches!(self.exposed[place].at, ExposedAt::Network(_));
        if is_network && self.tunnel.as_ref().is_some_and(Tunnelled::is_down) {
            return Err(OfferRefusal::NotYet);
        }
        match replaces {
            Some(old) => self.close_mapping(old, io),
            None => self.make_room(Owner::Peer(peer), io).map_err(|AllInUse| OfferRefusal::NoRoom)?,
        }
        match &self.exposed[place].at {
            ExposedAt::Target(target) => {
                let target = self.target_address(target).ok_or(OfferRefusal::NotYet)?;
                self.accept_for_target(peer, flow, offer, (place, source, target), io)
            }
            ExposedAt::Network(network) => {
                let (traffic, marking) = (offer.forth.traffic, Marking::new(&network.marks));
                let side = Side::Network { place, traffic, source };
                // The capture was known before its agent restarted.
                if let Some(former) = self.mappings.of_capture(peer, place, source) {
                    self.close_mapping(former, io);
                }
                self.accept_mapping(peer, flow, offer, (side, None, marking), io).map(drop)
            }
        }
    }

    fn accept_for_target(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        offer: &Offer,
        (place, source, target): (usize, u32, SocketAddr),
        io: &mut Io,
    ) -> Result<(), OfferRefusal> {
        let caller = Caller::new(peer, source, target);
        let known = self.outsides.socket(caller);
        let other = known.and_then(|socket| self.mappings.of_endpoint(Endpoint { socket, address: target }));
        if let Some(other) = other {
            // The application's endpoint was known under another number: its agent restarted.
            self.close_mapping(other, io);
        }
        let socket = self.outside(caller, io).ok_or(OfferRefusal::NoRoom)?;
        let endpoint = Some(Endpoint { socket, address: target });
        let side = Side::Exposed { place, source };
        let accepted = self.accept_mapping(peer, flow, offer, (side, endpoint, Marking::default()), io);
        if accepted.is_ok() {
            self.outsides.used(caller);
        } else if let Some(unused) = self.outsides.take_unused(caller) {
            io.close(unused);
        }
        accepted.map(drop)
    }

    /// Opens the flows of a mapping that a peer began.
    fn accept_mapping(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        offer: &Offer,
        (side, endpoint, marking): (Side, Option<Endpoint>, Marking),
        io: &mut Io,
    ) -> Result<MappingId, OfferRefusal> {
        let number = self.known.number();
        let now = io.now();
        let forth = offer.forth.settings(self.known.paths(peer, number));
        let back = offer.back.settings(self.known.paths(number, peer));
        let Some((sent, received)) = self.open_pair(peer, flow, back, forth, now) else {
            return Err(OfferRefusal::NotYet);
        };
        let consent = Consent::Given;
        let mapping = Mapping {
            peer,
            flow,
            sent,
            received,
            endpoint,
            asked_at: LocalAddress::ANY,
            sent_last: now,
            side,
            marking,
            consent,
            refusal: None,
            budget: Duration::ZERO,
            usage: PairUse::new(now),
            whole: None,
        };
        Ok(self.mappings.add(mapping))
    }

    /// Opens a flow in each direction, or neither.
    pub(super) fn open_pair(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        sending: FlowSettings,
        receiving: FlowSettings,
        now: Time,
    ) -> Option<(SendFlowId, ReceiveFlowId)> {
        let number = self.known.number();
        let sent = self.agent.open_flow(flow_between(number, peer, flow), sending, now)?;
        let received = self.agent.accept_flow(flow_between(peer, number, flow), receiving, now);
        if received.is_none() {
            self.agent.close_flow(sent, now);
        }
        Some((sent, received?))
    }
}
