//! Delay-based window of a flow without state, or behind a bottleneck outside the table.

use byway_units::{Duration, Time};

use crate::limits::{
    BACKOFF, CALM_ROUNDS, CALM_STEP_PART, CONGESTION_LOSS_SHARE, CONGESTION_LOSSES, FALLBACK_GAIN,
    FALLBACK_PACKETS_MIN, LEAST_RTT_PERIOD, LOSS_COUNT_PACKETS, ROUND_TRIP_SECONDS_MIN,
};

/// Round trip above the base delay at which doubling ends, in seconds and as a part of it (RFC
/// 9406, section 4.2).
const DOUBLING_RISE_SECONDS: f64 = 0.004;
const DOUBLING_RISE_PART: f64 = 0.125;

/// Packets whose least round trip is certain (RFC 9406, section 4.2).
const DOUBLING_SAMPLE_PACKETS: f64 = 4.0;

/// Acknowledgment, as a delay-based window sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckedBytes {
    pub(crate) bytes: f64,
    pub(crate) round_trip: Duration,
    /// Bytes of the flow that should wait.
    pub(crate) target: f64,
    pub(crate) is_app_limited: bool,
}

/// Window that keeps a target of own bytes queued (FAST TCP: Jin, Wei and Low, INFOCOM 2004,
/// section IV). Its equilibrium is that of the window from the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayWindow {
    window: f64,
    packet: f64,
    /// Round trip without queues, in seconds; infinite as long as there is none.
    base: f64,
    is_doubling: bool,
    /// Rounds in a row without an own queue.
    calm_rounds: u32,
    round: Round,
    sample: Sample,
    losses: LossCount,
    /// Window before losses reduced it, unless there were others since.
    before_losses: Option<f64>,
    /// Beginning of the time at the least window, and the least round trip since.
    floor: Option<(Time, f64)>,
}

/// Observations of one round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Window at its beginning: round trips show the queue that this one makes.
    window: f64,
    ends_at: Option<Time>,
    /// Least round trip.
    least: f64,
    is_app_limited: bool,
    is_marked: bool,
}

impl Round {
    const fn new(window: f64, ends_at: Option<Time>) -> Self {
        Self { window, ends_at, least: f64::INFINITY, is_app_limited: false, is_marked: false }
    }
}

/// Observations of some packets while the window doubles.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Least round trip.
    least: f64,
    /// Acknowledged bytes.
    acked: f64,
}

impl Sample {
    const fn new() -> Self {
        Self { least: f64::INFINITY, acked: 0.0 }
    }
}

impl DelayWindow {
    /// Begins with the window of a new flow, and doubles it until a queue builds up.
    pub(crate) fn doubling(window: f64, packet: f64) -> Self {
        Self { is_doubling: true, ..Self::begun_at(window, packet, f64::INFINITY) }
    }

    /// Begins at `window` bytes, on a path whose round trip without queues has `base` seconds.
    pub(crate) fn begun_at(window: f64, packet: f64, base: f64) -> Self {
        let window = window.max(FALLBACK_PACKETS_MIN * packet);
        Self {
            window,
            packet,
            base,
            is_doubling: false,
            calm_rounds: 0,
            round: Round::new(window, None),
            sample: Sample::new(),
            losses: LossCount::default(),
            before_losses: None,
            floor: None,
        }
    }

    /// Changes the bytes of a packet.
    pub(crate) fn set_packet(&mut self, packet: f64) {
        self.packet = packet;
        self.window = self.window.max(FALLBACK_PACKETS_MIN * packet);
    }

    /// Returns the bytes that may be in flight.
    pub(crate) const fn window(&self) -> f64 {
        self.window
    }

    /// Returns the round trip without queues in seconds, if it is known.
    pub(crate) fn base(&self) -> Option<f64> {
        self.base.is_finite().then_some(self.base)
    }

    /// True while the window doubles in each round trip.
    pub(crate) const fn is_doubling(&self) -> bool {
        self.is_doubling
    }

    pub(crate) fn on_ack(&mut self, ack: AckedBytes, now: Time) {
        let round_trip = ack.round_trip.as_secs_f64().max(ROUND_TRIP_SECONDS_MIN);
        self.base = self.base.min(round_trip);
        self.round.least = self.round.least.min(round_trip);
        self.round.is_app_limited |= ack.is_app_limited;
        self.losses.packets += ack.bytes / self.packet;
        if self.is_doubling {
            self.double(ack, round_trip);
        }
        let ends_at = *self.round.ends_at.get_or_insert(now.saturating_add(ack.round_trip));
        if now >= ends_at {
            self.end_round(ack.target, now);
            self.round = Round::new(self.window, Some(now.saturating_add(ack.round_trip)));
        }
    }

    /// Grows the window by the acknowledged bytes, or ends doubling if a queue builds up.
    fn double(&mut self, ack: AckedBytes, round_trip: f64) {
        if !ack.is_app_limited {
            self.window += ack.bytes;
        }
        self.sample.least = self.sample.least.min(round_trip);
        self.sample.acked += ack.bytes;
        if self.sample.acked < DOUBLING_SAMPLE_PACKETS * self.packet {
            return;
        }
        let rise = (DOUBLING_RISE_PART * self.base).max(DOUBLING_RISE_SECONDS);
        if self.sample.least > self.base + rise {
            self.is_doubling = false;
            self.window = self.base / self.sample.least * self.round.window + ack.target;
        }
        self.sample = Sample::new();
    }

    /// Handles the loss of so many bytes.
    pub(crate) fn on_loss(&mut self, bytes: f64) {
        self.losses.lost += bytes / self.packet;
        self.losses.packets += bytes / self.packet;
        self.before_losses = None;
    }

    /// Handles that all packets arrived that counted as lost: the window is what it was before.
    pub(crate) fn on_spurious_loss(&mut self) {
        self.losses = LossCount::default();
        if let Some(before) = self.before_losses.take() {
            self.window = self.window.max(before);
        }
    }

    /// Handles a mark of congestion (ECN).
    pub(crate) const fn on_mark(&mut self) {
        self.round.is_marked = true;
    }

    /// Falls back to the least window, after a time without any acknowledgment.
    pub(crate) fn collapse(&mut self) {
        // The losses have had their effect.
        (self.before_losses, self.losses) = (Some(self.window), LossCount::default());
        self.window = FALLBACK_PACKETS_MIN * self.packet;
        (self.is_doubling, self.calm_rounds) = (false, 0);
    }

    fn end_round(&mut self, target: f64, now: Time) {
        let (least, floor) = (self.round.least, FALLBACK_PACKETS_MIN * self.packet);
        let is_loss = self.losses.is_congestion();
        if is_loss || self.round.is_marked {
            self.before_losses = (!self.round.is_marked).then_some(self.window);
            self.window *= BACKOFF;
            self.losses = LossCount::default();
            (self.is_doubling, self.calm_rounds) = (false, 0);
        } else if !self.is_doubling {
            let own = self.window * (1.0 - self.base / least);
            self.calm_rounds = if own < target / 2.0 { self.calm_rounds.saturating_add(1) } else { 0 };
            let next = self.base / least * self.window + self.step(target);
            let change = FALLBACK_GAIN * (next - self.window);
            // An application that leaves the window empty does not show that more would fit.
            self.window += if self.round.is_app_limited { change.min(0.0) } else { change };
        }
        self.window = self.window.max(floor);
        self.learn_route(now);
    }

    /// Returns the bytes that the window may grow by: the target, doubled in each round after some
    /// without an own queue, up to a part of the window.
    fn step(&self, target: f64) -> f64 {
        let doublings = self.calm_rounds.saturating_sub(CALM_ROUNDS).min(16);
        (target * f64::from(1_u32 << doublings)).min(target.max(CALM_STEP_PART * self.window))
    }

    /// Accepts a longer route. If the least window does not shorten the round trip in 10 s, no own
    /// queue does so, and the path is longer than it was.
    fn learn_route(&mut self, now: Time) {
        if self.window > FALLBACK_PACKETS_MIN * self.packet {
            self.floor = None;
            return;
        }
        let (since, least) = self.floor.unwrap_or((now, f64::INFINITY));
        let least = least.min(self.round.least);
        if now.saturating_since(since) < LEAST_RTT_PERIOD {
            self.floor = Some((since, least));
        } else {
            (self.base, self.floor) = (least, None);
        }
    }
}

/// Losses among the last packets.
#[derive(Clone, Copy, Debug, Default)]
struct LossCount {
    lost: f64,
    packets: f64,
}

impl LossCount {
    /// True if the losses are congestion. Starts a new count after enough packets.
    fn is_congestion(&mut self) -> bool {
        let is_congestion =
            self.lost >= CONGESTION_LOSSES && self.lost >= CONGESTION_LOSS_SHARE * self.packets;
        if self.packets >= LOSS_COUNT_PACKETS {
            *self = Self::default();
        }
        is_congestion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: f64 = 1_500.0;

    /// Path with a fluid queue: 625,000 bytes per second, and so many seconds of base delay.
    struct TestPath {
        rate: f64,
        base: f64,
        now: Time,
    }

    impl TestPath {
        /// Returns the bytes that wait after so many round trips with this window.
        fn run(&mut self, window: &mut DelayWindow, rounds: usize) -> f64 {
            let mut queue = 0.0;
            for _ in 0..rounds {
                queue = (window.window() - self.rate * self.base).max(0.0);
                let round_trip =
                    Duration::from_nanos(crate::convert::nearest(1e9 * (self.base + queue / self.rate)));
                self.now += round_trip;
                let bytes = window.window();
                let ack = AckedBytes { bytes, round_trip, target: PACKET, is_app_limited: false };
                window.on_ack(ack, self.now);
            }
            queue
        }
    }

    fn path(base: f64) -> TestPath {
        TestPath { rate: 625_000.0, base, now: Time::START }
    }

    #[test]
    fn the_target_waits_whether_the_window_was_too_large_or_too_small() {
        for begun_at in [40_000.0, 64_000.0, 120_000.0] {
            let (mut path, mut window) = (path(0.1), DelayWindow::begun_at(begun_at, PACKET, 0.1));
            let queue = path.run(&mut window, 60);
            assert!((1_000.0..2_000.0).contains(&queue), "{begun_at} {queue}");
        }
    }

    #[test]
    fn a_new_flow_doubles_until_a_queue_builds_up() {
        let (mut path, mut window) = (path(0.1), DelayWindow::doubling(10.0 * PACKET, PACKET));
        assert!(window.is_doubling() && window.base().is_none());
        path.run(&mut window, 6);
        assert!(!window.is_doubling() && window.window() < 80_000.0, "{}", window.window());
        let queue = path.run(&mut window, 60);
        assert!((1_000.0..2_000.0).contains(&queue), "{queue}");
    }

    #[test]
    fn capacity_that_became_free_is_used_within_fifteen_round_trips() {
        let (mut path, mut window) = (path(0.1), DelayWindow::begun_at(64_000.0, PACKET, 0.1));
        path.run(&mut window, 10);
        path.rate *= 2.0;
        path.run(&mut window, 15);
        assert!(window.window() > 120_000.0, "{}", window.window());
    }

    #[test]
    fn frequent_losses_and_marks_reduce_the_window_and_single_losses_do_not() {
        let start = || (path(0.1), DelayWindow::begun_at(64_000.0, PACKET, 0.1));
        let (mut path, mut window) = start();
        window.on_loss(2.0 * PACKET);
        path.run(&mut window, 2);
        assert!(window.window() > 62_000.0);
        window.on_loss(PACKET);
        path.run(&mut window, 1);
        assert!(window.window() < 46_000.0, "three of 129 packets");
        let (mut path, mut window) = start();
        path.run(&mut window, 1);
        window.on_mark();
        path.run(&mut window, 1);
        assert!(window.window() < 46_000.0);
        window.collapse();
        assert!(window.window() < 6_001.0);
    }

    #[test]
    fn a_reduction_by_losses_that_were_none_is_undone_and_no_other_one() {
        let start = || {
            let (mut path, mut window) = (path(0.1), DelayWindow::begun_at(64_000.0, PACKET, 0.1));
            path.run(&mut window, 1);
            (path, window)
        };
        let (mut path, mut window) = start();
        window.on_loss(4.0 * PACKET);
        path.run(&mut window, 1);
        assert!(window.window() < 46_000.0);
        window.on_spurious_loss();
        assert!((window.window() - 64_000.0).abs() < 1.0);
        window.on_loss(PACKET);
        window.collapse();
        window.on_spurious_loss();
        assert!((window.window() - 64_000.0).abs() < 1.0, "all packets were late, none was lost");
        // A later single loss does not undo the effect of earlier ones.
        window.on_loss(4.0 * PACKET);
        path.run(&mut window, 1);
        window.on_loss(PACKET);
        window.on_spurious_loss();
        assert!(window.window() < 46_000.0);
        let (mut path, mut window) = start();
        window.on_mark();
        path.run(&mut window, 1);
        window.on_spurious_loss();
        assert!(window.window() < 46_000.0, "a mark is no loss");
    }

    #[test]
    fn an_application_that_leaves_the_window_empty_does_not_grow_it() {
        let mut window = DelayWindow::begun_at(30_000.0, PACKET, 0.1);
        for round in 1..50 {
            let ack = AckedBytes {
                bytes: 3_000.0,
                round_trip: Duration::from_millis(100),
                target: PACKET,
                is_app_limited: true,
            };
            window.on_ack(ack, Time::START + Duration::from_millis(100) * round);
        }
        assert!(window.window() < 30_001.0);
    }

    #[test]
    fn a_longer_route_is_learned_after_ten_seconds_at_the_least_window() {
        let (mut path, mut window) = (path(0.1), DelayWindow::begun_at(64_000.0, PACKET, 0.1));
        path.run(&mut window, 10);
        path.base = 0.25;
        path.run(&mut window, 20);
        assert!(window.window() < 6_001.0, "{}", window.window());
        path.run(&mut window, 100);
        assert!(window.base() > Some(0.24) && window.window() > 150_000.0, "{}", window.window());
    }

    #[test]
    fn round_trips_of_zero_and_for_ever_are_harmless() {
        let mut window = DelayWindow::doubling(15_000.0, PACKET);
        for (round, millis) in [0, 0, u64::MAX / 1_000_000, 0, 100].into_iter().enumerate() {
            let round_trip = Duration::from_millis(millis);
            let ack = AckedBytes { bytes: 1e18, round_trip, target: PACKET, is_app_limited: false };
            window.on_ack(ack, Time::START + Duration::from_secs(round as u64));
            assert!(window.window().is_finite());
        }
    }
}
