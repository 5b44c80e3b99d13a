//! Loss report: losses of coded flows, by the losses of their batches.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::list::{List, Record};
use crate::reader::Reader;
use crate::writer::Writer;

/// Classes of batches by their losses: one, two, three, and four or more.
pub const LOSS_CLASSES: usize = 4;

const BYTES: usize = 3 + 2 * LOSS_CLASSES;

const OPEN_ENDED: u8 = 1 << 0;
const QUEUE_GROWS: u8 = 1 << 1;

/// Losses of one flow since the previous loss report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLosses {
    /// Alias of the flow.
    pub alias: Alias,
    /// True while an open-ended NACK of the flow's receiver is in force.
    pub is_open_ended: bool,
    /// True if the receiver lost packets while the queueing delay of the direct path grew. They
    /// are not among the losses.
    pub queue_grows: bool,
    /// Lost packets by the losses of their batch, from one loss on. A batch with another loss
    /// moves to the next class, so numbers may be negative.
    pub losses: [i16; LOSS_CLASSES],
}

impl FlowLosses {
    /// Length in a message, in bytes.
    pub const BYTES: usize = BYTES;
}

impl Record<BYTES> for FlowLosses {
    fn parse(bytes: &[u8; BYTES]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(LossReport::NAME, bytes);
        let alias = reader.alias()?;
        let flags = reader.u8("flags")?;
        let mut losses = [0; LOSS_CLASSES];
        for count in &mut losses {
            *count = reader.u16("losses")?.cast_signed();
        }
        let (is_open_ended, queue_grows) = (flags & OPEN_ENDED != 0, flags & QUEUE_GROWS != 0);
        Ok(Self { alias, is_open_ended, queue_grows, losses })
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..2].copy_from_slice(&self.alias.number().to_be_bytes());
        bytes[2] = u8::from(self.is_open_ended) | u8::from(self.queue_grows) << 1;
        for (written, count) in bytes[3..].chunks_exact_mut(2).zip(self.losses) {
            written.copy_from_slice(&count.to_be_bytes());
        }
        bytes
    }
}

/// The losses of several flows.
pub type FlowsLosses<'a> = List<'a, FlowLosses, BYTES>;

/// The egress relay reports losses of coded flows to the ingress relay, which adapts the redundancy
/// of their batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossReport<'a> {
    /// Losses of each flow that lost packets.
    pub flows: FlowsLosses<'a>,
}

impl<'a> LossReport<'a> {
    /// Type number of a loss report on the wire.
    pub const TYPE: u8 = 31;

    const NAME: &'static str = "loss report";

    /// Reads a loss report from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Self::NAME, body);
        let count = reader.u8("count")?;
        Ok(Self { flows: List::parse(&mut reader, "flows", count.into())? })
    }

    /// Appends the loss report to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.count(self.flows.len());
            output.bytes(self.flows.as_bytes());
        })
    }
}
