//! Status of an agent's peers, relays and flows, for operators.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};

use byway_plan::{Criteria, RelayPriceTable, Selection, Selector};
use byway_units::{AgentId, Duration, RelayId, Time};
use byway_wire::messages::Refusal;
use byway_wire::{GrantedRelay, Service, Shard};

use super::receive_flow::ReceiveFlowId;
use super::routes::RouteStatus;
use super::selection::{FlowDelays, criteria, reported_delays};
use super::send_flow::{SendFlow, SendFlowId};
use super::sent_usage::{PacketCount, SentUsage};
use super::settings::Traffic;
use super::{Agent, Flow};
use crate::conventions::ip_bytes;
use crate::network_path::Uplink;
use crate::session::SessionId;

/// Status of the session with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStatus {
    /// True if the session has keys, so packets can be sent to the peer.
    pub established: bool,
    /// True if the peer answers, as far as is known.
    pub is_alive: bool,
    /// Round-trip time of the session; `None` before the first measurement.
    pub round_trip: Option<Duration>,
    /// Validated address of the direct path, if there is one.
    pub address: Option<SocketAddr>,
    /// True if messages reach the peer through a relay only.
    pub relayed: bool,
    /// Uplink of the direct path.
    pub uplink: Uplink,
}

/// Status of the session with one shard of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStatus {
    /// True if the session has keys, so packets can be sent to the relay.
    pub established: bool,
    /// True if the relay answers, as far as is known.
    pub is_alive: bool,
    /// Round-trip time of the session; `None` before the first measurement.
    pub round_trip: Option<Duration>,
    /// Validated address of the relay, if there is one.
    pub address: Option<SocketAddr>,
    /// Uplink of the path to the relay.
    pub uplink: Uplink,
}

/// State of a flow's registration at the relay near this agent, on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathState {
    /// The relay has not answered the registration request yet.
    Registering,
    /// The relay has accepted the flow, and can forward its packets.
    Accepted,
    /// The relay has accepted the flow, but cannot forward its packets.
    Unreachable,
    /// The relay accepted the flow, and does not answer any more.
    Silent,
    /// The relay refuses the flow, or refused it and is asked again.
    Refused(Refusal),
}

/// Status of a sent or received flow, and of its relay paths.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowStatus {
    /// Service that the flow has now: for a sent flow, forwarding if relays replace a closed direct
    /// path.
    pub service: Service,
    /// Index of the relay path in use, from 0; `None` while none works.
    pub path_in_use: Option<usize>,
    /// State of each relay path, in the order of the settings.
    pub paths: Vec<PathState>,
    /// True if the agent at the other end can be reached by the direct path, as far as is known.
    pub is_direct: bool,
    /// Kind of the flow's traffic.
    pub traffic: Traffic,
}

impl Agent {
    /// Returns the criteria by which the service of a flow with this latency budget is selected.
    #[must_use]
    pub fn selection_criteria(latency_budget: Duration) -> Criteria {
        criteria(latency_budget)
    }

    /// Returns the bytes of a flow's packets with their headers of UDP and IP.
    #[must_use]
    pub fn sent_ip_bytes(&self, flow: SendFlowId, count: PacketCount) -> u64 {
        let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let headers = ip_bytes(&[], self.sent_address(flow).unwrap_or(unknown));
        count.bytes + count.packets * headers.count()
    }

    /// Returns the measured delays of a flow that this agent sends. `None` if the flow was closed,
    /// has no direct path or no relay path, or if a round trip was not measured.
    #[must_use]
    pub fn flow_delays(&self, flow: SendFlowId) -> Option<FlowDelays> {
        let SendFlow { peer, settings, registrations, reports, .. } = self.senders.get(flow.0)?;
        let path = settings.paths.get(registrations.in_use())?;
        let is_direct = self.sessions.is_direct(*peer);
        let direct = self.sessions.measured_round_trip(*peer).filter(|_| is_direct)? / 2;
        let relay = self.relay_session(path.ingress)?;
        let is_alive = self.sessions.get(relay).is_some_and(|session| !session.is_dead);
        let to_ingress = self.sessions.measured_round_trip(relay).filter(|_| is_alive)? / 2;
        let egress = GrantedRelay { relay: path.egress.0, shard: path.egress.1 };
        let report = reports.as_ref().and_then(|reports| reports.newest());
        let (to_receiver, detection) = report.map_or((None, None), |report| reported_delays(report, egress));
        let is_one_relay = path.ingress == path.egress;
        let between = if is_one_relay { Some(Duration::ZERO) } else { registrations.far_delay() };
        let (ingress, egress) = (path.ingress, path.egress);
        Some(FlowDelays { direct, to_ingress, ingress, egress, between, to_receiver, detection })
    }

    /// Returns the selection of a sent flow's service, with its reason. `None` if the flow's
    /// settings name the service, or before the first selection.
    #[must_use]
    pub fn selection(&self, flow: SendFlowId) -> Option<Selection> {
        self.service_changes.selectors.selection(flow.0)
    }

    /// Returns the path of a sent flow; `None` if its settings have no limits of its latency, or if
    /// it was closed.
    #[must_use]
    pub fn route_status(&self, flow: SendFlowId) -> Option<RouteStatus> {
        self.service_changes.routes.status(flow.0)
    }

    /// Sets the prices of the next bytes of relays, by which services are compared from the next
    /// selection on.
    pub fn set_relay_prices(&mut self, prices: RelayPriceTable) {
        self.service_changes.selectors.prices = prices;
    }

    /// Returns the prices of the next bytes of relays.
    #[must_use]
    pub const fn relay_prices(&self) -> &RelayPriceTable {
        &self.service_changes.selectors.prices
    }

    /// Returns the selector of a sent flow's service, with its latest evaluation and its changes;
    /// `None` if the flow's settings name the service, or if the flow was closed.
    #[must_use]
    pub fn selector(&self, flow: SendFlowId) -> Option<&Selector> {
        self.service_changes.selectors.selector(flow.0)
    }

    /// Returns the packets of a flow that this agent has sent; `None` if the flow was closed.
    #[must_use]
    pub fn sent_usage(&self, flow: SendFlowId) -> Option<SentUsage> {
        self.senders.get(flow.0).map(|flow| flow.usage)
    }

    /// Returns the address to which a flow's packets go on the direct path; `None` if the flow was
    /// closed, or there is no direct path.
    #[must_use]
    pub fn sent_address(&self, flow: SendFlowId) -> Option<SocketAddr> {
        let session = self.sessions.get(self.senders.get(flow.0)?.peer)?;
        session.path.address().copied()
    }

    /// Returns the status of a peer; `None` if it was not added.
    #[must_use]
    pub fn peer_status(&self, peer: AgentId, now: Time) -> Option<PeerStatus> {
        let id = *self.peers.get(&peer)?;
        let session = self.sessions.get(id)?;
        let established = session.is_established(now);
        Some(PeerStatus {
            established,
            is_alive: established && !session.is_dead,
            round_trip: self.sessions.measured_round_trip(id),
            address: session.path.address().copied(),
            relayed: established && !self.sessions.is_direct(id),
            uplink: session.path.uplink(),
        })
    }

    /// Returns the status of a relay shard; `None` if it was not added.
    #[must_use]
    pub fn relay_status(&self, relay: RelayId, shard: Shard, now: Time) -> Option<RelayStatus> {
        let id = self.relay_session((relay, shard))?;
        let session = self.sessions.get(id)?;
        let established = session.is_established(now);
        Some(RelayStatus {
            established,
            is_alive: established && !session.is_dead,
            round_trip: self.sessions.measured_round_trip(id),
            address: session.path.address().copied(),
            uplink: session.path.uplink(),
        })
    }

    /// Returns the addresses of this agent as relays see them, at most eight, the newest last.
    #[must_use]
    pub fn reflexive_addresses(&self) -> &[SocketAddr] {
        &self.reflexive_addresses
    }

    /// Returns the status of a flow that this agent sends; `None` if it was closed.
    #[must_use]
    pub fn flow_status(&self, flow: SendFlowId) -> Option<FlowStatus> {
        let SendFlow { peer, .. } = self.senders.get(flow.0)?;
        let status = self.status_of(Flow::Sent(flow), *peer);
        Some(FlowStatus { service: self.senders[flow.0 as usize].service(), ..status })
    }

    /// Returns the status of a flow that this agent receives; `None` if it was closed.
    #[must_use]
    pub fn received_flow_status(&self, flow: ReceiveFlowId) -> Option<FlowStatus> {
        let peer = self.receivers.get(flow.0)?.peer;
        Some(self.status_of(Flow::Received(flow), peer))
    }

    fn status_of(&self, flow: Flow, peer: SessionId) -> FlowStatus {
        let registrations = self.registrations_of(flow);
        let in_use = registrations.in_use();
        let paths: Vec<PathState> =
            (0..registrations.count()).filter_map(|path| self.path_state(flow, path)).collect();
        FlowStatus {
            traffic: self.settings_of(flow).traffic,
            service: self.settings_of(flow).service,
            path_in_use: (paths.get(in_use) == Some(&PathState::Accepted)).then_some(in_use),
            paths,
            is_direct: self.sessions.is_direct(peer),
        }
    }

    /// Returns the latest state of a flow's path, or [`PathState::Silent`] if its relay accepted
    /// the flow and does not answer any more.
    fn path_state(&self, flow: Flow, path: usize) -> Option<PathState> {
        let state = self.registrations_of(flow).state(path)?;
        let session = self.session_of_path(flow, path);
        let is_silent = session.is_some_and(|session| self.relay_is_dead(session));
        let has_answered = matches!(state, PathState::Accepted | PathState::Unreachable);
        Some(if is_silent && has_answered { PathState::Silent } else { state })
    }
}
