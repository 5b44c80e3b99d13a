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
//! | a queue grows on most direct paths that lose packets | falls by one a second, and does not rise |
//!
//! The last rule is that of RFC 9265: repair packets would take the capacity that the flow's
//! congestion control has to yield. A single receiver that reports growth does not lower it for
//! others that lose packets.

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
    /// Flows that lost packets beside a growing queue, as bits by [`bit_of`].
    growing: u64,
    /// Flows that lost packets without one.
    steady: u64,
}

/// Redundancy of the batches of one tenant's flows in a coding group.
#[derive(Clone, Debug)]
pub struct Redundancy {
    /// Number of source packets of a full batch.
    batch_packets: u8,
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
    /// Losses raise it to half of the batch at most, because a cached copy costs little more and
    /// repairs more.
    #[must_use]
    pub fn new(batch_packets: u8, batch_repairs: u8) -> Self {
        let max = Self::max_repairs(batch_packets, batch_repairs);
        Self {
            batch_packets,
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

    /// Records that another flow takes part, whose losses are unknown.
    pub const fn on_join(&mut self) {
        self.since = None;
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

    /// Counts the losses of a flow, by its number, that an egress relay reports. `queue_grows` is
    /// true if the flow lost more packets, beside a growing queue, which are not among them.
    pub fn on_losses(&mut self, flow: u32, losses: LossesByBatch, queue_grows: bool, now: Time) {
        self.advance(now);
        let second = self.second(self.latest);
        if queue_grows {
            second.growing |= bit_of(flow);
        } else {
            second.steady |= bit_of(flow);
        }
        if queue_grows && self.queues_grow() {
            self.lower(now);
        }
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

    /// Lowers the number of repair packets by one, if the last time was a second ago.
    fn lower(&mut self, now: Time) {
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
        let is_registered = self.is_new(now) || now < self.open_ended_until;
        let repairs = if is_registered { by_losses.max(self.registered) } else { by_losses };
        repairs.min(if now < self.cap_until { self.cap } else { self.max })
    }

    /// Returns the number of repair packets of a batch of `size` packets. It is at most half of
    /// them, or the registered share if that is more, rounded up. A packet alone in its batch gets
    /// none where blocks repair it.
    pub fn repairs_of(&mut self, size: u8, now: Time) -> u8 {
        if size == 1 && self.alone > 0 {
            return 0;
        }
        let registered = (usize::from(size) * usize::from(self.registered))
            .div_ceil(usize::from(self.batch_packets.max(1)));
        let registered = u8::try_from(registered).unwrap_or(u8::MAX);
        self.repairs(now).min(size.div_ceil(2).max(registered))
    }

    /// True if queues grow, in this second or the one before, on the direct paths of most flows
    /// that lost packets in the window.
    fn queues_grow(&self) -> bool {
        let age = |ages: u64| 0..ages.min(self.latest + 1);
        let second = |age: u64| &self.seconds[slot_of(self.latest - age)];
        let growing = age(2).fold(0, |all, age| all | second(age).growing);
        let window = age(LOSS_WINDOW_SECONDS as u64);
        let steady = window.fold(0, |all, age| all | second(age).steady) & !growing;
        growing.count_ones() > steady.count_ones()
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

/// Returns the bit of a flow. Flows whose numbers are a multiple of 64 apart share one.
const fn bit_of(flow: u32) -> u64 {
    1 << (flow % u64::BITS)
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
