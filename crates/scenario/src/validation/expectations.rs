//! Validation of expectations.

use byway_config_types::{DurationSetting, KeyPath, Problem, RateSetting, RatioSetting, ShareSetting};

use super::{Reader, element};
use crate::measure::{Unit, megabits};
use crate::raw::{
    BoundSetting, CommandKindSetting, CommandSetting, ExpectationSetting, ExpectedMeasureSetting,
    FlowSetting, LinkSetting,
};
use crate::scenario::{Bound, Expectation, ExpectedMeasure, Measure};

impl Reader<'_> {
    pub(super) fn expectations(
        &self,
        typed: &[ExpectationSetting],
        flows: &[FlowSetting],
        commands: &[CommandSetting],
        links: &[LinkSetting],
    ) -> Result<Vec<Expectation>, Problem> {
        let one = |(index, typed): (usize, &ExpectationSetting)| {
            let here = element("expect", index);
            let expected = match (&typed.flow, &typed.command, &typed.link) {
                (Some(name), None, None) => {
                    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
                    let group = self.named(&here.key("flow"), "flow", name, &names)?;
                    ExpectedMeasure::Flow(group, self.measure(&here, typed, false)?)
                }
                (None, Some(name), None) => {
                    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
                    let index = self.named(&here.key("command"), "command", name, &names)?;
                    self.expect_task(&here.key("command"), &commands[index])?;
                    ExpectedMeasure::Command(name.clone(), typed.measure.name().to_owned())
                }
                (None, None, Some(name)) => {
                    let with_classes = links.iter().filter(|link| link.classes.is_some());
                    let names: Vec<&str> = with_classes.filter_map(|link| link.name.as_deref()).collect();
                    self.named(&here.key("link"), "link with a name and classes", name, &names)?;
                    ExpectedMeasure::Link(name.clone(), self.measure(&here, typed, true)?)
                }
                _ => {
                    return Err(self.problem(
                        &here,
                        "subject missing or ambiguous: set one of `flow`, `command` and `link`",
                    ));
                }
            };
            self.expectation(&here, typed, expected)
        };
        typed.iter().enumerate().map(one).collect()
    }

    fn named(&self, path: &KeyPath, what: &str, name: &str, known: &[&str]) -> Result<usize, Problem> {
        known.iter().position(|known| *known == name).ok_or_else(|| {
            let known = if known.is_empty() { "none" } else { &known.join(", ") };
            let message = format!("{what} {name:?} not found: name one of {known}");
            self.problem(path, message)
        })
    }

    /// Returns the measure of this name for flows or for links.
    fn measure(
        &self,
        here: &KeyPath,
        typed: &ExpectationSetting,
        of_links: bool,
    ) -> Result<Measure, Problem> {
        match &typed.measure {
            ExpectedMeasureSetting::Known(measure) if measure.is_of_links() == of_links => Ok(*measure),
            other => {
                let known = Measure::ALL.iter().filter(|known| known.is_of_links() == of_links);
                let known: Vec<_> = known.map(|known| format!("`{}`", known.name())).collect();
                let what = if of_links { "links" } else { "flows" };
                let message = format!(
                    "invalid measure of {what}, {:?}: name one of {}",
                    other.name(),
                    known.join(", ")
                );
                Err(self.problem(&here.key("measure"), message))
            }
        }
    }

    fn expect_task(&self, path: &KeyPath, command: &CommandSetting) -> Result<(), Problem> {
        if command.kind == Some(CommandKindSetting::Service) {
            let message = format!("{:?} is a service, which has no measures: name a task", command.name);
            return Err(self.problem(path, message));
        }
        Ok(())
    }

    fn expectation(
        &self,
        here: &KeyPath,
        typed: &ExpectationSetting,
        of: ExpectedMeasure,
    ) -> Result<Expectation, Problem> {
        let value = |key, bound: &BoundSetting| match &of {
            ExpectedMeasure::Flow(_, measure) | ExpectedMeasure::Link(_, measure) => {
                self.bound(&here.key(key), &bound.text(), measure.unit())
            }
            ExpectedMeasure::Command(..) => self.number(&here.key(key), &bound.text()),
        };
        let bound = match (&typed.at_least, &typed.at_most) {
            (Some(bound), None) => Bound::AtLeast(value("at_least", bound)?),
            (None, Some(bound)) => Bound::AtMost(value("at_most", bound)?),
            _ => {
                return Err(
                    self.problem(here, "bound missing or ambiguous: set either `at_least` or `at_most`")
                );
            }
        };
        Ok(Expectation { of, bound })
    }

    fn number(&self, path: &KeyPath, text: &str) -> Result<f64, Problem> {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| self.problem(path, format!("invalid number {text:?}: write one, as in 12.5")))
    }

    fn bound(&self, path: &KeyPath, text: &str, unit: Unit) -> Result<f64, Problem> {
        match unit {
            Unit::Packets => text.trim().parse::<u32>().map(f64::from).map_err(|_| {
                self.problem(path, format!("invalid number of packets {text:?}: write one, as in \"12\""))
            }),
            Unit::Share => text
                .parse::<ShareSetting>()
                .map(|share| share.0.value())
                .map_err(|error| self.problem(path, error)),
            Unit::Ratio => {
                text.parse::<RatioSetting>().map(|ratio| ratio.0).map_err(|error| self.problem(path, error))
            }
            Unit::Megabits => text
                .parse::<RateSetting>()
                .map(|rate| megabits(rate.0))
                .map_err(|error| self.problem(path, error)),
            Unit::Milliseconds => text
                .parse::<DurationSetting>()
                .map(|time| time.0.as_secs_f64() * 1_000.0)
                .map_err(|error| self.problem(path, error)),
        }
    }
}

impl ExpectedMeasureSetting {
    fn name(&self) -> &str {
        match self {
            Self::Known(measure) => measure.name(),
            Self::Other(name) => name,
        }
    }
}

impl BoundSetting {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}
