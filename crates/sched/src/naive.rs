//! Reference scheduler for tests: the figures of the paper, line by line, with corrections.
//!
//! Corrections:
//! - counts are at least 1, and sizes always follow the formula;
//! - an empty class is owed nothing;
//! - the debt is a whole number of bytes, rounded up;
//! - low-delay packets are flushed when their buffer shrank, as the text says, and not when it
//!   grew, as in Figure 5;
//! - half of the buffer belongs to the high-rate class;
//! - `S_D` is the longest recently observed.
//!
//! A third class shares the high-rate part of the link with that class, by the same rules. The same
//! AQM selects its early drops.
//!
//! If the link shares by flows, the same policy sets the rates. Buffers are then constant, and both
//! classes keep what they are owed when their weights change, up to 50 ms of the link.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use byway_state::{FlowCounts, Policy, QueueObservation};
use byway_units::{Bytes, Duration, Time};

use crate::limits::{FLOW_EXPIRY, UPDATE_INTERVAL};
use crate::pi2::Pi2Aqm;
use crate::{Arrival, Class, DiscardPolicy, DropReason, FlowHash, Settings};

/// A packet, its bytes, and its arrival time.
type NaivePacket = (u32, u32, Time);

pub(crate) struct Naive {
    settings: Settings,
    /// Time of each flow's last packet, in milliseconds: nothing is estimated.
    flows: [BTreeMap<FlowHash, u64>; 3],
    counts: [u128; 3],
    /// Policy of a link that shares by flows, the time of its next step, and the bytes that R has
    /// sent.
    policy: Option<(Policy, Time)>,
    sent_by_r: u64,
    queues: [VecDeque<NaivePacket>; 3],
    capacity: [u128; 3],
    /// Bytes sent by both parties, and the debt to the second: (R and A) and D, then R and A.
    sent: [[i128; 2]; 2],
    debt: [i128; 2],
    aqm: Pi2Aqm,
    low_delay_packet: u128,
    /// Lengths of D packets of this interval and of the two before.
    lengths: [Vec<u128>; 3],
    update_at: Time,
}

const fn millis(now: Time) -> u64 {
    now.as_nanos() / 1_000_000
}

/// Interval of the policy's steps.
const STEP: Duration = Duration::from_millis(50);

const R: usize = 0;
const D: usize = 1;
const A: usize = 2;

impl Naive {
    pub(crate) fn new(settings: Settings, now: Time) -> Self {
        let mut naive = Self {
            settings,
            flows: [const { BTreeMap::new() }; 3],
            counts: [0; 3],
            policy: settings.policy().map(|settings| (Policy::new(settings), now + STEP)),
            sent_by_r: 0,
            queues: [const { VecDeque::new() }; 3],
            capacity: [0; 3],
            sent: [[0; 2]; 2],
            debt: [0; 2],
            aqm: Pi2Aqm::new(settings.delay, now),
            low_delay_packet: 0,
            lengths: [const { Vec::new() }; 3],
            update_at: now + UPDATE_INTERVAL,
        };
        naive.observe(now);
        naive.size(now, &mut Vec::new());
        naive
    }

    fn backlog(&self, class: usize) -> u128 {
        self.queues[class].iter().map(|(_, bytes, _)| u128::from(*bytes)).sum()
    }

    /// Returns `k·n_R`, `n_D` and `n_A`, in thousandths. With shares by flows: the rates of both
    /// classes.
    fn weights(&self) -> [u128; 3] {
        if let Some((policy, _)) = &self.policy {
            let link = u128::from(self.settings.capacity.bits_per_second());
            let of_d = u128::from(policy.rates().guaranteed.bits_per_second()).clamp(1, link - 1);
            return [link - of_d, of_d, 0];
        }
        let [of_r, of_d, of_a] = self.counts.map(|flows| 1_000 * flows.max(1));
        let average = if self.settings.spike.is_some() { of_a } else { 0 };
        [u128::from(self.settings.ratio_milli) * of_r / 1_000, of_d, average]
    }

    /// Shows the queues to the policy.
    fn observe(&mut self, now: Time) {
        let count = |class: usize| u32::try_from(self.counts[class]).expect("flows are few");
        let flows = FlowCounts { interactive: count(D), other: count(R) };
        let backlog = u64::try_from(self.backlog(R)).expect("a queue is short");
        let observation = QueueObservation {
            flows,
            other_backlog: Bytes::new(backlog),
            other_sent: Bytes::new(self.sent_by_r),
        };
        if let Some((policy, _)) = &mut self.policy {
            policy.update(observation, now);
        }
    }

    /// Lets the policy make a step every 50 ms.
    fn step(&mut self, now: Time) {
        let Some((_, at)) = self.policy.as_mut().filter(|(_, at)| now >= *at) else {
            return;
        };
        *at = if now.saturating_since(*at) < STEP { *at } else { now } + STEP;
        let [of_r, of_d] = self.shares().map(|weight| i128::try_from(weight).expect("rates are small"));
        self.observe(now);
        let most = u128::from(self.settings.capacity.bytes_in(STEP).expect("rates are small").count());
        let most = i128::try_from(most.max(u128::from(self.settings.packet.count()))).expect("it is small");
        let [sent_by_others, sent_by_d] = self.sent[0];
        let credit = (sent_by_d * of_r / of_d - sent_by_others).max(0).min(most);
        let debt = self.debt[0].min(most);
        self.sent[0] = if debt > 0 { [0, -debt] } else { [-credit, 0] };
        self.debt[0] = debt;
    }

    /// Returns the weights of everything but D, which is `k·n_R` in the figures, and of D.
    fn shares(&self) -> [u128; 2] {
        let [of_r, of_d, of_a] = self.weights();
        [of_r + of_a, of_d]
    }

    /// Sizes the buffers by Equations 6 to 9: `B_D` by increasing d until a packet fits.
    fn size(&mut self, now: Time, dropped: &mut Vec<(u32, DropReason)>) {
        if self.policy.is_some() {
            let buffer = u128::from(self.settings.high_rate_buffer.count());
            let buffer = buffer.max(2 * u128::from(self.settings.packet.count()));
            self.capacity = [buffer, buffer, 0];
            return;
        }
        let [of_r, of_d] = self.shares();
        let (s_d, s_r) = (self.low_delay_packet, u128::from(self.settings.packet.count()));
        let before = self.capacity[D];
        let link = |d: Duration| u128::from(self.settings.capacity.bytes_in(d).unwrap_or(Bytes::MAX).count());
        let room = |sent: u128| {
            (sent * of_d).checked_sub(2 * (s_d * of_r + s_r * of_d)).map(|room| room / (of_r + of_d))
        };
        let mut sent = link(self.settings.delay);
        while room(sent).is_none_or(|room| room < s_d) {
            sent += 1;
        }
        let classes = if self.settings.spike.is_some() { 3 } else { 2 };
        let buffer = u128::from(self.settings.buffer.count()).max(2 * classes * s_r);
        self.capacity[D] = room(sent).unwrap_or(0).min(buffer / 2);
        let of_a = self.weights()[A];
        let spike = |spike| link(spike) * of_a / (of_r + of_d) + s_r;
        self.capacity[A] = self.settings.spike.map_or(0, spike).min((buffer / 2 - self.capacity[D]).max(s_r));
        let rest = buffer - self.capacity[D] - self.capacity[A];
        self.capacity[R] = rest.min(u128::from(self.settings.high_rate_buffer.count()));
        if self.capacity[D] < before {
            self.discard(now, dropped);
        }
        for class in [R, A] {
            while self.backlog(class) > self.capacity[class] {
                dropped
                    .extend(self.queues[class].pop_back().map(|(packet, ..)| (packet, DropReason::Trimmed)));
            }
        }
    }

    /// Drops all low-delay packets, or one after the other those that would be late.
    fn discard(&mut self, now: Time, dropped: &mut Vec<(u32, DropReason)>) {
        let ([of_r, of_d], room) = (self.shares(), self.capacity[D]);
        let mut remaining = 0;
        let mut stays = |(packet, bytes, since): &NaivePacket| {
            let waited = self.settings.capacity.bytes_in(now.saturating_since(*since)).unwrap_or(Bytes::MAX);
            let sent = (u128::from(waited.count()) * of_d).div_ceil(of_r + of_d);
            let is_late = match self.settings.discards {
                DiscardPolicy::All => true,
                DiscardPolicy::None => false,
                DiscardPolicy::Late => remaining + u128::from(*bytes) + sent > room,
            };
            if is_late {
                dropped.push((*packet, DropReason::Flushed));
            } else {
                remaining += u128::from(*bytes);
            }
            !is_late
        };
        self.queues[D].retain(|waiting| stays(waiting));
    }

    /// Returns the length that counts: rounded up to 8 bytes, at most the longest packet of the
    /// link.
    fn rounded(&self, bytes: u32) -> u128 {
        u128::from(bytes).div_ceil(8).saturating_mul(8).min(u128::from(self.settings.packet.count()))
    }

    fn update(&mut self, now: Time, dropped: &mut Vec<(u32, DropReason)>) {
        if now >= self.update_at {
            self.count(now, dropped);
        }
        self.step(now);
    }

    /// Updates counts and buffers (Figure 5).
    fn count(&mut self, now: Time, dropped: &mut Vec<(u32, DropReason)>) {
        let idle = now.saturating_since(self.update_at);
        let is_on_time = idle < UPDATE_INTERVAL;
        self.update_at = if is_on_time { self.update_at } else { now } + UPDATE_INTERVAL;
        for flows in &mut self.flows {
            flows.retain(|_, last| *last + FLOW_EXPIRY.as_millis() >= millis(now));
        }
        if !is_on_time && idle > FLOW_EXPIRY {
            self.lengths = [const { Vec::new() }; 3];
        }
        // S_D of recent or queued packets; it falls only here.
        let waiting = self.queues[D].iter().map(|(_, bytes, _)| self.rounded(*bytes));
        let longest = self.lengths.iter().flatten().copied().chain(waiting).max().unwrap_or(0);
        self.low_delay_packet = self.low_delay_packet.min(longest);
        self.lengths.rotate_right(1);
        self.lengths[0].clear();
        self.counts = [R, D, A].map(|class| self.flows[class].len() as u128);
        if self.policy.is_none() {
            self.sent = self.debt.map(|debt| [0, -debt]);
        }
        self.size(now, dropped);
    }

    /// Handles an arriving packet (Figure 3).
    pub(crate) fn enqueue(&mut self, arrival: Arrival<u32>, now: Time) -> Vec<(u32, DropReason)> {
        let mut dropped = Vec::new();
        self.update(now, &mut dropped);
        let Arrival { packet, bytes, class, flow, .. } = arrival;
        let class = match class {
            Class::LowDelay => D,
            Class::LowAverage if self.settings.spike.is_some() => A,
            Class::LowAverage | Class::HighRate => R,
        };
        if u64::from(bytes) > self.settings.packet.count() {
            dropped.push((packet, DropReason::TooLong));
            return dropped;
        }
        self.flows[class].insert(flow, millis(now));
        if class == D {
            let length = self.rounded(bytes);
            self.lengths[0].push(length);
            if length > self.low_delay_packet {
                self.low_delay_packet = length;
                self.size(now, &mut dropped);
            }
        }
        if self.backlog(class) + u128::from(bytes) > self.capacity[class] {
            dropped.push((packet, DropReason::Full));
        } else if class == A && self.is_early(bytes, now) {
            dropped.push((packet, DropReason::Early));
        } else {
            self.queues[class].push_back((packet, bytes, now));
        }
        dropped
    }

    fn is_early(&mut self, bytes: u32, now: Time) -> bool {
        let waited =
            self.queues[A].front().map_or(Duration::ZERO, |(_, _, since)| now.saturating_since(*since));
        #[allow(clippy::cast_precision_loss, reason = "a packet's length")]
        let length = f64::from(bytes) / self.settings.packet.count() as f64;
        self.aqm.should_signal(waited, false, length, now)
    }

    /// Returns the party of a division to send next, given the backlogged ones (Figure 4).
    fn pick(sent: [i128; 2], [of_first, of_second]: [i128; 2], waits: [bool; 2]) -> usize {
        match waits {
            [true, true] if of_first * sent[1] > of_second * sent[0] => 0,
            [_, true] => 1,
            [_, false] => 0,
        }
    }

    /// Records bytes that a party of a division sends (Figure 4).
    fn record_sent(
        &mut self,
        split: usize,
        side: usize,
        bytes: i128,
        weights: [i128; 2],
        did_both_wait: bool,
    ) {
        let [of_first, of_second] = weights;
        let (sent, debt) = (&mut self.sent[split], &mut self.debt[split]);
        match (did_both_wait, side) {
            (true, _) => {
                sent[side] += bytes;
                *debt = ((sent[0] * of_second + of_first - 1) / of_first - sent[1]).max(0);
            }
            (false, 0) => (*sent, *debt) = ([0; 2], 0),
            (false, _) => {
                *debt = (*debt - bytes).max(0);
                *sent = [0, -*debt];
            }
        }
    }

    /// Returns the next packet to send (Figure 4).
    pub(crate) fn dequeue(&mut self, now: Time) -> (Option<u32>, Vec<(u32, DropReason)>) {
        let mut dropped = Vec::new();
        self.update(now, &mut dropped);
        let signed = |weight: u128| i128::try_from(weight).expect("counts are small");
        let ([of_r, of_d, of_a], [of_others, _]) = (self.weights().map(signed), self.shares().map(signed));
        let [r, d, a] = [R, D, A].map(|class| !self.queues[class].is_empty());
        if !(r || d || a) {
            return (None, dropped);
        }
        let is_d = Self::pick(self.sent[0], [of_others, of_d], [r || a, d]) == 1;
        let is_a = Self::pick(self.sent[1], [of_r, of_a], [r, a]) == 1;
        let class = if is_d { D } else { [R, A][usize::from(is_a)] };
        let (packet, bytes, _) = self.queues[class].pop_front().expect("it is backlogged");
        self.sent_by_r += if class == R { u64::from(bytes) } else { 0 };
        let bytes = i128::from(bytes);
        self.record_sent(0, usize::from(is_d), bytes, [of_others, of_d], (r || a) && d);
        if !is_d {
            self.record_sent(1, usize::from(is_a), bytes, [of_r, of_a], r && a);
        }
        (Some(packet), dropped)
    }
}
