//! Limits of this crate, with their reasons.

use byway_units::Duration;
use byway_wire::limits::DATAGRAM_BYTES_MAX;

/// Largest number of datagrams in a GSO call: the kernel's `UDP_MAX_SEGMENTS` before version 6.9,
/// which doubled it.
pub(crate) const SEGMENTS_MAX: usize = 64;

/// Number of GSO errors after which a socket stops to use GSO. One for each MTU in use is expected,
/// which is a handful.
pub(crate) const REFUSALS_MAX: u8 = 8;

/// Length of one receive buffer: the longest datagram and the longest GRO row, 65,535 bytes. The
/// extra bytes give buffers different offsets in a page, because the cache has few ways for each
/// offset.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 65_536 + 17 * 64;

/// Number of receive buffers of a thread, filled with one system call: 1 MiB together. The share of
/// the call in a datagram's cost is then small.
pub(crate) const RECEIVE_BUFFERS: usize = 16;

/// Largest number of sockets that a thread handles in one turn, each with one system call: timers
/// are checked between them, controls after them.
pub(crate) const EVENTS_MAX: usize = 16;

/// Largest number of device or queue packets that a thread handles before sockets and timers have
/// their turn: at 2 us each, as long as a batch of datagrams.
pub(crate) const PACKETS_PER_TURN: usize = 64;

/// Number of packets of one queue that may wait for a verdict. It exceeds the capacity of the
/// socket's buffer (2 MiB, at 768 bytes for the shortest packet), because the kernel counts only
/// the packets that the buffer rejects.
pub(crate) const QUEUE_PACKETS_MAX: u32 = 4_096;

/// Longest message about a queued packet, in bytes: the longest requested packet, and about 150
/// bytes of other attributes.
pub(crate) const QUEUE_MESSAGE_BYTES_MAX: usize = 4_096;

/// Longest datagram in bytes of the kernel's answers about devices and their queues: it fills at
/// most half of it.
pub(crate) const LINK_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Longest name of a network device (`IFNAMSIZ` without the terminating zero).
pub(crate) const DEVICE_NAME_BYTES_MAX: usize = 15;

/// Longest IP packet of a device, in bytes.
pub(crate) const PACKET_BYTES_MAX: usize = 65_536;

/// Largest number of controls that wait for a thread: reconfigurations, status requests, maps.
/// Further ones are rejected.
pub(crate) const CONTROLS_MAX: usize = 256;

/// Largest number of controls that a thread handles in one turn, because datagrams must not wait
/// for all of them.
pub(crate) const CONTROLS_PER_TURN: usize = 16;

/// Largest number of queued runs of datagrams, and of buffers for them: 16 MiB if each once had 64
/// KiB.
///
/// All are sent at the end of a turn, or when the queue is full. This is enough for a receive batch
/// without GRO whose datagrams each cause sixteen datagrams to different destinations.
pub(crate) const RUNS_MAX: usize = 256;

/// Largest number of queued bytes to send: they are still in the second-level cache when the kernel
/// copies them.
pub(crate) const QUEUED_BYTES_MAX: usize = 1 << 20;

/// Largest number of runs that stay queued after a flush because the kernel accepts no more: the
/// other half is for other sockets.
pub(crate) const HELD_RUNS_MAX: usize = RUNS_MAX / 2;

/// Largest number of bytes that stay queued after a flush because the kernel accepts no more. At
/// 100 Mbit/s they take 40 ms, behind the kernel's own buffer.
pub(crate) const HELD_BYTES_MAX: usize = QUEUED_BYTES_MAX / 2;

/// Number of slots for the newest run of each destination. Two destinations in one slot have
/// shorter runs.
pub(crate) const DESTINATIONS: usize = 1_024;

/// Requested kernel buffer of an overlay socket in each direction: 40 ms at 800 Mbit/s, the longest
/// time for which a thread may not be scheduled on a busy machine.
pub(crate) const OVERLAY_BUFFER_BYTES: usize = 4 << 20;

/// Requested kernel buffer of an application's socket: a burst of ten video frames. There are
/// thousands of such sockets.
pub(crate) const APPLICATION_BUFFER_BYTES: usize = 1 << 20;

/// Size of an overlay socket's receive buffer below which the role logs a warning: 10 ms at 800
/// Mbit/s.
pub(crate) const RECEIVE_BUFFER_BYTES_WARNED: usize = 1 << 20;

/// Time for which the system's preferred source address is cached: routes change, and four system
/// calls for each peer and second are cheap.
pub(crate) const ROUTE_VALID_FOR: Duration = Duration::from_secs(1);

/// Number of cached routes: more than the peers of an agent that send at the same time.
pub(crate) const ROUTES_CACHED: usize = 256;

/// Largest number of route lookups in a second, at some 5 us each: strangers cause as many as they
/// have addresses.
pub(crate) const ROUTE_LOOKUPS_MAX: u32 = 256;

/// Largest number of packets in one notification of the role about packets that were too long: a
/// burst of a few flows. One is enough to learn the MTU.
pub(crate) const TOO_BIG_MAX: usize = 64;

/// Largest number of refusals by uplinks in one notification of the role: each peer has one
/// address, and the refusals of others follow with their next packets.
pub(crate) const UPLINK_REFUSALS_MAX: usize = 64;

/// Number of stored bytes of the payload of a packet that was too long: its header. Routers quote
/// at least this much in practice (RFC 1812, section 4.3.2.3).
pub(crate) const QUOTED_BYTES_MAX: usize = 64;

/// Largest number of errors that a thread reads from one socket in a row, because a flood of them
/// must not delay other work.
pub(crate) const ERRORS_PER_TURN: usize = 64;

/// Interval at which a thread reads the kernel's drop counters.
pub(crate) const DROPS_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(RECEIVE_BUFFER_BYTES.is_multiple_of(64) && RECEIVE_BUFFER_BYTES > DATAGRAM_BYTES_MAX);
// After a flush, the longest datagram fits into the queue.
const _: () = assert!(HELD_BYTES_MAX + DATAGRAM_BYTES_MAX <= QUEUED_BYTES_MAX && HELD_RUNS_MAX < RUNS_MAX);
const _: () = assert!(DESTINATIONS.is_power_of_two() && RUNS_MAX <= u16::MAX as usize);
