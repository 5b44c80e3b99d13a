//! Limits of a node's client of the controller, with their reasons.

use std::time::Duration;

/// Longest answer of the controller, in bytes. The map of an agent with the most pairs has less
/// than a megabyte.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Timeout of a connection to the controller, with its TLS handshake. Round trips of two seconds
/// fit.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// Longest round trip to the controller that a stream of samples assumes. Half of it counts as the
/// age of each sample, for as long as the stream lasts: 2 s are too old for any reader.
pub(super) const ROUND_TRIP_MAX: Duration = Duration::from_millis(200);

/// Timeout of an answer that the controller does not delay. A slow disk of the controller writes
/// within this time.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a poll for a new map. The controller delays its answer by up to 25 s.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_secs(40);

/// Shortest interval between attempts to reach the controller, which doubles with each failure.
pub(super) const RETRY_MIN: Duration = Duration::from_secs(1);

/// Longest interval between two attempts to reach the controller; twice that if the controller asks
/// for a pause. A controller that is back thus reaches all nodes within a minute, but not all at
/// the same time.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(60);

/// Factor of [`RETRY_MAX`] after a refusal: five minutes, because a person has to act first.
pub(super) const REFUSED_RETRY_FACTOR: u32 = 5;

/// Time for which changes of this node are collected before they are reported to the controller. An
/// agent learns addresses of several families and relays within a second of each other.
pub(super) const REPORT_BATCH_DELAY: Duration = Duration::from_secs(1);

/// Longest line that the controller sends in a stream, in bytes: 64 flows take less than 16 KiB.
pub(super) const LINE_BYTES_MAX: usize = 32 << 10;

/// Time without a line after which a stream of the controller counts as failed. The controller
/// sends one each 5 s.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

/// Time after which a connection fails whose data the controller does not acknowledge. Older
/// samples are no state, and the controller ends a silent stream after as long.
pub(super) const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a stream to the controller that may wait in this process: HTTP's least buffer, which
/// holds two seconds of samples. Newer samples are merged until there is space.
pub(super) const STREAM_BUFFER_BYTES: usize = 8 << 10;
