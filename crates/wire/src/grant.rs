//! Grants: the controller's permission for flows to use relays. This module does not verify the
//! signature.

use byway_units::{AgentId, FlowId, RelayId};

use crate::error::ParseError;
use crate::ids::{CodingGroupId, Receiver, Shard, TenantId, agent_number};
use crate::limits::{KEY_BYTES, SIGNATURE_BYTES};
use crate::quantities::KilobitsPerSecond;
use crate::reader::{Reader, STATEMENT_VERSION};
use crate::service::Services;
use crate::writer::Output;

const THING: &str = "grant";

/// Relay shard that a grant or a registration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantedRelay {
    /// Number of the relay.
    pub relay: RelayId,
    /// Shard of the relay that serves the flow.
    pub shard: Shard,
}

impl GrantedRelay {
    const NONE: Self = Self { relay: RelayId::new(0), shard: Shard::new(0) };

    /// Reads a relay and its shard: `relay[4] ‖ shard[1]`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self { relay: RelayId::new(reader.u32("far relay")?), shard: Shard::new(reader.u8("far shard")?) })
    }

    /// Reads a relay and its shard, or `None` for zeros, because no relay has the number 0.
    pub(crate) fn parse_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, ParseError> {
        let parsed = Self::parse(reader)?;
        Ok(Some(parsed).filter(|parsed| *parsed != Self::NONE))
    }

    pub(crate) fn emit_optional(relay: Option<Self>, output: &mut Output<'_>) {
        relay.unwrap_or(Self::NONE).emit(output);
    }

    pub(crate) fn emit(self, output: &mut Output<'_>) {
        output.u32(self.relay.number());
        output.u8(self.shard.number());
    }
}

/// Permission for flows to use two relays, signed by the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Services that the flows may use.
    pub services: Services,
    /// True if the tenant allows that relays code these flows with those of other tenants.
    pub sharing: bool,
    /// Relay to which the sender sends copies.
    pub ingress: GrantedRelay,
    /// Relay from which receivers request repairs.
    pub egress: GrantedRelay,
    /// Lowest flow number that the grant allows.
    pub first_flow: FlowId,
    /// Highest flow number that the grant allows.
    pub last_flow: FlowId,
    /// Agent that sends the flows.
    pub sender: AgentId,
    /// Agent or group that receives the flows.
    pub receiver: Receiver,
    /// Coding group of the flows. Only flows of one group may share batches.
    pub coding_group: CodingGroupId,
    /// Tenant on whose behalf the flows use relays.
    pub tenant: TenantId,
    /// Upper bound of the rate of all flows of the grant together.
    pub rate: KilobitsPerSecond,
    /// Time after which the grant is invalid, in seconds of Unix time.
    pub not_after_unix_seconds: u64,
    /// The sender's long-term public key.
    pub sender_key: [u8; KEY_BYTES],
    /// The receiver's long-term public key. For a group: zeros, or the key of the receiver that
    /// owns this grant.
    pub receiver_key: [u8; KEY_BYTES],
    /// The controller's signature over [`Grant::fields`], of
    /// [`Statement::Grant`](crate::seal::Statement::Grant).
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Grant {
    /// Length of a grant, in bytes.
    pub const BYTES: usize = Self::FIELDS_BYTES + SIGNATURE_BYTES;

    /// Length of [`Grant::fields`], in bytes.
    pub const FIELDS_BYTES: usize = 109;

    /// Reads a grant. Encoding it again yields the same bytes, over which the signature is
    /// verified.
    ///
    /// # Errors
    /// If there are not exactly [`Grant::BYTES`], or a field is illegal.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::bounded(THING, bytes, Self::BYTES)?;
        reader.version()?;
        let services = Services::from_bits(reader.u8("services")?);
        let sharing = parse_sharing(&mut reader)?;
        let shards = [reader.u8("ingress shard")?, reader.u8("egress shard")?].map(Shard::new);
        let (first_flow, last_flow) = parse_flows(&mut reader)?;
        let sender = reader.agent("sender")?;
        let receiver = reader.receiver()?;
        let relays = [reader.u32("ingress relay")?, reader.u32("egress relay")?].map(RelayId::new);
        Ok(Self {
            services,
            sharing,
            ingress: GrantedRelay { relay: relays[0], shard: shards[0] },
            egress: GrantedRelay { relay: relays[1], shard: shards[1] },
            first_flow,
            last_flow,
            sender,
            receiver,
            coding_group: CodingGroupId::new(reader.u32("coding group")?),
            tenant: TenantId::new(reader.u32("tenant")?),
            rate: KilobitsPerSecond::new(reader.u32("rate")?),
            not_after_unix_seconds: reader.u64("not after")?,
            sender_key: *reader.array("sender's key")?,
            receiver_key: *reader.array("receiver's key")?,
            signature: *reader.array("signature")?,
        })
    }

    /// Encodes the grant, signature included.
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
        output.u8(STATEMENT_VERSION);
        output.u8(self.services.bits());
        output.u8(self.sharing.into());
        output.u8(self.ingress.shard.number());
        output.u8(self.egress.shard.number());
        output.u16(self.first_flow.number());
        output.u16(self.last_flow.number());
        output.u32(agent_number(self.sender));
        output.u32(self.receiver.to_wire());
        output.u32(self.ingress.relay.number());
        output.u32(self.egress.relay.number());
        output.u32(self.coding_group.number());
        output.u32(self.tenant.number());
        output.u32(self.rate.count());
        output.u64(self.not_after_unix_seconds);
        output.bytes(&self.sender_key);
        output.bytes(&self.receiver_key);
    }
}

fn parse_sharing(reader: &mut Reader<'_>) -> Result<bool, ParseError> {
    match reader.u8("sharing")? {
        0 => Ok(false),
        1 => Ok(true),
        sharing => Err(reader.illegal("sharing", sharing, "0, 1")),
    }
}

fn parse_flows(reader: &mut Reader<'_>) -> Result<(FlowId, FlowId), ParseError> {
    let first = FlowId::new(reader.u16("first flow")?);
    let last = FlowId::new(reader.u16("last flow")?);
    if last < first {
        return Err(reader.illegal("last flow", last.number(), "the first flow or a higher one"));
    }
    Ok((first, last))
}
