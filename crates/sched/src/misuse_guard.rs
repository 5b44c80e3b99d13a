//! Protection from senders that misuse a class (the paper leaves it open: sections VI and VIII).
//!
//! Misuse, and the countermeasures:
//! - *Made-up flows* make a class seem larger. Only persistent flows count, and a limited number of
//!   each source ([`PersistentFlowCounter`]).
//! - *A greedy flow among modest ones* takes the unused part of their share. While the high-rate
//!   class is backlogged, a low-delay flow gets at most its part of a high-rate flow's rate.
//!   Otherwise, packets beyond that part are admitted while no high-rate packet is queued: they
//!   must not fill the queue when high-rate flows return.
//! - *An unresponsive sender* fills the low-delay queue. A flow that exceeds a fair share for
//!   longer than TCP does by chance goes into debt. It then has that share without bursts, and more
//!   only if high-rate flows leave it. The buffer is for flows within their share. Flows that
//!   continue while most of their packets are dropped have no share reserved ([`MaxMinShare`]).
//! - *A sender that is unresponsive in bursts* is limited to the share of the last congestion, and
//!   to half of the queue while in debt.
//! - *Flows used once*, or for a short time, have no history. So a source is limited to a fair
//!   share of sources, or to the rate of its persistent flows if that is higher ([`FlowPolicer`]).

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Rate, Time};

use crate::buffer_sizing::Weights;
use crate::byte_counts::FlowByteCounts;
use crate::class::Class;
use crate::flow_policer::{FlowPolicer, PacketOrigin, Permit, PolicerConfig};
use crate::flows::FlowHash;
use crate::limits::{
    BACKLOG_MEMORY_INTERVALS, BACKLOGGED_IDLE_PART, CAP_BURST, CAP_BURST_PACKETS, FAIR_BURST,
    FAIR_BURST_PACKETS, FLOWS_PER_SOURCE_MIN, UNCONGESTED_INTERVALS, UPDATE_INTERVAL, WEIGHT_MAX,
    WEIGHTING_ITERATIONS, WHOLE_PART,
};
use crate::max_min::{Interval, MaxMinShare};
use crate::persistent_flows::PersistentFlowCounter;
use crate::rate_histogram::FlowRateHistogram;
use crate::settings::{GuardMode, Settings};

/// Protection state of a link with a guard: 832 KB, and 170 KB more with a third class.
#[derive(Clone, Debug)]
pub(crate) struct MisuseGuard {
    mode: GuardMode,
    /// Flow counters of the classes in the order of [`Class::ALL`], without classes that the link
    /// does not have.
    flows: Box<[PersistentFlowCounter]>,
    /// Bytes that counted flows offered, for each class.
    offered: Box<[FlowByteCounts]>,
    /// Bytes that the link admitted from high-rate flows.
    high_rate_bytes: FlowByteCounts,
    /// Max-min fair shares in the other classes together: among flows, and among sources.
    shares: [MaxMinShare; 2],
    /// Policer of flows and sources in other classes, at their max-min fair shares.
    fair: FlowPolicer,
    /// Policer at a low-delay flow's part of a high-rate flow's rate.
    cap: FlowPolicer,
    /// True if the high-rate class was backlogged in nearly all of the last interval.
    is_backlogged: bool,
    /// Number of intervals since the high-rate class was backlogged; `u32::MAX` if it never was.
    intervals_since_backlogged: u32,
    /// Time for which the high-rate class was idle in this interval, before `idle_since`.
    idle: Duration,
    /// Time since which the high-rate class is idle; `None` while it is backlogged.
    idle_since: Option<Time>,
    since: Time,
}

impl MisuseGuard {
    pub(crate) fn new(mode: GuardMode, classes: usize, now: Time) -> Self {
        Self {
            mode,
            flows: (0..classes).map(|_| PersistentFlowCounter::new()).collect(),
            offered: (0..classes).map(|_| FlowByteCounts::new()).collect(),
            high_rate_bytes: FlowByteCounts::new(),
            shares: [MaxMinShare::new(), MaxMinShare::new()],
            fair: FlowPolicer::new(true),
            cap: FlowPolicer::new(false),
            is_backlogged: false,
            intervals_since_backlogged: u32::MAX,
            idle: Duration::ZERO,
            idle_since: Some(now),
            since: now,
        }
    }

    /// Records an arriving packet of a class by its flow and source, admitted or not.
    #[inline]
    pub(crate) fn record(&mut self, class: Class, [flow, source]: [FlowHash; 2], bytes: u32) {
        let flows = &mut self.flows[class.index()];
        flows.touch(flow, source);
        // Without this check, a flood of made-up flows would make idle flows count as whole flows.
        if flows.is_counted(flow) {
            self.offered[class.index()].record(flow, bytes);
        }
    }

    /// Records a high-rate packet that the link admits.
    #[inline]
    pub(crate) fn record_high_rate(&mut self, flow: FlowHash, bytes: u32, now: Time) {
        self.high_rate_bytes.record(flow, bytes);
        if let Some(since) = self.idle_since.take() {
            self.idle += now.saturating_since(since);
        }
    }

    /// Records that the high-rate class has no packet to send.
    pub(crate) fn record_idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// True if a packet of a class other than high-rate is admitted, given the hashes of its flow
    /// and source, and the backlog and buffer size of its class.
    ///
    /// A flow's burst is charged for every packet within it, including packets that do not fit into
    /// the queue: bursts that fill the queue are not free. All other buckets are charged for
    /// admitted packets only. So a flow that exceeds its rate still gets its rate.
    #[inline]
    pub(crate) fn admits(
        &mut self,
        class: Class,
        hashes: [FlowHash; 2],
        bytes: u32,
        [backlog, buffer]: [u64; 2],
        now: Time,
    ) -> bool {
        self.shares.iter_mut().zip(hashes).for_each(|(share, hash)| share.record(hash, bytes));
        let [of_flows, _] = &self.shares;
        if of_flows.rate().is_none() {
            return true;
        }
        let is_congested = of_flows.is_congested();
        let ([flow, source], flows) = (hashes, &self.flows[class.index()]);
        let sender = PacketOrigin {
            flow,
            source,
            persistent_flows: flows.of_source(source),
            is_counted: flows.is_counted(flow),
        };
        let fair = self.fair.permit(sender, bytes, now);
        let is_strict = self.mode == GuardMode::Strict;
        let cap = if is_strict { self.cap.permit(sender, bytes, now) } else { None };
        let is_capped = is_strict && self.intervals_since_backlogged < BACKLOG_MEMORY_INTERVALS;
        let may_use_half = self.mode == GuardMode::Fair || !is_congested;
        let has_left_over = !is_capped && (backlog == 0 || (may_use_half && backlog <= buffer / 2));
        if (is_capped && cap.is_none()) || (fair.is_none() && !has_left_over) {
            self.shares.iter_mut().zip(hashes).for_each(|(share, hash)| share.record_refused(hash, bytes));
            return false;
        }
        // A share that grew while high-rate flows paused is theirs again when they return; the next
        // update corrects it.
        let is_early = is_strict && cap.is_none() && self.idle_since.is_none() && !has_left_over;
        let fits = !is_early && backlog + u64::from(bytes) <= buffer;
        if let Some(permit) = fair.filter(|permit| fits || *permit == Permit::Burst) {
            self.fair.charge(sender, bytes, permit);
        }
        if let Some(permit) = cap.filter(|_| fits) {
            self.cap.charge(sender, bytes, permit);
        }
        !is_early
    }

    /// Forgets all flows, because the link was idle for this time. After a longer idle time,
    /// forgets the fair shares, too.
    pub(crate) fn clear(&mut self, idle: Duration) {
        self.flows.iter_mut().for_each(PersistentFlowCounter::clear);
        self.offered.iter_mut().for_each(FlowByteCounts::clear);
        if idle > UPDATE_INTERVAL * u64::from(UNCONGESTED_INTERVALS) {
            self.shares = [MaxMinShare::new(), MaxMinShare::new()];
        }
    }

    /// Ends a counting interval: updates the shares and policers, and returns the weighted number
    /// of flows in each class.
    pub(crate) fn update(&mut self, settings: &Settings, now: Time) -> [u32; Class::COUNT] {
        let length = now.saturating_since(self.since).max(Duration::from_nanos(1));
        let flows = self.weighted_flow_counts(settings, length);
        let weights = Weights::of(settings, flows);
        // The rate that every low-delay flow has, regardless of made-up flows.
        let nominal = weights.of_flow(settings);
        let [_, low_delay, low_average] = flows;
        let other_flows = low_delay.saturating_add(low_average);
        let high_rate = self.high_rate_bytes.end_interval().collect::<FlowRateHistogram>();
        self.is_backlogged = self.end_idle(now) < length / BACKLOGGED_IDLE_PART;
        self.intervals_since_backlogged =
            if self.is_backlogged { 0 } else { self.intervals_since_backlogged.saturating_add(1) };
        self.since = now;
        self.set_cap(settings, Rate::over(Bytes::new(high_rate.typical()), length), nominal, other_flows);
        let sent = settings.capacity.bytes_in(length).unwrap_or(Bytes::MAX).count();
        let share = weights.but_high_rate(sent);
        // If the high-rate class needs less than its share, the other classes get the rest.
        let capacity =
            if self.is_backlogged { share } else { share.max(sent.saturating_sub(high_rate.bytes())) };
        let interval = Interval { length, capacity, is_backlogged: self.is_backlogged, nominal };
        self.shares.iter_mut().for_each(|share| share.update(interval));
        let [of_flow, of_source] =
            self.shares.each_ref().map(|share| share.rate().unwrap_or(settings.capacity));
        let burst_min = Bytes::new(settings.packet.count() * FAIR_BURST_PACKETS);
        self.fair.configure(PolicerConfig {
            flow_rate: of_flow,
            source_rate: of_source,
            burst: FAIR_BURST,
            burst_min,
            bound: settings.delay,
            flows: other_flows,
        });
        flows
    }

    /// Returns the weighted number of persistent flows in each class: a flow with little load,
    /// relative to the share that it would have, counts for less.
    ///
    /// Shares depend on weights, and weights on shares. The iterations begin with all flows at full
    /// weight, and end near the largest weights that fit.
    fn weighted_flow_counts(&mut self, settings: &Settings, length: Duration) -> [u32; Class::COUNT] {
        let mut persistent = [0; Class::COUNT];
        self.flows.iter_mut().zip(&mut persistent).for_each(|(counter, flows)| *flows = counter.count());
        let mut histograms = [const { FlowRateHistogram::empty() }; Class::COUNT];
        for (counts, histogram) in self.offered.iter_mut().zip(&mut histograms) {
            counts.end_interval_decayed().for_each(|bytes| histogram.add(bytes));
        }
        let mut flows = persistent;
        for _ in 0..WEIGHTING_ITERATIONS {
            let share = Weights::of(settings, flows).of_flow(settings);
            let share = share.bytes_in(length).unwrap_or(Bytes::MAX).count();
            let shares = [share.saturating_mul(u64::from(settings.flow_ratio_milli())) / 1_000, share, share];
            for (class, flows) in flows.iter_mut().enumerate() {
                // Doubled, because the decayed counts sum to twice the load.
                let weight = histograms[class].weighted_count((shares[class] / WHOLE_PART * 2).max(1));
                let weight = u32::try_from(weight).ok().filter(|weight| *weight <= WEIGHT_MAX);
                *flows = weight.unwrap_or(u32::MAX).min(persistent[class]);
            }
        }
        flows
    }

    /// Ends an interval, and returns the time in it for which the high-rate class was idle.
    fn end_idle(&mut self, now: Time) -> Duration {
        if let Some(since) = &mut self.idle_since {
            self.idle += now.saturating_since(*since);
            *since = now;
        }
        core::mem::take(&mut self.idle)
    }

    /// Sets the cap of low-delay flows from the rate of a typical high-rate flow (`None`: the
    /// link's rate). The cap is at least the nominal rate. `flows` is the number of flows to which
    /// it applies.
    fn set_cap(&mut self, settings: &Settings, typical: Option<Rate>, nominal: Rate, flows: u32) {
        let typical = typical.unwrap_or(settings.capacity).bits_per_second();
        let cap = u128::from(typical) * 1_000 / u128::from(settings.flow_ratio_milli());
        let cap = Rate::from_bits_per_second(u64::try_from(cap).unwrap_or(u64::MAX)).max(nominal);
        let source_bits = cap.bits_per_second().saturating_mul(u64::from(FLOWS_PER_SOURCE_MIN));
        self.cap.configure(PolicerConfig {
            flow_rate: cap,
            source_rate: Rate::from_bits_per_second(source_bits),
            burst: CAP_BURST,
            burst_min: Bytes::new(settings.packet.count() * CAP_BURST_PACKETS),
            bound: settings.delay,
            flows,
        });
    }
}
