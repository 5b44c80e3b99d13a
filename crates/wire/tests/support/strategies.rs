//! Legal values of every type that messages are made of.

use byway_units::{AgentId, FlowId, RelayId};
use byway_wire::limits::{AGENT_NUMBER_MAX, CANDIDATES_MAX};
use byway_wire::messages::{
    AliasAnnouncement, AliasStatus, Consent, Digest, Entry, FlowLosses, FlowOptions, FlowRole, Mask,
    RelayDelay, Terms, TermsOptions, TransitTarget,
};
use byway_wire::{
    Address, Alias, BlockShape, Capabilities, CodingGroupId, Epoch, Flags, FlowKey, Fragment, Grant,
    GrantedRelay, GroupId, KilobitsPerSecond, LengthSymbol, Microseconds, RangeSet, Receiver, RepairIndex,
    SequenceNumber, Service, Services, SessionIndex, Shard, TenantId, Timestamp, TransitLabel,
};
use proptest::array::{uniform4, uniform32};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn alias() -> impl Strategy<Value = Alias> {
    (1..=u16::MAX).prop_map(|number| Alias::new(number).expect("the number is not 0"))
}

pub(crate) fn agent() -> impl Strategy<Value = AgentId> {
    (0..=AGENT_NUMBER_MAX).prop_map(AgentId::new)
}

pub(crate) fn receiver() -> impl Strategy<Value = Receiver> {
    let group = (0..=AGENT_NUMBER_MAX).prop_map(|number| GroupId::new(number).expect("it has 31 bits"));
    prop_oneof![agent().prop_map(Receiver::Agent), group.prop_map(Receiver::Group)]
}

pub(crate) fn flow_key() -> impl Strategy<Value = FlowKey> {
    (agent(), receiver(), any::<u16>())
        .prop_map(|(sender, receiver, flow)| FlowKey::new(sender, receiver, FlowId::new(flow)))
}

pub(crate) fn index() -> impl Strategy<Value = SessionIndex> {
    any::<u32>().prop_map(SessionIndex::new)
}

pub(crate) fn micros() -> impl Strategy<Value = Microseconds> {
    any::<u32>().prop_map(Microseconds::new)
}

pub(crate) fn timestamp() -> impl Strategy<Value = Timestamp> {
    any::<u32>().prop_map(Timestamp::new)
}

pub(crate) fn rate() -> impl Strategy<Value = KilobitsPerSecond> {
    any::<u32>().prop_map(KilobitsPerSecond::new)
}

pub(crate) fn flow_role() -> impl Strategy<Value = FlowRole> {
    select(FlowRole::ALL)
}

pub(crate) fn service() -> impl Strategy<Value = Service> {
    select(Service::ALL)
}

pub(crate) fn shape() -> impl Strategy<Value = Option<BlockShape>> {
    (0..=32_u8, 1..=8_u8).prop_map(|(source, repair)| BlockShape::new(source, repair))
}

pub(crate) fn options() -> impl Strategy<Value = FlowOptions> {
    any::<[bool; 5]>().prop_map(|[duplication, sender, others, selective, adaptive]| FlowOptions {
        relay_side_duplication: duplication,
        sender_makes_repairs: sender,
        coded_with_other_tenants: others,
        selective,
        adaptive_redundancy: adaptive,
    })
}

pub(crate) fn consent() -> impl Strategy<Value = Consent> {
    any::<(u8, u16, u8)>().prop_map(|(burst_percent, average_per_mille, seconds)| Consent {
        burst_percent,
        average_per_mille,
        seconds,
    })
}

pub(crate) fn terms() -> impl Strategy<Value = Terms> {
    (service(), shape(), shape(), any::<[bool; 7]>(), rate(), micros()).prop_map(
        |(service, in_stream, batch, options, rate, budget)| {
            let [congestion, duplication, sender, selective, others, mixture, automatic] = options;
            let options = TermsOptions {
                congestion_controlled: congestion,
                relay_side_duplication: duplication,
                sender_makes_repairs: sender,
                selective,
                coded_with_other_tenants: others,
                mixture,
                automatic_service: automatic,
            };
            Terms { service, in_stream, batch, options, rate, budget }
        },
    )
}

pub(crate) fn announcement() -> impl Strategy<Value = AliasAnnouncement> {
    (alias(), flow_key(), service(), any::<(bool, bool)>(), rate()).prop_map(
        |(alias, flow_key, service, (selective, adaptive_redundancy), rate)| AliasAnnouncement {
            alias,
            flow_key,
            service,
            selective,
            adaptive_redundancy,
            rate,
        },
    )
}

pub(crate) fn alias_status() -> impl Strategy<Value = AliasStatus> {
    (alias(), any::<bool>()).prop_map(|(alias, has_receiver)| AliasStatus { alias, has_receiver })
}

pub(crate) fn flow_losses() -> impl Strategy<Value = FlowLosses> {
    (alias(), any::<(bool, bool)>(), any::<[i16; 4]>()).prop_map(
        |(alias, (is_open_ended, queue_grows), losses)| FlowLosses {
            alias,
            is_open_ended,
            queue_grows,
            losses,
        },
    )
}

pub(crate) fn transit_target() -> impl Strategy<Value = TransitTarget> {
    (granted_relay(), any::<u8>(), any::<u32>()).prop_map(|(relay, shard, random)| TransitTarget {
        relay,
        index: SessionIndex::in_shard(Shard::new(shard), random),
    })
}

pub(crate) fn transit_label() -> impl Strategy<Value = TransitLabel> {
    (1..=TransitLabel::MAX).prop_map(|number| TransitLabel::new(number).expect("1 to 127"))
}

pub(crate) fn relay_delay() -> impl Strategy<Value = RelayDelay> {
    (granted_relay(), micros()).prop_map(|(relay, round_trip)| RelayDelay { relay, round_trip })
}

pub(crate) fn mask() -> impl Strategy<Value = Mask> {
    any::<u32>().prop_map(|bits| Mask::new(bits | 1).expect("bit 0 is set"))
}

pub(crate) fn repair_index() -> impl Strategy<Value = RepairIndex> {
    (1..=8_u8)
        .prop_flat_map(|count| (0..count, Just(count)))
        .prop_map(|(index, count)| RepairIndex::new(index, count).expect("the index is below the count"))
}

pub(crate) fn length_symbol() -> impl Strategy<Value = LengthSymbol> {
    any::<LengthSymbol>()
}

/// 1 to 32 entries, with a digest of each.
pub(crate) fn covered() -> impl Strategy<Value = Vec<(Entry, Digest)>> {
    let entry = (alias(), any::<u32>()).prop_map(|(alias, sequence_low)| Entry { alias, sequence_low });
    vec((entry, uniform4(any::<u8>())), 1..=32)
}

/// Up to 32 ranges, also across the wrap.
pub(crate) fn ranges() -> impl Strategy<Value = RangeSet> {
    let first = prop_oneof![any::<u64>().prop_map(|number| number >> 1), (1_u64 << 32) - 300..1_u64 << 32];
    let steps = vec(prop_oneof![3 => Just(1_u64), 1 => 2..50_u64, 1 => 1..1_u64 << 28], 0..60);
    (first, steps).prop_map(|(first, steps)| {
        let mut set = RangeSet::new();
        let mut number = first;
        for step in steps {
            number += step;
            let _ = set.insert(SequenceNumber::new(number));
        }
        set
    })
}

pub(crate) fn address() -> impl Strategy<Value = Address> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(std::net::IpAddr::from),
        any::<[u8; 16]>().prop_map(std::net::IpAddr::from),
    ];
    (ip, any::<u16>()).prop_map(|(ip, port)| Address { ip, port })
}

pub(crate) fn addresses() -> impl Strategy<Value = Vec<Address>> {
    vec(address(), 0..=CANDIDATES_MAX)
}

pub(crate) fn payload() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

pub(crate) fn key() -> impl Strategy<Value = [u8; 32]> {
    uniform32(any::<u8>())
}

pub(crate) fn signature() -> impl Strategy<Value = [u8; 64]> {
    (key(), key()).prop_map(|(first, second)| {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&first);
        signature[32..].copy_from_slice(&second);
        signature
    })
}

pub(crate) fn flags() -> impl Strategy<Value = Flags> {
    (any::<u8>(), select([Fragment::Whole, Fragment::First, Fragment::Second, Fragment::Resent].as_slice()))
        .prop_map(|(epoch, fragment)| Flags::new(Epoch::new(epoch), fragment))
}

pub(crate) fn capabilities() -> impl Strategy<Value = Capabilities> {
    any::<u16>().prop_map(Capabilities::from_bits)
}

pub(crate) fn granted_relay() -> impl Strategy<Value = GrantedRelay> {
    (1..=u32::MAX, any::<u8>())
        .prop_map(|(relay, shard)| GrantedRelay { relay: RelayId::new(relay), shard: Shard::new(shard) })
}

pub(crate) fn grant() -> impl Strategy<Value = Grant> {
    let terms = (any::<u8>(), any::<bool>(), rate(), any::<u64>(), any::<(u16, u16)>());
    let parties = (agent(), receiver(), granted_relay(), granted_relay(), any::<(u32, u32)>());
    let proofs = (key(), key(), signature());
    (terms, parties, proofs).prop_map(|(terms, parties, proofs)| {
        let (services, sharing, rate, not_after_unix_seconds, flows) = terms;
        let (sender, receiver, ingress, egress, (coding_group, tenant)) = parties;
        let (sender_key, receiver_key, signature) = proofs;
        Grant {
            services: Services::from_bits(services),
            sharing,
            ingress,
            egress,
            first_flow: FlowId::new(flows.0.min(flows.1)),
            last_flow: FlowId::new(flows.0.max(flows.1)),
            sender,
            receiver,
            coding_group: CodingGroupId::new(coding_group),
            tenant: TenantId::new(tenant),
            rate,
            not_after_unix_seconds,
            sender_key,
            receiver_key,
            signature,
        }
    })
}
