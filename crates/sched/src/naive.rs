//! The figures of the paper, line by line, with what their correction takes: what the fast scheduler is compared with.
//!
//! Corrections: counts are at least 1 and sizes always follow the formula; a class that is empty is owed nothing; the debt is a whole number of bytes, rounded up; low-delay packets are flushed when their room shrank, as the
//! text says, and not when it grew, as Figure 5 does.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Time};

use crate::limits::{FLOW_EXPIRY, UPDATE_INTERVAL};
use crate::{Arrival, Class, Discards, Dropped, FlowHash, Settings};

/// A packet, its bytes, and when it came.
type Waiting = (u32, u32, Time);

pub(crate) struct Naive {
    settings: Settings,
    /// When each flow had its last packet, in milliseconds: nothing is estimated.
    flows: [BTreeMap<FlowHash, u64>; 2],
    counts: [u128; 2],
    queues: [VecDeque<Waiting>; 2],
    room: [u128; 2],
    sent: [i128; 2],
    debt: i128,
    low_delay_packet: u128,
    update_at: Time,
}

const fn millis(now: Time) -> u64 {
    now.as_nanos() / 1_000_000
}

const R: usize = 0;
const D: usize = 1;

impl Naive {
    pub(crate) fn new(settings: Settings, now: Time) -> Self {
        let mut naive = Self {
            settings,
            flows: [BTreeMap::new(), BTreeMap::new()],
            counts: [1; 2],
            queues: [VecDeque::new(), VecDeque::new()],
            room: [0; 2],
            sent: [0; 2],
            debt: 0,
            low_delay_packet: 0,
            update_at: now + UPDATE_INTERVAL,
        };
        naive.size(now, &mut Vec::new());
        naive
    }

    fn backlog(&self, class: usize) -> u128 {
        self.queues[class].iter().map(|(_, bytes, _)| u128::from(*bytes)).sum()
    }

    /// `k·n_R` and `n_D`, both in thousandths.
    fn shares(&self) -> [u128; 2] {
        [u128::from(self.settings.ratio_milli) * self.counts[R], 1_000 * self.counts[D]]
    }

    /// Equations 6 to 9: `B_D` by increasing d until a packet fits.
    fn size(&mut self, now: Time, dropped: &mut Vec<(u32, Dropped)>) {
        let [of_r, of_d] = self.shares();
        let (s_d, s_r) = (self.low_delay_packet, u128::from(self.settings.packet.count()));
        let before = self.room[D];
        let link = |d: Duration| u128::from(self.settings.capacity.bytes_in(d).unwrap_or(Bytes::MAX).count());
        let room = |sent: u128| {
            (sent * of_d).checked_sub(2 * (s_d * of_r + s_r * of_d)).map(|room| room / (of_r + of_d))
        };
        let mut sent = link(self.settings.delay);
        while room(sent).is_none_or(|room| room < s_d) {
            sent += 1;
        }
        let buffer = u128::from(self.settings.buffer.count());
        self.room[D] = room(sent).unwrap_or(0).min(buffer - s_r);
        self.room[R] = (buffer - self.room[D]).min(u128::from(self.settings.high_rate_buffer.count()));
        if self.room[D] < before {
            self.discard(now, dropped);
        }
        while self.backlog(R) > self.room[R] {
            dropped.extend(self.queues[R].pop_back().map(|(packet, ..)| (packet, Dropped::Trimmed)));
        }
    }

    /// All, or one after the other those that would be late.
    fn discard(&mut self, now: Time, dropped: &mut Vec<(u32, Dropped)>) {
        let ([of_r, of_d], room) = (self.shares(), self.room[D]);
        let mut kept = 0;
        let mut stays = |(packet, bytes, since): &Waiting| {
            let waited = self.settings.capacity.bytes_in(now.saturating_since(*since)).unwrap_or(Bytes::MAX);
            let sent = (u128::from(waited.count()) * of_d).div_ceil(of_r + of_d);
            let is_late = match self.settings.discards {
                Discards::All => true,
                Discards::None => false,
                Discards::Late => kept + u128::from(*bytes) + sent > room,
            };
            if is_late {
                dropped.push((*packet, Dropped::Flushed));
            } else {
                kept += u128::from(*bytes);
            }
            !is_late
        };
        self.queues[D].retain(|waiting| stays(waiting));
    }

    /// Figure 5.
    fn update(&mut self, now: Time, dropped: &mut Vec<(u32, Dropped)>) {
        if now < self.update_at {
            return;
        }
        let is_on_time = now.saturating_since(self.update_at) < UPDATE_INTERVAL;
        self.update_at = if is_on_time { self.update_at } else { now } + UPDATE_INTERVAL;
        for flows in &mut self.flows {
            flows.retain(|_, last| *last + FLOW_EXPIRY.as_millis() >= millis(now));
        }
        if self.flows[D].is_empty() && self.queues[D].is_empty() {
            self.low_delay_packet = 0;
        }
        self.counts = [R, D].map(|class| (self.flows[class].len() as u128).max(1));
        self.sent = [0, -self.debt];
        self.size(now, dropped);
    }

    /// Figure 3.
    pub(crate) fn enqueue(&mut self, arrival: Arrival<u32>, now: Time) -> Vec<(u32, Dropped)> {
        let mut dropped = Vec::new();
        self.update(now, &mut dropped);
        let Arrival { packet, bytes, class, flow, .. } = arrival;
        let class = if class == Class::LowDelay { D } else { R };
        if u64::from(bytes) > self.settings.packet.count() {
            dropped.push((packet, Dropped::TooLong));
            return dropped;
        }
        self.flows[class].insert(flow, millis(now));
        if class == D && u128::from(bytes) > self.low_delay_packet {
            self.low_delay_packet = u128::from(bytes);
            self.size(now, &mut dropped);
        }
        if self.backlog(class) + u128::from(bytes) <= self.room[class] {
            self.queues[class].push_back((packet, bytes, now));
        } else {
            dropped.push((packet, Dropped::Full));
        }
        dropped
    }

    /// Figure 4.
    pub(crate) fn dequeue(&mut self, now: Time) -> (Option<u32>, Vec<(u32, Dropped)>) {
        let mut dropped = Vec::new();
        self.update(now, &mut dropped);
        let [of_r, of_d] = self.shares().map(|share| i128::try_from(share).expect("counts are small"));
        let is_backlogged = [R, D].map(|class| !self.queues[class].is_empty());
        let class = match is_backlogged {
            [true, true] if of_r * self.sent[D] > of_d * self.sent[R] => R,
            [_, true] => D,
            [true, false] => R,
            [false, false] => return (None, dropped),
        };
        let (packet, bytes, _) = self.queues[class].pop_front().expect("it is backlogged");
        let bytes = i128::from(bytes);
        match is_backlogged {
            [true, true] => {
                self.sent[class] += bytes;
                self.debt = ((self.sent[R] * of_d + of_r - 1) / of_r - self.sent[D]).max(0);
            }
            [true, false] => (self.sent, self.debt) = ([0; 2], 0),
            _ => {
                self.debt = (self.debt - bytes).max(0);
                self.sent = [0, -self.debt];
            }
        }
        (Some(packet), dropped)
    }
}
