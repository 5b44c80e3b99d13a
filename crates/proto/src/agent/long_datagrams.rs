//! Long datagrams that were sent whole a moment ago: where the path turns out to be too narrow for them, they are sent
//! again in two pieces.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::{Bytes, Time};
use byway_wire::{Piece, Resent, SequenceNumber, TrafficClass};

use super::Agent;
use super::send_flow::SendFlowId;
use super::sending::{Contents, pieces_of};
use super::settings::Traffic;
use crate::limits::{KEPT_FOR, LONG_DATAGRAMS_BYTES_MAX, LONG_DATAGRAMS_MAX};
use crate::parts::packet_log::{Handle, PacketLog};
use crate::session::SessionId;

/// A long datagram that was sent whole.
#[derive(Clone, Copy, Debug)]
struct LongDatagram {
    flow: SendFlowId,
    sequence: SequenceNumber,
    /// The session by which it went.
    way: SessionId,
    bytes: Handle,
    traffic_class: TrafficClass,
    copied: bool,
    sent: Time,
}

/// The long datagrams of the last second.
#[derive(Debug)]
pub(super) struct LongDatagrams {
    log: PacketLog,
    /// Oldest first.
    datagrams: VecDeque<LongDatagram>,
}

impl LongDatagrams {
    pub(super) fn new() -> Self {
        let log = PacketLog::new(Bytes::new(LONG_DATAGRAMS_BYTES_MAX), KEPT_FOR);
        Self { log, datagrams: VecDeque::new() }
    }

    /// The memory that they take.
    pub(super) fn held(&self) -> Bytes {
        self.log.held()
    }

    fn push(&mut self, datagram: LongDatagram) {
        let over = |oldest: &LongDatagram| datagram.sent.saturating_since(oldest.sent) > KEPT_FOR;
        while self.datagrams.len() >= LONG_DATAGRAMS_MAX || self.datagrams.front().is_some_and(over) {
            self.datagrams.pop_front();
        }
        self.datagrams.push_back(datagram);
    }

    /// Takes out those that went by a session from this time on.
    fn take(&mut self, way: SessionId, since: Time) -> Vec<LongDatagram> {
        let went = |datagram: &LongDatagram| datagram.way == way && datagram.sent >= since;
        let taken = self.datagrams.iter().copied().filter(went).collect();
        self.datagrams.retain(|datagram| !went(datagram));
        taken
    }
}

impl Agent {
    /// Remembers a datagram that was sent whole under this number, if it was. Transports that slow down when they lose
    /// packets send again themselves.
    pub(super) fn remember_long(
        &mut self,
        id: SendFlowId,
        datagram: &[u8],
        (traffic_class, copied): (TrafficClass, bool),
        sequence: SequenceNumber,
        now: Time,
    ) {
        let flow = &self.senders[id.0 as usize];
        if flow.next == sequence || flow.settings.traffic != Traffic::Datagrams {
            return;
        }
        let Some(way) = self.main_way(id) else {
            return;
        };
        if let Some(bytes) = self.long.log.push(datagram, now) {
            self.long.push(LongDatagram { flow: id, sequence, way, bytes, traffic_class, copied, sent: now });
        }
    }

    /// Long packets that left by a session from this time on do not arrive: those datagrams that may still be in time are
    /// sent again in two pieces.
    pub(super) fn path_narrowed(&mut self, session: SessionId, since: Time, now: Time) {
        self.counters.paths_narrowed += 1;
        for lost in self.long.take(session, since) {
            self.counters.datagrams_too_long_for_path += 1;
            self.send_again_in_pieces(&lost, now);
        }
    }

    fn send_again_in_pieces(&mut self, lost: &LongDatagram, now: Time) {
        let LongDatagram { flow: id, sequence, traffic_class, copied, sent, .. } = *lost;
        let Some(flow) = self.senders.get(id.0) else {
            return;
        };
        let way = self.sessions.round_trip(flow.peer) / 2;
        if now + way > sent + flow.settings.latency_budget {
            return;
        }
        let Some(datagram) = self.long.log.get(lost.bytes, now) else {
            return;
        };
        let datagram = datagram.to_vec();
        self.counters.datagrams_split_again += 1;
        for (piece, half) in pieces_of(&datagram, true) {
            let head = Resent { sequence_low: sequence.low(), piece, bytes: half }.head();
            let bytes = [&head[..], half].concat();
            let contents = Contents { piece: Piece::Again, bytes: &bytes, traffic_class, copied, sent };
            self.send_piece(id, &contents, now);
        }
    }

    /// A packet to an address is too long for the way there: the interface refused it, or a router says so and quotes its
    /// beginning. Anybody can forge what routers say. So it counts only if the quote shows an index that this agent puts
    /// into packets to that address, and at worst datagrams go in two pieces until a padded probe passes.
    pub(super) fn packet_too_long(
        &mut self,
        to: SocketAddr,
        quoted: &[u8],
        payload_bytes_max: usize,
        now: Time,
    ) {
        let mut sessions = self.roles.keys().copied();
        match sessions.find(|session| self.sessions.sent_packet(*session, to, quoted)) {
            Some(session) => self.sessions.narrow_path(session, payload_bytes_max, now),
            None => self.counters.too_long_unknown += 1,
        }
    }
}
