//! Settings of an agent: its identity, its peers and relays, and its flows.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_plan::LatencyTerms;
use byway_units::{AgentId, Duration, FlowId, Rate, RelayId};
use byway_wire::messages::Consent;
use byway_wire::seal::{PreSharedKey, PublicKey, StaticSecret, Suite};
use byway_wire::{FlowKey, Service, Shard};

use crate::limits::CONSENT;
use crate::policy::{CodingRates, copies, is_direct, repairs_on_request, retransmits};

/// Number, secret and cipher suite of an agent.
#[derive(Debug)]
pub struct AgentIdentity {
    /// Agent number, under which all its flows are sealed.
    pub number: AgentId,
    /// Long-term secret key of the agent.
    pub secret: StaticSecret,
    /// Cipher suite of the handshakes that it initiates: the faster one on its processor.
    pub suite: Suite,
    /// Start of the driver in nanoseconds of Unix time, so handshake timestamps increase from one
    /// run to the next.
    pub started_unix_nanos: u64,
}

/// Another agent to which flows may be opened, and its addresses.
#[derive(Debug)]
pub struct Peer {
    /// Agent number of the peer.
    pub number: AgentId,
    /// Long-term public key of the peer.
    pub key: PublicKey,
    /// Secret that both agents share in addition to their keys; zeros for none.
    pub pre_shared: PreSharedKey,
    /// Addresses at which the peer may be reached directly, tried in turn. Empty if none is known,
    /// as behind a NAT.
    pub addresses: Vec<SocketAddr>,
}

/// One shard of a relay that an agent may use.
#[derive(Clone, Debug)]
pub struct RelayPeer {
    /// Number of the relay.
    pub number: RelayId,
    /// Number of the relay's shard.
    pub shard: Shard,
    /// Long-term public key of the relay.
    pub key: PublicKey,
    /// UDP address of the shard.
    pub address: SocketAddr,
}

/// Relay path of a flow, and the grant to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayPath {
    /// Relay near the sender, with its shard.
    pub ingress: (RelayId, Shard),
    /// Relay near the receiver, with its shard; the same one for a partial overlay.
    pub egress: (RelayId, Shard),
    /// Signed grant; empty if the relays' static configuration implies it.
    pub grant: Vec<u8>,
}

/// Selection of a flow's packets that the sender copies to the ingress relay.
#[derive(Clone, Copy, Debug, Default)]
pub enum Duplication {
    /// All packets. With congestion-controlled traffic, only those that the application marked,
    /// because bulk data should not be copied (RFC 9265).
    #[default]
    Usual,
    /// All packets of any traffic.
    All,
    /// Only packets that the application marked.
    Marked,
    /// Only packets that the predicate selects: a key frame, a SYN, the last segment of a burst.
    Chosen(fn(&[u8]) -> bool),
    /// All packets, and none on the direct path: the relay forwards them to the receiver. For
    /// uplinks that cannot sustain two copies.
    ByRelay,
    /// No packets: the sender makes the in-stream repair packets, and sends them to the ingress
    /// relay instead. For uplinks that cannot sustain copies at all; it works with the coding
    /// service only.
    SenderFec,
}

impl Duplication {
    /// Returns true if the sender copies this datagram of a flow with such traffic to the ingress
    /// relay.
    #[must_use]
    pub fn includes(self, traffic: Traffic, datagram: &[u8], marked: bool) -> bool {
        match self {
            Self::All | Self::ByRelay => true,
            Self::Usual => marked || traffic != Traffic::CongestionControlled,
            Self::Marked => marked,
            Self::SenderFec => false,
            Self::Chosen(chooses) => chooses(datagram),
        }
    }

    /// Returns true if the sender does not copy some datagrams of a flow with such traffic to the
    /// ingress relay.
    #[must_use]
    pub const fn is_selective(self, traffic: Traffic) -> bool {
        match self {
            Self::All | Self::ByRelay | Self::SenderFec => false,
            Self::Usual => matches!(traffic, Traffic::CongestionControlled),
            Self::Marked | Self::Chosen(_) => true,
        }
    }
}

/// Kind of a flow's traffic, which determines the order of delivery and the useful repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// Datagrams that may be delivered in any order, such as those of a call.
    #[default]
    Datagrams,
    /// TCP or QUIC, which declare a packet lost after a quarter of a round trip, and take losses as
    /// congestion. Packets behind a gap are buffered for that time at most, and only if a repair
    /// can arrive within it. Losses that cannot be repaired by then are not repaired.
    CongestionControlled,
    /// Mixed traffic that nobody can separate, as in an encrypted tunnel: all packets are copied,
    /// and delivered in order of arrival. Losses while packets queue on the direct path are signs
    /// of congestion, and are not repaired (RFC 9265); all other losses are repaired.
    Mixture,
}

/// Returns the service with which a flow begins whose settings leave the service to its sender.
/// Until delays are measured, that is [`Service::Both`], which repairs fastest. Flows for which no
/// service can be selected keep [`Service::Caching`].
#[must_use]
pub const fn initial_service(traffic: Traffic, duplication: Duplication) -> Service {
    if can_select_service(traffic, duplication) { Service::Both } else { Service::Caching }
}

/// Returns true if the service of such a flow can be selected. Traffic that responds to losses as
/// congestion has the service of its settings, because repairs on request would hide congestion. So
/// do flows whose settings say which packets are copied.
pub(super) const fn can_select_service(traffic: Traffic, duplication: Duplication) -> bool {
    matches!(traffic, Traffic::Datagrams) && matches!(duplication, Duplication::Usual | Duplication::All)
}

/// Returns true if relays can forward such a flow instead of a slow direct path. They have to get
/// all packets, and traffic that responds to congestion of the direct path keeps to it.
#[must_use]
pub const fn can_use_routes(traffic: Traffic, duplication: Duplication) -> bool {
    !matches!(traffic, Traffic::CongestionControlled)
        && matches!(duplication, Duplication::Usual | Duplication::All)
}

impl FlowSettings {
    /// Returns true if the flow's sender selects its service.
    pub(super) const fn selects_service(&self) -> bool {
        self.automatic_service && can_select_service(self.traffic, self.duplication)
    }

    /// Returns the limits of the flow's latency, if they have an effect: relays get all its
    /// packets, and its service uses relays only to repair the direct path. The initial service of
    /// flows whose sender selects it is another one.
    pub(super) fn latency_terms(&self) -> Option<LatencyTerms> {
        let may_leave = repairs_on_request(self.service) || self.selects_service();
        let is_effective = may_leave && can_use_routes(self.traffic, self.duplication);
        self.latency.as_deref().copied().filter(|_| is_effective)
    }

    /// Returns the settings without limits of the latency that have no effect. A later change of
    /// the service then gives them none.
    pub(super) fn with_effective_latency(mut self) -> Self {
        if self.latency_terms().is_none() {
            self.latency = None;
        }
        self
    }
}

/// Rule for the number of repair packets of a coded flow's batches and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedundancyMode {
    /// As many as the losses of the latest half minute require, and none without losses. For flows
    /// that share batches with other tenants' flows, and with relays of earlier versions, the
    /// numbers are fixed.
    Adaptive,
    /// The numbers of [`CodingRates`].
    #[default]
    Fixed,
}

/// Settings of one flow, which both its ends share.
#[derive(Clone, Debug)]
pub struct FlowSettings {
    /// Service that relays provide to the flow.
    pub service: Service,
    /// Code rates of in-stream and cross-stream coding.
    pub rates: CodingRates,
    /// Rule for the number of repair packets. The sender's value counts.
    pub redundancy: RedundancyMode,
    /// Highest rate at which the flow sends.
    pub rate: Rate,
    /// Longest useful time from sending to delivery; a later packet counts as lost.
    pub latency_budget: Duration,
    /// Relay paths, best first. Those after the first are in reserve. Several may begin at one
    /// ingress relay, where the flow is registered once for each egress relay.
    pub paths: Vec<RelayPath>,
    /// Packets that the sender copies to the ingress relay.
    pub duplication: Duplication,
    /// Kind of the flow's traffic, which determines useful repairs.
    pub traffic: Traffic,
    /// True if relays may code the flow together with other tenants' flows.
    pub shares: bool,
    /// True if the flow's sender chooses the service, and changes it while the flow is open.
    /// `service` is the initial one. It has no effect with traffic other than
    /// [`Traffic::Datagrams`], or if the sender does not copy all packets.
    pub automatic_service: bool,
    /// Delays from which the flow's sender sends it by relays, because the direct path is too slow.
    /// It has no effect with congestion-controlled traffic, if the sender does not copy all
    /// packets, or with a service that never or always uses relays. With it, the receiver reports
    /// the delays of both paths. It is boxed, because few flows have it.
    pub latency: Option<Box<LatencyTerms>>,
    /// Receiver's consent to send the flow's packets to relays for repairs of other flows.
    pub consent: Consent,
}

impl FlowSettings {
    /// Returns true if the flow's packets are sent through a relay only. An envelope then contains
    /// the packet itself, and is no copy.
    pub(super) const fn needs_relay(&self) -> bool {
        copies(self.service) && (!is_direct(self.service) || matches!(self.duplication, Duplication::ByRelay))
    }

    /// Returns true if relays alone forward the flow, and its sender may return to the direct path.
    /// A few packets then use that path as well, and show what it would do.
    pub(super) const fn has_direct_samples(&self) -> bool {
        !is_direct(self.service) && (self.latency.is_some() || self.selects_service())
    }

    /// Returns true if the receiver reports the delays of both paths.
    pub(super) const fn compares_paths(&self) -> bool {
        self.latency.is_some() || self.has_direct_samples()
    }

    /// Returns true if the sender copies nothing but its first packets before losses, which it
    /// retransmits.
    pub(super) const fn waits_for_losses(&self) -> bool {
        retransmits(self.service) && !self.needs_relay()
    }
}

impl Default for FlowSettings {
    fn default() -> Self {
        Self {
            service: Service::Internet,
            rates: CodingRates::default(),
            redundancy: RedundancyMode::default(),
            rate: Rate::from_megabits_per_second(2),
            latency_budget: Duration::from_millis(250),
            paths: Vec::new(),
            duplication: Duplication::Usual,
            traffic: Traffic::Datagrams,
            shares: false,
            automatic_service: false,
            latency: None,
            consent: CONSENT,
        }
    }
}

/// Returns the key of the flow from `sender` to `receiver` with this number.
#[must_use]
pub fn flow_between(sender: AgentId, receiver: AgentId, flow: FlowId) -> FlowKey {
    FlowKey::new(sender, byway_wire::Receiver::Agent(receiver), flow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if limits of the latency have an effect with these settings.
    fn may_leave(settings: FlowSettings) -> bool {
        let terms = LatencyTerms { acceptable: Duration::from_millis(50), gain: Duration::from_millis(10) };
        let settings = FlowSettings { latency: Some(Box::new(terms)), ..settings };
        settings.with_effective_latency().latency.is_some()
    }

    #[test]
    fn limits_of_the_latency_have_an_effect_where_relays_can_replace_the_direct_path() {
        for service in Service::ALL.iter().copied() {
            let is_repaired = !matches!(service, Service::Internet | Service::Forwarding | Service::Both);
            let settings = FlowSettings { service, ..FlowSettings::default() };
            assert_eq!(may_leave(settings.clone()), is_repaired, "{service:?}");
            let mixture = FlowSettings { traffic: Traffic::Mixture, ..settings.clone() };
            assert_eq!(may_leave(mixture), is_repaired, "{service:?}");
            let congestion_controlled =
                FlowSettings { traffic: Traffic::CongestionControlled, ..settings.clone() };
            assert!(!may_leave(congestion_controlled), "{service:?}");
            let marked = FlowSettings { duplication: Duplication::Marked, ..settings };
            assert!(!may_leave(marked), "{service:?}");
        }
    }

    #[test]
    fn flows_that_begin_with_both_paths_may_leave_the_direct_one_if_the_service_is_automatic() {
        let settings = FlowSettings { service: Service::Both, ..FlowSettings::default() };
        assert!(may_leave(FlowSettings { automatic_service: true, ..settings.clone() }));
        let mixture = FlowSettings { traffic: Traffic::Mixture, automatic_service: true, ..settings };
        assert!(!may_leave(mixture), "its service is not selected");
    }
}
