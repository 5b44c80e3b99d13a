//! What happens meanwhile.

use std::collections::BTreeSet;

use byway_typed::{KeyPath, Problem};
use byway_units::{Duration, Rate};

use super::names::{Names, matched};
use super::{Reader, element};
use crate::limits::{DELAY_MAX, STEPS_MAX};
use crate::scenario::{Action, LinkChange, LinkPlan, Role, Step};
use crate::typed::{TypedAction, TypedStep};

/// Whom a step is about.
enum Subject {
    Nodes(std::ops::Range<usize>),
    Links(Vec<(usize, usize)>),
}

impl Reader<'_> {
    pub(super) fn steps(
        &self,
        typed: &[TypedStep],
        names: &Names,
        links: &[LinkPlan],
        length: Duration,
    ) -> Result<Vec<Step>, Problem> {
        let forth = links.iter().map(|link| (link.from, link.to));
        let back = links.iter().filter(|link| link.is_both_ways).map(|link| (link.to, link.from));
        let joined: BTreeSet<(usize, usize)> = forth.chain(back).collect();
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

    fn subject(
        &self,
        here: &KeyPath,
        step: &TypedStep,
        names: &Names,
        joined: &BTreeSet<(usize, usize)>,
    ) -> Result<Subject, Problem> {
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
                let links: Vec<(usize, usize)> = both.filter(|link| joined.contains(link)).collect();
                if links.is_empty() {
                    return Err(self.problem(&path, "no link joins these: name two machines that one does"));
                }
                Ok(Subject::Links(links))
            }
            _ => Err(self.problem(here, "a step has a `node`, or links `between` two")),
        }
    }

    fn actions(&self, here: &KeyPath, step: &TypedStep, subject: Subject) -> Result<Vec<Action>, Problem> {
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
            (Subject::Links(links), None) => Ok(vec![match step.action {
                TypedAction::Cut => Action::Cut(links),
                TypedAction::Mend => Action::Mend(links),
                _ => Action::Change(links, self.change(here, step)?),
            }]),
            (Subject::Nodes(_), None) => {
                Err(self.problem(&here.key("do"), "happens to links: name them by `between`"))
            }
            (Subject::Links(_), Some(_)) => {
                Err(self.problem(&here.key("do"), "happens to machines: name them by `node`"))
            }
        }
    }

    fn change(&self, here: &KeyPath, step: &TypedStep) -> Result<LinkChange, Problem> {
        let delay = step.delay.map(|delay| delay.0);
        self.no_longer_than(&here.key("delay"), delay, DELAY_MAX)?;
        let rate = step.rate.map(|rate| rate.0);
        if rate.is_some_and(Rate::is_zero) {
            return Err(self.problem(&here.key("rate"), "is 0: cut the links instead"));
        }
        let losses = step.loss.as_ref().map(|losses| {
            let losses = losses.iter().enumerate();
            losses.map(|(place, loss)| self.loss(&here.key("loss").place(place), loss)).collect()
        });
        Ok(LinkChange { delay, rate, loss: losses.transpose()? })
    }
}
