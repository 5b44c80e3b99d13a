//! Aliases reply: the answer to aliases.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::list::{List, Record};
use crate::reader::Reader;
use crate::writer::Writer;

const BYTES: usize = 3;

const NETWORK_BYTES: usize = 4;

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

/// Tag of the network from which a flow's receiver reaches the egress relay.
///
/// Of two flows of one egress relay, the tags are equal if the addresses of their receivers share a
/// prefix. Its length is [`IPV4_NETWORK_BITS`](crate::IPV4_NETWORK_BITS) or
/// [`IPV6_NETWORK_BITS`](crate::IPV6_NETWORK_BITS). The egress relay computes the tags with a key
/// of its own, so they do not reveal addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkTag(u32);

impl NetworkTag {
    /// Length of a tag in a message, in bytes.
    pub const BYTES: usize = NETWORK_BYTES;

    /// Tag of an unknown network.
    pub const UNKNOWN: Self = Self(0);

    /// Returns the tag with this number; 0 is [`UNKNOWN`](Self::UNKNOWN).
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number of the tag.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl Record<NETWORK_BYTES> for NetworkTag {
    fn parse(bytes: &[u8; NETWORK_BYTES]) -> Result<Self, ParseError> {
        Ok(Self(u32::from_be_bytes(*bytes)))
    }

    fn to_bytes(self) -> [u8; NETWORK_BYTES] {
        self.0.to_be_bytes()
    }
}

/// Tags of receivers' networks, in the order of the aliases.
pub type NetworkTags<'a> = List<'a, NetworkTag, NETWORK_BYTES>;

/// Message of an egress relay to an ingress relay: for each announced alias, whether a receiver of
/// its flow is registered, and a tag of its network. The ingress relay announces the others again
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasesReply<'a> {
    /// One answer for each alias.
    pub aliases: AliasStatuses<'a>,
    /// Tag of the receiver's network for each alias. Empty if no flow has a receiver, or from a
    /// relay of an earlier version.
    pub networks: NetworkTags<'a>,
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
        let aliases = List::parse(&mut reader, "aliases", count.into())?;
        let networks = List::parse(&mut reader, "networks", count.into()).unwrap_or(NetworkTags::EMPTY);
        Ok(Self { aliases, networks })
    }

    /// Appends the aliases reply to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.count(self.aliases.len());
            output.bytes(self.aliases.as_bytes());
            output.bytes(self.networks.as_bytes());
        })
    }
}
