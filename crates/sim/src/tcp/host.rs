//! A host of many connections, for the world.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::Time;

use super::application::Application;
use super::connection::{Connection, Input};
use super::encoding::SegmentError;
use super::limits::CONNECTIONS_MAX;
use super::segment::{Flags, Ports, Segment};
use super::sequence::SequenceNumber;
use super::settings::Settings;
use super::statistics::Statistics;
use crate::host::{Datagram, Host, Transmit};
use crate::marks::Marks;
use crate::random::Seed;

/// A connection of a host: with whom, and between which ports. `ports.source` is the host's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    /// The address to which its segments go, in UDP datagrams.
    pub peer: SocketAddr,
    /// The ports of its own segments.
    pub ports: Ports,
}

/// A connection and what it is used for.
#[derive(Debug)]
struct Place<A> {
    connection: Connection,
    application: A,
    /// When the host is to wake it, as far as the host knows.
    deadline: Option<Time>,
    is_ready: bool,
    was_accepted: bool,
}

/// A host whose every datagram is a segment, with one application of kind `A` above each connection.
///
/// In the world, datagrams have a UDP header: each packet is 8 bytes longer than that of a real TCP with the same segment.
///
/// Connections that it accepted are forgotten when they are over; those that it opened are kept for their results, until they are
/// [taken](Self::take).
#[derive(Debug)]
pub struct TcpHost<A> {
    settings: Settings,
    seed: Seed,
    dscp: u8,
    listening: BTreeMap<u16, A>,
    places: BTreeMap<ConnectionId, Place<A>>,
    deadlines: BTreeSet<(Time, ConnectionId)>,
    /// Connections that may have something to send.
    ready: VecDeque<ConnectionId>,
    sending: Vec<u8>,
    /// What happened to connections that are forgotten.
    former: Statistics,
    begun: u64,
    damaged: u64,
    misplaced: u64,
    refused: u64,
}

impl<A: Application + Clone> TcpHost<A> {
    /// A host without connections; sequence numbers begin where the seed says.
    #[must_use]
    pub fn new(settings: Settings, seed: Seed) -> Self {
        Self {
            settings,
            seed,
            dscp: 0,
            listening: BTreeMap::new(),
            places: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            sending: Vec::new(),
            former: Statistics::default(),
            begun: 0,
            damaged: 0,
            misplaced: 0,
            refused: 0,
        }
    }

    /// Has all that it sends from now on marked with this DSCP.
    pub const fn mark(&mut self, dscp: u8) {
        self.dscp = dscp;
    }

    /// Has a copy of this application serve each connection that is opened to this port.
    pub fn listen(&mut self, port: u16, application: A) {
        self.listening.insert(port, application);
    }

    /// Input: opens a connection for this application. Whether that was possible: not if there is one of that name, or there are
    /// [`CONNECTIONS_MAX`].
    pub fn open(&mut self, id: ConnectionId, application: A, now: Time) -> bool {
        let initial = self.next_initial();
        let connection = Connection::client(self.settings, id.ports, initial);
        let was_added = self.add(id, connection, application, false);
        if was_added {
            self.drive(id, None, now);
        }
        was_added
    }

    /// A connection and its application, to look at.
    #[must_use]
    pub fn connection(&self, id: ConnectionId) -> Option<(&Connection, &A)> {
        self.places.get(&id).map(|place| (&place.connection, &place.application))
    }

    /// All connections that are not forgotten, in order.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection, &A)> {
        self.places.iter().map(|(&id, place)| (id, &place.connection, &place.application))
    }

    /// Forgets a connection, whatever it does.
    pub fn take(&mut self, id: ConnectionId) -> Option<(Connection, A)> {
        let place = self.places.remove(&id)?;
        if let Some(deadline) = place.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.former.add(place.connection.statistics());
        Some((place.connection, place.application))
    }

    /// What happened to all connections that there are or were, together.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.former;
        self.places.values().for_each(|place| statistics.add(place.connection.statistics()));
        statistics
    }

    /// Datagrams that were no segments, or damaged ones.
    #[must_use]
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Segments that arrived undamaged with the payload of another place or stream. There is no such thing, unless what carries
    /// them takes one for another: then a stream would have been delivered wrong.
    #[must_use]
    pub const fn misplaced(&self) -> u64 {
        self.misplaced
    }

    /// Segments for no connection, and for no port that listens.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    #[allow(clippy::cast_possible_truncation, reason = "sequence numbers have 32 bits")]
    fn next_initial(&mut self) -> SequenceNumber {
        self.begun += 1;
        SequenceNumber::new(self.seed.numbered(self.begun).number() as u32)
    }

    fn add(&mut self, id: ConnectionId, connection: Connection, application: A, was_accepted: bool) -> bool {
        let has_room = self.places.len() < CONNECTIONS_MAX && !self.places.contains_key(&id);
        if has_room {
            let place = Place { connection, application, deadline: None, is_ready: false, was_accepted };
            self.places.insert(id, place);
        }
        has_room
    }

    /// Makes a connection for a segment that has none, if it is a SYN to a port that listens.
    fn accept(&mut self, id: ConnectionId, segment: &Segment) -> bool {
        let is_opening = segment.flags.contain(Flags::SYN) && !segment.flags.contain(Flags::ACK);
        let listener = self.listening.get(&id.ports.source).filter(|_| is_opening).cloned();
        listener.is_some_and(|application| {
            let initial = self.next_initial();
            self.add(id, Connection::server(self.settings, id.ports, initial), application, true)
        })
    }

    /// Gives a connection an input and lets its application answer; `None`: the application begins.
    fn drive(&mut self, id: ConnectionId, input: Option<Input>, now: Time) {
        let Some(place) = self.places.get_mut(&id) else { return };
        if let Some(input) = input {
            place.connection.handle(input, now);
        }
        place.application.advance(&mut place.connection, now);
        if !core::mem::replace(&mut place.is_ready, true) {
            self.ready.push_back(id);
        }
    }

    /// A connection was drained: notes when to wake it, or forgets it.
    fn settle(&mut self, id: ConnectionId) {
        let Some(place) = self.places.get_mut(&id) else { return };
        place.is_ready = false;
        let deadline = place.connection.deadline().map(|(time, _)| time);
        let is_forgotten = place.was_accepted && place.connection.is_over();
        let before = core::mem::replace(&mut place.deadline, deadline);
        if before != deadline {
            before.map(|time| self.deadlines.remove(&(time, id)));
            self.deadlines.extend(deadline.map(|time| (time, id)));
        }
        if is_forgotten {
            self.take(id);
        }
    }
}

impl<A: Application + Clone> Host for TcpHost<A> {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        let segment = match Segment::decode(datagram.payload, datagram.ecn) {
            Ok(segment) => segment,
            Err(SegmentError::Payload) => return self.misplaced += 1,
            Err(_) => return self.damaged += 1,
        };
        let id = ConnectionId { peer: datagram.source, ports: segment.ports.reversed() };
        if self.places.contains_key(&id) || self.accept(id, &segment) {
            self.drive(id, Some(Input::Segment(segment)), now);
        } else {
            self.refused += 1;
        }
    }

    fn wake(&mut self, now: Time) {
        while let Some(&(time, id)) = self.deadlines.first()
            && time <= now
        {
            self.deadlines.pop_first();
            if let Some(place) = self.places.get_mut(&id) {
                place.deadline = None;
            }
            self.drive(id, Some(Input::Wake), now);
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        while let Some(&id) = self.ready.front() {
            let segment = self.places.get_mut(&id).and_then(|place| place.connection.poll(now));
            if let Some(segment) = segment {
                segment.encode(&mut self.sending);
                return Some(Transmit {
                    source: None,
                    destination: id.peer,
                    marks: Marks { dscp: self.dscp, flow_label: id.ports.label() },
                    ecn: segment.ecn,
                    payload: &self.sending,
                });
            }
            self.ready.pop_front();
            self.settle(id);
        }
        None
    }

    fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(time, _)| time)
    }
}
