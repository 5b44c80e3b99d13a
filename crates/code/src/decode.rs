//! Decoding: restores lost source packets.

use arrayvec::ArrayVec;

use crate::coefficients::{ROWS, Row};
use crate::combine::combine;
use crate::encode::with_views;
use crate::engine::Engine;
use crate::engines::{Inputs, prefetch};
use crate::error::DecodeError;
use crate::length;
use crate::limits::{PACKET_BYTES_MAX, REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};
use crate::repair::Repair;
use crate::solve::{Square, invert};

/// Source packets that a call of [`decode`] has restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredPackets {
    packets: ArrayVec<RecoveredPacket, REPAIR_PACKETS_MAX>,
}

/// Index of a restored source packet in the batch, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecoveredPacket {
    index: usize,
    bytes: usize,
}

impl RecoveredPackets {
    /// Returns the number of restored source packets.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.packets.len()
    }

    /// Returns each restored packet's index in the batch and its bytes, in rising order of the
    /// index. `buffers` are those to which [`decode`] wrote.
    ///
    /// # Panics
    /// If a buffer is shorter than its packet, because it is not one that [`decode`] has filled.
    pub fn packets<'a, B: AsRef<[u8]>>(
        &'a self,
        buffers: &'a [B],
    ) -> impl Iterator<Item = (usize, &'a [u8])> {
        self.packets
            .iter()
            .zip(buffers)
            .map(|(packet, buffer)| (packet.index, &buffer.as_ref()[..packet.bytes]))
    }
}

/// Restores the source packets of a batch that are missing from `sources`.
///
/// `sources` has an entry for every source packet of the batch, `None` if it is lost. Any `e`
/// repair packets of the batch restore any `e` losses; further ones are checked and not used. The
/// packets are written to the first `e` of `buffers`, in rising order of their index. Each buffer
/// has to be as long as the repair payloads, because a packet's length is known only after
/// decoding. Without losses, the function does nothing.
///
/// It solves only an e x e system, whatever the batch's size, and allocates and copies nothing.
///
/// # Errors
/// - If the batch has no source packets or too many;
/// - if there are fewer repair packets or buffers than losses;
/// - if the repair packets do not belong together or to these sources;
/// - if a buffer is too short;
/// - if a restored packet is impossible.
///
/// After [`DecodeError::Inconsistent`] the content of the buffers is useless; after any other
/// error they are untouched.
pub fn decode<B: AsRef<[u8]> + AsMut<[u8]>>(
    engine: Engine,
    sources: &[Option<&[u8]>],
    repairs: &[Repair<'_>],
    buffers: &mut [B],
) -> Result<RecoveredPackets, DecodeError> {
    let losses = find_losses(sources, repairs.len())?;
    if losses.is_empty() {
        return Ok(RecoveredPackets::default());
    }
    let payloads = repairs.iter().map(|repair| repair.payload);
    sources.iter().copied().flatten().chain(payloads).for_each(prefetch);
    let payload_bytes = check_repairs(sources, repairs)?;
    check_buffers(buffers, losses.len(), payload_bytes)?;

    let (repairs, buffers) = (&repairs[..losses.len()], &mut buffers[..losses.len()]);
    let rows = solve(engine, &losses, repairs);
    let mut inputs: ArrayVec<&[u8], SOURCE_PACKETS_MAX> =
        sources.iter().map(|source| source.unwrap_or_default()).collect();
    for (index, repair) in losses.iter().zip(repairs) {
        inputs[*index] = repair.payload;
    }
    let inputs = Inputs::new(&inputs);
    with_views(buffers, |buffers| combine(engine, &rows, &inputs, buffers));
    find_lengths(&losses, repairs, &rows, &inputs, buffers)
}

/// Indices of the missing source packets in their batch, rising.
type Losses = ArrayVec<usize, REPAIR_PACKETS_MAX>;

/// Rows of coefficients that restore the missing source packets, in the order of [`Losses`].
type Rows = ArrayVec<Row, REPAIR_PACKETS_MAX>;

fn find_losses(sources: &[Option<&[u8]>], repairs: usize) -> Result<Losses, DecodeError> {
    if sources.is_empty() {
        return Err(DecodeError::NoSourcePackets);
    }
    if sources.len() > SOURCE_PACKETS_MAX {
        return Err(DecodeError::TooManySourcePackets { count: sources.len() });
    }
    if repairs > REPAIR_PACKETS_MAX {
        return Err(DecodeError::TooManyRepairPackets { count: repairs });
    }
    let missing = sources.iter().enumerate().filter(|(_, source)| source.is_none());
    let lost = missing.clone().count();
    if lost > repairs {
        return Err(DecodeError::TooManyLost { lost, repairs });
    }
    Ok(missing.map(|(index, _)| index).collect())
}

/// Returns the rows that restore the lost packets from the available ones, one row for each. Column
/// `j` belongs to source packet `j` or, if that packet is lost, to the repair packet that replaces
/// it.
///
/// Repair packet i is Rᵢ = Σ cᵢⱼ·Sⱼ. Over the lost packets alone that is an e x e system with the
/// right-hand side Rᵢ - Σ cᵢⱼ·Sⱼ over the survivors. With M its inverse, lost packet l is Σ Mₗᵢ·Rᵢ
/// plus, over the survivors j, Σ (Σ Mₗᵢ·cᵢⱼ)·Sⱼ: one combination of all available packets.
fn solve(engine: Engine, losses: &Losses, repairs: &[Repair<'_>]) -> Rows {
    let inverse = invert(square(losses, repairs), losses.len())
        .expect("distinct rows and columns of a Cauchy matrix are always independent");
    let mut multipliers = Rows::new();
    let mut of_repairs: ArrayVec<&[u8], REPAIR_PACKETS_MAX> = ArrayVec::new();
    for (inverse, repair) in inverse.iter().zip(repairs) {
        let mut multiplier = [0; SOURCE_PACKETS_MAX];
        multiplier[..REPAIR_PACKETS_MAX].copy_from_slice(inverse);
        multipliers.push(multiplier);
        of_repairs.push(&ROWS[repair.index]);
    }
    // The inner sums Σ Mₗᵢ·cᵢⱼ are themselves combinations, of rows instead of packets.
    let mut rows = multipliers.clone();
    with_views(&mut rows, |rows| combine(engine, &multipliers, &Inputs::new(&of_repairs), rows));
    for (row, inverse) in rows.iter_mut().zip(inverse) {
        for (column, multiplier) in losses.iter().zip(inverse) {
            row[*column] = multiplier;
        }
    }
    rows
}

/// Decodes the lengths of the restored packets, and checks that every byte past a packet's end is
/// zero, as encoding left it.
fn find_lengths<B: AsRef<[u8]>>(
    losses: &Losses,
    repairs: &[Repair<'_>],
    rows: &[Row],
    inputs: &Inputs<'_>,
    buffers: &[B],
) -> Result<RecoveredPackets, DecodeError> {
    let available = inputs.longest();
    let mut recovered = RecoveredPackets::default();
    for ((index, buffer), row) in losses.iter().zip(buffers).zip(rows) {
        let bytes = decode_length(losses, repairs, row, inputs);
        let padding = buffer.as_ref().get(bytes..available);
        if padding.is_none_or(|padding| padding.iter().any(|byte| *byte != 0)) {
            return Err(DecodeError::Inconsistent { index: *index, bytes, available });
        }
        recovered.packets.push(RecoveredPacket { index: *index, bytes });
    }
    Ok(recovered)
}

/// Returns the length of the source packet that `row` restores.
///
/// In the length column a repair packet has its own symbol, not the length of its payload.
fn decode_length(losses: &Losses, repairs: &[Repair<'_>], row: &Row, inputs: &Inputs<'_>) -> usize {
    let sum = row[..inputs.packets().len()].iter().fold(0, |sum, coefficient| sum ^ coefficient);
    let mut symbol = length::combine(row, sum, inputs);
    let payload = length::symbol(inputs.longest());
    for (column, repair) in losses.iter().zip(repairs) {
        let [high, low] = repair.length_symbol;
        length::accumulate(&mut symbol, row[*column], [high ^ payload[0], low ^ payload[1]]);
    }
    usize::from(u16::from_be_bytes(symbol))
}

/// Returns the coefficients of the lost source packets in the repair packets.
fn square(losses: &Losses, repairs: &[Repair<'_>]) -> Square {
    let mut square = Square::default();
    for (entries, repair) in square.iter_mut().zip(repairs) {
        for (entry, column) in entries.iter_mut().zip(losses.iter()) {
            *entry = ROWS[repair.index][*column];
        }
    }
    square
}

/// Checks that the repair packets belong to one batch, and to these source packets; returns the
/// length of their payloads in bytes.
fn check_repairs(sources: &[Option<&[u8]>], repairs: &[Repair<'_>]) -> Result<usize, DecodeError> {
    let Some(first) = repairs.first() else {
        return Ok(0);
    };
    let payload_bytes = first.payload.len();
    if payload_bytes > PACKET_BYTES_MAX {
        return Err(DecodeError::RepairTooLong { bytes: payload_bytes });
    }
    let mut seen = [false; REPAIR_PACKETS_MAX];
    for (position, repair) in repairs.iter().enumerate() {
        check_belongs(position, repair, first, sources.len())?;
        match seen.get_mut(repair.index) {
            None => {
                return Err(DecodeError::RepairIndexOutOfRange { position, index: repair.index });
            }
            Some(true) => {
                return Err(DecodeError::RepeatedRepair { position, index: repair.index });
            }
            Some(seen) => *seen = true,
        }
    }
    for (index, source) in sources.iter().enumerate() {
        let bytes = source.map_or(0, <[u8]>::len);
        if bytes > payload_bytes {
            return Err(DecodeError::SourceTooLong { index, bytes, covered: payload_bytes });
        }
    }
    Ok(payload_bytes)
}

fn check_belongs(
    position: usize,
    repair: &Repair<'_>,
    first: &Repair<'_>,
    expected: usize,
) -> Result<(), DecodeError> {
    if repair.batch != first.batch {
        return Err(DecodeError::DifferentBatches { position, batch: first.batch, other: repair.batch });
    }
    if repair.source_packets != expected {
        return Err(DecodeError::DifferentCover { position, covered: repair.source_packets, expected });
    }
    if repair.payload.len() != first.payload.len() {
        let (bytes, expected) = (repair.payload.len(), first.payload.len());
        return Err(DecodeError::DifferentLengths { position, bytes, expected });
    }
    Ok(())
}

fn check_buffers<B: AsRef<[u8]>>(buffers: &[B], lost: usize, needed: usize) -> Result<(), DecodeError> {
    if buffers.len() < lost {
        return Err(DecodeError::TooFewBuffers { lost, buffers: buffers.len() });
    }
    match buffers[..lost].iter().position(|buffer| buffer.as_ref().len() < needed) {
        Some(position) => {
            Err(DecodeError::BufferTooShort { position, bytes: buffers[position].as_ref().len(), needed })
        }
        None => Ok(()),
    }
}
