//! Limits by which a sender detects that relays do not deliver a flow that uses them alone.

use byway_units::Duration;

/// Packets of a flow between two checks whether relays deliver it: two thirds of a second of a
/// call.
pub const DELIVERY_PACKETS: u32 = 32;

/// Inverse of the share of packets lost and not repaired above which a sender no longer relies on
/// relays alone.
pub const DELIVERY_LOST_PART: u32 = 16;

/// Packets without a report of their arrival before a sender takes a silence for a failure of the
/// relays.
pub const SILENT_PACKETS_MIN: usize = 4;

/// Time beyond two round trips within which a flow's first report has to arrive. If its packets
/// reach nobody, the flow uses the direct path within 600 ms at a round trip of 100 ms.
pub const FIRST_REPORT_MARGIN: Duration = Duration::from_millis(300);

/// Time for which a flow avoids a relay path that failed, and uses relays and the direct path. It
/// doubles each time that relays fail again.
pub const BOTH_PATHS_FOR: Duration = Duration::from_secs(10);

/// Longest value of [`BOTH_PATHS_FOR`]: a new try of the relays alone may cost half a second of
/// packets.
pub const BOTH_PATHS_MAX: Duration = Duration::from_secs(80);

/// Time after a change of a flow's relay path in which its reports are ignored, because they may be
/// about the former path.
pub const FAILURE_SETTLES_IN: Duration = Duration::from_secs(1);
