//! Aliases known: the answer to aliases.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::list::{List, Record};
use crate::reader::Reader;
use crate::writer::Writer;

const BYTES: usize = 3;

/// What the egress relay knows of one alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasKnowledge {
    /// What stands for the flow.
    pub alias: Alias,
    /// Whether a receiver of the flow is registered; if none is, the ingress relay asks again later.
    pub has_receiver: bool,
}

impl AliasKnowledge {
    /// How many bytes it takes in a message.
    pub const BYTES: usize = BYTES;
}

impl Record<BYTES> for AliasKnowledge {
    fn parse(bytes: &[u8; BYTES]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(AliasesKnown::NAME, bytes);
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

/// What the egress relay knows of aliases.
pub type AliasKnowledges<'a> = List<'a, AliasKnowledge, BYTES>;

/// The egress relay has learnt aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasesKnown<'a> {
    /// What it knows of each.
    pub aliases: AliasKnowledges<'a>,
}

impl<'a> AliasesKnown<'a> {
    /// The message's type.
    pub const TYPE: u8 = 4;

    const NAME: &'static str = "aliases known";

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Self::NAME, body);
        let count = reader.u8("count")?;
        Ok(Self { aliases: List::parse(&mut reader, "aliases", count.into())? })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.count(self.aliases.len());
            output.bytes(self.aliases.as_bytes());
        })
    }
}
