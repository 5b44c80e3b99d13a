//! Limits, and why they are what they are.

use byway_units::Duration;

/// How often flows are counted and buffers sized (T of the paper, section V).
pub const UPDATE_INTERVAL: Duration = Duration::from_millis(400);

/// A flow is active for so long after its last packet (E of the paper, section IV-B3).
pub const FLOW_EXPIRY: Duration = Duration::from_secs(1);

/// Slots of a flow counter: 144 KB of two bytes each, which is what 18,000 timestamps of eight bytes take. With 100,000 flows, 95 of 100
/// counts are within 1 %.
pub const FLOW_SLOTS: usize = 72_000;

/// Flows of one source that count, and for how many flows it gets at most. A source that makes up flows gains 5 % of a class of two hundred
/// flows by so many at most; one that really has more, as a server has, is counted for these.
pub(crate) const FLOWS_PER_SOURCE_MAX: u8 = 32;

/// For how many flows a source gets at the least of what a high-rate flow gets: one that begins short transfers all the time, of which none lasts, say.
pub(crate) const FLOWS_PER_SOURCE_MIN: u8 = 4;

/// Places for what sources took of the counter: 64 KB. Up to as many sources hardly get into each other's way.
pub(crate) const SOURCES: usize = 16_384;

/// Slots for what flows carry: 32 KB. Where several thousand flows share them, each gets so little that packets are what counts.
pub(crate) const TYPICAL_SLOTS: usize = 8_192;

/// Part of its share that a flow has to bring to count for one: a flow that brings less counts for as much less. A class gets four times what its flows
/// bring, because one whose rate is just what they bring lets them wait and lose packets.
pub(crate) const WHOLE_PART: u64 = 4;

/// Rounds in which flows are weighed by shares that follow from their weights: from one to the next, idle flows count for a quarter or less.
pub(crate) const WEIGHING_ROUNDS: usize = 6;

/// Up to so much weight, a quarter of the slots, it is the sum over these; beyond, flows share them, have little each, and count for one.
pub(crate) const WEIGHT_MAX: u32 = 2_048;

/// For so many intervals after the last in which the high-rate class was short of something, two seconds, caps hold: TCP leaves a link idle now and then.
pub(crate) const SHORT_INTERVALS: u32 = 5;

/// Buckets in a row: 32 KB. Up to about as many flows, one that exceeds its rate shares both of its buckets with another by a chance of one in 4,096.
pub(crate) const BUCKETS: usize = 4_096;

/// What a low-delay flow may take at once of a fair share: three seconds of it, so that what TCP takes by chance above its mean fits.
pub(crate) const FAIR_BURST: Duration = Duration::from_secs(3);

/// And at least so many of the longest packets.
pub(crate) const FAIR_BURST_PACKETS: u64 = 4;

/// Part of a class, and of the share of a flow that owes, that nobody has: where all flows take what they may, a queue that is full would else stay
/// full, and lose packets of those who take less.
pub(crate) const SHARED_REST: u64 = 64;

/// For so many intervals after the last in which more came than there was room for, ten seconds, fair shares are remembered: who sends more than its own in bursts, with
/// pauses between, has not paid back until then.
pub(crate) const CALM_INTERVALS: u32 = 25;

/// The high-rate class is short of something where it had nothing to send for less than this part of an interval: its queue runs empty for a moment also where it takes all
/// that it gets, and who does not slow down would have what it leaves, and more, until the next interval.
pub(crate) const SHORT_IDLE_PART: u64 = 8;

/// What it may take at once of what a high-rate flow gets: a second of it.
pub(crate) const CAP_BURST: Duration = Duration::from_secs(1);

/// And at least so many of the longest packets: TCP's initial window (RFC 6928).
pub(crate) const CAP_BURST_PACKETS: u64 = 10;

/// From which fill of the low-delay queue on packets are marked.
pub(crate) const MARKING_BEGINS: f64 = 0.15;

/// At which fill all would be.
pub(crate) const MARKING_ENDS: f64 = 0.9;

/// How often the low-average class looks at what its packets wait (about as RFC 9332, appendix A.1, has it).
pub(crate) const GOVERNING_INTERVAL: Duration = Duration::from_millis(16);

/// The longest usual round trip, in seconds (RFC 9332, appendix A.1): what is told has its effect so much later.
pub(crate) const GOVERNED_ROUND_TRIP: f64 = 0.1;

/// How long after its last packet the low-average class forgets how much it had to drop.
pub(crate) const GOVERNING_EXPIRY: Duration = Duration::from_secs(1);

/// The square root of the share of low-average packets that is dropped or marked at most before there is no room: a quarter (RFC 9332, appendix A.1).
pub(crate) const GOVERNED_LEVEL_MAX: f64 = 0.5;

/// The longest delay that is promised: calculations stay far below what their numbers can hold.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// Ratios of rates are in thousandths; more than this many times the rate leaves the low-delay class nothing.
pub(crate) const RATIO_MILLI_MAX: u32 = 1_000_000;

/// The longest IP packet.
pub(crate) const PACKET_BYTES_MAX: u64 = 65_535;

/// To how many bytes lengths of low-delay packets are rounded up: packets that each are a byte longer than the one before have the queue looked through 183
/// times in a second, up to an Ethernet's MTU, and not 1,460 times.
pub(crate) const PACKET_STEP: u32 = 8;

/// What a packet may wait in a queue of its flow (RFC 8289, section 4.3).
pub(crate) const CODEL_TARGET: Duration = Duration::from_millis(5);

/// For how long that may be exceeded: the longest usual round trip (RFC 8289, section 4.3).
pub(crate) const CODEL_INTERVAL: Duration = Duration::from_millis(100);

/// Queues that flows are spread over (RFC 8290, section 5.2.3).
pub(crate) const FQ_CODEL_QUEUES: usize = 1_024;
