//! What an agent tells about itself: its peers, its relays, its flows.

use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::{AgentId, Duration, RelayId, Time};
use byway_wire::messages::Refusal;
use byway_wire::{Service, Shard};

use super::receive_flow::ReceiveFlowId;
use super::send_flow::{SendFlow, SendFlowId};
use super::settings::Traffic;
use super::{Agent, Flow};
use crate::session::SessionId;

/// How things stand with another agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStatus {
    /// Whether packets can be sent to it.
    pub established: bool,
    /// Whether it answers, as far as is known.
    pub is_alive: bool,
    /// How far away it is, once that was measured.
    pub round_trip: Option<Duration>,
    /// Where it proved to be.
    pub address: Option<SocketAddr>,
    /// Whether messages reach it through a relay only.
    pub relayed: bool,
}

/// How things stand with one shard of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStatus {
    /// Whether packets can be sent to it.
    pub established: bool,
    /// Whether it answers, as far as is known.
    pub is_alive: bool,
    /// How far away it is, once that was measured.
    pub round_trip: Option<Duration>,
    /// Where it proved to be.
    pub address: Option<SocketAddr>,
}

/// How a path of a flow stands with the relay at this agent's end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathState {
    /// It was asked, and has not answered.
    Asking,
    /// It takes part in the flow.
    Accepted,
    /// It takes part, but the flow's packets get no further than there.
    Unreachable,
    /// It took part, and does not answer any more.
    Silent,
    /// It does not take part, for this reason.
    Refused(Refusal),
}

/// How things stand with a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowStatus {
    /// The service that its relays are asked for now: forwarding, where they stand in for a direct path that is closed.
    pub service: Service,
    /// Which of its paths is in use, from 0; `None` while none works.
    pub path_in_use: Option<usize>,
    /// Its paths, in the order of its settings.
    pub paths: Vec<PathState>,
    /// Whether the other end can be reached directly, as far as is known.
    pub is_direct: bool,
    /// What it carries.
    pub traffic: Traffic,
}

impl Agent {
    /// How things stand with a peer; `None` if it was not added.
    #[must_use]
    pub fn peer_status(&self, peer: AgentId, now: Time) -> Option<PeerStatus> {
        let id = *self.peers.get(&peer)?;
        let session = self.sessions.get(id)?;
        let established = session.is_established(now);
        Some(PeerStatus {
            established,
            is_alive: established && !session.dead,
            round_trip: self.sessions.measured_round_trip(id),
            address: session.path.address().copied(),
            relayed: established && !self.sessions.is_direct(id),
        })
    }

    /// How things stand with a relay; `None` if it was not added.
    #[must_use]
    pub fn relay_status(&self, relay: RelayId, shard: Shard, now: Time) -> Option<RelayStatus> {
        let id = self.relay_session((relay, shard))?;
        let session = self.sessions.get(id)?;
        let established = session.is_established(now);
        Some(RelayStatus {
            established,
            is_alive: established && !session.dead,
            round_trip: self.sessions.measured_round_trip(id),
            address: session.path.address().copied(),
        })
    }

    /// Where relays see this agent, at most eight addresses, the newest last.
    #[must_use]
    pub fn reflexive_addresses(&self) -> &[SocketAddr] {
        &self.seen_at
    }

    /// How things stand with a flow that this agent sends; `None` if it was closed.
    #[must_use]
    pub fn flow_status(&self, flow: SendFlowId) -> Option<FlowStatus> {
        let SendFlow { peer, .. } = self.senders.get(flow.0)?;
        let status = self.status_of(Flow::Sent(flow), *peer);
        Some(FlowStatus { service: self.senders[flow.0 as usize].service(), ..status })
    }

    /// How things stand with a flow that this agent receives; `None` if it was closed.
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

    /// What a path's relay said last, unless the relay does not answer any more: it protects nothing then.
    fn path_state(&self, flow: Flow, path: usize) -> Option<PathState> {
        let state = self.registrations_of(flow).state(path)?;
        let session = self.session_of_path(flow, path);
        let is_silent = session.is_some_and(|session| self.relay_is_dead(session));
        let was_said = matches!(state, PathState::Accepted | PathState::Unreachable);
        Some(if is_silent && was_said { PathState::Silent } else { state })
    }
}
