//! What the lab takes at most.

/// Longest packet that a TUN device of the lab takes.
pub const PACKET_BYTES_MAX: usize = 1_500;

/// Most packets under way on all links: a second of 50,000 packets/s, which is as much as one thread carries in time.
pub const UNDER_WAY_MAX: usize = 50_000;

/// Longest capture of a machine: some minutes of 1,000 packets/s, and 200 machines fill 26 GB at most.
pub const CAPTURE_BYTES_MAX: u64 = 128 << 20;

/// Most packets that wait to be written: 100 MB of the longest, which a slow disk takes within a second or two.
pub const CAPTURE_WAITING_MAX: usize = 65_536;
