//! Datagrams that wait to be sent, in rows that the kernel takes with one call.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use byway_proto::limits::PAYLOAD_BYTES_BASE;
use byway_proto::{LocalAddress, Urgency};
use byway_wire::TrafficClass;
use byway_wire::limits::DATAGRAM_BYTES_MAX;

use crate::limits::{DESTINATIONS, HELD_BYTES_MAX, HELD_RUNS_MAX, QUEUED_BYTES_MAX, RUNS_MAX};

/// A datagram to be queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    /// The slot of the socket that sends it.
    pub(crate) socket: u32,
    pub(crate) to: SocketAddr,
    pub(crate) from: LocalAddress,
    /// The shard that it is for: where shards share a machine with the sender, the kernel gives a whole run to one.
    pub(crate) shard: u8,
    pub(crate) traffic_class: TrafficClass,
    pub(crate) urgency: Urgency,
    pub(crate) bytes: &'a [u8],
    /// Most datagrams of this length that the socket takes at once.
    pub(crate) segments_max: usize,
}

/// A row of datagrams of one socket and local address to one destination, with one traffic class, of one length; the last may be shorter.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) socket: u32,
    pub(crate) to: SocketAddr,
    pub(crate) from: LocalAddress,
    pub(crate) traffic_class: TrafficClass,
    pub(crate) segment_bytes: usize,
    shard: u8,
    /// Datagrams that have not been sent.
    segments: usize,
    bytes: Vec<u8>,
    /// Where in `bytes` those begin.
    start: usize,
    /// Whether another of the same length may follow.
    is_open: bool,
    /// Differs each time that the run is used for something else.
    serial: u32,
}

impl Run {
    fn new() -> Self {
        Self {
            socket: 0,
            to: SocketAddr::from(([0; 4], 0)),
            from: LocalAddress::ANY,
            traffic_class: TrafficClass::DEFAULT,
            segment_bytes: 0,
            shard: 0,
            segments: 0,
            bytes: Vec::new(),
            start: 0,
            is_open: false,
            serial: 0,
        }
    }

    fn begin(&mut self, datagram: &Datagram<'_>) {
        let Datagram { socket, to, from, shard, traffic_class, bytes, segments_max, .. } = *datagram;
        (self.socket, self.to, self.from, self.shard) = (socket, to, from, shard);
        self.traffic_class = traffic_class;
        self.segment_bytes = bytes.len();
        self.segments = 1;
        self.bytes.extend_from_slice(bytes);
        // An empty datagram cannot follow another in one buffer.
        self.is_open = !bytes.is_empty() && segments_max > 1;
    }

    /// Whether `datagram` is of this run's socket and destination.
    #[inline]
    fn leads_to(&self, datagram: &Datagram<'_>) -> bool {
        self.socket == datagram.socket && self.to == datagram.to
    }

    /// Whether `datagram`, which leads to the same place, goes into the same call. One that every path carries does not go
    /// with longer ones: a router on the same machine drops the whole row if those are too long.
    #[inline]
    fn takes(&self, datagram: &Datagram<'_>) -> bool {
        let length = datagram.bytes.len();
        self.is_open
            && self.from == datagram.from
            && self.traffic_class == datagram.traffic_class
            && self.shard == datagram.shard
            && (1..=self.segment_bytes).contains(&length)
            && (self.segment_bytes <= PAYLOAD_BYTES_BASE || length > PAYLOAD_BYTES_BASE)
            && self.segments < datagram.segments_max
            && self.bytes.len() + length <= DATAGRAM_BYTES_MAX
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        self.is_open = bytes.len() == self.segment_bytes;
        self.segments += 1;
        self.bytes.extend_from_slice(bytes);
    }

    /// Datagrams that have not been sent.
    pub(crate) const fn segments(&self) -> usize {
        self.segments
    }

    /// The bytes of the next datagrams, up to `segments` of them.
    pub(crate) fn next(&self, segments: usize) -> &[u8] {
        let bytes = &self.bytes[self.start..];
        &bytes[..bytes.len().min(segments.saturating_mul(self.segment_bytes))]
    }

    /// Takes the next datagrams for done.
    pub(crate) fn advance(&mut self, segments: usize) {
        self.start += self.next(segments).len();
        self.segments -= segments;
    }
}

/// How it went with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing is left of it.
    All,
    /// The socket takes no more for now.
    Kept,
}

/// Datagrams that were dropped, by urgency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) originals: u64,
    pub(crate) scavengers: u64,
}

/// Datagrams that wait to be sent.
///
/// Those of one urgency to one destination stay in their order: only the newest run of a destination is ever added to.
/// Nothing is allocated once the runs' buffers have grown.
#[derive(Debug)]
pub(crate) struct Outgoing {
    runs: Vec<Run>,
    /// Runs that are not in use; the last one was used last, and has grown.
    free: Vec<u16>,
    /// By urgency, in the order in which they began.
    queues: [VecDeque<u16>; 2],
    /// By urgency and destination: a run that may take more, with its serial.
    newest: [Box<[(u16, u32)]>; 2],
    /// All bytes that wait.
    bytes: usize,
}

impl Outgoing {
    pub(crate) fn new() -> Self {
        let indices = 0..u16::try_from(RUNS_MAX).expect("checked where the limit is");
        // Serials begin with 1 when a run is first used, so these are nobody's.
        let newest = || vec![(0, 0); DESTINATIONS].into_boxed_slice();
        Self {
            runs: std::iter::repeat_with(Run::new).take(RUNS_MAX).collect(),
            free: indices.rev().collect(),
            queues: [VecDeque::with_capacity(RUNS_MAX), VecDeque::with_capacity(RUNS_MAX)],
            newest: [newest(), newest()],
            bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Queues a datagram; whether there was room.
    #[inline]
    #[must_use]
    pub(crate) fn add(&mut self, datagram: &Datagram<'_>) -> bool {
        if self.bytes + datagram.bytes.len() > QUEUED_BYTES_MAX {
            return false;
        }
        let newest = &mut self.newest[queue(datagram.urgency)][place(datagram)];
        let run = &mut self.runs[usize::from(newest.0)];
        if run.serial == newest.1 && run.leads_to(datagram) && run.takes(datagram) {
            run.push(datagram.bytes);
        } else {
            let Some(index) = self.free.pop() else {
                return false;
            };
            let run = &mut self.runs[usize::from(index)];
            run.serial = run.serial.wrapping_add(1);
            run.begin(datagram);
            *newest = (index, run.serial);
            self.queues[queue(datagram.urgency)].push_back(index);
        }
        self.bytes += datagram.bytes.len();
        true
    }

    /// Gives every run to `send`, originals before scavengers; those that it keeps stay, up to a limit.
    pub(crate) fn flush(&mut self, mut send: impl FnMut(&mut Run) -> Sent) -> Dropped {
        for urgency in 0..self.queues.len() {
            for _ in 0..self.queues[urgency].len() {
                let Some(index) = self.queues[urgency].pop_front() else {
                    break;
                };
                let run = &mut self.runs[usize::from(index)];
                let waiting = run.bytes.len() - run.start;
                let outcome = send(run);
                self.bytes -= waiting - (run.bytes.len() - run.start);
                match outcome {
                    Sent::All => self.release(index),
                    Sent::Kept => self.queues[urgency].push_back(index),
                }
            }
        }
        self.trim()
    }

    /// Drops what a socket still has to send; how many datagrams.
    pub(crate) fn forget(&mut self, socket: u32) -> u64 {
        let mut dropped = 0;
        for urgency in 0..self.queues.len() {
            for _ in 0..self.queues[urgency].len() {
                let Some(index) = self.queues[urgency].pop_front() else {
                    break;
                };
                if self.runs[usize::from(index)].socket == socket {
                    dropped += self.runs[usize::from(index)].segments as u64;
                    self.release(index);
                } else {
                    self.queues[urgency].push_back(index);
                }
            }
        }
        dropped
    }

    /// Drops of what sockets do not take the oldest, which is of the least use: scavengers, then originals.
    fn trim(&mut self) -> Dropped {
        let mut dropped = Dropped::default();
        while self.bytes > HELD_BYTES_MAX || RUNS_MAX - self.free.len() > HELD_RUNS_MAX {
            let [originals, scavengers] = &mut self.queues;
            let (index, count) = match (scavengers.pop_front(), &mut dropped) {
                (Some(index), Dropped { scavengers, .. }) => (index, scavengers),
                (None, Dropped { originals: count, .. }) => match originals.pop_front() {
                    Some(index) => (index, count),
                    None => unreachable!("what is held is queued"),
                },
            };
            *count += self.runs[usize::from(index)].segments as u64;
            self.release(index);
        }
        dropped
    }

    /// Empties a run that is in no queue.
    fn release(&mut self, index: u16) {
        let run = &mut self.runs[usize::from(index)];
        self.bytes -= run.bytes.len() - run.start;
        run.bytes.clear();
        run.start = 0;
        run.is_open = false;
        self.free.push(index);
    }
}

const fn queue(urgency: Urgency) -> usize {
    match urgency {
        Urgency::Original => 0,
        Urgency::Scavenger => 1,
    }
}

/// Where the newest run to the datagram's destination is looked up.
#[inline]
fn place(datagram: &Datagram<'_>) -> usize {
    /// 2^64 divided by the golden ratio: neighbouring products differ in their highest bits (Knuth, volume 3, 6.4).
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let address = match datagram.to.ip() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => {
            let [high, .., low] = [address.to_bits() >> 64, address.to_bits()];
            #[allow(clippy::cast_possible_truncation, reason = "the low half is wanted")]
            let halves = (high as u64, low as u64);
            halves.0.wrapping_mul(SPREAD) ^ halves.1
        }
    };
    let door = u64::from(datagram.to.port()) | u64::from(datagram.socket) << 32;
    let mixed = (address.wrapping_mul(SPREAD) ^ door).wrapping_mul(SPREAD);
    usize::try_from(mixed >> (64 - DESTINATIONS.ilog2())).expect("as many bits as there are places")
}

#[cfg(test)]
mod tests;
