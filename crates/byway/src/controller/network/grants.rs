//! Signed grants, which permit flows to use relays.

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
use super::records::NodeRecord;
use crate::controller::limits::SIGNATURES_CACHED_MAX;

/// Settings that all grants of a controller have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantSettings {
    /// Lifetime of a grant. The controller renews it at half of that.
    pub(crate) lifetime: Duration,
    /// Maximum rate of all flows of a pairing together.
    pub(crate) rate: Rate,
}

/// Issuer of grants: signed permissions for flows to use relays.
///
/// The end of a grant depends only on the pairing and the time. A controller that restarts
/// therefore issues the same grants as before, without having stored them. The grants of different
/// pairings are renewed at different times.
pub(crate) struct GrantIssuer {
    key: SigningKey,
    settings: GrantSettings,
    /// Cache of signatures, by the signed fields of the grant. Signing takes most of the time that
    /// a map needs.
    signatures: BTreeMap<[u8; Grant::FIELDS_BYTES], [u8; SIGNATURE_BYTES]>,
}

impl fmt::Debug for GrantIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({:?}, {:?})", self.key, self.settings)
    }
}

/// Relay path for which the controller issues a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantPath<'a> {
    pub(super) sender: &'a NodeRecord,
    pub(super) receiver: &'a NodeRecord,
    pub(super) ingress: RelayShard,
    pub(super) egress: RelayShard,
    pub(super) group: u32,
    /// True if relays may code the flows with those of other tenants.
    pub(super) sharing: bool,
    pub(super) services: Services,
    /// True if the path's coding group has other pairings.
    pub(super) has_coding_peers: bool,
}

/// Services of a grant that permits only a session with a relay, to measure the round trip.
pub(super) const INTERNET_ONLY: Services = Services::NONE.with(Service::Internet);

/// Times of a grant's renewal and of its end, in seconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GrantPeriod {
    renewed_at: u64,
    not_after: u64,
}

impl GrantIssuer {
    /// Creates an issuer that signs grants and maps with this key.
    pub(crate) const fn new(key: SigningKey, settings: GrantSettings) -> Self {
        Self { key, settings, signatures: BTreeMap::new() }
    }

    /// Returns the signature of a map's text.
    pub(crate) fn sign_map(&self, text: &str) -> [u8; SIGNATURE_BYTES] {
        self.key.sign(Statement::Map, text.as_bytes())
    }

    /// Returns a relay path with its signed grant, and the Unix time in seconds at which the grant
    /// is renewed.
    pub(super) fn grant(&mut self, grant_path: &GrantPath<'_>, now_unix_seconds: u64) -> (PairingPath, u64) {
        let period = self.period(grant_path.sender.number, grant_path.receiver.number, now_unix_seconds);
        let mut grant = Grant {
            services: grant_path.services,
            sharing: grant_path.sharing,
            ingress: granted_relay(grant_path.ingress),
            egress: granted_relay(grant_path.egress),
            first_flow: FlowId::new(0),
            last_flow: FlowId::new(u16::MAX),
            sender: AgentId::new(grant_path.sender.number),
            receiver: Receiver::Agent(AgentId::new(grant_path.receiver.number)),
            coding_group: CodingGroupId::new(grant_path.group),
            tenant: TenantId::new(grant_path.sender.tenant.unwrap_or_default()),
            rate: KilobitsPerSecond::from_rate(self.settings.rate),
            not_after_unix_seconds: period.not_after,
            sender_key: grant_path.sender.key.0,
            receiver_key: grant_path.receiver.key.0,
            signature: [0; SIGNATURE_BYTES],
        };
        grant.signature = self.signature(grant.fields());
        let path = PairingPath {
            ingress: grant_path.ingress,
            egress: grant_path.egress,
            grant: BASE64.encode(&grant.to_bytes()),
            expires_unix_seconds: Some(period.not_after),
            has_coding_peers: grant_path.has_coding_peers,
        };
        (path, period.renewed_at)
    }

    fn signature(&mut self, fields: [u8; Grant::FIELDS_BYTES]) -> [u8; SIGNATURE_BYTES] {
        if let Some(signature) = self.signatures.get(&fields) {
            return *signature;
        }
        if self.signatures.len() >= SIGNATURES_CACHED_MAX {
            self.signatures.clear();
        }
        let signature = self.key.sign(Statement::Grant, &fields);
        self.signatures.insert(fields, signature);
        signature
    }

    /// Returns the times at which a grant for a sender and a receiver is renewed and ends. Time is
    /// divided into halves of the grants' lifetime, with a different offset for each pairing: not
    /// all grants are renewed at once. A grant is renewed when the current half ends, and is valid
    /// until the next half ends.
    fn period(&self, sender: u32, receiver: u32, now_unix_seconds: u64) -> GrantPeriod {
        let half = (self.settings.lifetime.as_secs() / 2).max(1);
        let [a, b, c, d, ..] = Digest::of(format!("{sender}\n{receiver}").as_bytes()).0;
        let shift = u64::from(u32::from_be_bytes([a, b, c, d])) % half;
        let begin = (now_unix_seconds + shift) / half * half;
        GrantPeriod { renewed_at: begin + half - shift, not_after: begin + 2 * half - shift }
    }
}

fn granted_relay(shard: RelayShard) -> GrantedRelay {
    GrantedRelay { relay: RelayId::new(shard.relay), shard: Shard::new(shard.shard) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn issuer(lifetime: u64) -> GrantIssuer {
        let settings = GrantSettings {
            lifetime: Duration::from_secs(lifetime),
            rate: Rate::from_megabits_per_second(100),
        };
        GrantIssuer::new(SigningKey::from_seed(&[1; 32]), settings)
    }

    proptest! {
        #[test]
        fn a_grant_lasts_for_half_its_life_at_least(
            (sender, receiver) in any::<(u32, u32)>(),
            now in 0..1_u64 << 40,
            lifetime in 2_u64..1_000_000,
        ) {
            let half = lifetime / 2;
            let period = issuer(lifetime).period(sender, receiver, now);
            prop_assert!(period.not_after > now + half);
            prop_assert!(period.not_after <= now + 2 * half);
            prop_assert!(period.renewed_at > now);
            let until_renewed = issuer(lifetime).period(sender, receiver, period.renewed_at - 1);
            prop_assert_eq!(until_renewed, period);
            let renewed = issuer(lifetime).period(sender, receiver, period.renewed_at);
            prop_assert_eq!(renewed.not_after, period.not_after + half);
        }
    }

    #[test]
    fn not_all_grants_are_renewed_at_once() {
        let issuer = issuer(172_800);
        let times: std::collections::BTreeSet<_> =
            (0..100).map(|sender| issuer.period(sender, 1_000, 1_800_000_000).renewed_at).collect();
        assert!(times.len() > 90, "{}", times.len());
    }
}
