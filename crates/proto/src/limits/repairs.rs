//! Limits of repairs at relays.

use byway_units::Duration;

/// Latest packets of one flow that the egress relay can locate: 2 s of a flow of 1,000 packets/s.
pub const COVERED_PACKETS_MAX: usize = 2_048;

/// Most missing packets of one flow that an egress relay repairs at a time: an outage of one second
/// at 1,000 packets/s.
pub const MISSING_PACKETS_MAX: usize = 1_024;

/// Most repairs that an egress relay sends one receiver for one packet: the first, and two more if
/// repairs are lost. On an access link that loses 30 %, one packet in eleven loses two repairs in a
/// row. More would make relays amplifiers.
pub const REPAIRS_PER_PACKET_MAX: u8 = 3;

/// Longest distance of a `NACKed` packet from the highest number that a relay knows. It covers the
/// packets that the relay remembers, and as many ahead that it may not know yet. A longer NACK is
/// truncated, so a request for everything costs little.
pub const NACK_REACH: u64 = COVERED_PACKETS_MAX as u64;

/// Most packets before the newest that a relay repairs at once after an open-ended NACK: older ones
/// are past every deadline of an interactive flow.
pub const OPEN_ENDED_BACKLOG_MAX: u64 = 256;

/// Time after an open-ended NACK for which a relay may take its packets for in flight on the direct
/// path, and delay their repair. It is longer than most bursts of losses, and short enough for
/// outages.
pub const IN_FLIGHT_FOR: Duration = Duration::from_millis(80);

/// Most packets under open-ended NACKs that a relay may take for in flight, over all flows: a burst
/// of losses of a hundred flows of 100 packets/s. Further packets are repaired at once.
pub const IN_FLIGHT_MAX: usize = 4_096;

/// Shortest pause after a copy before an egress relay sends the receiver a tail-loss hint. Packets
/// that were sent together may arrive this far apart after two segments with jitter.
pub const TAIL_PAUSE_MIN: Duration = Duration::from_millis(8);

/// Longest pause after a copy before a tail-loss hint: a receiver detects by itself that a flow
/// with steadier pauses has stopped.
pub const TAIL_PAUSE_MAX: Duration = Duration::from_millis(250);

/// Most in-stream blocks of one flow that an egress relay stores: with blocks of 5, 80 packets.
pub const BLOCKS_MAX: usize = 16;

/// Most repair packets of an in-stream block that a node stores: twice the default of 2, for
/// periods of high loss.
pub const BLOCK_REPAIRS_MAX: usize = 4;
/// Most repair packets of a cross-stream batch that a relay stores, see [`BLOCK_REPAIRS_MAX`].
pub const BATCH_REPAIRS_MAX: usize = 4;

/// Probability that a decode attempt has to wait for late answers, in units of 1/65,536, above
/// which the egress relay also fetches the packet from the ingress relay. At this value, one repair
/// in eight would be late. A fetch costs relays one packet for each lost one, where another repair
/// packet would cost one for each batch.
pub const LATE_ANSWERS_CHANCE_MAX: u32 = (1 << 16) / 8;

/// Most batches of one ingress relay that an egress relay stores: half a second at 130,000 source
/// packets/s in batches of 8.
pub const BATCHES_MAX: usize = 8_192;

/// Most decode attempts of an egress relay at the same time: one second of an outage of ten flows
/// of 100 packets/s needs 1,000.
pub const DECODE_ATTEMPTS_MAX: usize = 4_096;

/// Ended decode attempts whose memory an egress relay reuses: a loss in a few flows at a time
/// allocates nothing.
pub const SPARE_DECODE_ATTEMPTS_MAX: usize = 16;

/// Time for which an egress relay stores repair packets and copies: longer than every latency
/// budget of an interactive flow.
pub const REPAIR_RETENTION: Duration = Duration::from_secs(2);

/// Burst size of a flow's repair budget at an egress relay, as time at the flow's rate. So an
/// outage that is detected late can be repaired at once.
pub const REPAIR_BURST: Duration = Duration::from_secs(2);
