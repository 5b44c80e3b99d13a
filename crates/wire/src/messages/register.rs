//! Register: an agent asks a relay to take part in a flow.

use crate::codes::{Code, codes};
use crate::error::{Full, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::FlowKey;
use crate::quantities::{KilobitsPerSecond, Microseconds};
use crate::reader::Reader;
use crate::repair::BlockShape;
use crate::service::Service;
use crate::writer::{Output, Writer};

codes! {
    /// What the agent is to the flow.
    pub enum FlowRole {
        /// It sends the flow.
        Sender = 1,
        /// It receives the flow.
        Receiver = 2,
    }
}

/// Details of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "bits of one byte, each with a meaning of its own")]
pub struct FlowOptions {
    /// The ingress relay sends packets on the overlay too, instead of waiting for a NACK.
    pub relay_side_duplication: bool,
    /// The sender makes the in-stream repair packets, not the ingress relay.
    pub sender_makes_repairs: bool,
    /// The flow's packets may be coded with those of other tenants.
    pub coded_with_other_tenants: bool,
    /// The sender copies only some packets: a gap between copies is no loss.
    pub selective: bool,
}

impl FlowOptions {
    const fn from_bits(bits: u8) -> Self {
        Self {
            relay_side_duplication: bits & 1 != 0,
            sender_makes_repairs: bits & 2 != 0,
            coded_with_other_tenants: bits & 4 != 0,
            selective: bits & 8 != 0,
        }
    }

    fn bits(self) -> u8 {
        u8::from(self.relay_side_duplication)
            | u8::from(self.sender_makes_repairs) << 1
            | u8::from(self.coded_with_other_tenants) << 2
            | u8::from(self.selective) << 3
    }
}

/// What a receiver is willing to send for others' repairs; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// For a short time, in percent of the flow's rate.
    pub burst_percent: u8,
    /// On average, in thousandths of the flow's rate.
    pub average_per_mille: u16,
    /// How long a burst may last, in seconds.
    pub seconds: u8,
}

/// An agent asks a relay to take part in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register<'a> {
    /// The flow.
    pub flow_key: FlowKey,
    /// What the agent is to it.
    pub role: FlowRole,
    /// What is asked for.
    pub service: Service,
    /// The in-stream block, if there is to be one.
    pub in_stream: Option<BlockShape>,
    /// The largest cross-stream batch the flow may be in, and the repair packets of a full one.
    pub batch: Option<BlockShape>,
    /// Details of the service.
    pub options: FlowOptions,
    /// What the flow will send at most.
    pub rate: KilobitsPerSecond,
    /// The latency budget, from sending to delivery.
    pub budget: Microseconds,
    /// What a receiver is willing to send for others.
    pub consent: Consent,
    /// The relay shard at the path's other end: the egress relay of a sender's path, the ingress relay of a receiver's.
    /// A sender may register a flow once for each egress relay.
    pub far_relay: GrantedRelay,
    /// The bytes of a grant, empty where the static configuration implies it. A relay that cannot read them answers
    /// so; that is why they are not checked here.
    pub grant: &'a [u8],
    /// The number of changes to what is asked for, modulo 256. A relay does not apply a `register` that was overtaken by one with a
    /// later revision. `None` in a message that does not have it counts as 0.
    pub revision: Option<u8>,
}

impl<'a> Register<'a> {
    /// The message's type.
    pub const TYPE: u8 = 1;

    /// Reads the body.
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

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
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

/// A grant too long for its length field does not fit into any packet either, and is refused with the message.
fn emit_grant(grant: &[u8], output: &mut Output<'_>) {
    output.u16(u16::try_from(grant.len()).unwrap_or(u16::MAX));
    output.bytes(grant);
}
