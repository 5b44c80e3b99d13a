//! Models: studies that are computed from tables instead of run.

use std::collections::BTreeMap;

use crate::findings::Findings;
use crate::result::{Plot, Table};

mod cost;
mod data;
mod drawing;
mod environments;
mod explain;
mod feasibility;
mod markets;
mod route_flows;
mod routes;
mod selected;

pub(crate) use cost::cost;
pub(crate) use data::Data;
pub(crate) use feasibility::feasibility;
pub(crate) use routes::routes;

/// Results of a model: findings, tables and plots.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    /// Findings of each seed; a single one if the model is not random.
    pub(crate) findings: Vec<Findings>,
    pub(crate) tables: Vec<Table>,
    pub(crate) series: BTreeMap<String, Plot>,
    /// Datasets that the model used, and datasets that could be added.
    pub(crate) notes: Vec<String>,
}

impl Model {
    /// Returns the only findings of a model that is not random, and makes them if necessary.
    fn only(&mut self) -> &mut Findings {
        if self.findings.is_empty() {
            self.findings.push(Findings::default());
        }
        &mut self.findings[0]
    }
}
