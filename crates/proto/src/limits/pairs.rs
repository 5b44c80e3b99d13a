//! Limits of an agent's pairs of flows.

use byway_units::Duration;

use super::{ALIASES_MAX, FLOWS_PER_SESSION_MAX, OFFERS_PER_PEER_MAX};

/// Most pairs of flows of one agent, unless it is told otherwise: each takes two flows at each of its relays, which take
/// 4,096 of one agent. The rest of those is for contacts, and for flows whose end relays have not heard of yet.
pub const FLOW_PAIRS_MAX: usize = 2_000;

/// Most of them that one peer began, unless it is told otherwise: half, so that one busy peer leaves room for others. At 50 new
/// ports a second, each lasts for 20 s.
pub const PEER_FLOW_PAIRS_MAX: usize = FLOW_PAIRS_MAX / 2;

/// Highest limit of pairs of flows: as many offers stand between two agents.
pub const FLOW_PAIRS_LIMIT: usize = OFFERS_PER_PEER_MAX;

const _: () = assert!(2 * FLOW_PAIRS_MAX < FLOWS_PER_SESSION_MAX && 2 * FLOW_PAIRS_LIMIT <= ALIASES_MAX);

/// Idle time after which a pair of flows makes room for another, where there are as many as may be: longer than most
/// conversations pause, and than a question is asked again (RFC 1035 resolvers: 5 s).
pub const EVICTION_IDLE: Duration = Duration::from_secs(10);

/// Divisor of [`EVICTION_IDLE`] for a pair that nobody has answered: a flood of ports that nobody answers makes room
/// after a second. That is longer than consent and the first answer take.
pub const UNANSWERED_DIVISOR: u64 = 10;

/// Divisor of [`EVICTION_IDLE`] for a pair with a question and its answer, and nothing since: a tenth of a second, in which
/// all datagrams of an answer come, leaves one peer room for 10,000 DNS questions per second from a port each. Younger
/// conversations are evicted only by as many.
pub const ANSWERED_DIVISOR: u64 = 100;

/// Idle time after which a pair with traffic both ways makes room for an owner that has fewer: calls pause shorter.
pub const SHARE_IDLE: Duration = Duration::from_secs(1);

/// How long a pair of flows lives without datagrams (RFC 4787, REQ-5: not less than two minutes, five by default).
pub const FLOW_PAIR_IDLE: Duration = Duration::from_secs(300);
