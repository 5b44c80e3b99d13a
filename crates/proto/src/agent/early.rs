//! Sends packets with their flow's offer, before the peer has answered it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{FlowId, Time};
use byway_wire::messages::EarlyPacket;
use byway_wire::{
    Ecn, Message, Microseconds, Piece, Plaintext, Receiver, SequenceNumber, Timestamp, Uncopied, Writer,
};

use super::Agent;
use super::closing::Life;
use super::send_flow::SendFlowId;
use crate::limits::{
    EARLY_BYTES_MAX, EARLY_BYTES_PER_PEER_MAX, EARLY_DATAGRAMS_MAX, EARLY_DATAGRAMS_PER_PEER_MAX,
    MESSAGES_BYTES_MAX, PIECE_BYTES_BASE, WAITS_FOR_WAY,
};
use crate::session::SessionId;

/// A flow by its session with the peer, and its number.
pub(super) type EarlyKey = (SessionId, FlowId);

/// A datagram of an application that goes with its flow's offer.
#[derive(Debug)]
struct Datagram {
    came: Time,
    ecn: Ecn,
    marked: bool,
    in_two_pieces: bool,
    /// The number of its first packet, once that has been sent.
    first: Option<SequenceNumber>,
    bytes: Vec<u8>,
}

impl Datagram {
    fn pieces(&self) -> impl Iterator<Item = (Piece, &[u8])> {
        let middle = if self.in_two_pieces { self.bytes.len().div_ceil(2) } else { self.bytes.len() };
        let (first, second) = self.bytes.split_at(middle);
        let piece = if self.in_two_pieces { Piece::First } else { Piece::Whole };
        [(piece, first)].into_iter().chain(self.in_two_pieces.then_some((Piece::Second, second)))
    }
}

/// The early datagrams of one flow, the oldest first.
#[derive(Debug)]
struct EarlyFlow {
    id: SendFlowId,
    /// True once the peer has accepted the flow. The datagrams leave as source packets as soon as
    /// there is a path.
    is_accepted: bool,
    datagrams: Vec<Datagram>,
}

impl EarlyFlow {
    fn bytes(&self) -> usize {
        self.datagrams.iter().map(|datagram| datagram.bytes.len()).sum()
    }

    /// Numbers the datagrams that have no number yet, from `next` on if none has.
    fn number(&mut self, next: SequenceNumber) {
        let mut number = next;
        for datagram in &mut self.datagrams {
            number = *datagram.first.get_or_insert(number);
            number = datagram.pieces().fold(number, |number, _| number.next());
        }
    }

    /// Drops datagrams that were never sent and have waited too long; returns their count.
    fn expire(&mut self, now: Time) -> u64 {
        let before = self.datagrams.len();
        let is_stale = |datagram: &Datagram| now.saturating_since(datagram.came) >= WAITS_FOR_WAY;
        self.datagrams.retain(|datagram| datagram.first.is_some() || !is_stale(datagram));
        (before - self.datagrams.len()) as u64
    }
}

/// Datagrams of flows whose offers are not answered yet.
#[derive(Debug, Default)]
pub(super) struct EarlySending {
    flows: BTreeMap<EarlyKey, EarlyFlow>,
}

impl EarlySending {
    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn contains(&self, key: EarlyKey) -> bool {
        self.flows.contains_key(&key)
    }

    /// True if another datagram of so many bytes is within the limits of its flow and its peer.
    fn has_room(&self, (peer, flow): EarlyKey, bytes: usize) -> bool {
        let all = self.flows.range((peer, FlowId::new(0))..=(peer, FlowId::new(u16::MAX)));
        let (mut datagrams_all, mut bytes_all) = (1, bytes);
        let (mut datagrams_own, mut bytes_own) = (1, bytes);
        for ((_, number), early) in all {
            let (count, length) = (early.datagrams.len(), early.bytes());
            (datagrams_all, bytes_all) = (datagrams_all + count, bytes_all + length);
            if *number == flow {
                (datagrams_own, bytes_own) = (datagrams_own + count, bytes_own + length);
            }
        }
        datagrams_own <= EARLY_DATAGRAMS_MAX
            && bytes_own <= EARLY_BYTES_MAX
            && datagrams_all <= EARLY_DATAGRAMS_PER_PEER_MAX
            && bytes_all <= EARLY_BYTES_PER_PEER_MAX
    }
}

impl Agent {
    /// Sends a datagram of an application with its flow's offer, before the peer has answered.
    ///
    /// The agent keeps the datagram and repeats it with the offer. If the peer accepts, it leaves
    /// as a source packet. If the peer refuses, it is dropped and counted as unsendable. The peer
    /// delivers it once.
    ///
    /// Returns `false`, and sends nothing, if no offer of the flow waits for an answer, if the
    /// datagram is too long, or if the flow or its peer is at the limit of early datagrams. The
    /// caller then holds this datagram and all later ones until the peer answers, see
    /// [`Agent::send_held`].
    #[must_use]
    pub fn send_early(
        &mut self,
        flow: SendFlowId,
        datagram: &[u8],
        ecn: Ecn,
        marked: bool,
        now: Time,
    ) -> bool {
        let key = self.early_key(flow).filter(|_| self.life == Life::Open);
        let Some((key, in_two_pieces)) =
            key.and_then(|key| Some((key, self.early_split(key, datagram.len())?)))
        else {
            return false;
        };
        if let Some(early) = self.early.flows.get_mut(&key) {
            self.counters.datagrams_unsendable += early.expire(now);
        }
        if !self.early.has_room(key, datagram.len()) {
            return false;
        }
        let new = || EarlyFlow { id: flow, is_accepted: false, datagrams: Vec::new() };
        let early = self.early.flows.entry(key).or_insert_with(new);
        let (bytes, first) = (datagram.to_vec(), None);
        early.datagrams.push(Datagram { came: now, ecn, marked, in_two_pieces, first, bytes });
        let newest = early.datagrams.len() - 1;
        self.sessions.use_session(key.0, now);
        if self.sessions.is_established(key.0, now) {
            self.say_early(key, newest, now);
        }
        self.finish(now);
        true
    }

    /// The session and number of a flow whose offer waits for an answer.
    fn early_key(&self, flow: SendFlowId) -> Option<EarlyKey> {
        let sender = self.senders.get(flow.0)?;
        let Receiver::Agent(peer) = sender.key.receiver() else {
            return None;
        };
        let number = sender.key.flow();
        self.offers.awaits_answer(peer, number).then_some((sender.peer, number))
    }

    /// Returns true if a datagram goes as two early packets; `None` if these are too long as well.
    fn early_split(&self, key: EarlyKey, length: usize) -> Option<bool> {
        let offer_bytes = self.with_offer(key, |offer| {
            let mut buffer = [0; MESSAGES_BYTES_MAX];
            let mut writer = Writer::new(&mut buffer);
            offer.emit(&mut writer).ok().map(|()| writer.written().len())
        })?;
        let longest = (MESSAGES_BYTES_MAX - EarlyPacket::OVERHEAD).checked_sub(offer_bytes)?;
        let longest = longest.min(PIECE_BYTES_BASE);
        let in_two_pieces = length > longest;
        (length <= 2 * longest).then_some(in_two_pieces)
    }

    /// Calls a function with the offer of a flow, if one was made.
    fn with_offer<T>(&self, key: EarlyKey, call: impl FnOnce(&Message<'_>) -> Option<T>) -> Option<T> {
        let peer = self.agent_of(key.0)?;
        let offer = self.offers.made(peer, key.1)?.to_wire(key.1)?;
        call(&Message::Offer(offer))
    }

    /// Queues the offer of a flow, and behind it the flow's early datagrams from index `from` on.
    pub(super) fn say_early(&mut self, key: EarlyKey, from: usize, now: Time) {
        let (session, flow) = key;
        let Some(peer) = self.agent_of(session) else {
            return;
        };
        let Self { offers, early, senders, sessions, counters, .. } = self;
        let offer = offers.made(peer, flow).and_then(|offer| offer.to_wire(flow));
        let (Some(offer), Some(early)) = (offer.map(Message::Offer), early.flows.get_mut(&key)) else {
            return;
        };
        let Some(sender) = senders.get(early.id.0) else {
            return;
        };
        counters.datagrams_unsendable += early.expire(now);
        early.number(sender.next);
        sessions.begin_urgent(session, &offer, now);
        for datagram in early.datagrams.get(from..).unwrap_or_default() {
            let waited = now.saturating_since(datagram.came);
            let first = datagram.first.filter(|_| waited <= sender.settings.latency_budget);
            let Some(mut sequence) = first else {
                continue;
            };
            for (piece, bytes) in datagram.pieces() {
                let (sent, ecn) = (Timestamp::at(now), datagram.ecn);
                let plaintext = Plaintext { sent, ecn, uncopied: Uncopied::NONE, datagram: bytes };
                let waited = Microseconds::from_duration(waited);
                let packet = EarlyPacket { flow, sequence, piece, waited, plaintext };
                sessions.say_behind(session, &offer, &Message::EarlyPacket(packet), now);
                counters.early += 1;
                sequence = sequence.next();
            }
        }
    }

    /// Handles the peer's answer to the offer of a flow: marks its early datagrams as accepted, or
    /// drops them.
    pub(super) fn early_answered(&mut self, key: EarlyKey, is_accepted: bool) {
        if is_accepted {
            if let Some(early) = self.early.flows.get_mut(&key) {
                early.is_accepted = true;
            }
        } else {
            self.drop_early_of(key);
        }
    }

    /// Drops the early datagrams of a flow. The numbers that went out are not used again.
    fn drop_early_of(&mut self, key: EarlyKey) {
        let Some(EarlyFlow { id, datagrams, .. }) = self.early.flows.remove(&key) else {
            return;
        };
        self.counters.datagrams_unsendable += datagrams.len() as u64;
        if let Some(flow) = self.senders.get_mut(id.0) {
            for datagram in datagrams.iter().filter(|datagram| datagram.first.is_some()) {
                datagram.pieces().for_each(|_| flow.next = flow.next.next());
            }
        }
    }

    /// Drops the early datagrams of a flow that has ended.
    pub(super) fn drop_early(&mut self, id: SendFlowId) {
        let ended = self.early.flows.iter().find(|(_, early)| early.id == id).map(|(key, _)| *key);
        if let Some(key) = ended {
            self.drop_early_of(key);
        }
    }

    pub(super) fn drop_all_early(&mut self) {
        let early = core::mem::take(&mut self.early.flows);
        let dropped: usize = early.values().map(|early| early.datagrams.len()).sum();
        self.counters.datagrams_unsendable += dropped as u64;
    }

    /// True if a flow has early datagrams. No other packet of the flow may be numbered before them.
    pub(super) fn has_early(&self, id: SendFlowId) -> bool {
        !self.early.is_empty() && self.early.flows.values().any(|early| early.id == id)
    }

    /// Sends the early datagrams of accepted flows as source packets, where there is a path.
    #[cold]
    pub(super) fn send_what_was_early(&mut self, now: Time) {
        let accepted = self.early.flows.iter().filter(|(_, early)| early.is_accepted);
        let ready: Vec<EarlyKey> =
            accepted.filter(|(_, early)| self.reaches(early.id, now)).map(|(key, _)| *key).collect();
        for key in ready {
            let Some(EarlyFlow { id, datagrams, .. }) = self.early.flows.remove(&key) else {
                continue;
            };
            for datagram in datagrams {
                self.send_again_as_source(id, &datagram, now);
            }
            self.send_waiting_copies(now);
        }
    }

    fn send_again_as_source(&mut self, id: SendFlowId, datagram: &Datagram, now: Time) {
        let flow = &self.senders[id.0 as usize];
        debug_assert!(
            datagram.first.is_none_or(|first| first == flow.next),
            "early packets keep their numbers"
        );
        let (waited, budget) = (now.saturating_since(datagram.came), flow.settings.latency_budget);
        if waited >= budget.max(WAITS_FOR_WAY) {
            self.counters.datagrams_unsendable += 1;
            let flow = &mut self.senders[id.0 as usize];
            datagram.pieces().for_each(|_| flow.next = flow.next.next());
            return;
        }
        self.counters.datagrams_late += u64::from(waited > budget);
        let copied = flow.is_copied(&datagram.bytes, datagram.marked);
        self.send_pieces(id, datagram.pieces(), datagram.ecn, copied, now);
    }
}
