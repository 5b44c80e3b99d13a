//! Networks of receivers' addresses, as an egress relay reports them to ingress relays.
//!
//! Flows whose receivers share a network are likely to lose packets together, and ingress relays
//! code them apart. The addresses are the validated ones of sessions, so no receiver can claim
//! another network. Ingress relays get a keyed hash of the address's prefix, which does not reveal
//! it.

use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::IpAddr;

use byway_units::Time;
use byway_wire::messages::NetworkTag;
use byway_wire::{IPV4_NETWORK_BITS, IPV6_NETWORK_BITS};
use siphasher::sip::SipHasher13;

use crate::growth;
use crate::limits::NETWORK_REPORT_SECONDS;
use crate::random::Generator;
use crate::session::SessionId;

/// Length of an IPv4 network's prefix in bytes.
const IPV4_PREFIX_BYTES: usize = IPV4_NETWORK_BITS as usize / 8;

/// Length of an IPv6 network's prefix in bytes.
const IPV6_PREFIX_BYTES: usize = IPV6_NETWORK_BITS as usize / 8;

/// Family of an address, and the prefix of its network. An IPv4 prefix is padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressPrefix([u8; 1 + IPV6_PREFIX_BYTES]);

impl AddressPrefix {
    /// Prefix of no address.
    const NONE: Self = Self([0; 1 + IPV6_PREFIX_BYTES]);

    fn of(address: IpAddr) -> Self {
        let mut prefix = [0; 1 + IPV6_PREFIX_BYTES];
        match address.to_canonical() {
            IpAddr::V4(address) => {
                prefix[0] = 4;
                prefix[1..=IPV4_PREFIX_BYTES].copy_from_slice(&address.octets()[..IPV4_PREFIX_BYTES]);
            }
            IpAddr::V6(address) => {
                prefix[0] = 6;
                prefix[1..].copy_from_slice(&address.octets()[..IPV6_PREFIX_BYTES]);
            }
        }
        Self(prefix)
    }
}

/// Network of an agent, as this relay has reported it.
#[derive(Clone, Copy, Debug)]
struct ReportedNetwork {
    prefix: AddressPrefix,
    /// Time of the report, in seconds.
    at_seconds: u32,
}

impl ReportedNetwork {
    const NONE: Self = Self { prefix: AddressPrefix::NONE, at_seconds: 0 };
}

/// Networks of agents, by session.
#[derive(Debug)]
pub(super) struct ReceiverNetworks {
    hasher: SipHasher13,
    reported: Vec<ReportedNetwork>,
}

impl ReceiverNetworks {
    /// Creates an empty table. The key of the tags is derived from `seed`, which is secret.
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        let mut random = Generator::second_stream(*seed);
        // The first key of this stream is that of the uplink's hashes.
        let _: [u8; 16] = random.bytes();
        Self { hasher: SipHasher13::new_with_key(&random.bytes()), reported: Vec::new() }
    }

    /// Returns the tag of an address's network.
    pub(super) fn tag(&self, address: IpAddr) -> NetworkTag {
        self.tag_of_prefix(AddressPrefix::of(address))
    }

    fn tag_of_prefix(&self, prefix: AddressPrefix) -> NetworkTag {
        let mut hasher = self.hasher;
        hasher.write(&prefix.0);
        let high = u32::try_from(hasher.finish() >> 32).unwrap_or(u32::MAX);
        NetworkTag::new(high.max(1))
    }

    /// Records the address of a session's agent. Returns the tag to report if the network has
    /// changed, unless the latest report is less than [`NETWORK_REPORT_SECONDS`] ago.
    pub(super) fn begin_report(
        &mut self,
        session: SessionId,
        address: IpAddr,
        now: Time,
    ) -> Option<NetworkTag> {
        let (index, prefix) = (session.0 as usize, AddressPrefix::of(address));
        while self.reported.len() <= index {
            growth::push(&mut self.reported, ReportedNetwork::NONE);
        }
        let known = &mut self.reported[index];
        if known.prefix == prefix {
            return None;
        }
        let at_seconds = u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX);
        let is_recent = at_seconds.saturating_sub(known.at_seconds) < NETWORK_REPORT_SECONDS;
        if known.prefix != AddressPrefix::NONE && is_recent {
            return None;
        }
        *known = ReportedNetwork { prefix, at_seconds };
        Some(self.tag_of_prefix(prefix))
    }

    /// Forgets the agent of a session that ended.
    pub(super) fn forget(&mut self, session: SessionId) {
        if let Some(known) = self.reported.get_mut(session.0 as usize) {
            *known = ReportedNetwork::NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    const ONE: SessionId = SessionId(1);

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    #[test]
    fn addresses_with_a_common_prefix_have_one_tag() {
        let networks = ReceiverNetworks::new(&[3; 32]);
        let tag = |text| networks.tag(address(text));
        assert_eq!(tag("192.0.2.1"), tag("192.0.2.254"));
        assert_eq!(tag("192.0.2.1"), tag("::ffff:192.0.2.9"));
        assert_ne!(tag("192.0.2.1"), tag("192.0.3.1"));
        assert_eq!(tag("2001:db8:1::1"), tag("2001:db8:1:ffff::2"));
        assert_ne!(tag("2001:db8:1::1"), tag("2001:db8:2::1"));
        assert_ne!(tag("192.0.2.1"), NetworkTag::UNKNOWN);
        assert_ne!(tag("192.0.2.1"), ReceiverNetworks::new(&[4; 32]).tag(address("192.0.2.1")));
    }

    #[test]
    fn a_network_is_reported_when_it_changes_and_not_more_often_than_each_ten_seconds() {
        let mut networks = ReceiverNetworks::new(&[3; 32]);
        let [home, phone] = ["192.0.2.1", "198.51.100.7"].map(address);
        let mut report = |address, seconds| networks.begin_report(ONE, address, at(seconds)).is_some();
        assert!(report(home, 1) && !report(home, 2), "it is known");
        assert!(!report(phone, 10) && report(phone, 11));
        assert!(!report(home, 12) && !report(phone, 13), "a change back is none");
        assert!(report(home, 21));
        networks.forget(ONE);
        assert!(networks.begin_report(ONE, home, at(22)).is_some(), "another agent");
        assert!(networks.begin_report(SessionId(0), home, at(22)).is_some());
    }
}
