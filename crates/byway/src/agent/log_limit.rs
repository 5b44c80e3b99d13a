//! Limit of log lines that traffic can cause: a few a minute for each reason and peer, so that nobody fills a log.

use std::collections::BTreeMap;

use byway_units::{AgentId, Duration, Time};

/// Interval for which lines are counted: whoever watches a log sees a lasting problem within a minute.
const INTERVAL: Duration = Duration::from_secs(60);

/// Kinds of lines that are counted apart: eight reasons of each of the 256 peers that an agent may have.
const KINDS_MAX: usize = 2_048;

/// Reason of a log line that traffic can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// This agent has no mapping left.
    Full,
    /// The peer has no mapping left.
    PeerFull,
    /// The system has no socket.
    NoSocket,
    /// The peer does not answer.
    PeerLost,
    /// A session with the peer begins or ends.
    Session,
    /// A relay does not serve a flow.
    RelayRefuses,
    /// A flow uses another path.
    Path,
    /// The peer does not take what is sent there.
    PeerRefuses,
    /// An offer of a peer is refused.
    OfferRefused,
    /// Losses of a flow are not repaired.
    Unrepaired,
    /// They are again.
    Repaired,
}

impl Topic {
    /// Returns the lines of an interval: one of a problem, and a few of events that are told apart by more than the
    /// reason.
    const fn lines(self) -> u32 {
        match self {
            Self::Session | Self::Path => 8,
            _ => 1,
        }
    }
}

/// Lines of one kind: since when they are counted, and how many there were.
#[derive(Clone, Copy, Debug)]
struct Lines {
    since: Time,
    count: u32,
}

/// Lines that were logged lately, by topic, peer and what else tells reasons apart.
#[derive(Debug, Default)]
pub(super) struct LogLimit(BTreeMap<(Topic, Option<AgentId>, String), Lines>);

impl LogLimit {
    /// Returns true if the log has room for a line.
    pub(super) fn is_due(&mut self, topic: Topic, peer: Option<AgentId>, detail: &str, now: Time) -> bool {
        let is_old = |lines: &Lines| now.saturating_since(lines.since) >= INTERVAL;
        if self.0.len() >= KINDS_MAX {
            self.0.retain(|_, lines| !is_old(lines));
        }
        let key = (topic, peer, detail.to_owned());
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&key) {
            return false;
        }
        let lines = self.0.entry(key).or_insert(Lines { since: now, count: 0 });
        if is_old(lines) {
            *lines = Lines { since: now, count: 0 };
        }
        lines.count = lines.count.saturating_add(1);
        lines.count <= topic.lines()
    }

    /// Forgets a peer.
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
        let lines = (0..1_000).filter(|_| log.is_due(Topic::Path, PEER, "", at(0))).count();
        assert_eq!(lines, 8);
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
