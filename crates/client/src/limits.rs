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
