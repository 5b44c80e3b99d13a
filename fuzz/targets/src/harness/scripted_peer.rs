//! A scripted peer with real keys, which seals arbitrary contents.

use std::net::SocketAddr;

use byway_units::{FlowId, Time};
use byway_wire::messages::{PathResponse, ProbeReply};
use byway_wire::packets::{
    ENVELOPE_OVERHEAD, EnvelopeHeader, EnvelopeRole, InitiationPacket, MESSAGE_OVERHEAD, MessageHeader,
    MessagePacket, ResponsePacket, SOURCE_OVERHEAD, SourceHeader,
};
use byway_wire::seal::{
    Acceptance, AwaitedResponse, DigestKey, EpochKeys, Initiation, PortableProvider, PreSharedKey, PublicKey,
    Purpose, Responder, SplitKeys, StaticSecret, Suite,
};
use byway_wire::{
    Alias, Capabilities, Counter, Epoch, Flags, Fragment, Incarnation, Message, Messages, Plaintext,
    SequenceNumber, SessionIndex, Shard, Timestamp, TrafficClass, UnprotectedMask, Writer,
};

use super::topology::NodeId;

/// Keys and counters of a scripted peer after a completed handshake.
struct EpochState {
    keys: EpochKeys,
    digests: DigestKey,
    theirs: SessionIndex,
    epoch: Epoch,
    next: u64,
}

/// Requests of the other side that the scripted peer has not answered yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingRequests {
    probe: Option<(u32, Timestamp)>,
    challenge: Option<[u8; 8]>,
    /// Packets requested for the repair of other flows: alias and sequence number.
    pub(crate) requested: Vec<(Alias, u32)>,
}

/// Key and address of the other side of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) key: PublicKey,
    pub(crate) address: SocketAddr,
}

/// Scripted node at one end of a session, which can seal any content.
pub(crate) struct ScriptedPeer {
    pub(crate) who: NodeId,
    secret: StaticSecret,
    peer: Peer,
    purpose: Purpose,
    responder: Responder,
    pub(crate) incarnation: u64,
    pub(crate) handshake_timestamp: u64,
    next_index: u32,
    awaited: Option<(AwaitedResponse, Epoch)>,
    sealing: Option<EpochState>,
    pub(crate) pending: PendingRequests,
}

const SUITE: Suite = Suite::ChaCha20Poly1305;

/// Most requests that a scripted peer stores for an answer.
const REQUESTED_MAX: usize = 64;

impl ScriptedPeer {
    pub(crate) fn new(node: NodeId, peer: NodeId, purpose: Purpose) -> Self {
        Self::with_keys(node, node.secret(), Peer { key: peer.key(), address: peer.address() }, purpose)
    }

    /// Returns a scripted node with keys of its own.
    pub(crate) fn with_keys(node: NodeId, secret: StaticSecret, peer: Peer, purpose: Purpose) -> Self {
        Self {
            who: node,
            responder: Responder::new(secret.clone()),
            secret,
            peer,
            purpose,
            incarnation: 1,
            handshake_timestamp: 1,
            next_index: 0x0100,
            awaited: None,
            sealing: None,
            pending: PendingRequests::default(),
        }
    }

    pub(crate) const fn is_established(&self) -> bool {
        self.sealing.is_some()
    }

    fn random_index_and_secret(&mut self) -> (SessionIndex, [u8; 32]) {
        self.next_index += 1;
        let [.., a, b] = self.next_index.to_be_bytes();
        let mut seed = [a; 32];
        seed[0] = b;
        (SessionIndex::new(self.next_index), seed)
    }

    /// Returns an initiation with these messages.
    pub(crate) fn initiate(&mut self, epoch: u8, messages: &[u8]) -> Vec<u8> {
        let (index, seed) = self.random_index_and_secret();
        self.handshake_timestamp += 1;
        let initiation = Initiation {
            purpose: self.purpose,
            suite: SUITE,
            shard: Shard::new(0),
            capabilities: Capabilities::DIGESTS,
            index,
            handshake_timestamp: self.handshake_timestamp,
            incarnation: Incarnation::new(self.incarnation),
            epoch: Epoch::new(epoch),
            messages,
        };
        let psk = PreSharedKey::default();
        let written = initiation.write(&self.secret, &self.peer.key, &psk, &seed);
        let (packet, awaited) = written.expect("the messages fit in a datagram");
        self.awaited = Some((awaited, Epoch::new(epoch)));
        packet
    }

    /// Handles a packet of the other side, and answers an initiation.
    pub(crate) fn on_packet(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        match packet.first()? {
            4 => self.respond(packet),
            5 => {
                self.on_response(packet);
                None
            }
            8 => {
                self.on_message_packet(packet);
                None
            }
            _ => None,
        }
    }

    fn respond(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (index, seed) = self.random_index_and_secret();
        let packet = InitiationPacket::parse(packet).ok()?;
        let received = self.responder.read(&self.responder.screen(packet).ok()?, &seed).ok()?;
        let (theirs, epoch) = (received.index, received.epoch);
        let incarnation = Incarnation::new(self.incarnation);
        let acceptance =
            Acceptance { index, capabilities: Capabilities::DIGESTS, incarnation, messages: &[] };
        let (response, keys) = received.accept(&acceptance, &PreSharedKey::default()).ok()?;
        self.begin_epoch(&keys, theirs, epoch);
        Some(response)
    }

    fn on_response(&mut self, packet: &[u8]) {
        let Some((mut awaited, epoch)) = self.awaited.take() else { return };
        let response = ResponsePacket::parse(packet).ok().and_then(|packet| awaited.read(packet).ok());
        match response {
            Some(response) => self.begin_epoch(&response.keys, response.index, epoch),
            None => self.awaited = Some((awaited, epoch)),
        }
    }

    fn begin_epoch(&mut self, keys: &SplitKeys, theirs: SessionIndex, epoch: Epoch) {
        self.sealing = Some(EpochState {
            keys: keys.epoch_keys(&PortableProvider, SUITE),
            digests: keys.send_digests(),
            theirs,
            epoch,
            next: 0,
        });
    }

    fn on_message_packet(&mut self, packet: &[u8]) {
        let Some(sealing) = &self.sealing else { return };
        let mut packet = packet.to_vec();
        let Ok(packet) = MessagePacket::parse(packet.as_mut_slice()) else { return };
        let counter = Counter::new(packet.header().counter_low.into());
        let Ok(messages) = sealing.keys.open_message(counter, packet) else {
            return;
        };
        for message in Messages::new(messages).flatten() {
            match message {
                Message::Probe(probe) => self.pending.probe = Some((probe.number, probe.sent)),
                Message::PathChallenge(challenge) => self.pending.challenge = Some(challenge.token),
                Message::CooperativeRequest(request) => {
                    let numbers = request.ranges.numbers_low().take(REQUESTED_MAX);
                    self.pending.requested.extend(numbers.map(|low| (request.alias, low)));
                    let surplus = self.pending.requested.len().saturating_sub(REQUESTED_MAX);
                    self.pending.requested.drain(..surplus);
                }
                _ => {}
            }
        }
    }

    /// Encodes correct answers to the received requests.
    pub(crate) fn answers(&mut self, now: Time) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some((number, sent)) = self.pending.probe.take() {
            let address = self.peer.address.into();
            let reply = ProbeReply {
                number,
                sent,
                received: Timestamp::at(now),
                envelopes: 0,
                address,
                long_packets: 0,
                transit_packets: 0,
            };
            write(&Message::ProbeReply(reply), &mut out);
        }
        if let Some(token) = self.pending.challenge.take() {
            write(&Message::PathResponse(PathResponse { token }), &mut out);
        }
        out
    }

    /// Returns a message packet with this plaintext.
    pub(crate) fn seal_messages(&mut self, plaintext: &[u8]) -> Option<Vec<u8>> {
        let sealing = self.sealing.as_mut()?;
        let counter = sealing.next_counter();
        let header = MessageHeader { receiver: sealing.theirs, counter_low: low(counter) };
        let mut packet = vec![0; MESSAGE_OVERHEAD + plaintext.len()];
        header.emit(packet.first_chunk_mut().expect("the packet has a header"));
        packet[MessageHeader::BYTES..][..plaintext.len()].copy_from_slice(plaintext);
        sealing.keys.seal_message(Counter::new(counter), &mut packet);
        Some(packet)
    }

    /// Returns an envelope with these coded bytes.
    pub(crate) fn seal_envelope(
        &mut self,
        role: EnvelopeRole,
        alias: Alias,
        low_bits: u32,
        coded: &[u8],
    ) -> Option<Vec<u8>> {
        let sealing = self.sealing.as_mut()?;
        let counter = sealing.next_counter();
        let header = EnvelopeHeader {
            role,
            receiver: sealing.theirs,
            counter_low: low(counter),
            alias,
            sequence_low: low_bits,
        };
        let mut packet = vec![0; ENVELOPE_OVERHEAD + coded.len()];
        header.emit(packet.first_chunk_mut().expect("the packet has a header"));
        packet[EnvelopeHeader::BYTES..][..coded.len()].copy_from_slice(coded);
        sealing.keys.tag_envelope(Counter::new(counter), &mut packet);
        Some(packet)
    }

    /// Returns a source packet in the form for the direct path. Its coded bytes begin at
    /// [`SourceHeader::CODED_START`].
    pub(crate) fn seal_source_packet(
        &self,
        flow: FlowId,
        number: u64,
        fragment: Fragment,
        sent: Time,
        datagram: &[u8],
    ) -> Option<Vec<u8>> {
        let sealing = self.sealing.as_ref()?;
        let flags = Flags::new(sealing.epoch, fragment);
        let sequence = SequenceNumber::new(number);
        let header = SourceHeader { receiver: sealing.theirs, flow, sequence_low: sequence.low(), flags };
        let head = Plaintext {
            sent: Timestamp::at(sent),
            traffic_class: TrafficClass::DEFAULT,
            unprotected: UnprotectedMask::NONE,
            datagram,
        }
        .head();
        let mut packet = vec![0; SOURCE_OVERHEAD + datagram.len()];
        header.emit(packet.first_chunk_mut().expect("the packet has a header"));
        packet[SourceHeader::BYTES..][..head.len()].copy_from_slice(&head);
        packet[SourceHeader::BYTES + head.len()..][..datagram.len()].copy_from_slice(datagram);
        sealing.keys.seal_source(flow, sequence, &mut packet[SourceHeader::CODED_START..]);
        Some(packet)
    }

    /// Returns the digest of this side for a packet.
    pub(crate) fn digest(&self, alias: Alias, low_bits: u32, coded: &[u8]) -> [u8; 4] {
        let digests = self.sealing.as_ref().map(|sealing| &sealing.digests);
        digests.map_or([0; 4], |digests| digests.digest(alias, low_bits, coded))
    }

    /// Skips this many packet counters of the sender.
    pub(crate) fn skip(&mut self, count: u32) {
        if let Some(sealing) = &mut self.sealing {
            sealing.next += u64::from(count);
        }
    }
}

impl EpochState {
    const fn next_counter(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

#[allow(clippy::cast_possible_truncation, reason = "packets carry the low bits")]
const fn low(number: u64) -> u32 {
    number as u32
}

/// Appends the encoded message to a buffer.
pub(crate) fn write(message: &Message<'_>, out: &mut Vec<u8>) {
    let mut buffer = vec![0; 70_000];
    let mut writer = Writer::new(&mut buffer);
    message.emit(&mut writer).expect("a message is shorter than a datagram");
    out.extend_from_slice(writer.as_bytes());
}
