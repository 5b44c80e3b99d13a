//! One end of a TCP connection: its state machine.

use alloc::collections::VecDeque;

use byway_units::{Bytes, Duration, Time};
use byway_wire::Ecn;

use super::handshake::Handshake;
use super::limits::{RETRIES_MAX, TIME_WAIT};
use super::rtt::RttEstimator;
use super::segment::{Flags, Options, Ports, Segment, Timestamps};
use super::sequence::{Position, SequenceNumber};
use super::settings::Settings;
use super::statistics::Statistics;
use super::transfer::{HandshakeState, Transfer, timestamp, timestamp_rtt};

/// Input of a [`Connection`] from its application, the network or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The application of a client opens the connection.
    Open,
    /// A segment arrived for this connection's ports.
    Segment(Segment),
    /// The application has this many more bytes to send. It may write before the connection is
    /// open.
    Write(Bytes),
    /// The application has nothing more to send after its previous writes.
    Close,
    /// The connection's deadline is due.
    Wake,
}

/// Event that a [`Connection`] reports to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// This many more bytes of the peer's stream arrived in order.
    Received(Bytes),
    /// The peer's stream has ended, and all of it has arrived.
    PeerClosed,
    /// Both streams have ended, and all of both has arrived.
    Finished,
    /// The peer did not answer in time.
    TimedOut,
}

/// Reason for the deadline of a [`Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// Retransmission of an unanswered SYN or SYN-ACK.
    Handshake,
    /// Retransmission of unacknowledged data.
    Retransmission,
    /// Delayed acknowledgment, because no second segment arrived.
    Acknowledgment,
    /// Transmission of the next paced segment.
    Pacing,
    /// End of TIME-WAIT: from then on, the peer no longer retransmits because of a lost
    /// acknowledgment.
    TimeWait,
}

#[derive(Debug)]
enum State {
    /// A client before it opens, or a server before its client's SYN.
    Idle,
    SynSent(Handshake),
    SynReceived(Handshake, Transfer),
    Open(Transfer),
    /// Both streams are complete, but the peer may retransmit because of a lost last
    /// acknowledgment.
    TimeWait(Transfer, Time),
    Closed,
}

/// One end of a TCP connection, without I/O.
///
/// - *Inputs*: [`handle`](Self::handle), one at a time;
/// - *outputs*, to be drained after each input: [`poll`](Self::poll) until `None`, then
///   [`poll_event`](Self::poll_event) until `None`; the application's reaction is an input again;
/// - *state*: [`deadline`](Self::deadline), at which [`Input::Wake`] is due; windows and
///   statistics.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    ports: Ports,
    initial: SequenceNumber,
    is_client: bool,
    state: State,
    /// Bytes that the application wrote before the handshake created the sender, which then gets
    /// them.
    written: Bytes,
    is_close_requested: bool,
    opened: Time,
    /// Bytes of the peer's stream that [`Event::Received`] events have reported.
    reported: Bytes,
    events: VecDeque<Event>,
    statistics: Statistics,
}

impl Connection {
    /// Creates the active side. `ports.source` is its own port; the sequence number is that of its
    /// SYN.
    #[must_use]
    pub fn client(settings: Settings, ports: Ports, initial: SequenceNumber) -> Self {
        Self {
            settings: settings.bounded(),
            ports,
            initial,
            is_client: true,
            state: State::Idle,
            written: Bytes::ZERO,
            is_close_requested: false,
            opened: Time::START,
            reported: Bytes::ZERO,
            events: VecDeque::new(),
            statistics: Statistics::default(),
        }
    }

    /// Creates the passive side, which the first SYN opens. `ports.source` is its own port; the
    /// sequence number is that of its SYN-ACK.
    #[must_use]
    pub fn server(settings: Settings, ports: Ports, initial: SequenceNumber) -> Self {
        Self { is_client: false, ..Self::client(settings, ports, initial) }
    }

    /// Handles an input, which may queue segments for [`poll`](Self::poll) and events for
    /// [`poll_event`](Self::poll_event).
    pub fn handle(&mut self, input: Input, now: Time) {
        match input {
            Input::Open => self.open(now),
            Input::Segment(segment) => self.receive(&segment, now),
            Input::Write(bytes) => self.write(bytes),
            Input::Close => self.close(),
            Input::Wake => self.wake(now),
        }
        self.merge_received_events();
    }

    fn open(&mut self, now: Time) {
        if self.is_client && matches!(self.state, State::Idle) {
            self.opened = now;
            self.state = State::SynSent(Handshake::new(self.initial_round_trip(), now));
        }
    }

    fn write(&mut self, bytes: Bytes) {
        if self.is_close_requested {
            return;
        }
        match self.transfer_mut() {
            Some(transfer) => transfer.sender.stream.write(bytes),
            None => self.written = self.written.saturating_add(bytes),
        }
    }

    fn close(&mut self) {
        self.is_close_requested = true;
        if let Some(transfer) = self.transfer_mut() {
            transfer.sender.stream.close();
        }
    }

    fn receive(&mut self, segment: &Segment, now: Time) {
        if segment.ports != self.ports.reversed() {
            return;
        }
        self.statistics.segments_received += 1;
        let is_syn = segment.flags.contain(Flags::SYN);
        let is_acknowledgment = segment.flags.contain(Flags::ACK);
        match core::mem::replace(&mut self.state, State::Closed) {
            State::Idle if !self.is_client && is_syn && !is_acknowledgment => self.on_syn(segment, now),
            State::SynSent(handshake) if is_syn && is_acknowledgment => {
                self.on_syn_ack(handshake, segment, now);
            }
            State::SynReceived(handshake, transfer) => {
                self.on_handshake_ack(handshake, transfer, segment, now);
            }
            State::Open(transfer) => self.on_segment(transfer, segment, now),
            State::TimeWait(mut transfer, until) => {
                transfer.on_segment(segment, now, &mut self.statistics);
                self.state = State::TimeWait(transfer, until);
            }
            other => self.state = other,
        }
    }

    /// Answers a client's SYN at a server: stores its fields, and schedules a SYN-ACK.
    fn on_syn(&mut self, syn: &Segment, now: Time) {
        self.opened = now;
        let round_trip = self.initial_round_trip();
        let transfer = self.begin(syn, round_trip);
        self.state = State::SynReceived(Handshake::new(round_trip, now), transfer);
    }

    /// Returns an RTT estimator with the initial timeout of the settings, without samples.
    const fn initial_round_trip(&self) -> RttEstimator {
        let mut round_trip = RttEstimator::new(self.settings.rto_margin_min);
        round_trip.begin_with(self.settings.rto_initial);
        round_trip
    }

    fn begin(&self, syn: &Segment, round_trip: RttEstimator) -> Transfer {
        let opening = HandshakeState { ports: self.ports, initial: self.initial, opened: self.opened };
        let mut transfer = Transfer::new(opening, syn, &self.settings, round_trip);
        transfer.sender.stream.write(self.written);
        if self.is_close_requested {
            transfer.sender.stream.close();
        }
        transfer
    }

    /// Opens the connection at a client, if the segment is the SYN-ACK of its SYN.
    fn on_syn_ack(&mut self, handshake: Handshake, answer: &Segment, now: Time) {
        if answer.acknowledgment != self.initial.of(Position::FIRST) {
            self.state = State::SynSent(handshake);
            return;
        }
        let echoed = timestamp_rtt(answer.options.timestamps, self.opened, now);
        let mut transfer = self.begin(answer, handshake.round_trip_estimate(echoed, now));
        transfer.receiver.demand_acknowledgment();
        self.establish(handshake, transfer);
    }

    /// Opens the connection at a server, if the segment acknowledges its SYN-ACK. A repeated SYN
    /// causes a repeated SYN-ACK.
    fn on_handshake_ack(
        &mut self,
        mut handshake: Handshake,
        mut transfer: Transfer,
        segment: &Segment,
        now: Time,
    ) {
        if segment.flags.contain(Flags::SYN) {
            handshake.retransmit(now);
        }
        let acknowledges = segment.flags.contain(Flags::ACK)
            && segment.acknowledgment == self.initial.of(Position::FIRST)
            && !segment.flags.contain(Flags::SYN);
        if !acknowledges {
            self.state = State::SynReceived(handshake, transfer);
            return;
        }
        let echoed = timestamp_rtt(segment.options.timestamps, self.opened, now);
        transfer.sender.set_round_trip(handshake.round_trip_estimate(echoed, now));
        self.establish(handshake, transfer);
        if let State::Open(transfer) = core::mem::replace(&mut self.state, State::Closed) {
            self.on_segment(transfer, segment, now);
        }
    }

    fn establish(&mut self, handshake: Handshake, mut transfer: Transfer) {
        // One lost segment may be chance (as in Linux; RFC 5681, 3.1 reduces the window after one).
        if handshake.timeouts() > 1 {
            transfer.sender.use_one_segment_window();
        }
        self.events.push_back(Event::Connected);
        self.state = State::Open(transfer);
    }

    fn on_segment(&mut self, mut transfer: Transfer, segment: &Segment, now: Time) {
        let had_fin = transfer.receiver.is_complete();
        transfer.on_segment(segment, now, &mut self.statistics);
        self.queue_receive_events(&transfer, had_fin);
        self.state = if !transfer.is_complete() {
            State::Open(transfer)
        } else if had_fin {
            // The peer closed first and has received the acknowledgment: the peer is the side in
            // TIME-WAIT.
            State::Closed
        } else {
            State::TimeWait(transfer, now + TIME_WAIT)
        };
        if !matches!(self.state, State::Open(_)) {
            self.events.push_back(Event::Finished);
        }
    }

    fn queue_receive_events(&mut self, transfer: &Transfer, had_fin: bool) {
        let received = transfer.receiver.received().saturating_sub(self.reported);
        self.reported = transfer.receiver.received();
        if !received.is_zero() {
            self.events.push_back(Event::Received(received));
        }
        if transfer.receiver.is_complete() && !had_fin {
            self.events.push_back(Event::PeerClosed);
        }
    }

    /// Merges successive receive events, which bounds the number of queued events.
    fn merge_received_events(&mut self) {
        if let [.., Event::Received(before), Event::Received(last)] = *self.events.make_contiguous() {
            self.events.truncate(self.events.len() - 2);
            self.events.push_back(Event::Received(before + last));
        }
    }

    fn wake(&mut self, now: Time) {
        let gives_up = match &mut self.state {
            State::SynSent(handshake) | State::SynReceived(handshake, _) => {
                let timeouts = handshake.timeouts();
                let gives_up = handshake.wake(now);
                self.statistics.handshake_timeouts += u64::from(handshake.timeouts() - timeouts);
                gives_up
            }
            State::Open(transfer) => {
                transfer.sender.wake(now, &mut self.statistics)
                    && transfer.sender.timeouts_in_row() > RETRIES_MAX
            }
            State::TimeWait(_, until) if *until <= now => {
                self.state = State::Closed;
                false
            }
            State::Idle | State::TimeWait(..) | State::Closed => false,
        };
        if gives_up {
            self.state = State::Closed;
            self.events.push_back(Event::TimedOut);
        }
    }

    /// Output: the next segment to send, or `None` if there is no other.
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        let segment = match &mut self.state {
            State::SynSent(handshake) => handshake
                .poll_transmit()
                .then(|| (handshake.is_retransmission(), None))
                .map(|syn| self.syn(syn, now)),
            State::SynReceived(handshake, transfer) => {
                let answer = (handshake.is_retransmission(), Some(SynAckFields::of(transfer)));
                handshake.poll_transmit().then_some(answer).map(|syn| self.syn(syn, now))
            }
            State::Open(transfer) | State::TimeWait(transfer, _) => transfer.poll(now, &mut self.statistics),
            State::Idle | State::Closed => None,
        };
        self.statistics.segments_sent += u64::from(segment.is_some());
        segment
    }

    /// Returns our SYN, or our SYN-ACK if it is an answer.
    fn syn(&self, (is_repeated, answer): (bool, Option<SynAckFields>), now: Time) -> Segment {
        let Settings { segment_bytes, receive_window, timestamps, ecn, .. } = self.settings;
        // A SYN may have been lost because it requested ECN (RFC 3168, 6.1.1.1).
        let flags = match answer {
            None => Flags::SYN.and_if(ecn && !is_repeated, Flags::ECE | Flags::CWR),
            Some(answer) => (Flags::SYN | Flags::ACK).and_if(answer.uses_ecn, Flags::ECE),
        };
        let echo = answer.map_or(Some(0), |answer| answer.recent).filter(|_| timestamps);
        Segment {
            ports: self.ports,
            sequence: self.initial,
            acknowledgment: answer.map_or(SequenceNumber::new(0), |answer| answer.acknowledgment),
            flags,
            window: u16::try_from(receive_window.count()).unwrap_or(u16::MAX),
            options: Options {
                segment_bytes: Some(segment_bytes),
                window_scale: Some(self.settings.window_scale()),
                sack_permitted: true,
                timestamps: echo.map(|echo| Timestamps { value: timestamp(now), echo }),
                ..Options::default()
            },
            payload_bytes: 0,
            ecn: Ecn::NotCapable,
        }
    }

    /// Output: the next event for the application, or `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// State: the latest time at which [`Input::Wake`] is due, and its reason; `None` for never.
    #[must_use]
    pub fn deadline(&self) -> Option<(Time, TimerKind)> {
        match &self.state {
            State::SynSent(handshake) | State::SynReceived(handshake, _) => {
                Some((handshake.deadline(), TimerKind::Handshake))
            }
            State::Open(transfer) => {
                let retransmission = transfer.sender.deadline().map(|time| (time, TimerKind::Retransmission));
                let acknowledgment =
                    transfer.receiver.deadline().map(|time| (time, TimerKind::Acknowledgment));
                let pacing = transfer.sender.paced_until().map(|time| (time, TimerKind::Pacing));
                retransmission.into_iter().chain(acknowledgment).chain(pacing).min_by_key(|&(time, _)| time)
            }
            State::TimeWait(_, until) => Some((*until, TimerKind::TimeWait)),
            State::Idle | State::Closed => None,
        }
    }

    /// Returns the ports of the segments that this end sends.
    #[must_use]
    pub const fn ports(&self) -> Ports {
        self.ports
    }

    /// Returns the time at which the connection was opened: by the first SYN sent or received.
    #[must_use]
    pub const fn opened_at(&self) -> Time {
        self.opened
    }

    /// True if the connection has ended and can be removed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Returns the congestion window, in bytes of payload; `None` while the connection is not open.
    #[must_use]
    pub fn congestion_window(&self) -> Option<Bytes> {
        self.transfer().map(|transfer| transfer.sender.control().window())
    }

    /// Returns the threshold below which the window grows exponentially; `None` before the first
    /// congestion.
    #[must_use]
    pub fn slow_start_threshold(&self) -> Option<Bytes> {
        self.transfer()?.sender.control().slow_start_threshold()
    }

    /// Returns the smoothed round-trip time; `None` before a measurement.
    #[must_use]
    pub fn smoothed_round_trip(&self) -> Option<Duration> {
        self.transfer()?.sender.smoothed_round_trip()
    }

    /// Returns the payload bytes believed in flight (RFC 6675's pipe).
    #[must_use]
    pub fn in_flight(&self) -> Bytes {
        self.transfer().map_or(Bytes::ZERO, |transfer| transfer.sender.in_flight())
    }

    /// Returns the statistics of this connection until now.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    const fn transfer(&self) -> Option<&Transfer> {
        match &self.state {
            State::SynReceived(_, transfer) | State::Open(transfer) | State::TimeWait(transfer, _) => {
                Some(transfer)
            }
            State::Idle | State::SynSent(_) | State::Closed => None,
        }
    }

    const fn transfer_mut(&mut self) -> Option<&mut Transfer> {
        match &mut self.state {
            State::SynReceived(_, transfer) | State::Open(transfer) | State::TimeWait(transfer, _) => {
                Some(transfer)
            }
            State::Idle | State::SynSent(_) | State::Closed => None,
        }
    }
}

/// Fields of a SYN-ACK beyond those of a SYN.
#[derive(Clone, Copy, Debug)]
struct SynAckFields {
    acknowledgment: SequenceNumber,
    recent: Option<u32>,
    uses_ecn: bool,
}

impl SynAckFields {
    fn of(transfer: &Transfer) -> Self {
        Self {
            acknowledgment: transfer.receiver.acknowledgment(),
            recent: transfer.ts_recent(),
            uses_ecn: transfer.uses_ecn(),
        }
    }
}
