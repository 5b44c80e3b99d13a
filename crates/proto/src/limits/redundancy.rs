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

/// Shortest interval of the loss reports of an egress relay.
pub const LOSS_REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Most flows whose losses an egress relay reports before it handles other events: each costs a
/// message to each of its ingress relays.
pub const LOSS_REPORT_FLOWS_MAX: usize = 64;

/// Interval in which the flows of a coding group count that send: slow ones send a packet a second.
pub const ACTIVITY_INTERVAL: Duration = Duration::from_secs(2);

/// Time after the latest repair packets of a flow for which more are expected. A batch waits for
/// 45 ms at most, and flows with fewer packets fetch what they lose.
pub const COVERED_FOR: Duration = Duration::from_millis(200);

/// Distances of later packets from a lost one. If one of them has repair packets, the lost one will
/// have none, because batches arrive nearly in order.
pub const UNCOVERED_BEHIND: core::ops::RangeInclusive<u64> = 4..=7;

/// Longest silence of a direct path whose packets count as losses. The packets after it are those
/// of an outage.
pub const COUNTED_SILENCE_MAX: Duration = Duration::from_millis(500);

/// Growth of the least queueing delay, within a second, that shows a growing queue. The same delay
/// counts as a standing queue; jitter hides smaller ones.
pub const QUEUE_GROWTH_MIN: Duration = Duration::from_millis(10);
