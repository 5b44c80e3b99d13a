//! A connection, from one end.

use alloc::collections::VecDeque;

use byway_units::{Bytes, Duration, Time};
use byway_wire::Ecn;

use super::handshake::Handshake;
use super::limits::{RETRIES_MAX, TIME_WAIT};
use super::round_trip::RoundTrip;
use super::segment::{Flags, Options, Ports, Segment, Timestamps};
use super::sequence::{Position, SequenceNumber};
use super::settings::Settings;
use super::statistics::Statistics;
use super::transfer::{Opening, Transfer, echoed_after, timestamp};

/// What can happen to a [`Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The application of a client wants to reach its peer.
    Open,
    /// A segment arrived for these ports.
    Segment(Segment),
    /// The application has this many more bytes to send. It may say so before the connection is open.
    Write(Bytes),
    /// The application has nothing more to send after what it wrote.
    Close,
    /// The deadline has come.
    Wake,
}

/// What a [`Connection`] tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// This many more bytes arrived in order.
    Received(Bytes),
    /// The peer has no more to send, and all that it sent has arrived.
    PeerClosed,
    /// Both streams ended, and all of both arrived.
    Finished,
    /// The peer did not answer for too long.
    GaveUp,
}

/// Why a [`Connection`] wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A SYN or SYN-ACK was not answered.
    Handshake,
    /// Data was not acknowledged.
    Retransmission,
    /// An acknowledgment has waited long enough for a second segment.
    Acknowledgment,
    /// The next segment may go out, of those that are paced.
    Pacing,
    /// A peer that did not hear the last acknowledgment would have said so by then.
    TimeWait,
}

#[derive(Debug)]
enum State {
    /// A client before it opens, or a server before its client's SYN.
    Idle,
    SynSent(Handshake),
    SynReceived(Handshake, Transfer),
    Open(Transfer),
    /// All is done, and the last acknowledgment may be asked for again.
    TimeWait(Transfer, Time),
    Over,
}

/// One end of a connection, without I/O.
///
/// - *Inputs*: [`handle`](Self::handle), one at a time;
/// - *outputs*, to be drained after each input: [`poll`](Self::poll) until `None`, then
///   [`poll_event`](Self::poll_event) until `None`; what the application answers is an input again;
/// - *state*: [`deadline`](Self::deadline), at which [`Input::Wake`] is due; windows and statistics.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    ports: Ports,
    initial: SequenceNumber,
    is_client: bool,
    state: State,
    /// What the application wrote before there was anybody to send it to.
    written: Bytes,
    is_closed: bool,
    opened: Time,
    /// What the application was told of.
    told: Bytes,
    events: VecDeque<Event>,
    statistics: Statistics,
}

impl Connection {
    /// The side that opens. `ports.source` is its own; the sequence number is that of its SYN.
    #[must_use]
    pub fn client(settings: Settings, ports: Ports, initial: SequenceNumber) -> Self {
        Self {
            settings: settings.bounded(),
            ports,
            initial,
            is_client: true,
            state: State::Idle,
            written: Bytes::ZERO,
            is_closed: false,
            opened: Time::START,
            told: Bytes::ZERO,
            events: VecDeque::new(),
            statistics: Statistics::default(),
        }
    }

    /// The side that is opened, by the first SYN that it is handed. `ports.source` is its own; the sequence number is that of
    /// its SYN-ACK.
    #[must_use]
    pub fn server(settings: Settings, ports: Ports, initial: SequenceNumber) -> Self {
        Self { is_client: false, ..Self::client(settings, ports, initial) }
    }

    /// Takes an input.
    pub fn handle(&mut self, input: Input, now: Time) {
        match input {
            Input::Open => self.open(now),
            Input::Segment(segment) => self.receive(&segment, now),
            Input::Write(bytes) => self.write(bytes),
            Input::Close => self.close(),
            Input::Wake => self.wake(now),
        }
        self.tell();
    }

    fn open(&mut self, now: Time) {
        if self.is_client && matches!(self.state, State::Idle) {
            self.opened = now;
            self.state = State::SynSent(Handshake::new(self.unmeasured(), now));
        }
    }

    fn write(&mut self, bytes: Bytes) {
        if self.is_closed {
            return;
        }
        match self.transfer_mut() {
            Some(transfer) => transfer.sender.outgoing.write(bytes),
            None => self.written = self.written.saturating_add(bytes),
        }
    }

    fn close(&mut self) {
        self.is_closed = true;
        if let Some(transfer) = self.transfer_mut() {
            transfer.sender.outgoing.close();
        }
    }

    fn receive(&mut self, segment: &Segment, now: Time) {
        if segment.ports != self.ports.reversed() {
            return;
        }
        self.statistics.segments_received += 1;
        let is_syn = segment.flags.contain(Flags::SYN);
        let is_acknowledgment = segment.flags.contain(Flags::ACK);
        match core::mem::replace(&mut self.state, State::Over) {
            State::Idle if !self.is_client && is_syn && !is_acknowledgment => self.accept(segment, now),
            State::SynSent(handshake) if is_syn && is_acknowledgment => {
                self.connect(handshake, segment, now);
            }
            State::SynReceived(handshake, transfer) => {
                self.complete(handshake, transfer, segment, now);
            }
            State::Open(transfer) => self.carry_on(transfer, segment, now),
            State::TimeWait(mut transfer, until) => {
                transfer.take(segment, now, &mut self.statistics);
                self.state = State::TimeWait(transfer, until);
            }
            other => self.state = other,
        }
    }

    /// A client's SYN came to a server.
    fn accept(&mut self, syn: &Segment, now: Time) {
        self.opened = now;
        let round_trip = self.unmeasured();
        let transfer = self.begin(syn, round_trip);
        self.state = State::SynReceived(Handshake::new(round_trip, now), transfer);
    }

    /// A round trip of which nothing is known.
    const fn unmeasured(&self) -> RoundTrip {
        let mut round_trip = RoundTrip::new(self.settings.rto_margin_min);
        round_trip.begin_with(self.settings.rto_initial);
        round_trip
    }

    fn begin(&self, syn: &Segment, round_trip: RoundTrip) -> Transfer {
        let opening = Opening { ports: self.ports, initial: self.initial, opened: self.opened };
        let mut transfer = Transfer::new(opening, syn, &self.settings, round_trip);
        transfer.sender.outgoing.write(self.written);
        if self.is_closed {
            transfer.sender.outgoing.close();
        }
        transfer
    }

    /// A server's SYN-ACK came to a client.
    fn connect(&mut self, handshake: Handshake, answer: &Segment, now: Time) {
        if answer.acknowledgment != self.initial.of(Position::FIRST) {
            self.state = State::SynSent(handshake);
            return;
        }
        let echoed = echoed_after(answer.options.timestamps, self.opened, now);
        let mut transfer = self.begin(answer, handshake.measured(echoed, now));
        transfer.receiver.demand_acknowledgment();
        self.establish(handshake, transfer);
    }

    /// Something came to a server that waits for the last part of the handshake.
    fn complete(&mut self, mut handshake: Handshake, mut transfer: Transfer, segment: &Segment, now: Time) {
        if segment.flags.contain(Flags::SYN) {
            handshake.repeat(now);
        }
        let acknowledges = segment.flags.contain(Flags::ACK)
            && segment.acknowledgment == self.initial.of(Position::FIRST)
            && !segment.flags.contain(Flags::SYN);
        if !acknowledges {
            self.state = State::SynReceived(handshake, transfer);
            return;
        }
        let echoed = echoed_after(segment.options.timestamps, self.opened, now);
        transfer.sender.take_round_trip(handshake.measured(echoed, now));
        self.establish(handshake, transfer);
        if let State::Open(transfer) = core::mem::replace(&mut self.state, State::Over) {
            self.carry_on(transfer, segment, now);
        }
    }

    fn establish(&mut self, handshake: Handshake, mut transfer: Transfer) {
        // One lost segment may be chance (as in Linux; RFC 5681, 3.1 already says so after one).
        if handshake.timeouts() > 1 {
            transfer.sender.start_slowly();
        }
        self.events.push_back(Event::Connected);
        self.state = State::Open(transfer);
    }

    fn carry_on(&mut self, mut transfer: Transfer, segment: &Segment, now: Time) {
        let had_fin = transfer.receiver.is_complete();
        transfer.take(segment, now, &mut self.statistics);
        self.told_of(&transfer, had_fin);
        self.state = if !transfer.is_complete() {
            State::Open(transfer)
        } else if had_fin {
            // The peer closed first, and has heard of it: it is the one who waits.
            State::Over
        } else {
            State::TimeWait(transfer, now + TIME_WAIT)
        };
        if !matches!(self.state, State::Open(_)) {
            self.events.push_back(Event::Finished);
        }
    }

    fn told_of(&mut self, transfer: &Transfer, had_fin: bool) {
        let news = transfer.receiver.received().saturating_sub(self.told);
        self.told = transfer.receiver.received();
        if !news.is_zero() {
            self.events.push_back(Event::Received(news));
        }
        if transfer.receiver.is_complete() && !had_fin {
            self.events.push_back(Event::PeerClosed);
        }
    }

    /// Joins what arrived into one event, so that there are never more than a handful.
    fn tell(&mut self) {
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
                self.state = State::Over;
                false
            }
            State::Idle | State::TimeWait(..) | State::Over => false,
        };
        if gives_up {
            self.state = State::Over;
            self.events.push_back(Event::GaveUp);
        }
    }

    /// Output: the next segment to send, or `None` when there is no other.
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        let segment = match &mut self.state {
            State::SynSent(handshake) => {
                handshake.take().then(|| (handshake.is_repeated(), None)).map(|syn| self.syn(syn, now))
            }
            State::SynReceived(handshake, transfer) => {
                let answer = (handshake.is_repeated(), Some(Answer::of(transfer)));
                handshake.take().then_some(answer).map(|syn| self.syn(syn, now))
            }
            State::Open(transfer) | State::TimeWait(transfer, _) => transfer.poll(now, &mut self.statistics),
            State::Idle | State::Over => None,
        };
        self.statistics.segments_sent += u64::from(segment.is_some());
        segment
    }

    /// Our SYN, or our SYN-ACK if it is an answer.
    fn syn(&self, (is_repeated, answer): (bool, Option<Answer>), now: Time) -> Segment {
        let Settings { segment_bytes, receive_window, timestamps, ecn, .. } = self.settings;
        // A SYN that was lost may have been lost for asking for ECN (RFC 3168, 6.1.1.1).
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

    /// Output: what the application is to know next, or `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// State: when to be woken at the latest, and why; `None` for never.
    #[must_use]
    pub fn deadline(&self) -> Option<(Time, Reason)> {
        match &self.state {
            State::SynSent(handshake) | State::SynReceived(handshake, _) => {
                Some((handshake.deadline(), Reason::Handshake))
            }
            State::Open(transfer) => {
                let retransmission = transfer.sender.deadline().map(|time| (time, Reason::Retransmission));
                let acknowledgment = transfer.receiver.deadline().map(|time| (time, Reason::Acknowledgment));
                let pacing = transfer.sender.paced_until().map(|time| (time, Reason::Pacing));
                retransmission.into_iter().chain(acknowledgment).chain(pacing).min_by_key(|&(time, _)| time)
            }
            State::TimeWait(_, until) => Some((*until, Reason::TimeWait)),
            State::Idle | State::Over => None,
        }
    }

    /// The ports of its segments.
    #[must_use]
    pub const fn ports(&self) -> Ports {
        self.ports
    }

    /// When it was opened: by the first SYN that was sent, or that came.
    #[must_use]
    pub const fn opened(&self) -> Time {
        self.opened
    }

    /// Whether nothing will ever happen to it again, and it can be forgotten.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The congestion window, in bytes of payload; `None` while the connection is not open.
    #[must_use]
    pub fn congestion_window(&self) -> Option<Bytes> {
        self.transfer().map(|transfer| transfer.sender.control().window())
    }

    /// Below which window growth is exponential; `None` until there was congestion.
    #[must_use]
    pub fn slow_start_threshold(&self) -> Option<Bytes> {
        self.transfer()?.sender.control().slow_start_threshold()
    }

    /// The smoothed round-trip time, once it was measured.
    #[must_use]
    pub fn smoothed_round_trip(&self) -> Option<Duration> {
        self.transfer()?.sender.smoothed_round_trip()
    }

    /// How many bytes of payload are believed to be on their way (RFC 6675's pipe).
    #[must_use]
    pub fn in_flight(&self) -> Bytes {
        self.transfer().map_or(Bytes::ZERO, |transfer| transfer.sender.in_flight())
    }

    /// What happened so far.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    const fn transfer(&self) -> Option<&Transfer> {
        match &self.state {
            State::SynReceived(_, transfer) | State::Open(transfer) | State::TimeWait(transfer, _) => {
                Some(transfer)
            }
            State::Idle | State::SynSent(_) | State::Over => None,
        }
    }

    const fn transfer_mut(&mut self) -> Option<&mut Transfer> {
        match &mut self.state {
            State::SynReceived(_, transfer) | State::Open(transfer) | State::TimeWait(transfer, _) => {
                Some(transfer)
            }
            State::Idle | State::SynSent(_) | State::Over => None,
        }
    }
}

/// What a SYN-ACK says beyond a SYN.
#[derive(Clone, Copy, Debug)]
struct Answer {
    acknowledgment: SequenceNumber,
    recent: Option<u32>,
    uses_ecn: bool,
}

impl Answer {
    fn of(transfer: &Transfer) -> Self {
        Self {
            acknowledgment: transfer.receiver.acknowledgment(),
            recent: transfer.recent(),
            uses_ecn: transfer.uses_ecn(),
        }
    }
}
