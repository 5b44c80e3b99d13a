//! Constants, and the reasons for their values.

use byway_state::{HISTORY_ENTRIES, SAMPLE_INTERVAL};
use byway_units::{Duration, Time};

/// Entries of both directions that wait for their readers: those of 2 s. A new connection begins
/// with them.
pub(crate) const ENTRIES_MAX: usize = 2 * HISTORY_ENTRIES;

/// Time for which an entry waits for its readers. Older ones would make a new connection count on
/// a feed that ended.
pub(crate) const ENTRY_LIFETIME: Duration =
    Duration::from_nanos(SAMPLE_INTERVAL.as_nanos() * HISTORY_ENTRIES as u64);

/// Time at which controllers begin: entries may be older than the connection, but no older than
/// this.
pub(crate) const CLOCK_ORIGIN: Time = Time::from_nanos(60_000_000_000);

/// Bytes of IPv4 and UDP headers, which QUIC does not count.
pub(crate) const IPV4_HEADERS: u32 = 28;

/// Bytes of IPv6 and UDP headers.
pub(crate) const IPV6_HEADERS: u32 = 48;

/// Largest IP packet.
pub(crate) const IP_PACKET_MAX: u32 = 65_535;

/// Least number of sent bytes that count as sending. Acknowledgments and keep-alives have fewer: a
/// connection that sends nothing else leaves its share to others.
pub(crate) const DATA_BYTES_MIN: u64 = 128;

/// Acknowledgment-eliciting packets that a receiver may have without an acknowledgment: it
/// acknowledges every second one. With every tenth, a flow would use 78 % of a link.
#[cfg(any(feature = "noq", feature = "quinn"))]
pub(crate) const UNACKED_PACKETS_MAX: u32 = 1;
