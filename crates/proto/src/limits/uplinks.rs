//! Limits of a relay's uplink, and of an agent's choice between two.

use byway_units::Duration;

/// Time from a session's change to its other uplink to the first attempt to return, and time for
/// which the answer counts. Each attempt is one packet, so it costs less than a probe of a peer in
/// use.
pub const RETURN_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time between two attempts to return to the preferred uplink, which may stay out for
/// hours.
pub const RETURN_INTERVAL_MAX: Duration = Duration::from_secs(8);

/// Time after a session's return to an uplink for which a further failure counts as a repetition.
/// With an uplink that comes and goes, each return loses packets until its failure is detected.
pub const UPLINK_PROVED_AFTER: Duration = Duration::from_secs(10);

/// Most packets that a relay sends at once, as transmission time: a quarter of the least audible
/// jitter (a millisecond). At a gigabit per second, these are twenty of the longest packets, which
/// need one system call.
pub const UPLINK_QUANTUM: Duration = Duration::from_micros(250);

/// Longest lateness of a timer that a relay's uplink makes up for by a burst: timers of a busy
/// machine are late by as much. A larger burst would queue at the next link if that is as slow.
pub const UPLINK_CREDIT: Duration = Duration::from_millis(1);

/// Bytes of one block in the packet store of a relay's uplink: twenty of the longest packets.
pub const UPLINK_BLOCK_BYTES: usize = 32 << 10;

/// Latency budget up to which a flow is low-delay by default: the mouth-to-ear delay that nobody
/// notices in a conversation (ITU-T G.114). The default budget of a flow is longer.
pub const LOW_DELAY_BUDGET: Duration = Duration::from_millis(150);
