//! Sends packets with their flow's offer, before the peer has answered it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, FlowId, Time};
use byway_wire::messages::EarlyPacket;
use byway_wire::packets::MESSAGE_OVERHEAD;
use byway_wire::{
    Message, Microseconds, Piece, Plaintext, Receiver, SequenceNumber, Timestamp, TrafficClass, Uncopied,
    Writer,
};

use super::Agent;
use super::closing::Life;
use super::send_flow::{SendFlow, SendFlowId};
use super::sending::pieces_of;
use crate::limits::{
    DATAGRAM_BYTES_MAX, EARLY_BYTES_MAX, EARLY_BYTES_PER_PEER_MAX, EARLY_DATAGRAMS_MAX,
    EARLY_DATAGRAMS_PER_PEER_MAX, EARLY_RELAYED_BURST, EARLY_RELAYED_FLIGHTS_MAX, EARLY_RELAYED_RATE,
    MESSAGES_BYTES_MAX, PIECE_BYTES_BASE, WAITS_FOR_WAY,
};
use crate::parts::token_bucket::TokenBucket;
use crate::session::SessionId;

/// A flow by its session with the peer, and its number.
pub(super) type EarlyKey = (SessionId, FlowId);

/// A datagram of an application that goes with its flow's offer.
#[derive(Debug)]
struct EarlyDatagram {
    came: Time,
    traffic_class: TrafficClass,
    marked: bool,
    in_two_pieces: bool,
    /// The number of its first packet, once that has been sent.
    first: Option<SequenceNumber>,
    /// Number of times that it went through relays.
    flights: u8,
    bytes: Vec<u8>,
}

impl EarlyDatagram {
    fn pieces(&self) -> impl Iterator<Item = (Piece, &[u8])> {
        pieces_of(&self.bytes, self.in_two_pieces)
    }

    /// Returns the number after those of its packets, the first of which is `first`.
    fn end(&self, first: SequenceNumber) -> SequenceNumber {
        first.plus(if self.in_two_pieces { 2 } else { 1 })
    }
}

/// The time after which a datagram of a flow is of no use any more.
fn lifetime(flow: &SendFlow) -> Duration {
    flow.settings.latency_budget.max(WAITS_FOR_WAY)
}

/// Datagrams, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    datagrams: usize,
    bytes: usize,
}

impl Size {
    const fn add(&mut self, bytes: usize) {
        (self.datagrams, self.bytes) = (self.datagrams + 1, self.bytes + bytes);
    }

    const fn subtract(&mut self, bytes: usize) {
        (self.datagrams, self.bytes) = (self.datagrams - 1, self.bytes - bytes);
    }

    /// True if another datagram of so many bytes is within these limits.
    const fn has_room(self, bytes: usize, datagrams_max: usize, bytes_max: usize) -> bool {
        self.datagrams < datagrams_max && self.bytes + bytes <= bytes_max
    }
}

/// The early datagrams of one flow, the oldest first: at least one.
#[derive(Debug)]
struct EarlyFlow {
    key: EarlyKey,
    datagrams: VecDeque<EarlyDatagram>,
    size: Size,
}

impl EarlyFlow {
    /// Numbers the datagrams that have no number yet, from `next` on if none has.
    fn number(&mut self, next: SequenceNumber) {
        let mut number = next;
        for datagram in &mut self.datagrams {
            number = *datagram.first.get_or_insert(number);
            number = datagram.end(number);
        }
    }
}

/// Early packets that share a packet of messages, behind the offer.
#[derive(Debug)]
struct EarlyBatch {
    by_relays: bool,
    packets: u64,
    messages: Vec<u8>,
}

impl EarlyBatch {
    fn add(&mut self, message: &[u8]) {
        self.packets += 1;
        self.messages.extend_from_slice(message);
    }
}

/// Returns a message as it is on the wire; `None` if it is longer than a packet.
fn emit(message: &Message<'_>) -> Option<Vec<u8>> {
    let mut buffer = [0; MESSAGES_BYTES_MAX];
    let mut writer = Writer::new(&mut buffer);
    message.emit(&mut writer).ok().map(|()| writer.written().to_vec())
}

/// Datagrams of flows whose offers are not answered yet.
#[derive(Debug, Default)]
pub(super) struct EarlySending {
    flows: BTreeMap<SendFlowId, EarlyFlow>,
    by_key: BTreeMap<EarlyKey, SendFlowId>,
    by_peer: BTreeMap<SessionId, Size>,
    /// Flows that the peer has accepted. Their datagrams leave as source packets as soon as there
    /// is a path.
    accepted: BTreeSet<SendFlowId>,
    /// Time of the next look for stale datagrams.
    expiry: Option<Time>,
    /// Early data that relays may still pass on, to all peers.
    relayed: Option<TokenBucket<Bytes>>,
}

impl EarlySending {
    /// True if any datagram waits for an answer, or to follow one.
    pub(super) fn is_in_use(&self) -> bool {
        !self.flows.is_empty()
    }

    pub(super) fn contains(&self, key: EarlyKey) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Returns the time at which the first datagrams may be stale.
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.expiry
    }

    /// Returns true if a packet may go through relays; it counts as sent then.
    fn may_relay(&mut self, batch: &EarlyBatch, now: Time) -> bool {
        let full = || TokenBucket::of_bytes(EARLY_RELAYED_RATE, EARLY_RELAYED_BURST, now);
        let bytes = Bytes::from(batch.messages.len() + MESSAGE_OVERHEAD);
        self.relayed.get_or_insert_with(full).take(bytes, now)
    }

    /// True if another datagram of so many bytes is within the limits of its flow and its peer.
    fn has_room(&self, id: SendFlowId, peer: SessionId, bytes: usize) -> bool {
        let own = self.flows.get(&id).map_or(Size::default(), |early| early.size);
        let all = self.by_peer.get(&peer).copied().unwrap_or_default();
        own.has_room(bytes, EARLY_DATAGRAMS_MAX, EARLY_BYTES_MAX)
            && all.has_room(bytes, EARLY_DATAGRAMS_PER_PEER_MAX, EARLY_BYTES_PER_PEER_MAX)
    }

    /// Adds a datagram of a flow; returns its index.
    fn push(&mut self, id: SendFlowId, key: EarlyKey, datagram: EarlyDatagram, stale_at: Time) -> usize {
        let new = || EarlyFlow { key, datagrams: VecDeque::new(), size: Size::default() };
        let early = self.flows.entry(id).or_insert_with(new);
        self.by_key.insert(key, id);
        self.by_peer.entry(key.0).or_default().add(datagram.bytes.len());
        early.size.add(datagram.bytes.len());
        early.datagrams.push_back(datagram);
        self.expiry = Some(self.expiry.map_or(stale_at, |expiry| expiry.min(stale_at)));
        early.datagrams.len() - 1
    }

    /// Removes the oldest datagram of a flow, if a condition holds for it.
    fn pop_if(
        &mut self,
        id: SendFlowId,
        is_meant: impl FnOnce(&EarlyDatagram) -> bool,
    ) -> Option<EarlyDatagram> {
        let early = self.flows.get_mut(&id)?;
        early.datagrams.front().filter(|oldest| is_meant(oldest))?;
        let datagram = early.datagrams.pop_front()?;
        let (key, bytes) = (early.key, datagram.bytes.len());
        early.size.subtract(bytes);
        if early.datagrams.is_empty() {
            self.flows.remove(&id);
            self.by_key.remove(&key);
            self.accepted.remove(&id);
        }
        if let Some(all) = self.by_peer.get_mut(&key.0) {
            all.subtract(bytes);
            if all.datagrams == 0 {
                self.by_peer.remove(&key.0);
            }
        }
        if self.flows.is_empty() {
            self.expiry = None;
        }
        Some(datagram)
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
        traffic_class: TrafficClass,
        marked: bool,
        now: Time,
    ) -> bool {
        let key = self.early_key(flow).filter(|_| self.life == Life::Open);
        let Some((key, in_two_pieces)) =
            key.and_then(|key| Some((key, self.early_split(key, datagram.len(), traffic_class)?)))
        else {
            return false;
        };
        self.expire_early(now);
        let Some(sender) =
            self.senders.get(flow.0).filter(|_| self.early.has_room(flow, key.0, datagram.len()))
        else {
            return false;
        };
        let (bytes, first, flights) = (datagram.to_vec(), None, 0);
        let early = EarlyDatagram { came: now, traffic_class, marked, in_two_pieces, first, flights, bytes };
        let newest = self.early.push(flow, key, early, now.saturating_add(lifetime(sender)));
        self.sessions.use_session(key.0, now);
        if self.sessions.is_established(key.0, now) {
            self.queue_early(key, newest, now);
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
    fn early_split(&self, key: EarlyKey, length: usize, traffic_class: TrafficClass) -> Option<bool> {
        let offer_bytes = self.emit_offer(key)?.len();
        let longest = (MESSAGES_BYTES_MAX - EarlyPacket::OVERHEAD).checked_sub(offer_bytes)?;
        let longest = longest.min(PIECE_BYTES_BASE).checked_sub(traffic_class.dscp_bytes())?;
        let in_two_pieces = length > longest;
        // Flows carry no longer ones, whatever early packets might.
        (length <= DATAGRAM_BYTES_MAX.min(2 * longest)).then_some(in_two_pieces)
    }

    /// Returns the offer of a flow as it is on the wire, if one was made.
    fn emit_offer(&self, key: EarlyKey) -> Option<Vec<u8>> {
        let peer = self.agent_of(key.0)?;
        let offer = self.offers.made(peer, key.1)?.to_wire(key.1)?;
        emit(&Message::Offer(offer))
    }

    /// Sends the offer of a flow, and behind it the flow's early datagrams from index `from` on.
    ///
    /// The offer goes by every path. Datagrams go through relays as often as the budget of early
    /// data and [`EARLY_RELAYED_FLIGHTS_MAX`] allow.
    pub(super) fn queue_early(&mut self, key: EarlyKey, from: usize, now: Time) {
        let Some(offer) = self.emit_offer(key) else {
            return;
        };
        let session = key.0;
        let detours = self.sessions.detours_of(session, now);
        let mut has_offered = false;
        for batch in self.early_batches(key, &offer, from, !detours.is_empty(), now) {
            let by_relays = batch.by_relays && self.early.may_relay(&batch, now);
            let paths = if by_relays { detours.as_slice() } else { &[] };
            let is_sent = self.sessions.send_on_paths(session, &batch.messages, paths, now);
            self.counters.early += if is_sent { batch.packets } else { 0 };
            has_offered |= is_sent && paths.len() == detours.len();
        }
        if !has_offered {
            self.sessions.queue_urgent(session, &offer, now);
        }
    }

    /// Numbers a flow's early datagrams, and packs those from index `from` on behind the offer.
    fn early_batches(
        &mut self,
        key: EarlyKey,
        offer: &[u8],
        from: usize,
        has_relays: bool,
        now: Time,
    ) -> Vec<EarlyBatch> {
        let mut batches: Vec<EarlyBatch> = Vec::new();
        let id = self.early.by_key.get(&key);
        let Some((early, sender)) =
            id.and_then(|id| self.early.flows.get_mut(id).zip(self.senders.get(id.0)))
        else {
            return batches;
        };
        early.number(sender.next);
        for datagram in early.datagrams.iter_mut().skip(from) {
            let waited = now.saturating_since(datagram.came);
            let is_late = waited > sender.settings.latency_budget;
            let Some(mut sequence) = datagram.first.filter(|_| !is_late) else {
                continue;
            };
            let by_relays = has_relays && datagram.flights < EARLY_RELAYED_FLIGHTS_MAX;
            datagram.flights += u8::from(by_relays);
            for (piece, bytes) in datagram.pieces() {
                let traffic_class = self.sessions.carried_class(key.0, datagram.traffic_class);
                let sent = Timestamp::at(now);
                let plaintext = Plaintext { sent, traffic_class, uncopied: Uncopied::NONE, datagram: bytes };
                let waited = Microseconds::from_duration(waited);
                let packet = EarlyPacket { flow: key.1, sequence, piece, waited, plaintext };
                // An offer may be replaced by a longer one. The packet then goes after the answer.
                let message = emit(&Message::EarlyPacket(packet));
                let Some(message) =
                    message.filter(|message| offer.len() + message.len() <= MESSAGES_BYTES_MAX)
                else {
                    break;
                };
                let has_room = |batch: &&mut EarlyBatch| {
                    batch.by_relays == by_relays && batch.messages.len() + message.len() <= MESSAGES_BYTES_MAX
                };
                if let Some(batch) = batches.last_mut().filter(has_room) {
                    batch.add(&message);
                } else {
                    let mut batch = EarlyBatch { by_relays, packets: 0, messages: offer.to_vec() };
                    batch.add(&message);
                    batches.push(batch);
                }
                sequence = sequence.next();
            }
        }
        batches
    }

    /// Handles the peer's answer to the offer of a flow: marks its early datagrams as accepted, or
    /// drops them.
    pub(super) fn on_offer_answer(&mut self, key: EarlyKey, is_accepted: bool) {
        let Some(id) = self.early.by_key.get(&key).copied() else {
            return;
        };
        if is_accepted {
            self.early.accepted.insert(id);
        } else {
            self.drop_early(id);
        }
    }

    /// Drops the early datagrams of a flow.
    pub(super) fn drop_early(&mut self, id: SendFlowId) {
        while self.drop_early_if(id, |_| true) {}
    }

    /// Drops the oldest early datagram of a flow if a condition holds for it; returns true if it
    /// did. Numbers that went out are not used again.
    fn drop_early_if(&mut self, id: SendFlowId, is_meant: impl FnOnce(&EarlyDatagram) -> bool) -> bool {
        let Some(datagram) = self.early.pop_if(id, is_meant) else {
            return false;
        };
        self.counters.datagrams_unsendable += 1;
        if let Some((first, flow)) = datagram.first.zip(self.senders.get_mut(id.0)) {
            flow.next = flow.next.max(datagram.end(first));
        }
        true
    }

    pub(super) fn drop_all_early(&mut self) {
        let early = core::mem::take(&mut self.early);
        let dropped: usize = early.flows.values().map(|early| early.datagrams.len()).sum();
        self.counters.datagrams_unsendable += dropped as u64;
    }

    /// Drops early datagrams that have waited too long.
    pub(super) fn expire_early(&mut self, now: Time) {
        if self.early.expiry.is_none_or(|expiry| now < expiry) {
            return;
        }
        let flows: Vec<SendFlowId> = self.early.flows.keys().copied().collect();
        let mut expiry: Option<Time> = None;
        for id in flows {
            let lifetime = self.senders.get(id.0).map_or(WAITS_FOR_WAY, lifetime);
            let is_stale = |datagram: &EarlyDatagram| now.saturating_since(datagram.came) >= lifetime;
            while self.drop_early_if(id, is_stale) {}
            let oldest = self.early.flows.get(&id).and_then(|early| early.datagrams.front());
            expiry =
                expiry.into_iter().chain(oldest.map(|oldest| oldest.came.saturating_add(lifetime))).min();
        }
        self.early.expiry = expiry;
    }

    /// True if a flow has early datagrams. No other packet of the flow may be numbered before them.
    pub(super) fn has_early(&self, id: SendFlowId) -> bool {
        self.early.flows.contains_key(&id)
    }

    /// Sends the early datagrams of accepted flows as source packets, where there is a path.
    #[cold]
    pub(super) fn send_accepted_early(&mut self, now: Time) {
        let accepted = self.early.accepted.iter().copied();
        let ready: Vec<SendFlowId> = accepted.filter(|id| self.reaches(*id, now)).collect();
        for id in ready {
            while self.send_early_as_source(id, now) {}
        }
    }

    /// Sends the oldest early datagram of a flow as source packets, under the numbers of its early
    /// packets; returns false if there is none, or if it cannot be sent now.
    fn send_early_as_source(&mut self, id: SendFlowId, now: Time) -> bool {
        let (Some(early), Some(flow)) = (self.early.flows.get_mut(&id), self.senders.get_mut(id.0)) else {
            return false;
        };
        let Some(datagram) = early.datagrams.front_mut() else {
            return false;
        };
        let start = datagram.first.unwrap_or(flow.next);
        debug_assert_eq!(start, flow.next, "early packets keep their numbers");
        if start < flow.next {
            // A number seals one packet only.
            return self.drop_early_if(id, |_| true);
        }
        flow.next = start;
        let end = datagram.end(start);
        let is_late = now.saturating_since(datagram.came) > flow.settings.latency_budget;
        let copied = flow.is_copied(&datagram.bytes, datagram.marked);
        let (traffic_class, in_two_pieces) = (datagram.traffic_class, datagram.in_two_pieces);
        let bytes = core::mem::take(&mut datagram.bytes);
        self.send_pieces(id, &bytes, in_two_pieces, traffic_class, copied, now);
        if let Some(datagram) = self.early.flows.get_mut(&id).and_then(|early| early.datagrams.front_mut()) {
            datagram.bytes = bytes;
        }
        if self.senders.get(id.0).is_none_or(|flow| flow.next == start) {
            return false;
        }
        self.senders[id.0 as usize].next = end;
        self.counters.datagrams_late += u64::from(is_late);
        self.early.pop_if(id, |_| true).is_some()
    }
}
