//! Handshakes that one node reads, and what strangers can make it do.

use byway_wire::limits::CANDIDATES_MAX;

use super::DETOURS_MAX;

/// Handshakes per second, and at once, that are read without a cookie: at 300 us each, a tenth of one core.
pub const HANDSHAKES_PER_SECOND: u64 = 300;
/// See [`HANDSHAKES_PER_SECOND`].
pub const HANDSHAKE_BURST: u64 = 100;

/// The same for those with a cookie, whose senders can be told apart: three tenths of one core more.
pub const PROVED_HANDSHAKES_PER_SECOND: u64 = 1_000;
/// See [`PROVED_HANDSHAKES_PER_SECOND`].
pub const PROVED_HANDSHAKE_BURST: u64 = 200;

/// Part of [`PROVED_HANDSHAKE_BURST`] that only known addresses use: a quarter. It fills first, so that under a flood
/// of strangers with cookies, known addresses are served before them.
pub const KNOWN_HANDSHAKE_RESERVE: u64 = PROVED_HANDSHAKE_BURST / 4;

/// Initiations per second that one network (/32 or /64) may send, without a cookie and with one, and one address and
/// port with a cookie.
pub const ADDRESS_HANDSHAKES_PER_SECOND: u64 = 20;
/// Initiations at once, without a cookie from one network, and with one from an address and port.
/// See [`ADDRESS_HANDSHAKES_PER_SECOND`].
pub const ADDRESS_HANDSHAKE_BURST: u64 = 5;

/// Initiations with a cookie at once from one network: the agents behind one NAT, who all return when a relay
/// restarts. A tenth of a second of [`PROVED_HANDSHAKES_PER_SECOND`], and half of what is read at once.
pub const NETWORK_HANDSHAKE_BURST: u64 = 100;

const _: () = assert!(NETWORK_HANDSHAKE_BURST + KNOWN_HANDSHAKE_RESERVE < PROVED_HANDSHAKE_BURST);

/// Addresses whose initiations are counted apart; others share. Four fixed tables of 8 KiB.
pub const ADDRESS_BUCKETS: usize = 1_024;

/// Addresses at which handshakes were completed that are remembered: eight bytes for each, two for each peer. Of more,
/// any one is forgotten, and counts as a stranger until its next handshake.
pub const KNOWN_ADDRESSES_MAX: usize = 8_192;

/// Forged responses per second, and at once, that are read for one attempt. Each costs two key agreements, about 100 us.
/// An attempt sends its initiation again as soon as a cookie arrives. So the true response to the first one may arrive behind 1,000 forged
/// responses to each of the two, which take a fifth of a second.
pub const ATTEMPT_RESPONSES_PER_SECOND: u64 = 500;
/// See [`ATTEMPT_RESPONSES_PER_SECOND`].
pub const ATTEMPT_RESPONSE_BURST: u64 = 2_048;

/// The same for all initiations of a node: a tenth of one core, and four handshakes at once under attack.
pub const RESPONSES_PER_SECOND: u64 = 1_000;
/// See [`RESPONSES_PER_SECOND`].
pub const RESPONSE_BURST: u64 = 4 * ATTEMPT_RESPONSE_BURST;

/// Destinations of one initiation: the address in use, those that the peer may have, and relays. A cookie of each is
/// kept. An initiation that has gone to more takes no cookies from the rest.
pub const ATTEMPT_DESTINATIONS_MAX: usize = CANDIDATES_MAX + 1 + DETOURS_MAX + 1;

/// Probes and path challenges of one peer that are answered in a second. A peer that misses replies sends 20 a second,
/// beside the trains that measure its uplink and the probes of longer packets.
pub const REPLIES_PER_SECOND: u64 = 100;

/// The burst of replies: a train of the longest kind (56 packets), and other probes beside it.
pub const REPLIES_BURST: u64 = 100;
