//! Validation of a scenario's steps.

use std::collections::BTreeMap;

use byway_config_types::{KeyPath, Problem};
use byway_units::{Duration, Rate};

use super::names::{Names, matched};
use super::{Reader, element};
use crate::limits::{DELAY_MAX, STEPS_MAX};
use crate::raw::{ActionSetting, StepSetting};
use crate::scenario::{Action, Capacity, LinkChange, LinkPlan, LinkShape, Role, Step};

/// Machines or links that a step changes.
enum StepTarget<'a> {
    Nodes(std::ops::Range<usize>),
    /// Links by their two end machines, with their shapes.
    Links(Vec<((usize, usize), &'a LinkShape)>),
}

/// Shapes of all links, by the two end machines.
type ShapesByEnds<'a> = BTreeMap<(usize, usize), &'a LinkShape>;

impl Reader<'_> {
    pub(super) fn steps(
        &self,
        typed: &[StepSetting],
        names: &Names,
        (shapes, links): (&[LinkShape], &[LinkPlan]),
        length: Duration,
    ) -> Result<Vec<Step>, Problem> {
        let forth = links.iter().map(|link| ((link.from, link.to), &shapes[link.shape]));
        let both_ways = links.iter().filter(|link| link.is_bidirectional);
        let back = both_ways.map(|link| ((link.to, link.from), &shapes[link.shape]));
        let joined: ShapesByEnds<'_> = forth.chain(back).collect();
        let mut steps = Vec::new();
        for (index, step) in typed.iter().enumerate() {
            let here = element("step", index);
            if step.at.0 > length {
                let message = format!("{} is after the end, {length}: set an earlier time", step.at.0);
                return Err(self.problem(&here.key("at"), message));
            }
            let subject = self.subject(&here, step, names, &joined)?;
            for action in self.actions(&here, step, subject)? {
                steps.push(Step { at: step.at.0, action, description: step.description.clone() });
            }
            if steps.len() > STEPS_MAX {
                return Err(self.problem(&here, format!("too many steps: at most {STEPS_MAX}")));
            }
        }
        Ok(steps)
    }

    fn subject<'a>(
        &self,
        here: &KeyPath,
        step: &StepSetting,
        names: &Names,
        joined: &ShapesByEnds<'a>,
    ) -> Result<StepTarget<'a>, Problem> {
        match (&step.node, &step.between) {
            (Some(node), None) => {
                let members = names.members(self, &here.key("node"), node)?;
                if names.role(members.start) == Role::Router {
                    let message = "steps do not apply to routers: cut the links between them and others";
                    return Err(self.problem(&here.key("node"), message));
                }
                Ok(StepTarget::Nodes(members))
            }
            (None, Some([one, other])) => {
                let path = here.key("between");
                let (one, other) = (names.members(self, &path, one)?, names.members(self, &path, other)?);
                let pairs = matched(one, other).map_err(|message| self.problem(&path, message))?;
                let both = pairs.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
                let links: Vec<_> = both.filter_map(|ends| Some((ends, *joined.get(&ends)?))).collect();
                if links.is_empty() {
                    return Err(
                        self.problem(&path, "no link between these: name two machines that a link joins")
                    );
                }
                Ok(StepTarget::Links(links))
            }
            _ => Err(self
                .problem(here, "subject missing or ambiguous: set `node`, or links `between` two machines")),
        }
    }

    fn actions(
        &self,
        here: &KeyPath,
        step: &StepSetting,
        subject: StepTarget<'_>,
    ) -> Result<Vec<Action>, Problem> {
        let changes = step.delay.is_some() || step.rate.is_some() || step.loss.is_some();
        if changes != (step.action == ActionSetting::Change) {
            let message = "`change` requires `delay`, `rate` or `loss`, and these are allowed for \
                           `change` alone";
            return Err(self.problem(&here.key("do"), message));
        }
        let of_nodes: Option<fn(usize) -> Action> = match step.action {
            ActionSetting::Stop => Some(Action::Stop),
            ActionSetting::Start => Some(Action::Start),
            ActionSetting::Freeze => Some(Action::Freeze),
            ActionSetting::Resume => Some(Action::Resume),
            ActionSetting::Cut | ActionSetting::Mend | ActionSetting::Change => None,
        };
        match (subject, of_nodes) {
            (StepTarget::Nodes(members), Some(action)) => Ok(members.map(action).collect()),
            (StepTarget::Links(links), None) => {
                let (ends, shapes): (Vec<_>, Vec<_>) = links.into_iter().unzip();
                Ok(vec![match step.action {
                    ActionSetting::Cut => Action::Cut(ends),
                    ActionSetting::Mend => Action::Mend(ends),
                    _ => Action::Change(ends, self.change(here, step, &shapes)?),
                }])
            }
            (StepTarget::Nodes(_), None) => {
                Err(self.problem(&here.key("do"), "only applies to links: name them by `between`"))
            }
            (StepTarget::Links(_), Some(_)) => {
                Err(self.problem(&here.key("do"), "only applies to machines: name them by `node`"))
            }
        }
    }

    fn change(
        &self,
        here: &KeyPath,
        step: &StepSetting,
        shapes: &[&LinkShape],
    ) -> Result<LinkChange, Problem> {
        let delay = step.delay.map(|delay| delay.0);
        self.no_longer_than(&here.key("delay"), delay, DELAY_MAX)?;
        let rate = step.rate.map(|rate| rate.0);
        if rate.is_some_and(Rate::is_zero) {
            return Err(self.problem(&here.key("rate"), "is 0: cut the links instead"));
        }
        let is_recorded = |shape: &&LinkShape| matches!(shape.capacity, Capacity::Recorded(_));
        if rate.is_some() && shapes.iter().any(is_recorded) {
            let message = "links with a recorded `capacity` do not support `rate`: omit it, or give \
                           the link a `rate`";
            return Err(self.problem(&here.key("rate"), message));
        }
        if let Some(rate) = rate {
            let classes = shapes.iter().filter_map(|shape| Some((shape.classes.as_ref()?, shape.queue)));
            for (classes, queue) in classes {
                let broken = |error| self.problem(&here.key("rate"), error);
                classes.scheduling(rate, queue).map_err(broken)?;
            }
        }
        let losses = step.loss.as_ref().map(|losses| {
            let losses = losses.iter().enumerate();
            losses.map(|(index, loss)| self.loss(&here.key("loss").index(index), loss)).collect()
        });
        Ok(LinkChange { delay, rate, loss: losses.transpose()? })
    }
}
