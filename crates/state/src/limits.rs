//! Constants, and the reasons for their values.

use byway_units::{Bytes, Duration, Rate};

/// Usual interval between two samples of a link: a few in each round trip of an interactive flow.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// Most links of a path, and most link entries of a path entry. Paths of the Internet have some 30
/// hops, and only those that can queue are shown.
pub const LINKS_MAX: usize = 64;

/// Most entries that a table holds: those of [`ENTRY_LIFETIME`] at [`SAMPLE_INTERVAL`].
pub const ENTRIES_MAX: usize = 100;

/// Age at which a table drops an entry, and a path counts as unknown. Averages have a time constant
/// of 1 s, so older entries add less than 1 %.
pub const ENTRY_LIFETIME: Duration = Duration::from_secs(5);

/// Entries of an answer to a query that names no maximum: 2 s of history. With it, the averages of
/// a new flow begin warm, and it has its share within 1.0 s instead of 2.7 s.
pub const HISTORY_ENTRIES: usize = 40;

/// Longest interval of a link entry. A longer one comes from a clock that jumped.
pub const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Lowest rate of a link: a full packet takes 1.5 s at it.
pub const LINK_RATE_MIN: Rate = Rate::from_kilobits_per_second(8);

/// Highest rate of a link: ten times that of the fastest ports.
pub const LINK_RATE_MAX: Rate = Rate::from_megabits_per_second(10_000_000);

/// Longest propagation delay of a link. Links over geostationary satellites have 0.3 s.
pub const LINK_DELAY_MAX: Duration = Duration::from_secs(10);

/// Largest multiple of its shown rate that a link may report as sent. The shown rate of the
/// interactive queue may be a small part of the capacity that it used just before.
pub(crate) const SENT_RATIO_MAX: u64 = 100;

/// Largest backlog of a slow link: ten times the 1.5 MB that the paper's queue reaches.
pub(crate) const BACKLOG_FLOOR: Bytes = Bytes::new(16 << 20);

/// Largest backlog of a fast link, in time at its shown rate.
pub(crate) const BACKLOG_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a flow that wait at its bottleneck, if the link names no other number (S of the paper,
/// section 4.3.1): one full packet.
pub const TARGET_BACKLOG: Bytes = Bytes::new(1_500);

/// Time at a link's capacity that the target backlog is at least. At 50 Mbit/s, a jitter of 1 ms
/// costs 3 % of the rate with a target of one packet, and 0.4 % with this one.
pub(crate) const TARGET_TIME: Duration = Duration::from_millis(1);

/// Least target backlog that a link may name: zero would divide zero by zero.
pub(crate) const TARGET_MIN: Bytes = Bytes::new(64);

/// Largest target backlog that a link may name: [`TARGET_TIME`] at 134 Gbit/s.
pub(crate) const TARGET_MAX: Bytes = Bytes::new(16 << 20);

/// Time constant of the averages of throughput and backlog (section 4.1 of the paper).
pub(crate) const AVERAGE_TIME: Duration = Duration::from_secs(1);

/// Feedback delay from which the rules for old state hold. Two flows at 5 Mbit/s, whose round trip
/// is 100 ms, begin to oscillate at about this delay.
pub(crate) const OLD_STATE_SECONDS: f64 = 0.15;

/// Feedback delay up to which an overstated rate is corrected. With older state, the correction
/// oscillates.
pub(crate) const CORRECTION_SECONDS: f64 = 0.3;

/// Least part of a link's shown rate that the correction of an overstated rate leaves. A link that
/// was idle has little throughput at first, whatever its rate.
pub(crate) const CORRECTED_RATE_PART: f64 = 0.3;

/// Part of a link's rate that bounds one change of a flow's rate while state is old, unless
/// [`STEP_TARGETS`] allow more. With them alone, a newcomer at 50 Mbit/s has 40 % of its share
/// after 8 s. With a step that does not depend on the delay, such as 10 ms at the link's rate, 15
/// flows at 50 Mbit/s use 90 % of it.
pub(crate) const STEP_PART: f64 = 0.02;

/// Target backlogs that bound one change of a flow's backlog (n and m of the paper, section 6.4.2).
pub(crate) const STEP_TARGETS: f64 = 2.0;

/// Receiver's request window over the sender's window (section 4.2 of the paper).
pub(crate) const REQUEST_GAIN: f64 = 1.5;

/// Period of the least round trip that shows the rest of a path.
pub(crate) const LEAST_RTT_PERIOD: Duration = Duration::from_secs(10);

/// Updates that may be missed until state counts as missing.
pub(crate) const MISSED_UPDATES: u64 = 4;

/// First assumption of the time between updates: a poll over a long path.
pub(crate) const UPDATE_GAP: Duration = Duration::from_millis(250);

/// Age of state from which it counts as missing. With state of 1 s, the rules for old state hold a
/// link at 98 % use.
pub(crate) const STATE_AGE_MAX: Duration = Duration::from_secs(2);
