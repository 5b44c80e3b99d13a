//! Contents of a repair packet.

use byway_units::BatchId;

/// Coded lengths of the source packets in a repair packet: its symbol of the length column,
/// big-endian.
pub type LengthSymbol = [u8; 2];

/// One repair packet, as the decoder needs it.
#[derive(Clone, Copy, Debug)]
pub struct Repair<'a> {
    /// Batch of the repair packet.
    pub batch: BatchId,
    /// Index of the repair packet in the batch, from 0: the row of its coefficients.
    pub index: usize,
    /// Number of source packets in the batch.
    pub source_packets: usize,
    /// Coded lengths of the source packets.
    pub length_symbol: LengthSymbol,
    /// Coded bytes of the source packets, as long as the longest of them.
    pub payload: &'a [u8],
}
