//! Every limit of this crate, with its reason.

/// Longest UDP payload in bytes: 65,535 less the headers of IPv4 (20) and UDP (8). No datagram is longer.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Most bytes of messages in one packet: a datagram less the header (9) and the tag (16) of a message packet.
///
/// Below 65,536, so that the two-byte length of a message always suffices.
pub const MESSAGES_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - 9 - TAG_BYTES;

/// An authentication tag in bytes: that of AES-256-GCM and ChaCha20-Poly1305 (RFC 5116 section 5, RFC 8439).
pub const TAG_BYTES: usize = 16;

/// Highest number of an agent: the top bit of a flow key's receiver tells groups from agents.
pub const AGENT_NUMBER_MAX: u32 = u32::MAX >> 1;

/// Most ranges in one message: more holes than that in one loss are reported by the next message.
///
/// 32 ranges take 192 bytes, so that a NACK fits beside others in a packet.
pub const RANGES_MAX: usize = 32;

/// Longest range of sequence numbers: a packet that is farther back than this is dropped by replay windows, so
/// nobody can want it.
pub const RANGE_LENGTH_MAX: u16 = 8_192;

/// Most source packets that one repair packet covers: what the block code allows, and the bits of a mask.
pub const SOURCE_PACKETS_MAX: u8 = 32;

/// Most repair packets of one block or batch: what the block code allows.
pub const REPAIR_PACKETS_MAX: u8 = 8;

/// Most entries of a list whose count is one byte.
pub const LIST_ENTRIES_MAX: usize = 255;

/// Most candidate addresses of an agent: two families on a few interfaces, and what a relay or probe has seen.
pub const CANDIDATES_MAX: usize = 8;

const _: () = assert!(MESSAGES_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(SOURCE_PACKETS_MAX as u32 <= u32::BITS);
// The place of a repair packet has four bits for the index and four for the count.
const _: () = assert!(REPAIR_PACKETS_MAX <= 15);
