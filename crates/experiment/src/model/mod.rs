//! What is computed from tables, and not run.

use std::collections::BTreeMap;

use crate::findings::Findings;
use crate::result::{Plot, Table};

mod cost;
mod data;
mod drawing;
mod explain;
mod feasibility;
mod markets;
mod worlds;

pub(crate) use cost::cost;
pub(crate) use data::Data;
pub(crate) use feasibility::feasibility;

/// What a model came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    /// One for each seed, or one where chance has no part in it.
    pub(crate) findings: Vec<Findings>,
    pub(crate) tables: Vec<Table>,
    pub(crate) series: BTreeMap<String, Plot>,
    /// Which tables it is computed from, and what others would add.
    pub(crate) notes: Vec<String>,
}

impl Model {
    /// The findings of a model that chance has no part in.
    fn only(&mut self) -> &mut Findings {
        if self.findings.is_empty() {
            self.findings.push(Findings::default());
        }
        &mut self.findings[0]
    }
}
