//! Encoding of TCP segments: the header of RFC 9293 (3.1), its options as Linux pads them, and the
//! payload.
//!
//! The checksum covers these bytes alone. It does not cover IP addresses, therefore a segment is
//! valid behind any network address translation and in any tunnel.

use alloc::vec::Vec;

use byway_wire::Ecn;
use thiserror::Error;

use super::limits::{HEADER_BYTES, OPTIONS_BYTES_MAX, SACK_BLOCKS_MAX, WINDOW_SCALE_MAX};
use super::payload_pattern;
use super::segment::{Flags, Options, Ports, SackBlock, Segment, Timestamps};
use super::sequence::SequenceNumber;

const CHECKSUM_AT: usize = 16;

const NO_OPERATION: u8 = 1;
const SEGMENT_BYTES: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Error of bytes that are not a valid TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SegmentError {
    /// The bytes are shorter than a header or than their data offset says, or longer than a segment
    /// can be.
    #[error("{bytes} bytes do not hold the header that they announce")]
    Length {
        /// Number of bytes that were to be decoded.
        bytes: usize,
    },
    /// The checksum is wrong: the bytes changed in flight.
    #[error("the checksum is wrong: the segment was damaged on its way")]
    Checksum,
    /// The header has an unsupported control bit: RST, PSH or URG.
    #[error("the control bits {bits:#04x} include one that is not used here")]
    Flags {
        /// All control bits of the header.
        bits: u8,
    },
    /// An option has an impossible length or value.
    #[error("option {kind} is malformed")]
    Option {
        /// Kind of the option.
        kind: u8,
    },
    /// The payload arrived undamaged, but belongs to another position or another stream: the
    /// network mixed up payloads.
    #[error("the payload does not belong where the header says")]
    Payload,
}

impl Segment {
    /// Writes the segment into `buffer` and replaces its previous content.
    ///
    /// # Panics
    /// If the options are longer than [`OPTIONS_BYTES_MAX`].
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        let header_bytes = HEADER_BYTES + self.options.bytes();
        assert!(header_bytes <= HEADER_BYTES + OPTIONS_BYTES_MAX, "{:?} are too many", self.options);
        buffer.clear();
        buffer.extend_from_slice(&self.ports.source.to_be_bytes());
        buffer.extend_from_slice(&self.ports.destination.to_be_bytes());
        buffer.extend_from_slice(&self.sequence.number().to_be_bytes());
        buffer.extend_from_slice(&self.acknowledgment.number().to_be_bytes());
        // The data offset, in words of four bytes, is the upper half of its byte.
        let offset = u8::try_from(header_bytes / 4).expect("a header has at most 60 bytes") << 4;
        buffer.extend_from_slice(&[offset, self.flags.bits()]);
        buffer.extend_from_slice(&self.window.to_be_bytes());
        buffer.extend_from_slice(&[0; 4]);
        encode_options(&self.options, buffer);
        buffer.resize(self.bytes(), 0);
        payload_pattern::fill(&mut buffer[header_bytes..], self.ports, self.sequence);
        let checksum = !ones_sum(buffer);
        buffer[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Decodes a segment that arrived in an IP packet with this ECN field, and checks its payload.
    ///
    /// # Errors
    /// If the bytes are not a segment, or are damaged.
    pub fn decode(bytes: &[u8], ecn: Ecn) -> Result<Self, SegmentError> {
        let length = SegmentError::Length { bytes: bytes.len() };
        let (header, _) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(length)?;
        let header_bytes = usize::from(header[12] >> 4) * 4;
        if header_bytes < HEADER_BYTES {
            return Err(length);
        }
        let options = bytes.get(HEADER_BYTES..header_bytes).ok_or(length)?;
        let payload = &bytes[header_bytes..];
        if ones_sum(bytes) != u16::MAX {
            return Err(SegmentError::Checksum);
        }
        let segment = Self {
            ports: Ports { source: read_u16(header, 0), destination: read_u16(header, 2) },
            sequence: SequenceNumber::new(read_u32(header, 4)),
            acknowledgment: SequenceNumber::new(read_u32(header, 8)),
            flags: Flags::from_bits(header[13]).ok_or(SegmentError::Flags { bits: header[13] })?,
            window: read_u16(header, 14),
            options: decode_options(options)?,
            payload_bytes: u16::try_from(payload.len()).map_err(|_| length)?,
            ecn,
        };
        if !payload_pattern::matches(payload, segment.ports, segment.sequence) {
            return Err(SegmentError::Payload);
        }
        Ok(segment)
    }
}

fn encode_options(options: &Options, buffer: &mut Vec<u8>) {
    if let Some(bytes) = options.segment_bytes {
        buffer.extend_from_slice(&[SEGMENT_BYTES, 4]);
        buffer.extend_from_slice(&bytes.to_be_bytes());
    }
    let padding = if options.sack_permitted { [SACK_PERMITTED, 2] } else { [NO_OPERATION; 2] };
    if let Some(Timestamps { value, echo }) = options.timestamps {
        buffer.extend_from_slice(&[padding[0], padding[1], TIMESTAMPS, 10]);
        buffer.extend_from_slice(&value.to_be_bytes());
        buffer.extend_from_slice(&echo.to_be_bytes());
    } else if options.sack_permitted {
        buffer.extend_from_slice(&[NO_OPERATION, NO_OPERATION, padding[0], padding[1]]);
    }
    if let Some(scale) = options.window_scale {
        buffer.extend_from_slice(&[NO_OPERATION, WINDOW_SCALE, 3, scale]);
    }
    if !options.sack_blocks.is_empty() {
        let length = u8::try_from(2 + 8 * options.sack_blocks.len()).expect("at most four blocks");
        buffer.extend_from_slice(&[NO_OPERATION, NO_OPERATION, SACK, length]);
        for block in options.sack_blocks.iter() {
            buffer.extend_from_slice(&block.start.number().to_be_bytes());
            buffer.extend_from_slice(&block.end.number().to_be_bytes());
        }
    }
}

fn decode_options(mut bytes: &[u8]) -> Result<Options, SegmentError> {
    let mut options = Options::default();
    while let [kind, rest @ ..] = bytes {
        match *kind {
            0 => break,
            NO_OPERATION => bytes = rest,
            kind => {
                let malformed = SegmentError::Option { kind };
                let length = usize::from(*rest.first().ok_or(malformed)?);
                let body = bytes.get(2..length).ok_or(malformed)?;
                decode_option(kind, body, &mut options).ok_or(malformed)?;
                bytes = &bytes[length..];
            }
        }
    }
    Ok(options)
}

/// Decodes one option; unknown ones change nothing. `None` if it is malformed.
fn decode_option(kind: u8, body: &[u8], options: &mut Options) -> Option<()> {
    match kind {
        SEGMENT_BYTES => options.segment_bytes = Some(u16::from_be_bytes(body.try_into().ok()?)),
        WINDOW_SCALE => {
            let [scale] = body.try_into().ok()?;
            // Larger shifts count as the largest (RFC 7323, 2.3).
            options.window_scale = Some(u8::min(scale, WINDOW_SCALE_MAX));
        }
        SACK_PERMITTED => {
            options.sack_permitted = true;
            return body.is_empty().then_some(());
        }
        TIMESTAMPS => {
            let body: &[u8; 8] = body.try_into().ok()?;
            options.timestamps = Some(Timestamps { value: read_u32(body, 0), echo: read_u32(body, 4) });
        }
        SACK => {
            let (blocks, rest) = body.as_chunks::<8>();
            if !rest.is_empty() || blocks.is_empty() || blocks.len() > SACK_BLOCKS_MAX {
                return None;
            }
            let block = |block: &[u8; 8]| SackBlock {
                start: SequenceNumber::new(read_u32(block, 0)),
                end: SequenceNumber::new(read_u32(block, 4)),
            };
            options.sack_blocks = blocks.iter().map(block).collect();
        }
        _ => {}
    }
    Some(())
}

fn read_u16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn read_u32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the ones' complement sum of 16-bit words (RFC 1071): all ones for bytes that include
/// their own checksum.
fn ones_sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    // At most 2^14 words of 32 bits: the sum fits.
    let sum = words.iter().chain([&last]).map(|word| u64::from(u32::from_be_bytes(*word))).sum::<u64>();
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).expect("two carries leave 16 bits")
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::tcp::segment::SackBlocks;

    fn syn() -> Segment {
        Segment {
            ports: Ports { source: 4_000, destination: 80 },
            sequence: SequenceNumber::new(7),
            acknowledgment: SequenceNumber::new(0),
            flags: Flags::SYN,
            window: 65_535,
            options: Options {
                segment_bytes: Some(1_460),
                window_scale: Some(11),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0 }),
                sack_blocks: SackBlocks::default(),
            },
            payload_bytes: 0,
            ecn: Ecn::NotCapable,
        }
    }

    fn encoded(segment: &Segment) -> Vec<u8> {
        let mut bytes = vec![];
        segment.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_syn_has_the_bytes_that_linux_gives_it() {
        let expected = [
            0x0f, 0xa0, 0x00, 0x50, 0, 0, 0, 7, 0, 0, 0, 0, 0xa0, 0x02, 0xff, 0xff, 0x34, 0x2e, 0, 0, //
            2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 11,
        ];
        assert_eq!(encoded(&syn()), expected);
    }

    #[test]
    fn full_segments_fill_an_ethernet_frame() {
        let timestamps = Some(Timestamps { value: 1, echo: 2 });
        let options = Options { timestamps, ..Options::default() };
        let segment = Segment { flags: Flags::ACK, options, payload_bytes: 1_448, ..syn() };
        assert_eq!(encoded(&segment).len() + 20, 1_500);
    }

    prop_compose! {
        fn options()(
            segment_bytes in any::<Option<u16>>(),
            window_scale in prop::option::of(0..=WINDOW_SCALE_MAX),
            sack_permitted in any::<bool>(),
            timestamps in any::<Option<(u32, u32)>>(),
            blocks in prop::collection::vec(any::<(u32, u32)>(), 0..=1),
        ) -> Options {
            let block = |(start, end)| SackBlock { start: SequenceNumber::new(start), end: SequenceNumber::new(end) };
            let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
            let sack_blocks = blocks.into_iter().map(block).collect();
            Options { segment_bytes, window_scale, sack_permitted, timestamps, sack_blocks }
        }
    }

    proptest! {
        #[test]
        fn segments_survive_their_bytes(
            options in options(), sequence in any::<u32>(), payload_bytes in 0_u16..1_460, window in any::<u16>(),
        ) {
            let sequence = SequenceNumber::new(sequence);
            let segment = Segment { sequence, window, options, payload_bytes, ..syn() };
            let bytes = encoded(&segment);
            prop_assert_eq!(bytes.len(), segment.bytes());
            prop_assert_eq!(Segment::decode(&bytes, Ecn::NotCapable), Ok(segment));
        }

        #[test]
        fn a_flipped_bit_is_always_noticed(payload_bytes in 0_u16..100, bit in any::<prop::sample::Index>()) {
            let mut bytes = encoded(&Segment { payload_bytes, ..syn() });
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Segment::decode(&bytes, Ecn::NotCapable).is_err());
        }

        #[test]
        fn hostile_bytes_are_an_error_or_a_segment(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Segment::decode(&bytes, Ecn::NotCapable);
            // With a valid checksum and length, decoding reaches the options.
            if bytes.len() >= HEADER_BYTES {
                let offset = u8::try_from(bytes.len() / 4).unwrap().min(15);
                bytes[12] = offset << 4;
                bytes[13] &= 0xd3;
                bytes[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
                let checksum = !ones_sum(&bytes);
                bytes[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
                let decoded = Segment::decode(&bytes, Ecn::NotCapable);
                prop_assert_ne!(decoded, Err(SegmentError::Checksum));
            }
        }
    }

    #[test]
    fn a_payload_from_elsewhere_is_told_apart_from_damage() {
        let mut bytes = encoded(&Segment { payload_bytes: 32, ..syn() });
        // The checksum does not change if words change places.
        let start = bytes.len() - 32;
        bytes[start..].rotate_left(4);
        assert_eq!(Segment::decode(&bytes, Ecn::NotCapable), Err(SegmentError::Payload));
    }
}
