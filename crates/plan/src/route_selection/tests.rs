//! Selectors against traces of delays, second by second.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use byway_units::RelayId;

use super::*;

const TERMS: LatencyTerms =
    LatencyTerms { acceptable: Duration::from_millis(50), gain: Duration::from_millis(10) };

/// Route of a trace. Delays are in milliseconds.
struct TraceRoute {
    route: Route,
    /// Delay by the reports of the relays.
    planned: u64,
    /// Delay at a second of the trace; `None` while the route delivers nothing.
    delay: Box<dyn Fn(u64) -> Option<u64>>,
}

/// Flow whose receiver reports once a second.
struct Harness {
    selector: RouteSelector,
    trust: RouteTrust,
    second: u64,
    /// Delay of the direct path by second; `None` while it delivers nothing.
    direct: Box<dyn Fn(u64) -> Option<u64>>,
    routes: Vec<TraceRoute>,
    changes: Vec<(u64, PathSelection)>,
    /// Seconds in which a packet is later than it would be on the direct path by over 10 ms.
    delayed: u64,
    /// Seconds in which no path in use delivers, and another one does.
    dark: u64,
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn route(relays: &[u32]) -> Route {
    let relays: Vec<RelayId> = relays.iter().copied().map(RelayId::new).collect();
    Route::new(&relays).expect("the test has one to three")
}

fn trace(relays: &[u32], planned: u64, delay: impl Fn(u64) -> Option<u64> + 'static) -> TraceRoute {
    TraceRoute { route: route(relays), planned, delay: Box::new(delay) }
}

fn measured(delay: Option<u64>) -> PathDelay {
    delay.map_or(PathDelay::Silent, |delay| PathDelay::Measured(ms(delay)))
}

impl Harness {
    fn new(direct: impl Fn(u64) -> Option<u64> + 'static, routes: Vec<TraceRoute>) -> Self {
        Self {
            selector: RouteSelector::new(TERMS),
            trust: RouteTrust::new(),
            second: 0,
            direct: Box::new(direct),
            routes,
            changes: Vec::new(),
            delayed: 0,
            dark: 0,
        }
    }

    fn now(&self) -> Time {
        Time::START + Duration::from_secs(self.second)
    }

    fn in_use(&self) -> Option<&TraceRoute> {
        let route = self.selector.route()?;
        self.routes.iter().find(|trace| trace.route == route)
    }

    /// Lets the flow send until this second. Each report is about the second before it.
    fn run_until(&mut self, end: u64) {
        while self.second < end {
            let (direct, both) = ((self.direct)(self.second), self.selector.uses_both(self.now()));
            let by_route = self.in_use().map(|route| (route.delay)(self.second));
            let used = match by_route {
                None => direct,
                Some(by_route) if both => direct.into_iter().chain(by_route).min(),
                Some(by_route) => by_route,
            };
            self.dark += u64::from(used.is_none() && direct.is_some());
            self.delayed += u64::from(used.zip(direct).is_some_and(|(used, direct)| used > direct + 10));
            self.second += 1;
            let now = self.now();
            let plan = |is_permitted: &dyn Fn(&Route) -> bool| {
                let permitted = self.routes.iter().filter(|trace| is_permitted(&trace.route));
                let best = permitted.min_by_key(|trace| trace.planned)?;
                Some(PlannedRoute { route: best.route, delay: ms(best.planned) })
            };
            let route = by_route.map_or(PathDelay::Unknown, measured);
            let observation = PathObservation { direct: measured(direct), route };
            let selection = self.selector.select(&observation, &plan, &mut self.trust, now);
            if let Some(selection) = selection {
                self.selector.on_changed(selection, now);
                self.changes.push((self.second, selection));
            }
        }
    }

    fn reasons(&self) -> Vec<(u64, PathReason)> {
        self.changes.iter().map(|(second, selection)| (*second, selection.reason)).collect()
    }

    fn changes_are_five_seconds_apart(&self) -> bool {
        self.changes.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 5)
    }
}

#[test]
fn a_direct_path_that_becomes_slow_is_left_with_the_next_report() {
    let direct = |second| Some(if (100..200).contains(&second) { 120 } else { 40 });
    let mut harness = Harness::new(direct, vec![trace(&[1, 2], 45, |_| Some(47))]);
    harness.run_until(400);
    let expected = [(101, PathReason::DirectTooSlow), (231, PathReason::GainGone)];
    assert_eq!(harness.reasons(), expected, "it returns when the gain is gone for 30 s");
    assert_eq!(harness.selector.route(), None);
}

#[test]
fn acceptable_delays_and_small_gains_change_nothing() {
    let mut harness = Harness::new(|_| Some(50), vec![trace(&[1], 5, |_| Some(5))]);
    harness.run_until(100);
    assert_eq!(harness.changes, [], "50 ms are acceptable");
    let mut harness = Harness::new(|_| Some(60), vec![trace(&[1], 51, |_| Some(51))]);
    harness.run_until(100);
    assert_eq!(harness.changes, [], "9 ms are no gain");
    let mut harness = Harness::new(|_| Some(61), vec![trace(&[1], 51, |_| Some(51))]);
    harness.run_until(100);
    assert_eq!(harness.reasons(), [(1, PathReason::DirectTooSlow)]);
}

#[test]
fn a_path_that_varies_at_the_threshold_is_left_once() {
    for period in [2, 7, 20, 29] {
        let direct = move |second| Some(if second % period == 0 { 61 } else { 50 });
        let mut harness = Harness::new(direct, vec![trace(&[1], 48, |_| Some(48))]);
        harness.run_until(600);
        assert_eq!(harness.changes.len(), 1, "every {period} s");
    }
}

#[test]
fn slow_spells_that_come_again_make_the_return_wait_longer() {
    let direct = |second| Some(if second % 80 < 40 { 120 } else { 40 });
    let mut harness = Harness::new(direct, vec![trace(&[1], 45, |_| Some(45))]);
    harness.run_until(3_600);
    assert_eq!(harness.reasons()[..2], [(1, PathReason::DirectTooSlow), (71, PathReason::GainGone)]);
    assert!(harness.changes.len() <= 3, "{:?}", harness.changes);
}

#[test]
fn a_route_that_fails_loses_nothing_and_waits_a_minute() {
    let works = |second: u64| (second >= 100).then_some(45);
    let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 45, works)]);
    harness.run_until(400);
    let (left, failed) = (PathReason::DirectTooSlow, PathReason::RouteFailed);
    assert_eq!(harness.reasons(), [(1, left), (6, failed), (66, left), (71, failed), (131, left)]);
    assert_eq!(harness.dark, 0, "trials use both paths");
}

#[test]
fn when_the_route_in_use_dies_the_next_report_returns_to_a_path_that_works() {
    let first = |second: u64| (second < 100).then_some(45);
    let routes = vec![trace(&[1], 45, first), trace(&[2], 55, |_| Some(55))];
    let mut harness = Harness::new(|_| Some(120), routes);
    harness.run_until(155);
    let expected = [(1, PathReason::DirectTooSlow), (101, PathReason::RouteFailed)];
    assert_eq!(harness.reasons(), expected);
    assert_eq!((harness.selector.route(), harness.dark), (Some(route(&[2])), 1));
    assert!(harness.changes_are_five_seconds_apart());
}

#[test]
fn a_route_that_fails_is_kept_while_nothing_shows_that_the_direct_path_delivers() {
    let works = |second: u64| (second < 50).then_some(45);
    let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 45, works)]);
    harness.run_until(50);
    let now = harness.now() + Duration::from_secs(1);
    for direct in [PathDelay::Unknown, PathDelay::Silent] {
        let failed = PathObservation { direct, route: PathDelay::Silent };
        let selection = harness.selector.select(&failed, &|_| None, &mut harness.trust, now);
        assert_eq!(selection, None, "{direct:?}");
    }
    let reason = PathReason::RouteFailed;
    let failed = PathObservation { direct: PathDelay::Measured(ms(120)), route: PathDelay::Silent };
    let selection = harness.selector.select(&failed, &|_| None, &mut harness.trust, now);
    assert_eq!(selection, Some(PathSelection { route: None, reason }));
    let failed = PathObservation { direct: PathDelay::Unknown, route: PathDelay::Silent };
    let other = PlannedRoute { route: route(&[2]), delay: ms(55) };
    let plan = |is_permitted: &dyn Fn(&Route) -> bool| Some(other).filter(|_| is_permitted(&other.route));
    let selection = harness.selector.select(&failed, &plan, &mut harness.trust, now);
    assert_eq!(selection, Some(PathSelection { route: Some(other), reason }));
}

#[test]
fn a_route_that_becomes_slow_is_left_for_the_direct_path() {
    let slow = |second| Some(if second < 100 { 45 } else { 115 });
    let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 45, slow)]);
    harness.run_until(130);
    let expected = [(1, PathReason::DirectTooSlow), (101, PathReason::SlowerThanPlanned)];
    assert_eq!(harness.reasons(), expected);
    assert_eq!(harness.selector.route(), None);
}

#[test]
fn the_wait_for_the_return_delays_no_packet() {
    let direct = |second| Some(if second % 60 < 30 { 120 } else { 40 });
    let mut harness = Harness::new(direct, vec![trace(&[1], 80, |_| Some(80))]);
    harness.run_until(1_800);
    // A report is a second late, so the first second after a slow spell uses the route alone.
    assert!(harness.delayed <= 30, "{} s delayed", harness.delayed);
    assert_eq!(harness.changes.len(), 1, "{:?}", harness.changes);
}

#[test]
fn a_faster_route_is_used_once_it_stays_faster() {
    let routes = vec![trace(&[1], 80, |_| Some(80))];
    let mut harness = Harness::new(|_| Some(120), routes);
    harness.run_until(50);
    harness.routes.push(trace(&[2], 71, |_| Some(71)));
    harness.run_until(100);
    assert_eq!(harness.changes.len(), 1, "9 ms are no gain");
    harness.routes.push(trace(&[3], 60, |_| Some(60)));
    harness.run_until(200);
    assert_eq!(harness.reasons()[1..], [(131, PathReason::FasterRoute)]);
    assert_eq!(harness.selector.route(), Some(route(&[3])));
}

#[test]
fn after_a_route_that_missed_its_plan_the_proven_one_is_used_again() {
    let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 60, |_| Some(60))]);
    harness.run_until(50);
    harness.routes.extend([trace(&[2], 20, |_| Some(130)), trace(&[3], 25, |_| Some(130))]);
    harness.run_until(88);
    let routes: Vec<_> = harness.changes.iter().filter_map(|(_, to)| to.route).collect();
    assert_eq!(routes.iter().map(|to| to.route).collect::<Vec<_>>(), [1, 2, 1].map(|relay| route(&[relay])));
    assert_eq!(harness.delayed, 0);
}

#[test]
fn a_relay_that_misreports_its_delays_attracts_a_flow_seldom() {
    // Relay 9 reports that it reaches everyone at once; through it, all routes need 200 ms.
    let mut routes = vec![trace(&[1, 2], 60, |_| Some(61))];
    for near in 1..9 {
        routes.push(trace(&[near, 9, 2], 10 + u64::from(near), |_| Some(200)));
        routes.push(trace(&[near, 9], 10 + u64::from(near), |_| Some(200)));
    }
    let mut harness = Harness::new(|_| Some(120), routes);
    harness.run_until(4 * 3_600);
    let of_nine = harness.changes.iter().filter(|(_, selection)| {
        selection.route.is_some_and(|planned| planned.route.relays().contains(&RelayId::new(9)))
    });
    let (attempts, delayed) = (of_nine.count(), harness.delayed);
    assert!((1..=12).contains(&attempts), "{attempts} attempts");
    assert!(delayed <= 12, "{delayed} s delayed: trials use both paths");
    assert_eq!(harness.selector.route(), Some(route(&[1, 2])), "the honest route is used");
    assert!(harness.changes_are_five_seconds_apart());
}

#[test]
fn where_every_plan_is_wrong_attempts_become_rare() {
    let routes = (0..200).map(|number| trace(&[number], 20, |_| Some(130))).collect();
    let mut harness = Harness::new(|_| Some(120), routes);
    harness.run_until(3_600);
    assert!(harness.changes.len() <= 24, "{}", harness.changes.len());
    assert!(harness.changes_are_five_seconds_apart());
    assert_eq!(harness.delayed, 0, "every trial uses both paths");
}

/// Lets a selector of probed routes to relay 1 see these delays of the direct path and of the
/// route, one pair each 200 ms. Returns the changes, with the number of the observation.
fn probed_changes(delays: impl IntoIterator<Item = (u64, Option<u64>)>) -> Vec<(usize, PathReason)> {
    let terms = LatencyTerms { acceptable: Duration::ZERO, gain: ms(10) };
    let (mut selector, mut trust) = (RouteSelector::of_probed_routes(terms, 10), RouteTrust::new());
    let mut changes = Vec::new();
    for (nth, (direct, by_route)) in delays.into_iter().enumerate() {
        let now = Time::START + ms(200) * nth as u64;
        let candidate = by_route.map(|delay| PlannedRoute { route: route(&[1]), delay: ms(delay) });
        let plan = |is_permitted: &dyn Fn(&Route) -> bool| {
            candidate.filter(|candidate| is_permitted(&candidate.route))
        };
        let measured_route = if selector.route().is_some() { measured(by_route) } else { PathDelay::Unknown };
        let observation = PathObservation { direct: measured(Some(direct)), route: measured_route };
        if let Some(selection) = selector.select(&observation, &plan, &mut trust, now) {
            selector.on_changed(selection, now);
            changes.push((nth, selection.reason));
        }
    }
    changes
}

#[test]
fn a_probed_route_has_to_gain_ten_milliseconds_and_a_tenth() {
    let expected = [(0, PathReason::DirectTooSlow)];
    for (direct, by_route, gains) in
        [(20, 11, false), (20, 10, true), (100, 90, true), (300, 271, false), (300, 270, true)]
    {
        let changes = probed_changes([(direct, Some(by_route)); 20]);
        assert_eq!(changes, if gains { &expected[..] } else { &[] }, "{by_route} for {direct} ms");
    }
}

#[test]
fn a_probed_route_that_fails_is_left_at_once_and_is_back_after_a_minute() {
    let begun = PathReason::DirectTooSlow;
    for (then, why) in [(None, PathReason::RouteFailed), (Some(160), PathReason::SlowerThanPlanned)] {
        // It fails 0.6 s after the change, for two observations: 300 of them are a minute.
        let delays = (0..400).map(|nth| (100, if matches!(nth, 3 | 4) { then } else { Some(40) }));
        assert_eq!(probed_changes(delays), [(0, begun), (3, why), (303, begun)]);
    }
}

#[test]
fn a_probed_route_without_a_gain_is_left_after_half_a_minute() {
    // 150 observations are 30 s.
    let delays = (0..400).map(|nth| (if nth < 50 { 100 } else { 45 }, Some(40)));
    let expected = [(0, PathReason::DirectTooSlow), (200, PathReason::GainGone)];
    assert_eq!(probed_changes(delays), expected);
    let varying = (0..400).map(|nth| (if nth % 100 < 50 { 100 } else { 45 }, Some(40)));
    assert_eq!(probed_changes(varying).len(), 1, "a spell of ten seconds is no change");
}

#[test]
fn pauses_change_nothing() {
    let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 45, |_| Some(45))]);
    harness.run_until(50);
    let now = harness.now() + Duration::from_secs(500);
    let nothing = PathObservation::default();
    assert_eq!(harness.selector.select(&nothing, &|_| None, &mut harness.trust, now), None);
    assert_eq!(harness.selector.route(), Some(route(&[1])));
}
