//! What an agent says of itself.

use byway_api::{
    AgentStatus, ControllerState, FlowReceived, ForwardStatus, Histogram, MappingStatus, PathStatus,
    PeerReach, RelayReach,
};
use byway_net::Io;
use byway_proto::agent::{PathState, REPAIR_TIME_BOUNDS_MS, ReceiveStatistics, SendFlowId};
use byway_proto::limits::DATAGRAM_BYTES_MAX;
use byway_units::{AgentId, Duration, RelayId};
use byway_wire::messages::Report;
use byway_wire::{Service, Shard};

use super::mappings::{Consent, Mapping, Side};
use super::role::AgentRole;
use crate::observe::counted::{self, Sums};

/// The longest datagram that an application may send.
const PAYLOAD_BYTES_MAX: u32 = 1_472;
const _: () = assert!(PAYLOAD_BYTES_MAX as usize == DATAGRAM_BYTES_MAX);

impl AgentRole {
    /// Everything that a person, or Prometheus, may want to know.
    pub(super) fn status(&self, io: &Io) -> AgentStatus {
        AgentStatus {
            name: String::new(),
            number: self.known.number().number(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: io.now().saturating_since(byway_units::Time::START).as_secs_f64(),
            listen: io.overlay_addresses().collect(),
            reflexive_addresses: self.agent.reflexive_addresses().to_vec(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            controller: ControllerState::None,
            map_revision: self.known.map().revision,
            relays: self.relays(io),
            peers: self.peers(io),
            forwards: self.listeners.iter().map(|listener| self.forward_status(listener)).collect(),
            mappings: self.mappings.iter().map(|(_, mapping)| self.mapping_status(mapping)).collect(),
            bytes: self.segments.bytes.clone(),
            drops: self.drops(io).counted(),
        }
    }

    fn relays(&self, io: &Io) -> Vec<RelayReach> {
        let reach = |(relay, shard): (RelayId, Shard)| {
            let status = self.agent.relay_status(relay, shard, io.now())?;
            Some(RelayReach {
                name: self.relay_name(relay),
                shard: shard.number(),
                is_alive: status.established && status.is_alive,
                round_trip_ms: status.round_trip.map(millis),
            })
        };
        self.known.near_relays().into_iter().filter_map(reach).collect()
    }

    fn peers(&self, io: &Io) -> Vec<PeerReach> {
        let reach = |entry: &byway_api::AgentEntry| {
            let status = self.agent.peer_status(AgentId::new(entry.number), io.now())?;
            Some(PeerReach {
                name: entry.name.clone(),
                is_alive: status.established && status.is_alive,
                address: status.address,
                is_relayed: status.relayed,
                round_trip_ms: status.round_trip.map(millis),
            })
        };
        self.known.map().agents.iter().filter_map(reach).collect()
    }

    fn forward_status(&self, listener: &super::role::Listener) -> ForwardStatus {
        let is_known = self.known.peer(&listener.forward.peer).is_some();
        let problem = || format!("there is no agent {:?} in the network's map", listener.forward.peer);
        ForwardStatus {
            listen: listener.local,
            peer: listener.forward.peer.clone(),
            to: listener.forward.to.clone(),
            problem: (!is_known).then(problem),
        }
    }

    fn mapping_status(&self, mapping: &Mapping) -> MappingStatus {
        let (is_from_here, to) = match mapping.side {
            Side::Forward(place) => (true, self.listeners[place].forward.to.clone()),
            Side::Exposed { place, .. } => (false, self.exposed[place].name.clone()),
        };
        let consent = match mapping.consent {
            Consent::Asked(_) => "asked",
            Consent::Given => "given",
            Consent::Refused(_) => "refused",
        };
        let flow = self.agent.flow_status(mapping.sent);
        let received = self.agent.statistics(mapping.received).map(received).unwrap_or_default();
        MappingStatus {
            peer: self.known.name_of(mapping.peer),
            flow: mapping.flow.number(),
            is_from_here,
            to,
            endpoint: mapping.endpoint,
            consent: consent.to_owned(),
            received,
            sent: self.agent.report(mapping.sent).map(reported),
            service: flow.as_ref().map_or("internet", |flow| service_name(flow.service)).to_owned(),
            paths: self.path_statuses(mapping.sent, mapping.peer),
            note: self.note(mapping),
        }
    }

    fn path_statuses(&self, sent: SendFlowId, peer: AgentId) -> Vec<PathStatus> {
        let Some(flow) = self.agent.flow_status(sent) else {
            return Vec::new();
        };
        let paths = self.known.paths(self.known.number(), peer);
        let status =
            |(place, (path, state)): (usize, (byway_proto::agent::RelayPath, &PathState))| PathStatus {
                ingress: self.relay_name(path.ingress.0),
                egress: self.relay_name(path.egress.0),
                is_in_use: flow.path_in_use == Some(place),
                state: state_name(*state),
            };
        paths.into_iter().zip(&flow.paths).enumerate().map(status).collect()
    }

    /// What a person should know of a mapping.
    fn note(&self, mapping: &Mapping) -> Option<String> {
        let flow = self.agent.flow_status(mapping.sent)?;
        let asked = self.asked_service(mapping);
        if flow.paths.is_empty() && asked != Service::Internet {
            return Some("no relay serves this pair of agents: losses are not repaired".to_owned());
        }
        if asked != Service::Forwarding && flow.service == Service::Forwarding {
            return Some("no direct path opens: everything goes through the relays".to_owned());
        }
        if asked == Service::Coding && self.is_alone(mapping) {
            return Some(
                "this flow has nobody here to be coded with: cross-stream repair needs flows of others at the same relays; \
                 without them, caching repairs more"
                    .to_owned(),
            );
        }
        None
    }

    /// Whether the map knows of nobody whose flows are coded together with this mapping's, and there is no other mapping with
    /// the same peer.
    fn is_alone(&self, mapping: &Mapping) -> bool {
        let same = self.mappings.iter().filter(|(_, other)| other.peer == mapping.peer).count();
        same == 1 && self.known.is_alone(self.known.number(), mapping.peer)
    }

    fn asked_service(&self, mapping: &Mapping) -> Service {
        match mapping.side {
            Side::Forward(place) => self.listeners[place].forward.service,
            Side::Exposed { .. } => {
                self.agent.flow_status(mapping.sent).map_or(Service::Internet, |flow| flow.service)
            }
        }
    }

    fn relay_name(&self, relay: RelayId) -> String {
        self.known.relay(relay).map_or_else(|| relay.to_string(), |entry| entry.name.clone())
    }

    fn drops(&self, io: &Io) -> Sums {
        let mut sums = Sums::default();
        counted::agent_drops(&mut sums, self.agent.counters());
        counted::agent_sessions(&mut sums, &self.agent);
        counted::socket_drops(&mut sums, io.counters());
        for (name, count) in [
            ("proxy_unsolicited", self.segments.unsolicited),
            ("proxy_refused_by_peer", self.segments.refused),
            ("proxy_unknown_peer", self.segments.unknown_peer),
            ("proxy_no_room", self.segments.no_room),
            ("proxy_waited_too_long", self.mappings.held_dropped),
        ] {
            sums.add(name, count);
        }
        sums
    }
}

#[allow(clippy::cast_precision_loss, reason = "microseconds of a round trip are far below 2^53")]
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

fn received(statistics: &ReceiveStatistics) -> FlowReceived {
    let repaired = statistics.in_stream + statistics.cooperative + statistics.cached;
    FlowReceived {
        direct: statistics.direct,
        lost_direct: statistics.lost,
        in_stream: statistics.in_stream,
        cooperative: statistics.cooperative,
        cached: statistics.cached,
        forwarded: statistics.forwarded,
        late: statistics.late,
        unrepaired: statistics.lost.saturating_sub(repaired + statistics.forwarded),
        duplicates: statistics.duplicates,
        repair_times: Some(histogram(statistics)),
    }
}

fn reported(report: &Report) -> FlowReceived {
    let repaired = report.repaired;
    let all = repaired.in_stream.wrapping_add(repaired.cooperative).wrapping_add(repaired.cached);
    FlowReceived {
        direct: u64::from(report.direct),
        lost_direct: u64::from(report.lost),
        in_stream: u64::from(repaired.in_stream),
        cooperative: u64::from(repaired.cooperative),
        cached: u64::from(repaired.cached),
        forwarded: u64::from(repaired.forwarded),
        late: u64::from(report.late),
        unrepaired: u64::from(report.lost.saturating_sub(all)),
        duplicates: 0,
        repair_times: None,
    }
}

/// Repair times of all kinds together.
fn histogram(statistics: &ReceiveStatistics) -> Histogram {
    let kinds = [&statistics.in_stream_times, &statistics.cooperative_times, &statistics.cached_times];
    let count = |bucket: usize| kinds.iter().map(|times| times.counts()[bucket]).sum();
    let sum = kinds.iter().fold(Duration::ZERO, |sum, times| sum + times.sum());
    #[allow(clippy::cast_precision_loss, reason = "bounds are a few hundred milliseconds")]
    let bounds_ms: Vec<f64> = REPAIR_TIME_BOUNDS_MS.iter().map(|bound| *bound as f64).collect();
    Histogram { counts: (0..=bounds_ms.len()).map(count).collect(), bounds_ms, sum_ms: millis(sum) }
}

const fn service_name(service: Service) -> &'static str {
    match service {
        Service::Internet => "internet",
        Service::Coding => "coding",
        Service::Caching => "caching",
        Service::Forwarding => "forwarding",
        Service::Both => "both",
    }
}

fn state_name(state: PathState) -> String {
    match state {
        PathState::Asking => "asking".to_owned(),
        PathState::Accepted => "accepted".to_owned(),
        PathState::Unreachable => "unreachable".to_owned(),
        PathState::Refused(refusal) => format!("refused: {refusal:?}"),
        _ => "unknown".to_owned(),
    }
}
