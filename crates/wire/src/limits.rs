//! Limits of this crate, and sizes of the cryptography, with reasons.

use byway_units::Duration;

use crate::messages::Mask;
use crate::packets::MESSAGE_OVERHEAD;

/// Length in bytes of a packet key, a long-term key, or the seed of one: that of AES-256,
/// `ChaCha20`, X25519 and Ed25519.
pub const KEY_BYTES: usize = 32;

/// Length of an authentication tag in bytes: that of AES-256-GCM and ChaCha20-Poly1305 (RFC 5116
/// section 5, RFC 8439).
pub const TAG_BYTES: usize = 16;

/// Length of an initiation's MAC, and of a cookie, in bytes: that of BLAKE2s-128. A forgery
/// succeeds once in 2^128 attempts.
pub const MAC_BYTES: usize = 16;

/// Length of an Ed25519 signature in bytes (RFC 8032 section 5.1.6).
pub const SIGNATURE_BYTES: usize = 64;

/// Longest UDP payload in bytes: 65,535 minus the headers of IPv4 (20) and UDP (8).
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Greatest length in bytes of all messages in one packet: a datagram minus the header and the tag
/// of a message packet.
///
/// It is below 65,536, because the length field of a message has two bytes.
pub const MESSAGES_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - MESSAGE_OVERHEAD;

/// Highest number of an agent. The top bit of a flow key's receiver distinguishes groups from
/// agents.
pub const AGENT_NUMBER_MAX: u32 = u32::MAX >> 1;

/// Largest number of ranges in one message. Further gaps are reported in the next message.
///
/// 32 ranges occupy 192 bytes, so a NACK fits into a packet with other messages.
pub const RANGES_MAX: usize = 32;

/// Greatest length of one range of sequence numbers: at 100 Mbit/s in packets of 1,250 bytes, an
/// outage of 0.8 s.
///
/// The limit exists because the reader of a range may do work for each sequence number. Packets of
/// longer outages are too late for repair, and an open-ended NACK covers them.
pub const RANGE_LENGTH_MAX: u16 = 8_192;

/// Largest number of source packets that one repair packet covers: the limit of the block code, and
/// the bits of a mask.
pub const SOURCE_PACKETS_MAX: u8 = 32;

/// Largest number of repair packets of one block or batch: the limit of the block code.
pub const REPAIR_PACKETS_MAX: u8 = 8;

/// Largest number of entries in a list whose count has one byte.
pub const LIST_ENTRIES_MAX: usize = 255;

/// Largest number of candidate addresses of an agent: two families on a few interfaces, and the
/// addresses that a relay or probe has observed.
pub const CANDIDATES_MAX: usize = 8;

/// Period after which a responder makes cookies with a new secret. It accepts cookies for one more
/// period.
///
/// The period is longer than an initiator's repetitions, and so short that collected cookies soon
/// become useless.
pub const COOKIE_SECRET_LIFE: Duration = Duration::from_secs(120);

/// Size of the replay window: a packet is rejected if its counter is this much or more below the
/// highest of its epoch.
///
/// At 10 Gbit/s in packets of 1,250 bytes this is 8 ms of reordering, at 100 Mbit/s 0.8 s. Its
/// bitmap is 1 KiB.
pub const REPLAY_WINDOW: u64 = 8_192;

const _: () = assert!(MESSAGES_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(SOURCE_PACKETS_MAX as u64 <= Mask::SPAN_MAX);
// A repair index has four bits for the index and four for the count.
const _: () = assert!(REPAIR_PACKETS_MAX <= 15);
