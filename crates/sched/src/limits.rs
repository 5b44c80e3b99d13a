//! Limits, and why they are what they are.

use byway_units::Duration;

/// How often flows are counted and buffers sized (T of the paper, section V).
pub(crate) const UPDATE_INTERVAL: Duration = Duration::from_millis(400);

/// A flow is active for so long after its last packet (E of the paper, section IV-B3).
pub(crate) const FLOW_EXPIRY: Duration = Duration::from_secs(1);

/// Slots of a flow counter: 144 KB of two bytes each, which is what 18,000 timestamps of eight bytes take. With 100,000 flows, 95 of 100
/// counts are within 1 %.
pub(crate) const FLOW_SLOTS: usize = 72_000;

/// Ratios of rates are in thousandths; more than this many times the rate leaves the low-delay class nothing.
pub(crate) const RATIO_MILLI_MAX: u32 = 1_000_000;

/// The longest IP packet.
pub(crate) const PACKET_BYTES_MAX: u64 = 65_535;

/// What a packet may wait in a queue of its flow (RFC 8289, section 4.3).
pub(crate) const CODEL_TARGET: Duration = Duration::from_millis(5);

/// For how long that may be exceeded: the longest usual round trip (RFC 8289, section 4.3).
pub(crate) const CODEL_INTERVAL: Duration = Duration::from_millis(100);

/// Queues that flows are spread over (RFC 8290, section 5.2.3).
pub(crate) const FQ_CODEL_QUEUES: usize = 1_024;
