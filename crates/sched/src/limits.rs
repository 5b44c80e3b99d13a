//! Constants, and the reasons for their values.

use byway_units::Duration;

/// Interval after which a link counts its flows and sizes its buffers (T of the paper, section V).
pub const UPDATE_INTERVAL: Duration = Duration::from_millis(400);

/// Time after its last packet for which a flow counts as active (E of the paper, section IV-B3).
pub const FLOW_EXPIRY: Duration = Duration::from_secs(1);

/// Slots of a flow counter: 144 KB of two bytes each, as much as 18,000 timestamps of eight bytes.
/// With 100,000 flows, 95 of 100 counts are within 1 %.
pub const FLOW_SLOTS: usize = 72_000;

/// Limit on the counted flows of a source, and on the number of flows for which it gets a rate. By
/// made-up flows, a source gains at most 5 % of a class of two hundred flows. A source with more
/// real flows, such as a server, counts for this number.
pub(crate) const FLOWS_PER_SOURCE_MAX: u8 = 32;

/// Least number of flows for which a source gets its part of a high-rate flow's rate. It matters
/// for a source that starts many short transfers, because none of these flows persists.
pub(crate) const FLOWS_PER_SOURCE_MIN: u8 = 4;

/// Number of slots for counts of each source's flows: 64 KB. Up to this number of sources, few
/// share a slot.
pub(crate) const SOURCE_SLOTS: usize = 16_384;

/// Largest number of registered flows at a link: 1 MB. A link of 10 Gbit/s has no more flows of
/// 1 Mbit/s.
pub const REGISTERED_FLOWS_MAX: usize = 16_384;

/// Slots for byte counts of flows: 32 KB. If several thousand flows share them, each flow's share
/// is so small that single packets dominate.
pub(crate) const BYTE_COUNT_SLOTS: usize = 8_192;

/// Fraction of its share that a flow must offer to count as a whole flow: 1/4. A flow with less
/// load counts for proportionally less. A class gets four times its flows' load, because a rate
/// equal to the load would cause queueing and loss.
pub(crate) const WHOLE_PART: u64 = 4;

/// Number of iterations for the weights of flows, which depend on the shares that follow from them.
/// Each iteration reduces the count of idle flows to a quarter or less.
pub(crate) const WEIGHTING_ITERATIONS: usize = 6;

/// Largest weight of a class that is computed from byte counts: a quarter of their slots. Beyond
/// it, flows share slots and have little load each, so every flow counts as one.
pub(crate) const WEIGHT_MAX: u32 = 2_048;

/// Number of intervals after a backlog of the high-rate class in which low-delay flows are capped:
/// two seconds, because TCP leaves a link idle now and then.
pub(crate) const BACKLOG_MEMORY_INTERVALS: u32 = 5;

/// Number of token buckets in a row: 32 KB. With up to about as many flows, a flow that exceeds its
/// rate shares both of its buckets with another flow with a probability of 1/4,096.
pub(crate) const BUCKETS: usize = 4_096;

/// Burst of a low-delay flow at its fair share: three seconds, enough for TCP's random excess over
/// its mean rate.
pub(crate) const FAIR_BURST: Duration = Duration::from_secs(3);

/// Least burst of a low-delay flow at its fair share, in longest packets of the link.
pub(crate) const FAIR_BURST_PACKETS: u64 = 4;

/// Fraction of a class's capacity, and of the share of a flow in debt, that is left unallocated:
/// 1/64. If all flows used their full share, a full queue would stay full, and flows below their
/// share would lose packets.
pub(crate) const SHARED_REST: u64 = 64;

/// Number of intervals without congestion after which a class forgets its fair share: ten seconds.
/// A flow that exceeds its share in bursts has not paid back before.
pub(crate) const UNCONGESTED_INTERVALS: u32 = 25;

/// Fraction of an interval: the high-rate class counts as backlogged if it was idle for less than
/// 1/8. Its queue empties for moments even if it uses its whole rate. Without this rule, an
/// unresponsive flow would take the leftover capacity, and more, until the next interval.
pub(crate) const BACKLOGGED_IDLE_PART: u64 = 8;

/// Burst of a low-delay flow at its part of a high-rate flow's rate: one second.
pub(crate) const CAP_BURST: Duration = Duration::from_secs(1);

/// Least burst of a low-delay flow at its cap, in longest packets: TCP's initial window (RFC 6928).
pub(crate) const CAP_BURST_PACKETS: u64 = 10;

/// Fill of the low-delay queue above which some packets are marked.
pub(crate) const MARKING_FILL_MIN: f64 = 0.15;

/// Fill of the low-delay queue at which all packets would be marked.
pub(crate) const MARKING_FILL_MAX: f64 = 0.9;

/// Update interval of the low-average class's AQM (about that of RFC 9332, appendix A.1).
pub(crate) const PI2_UPDATE_INTERVAL: Duration = Duration::from_millis(16);

/// Longest usual round-trip time, in seconds (RFC 9332, appendix A.1): after it, the AQM sees the
/// effect of its signals.
pub(crate) const PI2_ROUND_TRIP_MAX: f64 = 0.1;

/// Idle time after which the low-average class's AQM resets.
pub(crate) const PI2_EXPIRY: Duration = Duration::from_secs(1);

/// Largest square root of the share of low-average packets that the AQM drops or marks: a quarter
/// of the packets (RFC 9332, appendix A.1).
pub(crate) const PI2_LEVEL_MAX: f64 = 0.5;

/// Longest delay or spike that a link may be configured with. It prevents overflow in calculations
/// by a large margin.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// Largest ratio between the rates of a high-rate and a low-delay flow, in thousandths. A larger
/// one would leave nothing for the low-delay class.
pub(crate) const RATIO_MILLI_MAX: u32 = 1_000_000;

/// Longest IP packet, in bytes.
pub(crate) const PACKET_BYTES_MAX: u64 = 65_535;

/// Step to which lengths of low-delay packets are rounded up, in bytes. If packets grow byte by
/// byte up to an Ethernet's MTU, the queue is scanned 183 times a second instead of 1,460 times.
pub(crate) const PACKET_STEP: u32 = 8;

/// Sojourn time in a flow's queue above which `CoDel` drops packets, if it lasts (RFC 8289, section
/// 4.3).
pub(crate) const CODEL_TARGET: Duration = Duration::from_millis(5);

/// Time for which sojourn times may exceed `CODEL_TARGET` before packets are dropped: the longest
/// usual round-trip time (RFC 8289, section 4.3).
pub(crate) const CODEL_INTERVAL: Duration = Duration::from_millis(100);

/// Number of queues of `FqCodel` (RFC 8290, section 5.2.3).
pub(crate) const FQ_CODEL_QUEUES: usize = 1_024;
