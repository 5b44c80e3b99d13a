//! What a registration rests on: the static configuration, or what the controller has signed.

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::Time;
use byway_wire::messages::{FlowRole, Refusal, Register};
use byway_wire::seal::{PublicKey, ReceivedInitiation, Statement, VerifyingKey};
use byway_wire::{FlowKey, Grant, GrantedRelay, Message, Messages, Receiver, SIGNATURE_BYTES, TenantId};

use super::Relay;
use super::settings::Authority;
use crate::limits::{EGRESS_PORTS_MAX, HANDSHAKE_GRANTS_MAX, VERIFIED_GRANTS_MAX};

/// The grants of one registration: one, or for the sender of a group one for each egress relay.
pub(super) type Grants = ArrayVec<Grant, EGRESS_PORTS_MAX>;

/// Why a registration has no grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ungranted {
    /// It is refused.
    Refused(Refusal),
    /// And somebody made the grant up: the signature is false.
    Forged,
}

impl Ungranted {
    /// What the agent is told.
    pub(super) const fn refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Forged => Refusal::GrantInvalid,
        }
    }
}

impl From<Refusal> for Ungranted {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Grants whose signature was verified lately: an agent registers thousands of flows by one grant.
#[derive(Debug, Default)]
pub(super) struct VerifiedGrants {
    /// By two bytes of the scalar in the signature, which nobody chooses who cannot sign.
    grants: Vec<Option<Box<Grant>>>,
    count: usize,
}

impl VerifiedGrants {
    fn contains(&self, grant: &Grant) -> bool {
        self.grants.get(Self::place(grant)).is_some_and(|known| known.as_deref() == Some(grant))
    }

    /// Returns how many there are.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    fn add(&mut self, grant: &Grant) {
        self.grants.resize(VERIFIED_GRANTS_MAX, None);
        let before = self.grants[Self::place(grant)].replace(Box::new(*grant));
        self.count += usize::from(before.is_none());
    }

    fn place(grant: &Grant) -> usize {
        let [low, high] = [grant.signature[SIGNATURE_BYTES - 32], grant.signature[SIGNATURE_BYTES - 31]];
        usize::from(u16::from_le_bytes([low, high])) % VERIFIED_GRANTS_MAX
    }
}

impl Relay {
    /// Returns the tenant of a stranger that is entitled to a session: the static configuration names its key, or it shows a grant. Only
    /// its first few are looked at, as each costs a signature.
    pub(super) fn entitling_tenant(&self, initiation: &ReceivedInitiation, now: Time) -> Option<TenantId> {
        let Authority::Static(grants) = &self.authority else {
            let registers = Messages::new(&initiation.messages).filter_map(|message| match message {
                Ok(Message::Register(register)) => Some(register),
                _ => None,
            });
            return registers
                .take(HANDSHAKE_GRANTS_MAX)
                .find_map(|register| Some(self.grants(&register, &initiation.peer, now).ok()?[0].tenant));
        };
        let names = |grant: &Grant| [grant.sender_key, grant.receiver_key].contains(initiation.peer.bytes());
        grants.iter().find(|grant| names(grant)).map(|grant| grant.tenant)
    }

    /// The grants that let `peer` register so, the signature of which is verified once.
    pub(super) fn verified_grants(
        &mut self,
        register: &Register<'_>,
        peer: &PublicKey,
        now: Time,
    ) -> Result<Grants, Ungranted> {
        let is_signed = matches!(self.authority, Authority::Controller(_));
        let is_new =
            is_signed && Grant::parse(register.grant).is_ok_and(|grant| !self.verified.contains(&grant));
        let grants = self.grants(register, peer, now);
        if is_new && let Ok(grants) = &grants {
            self.verified.add(&grants[0]);
        }
        let is_looked_at = is_new && matches!(grants, Ok(_) | Err(Ungranted::Forged));
        self.work.signatures += u64::from(is_looked_at);
        grants
    }

    /// The grants that let `peer` register so.
    pub(super) fn grants(
        &self,
        register: &Register<'_>,
        peer: &PublicKey,
        now: Time,
    ) -> Result<Grants, Ungranted> {
        match &self.authority {
            Authority::Static(grants) => Ok(self.configured(grants, register, peer)?),
            Authority::Controller(key) => {
                self.signed(key, register, peer, now).map(|grant| Grants::from_iter([grant]))
            }
        }
    }

    fn configured(
        &self,
        grants: &[Grant],
        register: &Register<'_>,
        peer: &PublicKey,
    ) -> Result<Grants, Refusal> {
        let role = register.role;
        let covering = || grants.iter().filter(|grant| covers(grant, register.flow_key));
        let serving =
            || covering().filter(|grant| self.serves(grant, role) && leads_as_asked(grant, register));
        let named = || serving().filter(|grant| names(grant, role, peer));
        let allowed = || named().filter(|grant| grant.services.allow(register.service));
        if serving().next().is_none() {
            return Err(Refusal::NoGrant);
        }
        if named().next().is_none() {
            return Err(Refusal::GrantInvalid);
        }
        let mut found = Grants::new();
        for grant in allowed() {
            if found.iter().all(|known| known.egress != grant.egress) {
                found.try_push(*grant).map_err(|_| Refusal::NoRoom)?;
            }
        }
        if found.is_empty() { Err(Refusal::ServiceNotGranted) } else { Ok(found) }
    }

    /// The grant that came with the registration. Its signature is looked at last, as that costs most.
    fn signed(
        &self,
        key: &VerifyingKey,
        register: &Register<'_>,
        peer: &PublicKey,
        now: Time,
    ) -> Result<Grant, Ungranted> {
        if register.grant.is_empty() {
            return Err(Refusal::NoGrant.into());
        }
        let grant = Grant::parse(register.grant).map_err(|_| Refusal::GrantInvalid)?;
        let is_asked = covers(&grant, register.flow_key) && leads_as_asked(&grant, register);
        if !is_asked || !names(&grant, register.role, peer) {
            return Err(Refusal::GrantInvalid.into());
        }
        if !self.serves(&grant, register.role) {
            return Err(Refusal::OtherRelay.into());
        }
        if grant.not_after_unix_seconds < self.sessions.unix_seconds(now) {
            return Err(Refusal::GrantExpired.into());
        }
        if !grant.services.allow(register.service) {
            return Err(Refusal::ServiceNotGranted.into());
        }
        if !self.verified.contains(&grant) {
            let verified = key.verify(Statement::Grant, &grant.fields(), &grant.signature);
            verified.map_err(|_| Ungranted::Forged)?;
        }
        Ok(grant)
    }

    /// Whether the grant names this relay shard, for a flow's sender or receiver.
    ///
    /// A receiver may also be near the ingress relay, which then sends on what it gets itself.
    fn serves(&self, grant: &Grant, role: FlowRole) -> bool {
        let here = |relay: &GrantedRelay| relay.relay == self.number && relay.shard == self.shard;
        here(&grant.ingress) || (role == FlowRole::Receiver && here(&grant.egress))
    }

    /// The ingress relays from which a receiver's packets may come: those of all grants for the flow.
    pub(super) fn ingresses(&self, key: FlowKey, grant: &Grant) -> Vec<GrantedRelay> {
        match &self.authority {
            Authority::Static(grants) => {
                grants.iter().filter(|grant| covers(grant, key)).map(|grant| grant.ingress).collect()
            }
            Authority::Controller(_) => alloc::vec![grant.ingress],
        }
    }

    /// When flows of the grant end; static ones do not.
    pub(super) fn ends_at(&self, grant: &Grant) -> Time {
        match self.authority {
            Authority::Static(_) => Time::MAX,
            Authority::Controller(_) => self.sessions.after_unix_second(grant.not_after_unix_seconds),
        }
    }
}

/// Whether the registration is that of the sender of a multicast group.
pub(super) fn is_sender_of_group(register: &Register<'_>) -> bool {
    register.role == FlowRole::Sender && matches!(register.flow_key.receiver(), Receiver::Group(_))
}

/// Whether the grant is for this flow.
fn covers(grant: &Grant, key: FlowKey) -> bool {
    grant.sender == key.sender()
        && grant.receiver == key.receiver()
        && (grant.first_flow..=grant.last_flow).contains(&key.flow())
}

/// Whether the grant names the relay that the registration does for the path's other end. The sender of a group
/// registers for all of them at once.
fn leads_as_asked(grant: &Grant, register: &Register<'_>) -> bool {
    let far = if register.role == FlowRole::Sender { grant.egress } else { grant.ingress };
    is_sender_of_group(register) || far == register.far_relay
}

/// Whether the grant is for whoever has this key, in this role.
fn names(grant: &Grant, role: FlowRole, key: &PublicKey) -> bool {
    let entitled = match role {
        FlowRole::Sender => &grant.sender_key,
        FlowRole::Receiver => &grant.receiver_key,
    };
    entitled == key.bytes()
}
