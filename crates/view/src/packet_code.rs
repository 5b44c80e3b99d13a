//! Numbers and lengths of packets in answers.
//!
//! A packet is its step from the packet before, its length and its bytes. The numbers have seven
//! bits in a byte, and the eighth bit in all bytes but the last, as packet lengths in codestreams
//! have. Packets of a layer follow one another, so that most have two to four bytes of both.

use alloc::vec::Vec;

use crate::layout::PacketNumber;
use crate::limits::{PACKET_BYTES_MAX, PACKETS_MAX};
use crate::reader::Reader;

const BITS: u32 = 7;
const MORE: u8 = 0x80;

/// Returns the bytes of a packet of this length in an answer, behind the packet before.
pub(crate) fn coded_length(before: Option<PacketNumber>, packet: PacketNumber, length: u32) -> u32 {
    groups(step(before, packet)) + groups(length) + length
}

/// Writes a packet.
pub(crate) fn write_packet(
    before: Option<PacketNumber>,
    packet: PacketNumber,
    bytes: &[u8],
    answer: &mut Vec<u8>,
) {
    write_number(step(before, packet), answer);
    // Selected packets have at most PACKET_BYTES_MAX.
    write_number(u32::try_from(bytes.len()).unwrap_or(u32::MAX), answer);
    answer.extend_from_slice(bytes);
}

/// Reads a packet; `None` if it is cut, empty, too long, or written in more bytes than needed.
pub(crate) fn read_packet<'a>(
    before: Option<PacketNumber>,
    answer: &mut Reader<'a>,
) -> Option<(PacketNumber, &'a [u8])> {
    let packet = after_step(before, read_number(answer)?)?;
    let length = read_number(answer).filter(|length| (1..=PACKET_BYTES_MAX).contains(length))?;
    Some((packet, answer.read(length as usize)?))
}

/// Returns the step from the packet that is expected next: even numbers forward, odd ones backward.
fn step(before: Option<PacketNumber>, packet: PacketNumber) -> u32 {
    let step = i64::from(packet.get()) - expected(before);
    let code = if step < 0 { -2 * step - 1 } else { 2 * step };
    // Packets are below PACKETS_MAX.
    u32::try_from(code).unwrap_or(u32::MAX)
}

fn after_step(before: Option<PacketNumber>, code: u32) -> Option<PacketNumber> {
    let half = i64::from(code / 2);
    let step = if code.is_multiple_of(2) { half } else { -half - 1 };
    let number = u32::try_from(expected(before) + step).ok()?;
    (number < PACKETS_MAX).then_some(PacketNumber::new(number))
}

fn expected(before: Option<PacketNumber>) -> i64 {
    before.map_or(0, |before| i64::from(before.get()) + 1)
}

/// Returns the bytes of a number.
const fn groups(number: u32) -> u32 {
    let bits = u32::BITS - number.leading_zeros();
    if bits == 0 { 1 } else { bits.div_ceil(BITS) }
}

fn write_number(number: u32, answer: &mut Vec<u8>) {
    for group in (0..groups(number)).rev() {
        let [.., bits] = (number >> (BITS * group)).to_be_bytes();
        answer.push(if group > 0 { bits | MORE } else { bits & !MORE });
    }
}

fn read_number(answer: &mut Reader<'_>) -> Option<u32> {
    let mut number = 0_u32;
    loop {
        let byte = answer.u8()?;
        if number == 0 && byte == MORE {
            return None;
        }
        number = number.checked_mul(1 << BITS)? + u32::from(byte & !MORE);
        if byte & MORE == 0 {
            return Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn written(number: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_number(number, &mut bytes);
        bytes
    }

    #[test]
    fn numbers_have_as_few_bytes_as_possible() {
        assert_eq!(written(0), [0]);
        assert_eq!(written(127), [0x7F]);
        assert_eq!(written(128), [0x81, 0x00]);
        // 300 = 2 * 128 + 44.
        assert_eq!(written(300), [0x82, 44]);
        assert_eq!(written(u32::MAX), [0x8F, 0xFF, 0xFF, 0xFF, 0x7F]);
        for number in [0, 1, 127, 128, 16_383, 16_384, 2_097_152, u32::MAX] {
            let bytes = written(number);
            assert_eq!(bytes.len(), groups(number) as usize);
            assert_eq!(read_number(&mut Reader::new(&bytes)), Some(number));
        }
    }

    #[test]
    fn longer_and_larger_numbers_are_refused() {
        let refused: [&[u8]; 5] = [
            &[],
            &[0x81],
            &[0x80, 0x01],
            &[0x90, 0x80, 0x80, 0x80, 0x00],
            &[0x81, 0x80, 0x80, 0x80, 0x80, 0x00],
        ];
        for bytes in refused {
            assert_eq!(read_number(&mut Reader::new(bytes)), None, "{bytes:?}");
        }
    }

    #[test]
    fn steps_lead_to_the_packet_from_any_other() {
        let packets = [0, 1, 2, 20, 4_000_000, PACKETS_MAX - 1].map(PacketNumber::new);
        for before in [None].into_iter().chain(packets.map(Some)) {
            for packet in packets {
                assert_eq!(after_step(before, step(before, packet)), Some(packet));
            }
        }
        // One packet on is no step, and the packet itself is one step back.
        let seven = Some(PacketNumber::new(7));
        assert_eq!((step(seven, PacketNumber::new(8)), step(seven, PacketNumber::new(7))), (0, 1));
        assert_eq!((step(seven, PacketNumber::new(28)), step(seven, PacketNumber::new(0))), (40, 15));
    }

    #[test]
    fn packets_that_no_image_has_are_refused() {
        assert_eq!(after_step(None, 1), None);
        assert_eq!(after_step(None, 2 * PACKETS_MAX), None);
        assert_eq!(after_step(Some(PacketNumber::new(PACKETS_MAX - 1)), 0), None);
        assert_eq!(after_step(None, u32::MAX), None);
    }

    #[test]
    fn written_packets_have_the_computed_length_and_are_read_again() {
        let (before, packet) = (Some(PacketNumber::new(7)), PacketNumber::new(1_000));
        let (bytes, mut answer) = (vec![9; 200], Vec::new());
        write_packet(before, packet, &bytes, &mut answer);
        // Two bytes for 992 * 2, two for 200.
        assert_eq!((answer.len(), coded_length(before, packet, 200)), (204, 204));
        assert_eq!(read_packet(before, &mut Reader::new(&answer)), Some((packet, &bytes[..])));
        assert_eq!(read_packet(before, &mut Reader::new(&answer[..203])), None);
        assert_eq!(read_packet(None, &mut Reader::new(&[0, 0])), None, "a packet without bytes");
    }
}
