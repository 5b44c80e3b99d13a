use byway_wire::ip::Packet;

use super::*;

const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP: u8 = 1;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;

/// Endpoints of Alice and Anne behind the router, the router's address, and an endpoint outside.
const ALICE: (u8, u16) = (1, 4_600);
const ANNE: (u8, u16) = (2, 4_600);
const GATE: u8 = 3;
const BOB: (u8, u16) = (9, 4_600);

fn nat() -> Nat {
    Nat::new(host(GATE), [host(ALICE.0), host(ANNE.0)])
}

const fn host(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, host)
}

fn at(seconds: u64) -> Time {
    Time::START + Duration::from_secs(seconds)
}

/// Makes a UDP packet without a checksum.
fn udp(from: (u8, u16), to: (u8, u16)) -> Vec<u8> {
    let mut bytes = ipv4(UDP, from.0, to.0);
    bytes.extend([from.1.to_be_bytes(), to.1.to_be_bytes(), [0, 13], [0, 0]].concat());
    with_length(bytes)
}

fn tcp(from: (u8, u16), to: (u8, u16), flags: u8) -> Vec<u8> {
    let mut bytes = ipv4(TCP, from.0, to.0);
    bytes.extend([from.1.to_be_bytes(), to.1.to_be_bytes()].concat());
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 1, 0, 0, 0, 0]);
    with_length(bytes)
}

fn echo(from: u8, to: u8, number: u16, kind: u8) -> Vec<u8> {
    let mut bytes = ipv4(ICMP, from, to);
    bytes.extend([&[kind, 0, 0, 0][..], &number.to_be_bytes(), &[0, 1]].concat());
    with_length(bytes)
}

fn ipv4(protocol: u8, from: u8, to: u8) -> Vec<u8> {
    vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 77, 0, from, 10, 77, 0, to]
}

fn with_length(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(b"hello");
    bytes[3] = u8::try_from(bytes.len()).expect("it is short");
    bytes
}

/// Returns the last octets of a packet's addresses, and its ports.
fn ends(packet: &mut [u8]) -> [(u8, u16); 2] {
    let ends = PacketEndpoints::new(packet).expect("a whole packet");
    [ends.source(), ends.destination()].map(|end| (end.ip().octets()[3], end.port()))
}

/// Sends a packet from inside, and returns its outside port.
fn outbound(nat: &mut Nat, from: (u8, u16), to: (u8, u16), now: Time) -> Result<u16, Refusal> {
    let mut packet = udp(from, to);
    nat.translate_outbound(&mut packet, now)?;
    let [source, destination] = ends(&mut packet);
    assert_eq!((source.0, destination), (GATE, to));
    Ok(source.1)
}

/// Sends a packet to an outside port, and returns the inside endpoint that gets it.
fn inbound(nat: &mut Nat, from: (u8, u16), port: u16, now: Time) -> Result<(u8, u16), Refusal> {
    let mut packet = udp(from, (GATE, port));
    let inside = nat.translate_inbound(&mut packet, now)?;
    let [source, destination] = ends(&mut packet);
    assert_eq!((source, host(destination.0)), (from, inside));
    Ok(destination)
}

#[test]
fn an_end_inside_has_one_port_outside_whomever_it_speaks_with() {
    let mut nat = nat();
    let first = *PORTS.start();
    assert_eq!(outbound(&mut nat, ALICE, BOB, at(0)), Ok(first));
    assert_eq!(outbound(&mut nat, ALICE, (8, 53), at(1)), Ok(first));
    assert_eq!(outbound(&mut nat, ANNE, BOB, at(1)), Ok(first + 1), "same port inside, another end");
    assert_eq!(outbound(&mut nat, (ALICE.0, 5_000), BOB, at(1)), Ok(first + 2));
    assert_eq!(inbound(&mut nat, BOB, first, at(2)), Ok(ALICE));
    assert_eq!(inbound(&mut nat, (8, 53), first, at(2)), Ok(ALICE));
    assert_eq!(inbound(&mut nat, BOB, first + 1, at(2)), Ok(ANNE));
}

#[test]
fn only_those_who_were_sent_to_reach_an_end_inside() {
    let mut nat = nat();
    let port = outbound(&mut nat, ALICE, BOB, at(0)).expect("it passes");
    assert_eq!(inbound(&mut nat, BOB, port, at(1)), Ok(ALICE));
    for stranger in [(BOB.0, 4_601), (8, BOB.1)] {
        assert_eq!(inbound(&mut nat, stranger, port, at(1)), Err(Refusal::Unsolicited), "{stranger:?}");
    }
    assert_eq!(inbound(&mut nat, BOB, port + 1, at(1)), Err(Refusal::Unsolicited));
    let mut same_port = tcp(BOB, (GATE, port), ACK);
    assert_eq!(
        nat.translate_inbound(&mut same_port, at(1)),
        Err(Refusal::Unsolicited),
        "TCP has ports of its own"
    );
    let mut elsewhere = udp(BOB, (4, port));
    assert_eq!(nat.translate_inbound(&mut elsewhere, at(1)), Err(Refusal::Unsolicited), "another address");
}

#[test]
fn what_is_silent_for_long_is_forgotten_and_what_comes_prolongs_nothing() {
    let mut nat = nat();
    let port = outbound(&mut nat, ALICE, BOB, at(0)).expect("it passes");
    assert_eq!(outbound(&mut nat, ALICE, BOB, at(100)), Ok(port));
    assert_eq!(inbound(&mut nat, BOB, port, at(399)), Ok(ALICE));
    assert_eq!(inbound(&mut nat, BOB, port, at(400)), Err(Refusal::Unsolicited));
    assert_eq!(
        outbound(&mut nat, ALICE, BOB, at(400)),
        Ok(port + 1),
        "another port, as the first is forgotten"
    );
    // The endpoint preserves its port while one session is active; silent sessions expire.
    assert_eq!(outbound(&mut nat, ALICE, (8, 53), at(500)), Ok(port + 1));
    assert_eq!(inbound(&mut nat, BOB, port + 1, at(700)), Err(Refusal::Unsolicited));
    assert_eq!(inbound(&mut nat, (8, 53), port + 1, at(700)), Ok(ALICE));
}

#[test]
fn connections_are_kept_for_hours_and_forgotten_soon_after_their_end() {
    let mut nat = nat();
    let mut pass = |to: Option<u16>, flags: u8, seconds: u64| match to {
        None => {
            let mut packet = tcp(ALICE, BOB, flags);
            nat.translate_outbound(&mut packet, at(seconds)).map(|()| ends(&mut packet)[0].1)
        }
        Some(port) => nat.translate_inbound(&mut tcp(BOB, (GATE, port), flags), at(seconds)).map(|_| port),
    };
    let port = pass(None, SYN, 0).expect("it passes");
    assert_eq!(pass(Some(port), SYN | ACK, 240), Err(Refusal::Unsolicited), "the answer is too late");
    let port = pass(None, SYN, 300).expect("it passes");
    assert_eq!(pass(Some(port), SYN | ACK, 301), Ok(port));
    assert_eq!(pass(None, ACK, 302), Ok(port));
    assert_eq!(pass(Some(port), ACK, 7_000), Ok(port));
    assert_eq!(pass(Some(port), FIN, 7_001), Ok(port));
    assert_eq!(pass(None, ACK, 7_002), Ok(port), "the last words prolong it a little");
    assert_eq!(pass(Some(port), ACK, 7_241), Ok(port));
    assert_eq!(pass(Some(port), ACK, 7_242), Err(Refusal::Unsolicited));
}

#[test]
fn echoes_are_answered_and_nobody_outside_asks() {
    const REQUEST: u8 = 8;
    const REPLY: u8 = 0;
    let mut nat = nat();
    let mut request = echo(ALICE.0, BOB.0, 7, REQUEST);
    assert_eq!(nat.translate_outbound(&mut request, at(0)), Ok(()));
    let number = ends(&mut request)[0].1;
    let mut reply = echo(BOB.0, GATE, number, REPLY);
    assert_eq!(nat.translate_inbound(&mut reply, at(59)), Ok(host(ALICE.0)));
    assert_eq!(ends(&mut reply), [(BOB.0, 0), (ALICE.0, 7)]);
    assert_eq!(
        nat.translate_inbound(&mut echo(BOB.0, GATE, number, REPLY), at(60)),
        Err(Refusal::Unsolicited)
    );
    assert_eq!(
        nat.translate_inbound(&mut echo(BOB.0, GATE, number, REQUEST), at(1)),
        Err(Refusal::Unsolicited)
    );
    assert_eq!(
        nat.translate_outbound(&mut echo(ALICE.0, BOB.0, 7, REPLY), at(1)),
        Err(Refusal::Untranslatable)
    );
}

#[test]
fn what_is_for_the_address_outside_does_not_come_back_in() {
    let mut nat = nat();
    let port = outbound(&mut nat, ALICE, BOB, at(0)).expect("it passes");
    assert_eq!(outbound(&mut nat, ANNE, (GATE, port), at(1)), Err(Refusal::Hairpin));
    assert_eq!(inbound(&mut nat, ANNE, port, at(1)), Err(Refusal::Hairpin));
}

#[test]
fn a_forwarded_port_is_open_for_all_and_stays_so() {
    let mut nat = nat();
    let [a, b, c, d] = host(ALICE.0).octets();
    let alice = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), ALICE.1);
    nat.forward(Transport::Udp, 51_820, alice);
    assert_eq!(inbound(&mut nat, BOB, 51_820, at(100_000)), Ok(ALICE));
    assert_eq!(outbound(&mut nat, ALICE, BOB, at(100_001)), Ok(51_820));
    assert_eq!(inbound(&mut nat, (8, 53), 51_820, at(200_000)), Ok(ALICE));
    // Dynamic mappings skip a forwarded port.
    nat.next_port = 51_820;
    assert_eq!(outbound(&mut nat, ANNE, BOB, at(200_000)), Ok(51_821));
}

#[test]
fn a_full_table_takes_nobody_in_until_somebody_is_forgotten() {
    let mut nat = nat();
    for peer in 0..u16::try_from(SESSIONS_MAX).expect("few") {
        let from = if peer % 2 == 0 { ALICE } else { (ANNE.0, 1_000 + peer) };
        let passed = outbound(&mut nat, from, (BOB.0, peer), at(u64::from(peer != 0)));
        assert!(passed.is_ok(), "{peer}: {passed:?}");
    }
    assert_eq!(outbound(&mut nat, ALICE, (8, 53), at(2)), Err(Refusal::Full));
    assert_eq!(outbound(&mut nat, (ALICE.0, 1), (8, 53), at(2)), Err(Refusal::Full));
    assert_eq!(outbound(&mut nat, ALICE, (BOB.0, 2), at(2)), Ok(*PORTS.start()), "who is in stays in");
    assert_eq!(outbound(&mut nat, (ALICE.0, 1), (8, 53), at(299)), Err(Refusal::Full));
    assert!(outbound(&mut nat, (ALICE.0, 1), (8, 53), at(300)).is_ok(), "the first is forgotten");
    assert_eq!(outbound(&mut nat, (ALICE.0, 2), (8, 53), at(300)), Err(Refusal::Full));
}

#[test]
fn ports_come_round_and_those_in_use_are_passed_over() {
    let mut nat = nat();
    nat.next_port = *PORTS.end();
    assert_eq!(outbound(&mut nat, ALICE, BOB, at(0)), Ok(*PORTS.end()));
    assert_eq!(outbound(&mut nat, ANNE, BOB, at(0)), Ok(*PORTS.start()));
    nat.next_port = *PORTS.end();
    assert_eq!(outbound(&mut nat, (ANNE.0, 1), BOB, at(0)), Ok(*PORTS.start() + 1));
}

#[test]
fn what_cannot_be_translated_does_not_pass_and_leaves_nothing_behind() {
    let mut nat = nat();
    let mut fragment = udp(ALICE, BOB);
    fragment[6] = 0x20;
    let mut cut_off = udp(ALICE, BOB);
    cut_off.truncate(27);
    let mut ipv6 = vec![0; 48];
    ipv6[0] = 0x60;
    for mut packet in [fragment, cut_off, ipv6, Vec::new(), ipv4(47, ALICE.0, BOB.0)] {
        assert_eq!(nat.translate_outbound(&mut packet, at(0)), Err(Refusal::Untranslatable));
        assert_eq!(nat.translate_inbound(&mut packet, at(0)), Err(Refusal::Untranslatable));
    }
    assert_eq!(outbound(&mut nat, (77, 1), BOB, at(0)), Err(Refusal::Foreign));
    assert_eq!((nat.sessions, nat.mappings.len(), nat.ports.len()), (0, 0, 0));
}

#[test]
fn a_clock_that_begins_anew_ends_nothing() {
    let mut nat = nat();
    let port = outbound(&mut nat, ALICE, BOB, at(1_000)).expect("it passes");
    nat.restart_clock(at(1_100));
    assert_eq!(inbound(&mut nat, BOB, port, at(199)), Ok(ALICE));
    assert_eq!(inbound(&mut nat, BOB, port, at(200)), Err(Refusal::Unsolicited));
}

#[test]
fn damage_on_the_way_breaks_nothing_here() {
    let mut nat = nat();
    for bit in 0..29 * 8 {
        for mut packet in [udp(ALICE, BOB), tcp(ALICE, BOB, SYN), echo(ALICE.0, BOB.0, 1, 8)] {
            if let Some(mut packet) = Packet::new(&mut packet) {
                packet.flip(bit);
            }
            let _ = nat.translate_outbound(&mut packet, at(0));
            let _ = nat.translate_inbound(&mut packet, at(0));
        }
    }
}
