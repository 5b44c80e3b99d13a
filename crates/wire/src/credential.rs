//! Credentials: the network's signed statements about a node's key. This module does not verify the
//! signature.

use byway_units::{AgentId, RelayId};

use crate::error::ParseError;
use crate::ids::agent_number;
use crate::limits::{KEY_BYTES, SIGNATURE_BYTES};
use crate::reader::{Reader, STATEMENT_VERSION};
use crate::writer::Output;

const THING: &str = "credential";
const AGENT: u8 = 1;
const RELAY: u8 = 2;

/// Node of the network to which a credential gives a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// Agent with this number.
    Agent(AgentId),
    /// Relay with this number.
    Relay(RelayId),
}

/// Statement of a public key's owner, signed by the network key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Node to which the key belongs.
    pub member: Member,
    /// Time after which the credential is invalid, in seconds of Unix time.
    pub not_after_unix_seconds: u64,
    /// The member's long-term public key.
    pub key: [u8; KEY_BYTES],
    /// The network key's signature over [`Credential::fields`], of
    /// [`Statement::Credential`](crate::seal::Statement::Credential).
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Credential {
    /// Length of a credential, in bytes.
    pub const BYTES: usize = Self::FIELDS_BYTES + SIGNATURE_BYTES;

    /// Length of [`Credential::fields`], in bytes.
    pub const FIELDS_BYTES: usize = 46;

    /// Reads a credential. Encoding it again yields the same bytes, over which the signature is
    /// verified.
    ///
    /// # Errors
    /// If there are not exactly [`Credential::BYTES`], or a field is illegal.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::bounded(THING, bytes, Self::BYTES)?;
        reader.version()?;
        Ok(Self {
            member: parse_member(&mut reader)?,
            not_after_unix_seconds: reader.u64("not after")?,
            key: *reader.array("key")?,
            signature: *reader.array("signature")?,
        })
    }

    /// Encodes the credential, signature included.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (fields, signature) = bytes.split_at_mut(Self::FIELDS_BYTES);
        self.emit_fields(&mut Output::new(fields));
        signature.copy_from_slice(&self.signature);
        bytes
    }

    /// Encodes the fields that the signature covers: all but the signature itself.
    #[must_use]
    pub fn fields(&self) -> [u8; Self::FIELDS_BYTES] {
        let mut bytes = [0; Self::FIELDS_BYTES];
        self.emit_fields(&mut Output::new(&mut bytes));
        bytes
    }

    fn emit_fields(&self, output: &mut Output<'_>) {
        let (role, number) = match self.member {
            Member::Agent(agent) => (AGENT, agent_number(agent)),
            Member::Relay(relay) => (RELAY, relay.number()),
        };
        output.u8(STATEMENT_VERSION);
        output.u8(role);
        output.u32(number);
        output.u64(self.not_after_unix_seconds);
        output.bytes(&self.key);
    }
}

fn parse_member(reader: &mut Reader<'_>) -> Result<Member, ParseError> {
    match reader.u8("role")? {
        AGENT => reader.agent("number").map(Member::Agent),
        RELAY => reader.u32("number").map(RelayId::new).map(Member::Relay),
        role => Err(reader.illegal("role", role, "1, 2")),
    }
}
