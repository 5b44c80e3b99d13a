//! Restoring packets that no batch restores by itself: several batches solved together.
//!
//! Where two kinds of batches overlap (packets of one flow in succession, and packets of several flows at one
//! time), each may lack too much, and all of them together not. Every repair packet is an equation over the packets
//! it covers; what is known moves to its right-hand side, and Gaussian elimination does the rest.
//!
//! Two batches that overlap in a grid must not use the same row of coefficients in the same direction: the
//! equations of a product code depend on one another. [`Encoder::from_row`](crate::Encoder::from_row) gives each
//! flow's blocks a row of their own.

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

/// A source packet of a batch, from the decoder's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// It is at hand.
    Known(&'a [u8]),
    /// It is the unknown with this number, the same in every batch that covers it.
    Unknown(usize),
}

/// Why an equation was not added. The decoder then stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JointError {
    /// The decoder is full.
    #[error("there are {JOINT_EQUATIONS_MAX} equations already: solve with these, or with fewer batches")]
    Full,
    /// More unknowns than it takes.
    #[error("unknown {number} is beyond the limit: unknowns are numbered from 0 to {}", JOINT_UNKNOWNS_MAX - 1)]
    TooManyUnknowns {
        /// The number of the unknown.
        number: usize,
    },
    /// A repair packet with an index that no batch has, or a batch of an impossible size.
    #[error("repair packet {index} over {sources} source packets: no batch has such a one")]
    NoSuchRepair {
        /// The repair packet's index.
        index: usize,
        /// The source packets of its batch.
        sources: usize,
    },
    /// A packet longer than the decoder's buffers, or than the repair packet that should cover it.
    #[error("a packet of {bytes} bytes where {room} fit: it is damaged or of another batch")]
    TooLong {
        /// The packet's bytes.
        bytes: usize,
        /// The bytes there are.
        room: usize,
    },
}

/// One equation: the sum of the unknowns' multiples is the right-hand side.
#[derive(Clone, Copy, Debug)]
struct Row {
    coefficients: [u8; JOINT_UNKNOWNS_MAX],
    length: LengthSymbol,
    /// The unknown that this row was reduced to, with whatever remains free.
    pivot: Option<usize>,
}

/// A system of repair packets over unknown source packets.
///
/// Everything is allocated by [`JointDecoder::new`] and used again for the next system.
#[derive(Debug)]
pub struct JointDecoder {
    engine: Engine,
    rows: ArrayVec<Row, JOINT_EQUATIONS_MAX>,
    /// The right-hand side of each row, zero up to its end.
    sides: Vec<AlignedBuffer>,
    spare: AlignedBuffer,
    packet_bytes: usize,
    unknowns: usize,
}

impl JointDecoder {
    /// A decoder for packets of up to `packet_bytes` bytes.
    #[must_use]
    pub fn new(engine: Engine, packet_bytes: usize) -> Self {
        let sides = (0..JOINT_EQUATIONS_MAX).map(|_| AlignedBuffer::new(packet_bytes)).collect();
        let spare = AlignedBuffer::new(packet_bytes);
        Self { engine, rows: ArrayVec::new(), sides, spare, packet_bytes, unknowns: 0 }
    }

    /// Forgets the system.
    pub fn restart(&mut self) {
        self.rows.clear();
        self.unknowns = 0;
    }

    /// Adds a repair packet: `sources` are the source packets of its batch, in order.
    ///
    /// # Errors
    /// If it does not fit into the system, or cannot be.
    pub fn add(&mut self, repair: &Repair<'_>, sources: &[Source<'_>]) -> Result<(), JointError> {
        self.check(repair, sources)?;
        let mut row =
            Row { coefficients: [0; JOINT_UNKNOWNS_MAX], length: repair.length_symbol, pivot: None };
        let side = &mut self.sides[self.rows.len()];
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
            return Err(JointError::TooLong { bytes, room: self.packet_bytes });
        }
        for source in sources {
            match source {
                Source::Unknown(number) if *number >= JOINT_UNKNOWNS_MAX => {
                    return Err(JointError::TooManyUnknowns { number: *number });
                }
                Source::Known(packet) if packet.len() > bytes => {
                    return Err(JointError::TooLong { bytes: packet.len(), room: bytes });
                }
                Source::Known(_) | Source::Unknown(_) => {}
            }
        }
        Ok(())
    }

    /// Solves the system as far as it can be. Gives each unknown that has one answer, with its packet.
    ///
    /// An unknown whose answer cannot be a packet is left out: something that went in was false.
    pub fn solve(&mut self) -> impl Iterator<Item = (usize, &[u8])> {
        for unknown in 0..self.unknowns {
            self.reduce(unknown);
        }
        self.rows.iter().zip(&self.sides).filter_map(|(row, side)| {
            let unknown = row.pivot.filter(|unknown| row.is_solved(*unknown))?;
            let bytes = usize::from(u16::from_be_bytes(row.length));
            let (packet, padding) = side.as_ref().split_at_checked(bytes)?;
            padding.iter().all(|byte| *byte == 0).then_some((unknown, packet))
        })
    }

    /// Leaves this unknown in one row only, if there is a row to spare for it.
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

    fn scale(&mut self, place: usize, scale: u8) {
        let row = &mut self.rows[place];
        row.coefficients = row.coefficients.map(|coefficient| multiply(coefficient, scale));
        row.length = row.length.map(|byte| multiply(byte, scale));
        self.spare.as_mut().fill(0);
        add_multiple(self.engine, &mut self.spare, scale, self.sides[place].as_ref());
        core::mem::swap(&mut self.spare, &mut self.sides[place]);
    }

    /// Adds `factor` times the pivot's row to another.
    fn add_row(&mut self, place: usize, pivot: usize, factor: u8) {
        let added = self.rows[pivot];
        let row = &mut self.rows[place];
        for (coefficient, addend) in row.coefficients.iter_mut().zip(added.coefficients) {
            *coefficient ^= multiply(factor, addend);
        }
        length::accumulate(&mut row.length, factor, added.length);
        let [sum, pivot] = self.sides.get_disjoint_mut([place, pivot]).expect("a row is not added to itself");
        add_multiple(self.engine, sum, factor, pivot.as_ref());
    }
}

impl Row {
    /// Whether nothing but this unknown is left.
    fn is_solved(&self, unknown: usize) -> bool {
        let mut others = self.coefficients.iter().enumerate().filter(|(number, _)| *number != unknown);
        others.all(|(_, coefficient)| *coefficient == 0)
    }
}

fn add_multiple(engine: Engine, sum: &mut AlignedBuffer, factor: u8, addend: &[u8]) {
    let engine = engine.implementation();
    with_views(core::slice::from_mut(sum), |sums| engine.accumulate(&[factor], addend, sums));
}
