//! Runs of an experiment. They are independent of each other, so a caller can perform several in
//! parallel.

use std::ops::ControlFlow;

use byway_scenario::{BuildError, Progress, RecordOptions, StopReason};

use crate::experiment::{Experiment, Runs};
use crate::findings::{Findings, number};
use crate::flows;
use crate::model::{self, Model};
use crate::on_path;
use crate::raw::StudySetting;
use crate::result::Results;
use crate::result_tables;
use crate::selection;
use crate::timers;
use crate::transfers;

/// Findings of one run of an experiment, for [`Experiment::results`].
#[derive(Clone, Debug, PartialEq)]
pub struct Finding(RunResult);

#[derive(Clone, Debug, PartialEq)]
enum RunResult {
    Run(Findings),
    Model(Model),
}

impl Experiment {
    /// Returns the number of runs: arms times seeds. A model counts as one, and the study of
    /// selection as one for each seed.
    #[must_use]
    pub fn runs(&self) -> usize {
        match self.settings.study {
            StudySetting::Selection => self.seeds.len(),
            study if study.is_model() => 1,
            _ => self.arms.len() * self.seeds.len(),
        }
    }

    /// Returns the length of all runs together, in seconds of virtual time.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        if self.settings.study == StudySetting::Selection {
            return number(selection::RUN_SECONDS * self.seeds.len() as u64);
        }
        let lengths = self.arms.iter().map(|arm| arm.run.length().as_secs_f64());
        // The fold starts from 0.0, because the sum of an empty iterator is -0.0.
        lengths.fold(0.0, |sum, length| sum + length) * number(self.seeds.len() as u64)
    }

    /// Performs the run number `nth`, from 0: all seeds of the first arm, then those of the next
    /// one. Calls `watch` regularly with the progress; `watch` may stop the run.
    ///
    /// # Errors
    /// If the scenario cannot be built with its seed.
    pub fn run(
        &self,
        nth: usize,
        watch: &mut dyn FnMut(&Progress) -> ControlFlow<StopReason>,
    ) -> Result<Finding, BuildError> {
        if self.settings.study == StudySetting::Selection {
            return Ok(Finding(RunResult::Run(selection::run(self.seeds[nth], watch)?)));
        }
        let Some(arm) = self.arms.get(nth / self.seeds.len()) else {
            return Ok(Finding(RunResult::Model(self.model())));
        };
        let seed = self.seeds[nth % self.seeds.len()];
        let watching = RecordOptions { records: true, ..RecordOptions::default() };
        let scenario = match &arm.run {
            Runs::Scenario(scenario) => scenario,
            Runs::Classes(plan) => return Ok(Finding(RunResult::Run(plan.run(seed, watch)))),
            Runs::State(plan) => return Ok(Finding(RunResult::Run(plan.run(seed, watch)))),
        };
        let outcome = scenario.run_observed(seed, &watching, |progress| watch(&progress))?;
        let mut findings = flows::reduce(&outcome);
        transfers::reduce(&outcome, &mut findings);
        match self.settings.study {
            StudySetting::OnPath => on_path::compare(&outcome.records, &mut findings),
            StudySetting::Timers => timers::compare(&outcome.records, &mut findings),
            StudySetting::Flows
            | StudySetting::Classes
            | StudySetting::State
            | StudySetting::Feasibility
            | StudySetting::Cost
            | StudySetting::Routes
            | StudySetting::Selection => {}
        }
        Ok(Finding(RunResult::Run(findings)))
    }

    /// Computes the model of a study that runs no scenario.
    fn model(&self) -> Model {
        match self.settings.study {
            StudySetting::Flows
            | StudySetting::OnPath
            | StudySetting::Timers
            | StudySetting::Classes
            | StudySetting::State
            | StudySetting::Selection => Model::default(),
            StudySetting::Feasibility => model::feasibility(&self.seeds, &self.data),
            StudySetting::Cost => model::cost(&self.data),
            StudySetting::Routes => model::routes(&self.seeds, &self.data),
        }
    }

    /// Combines the findings of all runs, in the order of the runs, into the experiment's results.
    ///
    /// # Panics
    /// If the number of findings differs from the number of runs.
    #[must_use]
    pub fn results(&self, findings: Vec<Finding>) -> Results {
        assert_eq!(findings.len(), self.runs(), "each run has its findings");
        let (mut runs, mut models) = (Vec::new(), Vec::new());
        for finding in findings {
            match finding.0 {
                RunResult::Run(findings) => runs.push(findings),
                RunResult::Model(model) => models.push(model),
            }
        }
        if let Some(model) = models.pop() {
            return result_tables::model(self, model);
        }
        let arms: Vec<result_tables::ArmFindings> =
            runs.chunks(self.seeds.len()).map(<[Findings]>::to_vec).collect();
        result_tables::results(self, &arms)
    }
}
