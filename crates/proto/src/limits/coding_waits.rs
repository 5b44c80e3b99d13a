//! Limits of batches and blocks: times for which packets wait, and the division of flows into
//! cohorts.

use byway_units::Duration;

/// Share of a flow's latency budget for which its packets may wait for their batch, as the divisor
/// of the budget: a quarter. The rest of the budget is for the paths, the detection of the loss and
/// the helpers.
pub const BATCH_WAIT_DIVISOR: u64 = 4;

/// Share of a flow's latency budget for which its packets may wait for their in-stream block, as
/// the divisor of the budget: a half. Repairs from blocks need no helpers. With a quarter, a call
/// of 50 packets/s would send a repair packet for each three or four packets in place of five, at
/// the default budget.
pub const BLOCK_WAIT_DIVISOR: u64 = 2;

/// Shortest time for which a packet waits for others of its block or batch, however short the
/// latency budget is. With a shorter one, a relay would code most packets alone.
pub const CODING_WAIT_MIN: Duration = Duration::from_millis(5);

/// Longest time for which an in-stream block waits for more source packets: 5 packets of a call
/// with 50 packets/s. The relay then codes it as it is.
pub const BLOCK_WAIT_MAX: Duration = Duration::from_millis(120);

/// Longest time for which a packet waits until its cross-stream batch is full; see the study in
/// `parts::batcher`.
pub const BATCH_WAIT_MAX: Duration = Duration::from_millis(45);

/// Most cohorts of a coding class: four bits each in a word. Beyond the flows that fill as many
/// batches, cohorts grow.
pub const COHORTS_MAX: usize = 16;

/// Buckets in which a coding class counts the flows of each risk: a table takes 3 kB. Flows of
/// different risks in one bucket are separated without need.
pub const COHORT_BUCKETS: usize = 64;

/// Shortest time between two reports of an agent's network to ingress relays, in seconds. An agent
/// that changes its address all the time causes a message for each of its flows, each time.
pub const NETWORK_REPORT_SECONDS: u32 = 10;
