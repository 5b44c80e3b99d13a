//! Captures of packets as files for Wireshark (pcapng: IETF draft-ietf-opsawg-pcapng).

use byway_units::Time;

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// pcapng link type of packets without a link-layer header.
const LINKTYPE_RAW: u16 = 101;

const COMMENT: u16 = 1;
const FLAGS: u16 = 2;
const INTERFACE_NAME: u16 = 2;
const TIMESTAMP_RESOLUTION: u16 = 9;

/// Direction of a packet at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received by the interface.
    In,
    /// Sent by the interface.
    Out,
}

/// Writes the section header block, with which a capture file begins.
pub fn section(bytes: &mut Vec<u8>) {
    let mut section = 0x1A2B_3C4D_u32.to_le_bytes().to_vec();
    section.extend(1_u16.to_le_bytes());
    section.extend(0_u16.to_le_bytes());
    section.extend(u64::MAX.to_le_bytes());
    block(bytes, SECTION_HEADER, &section);
}

/// Writes the description of the next interface: IP packets, with times in nanoseconds. Interfaces
/// are numbered from 0 in the order of these calls.
pub fn interface(bytes: &mut Vec<u8>, name: &str) {
    let mut body = LINKTYPE_RAW.to_le_bytes().to_vec();
    body.extend([0; 6]);
    option(&mut body, INTERFACE_NAME, name.as_bytes());
    option(&mut body, TIMESTAMP_RESOLUTION, &[9]);
    option(&mut body, 0, &[]);
    block(bytes, INTERFACE, &body);
}

/// Block of a captured packet, before it is written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketBlock {
    body: Vec<u8>,
    has_options: bool,
}

impl PacketBlock {
    /// Creates the block of an IP packet captured at `interface`. The packet is the concatenation
    /// of `parts`.
    ///
    /// # Panics
    /// If the packet is longer than 2^32 bytes.
    #[must_use]
    pub fn new(interface: u32, time: Time, parts: &[&[u8]]) -> Self {
        let nanos = time.as_nanos().to_be_bytes();
        let (high, low) = nanos.split_at(4);
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(high.iter().rev());
        body.extend(low.iter().rev());
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let length = u32::try_from(length).expect("a packet").to_le_bytes();
        body.extend(length);
        body.extend(length);
        for part in parts {
            body.extend(*part);
        }
        pad(&mut body);
        Self { body, has_options: false }
    }

    /// Adds a comment, which Wireshark shows with the packet.
    #[must_use]
    pub fn with_comment(self, comment: &str) -> Self {
        self.with(COMMENT, comment.as_bytes())
    }

    /// Adds the packet's direction at its interface.
    #[must_use]
    pub fn with_direction(self, direction: Direction) -> Self {
        let flags = match direction {
            Direction::In => 1_u32,
            Direction::Out => 2,
        };
        self.with(FLAGS, &flags.to_le_bytes())
    }

    fn with(mut self, code: u16, value: &[u8]) -> Self {
        option(&mut self.body, code, value);
        Self { has_options: true, ..self }
    }

    /// Writes the block to a capture file.
    pub fn write(mut self, bytes: &mut Vec<u8>) {
        if self.has_options {
            option(&mut self.body, 0, &[]);
        }
        block(bytes, ENHANCED_PACKET, &self.body);
    }
}

/// Writes a block: its type, its length, its body, and its length again.
fn block(bytes: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = u32::try_from(body.len() + 12).expect("a block is a packet or less").to_le_bytes();
    bytes.extend(kind.to_le_bytes());
    bytes.extend(length);
    bytes.extend(body);
    bytes.extend(length);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend(u16::try_from(value.len()).expect("names are short").to_le_bytes());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_options_are_padded_and_say_their_length() {
        let mut body = Vec::new();
        option(&mut body, COMMENT, b"lost");
        option(&mut body, COMMENT, b"lost!");
        assert_eq!(body.len(), 8 + 12);
        let mut bytes = Vec::new();
        block(&mut bytes, INTERFACE, &body);
        assert_eq!((bytes[4], bytes.len(), bytes[28]), (32, 32, 32));
    }

    #[test]
    fn a_packet_has_its_parts_its_time_and_its_direction() {
        let mut bytes = Vec::new();
        let time = Time::from_nanos(0x0102_0304_0506_0708);
        PacketBlock::new(3, time, &[b"ab", b"cde"]).with_direction(Direction::Out).write(&mut bytes);
        let expected = [
            6, 0, 0, 0, 52, 0, 0, 0, 3, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 5, 0, 0, 0, b'a', b'b',
            b'c', b'd', b'e', 0, 0, 0, 2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0,
        ];
        assert_eq!(bytes, expected);
    }
}
