//! What happens meanwhile.

use std::collections::BTreeMap;

use byway_typed::{KeyPath, Problem};
use byway_units::{Duration, Rate};

use super::names::{Names, matched};
use super::{Reader, element};
use crate::limits::{DELAY_MAX, STEPS_MAX};
use crate::scenario::{Action, Capacity, LinkChange, LinkPlan, LinkShape, Role, Step};
use crate::typed::{TypedAction, TypedStep};

/// Whom a step is about.
enum Subject<'a> {
    Nodes(std::ops::Range<usize>),
    /// By their ends, and what they are like.
    Links(Vec<((usize, usize), &'a LinkShape)>),
}

/// What joins machines is like, by the ends.
type Joined<'a> = BTreeMap<(usize, usize), &'a LinkShape>;

impl Reader<'_> {
    pub(super) fn steps(
        &self,
        typed: &[TypedStep],
        names: &Names,
        (shapes, links): (&[LinkShape], &[LinkPlan]),
        length: Duration,
    ) -> Result<Vec<Step>, Problem> {
        let forth = links.iter().map(|link| ((link.from, link.to), &shapes[link.shape]));
        let both_ways = links.iter().filter(|link| link.is_both_ways);
        let back = both_ways.map(|link| ((link.to, link.from), &shapes[link.shape]));
        let joined: Joined<'_> = forth.chain(back).collect();
        let mut steps = Vec::new();
        for (place, step) in typed.iter().enumerate() {
            let here = element("step", place);
            if step.at.0 > length {
                let message = format!("{} is after the end, {length}: take an earlier time", step.at.0);
                return Err(self.problem(&here.key("at"), message));
            }
            let subject = self.subject(&here, step, names, &joined)?;
            for action in self.actions(&here, step, subject)? {
                steps.push(Step { at: step.at.0, action, description: step.description.clone() });
            }
            if steps.len() > STEPS_MAX {
                return Err(self.problem(&here, format!("there are more than {STEPS_MAX} steps: have fewer")));
            }
        }
        Ok(steps)
    }

    fn subject<'a>(
        &self,
        here: &KeyPath,
        step: &TypedStep,
        names: &Names,
        joined: &Joined<'a>,
    ) -> Result<Subject<'a>, Problem> {
        match (&step.node, &step.between) {
            (Some(node), None) => {
                let members = names.members(self, &here.key("node"), node)?;
                if names.role(members.start) == Role::Router {
                    let message = "nothing happens to routers: cut the links between them and others";
                    return Err(self.problem(&here.key("node"), message));
                }
                Ok(Subject::Nodes(members))
            }
            (None, Some([one, other])) => {
                let path = here.key("between");
                let (one, other) = (names.members(self, &path, one)?, names.members(self, &path, other)?);
                let pairs = matched(one, other).map_err(|message| self.problem(&path, message))?;
                let both = pairs.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
                let links: Vec<_> = both.filter_map(|ends| Some((ends, *joined.get(&ends)?))).collect();
                if links.is_empty() {
                    return Err(self.problem(&path, "no link joins these: name two machines that one does"));
                }
                Ok(Subject::Links(links))
            }
            _ => Err(self.problem(here, "a step has a `node`, or links `between` two")),
        }
    }

    fn actions(
        &self,
        here: &KeyPath,
        step: &TypedStep,
        subject: Subject<'_>,
    ) -> Result<Vec<Action>, Problem> {
        let changes = step.delay.is_some() || step.rate.is_some() || step.loss.is_some();
        if changes != (step.action == TypedAction::Change) {
            let message = "`change` goes with `delay`, `rate` or `loss`, and these with nothing else";
            return Err(self.problem(&here.key("do"), message));
        }
        let of_nodes: Option<fn(usize) -> Action> = match step.action {
            TypedAction::Stop => Some(Action::Stop),
            TypedAction::Start => Some(Action::Start),
            TypedAction::Hang => Some(Action::Hang),
            TypedAction::Resume => Some(Action::Resume),
            TypedAction::Cut | TypedAction::Mend | TypedAction::Change => None,
        };
        match (subject, of_nodes) {
            (Subject::Nodes(members), Some(action)) => Ok(members.map(action).collect()),
            (Subject::Links(links), None) => {
                let (ends, shapes): (Vec<_>, Vec<_>) = links.into_iter().unzip();
                Ok(vec![match step.action {
                    TypedAction::Cut => Action::Cut(ends),
                    TypedAction::Mend => Action::Mend(ends),
                    _ => Action::Change(ends, self.change(here, step, &shapes)?),
                }])
            }
            (Subject::Nodes(_), None) => {
                Err(self.problem(&here.key("do"), "happens to links: name them by `between`"))
            }
            (Subject::Links(_), Some(_)) => {
                Err(self.problem(&here.key("do"), "happens to machines: name them by `node`"))
            }
        }
    }

    fn change(&self, here: &KeyPath, step: &TypedStep, shapes: &[&LinkShape]) -> Result<LinkChange, Problem> {
        let delay = step.delay.map(|delay| delay.0);
        self.no_longer_than(&here.key("delay"), delay, DELAY_MAX)?;
        let rate = step.rate.map(|rate| rate.0);
        if rate.is_some_and(Rate::is_zero) {
            return Err(self.problem(&here.key("rate"), "is 0: cut the links instead"));
        }
        let is_recorded = |shape: &&LinkShape| matches!(shape.capacity, Capacity::Recorded(_));
        if rate.is_some() && shapes.iter().any(is_recorded) {
            let message = "these links have a recorded `capacity`, which no rate replaces: leave `rate` out, or give the link a `rate`";
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
            losses.map(|(place, loss)| self.loss(&here.key("loss").place(place), loss)).collect()
        });
        Ok(LinkChange { delay, rate, loss: losses.transpose()? })
    }
}
