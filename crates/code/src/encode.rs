//! Encoding: creates repair packets, at once or packet by packet.

use alloc::vec::Vec;

use byway_units::BatchId;

use crate::coefficients::{COLUMNS, ROWS, SUMS};
use crate::combine::combine;
use crate::engine::Engine;
use crate::engines::{Inputs, prefetch};
use crate::error::EncodeError;
use crate::length;
use crate::limits::{PACKET_BYTES_MAX, REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};
use crate::repair::{LengthSymbol, Repair};

/// Properties of an encoded batch; the payloads of its repair packets are in the caller's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodedBatch {
    source_packets: usize,
    payload_bytes: usize,
    /// Index of the first repair packet: its row of coefficients.
    first_row: usize,
    repair_packets: usize,
    length_symbols: [LengthSymbol; REPAIR_PACKETS_MAX],
}

impl EncodedBatch {
    /// Returns the number of source packets in the batch.
    #[must_use]
    pub const fn source_packets(&self) -> usize {
        self.source_packets
    }

    /// Returns the length of every repair payload in bytes: that of the longest source packet.
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the coded lengths of the source packets in each repair packet, in order of the
    /// index.
    #[must_use]
    pub fn length_symbols(&self) -> &[LengthSymbol] {
        &self.length_symbols[..self.repair_packets]
    }

    /// Returns the batch's repair packets, in order of their index, from the buffers with their
    /// payloads.
    ///
    /// # Panics
    /// If a buffer is shorter than [`EncodedBatch::payload_bytes`], because it is not one that
    /// [`encode`] has filled.
    pub fn repairs<'a, B: AsRef<[u8]>>(
        &'a self,
        batch: BatchId,
        payloads: &'a [B],
    ) -> impl Iterator<Item = Repair<'a>> {
        self.length_symbols().iter().zip(payloads).enumerate().map(
            move |(index, (length_symbol, payload))| Repair {
                batch,
                index: self.first_row + index,
                source_packets: self.source_packets,
                length_symbol: *length_symbol,
                payload: &payload.as_ref()[..self.payload_bytes],
            },
        )
    }
}

/// Encodes a whole batch at once: as many repair packets as there are `payloads`.
///
/// Each payload is written up to the length of the longest source packet; bytes beyond it are
/// unchanged. Nothing is allocated or copied. Encoding is fastest for payloads on an
/// [`ALIGNMENT`](crate::ALIGNMENT) boundary, and for source packets of equal length.
///
/// # Errors
/// If there are no source packets or no payloads, or too many of either; if a source packet is
/// longer than [`PACKET_BYTES_MAX`] or than a payload buffer. Nothing is written then.
pub fn encode<B: AsRef<[u8]> + AsMut<[u8]>>(
    engine: Engine,
    sources: &[&[u8]],
    payloads: &mut [B],
) -> Result<EncodedBatch, EncodeError> {
    if sources.is_empty() {
        return Err(EncodeError::NoSourcePackets);
    }
    if sources.len() > SOURCE_PACKETS_MAX {
        return Err(EncodeError::TooManySourcePackets { count: sources.len() });
    }
    check_repair_count(payloads.len())?;
    sources.iter().copied().for_each(prefetch);
    let inputs = Inputs::new(sources);
    if inputs.longest() > capacity(payloads) {
        return Err(misfit(sources, payloads));
    }
    let rows = &ROWS[..payloads.len()];
    with_views(payloads, |payloads| combine(engine, rows, &inputs, payloads));

    let mut encoded = EncodedBatch {
        source_packets: sources.len(),
        payload_bytes: inputs.longest(),
        repair_packets: payloads.len(),
        ..EncodedBatch::default()
    };
    let symbols = encoded.length_symbols[..payloads.len()].iter_mut().zip(&ROWS).zip(&SUMS);
    for ((symbol, row), sums) in symbols {
        *symbol = length::combine(row, sums[sources.len()], &inputs);
    }
    Ok(encoded)
}

/// Encodes a batch packet by packet, as packets arrive, and stores none of them.
///
/// The number of source packets need not be known in advance: after each [`Encoder::add`] the
/// repair packets cover all packets added so far. [`Encoder::restart`] begins the next batch in the
/// same buffers, so nothing is allocated after [`Encoder::new`].
///
/// ```
/// use byway_code::{AlignedBuffer, Encoder, Engine};
/// use byway_units::BatchId;
///
/// let payloads = (0..2).map(|_| AlignedBuffer::new(1_500));
/// let mut encoder = Encoder::new(Engine::fastest(), payloads)?;
/// encoder.add(b"one")?;
/// encoder.add(b"two and more")?;
/// let repairs: Vec<_> = encoder.repairs(BatchId::new(1)).collect();
/// assert_eq!(repairs.len(), 2);
/// assert_eq!(repairs[0].payload.len(), 12);
/// # Ok::<(), byway_code::EncodeError>(())
/// ```
#[derive(Debug)]
pub struct Encoder<B> {
    engine: Engine,
    encoded: EncodedBatch,
    payloads: Vec<B>,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Encoder<B> {
    /// Creates an encoder of one repair packet in each of `payloads`.
    ///
    /// The buffers limit the length of source packets. They may be the payload parts of packets to
    /// be sent: the encoder accesses only the bytes that their `AsMut` returns.
    ///
    /// # Errors
    /// If there are no buffers or more than [`REPAIR_PACKETS_MAX`].
    pub fn new(engine: Engine, payloads: impl IntoIterator<Item = B>) -> Result<Self, EncodeError> {
        Self::from_row(engine, 0, payloads)
    }

    /// Creates an encoder whose repair packets have the indices from `first_row` on.
    ///
    /// Any repair packets of a batch can restore it; batches that are solved together should have
    /// different ones.
    ///
    /// # Errors
    /// If there are no buffers, or an index is [`REPAIR_PACKETS_MAX`] or more.
    pub fn from_row(
        engine: Engine,
        first_row: usize,
        payloads: impl IntoIterator<Item = B>,
    ) -> Result<Self, EncodeError> {
        let payloads: Vec<B> = payloads.into_iter().collect();
        check_repair_count(payloads.len())?;
        check_repair_count(first_row.saturating_add(payloads.len()))?;
        let encoded = EncodedBatch { first_row, repair_packets: payloads.len(), ..EncodedBatch::default() };
        Ok(Self { engine, encoded, payloads })
    }

    /// Adds the next source packet to the repair packets, and returns its index in the batch.
    ///
    /// # Errors
    /// If the batch is full, or the packet is longer than [`PACKET_BYTES_MAX`] or than a buffer.
    /// The batch then stays as it was.
    pub fn add(&mut self, source: &[u8]) -> Result<usize, EncodeError> {
        let column = self.encoded.source_packets;
        if column == SOURCE_PACKETS_MAX {
            return Err(EncodeError::TooManySourcePackets { count: column + 1 });
        }
        if source.len() > capacity(&self.payloads) {
            return Err(misfit_of(column, source.len(), &self.payloads));
        }

        let coefficients = &COLUMNS[column][self.encoded.first_row..][..self.encoded.repair_packets];
        self.add_payload(coefficients, source);
        for (symbol, coefficient) in self.encoded.length_symbols.iter_mut().zip(coefficients) {
            length::accumulate(symbol, *coefficient, length::symbol(source.len()));
        }
        self.encoded.source_packets += 1;
        self.encoded.payload_bytes = self.encoded.payload_bytes.max(source.len());
        Ok(column)
    }

    /// Adds a source packet to the payloads, after clearing bytes that it is the first to reach.
    fn add_payload(&mut self, coefficients: &[u8], source: &[u8]) {
        let reached = self.encoded.payload_bytes;
        let engine = self.engine.implementation();
        with_views(&mut self.payloads[..self.encoded.repair_packets], |payloads| {
            if source.len() > reached {
                for payload in payloads.iter_mut() {
                    payload[reached..source.len()].fill(0);
                }
            }
            engine.accumulate(coefficients, source, payloads);
        });
    }

    /// Returns the properties of the batch as added so far.
    #[must_use]
    pub const fn encoded(&self) -> &EncodedBatch {
        &self.encoded
    }

    /// Returns the repair packets over the source packets added so far; none before the first one.
    pub fn repairs(&self, batch: BatchId) -> impl Iterator<Item = Repair<'_>> {
        let covered = if self.encoded.source_packets == 0 { 0 } else { self.encoded.repair_packets };
        self.encoded.repairs(batch, &self.payloads[..covered])
    }

    /// Begins the next batch: the repair packets cover no source packets.
    pub fn restart(&mut self) {
        self.restart_with(self.payloads.len());
    }

    /// Begins the next batch, with this number of repair packets: one for each of the first
    /// buffers. The others stay as they are, and cost nothing.
    ///
    /// # Panics
    /// If there are fewer buffers, or the number is 0.
    pub fn restart_with(&mut self, repair_packets: usize) {
        assert!((1..=self.payloads.len()).contains(&repair_packets), "a repair packet needs a buffer");
        let first_row = self.encoded.first_row;
        self.encoded = EncodedBatch { first_row, repair_packets, ..EncodedBatch::default() };
    }

    /// Returns the buffers with the payloads of the repair packets.
    #[must_use]
    pub fn into_payloads(self) -> Vec<B> {
        self.payloads
    }
}

fn check_repair_count(count: usize) -> Result<(), EncodeError> {
    match count {
        0 => Err(EncodeError::NoRepairPackets),
        1..=REPAIR_PACKETS_MAX => Ok(()),
        _ => Err(EncodeError::TooManyRepairPackets { count }),
    }
}

/// Runs `code` on the byte slices of the buffers, of which there are at most
/// [`REPAIR_PACKETS_MAX`].
///
/// The array is used in place: moving it right after it is written stalls the processor for longer
/// than coding a small packet takes. For one or two buffers, the usual case, the array has that
/// length.
#[inline]
pub(crate) fn with_views<B: AsMut<[u8]>>(buffers: &mut [B], code: impl FnOnce(&mut [&mut [u8]])) {
    match buffers {
        [one] => code(&mut [one.as_mut()]),
        [one, two] => code(&mut [one.as_mut(), two.as_mut()]),
        _ => {
            let mut views: [&mut [u8]; REPAIR_PACKETS_MAX] = Default::default();
            let count = buffers.len();
            for (view, buffer) in views.iter_mut().zip(buffers) {
                *view = buffer.as_mut();
            }
            code(&mut views[..count]);
        }
    }
}

/// Returns the length of the longest source packet that fits into the length column and every
/// buffer, in bytes.
fn capacity<B: AsRef<[u8]>>(payloads: &[B]) -> usize {
    payloads.iter().fold(PACKET_BYTES_MAX, |capacity, payload| payload.as_ref().len().min(capacity))
}

/// Returns the error for the first source packet that is longer than a buffer or the length column
/// allows.
#[cold]
fn misfit<B: AsRef<[u8]>>(sources: &[&[u8]], payloads: &[B]) -> EncodeError {
    let capacity = capacity(payloads);
    let (index, source) = sources
        .iter()
        .enumerate()
        .find(|(_, source)| source.len() > capacity)
        .expect("a source packet was longer than the capacity");
    misfit_of(index, source.len(), payloads)
}

#[cold]
fn misfit_of<B: AsRef<[u8]>>(source_index: usize, needed: usize, payloads: &[B]) -> EncodeError {
    let mut buffers = payloads.iter().map(|payload| payload.as_ref().len()).enumerate();
    match buffers.find(|(_, bytes)| needed <= PACKET_BYTES_MAX && *bytes < needed) {
        Some((index, bytes)) => EncodeError::BufferTooShort { index, bytes, source_index, needed },
        None => EncodeError::PacketTooLong { index: source_index, bytes: needed },
    }
}
