//! What connections are used for: fetches and bulk transfers, from both ends.

use byway_units::{Bytes, Duration, Time};

use super::connection::{Connection, Event, Input};

/// An application above one end of a connection, without I/O.
pub trait Application {
    /// Takes what the connection has to tell, and answers. Called when the connection is made, and after every input to it.
    fn advance(&mut self, connection: &mut Connection, now: Time);
}

/// A web client: it sends a request of so many bytes, and is done when all of the response has arrived.
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
    /// A fetch with a request and a response of so many bytes.
    #[must_use]
    pub const fn new(request: Bytes, response: Bytes) -> Self {
        Self { request, response, stage: Stage::New, received: Bytes::ZERO }
    }

    /// From the first SYN to the last byte of the response; `None` if that has not arrived.
    #[must_use]
    pub const fn completion(&self) -> Option<Duration> {
        if let Stage::Done(completion) = self.stage { Some(completion) } else { None }
    }

    /// Whether the server was given up, or closed early.
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
                Event::GaveUp => {}
                Event::Connected | Event::Finished => continue,
            }
            if self.stage == Stage::Waiting && self.received >= self.response {
                self.stage = Stage::Done(now.saturating_since(connection.opened()));
            } else if self.stage == Stage::Waiting && !matches!(event, Event::Received(_)) {
                self.stage = Stage::Failed;
            }
        }
    }
}

/// A web server: once the request has arrived it sends the response, and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serve {
    request: Bytes,
    response: Bytes,
    received: Bytes,
    has_answered: bool,
}

impl Serve {
    /// The other end of a [`Fetch`].
    #[must_use]
    pub const fn new(request: Bytes, response: Bytes) -> Self {
        Self { request, response, received: Bytes::ZERO, has_answered: false }
    }
}

impl Application for Serve {
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

/// A client that sends as much as it can: so many bytes, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    bytes: Option<Bytes>,
    has_begun: bool,
    is_finished: bool,
}

impl Bulk {
    /// Sends so many bytes and closes; `None`: sends for ever.
    #[must_use]
    pub const fn new(bytes: Option<Bytes>) -> Self {
        Self { bytes, has_begun: false, is_finished: false }
    }

    /// Whether all was sent and acknowledged, and the other side has closed as well.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.is_finished
    }
}

impl Application for Bulk {
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

/// The other end of a [`Bulk`]: it takes what comes, and closes when there is no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sink {
    received: Bytes,
}

impl Sink {
    /// How much arrived in order.
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
                Event::Connected | Event::Finished | Event::GaveUp => {}
            }
        }
    }
}

/// Any of these applications, for hosts that have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A [`Fetch`].
    Fetch(Fetch),
    /// The other end of one.
    Serve(Serve),
    /// A [`Bulk`].
    Bulk(Bulk),
    /// The other end of one.
    Sink(Sink),
}

impl Application for Task {
    fn advance(&mut self, connection: &mut Connection, now: Time) {
        match self {
            Self::Fetch(fetch) => fetch.advance(connection, now),
            Self::Serve(serve) => serve.advance(connection, now),
            Self::Bulk(bulk) => bulk.advance(connection, now),
            Self::Sink(sink) => sink.advance(connection, now),
        }
    }
}
