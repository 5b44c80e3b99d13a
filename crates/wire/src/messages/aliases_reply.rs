//! Aliases reply: the answer to aliases.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::list::{List, Record};
use crate::reader::Reader;
use crate::writer::Writer;

const BYTES: usize = 3;

/// The egress relay's answer about one alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasStatus {
    /// Alias of the flow.
    pub alias: Alias,
    /// True if a receiver of the flow is registered. Otherwise the ingress relay repeats the
    /// announcement later.
    pub has_receiver: bool,
}

impl AliasStatus {
    /// Length of an alias's status in a message, in bytes.
    pub const BYTES: usize = BYTES;
}

impl Record<BYTES> for AliasStatus {
    fn parse(bytes: &[u8; BYTES]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(AliasesReply::NAME, bytes);
        let alias = reader.alias()?;
        match reader.u8("known")? {
            known @ (0 | 1) => Ok(Self { alias, has_receiver: known == 1 }),
            known => Err(reader.illegal("known", known, "0, 1")),
        }
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let [a0, a1] = self.alias.number().to_be_bytes();
        [a0, a1, self.has_receiver.into()]
    }
}

/// The egress relay's answers about aliases.
pub type AliasStatuses<'a> = List<'a, AliasStatus, BYTES>;

/// Message of an egress relay to an ingress relay: for each announced alias, whether a receiver of
/// its flow is registered. The ingress relay announces the others again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasesReply<'a> {
    /// One answer for each alias.
    pub aliases: AliasStatuses<'a>,
}

impl<'a> AliasesReply<'a> {
    /// Type number of an aliases reply on the wire.
    pub const TYPE: u8 = 4;

    const NAME: &'static str = "aliases reply";

    /// Reads an aliases reply from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Self::NAME, body);
        let count = reader.u8("count")?;
        Ok(Self { aliases: List::parse(&mut reader, "aliases", count.into())? })
    }

    /// Appends the aliases reply to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.count(self.aliases.len());
            output.bytes(self.aliases.as_bytes());
        })
    }
}
