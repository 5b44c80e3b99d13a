//! The stream that goes out: what the application wrote, and how far it was sent.

use byway_units::Bytes;

use super::limits::STREAM_BYTES_MAX;
use super::sequence::{Extent, Position};

/// What there is to send, and what of it was never sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// SMSS: the most payload in a segment.
    segment: Bytes,
    /// SND.NXT: what is sent for the first time next.
    next: Position,
    /// The end of what the application wrote.
    written_until: Position,
    /// Whether a FIN follows.
    is_closed: bool,
    /// Up to where the peer takes data.
    window_end: Position,
}

impl Outgoing {
    pub(crate) const fn new(segment: Bytes) -> Self {
        Self {
            segment,
            next: Position::FIRST,
            written_until: Position::FIRST,
            is_closed: false,
            window_end: Position::FIRST,
        }
    }

    /// The application has this much more to send.
    pub(crate) fn write(&mut self, bytes: Bytes) {
        let room = STREAM_BYTES_MAX.saturating_sub(self.written_until.saturating_since(Position::FIRST));
        self.written_until = self.written_until + bytes.min(room);
    }

    /// The application has no more to send.
    pub(crate) const fn close(&mut self) {
        self.is_closed = true;
    }

    /// The peer takes data up to here; it never takes that back.
    pub(crate) fn open_window(&mut self, window_end: Position) {
        self.window_end = self.window_end.max(window_end);
    }

    pub(crate) const fn next(&self) -> Position {
        self.next
    }

    /// The end of all there is to send, a FIN included.
    fn end(&self) -> Position {
        self.written_until + Bytes::new(u64::from(self.is_closed))
    }

    /// Whether there is something that was never sent.
    pub(crate) fn has_more(&self) -> bool {
        self.next < self.end()
    }

    /// Whether all was sent, and is acknowledged with the FIN if this is.
    pub(crate) fn ends_at(&self, acknowledged: Position) -> bool {
        self.is_closed && acknowledged == self.end()
    }

    /// How much of what was written lies before `position`.
    pub(crate) fn written_before(&self, position: Position) -> Bytes {
        position.min(self.written_until).saturating_since(Position::FIRST)
    }

    /// The payload of a part of the stream, and whether the FIN follows it.
    pub(crate) fn content(&self, extent: Extent) -> (Bytes, bool) {
        let has_fin = extent.end > self.written_until;
        (extent.bytes().saturating_sub(Bytes::new(u64::from(has_fin))), has_fin)
    }

    /// What the next new segment would carry, if it has no more than `room` of payload: a whole segment if there is enough to
    /// send, and otherwise what there is. Nothing waits for more (Nagle's algorithm is off).
    pub(crate) fn next_new(&self, room: Bytes) -> Option<Extent> {
        let end = self.written_until.min(self.window_end).min(self.next + self.segment);
        // The FIN needs no room of its own.
        let end = if end == self.written_until { self.end() } else { end };
        let extent = Extent { start: self.next, end };
        (!extent.is_empty() && self.content(extent).0 <= room).then_some(extent)
    }

    /// This was sent for the first time.
    pub(crate) const fn sent(&mut self, extent: Extent) {
        self.next = extent.end;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn segments(mut outgoing: Outgoing) -> Vec<(u64, bool)> {
        core::iter::from_fn(|| {
            let extent = outgoing.next_new(Bytes::new(100))?;
            outgoing.sent(extent);
            let (payload, has_fin) = outgoing.content(extent);
            Some((payload.count(), has_fin))
        })
        .collect()
    }

    fn outgoing(bytes: u64) -> Outgoing {
        let mut outgoing = Outgoing::new(Bytes::new(100));
        outgoing.open_window(Position::FIRST + Bytes::new(1_000));
        outgoing.write(Bytes::new(bytes));
        outgoing
    }

    #[test]
    fn the_fin_goes_with_the_last_segment_even_if_that_is_full() {
        for (bytes, last) in [(0, 0), (250, 50), (300, 100)] {
            let mut outgoing = outgoing(bytes);
            outgoing.close();
            assert_eq!(segments(outgoing).last(), Some(&(last, true)));
        }
        assert_eq!(segments(outgoing(300)), [(100, false); 3]);
    }

    #[test]
    fn the_peers_window_holds_back_what_is_beyond_it() {
        assert_eq!(segments(outgoing(5_000)), [(100, false); 10]);
    }

    #[test]
    fn a_stream_has_an_end_whatever_is_written() {
        let mut outgoing = outgoing(0);
        (0..10).for_each(|_| outgoing.write(Bytes::MAX));
        assert_eq!(outgoing.written_before(outgoing.end()), STREAM_BYTES_MAX);
    }
}
