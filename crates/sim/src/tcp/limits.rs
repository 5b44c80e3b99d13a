//! Every limit and every standard number of this TCP, with its reason.

use byway_units::{Bytes, Duration};

/// Bytes of a TCP header without options (RFC 9293, 3.1).
pub const HEADER_BYTES: usize = 20;

/// Most bytes of options: the data offset counts words of four bytes, and is at most 15 (RFC 9293, 3.1).
pub const OPTIONS_BYTES_MAX: usize = 40;

/// Most blocks of a SACK option without timestamps (RFC 2018, 3); beside them there is room for one less.
pub const SACK_BLOCKS_MAX: usize = 4;

/// The largest segment, in bytes of payload and options, that an Ethernet frame of 1,500 bytes carries behind 20
/// bytes of IPv4 and 20 bytes of TCP header (RFC 6691).
pub const SEGMENT_BYTES: u16 = 1_460;

/// The least that [`SEGMENT_BYTES`] may be changed to: below, there would be no room for payload beside 40 bytes of options.
pub const SEGMENT_BYTES_MIN: u16 = 64;

/// What a peer can receive that does not say so (RFC 9293, 3.7.1).
pub const DEFAULT_SEGMENT_BYTES: u16 = 536;

/// The initial window, in segments (RFC 6928, 2).
pub const INITIAL_WINDOW_SEGMENTS: u64 = 10;

/// Segments that must be selectively acknowledged above another until that counts as lost (RFC 6675, 2).
pub const DUPLICATE_THRESHOLD: u32 = 3;

/// The retransmission timeout before there is any measurement (RFC 6298, 2.1).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);

/// The retransmission timeout before there is any measurement, once a SYN has timed out (RFC 6298, 5.7).
pub const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// The least margin of the retransmission timeout over the smoothed RTT.
///
/// RFC 6298 (2.4) asks for a timeout of at least 1 s; Linux, which real peers run, has 200 ms, and adds it to the
/// smoothed RTT. Without a margin above the 40 ms of a delayed acknowledgment, steady paths time out for nothing.
pub const RTO_MARGIN_MIN: Duration = Duration::from_millis(200);

/// The longest retransmission timeout (RFC 6298, 2.5: at least 60 s; 120 s as in Linux).
pub const RTO_MAX: Duration = Duration::from_secs(120);

/// How long an acknowledgment may wait for a second segment (RFC 1122, 4.2.3.2: less than 500 ms; 40 ms as in Linux).
pub const ACKNOWLEDGMENT_DELAY: Duration = Duration::from_millis(40);

/// Repetitions of a SYN or SYN-ACK until the peer is given up: 127 s, as in Linux for SYNs.
pub const HANDSHAKE_RETRIES_MAX: u32 = 6;

/// Timeouts in a row until the peer is given up: about a quarter of an hour, as in Linux.
pub const RETRIES_MAX: u32 = 15;

/// How long the side that closes first answers a repeated FIN (RFC 9293, 3.4.2: four minutes; 60 s as in Linux).
pub const TIME_WAIT: Duration = Duration::from_secs(60);

/// How far ahead of what arrived in order a peer may send: 1 Gbit/s over 500 ms. Applications take what arrives at once, so it
/// never closes, and only counts are kept of it, so it costs nothing.
pub const RECEIVE_WINDOW: Bytes = Bytes::new(64 << 20);

/// The largest window that the largest scale can express (RFC 7323, 2.3).
pub const RECEIVE_WINDOW_MAX: Bytes = Bytes::new(65_535 << WINDOW_SCALE_MAX);

/// The largest scale of windows (RFC 7323, 2.3).
pub const WINDOW_SCALE_MAX: u8 = 14;

/// Most segments that wait for their acknowledgment, each in 32 bytes: the receive window in segments of 1 KB.
pub const OUTSTANDING_SEGMENTS_MAX: usize = 1 << 16;

/// Most runs of bytes that are held behind gaps, each in 16 bytes. What would make them more is lost: a path on which every
/// second segment of the last 8,000 is missing carries nothing else either.
pub const HELD_SPANS_MAX: usize = 1 << 12;

/// The most that a stream takes from its application, in bytes: beyond any run, and far from where positions overflow.
pub const STREAM_BYTES_MAX: Bytes = Bytes::new(1 << 60);

/// Most connections of one [`TcpHost`](super::TcpHost), each in less than a kilobyte until it sends.
pub const CONNECTIONS_MAX: usize = 1 << 16;

const _: () = assert!(OPTIONS_BYTES_MAX < SEGMENT_BYTES_MIN as usize);
const _: () = assert!(RECEIVE_WINDOW.count() <= RECEIVE_WINDOW_MAX.count());
// A window must stay below half the sequence space, or old and new are the same.
const _: () = assert!(RECEIVE_WINDOW_MAX.count() < 1 << 31);
const _: () = assert!(ACKNOWLEDGMENT_DELAY.as_nanos() < RTO_MARGIN_MIN.as_nanos());
