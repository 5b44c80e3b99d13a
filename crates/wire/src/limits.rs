//! Every limit of this crate, and the sizes that cryptography sets, with their reasons.

use byway_units::Duration;

use crate::messages::Mask;
use crate::packets::MESSAGE_OVERHEAD;

/// A packet key, a long-term key or the seed of one in bytes: those of AES-256, `ChaCha20`, X25519 and Ed25519.
pub const KEY_BYTES: usize = 32;

/// An authentication tag in bytes: that of AES-256-GCM and ChaCha20-Poly1305 (RFC 5116 section 5, RFC 8439).
pub const TAG_BYTES: usize = 16;

/// A MAC of an initiation, and a cookie, in bytes: those of BLAKE2s-128. A forger is right once in 2^128 tries.
pub const MAC_BYTES: usize = 16;

/// An Ed25519 signature in bytes (RFC 8032 section 5.1.6).
pub const SIGNATURE_BYTES: usize = 64;

/// Longest UDP payload in bytes: 65,535 less the headers of IPv4 (20) and UDP (8). No datagram is longer.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Most bytes of messages in one packet: a datagram less the header and the tag of a message packet.
///
/// Below 65,536, so that the two-byte length of a message always suffices.
pub const MESSAGES_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - MESSAGE_OVERHEAD;

/// Highest number of an agent: the top bit of a flow key's receiver tells groups from agents.
pub const AGENT_NUMBER_MAX: u32 = u32::MAX >> 1;

/// Most ranges in one message: more holes than that in one loss are reported by the next message.
///
/// 32 ranges take 192 bytes, so that a NACK fits beside others in a packet.
pub const RANGES_MAX: usize = 32;

/// Longest range of sequence numbers: at 100 Mbit/s in packets of 1,250 bytes, an outage of 0.8 s.
///
/// Whoever reads a range may have work with each number in it. What is lost in longer outages comes too late for
/// repair, and the end of a NACK may be open.
pub const RANGE_LENGTH_MAX: u16 = 8_192;

/// Most source packets that one repair packet covers: what the block code allows, and the bits of a mask.
pub const SOURCE_PACKETS_MAX: u8 = 32;

/// Most repair packets of one block or batch: what the block code allows.
pub const REPAIR_PACKETS_MAX: u8 = 8;

/// Most entries of a list whose count is one byte.
pub const LIST_ENTRIES_MAX: usize = 255;

/// Most candidate addresses of an agent: two families on a few interfaces, and what a relay or probe has seen.
pub const CANDIDATES_MAX: usize = 8;

/// How long new cookies are made with one secret; they are accepted for as long again.
///
/// Longer than the seconds in which an initiator asks again, short enough that collected cookies are soon
/// worth nothing.
pub const COOKIE_SECRET_LIFE: Duration = Duration::from_secs(120);

/// How far behind the highest counter of an epoch a packet may arrive.
///
/// At 10 Gbit/s in packets of 1,250 bytes this is 8 ms of reordering, at 100 Mbit/s 0.8 s. Its bitmap is 1 KiB.
pub const REPLAY_WINDOW: u64 = 8_192;

const _: () = assert!(MESSAGES_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(SOURCE_PACKETS_MAX as u64 <= Mask::SPAN_MAX);
// The place of a repair packet has four bits for the index and four for the count.
const _: () = assert!(REPAIR_PACKETS_MAX <= 15);
