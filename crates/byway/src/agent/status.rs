//! Status of an agent, as `byway status` shows it, and its counters for metrics.

use byway_api::{
    AgentStatus, CostTotals, FlowDeliveries, ForwardStatus, Histogram, MappingStatus, NodeStatus, PathStatus,
    PeerReach, PeerTotals, RelayReach, UplinkUse,
};
use byway_net::{ApplicationCounters, Io, QueueCounters};
use byway_plan::{PathDelay, PathObservation, PathSelection};
use byway_proto::Uplink;
use byway_proto::agent::{
    Agent, OfferRefusal, PathState, REPAIR_TIME_BOUNDS_MS, ReceiveStatistics, ReportedTotals, RouteStatus,
    SendFlowId,
};
use byway_proto::limits::DATAGRAM_BYTES_MAX;
use byway_units::{AgentId, Duration, RelayId};
use byway_wire::messages::Refusal;
use byway_wire::{Service, Shard};

use super::driver::AgentDriver;
use super::mappings::{Consent, Endpoint, Mapping, MappingId, Mappings, Side};
use super::network_view::NetworkView;
use super::protection_check::address_mismatch_note;
use super::segments::Segments;
use super::tunnel::TunForwarder;
use crate::observe::counters::Counts;
use crate::settings::UplinkDevice;

/// Longest datagram that an application may send, in bytes.
const PAYLOAD_BYTES_MAX: u32 = 1_500;
const _: () = assert!(PAYLOAD_BYTES_MAX as usize == DATAGRAM_BYTES_MAX);

/// View of the flows that the agent sends, for their costs and explanations.
pub(super) struct FlowView<'a> {
    pub(super) agent: &'a Agent,
    pub(super) network_view: &'a NetworkView,
    pub(super) mappings: &'a Mappings,
    /// Totals of the flows that have ended.
    pub(super) ended: CostTotals,
    /// Returns the name of the exposed resource to which a mapping's application sends.
    pub(super) subject_of: &'a dyn Fn(&Mapping) -> String,
}

impl std::fmt::Debug for FlowView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowView").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Returns the reason for which a flow has a route over relays, or returns from one, with the
/// delays of both paths; `None` for other flows.
pub(super) fn path_reason(agent: &Agent, sent: SendFlowId) -> Option<String> {
    let status = agent.route_status(sent).filter(RouteStatus::is_routed)?;
    let PathSelection { route: selected, reason } = status.selection?;
    let PathObservation { direct, route } = status.observation;
    Some(match selected {
        Some(planned) => {
            let planned = PathDelay::Measured(planned.delay);
            format!("{reason}; delays: direct path {direct}, relays {route}, planned {planned}")
        }
        None => format!("{reason}; delay of the direct path: {direct}"),
    })
}

impl AgentDriver {
    /// Returns the agent's status, without the part about the node. The main thread adds that part.
    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is for one lifetime, and the closure for any"
    )]
    pub(super) fn status(&self, io: &Io) -> AgentStatus {
        let counts = self.counts(io);
        AgentStatus {
            node: NodeStatus { uplinks: self.uplinks(io), ..NodeStatus::default() },
            reflexive_addresses: self.agent.reflexive_addresses().to_vec(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            relays: self.relays(io),
            peers: self.peers(io),
            forwards: self.listeners.iter().map(|listener| self.forward_status(listener)).collect(),
            captures: self.tunnel.as_ref().map(TunForwarder::statuses).unwrap_or_default(),
            notes: self.watchdog.uncaptured.iter().chain(&self.watchdog.absent).cloned().collect(),
            mappings: self
                .mappings
                .iter()
                .map(|(id, mapping)| self.mapping_status(id, mapping, io))
                .collect(),
            totals: self.totals(),
            bytes: self.segments.bytes(),
            cost: self.with_flows(|flows| flows.total_cost()),
            currency: self.network_view.currency().map(str::to_owned),
            counters: counts.work.counted(),
            drops: counts.drops.counted(),
        }
    }

    /// Returns the uplinks that the settings name, each with the peers and relays whose packets
    /// leave by it.
    fn uplinks(&self, io: &Io) -> Vec<UplinkUse> {
        let (agent, now) = (&self.agent, io.now());
        let use_of = |(uplink, device, sent_bytes): (Uplink, &UplinkDevice, u64)| {
            let uses_it = |entry: &&byway_api::AgentEntry| {
                let status = agent.peer_status(AgentId::new(entry.number), now);
                status.is_some_and(|status| status.established && !status.relayed && status.uplink == uplink)
            };
            let is_by_it = |(relay, shard): &(RelayId, Shard)| {
                let status = agent.relay_status(*relay, *shard, now);
                status.is_some_and(|status| status.established && status.uplink == uplink)
            };
            let peers = self.network_view.map().agents.iter().filter(uses_it);
            let relays = self.network_view.near_relays().into_iter().filter(is_by_it);
            UplinkUse {
                device: device.device.clone(),
                is_metered: device.is_metered,
                peers: peers.map(|entry| entry.name.clone()).collect(),
                relays: relays.map(|(relay, _)| self.network_view.relay_name(relay)).collect(),
                sent_bytes,
            }
        };
        self.segments.uplinks.iter().map(use_of).collect()
    }

    fn relays(&self, io: &Io) -> Vec<RelayReach> {
        let reach = |(relay, shard): (RelayId, Shard)| {
            let status = self.agent.relay_status(relay, shard, io.now())?;
            Some(RelayReach {
                name: self.network_view.relay_name(relay),
                shard: shard.number(),
                is_alive: status.established && status.is_alive,
                round_trip_ms: status.round_trip.map(millis),
            })
        };
        self.network_view.near_relays().into_iter().filter_map(reach).collect()
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
        self.network_view.map().agents.iter().filter_map(reach).collect()
    }

    fn totals(&self) -> Vec<PeerTotals> {
        let of_peer = |(peer, totals): (AgentId, byway_proto::agent::PeerTotals)| PeerTotals {
            peer: self.network_view.name_of(peer),
            received: received(&totals.received),
            sent: totals.reported.as_ref().map(reported),
        };
        self.agent.totals().into_iter().map(of_peer).collect()
    }

    fn forward_status(&self, listener: &super::listeners::Listener) -> ForwardStatus {
        let is_known = self.network_view.peer(&listener.forward.spec.peer).is_some();
        let problem = || format!("agent {:?} not found in the network's map", listener.forward.spec.peer);
        ForwardStatus {
            listen: listener.local,
            peer: listener.forward.spec.peer.clone(),
            to: listener.forward.spec.to.clone(),
            problem: (!is_known).then(problem),
        }
    }

    /// Passes a view of the flows that the agent sends.
    pub(super) fn with_flows<T>(&self, see: impl FnOnce(&FlowView<'_>) -> T) -> T {
        let subject_of = |mapping: &Mapping| self.subject_of(mapping).to_owned();
        see(&FlowView {
            agent: &self.agent,
            network_view: &self.network_view,
            mappings: &self.mappings,
            ended: self.segments.ended,
            subject_of: &subject_of,
        })
    }

    fn mapping_status(&self, id: MappingId, mapping: &Mapping, io: &Io) -> MappingStatus {
        let consent = match mapping.consent {
            Consent::Requested(_) => "requested",
            Consent::Granted => "granted",
            Consent::Refused(_) => "refused",
        };
        let flow = self.agent.flow_status(mapping.sent);
        let received = self.agent.statistics(mapping.received).map(received).unwrap_or_default();
        MappingStatus {
            peer: self.network_view.name_of(mapping.peer),
            flow: mapping.flow.number(),
            is_from_here: mapping.side.is_from_here(),
            to: self.subject_of(mapping).to_owned(),
            endpoint: mapping.endpoint.map(|endpoint| endpoint.address),
            consent: consent.to_owned(),
            received,
            sent: self.agent.reported_totals(mapping.sent).as_ref().map(reported),
            service: flow.as_ref().map_or("internet", |flow| flow.service.name()).to_owned(),
            service_reason: path_reason(&self.agent, mapping.sent)
                .or_else(|| self.service_reason(mapping.sent, flow.as_ref()?.service)),
            paths: self.path_statuses(mapping.sent, mapping.peer),
            losses_unrepaired: self.watchdog.unrepaired.contains_key(&id),
            note: send_refusal_note(mapping, io)
                .or_else(|| quota_note(&flow.as_ref()?.paths))
                .or_else(|| self.note(id, mapping)),
        }
    }

    /// Returns the reason for which the agent has selected this service of a flow; `None` if the
    /// service has another cause.
    fn service_reason(&self, sent: SendFlowId, service: Service) -> Option<String> {
        let selector = self.agent.selector(sent)?;
        let selection = selector.selection().filter(|selection| selection.service == service)?;
        Some(format!("{}, by {}", selection.reason, selector.prices().1))
    }

    fn path_statuses(&self, sent: SendFlowId, peer: AgentId) -> Vec<PathStatus> {
        let Some(flow) = self.agent.flow_status(sent) else {
            return Vec::new();
        };
        let paths = self.network_view.paths(self.network_view.number(), peer);
        let status =
            |(index, (path, state)): (usize, (byway_proto::agent::RelayPath, &PathState))| PathStatus {
                ingress: self.network_view.relay_name(path.ingress.0),
                egress: self.network_view.relay_name(path.egress.0),
                is_in_use: flow.path_in_use == Some(index),
                state: state_name(*state),
            };
        paths.into_iter().zip(&flow.paths).enumerate().map(status).collect()
    }

    /// Returns a note for people about a mapping's problem, with the remedy; `None` without a
    /// problem.
    fn note(&self, id: MappingId, mapping: &Mapping) -> Option<String> {
        if mapping.refusal == Some(OfferRefusal::Full) {
            return Some(
                "mapping table of the peer full: raise `peer_max`, or `max`, of [mappings] there".to_owned(),
            );
        }
        let flow = self.agent.flow_status(mapping.sent)?;
        let requested = self.requested_service(mapping);
        if flow.paths.is_empty() && requested != Service::Internet {
            return Some("no relay serves this pair of agents: losses are not repaired".to_owned());
        }
        if requested != Service::Internet && flow.path_in_use.is_none() {
            let effect = match requested {
                Service::Forwarding => "all packets use the direct path, and losses are not repaired",
                _ => "losses are not repaired",
            };
            return Some(format!("all relay paths are down: {effect}"));
        }
        let is_routed = self.agent.route_status(mapping.sent).is_some_and(|status| status.is_routed());
        if let Some(blocked) = blocked_note(requested, (flow.service, flow.is_direct), is_routed) {
            return Some(blocked.to_owned());
        }
        if let Some(unrepaired) = self.watchdog.unrepaired.get(&id) {
            return Some(unrepaired.clone());
        }
        if let (Some(OfferRefusal::NotHere), Side::Capture { index, .. }) = (mapping.refusal, mapping.side) {
            return Some(address_mismatch_note(
                &self.network_view.name_of(mapping.peer),
                self.only_destination(index),
            ));
        }
        if requested == Service::Coding && self.is_coded_alone(mapping) {
            return Some(
                "no other flow to code with at these relays: cross-stream coding needs flows of other \
                 agents there; service = \"caching\" repairs more without them"
                    .to_owned(),
            );
        }
        None
    }

    /// True if cross-stream coding finds no other flow for a mapping. The map lists no pairing that
    /// is coded together with the mapping's, and this is the only mapping with the peer.
    fn is_coded_alone(&self, mapping: &Mapping) -> bool {
        let same = self.mappings.iter().filter(|(_, other)| other.peer == mapping.peer).count();
        same == 1 && self.network_view.is_coded_alone(self.network_view.number(), mapping.peer)
    }

    fn requested_service(&self, mapping: &Mapping) -> Service {
        let wanted = self.flow_spec(mapping.side).map(|(wanted, _)| wanted.terms.service);
        let in_force = || self.agent.flow_status(mapping.sent).map(|flow| flow.service);
        wanted.or_else(in_force).unwrap_or(Service::Internet)
    }

    fn counts(&self, io: &Io) -> Counts {
        let mut counts = Counts::of_agent(self.agent.counters());
        counts.add_work(self.agent.work().by_name());
        counts.add_node(self.agent.session_counters(), io.counters());
        for totals in self.agent.totals().values() {
            counts.add_received(totals.received.by_name());
        }
        let Segments { accepted, accepted_bytes, delivered, delivered_bytes, evicted, .. } = self.segments;
        let ApplicationCounters { datagrams, bytes } = *io.applications();
        counts.add_proxy([
            ("accepted", accepted),
            ("accepted_bytes", accepted_bytes),
            ("delivered", delivered + datagrams),
            ("delivered_bytes", delivered_bytes + bytes),
            ("evicted_unanswered", evicted.unanswered),
            ("evicted_answered", evicted.answered),
            ("evicted_idle", evicted.idle),
            ("evicted_share", evicted.share),
            ("unsolicited", self.segments.unsolicited),
            ("refused_by_peer", self.segments.refused),
            ("unknown_peer", self.segments.unknown_peer),
            ("mappings_full", self.segments.mappings_full),
            ("peer_mappings_full", self.segments.peer_mappings_full + self.mappings.dropped_at_full_peer),
            ("mappings_refused", self.segments.refused_offers),
            ("pending_overflow", self.mappings.pending.overflowed),
            ("pending_stale", self.mappings.pending.stale),
            ("pending_refused", self.mappings.pending_refused),
        ]);
        if let Some(tunnel) = &self.tunnel {
            counts.add_proxy([
                ("device_overflow", tunnel.dropped_in_queue()),
                ("not_captured", tunnel.counters.not_captured),
                ("not_permitted", tunnel.counters.not_permitted),
            ]);
        }
        if let Some(QueueCounters { consumed, accepted, overruns, .. }) = io.queue_counters() {
            counts.add_proxy([
                ("queued", consumed + accepted),
                ("queued_captured", consumed),
                ("queued_accepted", accepted),
                ("queue_overruns", overruns),
            ]);
        }
        counts
    }
}

/// Returns a note for people if the system refused to send the latest datagram to the mapping's
/// endpoint.
fn send_refusal_note(mapping: &Mapping, io: &Io) -> Option<String> {
    let Endpoint { socket, address } = mapping.endpoint?;
    let error = io.refusal(socket, address)?;
    Some(format!(
        "the system refuses to send to {address}: {error}; nothing arrives there. Check the route \
         with `ip route get {}`, and the firewall's rules for output",
        address.ip()
    ))
}

#[allow(clippy::cast_precision_loss, reason = "microseconds of a round trip are far below 2^53")]
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

/// Converts the statistics of a received flow into the form of the status. Losses count once they
/// are repaired or given up. Therefore, no counter ever decreases.
fn received(statistics: &ReceiveStatistics) -> FlowDeliveries {
    FlowDeliveries {
        direct: statistics.direct,
        lost_direct: statistics.lost,
        in_stream: statistics.in_stream,
        cooperative: statistics.cooperative,
        cached: statistics.cached,
        resent: statistics.resent,
        forwarded: statistics.forwarded,
        late: statistics.late,
        unrepaired: statistics.lost.saturating_sub(statistics.repaired()),
        left_to_congestion_control: statistics.congestion_losses,
        duplicates: statistics.duplicates,
        repair_times: Some(histogram(statistics)),
    }
}

fn reported(reported: &ReportedTotals) -> FlowDeliveries {
    FlowDeliveries {
        direct: reported.direct,
        lost_direct: reported.lost,
        in_stream: reported.in_stream,
        cooperative: reported.cooperative,
        cached: reported.cached,
        resent: reported.resent,
        forwarded: reported.forwarded,
        late: reported.late,
        unrepaired: reported.lost.saturating_sub(reported.repaired()),
        left_to_congestion_control: 0,
        duplicates: 0,
        repair_times: None,
    }
}

/// Returns the histogram of a flow's repair times, over all kinds of repair.
fn histogram(statistics: &ReceiveStatistics) -> Histogram {
    let kinds = statistics.repair_times.all();
    let count = |bucket: usize| kinds.iter().map(|times| u64::from(times.counts()[bucket])).sum();
    let sum = kinds.iter().fold(Duration::ZERO, |sum, times| sum + times.sum());
    #[allow(clippy::cast_precision_loss, reason = "bounds are a few hundred milliseconds")]
    let bounds_ms: Vec<f64> = REPAIR_TIME_BOUNDS_MS.iter().map(|bound| *bound as f64).collect();
    Histogram { counts: (0..=bounds_ms.len()).map(count).collect(), bounds_ms, sum_ms: millis(sum) }
}

/// Returns the note of a flow that relays forward because its direct path is blocked, and not
/// because they were requested, selected, or are its route. `is_direct` is true if the other agent
/// can be reached by the direct path.
fn blocked_note(
    requested: Service,
    (service, is_direct): (Service, bool),
    is_routed: bool,
) -> Option<&'static str> {
    let is_replaced = service == Service::Forwarding && requested != Service::Forwarding;
    let is_blocked = is_replaced && !is_direct && !is_routed;
    is_blocked.then_some("direct path blocked: all packets use the relays")
}

/// Returns the remedy if a relay refuses one of a flow's paths because the tenant has reached its
/// quota.
fn quota_note(paths: &[PathState]) -> Option<String> {
    paths.contains(&PathState::Refused(Refusal::QuotaReached)).then(|| QUOTA_NOTE.to_owned())
}

/// Remedy for a tenant's quota that is reached at a relay.
pub(super) const QUOTA_NOTE: &str = "the tenant has reached its quota of sessions or flows at a \
                                     relay: end flows or stop agents of the tenant, or raise `memory`, \
                                     `tenant_sessions_max` or `tenant_flows_max` of [relay] there";

fn state_name(state: PathState) -> String {
    match state {
        PathState::Registering => "registering".to_owned(),
        PathState::Accepted => "accepted".to_owned(),
        PathState::Unreachable => "unreachable".to_owned(),
        PathState::Silent => "does not answer".to_owned(),
        PathState::Refused(refusal) => format!("refused: {refusal:?}"),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_reached_has_a_note_with_the_remedy_and_other_refusals_have_none() {
        let note = quota_note(&[PathState::Accepted, PathState::Refused(Refusal::QuotaReached)]);
        assert!(note.is_some_and(|note| note.contains("tenant_flows_max")));
        assert_eq!(quota_note(&[PathState::Registering, PathState::Refused(Refusal::NoGrant)]), None);
    }

    #[test]
    fn relays_that_replace_a_blocked_direct_path_have_a_note_and_those_that_are_selected_have_none() {
        let has_note = |requested, service, is_direct, is_routed| {
            blocked_note(requested, (service, is_direct), is_routed).is_some()
        };
        assert!(has_note(Service::Both, Service::Forwarding, false, false));
        assert!(!has_note(Service::Both, Service::Forwarding, true, false), "it is selected");
        assert!(!has_note(Service::Both, Service::Forwarding, false, true), "it is the route");
        assert!(!has_note(Service::Forwarding, Service::Forwarding, false, false), "it is requested");
        assert!(!has_note(Service::Both, Service::Both, false, false));
    }

    #[test]
    fn what_relays_deliver_unasked_repairs_no_loss() {
        let mut statistics = ReceiveStatistics::default();
        (statistics.lost, statistics.cached, statistics.forwarded) = (10, 7, 500);
        assert_eq!(received(&statistics).unrepaired, 3);
        let mut totals = ReportedTotals::default();
        (totals.lost, totals.in_stream, totals.forwarded) = (10, 6, 500);
        assert_eq!(reported(&totals).unrepaired, 4);
    }
}
