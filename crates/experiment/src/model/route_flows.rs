//! Flows that use routes: [`RouteSelector`] with direct paths and relays that become slow, and
//! relays that misreport their delays.

use byway_plan::{
    AccessDelay, LatencyTerms, PathDelay, PathObservation, RelayDelays, Route, RouteQuery, RouteSelector,
    RouteTable, RouteTrust, delay_of,
};
use byway_sim::{Random, Seed};
use byway_units::{Duration, RelayId, Time};

use super::routes::{ACCEPTABLE, Area, GAIN, milliseconds, scaled};
use crate::findings::{Findings, Unit, number, quantile, share};

/// Flows of a run, each between two endpoints that are drawn.
const FLOWS: u64 = 30;

/// Length of a run, in seconds.
const SECONDS: u64 = 1_800;

/// Relays that misreport their delays, of twelve: they claim to be next to all others.
const MISREPORTING: usize = 2;

/// Delay that a misreporting relay reports to all others.
const CLAIMED: Duration = Duration::from_millis(1);

/// Mean time between slow spells, mean length of one, and the delay that it adds. Direct paths have
/// those of a busy evening; relays have fewer.
const DIRECT: [Duration; 3] = [Duration::from_secs(120), Duration::from_secs(30), Duration::from_millis(100)];
const RELAY: [Duration; 3] = [Duration::from_secs(900), Duration::from_secs(30), Duration::from_millis(60)];

/// Largest error of a measured delay: 3 %.
const ERROR_MAX: f64 = 0.03;

/// Age of relays' reports of their delays, in seconds.
const REPORT_AGE: u64 = 5;

/// Time within which a slow path has to be left.
const LEFT_WITHIN: Duration = Duration::from_secs(2);

/// Slow spells of one path or relay, in order.
struct Spells {
    spells: Vec<[Time; 2]>,
    added: Duration,
}

impl Spells {
    fn draw([between, length, added]: [Duration; 3], mut random: Random) -> Self {
        let (mut spells, mut now) = (Vec::new(), Time::START);
        let end = second(SECONDS);
        while now < end {
            let from = now + random.exponential(between);
            now = from + random.exponential(length);
            spells.push([from, now]);
        }
        Self { spells, added }
    }

    /// Returns the delay that the spells add, at p95 of the second before `now`.
    fn added(&self, now: Time) -> Duration {
        let from = now.saturating_sub(Duration::from_secs(1));
        let overlap = |[begin, end]: &[Time; 2]| (*end).min(now).saturating_since((*begin).max(from));
        let slow = self.spells.iter().fold(Duration::ZERO, |sum, spell| sum.saturating_add(overlap(spell)));
        if slow * 20 >= Duration::from_secs(1) { self.added } else { Duration::ZERO }
    }
}

/// Relays over time: true delays, and those that they report.
struct Relays<'a> {
    area: &'a Area,
    honesty: Honesty,
    spells: Vec<Spells>,
}

impl Relays<'_> {
    fn is_misreporting(&self, relay: RelayId) -> bool {
        let mut misreporting = self.area.relays.relays().iter().take(MISREPORTING);
        self.honesty != Honesty::Honest && misreporting.any(|misreporting| *misreporting == relay)
    }

    fn spell(&self, relay: RelayId, now: Time) -> Duration {
        let index = self.area.relays.relays().iter().position(|known| *known == relay);
        index.map_or(Duration::ZERO, |index| self.spells[index].added(now))
    }

    /// Returns the delay of a route at this time.
    fn delay(&self, query: &RouteQuery<'_>, route: &Route, now: Time) -> Option<Duration> {
        let hops = delay_of(&self.area.relays, query, route)?;
        Some(route.relays().iter().fold(hops, |delay, relay| delay.saturating_add(self.spell(*relay, now))))
    }

    /// Returns the delays that relays report: with errors, some seconds old, and some misreported.
    /// With `is_true`, returns the true ones of the relays that do not misreport.
    fn reported(&self, now: Time, is_true: bool, random: &mut Random) -> RelayDelays {
        let mut delays = self.area.relays.clone();
        let age = if is_true { 0 } else { REPORT_AGE };
        let at = now.saturating_sub(Duration::from_secs(age));
        for from in self.area.relays.relays() {
            let spell = self.spell(*from, at);
            for to in self.area.relays.relays() {
                let delay = self.area.relays.get(*from, *to).map(|delay| delay.saturating_add(spell));
                let misreports = self.is_misreporting(*from) || self.is_misreporting(*to);
                let reported = match (misreports, is_true) {
                    (true, true) => None,
                    (true, false) => Some(CLAIMED),
                    (false, true) => delay,
                    (false, false) => delay.map(|delay| measured(delay, random)),
                };
                delays.set(*from, *to, reported);
            }
        }
        delays
    }
}

/// One flow with its path.
struct Flow<'a> {
    query: RouteQuery<'a>,
    direct: Duration,
    spells: Spells,
    selector: RouteSelector,
    trust: RouteTrust,
    random: Random,
    changes: Vec<Time>,
    /// Time at which the current slow spell of the direct path began, while it is not left.
    slow_since: Option<Time>,
}

/// Sums over all flows of a run.
#[derive(Default)]
struct Totals {
    /// Times from the begin of a slow spell to the change of the path, in milliseconds.
    left_after: Vec<f64>,
    left_in_time: u64,
    slow_spells: u64,
    seconds: u64,
    /// Sums of delays beyond that of the best path, in milliseconds: of the flows, and of the
    /// direct paths.
    beyond_best: [f64; 2],
    /// Seconds in which a flow is slower than its direct path by over 10 ms.
    harmed: u64,
    changes_max: u64,
    least_gap: Option<Duration>,
}

/// Relays of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Honesty {
    /// All relays report their delays with small errors.
    Honest,
    /// Some relays misreport their delays.
    Misreporting,
    /// As before, and flows forget which routes were slower than planned.
    Forgetful,
}

/// Runs the flows, and adds the measures.
pub(super) fn run(area: &Area, seed: u64, findings: &mut Findings) {
    for (name, honesty) in [
        ("honest", Honesty::Honest),
        ("misreporting", Honesty::Misreporting),
        ("forgetful", Honesty::Forgetful),
    ] {
        let totals = run_flows(area, seed, honesty);
        let mut put = |measure: &str, value, unit| {
            findings.measure(&format!("{name}-{measure}"), None, value, unit);
        };
        let mean = totals.beyond_best.map(|sum| Some(sum / number(totals.seconds)));
        put("beyond-best", mean[0], Unit::Milliseconds);
        put("direct-beyond-best", mean[1], Unit::Milliseconds);
        put("harmed", share(totals.harmed, totals.seconds), Unit::Share);
        put("changes-max", Some(number(totals.changes_max)), Unit::Count);
        put("between-changes", totals.least_gap.map(milliseconds), Unit::Milliseconds);
        put("left-within-2-s", share(totals.left_in_time, totals.slow_spells), Unit::Share);
        put("left-after-p50", quantile(&mut totals.left_after.clone(), 0.5), Unit::Milliseconds);
    }
}

fn run_flows(area: &Area, seed: u64, honesty: Honesty) -> Totals {
    let seed = Seed::new(seed).named("route flows");
    let spells = |index| Spells::draw(RELAY, seed.named("relay").numbered(index).sequence());
    let count = area.relays.relays().len() as u64;
    let relays = Relays { area, honesty, spells: (0..count).map(spells).collect() };
    let mut flows: Vec<Flow<'_>> =
        (0..FLOWS).filter_map(|flow| Flow::draw(area, seed.named("flow").numbered(flow))).collect();
    let mut random = seed.named("reports").sequence();
    let mut totals = Totals::default();
    for now in (1..=SECONDS).map(second) {
        let reported = RouteTable::new(relays.reported(now, false, &mut random));
        let truth = RouteTable::new(relays.reported(now, true, &mut random));
        for flow in &mut flows {
            if honesty == Honesty::Forgetful {
                flow.trust = RouteTrust::new();
            }
            flow.step(&relays, [&reported, &truth], now, &mut totals);
        }
    }
    for flow in &flows {
        let within = |from: Time| {
            flow.changes.iter().filter(move |at| **at >= from && **at < from + Duration::from_secs(600))
        };
        let most = flow.changes.iter().map(|from| within(*from).count() as u64).max().unwrap_or(0);
        totals.changes_max = totals.changes_max.max(most);
        let gaps = flow.changes.windows(2).map(|pair| pair[1] - pair[0]);
        totals.least_gap = totals.least_gap.into_iter().chain(gaps).min();
    }
    totals
}

impl<'a> Flow<'a> {
    /// Draws a flow between two endpoints; `None` if there is no path between them.
    fn draw(area: &'a Area, seed: Seed) -> Option<Self> {
        let mut random = seed.sequence();
        let mut endpoint = || usize::try_from(random.below(area.access.len() as u64)).unwrap_or(0);
        let ends = [endpoint(), endpoint()];
        let direct = area.direct[ends[0]][ends[1]]?;
        Some(Self {
            query: area.query(ends),
            direct,
            spells: Spells::draw(DIRECT, seed.named("spells").sequence()),
            selector: RouteSelector::new(LatencyTerms { acceptable: ACCEPTABLE, gain: GAIN }),
            trust: RouteTrust::new(),
            random,
            changes: Vec::new(),
            slow_since: None,
        })
    }

    /// Lets the flow send for a second, and select its path by the report.
    fn step(
        &mut self,
        relays: &Relays<'_>,
        [reported, truth]: [&RouteTable; 2],
        now: Time,
        totals: &mut Totals,
    ) {
        let before = now.saturating_sub(Duration::from_secs(1));
        let direct = self.direct.saturating_add(self.spells.added(now));
        let uses_both = self.selector.uses_both(before);
        let route = self.selector.route();
        let by_route = route.and_then(|route| relays.delay(&self.query, &route, now));
        let used = by_route.map_or(direct, |delay| if uses_both { delay.min(direct) } else { delay });
        // The ends measure the delays of their relays themselves.
        let access = |access: &AccessDelay| AccessDelay {
            delay: access.delay.saturating_add(relays.spell(access.relay, now)),
            ..*access
        };
        let receiver: Vec<AccessDelay> = self.query.receiver.iter().map(access).collect();
        let query = RouteQuery { receiver: &receiver, ..self.query };
        let best = truth.plan(&query).map(|planned| planned.delay);
        let best = best.filter(|best| best.saturating_add(GAIN) <= direct).unwrap_or(direct);
        totals.seconds += 1;
        for (sum, delay) in totals.beyond_best.iter_mut().zip([used, direct]) {
            *sum += milliseconds(delay) - milliseconds(best);
        }
        totals.harmed += u64::from(used > direct.saturating_add(GAIN));

        let observation = PathObservation {
            direct: PathDelay::Measured(measured(direct, &mut self.random)),
            route: by_route
                .map_or(PathDelay::Unknown, |delay| PathDelay::Measured(measured(delay, &mut self.random))),
        };
        let plan =
            |is_permitted: &dyn Fn(&Route) -> bool| reported.plan(&RouteQuery { is_permitted, ..query });
        let selection = self.selector.select(&observation, &plan, &mut self.trust, now);
        self.note_spell([used, best], selection.is_some(), now, totals);
        if let Some(selection) = selection {
            self.selector.on_changed(selection, now);
            self.changes.push(now);
        }
    }

    /// Records if the direct path is in use and became slow while a better one exists, and the time
    /// until it is left. Flows that changed in the last 5 s are not counted, because they may not
    /// change yet.
    fn note_spell(&mut self, [used, best]: [Duration; 2], is_left: bool, now: Time, totals: &mut Totals) {
        let is_direct = self.selector.route().is_none();
        let is_slow = is_direct && used > ACCEPTABLE && best.saturating_add(GAIN * 2) <= used;
        let may_change =
            self.changes.last().is_none_or(|at| now.saturating_since(*at) >= Duration::from_secs(5));
        if !is_slow {
            self.slow_since = None;
        } else if may_change && self.slow_since.is_none() {
            self.slow_since = Some(self.spell_began(now));
            totals.slow_spells += 1;
        }
        if let Some(since) = self.slow_since.filter(|_| is_left) {
            totals.left_after.push(milliseconds(now.saturating_since(since)));
            totals.left_in_time += u64::from(now.saturating_since(since) <= LEFT_WITHIN);
            self.slow_since = None;
        }
    }

    /// Returns the begin of the direct path's spell if it began in the last two seconds. Otherwise
    /// the flow may change only now, and the time counts from the last report.
    fn spell_began(&self, now: Time) -> Time {
        let second_before = now.saturating_sub(Duration::from_secs(2));
        let began = self.spells.spells.iter().map(|[from, _]| *from).filter(|from| *from <= now);
        let recent = began.filter(|from| *from >= second_before).max();
        recent.unwrap_or(now.saturating_sub(Duration::from_secs(1)))
    }
}

/// Returns a delay as it is measured.
fn measured(delay: Duration, random: &mut Random) -> Duration {
    scaled(delay, 1.0 + ERROR_MAX * (2.0 * random.fraction() - 1.0))
}

fn second(number: u64) -> Time {
    Time::START + Duration::from_secs(number)
}
