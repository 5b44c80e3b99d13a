//! Fuzz target: handshakes with mutated, reordered, replayed and forged packets.

use byway_proto::agent::{ReceiveFlowId, SendFlowId};
use byway_units::{Duration, Time};
use byway_wire::packets::{InitiationPacket, ResponsePacket};
use byway_wire::seal::{
    Acceptance, Initiation, PortableProvider, PreSharedKey, Purpose, Responder, StaticSecret, Suite,
};
use byway_wire::{Capabilities, Epoch, Incarnation, Service, SessionIndex, Shard};

use crate::harness::input::Input;
use crate::harness::machine::Machine;
use crate::harness::message_generator::MessageContext;
use crate::harness::net::{Net, Packet};
use crate::harness::scripted_peer::ScriptedPeer;
use crate::harness::topology::{self, EGRESS, INGRESS, NodeId};

const ONE: NodeId = NodeId::Agent(1);
const OTHER: NodeId = NodeId::Agent(2);

/// Most pending packets; the oldest are dropped.
const PENDING_MAX: usize = 48;

/// Time after the last hostile packet until all sessions must work.
const RECOVERY: Duration = Duration::from_secs(5);

/// Consecutive rounds of delivered datagrams after which sessions count as stable.
const GOOD_ROUNDS: u32 = 5;

/// Runs handshakes with the wire functions alone, or between two agents and a relay.
///
/// # Panics
/// - If a changed packet is accepted.
/// - If a stranger causes state, or exceeds the amplification limit.
/// - If no session is established in the end.
pub fn handshake(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if input.byte().is_multiple_of(4) {
        on_the_wire(&mut input);
    } else {
        between_nodes(&mut input);
    }
}

fn suite(input: &mut Input<'_>) -> Suite {
    if input.byte() < 128 { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 }
}

fn purpose(input: &mut Input<'_>) -> Purpose {
    [Purpose::EndToEnd, Purpose::AgentToRelay, Purpose::RelayToRelay][input.below(3)]
}

/// Runs one handshake whose two packets may be changed. Both sides must agree on all fields, or the
/// handshake must fail.
fn on_the_wire(input: &mut Input<'_>) {
    let (one, other) = (StaticSecret::from_bytes(input.array()), StaticSecret::from_bytes([2; 32]));
    let psk = PreSharedKey::from_bytes([input.byte(); 32]);
    let initiation = Initiation {
        purpose: purpose(input),
        suite: suite(input),
        shard: Shard::new(input.byte()),
        capabilities: Capabilities::from_bits(u16::from_be_bytes(input.array())),
        index: SessionIndex::new(input.long()),
        handshake_timestamp: u64::from_be_bytes(input.array()),
        incarnation: Incarnation::new(u64::from_be_bytes(input.array())),
        epoch: Epoch::new(input.byte()),
        messages: input.bytes(20),
    };
    let written = initiation.write(&one, &other.public_key(), &psk, &[3; 32]);
    let (mut packet, mut awaited) = written.expect("the messages are short and the key is good");
    let before = packet.clone();
    change(&mut packet, input);
    let responder = Responder::new(other);
    let screened =
        InitiationPacket::parse(packet.as_slice()).ok().and_then(|packet| responder.screen(packet).ok());
    let Some(received) = screened.and_then(|screened| responder.read(&screened, &[4; 32]).ok()) else {
        assert_ne!(packet, before, "an initiation is read");
        return;
    };
    // The second MAC matters only to a responder that required a cookie.
    assert_eq!(packet[..packet.len() - 16], before[..before.len() - 16], "a changed initiation is read");
    assert_eq!(
        (received.peer, received.handshake_timestamp),
        (one.public_key(), initiation.handshake_timestamp)
    );
    assert_eq!(received.messages, initiation.messages);
    let messages = &[5; 30][..received.response_capacity().min(input.below(30))];
    let acceptance = Acceptance {
        index: SessionIndex::new(input.long()),
        capabilities: Capabilities::NONE,
        incarnation: Incarnation::new(6),
        messages,
    };
    let (mut response, theirs) = received.accept(&acceptance, &psk).expect("the messages fit");
    assert!(response.len() <= packet.len(), "a response is longer than its initiation");
    let before = response.clone();
    change(&mut response, input);
    // Reserved bytes of a response are ignored.
    let same = response.len() == before.len() && response[0] == before[0] && response[4..] == before[4..];
    let read = ResponsePacket::parse(response.as_slice()).ok().and_then(|packet| awaited.read(packet).ok());
    match read {
        Some(ours) => {
            assert!(same, "a changed response is read");
            assert_eq!((ours.keys.send(), ours.keys.receive()), (theirs.receive(), theirs.send()));
            let _ = ours.keys.epoch_keys(&PortableProvider, initiation.suite);
        }
        None => assert!(!same, "a response is not read"),
    }
}

/// Changes a packet as the input determines, or leaves it unchanged.
fn change(packet: &mut Vec<u8>, input: &mut Input<'_>) {
    match input.byte() {
        0..64 => {}
        64..192 => {
            let [at, by] = input.array();
            let offset = usize::from(at) * packet.len() / 256;
            if let Some(byte) = packet.get_mut(offset) {
                *byte ^= by;
            }
        }
        192..224 => packet.truncate(packet.len() * usize::from(input.byte()) / 256),
        _ => packet.extend_from_slice(input.bytes(9)),
    }
}

/// Two agents, a relay, and an attacker that controls all packets.
struct HandshakeHarness {
    net: Net,
    flows: [(NodeId, SendFlowId, ReceiveFlowId); 2],
    pending: Vec<Packet>,
    /// Scripted peers: a stranger, and a second incarnation of each agent.
    scripted_peers: Vec<ScriptedPeer>,
}

fn between_nodes(input: &mut Input<'_>) {
    let mut harness = HandshakeHarness::new();
    while !input.is_empty() {
        harness.step(input);
    }
    harness.check_that_nobody_else_is_known();
    harness.recover();
}

impl HandshakeHarness {
    fn new() -> Self {
        let mut agents = [topology::agent(ONE, EGRESS, OTHER), topology::agent(OTHER, EGRESS, ONE)];
        let [one, other] = &mut agents;
        let settings = |ingress, egress| topology::settings(Service::Coding, ingress, egress);
        let (forth, back) = (topology::flow(1, 2, 1), topology::flow(2, 1, 1));
        let known = "the peer is known";
        let sent = one.open_flow(forth, settings(INGRESS, EGRESS), Time::START).expect(known);
        let received = other.accept_flow(forth, settings(INGRESS, EGRESS), Time::START).expect(known);
        let sent_back = other.open_flow(back, settings(EGRESS, INGRESS), Time::START).expect(known);
        let received_back = one.accept_flow(back, settings(EGRESS, INGRESS), Time::START).expect(known);
        let [one, other] = agents;
        let relay = Machine::relay(topology::relay(EGRESS));
        let nodes = vec![(ONE, Machine::agent(one)), (OTHER, Machine::agent(other)), (EGRESS, relay)];
        Self {
            net: Net::new(nodes),
            flows: [(ONE, sent, received), (OTHER, sent_back, received_back)],
            pending: Vec::new(),
            scripted_peers: vec![
                ScriptedPeer::new(NodeId::Stranger, OTHER, Purpose::EndToEnd),
                ScriptedPeer::new(NodeId::Stranger, EGRESS, Purpose::AgentToRelay),
                ScriptedPeer::new(ONE, OTHER, Purpose::EndToEnd),
                ScriptedPeer::new(OTHER, EGRESS, Purpose::AgentToRelay),
                ScriptedPeer::new(INGRESS, EGRESS, Purpose::RelayToRelay),
            ],
        }
    }

    fn gather(&mut self) {
        self.pending.append(&mut self.net.fresh);
        let surplus = self.pending.len().saturating_sub(PENDING_MAX);
        self.pending.drain(..surplus);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        self.gather();
        match input.byte() % 16 {
            0..4 => self.deliver(input, |_, _| {}),
            4 => {
                // All packets arrive, in order.
                for packet in std::mem::take(&mut self.pending) {
                    self.net.arrive(&packet);
                }
            }
            5 => self.deliver(input, |packet, input| change(&mut packet.bytes, input)),
            6 => self.deliver(input, |packet, _| packet.from = NodeId::Stranger.address()),
            7 => {
                let to = self.net.nth(input.byte().into()).address();
                self.deliver(input, |packet, _| {
                    // The attacker cannot redirect packets to the stranger's address, because it
                    // may not receive there.
                    if packet.to != NodeId::Stranger.address() {
                        packet.to = to;
                    }
                });
            }
            8..11 => {
                let until = self.net.now + input.step();
                let pending = &mut self.pending;
                self.net.run(until, |_, packet| pending.push(packet));
            }
            11 | 12 => {
                let (node, flow, _) = self.flows[input.below(2)];
                self.net.with(node, |machine, now| machine.send(flow, b"a datagram", false, now));
            }
            13 => {
                if !self.pending.is_empty() {
                    self.pending.swap_remove(input.below(self.pending.len()));
                }
            }
            _ => self.scripted_handshake(input),
        }
    }

    /// Delivers a pending packet after a change. The original stays pending if the input says so.
    fn deliver(&mut self, input: &mut Input<'_>, change: impl FnOnce(&mut Packet, &mut Input<'_>)) {
        if self.pending.is_empty() {
            return;
        }
        let choice = input.byte();
        let index = usize::from(choice & 0x7F) % self.pending.len();
        let mut packet = self.pending[index].clone();
        if choice < 128 {
            self.pending.remove(index);
        }
        change(&mut packet, input);
        self.net.arrive(&packet);
    }

    /// Begins or continues a handshake with a scripted peer's own or stolen keys, or sends messages
    /// in it.
    fn scripted_handshake(&mut self, input: &mut Input<'_>) {
        let index = input.below(self.scripted_peers.len());
        let to = [OTHER, EGRESS, OTHER, EGRESS, EGRESS][index].address();
        let peer = &mut self.scripted_peers[index];
        let from = if input.byte() < 128 { peer.who.address() } else { NodeId::Stranger.address() };
        let packet = match input.byte() % 4 {
            0 => {
                peer.incarnation = input.byte().into();
                let keys = [topology::flow(1, 2, 1)];
                let subject =
                    MessageContext { keys: &keys, newest: 0, aliases: 1, packet: b"\x08 no packet" };
                let mut messages = Vec::new();
                subject.write_message(input, &mut messages);
                messages.truncate(65_000);
                Some(peer.initiate(input.byte(), &messages))
            }
            1 => {
                let answers = self.pending.iter().find(|packet| packet.to == from && packet.bytes[0] == 5);
                if answers.is_some() {
                    self.net.proved.insert(from);
                }
                answers.and_then(|packet| peer.on_packet(&packet.bytes))
            }
            2 => peer.seal_messages(input.bytes(12)),
            _ => {
                peer.skip(input.long());
                peer.seal_messages(&[])
            }
        };
        if let Some(bytes) = packet {
            self.net.arrive(&Packet { from, to, bytes });
        }
    }

    fn check_that_nobody_else_is_known(&mut self) {
        for (node, peers_max) in [(ONE, 2), (OTHER, 2), (EGRESS, 3)] {
            let peers = self.net.node(node).peers();
            assert!(peers <= peers_max, "{node:?} knows {peers} peers, and not only {peers_max}");
        }
    }

    /// Checks that without interference, sessions are established and remain.
    fn recover(&mut self) {
        self.pending.clear();
        let until = self.net.now + RECOVERY;
        let mut good_rounds = 0;
        while good_rounds < GOOD_ROUNDS {
            good_rounds = if self.delivers() { good_rounds + 1 } else { 0 };
            let is_in_time = good_rounds > 0 || self.net.now < until;
            assert!(is_in_time, "no session long after the last hostile packet");
        }
    }

    /// True if both agents now receive each other's datagrams.
    fn delivers(&mut self) -> bool {
        self.net.delivered.clear();
        self.send_both();
        self.net.run_calm(self.net.now + Duration::from_millis(100));
        let mut delivered: Vec<NodeId> = self.net.delivered.iter().map(|(node, _, _)| *node).collect();
        delivered.sort_unstable();
        delivered == [ONE, OTHER]
    }

    fn send_both(&mut self) {
        for (node, flow, _) in self.flows {
            self.net.with(node, |machine, now| machine.send(flow, b"a datagram", false, now));
        }
    }
}
