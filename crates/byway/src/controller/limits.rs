//! Limits of the controller, with their reasons.

use std::time::Duration;

use crate::connections::Limits;

/// Longest body of a request, in bytes. 8 addresses and round trips to all relays take less than 8
/// KiB.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 10;

/// Maximum number of members of a network. After each change, the controller checks the maps of all
/// polling members: at 20 us each, 80 ms.
pub(crate) const NODES_MAX: usize = 4_096;

/// Maximum number of relays of a network. Each agent has a session with each relay, to measure the
/// round trip.
pub(crate) const RELAYS_MAX: usize = 64;

/// Maximum number of valid tokens. Each join is compared with all of them.
pub(crate) const TOKENS_MAX: usize = 1_024;

/// Maximum number of pairs of agents in a network. After each change, the controller plans all
/// their paths again: at 3 us a pair, 50 ms.
pub(crate) const PAIRS_MAX: usize = 16_384;

/// Maximum number of pairs of one agent. Its map has some 2,400 bytes for each, and stays below a
/// megabyte.
pub(crate) const PAIRS_PER_AGENT_MAX: usize = 256;

/// Maximum number of addresses of a node: as many as its peers try.
pub(crate) const ADDRESSES_MAX: usize = byway_wire::limits::CANDIDATES_MAX;

/// Maximum number of pairings of one coding group. A group's packets meet in one shard of a relay,
/// and thus on one core.
pub(crate) const PAIRINGS_PER_GROUP_MAX: usize = 256;

/// Largest difference between the clocks of the controller and a node that joins. Grants last a
/// day, and handshake timestamps tolerate minutes.
pub(crate) const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(5 * 60);

/// Longest time for which the controller delays the answer to a member's poll for a new map. It is
/// shorter than the 30 s after which some NATs forget a connection.
pub(crate) const POLL_TIMEOUT: Duration = Duration::from_secs(25);

/// Seconds after its latest request for which a member counts as alive: two polls, and the round
/// trips between them.
pub(crate) const ALIVE_SECONDS: u64 = 60;

/// Maximum number of simultaneous polls of one node: one, and a dead one that its machine has not
/// detected.
pub(crate) const POLLS_PER_NODE_MAX: usize = 2;

/// Maximum number of connections to the controller: each member polls on one, and reports on
/// another. An application reads on one, and registers flows on another.
pub(crate) const CONNECTIONS_MAX: usize = 2 * (NODES_MAX + TOKENS_MAX) + 64;

/// Maximum number of connections without a valid bearer secret. A quarter of all connections is
/// thereby reserved for members.
pub(crate) const STRANGERS_MAX: usize = CONNECTIONS_MAX / 4 * 3;

/// Maximum number of strangers' connections of one address. A site's nodes share one address, and
/// show their secrets within a few round trips.
pub(crate) const STRANGERS_PER_ADDRESS_MAX: usize = STRANGERS_MAX / 8;

/// Maximum number of strangers' connections of one network. One customer has many addresses, and
/// with IPv6 65,536 links.
pub(crate) const STRANGERS_PER_NETWORK_MAX: usize = STRANGERS_MAX / 4;

/// Number of connections of one member, or of one application, that count as a member's: a poll and
/// a report. Further ones count as strangers'. A few members therefore cannot occupy all
/// connections.
pub(crate) const CONNECTIONS_PER_MEMBER_MAX: usize = 2;

const _: () = assert!(CONNECTIONS_PER_MEMBER_MAX * (NODES_MAX + TOKENS_MAX) < CONNECTIONS_MAX);

/// Timeout at the controller: of a TLS handshake, of the head and the body of a request, and of a
/// client that reads no answer. Round trips of two seconds fit.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Lifetime of a connection to the controller without a valid bearer secret: handshake, request and
/// answer take [`REQUEST_TIMEOUT`] each.
pub(crate) const STRANGER_LIFETIME: Duration = Duration::from_secs(30);

/// Limits of the connections to the controller.
pub(crate) const CONNECTIONS: Limits = Limits {
    all: CONNECTIONS_MAX,
    strangers: STRANGERS_MAX,
    strangers_of_address: STRANGERS_PER_ADDRESS_MAX,
    strangers_of_network: STRANGERS_PER_NETWORK_MAX,
    of_member: CONNECTIONS_PER_MEMBER_MAX,
    timeout: REQUEST_TIMEOUT,
    stranger_lifetime: STRANGER_LIFETIME,
};

/// Joins that one address may request in a burst. The limit admits a rack of machines that start
/// together, and stops a flood.
pub(crate) const JOIN_BURST: u32 = 30;
/// Joins that one address may request per minute, after [`JOIN_BURST`].
pub(crate) const JOINS_PER_MINUTE: u32 = 60;

/// Requests with a wrong bearer secret that one address may send in a burst. Later ones are refused
/// as too many. A rack of machines whose members were removed still learns the reason from the
/// answers.
pub(crate) const GUESS_BURST: u32 = 120;
/// Requests with a wrong bearer secret that one address may send per minute, after [`GUESS_BURST`].
pub(crate) const GUESSES_PER_MINUTE: u32 = 60;

/// Factor between the rate limit of a network and that of an address, because four sites of one
/// provider may be busy at a time.
pub(crate) const NETWORK_FACTOR: u32 = 4;

/// Interval between log messages about a failing disk. Each report of a member fails until it works
/// again.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Changes of the network that one node may request in a burst. Each is a write to the disk.
pub(crate) const CHANGE_BURST: u32 = 20;
/// Changes of the network that one node may request per minute, after [`CHANGE_BURST`].
pub(crate) const CHANGES_PER_MINUTE: u32 = 30;

/// Maximum number of sources whose requests a rate limiter counts separately. For further ones, it
/// forgets the sources that have their whole burst again, or else the one that is nearest to that.
pub(crate) const THROTTLED_MAX: usize = 4_096;

/// Maximum number of grants' signatures in the cache. A network of medium size needs them for all
/// paths of each pair in both directions, and for each agent's sessions with relays. Signing one
/// again takes 20 us.
pub(crate) const SIGNATURES_CACHED_MAX: usize = 65_536;

/// Divisor of the round trip to an agent's nearest relay so far. Another relay replaces it if its
/// round trip is shorter by this part, and by [`NEARER_MICROSECONDS`]. Jitter thus moves no flows.
pub(crate) const NEARER_DIVISOR: u64 = 10;
/// Microseconds by which a relay's round trip must be shorter, besides [`NEARER_DIVISOR`].
pub(crate) const NEARER_MICROSECONDS: u64 = 500;

/// Longest round trip to a relay that the controller stores, in microseconds. Longer reports are
/// stored as this; such a relay is useless.
pub(crate) const ROUND_TRIP_MICROSECONDS_MAX: u64 = 10_000_000;

/// Maximum number of links in the controller's settings: those of a network with as many relays as
/// it may have, and of fifteen routers beside each.
pub(crate) const STATE_LINKS_MAX: usize = 1_024;

/// Maximum number of paths in the controller's settings. Each query compares its addresses with
/// all of them: at 5 ns each, 3 us.
pub(crate) const STATE_PATHS_MAX: usize = 512;

/// Maximum number of links of all paths together. A table has 100 entries of 120 bytes for each:
/// 100 MB in all.
pub(crate) const STATE_PATH_LINKS_MAX: usize = 8_192;

/// Maximum number of prefixes of all tenants together, which each registration is compared with.
pub(crate) const STATE_PREFIXES_MAX: usize = 4_096;

/// Maximum number of links that one node reports: as many as a path may have.
pub(crate) const LINKS_PER_BATCH_MAX: usize = byway_state::LINKS_MAX;

/// Longest record of samples, in bytes. 64 links of 63 letters take 20 KiB with all digits.
pub(crate) const RECORD_BYTES_MAX: usize = 32 << 10;

/// Records of samples that one node may send in a burst: those of the 5 s after which a table
/// forgets, sent at once after a stall.
pub(crate) const RECORD_BURST: u32 = 100;
/// Records of samples that one node may send per minute, after [`RECORD_BURST`]: twice as many as
/// one each 50 ms.
pub(crate) const RECORDS_PER_MINUTE: u32 = 2_400;

/// Maximum number of flows of one lease. A few servers' connections to one client are less.
pub(crate) const TUPLES_PER_LEASE_MAX: usize = 64;

/// Maximum number of registered flows of one tenant. A tenant that registers without end leaves
/// those of fifteen others.
pub(crate) const TUPLES_PER_TENANT_MAX: usize = 4_096;

/// Maximum number of registered flows: at 300 bytes each, 20 MB.
pub(crate) const TUPLES_MAX: usize = 65_536;

/// Maximum number of registered flows that a node gets: as many as the kernel's table of
/// `byway link` holds.
pub(crate) const FLOWS_PER_NODE_MAX: usize = 16_384;

/// Maximum number of streams of registered flows to one node: one, and a dead one that its machine
/// has not detected. Each may hold all flows of the node.
pub(crate) const FLOW_STREAMS_PER_NODE_MAX: usize = 2;

/// Interval at which a node that reports samples counts as seen, without new requests. It is
/// shorter than [`ALIVE_SECONDS`].
pub(crate) const SEEN_INTERVAL: Duration = Duration::from_secs(20);

/// Leases that one application may register in a burst: the viewers of one event begin together.
pub(crate) const LEASE_BURST: u32 = 200;
/// Leases that one application may register per minute, after [`LEASE_BURST`].
pub(crate) const LEASES_PER_MINUTE: u32 = 600;

/// Reads of network state that one application may request in a burst: those of a second.
pub(crate) const READ_BURST: u32 = 40;
/// Reads of network state that one application may request per minute, after [`READ_BURST`]: 40 a
/// second, for both directions of a path at each sample. A server with more paths follows streams.
pub(crate) const READS_PER_MINUTE: u32 = 2_400;

/// Maximum number of streams of network state. At 12 us an event and 20 events a second, they take
/// a core.
pub(crate) const STREAMS_MAX: usize = 4_096;

/// Maximum number of streams of network state of one tenant, whose applications share them. No
/// tenant thus takes those of all others.
pub(crate) const STREAMS_PER_TENANT_MAX: usize = STREAMS_MAX / 4;
