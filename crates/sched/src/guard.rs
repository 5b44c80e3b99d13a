//! What keeps senders from getting more by the wrong class than by the right one (the paper leaves it open: sections VI and VIII).
//!
//! Ways to cheat, and what answers them:
//! - *Flows that are made up* make a class seem larger. Only flows that last count, and some of a source ([`LastingFlows`]).
//! - *A greedy flow among modest ones* takes what the low-delay class leaves of its share. No low-delay flow gets more than its part of what a
//!   high-rate one does, as long as that class is short of something. While it is not, packets beyond that part are
//!   admitted as long as nothing high-rate waits. Otherwise, they would fill the queue when high-rate flows return.
//! - *A sender that does not slow down* fills the low-delay queue. Who sends more than a fair share, for longer than TCP does by chance, has that share
//!   without bursts until it has paid back, and more only where high-rate flows leave it: the room is for those who take no more than theirs. No share is kept
//!   for flows that go on while most of what they bring is refused ([`FairShare`]).
//! - *A sender that does so now and then* is held to a share of which it knows from the last time, and has half of the queue until it has paid back.
//! - *Flows that are used but once*, or for a short time, have taken nothing yet. So a source is held to a fair share of sources, or to what its flows that last
//!   may take if that is more ([`Allowance`]).

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Rate, Time};

use crate::allowance::{Allowance, Permit, Sender, Terms};
use crate::carried::Carried;
use crate::class::Class;
use crate::fair::{FairShare, Interval};
use crate::flows::FlowHash;
use crate::lasting::LastingFlows;
use crate::limits::{
    CALM_INTERVALS, CAP_BURST, CAP_BURST_PACKETS, FAIR_BURST, FAIR_BURST_PACKETS, FLOWS_PER_SOURCE_MIN,
    SHORT_IDLE_PART, SHORT_INTERVALS, UPDATE_INTERVAL, WEIGHING_ROUNDS, WEIGHT_MAX, WHOLE_PART,
};
use crate::settings::{GuardMode, Settings};
use crate::sizing::{Counts, Weights};
use crate::spread::Spread;

/// State kept of flows: 832 KB, and 170 KB more where there is a third class.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    mode: GuardMode,
    /// In the order of [`Class::ALL`]; none of a class that there is not.
    flows: Box<[LastingFlows]>,
    /// Bytes that flows brought, of the same classes.
    brought: Box<[Carried]>,
    /// By high-rate flows.
    carried: Carried,
    /// Of the flows of other classes, and of the sources of these.
    shares: [FairShare; 2],
    /// What is fair.
    fair: Allowance,
    /// What is no more than high-rate flows get.
    cap: Allowance,
    /// Whether the high-rate class had something to send nearly always in the last interval.
    is_short: bool,
    /// Intervals since it had; many if it never had.
    since_short: u32,
    /// For how long it had nothing to send in this one.
    idle: Duration,
    /// Since when it has not, if so.
    idle_since: Option<Time>,
    since: Time,
}

impl Guard {
    pub(crate) fn new(mode: GuardMode, classes: usize, now: Time) -> Self {
        Self {
            mode,
            flows: (0..classes).map(|_| LastingFlows::new()).collect(),
            brought: (0..classes).map(|_| Carried::new()).collect(),
            carried: Carried::new(),
            shares: [FairShare::new(), FairShare::new()],
            fair: Allowance::new(true),
            cap: Allowance::new(false),
            is_short: false,
            since_short: u32::MAX,
            idle: Duration::ZERO,
            idle_since: Some(now),
            since: now,
        }
    }

    /// A packet came.
    #[inline]
    pub(crate) fn note(&mut self, class: Class, [flow, source]: [FlowHash; 2], bytes: u32) {
        let flows = &mut self.flows[class.place()];
        flows.touch(flow, source);
        // Else, a flood of flows that are made up would have idle ones count for whole ones.
        if flows.is_counted(flow) {
            self.brought[class.place()].note(flow, bytes);
        }
    }

    /// A high-rate packet has room.
    #[inline]
    pub(crate) fn note_high_rate(&mut self, flow: FlowHash, bytes: u32, now: Time) {
        self.carried.note(flow, bytes);
        if let Some(since) = self.idle_since.take() {
            self.idle += now.saturating_since(since);
        }
    }

    /// The high-rate class has nothing to send.
    pub(crate) fn note_idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// Whether a packet of a flow and its source, which is not high-rate, is let in behind so many bytes where there is room for so many.
    ///
    /// A flow's burst is charged for all that is within it, also for what finds no room: bursts that fill the queue are not free. Everything else is charged
    /// for what is let in, so that a flow that brings more than it may still has what it may.
    #[inline]
    pub(crate) fn admits(
        &mut self,
        class: Class,
        names: [FlowHash; 2],
        bytes: u32,
        [backlog, room]: [u64; 2],
        now: Time,
    ) -> bool {
        self.shares.iter_mut().zip(names).for_each(|(share, name)| share.note(name, bytes));
        let [of_flows, _] = &self.shares;
        if of_flows.rate().is_none() {
            return true;
        }
        let is_crowded = of_flows.is_crowded();
        let ([flow, source], flows) = (names, &self.flows[class.place()]);
        let sender =
            Sender { flow, source, lasting: flows.of_source(source), is_counted: flows.is_counted(flow) };
        let fair = self.fair.permit(sender, bytes, now);
        let is_strict = self.mode == GuardMode::Strict;
        let cap = if is_strict { self.cap.permit(sender, bytes, now) } else { None };
        let is_capped = is_strict && self.since_short < SHORT_INTERVALS;
        let may_use_half = self.mode == GuardMode::Fair || !is_crowded;
        let has_left_over = !is_capped && (backlog == 0 || (may_use_half && backlog <= room / 2));
        if (is_capped && cap.is_none()) || (fair.is_none() && !has_left_over) {
            self.shares.iter_mut().zip(names).for_each(|(share, name)| share.note_refused(name, bytes));
            return false;
        }
        // A share that grew while high-rate flows paused is theirs once they are back, which the next update tells.
        let is_early = is_strict && cap.is_none() && self.idle_since.is_none() && !has_left_over;
        let has_room = !is_early && backlog + u64::from(bytes) <= room;
        if let Some(permit) = fair.filter(|permit| has_room || *permit == Permit::Burst) {
            self.fair.charge(sender, bytes, permit);
        }
        if let Some(permit) = cap.filter(|_| has_room) {
            self.cap.charge(sender, bytes, permit);
        }
        !is_early
    }

    /// Forgets all flows, as nothing came for so long; and what is fair, if that is longer than it is remembered.
    pub(crate) fn clear(&mut self, idle: Duration) {
        self.flows.iter_mut().for_each(LastingFlows::clear);
        self.brought.iter_mut().for_each(Carried::clear);
        if idle > UPDATE_INTERVAL * u64::from(CALM_INTERVALS) {
            self.shares = [FairShare::new(), FairShare::new()];
        }
    }

    /// An interval ends: about how many flows there are in each class.
    pub(crate) fn update(&mut self, settings: &Settings, now: Time) -> [u32; Class::COUNT] {
        let length = now.saturating_since(self.since).max(Duration::from_nanos(1));
        let flows = self.weigh(settings, length);
        let weights = Weights::of(settings, Counts::of(flows));
        // What every low-delay flow has, whatever is made up.
        let nominal = weights.of_flow(settings);
        let [_, low_delay, low_average] = flows;
        let held = low_delay.saturating_add(low_average);
        let high_rate = self.carried.take().collect::<Spread>();
        self.is_short = self.end_idle(now) < length / SHORT_IDLE_PART;
        self.since_short = if self.is_short { 0 } else { self.since_short.saturating_add(1) };
        self.since = now;
        self.set_cap(settings, Rate::over(Bytes::new(high_rate.typical()), length), nominal, held);
        let sent = settings.capacity.bytes_in(length).unwrap_or(Bytes::MAX).count();
        let share = weights.but_high_rate(sent);
        // Where the high-rate class needs less than its share, the others have the rest.
        let room = if self.is_short { share } else { share.max(sent.saturating_sub(high_rate.bytes())) };
        let interval = Interval { length, room, is_short: self.is_short, nominal };
        self.shares.iter_mut().for_each(|share| share.update(interval));
        let [of_flow, of_source] =
            self.shares.each_ref().map(|share| share.rate().unwrap_or(settings.capacity));
        let least = Bytes::new(settings.packet.count() * FAIR_BURST_PACKETS);
        self.fair.set(Terms {
            of_flow,
            of_source,
            burst: FAIR_BURST,
            least,
            bound: settings.delay,
            flows: held,
        });
        flows
    }

    /// Returns about how many flows there are in each class that last, each weighed by its part of the share that it would have.
    ///
    /// Shares follow from weights, and weights from shares: the rounds begin with all flows whole, and end near the largest weights that fit.
    fn weigh(&mut self, settings: &Settings, length: Duration) -> [u32; Class::COUNT] {
        let mut lasting = [0; Class::COUNT];
        self.flows.iter_mut().zip(&mut lasting).for_each(|(counter, flows)| *flows = counter.count());
        let mut brought = [const { Spread::nothing() }; Class::COUNT];
        for (carried, spread) in self.brought.iter_mut().zip(&mut brought) {
            carried.fade().for_each(|bytes| spread.add(bytes));
        }
        let mut flows = lasting;
        for _ in 0..WEIGHING_ROUNDS {
            let share = Weights::of(settings, Counts::of(flows)).of_flow(settings);
            let share = share.bytes_in(length).unwrap_or(Bytes::MAX).count();
            let shares = [share.saturating_mul(u64::from(settings.ratio_milli)) / 1_000, share, share];
            for (class, flows) in flows.iter_mut().enumerate() {
                // What faded counts as often again.
                let weight = brought[class].weight((shares[class] / WHOLE_PART * 2).max(1));
                let weight = u32::try_from(weight).ok().filter(|weight| *weight <= WEIGHT_MAX);
                *flows = weight.unwrap_or(u32::MAX).min(lasting[class]);
            }
        }
        flows
    }

    /// For how long the high-rate class had nothing to send; an interval ends.
    fn end_idle(&mut self, now: Time) -> Duration {
        if let Some(since) = &mut self.idle_since {
            self.idle += now.saturating_since(*since);
            *since = now;
        }
        core::mem::take(&mut self.idle)
    }

    /// With what a typical high-rate flow gets, what every low-delay flow has, and about so many of these.
    fn set_cap(&mut self, settings: &Settings, typical: Option<Rate>, nominal: Rate, flows: u32) {
        let typical = typical.unwrap_or(settings.capacity).bits_per_second();
        let cap = u128::from(typical) * 1_000 / u128::from(settings.ratio_milli);
        let cap = Rate::from_bits_per_second(u64::try_from(cap).unwrap_or(u64::MAX)).max(nominal);
        let some = cap.bits_per_second().saturating_mul(u64::from(FLOWS_PER_SOURCE_MIN));
        self.cap.set(Terms {
            of_flow: cap,
            of_source: Rate::from_bits_per_second(some),
            burst: CAP_BURST,
            least: Bytes::new(settings.packet.count() * CAP_BURST_PACKETS),
            bound: settings.delay,
            flows,
        });
    }
}
