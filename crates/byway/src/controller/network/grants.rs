//! Grants: what lets flows use relays, signed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use byway_api::{PairingPath, RelayShard};
use byway_units::{AgentId, FlowId, Rate, RelayId};
use byway_wire::seal::{SigningKey, Statement};
use byway_wire::{
    CodingGroupId, Grant, GrantedRelay, KilobitsPerSecond, Receiver, SIGNATURE_BYTES, Service, Services,
    Shard, TenantId,
};
use data_encoding::BASE64;

use super::Digest;
use super::records::Node;
use crate::controller::limits::SIGNATURES_KEPT_MAX;

/// What all grants have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantSettings {
    /// How long they last. They are renewed when half of it is over.
    pub(crate) lifetime: Duration,
    /// What all flows of a pairing may send together.
    pub(crate) rate: Rate,
}

/// Signs grants.
///
/// When a grant ends depends on nothing but the pairing and the time: a controller that starts again, without having
/// written anything, gives the same grants as before. Different pairings' are renewed at different times.
pub(crate) struct Issuer {
    key: SigningKey,
    settings: GrantSettings,
    /// Signatures by what they are over: signing takes most of the time of a map.
    signatures: BTreeMap<[u8; Grant::FIELDS_BYTES], [u8; SIGNATURE_BYTES]>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({:?}, {:?})", self.key, self.settings)
    }
}

/// A way through relays that is to be granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    pub(super) sender: &'a Node,
    pub(super) receiver: &'a Node,
    pub(super) ingress: RelayShard,
    pub(super) egress: RelayShard,
    pub(super) group: u32,
    pub(super) services: Services,
    /// Whether others are in the group.
    pub(super) has_company: bool,
}

/// Every service.
pub(super) const ALL_SERVICES: Services = Services::NONE
    .with(Service::Internet)
    .with(Service::Coding)
    .with(Service::Caching)
    .with(Service::Forwarding)
    .with(Service::Both);

/// Nothing but a session, to measure round trips.
pub(super) const INTERNET_ONLY: Services = Services::NONE.with(Service::Internet);

/// From when until when a grant is given out, and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    renewed_at: u64,
    not_after: u64,
}

impl Issuer {
    /// Grants will be signed with this key.
    pub(crate) const fn new(key: SigningKey, settings: GrantSettings) -> Self {
        Self { key, settings, signatures: BTreeMap::new() }
    }

    /// Signs a map.
    pub(crate) fn sign_map(&self, text: &str) -> [u8; SIGNATURE_BYTES] {
        self.key.sign(Statement::Map, text.as_bytes())
    }

    /// A way with its grant, and when the grant is renewed.
    pub(super) fn grant(&mut self, way: &Way<'_>, now_unix_seconds: u64) -> (PairingPath, u64) {
        let term = self.term(way.sender.number, way.receiver.number, now_unix_seconds);
        let mut grant = Grant {
            services: way.services,
            sharing: false,
            ingress: granted(way.ingress),
            egress: granted(way.egress),
            first_flow: FlowId::new(0),
            last_flow: FlowId::new(u16::MAX),
            sender: AgentId::new(way.sender.number),
            receiver: Receiver::Agent(AgentId::new(way.receiver.number)),
            coding_group: CodingGroupId::new(way.group),
            tenant: TenantId::new(way.sender.tenant.unwrap_or_default()),
            rate: KilobitsPerSecond::from_rate(self.settings.rate),
            not_after_unix_seconds: term.not_after,
            sender_key: way.sender.key.0,
            receiver_key: way.receiver.key.0,
            signature: [0; SIGNATURE_BYTES],
        };
        grant.signature = self.signature(grant.fields());
        let path = PairingPath {
            ingress: way.ingress,
            egress: way.egress,
            grant: BASE64.encode(&grant.to_bytes()),
            expires_unix_seconds: Some(term.not_after),
            has_company: way.has_company,
        };
        (path, term.renewed_at)
    }

    fn signature(&mut self, fields: [u8; Grant::FIELDS_BYTES]) -> [u8; SIGNATURE_BYTES] {
        if let Some(signature) = self.signatures.get(&fields) {
            return *signature;
        }
        if self.signatures.len() >= SIGNATURES_KEPT_MAX {
            self.signatures.clear();
        }
        let signature = self.key.sign(Statement::Grant, &fields);
        self.signatures.insert(fields, signature);
        signature
    }

    /// Time is cut into halves of the lifetime, for each pairing at other places. A grant is given out for one half and
    /// ends with the next.
    fn term(&self, sender: u32, receiver: u32, now_unix_seconds: u64) -> Term {
        let half = (self.settings.lifetime.as_secs() / 2).max(1);
        let [a, b, c, d, ..] = Digest::of(format!("{sender}\n{receiver}").as_bytes()).0;
        let shift = u64::from(u32::from_be_bytes([a, b, c, d])) % half;
        let begun = (now_unix_seconds + shift) / half * half;
        Term { renewed_at: begun + half - shift, not_after: begun + 2 * half - shift }
    }
}

fn granted(place: RelayShard) -> GrantedRelay {
    GrantedRelay { relay: RelayId::new(place.relay), shard: Shard::new(place.shard) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn issuer(lifetime: u64) -> Issuer {
        let settings = GrantSettings {
            lifetime: Duration::from_secs(lifetime),
            rate: Rate::from_megabits_per_second(100),
        };
        Issuer::new(SigningKey::from_seed(&[1; 32]), settings)
    }

    proptest! {
        #[test]
        fn a_grant_lasts_for_half_its_life_at_least(
            (sender, receiver) in any::<(u32, u32)>(),
            now in 0..1_u64 << 40,
            lifetime in 2_u64..1_000_000,
        ) {
            let half = lifetime / 2;
            let term = issuer(lifetime).term(sender, receiver, now);
            prop_assert!(term.not_after > now + half);
            prop_assert!(term.not_after <= now + 2 * half);
            prop_assert!(term.renewed_at > now);
            let until_renewed = issuer(lifetime).term(sender, receiver, term.renewed_at - 1);
            prop_assert_eq!(until_renewed, term);
            let renewed = issuer(lifetime).term(sender, receiver, term.renewed_at);
            prop_assert_eq!(renewed.not_after, term.not_after + half);
        }
    }

    #[test]
    fn not_all_grants_are_renewed_at_once() {
        let issuer = issuer(172_800);
        let times: std::collections::BTreeSet<_> =
            (0..100).map(|sender| issuer.term(sender, 1_000, 1_800_000_000).renewed_at).collect();
        assert!(times.len() > 90, "{}", times.len());
    }
}
