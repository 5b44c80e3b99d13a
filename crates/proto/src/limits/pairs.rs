//! Limits of an agent's pairs of flows.

use byway_units::Duration;

use super::{ALIASES_MAX, FLOWS_PER_SESSION_MAX, OFFERS_PER_PEER_MAX};

/// Default limit of an agent's flow pairs. Each needs two flows at each of its relays, which accept
/// 4,096 of one agent. The rest is for contact flows, and for flows that relays have not
/// unregistered yet.
pub const FLOW_PAIRS_MAX: usize = 2_000;

/// Default limit of an agent's flow pairs that one peer began: half, so one busy peer leaves half
/// to others. At 50 new ports a second, each pair lasts for 20 s.
pub const PEER_FLOW_PAIRS_MAX: usize = FLOW_PAIRS_MAX / 2;

/// Highest limit of flow pairs that can be set: the most offers between two agents.
pub const FLOW_PAIRS_LIMIT: usize = OFFERS_PER_PEER_MAX;

const _: () = assert!(2 * FLOW_PAIRS_MAX < FLOWS_PER_SESSION_MAX && 2 * FLOW_PAIRS_LIMIT <= ALIASES_MAX);

/// Idle time after which an agent may evict a flow pair for another one, if the limit is reached.
/// It is longer than most pauses of conversations, and than the time after which a query is
/// repeated (RFC 1035 resolvers: 5 s).
pub const EVICTION_IDLE: Duration = Duration::from_secs(10);

/// Divisor of [`EVICTION_IDLE`] for a flow pair without an answer: a flood of ports that nobody
/// answers is evictable after a second. That is longer than consent and the first answer take.
pub const UNANSWERED_DIVISOR: u64 = 10;

/// Divisor of [`EVICTION_IDLE`] for a flow pair with a query and its answer, and nothing since. All
/// datagrams of an answer arrive within this tenth of a second. One peer can then send 10,000 DNS
/// queries per second from a port each. Younger conversations are evicted only by as many.
pub const ANSWERED_DIVISOR: u64 = 100;

/// Idle time after which an agent may evict a flow pair with traffic in both directions for a peer
/// or application that has fewer: pauses of calls are shorter.
pub const SHARE_IDLE: Duration = Duration::from_secs(1);

/// Idle time after which an agent ends a flow pair (RFC 4787, REQ-5: not less than two minutes,
/// five by default).
pub const FLOW_PAIR_IDLE: Duration = Duration::from_secs(300);
