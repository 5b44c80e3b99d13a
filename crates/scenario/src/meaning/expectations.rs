//! What is to come of a scenario.

use byway_typed::{KeyPath, Problem, TypedDuration, TypedRate, TypedRatio, TypedShare};

use super::{Reader, element};
use crate::measure::{Unit, megabits};
use crate::scenario::{Bound, Expectation};
use crate::typed::{TypedExpectation, TypedFlow};

impl Reader<'_> {
    pub(super) fn expectations(
        &self,
        typed: &[TypedExpectation],
        flows: &[TypedFlow],
    ) -> Result<Vec<Expectation>, Problem> {
        let one = |(place, typed)| self.expectation(&element("expect", place), typed, flows);
        typed.iter().enumerate().map(one).collect()
    }

    fn expectation(
        &self,
        here: &KeyPath,
        typed: &TypedExpectation,
        flows: &[TypedFlow],
    ) -> Result<Expectation, Problem> {
        let Some(group) = flows.iter().position(|flow| flow.name == typed.flow) else {
            let known: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
            let message = format!("there is no flow {:?}: it is one of {}", typed.flow, known.join(", "));
            return Err(self.problem(&here.key("flow"), message));
        };
        let bound = match (&typed.at_least, &typed.at_most) {
            (Some(text), None) => {
                Bound::AtLeast(self.bound(&here.key("at_least"), text, typed.measure.unit())?)
            }
            (None, Some(text)) => {
                Bound::AtMost(self.bound(&here.key("at_most"), text, typed.measure.unit())?)
            }
            _ => return Err(self.problem(here, "give either `at_least` or `at_most`")),
        };
        Ok(Expectation { group, measure: typed.measure, bound })
    }

    fn bound(&self, path: &KeyPath, text: &str, unit: Unit) -> Result<f64, Problem> {
        match unit {
            Unit::Packets => text.trim().parse::<u32>().map(f64::from).map_err(|_| {
                self.problem(path, format!("{text:?} is no number of packets: write one, as in \"12\""))
            }),
            Unit::Share => text
                .parse::<TypedShare>()
                .map(|share| share.0.value())
                .map_err(|error| self.problem(path, error)),
            Unit::Ratio => {
                text.parse::<TypedRatio>().map(|ratio| ratio.0).map_err(|error| self.problem(path, error))
            }
            Unit::Megabits => text
                .parse::<TypedRate>()
                .map(|rate| megabits(rate.0))
                .map_err(|error| self.problem(path, error)),
            Unit::Milliseconds => text
                .parse::<TypedDuration>()
                .map(|time| time.0.as_secs_f64() * 1_000.0)
                .map_err(|error| self.problem(path, error)),
        }
    }
}
