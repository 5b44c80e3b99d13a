//! Every limit of the controller, with its reason.

use std::time::Duration;

use crate::connections::Limits;

/// Longest body of a request: 8 addresses and round trips to all relays take under 8 KiB.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 10;

/// Most members. Each change of the network has the maps of all who wait looked through: at 20 us each, 80 ms.
pub(crate) const NODES_MAX: usize = 4_096;

/// Most relays: each agent has a session with each, to measure the round trip.
pub(crate) const RELAYS_MAX: usize = 64;

/// Most tokens at a time: each is looked at whenever somebody joins.
pub(crate) const TOKENS_MAX: usize = 1_024;

/// Most pairs of agents. The plan of their paths is made anew with every change: at 3 us a pair, 50 ms.
pub(crate) const PAIRS_MAX: usize = 16_384;

/// Most pairs of one agent: its map has some 2,400 bytes for each, and stays below a megabyte.
pub(crate) const PAIRS_PER_AGENT_MAX: usize = 256;

/// Most addresses of a node: as many as peers try.
pub(crate) const ADDRESSES_MAX: usize = byway_wire::limits::CANDIDATES_MAX;

/// Most pairings of one coding group: their packets meet in one shard of a relay, and so on one core.
pub(crate) const PAIRINGS_PER_GROUP_MAX: usize = 256;

/// How far the clocks of a node and the controller may differ: grants last a day, stamps of handshakes bear minutes.
pub(crate) const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(5 * 60);

/// How long a poll for a new map waits: shorter than the 30 s after which some NATs forget a connection.
pub(crate) const POLL_WAIT: Duration = Duration::from_secs(25);

/// A member is alive that was heard of within this time: two polls, and the round trips between them.
pub(crate) const ALIVE_SECONDS: u64 = 60;

/// Most polls of one node at the same time: one, and one that its machine has not noticed to be dead.
pub(crate) const POLLS_PER_NODE_MAX: usize = 2;

/// Most connections: each member polls on one, and reports on another.
pub(crate) const CONNECTIONS_MAX: usize = 2 * NODES_MAX + 64;

/// Most connections without a valid bearer secret: a quarter of the places is for members alone.
pub(crate) const STRANGERS_MAX: usize = CONNECTIONS_MAX / 4 * 3;

/// Most of them of one address: a site's nodes share one, and show their secrets within a few round trips.
pub(crate) const STRANGERS_PER_ADDRESS_MAX: usize = STRANGERS_MAX / 8;

/// Most of them of one network: one customer has many addresses, of IPv6 65,536 links.
pub(crate) const STRANGERS_PER_NETWORK_MAX: usize = STRANGERS_MAX / 4;

/// Connections of one member that count as a member's: a poll, and a report. Others are strangers', so that a few members
/// do not hold all places.
pub(crate) const CONNECTIONS_PER_MEMBER_MAX: usize = 2;

const _: () = assert!(CONNECTIONS_PER_MEMBER_MAX * NODES_MAX < CONNECTIONS_MAX);

/// Time for a TLS handshake, for the head and for the body of a request, and for a client that reads no answer: round
/// trips of two seconds fit.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Lifetime of a connection without a valid bearer secret: handshake, request and answer take [`PATIENCE`] each.
pub(crate) const STRANGER_LIFETIME: Duration = Duration::from_secs(30);

/// Limits of the controller's connections.
pub(crate) const CONNECTIONS: Limits = Limits {
    all: CONNECTIONS_MAX,
    strangers: STRANGERS_MAX,
    strangers_of_address: STRANGERS_PER_ADDRESS_MAX,
    strangers_of_network: STRANGERS_PER_NETWORK_MAX,
    of_member: CONNECTIONS_PER_MEMBER_MAX,
    patience: PATIENCE,
    stranger_lifetime: STRANGER_LIFETIME,
};

/// Joins at once, and per minute, from one address: a rack of machines that starts together gets in, a flood does not.
pub(crate) const JOIN_BURST: u32 = 30;
/// See [`JOIN_BURST`].
pub(crate) const JOINS_PER_MINUTE: u32 = 60;

/// Requests with a wrong bearer secret at once, and per minute, from one address, before they are refused as too many: a
/// rack of machines whose members were removed learns that from the answer.
pub(crate) const GUESS_BURST: u32 = 120;
/// See [`GUESS_BURST`].
pub(crate) const GUESSES_PER_MINUTE: u32 = 60;

/// The factor by which a network may ask more often than an address: four sites of one provider are busy at a time.
pub(crate) const NETWORK_FACTOR: u32 = 4;

/// Interval between log lines about a disk that takes nothing: each report of a member is refused meanwhile.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Changes at once, and per minute, by one node: each is a write to the disk.
pub(crate) const CHANGE_BURST: u32 = 20;
/// See [`CHANGE_BURST`].
pub(crate) const CHANGES_PER_MINUTE: u32 = 30;

/// Sources whose requests are counted apart; beyond, those that were silent longest are forgotten.
pub(crate) const THROTTLED_MAX: usize = 4_096;

/// Signatures of grants that are kept: of each pair both directions with all their paths, and each agent's own to each
/// relay, of a network of medium size; the rest is signed again, in 20 us each.
pub(crate) const SIGNATURES_KEPT_MAX: usize = 65_536;

/// A relay is nearer than the one in use if its round trip is shorter by this part of it, and by [`NEARER_MICROSECONDS`]:
/// what jitter does must not move flows.
pub(crate) const NEARER_DIVISOR: u64 = 10;
/// See [`NEARER_DIVISOR`].
pub(crate) const NEARER_MICROSECONDS: u64 = 500;

/// The longest round trip that a report is taken for; beyond, a relay is of no use.
pub(crate) const ROUND_TRIP_MICROSECONDS_MAX: u64 = 10_000_000;
