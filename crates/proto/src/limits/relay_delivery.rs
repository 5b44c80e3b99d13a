//! Limits of what relays may fail to deliver of a flow that goes through them alone.

use byway_units::Duration;

/// Packets between two looks at what relays delivered: two thirds of a second of a call.
pub const DELIVERY_PACKETS: u32 = 32;

/// Relays deliver too little where more than this part of the packets is lost for good.
pub const DELIVERY_LOST_PART: u32 = 16;

/// Packets that left for relays in vain before a silence counts as one of these.
pub const SILENT_PACKETS_MIN: usize = 4;

/// Time that a flow's first report may take beyond two round trips. A flow whose packets reach nobody then takes
/// the direct path within 600 ms at a round trip of 100 ms.
pub const FIRST_REPORT_MARGIN: Duration = Duration::from_millis(300);

/// Time for which a path that failed is not chosen, and the flow takes both ways. It doubles each time that relays
/// fail again.
pub const BOTH_WAYS_FOR: Duration = Duration::from_secs(10);

/// Longest such time: a try may cost half a second of packets.
pub const BOTH_WAYS_MAX: Duration = Duration::from_secs(80);

/// Time after a path is left in which reports are ignored: they may be about that one.
pub const FAILURE_SETTLES_IN: Duration = Duration::from_secs(1);
