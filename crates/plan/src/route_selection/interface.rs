//! Inputs and outputs of the selection of a flow's path.

use core::fmt;

use byway_units::Duration;

use crate::route::{PlannedRoute, Route};

/// Delays between sender and receiver that a user accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyTerms {
    /// Delay up to which the direct path is used, however fast the routes are.
    pub acceptable: Duration,
    /// Least difference between two paths for which a flow changes to the faster one.
    pub gain: Duration,
}

/// Delay of a path since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathDelay {
    /// No packet was sent on the path, or no report arrived.
    #[default]
    Unknown,
    /// Delay that 95 % of the packets did not exceed, queues included.
    Measured(Duration),
    /// Packets were sent on the path, and none arrived.
    Silent,
}

/// State of a flow's paths at one time. All delays have to be by the same clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathObservation {
    /// Delay of the direct path. While relays forward the flow, some packets still use it.
    pub direct: PathDelay,
    /// Delay of the route in use.
    pub route: PathDelay,
}

/// Planner of the best route of those that the function permits; `None` if there is none. See
/// [`RouteQuery::is_permitted`](crate::RouteQuery::is_permitted).
pub type PlanRoute<'a> = dyn Fn(&dyn Fn(&Route) -> bool) -> Option<PlannedRoute> + 'a;

/// Path that a selector has selected, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSelection {
    /// Route of the flow; `None` for the direct path.
    pub route: Option<PlannedRoute>,
    /// Reason for the choice.
    pub reason: PathReason,
}

/// Reason for which a flow changes its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathReason {
    /// The direct path is slower than acceptable, and the route is faster.
    DirectTooSlow,
    /// The route in use is no longer faster than the direct path by the gain.
    GainGone,
    /// The route in use is slower than planned.
    SlowerThanPlanned,
    /// The route in use delivers nothing.
    RouteFailed,
    /// Another route is faster than the one in use.
    FasterRoute,
}

impl fmt::Display for PathReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DirectTooSlow => "direct path too slow",
            Self::GainGone => "direct path fast enough again",
            Self::SlowerThanPlanned => "route over relays slower than planned",
            Self::RouteFailed => "route over relays failed",
            Self::FasterRoute => "faster route over relays",
        })
    }
}

impl fmt::Display for PathDelay {
    /// Writes the delay in tenths of a millisecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Silent => f.write_str("nothing delivered"),
            Self::Measured(delay) => write!(f, "{}", Duration::from_micros(delay.as_micros() / 100 * 100)),
        }
    }
}
