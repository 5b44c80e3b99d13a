//! Scheduler of a Rate-Delay link: the queues of Figures 3 to 5 of the paper, and a third one.

use byway_state::{InteractiveRates, QueueObservation, SAMPLE_INTERVAL};
use byway_units::{Bytes, Time};

use crate::buffer_sizing::{ClassBuffers, Weights, flow_counts};
use crate::class::Class;
use crate::counting::Counting;
use crate::discipline::{Arrival, Departure, Discipline, DropReason};
use crate::ecn_marker::EcnMarker;
use crate::fifo::{Fifo, QueuedPacket};
use crate::flow_sharing::FlowSharing;
use crate::flows::FlowHash;
use crate::limits::{FLOW_EXPIRY, UPDATE_INTERVAL};
use crate::link_share::LinkShare;
use crate::max_packet_size::MaxPacketSize;
use crate::pi2::Pi2Aqm;
use crate::settings::{DiscardPolicy, Settings, Sharing};
use crate::weighted_link_share::WeightedShare;

/// State of a Rate-Delay link, as of the last packet that arrived or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Estimated number of flows in each class, in the order of [`Class::ALL`]; 0 before the first
    /// count.
    pub flows: [u32; Class::COUNT],
    /// Backlog of each class, in the order of [`Class::ALL`].
    pub backlog: [Bytes; Class::COUNT],
    /// Rates, buffers and delay bound of the classes, as of the last update.
    pub share: LinkShare,
}

/// Counters, backlogs and rates of a link at one time, from which the senders of its interactive
/// flows learn their share. Bytes and flows are in the order of [`Class::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of the packets of each class that have left their queue since the scheduler was
    /// created.
    pub sent: [Bytes; Class::COUNT],
    /// Backlog of each class, without the packet in transmission.
    pub backlog: [Bytes; Class::COUNT],
    /// Estimated number of flows in each class.
    pub flows: [u32; Class::COUNT],
    /// Rates of the low-delay class. With [`Sharing::ByRatio`], both are its rate while all classes
    /// are backlogged.
    pub rates: InteractiveRates,
}

/// Scheduler of one link: the two classes of the paper, and a third one if the settings have it.
///
/// To the low-delay class, all other classes together are the paper's high-rate class. They share
/// their part of the link by the same rule.
///
/// [`Discipline::enqueue`] and [`Discipline::dequeue`] take constant time, except:
/// - for dropped packets;
/// - every 400 ms, for flow counting (every 50 ms, [`Sharing::ByFlows`] takes constant time);
/// - for a packet longer than all of the second before it, which requires a scan of the queue.
///
/// The sojourn time of a low-delay packet is at most [`LinkShare::delay`], if the caller dequeues a
/// packet whenever the previous one has been sent at the configured rate. The link is never idle
/// while packets are queued.
///
/// With [`Sharing::ByFlows`], no sojourn time is promised. [`RateDelay::sample`] reports what the
/// link does, every 50 ms.
#[derive(Clone, Debug)]
pub struct RateDelay<P> {
    settings: Settings,
    counting: Counting,
    flows: [u32; Class::COUNT],
    /// Policy that sets the weights; `None` with shares by ratio.
    sharing: Option<FlowSharing>,
    weights: Weights,
    buffers: ClassBuffers,
    /// Queues in the order of [`Class::ALL`].
    queues: [Fifo<P>; Class::COUNT],
    /// Division of the link between all other classes together and the low-delay class.
    outer: WeightedShare,
    /// Division of the other classes' part between the high-rate class and the low-average class.
    inner: WeightedShare,
    max_packet_size: MaxPacketSize,
    /// Bytes that each class has sent.
    sent: [u64; Class::COUNT],
    /// Time at which flows are counted next.
    count_at: Time,
    /// Time of the next flow count or step of the policy.
    update_at: Time,
    /// ECN marker of low-delay packets; `None` without ECN.
    marker: Option<EcnMarker>,
    /// AQM of low-average packets, which controls their mean sojourn time.
    aqm: Pi2Aqm,
}

const HIGH: usize = Class::HighRate.index();
const LOW: usize = Class::LowDelay.index();
const AVERAGE: usize = Class::LowAverage.index();

impl<P> RateDelay<P> {
    /// Creates the scheduler of an idle link, with empty queues.
    #[must_use]
    pub fn new(settings: Settings, now: Time) -> Self {
        let flows = [0; Class::COUNT];
        let weights = Weights::of(&settings, flows);
        let sharing = settings.policy().map(|policy| FlowSharing::new(policy, Bytes::ZERO, now));
        let count_at = now + UPDATE_INTERVAL;
        Self {
            settings,
            counting: Counting::new(&settings, now),
            flows,
            sharing,
            weights,
            buffers: ClassBuffers::of(&settings, weights, 0),
            queues: [Fifo::new(), Fifo::new(), Fifo::new()],
            outer: WeightedShare::new(weights.outer()),
            inner: WeightedShare::new(weights.inner()),
            max_packet_size: MaxPacketSize::default(),
            sent: [0; Class::COUNT],
            count_at,
            update_at: sharing.map_or(count_at, |sharing| sharing.step_at().min(count_at)),
            marker: settings.marks.then(EcnMarker::default),
            aqm: Pi2Aqm::new(settings.delay, now),
        }
    }

    /// Changes the settings of the link. Queued packets stay if they fit into the new buffers and
    /// are not late.
    ///
    /// The new delay bound is valid for later packets, with two exceptions. It may be exceeded
    /// while high-rate packets longer than the new maximum are queued, and while a packet is in
    /// transmission at the old rate.
    pub fn reconfigure(&mut self, settings: Settings, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        if !Counting::is_same(&settings, &self.settings) {
            self.counting = Counting::new(&settings, now);
        }
        if settings.marks != self.settings.marks {
            self.marker = settings.marks.then(EcnMarker::default);
        }
        self.aqm.set_bound(settings.delay);
        self.settings = settings;
        self.sharing = match (settings.policy(), self.sharing) {
            (Some(policy), Some(mut sharing)) => {
                sharing.set_settings(policy);
                Some(sharing)
            }
            (policy, _) => policy.map(|policy| FlowSharing::new(policy, Bytes::new(self.sent[HIGH]), now)),
        };
        self.set_weights();
        self.resize(now, dropped);
        self.schedule_update();
    }

    /// Divides the link anew among the classes, by the counted flows or the rates of the policy.
    fn set_weights(&mut self) {
        let Some(sharing) = &self.sharing else {
            self.weights = Weights::of(&self.settings, self.flows);
            self.outer.restart(self.weights.outer());
            self.inner.restart(self.weights.inner());
            return;
        };
        self.weights = Weights::at_rate(&self.settings, sharing.rates().guaranteed, self.flows[LOW]);
        // After a while in which the weights were extreme, no class is starved for longer.
        let claim_max = self.settings.capacity.bytes_in(SAMPLE_INTERVAL).unwrap_or(Bytes::MAX);
        self.outer.set_weights(self.weights.outer(), claim_max.max(self.settings.packet).count());
    }

    /// Returns which classes have queued packets, in the order of [`Class::ALL`].
    fn backlogged_classes(&self) -> [bool; Class::COUNT] {
        let [high_rate, low_delay, low_average] = &self.queues;
        [!high_rate.is_empty(), !low_delay.is_empty(), !low_average.is_empty()]
    }

    /// Returns the class to serve next: of several backlogged classes, one that has sent less than
    /// its share.
    fn next(&self, [high_rate, low_delay, low_average]: [bool; Class::COUNT]) -> Option<Class> {
        if low_delay && (!(high_rate || low_average) || self.outer.next() == 1) {
            return Some(Class::LowDelay);
        }
        if low_average && (!high_rate || self.inner.next() == 1) {
            return Some(Class::LowAverage);
        }
        high_rate.then_some(Class::HighRate)
    }

    /// Records that a packet of `class` is sent. `backlogged` are the classes with packets,
    /// including that class.
    fn record_sent(&mut self, class: Class, bytes: u32, backlogged: [bool; Class::COUNT]) {
        let [high_rate, low_delay, low_average] = backlogged;
        let are_both_backlogged = low_delay && (high_rate || low_average);
        self.outer.record(usize::from(class == Class::LowDelay), bytes, are_both_backlogged);
        if class != Class::LowDelay {
            self.inner.record(usize::from(class == Class::LowAverage), bytes, high_rate && low_average);
        }
    }

    #[inline]
    fn update_if_due(&mut self, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        if now >= self.update_at {
            self.update(now, dropped);
        }
    }

    /// Counts flows and lets the policy make its step, as far as they are due.
    #[cold]
    fn update(&mut self, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        if now >= self.count_at {
            self.count_flows(now);
            if self.sharing.is_none() {
                self.set_weights();
            }
            self.resize(now, dropped);
        }
        if let Some(sharing) = self.sharing.as_mut().filter(|sharing| now >= sharing.step_at()) {
            let observation = QueueObservation {
                flows: flow_counts(self.flows),
                other_backlog: Bytes::new(self.queues[HIGH].bytes()),
                other_sent: Bytes::new(self.sent[HIGH]),
            };
            sharing.step(observation, now);
            self.set_weights();
        }
        self.schedule_update();
    }

    fn schedule_update(&mut self) {
        let step_at = self.sharing.as_ref().map(FlowSharing::step_at);
        self.update_at = step_at.map_or(self.count_at, |step_at| step_at.min(self.count_at));
    }

    fn count_flows(&mut self, now: Time) {
        let idle = now.saturating_since(self.count_at);
        self.count_at = if idle < UPDATE_INTERVAL { self.count_at } else { now } + UPDATE_INTERVAL;
        if idle > FLOW_EXPIRY {
            self.counting.clear(idle);
            self.max_packet_size.reset();
        }
        self.flows = self.counting.count(&self.settings, now);
        let waiting = &self.queues[LOW];
        self.max_packet_size.end_interval(|| waiting.max_packet_bytes());
    }

    /// Computes the buffer sizes of the classes, and drops queued packets that no longer fit.
    #[cold]
    fn resize(&mut self, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        let before = self.buffers.low_delay;
        let longest = self.max_packet_size.bytes(self.settings.packet.count());
        self.buffers = ClassBuffers::of(&self.settings, self.weights, longest);
        let promises_delay = self.settings.sharing == Sharing::ByRatio;
        if promises_delay && self.buffers.low_delay < before {
            self.discard(now, dropped);
        }
        for class in Class::ALL {
            if promises_delay && class == Class::LowDelay {
                continue;
            }
            let queue = &mut self.queues[class.index()];
            while queue.bytes() > self.buffers.class(class) {
                let Some(waiting) = queue.pop_last() else {
                    break;
                };
                dropped(waiting.packet, DropReason::Trimmed);
            }
        }
    }

    /// Returns an error if an arriving packet does not fit into its queue, or the guard does not
    /// admit it.
    ///
    /// The guard records every packet, also one that does not fit, because the offered load counts.
    fn admit(
        &mut self,
        class: Class,
        hashes: [FlowHash; 2],
        bytes: u32,
        now: Time,
    ) -> Result<(), DropReason> {
        let (backlog, buffer) = (self.queues[class.index()].bytes(), self.buffers.class(class));
        let is_full = backlog + u64::from(bytes) > buffer;
        let is_admitted = match (&mut self.counting, class) {
            (Counting::Guarded(guard), Class::LowDelay | Class::LowAverage) => {
                guard.admits(class, hashes, bytes, [backlog, buffer], now)
            }
            (Counting::Guarded(guard), Class::HighRate) if !is_full => {
                guard.record_high_rate(hashes[0], bytes, now);
                true
            }
            _ => true,
        };
        match (is_full, is_admitted) {
            (true, _) => Err(DropReason::Full),
            (false, false) => Err(DropReason::Greedy),
            (false, true) => Ok(()),
        }
    }

    /// True if the arriving packet should signal congestion: by a mark if `can_mark`, otherwise by
    /// its loss.
    fn should_signal(&mut self, class: Class, bytes: u32, can_mark: bool, now: Time) -> bool {
        #[allow(clippy::cast_precision_loss, reason = "a packet's length")]
        let length = |settings: &Settings| f64::from(bytes) / settings.packet.count() as f64;
        match (class, &mut self.marker) {
            (Class::HighRate, _) | (Class::LowDelay, None) => false,
            (Class::LowDelay, Some(marker)) => {
                let (backlog, buffer) = (self.queues[LOW].bytes(), self.buffers.low_delay);
                if can_mark {
                    marker.should_mark(backlog, buffer)
                } else {
                    marker.should_drop(backlog, buffer, length(&self.settings))
                }
            }
            (Class::LowAverage, _) => {
                let oldest = self.queues[AVERAGE].head_enqueued_at().unwrap_or(now);
                let sojourn = now.saturating_since(oldest);
                self.aqm.should_signal(sojourn, can_mark, length(&self.settings), now)
            }
        }
    }

    /// Drops queued low-delay packets that would be late, because the buffer of their class shrank.
    ///
    /// A packet with x bytes up to its own end still waits for x at the class's rate, and for
    /// chance. So it is in time if the sum of x and the bytes that the class sends in the packet's
    /// present sojourn time fits into the buffer.
    fn discard(&mut self, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        let (buffer, weights, capacity) = (self.buffers.low_delay, self.weights, self.settings.capacity);
        let is_late = |waiting: &QueuedPacket<P>, end: u64| match self.settings.discards {
            DiscardPolicy::None => false,
            DiscardPolicy::All => true,
            DiscardPolicy::Late => {
                let sojourn =
                    capacity.bytes_in(now.saturating_since(waiting.enqueued_at)).unwrap_or(Bytes::MAX);
                end.saturating_add(weights.of_low_delay(sojourn.count())) > buffer
            }
        };
        self.queues[LOW].discard(is_late, |packet| dropped(packet, DropReason::Flushed));
    }

    /// Returns the backlog of a class, and the size of its buffer.
    #[must_use]
    pub const fn class_backlog(&self, class: Class) -> (Bytes, Bytes) {
        (Bytes::new(self.queues[class.index()].bytes()), Bytes::new(self.buffers.class(class)))
    }

    /// Returns the counters, backlogs and rates of the link at this time. Calls `dropped` for each
    /// packet that an update drops, which may be due.
    pub fn sample(&mut self, now: Time, dropped: &mut impl FnMut(P, DropReason)) -> Sample {
        self.update_if_due(now, dropped);
        let [_, low_delay, _] = self.weights.rates(&self.settings);
        let by_ratio = InteractiveRates { guaranteed: low_delay, shown: low_delay };
        Sample {
            sent: self.sent.map(Bytes::new),
            backlog: Class::ALL.map(|class| Bytes::new(self.queues[class.index()].bytes())),
            flows: self.flows,
            rates: self.sharing.as_ref().map_or(by_ratio, FlowSharing::rates),
        }
    }

    /// Returns the flow counts, backlogs and shares of the link.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            flows: self.flows,
            backlog: Class::ALL.map(|class| Bytes::new(self.queues[class.index()].bytes())),
            share: LinkShare::with(&self.settings, self.weights, self.buffers),
        }
    }
}

impl<P> Discipline<P> for RateDelay<P> {
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        self.update_if_due(now, dropped);
        let Arrival { packet, bytes, class, flow, source, is_ecn_capable } = arrival;
        if Bytes::new(u64::from(bytes)) > self.settings.packet {
            return dropped(packet, DropReason::TooLong);
        }
        let class = self.settings.served(class);
        self.counting.record(class, [flow, source], bytes, now);
        if class == Class::LowDelay && self.max_packet_size.record(bytes) {
            self.resize(now, dropped);
        }
        if let Err(reason) = self.admit(class, [flow, source], bytes, now) {
            return dropped(packet, reason);
        }
        let can_mark = self.settings.marks && is_ecn_capable;
        let is_signal = self.should_signal(class, bytes, can_mark, now);
        if is_signal && !can_mark {
            return dropped(packet, DropReason::Early);
        }
        self.queues[class.index()].push(QueuedPacket {
            packet,
            bytes,
            enqueued_at: now,
            is_ecn_capable,
            is_marked: is_signal,
        });
    }

    fn dequeue(&mut self, now: Time, dropped: &mut impl FnMut(P, DropReason)) -> Option<Departure<P>> {
        self.update_if_due(now, dropped);
        let backlogged = self.backlogged_classes();
        let class = self.next(backlogged)?;
        let QueuedPacket { packet, bytes, enqueued_at, is_marked, .. } = self.queues[class.index()].pop()?;
        self.record_sent(class, bytes, backlogged);
        self.sent[class.index()] += u64::from(bytes);
        if self.queues[HIGH].is_empty() {
            self.counting.record_idle(now);
        }
        Some(Departure { packet, class, sojourn: now.saturating_since(enqueued_at), is_marked })
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.queues.iter().map(Fifo::bytes).sum())
    }
}
