//! Fetches copies from ingress relays: of coded flows if repair packets are too few to restore the
//! missing packets or there are none, and of pulled flows always.
//!
//! The round trip to the ingress relay is longer than the one to other receivers. But a fetch needs
//! no other receiver, and costs bytes for lost packets only. For coded flows, it is the last resort
//! if the latency budget allows it. Copies of pulled flows wait at the ingress relay; in an outage
//! of the direct path, that relay forwards them all.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::{SequenceNumber, Service};

use super::decode_attempts::{AttemptId, IndexSet};
use super::feedback::NackRequest;
use super::flow::{BatchRef, FlowSlot};
use super::missing::Stage;
use super::relayed_copies::{CopyGap, CopySource, GapKind};
use super::{BatchEntry, Egress, find_active, find_flow};
use crate::limits::{
    COPY_REORDERING, LATE_ANSWERS_CHANCE_MAX, OPEN_ENDED_BACKLOG_MAX, PULL_WAIT_MAX, RANGES_MAX,
};
use crate::parts::lateness::LateShare;
use crate::parts::retry::{RetryTimer, may_be_in_flight};

impl Egress {
    /// Records the round-trip time to an ingress relay, by its peer number. It decides if a fetch
    /// can be in time.
    pub(crate) fn set_ingress_round_trip(&mut self, ingress: u16, round_trip: Duration) {
        let index = usize::from(ingress);
        if self.ingress_round_trips.len() <= index {
            self.ingress_round_trips.resize(index + 1, Duration::ZERO);
        }
        self.ingress_round_trips[index] = round_trip;
    }

    /// Returns the round-trip time to an ingress relay, by its peer number; zero if unknown.
    pub(super) fn ingress_round_trip(&self, ingress: u16) -> Duration {
        self.ingress_round_trips.get(usize::from(ingress)).copied().unwrap_or_default()
    }

    /// Fetches as many missing packets from the ingress relay as a decode attempt lacks to restore
    /// the others in time. A receiver whose answer is overdue counts as one that will not answer.
    pub(super) fn fetch_missing(&mut self, attempt: AttemptId, now: Time) {
        let state = self.attempts.get(attempt);
        let batch = state.batch;
        // If the ingress relay restarted since, its aliases name other flows.
        if self.batch(batch).is_none() {
            return;
        }
        let awaited = self.awaited_packets(attempt, now);
        if awaited.is_empty() {
            return;
        }
        self.mark_late(attempt, now);
        let mut excess = self.missing_beyond_repairs(attempt, now);
        if excess > 0 {
            self.record_undecodable(attempt, now);
        }
        if !self.follows_up {
            return;
        }
        for index in awaited.iter() {
            let entry = self.attempts.get(attempt).entries[index];
            let Some(slot) = entry.flow.filter(|_| excess > 0) else {
                continue;
            };
            let source = CopySource { ingress: batch.ingress, alias: entry.alias };
            let is_coming =
                self.is_fetched(slot, entry.sequence) || self.fetch_copy((slot, entry.sequence), source, now);
            excess -= usize::from(is_coming);
        }
        self.schedule_review(attempt, now);
    }

    /// Returns the missing packets of a decode attempt that their receivers still await: the
    /// deadline is not over, and the relay sent no other repair.
    pub(super) fn awaited_packets(&self, attempt: AttemptId, now: Time) -> IndexSet {
        let state = self.attempts.get(attempt);
        let missing_packets = state.missing();
        let is_awaited = |index: usize| {
            let BatchEntry { flow, sequence, .. } = state.entries[index];
            let missing = flow.and_then(|slot| self.flow(slot)?.active()?.missing.get(sequence));
            missing.is_some_and(|missing| {
                missing.deadline > now && !matches!(missing.stage, Stage::InStream | Stage::RepairSent)
            })
        };
        missing_packets.filter(is_awaited)
    }

    /// Returns the number of packets of a decode attempt that are unavailable beyond what its
    /// repair packets can restore.
    ///
    /// It returns 1 if repair packets suffice but helpers may well fail to answer: the relay does
    /// not wait for receivers that are often late.
    fn missing_beyond_repairs(&self, attempt: AttemptId, now: Time) -> usize {
        let state = self.attempts.get(attempt);
        let repairs = self.expected_repair_packets(state.batch, now);
        let unavailable = state.unavailable_or_late_count();
        if unavailable > repairs {
            return unavailable - repairs;
        }
        let awaited = (0..state.entries.len()).filter(|index| state.is_awaited(*index));
        let flows = awaited.filter_map(|index| self.flow(state.entries[index].flow?));
        let failure_chance =
            LateShare::more_than(repairs - unavailable, flows.map(|flow| flow.helper.lateness.share()));
        usize::from(failure_chance > LATE_ANSWERS_CHANCE_MAX)
    }

    /// Returns the number of a batch's repair packets that have arrived or will. The relay expects
    /// all of them shortly after the first one.
    pub(super) fn expected_repair_packets(&self, batch: BatchRef, now: Time) -> usize {
        let is_recent = self
            .first_repair_received_at(batch)
            .is_some_and(|received_at| now < received_at + COPY_REORDERING);
        match self.batch(batch).filter(|_| is_recent) {
            Some(known) => usize::from(known.repair_count),
            None => self.repair_packet_count(batch, now),
        }
    }

    /// Returns the arrival time of a batch's first stored repair packet at this relay.
    pub(super) fn first_repair_received_at(&self, batch: BatchRef) -> Option<Time> {
        self.log.stored_at(self.batch(batch)?.repairs().next()?.payload)
    }

    fn is_fetched(&self, slot: FlowSlot, sequence: SequenceNumber) -> bool {
        let missing = self.flow(slot).and_then(|flow| flow.active()?.missing.get(sequence));
        missing.is_some_and(|missing| missing.is_fetched)
    }

    /// Schedules a request for a missing packet's copy at the ingress relay. Returns `false` if the
    /// loss is not certain, or the copy cannot reach the receiver before the deadline.
    fn fetch_copy(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        source: CopySource,
        now: Time,
    ) -> bool {
        let round_trip = self.ingress_round_trip(source.ingress);
        let Some(flow) = find_flow(&mut self.flows, slot) else {
            return false;
        };
        let to_receiver = flow.round_trip / 2;
        let Some(active) = flow.active_mut() else {
            return false;
        };
        let arrives_at = now + round_trip + to_receiver;
        let is_useful =
            |missing: &&mut super::missing::MissingPacket| missing.deadline > arrives_at && missing.certain;
        let Some(missing) = active.missing.get_mut(sequence).filter(is_useful) else {
            return false;
        };
        let end = sequence.next();
        let (retry, kind) = (RetryTimer::new(now), GapKind::Fetch);
        let gap = CopyGap { retry, flow: slot, source, first: sequence, end, kind };
        let is_fetched = self.copy_gaps.add(gap, &mut active.relayed.gaps);
        missing.is_fetched = is_fetched;
        self.counters.refused_capacity += u64::from(!is_fetched);
        self.counters.fetched += u64::from(is_fetched);
        is_fetched
    }
}

impl Egress {
    /// Fetches the copies of a requested range that the relay does not have, if they can reach the
    /// receiver in time.
    pub(super) fn pull_range(
        &mut self,
        request: &NackRequest<'_>,
        (first, last): (SequenceNumber, SequenceNumber),
        now: Time,
    ) {
        let runs = self.unfetched_runs(request.flow, (first, last));
        for (first, end) in runs {
            if !self.request_copies(request, (first, end), GapKind::Fetch, now, now) {
                continue;
            }
            self.counters.fetched += end.number() - first.number();
            let Some(active) = find_active(&mut self.flows, &self.memory, request.flow) else {
                return;
            };
            for number in first.number()..end.number() {
                self.work.numbers += 1;
                if let Some(missing) = active.missing.get_mut(SequenceNumber::new(number)) {
                    missing.is_fetched = true;
                }
            }
        }
    }

    /// Fetches the packets of a coded flow that a NACK names, and those from an open-ended one on.
    /// Their batches have no repair packets, because the group loses nothing else.
    pub(super) fn fetch_uncovered(
        &mut self,
        request: &NackRequest<'_>,
        ranges: &[(SequenceNumber, SequenceNumber)],
        now: Time,
    ) {
        let kind = GapKind::Uncovered;
        for (first, last) in ranges.iter().filter(|_| request.certain) {
            let is_uncovered = [first, last].iter().any(|packet| self.knows_by_nacks(request, **packet, now));
            if is_uncovered && self.request_copies(request, (*first, last.next()), kind, now, now) {
                let numbers = (first.number()..=last.number()).map(SequenceNumber::new);
                let active = self.flow(request.flow).and_then(|flow| flow.active());
                let is_needed =
                    |sequence: &SequenceNumber| active.is_some_and(|active| !active.is_repairable(*sequence));
                self.counters.fetched += numbers.filter(is_needed).count() as u64;
            }
        }
        // In an outage that it knows of, the ingress relay forwards the copies.
        let is_silent = |from: &SequenceNumber| {
            self.knows_by_nacks(request, *from, now) && !self.is_outage_forwarded(request.flow, now)
        };
        if let Some(from) = request.open_from.filter(is_silent) {
            let due = now + self.pull_wait(request);
            self.request_copies(request, (from, from.plus(OPEN_ENDED_BACKLOG_MAX)), kind, due, now);
        }
    }

    /// True if the relay knows of the flow's packets near `sequence` by NACKs only: it pulls them,
    /// or they are coded without repair packets, and it can fetch them.
    pub(super) fn knows_by_nacks(
        &self,
        request: &NackRequest<'_>,
        sequence: SequenceNumber,
        now: Time,
    ) -> bool {
        self.flow(request.flow).is_some_and(|flow| {
            let is_fetched = self.follows_up && flow.service == Service::Coding && request.is_adaptive;
            let is_uncovered = || flow.active().is_none_or(|active| active.is_uncovered(sequence, now));
            flow.is_pulled(now) || (is_fetched && is_uncovered())
        })
    }

    /// Returns the runs of consecutive missing packets within a range that the relay neither has
    /// nor fetches: the first number of each, and one past its last. Beyond [`RANGES_MAX`] runs, it
    /// leaves out the rest, which the receiver requests again.
    fn unfetched_runs(
        &mut self,
        slot: FlowSlot,
        (first, last): (SequenceNumber, SequenceNumber),
    ) -> ArrayVec<(SequenceNumber, SequenceNumber), RANGES_MAX> {
        let mut runs: ArrayVec<(SequenceNumber, SequenceNumber), RANGES_MAX> = ArrayVec::new();
        let Some(active) = find_active(&mut self.flows, &self.memory, slot) else {
            return runs;
        };
        for missing in active.missing.within(first, last) {
            self.work.numbers += 1;
            if missing.is_fetched || active.packet(missing.sequence).is_some() {
                continue;
            }
            let end = missing.sequence.next();
            if let Some(run) = runs.last_mut().filter(|(_, end)| *end == missing.sequence) {
                run.1 = end;
            } else if runs.try_push((missing.sequence, end)).is_err() {
                break;
            }
        }
        runs
    }

    /// Handles an open-ended NACK of a pulled flow: if no ACK follows soon, fetches what the
    /// ingress relay has from `from` on, and has it forward later copies.
    ///
    /// A short silence may be a burst of losses, whose end the next packets show. The relay waits
    /// for it while the first packet can still be in time.
    pub(super) fn pull_open_ended(&mut self, request: &NackRequest<'_>, from: SequenceNumber, now: Time) {
        let Some(flow) = self.flow(request.flow).filter(|flow| flow.is_pulled(now)) else {
            return;
        };
        let notified_at = flow.active().and_then(|active| active.outage?.notified_at);
        let farthest = self.farthest_source(request);
        if notified_at.is_some_and(|notified_at| may_be_in_flight(notified_at, farthest, now)) {
            return;
        }
        let wait = if notified_at.is_some() { Duration::ZERO } else { self.pull_wait(request) };
        let end = from.plus(OPEN_ENDED_BACKLOG_MAX);
        self.request_copies(request, (from, end), GapKind::OpenEnded, now + wait, now);
    }

    /// Returns the longest round-trip time to an ingress relay that may have copies.
    fn farthest_source(&self, request: &NackRequest<'_>) -> Duration {
        let round_trips = request.sources.iter().map(|source| self.ingress_round_trip(source.ingress));
        round_trips.max().unwrap_or_default()
    }

    /// Returns the time for which the relay waits for the end of a silence before it fetches
    /// copies.
    fn pull_wait(&self, request: &NackRequest<'_>) -> Duration {
        let to_receiver = self.round_trip_of(Some(request.flow)) / 2;
        let needed = self.farthest_source(request) + to_receiver;
        (request.repair_lifetime.saturating_sub(needed) / 2).min(PULL_WAIT_MAX)
    }

    /// Schedules requests for copies, at the time `due`, to all ingress relays that may have them
    /// in time. Returns `true` if there is one.
    fn request_copies(
        &mut self,
        request: &NackRequest<'_>,
        (first, end): (SequenceNumber, SequenceNumber),
        kind: GapKind,
        due: Time,
        now: Time,
    ) -> bool {
        let to_receiver = self.round_trip_of(Some(request.flow)) / 2;
        let mut is_requested = false;
        for source in request.sources {
            let arrives_in =
                due.saturating_since(now) + self.ingress_round_trip(source.ingress) + to_receiver;
            if arrives_in < request.repair_lifetime {
                let (retry, flow, source) = (RetryTimer::new(due), request.flow, *source);
                is_requested |= self.add_copy_gap(CopyGap { retry, flow, source, first, end, kind });
            }
        }
        is_requested
    }
}
