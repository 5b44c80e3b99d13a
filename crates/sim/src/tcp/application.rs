//! Applications on TCP connections: fetches and bulk transfers, at both ends.

use byway_units::{Bytes, Duration, Time};

use super::connection::{Connection, Event, Input};

/// Application above one end of a TCP connection, without I/O.
pub trait Application {
    /// Drains the connection's events and passes it the application's inputs. Called at the
    /// creation of the connection, and after every input to it.
    fn advance(&mut self, connection: &mut Connection, now: Time);
}

/// A web client: it sends a request of this many bytes, and is done when the whole response has
/// arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    request: Bytes,
    response: Bytes,
    stage: Stage,
    received: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Waiting,
    Done(Duration),
    Failed,
}

impl Fetch {
    /// Creates a fetch with a request and a response of these lengths.
    #[must_use]
    pub const fn new(request: Bytes, response: Bytes) -> Self {
        Self { request, response, stage: Stage::New, received: Bytes::ZERO }
    }

    /// Returns the time from the first SYN to the last byte of the response; `None` if that has not
    /// arrived.
    #[must_use]
    pub const fn completion(&self) -> Option<Duration> {
        if let Stage::Done(completion) = self.stage { Some(completion) } else { None }
    }

    /// True if the connection to the server timed out, or the server closed early.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        matches!(self.stage, Stage::Failed)
    }
}

impl Application for Fetch {
    fn advance(&mut self, connection: &mut Connection, now: Time) {
        if self.stage == Stage::New {
            self.stage = Stage::Waiting;
            connection.handle(Input::Open, now);
            connection.handle(Input::Write(self.request), now);
        }
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Received(bytes) => self.received += bytes,
                Event::PeerClosed => connection.handle(Input::Close, now),
                Event::TimedOut => {}
                Event::Connected | Event::Finished => continue,
            }
            if self.stage == Stage::Waiting && self.received >= self.response {
                self.stage = Stage::Done(now.saturating_since(connection.opened_at()));
            } else if self.stage == Stage::Waiting && !matches!(event, Event::Received(_)) {
                self.stage = Stage::Failed;
            }
        }
    }
}

/// A web server: after the request has arrived, it sends the response, and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchServer {
    request: Bytes,
    response: Bytes,
    received: Bytes,
    has_answered: bool,
}

impl FetchServer {
    /// Creates the server of a [`Fetch`] with the same lengths.
    #[must_use]
    pub const fn new(request: Bytes, response: Bytes) -> Self {
        Self { request, response, received: Bytes::ZERO, has_answered: false }
    }
}

impl Application for FetchServer {
    fn advance(&mut self, connection: &mut Connection, now: Time) {
        while let Some(event) = connection.poll_event() {
            if let Event::Received(bytes) = event {
                self.received += bytes;
            }
            if !self.has_answered && self.received >= self.request {
                self.has_answered = true;
                connection.handle(Input::Write(self.response), now);
                connection.handle(Input::Close, now);
            }
        }
    }
}

/// A client that sends at the full rate: a fixed number of bytes, or without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkSender {
    bytes: Option<Bytes>,
    has_begun: bool,
    is_finished: bool,
}

impl BulkSender {
    /// Creates a client that sends this many bytes and closes; `None`: it sends without end.
    #[must_use]
    pub const fn new(bytes: Option<Bytes>) -> Self {
        Self { bytes, has_begun: false, is_finished: false }
    }

    /// True if everything was sent and acknowledged, and the peer has closed as well.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.is_finished
    }
}

impl Application for BulkSender {
    fn advance(&mut self, connection: &mut Connection, now: Time) {
        if !self.has_begun {
            self.has_begun = true;
            connection.handle(Input::Open, now);
            connection.handle(Input::Write(self.bytes.unwrap_or(Bytes::MAX)), now);
            if self.bytes.is_some() {
                connection.handle(Input::Close, now);
            }
        }
        while let Some(event) = connection.poll_event() {
            self.is_finished |= event == Event::Finished;
        }
    }
}

/// The server of a [`BulkSender`]: it receives the stream, and closes after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sink {
    received: Bytes,
}

impl Sink {
    /// Returns the number of bytes that arrived in order.
    #[must_use]
    pub const fn received(&self) -> Bytes {
        self.received
    }
}

impl Application for Sink {
    fn advance(&mut self, connection: &mut Connection, now: Time) {
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Received(bytes) => self.received += bytes,
                Event::PeerClosed => connection.handle(Input::Close, now),
                Event::Connected | Event::Finished | Event::TimedOut => {}
            }
        }
    }
}

/// Any application of this module, for hosts that have several kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpApplication {
    /// Client of a fetch.
    Fetch(Fetch),
    /// Server of a fetch.
    FetchServer(FetchServer),
    /// Client of a bulk transfer.
    Bulk(BulkSender),
    /// Server of a bulk transfer.
    Sink(Sink),
}

impl Application for TcpApplication {
    fn advance(&mut self, connection: &mut Connection, now: Time) {
        match self {
            Self::Fetch(fetch) => fetch.advance(connection, now),
            Self::FetchServer(serve) => serve.advance(connection, now),
            Self::Bulk(bulk) => bulk.advance(connection, now),
            Self::Sink(sink) => sink.advance(connection, now),
        }
    }
}
