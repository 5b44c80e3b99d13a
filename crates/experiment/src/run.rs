//! The runs of an experiment, each by itself: whoever has several cores does several at once.

use std::ops::ControlFlow;

use byway_scenario::{BuildError, Halt, Progress, Watching};

use crate::experiment::{Experiment, Runs};
use crate::findings::{Findings, number};
use crate::flows;
use crate::model::{self, Model};
use crate::on_path;
use crate::present;
use crate::result::Results;
use crate::timers;
use crate::transfers;
use crate::typed::TypedStudy;

/// What one run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding(Found);

#[derive(Clone, Debug, PartialEq)]
enum Found {
    Run(Findings),
    Model(Model),
}

impl Experiment {
    /// How many runs it takes; a model is one.
    #[must_use]
    pub fn runs(&self) -> usize {
        if self.arms.is_empty() { 1 } else { self.arms.len() * self.seeds.len() }
    }

    /// How long all runs are together, in seconds of their own time.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let lengths = self.arms.iter().map(|arm| arm.run.length().as_secs_f64());
        // A sum of nothing is less than nothing by its sign.
        lengths.fold(0.0, |sum, length| sum + length) * number(self.seeds.len() as u64)
    }

    /// Does one of them, counted from 0; `watch` is told now and then how far it is, and may end it.
    ///
    /// # Errors
    /// If the scenario cannot be built with its seed.
    pub fn run(
        &self,
        nth: usize,
        watch: &mut dyn FnMut(&Progress) -> ControlFlow<Halt>,
    ) -> Result<Finding, BuildError> {
        let Some(arm) = self.arms.get(nth / self.seeds.len()) else {
            return Ok(Finding(Found::Model(self.model())));
        };
        let seed = self.seeds[nth % self.seeds.len()];
        let watching = Watching { records: true, ..Watching::default() };
        let scenario = match &arm.run {
            Runs::Scenario(scenario) => scenario,
            Runs::Classes(plan) => return Ok(Finding(Found::Run(plan.run(seed, watch)))),
        };
        let outcome = scenario.run_watched(seed, &watching, |progress| watch(&progress))?;
        let mut findings = flows::reduce(&outcome);
        transfers::reduce(&outcome, &mut findings);
        match self.typed.study {
            TypedStudy::OnPath => on_path::compare(&outcome.records, &mut findings),
            TypedStudy::Timers => timers::compare(&outcome.records, &mut findings),
            TypedStudy::Flows | TypedStudy::Classes | TypedStudy::Feasibility | TypedStudy::Cost => {}
        }
        Ok(Finding(Found::Run(findings)))
    }

    /// What is computed, and not run.
    fn model(&self) -> Model {
        match self.typed.study {
            TypedStudy::Flows | TypedStudy::OnPath | TypedStudy::Timers | TypedStudy::Classes => {
                Model::default()
            }
            TypedStudy::Feasibility => model::feasibility(&self.seeds, &self.data),
            TypedStudy::Cost => model::cost(&self.data),
        }
    }

    /// What all runs came to, in their order.
    ///
    /// # Panics
    /// If there are not as many findings as runs.
    #[must_use]
    pub fn results(&self, findings: Vec<Finding>) -> Results {
        assert_eq!(findings.len(), self.runs(), "each run has its findings");
        let (mut runs, mut models) = (Vec::new(), Vec::new());
        for finding in findings {
            match finding.0 {
                Found::Run(findings) => runs.push(findings),
                Found::Model(model) => models.push(model),
            }
        }
        if let Some(model) = models.pop() {
            return present::model(self, model);
        }
        let arms: Vec<present::OfArm> = runs.chunks(self.seeds.len()).map(<[Findings]>::to_vec).collect();
        present::results(self, &arms)
    }
}
