//! Choice between a node's two uplinks for one session.

use byway_units::{Duration, Time};

use crate::limits::{
    KEEPALIVE_INTERVAL, PROBE_INTERVAL, RETURN_INTERVAL, RETURN_INTERVAL_MAX, UNANSWERED_PROBES_MAX,
    UPLINK_PROVED_AFTER,
};
use crate::network_path::Uplink;

/// Choice of one session between its node's two uplinks.
///
/// A session uses its preferred uplink until too many probes by it stay unanswered, or the system
/// refuses to send by it. Then the session uses the other uplink, and challenges the peer by the
/// preferred one at intervals. An answer brings it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UplinkChoice {
    preferred: Uplink,
    /// Number of probes sent by the uplink in use since the last packet that arrived by it.
    unanswered: u8,
    /// Time of the next challenge by the preferred uplink, while the other one is in use.
    next_return: Time,
    /// Time from that challenge to the next one.
    return_interval: Duration,
    /// Time of the session's last change of its uplink, and of its last return to the preferred
    /// one.
    changed_at: Option<Time>,
    returned_at: Option<Time>,
    /// Time of the next probe that shows the address of the uplink that is not in use.
    next_observation: Time,
    /// Number of the latest such probe, until its answer.
    observation: Option<u32>,
}

impl UplinkChoice {
    pub(crate) const fn new(preferred: Uplink) -> Self {
        Self {
            preferred,
            unanswered: 0,
            next_return: Time::START,
            return_interval: RETURN_INTERVAL,
            changed_at: None,
            returned_at: None,
            next_observation: Time::START,
            observation: None,
        }
    }

    pub(crate) const fn preferred(&self) -> Uplink {
        self.preferred
    }

    /// Records that a packet arrived by the uplink in use.
    #[inline]
    pub(crate) const fn on_packet(&mut self) {
        self.unanswered = 0;
    }

    /// Records a probe sent by the uplink in use.
    pub(crate) const fn on_probe_sent(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }

    pub(crate) const fn unanswered(&self) -> u8 {
        self.unanswered
    }

    /// True if so many probes by the uplink in use are unanswered that it counts as out.
    pub(crate) const fn is_silent(&self) -> bool {
        self.unanswered > UNANSWERED_PROBES_MAX
    }

    /// True if a refusal of the uplink in use may change it now. While the system refuses both, the
    /// session changes no more often than it probes.
    pub(crate) fn may_change(&self, now: Time) -> bool {
        self.changed_at.is_none_or(|at| now.saturating_since(at) >= PROBE_INTERVAL)
    }

    /// Records that the session uses `uplink` from now on. If it leaves the preferred one soon
    /// after its return, it waits for longer before it tries to return again.
    pub(crate) fn on_changed(&mut self, uplink: Uplink, now: Time) {
        (self.unanswered, self.changed_at) = (0, Some(now));
        if uplink == self.preferred {
            self.returned_at = Some(now);
            return;
        }
        let is_proved = self.returned_at.is_none_or(|at| now.saturating_since(at) >= UPLINK_PROVED_AFTER);
        self.return_interval = if is_proved { RETURN_INTERVAL } else { RETURN_INTERVAL_MAX };
        self.next_return = now + self.return_interval;
    }

    /// True if a probe is due that shows the address of the uplink that is not in use; schedules
    /// the next one.
    pub(crate) fn pop_observation(&mut self, now: Time) -> bool {
        let is_due = self.next_observation <= now;
        if is_due {
            self.next_observation = now + KEEPALIVE_INTERVAL;
        }
        is_due
    }

    pub(crate) const fn on_observation_sent(&mut self, number: u32) {
        self.observation = Some(number);
    }

    /// True if this is the first answer to the latest of these probes.
    pub(crate) fn accept_observation(&mut self, number: u32) -> bool {
        self.observation.take_if(|sent| *sent == number).is_some()
    }

    /// Returns the time of the next challenge by the preferred uplink; `None` while that is in use.
    pub(crate) fn return_at(&self, in_use: Uplink) -> Option<Time> {
        (in_use != self.preferred).then_some(self.next_return)
    }

    /// True if a challenge by the preferred uplink is due; schedules the next one.
    pub(crate) fn pop_return(&mut self, in_use: Uplink, now: Time) -> bool {
        let is_due = self.return_at(in_use).is_some_and(|at| at <= now);
        if is_due {
            self.next_return = now + self.return_interval;
            self.return_interval = (self.return_interval * 2).min(RETURN_INTERVAL_MAX);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    /// Returns the seconds after a change at which a choice tries to return.
    fn returns(choice: &mut UplinkChoice, changed: u64) -> Vec<u64> {
        let due = (changed..changed + 40).filter(|second| choice.pop_return(Uplink::Second, at(*second)));
        due.map(|second| second - changed).collect()
    }

    #[test]
    fn a_session_tries_to_return_at_longer_and_longer_intervals() {
        let mut choice = UplinkChoice::new(Uplink::First);
        choice.on_changed(Uplink::Second, at(100));
        assert_eq!(returns(&mut choice, 100), [1, 2, 4, 8, 16, 24, 32]);
        assert_eq!(choice.return_at(Uplink::First), None);
    }

    #[test]
    fn an_uplink_that_fails_soon_after_the_return_is_tried_later() {
        let mut choice = UplinkChoice::new(Uplink::First);
        for (second, first_return) in [(100, 1), (140, 8)] {
            choice.on_changed(Uplink::Second, at(second));
            assert_eq!(returns(&mut choice, second).first(), Some(&first_return), "{second}");
            choice.on_changed(Uplink::First, at(second + 38));
            assert_eq!(choice.return_at(Uplink::First), None);
        }
    }

    #[test]
    fn five_unanswered_probes_in_a_row_make_an_uplink_silent() {
        let mut choice = UplinkChoice::new(Uplink::First);
        for _ in 0..UNANSWERED_PROBES_MAX {
            choice.on_probe_sent();
        }
        assert!(!choice.is_silent());
        choice.on_packet();
        choice.on_probe_sent();
        assert!(!choice.is_silent(), "one answer begins the count again");
        for _ in 0..UNANSWERED_PROBES_MAX {
            choice.on_probe_sent();
        }
        assert!(choice.is_silent());
    }
}
