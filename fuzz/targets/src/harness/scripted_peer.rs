//! A scripted peer: it has real keys, and seals whatever it is told to.

use std::net::SocketAddr;

use byway_units::{FlowId, Time};
use byway_wire::messages::{PathResponse, ProbeReply};
use byway_wire::packets::{
    ENVELOPE_OVERHEAD, EnvelopeHeader, EnvelopeRole, InitiationPacket, MESSAGE_OVERHEAD, MessageHeader,
    MessagePacket, ResponsePacket, SOURCE_OVERHEAD, SourceHeader,
};
use byway_wire::seal::{
    Acceptance, AwaitedResponse, DigestKey, EpochKeys, Initiation, Portable, PreSharedKey, PublicKey,
    Purpose, Responder, SplitKeys, StaticSecret, Suite,
};
use byway_wire::{
    Alias, Boot, Capabilities, Counter, Epoch, Flags, Message, Messages, Piece, Plaintext, SequenceNumber,
    SessionIndex, Shard, Timestamp, TrafficClass, Uncopied, Writer,
};

use super::topology::NodeId;

/// What a side has of a handshake that is done.
struct Sealing {
    keys: EpochKeys,
    digests: DigestKey,
    theirs: SessionIndex,
    epoch: Epoch,
    next: u64,
}

/// What the other side asked for and nobody has answered yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    probe: Option<(u32, Timestamp)>,
    challenge: Option<[u8; 8]>,
    /// Packets asked for, for others' repairs: alias and sequence number.
    pub(crate) requested: Vec<(Alias, u32)>,
}

/// The other side of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) key: PublicKey,
    pub(crate) address: SocketAddr,
}

/// One side of a session.
pub(crate) struct ScriptedPeer {
    pub(crate) who: NodeId,
    secret: StaticSecret,
    peer: Peer,
    purpose: Purpose,
    responder: Responder,
    pub(crate) boot: u64,
    pub(crate) stamp: u64,
    next_index: u32,
    awaited: Option<(AwaitedResponse, Epoch)>,
    sealing: Option<Sealing>,
    pub(crate) heard: Heard,
}

const SUITE: Suite = Suite::ChaCha20Poly1305;

/// Most requests of the other side that are remembered.
const REQUESTED_MAX: usize = 64;

impl ScriptedPeer {
    pub(crate) fn new(who: NodeId, peer: NodeId, purpose: Purpose) -> Self {
        Self::with_keys(who, who.secret(), Peer { key: peer.key(), address: peer.address() }, purpose)
    }

    /// Plays the part of a node with keys of its own.
    pub(crate) fn with_keys(who: NodeId, secret: StaticSecret, peer: Peer, purpose: Purpose) -> Self {
        Self {
            who,
            responder: Responder::new(secret.clone()),
            secret,
            peer,
            purpose,
            boot: 1,
            stamp: 1,
            next_index: 0x0100,
            awaited: None,
            sealing: None,
            heard: Heard::default(),
        }
    }

    pub(crate) const fn is_established(&self) -> bool {
        self.sealing.is_some()
    }

    fn draw(&mut self) -> (SessionIndex, [u8; 32]) {
        self.next_index += 1;
        let [.., a, b] = self.next_index.to_be_bytes();
        let mut seed = [a; 32];
        seed[0] = b;
        (SessionIndex::new(self.next_index), seed)
    }

    /// An initiation with these messages.
    pub(crate) fn initiate(&mut self, epoch: u8, messages: &[u8]) -> Vec<u8> {
        let (index, seed) = self.draw();
        self.stamp += 1;
        let initiation = Initiation {
            purpose: self.purpose,
            suite: SUITE,
            shard: Shard::new(0),
            capabilities: Capabilities::DIGESTS,
            index,
            stamp: self.stamp,
            boot: Boot::new(self.boot),
            epoch: Epoch::new(epoch),
            messages,
        };
        let psk = PreSharedKey::default();
        let written = initiation.write(&self.secret, &self.peer.key, &psk, &seed);
        let (packet, awaited) = written.expect("the messages fit in a datagram");
        self.awaited = Some((awaited, Epoch::new(epoch)));
        packet
    }

    /// Takes what the other side sends; an initiation is answered.
    pub(crate) fn take(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        match packet.first()? {
            4 => self.respond(packet),
            5 => {
                self.conclude(packet);
                None
            }
            8 => {
                self.listen(packet);
                None
            }
            _ => None,
        }
    }

    fn respond(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (index, seed) = self.draw();
        let packet = InitiationPacket::parse(packet).ok()?;
        let received = self.responder.read(&self.responder.screen(packet).ok()?, &seed).ok()?;
        let (theirs, epoch) = (received.index, received.epoch);
        let boot = Boot::new(self.boot);
        let acceptance = Acceptance { index, capabilities: Capabilities::DIGESTS, boot, messages: &[] };
        let (response, keys) = received.accept(&acceptance, &PreSharedKey::default()).ok()?;
        self.begin(&keys, theirs, epoch);
        Some(response)
    }

    fn conclude(&mut self, packet: &[u8]) {
        let Some((mut awaited, epoch)) = self.awaited.take() else { return };
        let response = ResponsePacket::parse(packet).ok().and_then(|packet| awaited.read(packet).ok());
        match response {
            Some(response) => self.begin(&response.keys, response.index, epoch),
            None => self.awaited = Some((awaited, epoch)),
        }
    }

    fn begin(&mut self, keys: &SplitKeys, theirs: SessionIndex, epoch: Epoch) {
        self.sealing = Some(Sealing {
            keys: keys.epoch_keys(&Portable, SUITE),
            digests: keys.send_digests(),
            theirs,
            epoch,
            next: 0,
        });
    }

    fn listen(&mut self, packet: &[u8]) {
        let Some(sealing) = &self.sealing else { return };
        let mut packet = packet.to_vec();
        let Ok(packet) = MessagePacket::parse(packet.as_mut_slice()) else { return };
        let counter = Counter::new(packet.header().counter_low.into());
        let Ok(messages) = sealing.keys.open_message(counter, packet) else {
            return;
        };
        for message in Messages::new(messages).flatten() {
            match message {
                Message::Probe(probe) => self.heard.probe = Some((probe.number, probe.sent)),
                Message::PathChallenge(challenge) => self.heard.challenge = Some(challenge.token),
                Message::CooperativeRequest(request) => {
                    let numbers = request.ranges.numbers_low().take(REQUESTED_MAX);
                    self.heard.requested.extend(numbers.map(|low| (request.alias, low)));
                    let surplus = self.heard.requested.len().saturating_sub(REQUESTED_MAX);
                    self.heard.requested.drain(..surplus);
                }
                _ => {}
            }
        }
    }

    /// Honest answers to what was heard, encoded.
    pub(crate) fn answers(&mut self, now: Time) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some((number, sent)) = self.heard.probe.take() {
            let address = self.peer.address.into();
            let reply = ProbeReply {
                number,
                sent,
                received: Timestamp::at(now),
                envelopes: 0,
                address,
                long_packets: 0,
            };
            write(&Message::ProbeReply(reply), &mut out);
        }
        if let Some(token) = self.heard.challenge.take() {
            write(&Message::PathResponse(PathResponse { token }), &mut out);
        }
        out
    }

    /// A message packet with this plaintext.
    pub(crate) fn says(&mut self, plaintext: &[u8]) -> Option<Vec<u8>> {
        let sealing = self.sealing.as_mut()?;
        let counter = sealing.take_counter();
        let header = MessageHeader { receiver: sealing.theirs, counter_low: low(counter) };
        let mut packet = vec![0; MESSAGE_OVERHEAD + plaintext.len()];
        header.emit(packet.first_chunk_mut().expect("the packet has a header"));
        packet[MessageHeader::BYTES..][..plaintext.len()].copy_from_slice(plaintext);
        sealing.keys.seal_message(Counter::new(counter), &mut packet);
        Some(packet)
    }

    /// An envelope around these coded bytes.
    pub(crate) fn envelops(
        &mut self,
        role: EnvelopeRole,
        alias: Alias,
        low_bits: u32,
        coded: &[u8],
    ) -> Option<Vec<u8>> {
        let sealing = self.sealing.as_mut()?;
        let counter = sealing.take_counter();
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

    /// A source packet as it travels on the direct path; its coded bytes begin at [`SourceHeader::CODED_START`].
    pub(crate) fn sends(
        &self,
        flow: FlowId,
        number: u64,
        piece: Piece,
        sent: Time,
        datagram: &[u8],
    ) -> Option<Vec<u8>> {
        let sealing = self.sealing.as_ref()?;
        let flags = Flags::new(sealing.epoch, piece);
        let sequence = SequenceNumber::new(number);
        let header = SourceHeader { receiver: sealing.theirs, flow, sequence_low: sequence.low(), flags };
        let head = Plaintext {
            sent: Timestamp::at(sent),
            traffic_class: TrafficClass::DEFAULT,
            uncopied: Uncopied::NONE,
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

    /// The digest by which this side vouches for a packet.
    pub(crate) fn digest(&self, alias: Alias, low_bits: u32, coded: &[u8]) -> [u8; 4] {
        let digests = self.sealing.as_ref().map(|sealing| &sealing.digests);
        digests.map_or([0; 4], |digests| digests.digest(alias, low_bits, coded))
    }

    /// Leaves out some numbers of the counter.
    pub(crate) fn skip(&mut self, count: u32) {
        if let Some(sealing) = &mut self.sealing {
            sealing.next += u64::from(count);
        }
    }
}

impl Sealing {
    const fn take_counter(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

#[allow(clippy::cast_possible_truncation, reason = "packets carry the low bits")]
const fn low(number: u64) -> u32 {
    number as u32
}

/// Appends a message.
pub(crate) fn write(message: &Message<'_>, out: &mut Vec<u8>) {
    let mut buffer = vec![0; 70_000];
    let mut writer = Writer::new(&mut buffer);
    message.emit(&mut writer).expect("a message is shorter than a datagram");
    out.extend_from_slice(writer.written());
}
