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

use byway_plan::{
    CHANGE_INTERVAL, LatencyTerms, PathDelay, PathObservation, PathReason, PathSelection, PlannedRoute,
    Route, RouteSelector, RouteTrust,
};
use byway_units::{Duration, Time};
use byway_wire::messages::{RelativeDelay, Report};
use byway_wire::{SequenceNumber, Service};

use super::clock_offset::ClockOffset;
use super::selection::DelayRequests;
use super::settings::{FlowSettings, Traffic};
use crate::limits::{
    DIRECT_DELAY_BELIEVED_FOR, ROUTE_BOTH_PATHS_FOR, ROUTE_OVERLAP, ROUTE_SETTLES_IN,
    ROUTE_SILENT_PACKETS_MIN,
};
use crate::policy::forwards_all;
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
    /// Service of the flow before its route, to which it returns. `None` while it has that service.
    pub before: Option<Service>,
}

impl RouteStatus {
    /// Returns the route in use, with its planned delay; `None` for the direct path.
    #[must_use]
    pub fn route(&self) -> Option<PlannedRoute> {
        self.selection?.route
    }

    /// True if the flow has a route, or returns from one.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        self.before.is_some()
    }
}

/// Selector of one flow's path, and the state of its change.
#[derive(Debug)]
struct FlowRoute {
    peer: SessionId,
    selector: RouteSelector,
    clock: ClockOffset,
    status: RouteStatus,
    /// True if delays without queues are compared. The packets of a mixture of traffic queue behind
    /// each other, on whatever path they use.
    excludes_queues: bool,
    /// Latest time at which the direct path was faster than the route by the gain.
    direct_faster_at: Option<Time>,
    /// Latest measured delay of the direct path, and its time.
    direct_delay: Option<(PathDelay, Time)>,
    /// Number of the flow's next packet at the latest report of packets from relays, or at the
    /// latest report without a route to judge.
    reported_until: SequenceNumber,
    /// Time since which the flow uses the selected path; `None` before.
    path_since: Option<Time>,
    delay_requests: DelayRequests,
}

/// State of a flow at the arrival of a report, for the measurement of its paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowProgress {
    /// Round trip of the direct path, if it was measured.
    pub(super) round_trip: Option<Duration>,
    /// Route over the relays of the path in use.
    pub(super) path_in_use: Option<Route>,
    /// Number of the flow's next packet.
    pub(super) next: SequenceNumber,
}

impl FlowRoute {
    fn new(terms: LatencyTerms, traffic: Traffic, peer: SessionId) -> Self {
        Self {
            peer,
            selector: RouteSelector::new(terms),
            clock: ClockOffset::default(),
            status: RouteStatus::default(),
            excludes_queues: traffic == Traffic::Mixture,
            direct_faster_at: None,
            direct_delay: None,
            reported_until: SequenceNumber::FIRST,
            path_since: None,
            delay_requests: DelayRequests::default(),
        }
    }

    /// Updates the delays of both paths with a report. An outage of the direct path is left to the
    /// flow's service, so the delay of that path is unknown after a while.
    fn measure(&mut self, report: &Report, progress: &FlowProgress, now: Time) {
        if let Some((direct, round_trip)) = report.paths.direct.zip(progress.round_trip) {
            self.clock.on_report(direct, round_trip, now);
        }
        if let Some(delay) = self.delay(report.paths.direct) {
            self.direct_delay = Some((delay, now));
        }
        let is_recent = |(_, at): &(PathDelay, Time)| now.saturating_since(*at) < DIRECT_DELAY_BELIEVED_FOR;
        let direct = self.direct_delay.filter(is_recent).map_or(PathDelay::Unknown, |(delay, _)| delay);
        let route = self.route_delay(report, progress, now);
        self.status.observation = PathObservation { direct, route };
    }

    /// Returns the delay of the route in use by a report. It is unknown until the flow has used the
    /// route for a while.
    fn route_delay(&mut self, report: &Report, progress: &FlowProgress, now: Time) -> PathDelay {
        let sent = progress.next.since(self.reported_until).unwrap_or(0);
        let route = self.selector.route().filter(|_| self.is_settled(now));
        if route.is_none() || report.paths.relayed.is_some() {
            self.reported_until = progress.next;
        }
        let Some(route) = route else {
            return PathDelay::Unknown;
        };
        if progress.path_in_use != Some(route) {
            // The relays of the route are down, or the flow may not use them any more.
            return PathDelay::Silent;
        }
        match self.delay(report.paths.relayed) {
            Some(delay) => delay,
            None if sent >= ROUTE_SILENT_PACKETS_MIN => PathDelay::Silent,
            None => PathDelay::Unknown,
        }
    }

    /// True if reports are about the selected path alone.
    fn is_settled(&self, now: Time) -> bool {
        self.path_since.is_some_and(|since| now.saturating_since(since) >= ROUTE_SETTLES_IN)
    }

    /// Returns the one-way delay that 95 % of the packets did not exceed, or the least one if
    /// queues are excluded. `None` if no packet arrived, or the clocks' offset is unknown.
    fn delay(&self, relative: Option<RelativeDelay>) -> Option<PathDelay> {
        let delay = relative.map(|known| if self.excludes_queues { known.least } else { known.p95 });
        delay.and_then(|delay| self.clock.delay(delay)).map(PathDelay::Measured)
    }

    /// See [`FlowRoutes::next_service`].
    fn next_service(&mut self, in_force: Service, may_forward: bool, now: Time) -> Option<Service> {
        let before = self.status.before?;
        let is_by_relays = forwards_all(in_force);
        let is_within = |at: Option<Time>, time| at.is_some_and(|at| now.saturating_since(at) < time);
        if self.selector.route().is_some() {
            let needs_both = self.selector.uses_both(now);
            if needs_both && !is_within(self.status.changed_at, CHANGE_INTERVAL) {
                self.direct_faster_at = Some(now);
            }
            let keeps_both = is_within(self.direct_faster_at, ROUTE_BOTH_PATHS_FOR);
            let is_trial = needs_both || !self.is_settled(now);
            let uses_both = is_trial || keeps_both || !may_forward || !is_by_relays;
            return Some(if uses_both { Service::Both } else { Service::Forwarding });
        }
        let is_recent = is_within(self.status.changed_at, ROUTE_OVERLAP);
        if in_force == Service::Forwarding || (in_force == Service::Both && is_recent) {
            return Some(Service::Both);
        }
        if in_force == before {
            self.status.before = None;
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
    /// Adds the selector of a flow to this peer, if its settings have limits of its latency that
    /// have an effect.
    pub(super) fn add(&mut self, flow: u32, peer: SessionId, settings: &FlowSettings) {
        if let Some(terms) = settings.latency_terms() {
            self.flows.insert(flow, FlowRoute::new(terms, settings.traffic, peer));
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
    pub(super) fn is_routed(&self, flow: u32) -> bool {
        self.flows.get(&flow).is_some_and(|known| known.status.is_routed())
    }

    /// Makes a flow with a route return to this service, and not to its former one. Returns false
    /// if the flow has no route, or returns to this service already.
    pub(super) fn set_service(&mut self, flow: u32, service: Service) -> bool {
        let before = self.flows.get_mut(&flow).and_then(|known| known.status.before.as_mut());
        before.is_some_and(|before| core::mem::replace(before, service) != service)
    }

    /// Selects the path of a flow after a report, among the direct one and these routes. Returns
    /// the path to change to; `None` to keep the one in use.
    pub(super) fn select(
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

    /// Returns the selected path of a flow with the service `in_force`, if the flow has to change
    /// to it now, and records that. `None` keeps the path in use.
    ///
    /// A flow that relays alone forward keeps its path until packets use the direct path as well:
    /// the relays of another path may not forward them yet. A route that failed delivers nothing
    /// anyway.
    pub(super) fn pop_path(&mut self, flow: u32, in_force: Service, now: Time) -> Option<PathSelection> {
        let known = self.flows.get_mut(&flow)?;
        let may_change = |selection: &PathSelection| {
            in_force != Service::Forwarding || selection.reason == PathReason::RouteFailed
        };
        let selection = known.status.selection.filter(may_change)?;
        if known.path_since.is_some() {
            return None;
        }
        known.path_since = Some(now);
        Some(selection)
    }

    /// Returns the service that a flow needs next for its path, if it has the service `in_force`;
    /// `None` if its path does not determine it. `may_forward` is true if relays may forward the
    /// flow without the direct path.
    pub(super) fn next_service(
        &mut self,
        flow: u32,
        in_force: Service,
        may_forward: bool,
        now: Time,
    ) -> Option<Service> {
        self.flows.get_mut(&flow)?.next_service(in_force, may_forward, now)
    }

    /// Returns true if a request for the delays between the relays of a flow's paths is due now.
    pub(super) fn is_delay_request_due(&mut self, flow: u32, are_known: bool, now: Time) -> bool {
        self.flows.get_mut(&flow).is_some_and(|known| known.delay_requests.is_due(are_known, now))
    }

    /// Records that a flow with this service changes to the selected path. If relays alone forward
    /// it already, it returns to both paths, from which its service is selected again.
    pub(super) fn on_changed(&mut self, flow: u32, selection: PathSelection, service: Service, now: Time) {
        if let Some(known) = self.flows.get_mut(&flow) {
            known.selector.on_changed(selection, now);
            known.status.selection = Some(selection);
            known.status.changed_at = Some(now);
            (known.direct_faster_at, known.path_since) = (None, None);
            let before = if service == Service::Forwarding { Service::Both } else { service };
            known.status.before.get_or_insert(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;

    use byway_units::RelayId;
    use byway_wire::Microseconds;
    use byway_wire::messages::{DelayPercentiles, RELAYS_REPORTED_MAX, RepairCounters, ReportedDelays};

    use super::*;

    const TERMS: LatencyTerms =
        LatencyTerms { acceptable: Duration::from_millis(50), gain: Duration::from_millis(10) };

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn second(number: u64) -> Time {
        Time::START + Duration::from_secs(number)
    }

    /// Returns the route over this relay and the next one.
    fn route_from(relay: u32) -> Route {
        Route::new(&[RelayId::new(relay), RelayId::new(relay + 1)]).expect("two relays")
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
            paths: ReportedDelays { direct: delay(direct), relayed: delay(relayed) },
        }
    }

    /// Number of the flow in its table.
    const FLOW: u32 = 7;

    /// Flow whose receiver reports each second. Its relay path needs 45 ms by the plan.
    struct Harness {
        routes: FlowRoutes,
        planned_routes: Vec<PlannedRoute>,
        path_in_use: Route,
        service: Service,
        second: u64,
        /// Packets that the flow has sent, and those of each second.
        packets: u64,
        packets_per_second: u64,
        services: Vec<(u64, Service)>,
    }

    impl Harness {
        fn new(service: Service) -> Self {
            Self::with_traffic(service, Traffic::Datagrams)
        }

        fn with_traffic(service: Service, traffic: Traffic) -> Self {
            let settings = FlowSettings {
                service,
                traffic,
                automatic_service: forwards_all(service),
                latency: Some(Box::new(TERMS)),
                ..FlowSettings::default()
            };
            let mut routes = FlowRoutes::default();
            routes.add(FLOW, SessionId(0), &settings);
            Self {
                routes,
                planned_routes: vec![PlannedRoute { route: route_from(1), delay: ms(45) }],
                path_in_use: route_from(1),
                service,
                second: 0,
                packets: 0,
                packets_per_second: 50,
                services: Vec::new(),
            }
        }

        /// Reports these delays for some seconds, in milliseconds.
        fn run(&mut self, seconds: u64, (direct, relayed): (Option<u32>, Option<u32>)) {
            for _ in 0..seconds {
                let relayed = relayed.filter(|_| self.routes.is_routed(FLOW));
                self.handle(&report_of(direct, relayed), direct);
            }
        }

        /// Handles a report after one more second. The round trip is twice the direct delay.
        fn handle(&mut self, report: &Report, direct: Option<u32>) {
            self.second += 1;
            self.packets += self.packets_per_second;
            let now = second(self.second);
            let progress = FlowProgress {
                round_trip: direct.map(|direct| ms(u64::from(direct) * 2)),
                path_in_use: Some(self.path_in_use),
                next: SequenceNumber::new(self.packets),
            };
            if let Some(selection) =
                self.routes.select(FLOW, report, (&progress, self.planned_routes.as_slice()), now)
            {
                self.routes.on_changed(FLOW, selection, self.service, now);
            }
            if let Some(selection) = self.routes.pop_path(FLOW, self.service, now) {
                self.path_in_use =
                    selection.route.map_or(self.planned_routes[0].route, |planned| planned.route);
            }
            let next = self.routes.next_service(FLOW, self.service, true, now);
            if let Some(service) = next.filter(|service| *service != self.service) {
                self.service = service;
                self.services.push((self.second, service));
            }
        }

        fn status(&self) -> RouteStatus {
            self.routes.status(FLOW).expect("the flow has limits")
        }

        fn reason(&self) -> Option<PathReason> {
            self.status().selection.map(|selection| selection.reason)
        }
    }

    #[test]
    fn a_slow_direct_path_is_left_over_both_paths_and_returned_to_in_the_same_way() {
        let mut harness = Harness::new(Service::Caching);
        harness.run(10, (Some(40), None));
        assert_eq!((harness.reason(), harness.routes.is_routed(FLOW)), (None, false));
        harness.run(30, (Some(120), Some(47)));
        assert_eq!(harness.services, [(11, Service::Both), (16, Service::Forwarding)]);
        assert_eq!(harness.reason(), Some(PathReason::DirectTooSlow));
        harness.run(60, (Some(40), Some(47)));
        let changes = [(71, Service::Both), (73, Service::Caching)];
        assert_eq!(harness.services[2..], changes, "7 ms are less than the gain");
        let is_routed = harness.routes.is_routed(FLOW);
        assert_eq!((harness.reason(), is_routed), (Some(PathReason::GainGone), false));
    }

    #[test]
    fn a_flow_that_uses_both_paths_keeps_that_service_around_a_route() {
        let mut harness = Harness::new(Service::Both);
        harness.run(5, (Some(40), None));
        harness.run(30, (Some(120), Some(47)));
        harness.run(60, (Some(40), Some(47)));
        assert_eq!(harness.services, [(11, Service::Forwarding), (66, Service::Both)]);
        assert!(!harness.routes.is_routed(FLOW));
    }

    #[test]
    fn a_flow_that_relays_alone_forward_already_is_left_with_both_paths_after_its_route() {
        let mut harness = Harness::new(Service::Forwarding);
        harness.run(5, (Some(40), None));
        assert_eq!(harness.services, []);
        harness.run(30, (Some(120), Some(47)));
        harness.run(90, (Some(40), Some(47)));
        let services: Vec<Service> = harness.services.iter().map(|(_, service)| *service).collect();
        assert_eq!(services, [Service::Both, Service::Forwarding, Service::Both]);
        assert!(!harness.routes.is_routed(FLOW));
    }

    #[test]
    fn a_direct_path_that_is_faster_now_and_then_makes_the_flow_keep_both_paths() {
        let mut harness = Harness::new(Service::Caching);
        harness.run(10, (Some(40), None));
        harness.run(10, (Some(120), Some(47)));
        for _ in 0..20 {
            harness.run(1, (Some(30), Some(47)));
            harness.run(2, (Some(120), Some(47)));
        }
        harness.run(15, (Some(120), Some(47)));
        assert_eq!(
            harness.services[1..],
            [(16, Service::Forwarding), (21, Service::Both), (88, Service::Forwarding)]
        );
    }

    #[test]
    fn a_slow_flow_returns_though_few_reports_have_a_delay_of_the_direct_path() {
        let mut harness = Harness::new(Service::Caching);
        harness.run(10, (Some(40), None));
        harness.run(20, (Some(120), Some(47)));
        for _ in 0..10 {
            harness.run(1, (Some(40), Some(47)));
            harness.run(3, (None, Some(47)));
        }
        assert_eq!(harness.services[2..], [(61, Service::Both), (63, Service::Caching)]);
    }

    #[test]
    fn a_route_without_packets_fails_and_one_that_has_just_begun_does_not() {
        let mut harness = Harness::new(Service::Caching);
        harness.run(5, (Some(40), None));
        harness.run(2, (Some(120), None));
        assert_eq!(harness.status().observation.route, PathDelay::Unknown);
        harness.run(10, (Some(120), None));
        assert_eq!(harness.reason(), Some(PathReason::RouteFailed));
        assert_eq!(harness.services, [(6, Service::Both), (13, Service::Caching)]);
    }

    #[test]
    fn packets_that_no_report_of_the_route_covers_add_up_until_it_has_failed() {
        let mut harness = Harness::new(Service::Caching);
        harness.run(5, (Some(40), None));
        harness.run(20, (Some(120), Some(47)));
        harness.packets_per_second = ROUTE_SILENT_PACKETS_MIN / 2;
        harness.run(1, (Some(120), None));
        assert_eq!(harness.status().observation.route, PathDelay::Unknown, "they may be in flight");
        harness.run(1, (Some(120), None));
        assert_eq!(harness.reason(), Some(PathReason::RouteFailed));
    }

    #[test]
    fn a_flow_that_relays_alone_forward_uses_both_paths_before_it_changes_its_relay_path() {
        let mut harness = Harness::new(Service::Caching);
        harness.run(5, (Some(40), None));
        harness.run(10, (Some(120), Some(47)));
        harness.planned_routes.push(PlannedRoute { route: route_from(3), delay: ms(30) });
        harness.run(31, (Some(120), Some(47)));
        assert_eq!(harness.reason(), Some(PathReason::FasterRoute));
        assert_eq!((harness.service, harness.path_in_use), (Service::Both, route_from(1)));
        harness.run(10, (Some(120), Some(31)));
        assert_eq!(harness.path_in_use, route_from(3));
        let services = [(11, Service::Forwarding), (46, Service::Both), (51, Service::Forwarding)];
        assert_eq!(harness.services[1..], services);
        harness.run(30, (Some(40), Some(31)));
        assert_eq!((harness.service, harness.path_in_use), (Service::Forwarding, route_from(3)));
        harness.run(1, (Some(40), Some(31)));
        assert_eq!((harness.service, harness.path_in_use), (Service::Both, route_from(3)));
        harness.run(1, (Some(40), Some(31)));
        assert_eq!((harness.service, harness.path_in_use), (Service::Both, route_from(1)));
    }

    #[test]
    fn without_delays_by_path_as_of_earlier_versions_the_flow_stays_on_the_direct_path() {
        let mut harness = Harness::new(Service::Caching);
        for _ in 0..30 {
            harness.handle(&report_of(None, None), Some(120));
        }
        assert_eq!((harness.reason(), harness.services), (None, Vec::new()));
    }

    #[test]
    fn the_queue_of_a_mixture_does_not_make_it_leave_its_path() {
        for (traffic, reason) in
            [(Traffic::Datagrams, Some(PathReason::DirectTooSlow)), (Traffic::Mixture, None)]
        {
            let mut harness = Harness::with_traffic(Service::Caching, traffic);
            harness.run(10, (Some(40), None));
            let mut report = report_of(Some(40), None);
            report.paths.direct = Some(RelativeDelay { least: 40_000, p95: 120_000 });
            harness.handle(&report, Some(40));
            assert_eq!(harness.reason(), reason, "{traffic:?}");
            harness.run(1, (Some(120), None));
            assert_eq!(harness.reason(), Some(PathReason::DirectTooSlow), "{traffic:?}: a longer path");
        }
    }

    #[test]
    fn a_flow_with_a_route_returns_to_the_service_that_was_set_meanwhile() {
        let mut harness = Harness::new(Service::Caching);
        assert!(!harness.routes.set_service(FLOW, Service::Pull), "it has no route");
        harness.run(5, (Some(40), None));
        harness.run(30, (Some(120), Some(47)));
        assert!(!harness.routes.set_service(FLOW, Service::Caching), "it returns to that one");
        assert!(harness.routes.set_service(FLOW, Service::Pull));
        harness.run(60, (Some(40), Some(47)));
        assert_eq!(harness.services.last(), Some(&(68, Service::Pull)));
    }
}
