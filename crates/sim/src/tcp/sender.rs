//! The half of a connection that sends: what goes out next, and what an acknowledgment means for it.

use alloc::boxed::Box;
use core::mem;

use byway_units::{Bytes, Duration, Time};

use super::congestion::{Algorithm, CongestionControl, Progress};
use super::limits::{DUPLICATE_THRESHOLD, OUTSTANDING_SEGMENTS_MAX, RTO_INITIAL};
use super::outgoing::Outgoing;
use super::round_trip::RoundTrip;
use super::scoreboard::Scoreboard;
use super::sequence::{Extent, Position};
use super::settings::Settings;
use super::statistics::Statistics;

/// What the sender is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Losses are made good while acknowledgments still come, until `until` is acknowledged (RFC 6675).
    Recovery { until: Position, may_rescue: bool },
    /// The retransmission timer expired when everything before `until` had been sent.
    Loss { until: Position },
}

/// What an acknowledgment says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgment<B> {
    /// What is expected next.
    pub(crate) next: Position,
    /// Up to where the peer takes data.
    pub(crate) window_end: Position,
    /// What arrived behind gaps.
    pub(crate) blocks: B,
    /// How long ago the segment was sent of which this reminds.
    pub(crate) echoed_after: Option<Duration>,
    /// Whether a segment had met congestion.
    pub(crate) echoes_congestion: bool,
}

/// A part of the stream that goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) extent: Extent,
    /// Whether it was sent before.
    pub(crate) is_repeated: bool,
}

/// When segments may go out that are paced.
#[derive(Clone, Copy, Debug, Default)]
struct Pacing {
    /// When the next one may.
    until: Time,
    /// Whether one waits for that.
    is_held: bool,
}

/// What is sent, how fast, and what is done about losses.
#[derive(Debug)]
pub(crate) struct Sender {
    /// SMSS: the most payload in a segment.
    segment: Bytes,
    algorithm: Algorithm,
    pub(crate) outgoing: Outgoing,
    /// SND.UNA.
    unacknowledged: Position,
    board: Scoreboard,
    control: Box<dyn CongestionControl>,
    phase: Phase,
    round_trip: RoundTrip,
    /// When the retransmission timer expires.
    timer: Option<Time>,
    timeouts_in_row: u32,
    /// Acknowledgments in a row that brought news of later data only.
    duplicates: u32,
    /// The first segment goes out again whatever is on its way: recovery has just begun.
    must_repeat: bool,
    /// Whether the window, and nothing else, held data back when something was last sent.
    is_window_limited: bool,
    pacing: Pacing,
    /// When something was last sent.
    sent_at: Option<Time>,
    /// Marks count as congestion again once this is acknowledged.
    deaf_to_marks_until: Position,
    /// Whether the peer is to be told that the window was reduced.
    pub(crate) announces_reduction: bool,
}

impl Sender {
    /// One that sends up to `segment` bytes of payload at a time.
    pub(crate) fn new(segment: Bytes, settings: &Settings, round_trip: RoundTrip) -> Self {
        let initial_window = segment * settings.initial_window_segments;
        Self {
            segment,
            algorithm: settings.algorithm,
            unacknowledged: Position::FIRST,
            outgoing: Outgoing::new(segment),
            board: Scoreboard::new(segment),
            control: settings.algorithm.start(segment, initial_window),
            phase: Phase::Open,
            round_trip,
            timer: None,
            timeouts_in_row: 0,
            duplicates: 0,
            must_repeat: false,
            is_window_limited: false,
            pacing: Pacing::default(),
            sent_at: None,
            deaf_to_marks_until: Position::FIRST,
            announces_reduction: false,
        }
    }

    /// Takes what the handshake found out.
    pub(crate) const fn take_round_trip(&mut self, round_trip: RoundTrip) {
        self.round_trip = round_trip;
    }

    /// Whether everything was acknowledged, the FIN too.
    pub(crate) fn is_complete(&self) -> bool {
        self.outgoing.ends_at(self.unacknowledged)
    }

    /// How much payload was acknowledged.
    pub(crate) fn acknowledged(&self) -> Bytes {
        self.outgoing.written_before(self.unacknowledged)
    }

    pub(crate) fn control(&self) -> &dyn CongestionControl {
        &*self.control
    }

    pub(crate) fn smoothed_round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    pub(crate) const fn in_flight(&self) -> Bytes {
        self.board.pipe()
    }

    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.timer
    }

    /// When a segment may go out that pacing holds back.
    pub(crate) fn paced_until(&self) -> Option<Time> {
        self.pacing.is_held.then_some(self.pacing.until)
    }

    /// What may be on its way: of what is paced, a segment at least.
    fn window(&self) -> Bytes {
        let window = self.control.window();
        if self.control.is_paced() { window.max(self.segment) } else { window }
    }

    pub(crate) const fn timeouts_in_row(&self) -> u32 {
        self.timeouts_in_row
    }

    /// RFC 5681's `FlightSize`, without what limited transmit added to a full window.
    fn outstanding(&self) -> Bytes {
        (self.outgoing.next() - self.unacknowledged).min(self.control.window())
    }

    /// Starts with one segment, because the handshake took several attempts (RFC 5681, 3.1).
    pub(crate) fn start_slowly(&mut self) {
        self.control = self.algorithm.start(self.segment, self.segment);
    }

    /// The next part of the stream that may go out now, which then counts as sent.
    pub(crate) fn take_next(&mut self, now: Time) -> Option<Departure> {
        self.consider_idleness(now);
        self.pacing.is_held = self.is_held_at(now);
        if self.pacing.is_held {
            self.is_window_limited = true;
            return None;
        }
        let room = self.window().saturating_sub(self.board.pipe());
        let regular = self.next_repeated(room).or_else(|| self.next_new(room));
        let Some(extent) = regular.or_else(|| self.next_speculative(room)) else {
            let is_full = room < self.segment;
            self.is_window_limited =
                is_full && (self.outgoing.has_more() || self.board.next_lost().is_some());
            return None;
        };
        let is_repeated = extent.start < self.outgoing.next();
        if !is_repeated {
            self.board.push(extent, now);
            self.outgoing.sent(extent);
        }
        // A repetition of the first segment has a round trip of its own; the others do not re-arm the timer, or a recovery in which
        // that repetition is lost would never time out (RFC 6675, 6 leaves it open).
        if self.timer.is_none() || extent.start == self.unacknowledged {
            self.timer = Some(now + self.round_trip.timeout());
        }
        self.is_window_limited |= self.window() < self.board.pipe() + self.segment;
        self.pace(extent.bytes(), now);
        self.sent_at = Some(now);
        Some(Departure { extent, is_repeated })
    }

    /// Whether something could go out, but is too early.
    fn is_held_at(&self, now: Time) -> bool {
        let has_room = self.board.pipe() + self.segment <= self.window();
        let has_more = self.outgoing.has_more() || self.board.next_lost().is_some();
        self.control.is_paced() && now < self.pacing.until && (self.must_repeat || has_room && has_more)
    }

    /// A window goes out in a round trip, evenly.
    fn pace(&mut self, bytes: Bytes, now: Time) {
        if let (true, Some(round_trip)) = (self.control.is_paced(), self.round_trip.smoothed()) {
            let share =
                bytes.count().saturating_mul(round_trip.as_nanos()) / self.control.window().count().max(1);
            self.pacing.until = now + Duration::from_nanos(share);
        }
    }

    /// What is lost goes first (RFC 6675, `NextSeg` rule 1).
    fn next_repeated(&mut self, room: Bytes) -> Option<Extent> {
        let lost = self.board.next_lost();
        let may_exceed = mem::take(&mut self.must_repeat);
        let lost = lost.filter(|lost| may_exceed || lost.bytes() <= room)?;
        self.board.repeat(lost, false);
        Some(lost)
    }

    /// Then what was never sent (rule 2).
    fn next_new(&self, room: Bytes) -> Option<Extent> {
        let new = self.outgoing.next_new(room);
        new.filter(|_| self.board.len() < OUTSTANDING_SEGMENTS_MAX)
    }

    /// Then, in recovery, what may be lost (rules 3 and 4).
    fn next_speculative(&mut self, room: Bytes) -> Option<Extent> {
        let Phase::Recovery { may_rescue, .. } = &mut self.phase else { return None };
        if room < self.segment {
            return None;
        }
        if let Some(missing) = self.board.next_missing() {
            self.board.repeat(missing, false);
            return Some(missing);
        }
        let rescued = self.board.last_missing().filter(|_| *may_rescue)?;
        *may_rescue = false;
        self.board.repeat(rescued, true);
        Some(rescued)
    }

    /// A window that was not used for longer than a timeout says nothing about the path any more (RFC 5681, 4.1).
    fn consider_idleness(&mut self, now: Time) {
        let idle = self.sent_at.map_or(Duration::ZERO, |sent_at| now.saturating_since(sent_at));
        if self.board.is_empty() && self.outgoing.has_more() && idle > self.round_trip.timeout() {
            self.control.idled(idle);
            self.sent_at = Some(now);
        }
    }

    /// Takes an acknowledgment.
    pub(crate) fn take_acknowledgment<B: Iterator<Item = Extent>>(
        &mut self,
        acknowledgment: Acknowledgment<B>,
        now: Time,
        statistics: &mut Statistics,
    ) {
        let Acknowledgment { next, window_end, blocks, echoed_after, echoes_congestion } = acknowledgment;
        if next > self.outgoing.next() {
            return;
        }
        self.outgoing.open_window(window_end);
        let outstanding = self.outstanding();
        let advance = next.saturating_since(self.unacknowledged);
        let news: Bytes = blocks
            .filter(|block| block.start >= self.unacknowledged && block.end <= self.outgoing.next())
            .map(|block| self.board.sack(block))
            .sum();
        if !advance.is_zero() {
            self.advance(next, echoed_after, now);
        } else if !news.is_zero() {
            self.duplicates += 1;
        }
        if echoes_congestion {
            self.hear_mark(outstanding, now, statistics);
        }
        if self.phase == Phase::Open && self.is_window_limited && !advance.is_zero() {
            self.grow(advance, now);
        }
        self.follow_losses(outstanding, now, statistics);
        self.leave_phase(advance, now);
    }

    fn advance(&mut self, next: Position, echoed_after: Option<Duration>, now: Time) {
        let sent_once_at = self.board.remove_until(next).sent_once_at;
        let measured = sent_once_at.map(|at| now.saturating_since(at)).or(echoed_after);
        if let Some(sample) = measured {
            self.round_trip.measure(sample);
        }
        self.unacknowledged = next;
        (self.duplicates, self.timeouts_in_row) = (0, 0);
        // RFC 6298, 5.2 and 5.3.
        self.timer = (!self.board.is_empty()).then(|| now + self.round_trip.timeout());
    }

    fn grow(&mut self, bytes: Bytes, now: Time) {
        let round_trip = self.round_trip.smoothed().unwrap_or(RTO_INITIAL);
        self.control.acknowledged(Progress { bytes, round_trip }, now);
    }

    /// Enters fast recovery if a loss is known (RFC 6675, 5).
    fn follow_losses(&mut self, outstanding: Bytes, now: Time, statistics: &mut Statistics) {
        if self.duplicates >= DUPLICATE_THRESHOLD && self.phase == Phase::Open {
            self.board.lose_first();
        }
        if !self.board.find_lost() || self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Recovery { until: self.outgoing.next(), may_rescue: true };
        self.must_repeat = true;
        self.deaf_to_marks_until = self.outgoing.next();
        self.announces_reduction = true;
        statistics.recoveries += 1;
        self.control.congested(outstanding, now);
    }

    fn leave_phase(&mut self, advance: Bytes, now: Time) {
        match self.phase {
            Phase::Open => {}
            Phase::Recovery { until, .. } => {
                if self.unacknowledged >= until {
                    self.phase = Phase::Open;
                }
            }
            Phase::Loss { until } => {
                if !advance.is_zero() {
                    self.grow(advance, now);
                }
                if self.unacknowledged >= until {
                    self.phase = Phase::Open;
                }
            }
        }
    }

    /// A marked packet counts as a lost one, once per window (RFC 3168, 6.1.2).
    fn hear_mark(&mut self, outstanding: Bytes, now: Time, statistics: &mut Statistics) {
        if self.unacknowledged < self.deaf_to_marks_until || self.phase != Phase::Open {
            return;
        }
        self.deaf_to_marks_until = self.outgoing.next();
        self.announces_reduction = true;
        statistics.marked_windows += 1;
        self.control.congested(outstanding, now);
    }

    /// Does what is due; whether the retransmission timer expired.
    pub(crate) fn wake(&mut self, now: Time, statistics: &mut Statistics) -> bool {
        if self.timer.is_none_or(|timer| timer > now) {
            return false;
        }
        // The threshold stays when the same data times out again (RFC 5681, 3.1).
        if self.timeouts_in_row == 0 {
            self.control.timed_out(self.outstanding(), now);
        }
        self.timeouts_in_row += 1;
        statistics.timeouts += 1;
        self.round_trip.back_off();
        self.board.lose_all();
        self.phase = Phase::Loss { until: self.outgoing.next() };
        self.deaf_to_marks_until = self.outgoing.next();
        self.announces_reduction = true;
        (self.duplicates, self.must_repeat) = (0, true);
        // What is paced goes out again when its time has come, and is waited for from then on.
        let leaves = if self.control.is_paced() { now.max(self.pacing.until) } else { now };
        self.timer = Some(leaves + self.round_trip.timeout());
        true
    }
}
