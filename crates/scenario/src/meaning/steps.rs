//! What happens meanwhile.

use byway_typed::Problem;
use byway_units::Duration;

use super::names::Names;
use super::{Reader, element};
use crate::limits::STEPS_MAX;
use crate::scenario::{Action, Role, Step};
use crate::typed::{TypedAction, TypedStep};

impl Reader<'_> {
    pub(super) fn steps(
        &self,
        typed: &[TypedStep],
        names: &Names,
        length: Duration,
    ) -> Result<Vec<Step>, Problem> {
        let mut steps = Vec::new();
        for (place, step) in typed.iter().enumerate() {
            let here = element("step", place);
            if step.at.0 > length {
                let message = format!("{} is after the end, {length}: take an earlier time", step.at.0);
                return Err(self.problem(&here.key("at"), message));
            }
            let members = names.members(self, &here.key("node"), &step.node)?;
            if names.role(members.start) == Role::Router {
                return Err(self
                    .problem(&here.key("node"), "nothing happens to routers: use an outage of their links"));
            }
            let action = match step.action {
                TypedAction::Stop => Action::Stop,
                TypedAction::Start => Action::Start,
                TypedAction::Hang => Action::Hang,
                TypedAction::Resume => Action::Resume,
            };
            let description = &step.description;
            let one = |node| Step { at: step.at.0, action, node, description: description.clone() };
            steps.extend(members.map(one));
            if steps.len() > STEPS_MAX {
                return Err(self.problem(&here, format!("there are more than {STEPS_MAX} steps: have fewer")));
            }
        }
        Ok(steps)
    }
}
