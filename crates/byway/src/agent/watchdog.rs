//! Watchdog that searches for unprotected traffic: a device whose packets Byway does not capture,
//! and flows whose losses are never repaired.

use std::collections::BTreeMap;

use byway_units::{Duration, Time};

use super::mappings::MappingId;

/// Interval between two checks for unprotected traffic.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Shortest duration of a failure streak that is reported. An agent that starts, or a brief outage,
/// looks like a failure for a shorter time.
const FAILING_FOR_MIN: Duration = Duration::from_secs(3);

/// Time without a new failure after which a streak is forgotten.
const STREAK_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of failed packets before a streak is reported. Fewer may be chance.
const FAILURES_MIN: u64 = 5;

/// Failures since the latest success: packets not captured, or losses not repaired.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FailureStreak {
    tried: u64,
    succeeded: u64,
    failed: u64,
    /// Times of the first and the latest failure.
    span: Option<(Time, Time)>,
}

impl FailureStreak {
    /// Creates a streak without failures, at the present values of both counters.
    pub(super) fn from(tried: u64, succeeded: u64) -> Self {
        Self { tried, succeeded, ..Self::default() }
    }

    /// Updates the streak from the counters of attempts and successes. A success ends the streak. A
    /// counter that restarts counts from its new value.
    pub(super) fn update(&mut self, tried: u64, succeeded: u64, now: Time) {
        let (more_tried, more_succeeded) =
            (tried.saturating_sub(self.tried), succeeded.saturating_sub(self.succeeded));
        (self.tried, self.succeeded) = (tried, succeeded);
        let is_old = self.span.is_some_and(|(_, last)| now.saturating_since(last) >= STREAK_TIMEOUT);
        if more_succeeded > 0 || is_old {
            (self.failed, self.span) = (0, None);
        }
        if more_succeeded == 0 && more_tried > 0 {
            self.failed += more_tried;
            self.span = Some((self.span.map_or(now, |(since, _)| since), now));
        }
    }

    /// Returns the number of failures; `None` if they are few or recent enough to be chance.
    pub(super) fn failures(&self, now: Time) -> Option<u64> {
        let (since, _) = self.span?;
        let lasts = now.saturating_since(since) >= FAILING_FOR_MIN;
        (lasts && self.failed >= FAILURES_MIN).then_some(self.failed)
    }
}

/// Direction of a mapping's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    /// Packets sent from here.
    Sent,
    /// Packets received here.
    Received,
}

/// State of the checks for unprotected traffic, and their findings.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Name of the device whose packets the captures should transport, and its streak of uncaptured
    /// packets. The device's own packet count is compared with the agent's.
    pub(super) device: Option<(String, Option<FailureStreak>)>,
    flows: BTreeMap<(MappingId, Direction), FailureStreak>,
    /// Note for people while the watched device does not exist.
    pub(super) absent: Option<String>,
    /// Note for people about the device's uncaptured packets, since their detection.
    pub(super) uncaptured: Option<String>,
    pub(super) unrepaired: BTreeMap<MappingId, String>,
    /// Time of the next check; `Time::MAX` until there is activity.
    next: Time,
}

impl Watchdog {
    pub(super) fn new(device: Option<String>) -> Self {
        let next = if device.is_some() { Time::START } else { Time::MAX };
        Self {
            device: device.map(|name| (name, None)),
            absent: None,
            flows: BTreeMap::new(),
            uncaptured: None,
            unrepaired: BTreeMap::new(),
            next,
        }
    }

    pub(super) const fn deadline(&self) -> Time {
        self.next
    }

    /// Schedules a check after activity. Without activity, only a watched device causes checks.
    pub(super) fn on_activity(&mut self, now: Time) {
        self.next = self.next.min(now + CHECK_INTERVAL);
    }

    /// True if a check is due; schedules the next one.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = if self.device.is_some() { now + CHECK_INTERVAL } else { Time::MAX };
        }
        is_due
    }

    /// Updates the losses and repairs of a flow. Returns the number of unrepaired losses, if it is
    /// more than chance.
    pub(super) fn check_losses(
        &mut self,
        flow: (MappingId, Direction),
        (lost, repaired): (u64, u64),
        now: Time,
    ) -> Option<u64> {
        let streak = self.flows.entry(flow).or_default();
        streak.update(lost, repaired, now);
        streak.failures(now)
    }

    /// Updates the packets that the watched device sent and the agent captured. Returns the number
    /// of uncaptured ones, if it is more than chance.
    pub(super) fn check_device(&mut self, sent: u64, captured: u64, now: Time) -> Option<u64> {
        let (_, streak) = self.device.as_mut()?;
        let streak = streak.get_or_insert_with(|| FailureStreak::from(sent, captured));
        streak.update(sent, captured, now);
        streak.failures(now)
    }

    /// Forgets the counters of the watched device, which no longer exists, and records a note about
    /// it.
    pub(super) fn on_device_removed(&mut self, note: String) {
        self.absent = Some(note);
        self.uncaptured = None;
        if let Some((_, streak)) = &mut self.device {
            *streak = None;
        }
    }

    /// Forgets the streaks and the note of a closed mapping.
    pub(super) fn on_mapping_closed(&mut self, id: MappingId) {
        self.flows.retain(|(of, _), _| *of != id);
        self.unrepaired.remove(&id);
    }
}

/// Returns the packets that a device has sent or dropped at a full queue. `table` is the system's
/// table of devices (`/proc/net/dev`); `None` if it does not list the device.
pub(super) fn packets_sent(table: &str, device: &str) -> Option<u64> {
    let (_, counts) =
        table.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == device)?;
    let counts: Vec<u64> = counts.split_whitespace().map_while(|count| count.parse().ok()).collect();
    // Eight counters of the receive direction, then eight of the send direction. Both begin with
    // bytes, packets, errors and drops.
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
        let mut streak = FailureStreak::default();
        let mut found = None;
        for (index, second) in (0..=10).step_by(2).enumerate() {
            streak.update(2 * index as u64, 0, at(second));
            found = found.or(streak.failures(at(second)).map(|_| second));
        }
        assert_eq!(found, Some(6));
        streak.update(40, 1, at(12));
        assert_eq!(streak.failures(at(12)), None);
        streak.update(44, 1, at(14));
        assert_eq!(streak.failures(at(30)), None, "four may be chance");
    }

    #[test]
    fn a_burst_alone_is_not_found_before_it_lasts_and_is_forgotten_after_a_minute() {
        let mut streak = FailureStreak::default();
        streak.update(300, 0, at(2));
        assert_eq!((streak.failures(at(4)), streak.failures(at(6))), (None, Some(300)));
        streak.update(300, 0, at(70));
        assert_eq!(streak.failures(at(70)), None);
    }

    #[test]
    fn what_was_before_is_not_in_vain() {
        let mut watch = Watchdog::new(Some("wg0".to_owned()));
        assert_eq!(watch.check_device(1_000, 0, at(0)), None);
        assert_eq!(watch.check_device(1_000, 0, at(20)), None);
        assert_eq!(watch.check_device(1_010, 0, at(22)), None);
        assert_eq!(watch.check_device(1_010, 0, at(26)), Some(10));
        assert_eq!(watch.check_device(1_020, 3, at(28)), None);
    }

    #[test]
    fn an_agent_without_a_device_looks_when_something_happens_and_not_again() {
        let mut watch = Watchdog::new(None);
        assert_eq!(watch.deadline(), Time::MAX);
        watch.on_activity(at(5));
        watch.on_activity(at(6));
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
