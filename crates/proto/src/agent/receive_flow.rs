//! Receive flow: state of a flow at its receiver.

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Time};
use byway_wire::{FlowKey, SequenceNumber, Service};

use super::blocks::Blocks;
use super::burst_end::BurstEnd;
use super::covered::AwaitedCopies;
use super::early_buffer::UncodedSet;
use super::events::Delivery;
use super::ordering::ReorderBuffer;
use super::owd::OneWayDelayBaseline;
use super::path_queue::PathQueue;
use super::reassembly::Reassembler;
use super::registration_state::Registrations;
use super::reporting::Delays;
use super::requests::Requests;
use super::settings::FlowSettings;
use super::silence::SilenceNotice;
use super::statistics::{LazyStatistics, ReceiveStatistics};
use super::two_paths::TwoPaths;
use super::unprotected::UnprotectedSet;
use crate::limits::{
    COOPERATION_BUFFER_REACH, HIGH_BITS_TRIED, NACKS_PER_PACKET_MAX, REORDERING_PACKETS, REORDERING_TIME,
    SERVICE_OVERLAP,
};
use crate::parts::gap_tracker::{ArrivalOrder, GapTracker, NackTimers};
use crate::parts::loss_timer::{LossTimer, TwoState};
use crate::parts::packet_buffer::Handle;
use crate::parts::reordering_window::ReorderingWindow;
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::{
    buffers_packets, consent_bucket, forwards_all, is_direct, repairs, repairs_on_request, retransmits,
    samples_direct_path, uses_both_paths,
};
use crate::session::SessionId;

/// Reordering limits and NACK limit of a received flow's gaps, before its path's reordering is
/// known.
const NACK_TIMERS: NackTimers =
    NackTimers { packets: REORDERING_PACKETS, time: REORDERING_TIME, nacks_max: NACKS_PER_PACKET_MAX };

/// Divisor of a flow's lateness budget that gives its longest reordering window. The rest is for
/// the repair's round trip to the relay, and for the loss of a NACK.
const REORDERING_PART: u64 = 4;

/// Identifier of a flow that this agent receives, from
/// [`Agent::accept_flow`](super::Agent::accept_flow).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiveFlowId(pub(super) u32);

/// State of a flow that this agent receives.
#[derive(Debug)]
pub(super) struct ReceiveFlow {
    pub(super) key: FlowKey,
    pub(super) settings: FlowSettings,
    /// Session with the flow's sender.
    pub(super) peer: SessionId,
    /// Registrations with the egress relay of each path, with their aliases.
    pub(super) registrations: Registrations,
    /// Token bucket of the packets sent for other receivers' repairs; allocated at the first one.
    consent: Option<Box<TokenBucket<Bytes>>>,
    pub(super) statistics: LazyStatistics,
    /// State of recent and missing packets; `None` while the flow is idle.
    state: Option<Box<ReceiveState>>,
    /// Highest sequence number of an idle flow; `None` before the first packet.
    idle_since_number: Option<SequenceNumber>,
    /// Counts of packets that could not be opened before the first one was, of the direct path and
    /// of relays. The counts are separate, because invalid packets of a relay must not change the
    /// high bits that are tried for the direct path.
    unopened: [u8; 2],
}

/// ACKs that a receiver has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentAcks {
    /// Time of the latest one.
    pub(super) last: Option<Time>,
    /// Time at which the latest open-ended NACK ended, and the number of its ACK. `None` before the
    /// first one, and if another ACK followed.
    pub(super) ended: Option<(Time, SequenceNumber)>,
}

/// Packet state of a received flow while packets arrive.
#[derive(Debug)]
pub(super) struct ReceiveState {
    pub(super) tracker: GapTracker,
    pub(super) loss_timer: TwoState,
    pub(super) owd_baseline: OneWayDelayBaseline,
    /// Arrival time of the latest source packet, see [`ReceiveFlow::is_source_packet`].
    pub(super) last_source_packet: Time,
    /// Schedule of notices of silence to the sender, during a silence.
    pub(super) silence_notice: Option<SilenceNotice>,
    /// First sequence number of the open-ended NACK in force.
    pub(super) open_ended: Option<SequenceNumber>,
    /// Time by which repairs for the open-ended NACK should arrive.
    pub(super) repairs_due: Time,
    /// Number of open-ended NACKs sent since the timer detected the silence; 0 after a packet that
    /// they cover arrives.
    pub(super) open_ended_nacks: u8,
    /// ACKs, which show relays that the direct path delivers.
    pub(super) acks: SentAcks,
    /// Latest received packets: their coded bytes in the cooperation buffer, for blocks and for
    /// other receivers.
    pub(super) buffered: SequenceRing<Handle>,
    /// Packets that were delivered early, and whose coded bytes have not arrived yet.
    pub(super) uncoded: UncodedSet,
    /// In-stream blocks that cannot be decoded yet.
    pub(super) blocks: Blocks,
    /// Relays' requests for missing packets, which other flows' repairs need.
    pub(super) requests: Requests,
    pub(super) reassembler: Reassembler,
    /// Packets that a congestion-controlled flow buffers for in-order delivery.
    pub(super) reorder_buffer: ReorderBuffer,
    pub(super) unprotected: UnprotectedSet,
    pub(super) reordering: ReorderingWindow,
    /// Queueing delay of the direct path, for mixed traffic and coded flows.
    pub(super) path_queue: PathQueue,
    /// State of the two paths, for a flow that uses both.
    pub(super) two_paths: TwoPaths,
    /// Latest tail-loss hint of a relay.
    pub(super) burst_end: BurstEnd,
    pub(super) delays: Delays,
    /// Highest sequence number of the source packets that have arrived.
    pub(super) highest_source_packet: Option<SequenceNumber>,
    pub(super) last_used: Time,
}

impl ReceiveFlow {
    /// Returns a received flow that ignores all packets up to `final_number`, because they belong
    /// to its state before it was closed and opened again.
    pub(super) fn new(
        key: FlowKey,
        settings: FlowSettings,
        peer: SessionId,
        final_number: Option<SequenceNumber>,
    ) -> Self {
        let registrations = Registrations::new(settings.paths.len());
        Self {
            key,
            settings: settings.with_effective_latency(),
            peer,
            registrations,
            consent: None,
            statistics: LazyStatistics::default(),
            state: None,
            idle_since_number: final_number,
            unopened: [0; 2],
        }
    }

    /// Consumes bytes of the consented budget for other receivers' repairs; returns false if the
    /// budget does not suffice.
    pub(super) fn spend_consent(&mut self, bytes: Bytes, now: Time) -> bool {
        let (consent, rate) = (self.settings.consent, self.settings.rate);
        self.consent
            .get_or_insert_with(|| Box::new(consent_bucket(consent, rate, now)))
            .try_consume(bytes, now)
    }

    /// Returns the packet state; `None` while the flow is idle.
    pub(super) fn active(&self) -> Option<&ReceiveState> {
        self.state.as_deref()
    }

    pub(super) fn active_and_statistics(&mut self) -> (Option<&mut ReceiveState>, &mut ReceiveStatistics) {
        (self.state.as_deref_mut(), &mut self.statistics)
    }

    /// Returns the packet state for changes; `None` while the flow is idle.
    pub(super) fn active_mut(&mut self) -> Option<&mut ReceiveState> {
        self.state.as_deref_mut()
    }

    /// Returns the packet state, which it creates if the flow is idle, and records that the flow is
    /// in use.
    pub(super) fn activate(&mut self, round_trip: Duration, now: Time) -> &mut ReceiveState {
        let idle_since_number = self.idle_since_number;
        let active =
            self.state.get_or_insert_with(|| Box::new(ReceiveState::new(idle_since_number, round_trip, now)));
        active.last_used = now;
        active
    }

    /// Returns the full sequence number of a packet of the direct path, or of a message, from its
    /// low 32 bits.
    pub(super) fn full_sequence(&self, low: u32) -> SequenceNumber {
        self.full_sequence_of(low, false)
    }

    /// Returns the full sequence number of a packet from its low 32 bits: the one nearest to the
    /// highest. Before the first packet, the high bits are guessed, separately for packets of the
    /// direct path and of relays.
    pub(super) fn full_sequence_of(&self, low: u32, is_relayed: bool) -> SequenceNumber {
        match self.highest() {
            Some(highest) => SequenceNumber::nearest(low, highest),
            None => SequenceNumber::new(self.guessed_high_bits(is_relayed) << 32 | u64::from(low)),
        }
    }

    /// Returns the high 32 bits to try until a packet has been opened. They are 0, as in most
    /// flows. After each packet that could not be opened, 0 alternates with another value in turn.
    fn guessed_high_bits(&self, is_relayed: bool) -> u64 {
        let unopened = self.unopened[usize::from(is_relayed)];
        let (tried, tries_others) = (unopened / 2, unopened % 2 == 1);
        if tries_others { u64::from(tried) + 1 } else { 0 }
    }

    /// Changes the guessed high 32 bits, because a packet could not be opened under them. A
    /// receiver that joins a flow late finds them in this way.
    pub(super) fn guess_other_high_bits(&mut self, is_relayed: bool) {
        if self.highest().is_none() {
            let unopened = &mut self.unopened[usize::from(is_relayed)];
            *unopened = (*unopened + 1) % (2 * (HIGH_BITS_TRIED - 1));
        }
    }

    /// Returns the highest sequence number that has arrived or counts as passed.
    pub(super) fn highest(&self) -> Option<SequenceNumber> {
        let highest = self.state.as_ref().and_then(|active| active.tracker.highest());
        highest.map(SequenceNumber::new).or(self.idle_since_number)
    }

    /// Returns true if the direct copy of a delivered packet is above all source packets so far: a
    /// repair arrived earlier.
    pub(super) fn is_overtaken_by_repair(&self, sequence: SequenceNumber) -> bool {
        let active = self.active().filter(|_| repairs(self.settings.service));
        active.is_some_and(|active| active.highest_source_packet.is_none_or(|highest| sequence > highest))
            && !self.is_direct_sample(sequence)
    }

    /// Returns true if a packet that arrives by the direct path only shows the delay of that path.
    /// Relays then forward the flow, and the packet before did not use the direct path: if relays
    /// fail, the sender uses that path for all packets.
    pub(super) fn is_direct_sample(&self, sequence: SequenceNumber) -> bool {
        let delays = || self.active().and_then(|active| active.two_paths.delays.as_ref());
        self.settings.has_direct_samples()
            && samples_direct_path(sequence)
            && delays().is_none_or(|delays| !delays.follows_direct(sequence))
    }

    /// Records the arrival of a packet that relays forwarded without a NACK, new or duplicate.
    pub(super) fn note_relayed(&mut self, now: Time) {
        if let Some(active) = self.active_mut() {
            active.two_paths.on_relayed(now);
        }
    }

    /// Adapts the flow to a change from the service `before`. If all packets were forwarded before,
    /// and both paths are not used now, gaps do not wait for the slower path any more. If the
    /// direct path is left over, what relays still forward is no source packet. If relays alone
    /// forwarded the flow before, copies on the direct path are awaited only once the sender has
    /// changed as well.
    pub(super) fn on_service_change(&mut self, before: Service, now: Time) {
        let service = self.settings.service;
        let is_left = uses_both_paths(before) && !uses_both_paths(service);
        let is_forwarded = is_left && repairs_on_request(service);
        if let Some(active) = self.active_mut() {
            active.two_paths.forwarded_until = if is_forwarded { now + SERVICE_OVERLAP } else { Time::START };
            active.two_paths.copies =
                if is_direct(before) { AwaitedCopies::default() } else { AwaitedCopies::suspended() };
            active.two_paths.end_measurement();
            if forwards_all(before) && !uses_both_paths(service) {
                active.apply_reordering();
            }
        }
    }

    /// Returns true if a packet arrived on its first path: the direct path, or relays that replace
    /// the direct path. Samples of a direct path that relays replace are no source packets: they
    /// arrive however many packets the relays lose.
    pub(super) fn is_source_packet(&self, sequence: SequenceNumber, delivery: Delivery, now: Time) -> bool {
        match delivery {
            Delivery::Direct => !self.is_direct_sample(sequence),
            Delivery::Forwarded => {
                let service = self.settings.service;
                let is_second = uses_both_paths(service)
                    || retransmits(service)
                    || self.active().is_some_and(|active| now < active.two_paths.forwarded_until);
                !is_second
            }
            Delivery::InStream | Delivery::Cooperative | Delivery::Cached | Delivery::Resent => false,
        }
    }

    /// Returns true if no packet with this number has arrived before.
    pub(super) fn is_new(&self, sequence: SequenceNumber) -> bool {
        match (&self.state, self.idle_since_number) {
            (Some(active), _) => active.tracker.is_new(sequence.number()),
            (None, Some(highest)) => sequence > highest,
            (None, None) => true,
        }
    }

    /// True if a packet was delivered early, without its coded bytes, and blocks or other receivers
    /// may need them.
    pub(super) fn needs_coded(&self, sequence: SequenceNumber) -> bool {
        buffers_packets(self.settings.service)
            && self.active().is_some_and(|active| active.uncoded.contains(sequence))
    }

    /// Returns true if a packet has a higher number than all source packets before it.
    pub(super) fn is_newest(&self, sequence: SequenceNumber) -> bool {
        let highest = self.active().and_then(|active| active.highest_source_packet);
        highest.is_none_or(|highest| sequence > highest)
    }

    /// Releases the packet state of an idle flow, but keeps its highest sequence number, so nothing
    /// is delivered twice.
    pub(super) fn deactivate(&mut self) {
        self.idle_since_number = self.highest();
        self.state = None;
    }

    /// Returns true if any packet of the flow has arrived.
    pub(super) fn has_begun(&self) -> bool {
        self.state.is_some() || self.idle_since_number.is_some()
    }

    /// Resets the flow and its statistics, because the sender restarted. Otherwise the sender would
    /// take counts of its earlier packets as proof that the direct path delivers the new ones.
    pub(super) fn restart(&mut self) {
        self.idle_since_number = None;
        self.state = None;
        self.statistics = LazyStatistics::default();
    }

    /// Records a packet's arrival in the gap tracker. If it closes a gap, updates the reordering
    /// window, and counts a spurious NACK if the packet was requested.
    pub(super) fn close_gap(
        &mut self,
        sequence: SequenceNumber,
        (delivery, is_source_packet): (Delivery, bool),
        round_trip: Duration,
        now: Time,
    ) -> ArrivalOrder {
        let Some(active) = self.state.as_mut() else {
            return ArrivalOrder::TooOld;
        };
        let has_gaps = active.tracker.missing() > 0;
        let noticed = if has_gaps { active.tracker.noticed(sequence.number()) } else { None };
        let was_nacked = noticed.is_some() && active.tracker.was_nacked(sequence.number());
        let is_spurious = is_source_packet && (active.open_ended == Some(sequence) || was_nacked);
        let arrival = active.tracker.on_packet(sequence.number(), now);
        self.statistics.spurious_nacks += u64::from(is_spurious);
        if delivery.is_repair() {
            // A relay that repairs every packet may deliver a repair before later packets reveal
            // the gap.
            self.on_repaired_gap(sequence, noticed.unwrap_or(now));
        } else if delivery == Delivery::Direct && noticed.is_some() {
            self.on_overtaken(sequence, noticed, round_trip, now);
        }
        arrival
    }

    /// Returns true if a packet was repaired recently, and its source packet, which may only be
    /// late, has not arrived.
    pub(super) fn awaits_source_packet(&self, sequence: SequenceNumber) -> bool {
        self.active().is_some_and(|active| active.reordering.awaits(sequence.number()))
    }

    /// Widens the reordering window after a source packet that arrived late. `noticed` is the time
    /// at which a later packet overtook it; `None` if a repair arrived first.
    pub(super) fn on_overtaken(
        &mut self,
        sequence: SequenceNumber,
        noticed: Option<Time>,
        round_trip: Duration,
        now: Time,
    ) {
        let window_max = self.lateness_budget(round_trip) / REORDERING_PART;
        // With other services, packets from relays show better how long to wait for a gap.
        let Some(active) = self.state.as_mut().filter(|_| repairs_on_request(self.settings.service)) else {
            return;
        };
        match noticed {
            Some(noticed) => active.reordering.on_overtaken(noticed, window_max, now),
            None => active.reordering.on_late_source_packet(sequence.number(), window_max, now),
        }
        active.apply_reordering();
    }

    /// Updates the reordering window after a repair of a gap that was detected at `noticed`.
    pub(super) fn on_repaired_gap(&mut self, sequence: SequenceNumber, noticed: Time) {
        if let Some(active) = self.state.as_mut().filter(|_| repairs_on_request(self.settings.service)) {
            active.reordering.on_repair(sequence.number(), noticed);
            active.apply_reordering();
        }
    }

    /// Returns the lateness up to which a packet may be delivered: the latency budget minus half a
    /// round trip to the sender.
    pub(super) fn lateness_budget(&self, round_trip: Duration) -> Duration {
        self.settings.latency_budget.saturating_sub(round_trip / 2)
    }
}

impl ReceiveState {
    /// Returns the arrival time of the latest packet on any path by which all packets of the
    /// service are sent.
    pub(super) fn silent_since(&self, service: Service) -> Time {
        let relayed = self.two_paths.last_relayed().filter(|_| uses_both_paths(service));
        relayed.map_or(self.last_source_packet, |relayed| relayed.max(self.last_source_packet))
    }

    /// Delays NACKs for the packets that an open-ended NACK covers, after a source packet has
    /// arrived. Their repairs may be in flight until `repairs_due`; after that, the open-ended NACK
    /// itself may have been lost.
    pub(super) fn await_open_ended_repairs(&mut self, now: Time) {
        if let Some(from) = self.open_ended {
            self.tracker.begin_open_ended(from.number(), self.repairs_due.saturating_since(now));
        }
    }

    /// Handles a packet's second arrival, by the slower path, and updates the gap timers with the
    /// path skew. A gap on the faster path is a loss once the slower path should have filled it.
    /// The same holds for the packets before a sample of a direct path that relays replace.
    pub(super) fn on_second_copy(&mut self, sequence: SequenceNumber, service: Service, now: Time) {
        let behind = self.two_paths.on_second_copy(sequence, now);
        if let Some(behind) = behind.filter(|_| forwards_all(service)) {
            let time = REORDERING_TIME.saturating_add(behind);
            self.tracker.set_timers(NackTimers { packets: u64::MAX, time, ..NACK_TIMERS });
        }
    }

    /// Returns the silence after which the receiver sends an open-ended NACK. It is longer on a
    /// path with reordering, because a late packet leaves a silence, and for mixed traffic on a
    /// path whose losses are congestion.
    pub(super) fn timeout(&self) -> Duration {
        let reordering_excess = self.reordering.window().saturating_sub(REORDERING_TIME);
        self.loss_timer.timeout().saturating_add(reordering_excess).max(self.path_queue.silence_min())
    }

    /// Applies the learned reordering window to gaps that are detected from now on.
    fn apply_reordering(&mut self) {
        let time = self.reordering.window();
        // Later packets reveal a loss only if the path preserves their order.
        let packets = if time > REORDERING_TIME { u64::MAX } else { REORDERING_PACKETS };
        self.tracker.set_timers(NackTimers { packets, time, ..NACK_TIMERS });
    }

    /// Returns the time to repeat the open-ended NACK if no repair arrives, because the NACK or the
    /// repair may have been lost. `None` after the last repetition.
    pub(super) fn nack_repeat_at(&self) -> Option<Time> {
        let is_repeated =
            self.open_ended.is_some() && (1..NACKS_PER_PACKET_MAX).contains(&self.open_ended_nacks);
        is_repeated.then_some(self.repairs_due)
    }

    /// Returns true if a packet is missing: a later packet overtook it, or the open-ended NACK in
    /// force covers it.
    pub(super) fn is_lost(&self, sequence: SequenceNumber) -> bool {
        let number = sequence.number();
        let is_open = self.open_ended.is_some_and(|from| sequence >= from) && self.tracker.is_new(number);
        is_open || self.tracker.is_missing(number)
    }

    /// True if a packet was delivered early, and its source packet, with the coded bytes, counts as
    /// lost because a later packet overtook it.
    pub(super) fn has_lost_coded(&self, sequence: SequenceNumber) -> bool {
        let is_overtaken = self.buffered.highest().is_some_and(|highest| highest > sequence.number());
        is_overtaken && self.uncoded.contains(sequence)
    }

    fn new(idle_since_number: Option<SequenceNumber>, round_trip: Duration, now: Time) -> Self {
        let tracker = match idle_since_number {
            Some(highest) => GapTracker::up_to(NACK_TIMERS, highest.number()),
            None => GapTracker::from_zero(NACK_TIMERS),
        };
        Self {
            tracker,
            loss_timer: TwoState::new(round_trip),
            owd_baseline: OneWayDelayBaseline::default(),
            last_source_packet: now,
            silence_notice: None,
            open_ended: None,
            repairs_due: now,
            open_ended_nacks: 0,
            acks: SentAcks::default(),
            buffered: SequenceRing::new(COOPERATION_BUFFER_REACH),
            uncoded: UncodedSet::default(),
            blocks: Blocks::default(),
            requests: Requests::default(),
            reassembler: Reassembler::default(),
            reorder_buffer: None,
            unprotected: UnprotectedSet::default(),
            reordering: ReorderingWindow::new(),
            path_queue: PathQueue::default(),
            two_paths: TwoPaths::default(),
            burst_end: BurstEnd::default(),
            delays: Delays::new(now),
            highest_source_packet: None,
            last_used: now,
        }
    }
}
