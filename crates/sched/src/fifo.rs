//! A queue that knows its bytes.

use alloc::collections::VecDeque;

use byway_units::Time;

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<P> {
    pub(crate) packet: P,
    pub(crate) bytes: u32,
    pub(crate) since: Time,
    pub(crate) is_ecn_capable: bool,
    pub(crate) is_marked: bool,
}

/// First in, first out; room is taken as it is needed, and kept.
#[derive(Clone, Debug)]
pub(crate) struct Fifo<P> {
    packets: VecDeque<Waiting<P>>,
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

    /// The bytes of the longest; it looks at all.
    pub(crate) fn longest(&self) -> u32 {
        self.packets.iter().map(|waiting| waiting.bytes).max().unwrap_or(0)
    }

    /// When the first one came.
    pub(crate) fn since(&self) -> Option<Time> {
        self.packets.front().map(|waiting| waiting.since)
    }

    pub(crate) fn push(&mut self, waiting: Waiting<P>) {
        self.bytes += u64::from(waiting.bytes);
        self.packets.push_back(waiting);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<P>> {
        let waiting = self.packets.pop_front()?;
        self.bytes -= u64::from(waiting.bytes);
        Some(waiting)
    }

    /// Takes those that are to go, of which each is shown with the bytes from the head of the queue to its own end, as far as they stay.
    pub(crate) fn discard(
        &mut self,
        mut goes: impl FnMut(&Waiting<P>, u64) -> bool,
        mut gone: impl FnMut(P),
    ) {
        let mut kept = 0;
        for _ in 0..self.packets.len() {
            let Some(waiting) = self.packets.pop_front() else {
                break;
            };
            if goes(&waiting, kept + u64::from(waiting.bytes)) {
                gone(waiting.packet);
            } else {
                kept += u64::from(waiting.bytes);
                self.packets.push_back(waiting);
            }
        }
        self.bytes = kept;
    }

    /// Takes the last one.
    pub(crate) fn pop_last(&mut self) -> Option<Waiting<P>> {
        let waiting = self.packets.pop_back()?;
        self.bytes -= u64::from(waiting.bytes);
        Some(waiting)
    }
}
