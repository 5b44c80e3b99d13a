//! Limits of `byway link`, with their reasons.

use byway_units::{Bytes, Duration, Rate};

/// Least burst of an HTB class, in packets of the longest frame. With less, the error of HTB's
/// clock reduces the rate.
pub(super) const BURST_PACKETS: u64 = 2;

/// Least burst of an HTB class, in time at its rate. With less, a late kernel timer reduces the
/// rate: 95 of 100 are within 100 us on a busy machine.
pub(super) const BURST_TIME: Duration = Duration::from_micros(100);

/// Bytes of the headers that Ethernet adds to an IP packet, with a VLAN's tag.
pub(super) const ETHERNET_HEADER_BYTES: u64 = 18;

/// Longest packet for which a class is sized, in bytes: the longest of IP.
pub(super) const PACKET_MAX: Bytes = Bytes::new(65_535);

/// Highest rate that a link may have. One HTB, which sends under one lock, cannot reach it, and the
/// tests of sharing end there.
pub(super) const RATE_MAX: Rate = Rate::from_bits_per_second(100_000_000_000);

/// Longest queue that the kernel supports, in bytes: bfifo's limit has 32 bits.
pub(super) const QUEUE_BYTES_MAX: Bytes = Bytes::new(0xFFFF_FFFF);

/// Longest command or answer on a control socket, in bytes. A status has 2 kB.
pub(super) const LINE_BYTES_MAX: u64 = 64 << 10;

/// Maximum number of commands that wait for a controller. Further ones wait in the kernel.
pub(super) const PENDING_COMMANDS_MAX: usize = 16;

/// Time that a client has to send its command to a controller. The client has the command ready,
/// but the machine may be busy.
pub(super) const COMMAND_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// Time that a controller has to answer a command. It updates the link every 400 ms, and less often
/// on a busy machine.
pub(super) const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Time after which a stream of samples counts as stable: the next failure is retried soon again.
pub(super) const STABLE_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// Maximum number of the controller's registered flows that are counted: as many as the kernel's
/// table holds.
pub(super) const FOLLOWED_FLOWS_MAX: usize = 16_384;

/// Maximum number of the controller's lines, of 64 registered flows each, that wait for the link's
/// loop. Further ones wait in the connection.
pub(super) const PENDING_LINES_MAX: usize = 4;

/// Longest lease of a registered flow. A sender that has ended is interactive for no longer.
pub(super) const LEASE_MAX: Duration = Duration::from_secs(3_600);
