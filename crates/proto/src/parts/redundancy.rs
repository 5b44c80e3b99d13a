//! Number of repair packets of a batch, by the losses of the batches before.
//!
//! An egress relay reports lost packets by the losses of their batch. [`Redundancy`] returns the
//! smallest number r of repair packets for which the packets lost in batches with more than r
//! losses are within the loss target. The window is 30 s, and the latest 5 s count as much as the
//! 25 s before. Losses beyond r are fetched, where the latency budget allows it.
//!
//! | event | r |
//! |---|---|
//! | nothing was lost in the window | 0 |
//! | the flows are new | at least the registered number |
//! | an open-ended NACK is in force | at least the registered number |
//! | the queueing delay of a direct path grows | falls by one in each second, and does not rise |
//!
//! The last rule is that of RFC 9265: repair packets would take the capacity that the flow's
//! congestion control has to yield.

use byway_units::{Duration, Time};
use byway_wire::messages::LOSS_CLASSES;

use crate::limits::{
    BATCH_REPAIRS_MAX, LOSS_REPORT_BELIEVED_FOR, LOSS_TARGET_INVERSE, LOSS_WEIGHT, LOSS_WEIGHTED_SECONDS,
    LOSS_WINDOW_SECONDS, REDUNDANCY_FIXED_FOR, REDUNDANCY_FORGOTTEN_AFTER,
};

const _: () = assert!(BATCH_REPAIRS_MAX == LOSS_CLASSES, "a report shows which repair packets suffice");

/// Lost packets, by the losses of their batch: one, two, three, and four or more.
pub type LossesByBatch = [i16; LOSS_CLASSES];

/// Packets and losses of one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    packets: u32,
    losses: [i32; LOSS_CLASSES],
}

/// Redundancy of the batches of one tenant's flows in a coding group.
#[derive(Clone, Debug)]
pub struct Redundancy {
    /// Number of repair packets that the flows registered for a full batch.
    registered: u8,
    /// Largest number of repair packets.
    max: u8,
    seconds: [Second; LOSS_WINDOW_SECONDS],
    /// Number of the latest second of the window, since the start of time.
    latest: u64,
    /// Time of the first packet since the flows were last forgotten; `None` before it.
    since: Option<Time>,
    last_packet: Time,
    open_ended_until: Time,
    /// Upper bound of the number of repair packets while a queue grows.
    cap: u8,
    cap_until: Time,
    lowered_at: Option<Time>,
    /// Number of repair packets by the losses of the window, while these have not changed.
    by_losses: Option<u8>,
    /// Recent batches of one packet, less those of more, within bounds.
    alone: i8,
}

/// Bound on the score of batches with one packet: after a change of traffic, this many batches
/// suffice to learn it.
const ALONE_MAX: i8 = 8;

impl Redundancy {
    /// Creates the redundancy of batches of at most `batch_packets` packets, whose flows registered
    /// `batch_repairs` repair packets.
    ///
    /// It is at most half of the batch, because a cached copy costs little more and repairs more.
    #[must_use]
    pub fn new(batch_packets: u8, batch_repairs: u8) -> Self {
        let max = Self::max_repairs(batch_packets, batch_repairs);
        Self {
            registered: batch_repairs.min(max),
            max,
            seconds: [Second::default(); LOSS_WINDOW_SECONDS],
            latest: 0,
            since: None,
            last_packet: Time::START,
            open_ended_until: Time::START,
            cap: max,
            cap_until: Time::START,
            lowered_at: None,
            by_losses: Some(0),
            alone: 0,
        }
    }

    /// Returns the largest number of repair packets for batches of this shape.
    #[must_use]
    pub fn max_repairs(batch_packets: u8, batch_repairs: u8) -> u8 {
        let limit = u8::try_from(BATCH_REPAIRS_MAX).unwrap_or(u8::MAX);
        batch_packets.div_ceil(2).max(batch_repairs).min(limit)
    }

    /// Counts a source packet of the flows.
    pub fn on_packet(&mut self, now: Time) {
        self.advance(now);
        if now.saturating_since(self.last_packet) >= REDUNDANCY_FORGOTTEN_AFTER {
            self.since = None;
        }
        self.since.get_or_insert(now);
        self.last_packet = now;
        let second = self.second(self.latest);
        second.packets = second.packets.saturating_add(1);
        // More packets can only lower the share, so they are counted in when the second ends.
    }

    /// Counts the losses that an egress relay reports.
    pub fn on_losses(&mut self, losses: LossesByBatch, now: Time) {
        self.advance(now);
        let second = self.second(self.latest);
        for (counted, reported) in second.losses.iter_mut().zip(losses) {
            *counted = counted.saturating_add(reported.into());
        }
        self.by_losses = None;
    }

    /// Records that an open-ended NACK of a flow is in force.
    pub fn on_open_ended_nack(&mut self, now: Time) {
        self.open_ended_until = now + LOSS_REPORT_BELIEVED_FOR;
    }

    /// Records that a direct path lost packets while its queueing delay grew.
    pub fn on_queue_growth(&mut self, now: Time) {
        let repairs = self.repairs(now);
        let is_due = |at: Time| now.saturating_since(at) >= Duration::from_secs(1);
        if self.lowered_at.is_none_or(is_due) {
            self.cap = repairs.saturating_sub(1);
            self.lowered_at = Some(now);
        }
        self.cap_until = now + LOSS_REPORT_BELIEVED_FOR;
    }

    /// Records the number of packets of a closed batch.
    pub fn on_batch(&mut self, packets: usize) {
        let step = if packets == 1 { 1 } else { -1 };
        self.alone = (self.alone + step).clamp(-ALONE_MAX, ALONE_MAX);
    }

    /// Returns the number of repair packets of a full batch.
    pub fn repairs(&mut self, now: Time) -> u8 {
        self.advance(now);
        let by_losses = *self.by_losses.get_or_insert_with(|| repairs_by_losses(&self.seconds, self.latest));
        let capped = if now < self.cap_until { by_losses.min(self.cap) } else { by_losses.min(self.max) };
        let is_open = now < self.open_ended_until;
        if self.is_new(now) || is_open { capped.max(self.registered) } else { capped }
    }

    /// True if in-stream blocks get repair packets, too: batches of several packets repair more at
    /// the same cost, but a flow may be alone in its group.
    pub fn repairs_blocks(&mut self, now: Time) -> bool {
        self.is_new(now) || (self.alone > 0 && self.repairs(now) > 0)
    }

    /// True if the flows are so new that their losses are unknown.
    fn is_new(&self, now: Time) -> bool {
        self.since.is_none_or(|since| now.saturating_since(since) < REDUNDANCY_FIXED_FOR)
    }

    /// Begins the seconds that have passed.
    fn advance(&mut self, now: Time) {
        let second = now.as_nanos() / 1_000_000_000;
        if second <= self.latest {
            return;
        }
        let passed = (second - self.latest).min(LOSS_WINDOW_SECONDS as u64);
        for begun in second + 1 - passed..=second {
            *self.second(begun) = Second::default();
        }
        self.latest = second;
        self.by_losses = None;
    }

    fn second(&mut self, number: u64) -> &mut Second {
        &mut self.seconds[slot_of(number)]
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the remainder is below the window's length")]
const fn slot_of(second: u64) -> usize {
    (second % LOSS_WINDOW_SECONDS as u64) as usize
}

/// Returns the smallest number of repair packets for which the losses of larger batches are within
/// the loss target.
fn repairs_by_losses(seconds: &[Second; LOSS_WINDOW_SECONDS], latest: u64) -> u8 {
    let (mut packets, mut losses) = (0_u64, [0_i64; LOSS_CLASSES]);
    for age in 0..(LOSS_WINDOW_SECONDS as u64).min(latest + 1) {
        let weight = if age < LOSS_WEIGHTED_SECONDS { LOSS_WEIGHT } else { 1 };
        let second = &seconds[slot_of(latest - age)];
        packets += weight * u64::from(second.packets);
        for (sum, lost) in losses.iter_mut().zip(second.losses) {
            *sum += i64::from(lost) * weight.cast_signed();
        }
    }
    let mut repairs = losses.len();
    let mut beyond = 0;
    while repairs > 0 {
        beyond += losses[repairs - 1].max(0).unsigned_abs();
        if beyond * LOSS_TARGET_INVERSE > packets {
            break;
        }
        repairs -= 1;
    }
    u8::try_from(repairs).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
