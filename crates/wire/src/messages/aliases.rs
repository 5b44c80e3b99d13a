//! Aliases: what stands for flows between two relays.

use crate::codes::Code;
use crate::error::{Full, ParseError};
use crate::ids::{Alias, FlowKey};
use crate::list::{List, Record};
use crate::quantities::KilobitsPerSecond;
use crate::reader::Reader;
use crate::service::Service;
use crate::writer::{Output, Writer};

const BYTES: usize = 18;

/// The bit of the options that says so, as in a registration.
const SELECTIVE: u8 = 1 << 3;

/// One flow and what stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasAnnouncement {
    /// What stands for the flow from now on.
    pub alias: Alias,
    /// The flow.
    pub flow_key: FlowKey,
    /// What relays do for it.
    pub service: Service,
    /// The sender copies only some packets: a gap between carried copies is no loss.
    pub selective: bool,
    /// What it sends at most.
    pub rate: KilobitsPerSecond,
}

impl AliasAnnouncement {
    /// How many bytes it takes in a message.
    pub const BYTES: usize = BYTES;
}

impl Record<BYTES> for AliasAnnouncement {
    fn parse(bytes: &[u8; BYTES]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Aliases::NAME, bytes);
        Ok(Self {
            alias: reader.alias()?,
            flow_key: reader.flow_key()?,
            service: reader.code("service")?,
            selective: reader.u8("options")? & SELECTIVE != 0,
            rate: KilobitsPerSecond::new(reader.u32("rate")?),
        })
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut output = Output::new(&mut bytes);
        output.u16(self.alias.number());
        output.bytes(&self.flow_key.to_bytes());
        output.u8(self.service.code());
        output.u8(if self.selective { SELECTIVE } else { 0 });
        output.u32(self.rate.count());
        bytes
    }
}

/// Flows and what stands for them.
pub type AliasAnnouncements<'a> = List<'a, AliasAnnouncement, BYTES>;

/// The ingress relay tells the egress relay what stands for flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aliases<'a> {
    /// The flows.
    pub flows: AliasAnnouncements<'a>,
}

impl<'a> Aliases<'a> {
    /// The message's type.
    pub const TYPE: u8 = 3;

    const NAME: &'static str = "aliases";

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Self::NAME, body);
        let count = reader.u8("count")?;
        Ok(Self { flows: List::parse(&mut reader, "flows", count.into())? })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.count(self.flows.len());
            output.bytes(self.flows.as_bytes());
        })
    }
}
