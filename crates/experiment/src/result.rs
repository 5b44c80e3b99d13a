//! Results of an experiment, as in its result file.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results of an experiment. The same experiment and scale give the same bytes on every machine,
/// unless a real-time limit stopped a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Name of the experiment, such as `rec-paths`.
    pub id: String,
    /// Subject of the experiment, in one line.
    pub title: String,
    /// Method, sources of the numbers and assumptions, in paragraphs.
    pub description: String,
    /// Publication whose result is reproduced, with section and figure.
    pub source: String,
    /// Environment of the runs: virtual time, real processes, or none.
    pub world: World,
    /// True for full runs, false for those of the default suite.
    pub is_full: bool,
    /// Random seeds of the runs.
    pub seeds: Vec<u64>,
    /// Runs that did not reach their end. If there are any, no target counts as met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<StoppedRun>,
    /// Rows of the report: measures with published values and targets.
    pub rows: Vec<Row>,
    /// Further numbers that readers may want, without targets.
    pub tables: Vec<Table>,
    /// Points of every plot, by the plot's name.
    pub series: std::collections::BTreeMap<String, Plot>,
    /// Differences from the publication and parts that could not be reproduced, with reasons.
    pub notes: Vec<String>,
}

impl Results {
    /// True if all targets are met, and all runs reached their end.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.stopped.is_empty() && self.rows.iter().all(|row| row.met != Some(false))
    }
}

/// Run that did not reach its end; its results cover the time until its stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoppedRun {
    /// Title of the arm that ran.
    pub arm: String,
    /// Random seed of the run.
    pub seed: u64,
    /// Time of the stop, in seconds of virtual time since the start.
    pub seconds: f64,
    /// Reason of the stop, as the end of a sentence after "because".
    pub why: String,
    /// True if each repetition with this seed stops at the same time.
    pub is_repeatable: bool,
}

impl fmt::Display for StoppedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arm, seed, seconds, why, is_repeatable } = self;
        let again = if *is_repeatable { "" } else { "; not repeatable" };
        write!(f, "{arm}, seed {seed}: stopped after {seconds} s of virtual time, because {why}{again}")
    }
}

/// Environment of an experiment's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// Virtual time.
    Sim,
    /// Real processes on one machine.
    Lab,
    /// No run: the results are computed from tables.
    Model,
}

/// Row of the report: a measure with its published value and its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Title of the measure.
    pub metric: String,
    /// Unit: `share` (of 1), `ms`, `s`, `dB`, `ratio` or another word. Shares are displayed in
    /// percent.
    pub unit: String,
    /// Measured value, the median over several seeds; `None` without a measurement.
    pub measured: Option<f64>,
    /// Value of the seed that is farthest from the target; `None` with a single seed or without a
    /// target.
    pub worst: Option<f64>,
    /// Published result, in the publication's words.
    pub published: Option<String>,
    /// Bound that Byway's measured value has to meet; `None` without a target.
    pub target: Option<Bound>,
    /// True if the target is met, `None` without a target. A target without a measurement is not
    /// met.
    pub met: Option<bool>,
}

/// Bound of a target, in the measure's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Least value that meets the target.
    AtLeast(f64),
    /// Greatest value that meets the target.
    AtMost(f64),
}

/// Table of numbers and words in the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Title of the table in the report.
    pub title: String,
    /// Titles of the table's columns.
    pub columns: Vec<String>,
    /// Rows, each with one cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// Plot of the report, with its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Title of the plot, in one line.
    pub title: String,
    /// Explanation of the plot, and the published figure of the same form.
    pub caption: String,
    /// Title of the horizontal axis, with its unit.
    pub x: String,
    /// Title of the vertical axis, with its unit.
    pub y: String,
    /// Scale of the plot's horizontal axis.
    pub x_scale: Scale,
    /// Scale of the plot's vertical axis.
    pub y_scale: Scale,
    /// Form of the plot's curves.
    pub kind: Kind,
    /// Curves of the plot; in a bar chart, the bars of one colour.
    pub curves: Vec<Curve>,
    /// Labels below groups of bars, at x = 0, 1 and so on; empty for other plots.
    pub labels: Vec<String>,
}

/// Scale of a plot's axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Linear scale.
    #[default]
    Linear,
    /// Logarithmic scale.
    Log,
}

/// Form of a plot's curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Points joined by straight lines.
    Lines,
    /// Steps, for curves of distributions.
    Steps,
    /// Points without lines between them.
    Points,
    /// Bars in groups, side by side.
    Bars,
}

/// Curve of a plot, with its points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the curve in the legend.
    pub name: String,
    /// Points as x and y, in ascending order of x.
    pub points: Vec<[f64; 2]>,
    /// True for bounds, models and published values, which are dashed; false for measurements.
    pub is_reference: bool,
}
