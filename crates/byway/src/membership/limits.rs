//! Every limit of the client, with its reason.

use std::time::Duration;

/// Longest answer: the map of an agent with the most pairs has less than a megabyte.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;

/// How long a connection and its handshake may take: round trips of two seconds fit.
pub(super) const CONNECT_PATIENCE: Duration = Duration::from_secs(8);

/// How long an answer may take that the controller does not keep back: a slow disk writes within this time.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// How long a poll may take: the controller keeps it for 25 s.
pub(super) const POLL_PATIENCE: Duration = Duration::from_secs(40);

/// Attempts follow one another after this time at first, and twice as long each time.
pub(super) const RETRY_MIN: Duration = Duration::from_secs(1);

/// And at most, or twice that where the controller asks for a pause: one that is back is known to all within a minute, and not
/// to all at once.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(60);

/// How much longer at most, where the controller refuses: five minutes, as somebody has to do something first.
pub(super) const REFUSED_RETRY_FACTOR: u32 = 5;

/// How long news of this node are collected before they are sent: addresses of several families and relays are found
/// within a second of each other.
pub(super) const COLLECTED_FOR: Duration = Duration::from_secs(1);
