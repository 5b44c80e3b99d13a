//! Times for which packets wait for their batch or block.

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
