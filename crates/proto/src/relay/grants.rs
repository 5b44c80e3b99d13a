//! Grants: checks of registrations against the static configuration, or against grants that the
//! controller signed.

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::Time;
use byway_wire::messages::{FlowRole, Refusal, Register};
use byway_wire::seal::{PublicKey, ReceivedInitiation, Statement, VerifyingKey};
use byway_wire::{FlowKey, Grant, GrantedRelay, Message, Messages, Receiver, SIGNATURE_BYTES, TenantId};

use super::Relay;
use super::settings::Authority;
use crate::limits::{EGRESS_RELAYS_MAX, HANDSHAKE_GRANTS_MAX, VERIFIED_GRANTS_MAX};

/// Grants of one registration: one, or for the sender of a group one for each egress relay.
pub(super) type Grants = ArrayVec<Grant, EGRESS_RELAYS_MAX>;

/// Reason for which no grant permits a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantError {
    /// The relay refuses the registration, for this reason.
    Refused(Refusal),
    /// The grant is forged: its signature is false.
    Forged,
}

impl GrantError {
    /// Returns the refusal that the relay sends to the agent.
    pub(super) const fn refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Forged => Refusal::GrantInvalid,
        }
    }
}

impl From<Refusal> for GrantError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Cache of grants whose signature the relay has verified, because an agent registers thousands of
/// flows with one grant.
#[derive(Debug, Default)]
pub(super) struct VerifiedGrants {
    /// Slots, allocated with the first grant. Two bytes of the signature's scalar, modulo
    /// [`VERIFIED_GRANTS_MAX`], select the slot; only the signer can choose them. A new grant
    /// replaces the one in its slot.
    grants: Vec<Option<Box<Grant>>>,
    count: usize,
}

impl VerifiedGrants {
    fn contains(&self, grant: &Grant) -> bool {
        self.grants.get(Self::slot_of(grant)).is_some_and(|known| known.as_deref() == Some(grant))
    }

    /// Returns the number of cached grants.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    fn add(&mut self, grant: &Grant) {
        self.grants.resize(VERIFIED_GRANTS_MAX, None);
        let before = self.grants[Self::slot_of(grant)].replace(Box::new(*grant));
        self.count += usize::from(before.is_none());
    }

    fn slot_of(grant: &Grant) -> usize {
        let [low, high] = [grant.signature[SIGNATURE_BYTES - 32], grant.signature[SIGNATURE_BYTES - 31]];
        usize::from(u16::from_le_bytes([low, high])) % VERIFIED_GRANTS_MAX
    }
}

impl Relay {
    /// Returns the tenant of a node without a session that is entitled to one: the static
    /// configuration names its key, or its initiation has a valid grant. Only the first few grants
    /// count, because each costs a signature check.
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
        let names_peer =
            |grant: &Grant| [grant.sender_key, grant.receiver_key].contains(initiation.peer.bytes());
        grants.iter().find(|grant| names_peer(grant)).map(|grant| grant.tenant)
    }

    /// Returns the grants that permit the node with key `peer` a registration, or the reason for a
    /// refusal. Caches verified signatures and counts the work.
    pub(super) fn verified_grants(
        &mut self,
        register: &Register<'_>,
        peer: &PublicKey,
        now: Time,
    ) -> Result<Grants, GrantError> {
        let is_signed = matches!(self.authority, Authority::Controller(_));
        let is_new = is_signed
            && Grant::parse(register.grant).is_ok_and(|grant| !self.verified_grants.contains(&grant));
        let grants = self.grants(register, peer, now);
        if is_new && let Ok(grants) = &grants {
            self.verified_grants.add(&grants[0]);
        }
        let is_checked = is_new && matches!(grants, Ok(_) | Err(GrantError::Forged));
        self.work.signatures += u64::from(is_checked);
        grants
    }

    /// Returns the grants that permit the node with key `peer` a registration, or the reason for a
    /// refusal.
    pub(super) fn grants(
        &self,
        register: &Register<'_>,
        peer: &PublicKey,
        now: Time,
    ) -> Result<Grants, GrantError> {
        match &self.authority {
            Authority::Static(grants) => Ok(self.static_grants(grants, register, peer)?),
            Authority::Controller(key) => {
                self.verify_signed_grant(key, register, peer, now).map(|grant| Grants::from_iter([grant]))
            }
        }
    }

    fn static_grants(
        &self,
        grants: &[Grant],
        register: &Register<'_>,
        peer: &PublicKey,
    ) -> Result<Grants, Refusal> {
        let role = register.role;
        let for_flow = || grants.iter().filter(|grant| covers(grant, register.flow_key));
        let for_this_relay = || {
            for_flow()
                .filter(|grant| self.names_this_relay(grant, role) && matches_far_relay(grant, register))
        };
        let issued_to_peer = || for_this_relay().filter(|grant| is_issued_to(grant, role, peer));
        let with_service = || issued_to_peer().filter(|grant| grant.services.allow(register.service));
        if for_this_relay().next().is_none() {
            return Err(Refusal::NoGrant);
        }
        if issued_to_peer().next().is_none() {
            return Err(Refusal::GrantInvalid);
        }
        let mut found = Grants::new();
        for grant in with_service() {
            if found.iter().all(|known| known.egress != grant.egress) {
                found.try_push(*grant).map_err(|_| Refusal::Full)?;
            }
        }
        if found.is_empty() { Err(Refusal::ServiceNotGranted) } else { Ok(found) }
    }

    /// Verifies the signed grant in a registration, and returns it. The signature comes last,
    /// because its check is the most expensive.
    fn verify_signed_grant(
        &self,
        key: &VerifyingKey,
        register: &Register<'_>,
        peer: &PublicKey,
        now: Time,
    ) -> Result<Grant, GrantError> {
        if register.grant.is_empty() {
            return Err(Refusal::NoGrant.into());
        }
        let grant = Grant::parse(register.grant).map_err(|_| Refusal::GrantInvalid)?;
        let is_for_flow = covers(&grant, register.flow_key) && matches_far_relay(&grant, register);
        if !is_for_flow || !is_issued_to(&grant, register.role, peer) {
            return Err(Refusal::GrantInvalid.into());
        }
        if !self.names_this_relay(&grant, register.role) {
            return Err(Refusal::OtherRelay.into());
        }
        if grant.not_after_unix_seconds < self.sessions.unix_seconds(now) {
            return Err(Refusal::GrantExpired.into());
        }
        if !grant.services.allow(register.service) {
            return Err(Refusal::ServiceNotGranted.into());
        }
        if !self.verified_grants.contains(&grant) {
            let verified = key.verify(Statement::Grant, &grant.fields(), &grant.signature);
            verified.map_err(|_| GrantError::Forged)?;
        }
        Ok(grant)
    }

    /// True if the grant names this relay shard as the relay of a flow's sender or receiver, by the
    /// role of the registering agent.
    ///
    /// A receiver may also register at the ingress relay, which then delivers the sender's copies
    /// to it.
    fn names_this_relay(&self, grant: &Grant, role: FlowRole) -> bool {
        let here = |relay: &GrantedRelay| relay.relay == self.number && relay.shard == self.shard;
        here(&grant.ingress) || (role == FlowRole::Receiver && here(&grant.egress))
    }

    /// Returns the ingress relays that may send a receiver its flow's packets: in static mode those
    /// of all grants for the flow, otherwise that of this grant.
    pub(super) fn ingress_relays(&self, key: FlowKey, grant: &Grant) -> Vec<GrantedRelay> {
        match &self.authority {
            Authority::Static(grants) => {
                grants.iter().filter(|grant| covers(grant, key)).map(|grant| grant.ingress).collect()
            }
            Authority::Controller(_) => alloc::vec![grant.ingress],
        }
    }

    /// Returns the time at which flows under a grant expire. Static grants do not expire.
    pub(super) fn grant_expiry(&self, grant: &Grant) -> Time {
        match self.authority {
            Authority::Static(_) => Time::MAX,
            Authority::Controller(_) => self.sessions.after_unix_second(grant.not_after_unix_seconds),
        }
    }
}

/// True if the registration is from the sender of a flow to a group of receivers.
pub(super) fn is_sender_of_group(register: &Register<'_>) -> bool {
    register.role == FlowRole::Sender && matches!(register.flow_key.receiver(), Receiver::Group(_))
}

/// True if the grant covers this flow: same sender and receiver, and a flow number in its range.
fn covers(grant: &Grant, key: FlowKey) -> bool {
    grant.sender == key.sender()
        && grant.receiver == key.receiver()
        && (grant.first_flow..=grant.last_flow).contains(&key.flow())
}

/// True if the grant and the registration name the same relay at the path's other end. The sender
/// of a group registers for all egress relays at once.
fn matches_far_relay(grant: &Grant, register: &Register<'_>) -> bool {
    let far = if register.role == FlowRole::Sender { grant.egress } else { grant.ingress };
    is_sender_of_group(register) || far == register.far_relay
}

/// True if the grant was issued to the owner of this key, in this role.
fn is_issued_to(grant: &Grant, role: FlowRole, key: &PublicKey) -> bool {
    let entitled = match role {
        FlowRole::Sender => &grant.sender_key,
        FlowRole::Receiver => &grant.receiver_key,
    };
    entitled == key.bytes()
}
