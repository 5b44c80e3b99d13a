//! What is to come of a scenario.

use byway_typed::{KeyPath, Problem, TypedDuration, TypedRate, TypedRatio, TypedShare};

use super::{Reader, element};
use crate::measure::{Unit, megabits};
use crate::scenario::{Bound, Expectation, Expected, Measure};
use crate::typed::{
    TypedBound, TypedCommand, TypedCommandKind, TypedExpectation, TypedExpectedMeasure, TypedFlow, TypedLink,
};

impl Reader<'_> {
    pub(super) fn expectations(
        &self,
        typed: &[TypedExpectation],
        flows: &[TypedFlow],
        commands: &[TypedCommand],
        links: &[TypedLink],
    ) -> Result<Vec<Expectation>, Problem> {
        let one = |(place, typed): (usize, &TypedExpectation)| {
            let here = element("expect", place);
            let expected = match (&typed.flow, &typed.command, &typed.link) {
                (Some(name), None, None) => {
                    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
                    let group = self.named(&here.key("flow"), "flow", name, &names)?;
                    Expected::Flow(group, self.measure(&here, typed, false)?)
                }
                (None, Some(name), None) => {
                    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
                    let place = self.named(&here.key("command"), "command", name, &names)?;
                    self.expect_task(&here.key("command"), &commands[place])?;
                    Expected::Command(name.clone(), typed.measure.name().to_owned())
                }
                (None, None, Some(name)) => {
                    let with_classes = links.iter().filter(|link| link.classes.is_some());
                    let names: Vec<&str> = with_classes.filter_map(|link| link.name.as_deref()).collect();
                    self.named(&here.key("link"), "link with a name and classes", name, &names)?;
                    Expected::Link(name.clone(), self.measure(&here, typed, true)?)
                }
                _ => return Err(self.problem(&here, "give either `flow`, `command` or `link`")),
            };
            self.expectation(&here, typed, expected)
        };
        typed.iter().enumerate().map(one).collect()
    }

    fn named(&self, path: &KeyPath, what: &str, name: &str, known: &[&str]) -> Result<usize, Problem> {
        known.iter().position(|known| *known == name).ok_or_else(|| {
            let known = if known.is_empty() { "none" } else { &known.join(", ") };
            let message = format!("there is no {what} {name:?}: it is one of {known}");
            self.problem(path, message)
        })
    }

    /// A measure of flows, or of links.
    fn measure(&self, here: &KeyPath, typed: &TypedExpectation, of_links: bool) -> Result<Measure, Problem> {
        match &typed.measure {
            TypedExpectedMeasure::Known(measure) if measure.is_of_links() == of_links => Ok(*measure),
            other => {
                let known = Measure::ALL.iter().filter(|known| known.is_of_links() == of_links);
                let known: Vec<_> = known.map(|known| format!("`{}`", known.name())).collect();
                let what = if of_links { "links" } else { "flows" };
                let message =
                    format!("{what} have no measure {:?}: it is one of {}", other.name(), known.join(", "));
                Err(self.problem(&here.key("measure"), message))
            }
        }
    }

    fn expect_task(&self, path: &KeyPath, command: &TypedCommand) -> Result<(), Problem> {
        if command.kind == Some(TypedCommandKind::Service) {
            let message = format!("{:?} is a service, which has no measures: name a task", command.name);
            return Err(self.problem(path, message));
        }
        Ok(())
    }

    fn expectation(
        &self,
        here: &KeyPath,
        typed: &TypedExpectation,
        of: Expected,
    ) -> Result<Expectation, Problem> {
        let value = |key, bound: &TypedBound| match &of {
            Expected::Flow(_, measure) | Expected::Link(_, measure) => {
                self.bound(&here.key(key), &bound.text(), measure.unit())
            }
            Expected::Command(..) => self.number(&here.key(key), &bound.text()),
        };
        let bound = match (&typed.at_least, &typed.at_most) {
            (Some(bound), None) => Bound::AtLeast(value("at_least", bound)?),
            (None, Some(bound)) => Bound::AtMost(value("at_most", bound)?),
            _ => return Err(self.problem(here, "give either `at_least` or `at_most`")),
        };
        Ok(Expectation { of, bound })
    }

    fn number(&self, path: &KeyPath, text: &str) -> Result<f64, Problem> {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| self.problem(path, format!("{text:?} is no number: write one, as in 12.5")))
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

impl TypedExpectedMeasure {
    fn name(&self) -> &str {
        match self {
            Self::Known(measure) => measure.name(),
            Self::Other(name) => name,
        }
    }
}

impl TypedBound {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}
