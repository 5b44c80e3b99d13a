//! All limits of this crate, with their reasons.

use byway_units::Duration;

/// Longest datagram of a host, in bytes: the largest UDP payload in an IPv4 packet.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Most packets in flight in the whole world.
///
/// 8,000 packets a second on each of 100 links for one second; at 1,200 bytes they take 1.2 GB. A
/// larger number means a loop between hosts, or a delay that no path has.
pub const IN_FLIGHT_PACKETS_MAX: usize = 1 << 20;

/// Most datagrams that a host may send in answer to one input; more end the run with a panic.
///
/// A relay that completes the batches of a 2 s outage at 8,000 packets a second sends 16,000. A
/// host that sends four times that number is assumed never to stop.
pub const DRAINED_DATAGRAMS_MAX: usize = 1 << 16;

/// Most packets that the world buffers for a frozen host; further ones are lost.
///
/// A socket buffer of 1.2 MB, at 1,200 bytes each.
pub const FROZEN_BACKLOG_MAX: usize = 1_000;

/// Most events within one instant of virtual time.
///
/// All the packets of [`IN_FLIGHT_PACKETS_MAX`] may arrive at once and be answered. Beyond that,
/// time stands still: a host's deadline never advances, or two hosts answer each other over links
/// without delay.
pub const INSTANT_EVENTS_MAX: usize = 4 * IN_FLIGHT_PACKETS_MAX;

/// Shortest mean stay in a state of a loss process, in nanoseconds.
///
/// Stays are drawn one after the other even while nothing is sent: with a mean of a microsecond, an
/// idle hour costs a minute.
pub const MEAN_STAY_NANOS_MIN: u64 = 1_000;

/// Most slots of a recorded loss trace, one bit each: two days in slots of 10 ms take 2 MiB.
pub const RECORDED_SLOTS_MAX: usize = 1 << 24;

/// Most transmission opportunities of a recorded capacity: an hour of 14 Mbit/s, in 16 MiB.
pub const RECORDED_OPPORTUNITIES_MAX: usize = 1 << 22;

/// Most delays of a recorded delay trace: five hours of a packet each 20 ms, in 24 MiB.
pub const MEASURED_DELAYS_MAX: usize = 1 << 20;

/// Longest delay in a recorded delay trace: no application waits for longer than a minute.
pub const MEASURED_DELAY_MAX: Duration = Duration::from_secs(60);

/// Longest time between the first and last packet of a recorded delay trace: a year.
pub const MEASURED_SPAN_MAX: Duration = Duration::from_secs(366 * 86_400);

// A frozen host that resumes takes all its packets within one instant.
const _: () = assert!(FROZEN_BACKLOG_MAX < INSTANT_EVENTS_MAX);
const _: () = assert!(DRAINED_DATAGRAMS_MAX <= IN_FLIGHT_PACKETS_MAX);

/// Number of nodes from which on the world prefetches the data of upcoming events. With fewer, the
/// data of all agents stays in the cache.
pub const CACHED_NODES: usize = 100;

/// Number of events whose data is prefetched before they happen. Memory answers within a tenth of
/// an event's time, but pointers are followed one step at a time.
pub const NEAR_EVENTS: usize = 6;

/// Most events in the sorted queue in front of the heap. If an event inserted in between exceeds
/// it, the last one moves to the heap.
pub const NEAR_EVENTS_MAX: usize = 16;
