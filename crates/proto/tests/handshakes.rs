//! Tests of handshakes with an agent, under attack by a node that has packets of them.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_code::Engine;
use byway_proto::LocalAddress;
use byway_proto::agent::{Agent, AgentIdentity, AgentInput, AgentOutput, Peer};
use byway_units::{AgentId, Duration, Time};
use byway_wire::packets::{CookiePacket, Kind, MESSAGE_OVERHEAD, MessageHeader, ResponsePacket};
use byway_wire::seal::{
    AwaitedResponse, EpochKeys, Initiation, PortableProvider, PreSharedKey, Purpose, StaticSecret, Suite,
    write_mac2,
};
use byway_wire::{Capabilities, Counter, Ecn, Epoch, Incarnation, SessionIndex, Shard};

const SUITE: Suite = Suite::ChaCha20Poly1305;

fn address(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 4_600)
}

fn secret(letter: u8) -> StaticSecret {
    StaticSecret::from_bytes([letter; 32])
}

/// Returns an agent that knows no address of its peer.
fn agent() -> Agent {
    let identity =
        AgentIdentity { number: AgentId::new(2), secret: secret(2), suite: SUITE, started_unix_nanos: 0 };
    let mut agent = Agent::new(identity, Engine::fastest(), &PortableProvider, [7; 32], Time::START);
    let peer = Peer {
        number: AgentId::new(1),
        key: secret(1).public_key(),
        pre_shared: PreSharedKey::default(),
        addresses: Vec::new(),
    };
    agent.add_peer(peer, Time::START);
    agent
}

fn initiation(stamp: u64) -> (Vec<u8>, AwaitedResponse) {
    let initiation = Initiation {
        purpose: Purpose::EndToEnd,
        suite: SUITE,
        shard: Shard::new(0),
        capabilities: Capabilities::NONE,
        index: SessionIndex::new(77),
        handshake_timestamp: stamp,
        incarnation: Incarnation::new(1),
        epoch: Epoch::new(0),
        messages: &[],
    };
    let [.., seed] = stamp.to_be_bytes();
    let key = secret(2).public_key();
    initiation.write(&secret(1), &key, &PreSharedKey::default(), &[seed; 32]).expect("the key is good")
}

/// Returns the agent's answers to a packet.
fn answers(agent: &mut Agent, from: SocketAddr, packet: &[u8], now: Time) -> Vec<(SocketAddr, Vec<u8>)> {
    let bytes = &mut packet.to_vec();
    agent.handle(AgentInput::Received { from, to: LocalAddress::ANY, ecn: Ecn::NotCapable, bytes }, now);
    let mut sent = Vec::new();
    while let Some(output) = agent.poll() {
        if let AgentOutput::Transmit(transmit) = output {
            // Grease packets have an unknown kind, and answer nothing.
            if transmit.bytes[0] != Kind::GREASE {
                sent.push((transmit.to, transmit.bytes.to_vec()));
            }
        }
    }
    sent
}

/// Returns the keys of a response, and the session index for packets.
fn concluded(awaited: &mut AwaitedResponse, response: &[u8]) -> (EpochKeys, SessionIndex) {
    let response = ResponsePacket::parse(response).expect("it looks like a response");
    let response = awaited.read(response).expect("this is the response");
    (response.keys.epoch_keys(&PortableProvider, SUITE), response.index)
}

/// Returns a path challenge, which a node answers if it accepts it as its peer's.
fn challenge(keys: &EpochKeys, receiver: SessionIndex) -> Vec<u8> {
    message(keys, receiver, 34, 8)
}

/// Returns a message of this type, with a body of zeros of this length.
fn message(keys: &EpochKeys, receiver: SessionIndex, kind: u8, length: u8) -> Vec<u8> {
    let mut packet = vec![0; MESSAGE_OVERHEAD + 3 + usize::from(length)];
    let header = MessageHeader { receiver, counter_low: 0 };
    header.emit(packet.first_chunk_mut().expect("the packet has a header"));
    packet[MessageHeader::BYTES..][..3].copy_from_slice(&[kind, 0, length]);
    keys.seal_message(Counter::new(0), &mut packet);
    packet
}

#[test]
fn a_replayed_initiation_with_a_cookie_does_not_disturb_a_handshake_under_way() {
    let (mut agent, now) = (agent(), Time::START);
    let (old, mut old_awaited) = initiation(1);
    let response = answers(&mut agent, address(1), &old, now).remove(0).1;
    let (keys, receiver) = concluded(&mut old_awaited, &response);
    answers(&mut agent, address(1), &challenge(&keys, receiver), now);
    // An attacker has the initiation, and gets a cookie for it.
    let cookie = answers(&mut agent, address(66), &old, now).remove(0).1;
    let mut replayed = old;
    write_mac2(
        &mut replayed,
        &initiation(1)
            .1
            .open_cookie(CookiePacket::parse(cookie.as_slice()).expect("it looks like a cookie"))
            .expect("the cookie is for this packet"),
    );
    let (new, mut awaited) = initiation(2);
    let response = answers(&mut agent, address(1), &new, now).remove(0).1;
    assert_eq!(answers(&mut agent, address(66), &replayed, now), []);
    let (keys, receiver) = concluded(&mut awaited, &response);
    assert_eq!(answers(&mut agent, address(1), &challenge(&keys, receiver), now).len(), 1);
}

#[test]
fn a_peer_that_lost_its_clock_gets_a_session_after_a_while() {
    let (mut agent, now) = (agent(), Time::START);
    answers(&mut agent, address(66), &initiation(1 << 40).0, now);
    let later = now + Duration::from_secs(11);
    while let Some((at, _)) = agent.deadline().filter(|(at, _)| *at <= later) {
        agent.handle(AgentInput::Deadline, at);
        while agent.poll().is_some() {}
    }
    let (mut packet, mut awaited) = initiation(3);
    let cookie = answers(&mut agent, address(1), &packet, later).remove(0).1;
    write_mac2(
        &mut packet,
        &awaited
            .open_cookie(CookiePacket::parse(cookie.as_slice()).expect("it looks like a cookie"))
            .expect("an old stamp gets a cookie"),
    );
    let response = answers(&mut agent, address(1), &packet, later).remove(0).1;
    let (keys, receiver) = concluded(&mut awaited, &response);
    assert_eq!(answers(&mut agent, address(1), &challenge(&keys, receiver), later).len(), 1);
}

#[test]
fn keys_whose_first_packet_was_lost_open_packets_later() {
    let (mut agent, now) = (agent(), Time::START);
    let (packet, mut awaited) = initiation(1);
    let response = answers(&mut agent, address(1), &packet, now).remove(0).1;
    let (keys, receiver) = concluded(&mut awaited, &response);
    let later = now + Duration::from_secs(100);
    agent.handle(AgentInput::Deadline, later);
    assert_eq!(answers(&mut agent, address(1), &challenge(&keys, receiver), later).len(), 1);
}

#[test]
fn nothing_goes_to_an_address_from_which_only_copied_packets_came() {
    let (mut agent, now) = (agent(), Time::START);
    let (packet, mut awaited) = initiation(1);
    // The initiation arrives first from an attacker's address, then from its sender's.
    let first = answers(&mut agent, address(66), &packet, now);
    assert_eq!(first.first().map(|(to, _)| *to), Some(address(66)));
    let response = answers(&mut agent, address(1), &packet, now).remove(0).1;
    let (keys, receiver) = concluded(&mut awaited, &response);
    // So does the confirmation, a probe: it validates no address, and causes a challenge at most.
    let sent = answers(&mut agent, address(66), &message(&keys, receiver, 32, 12), now);
    assert!(sent.iter().all(|(to, _)| *to != address(66)), "{sent:?}");
}
