//! Key frames in MPEG transport streams (ISO/IEC 13818-1): from a start with the random access
//! indicator to the next start of the same stream.

use super::rtp;

/// Length of a transport stream packet in bytes (section 2.4.3.2).
const PACKET_BYTES: usize = 188;
/// First byte of a transport stream packet.
const SYNC: u8 = 0x47;

/// Elementary streams of an MPEG transport stream whose latest frame is a key frame.
#[derive(Clone, Debug, Default)]
pub(super) struct TransportStream {
    /// Packet identifiers of these streams. A programme has one video stream, and a multiplex a
    /// few; if there are more, the latest ones.
    within: [Option<u16>; STREAMS],
    next: usize,
}

/// Most elementary streams that are tracked at the same time.
const STREAMS: usize = 4;

impl TransportStream {
    /// Returns true if a datagram contains a part of a key frame, in bare transport stream packets
    /// or over RTP.
    pub(super) fn has_key_frame(&mut self, datagram: &[u8]) -> bool {
        let stream = if datagram.first() == Some(&SYNC) { Some(datagram) } else { rtp::payload_of(datagram) };
        let packets = stream.map_or(&[][..], |stream| stream.as_chunks::<PACKET_BYTES>().0);
        let mut is_key = false;
        for packet in packets {
            is_key |= self.is_key_frame_packet(packet);
        }
        is_key
    }

    fn is_key_frame_packet(&mut self, packet: &[u8; PACKET_BYTES]) -> bool {
        if packet[0] != SYNC {
            return false;
        }
        let identifier = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        let index = self.within.iter().position(|within| *within == Some(identifier));
        let begins = packet[1] & 0x40 != 0;
        if !begins {
            return index.is_some();
        }
        let is_key = begins_key_frame(packet);
        match (index, is_key) {
            (Some(index), false) => self.within[index] = None,
            (None, true) => {
                self.within[self.next] = Some(identifier);
                self.next = (self.next + 1) % STREAMS;
            }
            _ => {}
        }
        is_key
    }
}

/// Returns true if a transport stream packet begins a video frame at which decoding may begin: a
/// video stream (table 2-22) with the random access indicator (section 2.4.3.4). Audio has the
/// indicator with each frame.
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

    /// Returns a packet of a stream, or the first one of a frame.
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
        let mut has_key_frame = |packets: &[Vec<u8>]| stream.has_key_frame(&packets.concat());
        assert!(!has_key_frame(&[packet(1, Some((VIDEO, false))), packet(1, None)]));
        assert!(has_key_frame(&[packet(1, None), packet(1, Some((VIDEO, true)))]));
        assert!(has_key_frame(&[packet(1, None), packet(2, Some((AUDIO, true)))]));
        assert!(!has_key_frame(&[packet(2, None)]), "audio has none");
        assert!(has_key_frame(&[packet(1, None), packet(1, Some((VIDEO, false)))]), "it ends in this one");
        assert!(!has_key_frame(&[packet(1, None)]));
    }

    #[test]
    fn a_stream_over_rtp_is_one() {
        let mut stream = TransportStream::default();
        let rtp = [&[0x80, 33, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9][..], &packet(1, Some((VIDEO, true)))].concat();
        assert!(stream.has_key_frame(&rtp));
        assert!(!TransportStream::default().has_key_frame(&rtp[1..]));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), is_stream: bool) {
            for offset in (0..bytes.len()).step_by(PACKET_BYTES).filter(|_| is_stream) {
                bytes[offset] = SYNC;
            }
            TransportStream::default().has_key_frame(&bytes);
        }
    }
}
