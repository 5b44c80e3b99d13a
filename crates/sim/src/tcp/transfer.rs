//! Open TCP connection: its sender and its receiver, and the segments that serve both.

use byway_units::{Bytes, Duration, Time};
use byway_wire::Ecn;

use super::limits::{DEFAULT_SEGMENT_BYTES, SACK_BLOCKS_MAX, SEGMENT_BYTES_MIN};
use super::receiver::{Arrival, Receiver};
use super::rtt::RttEstimator;
use super::segment::{Flags, Options, Ports, SackBlock, Segment, Timestamps};
use super::sender::{Acknowledgment, OutgoingSegment, Sender};
use super::sequence::{Extent, Position, SequenceNumber};
use super::settings::Settings;
use super::statistics::Statistics;

/// Returns the value for the timestamps option: milliseconds since the start, in 32 bits (RFC 7323,
/// 5.4).
#[allow(clippy::cast_possible_truncation, reason = "timestamps wrap around")]
pub(crate) const fn timestamp(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Returns the age of the echoed timestamp; `None` if it is older than `opened`.
pub(crate) fn timestamp_rtt(timestamps: Option<Timestamps>, opened: Time, now: Time) -> Option<Duration> {
    let millis = timestamp(now).wrapping_sub(timestamps?.echo);
    let elapsed = Duration::from_millis(u64::from(millis));
    // The timestamp is truncated to a tick: an age below one tick counts as one.
    let tick = Duration::from_millis(1);
    (elapsed <= now.saturating_since(opened) + tick).then(|| elapsed.max(tick))
}

/// Result of the handshake at this end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandshakeState {
    pub(crate) ports: Ports,
    /// Sequence number of this end's SYN.
    pub(crate) initial: SequenceNumber,
    /// Time of the first transmission of this end's SYN.
    pub(crate) opened: Time,
}

/// Sender and receiver of a connection, and their shared state.
#[derive(Debug)]
pub(crate) struct Transfer {
    opening: HandshakeState,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// Window field of all segments that this end sends.
    window: u16,
    /// Shift of the window fields of the peer's segments, in bits.
    peer_scale: u8,
    /// Timestamp to echo to the peer, if timestamps are used (RFC 7323's TS.Recent).
    ts_recent: Option<u32>,
    /// Position that this end acknowledged last (RFC 7323's Last.ACK.sent).
    last_ack_sent: Position,
    uses_ecn: bool,
    /// True if segments must echo a congestion mark to the peer.
    sends_ece: bool,
}

impl Transfer {
    /// Creates the state of an open connection from the peer's SYN or SYN-ACK.
    pub(crate) fn new(
        opening: HandshakeState,
        syn: &Segment,
        settings: &Settings,
        round_trip: RttEstimator,
    ) -> Self {
        let uses_timestamps = settings.timestamps && syn.options.timestamps.is_some();
        let options_bytes = if uses_timestamps { 12 } else { 0 };
        let agreed = syn.options.segment_bytes.unwrap_or(DEFAULT_SEGMENT_BYTES).min(settings.segment_bytes);
        let payload = agreed.max(SEGMENT_BYTES_MIN) - options_bytes;
        // Both sides scale their windows, or neither does (RFC 7323, 2.2).
        let scale = syn.options.window_scale.map_or(0, |_| settings.window_scale());
        let window = u16::try_from(settings.receive_window.count() >> scale).unwrap_or(u16::MAX);
        let receive_window = Bytes::new(u64::from(window) << scale);
        let is_answer = syn.flags.contain(Flags::ACK);
        let peer_ecn = if is_answer { Flags::ECE } else { Flags::ECE | Flags::CWR };
        let mut sender = Sender::new(Bytes::new(u64::from(payload)), settings, round_trip);
        sender.stream.open_window(Position::FIRST + Bytes::new(u64::from(syn.window)));
        Self {
            opening,
            sender,
            receiver: Receiver::new(syn.sequence, receive_window, settings.delays_acknowledgments),
            window,
            peer_scale: syn.options.window_scale.unwrap_or(0),
            ts_recent: syn.options.timestamps.filter(|_| uses_timestamps).map(|stamps| stamps.value),
            last_ack_sent: Position::FIRST,
            uses_ecn: settings.ecn && syn.flags.contain(peer_ecn),
            sends_ece: false,
        }
    }

    /// True if both sides support ECN.
    pub(crate) const fn uses_ecn(&self) -> bool {
        self.uses_ecn
    }

    /// Returns the timestamp to echo to the peer, if timestamps are used.
    pub(crate) const fn ts_recent(&self) -> Option<u32> {
        self.ts_recent
    }

    /// True if both streams have ended and are acknowledged.
    pub(crate) fn is_complete(&self) -> bool {
        self.sender.is_complete() && self.receiver.is_complete()
    }

    /// Passes a segment of the peer to the sender and the receiver.
    pub(crate) fn on_segment(&mut self, segment: &Segment, now: Time, statistics: &mut Statistics) {
        // A repeated SYN: the acknowledgment of the first was lost (RFC 9293, 3.10.7.4).
        if segment.flags.contain(Flags::SYN) {
            self.receiver.demand_acknowledgment();
            return;
        }
        let Some(start) = self.receiver.position(segment.sequence) else { return };
        // RFC 7323, 4.3.
        if let (Some(recent), Some(stamps)) = (&mut self.ts_recent, segment.options.timestamps)
            && start <= self.last_ack_sent
            && stamps.value.wrapping_sub(*recent) < 1 << 31
        {
            *recent = stamps.value;
        }
        self.note_congestion(segment);
        self.on_ack(segment, now, statistics);
        if !segment.is_pure_acknowledgment() {
            let end = start + Bytes::new(u64::from(segment.payload_bytes));
            let is_last = segment.flags.contain(Flags::FIN);
            self.receiver.on_segment(Arrival { payload: Extent { start, end }, is_last }, now);
        }
        statistics.bytes_received = self.receiver.received();
        statistics.bytes_acknowledged = self.sender.acknowledged();
    }

    /// Records a congestion mark, which later segments echo until the peer has reduced its window
    /// (RFC 3168, 6.1.3).
    fn note_congestion(&mut self, segment: &Segment) {
        self.sends_ece &= !segment.flags.contain(Flags::CWR);
        self.sends_ece |= self.uses_ecn && segment.ecn == Ecn::CongestionExperienced;
    }

    fn on_ack(&mut self, segment: &Segment, now: Time, statistics: &mut Statistics) {
        let (initial, near) = (self.opening.initial, self.sender.stream.next());
        let Some(next) = initial.position(segment.acknowledgment, near) else { return };
        if !segment.flags.contain(Flags::ACK) {
            return;
        }
        let extent = |block: SackBlock| {
            let [start, end] = [block.start, block.end].map(|number| initial.position(number, near));
            Some(Extent { start: start?, end: end? }).filter(|extent| !extent.is_empty())
        };
        let stamps = segment.options.timestamps.filter(|_| self.ts_recent.is_some());
        let acknowledgment = Acknowledgment {
            next,
            window_end: next + Bytes::new(u64::from(segment.window) << self.peer_scale),
            blocks: segment.options.sack_blocks.iter().filter_map(extent),
            rtt_sample: timestamp_rtt(stamps, self.opening.opened, now),
            has_ece: self.uses_ecn && segment.flags.contain(Flags::ECE),
        };
        self.sender.on_ack(acknowledgment, now, statistics);
    }

    /// Returns the next segment to send: data, or an acknowledgment; `None` if neither is due.
    pub(crate) fn poll(&mut self, now: Time, statistics: &mut Statistics) -> Option<Segment> {
        let must_acknowledge = self.receiver.must_acknowledge(now);
        // Blocks do not fit beside a full payload, therefore they leave in a segment without
        // payload.
        if must_acknowledge && self.receiver.has_gap() {
            return Some(self.acknowledgment(now));
        }
        if let Some(departure) = self.sender.poll_transmit(now) {
            statistics.first_transmissions += u64::from(!departure.is_retransmission);
            statistics.retransmitted += u64::from(departure.is_retransmission);
            return Some(self.data_segment(departure, now));
        }
        must_acknowledge.then(|| self.acknowledgment(now))
    }

    /// Returns a segment with this part of our stream, and the acknowledgment of received data.
    fn data_segment(&mut self, departure: OutgoingSegment, now: Time) -> Segment {
        let (payload, has_fin) = self.sender.stream.content(departure.extent);
        let mut segment = self.base_segment(now);
        segment.sequence = self.opening.initial.of(departure.extent.start);
        segment.payload_bytes = u16::try_from(payload.count()).expect("a segment has at most 64 KB");
        segment.flags = segment.flags.and_if(has_fin, Flags::FIN);
        // A retransmission must not be ECN-capable (RFC 3168, 6.1.5).
        if self.uses_ecn && !departure.is_retransmission {
            segment.ecn = Ecn::Capable0;
            let announces = core::mem::take(&mut self.sender.sends_cwr);
            segment.flags = segment.flags.and_if(announces, Flags::CWR);
        }
        segment
    }

    /// Returns an acknowledgment without payload.
    fn acknowledgment(&mut self, now: Time) -> Segment {
        let blocks_max = SACK_BLOCKS_MAX - usize::from(self.ts_recent.is_some());
        let blocks = self.receiver.sack_blocks(blocks_max);
        let mut segment = self.base_segment(now);
        segment.options.sack_blocks = blocks;
        segment
    }

    /// Returns the common fields of all segments, which acknowledge received data.
    fn base_segment(&mut self, now: Time) -> Segment {
        self.receiver.acknowledged();
        self.last_ack_sent = self.receiver.next();
        let timestamps = self.ts_recent.map(|echo| Timestamps { value: timestamp(now), echo });
        Segment {
            ports: self.opening.ports,
            sequence: self.opening.initial.of(self.sender.stream.next()),
            acknowledgment: self.receiver.acknowledgment(),
            flags: Flags::ACK.and_if(self.sends_ece, Flags::ECE),
            window: self.window,
            options: Options { timestamps, ..Options::default() },
            payload_bytes: 0,
            ecn: Ecn::NotCapable,
        }
    }
}
