//! Which connections run through the device: their answers are let in, and how much they have sent is known.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use byway_proto::marking;
use byway_units::{AgentId, Duration, Time};
use byway_wire::ip::{Headers, Ports};

/// Connections that are kept in mind: of each set, [`WAYS`]. What sends is found again when it sends the next time.
const SETS: usize = 4_096;
const WAYS: usize = 4;

/// How long a connection may be silent: TCP as long as NATs have to bear it (RFC 5382, REQ-5), others as long as those keep their
/// mappings (RFC 4787, REQ-5).
const TCP_SILENT_FOR: Duration = Duration::from_secs(7_440);
const SILENT_FOR: Duration = Duration::from_secs(300);

/// After so long without a packet, what a connection sends is a new beginning: its congestion window is that of one (RFC 9293 leaves it
/// to RFC 5681, section 4.1).
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// A connection, as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    peer: AgentId,
    protocol: u8,
    here: (IpAddr, u16),
    there: (IpAddr, u16),
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    key: Key,
    used: Time,
    /// When it sent last, and what since it began or was idle.
    sent_at: Time,
    sent: marking::Connection,
}

/// The connections.
pub(super) struct Connections {
    /// Strangers who choose ports cannot choose places.
    hasher: RandomState,
    places: Vec<[Option<Connection>; WAYS]>,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self { hasher: RandomState::new(), places: vec![[None; WAYS]; SETS] }
    }

    /// A packet leaves for a peer: what its connection has sent before.
    pub(super) fn sent(
        &mut self,
        peer: AgentId,
        headers: &Headers,
        bytes: usize,
        now: Time,
    ) -> marking::Connection {
        let begins = headers.tcp.is_some_and(byway_wire::ip::TcpHeader::is_syn);
        let connection = self.place(key(peer, headers, true), now);
        if begins || now.saturating_since(connection.sent_at) > IDLE_AFTER {
            connection.sent = marking::Connection::default();
        }
        let before = connection.sent;
        (connection.used, connection.sent_at) = (now, now);
        connection.sent.sent += bytes as u64;
        connection.sent.longest = before.longest.max(bytes);
        before
    }

    /// A peer's packet comes: whether it belongs to a connection from here.
    pub(super) fn has(&mut self, peer: AgentId, headers: &Headers, now: Time) -> bool {
        let known = key(peer, headers, false);
        let set = self.set(&known);
        let found = self.places[set].iter_mut().flatten().find(|connection| connection.key == known);
        let silent_for = if headers.is_tcp() { TCP_SILENT_FOR } else { SILENT_FOR };
        let found = found.filter(|connection| now.saturating_since(connection.used) <= silent_for);
        let Some(connection) = found else {
            return false;
        };
        connection.used = now;
        if headers.is_followed && headers.ports.is_some() {
            // Later fragments have no ports.
            self.place(key(peer, &Headers { ports: None, ..*headers }, false), now).used = now;
        }
        true
    }

    /// The connection's place; the one of its set that was used least lately makes room.
    fn place(&mut self, key: Key, now: Time) -> &mut Connection {
        let set = self.set(&key);
        let places = &mut self.places[set];
        let known = places.iter().position(|place| place.is_some_and(|connection| connection.key == key));
        let oldest = |place: &usize| places[*place].map_or(Time::START, |connection| connection.used);
        let place = known.or_else(|| (0..WAYS).min_by_key(oldest)).unwrap_or(0);
        let place = &mut places[place];
        if known.is_none() {
            *place = None;
        }
        place.get_or_insert(Connection { key, used: now, sent_at: now, sent: marking::Connection::default() })
    }

    fn set(&self, key: &Key) -> usize {
        usize::try_from(self.hasher.hash_one(key) % SETS as u64).unwrap_or(0)
    }
}

/// Of what has no ports, those are 0.
fn key(peer: AgentId, headers: &Headers, is_sent: bool) -> Key {
    let Headers { source, destination, protocol, ports, .. } = *headers;
    let ports = ports.unwrap_or(Ports { source: 0, destination: 0 });
    let (from, to) = ((source, ports.source), (destination, ports.destination));
    let (here, there) = if is_sent { (from, to) } else { (to, from) };
    Key { peer, protocol, here, there }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connections").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: AgentId = AgentId::new(2);

    fn headers(source: (u8, u16), destination: (u8, u16)) -> Headers {
        let packet = [
            &[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, source.0, 10, 0, 0, destination.0][..],
            &source.1.to_be_bytes(),
            &destination.1.to_be_bytes(),
            &[0, 8, 0, 0],
        ];
        Headers::parse(&packet.concat()).expect("a packet")
    }

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    #[test]
    fn answers_of_the_peer_that_was_spoken_to_are_known_for_a_while() {
        let mut connections = Connections::new();
        let (there, back) = (headers((1, 5_000), (2, 53)), headers((2, 53), (1, 5_000)));
        assert!(!connections.has(PEER, &back, at(0)));
        connections.sent(PEER, &there, 28, at(0));
        assert!(connections.has(PEER, &back, at(300_000)));
        assert!(!connections.has(PEER, &back, at(600_001)), "it was silent too long");
        assert!(!connections.has(AgentId::new(3), &back, at(1)), "another peer has no part in it");
        assert!(!connections.has(PEER, &headers((2, 54), (1, 5_000)), at(1)), "another port");
    }

    #[test]
    fn later_fragments_of_an_answer_are_known_by_its_first() {
        let mut connections = Connections::new();
        connections.sent(PEER, &headers((1, 5_000), (2, 53)), 28, at(0));
        let later = Headers { ports: None, ..headers((2, 53), (1, 5_000)) };
        assert!(!connections.has(PEER, &later, at(1)));
        assert!(connections.has(PEER, &Headers { is_followed: true, ..headers((2, 53), (1, 5_000)) }, at(2)));
        assert!(connections.has(PEER, &later, at(3)));
    }

    #[test]
    fn what_was_sent_counts_from_the_beginning_and_anew_after_a_pause() {
        let mut connections = Connections::new();
        let packet = headers((1, 5_000), (2, 443));
        let sent = [(0, 0), (500, 100), (1_500, 200), (2_501, 0)];
        for (ms, before) in sent {
            let longest = if before == 0 { 0 } else { 100 };
            let expected = marking::Connection { sent: before, longest };
            assert_eq!(connections.sent(PEER, &packet, 100, at(ms)), expected, "{ms}");
        }
    }

    #[test]
    fn many_connections_keep_their_bound_and_the_latest_is_known() {
        let mut connections = Connections::new();
        for port in 0..40_000 {
            let packet = headers((1, port), (2, 53));
            connections.sent(PEER, &packet, 28, at(u64::from(port)));
            assert!(connections.has(PEER, &headers((2, 53), (1, port)), at(u64::from(port))));
        }
        let kept = connections.places.iter().flatten().flatten().count();
        assert!(kept > SETS * WAYS * 9 / 10, "{kept}");
    }
}
