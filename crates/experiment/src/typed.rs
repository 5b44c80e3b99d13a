//! Experiments as typed, key by key. The doc comments here are the reference of the format.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::result::Scale;

/// An experiment: a scenario and its variants, what is measured of them, and what was published.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedExperiment {
    /// Its name, as its file is called.
    pub(crate) id: String,
    /// What it is about, in a line.
    pub(crate) title: String,
    /// Where it was published, with section and figure.
    pub(crate) source: String,
    /// What is done, and what was assumed.
    #[serde(default)]
    pub(crate) description: String,
    /// What could not be reproduced or differs, with the reason, one text each.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// What is measured.
    pub(crate) study: TypedStudy,
    /// The scenario's file, from the folder of this one on. Models of tables have none.
    pub(crate) scenario: Option<PathBuf>,
    /// What chance begins with, in each run. Default: `[1]`.
    pub(crate) seeds: Option<Vec<u64>>,
    /// Values that every arm has in the place of the scenario's own, by their keys.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// What is otherwise in full.
    #[serde(default)]
    pub(crate) full: TypedFull,
    /// The variants. Default: one, the scenario as it is.
    #[serde(default)]
    pub(crate) arm: Vec<TypedArm>,
    /// The arm in which every target that names no other has to be missed: that without the overlay, or what is compared with.
    pub(crate) control: Option<String>,
    /// What is reported.
    #[serde(default)]
    pub(crate) row: Vec<TypedRow>,
    /// What is drawn.
    #[serde(default)]
    pub(crate) plot: Vec<TypedPlot>,
    /// What is shown in columns.
    #[serde(default)]
    pub(crate) table: Vec<TypedTable>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedStudy {
    /// Losses, repairs and delays of flows.
    Flows,
    /// The same, and what codes and retransmissions on the direct path alone would have repaired.
    OnPath,
    /// The same, and how often receivers would have asked with a fixed timer.
    Timers,
    /// What each class gets of links that they share, and what queues do to it.
    Classes,
    /// A model: delays of every service between endpoints all over the world.
    Feasibility,
    /// A model: costs of every service between regions all over the world.
    Cost,
}

impl TypedStudy {
    /// Whether it is computed from tables, and no scenario is run.
    pub(crate) const fn is_model(self) -> bool {
        matches!(self, Self::Feasibility | Self::Cost)
    }
}

/// What is otherwise in full.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedFull {
    /// What chance begins with.
    pub(crate) seeds: Option<Vec<u64>>,
    /// Values that every arm has in the place of others.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) set: BTreeMap<String, toml::Value>,
}

/// A variant of the scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedArm {
    /// What rows and plots call it.
    pub(crate) name: String,
    /// What legends call it. Default: its name.
    pub(crate) title: Option<String>,
    /// Where it stands on the horizontal axis of plots against a quantity.
    pub(crate) x: Option<f64>,
    /// The curve to which it belongs there. Default: one for all.
    pub(crate) curve: Option<String>,
    /// Values in the place of the scenario's own, by their keys: `"flow.call.batch" = "6+2"`. Of several tables, one is meant by
    /// its name or, from 0, its place; `*` means all.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) set: BTreeMap<String, toml::Value>,
}

/// What is reported: a measure, what was published of it and what is to be reached.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedRow {
    /// What it is, in words.
    pub(crate) metric: String,
    /// The measure.
    pub(crate) measure: String,
    /// Of the flows of this name alone. Default: of all.
    pub(crate) flow: Option<String>,
    /// In which arm. Default: the first.
    pub(crate) arm: Option<String>,
    /// By what it is divided: the same measure in this arm, with the same seed.
    pub(crate) over: Option<String>,
    /// What it is beyond: the same measure in this arm, with the same seed.
    pub(crate) beyond: Option<String>,
    /// What was published, in its words.
    pub(crate) published: Option<String>,
    /// A share like `"99 %"`, a time like `"60 ms"` or a number, as the measure needs.
    pub(crate) at_least: Option<String>,
    /// The same, from above.
    pub(crate) at_most: Option<String>,
    /// The arm in which the target has to be missed; `""`: none. Default: that of the experiment.
    pub(crate) control: Option<String>,
}

/// What is drawn.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedPlot {
    /// What its series is called.
    pub(crate) name: String,
    /// What it shows, in a line.
    pub(crate) title: String,
    /// What is to be seen in it.
    #[serde(default)]
    pub(crate) caption: String,
    /// Its form.
    pub(crate) form: TypedForm,
    /// The measure, or the sample for a distribution.
    pub(crate) of: String,
    /// Of a sweep: other measures that are bounds or models, drawn dashed.
    #[serde(default)]
    pub(crate) references: Vec<String>,
    /// The arms, one curve each. Default: all.
    pub(crate) arms: Option<Vec<String>>,
    /// Of a sweep, a distribution or bars: of the flows of this name alone. Default: of all.
    pub(crate) flow: Option<String>,
    /// Whether flows of each name have a curve of their own. Default: `false`.
    #[serde(default)]
    pub(crate) by_flow: bool,
    /// What the horizontal axis is called.
    pub(crate) x: String,
    /// What the vertical axis is called.
    pub(crate) y: String,
    /// How the horizontal axis counts. Default: `"linear"`.
    pub(crate) x_scale: Option<Scale>,
    /// How the vertical axis counts. Default: `"linear"`.
    pub(crate) y_scale: Option<Scale>,
    /// What a value is multiplied with before it is drawn, as 100 for percent. Default: 1.
    pub(crate) times: Option<f64>,
}

/// The form of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TypedForm {
    /// The share of values that are at most x.
    Cdf,
    /// The share of values that are more than x.
    Ccdf,
    /// A measure of each arm over the arm's `x`.
    Sweep,
    /// A measure of each arm, as bars.
    Bars,
}

/// What is shown in columns: arms from top to bottom, measures from left to right.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedTable {
    /// What it shows.
    pub(crate) title: String,
    /// The measures.
    pub(crate) measures: Vec<String>,
    /// Whether cells have the mean of all seeds and, beside it, the least and the greatest. Default: `false`, the median.
    #[serde(default)]
    pub(crate) spread: bool,
    /// The arms, one line each. Default: all.
    pub(crate) arms: Option<Vec<String>>,
    /// Whether flows of each name have a line of their own. Default: `false`.
    #[serde(default)]
    pub(crate) by_flow: bool,
}
