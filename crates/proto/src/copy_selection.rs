//! Selection of packets that get a copy, if not all do: those whose loss costs an application the
//! most.
//!
//! A [`Marking`] examines the packets of one flow in the order of sending, and selects those to
//! mark. The flow's [`Duplication`](crate::agent::Duplication) defines the effect of a mark.

mod mpeg_ts;
mod rtp;

use byway_wire::ip::{Headers, TcpHeader};

use mpeg_ts::TransportStream;
use rtp::{Codec, KeyFrames};

/// Kind of packets that a [`Marking`] selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// TCP's SYN and SYN-ACK: TCP detects their loss only after a second.
    TcpHandshakes,
    /// TCP's SYN-ACK alone, which servers send.
    TcpSynAcks,
    /// TCP's FIN, and the last segment of a write, if it is not full: no later segment reveals
    /// their loss. Full segments are excluded, because bulk senders set PSH on them too.
    TcpEnds,
    /// First [`SHORT_FLOW_BYTES`] of each connection, and of each connection after an idle period.
    /// Short flows end within them, before congestion control has an effect.
    ShortFlows,
    /// Key frames of H.264 over RTP (RFC 6184), with their parameters.
    RtpH264KeyFrames,
    /// Key frames of H.265 over RTP (RFC 7798), with their parameters.
    RtpH265KeyFrames,
    /// Key frames of VP8 over RTP (RFC 7741).
    RtpVp8KeyFrames,
    /// Key frames of video in MPEG transport streams (ISO/IEC 13818-1), bare or over RTP (RFC
    /// 2250).
    MpegTsKeyFrames,
    /// Packets with this DSCP (RFC 2474).
    Dscp(u8),
}

impl Mark {
    /// Returns true if a mark of this kind depends on IP headers, and not only on the contents of a
    /// datagram.
    #[must_use]
    pub const fn needs_headers(self) -> bool {
        matches!(
            self,
            Self::TcpHandshakes | Self::TcpSynAcks | Self::TcpEnds | Self::ShortFlows | Self::Dscp(_)
        )
    }
}

/// Bytes of a connection that count as a short flow: with initial windows of ten segments (RFC
/// 6928), the data of the first three round trips.
pub const SHORT_FLOW_BYTES: u64 = 65_536;

/// Packet that a [`Marking`] examines.
#[derive(Clone, Copy, Debug)]
pub struct MarkingInput<'a> {
    /// IP and transport headers; `None` if only the datagram's contents are known.
    pub headers: Option<&'a Headers>,
    /// Payload of the UDP datagram or TCP segment.
    pub payload: &'a [u8],
    /// Progress of the packet's connection before it; `None` if unknown.
    pub connection: Option<ConnectionProgress>,
}

/// Bytes and longest packet of a connection before the current packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionProgress {
    /// Bytes that the connection has sent since its beginning or its last idle period, with
    /// headers.
    pub sent: u64,
    /// Length in bytes of its longest packet since then.
    pub longest: usize,
}

/// Payload up to which a TCP segment is not a full one on any path: every host accepts this length
/// (RFC 9293, section 3.7.1).
const SMALL_SEGMENT_BYTES: usize = 536;

/// Selection of one flow's packets, with the video frames that it is within.
#[derive(Clone, Debug, Default)]
pub struct Marking {
    marks: alloc::vec::Vec<Mark>,
    key_frames: KeyFrames,
    transport_stream: TransportStream,
}

impl Marking {
    /// Returns a marking that selects packets of these kinds; with an empty list, it selects none.
    #[must_use]
    pub fn new(marks: &[Mark]) -> Self {
        Self { marks: marks.to_vec(), ..Self::default() }
    }

    /// Examines the flow's next packet; returns true if it is of a kind to mark.
    pub fn should_mark(&mut self, candidate: &MarkingInput<'_>) -> bool {
        let Self { marks, key_frames, transport_stream } = self;
        let mut is_marked = false;
        // Each kind examines every packet, even a marked one: the first packet of a frame
        // identifies the others.
        for mark in marks.iter() {
            is_marked |= matches_mark(*mark, candidate, key_frames, transport_stream);
        }
        is_marked
    }
}

fn matches_mark(
    mark: Mark,
    candidate: &MarkingInput<'_>,
    frames: &mut KeyFrames,
    stream: &mut TransportStream,
) -> bool {
    let tcp = candidate.headers.and_then(|headers| headers.tcp);
    match mark {
        Mark::TcpHandshakes => tcp.is_some_and(TcpHeader::is_syn),
        Mark::TcpSynAcks => tcp.is_some_and(TcpHeader::is_syn_ack),
        Mark::TcpEnds => tcp.is_some_and(|tcp| tcp.is_fin() || (tcp.is_push() && is_end(candidate))),
        Mark::ShortFlows => candidate.connection.is_some_and(|connection| connection.sent < SHORT_FLOW_BYTES),
        Mark::RtpH264KeyFrames => frames.is_key_frame(Codec::H264, candidate.payload),
        Mark::RtpH265KeyFrames => frames.is_key_frame(Codec::H265, candidate.payload),
        Mark::RtpVp8KeyFrames => frames.is_key_frame(Codec::Vp8, candidate.payload),
        Mark::MpegTsKeyFrames => stream.has_key_frame(candidate.payload),
        Mark::Dscp(dscp) => candidate.headers.is_some_and(|headers| headers.dscp == dscp),
    }
}

/// Returns true if a TCP segment with PSH is the rest of a write: short, or shorter than the
/// longest of its connection.
fn is_end(candidate: &MarkingInput<'_>) -> bool {
    let MarkingInput { headers, payload, connection } = candidate;
    let whole = headers.map_or(0, |headers| headers.payload) + payload.len();
    let is_full = connection.is_some_and(|connection| whole >= connection.longest);
    !payload.is_empty() && (payload.len() <= SMALL_SEGMENT_BYTES || !is_full)
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// Returns a TCP segment with these flags and payload bytes, with DSCP 10.
    fn segment(flags: u8, payload: usize) -> Vec<u8> {
        let length = u16::try_from(40 + payload).unwrap().to_be_bytes();
        let mut packet =
            vec![0x45, 40, length[0], length[1], 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 80, 1, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
        packet.resize(40 + payload, 0);
        packet
    }

    fn is_marked(mark: Mark, packet: &[u8], sent_before: u64) -> bool {
        let headers = Headers::parse(packet).expect("a packet");
        let candidate = MarkingInput {
            headers: Some(&headers),
            payload: &packet[headers.payload..],
            connection: Some(ConnectionProgress { sent: sent_before, longest: 1_240 }),
        };
        Marking::new(&[mark]).should_mark(&candidate)
    }

    #[test]
    fn segments_are_told_apart() {
        let [syn, syn_ack, ack, data, push, fin] =
            [(0x02, 0), (0x12, 0), (0x10, 0), (0x10, 100), (0x18, 100), (0x11, 0)]
                .map(|(flags, payload)| segment(flags, payload));
        for (mark, marked) in [
            (Mark::TcpHandshakes, vec![&syn, &syn_ack]),
            (Mark::TcpSynAcks, vec![&syn_ack]),
            (Mark::TcpEnds, vec![&push, &fin]),
            (Mark::Dscp(10), vec![&syn, &syn_ack, &ack, &data, &push, &fin]),
            (Mark::Dscp(46), vec![]),
        ] {
            for packet in [&syn, &syn_ack, &ack, &data, &push, &fin] {
                assert_eq!(is_marked(mark, packet, 0), marked.contains(&packet), "{mark:?} {}", packet[33]);
            }
        }
    }

    #[test]
    fn pushed_segments_are_ends_unless_they_are_full() {
        for (payload, expected) in
            [(0, false), (1, true), (536, true), (1_199, true), (1_200, false), (1_300, false)]
        {
            assert_eq!(is_marked(Mark::TcpEnds, &segment(0x18, payload), 0), expected, "{payload}");
        }
    }

    #[test]
    fn what_a_connection_sends_first_is_a_short_flow() {
        let data = segment(0x10, 1_000);
        assert!(is_marked(Mark::ShortFlows, &data, SHORT_FLOW_BYTES - 1));
        assert!(!is_marked(Mark::ShortFlows, &data, SHORT_FLOW_BYTES));
    }

    #[test]
    fn of_several_marks_one_is_enough_and_of_none_nothing_is_marked() {
        let syn = segment(0x02, 0);
        let headers = Headers::parse(&syn).expect("a packet");
        let candidate = MarkingInput { headers: Some(&headers), payload: &[], connection: None };
        assert!(Marking::new(&[Mark::TcpEnds, Mark::TcpHandshakes]).should_mark(&candidate));
        assert!(!Marking::new(&[]).should_mark(&candidate));
        assert!(!Marking::new(&[Mark::ShortFlows]).should_mark(&candidate), "the connection is unknown");
    }
}
