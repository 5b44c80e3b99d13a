//! Limits of packets between relays that a third relay passes on.

use byway_units::{Bytes, Duration, Rate};

/// Rate up to which a relay shard passes on packets of one other relay. It is more than a shard
/// forwards in packets of a call, so it bounds what a compromised relay can make others send.
pub const TRANSIT_RATE: Rate = Rate::from_megabits_per_second(200);
/// Burst size of [`TRANSIT_RATE`]: the bursts of many flows at the same time.
pub const TRANSIT_BURST: Bytes = Bytes::new(512 << 10);

/// Parts in eight of the announced rate that a relay uses of a third one. It leaves the route
/// before that one drops packets.
pub const TRANSIT_RATE_EIGHTHS: u64 = 7;

/// Most labels of one relay shard: those that a packet can name.
pub const TRANSIT_LABELS_MAX: usize = byway_wire::TransitLabel::MAX as usize;

/// Most labels that one other relay has at a shard: two epochs of eight receivers. One that is not
/// used any more gives way to another.
pub const TRANSIT_LABELS_PER_SOURCE: usize = 16;

/// Time without packets after which a label may give way to another of its source. Routes in use
/// and in reserve have probes five times a second.
pub const TRANSIT_LABEL_UNUSED: Duration = Duration::from_secs(2);

/// Time after which an unused label is free again. No epoch opens packets for as long.
pub const TRANSIT_LABEL_IDLE: Duration = Duration::from_secs(300);

/// Memory of a label, in bytes: its entry, and the bitmap of its replay window.
pub const TRANSIT_LABEL_BYTES: u64 = 1_600;

/// Transit requests of one relay that another one answers in a second. A relay sends two for each
/// route and epoch, and one for delays each [`TRANSIT_QUERY_INTERVAL`].
pub const TRANSIT_REPLIES_PER_SECOND: u64 = 8;
/// Transit requests that a relay answers at once, see [`TRANSIT_REPLIES_PER_SECOND`].
pub const TRANSIT_REPLIES_BURST: u64 = 32;

/// Most relays whose delays a transit reply contains, the nearest first. With 9 bytes each they fit
/// one packet beside other messages.
pub const TRANSIT_DELAYS_MAX: usize = 64;

/// Interval at which a relay asks others for their delays while it sends packets to a distant
/// relay. Delays between relays change by the day.
pub const TRANSIT_QUERY_INTERVAL: Duration = Duration::from_secs(30);

/// Interval at which a relay asks those again that pass on no packets. That is nearly all of them,
/// and changes with a restart only.
pub const TRANSIT_REFUSED_QUERY_INTERVAL: Duration = Duration::from_secs(300);

/// Interval at which a relay looks for third relays while it probes none, and repeats a request for
/// delays that has no answer.
pub const TRANSIT_REVIEW_INTERVAL: Duration = Duration::from_secs(5);

/// Interval at which a relay repeats a request for a label that has no answer.
pub const TRANSIT_REQUEST_RETRY: Duration = Duration::from_millis(500);

/// Least delay to another relay from which on a third one may shorten it by [`TRANSIT_GAIN`].
pub const TRANSIT_DELAY_MIN: Duration = Duration::from_millis(20);

/// Least gain of a route through a third relay. Each route spends another relay's egress, and may
/// fail.
pub const TRANSIT_GAIN: Duration = Duration::from_millis(10);
/// Inverse of the least gain as a share of the direct delay: 10 %.
pub const TRANSIT_GAIN_PART: u64 = 10;

/// Most third relays that are probed for packets to one relay: the one in use, and one in reserve.
pub const TRANSIT_CANDIDATES_MAX: usize = 2;

/// Interval of the probes through a third relay. A failure shows within two seconds.
pub const TRANSIT_PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// Consecutive answers whose median counts as the delay of a path between relays. Half of them have
/// to change before the median does, which takes a second.
pub const TRANSIT_SAMPLES: usize = 8;

/// Answers from which on the median of the direct path counts.
pub const TRANSIT_DIRECT_SAMPLES_MIN: usize = 4;

/// Time for which the latest answer on the direct path counts.
pub const TRANSIT_DIRECT_BELIEVED_FOR: Duration = Duration::from_secs(3);

/// Overdue probes in a row after which a route counts as failed. If a tenth is lost in each
/// direction, that happens by chance once in a quarter of an hour.
pub const TRANSIT_OVERDUE_MAX: usize = 5;

/// Time beyond the slowest recent answer after which a probe is overdue.
pub const TRANSIT_ANSWER_MARGIN: Duration = Duration::from_millis(200);

/// Time after which a probe is overdue before the first answer.
pub const TRANSIT_ANSWER_FIRST: Duration = Duration::from_secs(1);

/// Most probes of one route that may be in flight: those of two seconds, and those that are
/// overdue.
pub const TRANSIT_PROBES_MAX: usize = 16;

/// Least packets through a third relay that are compared with those received. A relay that answers
/// probes and drops packets shows after two thirds of a second of a call, and a round trip.
pub const TRANSIT_PACKETS_COMPARED: i32 = 32;
/// Inverse of the share of these that a route may lose.
pub const TRANSIT_LOST_PART: i32 = 8;

/// Time after which packets sent and received through a third relay are compared anew. In it, those
/// of a round trip, which are not known to be lost, weigh little.
pub const TRANSIT_COMPARED_FOR: Duration = Duration::from_secs(4);

/// Time without packets to a relay after which its route ends, and is probed no more.
pub const TRANSIT_IDLE_AFTER: Duration = Duration::from_secs(10);

/// Time for which a third relay is not probed again after its probes showed no gain: as long as one
/// that failed.
pub const TRANSIT_DISMISSED_FOR: Duration = byway_plan::ROUTE_BARRED_FOR;
