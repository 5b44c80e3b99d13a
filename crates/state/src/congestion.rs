//! Congestion control of one flow.

use byway_units::{Bytes, Duration, Rate, Time};

use crate::convert::{bytes, bytes_per_second, float, rate, seconds};
use crate::delay_window::{AckedBytes, DelayWindow};
use crate::delivery::{AckSize, DeliveryRate};
use crate::limits::{
    BURST_PACKETS, DOUBLING_PACING_GAIN, FALLBACK_PACING_GAIN, FALLBACK_TARGET_SECONDS, INITIAL_PACKETS,
    PACED_PACKETS_MIN, PACING_GAIN, PUBLISHED_PACING_GAIN, STATE_AGE_MAX, TARGET_BACKLOG, UNEXPLAINED_PART,
    UNEXPLAINED_ROUNDS, UNEXPLAINED_SECONDS, WINDOW_PACKETS_MAX, WINDOW_PACKETS_MIN,
};
use crate::packets::{PacketSize, Rounding};
use crate::path_entry::PathEntry;
use crate::ramp::Ramp;
use crate::rest::RestOfPath;
use crate::rules::{Corrections, Rules};
use crate::window::{Decision, Window};

/// Acknowledgment of a flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Newly acknowledged bytes, as the transport counts them.
    pub bytes: Bytes,
    /// Newly acknowledged packets.
    pub packets: u32,
    /// Round trip of the newest one, without the receiver's delay.
    pub round_trip: Duration,
    /// True if the sender had nothing to send, and its window was not full.
    pub is_app_limited: bool,
}

/// Sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Lost bytes, as the transport counts them.
    Lost(Bytes),
    /// Mark of a router (ECN).
    Marked,
    /// Persistent congestion (RFC 9002, section 7.6): nothing was acknowledged for long.
    Persistent,
}

/// Pacing of a flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Rate in the transport's bytes: two packets a second at least.
    pub rate: Rate,
    /// Most bytes sent at once, as the transport counts them: two packets.
    pub burst: Bytes,
}

/// Basis of a flow's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guidance {
    /// Network state.
    State,
    /// Network state, and delay: round trips are longer than the table explains, or packets were
    /// lost.
    StateAndDelay,
    /// Delay: the state is missing, too old, or wrong, because round trips are shorter than the
    /// table says.
    Delay,
}

/// Congestion control of one flow, from network state where there is some.
///
/// # Inputs
/// - [`on_forward_entry`](Self::on_forward_entry) and [`on_back_entry`](Self::on_back_entry): each
///   path entry, in order. A new flow begins with those of the last 2 s.
/// - [`on_sent`](Self::on_sent), [`on_ack`](Self::on_ack),
///   [`on_congestion`](Self::on_congestion), [`on_spurious_loss`](Self::on_spurious_loss) and
///   [`set_packet_size`](Self::set_packet_size): events of the transport.
///
/// # Outputs
/// After any input: [`window`](Self::window), [`pacing`](Self::pacing), and for a receiver that
/// requests data [`request_window`](Self::request_window). The receiver should acknowledge every
/// second packet.
///
/// A flow without state is an ordinary flow with a delay-based window.
#[derive(Clone, Debug)]
pub struct CongestionControl {
    packets: PacketSize,
    rules: Rules,
    window: Window,
    decision: Option<Decision>,
    delivery: DeliveryRate,
    acks: AckSize,
    rounding: Rounding,
    rest: RestOfPath,
    ramp: Ramp,
    fallback: Option<Fallback>,
    /// Beginning of the time in which no round trip was explained.
    unexplained_since: Option<Time>,
}

/// Delay-based window, and the reason for it.
#[derive(Clone, Copy, Debug)]
struct Fallback {
    delay: DelayWindow,
    reason: FallbackReason,
    /// Beginning of the time in which the window would not have been a limit.
    ample_since: Option<Time>,
}

/// Reason for a delay-based window. A later one replaces those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FallbackReason {
    /// Round trips are longer than the state explains, or packets were lost.
    OtherBottleneck,
    /// Round trips are shorter than the state says.
    WrongState,
    /// There is no state, or it is too old.
    MissingState,
}

impl CongestionControl {
    /// Creates the congestion control of a new flow, without state.
    #[must_use]
    pub fn new(packets: PacketSize, rules: Rules) -> Self {
        let packet = float(packets.packet().count());
        let initial = float(INITIAL_PACKETS) * packet;
        let delay = DelayWindow::doubling(initial, packet);
        Self {
            packets,
            rules,
            window: Window::new(rules),
            decision: None,
            delivery: DeliveryRate::new(),
            acks: AckSize::new(),
            rounding: Rounding::new(),
            rest: RestOfPath::new(),
            ramp: Ramp::new(initial),
            fallback: Some(Fallback { delay, reason: FallbackReason::MissingState, ample_since: None }),
            unexplained_since: None,
        }
    }

    /// Changes the sizes of packets, as path MTU discovery does.
    pub fn set_packet_size(&mut self, packets: PacketSize) {
        self.packets = packets;
        if let Some(fallback) = &mut self.fallback {
            fallback.delay.set_packet(float(packets.packet().count()));
        }
    }

    /// Handles an entry of the direction in which the flow sends.
    pub fn on_forward_entry(&mut self, entry: &PathEntry, now: Time) {
        self.window.on_forward_entry(entry, now);
        self.decide(now);
    }

    /// Handles an entry of the opposite direction.
    pub fn on_back_entry(&mut self, entry: &PathEntry, now: Time) {
        self.window.on_back_entry(entry, now);
        self.decide(now);
    }

    /// Handles a packet that is sent.
    pub fn on_sent(&mut self, now: Time) {
        self.ramp.on_sent(now);
    }

    /// Handles an acknowledgment.
    pub fn on_ack(&mut self, ack: Ack, now: Time) {
        let acked = self.packets.with_headers(ack.bytes);
        self.delivery.on_ack(bytes(acked), now);
        self.acks.on_ack(ack.packets);
        self.rounding.on_ack(acked, self.limit(), now);
        let target = self.delay_target(now);
        if let Some(fallback) = &mut self.fallback {
            let Ack { round_trip, is_app_limited, .. } = ack;
            fallback.delay.on_ack(AckedBytes { bytes: acked, round_trip, target, is_app_limited }, now);
        }
        if let Some(decision) = self.decision {
            self.ramp.on_ack(acked, float(decision.window.count()));
            if self.corrects() && self.reason() != Some(FallbackReason::MissingState) {
                self.on_round_trip(ack.round_trip, now);
            }
        }
        self.update_guidance(now);
    }

    /// Handles a sign of congestion.
    pub fn on_congestion(&mut self, congestion: Congestion, now: Time) {
        if !self.corrects() {
            return;
        }
        self.begin_fallback(FallbackReason::OtherBottleneck, now);
        let Some(Fallback { delay, .. }) = &mut self.fallback else { return };
        match congestion {
            Congestion::Lost(lost) => delay.on_loss(self.packets.with_headers(lost)),
            Congestion::Marked => delay.on_mark(),
            Congestion::Persistent => delay.collapse(),
        }
    }

    /// Handles that all packets arrived that the transport reported as lost. A reduction that they
    /// caused is undone.
    pub fn on_spurious_loss(&mut self) {
        if let Some(fallback) = &mut self.fallback {
            fallback.delay.on_spurious_loss();
        }
    }

    /// Returns the bytes that may be in flight, as the transport counts them: a number of full
    /// packets, at least two.
    #[must_use]
    pub fn window(&self) -> Bytes {
        // Rounded up: a window that is rounded down leaves 98.4 % of a link at 5 Mbit/s.
        let whole = if self.corrects() {
            let window = self.limit() / float(self.packets.packet().count());
            self.rounding.packets(window + self.acks.surplus())
        } else {
            bytes(self.limit()).count().div_ceil(self.packets.packet().count())
        };
        self.packets.payload_of(whole.clamp(WINDOW_PACKETS_MIN, WINDOW_PACKETS_MAX))
    }

    /// Returns the pacing of packets.
    #[must_use]
    pub fn pacing(&self) -> Pacing {
        let gain = if self.corrects() { PACING_GAIN } else { PUBLISHED_PACING_GAIN };
        let by_state = self.decision.map(|decision| rate_times(decision.rate, gain));
        let by_delay = self.fallback.and_then(|fallback| paced_window(&fallback.delay));
        let rate = match self.guidance() {
            Guidance::State => by_state,
            Guidance::StateAndDelay => [by_state, by_delay].into_iter().flatten().min(),
            Guidance::Delay => by_delay,
        };
        // Without a round trip, the first packets are spread over a long one.
        let slowest = || rate_of(self.limit(), 0.1);
        let rate = self.packets.payload_rate(rate.unwrap_or_else(slowest));
        let least = rate_of(float(self.packets.payload_of(PACED_PACKETS_MIN).count()), 1.0);
        Pacing { rate: rate.max(least), burst: self.packets.payload_of(BURST_PACKETS) }
    }

    /// Returns the bytes that a receiver may have requested and not received, as the transport
    /// counts them (section 4.2 of the paper). Returns `None` if the window is not based on state.
    #[must_use]
    pub fn request_window(&self) -> Option<Bytes> {
        let decision = self.decision.filter(|_| self.guidance() != Guidance::Delay)?;
        let by_delay = self.fallback.map_or(Bytes::MAX, |fallback| bytes(fallback.delay.window()));
        let limited = Decision { window: decision.window.min(by_delay), ..decision };
        Some(self.packets.payload_in(limited.request_window()))
    }

    /// Returns the newest decision from network state, for status and for encoders. It counts IP
    /// packets, and may be old: see [`guidance`](Self::guidance).
    #[must_use]
    pub const fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Returns the basis of the window.
    #[must_use]
    pub const fn guidance(&self) -> Guidance {
        match &self.fallback {
            None => Guidance::State,
            Some(Fallback { reason: FallbackReason::OtherBottleneck, .. }) => Guidance::StateAndDelay,
            Some(_) => Guidance::Delay,
        }
    }

    /// Returns the delay of the parts of the path that no table has.
    #[must_use]
    pub fn rest_of_path(&self, now: Time) -> Duration {
        seconds(self.rest_delay(now))
    }

    /// Returns the same in seconds, negative if the table has too much delay.
    fn rest_delay(&self, now: Time) -> f64 {
        if !self.corrects() {
            return 0.0;
        }
        self.rest.delay(self.window.base_delay(), self.window.back_packet_times(), now)
    }

    fn corrects(&self) -> bool {
        self.rules.corrections == Corrections::All
    }

    fn reason(&self) -> Option<FallbackReason> {
        self.fallback.map(|fallback| fallback.reason)
    }

    fn decide(&mut self, now: Time) {
        self.decision = self.window.decide_with(self.delivery.rate(now), self.rest_delay(now));
        self.update_guidance(now);
    }

    /// Returns the bytes of IP packets that may be in flight.
    fn limit(&self) -> f64 {
        let by_state = self.decision.map_or(f64::INFINITY, |decision| float(decision.window.count()));
        let by_delay = self.fallback.map_or(f64::INFINITY, |fallback| fallback.delay.window());
        match self.guidance() {
            Guidance::State if self.corrects() => self.ramp.limited(by_state),
            Guidance::State => by_state,
            Guidance::StateAndDelay => self.ramp.limited(by_state).min(by_delay),
            Guidance::Delay => by_delay,
        }
    }

    /// Returns the bytes of the flow that should wait if its window is delay-based.
    fn delay_target(&self, now: Time) -> f64 {
        let target = self.decision.map_or(TARGET_BACKLOG, |decision| decision.target);
        let delivered = bytes_per_second(self.delivery.rate(now));
        float(target.count()).max(FALLBACK_TARGET_SECONDS * delivered)
    }

    /// Compares a round trip with what table, queues and rest of the path explain, and learns the
    /// rest from it.
    fn on_round_trip(&mut self, round_trip: Duration, now: Time) {
        let (base, rest) = (self.window.base_delay(), self.rest_delay(now));
        let longest = base + rest + self.window.wait_max();
        // Small packets need less than a full packet's time.
        let shortest = base + rest.max(0.0) + self.window.wait_min() - self.window.packet_times();
        let seconds_taken = round_trip.as_secs_f64();
        let is_wrong = is_unexplained(shortest, seconds_taken);
        let wait = if is_wrong { 0.0 } else { self.window.wait_min() };
        self.rest.on_round_trip(round_trip, wait, now);
        let reason = if is_wrong {
            FallbackReason::WrongState
        } else if is_unexplained(seconds_taken, longest) {
            FallbackReason::OtherBottleneck
        } else {
            self.unexplained_since = None;
            return;
        };
        let since = *self.unexplained_since.get_or_insert(now);
        // A queue that the state does not have yet will be explained by it.
        let feedback = self.window.feedback_max().min(STATE_AGE_MAX.as_secs_f64());
        let patience = (UNEXPLAINED_ROUNDS * longest.min(seconds_taken)).max(feedback);
        if now.saturating_since(since) >= seconds(patience) {
            self.begin_fallback(reason, now);
        }
    }

    /// Begins a delay-based window at the present one, unless there is one.
    fn begin_fallback(&mut self, reason: FallbackReason, now: Time) {
        if let Some(fallback) = &mut self.fallback {
            fallback.reason = fallback.reason.max(reason);
            return;
        }
        let base = self.base_round_trip(now);
        let window = if reason == FallbackReason::WrongState {
            // The present window is wrong, too. The bytes that arrive are not.
            let delivered = bytes_per_second(self.delivery.rate(now));
            self.limit().min(delivered * base + self.delay_target(now))
        } else {
            self.limit()
        };
        let delay = DelayWindow::begun_at(window, float(self.packets.packet().count()), base);
        self.fallback = Some(Fallback { delay, reason, ample_since: None });
    }

    /// Returns the round trip without queues in seconds, infinite if it is unknown: that of the
    /// table, or the least one if that is shorter.
    fn base_round_trip(&self, now: Time) -> f64 {
        let by_table = self.window.base_delay() + self.rest_delay(now);
        // A table without delays, before the first round trip, does not know it.
        let by_table = if by_table > 0.0 { by_table } else { f64::INFINITY };
        self.rest.least_round_trip(now).map_or(by_table, |least| least.min(by_table))
    }

    /// Changes the basis of the window, if state came or went, or if the delay-based window is no
    /// limit any more.
    fn update_guidance(&mut self, now: Time) {
        let Some(decision) = self.decision else { return };
        if self.corrects() && self.window.is_missing_state(now) {
            self.begin_fallback(FallbackReason::MissingState, now);
            return;
        }
        let Some(fallback) = &mut self.fallback else { return };
        let is_explained = self.unexplained_since.is_none();
        let is_over = match fallback.reason {
            FallbackReason::OtherBottleneck => {
                let is_ample = is_explained && fallback.delay.window() >= float(decision.window.count());
                fallback.ample_since = if is_ample { fallback.ample_since.or(Some(now)) } else { None };
                let patience = seconds(UNEXPLAINED_ROUNDS * decision.round_trip.as_secs_f64());
                fallback.ample_since.is_some_and(|since| now.saturating_since(since) >= patience)
            }
            FallbackReason::WrongState => is_explained,
            FallbackReason::MissingState => true,
        };
        if is_over {
            self.ramp.restart(fallback.delay.window());
            (self.fallback, self.unexplained_since) = (None, None);
        }
    }
}

/// True if a round trip is longer than an explained one by more than the wake-ups of hosts, in
/// seconds.
fn is_unexplained(round_trip: f64, explained: f64) -> bool {
    round_trip > explained * (1.0 + UNEXPLAINED_PART) + UNEXPLAINED_SECONDS
}

/// Returns the pacing rate of a delay-based window, once there is a round trip.
fn paced_window(delay: &DelayWindow) -> Option<Rate> {
    let gain = if delay.is_doubling() { DOUBLING_PACING_GAIN } else { FALLBACK_PACING_GAIN };
    delay.base().map(|base| rate_of(gain * delay.window(), base))
}

/// Returns the rate of so many bytes in so many seconds, of which at least a millisecond counts.
fn rate_of(bytes: f64, seconds: f64) -> Rate {
    rate(bytes / seconds.max(0.001))
}

fn rate_times(of: Rate, gain: f64) -> Rate {
    rate(gain * bytes_per_second(of))
}

#[cfg(test)]
mod tests;
