//! What a repair packet says.

use byway_units::BatchId;

/// The repair packet's symbol of the length column: the coded big-endian lengths of the source packets.
pub type LengthSymbol = [u8; 2];

/// One repair packet, as the decoder needs it.
#[derive(Clone, Copy, Debug)]
pub struct Repair<'a> {
    /// The batch it belongs to.
    pub batch: BatchId,
    /// Which repair packet of the batch it is, from 0: the row of its coefficients.
    pub index: usize,
    /// How many source packets the batch has.
    pub source_packets: usize,
    /// The coded lengths of the batch's source packets.
    pub length_symbol: LengthSymbol,
    /// The coded bytes, as long as the longest source packet of the batch.
    pub payload: &'a [u8],
}
