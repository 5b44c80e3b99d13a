//! Limits of packet lengths and overheads.

use byway_units::Duration;

/// Longest application datagram in bytes: the longest IP packet on Ethernet. So captured packets of
/// a tunnel at its default MTU pass unchanged.
pub const DATAGRAM_BYTES_MAX: usize = 1_500;

/// Longest UDP payload to another node in bytes: UDP over IPv4 on an Ethernet path without IP
/// fragments.
pub const PACKET_BYTES_MAX: usize = 1_472;

/// Most coded bytes of one packet that the coder and buffers accept. Two kibibytes are enough for
/// any datagram in one packet, although paths of up to 9,000 bytes would deliver more.
pub const CODED_BYTES_MAX: usize = 2_048;

/// Bytes of a cross-stream repair packet besides entries, digests and payload: header and tag of a
/// message packet, kind and length of the message, and its head (docs/wire.md).
pub const CROSS_STREAM_OVERHEAD: usize = byway_wire::packets::MESSAGE_OVERHEAD + 3 + 8;

/// Bytes of an in-stream repair packet besides its payload: header and tag of a message packet,
/// kind and length of the message, and its head.
pub const IN_STREAM_OVERHEAD: usize = byway_wire::packets::MESSAGE_OVERHEAD + 3 + 13;

/// Bytes of a packet on the link besides the UDP payload, with IPv4; 20 more bytes with IPv6 hardly
/// matter.
pub const IP_AND_UDP_BYTES: usize = 28;

/// Bytes of an envelope besides the coded bytes: its header and its tag.
pub const ENVELOPE_OVERHEAD: usize = byway_wire::packets::ENVELOPE_OVERHEAD;

/// Most coded bytes of a source packet that an agent sends: a cross-stream repair packet over 10
/// such packets still fits 1,472 bytes.
pub const CODED_BYTES_PER_PACKET: usize = PACKET_BYTES_MAX - 96;

/// Longest datagram in bytes that an agent sends in one packet, if the path MTU is known to
/// suffice; longer ones are sent in two fragments.
pub const FRAGMENT_BYTES_MAX: usize = CODED_BYTES_PER_PACKET - byway_wire::CODED_OVERHEAD;

/// UDP payload in bytes that every path delivers: the minimum MTU of IPv6, 1,280 bytes, without IP
/// and UDP headers.
pub const PAYLOAD_BYTES_BASE: usize = 1_280 - 48;

/// Most bytes of an agent's packet besides coded bytes: the overhead of an in-stream repair packet.
pub const CODED_BYTES_BESIDE: usize = IN_STREAM_OVERHEAD;

/// UDP payloads in bytes that path MTU probes have, the longest first. The first one is the longest
/// that an agent sends. The next ones fit tunnels and mobile networks with an MTU of 1,420 bytes
/// (IPv4 and IPv6), 1,400, and 1,380 (IPv6). Three are below.
pub const PAYLOAD_BYTES_PROBED: [usize; 7] =
    [CODED_BYTES_PER_PACKET + CODED_BYTES_BESIDE, 1_392, 1_372, 1_352, 1_322, 1_292, 1_262];

/// Longest datagram in bytes that an agent sends in one packet on any path, before it knows the
/// path MTU. Its copies and repair packets fit [`PAYLOAD_BYTES_BASE`] too.
pub const FRAGMENT_BYTES_BASE: usize = PAYLOAD_BYTES_BASE - CODED_BYTES_BESIDE - byway_wire::CODED_OVERHEAD;

const _: () = assert!(DATAGRAM_BYTES_MAX <= 2 * FRAGMENT_BYTES_BASE);

/// Path MTU probes of one length lost in a row before that length counts as too long (RFC 8899,
/// section 5.1.2: `MAX_PROBES` is 3). If a tenth of the packets is lost in each direction, one
/// length in 800 is rejected by mistake.
pub const MTU_PROBE_LOSSES_MAX: u8 = 4;

/// Path MTU probes lost in a row before a length that has passed counts as too long, without other
/// evidence. If a quarter is lost in each direction, one check in 700 errs.
pub const MTU_CHECK_LOSSES_MAX: u8 = 8;

/// Interval at which an agent that sends long packets checks that the path still delivers them: a
/// path may change without a sign.
pub const MTU_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Interval of probes for an increased path MTU (RFC 8899, section 5.1.1: `PMTU_RAISE_TIMER`).
pub const MTU_RAISE_INTERVAL: Duration = Duration::from_secs(600);

/// Time from a decrease of the path MTU to the first probe for an increase.
pub const MTU_RAISE_SOON: Duration = Duration::from_secs(60);

/// Time after a long packet for which an agent probes the path MTU to its destination.
pub const MTU_WANTED_FOR: Duration = Duration::from_secs(10);

/// Most addresses of this machine that a driver remembers as sources of answers. Machines have a
/// handful; whole networks may be routed to one.
pub const LOCAL_ADDRESSES_MAX: usize = 256;

const _: () = assert!(LOCAL_ADDRESSES_MAX < u16::MAX as usize);

/// Time after a long packet at which an agent checks that it arrived, unless another one left in
/// between. So a decrease of the path MTU is detected within two round trips and 100 ms.
pub const LENGTH_CHECK_AFTER: Duration = Duration::from_millis(80);

/// Shortest interval between two checks whether long packets arrive: a missing packet triggers the
/// next one early.
pub const LENGTH_CHECK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Long packets lost in a row, while short ones pass, before the path MTU counts as decreased. If a
/// tenth of the packets is lost, an error occurs about once in five hours. It costs longer headers
/// until a padded probe passes.
pub const LENGTH_CHECK_LOSSES_MIN: u32 = 5;

/// Most long datagrams that an agent stores to send them again in two fragments, if the path MTU
/// decreases: a second of 1,000 packets/s.
pub const LONG_DATAGRAMS_MAX: usize = 1_024;
/// Most bytes of the long datagrams that an agent stores, see [`LONG_DATAGRAMS_MAX`].
pub const LONG_DATAGRAMS_BYTES_MAX: u64 = 2 << 20;

/// Interval of padded probes instead of long packets, while an agent sends no packets of that
/// length. On paths that lose packets of all lengths, they need no more than 30 kbit/s.
pub const LENGTH_CHECK_PADDED_INTERVAL: Duration = Duration::from_secs(2);
