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
/// preferred one at intervals. An answer brings it back. If the other uplink delivers nothing
/// either, the peer is dead: its packets leave by the preferred uplink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UplinkChoice {
    preferred: Uplink,
    /// Number of probes sent by the uplink in use since the last packet that arrived by it.
    unanswered: u8,
    /// True if a packet arrived by the uplink in use since the session uses it.
    has_delivered: bool,
    /// True if the other uplink did not deliver either: the peer is dead, rather than an uplink.
    /// The session then stays at the preferred one, and challenges the peer by the other one.
    is_peer_silent: bool,
    /// Time of the next challenge by the uplink that is not in use.
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
            has_delivered: true,
            is_peer_silent: false,
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
        (self.unanswered, self.has_delivered, self.is_peer_silent) = (0, true, false);
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
        self.unanswered > UNANSWERED_PROBES_MAX && !self.is_peer_silent
    }

    /// True if a refusal of the uplink in use may change it now. While the system refuses both, the
    /// session changes no more often than it probes.
    pub(crate) fn may_change(&self, now: Time) -> bool {
        self.changed_at.is_none_or(|at| now.saturating_since(at) >= PROBE_INTERVAL)
    }

    /// Records that the session uses `uplink` from now on. If it leaves the preferred one soon
    /// after its return, it waits for longer before it tries to return again.
    pub(crate) fn on_changed(&mut self, uplink: Uplink, now: Time) {
        let has_delivered = core::mem::replace(&mut self.has_delivered, false);
        (self.unanswered, self.changed_at) = (0, Some(now));
        if uplink == self.preferred {
            self.returned_at = Some(now);
            self.is_peer_silent = !has_delivered;
            (self.return_interval, self.next_return) = (RETURN_INTERVAL, now + RETURN_INTERVAL);
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

    /// Returns the time of the next challenge by the uplink that is not in use; `None` while the
    /// preferred one delivers.
    pub(crate) fn return_at(&self, in_use: Uplink) -> Option<Time> {
        (in_use != self.preferred || self.is_peer_silent).then_some(self.next_return)
    }

    /// True if a challenge by the uplink that is not in use is due; schedules the next one.
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
            choice.on_packet();
            assert_eq!(returns(&mut choice, second).first(), Some(&first_return), "{second}");
            choice.on_changed(Uplink::First, at(second + 38));
            assert_eq!(choice.return_at(Uplink::First), None);
        }
    }

    #[test]
    fn if_neither_uplink_delivers_the_session_stays_at_the_preferred_one_and_tries_the_other() {
        let mut choice = UplinkChoice::new(Uplink::First);
        choice.on_changed(Uplink::Second, at(100));
        choice.on_changed(Uplink::First, at(101));
        (0..=UNANSWERED_PROBES_MAX).for_each(|_| choice.on_probe_sent());
        assert!(!choice.is_silent(), "a change would help no more");
        assert_eq!(choice.return_at(Uplink::First), Some(at(102)));
        choice.on_packet();
        assert_eq!(choice.return_at(Uplink::First), None);
        (0..=UNANSWERED_PROBES_MAX).for_each(|_| choice.on_probe_sent());
        assert!(choice.is_silent());
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
