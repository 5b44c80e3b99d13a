//! Looks for what should be protected and is not: a device of which nothing goes by Byway, and flows of which no loss is repaired.

use std::collections::BTreeMap;

use byway_units::{Duration, Time};

use super::mappings::MappingId;

/// How often is looked.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

/// For how long everything has to be in vain: what begins, and what an outage takes, is not told apart sooner.
const IN_VAIN_FOR: Duration = Duration::from_secs(3);

/// After so long without another one, what was in vain is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Packets that have to be in vain: fewer may be chance.
const IN_VAIN_MIN: u64 = 5;

/// What happened since something came of it last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streak {
    tried: u64,
    succeeded: u64,
    in_vain: u64,
    /// When it began, and when it went on last.
    span: Option<(Time, Time)>,
}

impl Streak {
    /// One that begins where counters stand.
    pub(super) fn from(tried: u64, succeeded: u64) -> Self {
        Self { tried, succeeded, ..Self::default() }
    }

    /// Takes in what the counters say now; one that begins anew counts from there.
    pub(super) fn look(&mut self, tried: u64, succeeded: u64, now: Time) {
        let (more, came) = (tried.saturating_sub(self.tried), succeeded.saturating_sub(self.succeeded));
        (self.tried, self.succeeded) = (tried, succeeded);
        let is_old = self.span.is_some_and(|(_, last)| now.saturating_since(last) >= FORGOTTEN_AFTER);
        if came > 0 || is_old {
            (self.in_vain, self.span) = (0, None);
        }
        if came == 0 && more > 0 {
            self.in_vain += more;
            self.span = Some((self.span.map_or(now, |(since, _)| since), now));
        }
    }

    /// How many were in vain, if that is more than chance.
    pub(super) fn in_vain(&self, now: Time) -> Option<u64> {
        let (since, _) = self.span?;
        let lasts = now.saturating_since(since) >= IN_VAIN_FOR;
        (lasts && self.in_vain >= IN_VAIN_MIN).then_some(self.in_vain)
    }
}

/// Which end of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    /// What is sent from here.
    Sent,
    /// What is received here.
    Received,
}

/// What is looked at, and what was found.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// A device whose packets captures carry: its own count of them against that of the agent.
    pub(super) device: Option<(String, Option<Streak>)>,
    flows: BTreeMap<(MappingId, Direction), Streak>,
    /// A note for people while there is no such device.
    pub(super) absent: Option<String>,
    /// What people should know of each, since it was found.
    pub(super) blind: Option<String>,
    pub(super) unrepaired: BTreeMap<MappingId, String>,
    /// `Time::MAX`: once something happens.
    next: Time,
}

impl Watchdog {
    pub(super) fn new(device: Option<String>) -> Self {
        let next = if device.is_some() { Time::START } else { Time::MAX };
        Self {
            device: device.map(|name| (name, None)),
            absent: None,
            flows: BTreeMap::new(),
            blind: None,
            unrepaired: BTreeMap::new(),
            next,
        }
    }

    pub(super) const fn deadline(&self) -> Time {
        self.next
    }

    /// Something happens: it is looked at after a while, and nothing wakes an idle machine but a device that is watched.
    pub(super) fn stir(&mut self, now: Time) {
        self.next = self.next.min(now + LOOKS_EVERY);
    }

    /// Whether it is time to look; then the next time is planned.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = if self.device.is_some() { now + LOOKS_EVERY } else { Time::MAX };
        }
        is_due
    }

    /// Looks at the losses of a flow, and at how many were repaired; how many were in vain.
    pub(super) fn losses(
        &mut self,
        flow: (MappingId, Direction),
        (lost, repaired): (u64, u64),
        now: Time,
    ) -> Option<u64> {
        let streak = self.flows.entry(flow).or_default();
        streak.look(lost, repaired, now);
        streak.in_vain(now)
    }

    /// Looks at the packets of the device, of which the agent has had so many; how many of them it has not seen.
    pub(super) fn device_sent(&mut self, sent: u64, seen: u64, now: Time) -> Option<u64> {
        let (_, streak) = self.device.as_mut()?;
        let streak = streak.get_or_insert_with(|| Streak::from(sent, seen));
        streak.look(sent, seen, now);
        streak.in_vain(now)
    }

    /// Forgets what the device counted, as there is none.
    pub(super) fn lose_device(&mut self, note: String) {
        self.absent = Some(note);
        self.blind = None;
        if let Some((_, streak)) = &mut self.device {
            *streak = None;
        }
    }

    /// Forgets a mapping.
    pub(super) fn closed(&mut self, id: MappingId) {
        self.flows.retain(|(of, _), _| *of != id);
        self.unrepaired.remove(&id);
    }
}

/// How many packets a device has sent, and how many it had no room for, by what the system says of all (`/proc/net/dev`).
pub(super) fn packets_sent(table: &str, device: &str) -> Option<u64> {
    let (_, counts) =
        table.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == device)?;
    let counts: Vec<u64> = counts.split_whitespace().map_while(|count| count.parse().ok()).collect();
    // Bytes, packets, errors, drops and four more of what came, and the same of what went.
    Some(counts.get(9)? + counts.get(11)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    #[test]
    fn what_goes_on_in_vain_is_found_within_ten_seconds_and_ends_with_the_first_success() {
        let mut streak = Streak::default();
        let mut found = None;
        for (place, second) in (0..=10).step_by(2).enumerate() {
            streak.look(2 * place as u64, 0, at(second));
            found = found.or(streak.in_vain(at(second)).map(|_| second));
        }
        assert_eq!(found, Some(6));
        streak.look(40, 1, at(12));
        assert_eq!(streak.in_vain(at(12)), None);
        streak.look(44, 1, at(14));
        assert_eq!(streak.in_vain(at(30)), None, "four may be chance");
    }

    #[test]
    fn a_burst_alone_is_not_found_before_it_lasts_and_is_forgotten_after_a_minute() {
        let mut streak = Streak::default();
        streak.look(300, 0, at(2));
        assert_eq!((streak.in_vain(at(4)), streak.in_vain(at(6))), (None, Some(300)));
        streak.look(300, 0, at(70));
        assert_eq!(streak.in_vain(at(70)), None);
    }

    #[test]
    fn what_was_before_is_not_in_vain() {
        let mut watch = Watchdog::new(Some("wg0".to_owned()));
        assert_eq!(watch.device_sent(1_000, 0, at(0)), None);
        assert_eq!(watch.device_sent(1_000, 0, at(20)), None);
        assert_eq!(watch.device_sent(1_010, 0, at(22)), None);
        assert_eq!(watch.device_sent(1_010, 0, at(26)), Some(10));
        assert_eq!(watch.device_sent(1_020, 3, at(28)), None);
    }

    #[test]
    fn an_agent_without_a_device_looks_when_something_happens_and_not_again() {
        let mut watch = Watchdog::new(None);
        assert_eq!(watch.deadline(), Time::MAX);
        watch.stir(at(5));
        watch.stir(at(6));
        assert!(!watch.is_due(at(6)) && watch.is_due(at(7)));
        assert_eq!(watch.deadline(), Time::MAX);
    }

    #[test]
    fn the_systems_table_of_devices_is_read() {
        let table = "Inter-|   Receive    |  Transmit\n face |bytes    packets errs\n\
                     \x20   lo:     100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0\n\
                     \x20  wg0:  7   1 0 0 0 0 0 0  900 8 0 3 0 0 0 0\n";
        assert_eq!(packets_sent(table, "wg0"), Some(11));
        assert_eq!(packets_sent(table, "wg1"), None);
    }
}
