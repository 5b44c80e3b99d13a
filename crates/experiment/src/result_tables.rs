//! Conversion of findings into rows, tables and plots.

use std::collections::{BTreeMap, BTreeSet};

use crate::experiment::Experiment;
use crate::findings::{Findings, Unit, key, quantile};
use crate::model::Model;
use crate::raw::{FormSetting, PlotSetting, RowSetting, TableSetting};
use crate::result::{Bound, Curve, Kind, Plot, Results, Row, StoppedRun, Table, World};
use crate::target::target;

/// Findings of the runs of one arm, in the order of the seeds.
pub(crate) type ArmFindings = Vec<Findings>;

/// Combines the findings of all arms into the results of an experiment that runs a scenario.
pub(crate) fn results(experiment: &Experiment, arms: &[ArmFindings]) -> Results {
    let typed = &experiment.settings;
    let report = Report { experiment, arms };
    let rows = typed.row.iter().map(|row| report.row(row)).collect();
    let mut tables: Vec<Table> = typed.table.iter().map(|table| report.table(table)).collect();
    tables.extend(report.controls());
    let series = typed.plot.iter().map(|plot| (plot.name.clone(), report.plot(plot))).collect();
    Results {
        id: typed.id.clone(),
        title: typed.title.clone(),
        description: typed.description.clone(),
        source: typed.source.clone(),
        world: World::Sim,
        is_full: experiment.is_full,
        seeds: experiment.seeds.clone(),
        stopped: report.stopped_runs(),
        rows,
        tables,
        series,
        notes: typed.notes.clone(),
    }
}

/// Combines the findings, tables and plots of a model into the results of its experiment.
pub(crate) fn model(experiment: &Experiment, model: Model) -> Results {
    let Model { findings, tables, series, notes } = model;
    let mut results = results(experiment, &[findings]);
    results.world = World::Model;
    results.tables.extend(tables);
    results.series.extend(series);
    results.notes.extend(notes);
    results
}

/// Text of a table cell without a measurement.
const NOTHING: &str = "–";

struct Report<'a> {
    experiment: &'a Experiment,
    arms: &'a [ArmFindings],
}

impl Report<'_> {
    fn arm_index(&self, arm: Option<&str>) -> usize {
        arm.map_or(0, |name| self.experiment.arm(name).expect("arms were checked when the file was read"))
    }

    /// Returns the runs that did not reach their end.
    fn stopped_runs(&self) -> Vec<StoppedRun> {
        let mut runs = Vec::new();
        for (arm, of_arm) in self.experiment.arms.iter().zip(self.arms) {
            for (seed, findings) in self.experiment.seeds.iter().zip(of_arm) {
                let Some(stopped) = findings.stopped.clone() else {
                    continue;
                };
                runs.push(StoppedRun {
                    arm: arm.title.clone(),
                    seed: *seed,
                    seconds: stopped.seconds,
                    why: stopped.why,
                    is_repeatable: stopped.is_repeatable,
                });
            }
        }
        runs
    }

    /// Returns the values of a row's measure in an arm, one for each seed that has it. With `over`
    /// or `beyond`, relates each to the same seed of another arm.
    fn values(&self, row: &RowSetting, arm: usize) -> Vec<(f64, Unit)> {
        let key = key(&row.measure, row.flow.as_deref());
        let other = row.over.as_deref().or(row.beyond.as_deref()).map(|name| self.arm_index(Some(name)));
        let value = |(seed, findings): (usize, &Findings)| {
            let (value, unit) = *findings.measures.get(&key)?;
            let Some(other) = other else {
                return Some((value, unit));
            };
            let (reference, _) = *self.arms[other][seed].measures.get(&key)?;
            match row.over {
                Some(_) if reference == 0.0 => None,
                Some(_) => Some((value / reference, Unit::Ratio)),
                None => Some((value - reference, unit)),
            }
        };
        self.arms[arm].iter().enumerate().filter_map(value).collect()
    }

    fn row(&self, row: &RowSetting) -> Row {
        let values = self.values(row, self.arm_index(row.arm.as_deref()));
        let target = target(row).expect("targets were checked when the file was read");
        let (bound, asked) = target.map_or((None, None), |(bound, unit)| (Some(bound), unit));
        let unit = values.first().map(|(_, unit)| *unit).or(asked);
        let numbers: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        let measured = median(&numbers);
        let worst =
            bound.and_then(|bound| numbers.iter().copied().reduce(|one, other| bound.worse(one, other)));
        let is_whole = numbers.len() == self.arms[self.arm_index(row.arm.as_deref())].len()
            && self.arms.iter().flatten().all(|findings| findings.stopped.is_none());
        let holds = |bound: Bound| measured.is_some_and(|value| is_whole && bound.holds(value));
        Row {
            metric: row.metric.clone(),
            unit: unit.map_or("count", Unit::name).to_owned(),
            measured,
            worst: worst.filter(|_| numbers.len() > 1),
            published: row.published.clone(),
            target: bound,
            met: bound.map(|bound| holds(bound) && self.fails_without(row, bound) != Some(false)),
        }
    }

    /// Returns the index of a row's control: the arm that must miss the row's target. `None`
    /// without a control.
    fn control(&self, row: &RowSetting) -> Option<usize> {
        let name = row.control.as_deref().or(self.experiment.settings.control.as_deref())?;
        (!name.is_empty()).then(|| self.arm_index(Some(name)))
    }

    /// True if a row's control misses the target; `None` without a control. If the control meets it
    /// as well, the row proves nothing.
    fn fails_without(&self, row: &RowSetting, bound: Bound) -> Option<bool> {
        let values: Vec<f64> = self.values(row, self.control(row)?).iter().map(|(value, _)| *value).collect();
        Some(median(&values).is_none_or(|value| !bound.holds(value)))
    }

    /// Returns a table of the values that rows have in their controls; `None` if no row has a
    /// control.
    fn controls(&self) -> Option<Table> {
        let mut rows = Vec::new();
        for row in &self.experiment.settings.row {
            let (Ok(Some((bound, _))), Some(arm)) = (target(row), self.control(row)) else {
                continue;
            };
            let values = self.values(row, arm);
            let numbers: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
            let unit = values.first().map_or(Unit::Count, |(_, unit)| *unit);
            let shown =
                median(&numbers).map_or_else(|| "no measurement".to_owned(), |value| words(value, unit));
            let verdict = match self.fails_without(row, bound) {
                Some(true) => "missed, as expected",
                _ => "met: the target proves nothing",
            };
            let control = self.experiment.arms[arm].title.clone();
            rows.push(vec![row.metric.clone(), control, shown, verdict.to_owned()]);
        }
        (!rows.is_empty()).then(|| Table {
            title: "Controls, which must miss their targets".to_owned(),
            columns: ["measure", "control", "value", "target"].map(str::to_owned).to_vec(),
            rows,
        })
    }

    fn table(&self, table: &TableSetting) -> Table {
        let mut rows = Vec::new();
        for arm in self.chosen(table.arms.as_deref()) {
            for flow in self.groups(arm, table.by_flow) {
                let title = &self.experiment.arms[arm].title;
                let name = flow.as_ref().map_or_else(|| title.clone(), |flow| format!("{title}, {flow}"));
                let cells = table
                    .measures
                    .iter()
                    .map(|measure| self.cell(arm, measure, flow.as_deref(), table.spread));
                let cells: Vec<String> = cells.collect();
                // Flows without any of these measures are not part of the table.
                if flow.is_none() || cells.iter().any(|cell| cell != NOTHING) {
                    rows.push([name].into_iter().chain(cells).collect());
                }
            }
        }
        let columns =
            [String::new()].into_iter().chain(table.measures.iter().map(|name| name.replace('-', " ")));
        Table { title: table.title.clone(), columns: columns.collect(), rows }
    }

    fn cell(&self, arm: usize, measure: &str, flow: Option<&str>, spread: bool) -> String {
        let key = key(measure, flow);
        let found = self.arms[arm].iter().filter_map(|findings| findings.measures.get(&key));
        let (values, units): (Vec<f64>, Vec<Unit>) = found.copied().unzip();
        let Some((median, unit)) = median(&values).zip(units.first()) else {
            return NOTHING.to_owned();
        };
        let format_value = |value| words(value, *unit);
        if !spread || values.len() == 1 {
            return format_value(median);
        }
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = values.iter().sum::<f64>() / crate::findings::number(values.len() as u64);
        format!("{} ({} to {})", format_value(mean), format_value(least), format_value(most))
    }

    /// Returns the indices of the arms with these names, or of all arms if `None`.
    fn chosen(&self, names: Option<&[String]>) -> Vec<usize> {
        match names {
            Some(names) => names.iter().map(|name| self.arm_index(Some(name))).collect(),
            None => (0..self.arms.len()).collect(),
        }
    }

    /// Returns the names of an arm's flows, for one row or curve each; `[None]` for all flows
    /// together.
    fn groups(&self, arm: usize, by_flow: bool) -> Vec<Option<String>> {
        if !by_flow {
            return vec![None];
        }
        let keys = self.arms[arm].iter().flat_map(|findings| findings.measures.keys());
        let names: BTreeSet<&String> = keys.filter_map(|(_, flow)| flow.as_ref()).collect();
        names.into_iter().cloned().map(Some).collect()
    }

    /// Returns the names of the flows for which a plot has a curve in an arm; `None` stands for all
    /// flows.
    fn plotted_flows(&self, arm: usize, plot: &PlotSetting) -> Vec<Option<String>> {
        if plot.flow.is_some() { vec![plot.flow.clone()] } else { self.groups(arm, plot.by_flow) }
    }

    fn plot(&self, plot: &PlotSetting) -> Plot {
        let arms = self.chosen(plot.arms.as_deref());
        let scaled = |value: f64| value * plot.times.unwrap_or(1.0);
        let (kind, mut curves, labels) = match plot.form {
            FormSetting::Cdf | FormSetting::Ccdf => {
                (Kind::Steps, self.distributions(plot, &arms, scaled), Vec::new())
            }
            FormSetting::Sweep => (Kind::Lines, self.sweep(plot, &arms, scaled), Vec::new()),
            FormSetting::Bars => {
                let labels = arms.iter().map(|arm| self.experiment.arms[*arm].title.clone()).collect();
                (Kind::Bars, self.bars(plot, &arms, scaled), labels)
            }
        };
        // Flows without this measure are not part of the plot.
        curves.retain(|curve| !plot.by_flow || !curve.points.is_empty());
        Plot {
            title: plot.title.clone(),
            caption: plot.caption.clone(),
            x: plot.x.clone(),
            y: plot.y.clone(),
            x_scale: plot.x_scale.unwrap_or_default(),
            y_scale: plot.y_scale.unwrap_or_default(),
            kind,
            curves,
            labels,
        }
    }

    /// Returns one curve for each arm and group of flows: the distribution of the plot's sample
    /// over all seeds.
    fn distributions(&self, plot: &PlotSetting, arms: &[usize], scaled: impl Fn(f64) -> f64) -> Vec<Curve> {
        let mut curves = Vec::new();
        for arm in arms {
            for flow in self.plotted_flows(*arm, plot) {
                let key = key(&plot.of, flow.as_deref());
                let samples = self.arms[*arm].iter().filter_map(|findings| findings.samples.get(&key));
                let values: Vec<f64> = samples.flatten().map(|value| scaled(*value)).collect();
                let title = &self.experiment.arms[*arm].title;
                let name = match flow.filter(|_| plot.by_flow) {
                    Some(flow) if arms.len() == 1 => flow,
                    Some(flow) => format!("{title}, {flow}"),
                    None => title.clone(),
                };
                let points = distribution(values, plot.form == FormSetting::Ccdf);
                curves.push(Curve { name, points, is_reference: false });
            }
        }
        curves
    }

    fn sweep(&self, plot: &PlotSetting, arms: &[usize], scaled: impl Fn(f64) -> f64) -> Vec<Curve> {
        let mut curves: BTreeMap<[Option<String>; 2], Vec<[f64; 2]>> = BTreeMap::new();
        for arm in arms {
            let Some(x) = self.experiment.arms[*arm].x else {
                continue;
            };
            for flow in self.plotted_flows(*arm, plot) {
                if let Some(value) = self.median_of(*arm, &plot.of, flow.as_deref()) {
                    let flow = flow.filter(|_| plot.by_flow);
                    let curve = [self.experiment.arms[*arm].curve.clone(), flow];
                    curves.entry(curve).or_default().push([x, scaled(value)]);
                }
            }
        }
        let curve = |(names, points): ([Option<String>; 2], Vec<[f64; 2]>)| {
            let names: Vec<String> = names.into_iter().flatten().collect();
            let name = if names.is_empty() { "measured".to_owned() } else { names.join(", ") };
            Curve { name, points, is_reference: false }
        };
        let measured = curves.into_iter().map(curve);
        measured.chain(plot.references.iter().map(|name| self.reference(name, arms, &scaled))).collect()
    }

    /// Returns a reference measure (a bound or a model) over the arms' `x` as a curve.
    fn reference(&self, measure: &str, arms: &[usize], scaled: &impl Fn(f64) -> f64) -> Curve {
        let point = |arm: &usize| {
            let x = self.experiment.arms[*arm].x?;
            Some([x, scaled(self.median_of(*arm, measure, None)?)])
        };
        Curve {
            name: measure.replace('-', " "),
            points: arms.iter().filter_map(point).collect(),
            is_reference: true,
        }
    }

    fn bars(&self, plot: &PlotSetting, arms: &[usize], scaled: impl Fn(f64) -> f64) -> Vec<Curve> {
        let groups: BTreeSet<Option<String>> =
            arms.iter().flat_map(|arm| self.plotted_flows(*arm, plot)).collect();
        let curve = |flow: Option<String>| {
            let value = |(index, arm): (u32, &usize)| {
                let value = self.median_of(*arm, &plot.of, flow.as_deref())?;
                Some([f64::from(index), scaled(value)])
            };
            let points = (0..).zip(arms).filter_map(value).collect();
            Curve { name: flow.clone().unwrap_or_else(|| plot.y.clone()), points, is_reference: false }
        };
        groups.into_iter().map(curve).collect()
    }

    fn median_of(&self, arm: usize, measure: &str, flow: Option<&str>) -> Option<f64> {
        let values = self.arms[arm].iter().filter_map(|findings| findings.value(measure, flow));
        median(&values.collect::<Vec<f64>>())
    }
}

fn median(values: &[f64]) -> Option<f64> {
    quantile(&mut values.to_vec(), 0.5)
}

/// Returns the distribution of values as points: the share up to each value, or above it if
/// `is_complementary`.
fn distribution(mut values: Vec<f64>, is_complementary: bool) -> Vec<[f64; 2]> {
    values.sort_unstable_by(f64::total_cmp);
    let (mut points, mut below, whole) =
        (Vec::<[f64; 2]>::new(), 0.0, crate::findings::number(values.len() as u64));
    for value in values {
        below += 1.0;
        let share = if is_complementary { (whole - below) / whole } else { below / whole };
        match points.last_mut() {
            Some(last) if last[0].total_cmp(&value).is_eq() => last[1] = share,
            _ => points.push([value, share]),
        }
    }
    points
}

/// Formats a median value with its unit for a table's cell.
fn words(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Share => format!("{:.2} %", value * 100.0),
        Unit::Ratio => format!("{value:.3}"),
        Unit::Milliseconds => format!("{value:.1} ms"),
        Unit::CentsPerHour => format!("{value:.2} ¢/h"),
        Unit::DollarsPerHour => format!("{value:.2} $/h"),
        Unit::Megabits => format!("{value:.2} Mbit/s"),
        Unit::Score => format!("{value:.2}"),
        Unit::Count => format!("{value:.0}"),
    }
}
