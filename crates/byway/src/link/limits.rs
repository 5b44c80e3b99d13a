//! Limits of `byway link`, and why they are what they are.

use byway_units::{Bytes, Duration, Rate};

/// What HTB may send at once, at least: two packets, or else its clock's error takes from the rate. (Each a class's; see `sharing.rs`.)
pub(super) const BURST_PACKETS: u64 = 2;

/// Below this, a timer of the kernel that is late costs rate: 95 of 100 are within 100 us on a busy machine.
pub(super) const BURST_TIME: Duration = Duration::from_micros(100);

/// Headers that Ethernet adds to a packet, with the tag of a VLAN.
pub(super) const ETHERNET_HEADER_BYTES: u64 = 18;

/// The longest packet that a class is sized for: IP has none longer.
pub(super) const PACKET_MAX: Bytes = Bytes::new(65_535);

/// The fastest link: faster than any that one HTB fills, which sends with one lock, and as fast as sharing is tested for.
pub(super) const RATE_MAX: Rate = Rate::from_bits_per_second(100_000_000_000);

/// The longest queue that the kernel takes: bfifo's limit has 32 bits.
pub(super) const ROOM_MAX: Bytes = Bytes::new(0xFFFF_FFFF);

/// The longest question or answer between commands: a status has 2 kB.
pub(super) const LINE_BYTES_MAX: u64 = 64 << 10;

/// Commands that wait for the controller: more wait in the kernel.
pub(super) const ASKED_MAX: usize = 16;

/// How long a command may take to say what it wants: it has that ready, but the machine may be busy.
pub(super) const ASKED_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// How long a controller may take to answer: at 400 ms a round, and more on a machine that is busy.
pub(super) const ANSWERED_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);
