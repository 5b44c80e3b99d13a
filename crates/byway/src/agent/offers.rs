//! Offers of peers: their admission, and the flows of accepted ones.

use std::net::SocketAddr;

use byway_net::Io;
use byway_proto::LocalAddress;
use byway_proto::agent::{FlowSettings, Offer, OfferRefusal, ReceiveFlowId, SendFlowId, flow_between};
use byway_proto::conventions::{AdmissionRequest, PairUse, Subject};
use byway_proto::copy_selection::Marking;
use byway_units::{AgentId, Duration, FlowId, Time};

use super::admission::{Admission, admit_offer};
use super::driver::AgentDriver;
use super::log_limit::Topic;
use super::mappings::{Consent, Endpoint, Mapping, MappingId, MappingsExhausted, OfferOutcome, Owner, Side};
use super::protection_check::address_mismatch_note;
use super::source_ports::Caller;
use super::tunnel::TunForwarder;
use crate::settings::{ExposedKind, without_address};

impl AgentDriver {
    pub(super) fn on_offer_answer(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        outcome: Result<(), OfferRefusal>,
        io: &mut Io,
    ) {
        let Some(id) = self.mappings.of_flow(peer, flow) else {
            return;
        };
        if outcome == Err(OfferRefusal::Full)
            && let Some(evicted) = self.mappings.over_share_victim_at_peer(id, io.now())
        {
            self.mappings.note_full_peer(id);
            self.evict(evicted, io);
            return self.send_offer(id, io);
        }
        match self.mappings.on_offer_answer(id, outcome, io.now()) {
            Some(OfferOutcome::Consented) => self.send_pending(id, io),
            Some(OfferOutcome::Closed) => self.close_mapping(id, io),
            Some(OfferOutcome::Refused(Some(OfferRefusal::Full))) => self.log_full_peer(peer, io.now()),
            Some(OfferOutcome::Refused(Some(OfferRefusal::NotHere))) => {
                let address = self.mappings.get(id).and_then(|mapping| match mapping.side {
                    Side::Capture { index, .. } => self.only_destination(index),
                    _ => None,
                });
                if self.log_limit.is_due(Topic::PeerRefuses, Some(peer), "NotHere", io.now()) {
                    tracing::info!("{}", address_mismatch_note(&self.network_view.name_of(peer), address));
                }
            }
            Some(OfferOutcome::Refused(Some(refusal))) => {
                let detail = format!("{refusal:?}");
                if !self.log_limit.is_due(Topic::PeerRefuses, Some(peer), &detail, io.now()) {
                    return;
                }
                let to = self.mappings.get(id).map(|mapping| self.subject_of(mapping).to_owned());
                tracing::warn!(
                    peer = self.network_view.name_of(peer),
                    to,
                    ?refusal,
                    "peer refused the mapping: compare its [[expose]] with `to` here"
                );
            }
            Some(OfferOutcome::Refused(None)) | None => {}
        }
    }

    /// Handles a peer's offer: opens its flow pair if the settings permit it, and sends the answer.
    pub(super) fn on_offer(&mut self, peer: AgentId, flow: FlowId, offer: &Offer, io: &mut Io) {
        let answer = self.accept_offer(peer, flow, offer, io);
        if answer == Err(OfferRefusal::Full) {
            // This refusal has a log message of its own.
            self.segments.refused_offers += 1;
        } else if let Err(refusal) = answer
            && self.log_limit.is_due(Topic::OfferRefused, Some(peer), &format!("{refusal:?}"), io.now())
        {
            tracing::info!(
                peer = self.network_view.name_of(peer),
                ?refusal,
                "refused a mapping that the peer offered"
            );
        }
        self.agent.answer_offer(peer, flow, answer, io.now());
    }

    fn accept_offer(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        offer: &Offer,
        io: &mut Io,
    ) -> Result<(), OfferRefusal> {
        let Subject { source, name } = Subject::parse(&offer.subject).ok_or(OfferRefusal::UnknownSubject)?;
        let (name, only_address) = without_address(&name);
        let subject = Subject { source, name }.bytes();
        let request =
            AdmissionRequest { peer_name: self.network_view.name_on_map(peer), flow, subject: &subject };
        let Admission { exposed_index, source, replaces } =
            admit_offer(peer, &request, &self.exposed, &self.mappings)?;
        if only_address.is_some_and(|address| !self.exposed[exposed_index].covers(address)) {
            return Err(OfferRefusal::NotHere);
        }
        let is_network = matches!(self.exposed[exposed_index].at, ExposedKind::Network(_));
        if is_network && self.tunnel.as_ref().is_some_and(TunForwarder::is_down) {
            return Err(OfferRefusal::NotYet);
        }
        match replaces {
            Some(old) => self.close_mapping(old, io),
            None => {
                self.ensure_capacity(Owner::Peer(peer), io)
                    .map_err(|MappingsExhausted| OfferRefusal::Full)?;
            }
        }
        match &self.exposed[exposed_index].at {
            ExposedKind::Target(target) => {
                let target = self.target_address(target).ok_or(OfferRefusal::NotYet)?;
                self.accept_for_target(peer, flow, offer, (exposed_index, source, target), io)
            }
            ExposedKind::Network(network) => {
                let (traffic, marking) = (offer.forth.traffic, Marking::new(&network.marks));
                let side = Side::Network { index: exposed_index, traffic, source };
                // The capture had another mapping before its agent restarted.
                if let Some(former) = self.mappings.of_capture(peer, exposed_index, source) {
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
        (exposed_index, source, target): (usize, u32, SocketAddr),
        io: &mut Io,
    ) -> Result<(), OfferRefusal> {
        let caller = Caller::new(peer, source, target);
        let known = self.source_ports.socket(caller);
        let other = known.and_then(|socket| self.mappings.of_endpoint(Endpoint { socket, address: target }));
        if let Some(other) = other {
            // The application's endpoint had another number before its agent restarted.
            self.close_mapping(other, io);
        }
        let socket = self.open_source_port(caller, io).ok_or(OfferRefusal::Full)?;
        let endpoint = Some(Endpoint { socket, address: target });
        let side = Side::Exposed { index: exposed_index, source };
        let accepted = self.accept_mapping(peer, flow, offer, (side, endpoint, Marking::default()), io);
        if accepted.is_ok() {
            self.source_ports.acquire(caller);
        } else if let Some(unused) = self.source_ports.remove_unused(caller) {
            io.close(unused);
        }
        accepted.map(drop)
    }

    /// Opens the flows of a mapping that a peer began, and adds the mapping.
    fn accept_mapping(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        offer: &Offer,
        (side, endpoint, marking): (Side, Option<Endpoint>, Marking),
        io: &mut Io,
    ) -> Result<MappingId, OfferRefusal> {
        let number = self.network_view.number();
        let now = io.now();
        let forth = offer.forth.settings(self.network_view.paths(peer, number));
        let back = offer.back.settings(self.network_view.paths(number, peer));
        let Some((sent, received)) = self.open_pair(peer, flow, back, forth, now) else {
            return Err(OfferRefusal::NotYet);
        };
        let consent = Consent::Granted;
        let mapping = Mapping {
            peer,
            flow,
            sent,
            received,
            endpoint,
            local_address: LocalAddress::ANY,
            sent_last: now,
            side,
            marking,
            consent,
            refusal: None,
            budget: Duration::ZERO,
            usage: PairUse::new(now),
            unfragmented_max: None,
        };
        Ok(self.mappings.add(mapping))
    }

    /// Opens a flow to the peer and one from it. If either fails, opens neither and returns `None`.
    pub(super) fn open_pair(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        sending: FlowSettings,
        receiving: FlowSettings,
        now: Time,
    ) -> Option<(SendFlowId, ReceiveFlowId)> {
        let number = self.network_view.number();
        let sent = self.agent.open_flow(flow_between(number, peer, flow), sending, now)?;
        let receiving = FlowSettings { consent: self.mappings.repair_consent(), ..receiving };
        let received = self.agent.accept_flow(flow_between(peer, number, flow), receiving, now);
        if received.is_none() {
            self.agent.close_flow(sent, now);
        }
        Some((sent, received?))
    }
}
