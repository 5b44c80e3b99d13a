//! An open connection: two streams, and the segments that carry them.

use byway_units::{Bytes, Duration, Time};
use byway_wire::Ecn;

use super::limits::{DEFAULT_SEGMENT_BYTES, SACK_BLOCKS_MAX, SEGMENT_BYTES_MIN};
use super::receiver::{Arrival, Receiver};
use super::round_trip::RoundTrip;
use super::segment::{Flags, Options, Ports, SackBlock, Segment, Timestamps};
use super::sender::{Acknowledgment, Departure, Sender};
use super::sequence::{Extent, Position, SequenceNumber};
use super::settings::Settings;
use super::statistics::Statistics;

/// The clock of timestamps: milliseconds since the start, in 32 bits (RFC 7323, 5.4).
#[allow(clippy::cast_possible_truncation, reason = "timestamps wrap around")]
pub(crate) const fn timestamp(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// How long ago the peer was told the time of which this reminds; `None` if that was before `opened`.
pub(crate) fn echoed_after(timestamps: Option<Timestamps>, opened: Time, now: Time) -> Option<Duration> {
    let millis = timestamp(now).wrapping_sub(timestamps?.echo);
    let elapsed = Duration::from_millis(u64::from(millis));
    // The clock ticks in between: less than a tick counts as one.
    let tick = Duration::from_millis(1);
    (elapsed <= now.saturating_since(opened) + tick).then(|| elapsed.max(tick))
}

/// What both sides said when the connection opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) ports: Ports,
    /// The sequence number of our SYN.
    pub(crate) initial: SequenceNumber,
    /// When our SYN was sent first.
    pub(crate) opened: Time,
}

/// Both halves of a connection, and what they share.
#[derive(Debug)]
pub(crate) struct Transfer {
    opening: Opening,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// The window field of all our segments.
    window: u16,
    /// By how many bits the peer's window fields are shifted.
    peer_scale: u8,
    /// What the peer is reminded of, if timestamps are used (RFC 7323's TS.Recent).
    recent: Option<u32>,
    /// What was acknowledged last (RFC 7323's Last.ACK.sent).
    last_acknowledged: Position,
    uses_ecn: bool,
    /// Whether the peer is to be told that its segments meet congestion.
    echoes_congestion: bool,
}

impl Transfer {
    /// What follows from the SYN, or SYN-ACK, of the peer.
    pub(crate) fn new(opening: Opening, syn: &Segment, settings: &Settings, round_trip: RoundTrip) -> Self {
        let uses_timestamps = settings.timestamps && syn.options.timestamps.is_some();
        let options_bytes = if uses_timestamps { 12 } else { 0 };
        let agreed = syn.options.segment_bytes.unwrap_or(DEFAULT_SEGMENT_BYTES).min(settings.segment_bytes);
        let payload = agreed.max(SEGMENT_BYTES_MIN) - options_bytes;
        // Windows are scaled by both or by neither (RFC 7323, 2.2).
        let scale = syn.options.window_scale.map_or(0, |_| settings.window_scale());
        let window = u16::try_from(settings.receive_window.count() >> scale).unwrap_or(u16::MAX);
        let receive_window = Bytes::new(u64::from(window) << scale);
        let is_answer = syn.flags.contain(Flags::ACK);
        let peer_ecn = if is_answer { Flags::ECE } else { Flags::ECE | Flags::CWR };
        let mut sender = Sender::new(Bytes::new(u64::from(payload)), settings, round_trip);
        sender.outgoing.open_window(Position::FIRST + Bytes::new(u64::from(syn.window)));
        Self {
            opening,
            sender,
            receiver: Receiver::new(syn.sequence, receive_window, settings.delays_acknowledgments),
            window,
            peer_scale: syn.options.window_scale.unwrap_or(0),
            recent: syn.options.timestamps.filter(|_| uses_timestamps).map(|stamps| stamps.value),
            last_acknowledged: Position::FIRST,
            uses_ecn: settings.ecn && syn.flags.contain(peer_ecn),
            echoes_congestion: false,
        }
    }

    /// Whether both sides can do ECN.
    pub(crate) const fn uses_ecn(&self) -> bool {
        self.uses_ecn
    }

    /// What the peer is reminded of, if timestamps are used.
    pub(crate) const fn recent(&self) -> Option<u32> {
        self.recent
    }

    /// Whether both streams have ended, and both sides know.
    pub(crate) fn is_complete(&self) -> bool {
        self.sender.is_complete() && self.receiver.is_complete()
    }

    /// Takes a segment of the peer.
    pub(crate) fn take(&mut self, segment: &Segment, now: Time, statistics: &mut Statistics) {
        // A SYN that comes again: the acknowledgment of the first was lost (RFC 9293, 3.10.7.4).
        if segment.flags.contain(Flags::SYN) {
            self.receiver.demand_acknowledgment();
            return;
        }
        let Some(start) = self.receiver.position(segment.sequence) else { return };
        // RFC 7323, 4.3.
        if let (Some(recent), Some(stamps)) = (&mut self.recent, segment.options.timestamps)
            && start <= self.last_acknowledged
            && stamps.value.wrapping_sub(*recent) < 1 << 31
        {
            *recent = stamps.value;
        }
        self.note_congestion(segment);
        self.take_acknowledgment(segment, now, statistics);
        if !segment.is_pure_acknowledgment() {
            let end = start + Bytes::new(u64::from(segment.payload_bytes));
            let is_last = segment.flags.contain(Flags::FIN);
            self.receiver.take(Arrival { payload: Extent { start, end }, is_last }, now);
        }
        statistics.bytes_received = self.receiver.received();
        statistics.bytes_acknowledged = self.sender.acknowledged();
    }

    /// Marks are echoed until the peer has reduced its window (RFC 3168, 6.1.3).
    fn note_congestion(&mut self, segment: &Segment) {
        self.echoes_congestion &= !segment.flags.contain(Flags::CWR);
        self.echoes_congestion |= self.uses_ecn && segment.ecn == Ecn::CongestionExperienced;
    }

    fn take_acknowledgment(&mut self, segment: &Segment, now: Time, statistics: &mut Statistics) {
        let (initial, near) = (self.opening.initial, self.sender.outgoing.next());
        let Some(next) = initial.position(segment.acknowledgment, near) else { return };
        if !segment.flags.contain(Flags::ACK) {
            return;
        }
        let extent = |block: SackBlock| {
            let [start, end] = [block.start, block.end].map(|number| initial.position(number, near));
            Some(Extent { start: start?, end: end? }).filter(|extent| !extent.is_empty())
        };
        let stamps = segment.options.timestamps.filter(|_| self.recent.is_some());
        let acknowledgment = Acknowledgment {
            next,
            window_end: next + Bytes::new(u64::from(segment.window) << self.peer_scale),
            blocks: segment.options.sack_blocks.iter().filter_map(extent),
            echoed_after: echoed_after(stamps, self.opening.opened, now),
            echoes_congestion: self.uses_ecn && segment.flags.contain(Flags::ECE),
        };
        self.sender.take_acknowledgment(acknowledgment, now, statistics);
    }

    /// The next segment to send.
    pub(crate) fn poll(&mut self, now: Time, statistics: &mut Statistics) -> Option<Segment> {
        let must_acknowledge = self.receiver.must_acknowledge(now);
        // Blocks have no room beside a full payload, so they go on their own.
        if must_acknowledge && self.receiver.has_gap() {
            return Some(self.acknowledgment(now));
        }
        if let Some(departure) = self.sender.take_next(now) {
            statistics.originals_sent += u64::from(!departure.is_repeated);
            statistics.retransmitted += u64::from(departure.is_repeated);
            return Some(self.carry(departure, now));
        }
        must_acknowledge.then(|| self.acknowledgment(now))
    }

    /// A segment with a part of our stream.
    fn carry(&mut self, departure: Departure, now: Time) -> Segment {
        let (payload, has_fin) = self.sender.outgoing.content(departure.extent);
        let mut segment = self.bare(now);
        segment.sequence = self.opening.initial.of(departure.extent.start);
        segment.payload_bytes = u16::try_from(payload.count()).expect("a segment has at most 64 KB");
        segment.flags = segment.flags.and_if(has_fin, Flags::FIN);
        // Nothing that is sent again may be marked (RFC 3168, 6.1.5).
        if self.uses_ecn && !departure.is_repeated {
            segment.ecn = Ecn::Capable0;
            let announces = core::mem::take(&mut self.sender.announces_reduction);
            segment.flags = segment.flags.and_if(announces, Flags::CWR);
        }
        segment
    }

    /// A segment with nothing of our stream.
    fn acknowledgment(&mut self, now: Time) -> Segment {
        let blocks_max = SACK_BLOCKS_MAX - usize::from(self.recent.is_some());
        let blocks = self.receiver.sack_blocks(blocks_max);
        let mut segment = self.bare(now);
        segment.options.sack_blocks = blocks;
        segment
    }

    /// What all segments have in common; it acknowledges what arrived.
    fn bare(&mut self, now: Time) -> Segment {
        self.receiver.acknowledged();
        self.last_acknowledged = self.receiver.next();
        let timestamps = self.recent.map(|echo| Timestamps { value: timestamp(now), echo });
        Segment {
            ports: self.opening.ports,
            sequence: self.opening.initial.of(self.sender.outgoing.next()),
            acknowledgment: self.receiver.acknowledgment(),
            flags: Flags::ACK.and_if(self.echoes_congestion, Flags::ECE),
            window: self.window,
            options: Options { timestamps, ..Options::default() },
            payload_bytes: 0,
            ecn: Ecn::NotCapable,
        }
    }
}
