//! Early packets at the sender: sent with their flow's offer, before the peer has answered it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, FlowId, Time};
use byway_wire::messages::EarlyPacket;
use byway_wire::packets::MESSAGE_OVERHEAD;
use byway_wire::{
    Fragment, Message, Microseconds, Plaintext, Receiver, SequenceNumber, Timestamp, TrafficClass,
    UnprotectedMask, Writer,
};

use super::Agent;
use super::closing::AgentState;
use super::send_flow::{SendFlow, SendFlowId};
use super::sending::fragments_of;
use crate::limits::{
    DATAGRAM_BYTES_MAX, EARLY_BYTES_MAX, EARLY_BYTES_PER_PEER_MAX, EARLY_DATAGRAMS_MAX,
    EARLY_DATAGRAMS_PER_PEER_MAX, EARLY_RELAYED_BURST, EARLY_RELAYED_FLIGHTS_MAX, EARLY_RELAYED_RATE,
    FRAGMENT_BYTES_BASE, MESSAGES_BYTES_MAX, PENDING_DATAGRAM_LIFETIME,
};
use crate::parts::token_bucket::TokenBucket;
use crate::session::SessionId;

/// Key of an early flow: its session with the peer, and its number.
pub(super) type EarlyKey = (SessionId, FlowId);

/// Datagram of an application that is sent with its flow's offer.
#[derive(Debug)]
struct EarlyDatagram {
    sent_at: Time,
    traffic_class: TrafficClass,
    marked: bool,
    is_fragmented: bool,
    /// Sequence number of the datagram's first packet; `None` before its first transmission.
    first: Option<SequenceNumber>,
    /// Number of transmissions of this early datagram through relays.
    flights: u8,
    bytes: Vec<u8>,
}

impl EarlyDatagram {
    fn fragments(&self) -> impl Iterator<Item = (Fragment, &[u8])> {
        fragments_of(&self.bytes, self.is_fragmented)
    }

    /// Returns the sequence number behind the datagram's packets, if the first one has the number
    /// `first`.
    fn end(&self, first: SequenceNumber) -> SequenceNumber {
        first.plus(if self.is_fragmented { 2 } else { 1 })
    }
}

/// Returns the time for which the agent stores an early datagram of a flow.
fn lifetime(flow: &SendFlow) -> Duration {
    flow.settings.latency_budget.max(PENDING_DATAGRAM_LIFETIME)
}

/// Number of stored early datagrams, of a flow or a peer, and their bytes.
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

    /// True if one more datagram of this length does not exceed these limits.
    const fn has_capacity(self, bytes: usize, datagrams_max: usize, bytes_max: usize) -> bool {
        self.datagrams < datagrams_max && self.bytes + bytes <= bytes_max
    }
}

/// Early datagrams of one flow, at least one, the oldest first.
#[derive(Debug)]
struct EarlyFlow {
    key: EarlyKey,
    datagrams: VecDeque<EarlyDatagram>,
    size: Size,
}

impl EarlyFlow {
    /// Assigns sequence numbers to datagrams without one, behind those that have one, or from
    /// `next` on.
    fn assign_numbers(&mut self, next: SequenceNumber) {
        let mut number = next;
        for datagram in &mut self.datagrams {
            number = *datagram.first.get_or_insert(number);
            number = datagram.end(number);
        }
    }
}

/// Encoded offer, and early packets behind it in the same message packet.
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

/// Returns the encoded message; `None` if it does not fit a message packet.
fn emit(message: &Message<'_>) -> Option<Vec<u8>> {
    let mut buffer = [0; MESSAGES_BYTES_MAX];
    let mut writer = Writer::new(&mut buffer);
    message.emit(&mut writer).ok().map(|()| writer.as_bytes().to_vec())
}

/// Early datagrams of flows that this agent has offered, until the peer answers or there is a path.
#[derive(Debug, Default)]
pub(super) struct EarlySending {
    flows: BTreeMap<SendFlowId, EarlyFlow>,
    by_key: BTreeMap<EarlyKey, SendFlowId>,
    by_peer: BTreeMap<SessionId, Size>,
    /// Flows that the peer has accepted. Their early datagrams leave as source packets as soon as
    /// there is a path.
    accepted: BTreeSet<SendFlowId>,
    /// Time of the next scan for expired early datagrams.
    expiry: Option<Time>,
    /// Token bucket of early data sent through relays, for all peers; allocated at the first use.
    relayed: Option<TokenBucket<Bytes>>,
}

impl EarlySending {
    /// True if the agent stores any early datagram, of any flow.
    pub(super) fn is_in_use(&self) -> bool {
        !self.flows.is_empty()
    }

    pub(super) fn contains(&self, key: EarlyKey) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Returns the time at which the first early datagrams may expire.
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.expiry
    }

    /// Consumes the bytes of a batch from the budget for relays; returns false if the budget does
    /// not suffice.
    fn may_relay(&mut self, batch: &EarlyBatch, now: Time) -> bool {
        let full = || TokenBucket::of_bytes(EARLY_RELAYED_RATE, EARLY_RELAYED_BURST, now);
        let bytes = Bytes::from(batch.messages.len() + MESSAGE_OVERHEAD);
        self.relayed.get_or_insert_with(full).try_consume(bytes, now)
    }

    /// True if one more datagram of this length does not exceed the limits of its flow and its
    /// peer.
    fn has_capacity(&self, id: SendFlowId, peer: SessionId, bytes: usize) -> bool {
        let own = self.flows.get(&id).map_or(Size::default(), |early| early.size);
        let all = self.by_peer.get(&peer).copied().unwrap_or_default();
        own.has_capacity(bytes, EARLY_DATAGRAMS_MAX, EARLY_BYTES_MAX)
            && all.has_capacity(bytes, EARLY_DATAGRAMS_PER_PEER_MAX, EARLY_BYTES_PER_PEER_MAX)
    }

    /// Stores an early datagram of a flow, which expires at `stale_at`; returns its index in the
    /// flow.
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

    /// Removes and returns the oldest early datagram of a flow, if it meets a condition.
    fn pop_if(
        &mut self,
        id: SendFlowId,
        condition: impl FnOnce(&EarlyDatagram) -> bool,
    ) -> Option<EarlyDatagram> {
        let early = self.flows.get_mut(&id)?;
        early.datagrams.front().filter(|oldest| condition(oldest))?;
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
    /// The agent stores the datagram and repeats it with the offer. If the peer accepts, it leaves
    /// as a source packet. If the peer refuses, it is dropped and counted as unsendable. The peer
    /// delivers it once.
    ///
    /// Returns `false`, and sends nothing, in these cases:
    /// - No offer of the flow waits for an answer.
    /// - The datagram is too long.
    /// - The flow or its peer is at the limit of early datagrams.
    ///
    /// The caller then buffers this datagram and all later ones until the peer answers, see
    /// [`Agent::send_buffered`].
    #[must_use]
    pub fn send_early(
        &mut self,
        flow: SendFlowId,
        datagram: &[u8],
        traffic_class: TrafficClass,
        marked: bool,
        now: Time,
    ) -> bool {
        let key = self.early_key(flow).filter(|_| self.state == AgentState::Open);
        let Some((key, is_fragmented)) =
            key.and_then(|key| Some((key, self.early_split(key, datagram.len(), traffic_class)?)))
        else {
            return false;
        };
        self.expire_early(now);
        let Some(sender) =
            self.senders.get(flow.0).filter(|_| self.early.has_capacity(flow, key.0, datagram.len()))
        else {
            return false;
        };
        let (bytes, first, flights) = (datagram.to_vec(), None, 0);
        let early =
            EarlyDatagram { sent_at: now, traffic_class, marked, is_fragmented, first, flights, bytes };
        let newest = self.early.push(flow, key, early, now.saturating_add(lifetime(sender)));
        self.sessions.use_session(key.0, now);
        if self.sessions.is_established(key.0, now) {
            self.queue_early(key, newest, now);
        }
        self.finish(now);
        true
    }

    /// Returns the session and number of an offered flow; `None` if its offer is answered, or there
    /// is none.
    fn early_key(&self, flow: SendFlowId) -> Option<EarlyKey> {
        let sender = self.senders.get(flow.0)?;
        let Receiver::Agent(peer) = sender.key.receiver() else {
            return None;
        };
        let number = sender.key.flow();
        self.offers.awaits_answer(peer, number).then_some((sender.peer, number))
    }

    /// Returns true if an early datagram needs two packets, false if one is enough. `None` if it is
    /// too long for two.
    fn early_split(&self, key: EarlyKey, length: usize, traffic_class: TrafficClass) -> Option<bool> {
        let offer_bytes = self.emit_offer(key)?.len();
        let longest = (MESSAGES_BYTES_MAX - EarlyPacket::OVERHEAD).checked_sub(offer_bytes)?;
        let longest = longest.min(FRAGMENT_BYTES_BASE).checked_sub(traffic_class.dscp_bytes())?;
        let is_fragmented = length > longest;
        // A flow accepts no longer datagrams, even if two early packets could contain more.
        (length <= DATAGRAM_BYTES_MAX.min(2 * longest)).then_some(is_fragmented)
    }

    /// Returns the encoded offer of a flow; `None` if the agent has made none.
    fn emit_offer(&self, key: EarlyKey) -> Option<Vec<u8>> {
        let peer = self.agent_of(key.0)?;
        let offer = self.offers.sent_offer(peer, key.1)?.to_wire(key.1)?;
        emit(&Message::Offer(offer))
    }

    /// Sends the offer of a flow, and behind it the flow's early datagrams from index `from` on.
    ///
    /// The offer is sent on every path. Early datagrams are sent through relays as often as the
    /// budget of early data and [`EARLY_RELAYED_FLIGHTS_MAX`] allow.
    pub(super) fn queue_early(&mut self, key: EarlyKey, from: usize, now: Time) {
        let Some(offer) = self.emit_offer(key) else {
            return;
        };
        let session = key.0;
        let via_relays = self.sessions.via_relays_of(session, now);
        let mut has_offered = false;
        for batch in self.early_batches(key, &offer, from, !via_relays.is_empty(), now) {
            let by_relays = batch.by_relays && self.early.may_relay(&batch, now);
            let paths = if by_relays { via_relays.as_slice() } else { &[] };
            let is_sent = self.sessions.send_on_paths(session, &batch.messages, paths, now);
            self.counters.early += if is_sent { batch.packets } else { 0 };
            has_offered |= is_sent && paths.len() == via_relays.len();
        }
        if !has_offered {
            self.sessions.queue_urgent_bytes(session, &offer, now);
        }
    }

    /// Assigns sequence numbers to a flow's early datagrams, and returns message packets with those
    /// from index `from` on, each behind the offer. Omits datagrams that exceed the latency budget.
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
        early.assign_numbers(sender.next);
        for datagram in early.datagrams.iter_mut().skip(from) {
            let waited = now.saturating_since(datagram.sent_at);
            let is_late = waited > sender.settings.latency_budget;
            let Some(mut sequence) = datagram.first.filter(|_| !is_late) else {
                continue;
            };
            let by_relays = has_relays && datagram.flights < EARLY_RELAYED_FLIGHTS_MAX;
            datagram.flights += u8::from(by_relays);
            for (fragment, bytes) in datagram.fragments() {
                let traffic_class = self.sessions.supported_traffic_class(key.0, datagram.traffic_class);
                let sent = Timestamp::at(now);
                let plaintext =
                    Plaintext { sent, traffic_class, unprotected: UnprotectedMask::NONE, datagram: bytes };
                let waited = Microseconds::from_duration(waited);
                let packet = EarlyPacket { flow: key.1, sequence, fragment, waited, plaintext };
                // An offer may be replaced by a longer one. The packet is then sent after the
                // answer.
                let message = emit(&Message::EarlyPacket(packet));
                let Some(message) =
                    message.filter(|message| offer.len() + message.len() <= MESSAGES_BYTES_MAX)
                else {
                    break;
                };
                let has_capacity = |batch: &&mut EarlyBatch| {
                    batch.by_relays == by_relays && batch.messages.len() + message.len() <= MESSAGES_BYTES_MAX
                };
                if let Some(batch) = batches.last_mut().filter(has_capacity) {
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
    pub(super) fn resolve_early_flow(&mut self, key: EarlyKey, is_accepted: bool) {
        let Some(id) = self.early.by_key.get(&key).copied() else {
            return;
        };
        if is_accepted {
            self.early.accepted.insert(id);
        } else {
            self.drop_early(id);
        }
    }

    /// Drops all early datagrams of a flow, and counts them as unsendable.
    pub(super) fn drop_early(&mut self, id: SendFlowId) {
        while self.drop_early_if(id, |_| true) {}
    }

    /// Drops the oldest early datagram of a flow, and counts it as unsendable, if it meets a
    /// condition; returns true if it did. Its sequence numbers are not reused if it was sent.
    fn drop_early_if(&mut self, id: SendFlowId, condition: impl FnOnce(&EarlyDatagram) -> bool) -> bool {
        let Some(datagram) = self.early.pop_if(id, condition) else {
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

    /// Drops the early datagrams that this sender has stored for longer than their flow's latency
    /// budget, or [`PENDING_DATAGRAM_LIFETIME`] if that is longer. Counts them as unsendable.
    pub(super) fn expire_early(&mut self, now: Time) {
        if self.early.expiry.is_none_or(|expiry| now < expiry) {
            return;
        }
        let flows: Vec<SendFlowId> = self.early.flows.keys().copied().collect();
        let mut expiry: Option<Time> = None;
        for id in flows {
            let lifetime = self.senders.get(id.0).map_or(PENDING_DATAGRAM_LIFETIME, lifetime);
            let is_stale = |datagram: &EarlyDatagram| now.saturating_since(datagram.sent_at) >= lifetime;
            while self.drop_early_if(id, is_stale) {}
            let oldest = self.early.flows.get(&id).and_then(|early| early.datagrams.front());
            expiry =
                expiry.into_iter().chain(oldest.map(|oldest| oldest.sent_at.saturating_add(lifetime))).min();
        }
        self.early.expiry = expiry;
    }

    /// True if a flow has early datagrams. No other packet of the flow may get a sequence number
    /// before they are sent as source packets.
    pub(super) fn has_early(&self, id: SendFlowId) -> bool {
        self.early.flows.contains_key(&id)
    }

    /// Sends the early datagrams of accepted flows as source packets, if there is a path.
    #[cold]
    pub(super) fn send_accepted_early(&mut self, now: Time) {
        let accepted = self.early.accepted.iter().copied();
        let ready: Vec<SendFlowId> = accepted.filter(|id| self.is_reachable(*id, now)).collect();
        for id in ready {
            while self.send_early_as_source(id, now) {}
        }
    }

    /// Sends the oldest early datagram of a flow as source packets, under the sequence numbers of
    /// its early packets. Returns false if there is none, or if there is no path.
    fn send_early_as_source(&mut self, id: SendFlowId, now: Time) -> bool {
        let (Some(early), Some(flow)) = (self.early.flows.get_mut(&id), self.senders.get_mut(id.0)) else {
            return false;
        };
        let Some(datagram) = early.datagrams.front_mut() else {
            return false;
        };
        let start = datagram.first.unwrap_or(flow.next);
        debug_assert_eq!(start, flow.next, "a datagram's early and source packets have the same numbers");
        if start < flow.next {
            // One sequence number must not seal two packets.
            return self.drop_early_if(id, |_| true);
        }
        flow.next = start;
        let end = datagram.end(start);
        let is_late = now.saturating_since(datagram.sent_at) > flow.settings.latency_budget;
        let copied = flow.is_copied(&datagram.bytes, datagram.marked);
        let (traffic_class, is_fragmented) = (datagram.traffic_class, datagram.is_fragmented);
        let bytes = core::mem::take(&mut datagram.bytes);
        self.send_fragments(id, &bytes, is_fragmented, traffic_class, copied, now);
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
