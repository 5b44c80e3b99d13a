//! Tests with adversaries that see every packet and add some: handshakes take no longer, and cost
//! hardly more.

use super::*;
use crate::limits::{
    INITIATION_RESPONSE_BURST, INITIATION_RESPONSES_PER_SECOND, KNOWN_HANDSHAKE_RESERVE,
    NETWORK_HANDSHAKE_BURST, PROVED_HANDSHAKE_BURST, REKEY_AFTER,
};
use crate::parts::token_bucket::{Packets, TokenBucket};
use byway_wire::packets::{CookiePacket, InitiationPacket, RESPONSE_BYTES_MIN};
use byway_wire::seal::{AwaitedResponse, CookieJar, Initiation, Responder, write_mac2};
use byway_wire::{Epoch, Incarnation, SessionIndex};

/// Forger of cookies that knows the public key of a node and sees initiations to it.
struct Forger {
    responder: Responder,
    jar: CookieJar,
    random: Generator,
}

impl Forger {
    fn new(who: usize) -> Self {
        // Only the key of `mac1` is used, which follows from the public key.
        let secret = secrets()[who].clone();
        let jar = CookieJar::new(secret.public_key());
        Self { responder: Responder::new(secret), jar, random: Generator::new([66; 32]) }
    }

    fn cookie(&mut self, initiation: &[u8], now: Time) -> Vec<u8> {
        let packet = InitiationPacket::parse(initiation).expect("an initiation");
        let screened = self.responder.screen(packet).expect("it is for this node");
        self.jar.packet(&screened, address(66).into(), now, &mut self.random).to_vec()
    }

    /// Returns a response to an initiation with a random key and tag.
    fn response(&mut self, initiation: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..RESPONSE_BYTES_MIN).map(|_| self.random.bytes::<1>()[0]).collect();
        bytes[..4].copy_from_slice(&[RESPONSE, 0, 0, 0]);
        bytes[4..8].copy_from_slice(&initiation[8..12]);
        bytes
    }
}

/// Returns a packet of the adversary with the initiation's destination as its source.
fn answer(initiation: &Datagram, bytes: Vec<u8>) -> Datagram {
    Datagram { sender: 2, from: initiation.to, local: LocalAddress::ANY, to: initiation.from, bytes }
}

/// Runs for a time; a millisecond after each initiation of the first node, `cookies` forged cookies
/// answer it.
fn run_with_forged_cookies(pair: &mut SessionPair, cookies: usize, time: Duration) {
    let mut adversary = Forger::new(LARGE);
    let mut seen = 0;
    let end = pair.now + time;
    while pair.now < end {
        pair.run(ms(1));
        let new: Vec<Datagram> = pair.sent[seen..].to_vec();
        seen = pair.sent.len();
        for initiation in new.iter().filter(|sent| sent.sender == SMALL && sent.bytes[0] == INITIATION) {
            for _ in 0..cookies {
                let forged = adversary.cookie(&initiation.bytes, pair.now);
                pair.deliver(SMALL, answer(initiation, forged));
            }
        }
    }
}

#[test]
fn forged_cookies_cost_one_initiation_and_no_time() {
    for cookies in [1, 2, 4, 100] {
        let mut pair = SessionPair::new();
        pair.connect(SMALL);
        run_with_forged_cookies(&mut pair, cookies, DELAY * 2);
        assert_eq!(pair.nodes[SMALL].sessions.counters.handshakes, 1, "{cookies} cookies");
        assert!(pair.sent_by(SMALL, INITIATION).len() <= 2);
        pair.run(secs(5));
        assert_eq!(pair.handshakes(), [1, 1]);
    }
}

#[test]
fn forged_cookies_bring_one_initiation_more_for_each_attempt() {
    for cookies in [0, 1, 10] {
        let mut pair = SessionPair::new();
        pair.loses(|_| true);
        pair.nodes[SMALL] = TestNode::new(SMALL, 3, 1_000, true, pair.now);
        pair.connect(SMALL);
        run_with_forged_cookies(&mut pair, cookies, secs(10));
        let initiations = pair.sent_by(SMALL, INITIATION);
        let mut attempts: Vec<&[u8]> = initiations.iter().map(|sent| &sent.bytes[8..12]).collect();
        attempts.dedup();
        // Seven times each in 2.7 s, as without cookies.
        assert_eq!((attempts.len(), initiations.len()), (4, 28 + if cookies > 0 { 4 } else { 0 }));
    }
}

#[test]
fn cookies_from_elsewhere_count_for_nothing() {
    let mut pair = SessionPair::new();
    pair.connect(SMALL);
    let initiation = pair.sent_by(SMALL, INITIATION)[0].clone();
    let mut adversary = Forger::new(LARGE);
    for _ in 0..10 {
        let forged = adversary.cookie(&initiation.bytes, pair.now);
        pair.deliver(SMALL, Datagram { from: address(66), ..answer(&initiation, forged) });
    }
    assert_eq!(pair.sent_by(SMALL, INITIATION).len(), 1);
    assert_eq!(pair.nodes[SMALL].sessions.counters.forged, 10);
    pair.run(DELAY * 2);
    assert_eq!(pair.nodes[SMALL].sessions.counters.handshakes, 1);
}

#[test]
fn a_busy_responder_is_reached_although_a_cookie_is_forged_for_each_initiation() {
    for seed in 0..20 {
        let mut pair = SessionPair::new();
        pair.nodes[SMALL] = TestNode::new(SMALL, seed, 1_000, true, pair.now);
        pair.nodes[LARGE].sessions.handshakes = TokenBucket::of_packets(0, Packets::new(0), pair.now);
        pair.connect(SMALL);
        run_with_forged_cookies(&mut pair, 1, secs(5));
        assert!(pair.nodes[LARGE].sessions.counters.cookies > 0);
        assert_eq!(pair.handshakes(), [1, 1], "seed {seed}");
    }
}

#[test]
fn the_true_response_is_read_after_a_thousand_forged_ones_to_each_of_two_initiations() {
    let mut pair = SessionPair::new();
    pair.connect(SMALL);
    let initiation = pair.sent_by(SMALL, INITIATION)[0].clone();
    let mut adversary = Forger::new(LARGE);
    let cookie = adversary.cookie(&initiation.bytes, pair.now);
    pair.deliver(SMALL, answer(&initiation, cookie));
    assert_eq!(pair.sent_by(SMALL, INITIATION).len(), 2, "a cookie brings the second at once");
    // Too late for another forged response to be read meanwhile.
    pair.run(DELAY * 2 - ms(1));
    for _ in 0..2_000 {
        let forged = adversary.response(&initiation.bytes);
        pair.deliver(SMALL, answer(&initiation, forged));
    }
    assert_eq!(pair.nodes[SMALL].sessions.counters.handshakes, 0);
    pair.run(ms(1));
    assert_eq!(pair.nodes[SMALL].sessions.counters.handshakes, 1);
    assert_eq!(pair.sent_by(SMALL, INITIATION).len(), 2);
}

#[test]
fn forged_responses_cost_no_more_than_their_limit_and_close_nothing() {
    let mut pair = SessionPair::new();
    pair.connect(SMALL);
    let peer = pair.nodes[SMALL].peer;
    let session = pair.nodes[SMALL].sessions.get_mut(peer).expect("it was added");
    let attempt = session.pending_handshake.as_mut().expect("it is under way");
    let read_until = |attempt: &mut crate::session::pending_handshake::PendingHandshake, until: Time| {
        (0..100_000).filter(|_| attempt.admits_response(until)).count() as u64
    };
    assert_eq!(read_until(attempt, pair.now), INITIATION_RESPONSE_BURST);
    assert_eq!(read_until(attempt, pair.now + ms(10)), INITIATION_RESPONSES_PER_SECOND / 100);
    pair.run(DELAY * 2);
    assert_eq!(pair.nodes[SMALL].sessions.counters.handshakes, 1);
}

#[test]
fn keys_change_while_cookies_and_responses_are_forged() {
    let mut pair = SessionPair::established();
    pair.run(REKEY_AFTER - ms(200));
    let before = pair.sent.len();
    run_with_forged_cookies(&mut pair, 3, secs(1));
    assert_eq!(pair.handshakes(), [2, 2]);
    let initiations = pair.sent[before..].iter().filter(|sent| sent.bytes[0] == INITIATION).count();
    assert!(initiations <= 2, "{initiations} initiations");
}

#[test]
fn an_attempt_through_a_relay_outlives_forged_cookies_and_responses() {
    let mut pair = SessionPair::established();
    let node = &mut pair.nodes[SMALL];
    let via_relay = ViaRelay { relay: node.peer, agent: AgentId::new(7) };
    let far = RemoteIdentity {
        purpose: Purpose::EndToEnd,
        shard: Shard::new(1),
        addresses: Vec::new(),
        ..remote(LARGE, false)
    };
    let far = node.sessions.add(far, pair.now);
    node.sessions.get_mut(far).expect("it was added").add_via_relay(via_relay);
    node.sessions.connect(far, &[], pair.now);
    let attempt = node.sessions.get_mut(far).and_then(|session| session.pending_handshake.as_mut());
    let mut initiation = Vec::new();
    attempt.expect("it is under way").write_to(Route::ViaRelay(via_relay), &mut initiation);
    pair.sent.clear();
    pair.send(SMALL);
    let mut adversary = Forger::new(LARGE);
    for nth in 0..100 {
        let mut forged = if nth % 2 == 0 {
            adversary.cookie(&initiation, pair.now)
        } else {
            adversary.response(&initiation)
        };
        let received =
            pair.nodes[SMALL].sessions.receive_from(&mut forged, Route::ViaRelay(via_relay), pair.now);
        assert!(matches!(received, Inbound::Nothing));
        pair.send(SMALL);
    }
    assert_eq!(pair.sent.len(), 2, "the initiation, and once more with a cookie");
    let mut responder = sessions(LARGE, 99, 1_000, pair.now);
    responder.add(remote(SMALL, false), pair.now);
    let Inbound::Initiation { session, initiation, origin } =
        responder.receive_from(&mut initiation, Route::Direct(address(0).into()), pair.now)
    else {
        panic!("the initiation is read");
    };
    responder.accept(session, initiation, origin, &[], pair.now);
    let mut response = responder.outbox.pop().expect("a response").1.to_vec();
    let received =
        pair.nodes[SMALL].sessions.receive_from(&mut response, Route::ViaRelay(via_relay), pair.now);
    assert!(matches!(received, Inbound::Response { session, .. } if session == far), "{received:?}");
}

/// Returns a recorded initiation of the first node to the second, with this handshake timestamp.
fn recorded(timestamp: u64) -> (Vec<u8>, AwaitedResponse) {
    let [small, large] = secrets();
    let initiation = Initiation {
        purpose: Purpose::EndToEnd,
        suite: Suite::ChaCha20Poly1305,
        shard: Shard::new(0),
        capabilities: Capabilities::DIGESTS,
        index: SessionIndex::new(7),
        handshake_timestamp: timestamp,
        incarnation: Incarnation::new(3),
        epoch: Epoch::new(0),
        messages: &[],
    };
    let seed = [u8::try_from(timestamp).expect("small stamps"); 32];
    initiation.write(&small, &large.public_key(), &PreSharedKey::default(), &seed).expect("the key is a key")
}

#[test]
fn replayed_initiations_with_a_cookie_of_the_replayer_end_no_attempt() {
    let mut pair = SessionPair::established();
    pair.connect(LARGE);
    for timestamp in [1, 2, 3] {
        let (mut packet, awaited) = recorded(timestamp);
        let replayed = |bytes: &[u8]| Datagram {
            sender: 2,
            from: address(66),
            local: LocalAddress::ANY,
            to: pair.nodes[LARGE].address,
            bytes: bytes.to_vec(),
        };
        let [first, mut second] = [replayed(&packet), replayed(&packet)];
        pair.deliver(LARGE, first);
        let cookie = pair.sent_by(LARGE, COOKIE).last().expect("its stamp is old").bytes.clone();
        let cookie = CookiePacket::parse(cookie.as_slice()).expect("a cookie");
        write_mac2(&mut packet, &awaited.open_cookie(cookie).expect("it is for this initiation"));
        second.bytes = packet;
        pair.deliver(LARGE, second);
        let session = pair.nodes[LARGE].sessions.get(pair.nodes[LARGE].peer).expect("the peer");
        assert!(
            session
                .answered_initiation
                .as_ref()
                .is_some_and(|answered| answered.handshake_timestamp == timestamp),
            "it is answered"
        );
    }
    pair.run(DELAY * 2);
    assert_eq!(pair.nodes[LARGE].sessions.counters.handshakes, 2, "the true response was taken");
}

/// Returns an address of some network.
fn host(network: u16, port: u16) -> SocketAddr {
    let [high, low] = network.to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, high, low)), port)
}

fn admitted(sessions: &mut Sessions, hosts: impl Iterator<Item = SocketAddr>, now: Time) -> u64 {
    hosts.filter(|host| sessions.admits_with_cookie(Route::Direct((*host).into()), now)).count() as u64
}

#[test]
fn the_ports_of_one_address_do_not_use_up_what_is_read_with_a_cookie() {
    let mut sessions = sessions(SMALL, 5, 0, Time::START);
    let ports = || (1..=800).map(|port| host(1, port));
    assert_eq!(admitted(&mut sessions, ports(), Time::START), NETWORK_HANDSHAKE_BURST);
    assert_eq!(admitted(&mut sessions, [host(2, 1)].into_iter(), Time::START), 1);
    let mut later = 0;
    for tenth in 1..=100 {
        later += admitted(&mut sessions, ports(), Time::START + ms(100) * tenth);
    }
    assert_eq!(later, 10 * 20, "and 20 a second");
}

#[test]
fn all_ports_of_one_address_keep_out_no_other_address_and_no_known_port() {
    let mut sessions = sessions(SMALL, 5, 0, Time::START);
    let known = [host(7, 4_600), host(1, 65_000)];
    for host in known {
        sessions.known_addresses.add(host);
    }
    // Many for each bucket.
    admitted(&mut sessions, (1..=60_000).map(|port| host(1, port)), Time::START);
    assert_eq!(admitted(&mut sessions, [host(2, 1)].into_iter(), Time::START), 1);
    assert_eq!(admitted(&mut sessions, known.into_iter(), Time::START), 2);
}

#[test]
fn one_ipv6_network_does_not_use_up_what_is_read_with_a_cookie() {
    let mut sessions = sessions(SMALL, 5, 0, Time::START);
    let hosts = (1..=800_u16).map(|low| {
        let ip = core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, low);
        SocketAddr::new(IpAddr::V6(ip), 4_600)
    });
    assert_eq!(admitted(&mut sessions, hosts, Time::START), NETWORK_HANDSHAKE_BURST);
}

#[test]
fn known_addresses_are_read_before_strangers() {
    let mut sessions = sessions(SMALL, 5, 0, Time::START);
    sessions.known_addresses.add(host(7, 4_600));
    let strangers = || (100..2_000).map(|network| host(network, 4_600));
    let read = admitted(&mut sessions, strangers(), Time::START);
    assert_eq!(read, PROVED_HANDSHAKE_BURST - KNOWN_HANDSHAKE_RESERVE);
    assert_eq!(admitted(&mut sessions, [host(8, 4_600)].into_iter(), Time::START), 0);
    let known = [host(7, 4_600), host(7, 5_000)];
    assert_eq!(admitted(&mut sessions, known.into_iter(), Time::START), 2, "the same address, and its NAT");
}

#[test]
fn a_known_agent_behind_the_nat_of_a_flood_is_read() {
    let mut sessions = sessions(SMALL, 5, 0, Time::START);
    sessions.known_addresses.add(host(1, 60_000));
    admitted(&mut sessions, (1..=800).map(|port| host(1, port)), Time::START);
    assert_eq!(admitted(&mut sessions, [host(1, 50_000)].into_iter(), Time::START), 0);
    assert_eq!(admitted(&mut sessions, [host(1, 60_000)].into_iter(), Time::START), 1);
}

#[test]
fn who_completed_a_handshake_is_known() {
    let pair = SessionPair::established();
    for who in [SMALL, LARGE] {
        let other = pair.nodes[1 - who].address;
        assert!(pair.nodes[who].sessions.known_addresses.has_host(other));
    }
}
