//! Credentials: what the network says of a node's key. Whether the signature is right is not for this module to say.

use byway_units::{AgentId, RelayId};

use crate::error::ParseError;
use crate::ids::agent_number;
use crate::limits::{KEY_BYTES, SIGNATURE_BYTES};
use crate::reader::{Reader, STATEMENT_VERSION};
use crate::writer::Output;

const THING: &str = "credential";
const AGENT: u8 = 1;
const RELAY: u8 = 2;

/// A member of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// An agent.
    Agent(AgentId),
    /// A relay.
    Relay(RelayId),
}

/// The network key says whose a public key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Whose key it is.
    pub member: Member,
    /// When the credential ends, in seconds of Unix time.
    pub not_after_unix_seconds: u64,
    /// The member's long-term public key.
    pub key: [u8; KEY_BYTES],
    /// The network key's signature over [`Credential::fields`], of
    /// [`Statement::Credential`](crate::seal::Statement::Credential).
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Credential {
    /// Bytes of a credential.
    pub const BYTES: usize = Self::FIELDS_BYTES + SIGNATURE_BYTES;

    /// Bytes of [`Credential::fields`].
    pub const FIELDS_BYTES: usize = 46;

    /// Reads a credential. What is read gives the same bytes again, so that the signature can be checked over them.
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

    /// The credential's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (fields, signature) = bytes.split_at_mut(Self::FIELDS_BYTES);
        self.emit_fields(&mut Output::new(fields));
        signature.copy_from_slice(&self.signature);
        bytes
    }

    /// The bytes of all fields but the signature, which is over them.
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
