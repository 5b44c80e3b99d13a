//! Flows and their relays: asking to be registered, and which path is in use.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{FlowOptions, FlowRole, Refusal, Register, Registered, Unregister};
use byway_wire::{Alias, FlowKey, KilobitsPerSecond, Message, Microseconds};

use super::events::Event;
use super::settings::{Duplication, FlowSettings};
use super::{Agent, Flow};
use crate::limits::{PATH_CHANGE_INTERVAL, REGISTER_RETRY, REGISTER_RETRY_MAX, REGISTER_TRIES};
use crate::session::SessionId;

/// What one relay says of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// Asked so many times, next at this time.
    Asking { tries: u32, next: Time },
    /// The relay knows the flow by this alias.
    Accepted(Alias),
    /// The relay will not have it.
    Refused(Refusal),
}

/// A flow's registrations, one for each of its paths, and which path is in use.
#[derive(Clone, Debug)]
pub(super) struct Registrations {
    paths: Vec<Registration>,
    in_use: usize,
    changed: Option<Time>,
}

impl Registrations {
    pub(super) fn new(paths: usize) -> Self {
        let asking = Registration::Asking { tries: 0, next: Time::START };
        Self { paths: alloc::vec![asking; paths], in_use: 0, changed: None }
    }

    /// Which of the flow's paths is in use.
    pub(super) const fn in_use(&self) -> usize {
        self.in_use
    }

    /// What the relay of the path in use calls the flow.
    pub(super) fn alias(&self) -> Option<Alias> {
        self.alias_of(self.in_use)
    }

    /// What the relay of a path calls the flow.
    pub(super) fn alias_of(&self, path: usize) -> Option<Alias> {
        match self.paths.get(path)? {
            Registration::Accepted(alias) => Some(*alias),
            Registration::Asking { .. } | Registration::Refused(_) => None,
        }
    }

    pub(super) fn get(&self, path: usize) -> Option<Registration> {
        self.paths.get(path).copied()
    }

    /// When a relay is to be asked (again).
    pub(super) fn deadline(&self) -> Option<Time> {
        let asking = self.paths.iter().filter_map(|path| match path {
            Registration::Asking { next, .. } => Some(*next),
            Registration::Accepted(_) | Registration::Refused(_) => None,
        });
        asking.min()
    }

    /// Notes that a relay was asked.
    fn asked(&mut self, path: usize, now: Time) {
        if let Some(Registration::Asking { tries, next }) = self.paths.get_mut(path) {
            let wait = REGISTER_RETRY * (1 << (*tries).min(8));
            *next = now + wait.min(REGISTER_RETRY_MAX);
            *tries += 1;
        }
    }

    /// Asks anew: the relay forgot.
    fn restart(&mut self, path: usize, now: Time) {
        self.paths[path] = Registration::Asking { tries: 0, next: now };
    }

    /// Whether the relay of a path may still answer.
    fn is_open(&self, path: usize) -> bool {
        matches!(self.paths.get(path), Some(Registration::Asking { tries, .. }) if *tries <= REGISTER_TRIES)
    }

    /// Takes the best path that works, unless the path changed lately or the one in use works as well.
    fn choose(&mut self, works: impl Fn(usize) -> bool, now: Time) -> bool {
        let Some(best) = (0..self.paths.len()).find(|path| works(*path)) else {
            return false;
        };
        let lately = self.changed.is_some_and(|changed| now.saturating_since(changed) < PATH_CHANGE_INTERVAL);
        if best == self.in_use || (lately && works(self.in_use)) {
            return false;
        }
        self.in_use = best;
        self.changed = Some(now);
        true
    }
}

impl Agent {
    /// Asks relays to register a flow, where that is due.
    pub(super) fn register(&mut self, flow: Flow, now: Time) {
        let paths = self.settings_of(flow).paths.len();
        for path in 0..paths {
            let due = matches!(
                self.registrations_of(flow).get(path),
                Some(Registration::Asking { next, .. }) if next <= now
            );
            if due {
                self.ask_to_register(flow, path, now);
            }
        }
        self.choose_path(flow, now);
        self.plan_registration(flow);
    }

    fn ask_to_register(&mut self, flow: Flow, path: usize, now: Time) {
        self.registrations_of_mut(flow).asked(path, now);
        let settings = self.settings_of(flow);
        let (key, role) = self.identity_of(flow);
        let relay = &settings.paths[path];
        let place = match role {
            FlowRole::Sender => relay.ingress,
            FlowRole::Receiver => relay.egress,
        };
        let Some(session) = self.relay_session(place) else {
            return;
        };
        let settings = self.settings_of(flow).clone();
        let register = register_message(key, role, &settings, path);
        let mut message = alloc::vec![0; 512];
        let mut writer = byway_wire::Writer::new(&mut message);
        let written = Message::Register(register).emit(&mut writer).map(|()| writer.written().len());
        if self.sessions.is_established(session, now) {
            // Whoever waits for an answer wants to know whether the other side is still there.
            self.sessions.use_session(session, now);
            self.sessions.say(session, &Message::Register(register), now);
        } else if let Ok(length) = written {
            self.sessions.connect(session, &message[..length], now);
        }
    }

    /// Takes a relay's answer.
    pub(super) fn registered(&mut self, session: SessionId, registered: &Registered, now: Time) {
        let Some(flow) = self.find_flow(registered.flow_key, registered.role) else {
            return;
        };
        for path in self.paths_through(flow, session) {
            let outcome = match registered.outcome {
                Ok(alias) if self.bind_alias(session, alias, flow) => Registration::Accepted(alias),
                refused => {
                    // A relay that numbers flows beyond all reason is as good as one that has no room.
                    let refusal = refused.err().unwrap_or(Refusal::NoRoom);
                    self.events.push_back(Event::FlowRefused { flow: registered.flow_key, refusal });
                    Registration::Refused(refusal)
                }
            };
            self.registrations_of_mut(flow).paths[path] = outcome;
        }
        self.choose_path(flow, now);
        self.plan_registration(flow);
    }

    /// A relay forgot everything: it, or this agent, restarted.
    pub(super) fn register_anew(&mut self, session: SessionId, now: Time) {
        for flow in self.all_flows() {
            for path in self.paths_through(flow, session) {
                self.registrations_of_mut(flow).restart(path, now);
            }
            self.register(flow, now);
        }
    }

    /// Has a flow's relays forget it, and take it anew.
    pub(super) fn withdraw(&mut self, flow: Flow, now: Time) {
        let (flow_key, role) = self.identity_of(flow);
        let relays: Vec<_> =
            self.settings_of(flow).paths.iter().map(|path| (path.ingress, path.egress)).collect();
        for (path, (ingress, egress)) in relays.into_iter().enumerate() {
            let place = if role == FlowRole::Sender { ingress } else { egress };
            if let Some(session) = self.relay_session(place) {
                self.sessions.say(session, &Message::Unregister(Unregister { flow_key, role }), now);
            }
            self.registrations_of_mut(flow).restart(path, now);
        }
        self.register(flow, now);
    }

    /// A relay went or came: flows take the best path that works.
    pub(super) fn choose_paths(&mut self, now: Time) {
        for flow in self.all_flows() {
            self.choose_path(flow, now);
        }
    }

    fn choose_path(&mut self, flow: Flow, now: Time) {
        let (_, role) = self.identity_of(flow);
        let registrations = self.registrations_of(flow);
        let works: Vec<bool> = (0..self.settings_of(flow).paths.len())
            .map(|path| {
                let relay = &self.settings_of(flow).paths[path];
                let place = if role == FlowRole::Sender { relay.ingress } else { relay.egress };
                let Some(session) = self.relay_session(place) else {
                    return false;
                };
                let accepted = registrations.alias_of(path).is_some() && self.relay_is_alive(session, now);
                // Which relay answers first says nothing about which is best.
                accepted || (registrations.is_open(path) && !self.relay_is_dead(session))
            })
            .collect();
        if self.registrations_of_mut(flow).choose(|path| works[path], now) {
            let (key, _) = self.identity_of(flow);
            let path = self.registrations_of(flow).in_use();
            self.events.push_back(Event::PathChanged { flow: key, path });
        }
    }

    /// The paths of a flow that begin (for a sender) or end (for a receiver) at this session's relay.
    fn paths_through(&self, flow: Flow, session: SessionId) -> Vec<usize> {
        let (_, role) = self.identity_of(flow);
        let paths = self.settings_of(flow).paths.iter().enumerate();
        paths
            .filter(|(_, path)| {
                let place = if role == FlowRole::Sender { path.ingress } else { path.egress };
                self.relay_session(place) == Some(session)
            })
            .map(|(place, _)| place)
            .collect()
    }
}

fn register_message(key: FlowKey, role: FlowRole, settings: &FlowSettings, path: usize) -> Register<'_> {
    let selective = matches!(settings.duplication, Duplication::Marked | Duplication::Chosen(_));
    Register {
        flow_key: key,
        role,
        service: settings.service,
        in_stream: settings.rates.in_stream,
        batch: settings.rates.batch,
        options: FlowOptions {
            relay_side_duplication: matches!(settings.duplication, Duplication::ByRelay),
            sender_makes_repairs: false,
            coded_with_other_tenants: settings.shares,
            selective: selective || settings.standby,
        },
        rate: KilobitsPerSecond::from_rate(settings.rate),
        budget: Microseconds::from_duration(settings.latency_budget),
        consent: settings.consent,
        grant: &settings.paths[path].grant,
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    /// What works now, by path.
    fn choose(registrations: &mut Registrations, works: [bool; 2], now: Time) -> bool {
        registrations.choose(|path| works[path], now)
    }

    #[test]
    fn a_path_that_fails_is_left_at_once_and_a_better_one_taken_after_a_while() {
        let mut registrations = Registrations::new(2);
        assert!(choose(&mut registrations, [false, true], at(0)) && registrations.in_use() == 1);
        assert!(!choose(&mut registrations, [true, true], at(4_999)), "no flapping");
        assert!(choose(&mut registrations, [true, true], at(5_000)) && registrations.in_use() == 0);
        assert!(choose(&mut registrations, [false, true], at(5_001)) && registrations.in_use() == 1);
    }

    #[test]
    fn where_no_path_works_the_one_in_use_stays_so() {
        let mut registrations = Registrations::new(2);
        assert!(!choose(&mut registrations, [false, false], at(0)) && registrations.in_use() == 0);
        assert!(!choose(&mut Registrations::new(0), [true, true], at(0)));
    }

    #[test]
    fn a_relay_is_asked_ever_more_rarely_until_it_is_asked_anew() {
        let mut registrations = Registrations::new(1);
        let mut waits = [0; 8];
        for wait in &mut waits {
            registrations.asked(0, at(0));
            *wait = registrations.deadline().map_or(0, |next| next.saturating_since(at(0)).as_millis());
        }
        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
        registrations.restart(0, at(7));
        assert_eq!(registrations.deadline(), Some(at(7)));
    }
}
