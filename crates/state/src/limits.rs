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

/// Period of the least round trip that shows the rest of a path.
pub(crate) const LEAST_RTT_PERIOD: Duration = Duration::from_secs(10);
