//! What the lab takes at most.

/// Longest packet that a TUN device of the lab takes.
pub const PACKET_BYTES_MAX: usize = 1_500;

/// Most packets under way on all links: a second of 50,000 packets/s, which is as much as one thread carries in time.
pub const UNDER_WAY_MAX: usize = 50_000;
