//! How long a flow's beginning takes, and what it may cost.

use byway_units::{Bytes, Duration, Rate};

use super::{FEEDERS_MAX, RELAYED_BURST, RELAYED_RATE};

/// How long an initiation to another agent waits for its response, before each of the first repetitions: with the
/// first flow, an application waits for it. The responder knows a repeated one by its bytes, and answers it with the
/// same response.
pub const AGENT_HANDSHAKE_RETRY: Duration = Duration::from_millis(100);

/// Announcements of an idle flow's alias before the time between them begins to double, up to 8 s: one of five arrives on
/// a path that loses every second packet, with its answer, in 76 of 100 cases. Then the egress relay tells of a receiver
/// that comes.
pub const ANNOUNCED_OFTEN: u8 = 4;

/// How often one initiation is sent to another agent; after 2.7 s a new one follows. The last comes after
/// [`GLARE_GRACE`](super::GLARE_GRACE).
pub const AGENT_HANDSHAKE_TRIES: u8 = 7;

/// How often something that an application waits for is repeated before the time between doubles: where a quarter of
/// the packets is lost each way, four tries fail once in 30 times.
pub const HASTY_TRIES: u32 = 3;

/// Most relays by which a peer is reached at the same time: one for each path that stands by.
pub const DETOURS_MAX: usize = FEEDERS_MAX;

/// How long after the response that came through a relay the same response proves the direct path: longer than the
/// two ways are apart.
pub const LATE_RESPONSE_FOR: Duration = Duration::from_secs(1);

/// How long an offer waits for its answer before each of the first repetitions, after [`HASTY_TRIES`] twice as long
/// each time: an application waits for it.
pub const OFFER_RETRY: Duration = Duration::from_millis(100);

/// See [`OFFER_RETRY`]. A peer that is back is asked at once.
pub const OFFER_RETRY_MAX: Duration = Duration::from_secs(8);

/// How long a refusal answers the same offer without the driver: an offer comes by several ways, and is repeated, and
/// none of these is further behind.
pub const REFUSAL_STANDS_FOR: Duration = Duration::from_secs(1);

/// Most refusals that do, of all peers: those of a second in which peers offer one after the other.
pub const REFUSALS_MAX: usize = 256;

/// Most offers to one peer that go by every way at once: more, as after a restart of the peer, would use up what relays
/// pass on for an agent, and others' handshakes with it.
pub const URGENT_OFFERS_MAX: usize = 32;

/// How long a datagram waits for a session with a peer, or a way to it. The first packet of a handshake is worth that; its
/// delay is not counted, as it says nothing about a path. One that waits longer than its latency budget counts as late.
pub const WAITS_FOR_WAY: Duration = Duration::from_millis(1_250);

/// Bytes of all datagrams that wait so, with what is kept beside each: 6 video calls of 500 kB/s send as much meanwhile.
pub const WAITING_BYTES_MAX: usize = 4 << 20;

/// Datagrams of one flow that travel with its offer, before the peer has answered: a third of a
/// second of packets of a voice or video call.
pub const EARLY_DATAGRAMS_MAX: usize = 32;

/// Their bytes: a little more than the initial window of TCP (RFC 6928, section 2: 14,600 bytes),
/// because nothing is known of the path yet.
pub const EARLY_BYTES_MAX: usize = 16 << 10;

/// Datagrams of all flows to or from one peer that travel so.
pub const EARLY_DATAGRAMS_PER_PEER_MAX: usize = 64;

/// Their bytes: two flows at their limit.
pub const EARLY_BYTES_PER_PEER_MAX: usize = 32 << 10;

/// Flights of an early datagram through relays: the first one, and one repetition. Later repetitions
/// take the direct path only.
pub const EARLY_RELAYED_FLIGHTS_MAX: u8 = 2;

/// Early data that an agent sends through relays to all peers. It is half of [`RELAYED_RATE`]. The
/// other half is for offers, their answers and handshakes.
pub const EARLY_RELAYED_RATE: Rate = Rate::from_kilobits_per_second(500);

/// See [`EARLY_RELAYED_RATE`]: half of [`RELAYED_BURST`].
pub const EARLY_RELAYED_BURST: Bytes = Bytes::new(32 << 10);

const _: () = assert!(
    2 * EARLY_RELAYED_RATE.bits_per_second() <= RELAYED_RATE.bits_per_second()
        && 2 * EARLY_RELAYED_BURST.count() <= RELAYED_BURST.count(),
    "half of what relays pass on is not for early data"
);

/// How long the first challenge of an address waits for its answer at most; packets may wait for that.
pub const CHALLENGE_RETRY: Duration = Duration::from_millis(100);
