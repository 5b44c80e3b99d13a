//! Records of made-up flows, for tests of measures.

use byway_scenario::{
    DeliveryMethod, DeliveryTerms, FlowRecord, FlowService, LossLocation, OverlayDelays, PacketRecord,
};
use byway_units::{Duration, Time};
use byway_wire::Service;

/// Fate of a packet in a made-up flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// The direct path delivers the packet in 50 ms.
    Direct,
    /// The packet is lost in the middle of the direct path, and repaired this many milliseconds
    /// after it was due.
    Repaired(u64),
    /// The packet is lost in the middle of the direct path for good.
    Missing,
}

/// Returns the record of a flow with a packet each 10 ms and a direct path of 50 ms. The segments
/// of its relay path have delays of 4, 50 and 10 ms.
pub(crate) fn flow(fates: &[Fate]) -> FlowRecord {
    let ms = Duration::from_millis;
    let packet = |(nth, fate): (u64, &Fate)| {
        let sent = Time::START + ms(10 * nth);
        let (is_lost, delivered) = match fate {
            Fate::Direct => (false, Some((sent + ms(50), DeliveryMethod::Direct))),
            Fate::Repaired(after) => (true, Some((sent + ms(50 + after), DeliveryMethod::Cached))),
            Fate::Missing => (true, None),
        };
        let lost = is_lost.then_some(LossLocation::Middle);
        PacketRecord { sent, lost, is_duplicated: false, delivered }
    };
    let packets: Vec<PacketRecord> = (0..).zip(fates).map(packet).collect();
    FlowRecord {
        name: "call".to_owned(),
        member: 0,
        from: "alice".to_owned(),
        to: "bob".to_owned(),
        datagram_bytes: 500,
        bytes: 500 * packets.len() as u64,
        service: FlowService::Named(Service::Caching),
        batch: None,
        terms: DeliveryTerms { budget: ms(1_000), due: ms(50), round_trip: ms(100) },
        overlay: Some(OverlayDelays {
            ingress: "near".to_owned(),
            egress: "far".to_owned(),
            sender_to_ingress: ms(4),
            ingress_to_egress: ms(50),
            egress_to_receiver: ms(10),
        }),
        counted: None,
        packets,
    }
}
