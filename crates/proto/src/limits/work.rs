//! Work limits of relays for their agents, and of agents for relays and peers.
//!
//! A unit of work is the time to examine one sequence number: about 20 ns on a server of 2020.
//! Receiving and opening a datagram of 1,200 bytes takes two microseconds. So 250 more units for
//! each of them raise its cost to about three times as much.

use super::MESSAGES_BYTES_MAX;

/// Most flows that one agent registers at one relay: as many as a busy proxy has, and few enough
/// that one agent does not fill a relay.
pub const FLOWS_PER_SESSION_MAX: usize = 4_096;

/// Units of work of a flow's registration at a relay, or of its end: each touches about ten tables.
pub const REGISTRATION_WORK: u64 = 100;

/// Units of work to verify a grant's signature (Ed25519): 50 microseconds.
pub const SIGNATURE_WORK: u64 = 2_500;

/// Most grants with a verified signature that a relay remembers, at 250 bytes each: those of about
/// a hundred pairs of agents with a few paths.
pub const VERIFIED_GRANTS_MAX: usize = 1_024;

/// Units of work to decode one batch of ten packets of full size: two microseconds.
pub const DECODING_WORK: u64 = 100;

/// Units of work of a joint decode of several batches and blocks, with up to twelve of each: ten
/// microseconds.
pub const SOLVE_WORK: u64 = 500;

/// Most joint decodes of a relay for one input: two for each of
/// [`UNDECODABLE_ATTEMPTS_MAX`](super::UNDECODABLE_ATTEMPTS_MAX) undecodable attempts, in 0.6 ms.
/// Further attempts are tried with the next packet, and the relay fetches their copies.
pub const SOLVES_PER_INPUT_MAX: u64 = 2 * super::UNDECODABLE_ATTEMPTS_MAX as u64;

/// Units of work per second that a relay spends on the messages of one session: 0.5 % of a core. A
/// receiver that loses all packets of 500 flows of 100 packets/s requests 50,000 a second, each up
/// to four times.
pub const SESSION_WORK_PER_SECOND: u64 = 250_000;

/// Units of work at once that a relay spends on the messages of one session. A session registers
/// all flows after a relay's restart, or requests 3 s of 800 such flows four times.
pub const SESSION_WORK_BURST: u64 = 1_000_000;

/// Units of work per second that a relay spends on the messages of all sessions of a tenant: ten
/// busy sessions, 5 % of a core.
pub const TENANT_WORK_PER_SECOND: u64 = 10 * SESSION_WORK_PER_SECOND;

/// Units of work at once that a relay spends on all sessions of a tenant: an outage of a region, in
/// which ten busy sessions lose all packets.
pub const TENANT_WORK_BURST: u64 = 10 * SESSION_WORK_BURST;

/// Most tenants with an account of work at a relay, at about 60 bytes each. Accounts of idle
/// tenants are dropped first.
pub const TENANTS_MAX: usize = 4_096;

/// Units of work that a node spends on one datagram of an agent: NACKs of 54 flows for an outage of
/// 6 s at 200 packets/s. With more, the packets of others would wait for longer than a millisecond.
pub const DATAGRAM_WORK_MAX: u64 = 1 << 16;

/// Most units of work of one input of an agent or a relay: a datagram, or a deadline. Beyond
/// [`DATAGRAM_WORK_MAX`], the node handles no further message and no further timer. The last one
/// may cost half of that again, and so may the messages about sessions.
///
/// If a session with a relay begins or ends, each flow of the agent costs one unit, and one for
/// each of its paths. If a relay's session with an agent ends, so do its registrations, at
/// [`REGISTRATION_WORK`].
pub const INPUT_WORK_MAX: u64 = 2 * DATAGRAM_WORK_MAX;

/// Most bytes of messages in one datagram of an agent that a relay handles. An agent sends no more
/// in one, and repair packets are shorter than an Ethernet frame.
pub const AGENT_MESSAGES_BYTES_MAX: usize = 1_500;

/// Most messages in one datagram of an agent that a relay handles: as many ACKs, at nine bytes the
/// shortest message, as fit one.
pub const AGENT_MESSAGES_MAX: usize = MESSAGES_BYTES_MAX / 9;

/// Most ranges of `NACKed` sequence numbers of one flow that wait for repair packets at an egress
/// relay: as many as a NACK contains. A range needs 40 bytes with any length.
pub const NACKED_RANGES_MAX: usize = super::RANGES_MAX;

/// Length from which an egress relay remembers a `NACKed` range even if it can repair all of it.
/// The relay then ignores the same NACK within a round trip.
pub const NACKED_NUMBERS_MIN: u64 = 16;

/// Most aliases of one flow that an egress relay stores, of all relays that advertise it. Those
/// relays are notified when the flow's receivers begin or end. Four relays with eight registrations
/// each fit; the oldest are dropped.
pub const REMOTE_ALIASES_PER_FLOW_MAX: usize = 32;

const _: () = assert!(
    FLOWS_PER_SESSION_MAX as u64 * REGISTRATION_WORK * 2 <= SESSION_WORK_BURST,
    "all flows of a session can be registered twice at once"
);
