//! Which packets are worth a copy where not all get one: those whose loss costs an application the most.
//!
//! A [`Marking`] looks at what one flow sends, packet by packet in the order of sending, and says which to mark. The flow's
//! [`Duplication`](crate::agent::Duplication) says what a mark means.

mod mpeg_ts;
mod rtp;

use byway_wire::ip::{Headers, TcpHeader};

use mpeg_ts::TransportStream;
use rtp::{Codec, KeyFrames};

/// A kind of packets that are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// TCP's SYN and SYN-ACK: their loss is noticed after a second.
    TcpHandshakes,
    /// TCP's SYN-ACK alone.
    TcpSynAcks,
    /// TCP's FIN, and the last segment of what was written, where that is not full: no later one shows their loss. Senders of bulk push
    /// full segments, too.
    TcpEnds,
    /// The first [`SHORT_FLOW_BYTES`] of each connection, and of each that was idle: short flows, which no congestion control has
    /// got hold of yet, are over by then.
    ShortFlows,
    /// Key frames of H.264 over RTP (RFC 6184), with their parameters.
    RtpH264KeyFrames,
    /// Key frames of H.265 over RTP (RFC 7798), with their parameters.
    RtpH265KeyFrames,
    /// Key frames of VP8 over RTP (RFC 7741).
    RtpVp8KeyFrames,
    /// Key frames of video in MPEG transport streams (ISO/IEC 13818-1), bare or over RTP (RFC 2250).
    MpegTsKeyFrames,
    /// Packets with this DSCP (RFC 2474).
    Dscp(u8),
}

impl Mark {
    /// Whether it is about IP packets, and not about what a datagram carries.
    #[must_use]
    pub const fn needs_headers(self) -> bool {
        matches!(
            self,
            Self::TcpHandshakes | Self::TcpSynAcks | Self::TcpEnds | Self::ShortFlows | Self::Dscp(_)
        )
    }
}

/// How much of a connection is a short flow: with windows of ten segments at first (RFC 6928), what is sent within the first three
/// round trips.
pub const SHORT_FLOW_BYTES: u64 = 65_536;

/// A packet, as far as it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its headers, where it is an IP packet.
    pub headers: Option<&'a Headers>,
    /// What UDP or TCP carries.
    pub payload: &'a [u8],
    /// What is known of its connection, if anything is.
    pub connection: Option<Connection>,
}

/// A connection, before the packet at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// How much it has sent since it began or was idle, in bytes with headers.
    pub sent: u64,
    /// The longest of its packets since then.
    pub longest: usize,
}

/// What is no longer is no full segment on any path: what all hosts take (RFC 9293, section 3.7.1).
const SMALL_SEGMENT_BYTES: usize = 536;

/// What of a flow is marked, with what is known of it so far.
#[derive(Clone, Debug, Default)]
pub struct Marking {
    marks: alloc::vec::Vec<Mark>,
    key_frames: KeyFrames,
    transport_stream: TransportStream,
}

impl Marking {
    /// Marks packets of these kinds, and of none if there are none.
    #[must_use]
    pub fn new(marks: &[Mark]) -> Self {
        Self { marks: marks.to_vec(), ..Self::default() }
    }

    /// Whether the next packet of the flow is to be marked.
    pub fn takes(&mut self, candidate: &Candidate<'_>) -> bool {
        let Self { marks, key_frames, transport_stream } = self;
        let mut is_marked = false;
        // Each looks at each packet: those that follow a frame's first one are known by it.
        for mark in marks.iter() {
            is_marked |= takes(*mark, candidate, key_frames, transport_stream);
        }
        is_marked
    }
}

fn takes(
    mark: Mark,
    candidate: &Candidate<'_>,
    frames: &mut KeyFrames,
    stream: &mut TransportStream,
) -> bool {
    let tcp = candidate.headers.and_then(|headers| headers.tcp);
    match mark {
        Mark::TcpHandshakes => tcp.is_some_and(TcpHeader::is_syn),
        Mark::TcpSynAcks => tcp.is_some_and(TcpHeader::is_syn_ack),
        Mark::TcpEnds => tcp.is_some_and(|tcp| tcp.is_fin() || (tcp.is_push() && is_end(candidate))),
        Mark::ShortFlows => candidate.connection.is_some_and(|connection| connection.sent < SHORT_FLOW_BYTES),
        Mark::RtpH264KeyFrames => frames.takes(Codec::H264, candidate.payload),
        Mark::RtpH265KeyFrames => frames.takes(Codec::H265, candidate.payload),
        Mark::RtpVp8KeyFrames => frames.takes(Codec::Vp8, candidate.payload),
        Mark::MpegTsKeyFrames => stream.takes(candidate.payload),
        Mark::Dscp(dscp) => candidate.headers.is_some_and(|headers| headers.dscp == dscp),
    }
}

/// Whether a pushed segment is the rest of what was written.
fn is_end(candidate: &Candidate<'_>) -> bool {
    let Candidate { headers, payload, connection } = candidate;
    let whole = headers.map_or(0, |headers| headers.payload) + payload.len();
    let is_full = connection.is_some_and(|connection| whole >= connection.longest);
    !payload.is_empty() && (payload.len() <= SMALL_SEGMENT_BYTES || !is_full)
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// A TCP segment with these flags and so many bytes, of DSCP 10.
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
        let candidate = Candidate {
            headers: Some(&headers),
            payload: &packet[headers.payload..],
            connection: Some(Connection { sent: sent_before, longest: 1_240 }),
        };
        Marking::new(&[mark]).takes(&candidate)
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
        let candidate = Candidate { headers: Some(&headers), payload: &[], connection: None };
        assert!(Marking::new(&[Mark::TcpEnds, Mark::TcpHandshakes]).takes(&candidate));
        assert!(!Marking::new(&[]).takes(&candidate));
        assert!(!Marking::new(&[Mark::ShortFlows]).takes(&candidate), "it is not known");
    }
}
