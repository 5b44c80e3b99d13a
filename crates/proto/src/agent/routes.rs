//! Routes of sent flows over their relay paths, where the direct path is too slow.
//!
//! A flow whose settings have limits of its latency selects its path with each report: see
//! [`RouteSelector`]. For a new route, it changes its service to [`Service::Both`], and then to
//! [`Service::Forwarding`]. It returns over [`Service::Both`] as well, so at no time a packet
//! depends on a relay that does not forward it yet, or no longer does.
//!
//! While relays forward the flow, every [`DIRECT_SAMPLE_INTERVAL`]th packet also uses the direct
//! path. So the receiver measures both paths by the same clocks.
//!
//! [`DIRECT_SAMPLE_INTERVAL`]: crate::limits::DIRECT_SAMPLE_INTERVAL

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_plan::{
    LatencyTerms, PathDelay, PathObservation, PathSelection, PlannedRoute, Route, RouteSelector, RouteTrust,
};
use byway_units::{Duration, Time};
use byway_wire::messages::{FlowRole, RelativeDelay, Report};
use byway_wire::{SequenceNumber, Service};

use super::clock_offset::ClockOffset;
use super::selection::{DelayRequests, reported_delays};
use super::send_flow::{SendFlow, SendFlowId};
use super::settings::{FlowSettings, RelayPath};
use super::{Agent, Flow};
use crate::limits::{ROUTE_OVERLAP, ROUTE_SETTLES_IN, ROUTE_SILENT_PACKETS_MIN};
use crate::policy::{repairs_on_request, samples_direct_path};
use crate::session::SessionId;

/// Path of a flow with limits of its latency, and the measured delays of its paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteStatus {
    /// Latest change of the path, with its reason; `None` before the first one.
    pub selection: Option<PathSelection>,
    /// Time of that change.
    pub changed_at: Option<Time>,
    /// Delays of the direct path and of the route, by the receiver's latest report.
    pub observation: PathObservation,
}

impl RouteStatus {
    /// Returns the route in use, with its planned delay; `None` for the direct path.
    #[must_use]
    pub fn route(&self) -> Option<PlannedRoute> {
        self.selection?.route
    }
}

/// Selector of one flow's path, and the state of its change.
#[derive(Debug)]
struct FlowRoute {
    peer: SessionId,
    selector: RouteSelector,
    clock: ClockOffset,
    status: RouteStatus,
    /// Service of the flow before its route, to which it returns. `None` while it has that service.
    before: Option<Service>,
    /// Number of the flow's next packet at the latest report.
    reported_until: SequenceNumber,
    delay_requests: DelayRequests,
}

/// State of a flow at the arrival of a report, for the measurement of its paths.
#[derive(Clone, Copy, Debug)]
struct FlowProgress {
    /// Round trip of the direct path, if it was measured.
    round_trip: Option<Duration>,
    /// Route over the relays of the path in use.
    path_in_use: Option<Route>,
    /// Number of the flow's next packet.
    next: SequenceNumber,
}

impl FlowRoute {
    fn new(terms: LatencyTerms, peer: SessionId) -> Self {
        Self {
            peer,
            selector: RouteSelector::new(terms),
            clock: ClockOffset::default(),
            status: RouteStatus::default(),
            before: None,
            reported_until: SequenceNumber::FIRST,
            delay_requests: DelayRequests::default(),
        }
    }

    /// Updates the delays of both paths with a report. An outage of the direct path is left to the
    /// flow's service, so the delay of that path is then unknown.
    fn measure(&mut self, report: &Report, progress: &FlowProgress, now: Time) {
        if let Some((direct, round_trip)) = report.paths.direct.zip(progress.round_trip) {
            self.clock.on_report(direct, round_trip, now);
        }
        let before = core::mem::replace(&mut self.reported_until, progress.next);
        let sent = progress.next.since(before).unwrap_or(0);
        let direct = self.delay(report.paths.direct).unwrap_or_default();
        let is_settled = self.status.changed_at.is_none_or(|at| now.saturating_since(at) >= ROUTE_SETTLES_IN);
        let route = match self.selector.route().filter(|_| is_settled) {
            None => PathDelay::Unknown,
            // The relays of the route are down, or the flow may not use them any more.
            Some(route) if progress.path_in_use != Some(route) => PathDelay::Silent,
            Some(_) => self.delay(report.paths.relayed).unwrap_or(if sent >= ROUTE_SILENT_PACKETS_MIN {
                PathDelay::Silent
            } else {
                PathDelay::Unknown
            }),
        };
        self.status.observation = PathObservation { direct, route };
    }

    /// Returns the one-way delay that 95 % of the packets did not exceed; `None` if no packet
    /// arrived, or the clocks' offset is unknown.
    fn delay(&self, relative: Option<RelativeDelay>) -> Option<PathDelay> {
        relative.and_then(|relative| self.clock.delay(relative.p95)).map(PathDelay::Measured)
    }

    /// Returns the service that the flow needs next for its path, if it has the service `in_force`;
    /// `None` if the path does not determine it. `may_forward` is true if relays may forward the
    /// flow without the direct path.
    fn next_service(&mut self, in_force: Service, may_forward: bool, now: Time) -> Option<Service> {
        let before = self.before?;
        let is_by_relays = matches!(in_force, Service::Both | Service::Forwarding);
        if self.selector.route().is_some() {
            let uses_both = self.selector.uses_both(now) || !may_forward || !is_by_relays;
            return Some(if uses_both { Service::Both } else { Service::Forwarding });
        }
        let is_recent = self.status.changed_at.is_some_and(|at| now.saturating_since(at) < ROUTE_OVERLAP);
        if in_force == Service::Forwarding || (in_force == Service::Both && is_recent) {
            return Some(Service::Both);
        }
        if in_force == before {
            self.before = None;
        }
        Some(before)
    }
}

/// Selectors of the paths of sent flows, which are numbered as in their table. Trust in routes is
/// shared by the flows to one peer.
#[derive(Debug, Default)]
pub(super) struct FlowRoutes {
    flows: BTreeMap<u32, FlowRoute>,
    trust: BTreeMap<SessionId, RouteTrust>,
}

impl FlowRoutes {
    /// Adds the selector of a flow to this peer, if its settings have limits of its latency. A flow
    /// whose settings name forwarding, both paths or the direct path alone keeps to them.
    pub(super) fn add(&mut self, flow: u32, peer: SessionId, settings: &FlowSettings) {
        let may_leave = repairs_on_request(settings.service) || settings.selects_service();
        if let Some(terms) = settings.latency_terms().filter(|_| may_leave) {
            self.flows.insert(flow, FlowRoute::new(terms, peer));
        }
    }

    /// Forgets a closed flow, and the trust in routes to its peer after the last one.
    pub(super) fn remove(&mut self, flow: u32) {
        if let Some(removed) = self.flows.remove(&flow)
            && !self.flows.values().any(|other| other.peer == removed.peer)
        {
            self.trust.remove(&removed.peer);
        }
    }

    /// Returns the path of a flow; `None` if its settings have no limits of its latency.
    pub(super) fn status(&self, flow: u32) -> Option<RouteStatus> {
        self.flows.get(&flow).map(|known| known.status)
    }

    /// True if a flow has a route, or returns from one. Its service is then not selected otherwise.
    fn is_routed(&self, flow: u32) -> bool {
        self.flows.get(&flow).is_some_and(|known| known.before.is_some())
    }

    /// Makes a flow with a route return to this service, and not to its former one. Returns false
    /// if the flow has no route.
    pub(super) fn set_service(&mut self, flow: u32, service: Service) -> bool {
        let before = self.flows.get_mut(&flow).and_then(|known| known.before.as_mut());
        before.map(|before| *before = service).is_some()
    }

    /// Selects the path of a flow after a report, among the direct one and these routes. Returns
    /// the path to change to; `None` to keep the one in use.
    fn select(
        &mut self,
        flow: u32,
        report: &Report,
        (progress, routes): (&FlowProgress, &[PlannedRoute]),
        now: Time,
    ) -> Option<PathSelection> {
        let known = self.flows.get_mut(&flow)?;
        known.measure(report, progress, now);
        let plan = |is_permitted: &dyn Fn(&Route) -> bool| {
            let permitted = routes.iter().filter(|planned| is_permitted(&planned.route));
            permitted.min_by_key(|planned| planned.delay).copied()
        };
        let trust = self.trust.entry(known.peer).or_default();
        let observation = known.status.observation;
        known.selector.select(&observation, &plan, trust, now)
    }

    /// Records that a flow with this service changes to the selected path.
    fn on_changed(&mut self, flow: u32, selection: PathSelection, service: Service, now: Time) {
        if let Some(known) = self.flows.get_mut(&flow) {
            known.selector.on_changed(selection, now);
            known.status.selection = Some(selection);
            known.status.changed_at = Some(now);
            known.before.get_or_insert(service);
        }
    }
}

impl Agent {
    /// Returns the path of a sent flow; `None` if its settings have no limits of its latency, or if
    /// it was closed.
    #[must_use]
    pub fn route_status(&self, flow: SendFlowId) -> Option<RouteStatus> {
        self.service_changes.routes.status(flow.0)
    }

    /// Selects a flow's path after a report of its receiver, and changes its service towards that
    /// of the path. Returns true if the path determines the service; false for the others, and for
    /// flows without limits of their latency.
    pub(super) fn follow_route(&mut self, id: SendFlowId, report: &Report, now: Time) -> bool {
        if self.service_changes.routes.status(id.0).is_none() {
            return false;
        }
        self.watch_relays(Flow::Sent(id), now);
        self.ask_for_far_delays(id, now);
        // Without a direct path, relays deliver the flow anyway.
        if self.sessions.is_direct(self.senders[id.0 as usize].peer) {
            self.select_route(id, report, now);
            self.change_towards_route(id, now);
        }
        self.service_changes.routes.is_routed(id.0)
    }

    /// Selects a flow's path, and begins the change to it.
    fn select_route(&mut self, id: SendFlowId, report: &Report, now: Time) {
        let routes = self.routes_of(id, report, now);
        let may_use_relays = self.services_for(id, now).allow(Service::Both);
        let flow = &self.senders[id.0 as usize];
        let progress = FlowProgress {
            round_trip: self.sessions.measured_round_trip(flow.peer),
            path_in_use: flow.settings.paths.get(flow.registrations.in_use()).and_then(RelayPath::route),
            next: flow.next,
        };
        let coming = self.service_changes.pending_service(id.0).unwrap_or(flow.settings.service);
        let selection = self.service_changes.routes.select(id.0, report, (&progress, routes.as_slice()), now);
        let Some(selection) = selection.filter(|selection| selection.route.is_none() || may_use_relays)
        else {
            return;
        };
        let flow = &mut self.senders[id.0 as usize];
        let is_selected = |path: &RelayPath| {
            path.route().is_some_and(|route| selection.route.is_some_and(|planned| planned.route == route))
        };
        flow.registrations.prefer(flow.settings.paths.iter().position(is_selected));
        self.service_changes.routes.on_changed(id.0, selection, coming, now);
        self.choose_path(Flow::Sent(id), now);
    }

    /// Begins a change of a flow's service, if its path needs another one, and no change is
    /// pending.
    fn change_towards_route(&mut self, id: SendFlowId, now: Time) {
        if self.is_changing_service(id) {
            return;
        }
        let may_forward = self.services_for(id, now).allow(Service::Forwarding);
        let in_force = self.senders[id.0 as usize].settings.service;
        let next = self.service_changes.routes.flows.get_mut(&id.0);
        let next = next.and_then(|known| known.next_service(in_force, may_forward, now));
        if let Some(service) = next.filter(|service| *service != in_force) {
            self.begin_service_change(id, service, now);
        }
    }

    /// Returns the routes over a flow's relay paths that work, with the sums of their measured
    /// delays: halves of round trips. Routes with unknown delays are left out.
    fn routes_of(&self, id: SendFlowId, report: &Report, now: Time) -> Vec<PlannedRoute> {
        let flow = &self.senders[id.0 as usize];
        let mut routes: Vec<PlannedRoute> = Vec::new();
        for (index, path) in flow.settings.paths.iter().enumerate() {
            let works = flow.registrations.is_accepted(index)
                && self.is_path_alive(Flow::Sent(id), index, now)
                && self.path_shut_until(Flow::Sent(id), index, now).is_none();
            let delay = self.path_delay(flow, index, report).filter(|_| works);
            if let Some((route, delay)) = path.route().zip(delay)
                && !routes.iter().any(|known| known.route == route)
            {
                routes.push(PlannedRoute { route, delay });
            }
        }
        routes
    }

    /// Returns the one-way delay of a flow's relay path, from its sender to its receiver; `None` if
    /// a part of it was not measured.
    fn path_delay(&self, flow: &SendFlow, index: usize, report: &Report) -> Option<Duration> {
        let path = flow.settings.paths.get(index)?;
        let ingress = self.relay_session(path.ingress)?;
        let to_ingress = self.sessions.measured_round_trip(ingress)? / 2;
        let between =
            if path.has_two_relays() { flow.registrations.far_delay_of(index)? } else { Duration::ZERO };
        let (to_receiver, _) = reported_delays(report, path.far_relay(FlowRole::Sender));
        Some(to_ingress.saturating_add(between).saturating_add(to_receiver?))
    }

    /// Repeats the registrations of a flow's paths over two relays from time to time: the relays'
    /// answers contain their delays to each other.
    fn ask_for_far_delays(&mut self, id: SendFlowId, now: Time) {
        let SendFlow { settings, registrations, .. } = &mut self.senders[id.0 as usize];
        let paths = settings.paths.iter().enumerate().filter(|(_, path)| path.has_two_relays());
        let accepted = paths.map(|(index, _)| index).filter(|index| registrations.is_accepted(*index));
        let accepted: Vec<usize> = accepted.collect();
        let are_known = accepted.iter().all(|index| registrations.far_delay_of(*index).is_some());
        let known = self.service_changes.routes.flows.get_mut(&id.0);
        if accepted.is_empty() || !known.is_some_and(|known| known.delay_requests.is_due(are_known, now)) {
            return;
        }
        for index in accepted {
            registrations.request_again(index, now);
        }
        self.register(Flow::Sent(id), now);
    }
}

impl RelayPath {
    /// Returns the route over the relays of the path.
    fn route(&self) -> Option<Route> {
        let (ingress, egress) = (self.ingress.0, self.egress.0);
        if self.has_two_relays() { Route::new(&[ingress, egress]) } else { Route::new(&[ingress]) }
    }

    /// True if the path leads over two relays, and not only over two shards of one.
    fn has_two_relays(&self) -> bool {
        self.ingress.0 != self.egress.0
    }
}

impl SendFlow {
    /// Returns true if this packet is sent on the direct path. If relays alone forward the flow
    /// because that path is slow, a few packets show its delay.
    pub(super) fn uses_direct_path(&self, sequence: SequenceNumber) -> bool {
        let is_routed = self.settings.latency.is_some() && self.settings.service == Service::Forwarding;
        !self.needs_relay() || (is_routed && samples_direct_path(sequence))
    }
}

#[cfg(test)]
mod tests {
    use byway_plan::PathReason;
    use byway_units::RelayId;
    use byway_wire::Microseconds;
    use byway_wire::messages::{DelayPercentiles, PathDelays, RELAYS_REPORTED_MAX, RepairCounters};

    use super::*;

    const TERMS: LatencyTerms =
        LatencyTerms { acceptable: Duration::from_millis(50), gain: Duration::from_millis(10) };

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn second(number: u64) -> Time {
        Time::START + Duration::from_secs(number)
    }

    fn route() -> Route {
        Route::new(&[RelayId::new(1), RelayId::new(2)]).expect("two relays")
    }

    /// Returns a report of these delays of the direct path and of the route, in milliseconds.
    fn report_of(direct: Option<u32>, relayed: Option<u32>) -> Report {
        let none = Microseconds::new(0);
        let delay = |ms: Option<u32>| ms.map(|ms| RelativeDelay { least: ms * 1_000, p95: ms * 1_000 });
        Report {
            flow_key: crate::agent::flow_between(
                byway_units::AgentId::new(1),
                byway_units::AgentId::new(2),
                byway_units::FlowId::new(1),
            ),
            highest_low: 0,
            direct: 0,
            lost: 0,
            repaired: RepairCounters::default(),
            late: 0,
            bursts: 0,
            longest_burst: 0,
            delay: DelayPercentiles { p50: none, p95: none, p99: none },
            detection: none,
            relays: [None; RELAYS_REPORTED_MAX],
            covered: 0,
            paths: PathDelays { direct: delay(direct), relayed: delay(relayed) },
        }
    }

    /// Flow whose receiver reports each second.
    struct Harness {
        flow: FlowRoute,
        trust: RouteTrust,
        service: Service,
        second: u64,
        services: Vec<(u64, Service)>,
    }

    impl Harness {
        fn new(service: Service) -> Self {
            let peer = SessionId(0);
            let flow = FlowRoute::new(TERMS, peer);
            Self { flow, trust: RouteTrust::new(), service, second: 0, services: Vec::new() }
        }

        /// Reports these delays for some seconds. A route needs 45 ms by the plan.
        fn run(&mut self, seconds: u64, (direct, relayed): (Option<u32>, Option<u32>)) {
            for _ in 0..seconds {
                self.second += 1;
                let now = second(self.second);
                let relayed = relayed.filter(|_| self.flow.before.is_some());
                let progress = FlowProgress {
                    round_trip: direct.map(|direct| ms(u64::from(direct) * 2)),
                    path_in_use: Some(route()),
                    next: SequenceNumber::new(self.second * 50),
                };
                self.flow.measure(&report_of(direct, relayed), &progress, now);
                let planned = PlannedRoute { route: route(), delay: ms(45) };
                let plan =
                    |is_permitted: &dyn Fn(&Route) -> bool| Some(planned).filter(|_| is_permitted(&route()));
                let observation = self.flow.status.observation;
                if let Some(selection) = self.flow.selector.select(&observation, &plan, &mut self.trust, now)
                {
                    self.flow.selector.on_changed(selection, now);
                    (self.flow.status.selection, self.flow.status.changed_at) = (Some(selection), Some(now));
                    self.flow.before.get_or_insert(self.service);
                }
                let next = self.flow.next_service(self.service, true, now);
                if let Some(service) = next.filter(|service| *service != self.service) {
                    self.service = service;
                    self.services.push((self.second, service));
                }
            }
        }

        fn reason(&self) -> Option<PathReason> {
            self.flow.status.selection.map(|selection| selection.reason)
        }
    }

    #[test]
    fn a_slow_direct_path_is_left_over_both_paths_and_returned_to_in_the_same_way() {
        let mut harness = Harness::new(Service::Caching);
        harness.run(10, (Some(40), None));
        assert_eq!((harness.reason(), harness.flow.before), (None, None));
        harness.run(30, (Some(120), Some(47)));
        assert_eq!(harness.services, [(11, Service::Both), (16, Service::Forwarding)]);
        assert_eq!(harness.reason(), Some(PathReason::DirectTooSlow));
        harness.run(60, (Some(40), Some(47)));
        let returned = [(71, Service::Both), (73, Service::Caching)];
        assert_eq!(harness.services[2..], returned, "7 ms are less than the gain");
        assert_eq!((harness.reason(), harness.flow.before), (Some(PathReason::GainGone), None));
    }

    #[test]
    fn a_flow_that_uses_both_paths_keeps_that_service_around_a_route() {
        let mut harness = Harness::new(Service::Both);
        harness.run(5, (Some(40), None));
        harness.run(30, (Some(120), Some(47)));
        harness.run(60, (Some(40), Some(47)));
        assert_eq!(harness.services, [(11, Service::Forwarding), (66, Service::Both)]);
        assert_eq!(harness.flow.before, None);
    }

    #[test]
    fn a_route_without_packets_fails_and_one_that_has_just_begun_does_not() {
        let mut harness = Harness::new(Service::Caching);
        harness.run(5, (Some(40), None));
        harness.run(2, (Some(120), None));
        assert_eq!(harness.flow.status.observation.route, PathDelay::Unknown);
        harness.run(10, (Some(120), None));
        assert_eq!(harness.reason(), Some(PathReason::RouteFailed));
        assert_eq!(harness.services, [(6, Service::Both), (13, Service::Caching)]);
    }
}
