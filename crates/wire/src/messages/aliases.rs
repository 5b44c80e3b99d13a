//! Aliases: short names of flows between two relays.

use crate::codes::Code;
use crate::error::{MessageFullError, ParseError};
use crate::ids::{Alias, FlowKey};
use crate::list::{List, Record};
use crate::quantities::KilobitsPerSecond;
use crate::reader::Reader;
use crate::service::Service;
use crate::writer::{Output, Writer};

const BYTES: usize = 18;

/// Options bit for `selective`, as in a registration.
const SELECTIVE: u8 = 1 << 3;

/// Options bit for `adaptive_redundancy`, as in a registration.
const ADAPTIVE_REDUNDANCY: u8 = 1 << 4;

/// A flow and its alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasAnnouncement {
    /// Alias of the flow from now on.
    pub alias: Alias,
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Service of the relays for the flow.
    pub service: Service,
    /// True if the sender copies only some packets. A gap between relayed copies is then not a
    /// loss.
    pub selective: bool,
    /// True if the ingress relay adapts the redundancy of the flow's batches to the losses.
    pub adaptive_redundancy: bool,
    /// Upper bound of the sending rate.
    pub rate: KilobitsPerSecond,
}

impl AliasAnnouncement {
    /// Length of an announcement in a message, in bytes.
    pub const BYTES: usize = BYTES;
}

impl Record<BYTES> for AliasAnnouncement {
    fn parse(bytes: &[u8; BYTES]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Aliases::NAME, bytes);
        let (alias, flow_key, service) = (reader.alias()?, reader.flow_key()?, reader.code("service")?);
        let options = reader.u8("options")?;
        Ok(Self {
            alias,
            flow_key,
            service,
            selective: options & SELECTIVE != 0,
            adaptive_redundancy: options & ADAPTIVE_REDUNDANCY != 0,
            rate: KilobitsPerSecond::new(reader.u32("rate")?),
        })
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut output = Output::new(&mut bytes);
        output.u16(self.alias.number());
        output.bytes(&self.flow_key.to_bytes());
        output.u8(self.service.code());
        let adaptive = if self.adaptive_redundancy { ADAPTIVE_REDUNDANCY } else { 0 };
        output.u8(adaptive | if self.selective { SELECTIVE } else { 0 });
        output.u32(self.rate.count());
        bytes
    }
}

/// Flows and their aliases.
pub type AliasAnnouncements<'a> = List<'a, AliasAnnouncement, BYTES>;

/// The ingress relay announces the aliases of flows to the egress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aliases<'a> {
    /// Flows with their aliases.
    pub flows: AliasAnnouncements<'a>,
}

impl<'a> Aliases<'a> {
    /// Type number of an aliases message on the wire.
    pub const TYPE: u8 = 3;

    const NAME: &'static str = "aliases";

    /// Reads an aliases message from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Self::NAME, body);
        let count = reader.u8("count")?;
        Ok(Self { flows: List::parse(&mut reader, "flows", count.into())? })
    }

    /// Appends the aliases message to the messages of a packet.
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
