//! Limits of flow set-up: its delay, and its cost.

use byway_units::{Bytes, Duration, Rate};

use super::{INGRESS_RELAYS_MAX, RELAYED_BURST, RELAYED_RATE};

/// First timeouts of a handshake's initiation to another agent; short, because an application waits
/// for it with its first flow. The responder recognizes a repetition by its bytes, and repeats its
/// response.
pub const AGENT_HANDSHAKE_RETRY: Duration = Duration::from_millis(100);

/// Transmissions of one initiation to another agent. After them, within 2.7 s, the agent creates a
/// new initiation. The last one is later than [`GLARE_GRACE`](super::GLARE_GRACE).
pub const AGENT_HANDSHAKE_TRIES: u8 = 7;

/// Transmissions of a message at a constant interval, before the interval doubles, if an
/// application waits for the answer. If a quarter of the packets is lost in each direction, four
/// tries fail once in 30 times.
pub const HASTY_TRIES: u32 = 3;

/// Registration requests to a relay before their interval grows beyond a second. If 30 % are lost
/// in each direction, eight requests fail once in 200 times.
pub const REGISTER_STEADY_TRIES: u32 = 8;

/// Most relays through which an agent sends messages to one peer at the same time: one for each
/// relay path.
pub const VIA_RELAYS_MAX: usize = INGRESS_RELAYS_MAX;

/// Time after a handshake's response through a relay for which the same response by the direct path
/// validates that path: longer than the skew of the two paths.
pub const LATE_RESPONSE_FOR: Duration = Duration::from_secs(1);

/// First timeouts of an offer; short, because an application waits. After [`HASTY_TRIES`], each
/// timeout is twice as long as the previous.
pub const OFFER_RETRY: Duration = Duration::from_millis(100);

/// Longest timeout of an offer, see [`OFFER_RETRY`]. A peer that is reachable again gets the offer
/// at once.
pub const OFFER_RETRY_MAX: Duration = Duration::from_secs(8);

/// Time for which an agent repeats the refusal of an offer without its driver. An offer arrives by
/// several paths, and is repeated; no copy of it is later than this.
pub const REFUSAL_STANDS_FOR: Duration = Duration::from_secs(1);

/// Most refusals that an agent remembers for [`REFUSAL_STANDS_FOR`], of all peers: those of a
/// second in which peers send offer after offer.
pub const REFUSALS_MAX: usize = 256;

/// Most offers to one peer that an agent sends on all paths when they are due together; further
/// ones use one path. More, as after a restart of the peer, would use up the rate at which relays
/// forward for an agent, and delay handshakes.
pub const URGENT_OFFERS_MAX: usize = 32;

/// Longest time for which a datagram waits for a session with a peer, or for a path to it: long
/// enough for several tries of the handshake. A datagram that waits longer than its latency budget
/// is sent, and counts as late.
pub const PENDING_DATAGRAM_LIFETIME: Duration = Duration::from_millis(1_250);

/// Most bytes of all datagrams that wait for a session or path, with their metadata: 6 video calls
/// of 500 kB/s send as much in [`PENDING_DATAGRAM_LIFETIME`].
pub const PENDING_BYTES_MAX: usize = 4 << 20;

/// Most datagrams of one flow that are sent with its offer, before the peer has answered: a third
/// of a second of packets of a voice or video call.
pub const EARLY_DATAGRAMS_MAX: usize = 32;

/// Most bytes of one flow's early datagrams, a little more than the initial window of TCP (RFC
/// 6928, section 2: 14,600 bytes). Nothing is known of the path yet.
pub const EARLY_BYTES_MAX: usize = 16 << 10;

/// Most early datagrams of all flows to or from one peer.
pub const EARLY_DATAGRAMS_PER_PEER_MAX: usize = 64;

/// Most bytes of the early datagrams of all flows to or from one peer: two flows at their limit.
pub const EARLY_BYTES_PER_PEER_MAX: usize = 32 << 10;

/// Transmissions of an early datagram through relays: the first one, and one repetition. Later
/// repetitions use the direct path only.
pub const EARLY_RELAYED_FLIGHTS_MAX: u8 = 2;

/// Rate of early data that an agent sends through relays to all peers: half of [`RELAYED_RATE`].
/// The other half is for offers, their answers and handshakes.
pub const EARLY_RELAYED_RATE: Rate = Rate::from_kilobits_per_second(500);

/// Burst size of [`EARLY_RELAYED_RATE`]: half of [`RELAYED_BURST`].
pub const EARLY_RELAYED_BURST: Bytes = Bytes::new(32 << 10);

const _: () = assert!(
    2 * EARLY_RELAYED_RATE.bits_per_second() <= RELAYED_RATE.bits_per_second()
        && 2 * EARLY_RELAYED_BURST.count() <= RELAYED_BURST.count(),
    "early data use at most half of the rate at which relays forward for an agent"
);

/// Longest timeout of the first path challenge to an address; short, because packets may wait for
/// the path.
pub const CHALLENGE_RETRY: Duration = Duration::from_millis(100);
