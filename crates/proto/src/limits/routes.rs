//! Limits of routes over relays, where the direct path is too slow.

use byway_units::Duration;

/// Interval, in packets, of those that a flow also sends on the direct path while relays alone
/// forward it: on a route, or by an agent's selection of its service. They add a sixteenth to the
/// flow's bytes. At 50 packets a second, a report has three of them.
pub const DIRECT_SAMPLE_INTERVAL: u64 = 16;

/// Time for which the measured delay of the direct path counts. A flow with a route and ten packets
/// a second samples that path each 1.6 s, so some reports have no sample.
pub const DIRECT_DELAY_BELIEVED_FOR: Duration = Duration::from_secs(5);

/// Packets of a flow since the latest report of its route that show that the route delivers
/// nothing, if no later report is about it. A few packets may be in flight.
pub const ROUTE_SILENT_PACKETS_MIN: u64 = 16;

/// Time after a change to a route in which its delay is not measured. Reports may cover packets of
/// the path before, and registrations at relays need some round trips.
pub const ROUTE_SETTLES_IN: Duration = Duration::from_millis(2_500);

/// Time for which a flow that leaves its route sends every packet on both paths. Relays then
/// deliver what is in flight, while they register the service after it.
pub const ROUTE_OVERLAP: Duration = Duration::from_secs(2);

/// Time for which a flow with a route keeps both paths after the direct path was the faster one.
/// Delays that vary then change the service no more than once in that time.
pub const ROUTE_BOTH_PATHS_FOR: Duration = Duration::from_secs(10);

/// Inverse of the drift of the clocks of a flow's ends against each other: 50 millionths, as of
/// quartz oscillators that nobody corrects. In ten minutes, that is 30 ms.
pub const CLOCK_DRIFT_PART: u64 = 20_000;

/// Difference of successive delays that shows that a path changes, besides a sixteenth of the
/// round trip. The smoothed round trip then lags behind the packets' delays.
pub const DELAY_STEADY_WITHIN: Duration = Duration::from_millis(2);

/// Difference of delays that no path has: the receiver restarted, and its clock has begun again.
pub const CLOCK_JUMP_MIN: Duration = Duration::from_secs(20);
