//! Memory of a relay's shard for packets, and for what it knows of flows.

use byway_units::Bytes;

/// Memory of a shard for packets and for the state of flows, unless it is told otherwise: a third each for what egress and
/// ingress half keep of packets, one second of 500 Mbit/s each, and for the state of flows with receivers.
pub const RELAY_MEMORY: Bytes = Bytes::new(200_000_000);

/// Parts of that memory, all of one size.
pub const RELAY_MEMORY_PARTS: u64 = 3;

/// The least memory of a shard: ten milliseconds of 500 Mbit/s, and the state of a thousand flows.
pub const RELAY_MEMORY_MIN: Bytes = Bytes::new(4_000_000);

/// Of the memory for packets, one part in so many is for when they came: eight bytes for each 64.
pub const PACKET_TIMES_PART: u64 = 9;

/// Missing packets of a flow that are worked on whatever memory others take: as many as the smallest table of packets
/// tells where to find, and again those that were repaired and may be asked for once more. They take 512 bytes.
pub const MISSING_PACKETS_ALWAYS: usize = 16;

/// Ranges of numbers that wait to be known whatever memory others take: a burst, an outage, and one of each before.
pub const NACKED_RANGES_ALWAYS: usize = 4;

/// A tenant's flows may have so many times what is free: four fifths of all, where no other has any. A session's may have
/// as much as is free: half of all, where no other has any (dynamic thresholds, Choudhury and Hahne 1998).
pub const TENANT_SHARE: u64 = 4;
