//! Long datagrams that were sent whole recently. If the path MTU turns out to be too small for
//! them, the agent sends them again in two fragments.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::{Bytes, Time};
use byway_wire::{Fragment, ResentFragment, SequenceNumber, TrafficClass};

use super::Agent;
use super::send_flow::SendFlowId;
use super::sending::{FragmentContents, fragments_of};
use super::settings::Traffic;
use crate::limits::{AGENT_BUFFER_RETENTION, LONG_DATAGRAMS_BYTES_MAX, LONG_DATAGRAMS_MAX};
use crate::parts::packet_buffer::{Handle, PacketBuffer};
use crate::session::SessionId;

/// Datagram that was sent in one packet longer than every path delivers.
#[derive(Clone, Copy, Debug)]
struct LongDatagram {
    flow: SendFlowId,
    sequence: SequenceNumber,
    /// Session that sealed and sent it: with the peer, or with a relay.
    session: SessionId,
    bytes: Handle,
    traffic_class: TrafficClass,
    copied: bool,
    sent: Time,
}

/// Long datagrams that the agent sent whole in the last second, with their bytes.
#[derive(Debug)]
pub(super) struct LongDatagrams {
    buffer: PacketBuffer,
    /// Stored datagrams, the oldest first.
    datagrams: VecDeque<LongDatagram>,
}

impl LongDatagrams {
    pub(super) fn new() -> Self {
        let buffer = PacketBuffer::new(Bytes::new(LONG_DATAGRAMS_BYTES_MAX), AGENT_BUFFER_RETENTION);
        Self { buffer, datagrams: VecDeque::new() }
    }

    /// Returns the memory of the stored long datagrams in bytes.
    pub(super) fn memory_bytes(&self) -> Bytes {
        self.buffer.memory_bytes()
    }

    fn push(&mut self, datagram: LongDatagram) {
        let is_expired =
            |oldest: &LongDatagram| datagram.sent.saturating_since(oldest.sent) > AGENT_BUFFER_RETENTION;
        while self.datagrams.len() >= LONG_DATAGRAMS_MAX || self.datagrams.front().is_some_and(is_expired) {
            self.datagrams.pop_front();
        }
        self.datagrams.push_back(datagram);
    }

    /// Removes and returns the datagrams that were sent in a session since this time.
    fn drain_sent_since(&mut self, session: SessionId, since: Time) -> Vec<LongDatagram> {
        let is_affected = |datagram: &LongDatagram| datagram.session == session && datagram.sent >= since;
        let removed = self.datagrams.iter().copied().filter(is_affected).collect();
        self.datagrams.retain(|datagram| !is_affected(datagram));
        removed
    }
}

impl Agent {
    /// Stores a datagram that was sent whole under this sequence number, unless the flow sent no
    /// packet for it. Only flows of [`Traffic::Datagrams`] are stored, because other transports
    /// retransmit lost packets themselves.
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
        let Some(session) = self.primary_path(id) else {
            return;
        };
        if let Some(bytes) = self.long_datagrams.buffer.push(datagram, now) {
            self.long_datagrams.push(LongDatagram {
                flow: id,
                sequence,
                session,
                bytes,
                traffic_class,
                copied,
                sent: now,
            });
        }
    }

    /// Sends the long datagrams of a session since this time again in two fragments, if they can
    /// still be in time, because the path's MTU has decreased.
    pub(super) fn on_path_narrowed(&mut self, session: SessionId, since: Time, now: Time) {
        self.counters.paths_narrowed += 1;
        for lost in self.long_datagrams.drain_sent_since(session, since) {
            self.counters.datagrams_too_long_for_path += 1;
            self.resend_fragmented(&lost, now);
        }
    }

    /// Sends a lost datagram again in two fragments, unless these would arrive after its budget.
    fn resend_fragmented(&mut self, lost: &LongDatagram, now: Time) {
        let LongDatagram { flow: id, sequence, traffic_class, copied, sent, .. } = *lost;
        let Some(flow) = self.senders.get(id.0) else {
            return;
        };
        let one_way_delay = self.sessions.round_trip(flow.peer) / 2;
        if now + one_way_delay > sent + flow.settings.latency_budget {
            return;
        }
        let Some(datagram) = self.long_datagrams.buffer.get(lost.bytes, now) else {
            return;
        };
        let datagram = datagram.to_vec();
        self.counters.datagrams_split_again += 1;
        for (fragment, half) in fragments_of(&datagram, true) {
            let head = ResentFragment { sequence_low: sequence.low(), fragment, bytes: half }.head();
            let bytes = [&head[..], half].concat();
            let contents =
                FragmentContents { fragment: Fragment::Resent, bytes: &bytes, traffic_class, copied, sent };
            self.send_fragment(id, &contents, now);
        }
    }

    /// Handles a report that a packet exceeds the path MTU, from the interface, or from a router
    /// that quotes the packet's beginning.
    ///
    /// Anybody can forge a router's report. So it counts only if the quote shows an index that this
    /// agent puts into packets to that address. At worst, datagrams are sent in two fragments until
    /// a padded probe is delivered.
    pub(super) fn on_packet_too_long(
        &mut self,
        to: SocketAddr,
        quoted: &[u8],
        payload_bytes_max: usize,
        now: Time,
    ) {
        let mut sessions = self.roles.keys().copied();
        match sessions.find(|session| self.sessions.has_sent(*session, to, quoted)) {
            Some(session) => self.sessions.on_path_narrowed(session, payload_bytes_max, now),
            None => self.counters.too_long_unknown += 1,
        }
    }
}
