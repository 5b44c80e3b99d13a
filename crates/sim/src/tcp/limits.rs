//! All limits and standard constants of this TCP, with their reasons.

use byway_units::{Bytes, Duration};

/// Bytes of a TCP header without options (RFC 9293, 3.1).
pub const HEADER_BYTES: usize = 20;

/// Most bytes of options: the data offset counts words of four bytes, and is at most 15 (RFC 9293,
/// 3.1).
pub const OPTIONS_BYTES_MAX: usize = 40;

/// Most blocks of a SACK option without timestamps (RFC 2018, 3); with timestamps, one less fits.
pub const SACK_BLOCKS_MAX: usize = 4;

/// Largest segment, in bytes of payload and options: an Ethernet frame of 1,500 bytes without 20
/// bytes of IPv4 and 20 bytes of TCP header (RFC 6691).
pub const SEGMENT_BYTES: u16 = 1_460;

/// Smallest setting of [`SEGMENT_BYTES`]: below it, no payload would fit beside 40 bytes of
/// options.
pub const SEGMENT_BYTES_MIN: u16 = 64;

/// Segment size of a peer that does not announce one (RFC 9293, 3.7.1).
pub const DEFAULT_SEGMENT_BYTES: u16 = 536;

/// The initial window, in segments (RFC 6928, 2).
pub const INITIAL_WINDOW_SEGMENTS: u64 = 10;

/// Segments selectively acknowledged above another before that counts as lost (RFC 6675, 2).
pub const DUPLICATE_THRESHOLD: u32 = 3;

/// Retransmission timeout before any measurement (RFC 6298, 2.1).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);

/// Retransmission timeout before any measurement, after a SYN has timed out (RFC 6298, 5.7).
pub const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// The least margin of the retransmission timeout over the smoothed RTT.
///
/// RFC 6298 (2.4) requires a timeout of at least 1 s; Linux, which real peers run, has 200 ms, and
/// adds it to the smoothed RTT. Without a margin above the 40 ms of a delayed acknowledgment,
/// steady paths have spurious timeouts.
pub const RTO_MARGIN_MIN: Duration = Duration::from_millis(200);

/// The longest retransmission timeout (RFC 6298, 2.5: at least 60 s; 120 s as in Linux).
pub const RTO_MAX: Duration = Duration::from_secs(120);

/// Longest delay of an acknowledgment for a second segment (RFC 1122, 4.2.3.2: less than 500 ms; 40
/// ms as in Linux).
pub const ACKNOWLEDGMENT_DELAY: Duration = Duration::from_millis(40);

/// Retransmissions of a SYN or SYN-ACK before the connection fails: 127 s, as in Linux for SYNs.
pub const HANDSHAKE_RETRIES_MAX: u32 = 6;

/// Timeouts in a row before the connection fails: about a quarter of an hour, as in Linux.
pub const RETRIES_MAX: u32 = 15;

/// Time for which the side that closes first answers a repeated FIN (RFC 9293, 3.4.2: four minutes;
/// 60 s as in Linux).
pub const TIME_WAIT: Duration = Duration::from_secs(60);

/// Receive window: 1 Gbit/s over 500 ms. It never closes, because applications read at once, and it
/// costs no memory, because payload is only counted.
pub const RECEIVE_WINDOW: Bytes = Bytes::new(64 << 20);

/// Largest receive window that a header can express with the largest scale (RFC 7323, 2.3).
pub const RECEIVE_WINDOW_MAX: Bytes = Bytes::new(65_535 << WINDOW_SCALE_MAX);

/// Largest shift of the window field, in bits (RFC 7323, 2.3).
pub const WINDOW_SCALE_MAX: u8 = 14;

/// Most unacknowledged segments of a connection, each in 32 bytes: the receive window in segments
/// of 1 KB.
pub const OUTSTANDING_SEGMENTS_MAX: usize = 1 << 16;

/// Most out-of-order spans of a receiver, each in 16 bytes; the data of further ones is lost. A
/// path that loses every second one of the last 8,000 segments is of no use anyway.
pub const OUT_OF_ORDER_SPANS_MAX: usize = 1 << 12;

/// Most bytes of a stream: more than any run sends, and far from an overflow of positions.
pub const STREAM_BYTES_MAX: Bytes = Bytes::new(1 << 60);

/// Most connections of one [`TcpHost`](super::TcpHost), each in less than a kilobyte until it
/// sends.
pub const CONNECTIONS_MAX: usize = 1 << 16;

const _: () = assert!(OPTIONS_BYTES_MAX < SEGMENT_BYTES_MIN as usize);
const _: () = assert!(RECEIVE_WINDOW.count() <= RECEIVE_WINDOW_MAX.count());
// A window must be below half the sequence space, because old and new sequence numbers are
// otherwise equal.
const _: () = assert!(RECEIVE_WINDOW_MAX.count() < 1 << 31);
const _: () = assert!(ACKNOWLEDGMENT_DELAY.as_nanos() < RTO_MARGIN_MIN.as_nanos());
