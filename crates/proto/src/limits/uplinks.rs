//! Limits of the choice between two uplinks.

use byway_units::Duration;

/// Time from a session's change to its other uplink to the first attempt to return, and time for
/// which the answer counts. Each attempt is one packet, so it costs less than a probe of a peer in
/// use.
pub const RETURN_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time between two attempts to return to the preferred uplink, which may stay out for
/// hours.
pub const RETURN_INTERVAL_MAX: Duration = Duration::from_secs(8);

/// Time after a session's return to an uplink for which a further failure counts as a repetition.
/// With an uplink that comes and goes, each return loses packets until its failure is detected.
pub const UPLINK_PROVED_AFTER: Duration = Duration::from_secs(10);
