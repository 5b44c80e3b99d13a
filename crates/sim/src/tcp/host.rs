//! Host of the world with many TCP connections.

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

/// Identifier of a host's connection: the peer's address and the two ports. `ports.source` is the
/// host's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    /// Address of the peer, for UDP datagrams with segments.
    pub peer: SocketAddr,
    /// Source and destination port of the segments that the host sends.
    pub ports: Ports,
}

/// A connection, its application, and the host's state for both.
#[derive(Debug)]
struct ConnectionEntry<A> {
    connection: Connection,
    application: A,
    /// Deadline of the connection when the host last drained it.
    deadline: Option<Time>,
    is_ready: bool,
    was_accepted: bool,
}

/// Host that exchanges segments as datagrams, with one application of kind `A` on each connection.
///
/// In the world, datagrams have a UDP header: each packet is 8 bytes longer than that of a real TCP
/// with the same segment.
///
/// The host removes accepted connections when they end. Connections that it opened stay, because
/// their results are of use, until [`remove`](Self::remove).
#[derive(Debug)]
pub struct TcpHost<A> {
    settings: Settings,
    seed: Seed,
    dscp: u8,
    listening: BTreeMap<u16, A>,
    connections: BTreeMap<ConnectionId, ConnectionEntry<A>>,
    deadlines: BTreeSet<(Time, ConnectionId)>,
    /// Connections that may have something to send.
    ready: VecDeque<ConnectionId>,
    buffer: Vec<u8>,
    /// Statistics of removed connections.
    closed_statistics: Statistics,
    begun: u64,
    damaged: u64,
    misplaced: u64,
    refused: u64,
}

impl<A: Application + Clone> TcpHost<A> {
    /// Creates a host without connections; its initial sequence numbers derive from the seed.
    #[must_use]
    pub fn new(settings: Settings, seed: Seed) -> Self {
        Self {
            settings,
            seed,
            dscp: 0,
            listening: BTreeMap::new(),
            connections: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            buffer: Vec::new(),
            closed_statistics: Statistics::default(),
            begun: 0,
            damaged: 0,
            misplaced: 0,
            refused: 0,
        }
    }

    /// Sets the DSCP of all datagrams that the host sends from now on.
    pub const fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }

    /// Listens on this port; a copy of this application serves each connection to it.
    pub fn listen(&mut self, port: u16, application: A) {
        self.listening.insert(port, application);
    }

    /// Input: opens a connection for this application. Returns false if one with this identifier
    /// exists, or there are [`CONNECTIONS_MAX`].
    pub fn open(&mut self, id: ConnectionId, application: A, now: Time) -> bool {
        let initial = self.next_initial();
        let connection = Connection::client(self.settings, id.ports, initial);
        let was_added = self.add(id, connection, application, false);
        if was_added {
            self.drive(id, None, now);
        }
        was_added
    }

    /// Returns a connection and its application.
    #[must_use]
    pub fn connection(&self, id: ConnectionId) -> Option<(&Connection, &A)> {
        self.connections.get(&id).map(|entry| (&entry.connection, &entry.application))
    }

    /// Returns all connections, in order.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection, &A)> {
        self.connections.iter().map(|(&id, entry)| (id, &entry.connection, &entry.application))
    }

    /// Removes a connection in any state.
    pub fn remove(&mut self, id: ConnectionId) -> Option<(Connection, A)> {
        let entry = self.connections.remove(&id)?;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.closed_statistics.add(entry.connection.statistics());
        Some((entry.connection, entry.application))
    }

    /// Returns the sums over all connections of the host, past and present.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.closed_statistics;
        self.connections.values().for_each(|entry| statistics.add(entry.connection.statistics()));
        statistics
    }

    /// Returns the number of received datagrams that were damaged, or no segments.
    #[must_use]
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Returns the number of undamaged segments with the payload of another position or stream.
    /// Such a segment exists only if the network below mixed up packets; the connection would have
    /// delivered a wrong stream.
    #[must_use]
    pub const fn misplaced_segments(&self) -> u64 {
        self.misplaced
    }

    /// Returns the number of received segments without a connection or a listening port.
    #[must_use]
    pub const fn refused_segments(&self) -> u64 {
        self.refused
    }

    #[allow(clippy::cast_possible_truncation, reason = "sequence numbers have 32 bits")]
    fn next_initial(&mut self) -> SequenceNumber {
        self.begun += 1;
        SequenceNumber::new(self.seed.numbered(self.begun).number() as u32)
    }

    fn add(&mut self, id: ConnectionId, connection: Connection, application: A, was_accepted: bool) -> bool {
        let has_room = self.connections.len() < CONNECTIONS_MAX && !self.connections.contains_key(&id);
        if has_room {
            let entry =
                ConnectionEntry { connection, application, deadline: None, is_ready: false, was_accepted };
            self.connections.insert(id, entry);
        }
        has_room
    }

    /// Creates a connection for a segment without one, if the segment is a SYN to a listening port.
    fn accept(&mut self, id: ConnectionId, segment: &Segment) -> bool {
        let is_opening = segment.flags.contain(Flags::SYN) && !segment.flags.contain(Flags::ACK);
        let listener = self.listening.get(&id.ports.source).filter(|_| is_opening).cloned();
        listener.is_some_and(|application| {
            let initial = self.next_initial();
            self.add(id, Connection::server(self.settings, id.ports, initial), application, true)
        })
    }

    /// Passes an input to a connection and runs its application; `None`: the application starts.
    fn drive(&mut self, id: ConnectionId, input: Option<Input>, now: Time) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        if let Some(input) = input {
            entry.connection.handle(input, now);
        }
        entry.application.advance(&mut entry.connection, now);
        if !core::mem::replace(&mut entry.is_ready, true) {
            self.ready.push_back(id);
        }
    }

    /// Stores the deadline of a drained connection. Removes a connection that the host accepted,
    /// once it has ended.
    fn finish_drain(&mut self, id: ConnectionId) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        entry.is_ready = false;
        let deadline = entry.connection.deadline().map(|(time, _)| time);
        let is_forgotten = entry.was_accepted && entry.connection.is_closed();
        let before = core::mem::replace(&mut entry.deadline, deadline);
        if before != deadline {
            before.map(|time| self.deadlines.remove(&(time, id)));
            self.deadlines.extend(deadline.map(|time| (time, id)));
        }
        if is_forgotten {
            self.remove(id);
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
        if self.connections.contains_key(&id) || self.accept(id, &segment) {
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
            if let Some(entry) = self.connections.get_mut(&id) {
                entry.deadline = None;
            }
            self.drive(id, Some(Input::Wake), now);
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        while let Some(&id) = self.ready.front() {
            let segment = self.connections.get_mut(&id).and_then(|entry| entry.connection.poll(now));
            if let Some(segment) = segment {
                segment.encode(&mut self.buffer);
                return Some(Transmit {
                    source: None,
                    destination: id.peer,
                    marks: Marks { dscp: self.dscp, flow_label: id.ports.label() },
                    ecn: segment.ecn,
                    payload: &self.buffer,
                });
            }
            self.ready.pop_front();
            self.finish_drain(id);
        }
        None
    }

    fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(time, _)| time)
    }
}
