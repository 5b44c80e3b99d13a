//! Datagrams in flight from one step to the next.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_units::{Duration, Time};
use byway_wire::packets::{EnvelopeRole, Kind};

const PORT: u16 = 4_600;

/// Returns the address of the node with this index.
pub(super) fn address(node: usize) -> SocketAddr {
    let [_, b, c, d] = u32::try_from(node).expect("there are few nodes").to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, b, c, d)), PORT)
}

/// Returns the index of the node with this address.
fn node_index(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(address) => {
            let [_, b, c, d] = address.octets();
            u32::from_be_bytes([0, b, c, d]) as usize
        }
        IpAddr::V6(_) => panic!("nodes have IPv4 addresses"),
    }
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    at: Time,
    from: usize,
    start: usize,
    end: usize,
}

/// Datagrams that one node receives in one step.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    datagrams: Vec<Datagram>,
}

impl Inbox {
    pub(super) fn count(&self) -> usize {
        self.datagrams.len()
    }

    /// Returns the arrival time of a datagram, its source address, and its bytes.
    pub(super) fn datagram(&mut self, index: usize) -> (Time, SocketAddr, &mut [u8]) {
        let Datagram { at, from, start, end } = self.datagrams[index];
        (at, address(from), &mut self.bytes[start..end])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
    }
}

/// True if this is a packet on the direct path, a copy between relays or a forwarded packet.
fn is_unsolicited(bytes: &[u8]) -> bool {
    let enveloped = [EnvelopeRole::RelayedCopy as u8, EnvelopeRole::Forwarded as u8];
    match *bytes {
        [kind, role, ..] if kind == Kind::Envelope.first_byte() => enveloped.contains(&role),
        [kind, ..] => kind == Kind::Source.first_byte(),
        [] => false,
    }
}

/// Datagrams of all nodes in flight: those of this step, and those sent for the next.
#[derive(Debug)]
pub(super) struct InFlight {
    arrived: Vec<Inbox>,
    sent: Vec<Inbox>,
    latency: Duration,
    /// Loses one in this many unsolicited packets; 0: none.
    pub(super) lose_one_in: u64,
    unsolicited: u64,
}

impl InFlight {
    pub(super) fn new(nodes: usize, latency: Duration) -> Self {
        let inboxes = || core::iter::repeat_with(Inbox::default).take(nodes).collect();
        Self { arrived: inboxes(), sent: inboxes(), latency, lose_one_in: 0, unsolicited: 0 }
    }

    pub(super) fn send(&mut self, from: usize, to: SocketAddr, bytes: &[u8], now: Time) {
        if self.lose_one_in > 0 && is_unsolicited(bytes) {
            self.unsolicited += 1;
            if self.unsolicited.is_multiple_of(self.lose_one_in) {
                return;
            }
        }
        let inbox = &mut self.sent[node_index(to)];
        let start = inbox.bytes.len();
        inbox.bytes.extend_from_slice(bytes);
        inbox.datagrams.push(Datagram { at: now + self.latency, from, start, end: inbox.bytes.len() });
    }

    /// Removes the datagrams that arrived at a node; the caller returns the inbox after their
    /// delivery.
    pub(super) fn remove_inbox(&mut self, node: usize) -> Inbox {
        core::mem::take(&mut self.arrived[node])
    }

    pub(super) fn return_inbox(&mut self, node: usize, mut inbox: Inbox) {
        inbox.clear();
        self.arrived[node] = inbox;
    }

    /// Begins the next step: datagrams sent in the last one have arrived, in the order of time.
    pub(super) fn advance(&mut self) {
        core::mem::swap(&mut self.arrived, &mut self.sent);
        for inbox in &mut self.arrived {
            // Buffer offsets are in the order of sending, therefore no two keys are equal. An
            // unstable sort allocates nothing.
            inbox.datagrams.sort_unstable_by_key(|datagram| (datagram.at, datagram.start));
        }
    }
}
