//! Key frames in MPEG transport streams (ISO/IEC 13818-1): from a start that says that decoding may begin there to the next start of the
//! same stream.

use super::rtp;

/// A packet of a transport stream (section 2.4.3.2), and what it begins with.
const PACKET_BYTES: usize = 188;
const SYNC: u8 = 0x47;

/// Which elementary streams are within a key frame.
#[derive(Clone, Debug, Default)]
pub(super) struct TransportStream {
    /// Their packet identifiers: a programme has one video stream, and a multiplex a few; of more, those seen last.
    within: [Option<u16>; STREAMS],
    next: usize,
}

/// Streams that are kept in mind.
const STREAMS: usize = 4;

impl TransportStream {
    /// Whether a datagram has a part of a key frame.
    pub(super) fn takes(&mut self, datagram: &[u8]) -> bool {
        let stream = if datagram.first() == Some(&SYNC) { Some(datagram) } else { rtp::payload_of(datagram) };
        let packets = stream.map_or(&[][..], |stream| stream.as_chunks::<PACKET_BYTES>().0);
        let mut is_key = false;
        for packet in packets {
            is_key |= self.takes_packet(packet);
        }
        is_key
    }

    fn takes_packet(&mut self, packet: &[u8; PACKET_BYTES]) -> bool {
        if packet[0] != SYNC {
            return false;
        }
        let identifier = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        let place = self.within.iter().position(|within| *within == Some(identifier));
        let begins = packet[1] & 0x40 != 0;
        if !begins {
            return place.is_some();
        }
        let is_key = begins_key_frame(packet);
        match (place, is_key) {
            (Some(place), false) => self.within[place] = None,
            (None, true) => {
                self.within[self.next] = Some(identifier);
                self.next = (self.next + 1) % STREAMS;
            }
            _ => {}
        }
        is_key
    }
}

/// Whether video begins here that may be decoded from here on: the random access indicator (section 2.4.3.4) of a stream of video
/// (table 2-22). Audio has it with each frame.
fn begins_key_frame(packet: &[u8; PACKET_BYTES]) -> bool {
    let has_adaptation = packet[3] & 0x20 != 0;
    let adaptation = if has_adaptation { usize::from(packet[4]) } else { 0 };
    let is_random_access = adaptation > 0 && packet[5] & 0x40 != 0;
    let payload = packet.get(5 + adaptation..).and_then(|payload| payload.first_chunk::<4>());
    is_random_access && payload.is_some_and(|start| start[..3] == [0, 0, 1] && start[3] & 0xF0 == 0xE0)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const VIDEO: u8 = 0xE0;
    const AUDIO: u8 = 0xC0;

    /// A packet of a stream, or its first of a frame.
    fn packet(identifier: u8, start: Option<(u8, bool)>) -> Vec<u8> {
        let mut packet = [0xFF; PACKET_BYTES].to_vec();
        packet[..4].copy_from_slice(&[SYNC, 0, identifier, 0x10]);
        if let Some((stream, is_random_access)) = start {
            packet[1] = 0x40;
            packet[3] = 0x30;
            packet[4..10].copy_from_slice(&[1, if is_random_access { 0x40 } else { 0 }, 0, 0, 1, stream]);
        }
        packet
    }

    #[test]
    fn datagrams_from_a_key_frame_to_the_next_frame_are_taken() {
        let mut stream = TransportStream::default();
        let mut takes = |packets: &[Vec<u8>]| stream.takes(&packets.concat());
        assert!(!takes(&[packet(1, Some((VIDEO, false))), packet(1, None)]));
        assert!(takes(&[packet(1, None), packet(1, Some((VIDEO, true)))]));
        assert!(takes(&[packet(1, None), packet(2, Some((AUDIO, true)))]));
        assert!(!takes(&[packet(2, None)]), "audio has none");
        assert!(takes(&[packet(1, None), packet(1, Some((VIDEO, false)))]), "it ends in this one");
        assert!(!takes(&[packet(1, None)]));
    }

    #[test]
    fn a_stream_over_rtp_is_one() {
        let mut stream = TransportStream::default();
        let rtp = [&[0x80, 33, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9][..], &packet(1, Some((VIDEO, true)))].concat();
        assert!(stream.takes(&rtp));
        assert!(!TransportStream::default().takes(&rtp[1..]));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), is_stream: bool) {
            for place in (0..bytes.len()).step_by(PACKET_BYTES).filter(|_| is_stream) {
                bytes[place] = SYNC;
            }
            TransportStream::default().takes(&bytes);
        }
    }
}
