//! Delivery ledger: the outcome of each packet of a flow, stored until it is final, then only
//! counted.

use std::collections::VecDeque;

use byway_proto::agent::Delivery;
use byway_units::{Duration, Time};

use crate::delivery_counts::DeliveryCounts;
use crate::explanation::ExplainedFlow;
use crate::record::{DeliveryMethod, DeliveryTerms, LossLocation, PacketRecord};

/// Time after its budget for which the ledger stores a packet, because a late delivery still
/// counts. A later one is of no use to any call.
const LEDGER_RETENTION: Duration = Duration::from_secs(5);

/// Outcomes of one flow's recent packets; older ones are only counted.
#[derive(Debug)]
pub(crate) struct DeliveryLedger {
    terms: DeliveryTerms,
    /// Number of the oldest packet that the ledger stores.
    first: u64,
    packets: VecDeque<PacketRecord>,
    /// Outcomes of packets no longer stored, if recording is enabled.
    recorded: Option<Vec<PacketRecord>>,
    /// Explanation of the flow's service, if there was one.
    explained: Option<Box<ExplainedFlow>>,
}

impl DeliveryLedger {
    pub(crate) const fn new(terms: DeliveryTerms) -> Self {
        Self { terms, first: 0, packets: VecDeque::new(), recorded: None, explained: None }
    }

    /// Enables recording of each packet's outcome from now on.
    pub(crate) fn enable_recording(&mut self) {
        self.recorded = Some(Vec::new());
    }

    /// Counts packets that are sent from now on also for an explanation of the flow's service.
    pub(crate) fn explain(&mut self, explained: ExplainedFlow) {
        self.explained = Some(Box::new(explained));
    }

    /// Returns the explanation of the flow's service; `None` without one.
    pub(crate) fn explained(&self) -> Option<&ExplainedFlow> {
        self.explained.as_deref()
    }

    /// Returns the memory of the ledger, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let explained = self.explained.as_ref().map_or(0, |explained| explained.memory_bytes());
        explained
            + (self.packets.len() + self.recorded.as_ref().map_or(0, Vec::len)) * size_of::<PacketRecord>()
    }

    /// Returns the recorded outcomes of all packets; empty if recording is not enabled.
    pub(crate) fn drain_recorded(&mut self) -> Vec<PacketRecord> {
        self.recorded.take().unwrap_or_default()
    }

    /// Records that the application sends the next packet. Returns its number.
    pub(crate) fn on_sent(&mut self, now: Time, counts: &mut DeliveryCounts) -> u64 {
        self.retire_before(now.saturating_sub(self.terms.budget + LEDGER_RETENTION), Time::MAX, counts);
        self.packets.push_back(PacketRecord { sent: now, ..PacketRecord::default() });
        counts.sent += 1;
        self.first + self.packets.len() as u64 - 1
    }

    /// Records where the direct path lost or damaged a copy of a packet.
    pub(crate) fn on_lost(&mut self, number: u64, location: LossLocation) {
        if let Some(packet) = self.packet(number) {
            packet.lost.get_or_insert(location);
        }
    }

    /// Records that a link duplicated a packet.
    pub(crate) fn on_duplicated(&mut self, number: u64) {
        if let Some(packet) = self.packet(number) {
            packet.is_duplicated = true;
        }
    }

    /// Records the delivery of a packet to the application; a repeated one counts as a duplicate.
    pub(crate) fn on_delivered(
        &mut self,
        number: u64,
        delivery: Delivery,
        now: Time,
        counts: &mut DeliveryCounts,
    ) {
        let Some(packet) = self.packet(number) else {
            // The packet already counted as missing.
            counts.late += 1;
            counts.missing = counts.missing.saturating_sub(1);
            return;
        };
        if packet.delivered.is_some() {
            counts.duplicates += 1;
        } else {
            packet.delivered = Some((now, delivery.into()));
        }
    }

    fn packet(&mut self, number: u64) -> Option<&mut PacketRecord> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.packets.get_mut(index)
    }

    /// Counts and removes the stored packets sent before an instant; the current time is `now`.
    fn retire_before(&mut self, before: Time, now: Time, counts: &mut DeliveryCounts) {
        while let Some(packet) = self.packets.front().copied().filter(|packet| packet.sent < before) {
            self.packets.pop_front();
            self.first += 1;
            self.terms.count(packet, now, counts);
            if let Some(explained) =
                self.explained.as_mut().and_then(|explained| explained.record_repair_and_counts(&packet))
            {
                explained.sent += 1;
                self.terms.count(packet, now, explained);
            }
            self.recorded.iter_mut().for_each(|fates| fates.push(packet));
        }
    }

    /// Counts all stored packets at the end of the run; the current time is `now`.
    pub(crate) fn close(&mut self, now: Time, counts: &mut DeliveryCounts) {
        self.retire_before(Time::MAX, now, counts);
    }
}

impl DeliveryTerms {
    fn count(&self, packet: PacketRecord, now: Time, counts: &mut DeliveryCounts) {
        let Some((at, method)) = packet.delivered else {
            if now.saturating_since(packet.sent) < self.budget {
                counts.in_flight += 1;
                return;
            }
            counts.lost += u64::from(packet.is_lost());
            counts.missing += 1;
            return;
        };
        counts.lost += u64::from(packet.is_lost());
        let delay = at - packet.sent;
        counts.delays.push(delay);
        if delay > self.budget {
            counts.late += 1;
            return;
        }
        counts.delivered += 1;
        if packet.is_lost() {
            self.count_repair(delay, method, counts);
        }
    }

    fn count_repair(&self, delay: Duration, method: DeliveryMethod, counts: &mut DeliveryCounts) {
        let time = delay.saturating_sub(self.due);
        counts.repaired += 1;
        counts.repaired_within_rtt += u64::from(time <= self.round_trip);
        counts.repair_times.push(time);
        match method {
            DeliveryMethod::InStream => counts.by.in_stream += 1,
            DeliveryMethod::Cooperative => counts.by.cooperative += 1,
            DeliveryMethod::Cached => counts.by.cache += 1,
            DeliveryMethod::Forwarded => counts.by.forward += 1,
            DeliveryMethod::Direct | DeliveryMethod::Resent => counts.by.resent += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery_counts::{Quantiles, RepairCounts};

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Time {
        Time::START + ms(millis)
    }

    fn ledger() -> (DeliveryLedger, DeliveryCounts) {
        (
            DeliveryLedger::new(DeliveryTerms { budget: ms(200), due: ms(50), round_trip: ms(100) }),
            DeliveryCounts::default(),
        )
    }

    #[test]
    fn each_packet_counts_where_it_belongs() {
        let (mut book, mut counts) = ledger();
        for number in 0..8 {
            assert_eq!(book.on_sent(at(0), &mut counts), number);
        }
        for number in 1..=5 {
            book.on_lost(number, LossLocation::Middle);
        }
        book.on_duplicated(5);
        for (number, delivery, millis) in [
            (0, Delivery::Direct, 50),
            (1, Delivery::Cached, 70),
            (2, Delivery::Cooperative, 151),
            (3, Delivery::InStream, 201),
            (5, Delivery::Direct, 60), // the other one of two copies
            (5, Delivery::Cached, 61),
            (6, Delivery::Direct, 300),
        ] {
            book.on_delivered(number, delivery, at(millis), &mut counts);
        }
        book.on_sent(at(900), &mut counts);
        book.close(at(1_000), &mut counts);
        assert_eq!((counts.sent, counts.lost, counts.repaired, counts.repaired_within_rtt), (9, 4, 2, 1));
        let all = (counts.delivered, counts.late, counts.missing, counts.in_flight, counts.duplicates);
        assert_eq!(all, (4, 2, 2, 1, 1));
        assert_eq!(counts.by, RepairCounts { in_stream: 0, cooperative: 1, cache: 1, forward: 0, resent: 0 });
        assert_eq!(counts.repair_times.quantiles(), Some(Quantiles { p50: 20.0, p95: 101.0, p99: 101.0 }));
    }

    #[test]
    fn what_comes_after_all_is_late_and_not_missing() {
        let (mut book, mut counts) = ledger();
        book.on_sent(at(0), &mut counts);
        book.on_sent(at(10_000), &mut counts);
        assert_eq!(counts.missing, 1);
        book.on_delivered(0, Delivery::Direct, at(10_000), &mut counts);
        assert_eq!((counts.missing, counts.late), (0, 1));
    }

    #[test]
    fn the_ledger_stays_small() {
        let (mut book, mut counts) = ledger();
        for number in 0..10_000 {
            book.on_sent(at(number * 10), &mut counts);
            book.on_delivered(number, Delivery::Direct, at(number * 10 + 50), &mut counts);
        }
        assert!(book.memory_bytes() < 600 * size_of::<PacketRecord>(), "{}", book.memory_bytes());
        book.close(at(200_000), &mut counts);
        assert_eq!((counts.sent, counts.missing, counts.delivered), (10_000, 0, 10_000));
    }
}
