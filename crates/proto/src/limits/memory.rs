//! Memory of a relay's shard for packets, and for what it knows of flows.

use byway_units::Bytes;

use super::{EGRESS_FLOWS_MAX, INGRESS_FLOWS_MAX, TENANTS_MAX, VERIFIED_GRANTS_MAX};

/// Memory of a shard for all that grows with what comes, unless it is told otherwise: a second of 400 Mbit/s in each half's
/// store of packets, and as many sessions as there may be.
pub const RELAY_MEMORY: Bytes = Bytes::new(400_000_000);

/// Parts of that memory, all of one size: one each for the packets that egress and ingress half keep, and for the state of flows
/// that are received and sent; two each for sessions and for registrations.
pub const RELAY_MEMORY_PARTS: u64 = 8;

/// See [`RELAY_MEMORY_PARTS`].
pub const RELAY_MEMORY_TABLE_PARTS: u64 = 2;

/// Of one part, a part in so many is for what other relays call flows without a receiver here: at the default memory, 80,000.
pub const HEARD_MEMORY_PART: u64 = 4;

/// The least memory of a shard: 20 milliseconds of 400 Mbit/s, and a hundred sessions.
pub const RELAY_MEMORY_MIN: Bytes = Bytes::new(8_000_000);

/// Memory of a relay's shard that is set aside for what is there from the start, for verified grants and for accounts of tenants.
pub const RELAY_BASE_BYTES: u64 = 1_040_000;

/// Memory of a relay's shard that is there from the start: decoders and tables of addresses, 170 kB as measured; and of rounds that ended, 36 kB.
pub const RELAY_START_BYTES: u64 = 240_000;

/// Memory of a grant whose signature was verified.
pub const VERIFIED_GRANT_BYTES: u64 = 320;

/// Memory of a tenant's accounts of work, of memory and of tables.
pub const TENANT_BYTES: u64 = 110;

const _: () = assert!(
    RELAY_START_BYTES + VERIFIED_GRANTS_MAX as u64 * VERIFIED_GRANT_BYTES + TENANTS_MAX as u64 * TENANT_BYTES
        <= RELAY_BASE_BYTES,
    "what is set aside is enough"
);

/// Memory of a session with an agent, at its most: 3.3 kB are measured with three epochs and their keys, and messages that wait to be
/// sent and a response take 1.4 kB.
pub const SESSION_BYTES: u64 = 4_800;

/// Memory of a registration at rest, whichever way its flow goes, with its places in the tables of both halves.
pub const REGISTRATION_BYTES: u64 = 3_400;

/// Registrations of a shard, whatever its memory: one less than each half has places. So a tenant below its share finds a place in a half
/// that another tenant's flows fill, before one of those ends for it.
pub const REGISTRATIONS_MAX: u64 = EGRESS_FLOWS_MAX as u64 - 1;

const _: () = assert!(EGRESS_FLOWS_MAX <= INGRESS_FLOWS_MAX);

/// Highest limit of a tenant's registered flows: no shard has memory for more.
pub const TENANT_FLOWS_LIMIT: u64 = 1_000_000;

/// Sessions of a tenant that are looked at for one that ends for another tenant's: what takes a microsecond.
pub const VICTIMS_LOOKED_AT: usize = 32;

/// Flows that wait at once for an alias which was taken from another tenant and rests: 128 a second on each way. The whole table of 65,535
/// aliases is looked through for each, which takes 100 us: 1.3 % of a core.
pub const ALIASES_AWAITED_MAX: usize = 256;

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
