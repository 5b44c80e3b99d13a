//! Limits of this crate, with their reasons.

/// Largest number of source packets in a batch.
///
/// The published systems code 6 to 20 flows together. 32 leaves a margin, and the decoder's tables
/// fit on the stack. The code itself supports `256 - REPAIR_PACKETS_MAX`.
pub const SOURCE_PACKETS_MAX: usize = 32;

/// Largest number of repair packets of a batch.
///
/// More than 8 losses in 32 packets are an outage, which relays handle by forwarding copies, not by
/// more rows.
pub const REPAIR_PACKETS_MAX: usize = 8;

/// Largest number of unknown packets in a joint system: a burst of ten packets in three flows at
/// once.
pub const JOINT_UNKNOWNS_MAX: usize = 32;

/// Largest number of repair packets in a joint system: 50 % more, because some depend on others.
pub const JOINT_EQUATIONS_MAX: usize = 48;

/// Longest source packet in bytes: the most that the two-byte length column can encode.
pub const PACKET_BYTES_MAX: usize = u16::MAX as usize;

/// Alignment in bytes at which coding is fastest: one cache line, one AVX-512 vector.
///
/// Any alignment is correct; on other boundaries each vector touches two cache lines, which takes
/// 1.2 to 1.4 times as long.
pub const ALIGNMENT: usize = 64;

// The points of rows and columns are elements of the field, and must differ.
const _: () = assert!(SOURCE_PACKETS_MAX + REPAIR_PACKETS_MAX <= 256);
const _: () = assert!(SOURCE_PACKETS_MAX >= 1 && REPAIR_PACKETS_MAX >= 1);
