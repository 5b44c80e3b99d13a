//! Constants, and the reasons for their values.

use byway_units::{Bytes, Duration, Rate};

/// Usual interval between two samples of a link: a few in each round trip of an interactive flow.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// Most links of a path, and most link entries of a path entry. Paths of the Internet have some 30
/// hops, and only those that can queue are shown.
pub const LINKS_MAX: usize = 64;

/// Most entries that a table holds: those of [`ENTRY_LIFETIME`] at [`SAMPLE_INTERVAL`].
pub const ENTRIES_MAX: usize = 100;

/// Age at which a table drops an entry, and a path counts as unknown. Averages have a time constant
/// of 1 s, so older entries add less than 1 %.
pub const ENTRY_LIFETIME: Duration = Duration::from_secs(5);

/// Entries of an answer to a query that names no maximum: 2 s of history. With it, the averages of
/// a new flow begin warm, and it has its share within 1.0 s instead of 2.7 s.
pub const HISTORY_ENTRIES: usize = 40;

/// Longest interval of a link entry. A longer one comes from a clock that jumped.
pub const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Lowest rate of a link: a full packet takes 1.5 s at it.
pub const LINK_RATE_MIN: Rate = Rate::from_kilobits_per_second(8);

/// Highest rate of a link: ten times that of the fastest ports.
pub const LINK_RATE_MAX: Rate = Rate::from_megabits_per_second(10_000_000);

/// Longest propagation delay of a link. Links over geostationary satellites have 0.3 s.
pub const LINK_DELAY_MAX: Duration = Duration::from_secs(10);

/// Largest multiple of its shown rate that a link may report as sent. The shown rate of the
/// interactive queue may be a small part of the capacity that it used just before.
pub(crate) const SENT_RATIO_MAX: u64 = 100;

/// Largest backlog of a slow link: ten times the 1.5 MB that the paper's queue reaches.
pub(crate) const BACKLOG_BYTES_MAX: Bytes = Bytes::new(16 << 20);

/// Largest backlog of a fast link, in time at its shown rate.
pub(crate) const BACKLOG_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a flow that wait at its bottleneck, if the link names no other number (S of the paper,
/// section 4.3.1): one full packet.
pub const TARGET_BACKLOG: Bytes = Bytes::new(1_500);

/// Time at a link's capacity that the target backlog is at least. At 50 Mbit/s, a jitter of 1 ms
/// costs 3 % of the rate with a target of one packet, and 0.4 % with this one.
pub(crate) const TARGET_TIME: Duration = Duration::from_millis(1);

/// Least target backlog that a link may name: zero would divide zero by zero.
pub(crate) const TARGET_MIN: Bytes = Bytes::new(64);

/// Largest target backlog that a link may name: [`TARGET_TIME`] at 134 Gbit/s.
pub(crate) const TARGET_MAX: Bytes = Bytes::new(16 << 20);

/// Time constant of the averages of throughput and backlog (section 4.1 of the paper).
pub(crate) const AVERAGE_TIME: Duration = Duration::from_secs(1);

/// Largest average backlog over the largest of the newest ones and a target. A backlog that never
/// was would starve a flow for nine seconds after a single report. With 4, ten flows that begin at
/// one instant have over 3 packets each in the queue for 0.65 s instead of 0.2 s.
pub(crate) const AVERAGE_BACKLOG_RATIO_MAX: f64 = 8.0;

/// Period in which a flow's acknowledged bytes give its delivery rate (section 4.1 of the paper).
pub(crate) const DELIVERY_PERIOD: Duration = Duration::from_millis(500);

/// Resolution of the delivery rate: 2 % of its period.
pub(crate) const DELIVERY_SLOT: Duration = Duration::from_millis(10);

/// Feedback delay from which the rules for old state hold. Two flows at 5 Mbit/s, whose round trip
/// is 100 ms, begin to oscillate at about this delay.
pub(crate) const OLD_STATE_SECONDS: f64 = 0.15;

/// Feedback delay up to which an overstated rate is corrected. With older state, the correction
/// oscillates.
pub(crate) const CORRECTION_SECONDS: f64 = 0.3;

/// Least part of a link's shown rate that the correction of an overstated rate leaves. A link that
/// was idle has little throughput at first, whatever its rate.
pub(crate) const CORRECTED_RATE_PART: f64 = 0.3;

/// Part of a link's rate that bounds one change of a flow's rate while state is old, unless
/// [`STEP_TARGETS`] allow more. With them alone, a newcomer at 50 Mbit/s has 40 % of its share
/// after 8 s. With a step that does not depend on the delay, such as 10 ms at the link's rate, 15
/// flows at 50 Mbit/s use 90 % of it.
pub(crate) const STEP_PART: f64 = 0.02;

/// Target backlogs that bound one change of a flow's backlog (n and m of the paper, section 6.4.2).
pub(crate) const STEP_TARGETS: f64 = 2.0;

/// Pacing rate over the flow's rate. The published 1.25 keeps bunches of packets together: 90 % use
/// of a link at a round trip of 300 ms, against 97 % with 1.1.
pub(crate) const PACING_GAIN: f64 = 1.1;

/// Pacing rate over the flow's rate, as published (section 4.1 of the paper).
pub(crate) const PUBLISHED_PACING_GAIN: f64 = 1.25;

/// Pacing rate over window and base delay in a delay-based window, which rises by less in a round
/// trip.
pub(crate) const FALLBACK_PACING_GAIN: f64 = 1.25;

/// Pacing rate over window and base delay while the window doubles.
pub(crate) const DOUBLING_PACING_GAIN: f64 = 2.0;

/// Packets that pacing lets through in a second at least. With fewer, a flow would hardly notice
/// that a link's report was wrong, or is over.
pub(crate) const PACED_PACKETS_MIN: u64 = 2;

/// Packets that a sender may send at once.
pub(crate) const BURST_PACKETS: u64 = 2;

/// Receiver's request window over the sender's window (section 4.2 of the paper).
pub(crate) const REQUEST_GAIN: f64 = 1.5;

/// Packets that one acknowledgment covers without an allowance (RFC 9000, section 13.2.2).
pub(crate) const ACK_PACKETS: u32 = 2;

/// Most packets of one acknowledgment that the window allows for. An acknowledgment of more follows
/// losses of others.
pub(crate) const ACK_PACKETS_MAX: u32 = 16;

/// Shortest round trip that a delay-based window counts with, in seconds.
pub(crate) const ROUND_TRIP_SECONDS_MIN: f64 = 1e-6;

/// Window at the start of a flow, in packets (RFC 6928).
pub(crate) const INITIAL_PACKETS: u64 = 10;

/// Least window of any kind, in packets: with fewer, a receiver that acknowledges every second
/// packet would wait for its timer.
pub(crate) const WINDOW_PACKETS_MIN: u64 = 2;

/// Most packets of a window: 6 TB of full packets, over a minute at [`LINK_RATE_MAX`].
pub(crate) const WINDOW_PACKETS_MAX: u64 = 1 << 32;

/// Largest limit of a window over the window from the state. With twice the window, it is no limit
/// while averages settle. It doubles in a round trip.
pub(crate) const RAMP_GAIN: f64 = 2.0;

/// Silence of a sender after which its window starts anew, because its share belongs to others.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// Period of the least round trip that shows the rest of a path.
pub(crate) const LEAST_RTT_PERIOD: Duration = Duration::from_secs(10);

/// Updates that may be missed until state counts as missing.
pub(crate) const MISSED_UPDATES: u64 = 4;

/// First assumption of the time between updates: a poll over a long path.
pub(crate) const UPDATE_GAP: Duration = Duration::from_millis(250);

/// Age of state from which it counts as missing. With state of 1 s, the rules for old state hold a
/// link at 98 % use.
pub(crate) const STATE_AGE_MAX: Duration = Duration::from_secs(2);

/// Round trip beyond what the table explains that needs no reason: the wake-ups of two hosts.
pub(crate) const UNEXPLAINED_SECONDS: f64 = 0.020;

/// Part of the explained round trip that needs no reason, either.
pub(crate) const UNEXPLAINED_PART: f64 = 0.25;

/// Round trips for which a round trip is unexplained until another bottleneck is assumed.
pub(crate) const UNEXPLAINED_ROUNDS: f64 = 2.0;

/// Least window of a delay-based sender, in packets.
pub(crate) const FALLBACK_PACKETS_MIN: f64 = 4.0;

/// Time at its own rate that a delay-based sender keeps queued, and at least the target backlog.
/// With less, jitter of a few milliseconds looks like a queue.
pub(crate) const FALLBACK_TARGET_SECONDS: f64 = 0.005;

/// Gain of the delay-based window (FAST TCP, section IV): half of the difference in each round.
pub(crate) const FALLBACK_GAIN: f64 = 0.5;

/// Rounds without an own queue after which the steps of a delay-based window double. Capacity that
/// became free is used within ten round trips instead of fifty.
pub(crate) const CALM_ROUNDS: u32 = 3;

/// Largest step of a delay-based window without an own queue, as a part of the window. The queue
/// shows one round trip late, and steps as large as the window would make 40 packets wait.
pub(crate) const CALM_STEP_PART: f64 = 0.125;

/// Window after congestion, over the window before (RFC 9438, section 4.6).
pub(crate) const BACKOFF: f64 = 0.7;

/// Share of lost packets from which losses are congestion. Paths lose 0.1 % in general, and 0.9 %
/// at worst.
pub(crate) const CONGESTION_LOSS_SHARE: f64 = 0.02;

/// Least number of lost packets that are congestion, whatever their share.
pub(crate) const CONGESTION_LOSSES: f64 = 3.0;

/// Packets after which the share of lost packets is counted anew.
pub(crate) const LOSS_COUNT_PACKETS: f64 = 128.0;

/// Capacity that is never shown to interactive senders (M of the paper, section 5.2): other traffic
/// shows itself in it.
pub(crate) const MARGIN_PART: f64 = 0.02;

/// Time constant of the guaranteed rate (section 5.2 of the paper leaves it open): flows that come
/// and go in a second do not move it.
pub(crate) const GUARANTEED_SECONDS: f64 = 0.5;

/// Time constant of the shown rate, less than that of the guaranteed one (section 5.2 of the
/// paper).
pub(crate) const SHOWN_SECONDS: f64 = 0.1;

/// Time constant of the measured rate of other traffic: five samples.
pub(crate) const OTHER_RATE_SECONDS: f64 = 0.25;

/// Largest guaranteed rate, as a part of the capacity: neither a floor nor any number of flows
/// starves other traffic.
pub(crate) const GUARANTEED_PART_MAX: f64 = 0.9;

/// Most networks that a query may pass: the Internet's paths have about four, seldom over seven.
pub const NETWORKS_MAX: usize = 8;

/// Most neighbours of a network.
pub const NEIGHBOURS_MAX: usize = 64;

/// Most directions that a controller asks or answers about, 16 MB with their segments.
pub const DIRECTIONS_MAX: usize = 10_000;

/// Number of directions from which neighbours' queries about others are refused, so that own flows
/// always find a free one. From half of it on, a neighbour is refused that asks about its share of
/// the half, so that each neighbour always finds its share.
pub(crate) const DIRECTIONS_OF_NEIGHBOURS_MAX: usize = DIRECTIONS_MAX / 2;

/// Time for which a registration of an own flow holds, unless it is renewed.
pub const LEASE: Duration = Duration::from_secs(60);

/// Time for which a neighbour's query holds, unless it is renewed: the table has nothing older for
/// a neighbour that returns.
pub const QUERY_LIFETIME: Duration = ENTRY_LIFETIME;
