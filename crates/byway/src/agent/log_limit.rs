//! Rate limit of log messages that traffic can cause: a few a minute for each reason and peer, to
//! bound the log's size.

use std::collections::BTreeMap;

use byway_units::{AgentId, Duration, Time};

/// Interval in which messages of one kind are counted. An operator who watches the log sees a
/// persistent problem within a minute.
const INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of kinds of messages that are counted separately: eight for each of the 256 peers
/// that an agent may have. Beyond it, messages of new kinds are not logged.
const KINDS_MAX: usize = 2_048;

/// Reason of a log message that traffic can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// This agent has no mapping left for a new port.
    Full,
    /// The peer has no mapping left for a new port.
    PeerFull,
    /// The system has no free socket for an exposed target.
    NoSocket,
    /// The peer of a session does not answer any more.
    PeerLost,
    /// A session with the peer begins or ends.
    Session,
    /// A relay refuses to serve a flow.
    RelayRefuses,
    /// A flow has switched to another relay path.
    Path,
    /// The peer refuses a mapping that this agent offered.
    PeerRefuses,
    /// This agent refuses an offer of the peer.
    OfferRefused,
    /// Losses of a flow with the peer are not repaired.
    Unrepaired,
    /// Losses of a flow with the peer are repaired again.
    Repaired,
}

impl Topic {
    /// Returns the maximum number of messages per kind and interval: one for a problem, and a few
    /// for events that differ in more than their kind.
    const fn messages_max(self) -> u32 {
        match self {
            Self::Session | Self::Path => 8,
            _ => 1,
        }
    }
}

/// Number of messages of one kind in the current interval, and the interval's beginning.
#[derive(Clone, Copy, Debug)]
struct MessageCount {
    since: Time,
    count: u32,
}

/// Rate limit of log messages: counts recent ones by topic, peer and further detail.
#[derive(Debug, Default)]
pub(super) struct LogLimit(BTreeMap<(Topic, Option<AgentId>, String), MessageCount>);

impl LogLimit {
    /// True if the limit permits a message of this kind now. Counts the message.
    pub(super) fn is_due(&mut self, topic: Topic, peer: Option<AgentId>, detail: &str, now: Time) -> bool {
        let is_old = |messages: &MessageCount| now.saturating_since(messages.since) >= INTERVAL;
        if self.0.len() >= KINDS_MAX {
            self.0.retain(|_, messages| !is_old(messages));
        }
        let key = (topic, peer, detail.to_owned());
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&key) {
            return false;
        }
        let messages = self.0.entry(key).or_insert(MessageCount { since: now, count: 0 });
        if is_old(messages) {
            *messages = MessageCount { since: now, count: 0 };
        }
        messages.count = messages.count.saturating_add(1);
        messages.count <= topic.messages_max()
    }

    /// Removes the counts of a peer that has left the network.
    pub(super) fn forget(&mut self, peer: AgentId) {
        self.0.retain(|(_, of, _), _| *of != Some(peer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Option<AgentId> = Some(AgentId::new(2));

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    #[test]
    fn a_problem_has_a_line_a_minute_for_each_reason_and_peer() {
        let mut log = LogLimit::default();
        let mut due = |topic, peer, detail, seconds| log.is_due(topic, peer, detail, at(seconds));
        assert!(due(Topic::PeerRefuses, PEER, "NotAllowed", 0));
        assert!((1..60).all(|seconds| !due(Topic::PeerRefuses, PEER, "NotAllowed", seconds)));
        assert!(due(Topic::PeerRefuses, PEER, "UnknownSubject", 59), "that is another reason");
        assert!(due(Topic::PeerRefuses, Some(AgentId::new(3)), "NotAllowed", 59), "that is another peer");
        assert!(due(Topic::PeerLost, PEER, "", 59) && due(Topic::PeerRefuses, PEER, "NotAllowed", 60));
        assert!(!due(Topic::PeerRefuses, PEER, "NotAllowed", 119));
    }

    #[test]
    fn events_have_a_few_lines_a_minute() {
        let mut log = LogLimit::default();
        let messages = (0..1_000).filter(|_| log.is_due(Topic::Path, PEER, "", at(0))).count();
        assert_eq!(messages, 8);
        assert!(log.is_due(Topic::Path, PEER, "", at(60)));
    }

    #[test]
    fn kinds_are_bounded_and_old_ones_make_room() {
        let mut log = LogLimit::default();
        let peer = |number: usize| Some(AgentId::new(u32::try_from(number).expect("few")));
        let due = |log: &mut LogLimit, seconds| {
            (1..=2 * KINDS_MAX)
                .filter(|number| log.is_due(Topic::PeerLost, peer(*number), "", at(seconds)))
                .count()
        };
        assert_eq!((due(&mut log, 0), log.0.len()), (KINDS_MAX, KINDS_MAX));
        assert_eq!((due(&mut log, 60), log.0.len()), (KINDS_MAX, KINDS_MAX));
        log.forget(AgentId::new(1));
        assert_eq!(log.0.len(), KINDS_MAX - 1);
    }
}
