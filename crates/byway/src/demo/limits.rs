//! Every limit of the demo, with its reason.

/// Pairs of agents that may take part: the addresses of the plan end with one byte, and two of them are a pair.
pub(crate) const PAIRS_MAX: usize = 100;

/// Longest datagram that the emulator carries: the longest UDP payload there is.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Receive buffer of each of the emulator's sockets, in bytes: a quarter of a second of all packets through a relay, should
/// the emulator be held up so long. The kernel may grant less.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Longest line that the emulator takes on its control channel, in bytes. A description of 100 pairs takes 200 KB.
pub(crate) const CONTROL_LINE_BYTES_MAX: usize = 1 << 20;

/// Most packets that the emulator writes down: a minute at three times its usual load, in 64 MB.
pub(crate) const RECORDED_PACKETS_MAX: usize = 1 << 20;

/// Most datagrams a receiver writes down for each sent: duplicates beyond that are a fault of its own, and counted.
pub(crate) const RECEIVED_PER_SENT_MAX: usize = 4;

/// Seeds of one `--seeds` run: at half a minute each, a night.
pub(crate) const SEEDS_MAX: u32 = 1_000;
