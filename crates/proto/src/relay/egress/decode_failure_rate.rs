//! Failure rate of cooperative recovery during an outage: how often repair packets and the packets
//! of other receivers do not suffice.
//!
//! While cooperative recovery succeeds, an outage costs relays no more than its repairs. It fails
//! if several paths have an outage, if receivers have reached their consent, or if no other flow
//! shares a batch with this one. If it fails often, the ingress relay should forward the flow's
//! packets whole.

use byway_units::Time;
use byway_wire::SequenceNumber;

use super::decode_attempts::AttemptId;
use super::flow::FlowSlot;
use super::missing::MissingPacket;
use super::{BatchEntry, Egress, find_active};
use crate::limits::{
    DECODE_FAILURE_INVERSE, DECODE_FAILURE_WINDOW, UNDECODED_PACKETS_MIN, UNDECODED_WEIGHT_OF_OTHERS,
};

/// Decode failure rate of one outage: counts of packets that were decided, and of those that
/// failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecodeFailureRate {
    decided: u16,
    failed: u16,
}

impl DecodeFailureRate {
    /// Counts a missing packet once: as restored, or as failed.
    pub(super) const fn record(&mut self, packet: &mut MissingPacket, is_restored: bool) {
        if !packet.is_counted {
            packet.is_counted = true;
            self.count(is_restored);
        }
    }

    const fn count(&mut self, is_restored: bool) {
        if self.decided == DECODE_FAILURE_WINDOW {
            self.decided /= 2;
            self.failed /= 2;
        }
        self.decided += 1;
        self.failed = self.failed.saturating_add(!is_restored as u16);
    }

    /// Counts lost packets of other flows as failures of this outage, with a higher weight, because
    /// this flow uses up their repair packets.
    fn count_others(&mut self, packets: usize) {
        let packets = u16::try_from(packets).unwrap_or(u16::MAX);
        self.failed = self.failed.saturating_add(packets.saturating_mul(UNDECODED_WEIGHT_OF_OTHERS));
    }

    /// True if cooperative recovery fails so often in this outage that the ingress relay should
    /// forward the flow's packets whole.
    pub(super) const fn is_high(self) -> bool {
        self.failed >= UNDECODED_PACKETS_MIN
            && self.failed as u32 * DECODE_FAILURE_INVERSE >= self.decided as u32
    }
}

impl Egress {
    /// Counts a repaired packet in the decode failure rate of its flow's outage, if there is one. A
    /// packet that will reach its receiver late counts as failed.
    pub(super) fn record_restored(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        let Some(flow) = self.flow_mut(slot) else {
            return;
        };
        let arrives_at = now + flow.round_trip / 2;
        if let Some((outage, packet)) =
            flow.active_mut().and_then(|active| active.missing_in_outage(sequence))
        {
            let is_in_time = packet.deadline > arrives_at;
            outage.decode_failures.record(packet, is_in_time);
        }
    }

    /// Counts the missing packets of a decode attempt as failures of their outages, if the attempt
    /// lacks more packets than its repair packets restore.
    pub(super) fn record_undecodable(&mut self, attempt: AttemptId, now: Time) {
        let state = self.attempts.get(attempt);
        if state.unavailable_or_late_count() <= self.expected_repair_packets(state.batch, now) {
            return;
        }
        let awaited = self.awaited_packets(attempt, now);
        let in_outage = awaited.filter(|index| self.is_in_outage(self.attempts.get(attempt).entries[index]));
        let others = awaited.count() - in_outage.count();
        for index in in_outage.iter() {
            let BatchEntry { flow: Some(slot), sequence, .. } = self.attempts.get(attempt).entries[index]
            else {
                continue;
            };
            let active = self.flow_mut(slot).and_then(|flow| flow.active_mut());
            if let Some((outage, packet)) = active.and_then(|active| active.missing_in_outage(sequence))
                && !packet.is_counted
            {
                outage.decode_failures.record(packet, false);
                outage.decode_failures.count_others(others);
            }
        }
    }

    /// Counts packets of a block as failures of the flow's outage, if the block has fewer repair
    /// packets than packets in the outage. Those in batches do not count, because a decode attempt
    /// decides them. A flow that is alone in its group has few batches.
    pub(super) fn record_undecodable_block(&mut self, slot: FlowSlot, first: SequenceNumber) {
        let Some(active) = find_active(&mut self.flows, &self.memory, slot) else {
            return;
        };
        let Some((outage, mask)) = active.outage.zip(active.blocks.mask_of(first)) else {
            return;
        };
        let repairs = active.blocks.repairs_of(first).next().map_or(0, |repair| repair.repair_index.count());
        let lost = || mask.offsets().map(|offset| first.plus(offset.into())).filter(|at| outage.covers(*at));
        if lost().count() <= usize::from(repairs) {
            return;
        }
        for sequence in lost() {
            let is_in_batch = active.sources(sequence).batches.iter().any(Option::is_some);
            if let Some((outage, packet)) = active.missing_in_outage(sequence).filter(|_| !is_in_batch) {
                outage.decode_failures.record(packet, false);
            }
        }
    }

    fn is_in_outage(&self, entry: BatchEntry) -> bool {
        let outage = entry.flow.and_then(|slot| self.flow(slot)?.active()?.outage);
        outage.is_some_and(|outage| outage.covers(entry.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(failures: &mut DecodeFailureRate, packets: u32, one_short_in: u32) -> bool {
        let mut is_high = false;
        for packet in 1..=packets {
            failures.count(!packet.is_multiple_of(one_short_in));
            is_high = failures.is_high();
        }
        is_high
    }

    #[test]
    fn one_packet_in_sixteen_is_too_many() {
        for packets in [300, 400, 900] {
            assert!(!count(&mut DecodeFailureRate::default(), packets, 20), "{packets}");
            assert!(count(&mut DecodeFailureRate::default(), packets, 10), "{packets}");
        }
    }

    #[test]
    fn a_burst_is_chance() {
        assert!(!count(&mut DecodeFailureRate::default(), 7, 1));
        assert!(count(&mut DecodeFailureRate::default(), 8, 1));
    }

    #[test]
    fn what_others_lose_by_it_weighs_more() {
        let mut failures = DecodeFailureRate::default();
        assert!(!count(&mut failures, 200, 40));
        failures.count_others(1);
        assert!(!failures.is_high());
        failures.count_others(2);
        assert!(failures.is_high());
    }

    #[test]
    fn a_shortfall_that_ended_is_forgotten() {
        let mut failures = DecodeFailureRate::default();
        assert!(count(&mut failures, 100, 1));
        assert!(!count(&mut failures, 2_000, u32::MAX));
    }
}
