//! Key frames over RTP (RFC 3550): the packets of one timestamp, identified by the first one.

/// Video codec whose key frames are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    H264,
    H265,
    Vp8,
}

/// Latest key frame among all RTP sources of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyFrames {
    /// RTP source and timestamp of the key frame; `None` before the first one.
    last: Option<(u32, u32)>,
}

/// Fields of an RTP packet by which key frames are detected.
struct RtpPacket<'a> {
    source: u32,
    timestamp: u32,
    payload: &'a [u8],
}

impl KeyFrames {
    /// Returns true if a datagram is an RTP packet of a key frame, or of parameter sets that frames
    /// need. Records the frame that a first packet begins.
    pub(super) fn is_key_frame(&mut self, codec: Codec, datagram: &[u8]) -> bool {
        let Some(RtpPacket { source, timestamp, payload }) = parse(datagram) else {
            return false;
        };
        let frame = Some((source, timestamp));
        if begins_key_frame(codec, payload) {
            self.last = frame;
        }
        self.last == frame
    }
}

/// Returns the payload of an RTP packet, which follows the contributing sources and the extension;
/// `None` if the datagram is no RTP packet.
pub(super) fn payload_of(datagram: &[u8]) -> Option<&[u8]> {
    parse(datagram).map(|packet| packet.payload)
}

/// Parses an RTP packet; `None` for everything else, RTCP included (RFC 5761, section 4).
fn parse(datagram: &[u8]) -> Option<RtpPacket<'_>> {
    let header = datagram.first_chunk::<12>()?;
    let is_rtp = header[0] >> 6 == 2 && !(72..=76).contains(&(header[1] & 0x7F));
    if !is_rtp {
        return None;
    }
    let mut at = 12 + usize::from(header[0] & 0x0F) * 4;
    if header[0] & 0x10 != 0 {
        let extension = datagram.get(at..)?.first_chunk::<4>()?;
        at += 4 + usize::from(u16::from_be_bytes([extension[2], extension[3]])) * 4;
    }
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    Some(RtpPacket { source: word(8), timestamp: word(4), payload: datagram.get(at..)? })
}

fn begins_key_frame(codec: Codec, payload: &[u8]) -> bool {
    match codec {
        Codec::H264 => h264(payload),
        Codec::H265 => h265(payload),
        Codec::Vp8 => vp8(payload),
    }
    .unwrap_or(false)
}

/// Detects an IDR slice, or parameter sets (ITU-T H.264, table 7-1). They may be a packet of their
/// own, first in an aggregate, or in a first fragment (RFC 6184, sections 5.6 to 5.8). `None` if
/// the payload is truncated.
fn h264(payload: &[u8]) -> Option<bool> {
    const AGGREGATED: u8 = 24;
    const FRAGMENTED: u8 = 28;
    let is_key = |kind: u8| matches!(kind & 0x1F, 5 | 7 | 8);
    Some(match *payload.first()? & 0x1F {
        AGGREGATED => is_key(*payload.get(3)?),
        FRAGMENTED => is_key(*payload.get(1)?),
        kind => is_key(kind),
    })
}

/// Detects a picture at which decoding may begin, or parameter sets (ITU-T H.265, table 7-1), in
/// the same packets as [`h264`] (RFC 7798, section 4.4).
fn h265(payload: &[u8]) -> Option<bool> {
    const AGGREGATED: u8 = 48;
    const FRAGMENTED: u8 = 49;
    let is_key = |kind: u8| matches!(kind, 16..=21 | 32..=34);
    let of_header = |first: u8| first >> 1 & 0x3F;
    Some(match of_header(*payload.first()?) {
        AGGREGATED => is_key(of_header(*payload.get(4)?)),
        FRAGMENTED => is_key(*payload.get(2)? & 0x3F),
        kind => is_key(kind),
    })
}

/// Detects the first packet of a VP8 key frame, by the first bit of the frame (RFC 7741, sections
/// 4.2 and 4.3). `None` if the payload is truncated.
fn vp8(payload: &[u8]) -> Option<bool> {
    let descriptor = *payload.first()?;
    let (starts, partition) = (descriptor & 0x10 != 0, descriptor & 0x07);
    let begins = starts && partition == 0;
    let mut at = 1;
    if descriptor & 0x80 != 0 {
        let extensions = *payload.get(1)?;
        at += 1;
        if extensions & 0x80 != 0 {
            // The picture ID has one octet or two.
            at += if *payload.get(at)? & 0x80 != 0 { 2 } else { 1 };
        }
        at += usize::from(extensions & 0x40 != 0);
        at += usize::from(extensions & 0x30 != 0);
    }
    Some(begins && *payload.get(at)? & 0x01 == 0)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn rtp(timestamp: u8, payload: &[u8]) -> Vec<u8> {
        [&[0x80, 96, 0, 1, 0, 0, 0, timestamp, 0, 0, 0, 9], payload].concat()
    }

    fn key_frames(codec: Codec, datagrams: &[Vec<u8>]) -> Vec<bool> {
        let mut frames = KeyFrames::default();
        datagrams.iter().map(|datagram| frames.is_key_frame(codec, datagram)).collect()
    }

    #[test]
    fn all_packets_of_a_key_frame_are_taken_and_none_of_the_next() {
        let cases = [
            (Codec::H264, &[0x7C, 0x85][..], &[0x7C, 0x05][..], &[0x7C, 0x81][..]),
            (Codec::H264, &[0x78, 0, 9, 0x67], &[0x65], &[0x41]),
            (Codec::H265, &[0x62, 1, 0x93], &[0x62, 1, 0x13], &[0x62, 1, 0x81]),
            (Codec::H265, &[0x40, 1], &[0x26, 1], &[0x02, 1]),
            (Codec::Vp8, &[0x90, 0x80, 0x81, 7, 0x10], &[0x80, 0x80, 0x81, 7, 0x11], &[0x10, 0x11]),
        ];
        for (codec, first, next, other) in cases {
            let sent = [rtp(1, other), rtp(2, first), rtp(2, next), rtp(3, other)];
            assert_eq!(key_frames(codec, &sent), [false, true, true, false], "{codec:?} {first:02x?}");
        }
    }

    #[test]
    fn sources_and_extensions_stand_before_the_payload() {
        let mut packet = rtp(1, &[1, 2, 3, 4, 0xBE, 0xDE, 0, 1, 9, 9, 9, 9, 0x65]);
        packet[0] = 0x91;
        assert_eq!(key_frames(Codec::H264, &[packet]), [true]);
    }

    #[test]
    fn rtcp_and_what_is_cut_off_are_not_taken() {
        let mut rtcp = rtp(1, &[0x65]);
        rtcp[1] = 200;
        let mut stun = rtp(1, &[0x65]);
        stun[0] = 0;
        assert_eq!(key_frames(Codec::H264, &[rtcp, stun, rtp(1, &[]), [0x80; 11].to_vec()]), [false; 4]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..40), is_rtp: bool) {
            if let Some(first) = bytes.first_mut().filter(|_| is_rtp) {
                *first = *first & 0x3F | 0x80;
            }
            for codec in [Codec::H264, Codec::H265, Codec::Vp8] {
                key_frames(codec, &[bytes.clone()]);
            }
        }
    }
}
