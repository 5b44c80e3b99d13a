//! Limits of handshakes at one node, and of the work that strangers can cause.

use byway_wire::limits::CANDIDATES_MAX;

use super::VIA_RELAYS_MAX;

/// Handshakes without a cookie that a node processes per second: at 300 us each, a tenth of one
/// core.
pub const HANDSHAKES_PER_SECOND: u64 = 300;
/// Handshakes without a cookie that a node processes at once, see [`HANDSHAKES_PER_SECOND`].
pub const HANDSHAKE_BURST: u64 = 100;

/// Handshakes with a cookie that a node processes per second: three tenths of one core more. A
/// cookie shows that the sender receives at its address.
pub const PROVED_HANDSHAKES_PER_SECOND: u64 = 1_000;
/// Handshakes with a cookie that a node processes at once, see [`PROVED_HANDSHAKES_PER_SECOND`].
pub const PROVED_HANDSHAKE_BURST: u64 = 200;

/// Part of [`PROVED_HANDSHAKE_BURST`] for addresses with an earlier handshake: a quarter, which
/// refills first. So under a flood of strangers with cookies, known addresses are served before
/// them.
pub const KNOWN_HANDSHAKE_RESERVE: u64 = PROVED_HANDSHAKE_BURST / 4;

/// Initiations per second that a node processes from one network (/32 or /64), without a cookie and
/// with one. An address and port with a cookie has the same limit.
pub const ADDRESS_HANDSHAKES_PER_SECOND: u64 = 20;
/// Initiations that a node processes at once: without a cookie from one network, with a cookie from
/// one address and port. See [`ADDRESS_HANDSHAKES_PER_SECOND`].
pub const ADDRESS_HANDSHAKE_BURST: u64 = 5;

/// Initiations with a cookie that a node processes at once from one network: the agents behind one
/// NAT, who all return when a relay restarts. It is a tenth of a second of
/// [`PROVED_HANDSHAKES_PER_SECOND`], and half of the burst.
pub const NETWORK_HANDSHAKE_BURST: u64 = 100;

const _: () = assert!(NETWORK_HANDSHAKE_BURST + KNOWN_HANDSHAKE_RESERVE < PROVED_HANDSHAKE_BURST);

/// Buckets of a rate limit of initiations; sources in one bucket share its tokens. Four fixed
/// tables of 8 KiB.
pub const ADDRESS_BUCKETS: usize = 1_024;

/// Most addresses with completed handshakes that a node remembers: eight bytes for each, two for
/// each peer. If there are more, an arbitrary one is forgotten, and counts as a stranger until its
/// next handshake.
pub const KNOWN_ADDRESSES_MAX: usize = 8_192;

/// Forged responses to one initiation that a node processes per second. Each costs two key
/// agreements, about 100 us.
pub const INITIATION_RESPONSES_PER_SECOND: u64 = 500;
/// Forged responses to one initiation that a node processes at once. A burst of 1,000 does not
/// exclude the true response, and takes a tenth of a second at most.
pub const INITIATION_RESPONSE_BURST: u64 = 2_048;

/// Forged responses to all initiations of a node that it processes per second: a tenth of one core.
pub const RESPONSES_PER_SECOND: u64 = 1_000;
/// Forged responses to all initiations of a node that it processes at once: those of four
/// handshakes under attack.
pub const RESPONSE_BURST: u64 = 4 * INITIATION_RESPONSE_BURST;

/// Most addresses and relays to which a node sends one initiation: the address in use and
/// candidates, by two uplinks, and relays. The node stores a cookie of each, and accepts no cookies
/// from further destinations.
pub const INITIATION_DESTINATIONS_MAX: usize = (CANDIDATES_MAX + 1) * 2 + VIA_RELAYS_MAX + 1;

/// Probes and path challenges of one peer that a node answers per second. A peer that misses
/// replies sends 20 a second, besides probe trains for its uplink and probes of longer packets.
pub const REPLIES_PER_SECOND: u64 = 100;

/// Probes and path challenges of one peer that a node answers at once: the longest probe train (56
/// packets), and other probes.
pub const REPLIES_BURST: u64 = 100;
