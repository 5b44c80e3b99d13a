//! Offer: an agent wants to exchange a flow with another, in both directions.

use byway_units::FlowId;

use crate::codes::Code;
use crate::error::{Full, ParseError};
use crate::quantities::{KilobitsPerSecond, Microseconds};
use crate::reader::Reader;
use crate::repair::BlockShape;
use crate::service::Service;
use crate::writer::{Output, Writer};

/// What the sender of a flow does, as far as its receiver may want to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "bits of one byte, each with a meaning of its own")]
pub struct TermsOptions {
    /// The flow carries TCP, QUIC or the like, which take lost packets for congestion.
    pub congestion_controlled: bool,
    /// The sender leaves the direct path to its ingress relay, which sends on what it gets.
    pub relay_side_duplication: bool,
    /// The sender makes the in-stream repair packets, and copies nothing.
    pub sender_makes_repairs: bool,
    /// The sender copies only some packets.
    pub selective: bool,
    /// The sender copies nothing before the first losses.
    pub standby: bool,
    /// The flow's packets may be coded with those of other tenants.
    pub coded_with_other_tenants: bool,
    /// Nobody knows which of its packets take losses for congestion: those of a full path stay lost.
    pub mixture: bool,
}

impl TermsOptions {
    const fn from_bits(bits: u8) -> Self {
        Self {
            congestion_controlled: bits & 1 != 0,
            relay_side_duplication: bits & 2 != 0,
            sender_makes_repairs: bits & 4 != 0,
            selective: bits & 8 != 0,
            standby: bits & 16 != 0,
            coded_with_other_tenants: bits & 32 != 0,
            mixture: bits & 64 != 0,
        }
    }

    fn bits(self) -> u8 {
        u8::from(self.congestion_controlled)
            | u8::from(self.relay_side_duplication) << 1
            | u8::from(self.sender_makes_repairs) << 2
            | u8::from(self.selective) << 3
            | u8::from(self.standby) << 4
            | u8::from(self.coded_with_other_tenants) << 5
            | u8::from(self.mixture) << 6
    }
}

/// What one direction is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What relays do for it.
    pub service: Service,
    /// The in-stream block, if there is to be one.
    pub in_stream: Option<BlockShape>,
    /// The largest cross-stream batch it may be in, and the repair packets of a full one.
    pub batch: Option<BlockShape>,
    /// What its sender does.
    pub options: TermsOptions,
    /// What it will send at most.
    pub rate: KilobitsPerSecond,
    /// The latency budget, from sending to delivery.
    pub budget: Microseconds,
}

impl Terms {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            service: reader.code("service")?,
            in_stream: BlockShape::parse(reader, ["source packets", "repair packets"])?,
            batch: BlockShape::parse(reader, ["batch", "batch repair packets"])?,
            options: TermsOptions::from_bits(reader.u8("options")?),
            rate: KilobitsPerSecond::new(reader.u32("rate")?),
            budget: Microseconds::new(reader.u32("budget")?),
        })
    }

    fn emit(&self, output: &mut Output<'_>) {
        output.u8(self.service.code());
        output.bytes(&BlockShape::to_bytes(self.in_stream));
        output.bytes(&BlockShape::to_bytes(self.batch));
        output.u8(self.options.bits());
        output.u32(self.rate.count());
        output.u32(self.budget.count());
    }
}

/// What offered flows are for, in the words of those who use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a>(&'a [u8]);

impl<'a> Subject<'a> {
    /// A subject of these bytes, of which there may be 255.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= u8::MAX as usize { Some(Self(bytes)) } else { None }
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let length = reader.u8("subject length")?;
        reader.bytes("subject", length.into()).map(Self)
    }

    fn emit(self, output: &mut Output<'_>) {
        output.count(self.0.len());
        output.bytes(self.0);
    }
}

/// An agent offers another a flow in each direction, both under one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// The number of both flows.
    pub flow: FlowId,
    /// What the offering agent would send.
    pub forth: Terms,
    /// What it would receive.
    pub back: Terms,
    /// What they are for.
    pub subject: Subject<'a>,
}

impl<'a> Offer<'a> {
    /// The message's type.
    pub const TYPE: u8 = 7;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("offer", body);
        let flow = FlowId::new(reader.u16("flow")?);
        let (forth, back) = (Terms::parse(&mut reader)?, Terms::parse(&mut reader)?);
        Ok(Self { flow, forth, back, subject: Subject::parse(&mut reader)? })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.flow.number());
            self.forth.emit(output);
            self.back.emit(output);
            self.subject.emit(output);
        })
    }
}
