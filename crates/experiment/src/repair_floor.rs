//! Least times in which services could repair a flow's losses: bounds that no repair beats, but for
//! jitter. Hints of egress relays, which reveal losses of packets that are 48 ms apart and more,
//! may beat them too.

use byway_scenario::{FlowRecord, FlowService, LossLocation, PacketRecord};
use byway_units::Duration;
use byway_wire::Service;

/// Least repair times of one flow, from the delays of its relay path.
///
/// The bound of a packet is the least of all services' own, whichever repaired it. A bound by the
/// service that did would excuse a slow one: a cooperative repair is slow if a helper is far.
pub(crate) struct RepairFloor<'a> {
    record: &'a FlowRecord,
    /// Shortest time in which the receiver can detect a loss: a quarter of the interval of the
    /// flow's packets, after which the timer for them may expire.
    detection: Duration,
    /// Interval of the flow's packets.
    interval: Duration,
    to_ingress: Duration,
    to_egress: Duration,
    /// Time by which a packet on the relay path is later than the direct copy. It is the time of
    /// detection at least, because a ratio to less would say nothing.
    relayed: Duration,
    /// True if relays send all packets without a NACK.
    is_relayed: bool,
}

impl<'a> RepairFloor<'a> {
    /// Returns the bounds of a flow; `None` if it has no relay path.
    pub(crate) fn of(record: &'a FlowRecord) -> Option<Self> {
        let overlay = record.overlay.as_ref()?;
        let interval = interval(record);
        let detection = interval / 4;
        let relayed = overlay.sender_to_ingress + overlay.ingress_to_egress + overlay.egress_to_receiver;
        Some(Self {
            record,
            detection,
            interval,
            to_ingress: overlay.sender_to_ingress,
            to_egress: overlay.egress_to_receiver,
            relayed: relayed.saturating_sub(record.terms.due).max(detection),
            is_relayed: matches!(
                record.service,
                FlowService::Automatic | FlowService::Named(Service::Forwarding | Service::Both)
            ),
        })
    }

    /// Returns the least time from the expected arrival of a lost packet to a repair.
    ///
    /// - By a NACK to the egress relay: detection, and a round trip to the relay.
    /// - By a NACK of the ingress relay, if the sender's access lost the packet: detection by the
    ///   next copy, and a round trip to the sender.
    /// - Without a NACK of its own: the delay of the relay path. It applies if relays send all
    ///   packets, or if the packet before was lost too, because an open-ended NACK may be in force.
    pub(crate) fn least(&self, index: usize) -> Duration {
        let packets = &self.record.packets;
        let mut least = self.detection + self.to_egress * 2;
        if packets[index].lost == Some(LossLocation::SenderAccess) {
            least = least.min(self.gap_of_copies(index) + self.to_ingress * 2);
        }
        let before = index.checked_sub(1).map(|before| &packets[before]);
        if self.is_relayed || before.is_some_and(PacketRecord::is_lost) {
            least = least.min(self.relayed);
        }
        least
    }

    /// Returns the time from a packet to the next one whose copy passed the sender's access.
    fn gap_of_copies(&self, index: usize) -> Duration {
        let packets = &self.record.packets[index..];
        let next = packets.iter().find(|packet| packet.lost != Some(LossLocation::SenderAccess));
        next.map_or(self.interval, |next| next.sent.saturating_since(packets[0].sent))
    }
}

/// Returns the shortest interval between packets of a flow, in which a loss can be detected.
fn interval(record: &FlowRecord) -> Duration {
    let between = record.packets.windows(2).map(|two| two[1].sent.saturating_since(two[0].sent));
    between.filter(|time| !time.is_zero()).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_records::{Fate, flow};

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_lost_packet_needs_a_detection_and_a_nack() {
        let mut fates = [Fate::Direct; 10];
        fates[4] = Fate::Repaired(90);
        let record = flow(&fates);
        let floor = RepairFloor::of(&record).expect("it has relays");
        assert_eq!(floor.least(4), ms(10) / 4 + ms(2 * 10));
        let alone = FlowRecord { overlay: None, ..record.clone() };
        assert!(RepairFloor::of(&alone).is_none());
    }

    #[test]
    fn the_packet_after_a_lost_one_needs_no_nack_of_its_own() {
        let mut fates = [Fate::Direct; 10];
        (fates[4], fates[5]) = (Fate::Repaired(90), Fate::Repaired(90));
        let record = flow(&fates);
        let floor = RepairFloor::of(&record).expect("it has relays");
        // Over the relays it takes 64 ms, and 50 ms directly.
        assert_eq!([floor.least(4), floor.least(5)], [ms(10) / 4 + ms(20), ms(14)]);
        let service = FlowService::Named(Service::Both);
        let relayed = FlowRecord { service, ..record.clone() };
        let floor = RepairFloor::of(&relayed).expect("it has relays");
        assert_eq!(floor.least(4), ms(14), "relays send all packets");
    }

    #[test]
    fn a_near_ingress_relay_asks_sooner_for_losses_on_the_access() {
        let mut record = flow(&[Fate::Direct, Fate::Repaired(90), Fate::Direct, Fate::Direct]);
        record.packets[1].lost = Some(LossLocation::SenderAccess);
        let least = |record: &FlowRecord| RepairFloor::of(record).map(|floor| floor.least(1));
        assert_eq!(least(&record), Some(ms(10 + 2 * 4)));
        // The second copy is lost as well. The third one shows the loss later than a NACK to the
        // egress relay repairs it.
        record.packets[2].lost = Some(LossLocation::SenderAccess);
        assert_eq!(least(&record), Some(ms(10) / 4 + ms(2 * 10)));
    }
}
