//! Every limit of this crate, with its reason.

/// Most source packets one batch covers.
///
/// The published systems code 6 to 20 flows together; 32 leaves room and keeps the decoder's tables on the
/// stack. The code itself reaches `256 - REPAIR_PACKETS_MAX`.
pub const SOURCE_PACKETS_MAX: usize = 32;

/// Most repair packets one batch has.
///
/// More than 8 losses in 32 packets are a dark path, which relays carry whole, not more rows.
pub const REPAIR_PACKETS_MAX: usize = 8;

/// Most unknown packets that are solved for together: a burst of ten packets in three flows at once.
pub const JOINT_UNKNOWNS_MAX: usize = 32;

/// Most repair packets that are solved with together: half as many again, as some depend on others.
pub const JOINT_EQUATIONS_MAX: usize = 48;

/// Longest source packet in bytes: what the two-byte length column can name.
pub const PACKET_BYTES_MAX: usize = u16::MAX as usize;

/// The alignment in bytes at which packets are coded fastest: one cache line, one AVX-512 vector.
///
/// Any alignment is correct; on other boundaries each vector touches two cache lines, which costs 1.2 to 1.4
/// times as long.
pub const ALIGNMENT: usize = 64;

// Rows and columns take their points from the 256 elements of the field, and no two may meet.
const _: () = assert!(SOURCE_PACKETS_MAX + REPAIR_PACKETS_MAX <= 256);
const _: () = assert!(SOURCE_PACKETS_MAX >= 1 && REPAIR_PACKETS_MAX >= 1);
