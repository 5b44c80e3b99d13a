//! Reduction of a run of the study of network state to measures: queues, rates and round trips, by
//! period.

use byway_units::{Duration, Rate, Time};

use super::plan::{Period, PlannedReporter, megabits};
use super::raw::SenderSetting;
use super::world::{QueuePoint, RunningFlow, StateRun, TICK};
use crate::findings::{Findings, Unit, number, quantile};

/// Windows of rates: for fairness, for variation, for faster variation, and for a reached rate.
const FAIRNESS_WINDOW: Duration = Duration::from_secs(2);
const VARIATION_WINDOW: Duration = Duration::from_secs(1);
const FAST_WINDOW: Duration = Duration::from_millis(500);

/// Time for which a rate has to stay within its bounds to count as reached, in steps.
const REACHED_STEP: Duration = Duration::from_millis(100);
const REACHED_STEPS: u64 = 10;

/// Reduces a run to its measures and samples.
pub(crate) fn reduce(run: &StateRun<'_>) -> Findings {
    let mut findings = Findings::default();
    for period in &run.plan.periods {
        let mut measures = Measures { run, period, findings: &mut findings };
        for link in 0..run.plan.links.len() {
            measures.of_link(link);
        }
        measures.of_flows();
        measures.of_traffics();
        measures.of_expected_rate();
    }
    findings
}

/// Measures of one period.
struct Measures<'a, 'b> {
    run: &'a StateRun<'b>,
    period: &'a Period,
    findings: &'a mut Findings,
}

impl Measures<'_, '_> {
    fn put(&mut self, name: &str, traffic: Option<&str>, value: Option<f64>, unit: Unit) {
        let name = match &self.period.name {
            Some(period) => format!("{name}@{period}"),
            None => name.to_owned(),
        };
        self.findings.measure(&name, traffic, value, unit);
    }

    fn contains(&self, time: Time) -> bool {
        let since = time.saturating_since(Time::START);
        self.period.from <= since && since < self.period.to
    }

    /// Adds the measures of a link. Only for the observed link, and further ones of its name, names
    /// of measures do not begin with the link's.
    fn of_link(&mut self, index: usize) {
        let (link, observed) = (&self.run.plan.links[index], self.run.plan.observed);
        let is_observed = index == observed;
        if !is_observed && link.name == self.run.plan.links[observed].name {
            return;
        }
        let prefix = if is_observed { String::new() } else { format!("{} ", link.name) };
        let points: Vec<QueuePoint> =
            self.run.points[index].iter().copied().filter(|point| self.contains(point.time)).collect();
        let flows = number(self.interactive(index, false).len().max(1) as u64);
        let target = number(link.target.count()) * flows;
        let waits: Vec<f64> = points.iter().map(|point| number(point.backlog.count()) / target).collect();
        if is_observed && self.period.name.is_none() {
            self.findings.sample("wait", &link.name, &waits);
        }
        let part = |share| quantile(&mut waits.clone(), share);
        let (median, high, peak) = (part(0.5), part(0.95), part(1.0));
        let mean = (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / number(waits.len() as u64));
        for (name, value) in
            [("wait-median", median), ("wait-high", high), ("wait-peak", peak), ("wait-mean", mean)]
        {
            self.put(&format!("{prefix}{name}"), None, value, Unit::Ratio);
            let time = value.map(|value| value * target * 8e3 / bits(link.rate));
            self.put(&format!("{prefix}{name}-time"), None, time, Unit::Milliseconds);
        }
        let (long, until) = (self.time_above(link, &waits, 2.0), self.last_above(&points, &waits, 3.0));
        self.put(&format!("{prefix}wait-above-2"), None, long, Unit::Milliseconds);
        self.put(&format!("{prefix}wait-until-3"), None, until, Unit::Milliseconds);
        self.put(&format!("{prefix}use"), None, used(link, &points), Unit::Share);
    }

    /// Returns the time in ms in which waits were above so many targets of each flow.
    fn time_above(&self, link: &PlannedReporter, waits: &[f64], limit: f64) -> Option<f64> {
        let above = waits.iter().filter(|wait| **wait > limit).count() as u64;
        let is_measured = !waits.is_empty() && self.period.from < self.run.plan.length;
        is_measured.then(|| milliseconds(link.reporting.every) * number(above))
    }

    /// Returns the time in ms from the period's begin to the last wait above so many targets.
    fn last_above(&self, points: &[QueuePoint], waits: &[f64], limit: f64) -> Option<f64> {
        let begin = Time::START + self.period.from;
        let last = points.iter().zip(waits).rfind(|(_, wait)| **wait > limit);
        let last = last.map_or(Duration::ZERO, |(point, _)| point.time.saturating_since(begin));
        (!points.is_empty()).then(|| milliseconds(last))
    }

    /// Returns the interactive flows of a link that run in the period: with state, or with TCP if
    /// there are none. If `throughout`, only those that run in all of it.
    fn interactive(&self, link: usize, throughout: bool) -> Vec<&RunningFlow> {
        let flows = self.run.flows.iter();
        let present: Vec<&RunningFlow> =
            flows.filter(|flow| self.is_present(flow, link, throughout)).collect();
        let traffics = &self.run.plan.traffics;
        let with_state =
            |flow: &&RunningFlow| matches!(traffics[flow.traffic].sends, SenderSetting::State { .. });
        let with_tcp =
            |flow: &&RunningFlow| matches!(traffics[flow.traffic].sends, SenderSetting::Tcp { .. });
        if present.iter().any(with_state) {
            present.into_iter().filter(with_state).collect()
        } else {
            present.into_iter().filter(with_tcp).collect()
        }
    }

    /// True if a flow passes a link in the period; if `throughout`, in all of it.
    fn is_present(&self, flow: &RunningFlow, link: usize, throughout: bool) -> bool {
        let (traffic, period) = (&self.run.plan.traffics[flow.traffic], self.period);
        let begin = flow.begin.saturating_since(Time::START);
        let is_in_time = if throughout {
            begin <= period.from && traffic.stops >= period.to.min(self.run.plan.length)
        } else {
            begin < period.to && traffic.stops > period.from
        };
        (traffic.links.0..traffic.links.1).contains(&link) && is_in_time
    }

    /// Adds the measures of all interactive flows of the observed link that run throughout.
    fn of_flows(&mut self) {
        let (from, to) = (self.period.from, self.period.to.min(self.run.plan.length));
        let flows = self.interactive(self.run.plan.observed, true);
        let fairness = windows(from, to, FAIRNESS_WINDOW)
            .filter_map(|begin| {
                let rates = flows.iter().map(|flow| rate(flow, begin, begin + FAIRNESS_WINDOW));
                jain(&rates.collect::<Option<Vec<f64>>>()?)
            })
            .reduce(f64::min);
        let largest_variation = |window: Duration| {
            let of_flow = |flow: &&RunningFlow| {
                let rates = windows(from, to, window).map(|begin| rate(flow, begin, begin + window));
                variation(&rates.collect::<Option<Vec<f64>>>()?)
            };
            flows.iter().filter_map(of_flow).reduce(f64::max)
        };
        let (usual, fast) = (largest_variation(VARIATION_WINDOW), largest_variation(FAST_WINDOW));
        let is_shared = flows.len() > 1;
        self.put("fairness", None, fairness.filter(|_| is_shared), Unit::Ratio);
        self.put("variation", None, usual, Unit::Share);
        self.put("fast-variation", None, fast, Unit::Share);
    }

    /// Adds the measures of each traffic: the mean rate of its flows, and their round trips.
    fn of_traffics(&mut self) {
        let (from, to) = (self.period.from, self.period.to.min(self.run.plan.length));
        for (index, traffic) in self.run.plan.traffics.iter().enumerate() {
            let name = Some(traffic.name.as_str());
            let flows: Vec<&RunningFlow> =
                self.run.flows.iter().filter(|flow| flow.traffic == index).collect();
            let rates: Vec<f64> = flows.iter().filter_map(|flow| rate(flow, from, to)).collect();
            let mean = (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / number(rates.len() as u64));
            self.put("rate", name, mean, Unit::Megabits);
            let all = flows.iter().flat_map(|flow| &flow.round_trips);
            let within = all.filter(|(time, _)| self.contains(*time));
            let mut round_trips: Vec<f64> = within.map(|(_, taken)| milliseconds(*taken)).collect();
            let base = milliseconds(self.run.plan.base_round_trip(traffic));
            let (median, high) = (quantile(&mut round_trips, 0.5), quantile(&mut round_trips, 0.95));
            self.put("round-trip-median", name, median, Unit::Milliseconds);
            self.put("round-trip-high", name, high, Unit::Milliseconds);
            self.put("round-trip-excess", name, high.map(|high| high - base), Unit::Milliseconds);
        }
    }

    /// Adds the measures of the flow that should have a rate: its deviation in the whole period and
    /// at its begin. Adds the time after which it stays near the rate, too.
    fn of_expected_rate(&mut self) {
        let Some(expected) = &self.period.expected else { return };
        let (from, to) = (self.period.from, self.period.to.min(self.run.plan.length));
        let Some(flow) = self.run.flows.iter().find(|flow| flow.traffic == expected.traffic) else {
            return;
        };
        let deviation = |from, to| Some((rate(flow, from, to)? / expected.megabits - 1.0).abs());
        let (whole, at_once) = (deviation(from, to), deviation(from, to.min(from + FAIRNESS_WINDOW)));
        let is_near = |begin: Duration| {
            deviation(begin, begin + FAST_WINDOW).is_some_and(|deviation| deviation <= expected.within)
        };
        let longest = FAST_WINDOW + REACHED_STEP * REACHED_STEPS;
        let steps = to.saturating_sub(from).as_nanos() / REACHED_STEP.as_nanos();
        let reached = (0..=steps)
            .map(|step| from + REACHED_STEP * step)
            .take_while(|begin| *begin + longest <= to)
            .find(|begin| (0..REACHED_STEPS).all(|step| is_near(*begin + REACHED_STEP * step)));
        let settled = reached.map(|begin| milliseconds(begin.saturating_sub(from)));
        self.put("deviation", None, whole, Unit::Share);
        self.put("deviation-at-once", None, at_once, Unit::Share);
        self.put("settled", None, settled, Unit::Milliseconds);
    }
}

/// Returns the part of its rate that a link used between the first and the last sample.
fn used(link: &PlannedReporter, points: &[QueuePoint]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let seconds = last.time.saturating_since(first.time).as_secs_f64();
    let sent = last.sent.saturating_sub(first.sent);
    (seconds > 0.0).then(|| number(sent.count()) * 8.0 / seconds / bits(link.rate))
}

/// Returns the begins of whole windows in a span.
fn windows(from: Duration, to: Duration, window: Duration) -> impl Iterator<Item = Duration> {
    (0_u64..).map(move |nth| from + window * nth).take_while(move |begin| *begin + window <= to)
}

/// Returns the rate of a flow between two times in Mbit/s of IP packets; `None` if the run did not
/// get so far.
fn rate(flow: &RunningFlow, from: Duration, to: Duration) -> Option<f64> {
    let delivered = |until: Duration| {
        let ticks = usize::try_from(until.as_nanos() / TICK.as_nanos()).ok()?;
        ticks.checked_sub(1).map_or(Some(0), |last| flow.delivered.get(last).copied())
    };
    let seconds = to.checked_sub(from).filter(|time| !time.is_zero())?.as_secs_f64();
    let bytes = delivered(to)?.saturating_sub(delivered(from)?);
    Some(number(bytes) * 8.0 / seconds / 1e6)
}

/// Returns Jain's fairness index of rates; `None` if all are zero.
fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (number(rates.len() as u64) * squares))
}

/// Returns the coefficient of variation of rates; `None` if all are zero.
fn variation(rates: &[f64]) -> Option<f64> {
    let count = number(rates.len() as u64);
    let mean = rates.iter().sum::<f64>() / count;
    let squares: f64 = rates.iter().map(|rate| (rate - mean) * (rate - mean)).sum();
    (mean > 0.0).then(|| libm::sqrt(squares / count) / mean)
}

fn bits(rate: Rate) -> f64 {
    megabits(rate) * 1e6
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_and_variation_are_those_of_their_formulas() {
        let near =
            |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 1e-9);
        // (1 + 3)^2 / (2·(1 + 9)), and sqrt(1) / 2.
        assert!(near(jain(&[1.0, 3.0]), 0.8), "{:?}", jain(&[1.0, 3.0]));
        assert!(near(jain(&[2.0; 5]), 1.0));
        assert!(near(variation(&[1.0, 3.0]), 0.5));
        assert_eq!((jain(&[0.0; 2]), variation(&[0.0; 2]), variation(&[])), (None, None, None));
    }

    #[test]
    fn windows_are_whole() {
        let millis = Duration::from_millis;
        let begins: Vec<Duration> = windows(millis(100), millis(750), millis(300)).collect();
        assert_eq!(begins, [millis(100), millis(400)]);
    }
}
