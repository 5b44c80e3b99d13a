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
    CHANGE_INTERVAL, LatencyTerms, PathDelay, PathObservation, PathSelection, PlannedRoute, Route,
    RouteSelector, RouteTrust,
};
use byway_units::{Duration, Time};
use byway_wire::messages::{RelativeDelay, Report};
use byway_wire::{SequenceNumber, Service};

use super::clock_offset::ClockOffset;
use super::selection::DelayRequests;
use super::settings::FlowSettings;
use crate::limits::{ROUTE_BOTH_PATHS_FOR, ROUTE_OVERLAP, ROUTE_SETTLES_IN, ROUTE_SILENT_PACKETS_MIN};
use crate::policy::repairs_on_request;
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
    /// Latest time at which the direct path was faster than the route by the gain.
    direct_faster_at: Option<Time>,
    /// Number of the flow's next packet at the latest report.
    reported_until: SequenceNumber,
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
    fn new(terms: LatencyTerms, peer: SessionId) -> Self {
        Self {
            peer,
            selector: RouteSelector::new(terms),
            clock: ClockOffset::default(),
            status: RouteStatus::default(),
            before: None,
            direct_faster_at: None,
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

    /// See [`FlowRoutes::next_service`].
    fn next_service(&mut self, in_force: Service, may_forward: bool, now: Time) -> Option<Service> {
        let before = self.before?;
        let is_by_relays = matches!(in_force, Service::Both | Service::Forwarding);
        let is_within = |at: Option<Time>, time| at.is_some_and(|at| now.saturating_since(at) < time);
        if self.selector.route().is_some() {
            let needs_both = self.selector.uses_both(now);
            if needs_both && !is_within(self.status.changed_at, CHANGE_INTERVAL) {
                self.direct_faster_at = Some(now);
            }
            let keeps_both = is_within(self.direct_faster_at, ROUTE_BOTH_PATHS_FOR);
            let uses_both = needs_both || keeps_both || !may_forward || !is_by_relays;
            return Some(if uses_both { Service::Both } else { Service::Forwarding });
        }
        let is_recent = is_within(self.status.changed_at, ROUTE_OVERLAP);
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
    pub(super) fn is_routed(&self, flow: u32) -> bool {
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

    /// Returns true if the delays between the relays of a flow's paths are to be asked for now.
    pub(super) fn asks_for_delays(&mut self, flow: u32, are_known: bool, now: Time) -> bool {
        self.flows.get_mut(&flow).is_some_and(|known| known.delay_requests.is_due(are_known, now))
    }

    /// Records that a flow with this service changes to the selected path.
    pub(super) fn on_changed(&mut self, flow: u32, selection: PathSelection, service: Service, now: Time) {
        if let Some(known) = self.flows.get_mut(&flow) {
            known.selector.on_changed(selection, now);
            known.status.selection = Some(selection);
            known.status.changed_at = Some(now);
            known.direct_faster_at = None;
            known.before.get_or_insert(service);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use byway_plan::PathReason;
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
            paths: ReportedDelays { direct: delay(direct), relayed: delay(relayed) },
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
