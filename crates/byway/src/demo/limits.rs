//! Limits of the demo, with their reasons.

/// Most pairs of agents. The plan's addresses end with one byte, and a pair has two of them.
pub(crate) const PAIRS_MAX: usize = 100;

/// Longest datagram that the emulator forwards: the longest UDP payload.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Receive buffer of each of the emulator's sockets, in bytes: a quarter of a second of all packets
/// through a relay. The emulator may stall for that time; the kernel may grant less.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Longest line that the emulator accepts on its control channel, in bytes. A description of 100
/// pairs takes 200 KB.
pub(crate) const CONTROL_LINE_BYTES_MAX: usize = 1 << 20;

/// Most packets that the emulator records: a minute at three times its usual load, in 64 MB.
pub(crate) const RECORDED_PACKETS_MAX: usize = 1 << 20;

/// Most arrivals that a receiver records, per datagram sent. More duplicates would be a fault of
/// Byway; they are ignored.
pub(crate) const RECEIVED_PER_SENT_MAX: usize = 4;

/// Most seeds of one `--seeds` run: at half a minute each, a night.
pub(crate) const SEEDS_MAX: u32 = 1_000;
