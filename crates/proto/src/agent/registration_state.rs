//! State of a flow's registrations with relays, and choice of the relay path in use.

use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::messages::{GroupActivity, Refusal, RegisterReply};
use byway_wire::{Alias, Microseconds};

use super::status::PathState;
use crate::limits::{
    PATH_CHANGE_INTERVAL, PATH_STEADY_FOR, REGISTER_RETRY, REGISTER_RETRY_MAX, REGISTER_STEADY_TRIES,
    REGISTER_TRIES, UNREACHABLE_RETRY_MAX,
};

/// State of a flow's registration with the relay of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// The agent has sent `tries` requests without an answer; the next one is due at `next`.
    Requested { tries: u32, next: Time },
    /// The relay has accepted the flow under this alias. The agent sends requests again if the
    /// flow's terms have changed since, or to learn the delay to the far relay. It has sent `tries`
    /// of them, and the next one is due at `next`. Otherwise `next` is [`Time::MAX`].
    Accepted { alias: Alias, tries: u32, next: Time },
    /// The relay knows the flow, but cannot forward its packets. The agent repeats its request,
    /// because the relay may be unable to report a change.
    Unreachable { alias: Option<Alias>, tries: u32, next: Time },
    /// The relay refuses the flow, and the agent does not repeat its request.
    Refused(Refusal),
}

/// Registration of one relay path of a flow.
#[derive(Clone, Copy, Debug)]
struct PathRegistration {
    registration: Registration,
    /// Reason of the relay's latest refusal, while the agent repeats its request.
    refusal: Option<Refusal>,
    /// Time since which the path has worked without interruption, as far as this agent knows;
    /// `None` while it does not work.
    works_since: Option<Time>,
    /// Round-trip time between the relay and the one at the path's other end; 0 if it was not
    /// reported.
    far_round_trip: Microseconds,
    /// Activity of the flow's coding group at the relay, by its latest answer.
    group_activity: Option<GroupActivity>,
}

impl PathRegistration {
    const NEW: Self = Self {
        registration: Registration::Requested { tries: 0, next: Time::START },
        refusal: None,
        works_since: None,
        far_round_trip: Microseconds::new(0),
        group_activity: None,
    };
}

/// Returns the time until the next registration request, after `tries` earlier ones.
///
/// It doubles up to a second, stays there, and then doubles further. On a path that loses 30 % in
/// each direction, half of all requests stay unanswered.
fn retry_after(tries: u32) -> Duration {
    let doublings =
        if tries < REGISTER_STEADY_TRIES { tries.min(2) } else { tries - REGISTER_STEADY_TRIES + 3 };
    REGISTER_RETRY * (1 << doublings.min(8))
}

/// Returns the index of a path as it is stored.
fn number_of(path: usize) -> u16 {
    u16::try_from(path).expect("a flow has few paths")
}

/// Registrations of a flow at the relays of its paths, and the path in use.
#[derive(Clone, Debug)]
pub(super) struct Registrations {
    paths: Vec<PathRegistration>,
    /// Number of changes to the requested terms, modulo 256; relays repeat it in their answers.
    revision: u8,
    in_use: u16,
    /// Path that is better than all others, because it is the flow's route; `None` if the first
    /// ones are the best.
    preferred: Option<u16>,
    /// True if any relay has accepted the flow. Before that, a choice of path is not reported as a
    /// change.
    pub(super) was_accepted: bool,
    /// Time before which the flow does not leave a path that works for a better one.
    settled_at: Time,
    /// Time at which the agent has to choose the path again.
    pub(super) review_at: Option<Time>,
}

impl Registrations {
    pub(super) fn new(paths: usize) -> Self {
        Self {
            paths: alloc::vec![PathRegistration::NEW; paths],
            revision: 0,
            in_use: 0,
            preferred: None,
            was_accepted: false,
            settled_at: Time::START,
            review_at: None,
        }
    }

    /// Returns the number of the flow's relay paths.
    pub(super) const fn count(&self) -> usize {
        self.paths.len()
    }

    /// Returns the state of a path for status reports; `None` if there is no such path.
    pub(super) fn state(&self, path: usize) -> Option<PathState> {
        let path = self.paths.get(path)?;
        Some(match path.registration {
            Registration::Requested { .. } => path.refusal.map_or(PathState::Registering, PathState::Refused),
            Registration::Accepted { .. } => PathState::Accepted,
            Registration::Unreachable { .. } => PathState::Unreachable,
            Registration::Refused(refusal) => PathState::Refused(refusal),
        })
    }

    /// Returns the index of the relay path in use.
    pub(super) const fn in_use(&self) -> usize {
        self.in_use as usize
    }

    fn set_in_use(&mut self, path: usize) {
        self.in_use = number_of(path);
    }

    /// Returns the flow's alias at the relay of the path in use; `None` if that relay has not
    /// accepted it.
    pub(super) fn alias(&self) -> Option<Alias> {
        self.alias_of(self.in_use())
    }

    /// Returns the flow's alias at the relay of a path; `None` if that relay has not accepted it.
    pub(super) fn alias_of(&self, path: usize) -> Option<Alias> {
        match self.paths.get(path)?.registration {
            Registration::Accepted { alias, .. } => Some(alias),
            Registration::Unreachable { alias, .. } => alias,
            Registration::Requested { .. } | Registration::Refused(_) => None,
        }
    }

    /// Returns true if the relay of a path has accepted the flow, and can forward its packets.
    pub(super) fn is_accepted(&self, path: usize) -> bool {
        self.paths.get(path).is_some_and(|path| matches!(path.registration, Registration::Accepted { .. }))
    }

    /// Returns the delay between the relays of the path in use, as the near one has reported it.
    pub(super) fn far_delay(&self) -> Option<Duration> {
        self.far_delay_of(self.in_use())
    }

    /// Returns the delay between the relays of a path, as the near one has reported it.
    pub(super) fn far_delay_of(&self, path: usize) -> Option<Duration> {
        let round_trip = self.paths.get(path)?.far_round_trip;
        (round_trip.count() > 0).then(|| round_trip.duration() / 2)
    }

    /// Returns the activity of the flow's coding group at the relay of the path in use, by its
    /// latest answer.
    pub(super) fn group_activity(&self) -> Option<GroupActivity> {
        self.paths.get(self.in_use())?.group_activity
    }

    /// Returns true if the relay of a path may know the flow: it has answered, or a request was
    /// sent.
    pub(super) fn may_be_registered(&self, path: usize) -> bool {
        match self.paths.get(path).map(|path| path.registration) {
            Some(Registration::Accepted { .. } | Registration::Unreachable { .. }) => true,
            Some(Registration::Requested { tries, .. }) => tries > 0,
            Some(Registration::Refused(_)) | None => false,
        }
    }

    /// Records that the relay of a path cannot forward the flow's packets; returns false if it was
    /// recorded already.
    pub(super) fn set_unreachable(&mut self, path: usize, now: Time) -> bool {
        let is_news = !matches!(self.paths[path].registration, Registration::Unreachable { .. });
        if is_news {
            let alias = self.alias_of(path);
            self.paths[path].registration = Registration::Unreachable { alias, tries: 0, next: now };
        }
        is_news
    }

    /// Returns the time of the next registration request, or of the next choice of a path.
    pub(super) fn deadline(&self) -> Option<Time> {
        (0..self.paths.len()).filter_map(|path| self.next_try(path)).chain(self.review_at).min()
    }

    /// Returns the time of the next registration request to the relay of a path; `None` if none is
    /// needed.
    pub(super) fn next_try(&self, path: usize) -> Option<Time> {
        match self.paths.get(path)?.registration {
            Registration::Requested { next, .. } | Registration::Unreachable { next, .. } => Some(next),
            Registration::Accepted { next, .. } => Some(next).filter(|next| *next < Time::MAX),
            Registration::Refused(_) => None,
        }
    }

    /// Records a relay's refusal. If the relay lacks capacity or does not know the other relay, it
    /// may accept later, and the agent repeats its request. After other refusals, it does not.
    pub(super) fn on_refused(&mut self, path: usize, refusal: Refusal, now: Time) {
        self.paths[path].refusal = Some(refusal);
        self.paths[path].registration = match refusal {
            Refusal::Full | Refusal::OtherRelay | Refusal::QuotaReached => {
                Registration::Requested { tries: REGISTER_TRIES, next: now + REGISTER_RETRY_MAX }
            }
            refusal => Registration::Refused(refusal),
        };
    }

    /// Records a registration request to the relay of a path, and schedules the next one.
    pub(super) fn on_requested(&mut self, path: usize, now: Time) {
        let (tries, next, wait_max) = match &mut self.paths[path].registration {
            Registration::Requested { tries, next } | Registration::Accepted { tries, next, .. } => {
                (tries, next, REGISTER_RETRY_MAX)
            }
            Registration::Unreachable { tries, next, .. } => (tries, next, UNREACHABLE_RETRY_MAX),
            Registration::Refused(_) => return,
        };
        *next = now + retry_after(*tries).min(wait_max);
        *tries += 1;
    }

    /// Starts a new registration of a path, because its relay may have forgotten the flow.
    pub(super) fn restart(&mut self, path: usize, now: Time) {
        self.paths[path].registration = Registration::Requested { tries: 0, next: now };
        self.paths[path].refusal = None;
    }

    /// Returns the number of changes to the requested terms, modulo 256.
    pub(super) const fn revision(&self) -> u8 {
        self.revision
    }

    /// Compares the revision in a relay's answer; returns true if the answer is about the latest
    /// request. Relays of the previous version send no revision. A later revision belongs to a
    /// former flow with this key, which the relay remembers. The agent then repeats its request
    /// under a revision beyond that.
    pub(super) fn accept_revision(&mut self, revision: Option<u8>, now: Time) -> bool {
        let ahead = revision.map_or(0, |revision| revision.wrapping_sub(self.revision));
        if (1..128).contains(&ahead) {
            self.revision = self.revision.wrapping_add(ahead);
            self.revise();
            for path in 0..self.count() {
                self.request_again(path, now);
            }
        }
        ahead == 0
    }

    /// Starts a new revision of the requested terms, so answers to earlier requests do not count
    /// any more.
    pub(super) const fn revise(&mut self) {
        self.revision = self.revision.wrapping_add(1);
    }

    /// Makes a new registration request of a path due, because its relay does not know the latest
    /// terms. The accepted terms stay in force meanwhile.
    pub(super) fn request_again(&mut self, path: usize, now: Time) {
        match &mut self.paths[path].registration {
            Registration::Accepted { tries, next, .. } | Registration::Unreachable { tries, next, .. } => {
                (*tries, *next) = (0, now);
            }
            Registration::Requested { .. } | Registration::Refused(_) => self.restart(path, now),
        }
    }

    /// Replaces the paths. `former` has the former index of each new path, or `None` if the flow
    /// did not have it. Returns for each former path whether its relay may know the flow.
    pub(super) fn rearrange(&mut self, former: &[Option<usize>]) -> Vec<bool> {
        let may_be_registered = (0..self.paths.len()).map(|path| self.may_be_registered(path)).collect();
        let paths = former
            .iter()
            .map(|known| known.map_or(PathRegistration::NEW, |known| self.paths[known]))
            .collect();
        let in_use = Some(self.in_use());
        self.set_in_use(former.iter().position(|known| *known == in_use).unwrap_or(0));
        let preferred = self.preferred.map(usize::from);
        let index = preferred.and_then(|_| former.iter().position(|known| *known == preferred));
        self.preferred = index.map(number_of);
        self.paths = paths;
        may_be_registered
    }

    /// Records that the relay of a path accepted the flow under this alias.
    pub(super) fn on_accepted(&mut self, path: usize, alias: Alias) {
        self.paths[path].registration = Registration::Accepted { alias, tries: 0, next: Time::MAX };
        self.paths[path].refusal = None;
        self.was_accepted = true;
    }

    /// Records what the relay of a path reports of the path and of the flow's coding group.
    pub(super) fn set_reported(&mut self, path: usize, reply: &RegisterReply) {
        let known = &mut self.paths[path];
        known.far_round_trip = reply.far_round_trip.unwrap_or(known.far_round_trip);
        known.group_activity = reply.group_activity.or(known.group_activity);
    }

    /// Returns true if the relay of a path may still answer the first [`REGISTER_TRIES`] requests.
    pub(super) fn may_answer(&self, path: usize) -> bool {
        let registration = self.paths.get(path).map(|path| path.registration);
        matches!(registration, Some(Registration::Requested { tries, .. }) if tries < REGISTER_TRIES)
    }

    /// Returns the time from which the path in use counts as steady; `None` if it does not work, or
    /// its relay has not accepted the flow.
    pub(super) fn steady_at(&self) -> Option<Time> {
        let path = self.paths.get(self.in_use()).filter(|_| self.is_accepted(self.in_use()))?;
        path.works_since.map(|since| since + PATH_STEADY_FOR)
    }

    /// Makes a path better than all others; `None` for the order of the settings. If the flow
    /// leaves its path for it, a recent change does not delay that.
    pub(super) fn prefer(&mut self, path: Option<usize>) {
        let path = path.map(number_of);
        if path.is_some() && self.preferred != path {
            self.settled_at = Time::START;
        }
        self.preferred = path;
    }

    /// Returns the paths from the best one to the worst.
    fn by_preference(&self) -> impl Iterator<Item = usize> + use<> {
        let (preferred, count) = (self.preferred.map(usize::from), self.paths.len());
        let preferred = preferred.filter(|path| *path < count);
        preferred.into_iter().chain((0..count).filter(move |path| Some(*path) != preferred))
    }

    /// Chooses the best path that works, and returns true if the path changes. A path in use that
    /// works is left only if a better one has worked for a while, and the path has not changed
    /// recently.
    pub(super) fn choose_path(&mut self, works: impl Fn(usize) -> bool, now: Time) -> bool {
        for (index, path) in self.paths.iter_mut().enumerate() {
            path.works_since = works(index).then(|| path.works_since.unwrap_or(now));
        }
        self.review_at = None;
        let chosen = if self.paths.get(self.in_use()).is_some_and(|path| path.works_since.is_some()) {
            let settled = self.settled_at;
            let steady = |path: &PathRegistration| {
                path.works_since.map(|since| (since + PATH_STEADY_FOR).max(settled))
            };
            let in_use = self.in_use();
            let better: Vec<usize> = self.by_preference().take_while(|path| *path != in_use).collect();
            let steady_times = better.iter().filter_map(|path| steady(&self.paths[*path]));
            self.review_at = steady_times.filter(|at| *at > now).min();
            better.into_iter().find(|path| steady(&self.paths[*path]).is_some_and(|at| at <= now))
        } else {
            self.by_preference().find(|path| self.paths[*path].works_since.is_some())
        };
        let Some(chosen) = chosen else {
            return false;
        };
        self.set_in_use(chosen);
        self.settled_at = now + PATH_CHANGE_INTERVAL;
        true
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    /// Chooses a path; `works` is true for each path that works now.
    fn choose(registrations: &mut Registrations, works: [bool; 2], now: Time) -> bool {
        registrations.choose_path(|path| works[path], now)
    }

    #[test]
    fn a_path_that_fails_is_left_at_once_and_a_better_one_taken_after_a_while() {
        let mut registrations = Registrations::new(2);
        assert!(choose(&mut registrations, [false, true], at(0)) && registrations.in_use() == 1);
        assert!(!choose(&mut registrations, [true, true], at(1_000)));
        assert_eq!(registrations.review_at, Some(at(5_000)));
        assert!(
            !choose(&mut registrations, [true, true], at(4_999)),
            "a path that works is not left within five seconds of a change"
        );
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
        assert_eq!(registrations.review_at, Some(at(32_000)));
        assert!(choose(&mut registrations, [true, true], at(32_000)) && registrations.in_use() == 0);
        assert_eq!(registrations.review_at, None);
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
            registrations.on_requested(0, at(0));
            *wait = registrations.deadline().map_or(0, |next| next.saturating_since(at(0)).as_millis());
        }
        assert_eq!(waits, [250, 500, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 2_000, 4_000, 8_000, 8_000]);
        registrations.restart(0, at(7));
        assert_eq!(registrations.deadline(), Some(at(7)));
    }
}
