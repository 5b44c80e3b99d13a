//! Offer: an agent offers another agent a pair of flows, one in each direction.

use byway_units::FlowId;

use crate::codes::Code;
use crate::error::{MessageFullError, ParseError};
use crate::quantities::{KilobitsPerSecond, Microseconds};
use crate::reader::Reader;
use crate::repair::BlockShape;
use crate::service::Service;
use crate::writer::{Output, Writer};

/// Properties of a flow that its sender announces to the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "bits of one byte, each with a meaning of its own")]
pub struct TermsOptions {
    /// True if the flow contains TCP, QUIC or the like, which interpret lost packets as congestion.
    pub congestion_controlled: bool,
    /// True if the sender sends all packets to its ingress relay and none on the direct path. The
    /// relay forwards them.
    pub relay_side_duplication: bool,
    /// True if the sender makes the in-stream repair packets and sends no copies.
    pub sender_makes_repairs: bool,
    /// True if the sender copies only some packets.
    pub selective: bool,
    /// True if the flow's packets may be coded with those of other tenants.
    pub coded_with_other_tenants: bool,
    /// True if the agent cannot distinguish the congestion-controlled packets of the flow. The
    /// receiver then requests no packets that were lost while packets queued on the direct path.
    pub mixture: bool,
    /// True if the sender chooses the flow's service, and may change it.
    pub automatic_service: bool,
}

impl TermsOptions {
    const fn from_bits(bits: u8) -> Self {
        Self {
            congestion_controlled: bits & 1 != 0,
            relay_side_duplication: bits & 2 != 0,
            sender_makes_repairs: bits & 4 != 0,
            selective: bits & 8 != 0,
            coded_with_other_tenants: bits & 32 != 0,
            mixture: bits & 64 != 0,
            automatic_service: bits & 128 != 0,
        }
    }

    fn bits(self) -> u8 {
        u8::from(self.congestion_controlled)
            | u8::from(self.relay_side_duplication) << 1
            | u8::from(self.sender_makes_repairs) << 2
            | u8::from(self.selective) << 3
            | u8::from(self.coded_with_other_tenants) << 5
            | u8::from(self.mixture) << 6
            | u8::from(self.automatic_service) << 7
    }
}

/// Properties of an offered flow, in one direction of the flow pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Service of the relays for the flow.
    pub service: Service,
    /// Shape of the in-stream block, if the flow has one.
    pub in_stream: Option<BlockShape>,
    /// Largest cross-stream batch for the flow's packets, and the repair packets of a full one.
    pub batch: Option<BlockShape>,
    /// Options that the sender of the flow has chosen.
    pub options: TermsOptions,
    /// Upper bound of the sending rate.
    pub rate: KilobitsPerSecond,
    /// Latency budget, from sending to delivery.
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

/// Purpose of offered flows, in the terms of the program that uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a>(&'a [u8]);

impl<'a> Subject<'a> {
    /// Returns a subject of these bytes; `None` if there are more than 255.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= u8::MAX as usize { Some(Self(bytes)) } else { None }
    }

    /// Returns the bytes of the subject.
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

/// Delays from which a flow's sender sends it by relays, because the direct path is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyLimits {
    /// One-way delay up to which the direct path is used.
    pub acceptable: Microseconds,
    /// Least difference of the delays for which the flow changes to the faster path.
    pub gain: Microseconds,
}

/// Limits of the latency of both directions; `None` for a direction that uses the direct path
/// however slow it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferedLatency {
    /// Limits of the direction from the offering agent. The other agent reports the delays of both
    /// paths.
    pub forth: Option<LatencyLimits>,
    /// Limits of the direction to the offering agent. The other agent applies them.
    pub back: Option<LatencyLimits>,
}

impl OfferedLatency {
    /// Bits of the directions with limits, in the order of the limits.
    const FORTH: u8 = 1;
    const BACK: u8 = 2;

    /// Reads the limits behind the subject of an offer. Offers of earlier versions end there.
    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let known = if reader.rest().is_empty() { 0 } else { reader.u8("further options")? };
        let forth = LatencyLimits::parse(reader, known & Self::FORTH != 0)?;
        Ok(Self { forth, back: LatencyLimits::parse(reader, known & Self::BACK != 0)? })
    }

    /// Writes the limits; nothing if there are none, like earlier versions.
    fn emit(&self, output: &mut Output<'_>) {
        if *self == Self::default() {
            return;
        }
        let bit = |limits: Option<LatencyLimits>, bit: u8| if limits.is_some() { bit } else { 0 };
        output.u8(bit(self.forth, Self::FORTH) | bit(self.back, Self::BACK));
        for limits in [self.forth, self.back].into_iter().flatten() {
            output.u32(limits.acceptable.count());
            output.u32(limits.gain.count());
        }
    }
}

impl LatencyLimits {
    /// Reads the limits of a direction, if the offer contains them.
    fn parse(reader: &mut Reader<'_>, is_known: bool) -> Result<Option<Self>, ParseError> {
        if !is_known {
            return Ok(None);
        }
        let acceptable = Microseconds::new(reader.u32("acceptable delay")?);
        Ok(Some(Self { acceptable, gain: Microseconds::new(reader.u32("gain")?) }))
    }
}

/// An agent offers another agent a flow in each direction, both under one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// Number of both flows.
    pub flow: FlowId,
    /// Terms of the direction from the offering agent.
    pub forth: Terms,
    /// Terms of the direction to the offering agent.
    pub back: Terms,
    /// Purpose of the flows.
    pub subject: Subject<'a>,
    /// Limits of the latency of both directions.
    pub latency: OfferedLatency,
}

impl<'a> Offer<'a> {
    /// Type number of an offer on the wire.
    pub const TYPE: u8 = 7;

    /// Reads an offer from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("offer", body);
        let flow = FlowId::new(reader.u16("flow")?);
        let (forth, back) = (Terms::parse(&mut reader)?, Terms::parse(&mut reader)?);
        let subject = Subject::parse(&mut reader)?;
        Ok(Self { flow, forth, back, subject, latency: OfferedLatency::parse(&mut reader)? })
    }

    /// Appends the offer to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.flow.number());
            self.forth.emit(output);
            self.back.emit(output);
            self.subject.emit(output);
            self.latency.emit(output);
        })
    }
}
