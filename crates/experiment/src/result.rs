//! What came of an experiment: what is written to its result file, and read by the report.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of an experiment. The same experiment and scale give the same bytes on every machine, unless a clock stopped a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The experiment's name, as `rec-paths`.
    pub id: String,
    /// What it is about, in a line.
    pub title: String,
    /// What was done, where its numbers come from and what was assumed, in paragraphs.
    pub description: String,
    /// Where it was published, with section and figure.
    pub source: String,
    /// Where it ran.
    pub world: World,
    /// Whether it ran in full, or as the default suite does.
    pub is_full: bool,
    /// The seeds that verdicts are about.
    pub seeds: Vec<u64>,
    /// The runs that did not come to their end. If there are any, no target counts as met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<StoppedRun>,
    /// What was measured, beside what was published and what is the target.
    pub rows: Vec<Row>,
    /// More numbers, to read.
    pub tables: Vec<Table>,
    /// The raw points of every plot, by the plot's name.
    pub series: std::collections::BTreeMap<String, Plot>,
    /// What could not be reproduced, and what differs from what was published, with reasons.
    pub notes: Vec<String>,
}

impl Results {
    /// Whether all targets are met, and all runs came to their end.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.stopped.is_empty() && self.rows.iter().all(|row| row.met != Some(false))
    }
}

/// A run that did not come to its end: what it has is what there was by then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoppedRun {
    /// The arm's title.
    pub arm: String,
    /// The seed.
    pub seed: u64,
    /// When it was stopped, in seconds of its own time.
    pub seconds: f64,
    /// Why.
    pub why: String,
    /// Whether it stops there each time.
    pub is_repeatable: bool,
}

impl fmt::Display for StoppedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arm, seed, seconds, why, is_repeatable } = self;
        let again = if *is_repeatable { "" } else { "; the next time it stops elsewhere" };
        write!(f, "{arm}, seed {seed}: stopped after {seconds} s of its own time, as {why}{again}")
    }
}

/// Where an experiment ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// In virtual time.
    Sim,
    /// Real processes, on one machine.
    Lab,
    /// Nothing ran: it was computed from tables.
    Model,
}

/// A measure beside its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What is measured, in words.
    pub metric: String,
    /// What it is counted in: `share` (of 1), `ms`, `s`, `dB`, `ratio` or a word of its own; shares are shown in percent.
    pub unit: String,
    /// What was measured: the median over the seeds where there are several; `None` if there was nothing to measure.
    pub measured: Option<f64>,
    /// The seed that is farthest from the target, where there are several.
    pub worst: Option<f64>,
    /// What was published, in its words.
    pub published: Option<String>,
    /// What Byway is to reach.
    pub target: Option<Bound>,
    /// Whether it does; `None` where there is no target. Where nothing was measured, nothing is met.
    pub met: Option<bool>,
}

/// A target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
}

/// Numbers and words in columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// What its columns are called.
    pub columns: Vec<String>,
    /// Its lines, each with as many cells as there are columns.
    pub lines: Vec<Vec<String>>,
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows, in a line.
    pub title: String,
    /// What is to be seen in it, and the published figure that it has the form of.
    pub caption: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// How the horizontal axis counts.
    pub x_scale: Scale,
    /// How the vertical axis counts.
    pub y_scale: Scale,
    /// How points are drawn.
    pub kind: Kind,
    /// The curves, or the groups of bars.
    pub curves: Vec<Curve>,
    /// What stands below each group of bars, at x = 0, 1 and so on; empty elsewhere.
    pub labels: Vec<String>,
}

/// How an axis counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By factors.
    Log,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Joined by straight lines.
    Lines,
    /// As steps: distributions.
    Steps,
    /// By themselves.
    Points,
    /// As bars, one beside the other.
    Bars,
}

/// The points of one curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<[f64; 2]>,
    /// Whether it is no measurement but a bound, a model or a published value: drawn dashed.
    pub is_reference: bool,
}
