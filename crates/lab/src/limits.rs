//! Limits of the lab.

/// Longest IP packet of the lab's TUN devices, in bytes: their MTU.
pub const PACKET_BYTES_MAX: usize = 1_500;

/// Most packets in flight on all links: a second of 50,000 packets/s, the most that one thread
/// handles in time.
pub const IN_FLIGHT_MAX: usize = 50_000;

/// Largest capture file of a machine, in bytes: some minutes of 1,000 packets/s. 200 machines fill
/// at most 26 GB.
pub const CAPTURE_BYTES_MAX: u64 = 128 << 20;

/// Most captured packets that wait for the writer's thread: 100 MB of the longest ones. A slow disk
/// writes them within one or two seconds.
pub const CAPTURE_QUEUE_MAX: usize = 65_536;
