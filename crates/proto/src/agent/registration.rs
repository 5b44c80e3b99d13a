//! Flows and their relays: asking to be registered, and which path is in use.

use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::messages::{FlowOptions, FlowRole, Refusal, Register, Registered, Unregister};
use byway_wire::{Alias, FlowKey, GrantedRelay, KilobitsPerSecond, Message, Microseconds};

use super::events::Event;
use super::looking::PathState;
use super::settings::{Duplication, FlowSettings};
use super::{Agent, Flow};
use crate::limits::{
    FIRST_REPORT_MARGIN, PATH_CHANGE_INTERVAL, PATH_STEADY_FOR, REGISTER_RETRY, REGISTER_RETRY_MAX,
    REGISTER_STEADY_TRIES, REGISTER_TRIES, UNREACHABLE_RETRY_MAX,
};
use crate::session::SessionId;

/// What one relay says of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// Asked so many times, next at this time.
    Asking { tries: u32, next: Time },
    /// The relay knows the flow by this alias. Asked again so many times, next at this time, if there is more to say than
    /// it has heard; else never.
    Accepted { alias: Alias, tries: u32, next: Time },
    /// The relay knows the flow, but its packets get no further. Asked again in case it cannot say when they do.
    Unreachable { alias: Option<Alias>, tries: u32, next: Time },
    /// The relay will not have it.
    Refused(Refusal),
}

/// One path of a flow.
#[derive(Clone, Copy, Debug)]
struct Path {
    registration: Registration,
    /// Why the relay did not have the flow when it was asked last, if it is asked again.
    refusal: Option<Refusal>,
    /// Since when it has worked without a break, as far as this side knows.
    works_since: Option<Time>,
}

impl Path {
    const NEW: Self = Self {
        registration: Registration::Asking { tries: 0, next: Time::START },
        refusal: None,
        works_since: None,
    };
}

/// Returns the time until a relay is asked again that was asked `tries` times before.
///
/// It doubles up to a second, stays there, and doubles on: on a line that loses 30 % each way, half
/// of all questions stay unanswered.
fn retry_after(tries: u32) -> Duration {
    let doublings =
        if tries < REGISTER_STEADY_TRIES { tries.min(2) } else { tries - REGISTER_STEADY_TRIES + 3 };
    REGISTER_RETRY * (1 << doublings.min(8))
}

/// A flow's registrations, one for each of its paths, and which path is in use.
#[derive(Clone, Debug)]
pub(super) struct Registrations {
    paths: Vec<Path>,
    /// The count of changes to what relays are asked for, modulo 256.
    revision: u8,
    in_use: u32,
    /// Whether a relay has taken part in the flow: the first path that works is no change.
    was_accepted: bool,
    /// Before, a path that works is not left for a better one.
    settled_at: Time,
    /// When another path may be better.
    choose_again: Option<Time>,
}

impl Registrations {
    pub(super) fn new(paths: usize) -> Self {
        Self {
            paths: alloc::vec![Path::NEW; paths],
            revision: 0,
            in_use: 0,
            was_accepted: false,
            settled_at: Time::START,
            choose_again: None,
        }
    }

    /// How many paths there are.
    pub(super) const fn count(&self) -> usize {
        self.paths.len()
    }

    /// How a path stands, for whoever looks at it.
    pub(super) fn state(&self, path: usize) -> Option<PathState> {
        let path = self.paths.get(path)?;
        Some(match path.registration {
            Registration::Asking { .. } => path.refusal.map_or(PathState::Asking, PathState::Refused),
            Registration::Accepted { .. } => PathState::Accepted,
            Registration::Unreachable { .. } => PathState::Unreachable,
            Registration::Refused(refusal) => PathState::Refused(refusal),
        })
    }

    /// Which of the flow's paths is in use.
    pub(super) const fn in_use(&self) -> usize {
        self.in_use as usize
    }

    fn set_in_use(&mut self, path: usize) {
        self.in_use = u32::try_from(path).expect("a flow has few paths");
    }

    /// What the relay of the path in use calls the flow.
    pub(super) fn alias(&self) -> Option<Alias> {
        self.alias_of(self.in_use())
    }

    /// What the relay of a path calls the flow.
    pub(super) fn alias_of(&self, path: usize) -> Option<Alias> {
        match self.paths.get(path)?.registration {
            Registration::Accepted { alias, .. } => Some(alias),
            Registration::Unreachable { alias, .. } => alias,
            Registration::Asking { .. } | Registration::Refused(_) => None,
        }
    }

    /// Whether the relay of a path knows the flow, and passes its packets on.
    pub(super) fn is_accepted(&self, path: usize) -> bool {
        self.paths.get(path).is_some_and(|path| matches!(path.registration, Registration::Accepted { .. }))
    }

    /// Whether the relay of a path may know the flow.
    pub(super) fn is_told(&self, path: usize) -> bool {
        match self.paths.get(path).map(|path| path.registration) {
            Some(Registration::Accepted { .. } | Registration::Unreachable { .. }) => true,
            Some(Registration::Asking { tries, .. }) => tries > 0,
            Some(Registration::Refused(_)) | None => false,
        }
    }

    /// Notes that packets of the flow get no further than the relay of a path; whether that is news.
    fn set_unreachable(&mut self, path: usize, now: Time) -> bool {
        let is_news = !matches!(self.paths[path].registration, Registration::Unreachable { .. });
        if is_news {
            let alias = self.alias_of(path);
            self.paths[path].registration = Registration::Unreachable { alias, tries: 0, next: now };
        }
        is_news
    }

    /// When a relay is to be asked (again), or a path to be chosen.
    pub(super) fn deadline(&self) -> Option<Time> {
        (0..self.paths.len()).filter_map(|path| self.next_try(path)).chain(self.choose_again).min()
    }

    /// When the relay of a path is to be asked (again).
    pub(super) fn next_try(&self, path: usize) -> Option<Time> {
        match self.paths.get(path)?.registration {
            Registration::Asking { next, .. } | Registration::Unreachable { next, .. } => Some(next),
            Registration::Accepted { next, .. } => Some(next).filter(|next| *next < Time::MAX),
            Registration::Refused(_) => None,
        }
    }

    /// Notes that a relay will not have the flow. There may be room later, and the relay may know another one later that it
    /// does not know yet; a grant does not become valid by itself.
    fn refused(&mut self, path: usize, refusal: Refusal, now: Time) {
        self.paths[path].refusal = Some(refusal);
        self.paths[path].registration = match refusal {
            Refusal::NoRoom | Refusal::OtherRelay | Refusal::QuotaReached => {
                Registration::Asking { tries: REGISTER_TRIES, next: now + REGISTER_RETRY_MAX }
            }
            refusal => Registration::Refused(refusal),
        };
    }

    /// Notes that a relay was asked.
    fn asked(&mut self, path: usize, now: Time) {
        let (tries, next, wait_max) = match &mut self.paths[path].registration {
            Registration::Asking { tries, next } | Registration::Accepted { tries, next, .. } => {
                (tries, next, REGISTER_RETRY_MAX)
            }
            Registration::Unreachable { tries, next, .. } => (tries, next, UNREACHABLE_RETRY_MAX),
            Registration::Refused(_) => return,
        };
        *next = now + retry_after(*tries).min(wait_max);
        *tries += 1;
    }

    /// Asks anew: the relay forgot.
    pub(super) fn restart(&mut self, path: usize, now: Time) {
        self.paths[path].registration = Registration::Asking { tries: 0, next: now };
        self.paths[path].refusal = None;
    }

    #[cfg(test)]
    pub(super) const fn revision(&self) -> u8 {
        self.revision
    }

    /// Takes an answer's revision (relays of the version before say none); true if it is about what was asked for last. A later
    /// one is of a former flow with this key, which the relay remembers: then it is asked again, under a later revision.
    fn take_answer(&mut self, revision: Option<u8>, now: Time) -> bool {
        let ahead = revision.map_or(0, |revision| revision.wrapping_sub(self.revision));
        if (1..128).contains(&ahead) {
            self.revision = self.revision.wrapping_add(ahead);
            self.revise();
            for path in 0..self.count() {
                self.ask_again(path, now);
            }
        }
        ahead == 0
    }

    /// Notes that relays are asked for something else from now on; answers to what was asked before do not count.
    pub(super) const fn revise(&mut self) {
        self.revision = self.revision.wrapping_add(1);
    }

    /// Asks again, as there is more to say than the relay has heard; what it has accepted is in force meanwhile.
    pub(super) fn ask_again(&mut self, path: usize, now: Time) {
        match &mut self.paths[path].registration {
            Registration::Accepted { tries, next, .. } | Registration::Unreachable { tries, next, .. } => {
                (*tries, *next) = (0, now);
            }
            Registration::Asking { .. } | Registration::Refused(_) => self.restart(path, now),
        }
    }

    /// Takes other paths: for each its place before, if it is none of the new ones. Whether the relays of those before
    /// may know the flow.
    pub(super) fn rearrange(&mut self, kept: &[Option<usize>]) -> Vec<bool> {
        let told = (0..self.paths.len()).map(|path| self.is_told(path)).collect();
        let paths = kept.iter().map(|known| known.map_or(Path::NEW, |known| self.paths[known])).collect();
        let in_use = Some(self.in_use());
        self.set_in_use(kept.iter().position(|known| *known == in_use).unwrap_or(0));
        self.paths = paths;
        told
    }

    /// Notes what the relay of a path calls the flow.
    fn accepted(&mut self, path: usize, alias: Alias) {
        self.paths[path].registration = Registration::Accepted { alias, tries: 0, next: Time::MAX };
        self.paths[path].refusal = None;
        self.was_accepted = true;
    }

    /// Whether the relay of a path may still answer.
    fn is_open(&self, path: usize) -> bool {
        let registration = self.paths.get(path).map(|path| path.registration);
        matches!(registration, Some(Registration::Asking { tries, .. }) if tries < REGISTER_TRIES)
    }

    /// Returns the time from which the path in use is known to be steady; `None` if it does not work,
    /// or its relay has not accepted the flow.
    fn steady_at(&self) -> Option<Time> {
        let path = self.paths.get(self.in_use()).filter(|_| self.is_accepted(self.in_use()))?;
        path.works_since.map(|since| since + PATH_STEADY_FOR)
    }

    /// Takes the best path that works. One in use that works is left for a better one only if that has worked for a
    /// while, and the path has not changed lately.
    fn choose(&mut self, works: impl Fn(usize) -> bool, now: Time) -> bool {
        for (place, path) in self.paths.iter_mut().enumerate() {
            path.works_since = works(place).then(|| path.works_since.unwrap_or(now));
        }
        self.choose_again = None;
        let chosen = if self.paths.get(self.in_use()).is_some_and(|path| path.works_since.is_some()) {
            let settled = self.settled_at;
            let steady = |path: &Path| path.works_since.map(|since| (since + PATH_STEADY_FOR).max(settled));
            let better = &self.paths[..self.in_use()];
            self.choose_again = better.iter().filter_map(steady).filter(|at| *at > now).min();
            better.iter().position(|path| steady(path).is_some_and(|at| at <= now))
        } else {
            self.paths.iter().position(|path| path.works_since.is_some())
        };
        let Some(chosen) = chosen else {
            return false;
        };
        self.set_in_use(chosen);
        self.settled_at = now + PATH_CHANGE_INTERVAL;
        true
    }
}

impl Agent {
    /// Asks relays to register a flow, where that is due.
    pub(super) fn register(&mut self, flow: Flow, now: Time) {
        let paths = self.settings_of(flow).paths.len();
        for path in 0..paths {
            if self.registrations_of(flow).next_try(path).is_some_and(|next| next <= now) {
                self.ask_to_register(flow, path, now);
            }
        }
        self.choose_path(flow, now);
    }

    fn ask_to_register(&mut self, flow: Flow, path: usize, now: Time) {
        self.registrations_of_mut(flow).asked(path, now);
        let (key, role) = self.identity_of(flow);
        let Some(session) = self.session_of_path(flow, path) else {
            return;
        };
        self.note_detour(flow, session);
        let settings = match flow {
            Flow::Sent(id) => self.senders[id.0 as usize].settings_in_force(),
            Flow::Received(_) | Flow::Visits => self.settings_of(flow).clone(),
        };
        let revision = self.registrations_of(flow).revision;
        let register = register_message((key, role, revision), &settings, path);
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
            self.registered_too_late(session, registered, now);
            return;
        };
        if !self.registrations_of_mut(flow).take_answer(registered.revision, now) {
            self.register(flow, now);
            return;
        }
        let mut is_open = false;
        for path in self.paths_registered(flow, session, registered) {
            // A relay that numbers flows beyond all reason is as good as one that has no room.
            let outcome = registered.outcome.and_then(|alias| {
                if self.bind_alias(session, alias, flow) { Ok(alias) } else { Err(Refusal::NoRoom) }
            });
            let registrations = self.registrations_of_mut(flow);
            let refusal = match outcome {
                Ok(alias) => {
                    is_open |= !registrations.is_accepted(path);
                    registrations.accepted(path, alias);
                    None
                }
                Err(Refusal::Unreachable) => {
                    registrations.set_unreachable(path, now).then_some(Refusal::Unreachable)
                }
                Err(refusal) => {
                    registrations.refused(path, refusal, now);
                    Some(refusal)
                }
            };
            self.events
                .extend(refusal.map(|refusal| Event::FlowRefused { flow: registered.flow_key, refusal }));
        }
        if is_open {
            self.send_handshake_through(flow, session, now);
        }
        // Asks at once where packets get no further: that tells the relay that its message arrived.
        self.register(flow, now);
    }

    /// A flow was registered that is closed by now.
    fn registered_too_late(&mut self, session: SessionId, registered: &Registered, now: Time) {
        let Registered { flow_key, role, .. } = *registered;
        let unregister = Unregister { flow_key, role, far_relay: None };
        if registered.outcome.is_ok() && !self.closings.is_told(session, unregister) {
            self.closings.tell(session, unregister, now);
            self.tell_closings(self.messages_end(), now);
        }
    }

    /// A relay forgot a flow that it had accepted: towards one relay, or altogether.
    pub(super) fn register_again(
        &mut self,
        flow: Flow,
        session: SessionId,
        far: Option<GrantedRelay>,
        now: Time,
    ) {
        let paths = match far {
            Some(far) => self.paths_ended(flow, session, far),
            None => self.paths_through(flow, session),
        };
        for path in paths {
            if self.registrations_of(flow).alias_of(path).is_some() {
                self.registrations_of_mut(flow).restart(path, now);
            }
        }
        self.register(flow, now);
    }

    /// A relay forgot everything: it, or this agent, restarted.
    pub(super) fn register_anew(&mut self, session: SessionId, now: Time) {
        for flow in self.all_flows() {
            self.work.entries += 1;
            for path in self.paths_through(flow, session) {
                self.registrations_of_mut(flow).restart(path, now);
            }
            self.register(flow, now);
        }
    }

    /// Has a flow's relays forget it, and take it anew.
    pub(super) fn withdraw(&mut self, flow: Flow, now: Time) {
        let (flow_key, role) = self.identity_of(flow);
        for path in 0..self.settings_of(flow).paths.len() {
            if let Some(session) = self.session_of_path(flow, path) {
                let unregister = Unregister { flow_key, role, far_relay: None };
                self.sessions.say(session, &Message::Unregister(unregister), now);
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

    pub(super) fn choose_path(&mut self, flow: Flow, now: Time) {
        if flow == Flow::Visits {
            self.plan_registration(flow);
            return;
        }
        let paths = self.settings_of(flow).paths.len();
        self.work.entries += 1 + paths as u64;
        let lives: Vec<bool> = (0..paths).map(|path| self.path_lives(flow, path, now)).collect();
        if let Flow::Sent(id) = flow {
            self.senders[id.0 as usize].explain_failure(&lives, now);
        }
        let shut: Vec<Option<Time>> = (0..paths).map(|path| self.path_shut_until(flow, path, now)).collect();
        let registrations = self.registrations_of_mut(flow);
        let is_changed = registrations.choose(|path| lives[path] && shut[path].is_none(), now);
        let opens = shut.into_iter().flatten();
        registrations.choose_again = registrations.choose_again.into_iter().chain(opens).min();
        let lives = lives.get(registrations.in_use()) == Some(&true);
        self.fall_back(flow, lives, now);
        if is_changed {
            if let Flow::Sent(id) = flow {
                self.senders[id.0 as usize].settle_delivery(now);
            }
            let (key, _) = self.identity_of(flow);
            let registrations = self.registrations_of(flow);
            if registrations.was_accepted {
                self.events.push_back(Event::PathChanged { flow: key, path: registrations.in_use() });
            }
            if let Some((peer, detour)) = self.detour_of(flow)
                && let Some(session) = self.sessions.get_mut(peer)
            {
                session.detour = Some(detour);
            }
        }
        self.plan_registration(flow);
    }

    /// Has a flow take the direct path if the path in use delivers nothing, or come back from there.
    fn fall_back(&mut self, flow: Flow, lives: bool, now: Time) {
        let Flow::Sent(id) = flow else {
            return;
        };
        let Some(sender) = self.senders.get_mut(id.0) else {
            return;
        };
        let peer = self.sessions.get(sender.peer);
        let is_closed = peer.is_none_or(|peer| peer.dead || peer.path.address().is_none());
        let steady_at = sender.registrations.steady_at();
        let is_steady = steady_at.is_some_and(|at| at <= now);
        let fails_until = sender.undelivered_until(now);
        let delivers = fails_until.is_none();
        let was_back = sender.falls_back();
        // A path that loses many packets is left for another one only: the direct path may be dark.
        sender.set_fallback(lives && delivers || is_closed, is_steady && delivers || is_closed);
        if was_back && sender.needs_relay() {
            let round_trip = self.sessions.round_trip(sender.peer);
            sender.rely_on_relays(now + round_trip * 2 + FIRST_REPORT_MARGIN);
        }
        let again = steady_at.max(fails_until).filter(|at| sender.falls_back() && *at > now);
        let registrations = &mut sender.registrations;
        registrations.choose_again = registrations.choose_again.into_iter().chain(again).min();
    }

    /// Returns whether a path delivers packets, or may do so once its relay answers.
    fn path_lives(&self, flow: Flow, path: usize, now: Time) -> bool {
        let Some(session) = self.session_of_path(flow, path) else {
            return false;
        };
        let registrations = self.registrations_of(flow);
        let is_accepted = registrations.is_accepted(path) && self.relay_is_alive(session, now);
        // Which relay answers first says nothing about which is best.
        let is_open = registrations.is_open(path) && !self.relay_is_dead(session);
        is_accepted || is_open
    }

    /// The session with the relay at which a path begins (for a sender) or ends (for a receiver).
    pub(super) fn session_of_path(&self, flow: Flow, path: usize) -> Option<SessionId> {
        let path = self.settings_of(flow).paths.get(path)?;
        let (_, role) = self.identity_of(flow);
        self.relay_session(path.end_of(role))
    }
}

fn register_message(
    (flow_key, role, revision): (FlowKey, FlowRole, u8),
    settings: &FlowSettings,
    path: usize,
) -> Register<'_> {
    let selective = settings.duplication.is_selective(settings.traffic);
    Register {
        flow_key,
        role,
        service: settings.service,
        in_stream: settings.rates.in_stream,
        batch: settings.rates.batch,
        options: FlowOptions {
            relay_side_duplication: matches!(settings.duplication, Duplication::ByRelay),
            sender_makes_repairs: matches!(settings.duplication, Duplication::OwnRepairs),
            coded_with_other_tenants: settings.shares,
            selective: selective || settings.waits_for_losses(),
        },
        rate: KilobitsPerSecond::from_rate(settings.rate),
        budget: Microseconds::from_duration(settings.latency_budget),
        consent: settings.consent,
        far_relay: settings.paths[path].far_relay(role),
        grant: &settings.paths[path].grant,
        revision: Some(revision),
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
        assert!(!choose(&mut registrations, [true, true], at(1_000)));
        assert_eq!(registrations.choose_again, Some(at(5_000)));
        assert!(!choose(&mut registrations, [true, true], at(4_999)), "not so soon after the last change");
        assert!(choose(&mut registrations, [true, true], at(5_000)) && registrations.in_use() == 0);
        assert!(choose(&mut registrations, [false, true], at(5_001)) && registrations.in_use() == 1);
    }

    #[test]
    fn a_better_path_that_fails_now_and_then_is_not_taken() {
        let mut registrations = Registrations::new(2);
        assert!(choose(&mut registrations, [false, true], at(0)));
        for second in 1..30 {
            assert!(!choose(&mut registrations, [second % 2 == 0, true], at(second * 1_000)));
        }
        assert!(!choose(&mut registrations, [true, true], at(30_000)));
        assert_eq!(registrations.choose_again, Some(at(32_000)));
        assert!(choose(&mut registrations, [true, true], at(32_000)) && registrations.in_use() == 0);
        assert_eq!(registrations.choose_again, None);
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
        let mut waits = [0; 12];
        for wait in &mut waits {
            registrations.asked(0, at(0));
            *wait = registrations.deadline().map_or(0, |next| next.saturating_since(at(0)).as_millis());
        }
        assert_eq!(waits, [250, 500, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 2_000, 4_000, 8_000, 8_000]);
        registrations.restart(0, at(7));
        assert_eq!(registrations.deadline(), Some(at(7)));
    }
}
