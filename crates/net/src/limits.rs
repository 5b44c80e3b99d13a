//! Every limit of this crate, with its reason.

use byway_units::Duration;
use byway_wire::limits::DATAGRAM_BYTES_MAX;

/// Most datagrams of one GSO call: the kernel's `UDP_MAX_SEGMENTS` before version 6.9, which took twice as many.
pub(crate) const SEGMENTS_MAX: usize = 64;

/// Refusals of GSO after which a socket goes without: one for each MTU in use is expected, and that is a handful.
pub(crate) const REFUSALS_MAX: u8 = 8;

/// Bytes of one receive buffer: the longest datagram and the longest row of them that GRO makes, 65,535, and so
/// much more that buffers do not begin at the same place of a page: the cache has few ways for each.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 65_536 + 17 * 64;

/// Receive buffers of a thread, filled with one system call: 1 MiB, and its share of the call is small.
pub(crate) const RECEIVE_BUFFERS: usize = 16;

/// Most sockets that are looked at in one turn, each with one system call: timers are looked at between them,
/// controls after them.
pub(crate) const EVENTS_MAX: usize = 16;

/// Packets that are taken from a device before sockets and timers have their turn: at 2 us each, as long as a batch of datagrams.
pub(crate) const PACKETS_PER_TURN: usize = 64;

/// Packets of one queue that wait for a verdict: more than the socket's buffer has room for (2 MiB, at 768 bytes for the shortest), as the
/// kernel counts what that refuses, and nothing else.
pub(crate) const QUEUE_PACKETS_MAX: u32 = 4_096;

/// Longest message about a packet: the longest that is asked for, and its other attributes, about 150 bytes.
pub(crate) const QUEUE_MESSAGE_BYTES_MAX: usize = 4_096;

/// Longest datagram of answers about devices and their queues: the kernel fills at most half of it.
pub(crate) const LINK_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Longest name of a network device (`IFNAMSIZ`, without the zero that ends it).
pub(crate) const DEVICE_NAME_BYTES_MAX: usize = 15;

/// Longest packet of a device.
pub(crate) const PACKET_BYTES_MAX: usize = 65_536;

/// Most controls that wait for a thread: reconfigurations, questions for the status, maps. More are refused.
pub(crate) const CONTROLS_MAX: usize = 256;

/// Most controls handled in one turn, so that datagrams do not wait for them all.
pub(crate) const CONTROLS_PER_TURN: usize = 16;

/// Most rows of datagrams that wait to be sent, and buffers for them: 16 MiB if each once held 64 KiB.
///
/// All are sent at the end of a turn, or when there are no more. Enough for a receive batch without GRO whose datagrams
/// each cause sixteen, all to other destinations.
pub(crate) const RUNS_MAX: usize = 256;

/// Most bytes that wait to be sent: they still lie in the second-level cache when the kernel copies them.
pub(crate) const QUEUED_BYTES_MAX: usize = 1 << 20;

/// Most rows that stay after a flush because the kernel takes no more: leaves as many to the other sockets.
pub(crate) const HELD_RUNS_MAX: usize = RUNS_MAX / 2;

/// Most bytes that stay after a flush, likewise. At 100 Mbit/s they take 40 ms, behind the kernel's own buffer.
pub(crate) const HELD_BYTES_MAX: usize = QUEUED_BYTES_MAX / 2;

/// Places in which the newest row of a destination is looked up. Two destinations in one place have shorter rows.
pub(crate) const DESTINATIONS: usize = 1_024;

/// What the kernel is asked to let wait at an overlay socket, each way: 40 ms at 800 Mbit/s, as long as a thread
/// may not run on a busy machine.
pub(crate) const OVERLAY_BUFFER_BYTES: usize = 4 << 20;

/// The same for an application's socket, of which there are thousands: a burst of ten video frames.
pub(crate) const APPLICATION_BUFFER_BYTES: usize = 1 << 20;

/// Below this an overlay socket's receive buffer is warned of: 10 ms at 800 Mbit/s.
pub(crate) const RECEIVE_BUFFER_BYTES_WARNED: usize = 1 << 20;

/// How long the address is believed that the system would choose as a source: routes change, and four system calls for each peer and
/// second cost nothing.
pub(crate) const ROUTE_VALID_FOR: Duration = Duration::from_secs(1);

/// Remote addresses whose route is remembered: more than an agent has peers that send at the same time.
pub(crate) const ROUTES_KEPT: usize = 256;

/// Most lookups of routes in a second, at some 5 us each: strangers cause as many as they have addresses.
pub(crate) const ROUTE_LOOKUPS_MAX: u32 = 256;

/// Packets that were too long of which the role is told at once: a burst of a few flows. One is enough to learn from.
pub(crate) const TOO_LONG_MAX: usize = 64;

/// Bytes of such a packet's payload that are kept: its header. Routers quote at least so much in practice (RFC 1812,
/// section 4.3.2.3).
pub(crate) const QUOTED_BYTES_MAX: usize = 64;

/// Errors of one socket that are taken at once, so that a flood of them does not hold up what else is to be done.
pub(crate) const ERRORS_PER_TURN: usize = 64;

/// How often the kernel is asked what it dropped.
pub(crate) const DROPS_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(RECEIVE_BUFFER_BYTES.is_multiple_of(64) && RECEIVE_BUFFER_BYTES > DATAGRAM_BYTES_MAX);
// After a flush there is room for the longest datagram.
const _: () = assert!(HELD_BYTES_MAX + DATAGRAM_BYTES_MAX <= QUEUED_BYTES_MAX && HELD_RUNS_MAX < RUNS_MAX);
const _: () = assert!(DESTINATIONS.is_power_of_two() && RUNS_MAX <= u16::MAX as usize);
