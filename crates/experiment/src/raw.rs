//! Settings of experiments, as in the file. The doc comments here are the reference of the format.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::result::Scale;

/// Experiment: a scenario with its variants, measures, and published results.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExperimentSetting {
    /// Name, equal to the file's.
    pub(crate) id: String,
    /// Subject, in one line.
    pub(crate) title: String,
    /// Publication, with section and figure.
    pub(crate) source: String,
    /// Method and assumptions.
    #[serde(default)]
    pub(crate) description: String,
    /// Differences from the publication and parts that could not be reproduced, each with its
    /// reason.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// Kind of measures.
    pub(crate) study: StudySetting,
    /// Scenario file, relative to this file's folder. Models have none.
    pub(crate) scenario: Option<PathBuf>,
    /// Random seeds of the runs. Default: `[1]`.
    pub(crate) seeds: Option<Vec<u64>>,
    /// Values that replace the scenario's in every arm, by key.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) set: BTreeMap<String, toml::Value>,
    /// Changes for full runs.
    #[serde(default)]
    pub(crate) full: FullSetting,
    /// Variants. Default: one, the unchanged scenario.
    #[serde(default)]
    pub(crate) arm: Vec<ArmSetting>,
    /// Arm that must miss every target without a control of its own: for example the arm without
    /// the overlay.
    pub(crate) control: Option<String>,
    /// Rows of the report.
    #[serde(default)]
    pub(crate) row: Vec<RowSetting>,
    /// Plots of the report.
    #[serde(default)]
    pub(crate) plot: Vec<PlotSetting>,
    /// Tables of the report.
    #[serde(default)]
    pub(crate) table: Vec<TableSetting>,
}

/// Kind of measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StudySetting {
    /// Losses, repairs and delays of flows.
    Flows,
    /// As `flows`, and the repairs by codes and retransmissions on the direct path alone.
    OnPath,
    /// As `flows`, and the NACKs of receivers with a fixed timer.
    Timers,
    /// Rates of classes on shared links, and effects of queues.
    Classes,
    /// Queues and rates of links whose senders know their state.
    State,
    /// Model: delays of every service between endpoints worldwide.
    Feasibility,
    /// Model: costs of every service between regions worldwide.
    Cost,
    /// Model: routes over up to three relays between endpoints worldwide, and flows that use them.
    Routes,
    /// Many flows, each alone with every service: the selected service beside the cheapest one.
    Selection,
}

impl StudySetting {
    /// True if it names no scenario: it is computed from tables, or makes its own scenarios.
    pub(crate) const fn is_model(self) -> bool {
        matches!(self, Self::Feasibility | Self::Cost | Self::Routes | Self::Selection)
    }
}

/// Changes for full runs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FullSetting {
    /// Random seeds.
    pub(crate) seeds: Option<Vec<u64>>,
    /// Values that replace others in every arm, by key.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) set: BTreeMap<String, toml::Value>,
}

/// Variant of the scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArmSetting {
    /// Name in rows and plots.
    pub(crate) name: String,
    /// Title in legends. Default: its name.
    pub(crate) title: Option<String>,
    /// Position on the horizontal axis of sweeps.
    pub(crate) x: Option<f64>,
    /// Curve of the sweep. Default: one for all.
    pub(crate) curve: Option<String>,
    /// Values that replace the scenario's, by key: `"flow.call.batch" = "6+2"`. A name or an index,
    /// from 0, selects one of several tables; `*` selects all.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) set: BTreeMap<String, toml::Value>,
}

/// Row of the report: a measure with its published value and its target.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowSetting {
    /// Title of the measure.
    pub(crate) metric: String,
    /// Name of the measure.
    pub(crate) measure: String,
    /// Limits the measure to flows of this name. Default: all flows.
    pub(crate) flow: Option<String>,
    /// Arm of the measure. Default: the first.
    pub(crate) arm: Option<String>,
    /// Arm whose measure, with the same seed, is the divisor.
    pub(crate) over: Option<String>,
    /// Arm whose measure, with the same seed, is subtracted.
    pub(crate) beyond: Option<String>,
    /// Published result, in its words.
    pub(crate) published: Option<String>,
    /// Least value of the target: a share like `"99 %"`, a time like `"60 ms"` or a number,
    /// depending on the measure.
    pub(crate) at_least: Option<String>,
    /// Greatest value of the target.
    pub(crate) at_most: Option<String>,
    /// Arm that must miss the target; `""`: none. Default: that of the experiment.
    pub(crate) control: Option<String>,
}

/// Plot of the report.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlotSetting {
    /// Name of its series.
    pub(crate) name: String,
    /// Title, in one line.
    pub(crate) title: String,
    /// Explanation for the reader.
    #[serde(default)]
    pub(crate) caption: String,
    /// Form of the plot.
    pub(crate) form: FormSetting,
    /// Measure, or sample for a distribution.
    pub(crate) of: String,
    /// For a sweep: other measures, which are bounds or models, as dashed curves.
    #[serde(default)]
    pub(crate) references: Vec<String>,
    /// Arms, one curve each. Default: all.
    pub(crate) arms: Option<Vec<String>>,
    /// For a sweep, a distribution or bars: limits it to flows of this name. Default: all flows.
    pub(crate) flow: Option<String>,
    /// Draws a curve for each name of flows. Default: `false`.
    #[serde(default)]
    pub(crate) by_flow: bool,
    /// Title of the horizontal axis.
    pub(crate) x: String,
    /// Title of the vertical axis.
    pub(crate) y: String,
    /// Scale of the horizontal axis. Default: `"linear"`.
    pub(crate) x_scale: Option<Scale>,
    /// Scale of the vertical axis. Default: `"linear"`.
    pub(crate) y_scale: Option<Scale>,
    /// Factor of all values in the plot, for example 100 for percent. Default: 1.
    pub(crate) times: Option<f64>,
}

/// The form of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormSetting {
    /// Distribution: the share of values of at most x.
    Cdf,
    /// Complementary distribution: the share of values above x.
    Ccdf,
    /// A measure of each arm over the arm's `x`.
    Sweep,
    /// A measure of each arm, as bars.
    Bars,
}

/// Table of the report: arms from top to bottom, measures from left to right.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableSetting {
    /// Title of the table.
    pub(crate) title: String,
    /// Measures of the columns.
    pub(crate) measures: Vec<String>,
    /// Shows the mean, least and greatest value of the seeds in each cell. Default: `false`, the
    /// median.
    #[serde(default)]
    pub(crate) spread: bool,
    /// Arms, one row each. Default: all.
    pub(crate) arms: Option<Vec<String>>,
    /// Adds a row for each name of flows. Default: `false`.
    #[serde(default)]
    pub(crate) by_flow: bool,
}
