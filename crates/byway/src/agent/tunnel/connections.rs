//! Table of the connections that captured packets belong to. The agent admits peers' answers by it,
//! and knows the bytes that a connection has sent.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use byway_proto::copy_selection;
use byway_units::{AgentId, Duration, Time};
use byway_wire::ip::{Headers, Ports};

/// Number of sets in the table of connections, and entries of each set. A full set replaces its
/// least recently used connection, which is added again once it sends again.
const SETS: usize = 4_096;
const ASSOCIATIVITY: usize = 4;

/// Silence after which a connection is forgotten. TCP: the timeout that NATs must support (RFC
/// 5382, REQ-5). Others: the timeout of NATs' mappings (RFC 4787, REQ-5).
const TCP_IDLE_TIMEOUT: Duration = Duration::from_secs(7_440);
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Time without a packet sent after which a connection counts as restarted. Its congestion window
/// is then that of a new one (RFC 9293 refers to RFC 5681, section 4.1).
const RESTART_IDLE: Duration = Duration::from_secs(1);

/// Key of a connection through the device: the peer, the protocol, and the address and port at each
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ConnectionKey {
    peer: AgentId,
    protocol: u8,
    here: (IpAddr, u16),
    there: (IpAddr, u16),
}

#[derive(Clone, Copy, Debug)]
struct ConnectionEntry {
    key: ConnectionKey,
    used: Time,
    /// Time of the latest packet sent, and progress of sending since the connection began or was
    /// idle.
    sent_at: Time,
    sent: copy_selection::ConnectionProgress,
}

/// Table of connections through the device: a hash table of fixed size, in which new connections
/// replace old ones.
pub(super) struct ConnectionTable {
    /// Hasher with random keys: an attacker who chooses ports cannot choose sets.
    hasher: RandomState,
    sets: Vec<[Option<ConnectionEntry>; ASSOCIATIVITY]>,
}

impl ConnectionTable {
    pub(super) fn new() -> Self {
        Self { hasher: RandomState::new(), sets: vec![[None; ASSOCIATIVITY]; SETS] }
    }

    /// Records a captured packet to a peer. Returns the progress of the packet's connection before
    /// this packet: the bytes sent, and the longest packet.
    pub(super) fn record_sent(
        &mut self,
        peer: AgentId,
        headers: &Headers,
        bytes: usize,
        now: Time,
    ) -> copy_selection::ConnectionProgress {
        let begins = headers.tcp.is_some_and(byway_wire::ip::TcpHeader::is_syn);
        let connection = self.entry_mut(key(peer, headers, true), now);
        if begins || now.saturating_since(connection.sent_at) > RESTART_IDLE {
            connection.sent = copy_selection::ConnectionProgress::default();
        }
        let before = connection.sent;
        (connection.used, connection.sent_at) = (now, now);
        connection.sent.sent += bytes as u64;
        connection.sent.longest = before.longest.max(bytes);
        before
    }

    /// True if a peer's packet belongs to a connection on which this end has sent. Records the use
    /// of the connection.
    pub(super) fn contains(&mut self, peer: AgentId, headers: &Headers, now: Time) -> bool {
        let known = key(peer, headers, false);
        let set = self.set_index(&known);
        let found = self.sets[set].iter_mut().flatten().find(|connection| connection.key == known);
        let silent_for = if headers.is_tcp() { TCP_IDLE_TIMEOUT } else { IDLE_TIMEOUT };
        let found = found.filter(|connection| now.saturating_since(connection.used) <= silent_for);
        let Some(connection) = found else {
            return false;
        };
        connection.used = now;
        if headers.is_followed && headers.ports.is_some() {
            // Later fragments have no ports.
            self.entry_mut(key(peer, &Headers { ports: None, ..*headers }, false), now).used = now;
        }
        true
    }

    /// Returns the entry of a connection. A new connection gets an entry, which replaces the least
    /// recently used one of its set.
    fn entry_mut(&mut self, key: ConnectionKey, now: Time) -> &mut ConnectionEntry {
        let set = self.set_index(&key);
        let entries = &mut self.sets[set];
        let known = entries.iter().position(|entry| entry.is_some_and(|connection| connection.key == key));
        let last_use = |index: &usize| entries[*index].map_or(Time::START, |connection| connection.used);
        let index = known.or_else(|| (0..ASSOCIATIVITY).min_by_key(last_use)).unwrap_or(0);
        let entry = &mut entries[index];
        if known.is_none() {
            *entry = None;
        }
        entry.get_or_insert(ConnectionEntry {
            key,
            used: now,
            sent_at: now,
            sent: copy_selection::ConnectionProgress::default(),
        })
    }

    fn set_index(&self, key: &ConnectionKey) -> usize {
        usize::try_from(self.hasher.hash_one(key) % SETS as u64).unwrap_or(0)
    }
}

/// Returns the key of the connection that a packet to (`is_sent`) or from a peer belongs to.
/// Protocols without ports have port 0.
fn key(peer: AgentId, headers: &Headers, is_sent: bool) -> ConnectionKey {
    let Headers { source, destination, protocol, ports, .. } = *headers;
    let ports = ports.unwrap_or(Ports { source: 0, destination: 0 });
    let (from, to) = ((source, ports.source), (destination, ports.destination));
    let (here, there) = if is_sent { (from, to) } else { (to, from) };
    ConnectionKey { peer, protocol, here, there }
}

impl std::fmt::Debug for ConnectionTable {
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
        let mut connections = ConnectionTable::new();
        let (there, back) = (headers((1, 5_000), (2, 53)), headers((2, 53), (1, 5_000)));
        assert!(!connections.contains(PEER, &back, at(0)));
        connections.record_sent(PEER, &there, 28, at(0));
        assert!(connections.contains(PEER, &back, at(300_000)));
        assert!(!connections.contains(PEER, &back, at(600_001)), "it was silent too long");
        assert!(!connections.contains(AgentId::new(3), &back, at(1)), "another peer has no part in it");
        assert!(!connections.contains(PEER, &headers((2, 54), (1, 5_000)), at(1)), "another port");
    }

    #[test]
    fn later_fragments_of_an_answer_are_known_by_its_first() {
        let mut connections = ConnectionTable::new();
        connections.record_sent(PEER, &headers((1, 5_000), (2, 53)), 28, at(0));
        let later = Headers { ports: None, ..headers((2, 53), (1, 5_000)) };
        assert!(!connections.contains(PEER, &later, at(1)));
        assert!(connections.contains(
            PEER,
            &Headers { is_followed: true, ..headers((2, 53), (1, 5_000)) },
            at(2)
        ));
        assert!(connections.contains(PEER, &later, at(3)));
    }

    #[test]
    fn what_was_sent_counts_from_the_beginning_and_anew_after_a_pause() {
        let mut connections = ConnectionTable::new();
        let packet = headers((1, 5_000), (2, 443));
        let sent = [(0, 0), (500, 100), (1_500, 200), (2_501, 0)];
        for (ms, before) in sent {
            let longest = if before == 0 { 0 } else { 100 };
            let expected = copy_selection::ConnectionProgress { sent: before, longest };
            assert_eq!(connections.record_sent(PEER, &packet, 100, at(ms)), expected, "{ms}");
        }
    }

    #[test]
    fn many_connections_keep_their_bound_and_the_latest_is_known() {
        let mut connections = ConnectionTable::new();
        for port in 0..40_000 {
            let packet = headers((1, port), (2, 53));
            connections.record_sent(PEER, &packet, 28, at(u64::from(port)));
            assert!(connections.contains(PEER, &headers((2, 53), (1, port)), at(u64::from(port))));
        }
        let stored = connections.sets.iter().flatten().flatten().count();
        assert!(stored > SETS * ASSOCIATIVITY * 9 / 10, "{stored}");
    }
}
