//! Limits of this crate, with reasons. The protocol's limits are in `byway_proto::limits`.

use byway_units::Duration;

/// Interval at which a client closes idle pairs of flows of its peers.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Most names that a client may expose, because each offer of a peer searches all of them.
pub const EXPOSED_MAX: usize = 256;

/// Most agents, and most relays, of a static network. A larger network needs a controller.
pub const NODES_MAX: usize = 4_096;

/// Most pairs of agents of a static network.
pub const PAIRS_MAX: usize = 16_384;

/// Least number of packets delivered to a peer without a loss for the path to count as free of
/// loss. The loss rate is then below one in 3,000 (rule of three, at 95 %).
pub const CLEAN_PACKETS_MIN: u64 = 9_000;

/// Assumed time until a receiver detects a loss, for the choice of a service before there is a
/// flow: the first timeout of a flow with small gaps.
pub const DETECTION: Duration = Duration::from_millis(25);
