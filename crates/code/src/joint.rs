//! Joint decoding of several batches that cannot be decoded one by one.
//!
//! There are two kinds of batches: packets of one flow in succession, and packets of several flows
//! at one time. If they overlap, each may have too many losses, and all of them together not. Every
//! repair packet is an equation over the packets that it covers. Known packets move to its
//! right-hand side, and Gaussian elimination solves the system.
//!
//! Two batches that overlap in a grid must not use the same row of coefficients in the same
//! direction: the equations of a product code depend on one another.
//! [`Encoder::from_row`](crate::Encoder::from_row) gives each flow's blocks a row of their own.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use thiserror::Error;

use crate::buffer::AlignedBuffer;
use crate::coefficients::ROWS;
use crate::encode::with_views;
use crate::engine::Engine;
use crate::field::{inverse, multiply};
use crate::length;
use crate::limits::{JOINT_EQUATIONS_MAX, JOINT_UNKNOWNS_MAX, REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};
use crate::repair::{LengthSymbol, Repair};

/// Source packet of a batch, from the view of a joint decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// The packet is available.
    Known(&'a [u8]),
    /// The packet is missing; the number of the unknown is the same in every batch that covers it.
    Unknown(usize),
}

/// Reason for which a joint decoder has not added a repair packet. The decoder is unchanged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JointError {
    /// The decoder has as many equations as it can store.
    #[error("decoder full with {JOINT_EQUATIONS_MAX} equations: solve with these, or with fewer batches")]
    Full,
    /// The number of an unknown is higher than the decoder supports.
    #[error("unknown {number} out of range: number unknowns from 0 to {}", JOINT_UNKNOWNS_MAX - 1)]
    TooManyUnknowns {
        /// The number of the unknown.
        number: usize,
    },
    /// The repair packet has an index that no batch has, or its batch has an impossible size.
    #[error("invalid repair packet {index} over {sources} source packets: no batch has it")]
    NoSuchRepair {
        /// Index of the repair packet.
        index: usize,
        /// Number of source packets in its batch.
        sources: usize,
    },
    /// A packet is longer than the decoder's buffers, or than the repair packet that covers it.
    #[error(
        "packet too long, {bytes} bytes instead of {capacity}: it is damaged or belongs to another batch"
    )]
    TooLong {
        /// Length of the packet, in bytes.
        bytes: usize,
        /// Number of bytes that fit.
        capacity: usize,
    },
}

/// Equation of the system: the sum of the unknowns' multiples is the right-hand side.
#[derive(Clone, Copy, Debug)]
struct Row {
    coefficients: [u8; JOINT_UNKNOWNS_MAX],
    length: LengthSymbol,
    /// Unknown that elimination has isolated in this row, except for free unknowns.
    pivot: Option<usize>,
}

/// Decoder that solves a system of equations: repair packets of several batches over unknown source
/// packets.
///
/// [`JointDecoder::new`] allocates all memory, and later systems reuse it.
#[derive(Debug)]
pub struct JointDecoder {
    engine: Engine,
    rows: ArrayVec<Row, JOINT_EQUATIONS_MAX>,
    /// Right-hand side of each row, with zeros up to the end of its buffer.
    constants: Vec<AlignedBuffer>,
    spare: AlignedBuffer,
    packet_bytes: usize,
    unknowns: usize,
}

impl JointDecoder {
    /// Creates a decoder for packets of up to `packet_bytes` bytes.
    #[must_use]
    pub fn new(engine: Engine, packet_bytes: usize) -> Self {
        let sides = (0..JOINT_EQUATIONS_MAX).map(|_| AlignedBuffer::new(packet_bytes)).collect();
        let spare = AlignedBuffer::new(packet_bytes);
        Self { engine, rows: ArrayVec::new(), constants: sides, spare, packet_bytes, unknowns: 0 }
    }

    /// Removes all equations, for the next system.
    pub fn restart(&mut self) {
        self.rows.clear();
        self.unknowns = 0;
    }

    /// Adds a repair packet as an equation; `sources` are the source packets of its batch, in
    /// order.
    ///
    /// # Errors
    /// If it does not fit into the system, or is impossible.
    pub fn add(&mut self, repair: &Repair<'_>, sources: &[Source<'_>]) -> Result<(), JointError> {
        self.check(repair, sources)?;
        let mut row =
            Row { coefficients: [0; JOINT_UNKNOWNS_MAX], length: repair.length_symbol, pivot: None };
        let side = &mut self.constants[self.rows.len()];
        side.as_mut().fill(0);
        side.as_mut()[..repair.payload.len()].copy_from_slice(repair.payload);
        for (coefficient, source) in ROWS[repair.index].iter().zip(sources) {
            match source {
                Source::Known(packet) => {
                    add_multiple(self.engine, side, *coefficient, packet);
                    length::accumulate(&mut row.length, *coefficient, length::symbol(packet.len()));
                }
                Source::Unknown(number) => {
                    row.coefficients[*number] ^= *coefficient;
                    self.unknowns = self.unknowns.max(number + 1);
                }
            }
        }
        self.rows.push(row);
        Ok(())
    }

    fn check(&self, repair: &Repair<'_>, sources: &[Source<'_>]) -> Result<(), JointError> {
        if self.rows.is_full() {
            return Err(JointError::Full);
        }
        let legal = repair.index < REPAIR_PACKETS_MAX && (1..=SOURCE_PACKETS_MAX).contains(&sources.len());
        if !legal || repair.source_packets != sources.len() {
            return Err(JointError::NoSuchRepair { index: repair.index, sources: sources.len() });
        }
        let bytes = repair.payload.len();
        if bytes > self.packet_bytes {
            return Err(JointError::TooLong { bytes, capacity: self.packet_bytes });
        }
        for source in sources {
            match source {
                Source::Unknown(number) if *number >= JOINT_UNKNOWNS_MAX => {
                    return Err(JointError::TooManyUnknowns { number: *number });
                }
                Source::Known(packet) if packet.len() > bytes => {
                    return Err(JointError::TooLong { bytes: packet.len(), capacity: bytes });
                }
                Source::Known(_) | Source::Unknown(_) => {}
            }
        }
        Ok(())
    }

    /// Solves the system as far as possible. Returns each unknown with a unique solution, and its
    /// packet.
    ///
    /// An unknown whose solution is no valid packet is left out: an input packet was wrong.
    pub fn solve(&mut self) -> impl Iterator<Item = (usize, &[u8])> {
        for unknown in 0..self.unknowns {
            self.reduce(unknown);
        }
        self.rows.iter().zip(&self.constants).filter_map(|(row, side)| {
            let unknown = row.pivot.filter(|unknown| row.is_solved(*unknown))?;
            let bytes = usize::from(u16::from_be_bytes(row.length));
            let (packet, padding) = side.as_ref().split_at_checked(bytes)?;
            padding.iter().all(|byte| *byte == 0).then_some((unknown, packet))
        })
    }

    /// Eliminates this unknown from all rows but one, if there is a row without a pivot for it.
    fn reduce(&mut self, unknown: usize) {
        let mut candidates = self.rows.iter().enumerate();
        let pivot = candidates.find(|(_, row)| row.pivot.is_none() && row.coefficients[unknown] != 0);
        let Some((pivot, row)) = pivot else {
            return;
        };
        let scale = inverse(row.coefficients[unknown]).expect("a pivot is not zero");
        self.scale(pivot, scale);
        self.rows[pivot].pivot = Some(unknown);
        for row in (0..self.rows.len()).filter(|row| *row != pivot) {
            let factor = self.rows[row].coefficients[unknown];
            if factor != 0 {
                self.add_row(row, pivot, factor);
            }
        }
    }

    fn scale(&mut self, index: usize, scale: u8) {
        let row = &mut self.rows[index];
        row.coefficients = row.coefficients.map(|coefficient| multiply(coefficient, scale));
        row.length = row.length.map(|byte| multiply(byte, scale));
        self.spare.as_mut().fill(0);
        add_multiple(self.engine, &mut self.spare, scale, self.constants[index].as_ref());
        core::mem::swap(&mut self.spare, &mut self.constants[index]);
    }

    /// Adds `factor` times the pivot's row to the row at `index`.
    fn add_row(&mut self, index: usize, pivot: usize, factor: u8) {
        let added = self.rows[pivot];
        let row = &mut self.rows[index];
        for (coefficient, addend) in row.coefficients.iter_mut().zip(added.coefficients) {
            *coefficient ^= multiply(factor, addend);
        }
        length::accumulate(&mut row.length, factor, added.length);
        let [sum, pivot] =
            self.constants.get_disjoint_mut([index, pivot]).expect("a row is not added to itself");
        add_multiple(self.engine, sum, factor, pivot.as_ref());
    }
}

impl Row {
    /// True if the row has no unknown but this one.
    fn is_solved(&self, unknown: usize) -> bool {
        let mut others = self.coefficients.iter().enumerate().filter(|(number, _)| *number != unknown);
        others.all(|(_, coefficient)| *coefficient == 0)
    }
}

fn add_multiple(engine: Engine, sum: &mut AlignedBuffer, factor: u8, addend: &[u8]) {
    let engine = engine.implementation();
    with_views(core::slice::from_mut(sum), |sums| engine.accumulate(&[factor], addend, sums));
}
