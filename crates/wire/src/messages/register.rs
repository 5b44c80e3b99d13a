//! Register: an agent registers a flow at a relay.

use crate::codes::{Code, codes};
use crate::error::{MessageFullError, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::FlowKey;
use crate::quantities::{KilobitsPerSecond, Microseconds};
use crate::reader::Reader;
use crate::repair::BlockShape;
use crate::service::Service;
use crate::writer::{Output, Writer};

codes! {
    /// Role of the agent in the flow.
    pub enum FlowRole {
        /// The agent sends the flow.
        Sender = 1,
        /// The agent receives the flow.
        Receiver = 2,
    }
}

/// Options of a registered flow's service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "bits of one byte, each with a meaning of its own")]
pub struct FlowOptions {
    /// True if the ingress relay forwards packets on the overlay at once, without a NACK.
    pub relay_side_duplication: bool,
    /// True if the sender makes the in-stream repair packets, and not the ingress relay.
    pub sender_makes_repairs: bool,
    /// True if the flow's packets may be coded with those of other tenants.
    pub coded_with_other_tenants: bool,
    /// True if the sender copies only some packets. A gap between copies is then not a loss.
    pub selective: bool,
    /// True if the ingress relay adapts the redundancy to the losses that the egress relay reports.
    pub adaptive_redundancy: bool,
}

impl FlowOptions {
    const fn from_bits(bits: u8) -> Self {
        Self {
            relay_side_duplication: bits & 1 != 0,
            sender_makes_repairs: bits & 2 != 0,
            coded_with_other_tenants: bits & 4 != 0,
            selective: bits & 8 != 0,
            adaptive_redundancy: bits & 16 != 0,
        }
    }

    fn bits(self) -> u8 {
        u8::from(self.relay_side_duplication)
            | u8::from(self.sender_makes_repairs) << 1
            | u8::from(self.coded_with_other_tenants) << 2
            | u8::from(self.selective) << 3
            | u8::from(self.adaptive_redundancy) << 4
    }
}

/// Limit of the rate at which a receiver returns packets of its flow for repairs of other flows; by
/// default 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Limit during a burst, in percent of the flow's rate.
    pub burst_percent: u8,
    /// Limit of the average, in thousandths of the flow's rate.
    pub average_per_mille: u16,
    /// Longest duration of a burst, in seconds.
    pub seconds: u8,
}

/// An agent registers a flow at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register<'a> {
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Role of the agent in the flow.
    pub role: FlowRole,
    /// Requested service.
    pub service: Service,
    /// Shape of the in-stream block, if the flow has one.
    pub in_stream: Option<BlockShape>,
    /// Largest cross-stream batch for the flow's packets, and the repair packets of a full one.
    pub batch: Option<BlockShape>,
    /// Options of the service.
    pub options: FlowOptions,
    /// Upper bound of the sending rate.
    pub rate: KilobitsPerSecond,
    /// Latency budget, from sending to delivery.
    pub budget: Microseconds,
    /// Limit of the rate at which the receiver returns packets for repairs of other flows.
    pub consent: Consent,
    /// Relay shard at the path's other end: the egress relay of a sender's path, the ingress relay
    /// of a receiver's. A sender may register a flow once for each egress relay.
    pub far_relay: GrantedRelay,
    /// Bytes of a grant; empty if the static configuration implies it. They are not checked here,
    /// because a relay must answer an invalid grant.
    pub grant: &'a [u8],
    /// Number of changes to the registration, modulo 256. A relay ignores a `register` if one with
    /// a later revision has overtaken it.
    ///
    /// `None` if the message has no revision, which counts as 0.
    pub revision: Option<u8>,
}

impl<'a> Register<'a> {
    /// Type number of a register message on the wire.
    pub const TYPE: u8 = 1;

    /// Reads a register message from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("register", body);
        Ok(Self {
            flow_key: reader.flow_key()?,
            role: reader.code("role")?,
            service: reader.code("service")?,
            in_stream: BlockShape::parse(&mut reader, ["source packets", "repair packets"])?,
            batch: BlockShape::parse(&mut reader, ["batch", "batch repair packets"])?,
            options: FlowOptions::from_bits(reader.u8("options")?),
            rate: KilobitsPerSecond::new(reader.u32("rate")?),
            budget: Microseconds::new(reader.u32("budget")?),
            consent: Consent {
                burst_percent: reader.u8("consent")?,
                average_per_mille: reader.u16("consent")?,
                seconds: reader.u8("consent")?,
            },
            far_relay: GrantedRelay::parse(&mut reader)?,
            grant: parse_grant(&mut reader)?,
            revision: reader.u8("revision").ok(),
        })
    }

    /// Appends the register message to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u8(self.role.code());
            output.u8(self.service.code());
            output.bytes(&BlockShape::to_bytes(self.in_stream));
            output.bytes(&BlockShape::to_bytes(self.batch));
            output.u8(self.options.bits());
            output.u32(self.rate.count());
            output.u32(self.budget.count());
            output.u8(self.consent.burst_percent);
            output.u16(self.consent.average_per_mille);
            output.u8(self.consent.seconds);
            self.far_relay.emit(output);
            emit_grant(self.grant, output);
            output.bytes(self.revision.as_slice());
        })
    }
}

fn parse_grant<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], ParseError> {
    let bytes = reader.u16("grant length")?;
    reader.bytes("grant", bytes.into())
}

/// Writes the grant's length and bytes. A grant too long for the length field exceeds any packet,
/// and is refused with the message.
fn emit_grant(grant: &[u8], output: &mut Output<'_>) {
    output.u16(u16::try_from(grant.len()).unwrap_or(u16::MAX));
    output.bytes(grant);
}
