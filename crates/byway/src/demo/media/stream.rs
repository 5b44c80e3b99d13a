//! A constant-rate MPEG transport stream (ISO/IEC 13818-1) as datagrams, each of which is unlike all others.

use std::collections::BTreeMap;

use anyhow::ensure;

/// The first byte of every packet of a transport stream.
pub(crate) const SYNC_BYTE: u8 = 0x47;

/// Bytes of a packet of a transport stream.
const PACKET_BYTES: usize = 188;

/// Packets in a datagram: as many as fit into an Ethernet frame, as everybody does it.
const PACKETS_PER_DATAGRAM: usize = 7;

/// Bytes of a datagram.
pub(crate) const DATAGRAM_BYTES: usize = PACKETS_PER_DATAGRAM * PACKET_BYTES;

/// The packet identifier of null packets, which fill up the rate and which decoders skip.
const NULL_PACKET: u16 = 0x1fff;

/// Bytes before the payload of a null packet.
const HEADER_BYTES: usize = 4;

/// Cuts a transport stream into datagrams, filling up the last one with null packets; and writes a running number into
/// all null packets, so that even datagrams of nothing else can be told apart.
pub(crate) fn datagrams(mut stream: Vec<u8>) -> anyhow::Result<Vec<Vec<u8>>> {
    ensure!(!stream.is_empty(), "ffmpeg made an empty transport stream");
    ensure!(stream.len().is_multiple_of(PACKET_BYTES), "the transport stream ends within a packet");
    while !stream.len().is_multiple_of(DATAGRAM_BYTES) {
        stream.extend_from_slice(&null_packet());
    }
    for (packet, number) in stream.chunks_exact_mut(PACKET_BYTES).zip(0_u64..) {
        ensure!(packet[0] == SYNC_BYTE, "packet {number} of the transport stream has no sync byte");
        if u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) == NULL_PACKET {
            packet[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&number.to_be_bytes());
        }
    }
    Ok(stream.chunks_exact(DATAGRAM_BYTES).map(<[u8]>::to_vec).collect())
}

/// A null packet without a number.
fn null_packet() -> [u8; PACKET_BYTES] {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..HEADER_BYTES].copy_from_slice(&[SYNC_BYTE, 0x1f, 0xff, 0x10]);
    packet
}

/// Finds the place of a datagram in the stream by its content.
#[derive(Debug)]
pub(crate) struct Places<'a>(BTreeMap<&'a [u8], u32>);

impl<'a> Places<'a> {
    /// # Errors
    /// If two datagrams are alike: they could not be told apart.
    pub(crate) fn new(datagrams: &'a [Vec<u8>]) -> anyhow::Result<Self> {
        let places: BTreeMap<_, _> = datagrams.iter().map(Vec::as_slice).zip(0..).collect();
        ensure!(
            places.len() == datagrams.len(),
            "{} of the video's datagrams are like others: give another video",
            datagrams.len() - places.len()
        );
        Ok(Self(places))
    }

    pub(crate) fn of(&self, datagram: &[u8]) -> Option<u32> {
        self.0.get(datagram).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(identifier: u16, fill: u8) -> Vec<u8> {
        let [high, low] = identifier.to_be_bytes();
        let mut packet = vec![fill; PACKET_BYTES];
        packet[..4].copy_from_slice(&[SYNC_BYTE, high, low, 0x10]);
        packet
    }

    #[test]
    fn datagrams_of_null_packets_can_be_told_apart_and_others_are_left_alone() {
        let packets = (0..21).flat_map(|number| match number {
            3 => packet(0x100, 9),
            _ => packet(NULL_PACKET, 0xff),
        });
        let stream = packets.collect();
        let cut = datagrams(stream).expect("a stream");
        assert_eq!(cut.len(), 3);
        assert_eq!(cut[0][3 * PACKET_BYTES..4 * PACKET_BYTES], packet(0x100, 9));
        let places = Places::new(&cut).expect("all differ");
        let found: Vec<_> = cut.iter().map(|datagram| places.of(datagram)).collect();
        assert_eq!(found, [Some(0), Some(1), Some(2)]);
        assert_eq!(places.of(b"another"), None);
    }

    #[test]
    fn the_last_datagram_is_filled_up() {
        let cut = datagrams([packet(0x100, 1), packet(0x100, 2)].concat()).expect("a stream");
        assert_eq!((cut.len(), cut[0].len()), (1, DATAGRAM_BYTES));
        assert!(cut[0].chunks(PACKET_BYTES).all(|packet| packet[0] == SYNC_BYTE));
    }

    #[test]
    fn what_is_no_transport_stream_is_refused() {
        assert!(datagrams(Vec::new()).is_err());
        assert!(datagrams(vec![SYNC_BYTE; 100]).is_err());
        assert!(datagrams(vec![0; PACKET_BYTES]).is_err());
    }

    #[test]
    fn a_stream_that_repeats_itself_is_refused() {
        let datagram = vec![1; DATAGRAM_BYTES];
        let error = Places::new(&[datagram.clone(), datagram]).expect_err("they are alike");
        assert!(error.to_string().starts_with("1 of the video's datagrams"), "{error}");
    }
}
