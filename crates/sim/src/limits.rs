//! Every limit of this crate, with its reason.

use byway_units::Duration;

/// Longest datagram a host may send, in bytes: the largest UDP payload in an IPv4 packet.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Most packets under way in the whole world.
///
/// 8,000 packets a second on each of 100 links for one second; at 1,200 bytes they take 1.2 GB. More is a
/// loop between hosts, or a delay that no path has.
pub const IN_FLIGHT_PACKETS_MAX: usize = 1 << 20;

/// Most datagrams a host may send in answer to one input.
///
/// A relay that completes the batches of a 2 s outage at 8,000 packets a second sends 16,000; a host above
/// four times that would never be drained.
pub const DRAINED_DATAGRAMS_MAX: usize = 1 << 16;

/// Most packets that wait for a hung host; the others are lost.
///
/// What 1.2 MB of socket buffer hold, at 1,200 bytes each.
pub const HELD_PACKETS_MAX: usize = 1_000;

/// Most events within one instant of virtual time.
///
/// All the packets of [`IN_FLIGHT_PACKETS_MAX`] may arrive at once and be answered; beyond that time stands
/// still: a host whose deadline never moves on, or two that answer each other over links without delay.
pub const INSTANT_EVENTS_MAX: usize = 4 * IN_FLIGHT_PACKETS_MAX;

/// Shortest mean stay in a state of a loss process, in nanoseconds.
///
/// Stays are drawn one after the other even while nothing is sent: at a microsecond, an idle hour costs a
/// minute.
pub const MEAN_STAY_NANOS_MIN: u64 = 1_000;

/// Most slots of a recorded loss trace: two days in slots of 10 ms, in 2 MiB of bits.
pub const RECORDED_SLOTS_MAX: usize = 1 << 24;

/// Most opportunities of a recorded capacity: an hour of 14 Mbit/s, in 16 MiB.
pub const RECORDED_OPPORTUNITIES_MAX: usize = 1 << 22;

/// Most measured delays: five hours of a packet each 20 ms, in 24 MiB.
pub const MEASURED_DELAYS_MAX: usize = 1 << 20;

/// Longest measured delay: beyond a minute, nobody waits.
pub const MEASURED_DELAY_MAX: Duration = Duration::from_secs(60);

/// Longest time that a measurement of delays may span: a year.
pub const MEASURED_SPAN_MAX: Duration = Duration::from_secs(366 * 86_400);

// A hung host that resumes takes all its packets within one instant.
const _: () = assert!(HELD_PACKETS_MAX < INSTANT_EVENTS_MAX);
const _: () = assert!(DRAINED_DATAGRAMS_MAX <= IN_FLIGHT_PACKETS_MAX);

/// Fewest nodes for which events are looked at before they happen: a hundred agents fit in the cache, and stay there.
pub const CACHED_NODES: usize = 100;

/// How many events are looked at before they happen, so that what they need is in the cache by then: memory answers within
/// a tenth of an event, but what is there says where the rest is.
pub const NEAR_EVENTS: usize = 6;

/// Most events that are kept in order rather than in a heap: those that come in between others make way here.
pub const NEAR_EVENTS_MAX: usize = 16;
