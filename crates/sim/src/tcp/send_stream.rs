//! Outgoing stream: the data that the application wrote, and the progress of its transmission.

use byway_units::Bytes;

use super::limits::STREAM_BYTES_MAX;
use super::sequence::{Extent, Position};

/// Stream that the application wrote, with the part that was not yet sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendStream {
    /// Most payload in a segment (SMSS).
    segment: Bytes,
    /// SND.NXT: the next position to send for the first time.
    next: Position,
    /// End of the data that the application has written.
    written_until: Position,
    /// True if a FIN follows the written data.
    is_closed: bool,
    /// End of the peer's receive window.
    window_end: Position,
}

impl SendStream {
    pub(crate) const fn new(segment: Bytes) -> Self {
        Self {
            segment,
            next: Position::FIRST,
            written_until: Position::FIRST,
            is_closed: false,
            window_end: Position::FIRST,
        }
    }

    /// Appends bytes that the application writes; beyond [`STREAM_BYTES_MAX`] it ignores them.
    pub(crate) fn write(&mut self, bytes: Bytes) {
        let remaining = STREAM_BYTES_MAX.saturating_sub(self.written_until.saturating_since(Position::FIRST));
        self.written_until = self.written_until + bytes.min(remaining);
    }

    /// Closes the stream: the application writes no more.
    pub(crate) const fn close(&mut self) {
        self.is_closed = true;
    }

    /// Extends the peer's receive window, which never shrinks.
    pub(crate) fn open_window(&mut self, window_end: Position) {
        self.window_end = self.window_end.max(window_end);
    }

    pub(crate) const fn next(&self) -> Position {
        self.next
    }

    /// Returns the end of all data to send, including a FIN.
    fn end(&self) -> Position {
        self.written_until + Bytes::new(u64::from(self.is_closed))
    }

    /// True if there is unsent data.
    pub(crate) fn has_more(&self) -> bool {
        self.next < self.end()
    }

    /// True if everything was sent, and an acknowledgment up to this position covers all of it with
    /// the FIN.
    pub(crate) fn ends_at(&self, acknowledged: Position) -> bool {
        self.is_closed && acknowledged == self.end()
    }

    /// Returns the written bytes before `position`.
    pub(crate) fn written_before(&self, position: Position) -> Bytes {
        position.min(self.written_until).saturating_since(Position::FIRST)
    }

    /// Returns the payload length of a part of the stream, and true if the FIN follows it.
    pub(crate) fn content(&self, extent: Extent) -> (Bytes, bool) {
        let has_fin = extent.end > self.written_until;
        (extent.bytes().saturating_sub(Bytes::new(u64::from(has_fin))), has_fin)
    }

    /// Returns the next new segment, if it fits into `available` bytes of payload: a full segment
    /// if there is enough data, and otherwise the rest. Small segments do not wait (Nagle's
    /// algorithm is off).
    pub(crate) fn next_new(&self, available: Bytes) -> Option<Extent> {
        let end = self.written_until.min(self.window_end).min(self.next + self.segment);
        // The FIN needs no buffer of its own.
        let end = if end == self.written_until { self.end() } else { end };
        let extent = Extent { start: self.next, end };
        (!extent.is_empty() && self.content(extent).0 <= available).then_some(extent)
    }

    /// Advances the next new position to the end of a part that is sent for the first time.
    pub(crate) const fn record_sent(&mut self, extent: Extent) {
        self.next = extent.end;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn segments(mut outgoing: SendStream) -> Vec<(u64, bool)> {
        core::iter::from_fn(|| {
            let extent = outgoing.next_new(Bytes::new(100))?;
            outgoing.record_sent(extent);
            let (payload, has_fin) = outgoing.content(extent);
            Some((payload.count(), has_fin))
        })
        .collect()
    }

    fn outgoing(bytes: u64) -> SendStream {
        let mut outgoing = SendStream::new(Bytes::new(100));
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
