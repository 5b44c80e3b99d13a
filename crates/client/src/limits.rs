//! Every limit of this crate that is not one of the protocol, with its reason.

use byway_units::Duration;

/// How often is looked for pairs of flows that nobody uses any more.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Most names that are exposed: each is looked through for each offer of a peer.
pub const EXPOSED_MAX: usize = 256;

/// Most agents and most relays of a network: a file of so many is written by a program, for which there is a controller.
pub const NODES_MAX: usize = 4_096;

/// Most pairs of agents of a network.
pub const PAIRS_MAX: usize = 16_384;

/// How many packets must have come to a peer without a loss before it is believed that nothing is lost: with so many, it is
/// less than one in 3,000 (the rule of three, at 95 %).
pub const CLEAN_PACKETS_MIN: u64 = 9_000;

/// How long it takes to notice a loss, as far as is assumed before there is a flow: the small timeout that a flow begins
/// with.
pub const DETECTION: Duration = Duration::from_millis(25);
