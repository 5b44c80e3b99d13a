//! Memory limits of a relay's shard, for packets and for the state of flows.

use byway_units::Bytes;

use super::{EGRESS_FLOWS_MAX, INGRESS_FLOWS_MAX, TENANTS_MAX, VERIFIED_GRANTS_MAX};

/// Default memory of a relay's shard for sessions, flows and packets: a second of 400 Mbit/s in
/// each half's packet store, and the highest number of sessions.
pub const RELAY_MEMORY: Bytes = Bytes::new(400_000_000);

/// Number of equal parts of a shard's memory. The packets of the egress and the ingress half have
/// one each, and so has the state of received and sent flows. Sessions have two, and registrations
/// have two.
pub const RELAY_MEMORY_PARTS: u64 = 8;

/// Parts of [`RELAY_MEMORY_PARTS`] for sessions, and as many for registrations.
pub const RELAY_MEMORY_TABLE_PARTS: u64 = 2;

/// Inverse of the share of one memory part for aliases that other relays advertise for flows
/// without a receiver at this relay: at the default memory, 80,000 aliases.
pub const REMOTE_FLOW_MEMORY_PART: u64 = 4;

/// Least memory of a relay's shard: 20 milliseconds of 400 Mbit/s, and a hundred sessions.
pub const RELAY_MEMORY_MIN: Bytes = Bytes::new(8_000_000);

/// Memory of a shard that is reserved for its initial state, for verified grants and for accounts
/// of tenants.
pub const RELAY_BASE_BYTES: u64 = 1_160_000;

/// Memory of a shard's initial state: decoders and tables of addresses, 170 kB as measured, and
/// ended decode attempts, 36 kB.
pub const RELAY_START_BYTES: u64 = 240_000;

/// Memory of one grant whose signature a relay has verified, in bytes.
pub const VERIFIED_GRANT_BYTES: u64 = 320;

/// Memory of one tenant's accounts of work, of memory, of traffic and of tables, in bytes.
pub const TENANT_BYTES: u64 = 142;

const _: () = assert!(
    RELAY_START_BYTES + VERIFIED_GRANTS_MAX as u64 * VERIFIED_GRANT_BYTES + TENANTS_MAX as u64 * TENANT_BYTES
        <= RELAY_BASE_BYTES,
    "the reserved memory suffices for the initial state, grants and tenants"
);

/// Highest memory of a relay's session with an agent, in bytes. It is 3.3 kB as measured with three
/// epochs and their keys, and 1.4 kB of unsent messages and a response.
pub const SESSION_BYTES: u64 = 4_800;

/// Memory of one idle registration at a relay, of a sender or a receiver, in bytes, with its
/// entries in the tables of both halves.
pub const REGISTRATION_BYTES: u64 = 3_400;

/// Most registrations of a shard with any memory: one less than each half has entries. So a tenant
/// below its share finds a free entry, even in a half that another tenant's flows fill, before one
/// of those ends for it.
pub const REGISTRATIONS_MAX: u64 = EGRESS_FLOWS_MAX as u64 - 1;

const _: () = assert!(EGRESS_FLOWS_MAX <= INGRESS_FLOWS_MAX);

/// Highest limit of a tenant's registered flows that an operator can set: no shard has memory for
/// more.
pub const TENANT_FLOWS_LIMIT: u64 = 1_000_000;

/// Most sessions of a tenant that a relay scans for one to end, if another tenant's session needs
/// the memory: the scan takes a microsecond.
pub const EVICTION_SCAN_MAX: usize = 32;

/// Most flows that wait for an alias taken from another tenant, until it may be reused: 128 a
/// second on each path. For each, the whole table of 65,535 aliases is scanned, which takes 100 us:
/// 1.3 % of a core.
pub const ALIASES_AWAITED_MAX: usize = 256;

/// Inverse of the share of a relay's packet memory that stores arrival times: eight bytes for each
/// 64.
pub const PACKET_TIMES_PART: u64 = 9;

/// Missing packets of a flow that a relay repairs at any memory use. They are as many as the
/// smallest packet table can locate, and as many repaired ones that may be requested once more.
/// They need 512 bytes.
pub const MISSING_PACKETS_ALWAYS: usize = 16;

/// `NACKed` ranges of a flow that wait for repair packets at a relay at any memory use: a burst, an
/// outage, and one of each before.
pub const NACKED_RANGES_ALWAYS: usize = 4;

/// Highest memory of a tenant's flows at a relay, as a multiple of the free memory: four fifths of
/// all, if no other tenant has any. One session's flows may have as much as is free, so half of all
/// if no other session has any (dynamic thresholds, Choudhury and Hahne 1998).
pub const TENANT_SHARE: u64 = 4;
