//! A flow, as its receiver keeps it.

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Time};
use byway_wire::{FlowKey, SequenceNumber, Service};

use super::arrival_clock::ArrivalClock;
use super::blocks::Blocks;
use super::early_buffer::UncodedSet;
use super::events::Delivery;
use super::joiner::Joiner;
use super::mixture::PathQueue;
use super::never_copied::NeverCopied;
use super::ordering::Order;
use super::registration::Registrations;
use super::reporting::Delays;
use super::requests::Requests;
use super::settings::FlowSettings;
use super::silence::SilenceNotice;
use super::statistics::{Counted, ReceiveStatistics};
use super::tail::Tail;
use super::two_ways::TwoWays;
use crate::limits::{ASKS_MAX, HIGH_BITS_TRIED, KEPT_REACH, REORDERING_PACKETS, REORDERING_TIME};
use crate::parts::gap_tracker::{Arrival, GapTracker, Patience};
use crate::parts::loss_timer::{LossTimer, TwoState};
use crate::parts::packet_log::Handle;
use crate::parts::reordering_window::ReorderingWindow;
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::{consent_account, keeps, repairs, takes_two_ways};
use crate::session::SessionId;

/// How long a gap on one way may be reordering.
const PATIENCE: Patience =
    Patience { packets: REORDERING_PACKETS, time: REORDERING_TIME, asks_max: ASKS_MAX };

/// The part of the time in which a repair is of use that a gap may be waited for: the repair takes a round trip to the
/// relay, and its request may be lost.
const REORDERING_PART: u64 = 4;

/// A flow that this agent receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiveFlowId(pub(super) u32);

/// The receiving end of a flow.
#[derive(Debug)]
pub(super) struct ReceiveFlow {
    pub(super) key: FlowKey,
    pub(super) settings: FlowSettings,
    /// The session with the sender.
    pub(super) peer: SessionId,
    /// What the egress relay of each path calls the flow.
    pub(super) registrations: Registrations,
    /// What is still given for others; allocated once something is.
    consent: Option<Box<TokenBucket<Bytes>>>,
    pub(super) statistics: Counted,
    /// Allocated while packets arrive.
    active: Option<Box<Active>>,
    /// The highest number of a flow that rests.
    rested_at: Option<SequenceNumber>,
    /// Packets that could not be opened before the first one was, of the direct path and of relays: a relay's garbage must
    /// not have packets of the direct path tried under other numbers.
    unopened: [u8; 2],
}

/// What is kept while the flow is in use.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) tracker: GapTracker,
    pub(super) timer: TwoState,
    pub(super) clock: ArrivalClock,
    /// When the last original arrived: a packet on its first way, see [`ReceiveFlow::is_original`].
    pub(super) last_original: Time,
    /// When the sender is to be told that none comes, while none does.
    pub(super) silence: Option<SilenceNotice>,
    /// The open-ended NACK in force: from which packet on.
    pub(super) open: Option<SequenceNumber>,
    /// By when repairs that it asked for should be here.
    pub(super) answers_due: Time,
    /// How often it was sent since the timer noticed the silence; 0 once a repair came.
    pub(super) open_asks: u8,
    /// When the relay was told last that the direct path delivers.
    pub(super) last_ack: Option<Time>,
    /// Coded bytes of packets that arrived, for blocks and for others.
    pub(super) kept: SequenceRing<Handle>,
    /// Packets that were delivered early and whose coded bytes have not come yet.
    pub(super) uncoded: UncodedSet,
    /// Repair packets that do not suffice yet.
    pub(super) blocks: Blocks,
    /// Packets that others ask for and that are not here yet.
    pub(super) requests: Requests,
    pub(super) joiner: Joiner,
    /// What a congestion-controlled flow holds back.
    pub(super) order: Order,
    pub(super) never_copied: NeverCopied,
    pub(super) reordering: ReorderingWindow,
    /// Of a mixture: whether packets queue on the direct path.
    pub(super) queue: PathQueue,
    /// Of a flow that comes on two ways.
    pub(super) ways: TwoWays,
    /// What a relay says of its end.
    pub(super) tail: Tail,
    pub(super) delays: Delays,
    /// The highest number that an original had.
    pub(super) highest_original: Option<SequenceNumber>,
    pub(super) last_used: Time,
}

impl ReceiveFlow {
    /// A flow of which nothing counts up to `stood`: that was before it was closed and began again.
    pub(super) fn new(
        key: FlowKey,
        settings: FlowSettings,
        peer: SessionId,
        stood: Option<SequenceNumber>,
    ) -> Self {
        let registrations = Registrations::new(settings.paths.len());
        Self {
            key,
            settings,
            peer,
            registrations,
            consent: None,
            statistics: Counted::default(),
            active: None,
            rested_at: stood,
            unopened: [0; 2],
        }
    }

    /// Takes so many bytes out of what is given for others, if there is so much left.
    pub(super) fn gives(&mut self, bytes: Bytes, now: Time) -> bool {
        let (consent, rate) = (self.settings.consent, self.settings.rate);
        self.consent.get_or_insert_with(|| Box::new(consent_account(consent, rate, now))).take(bytes, now)
    }

    pub(super) fn active(&self) -> Option<&Active> {
        self.active.as_deref()
    }

    pub(super) fn active_and_statistics(&mut self) -> (Option<&mut Active>, &mut ReceiveStatistics) {
        (self.active.as_deref_mut(), &mut self.statistics)
    }

    /// The same, alone.
    pub(super) fn active_mut(&mut self) -> Option<&mut Active> {
        self.active.as_deref_mut()
    }

    /// What is kept of the flow, from now on at least.
    pub(super) fn activate(&mut self, round_trip: Duration, now: Time) -> &mut Active {
        let rested_at = self.rested_at;
        let active = self.active.get_or_insert_with(|| Box::new(Active::new(rested_at, round_trip, now)));
        active.last_used = now;
        active
    }

    /// The full number of a packet whose low bits came in a packet.
    pub(super) fn full(&self, low: u32) -> SequenceNumber {
        self.full_of(low, false)
    }

    /// The same of a packet that came by the direct path or by a relay.
    pub(super) fn full_of(&self, low: u32, is_relayed: bool) -> SequenceNumber {
        match self.highest() {
            Some(highest) => SequenceNumber::nearest(low, highest),
            None => SequenceNumber::new(self.guessed_high_bits(is_relayed) << 32 | u64::from(low)),
        }
    }

    /// What the high bits are taken for until a packet has been opened: 0, as in most flows, and after each packet that
    /// could not be opened another value in turn.
    fn guessed_high_bits(&self, is_relayed: bool) -> u64 {
        let unopened = self.unopened[usize::from(is_relayed)];
        let (tried, tries_others) = (unopened / 2, unopened % 2 == 1);
        if tries_others { u64::from(tried) + 1 } else { 0 }
    }

    /// Nothing could be opened under the number that was taken for its own: whoever joins a flow late tries other high bits
    /// with the next packet.
    pub(super) fn guess_again(&mut self, is_relayed: bool) {
        if self.highest().is_none() {
            let unopened = &mut self.unopened[usize::from(is_relayed)];
            *unopened = (*unopened + 1) % (2 * (HIGH_BITS_TRIED - 1));
        }
    }

    pub(super) fn highest(&self) -> Option<SequenceNumber> {
        let highest = self.active.as_ref().and_then(|active| active.tracker.highest());
        highest.map(SequenceNumber::new).or(self.rested_at)
    }

    /// Whether the direct copy of a packet that is here already is further than any before: a repair came sooner.
    pub(super) fn is_overtaken_by_repair(&self, sequence: SequenceNumber) -> bool {
        let active = self.active().filter(|_| repairs(self.settings.service));
        active.is_some_and(|active| active.highest_original.is_none_or(|highest| sequence > highest))
    }

    /// Whether a packet came on its first way: the direct path, or relays in its stead.
    pub(super) const fn is_original(&self, delivery: Delivery) -> bool {
        let is_in_stead = matches!(delivery, Delivery::Forwarded) && !takes_two_ways(self.settings.service);
        is_in_stead || matches!(delivery, Delivery::Direct)
    }

    /// Whether a packet with this number was not here before.
    pub(super) fn is_new(&self, sequence: SequenceNumber) -> bool {
        match (&self.active, self.rested_at) {
            (Some(active), _) => active.tracker.is_new(sequence.number()),
            (None, Some(rested_at)) => sequence > rested_at,
            (None, None) => true,
        }
    }

    /// True if a packet was delivered early, and its coded bytes are still of use.
    pub(super) fn needs_coded(&self, sequence: SequenceNumber) -> bool {
        keeps(self.settings.service) && self.active().is_some_and(|active| active.uncoded.contains(sequence))
    }

    /// Whether a packet is newer than all of the direct path before it.
    pub(super) fn is_newest(&self, sequence: SequenceNumber) -> bool {
        let highest = self.active().and_then(|active| active.highest_original);
        highest.is_none_or(|highest| sequence > highest)
    }

    /// Forgets the packets of a flow that rests, but not where it stood: nothing is delivered twice.
    pub(super) fn rest(&mut self) {
        self.rested_at = self.highest();
        self.active = None;
    }

    /// Whether a packet has arrived.
    pub(super) fn has_begun(&self) -> bool {
        self.active.is_some() || self.rested_at.is_some()
    }

    /// Forgets everything: the sender begins anew, and takes counts of its earlier packets for proof
    /// that the direct path delivers the new ones.
    pub(super) fn restart(&mut self) {
        self.rested_at = None;
        self.active = None;
        self.statistics = Counted::default();
    }

    /// Notes a packet's arrival, and what it says of the gap that it closes, if it closes one.
    pub(super) fn close_gap(
        &mut self,
        sequence: SequenceNumber,
        delivery: Delivery,
        round_trip: Duration,
        now: Time,
    ) -> Arrival {
        let is_original = self.is_original(delivery);
        let Some(active) = self.active.as_mut() else {
            return Arrival::TooOld;
        };
        let has_gaps = active.tracker.missing() > 0;
        let noticed = if has_gaps { active.tracker.noticed(sequence.number()) } else { None };
        let was_asked = noticed.is_some() && active.tracker.was_asked(sequence.number());
        let is_in_vain = is_original && (active.open == Some(sequence) || was_asked);
        let arrival = active.tracker.arrived(sequence.number(), now);
        self.statistics.nacks_in_vain += u64::from(is_in_vain);
        if delivery.is_repair() {
            // Relays that repair whatever is sent may be faster than the packets behind it.
            self.on_repaired_gap(sequence, noticed.unwrap_or(now));
        } else if delivery == Delivery::Direct && noticed.is_some() {
            self.on_overtaken(sequence, noticed, round_trip, now);
        }
        arrival
    }

    /// Returns true if a packet was repaired lately, and its original has not come.
    pub(super) fn awaits_original(&self, sequence: SequenceNumber) -> bool {
        self.active().is_some_and(|active| active.reordering.awaits(sequence.number()))
    }

    /// Notes that an original came that others overtook. `noticed` is the time at which it was passed over, unless a repair
    /// came first.
    pub(super) fn on_overtaken(
        &mut self,
        sequence: SequenceNumber,
        noticed: Option<Time>,
        round_trip: Duration,
        now: Time,
    ) {
        let window_max = self.allowance(round_trip) / REORDERING_PART;
        // With other services, what comes through relays tells more of how long a gap is to be waited for.
        let Some(active) = self.active.as_mut().filter(|_| keeps(self.settings.service)) else {
            return;
        };
        match noticed {
            Some(noticed) => active.reordering.on_overtaken(noticed, window_max, now),
            None => active.reordering.on_late_original(sequence.number(), window_max, now),
        }
        active.apply_reordering();
    }

    /// Notes that a repair filled a gap that was noticed at that time.
    pub(super) fn on_repaired_gap(&mut self, sequence: SequenceNumber, noticed: Time) {
        if let Some(active) = self.active.as_mut().filter(|_| keeps(self.settings.service)) {
            active.reordering.on_repair(sequence.number(), noticed);
            active.apply_reordering();
        }
    }

    /// How much later than it was due a packet may be delivered: what the latency budget leaves after the way from
    /// sender to receiver.
    pub(super) fn allowance(&self, round_trip: Duration) -> Duration {
        self.settings.latency_budget.saturating_sub(round_trip / 2)
    }
}

impl Active {
    /// Notes that an original came.
    pub(super) const fn original_came(&mut self, now: Time) {
        (self.last_original, self.silence) = (now, None);
    }

    /// Returns the time of the latest packet on any path that carries all packets of the service.
    pub(super) fn silent_since(&self, service: Service) -> Time {
        let relayed = self.ways.last_relayed().filter(|_| takes_two_ways(service));
        relayed.map_or(self.last_original, |relayed| relayed.max(self.last_original))
    }

    /// An original shows what is missing; what the open-ended NACK covers may be on its way until a
    /// certain time, and is asked for then. The NACK itself may have been lost.
    pub(super) fn expect_answers_by(&mut self, now: Time) {
        if let Some(from) = self.open {
            self.tracker.open(from.number(), self.answers_due.saturating_since(now));
        }
    }

    /// The second of two ways brought a packet: a gap on the faster one is a loss once the slower one should have filled
    /// it.
    pub(super) fn came_again(&mut self, sequence: SequenceNumber, now: Time) {
        if let Some(behind) = self.ways.second(sequence, now) {
            let time = REORDERING_TIME.saturating_add(behind);
            self.tracker.set_patience(Patience { packets: u64::MAX, time, ..PATIENCE });
        }
    }

    /// Returns the silence after which packets are asked for: longer on a path on which packets overtake others, as one
    /// that is late leaves a silence.
    pub(super) fn timeout(&self) -> Duration {
        let beyond = self.reordering.window().saturating_sub(REORDERING_TIME);
        self.timer.timeout().saturating_add(beyond)
    }

    /// Applies the reordering window to the gaps that are noticed from now on.
    fn apply_reordering(&mut self) {
        let time = self.reordering.window();
        // Packets behind a gap show a loss only where packets hold the order.
        let packets = if time > REORDERING_TIME { u64::MAX } else { REORDERING_PACKETS };
        self.tracker.set_patience(Patience { packets, time, ..PATIENCE });
    }

    /// When the open-ended NACK has to be said again, as no repair came: it, or the repair, may have been lost.
    pub(super) fn repeat_at(&self) -> Option<Time> {
        let waits = self.open.is_some() && (1..ASKS_MAX).contains(&self.open_asks);
        waits.then_some(self.answers_due)
    }

    /// Whether a packet is taken for lost: passed over, or covered by the open-ended NACK in force.
    pub(super) fn is_lost(&self, sequence: SequenceNumber) -> bool {
        let number = sequence.number();
        let is_open = self.open.is_some_and(|from| sequence >= from) && self.tracker.is_new(number);
        is_open || self.tracker.is_missing(number)
    }

    /// True if a packet was delivered early, and a later packet overtook its source packet.
    pub(super) fn has_lost_coded(&self, sequence: SequenceNumber) -> bool {
        let is_overtaken = self.kept.highest().is_some_and(|highest| highest > sequence.number());
        is_overtaken && self.uncoded.contains(sequence)
    }

    fn new(rested_at: Option<SequenceNumber>, round_trip: Duration, now: Time) -> Self {
        let tracker = match rested_at {
            Some(highest) => GapTracker::resumed(PATIENCE, highest.number()),
            None => GapTracker::begun(PATIENCE),
        };
        Self {
            tracker,
            timer: TwoState::new(round_trip),
            clock: ArrivalClock::default(),
            last_original: now,
            silence: None,
            open: None,
            answers_due: now,
            open_asks: 0,
            last_ack: None,
            kept: SequenceRing::new(KEPT_REACH),
            uncoded: UncodedSet::default(),
            blocks: Blocks::default(),
            requests: Requests::default(),
            joiner: Joiner::default(),
            order: None,
            never_copied: NeverCopied::default(),
            reordering: ReorderingWindow::new(),
            queue: PathQueue::default(),
            ways: TwoWays::default(),
            tail: Tail::default(),
            delays: Delays::new(now),
            highest_original: None,
            last_used: now,
        }
    }
}
