//! Datagrams on their way from one step to the next.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_units::{Duration, Time};
use byway_wire::packets::{EnvelopeRole, Kind};

const PORT: u16 = 4_600;

/// The address of a node.
pub(super) fn address(place: usize) -> SocketAddr {
    let [_, b, c, d] = u32::try_from(place).expect("there are few nodes").to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, b, c, d)), PORT)
}

/// The node at an address.
fn place(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(address) => {
            let [_, b, c, d] = address.octets();
            u32::from_be_bytes([0, b, c, d]) as usize
        }
        IpAddr::V6(_) => panic!("nodes have IPv4 addresses"),
    }
}

#[derive(Clone, Copy, Debug)]
struct Letter {
    at: Time,
    from: usize,
    start: usize,
    end: usize,
}

/// The datagrams for one node, in one step.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    letters: Vec<Letter>,
}

impl Inbox {
    pub(super) fn count(&self) -> usize {
        self.letters.len()
    }

    /// When a datagram arrives, from where, and its bytes.
    pub(super) fn letter(&mut self, index: usize) -> (Time, SocketAddr, &mut [u8]) {
        let Letter { at, from, start, end } = self.letters[index];
        (at, address(from), &mut self.bytes[start..end])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.letters.clear();
    }
}

/// Whether this is a packet on the direct path, or one that relays carry or forward.
fn is_unasked(bytes: &[u8]) -> bool {
    let enveloped = [EnvelopeRole::Carried as u8, EnvelopeRole::Forwarded as u8];
    match *bytes {
        [kind, role, ..] if kind == Kind::Envelope.first_byte() => enveloped.contains(&role),
        [kind, ..] => kind == Kind::Source.first_byte(),
        [] => false,
    }
}

/// All datagrams under way.
#[derive(Debug)]
pub(super) struct Post {
    arrived: Vec<Inbox>,
    under_way: Vec<Inbox>,
    latency: Duration,
    /// Loses one in so many packets that nobody asked for; 0: none.
    pub(super) lose_one_in: u64,
    unasked: u64,
}

impl Post {
    pub(super) fn new(nodes: usize, latency: Duration) -> Self {
        let inboxes = || core::iter::repeat_with(Inbox::default).take(nodes).collect();
        Self { arrived: inboxes(), under_way: inboxes(), latency, lose_one_in: 0, unasked: 0 }
    }

    pub(super) fn send(&mut self, from: usize, to: SocketAddr, bytes: &[u8], now: Time) {
        if self.lose_one_in > 0 && is_unasked(bytes) {
            self.unasked += 1;
            if self.unasked.is_multiple_of(self.lose_one_in) {
                return;
            }
        }
        let inbox = &mut self.under_way[place(to)];
        let start = inbox.bytes.len();
        inbox.bytes.extend_from_slice(bytes);
        inbox.letters.push(Letter { at: now + self.latency, from, start, end: inbox.bytes.len() });
    }

    /// What came for a node, to be put back when it was handed out.
    pub(super) fn take(&mut self, node: usize) -> Inbox {
        core::mem::take(&mut self.arrived[node])
    }

    pub(super) fn put_back(&mut self, node: usize, mut inbox: Inbox) {
        inbox.clear();
        self.arrived[node] = inbox;
    }

    /// What was sent has arrived, in the order of time.
    pub(super) fn advance(&mut self) {
        core::mem::swap(&mut self.arrived, &mut self.under_way);
        for inbox in &mut self.arrived {
            // Places in the buffer are in the order of sending: no two datagrams are equal, nothing is allocated.
            inbox.letters.sort_unstable_by_key(|letter| (letter.at, letter.start));
        }
    }
}
