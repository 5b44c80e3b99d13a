//! Sender of a TCP connection: the next segment to send, and the handling of acknowledgments.

use alloc::boxed::Box;
use core::mem;

use byway_units::{Bytes, Duration, Time};

use super::congestion::{AckSample, Algorithm, CongestionControl};
use super::limits::{DUPLICATE_THRESHOLD, OUTSTANDING_SEGMENTS_MAX, RTO_INITIAL};
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::send_stream::SendStream;
use super::sequence::{Extent, Position};
use super::settings::Settings;
use super::statistics::Statistics;

/// Phase of the sender's loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No segment is known to be lost.
    Open,
    /// Fast recovery, until `until` is acknowledged (RFC 6675).
    Recovery { until: Position, may_rescue: bool },
    /// Recovery after a retransmission timeout, until everything sent before it is acknowledged.
    Loss { until: Position },
}

/// Content of a received acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgment<B> {
    /// Next position that the peer expects.
    pub(crate) next: Position,
    /// End of the peer's receive window.
    pub(crate) window_end: Position,
    /// Runs that the peer received behind gaps.
    pub(crate) blocks: B,
    /// RTT sample from the timestamp that the peer echoes.
    pub(crate) rtt_sample: Option<Duration>,
    /// True if the peer reports that a segment arrived with a congestion mark (ECE).
    pub(crate) has_ece: bool,
}

/// Part of the stream that the sender sends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutgoingSegment {
    pub(crate) extent: Extent,
    /// True if the part was sent before.
    pub(crate) is_retransmission: bool,
}

/// Pacing of the sender's segments.
#[derive(Clone, Copy, Debug, Default)]
struct Pacing {
    /// Earliest time of the next segment.
    until: Time,
    /// True if a segment waits until the pacing time.
    is_limiting: bool,
}

/// Sending half of a connection: its stream, congestion control and loss recovery.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Most payload in a segment (SMSS).
    segment: Bytes,
    algorithm: Algorithm,
    pub(crate) stream: SendStream,
    /// First unacknowledged position (SND.UNA).
    unacknowledged: Position,
    scoreboard: Scoreboard,
    control: Box<dyn CongestionControl>,
    phase: Phase,
    round_trip: RttEstimator,
    /// Expiry of the retransmission timer.
    timer: Option<Time>,
    timeouts_in_row: u32,
    /// Consecutive acknowledgments that report only later data.
    duplicates: u32,
    /// Forces the retransmission of the first segment, beyond the window: recovery has just begun.
    must_retransmit: bool,
    /// True if only the window limited the last transmission.
    is_window_limited: bool,
    pacing: Pacing,
    /// Time of the last transmission.
    sent_at: Option<Time>,
    /// End of the current window: the sender ignores congestion marks until it is acknowledged.
    ece_ignored_until: Position,
    /// True if the next segment must report the reduced window (CWR).
    pub(crate) sends_cwr: bool,
}

impl Sender {
    /// Creates a sender of segments with up to `segment` bytes of payload.
    pub(crate) fn new(segment: Bytes, settings: &Settings, round_trip: RttEstimator) -> Self {
        let initial_window = segment * settings.initial_window_segments;
        Self {
            segment,
            algorithm: settings.algorithm,
            unacknowledged: Position::FIRST,
            stream: SendStream::new(segment),
            scoreboard: Scoreboard::new(segment),
            control: settings.algorithm.build(segment, initial_window),
            phase: Phase::Open,
            round_trip,
            timer: None,
            timeouts_in_row: 0,
            duplicates: 0,
            must_retransmit: false,
            is_window_limited: false,
            pacing: Pacing::default(),
            sent_at: None,
            ece_ignored_until: Position::FIRST,
            sends_cwr: false,
        }
    }

    /// Sets the RTT estimate of the handshake.
    pub(crate) const fn set_round_trip(&mut self, round_trip: RttEstimator) {
        self.round_trip = round_trip;
    }

    /// True if the peer has acknowledged the whole stream, including the FIN.
    pub(crate) fn is_complete(&self) -> bool {
        self.stream.ends_at(self.unacknowledged)
    }

    /// Returns the payload bytes that the peer has acknowledged.
    pub(crate) fn acknowledged(&self) -> Bytes {
        self.stream.written_before(self.unacknowledged)
    }

    pub(crate) fn control(&self) -> &dyn CongestionControl {
        &*self.control
    }

    pub(crate) fn smoothed_round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    pub(crate) const fn in_flight(&self) -> Bytes {
        self.scoreboard.pipe()
    }

    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.timer
    }

    /// Returns the earliest time of a segment that waits because of pacing.
    pub(crate) fn paced_until(&self) -> Option<Time> {
        self.pacing.is_limiting.then_some(self.pacing.until)
    }

    /// Returns the most bytes that may be in flight: with pacing, at least a segment.
    fn window(&self) -> Bytes {
        let window = self.control.window();
        if self.control.is_paced() { window.max(self.segment) } else { window }
    }

    pub(crate) const fn timeouts_in_row(&self) -> u32 {
        self.timeouts_in_row
    }

    /// Returns RFC 5681's `FlightSize`, without the segments of limited transmit beyond a full
    /// window.
    fn outstanding(&self) -> Bytes {
        (self.stream.next() - self.unacknowledged).min(self.control.window())
    }

    /// Reduces the initial window to one segment, because the handshake took several attempts (RFC
    /// 5681, 3.1).
    pub(crate) fn use_one_segment_window(&mut self) {
        self.control = self.algorithm.build(self.segment, self.segment);
    }

    /// Returns the next part of the stream to send now, which then counts as sent.
    pub(crate) fn poll_transmit(&mut self, now: Time) -> Option<OutgoingSegment> {
        self.reset_after_idle(now);
        self.pacing.is_limiting = self.is_pacing_limited(now);
        if self.pacing.is_limiting {
            self.is_window_limited = true;
            return None;
        }
        let available = self.window().saturating_sub(self.scoreboard.pipe());
        let regular = self.next_retransmission(available).or_else(|| self.next_new(available));
        let Some(extent) = regular.or_else(|| self.next_speculative(available)) else {
            let is_full = available < self.segment;
            self.is_window_limited =
                is_full && (self.stream.has_more() || self.scoreboard.next_lost().is_some());
            return None;
        };
        let is_repeated = extent.start < self.stream.next();
        if !is_repeated {
            self.scoreboard.push(extent, now);
            self.stream.record_sent(extent);
        }
        // A retransmission of the first segment has a round trip of its own. Other retransmissions
        // do not restart the timer, because a recovery that lost the first one would never time out
        // (RFC 6675, 6 does not specify it).
        if self.timer.is_none() || extent.start == self.unacknowledged {
            self.timer = Some(now + self.round_trip.retransmission_timeout());
        }
        self.is_window_limited |= self.window() < self.scoreboard.pipe() + self.segment;
        self.pace(extent.bytes(), now);
        self.sent_at = Some(now);
        Some(OutgoingSegment { extent, is_retransmission: is_repeated })
    }

    /// True if a segment could be sent except for pacing.
    fn is_pacing_limited(&self, now: Time) -> bool {
        let fits_window = self.scoreboard.pipe() + self.segment <= self.window();
        let has_more = self.stream.has_more() || self.scoreboard.next_lost().is_some();
        self.control.is_paced()
            && now < self.pacing.until
            && (self.must_retransmit || fits_window && has_more)
    }

    /// Schedules the next paced segment after one of this many bytes: a window is spread evenly
    /// over a round trip.
    fn pace(&mut self, bytes: Bytes, now: Time) {
        if let (true, Some(round_trip)) = (self.control.is_paced(), self.round_trip.smoothed()) {
            let share =
                bytes.count().saturating_mul(round_trip.as_nanos()) / self.control.window().count().max(1);
            self.pacing.until = now + Duration::from_nanos(share);
        }
    }

    /// Returns the next lost segment that fits into the window (RFC 6675, `NextSeg` rule 1), or the
    /// first one if recovery has just begun.
    fn next_retransmission(&mut self, available: Bytes) -> Option<Extent> {
        let lost = self.scoreboard.next_lost();
        let may_exceed = mem::take(&mut self.must_retransmit);
        let lost = lost.filter(|lost| may_exceed || lost.bytes() <= available)?;
        self.scoreboard.mark_retransmitted(lost, false);
        Some(lost)
    }

    /// Returns the next new data that fits into the window (RFC 6675, `NextSeg` rule 2).
    fn next_new(&self, available: Bytes) -> Option<Extent> {
        let new = self.stream.next_new(available);
        new.filter(|_| self.scoreboard.len() < OUTSTANDING_SEGMENTS_MAX)
    }

    /// Returns a segment that is possibly lost, in fast recovery only (RFC 6675, `NextSeg` rules 3
    /// and 4).
    fn next_speculative(&mut self, available: Bytes) -> Option<Extent> {
        let Phase::Recovery { may_rescue, .. } = &mut self.phase else { return None };
        if available < self.segment {
            return None;
        }
        if let Some(missing) = self.scoreboard.next_missing() {
            self.scoreboard.mark_retransmitted(missing, false);
            return Some(missing);
        }
        let rescued = self.scoreboard.last_missing().filter(|_| *may_rescue)?;
        *may_rescue = false;
        self.scoreboard.mark_retransmitted(rescued, true);
        Some(rescued)
    }

    /// Restarts a window unused for longer than a timeout, because it no longer reflects the path
    /// (RFC 5681, 4.1).
    fn reset_after_idle(&mut self, now: Time) {
        let idle = self.sent_at.map_or(Duration::ZERO, |sent_at| now.saturating_since(sent_at));
        if self.scoreboard.is_empty()
            && self.stream.has_more()
            && idle > self.round_trip.retransmission_timeout()
        {
            self.control.on_idle(idle);
            self.sent_at = Some(now);
        }
    }

    /// Handles an acknowledgment: removes acknowledged segments, detects losses, adjusts the
    /// congestion window and restarts the retransmission timer.
    pub(crate) fn on_ack<B: Iterator<Item = Extent>>(
        &mut self,
        acknowledgment: Acknowledgment<B>,
        now: Time,
        statistics: &mut Statistics,
    ) {
        let Acknowledgment { next, window_end, blocks, rtt_sample: echoed_after, has_ece: echoes_congestion } =
            acknowledgment;
        if next > self.stream.next() {
            return;
        }
        self.stream.open_window(window_end);
        let outstanding = self.outstanding();
        let advance = next.saturating_since(self.unacknowledged);
        let newly_sacked: Bytes = blocks
            .filter(|block| block.start >= self.unacknowledged && block.end <= self.stream.next())
            .map(|block| self.scoreboard.sack(block))
            .sum();
        if !advance.is_zero() {
            self.advance(next, echoed_after, now);
        } else if !newly_sacked.is_zero() {
            self.duplicates += 1;
        }
        if echoes_congestion {
            self.on_ece(outstanding, now, statistics);
        }
        if self.phase == Phase::Open && self.is_window_limited && !advance.is_zero() {
            self.grow_window(advance, now);
        }
        self.enter_recovery_on_loss(outstanding, now, statistics);
        self.exit_recovery(advance, now);
    }

    fn advance(&mut self, next: Position, echoed_after: Option<Duration>, now: Time) {
        let sent_once_at = self.scoreboard.remove_until(next).sent_once_at;
        let measured = sent_once_at.map(|at| now.saturating_since(at)).or(echoed_after);
        if let Some(sample) = measured {
            self.round_trip.on_rtt_sample(sample);
        }
        self.unacknowledged = next;
        (self.duplicates, self.timeouts_in_row) = (0, 0);
        // RFC 6298, 5.2 and 5.3.
        self.timer = (!self.scoreboard.is_empty()).then(|| now + self.round_trip.retransmission_timeout());
    }

    fn grow_window(&mut self, bytes: Bytes, now: Time) {
        let round_trip = self.round_trip.smoothed().unwrap_or(RTO_INITIAL);
        self.control.on_ack(AckSample { bytes, round_trip }, now);
    }

    /// Enters fast recovery if a loss is detected (RFC 6675, 5).
    fn enter_recovery_on_loss(&mut self, outstanding: Bytes, now: Time, statistics: &mut Statistics) {
        if self.duplicates >= DUPLICATE_THRESHOLD && self.phase == Phase::Open {
            self.scoreboard.mark_first_lost();
        }
        if !self.scoreboard.detect_losses() || self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Recovery { until: self.stream.next(), may_rescue: true };
        self.must_retransmit = true;
        self.ece_ignored_until = self.stream.next();
        self.sends_cwr = true;
        statistics.recoveries += 1;
        self.control.on_congestion_event(outstanding, now);
    }

    fn exit_recovery(&mut self, advance: Bytes, now: Time) {
        match self.phase {
            Phase::Open => {}
            Phase::Recovery { until, .. } => {
                if self.unacknowledged >= until {
                    self.phase = Phase::Open;
                }
            }
            Phase::Loss { until } => {
                if !advance.is_zero() {
                    self.grow_window(advance, now);
                }
                if self.unacknowledged >= until {
                    self.phase = Phase::Open;
                }
            }
        }
    }

    /// Handles a congestion mark like a loss, once per window (RFC 3168, 6.1.2).
    fn on_ece(&mut self, outstanding: Bytes, now: Time, statistics: &mut Statistics) {
        if self.unacknowledged < self.ece_ignored_until || self.phase != Phase::Open {
            return;
        }
        self.ece_ignored_until = self.stream.next();
        self.sends_cwr = true;
        statistics.marked_windows += 1;
        self.control.on_congestion_event(outstanding, now);
    }

    /// Handles the sender's timer. Returns true if the retransmission timer expired: all missing
    /// segments then count as lost.
    pub(crate) fn wake(&mut self, now: Time, statistics: &mut Statistics) -> bool {
        if self.timer.is_none_or(|timer| timer > now) {
            return false;
        }
        // The threshold does not change if the same data times out again (RFC 5681, 3.1).
        if self.timeouts_in_row == 0 {
            self.control.on_retransmission_timeout(self.outstanding(), now);
        }
        self.timeouts_in_row += 1;
        statistics.timeouts += 1;
        self.round_trip.back_off();
        self.scoreboard.mark_all_lost();
        self.phase = Phase::Loss { until: self.stream.next() };
        self.ece_ignored_until = self.stream.next();
        self.sends_cwr = true;
        (self.duplicates, self.must_retransmit) = (0, true);
        // A paced retransmission leaves only at its pacing time, and the timer starts then.
        let leaves = if self.control.is_paced() { now.max(self.pacing.until) } else { now };
        self.timer = Some(leaves + self.round_trip.retransmission_timeout());
        true
    }
}
