//! A constant-rate MPEG transport stream (ISO/IEC 13818-1) as datagrams, all of them different.

use std::collections::BTreeMap;

use anyhow::ensure;

/// The first byte of every packet of a transport stream.
pub(crate) const SYNC_BYTE: u8 = 0x47;

/// Bytes of a packet of a transport stream.
const PACKET_BYTES: usize = 188;

/// Packets in a datagram: as many as fit into an Ethernet frame, as usual.
const PACKETS_PER_DATAGRAM: usize = 7;

/// Bytes of each datagram of the video.
pub(crate) const DATAGRAM_BYTES: usize = PACKETS_PER_DATAGRAM * PACKET_BYTES;

/// The packet identifier of null packets, which fill up the rate and which decoders skip.
const NULL_PACKET: u16 = 0x1fff;

/// Bytes before the payload of a null packet.
const HEADER_BYTES: usize = 4;

/// Cuts a transport stream into datagrams, and fills up the last one with null packets. Each null
/// packet gets a number, because even datagrams of null packets alone must differ.
pub(crate) fn datagrams(mut stream: Vec<u8>) -> anyhow::Result<Vec<Vec<u8>>> {
    ensure!(!stream.is_empty(), "ffmpeg wrote an empty transport stream");
    ensure!(stream.len().is_multiple_of(PACKET_BYTES), "transport stream truncated within a packet");
    while !stream.len().is_multiple_of(DATAGRAM_BYTES) {
        stream.extend_from_slice(&null_packet());
    }
    for (packet, number) in stream.chunks_exact_mut(PACKET_BYTES).zip(0_u64..) {
        ensure!(packet[0] == SYNC_BYTE, "packet {number} of the transport stream without sync byte");
        if u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) == NULL_PACKET {
            packet[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&number.to_be_bytes());
        }
    }
    Ok(stream.chunks_exact(DATAGRAM_BYTES).map(<[u8]>::to_vec).collect())
}

/// Returns a null packet of the transport stream, whose payload does not contain a number yet.
fn null_packet() -> [u8; PACKET_BYTES] {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..HEADER_BYTES].copy_from_slice(&[SYNC_BYTE, 0x1f, 0xff, 0x10]);
    packet
}

/// Map from a datagram's content to its index in the stream.
#[derive(Debug)]
pub(crate) struct DatagramIndex<'a>(BTreeMap<&'a [u8], u32>);

impl<'a> DatagramIndex<'a> {
    /// Indexes the video's datagrams by their content.
    ///
    /// # Errors
    /// If two datagrams are equal: a receiver could not distinguish them.
    pub(crate) fn new(datagrams: &'a [Vec<u8>]) -> anyhow::Result<Self> {
        let indices: BTreeMap<_, _> = datagrams.iter().map(Vec::as_slice).zip(0..).collect();
        ensure!(
            indices.len() == datagrams.len(),
            "{} of the video's datagrams are duplicates, so losses cannot be told apart: use another video",
            datagrams.len() - indices.len()
        );
        Ok(Self(indices))
    }

    pub(crate) fn index_of(&self, datagram: &[u8]) -> Option<u32> {
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
        let places = DatagramIndex::new(&cut).expect("all differ");
        let found: Vec<_> = cut.iter().map(|datagram| places.index_of(datagram)).collect();
        assert_eq!(found, [Some(0), Some(1), Some(2)]);
        assert_eq!(places.index_of(b"another"), None);
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
        let error = DatagramIndex::new(&[datagram.clone(), datagram]).expect_err("they are alike");
        assert!(error.to_string().starts_with("1 of the video's datagrams"), "{error}");
    }
}
