//! FIFO queue with a byte count.

use alloc::collections::VecDeque;

use byway_units::Time;

/// Packet in a queue, with its length in bytes and its arrival time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedPacket<P> {
    pub(crate) packet: P,
    pub(crate) bytes: u32,
    pub(crate) enqueued_at: Time,
    pub(crate) is_ecn_capable: bool,
    pub(crate) is_marked: bool,
}

/// Queue of packets, first in first out, with a byte count. Memory grows on demand, and is not
/// freed.
#[derive(Clone, Debug)]
pub(crate) struct Fifo<P> {
    packets: VecDeque<QueuedPacket<P>>,
    bytes: u64,
}

impl<P> Fifo<P> {
    pub(crate) const fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the length of the longest queued packet in bytes, by a scan; zero if there is none.
    pub(crate) fn max_packet_bytes(&self) -> u32 {
        self.packets.iter().map(|waiting| waiting.bytes).max().unwrap_or(0)
    }

    /// Returns the arrival time of the oldest packet; `None` if the queue is empty.
    pub(crate) fn head_enqueued_at(&self) -> Option<Time> {
        self.packets.front().map(|waiting| waiting.enqueued_at)
    }

    pub(crate) fn push(&mut self, waiting: QueuedPacket<P>) {
        self.bytes += u64::from(waiting.bytes);
        self.packets.push_back(waiting);
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedPacket<P>> {
        let waiting = self.packets.pop_front()?;
        self.bytes -= u64::from(waiting.bytes);
        Some(waiting)
    }

    /// Removes the packets for which `should_discard` is true, and passes them to `discarded`.
    /// `should_discard` gets each packet, and the bytes from the head of the queue to that packet's
    /// end, without removed packets.
    pub(crate) fn discard(
        &mut self,
        mut should_discard: impl FnMut(&QueuedPacket<P>, u64) -> bool,
        mut discarded: impl FnMut(P),
    ) {
        let mut remaining_bytes = 0;
        for _ in 0..self.packets.len() {
            let Some(waiting) = self.packets.pop_front() else {
                break;
            };
            if should_discard(&waiting, remaining_bytes + u64::from(waiting.bytes)) {
                discarded(waiting.packet);
            } else {
                remaining_bytes += u64::from(waiting.bytes);
                self.packets.push_back(waiting);
            }
        }
        self.bytes = remaining_bytes;
    }

    /// Removes and returns the newest packet; `None` if the queue is empty.
    pub(crate) fn pop_last(&mut self) -> Option<QueuedPacket<P>> {
        let waiting = self.packets.pop_back()?;
        self.bytes -= u64::from(waiting.bytes);
        Some(waiting)
    }
}
