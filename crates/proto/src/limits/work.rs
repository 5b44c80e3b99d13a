//! Work that relays do for their agents, and agents for relays and peers.
//!
//! A unit of work is what it takes to look at one number of a flow: some 20 ns on a server of 2020. A datagram of
//! 1,200 bytes takes two microseconds to be received and opened, so that 250 units for each of them triple its cost
//! and do not multiply it.

use super::MESSAGES_BYTES_MAX;

/// Most flows that one agent registers at one relay: as many as a busy proxy has, and what keeps one agent from
/// filling a relay.
pub const FLOWS_PER_SESSION_MAX: usize = 4_096;

/// Units of a registration that is entered or ended: it touches some ten tables.
pub const REGISTRATION_WORK: u64 = 100;

/// Units of a grant's signature (Ed25519): 50 microseconds.
pub const SIGNATURE_WORK: u64 = 2_500;

/// Most grants whose verified signature is remembered, at 250 bytes each: those of some hundred pairs of agents by a few paths.
pub const VERIFIED_GRANTS_MAX: usize = 1_024;

/// Units of decoding one batch of ten packets of full size: two microseconds.
pub const DECODING_WORK: u64 = 100;

/// Units of trying to solve several batches and blocks together, with up to twelve of each: ten microseconds.
pub const SOLVE_WORK: u64 = 500;

/// Most attempts of one input to solve several batches together: each of [`STUCK_ROUNDS_MAX`](super::STUCK_ROUNDS_MAX)
/// rounds twice, in 0.6 ms. Rounds that had no turn are tried with the next packet, and their copies are fetched.
pub const SOLVES_PER_INPUT_MAX: u64 = 2 * super::STUCK_ROUNDS_MAX as u64;

/// Units of work a second for the messages of one session: half a hundredth of a core. A receiver that loses all
/// packets of 500 flows of 100 packets/s asks for 50,000 a second, each up to four times.
pub const SESSION_WORK_PER_SECOND: u64 = 250_000;

/// And at once: all flows of a session are registered after a relay's restart, or 3 s of 800 such flows are asked
/// for four times.
pub const SESSION_WORK_BURST: u64 = 1_000_000;

/// Units of work a second for the messages of all sessions of a tenant: ten busy sessions, a twentieth of a core.
pub const TENANT_WORK_PER_SECOND: u64 = 10 * SESSION_WORK_PER_SECOND;

/// And at once: an outage of a region, in which ten busy sessions lose all packets.
pub const TENANT_WORK_BURST: u64 = 10 * SESSION_WORK_BURST;

/// Most tenants with an account of work, at some 60 bytes each. The accounts of those who do nothing give way.
pub const TENANTS_MAX: usize = 4_096;

/// Units of work for one datagram of an agent: NACKs of 54 flows for an outage of 6 s at 200 packets/s. At more, the
/// packets of others would wait for longer than a millisecond.
pub const DATAGRAM_WORK_MAX: u64 = 1 << 16;

/// Most units of work of one input of an agent or a relay, a datagram or what is due: beyond [`DATAGRAM_WORK_MAX`], no further
/// message is read and no further timer handled, and the last one may cost half of that again, as the messages of what
/// sessions tell each other may.
///
/// The begin and the end of a session with a relay cost the agent one unit for each flow and each of its paths. The end of a
/// relay's session with an agent costs [`REGISTRATION_WORK`] for each registration.
pub const INPUT_WORK_MAX: u64 = 2 * DATAGRAM_WORK_MAX;

/// Most bytes of messages in one datagram of an agent: its agent sends no more in one, and repair packets are shorter
/// than an Ethernet frame.
pub const AGENT_MESSAGES_BYTES_MAX: usize = 1_500;

/// Most messages in one datagram of an agent: as many ACKs, at nine bytes the shortest, as an agent sends in one.
pub const AGENT_MESSAGES_MAX: usize = MESSAGES_BYTES_MAX / 9;

/// Most ranges of numbers of one flow that a receiver asked for and that wait for repair packets: as many as a NACK
/// names. A range takes 40 bytes however many numbers it has.
pub const NACKED_RANGES_MAX: usize = super::RANGES_MAX;

/// A range that has so many numbers or more is remembered although all can be repaired: the same question within a
/// round trip is then not looked at.
pub const NACKED_NUMBERS_MIN: u64 = 16;

/// Most aliases of one flow, of all relays that announce it, that are told when its receivers come and go: four relays
/// with eight registrations each. The oldest give way.
pub const HEARD_PER_FLOW_MAX: usize = 32;

const _: () = assert!(
    FLOWS_PER_SESSION_MAX as u64 * REGISTRATION_WORK * 2 <= SESSION_WORK_BURST,
    "all flows of a session can be registered at once, and again"
);
