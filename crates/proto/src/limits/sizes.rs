//! How long packets may be, and what they take beside what they carry.

use byway_units::Duration;

/// Longest application datagram in bytes: an IP packet as long as an Ethernet bears, so that what a capture takes of a tunnel
/// at its default MTU passes unchanged.
pub const DATAGRAM_BYTES_MAX: usize = 1_500;

/// Longest packet to another node in bytes: what UDP over IPv4 carries on an Ethernet path without fragments.
pub const PACKET_BYTES_MAX: usize = 1_472;

/// Longest coded bytes of one packet: what is left of the largest UDP payload without fragments, on paths of up to
/// 9,000 bytes, is never needed; two kibibytes hold any datagram in one piece.
pub const CODED_BYTES_MAX: usize = 2_048;

/// What a cross-stream repair packet has beside entries, digests and payload: header and tag of a message packet, kind
/// and length of the message, and its head (docs/wire.md).
pub const CROSS_STREAM_OVERHEAD: usize = byway_wire::packets::MESSAGE_OVERHEAD + 3 + 8;

/// And an in-stream one: header and tag of a message packet, kind and length of the message, and its head.
pub const IN_STREAM_OVERHEAD: usize = byway_wire::packets::MESSAGE_OVERHEAD + 3 + 13;

/// What a packet takes on the line beside the UDP payload, by IPv4: 20 bytes more by IPv6 are hardly noticed.
pub const IP_AND_UDP_BYTES: usize = 28;

/// What an envelope takes beside the coded bytes.
pub const ENVELOPE_OVERHEAD: usize = byway_wire::packets::ENVELOPE_OVERHEAD;

/// Coded bytes of a packet at most: what leaves room for a cross-stream repair of 10 packets in 1,472 bytes.
pub const CODED_BYTES_PER_PACKET: usize = PACKET_BYTES_MAX - 96;

/// The longest datagram that goes as one packet where paths carry it; longer ones go as two pieces.
pub const PIECE_BYTES_MAX: usize = CODED_BYTES_PER_PACKET - byway_wire::CODED_OVERHEAD;

/// The UDP payload that every path carries: the rest of the least MTU of IPv6, 1,280 bytes.
pub const PAYLOAD_BYTES_BASE: usize = 1_280 - 48;

/// What a packet of an agent takes beside coded bytes, at most: an in-stream repair packet has the most.
pub const CODED_BYTES_BESIDE: usize = IN_STREAM_OVERHEAD;

/// The UDP payloads that are probed, the longest first: all that an agent sends, what tunnels and mobile networks leave with an MTU of 1,420
/// bytes by IPv4 and IPv6, of 1,400, and of 1,380 by the latter, and three below.
pub const PAYLOAD_BYTES_PROBED: [usize; 7] =
    [CODED_BYTES_PER_PACKET + CODED_BYTES_BESIDE, 1_392, 1_372, 1_352, 1_322, 1_292, 1_262];

/// The longest datagram that goes as one packet on every path.
pub const PIECE_BYTES_BASE: usize = PAYLOAD_BYTES_BASE - CODED_BYTES_BESIDE - byway_wire::CODED_OVERHEAD;

const _: () = assert!(DATAGRAM_BYTES_MAX <= 2 * PIECE_BYTES_BASE);

/// So many probes of a length are lost in a row before it counts as too long (RFC 8899, section 5.1.2: `MAX_PROBES` is 3). Where a tenth of the
/// packets is lost each way, one length in 800 counts so that is not.
pub const MTU_PROBE_LOSSES_MAX: u8 = 4;

/// And of one that has passed, if nothing else says that it does not any more: where a quarter is lost each way, one check in 700 errs.
pub const MTU_CHECK_LOSSES_MAX: u8 = 8;

/// How often is looked whether the longest packets still pass, by an agent that sends some: a path may change without a sign.
pub const MTU_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How often is looked whether longer ones pass (RFC 8899, section 5.1.1: `PMTU_RAISE_TIMER`).
pub const MTU_RAISE_INTERVAL: Duration = Duration::from_secs(600);

/// How soon it is after a length that had passed did not any more.
pub const MTU_RAISE_SOON: Duration = Duration::from_secs(60);

/// For how long after something long was sent a path is probed for it.
pub const MTU_WANTED_FOR: Duration = Duration::from_secs(10);

/// Most addresses of this machine that answers leave from. Machines have a handful; whole networks may be routed to one.
pub const LOCAL_ADDRESSES_MAX: usize = 256;

const _: () = assert!(LOCAL_ADDRESSES_MAX < u16::MAX as usize);

/// After how long a long packet is followed by a check that it arrived, unless another left meanwhile. With two round
/// trips, a path that has become narrower is found within two round trips and 100 ms.
pub const LENGTH_CHECK_AFTER: Duration = Duration::from_millis(80);

/// The least time between two checks: what is missing brings one out before its time.
pub const LENGTH_CHECK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// So many long packets in a row are lost while short ones pass before a path counts as narrower. Where a tenth of the
/// packets is lost, an error occurs about once in five hours; it costs longer headers until a padded probe passes.
pub const LENGTH_CHECK_LOSSES_MIN: u32 = 5;

/// Long datagrams that are remembered, to be sent again in two pieces: a second of 1,000 packets/s, and their bytes.
pub const LONG_DATAGRAMS_MAX: usize = 1_024;
/// See [`LONG_DATAGRAMS_MAX`].
pub const LONG_DATAGRAMS_BYTES_MAX: u64 = 2 << 20;

/// How often padded probes make up for long packets that were not sent. On paths that lose packets of all lengths, they
/// take no more than 30 kbit/s.
pub const LENGTH_CHECK_PADDED_INTERVAL: Duration = Duration::from_secs(2);
