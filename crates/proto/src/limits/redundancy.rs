//! Limits of adaptive redundancy.

use byway_units::Duration;

/// Window of the losses that determine the redundancy, in seconds: bursts of a path on the move
/// return within it.
pub const LOSS_WINDOW_SECONDS: usize = 30;

/// Latest seconds of the window that have a higher weight.
pub const LOSS_WEIGHTED_SECONDS: u64 = 5;

/// Weight of a latest second: five of them count as much as the 25 s before.
pub const LOSS_WEIGHT: u64 = 5;

/// Loss target, as its inverse: one packet in 1,000 may be lost in a batch with more losses than
/// repair packets. It is the share that the selection of services allows.
pub const LOSS_TARGET_INVERSE: u64 = 1_000;

/// Time for which new flows have the registered redundancy: before that, nobody knows what their
/// paths lose.
pub const REDUNDANCY_FIXED_FOR: Duration = Duration::from_secs(5);

/// Time without packets after which a group's flows count as new: the window is then empty.
pub const REDUNDANCY_FORGOTTEN_AFTER: Duration = Duration::from_secs(LOSS_WINDOW_SECONDS as u64);

/// Time for which the ingress relay believes a report that an open-ended NACK is in force, or that
/// a queue grows. Four reports fit into it, so that one may be lost.
pub const LOSS_REPORT_BELIEVED_FOR: Duration = Duration::from_secs(1);

/// Shortest interval of the loss reports to one ingress relay. A report has 13 bytes for each flow
/// with losses, so 64 lossy flows cost 24 kbit/s.
pub const LOSS_REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Growth of the least queueing delay, within a second, that shows a growing queue. The same delay
/// counts as a standing queue; jitter hides smaller ones.
pub const QUEUE_GROWTH_MIN: Duration = Duration::from_millis(10);
