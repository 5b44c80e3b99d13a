//! Queue of outgoing datagrams, in runs that take one system call each.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use byway_proto::limits::PAYLOAD_BYTES_BASE;
use byway_proto::{LocalAddress, Priority};
use byway_wire::TrafficClass;
use byway_wire::limits::DATAGRAM_BYTES_MAX;

use crate::limits::{DESTINATIONS, HELD_BYTES_MAX, HELD_RUNS_MAX, QUEUED_BYTES_MAX, RUNS_MAX};

/// Datagram to queue for sending.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    /// Slot of the socket that sends the datagram.
    pub(crate) socket: u32,
    pub(crate) to: SocketAddr,
    pub(crate) from: LocalAddress,
    /// Destination shard: if shards share a machine with the sender, the kernel steers a whole run
    /// to one shard.
    pub(crate) shard: u8,
    pub(crate) traffic_class: TrafficClass,
    pub(crate) priority: Priority,
    pub(crate) bytes: &'a [u8],
    /// Largest number of datagrams of this length that the socket accepts in one call.
    pub(crate) segments_max: usize,
}

/// Datagrams of one socket and local address to one destination, with one traffic class and of
/// equal length; the last may be shorter.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) socket: u32,
    pub(crate) to: SocketAddr,
    pub(crate) from: LocalAddress,
    pub(crate) traffic_class: TrafficClass,
    pub(crate) segment_bytes: usize,
    shard: u8,
    /// Number of datagrams in the run that have not been sent.
    segments: usize,
    bytes: Vec<u8>,
    /// Offset in `bytes` of the datagrams that have not been sent.
    start: usize,
    /// True if another datagram of the same or a lesser length may be added.
    is_open: bool,
    /// Number that changes at each reuse of the run, so that old references to it are recognised.
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

    /// True if `datagram` has the socket and the destination of this run.
    #[inline]
    fn has_same_destination(&self, datagram: &Datagram<'_>) -> bool {
        self.socket == datagram.socket && self.to == datagram.to
    }

    /// True if `datagram`, which has the same destination, may be sent in the same call. Datagrams
    /// up to [`PAYLOAD_BYTES_BASE`] are not combined with longer ones: a router on the same machine
    /// drops the whole run if those are too long.
    #[inline]
    fn accepts(&self, datagram: &Datagram<'_>) -> bool {
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

    /// Makes another socket send the rest of the run, from another local address.
    pub(crate) const fn change_socket(&mut self, socket: u32, from: LocalAddress) {
        (self.socket, self.from, self.is_open) = (socket, from, false);
    }

    /// Returns the number of datagrams in the run that have not been sent.
    pub(crate) const fn segments(&self) -> usize {
        self.segments
    }

    /// Returns the bytes of the next datagrams to send, up to `segments` of them.
    pub(crate) fn next(&self, segments: usize) -> &[u8] {
        let bytes = &self.bytes[self.start..];
        &bytes[..bytes.len().min(segments.saturating_mul(self.segment_bytes))]
    }

    /// Marks the next `segments` datagrams as sent.
    pub(crate) fn advance(&mut self, segments: usize) {
        self.start += self.next(segments).len();
        self.segments -= segments;
    }
}

/// Result of sending a run, as far as the socket accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// All datagrams of the run were sent, or dropped as unsendable.
    Complete,
    /// The kernel accepts no more datagrams of the socket for now; the rest of the run stays
    /// queued.
    WouldBlock,
}

/// Numbers of queued datagrams that were dropped, by priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DropCounts {
    pub(crate) source_packets: u64,
    pub(crate) scavengers: u64,
}

/// Queue of outgoing datagrams.
///
/// Datagrams of one priority to one destination stay in order, because they are added only to the
/// newest run of a destination. Nothing is allocated once the runs' buffers have grown.
#[derive(Debug)]
pub(crate) struct SendQueue {
    runs: Vec<Run>,
    /// Indices of unused runs; the last one was used most recently, and its buffer has grown.
    free: Vec<u16>,
    /// Indices of queued runs by priority, in order of creation.
    queues: [VecDeque<u16>; 2],
    /// Indices and serial numbers of the newest runs, by priority and destination.
    newest: [Box<[(u16, u32)]>; 2],
    /// Number of queued bytes in all runs.
    bytes: usize,
}

impl SendQueue {
    pub(crate) fn new() -> Self {
        let indices = 0..u16::try_from(RUNS_MAX).expect("checked where the limit is");
        // Serial numbers begin with 1 at the first use of a run, so these match no run.
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

    /// Queues a datagram for sending; returns false if the queue is full, and has to be flushed
    /// first.
    #[inline]
    #[must_use]
    pub(crate) fn add(&mut self, datagram: &Datagram<'_>) -> bool {
        if self.bytes + datagram.bytes.len() > QUEUED_BYTES_MAX {
            return false;
        }
        let newest = &mut self.newest[queue(datagram.priority)][destination_slot(datagram)];
        let run = &mut self.runs[usize::from(newest.0)];
        if run.serial == newest.1 && run.has_same_destination(datagram) && run.accepts(datagram) {
            run.push(datagram.bytes);
        } else {
            let Some(index) = self.free.pop() else {
                return false;
            };
            let run = &mut self.runs[usize::from(index)];
            run.serial = run.serial.wrapping_add(1);
            run.begin(datagram);
            *newest = (index, run.serial);
            self.queues[queue(datagram.priority)].push_back(index);
        }
        self.bytes += datagram.bytes.len();
        true
    }

    /// Passes every queued run to `send`, source packets before scavengers. Incomplete runs stay
    /// queued, up to a limit; returns the numbers of datagrams dropped beyond it.
    pub(crate) fn flush(&mut self, mut send: impl FnMut(&mut Run) -> SendOutcome) -> DropCounts {
        for priority in 0..self.queues.len() {
            for _ in 0..self.queues[priority].len() {
                let Some(index) = self.queues[priority].pop_front() else {
                    break;
                };
                let run = &mut self.runs[usize::from(index)];
                let waiting = run.bytes.len() - run.start;
                let outcome = send(run);
                self.bytes -= waiting - (run.bytes.len() - run.start);
                match outcome {
                    SendOutcome::Complete => self.release(index),
                    SendOutcome::WouldBlock => self.queues[priority].push_back(index),
                }
            }
        }
        self.trim()
    }

    /// Drops the queued datagrams of the socket in this slot; returns their number.
    pub(crate) fn discard_socket(&mut self, socket: u32) -> u64 {
        let mut dropped = 0;
        for priority in 0..self.queues.len() {
            for _ in 0..self.queues[priority].len() {
                let Some(index) = self.queues[priority].pop_front() else {
                    break;
                };
                if self.runs[usize::from(index)].socket == socket {
                    dropped += self.runs[usize::from(index)].segments as u64;
                    self.release(index);
                } else {
                    self.queues[priority].push_back(index);
                }
            }
        }
        dropped
    }

    /// Drops the oldest queued datagrams, which are the least useful, until the others are within
    /// the limits: scavengers first, then source packets.
    fn trim(&mut self) -> DropCounts {
        let mut dropped = DropCounts::default();
        while self.bytes > HELD_BYTES_MAX || RUNS_MAX - self.free.len() > HELD_RUNS_MAX {
            let [source_packets, scavengers] = &mut self.queues;
            let (index, count) = match (scavengers.pop_front(), &mut dropped) {
                (Some(index), DropCounts { scavengers, .. }) => (index, scavengers),
                (None, DropCounts { source_packets: count, .. }) => match source_packets.pop_front() {
                    Some(index) => (index, count),
                    None => unreachable!("queued bytes and used runs belong to the queues"),
                },
            };
            *count += self.runs[usize::from(index)].segments as u64;
            self.release(index);
        }
        dropped
    }

    /// Empties a run that is in no queue, for reuse.
    fn release(&mut self, index: u16) {
        let run = &mut self.runs[usize::from(index)];
        self.bytes -= run.bytes.len() - run.start;
        run.bytes.clear();
        run.start = 0;
        run.is_open = false;
        self.free.push(index);
    }
}

const fn queue(priority: Priority) -> usize {
    match priority {
        Priority::Source => 0,
        Priority::Scavenger => 1,
    }
}

/// Returns the index of the datagram's destination in the table of newest runs.
#[inline]
fn destination_slot(datagram: &Datagram<'_>) -> usize {
    /// 2^64 divided by the golden ratio: neighbouring products differ in their highest bits (Knuth,
    /// volume 3, 6.4).
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
    let port_and_socket = u64::from(datagram.to.port()) | u64::from(datagram.socket) << 32;
    let mixed = (address.wrapping_mul(SPREAD) ^ port_and_socket).wrapping_mul(SPREAD);
    usize::try_from(mixed >> (64 - DESTINATIONS.ilog2()))
        .expect("the table has as many slots as these bits express")
}

#[cfg(test)]
mod tests;
