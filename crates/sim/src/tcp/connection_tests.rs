//! Tests of one end of a connection: inputs of a scripted peer, segments as outputs.

extern crate std;

use std::vec::Vec;

use byway_units::{Bytes, Duration, Time};
use byway_wire::Ecn;
use proptest::prelude::*;

use super::*;

const PORTS: Ports = Ports { source: 4_000, destination: 80 };
/// Two segments before sequence numbers wrap around.
const OURS: u32 = u32::MAX - 2_000;
const THEIRS: u32 = 77;
const PAYLOAD: u16 = 1_000;

fn at(millis: u64) -> Time {
    Time::START + Duration::from_millis(millis)
}

fn settings() -> Settings {
    Settings { segment_bytes: PAYLOAD, timestamps: false, ..Settings::default() }
}

/// Returns a segment of the peer, which acknowledges `received` bytes and has this payload of its
/// stream.
fn from_peer(flags: Flags, sent: u32, payload_bytes: u16, received: u32) -> Segment {
    Segment {
        ports: PORTS.reversed(),
        sequence: SequenceNumber::new(THEIRS.wrapping_add(sent)),
        acknowledgment: SequenceNumber::new(OURS.wrapping_add(received)),
        flags,
        window: u16::MAX,
        options: Options::default(),
        payload_bytes,
        ecn: Ecn::NotCapable,
    }
}

/// Returns the acknowledgment of this many segments, and of these behind gaps, numbered from 0.
fn acknowledging(segments: u32, behind_gaps: &[(u32, u32)]) -> Segment {
    let number = |segment: u32| SequenceNumber::new(OURS.wrapping_add(1 + segment * u32::from(PAYLOAD)));
    let block = |&(from, until): &(u32, u32)| SackBlock { start: number(from), end: number(until) };
    let mut segment = from_peer(Flags::ACK, 1, 0, 1);
    segment.acknowledgment = number(segments);
    segment.options.sack_blocks = behind_gaps.iter().map(block).collect();
    segment
}

fn syn_ack(flags: Flags) -> Segment {
    let mut segment = from_peer(Flags::SYN | Flags::ACK | flags, 0, 0, 1);
    segment.options = Options {
        segment_bytes: Some(PAYLOAD),
        window_scale: Some(8),
        sack_permitted: true,
        ..Options::default()
    };
    segment
}

fn drain(connection: &mut Connection, now: Time) -> Vec<Segment> {
    core::iter::from_fn(|| connection.poll(now)).collect()
}

fn deliver(connection: &mut Connection, segment: Segment, now: Time) -> Vec<Segment> {
    connection.handle(Input::Segment(segment), now);
    drain(connection, now)
}

/// Returns the indexes of our segments, from 0.
fn numbers(segments: &[Segment]) -> Vec<u32> {
    let offset = |segment: &Segment| segment.sequence.number().wrapping_sub(OURS) - 1;
    segments.iter().map(|segment| offset(segment) / u32::from(PAYLOAD)).collect()
}

fn events(connection: &mut Connection) -> Vec<Event> {
    core::iter::from_fn(|| connection.poll_event()).collect()
}

/// Returns an open client that has written this many bytes, and its first window.
fn client(settings: Settings, bytes: u64, answer: Segment) -> (Connection, Vec<Segment>) {
    let mut connection = Connection::client(settings, PORTS, SequenceNumber::new(OURS));
    connection.handle(Input::Open, at(0));
    connection.handle(Input::Write(Bytes::new(bytes)), at(0));
    assert_eq!(drain(&mut connection, at(0)).len(), 1);
    let window = deliver(&mut connection, answer, at(100));
    assert_eq!(events(&mut connection), [Event::Connected]);
    (connection, window)
}

#[test]
fn a_client_opens_and_sends_with_the_last_part_of_the_handshake() {
    let mut connection = Connection::client(Settings::default(), PORTS, SequenceNumber::new(OURS));
    connection.handle(Input::Open, at(5));
    let syn = drain(&mut connection, at(5));
    let timestamps = Some(Timestamps { value: 5, echo: 0 });
    let options = Options {
        segment_bytes: Some(1_460),
        // 64 MiB is 2^26, and fits 16 bits after 11.
        window_scale: Some(11),
        sack_permitted: true,
        timestamps,
        ..Options::default()
    };
    let expected = Segment {
        ports: PORTS,
        sequence: SequenceNumber::new(OURS),
        acknowledgment: SequenceNumber::new(0),
        flags: Flags::SYN,
        window: u16::MAX,
        options,
        payload_bytes: 0,
        ecn: Ecn::NotCapable,
    };
    assert_eq!(syn, [expected]);
    assert_eq!(connection.deadline(), Some((at(1_005), TimerKind::Handshake)));
    connection.handle(Input::Write(Bytes::new(12)), at(6));
    let answer = deliver(&mut connection, syn_ack(Flags::NONE), at(105));
    assert_eq!((answer.len(), answer[0].flags, answer[0].payload_bytes), (1, Flags::ACK, 12));
    assert_eq!(answer[0].acknowledgment, SequenceNumber::new(THEIRS + 1));
    assert_eq!(connection.smoothed_round_trip(), Some(Duration::from_millis(100)));
    assert_eq!(connection.deadline(), Some((at(105 + 300), TimerKind::Retransmission)));
}

#[test]
fn a_server_answers_again_and_takes_data_as_the_end_of_the_handshake() {
    let mut connection = Connection::server(settings(), PORTS, SequenceNumber::new(OURS));
    connection.handle(Input::Open, at(0));
    assert_eq!(drain(&mut connection, at(0)), [], "a server does not open");
    let syn = Segment { flags: Flags::SYN, ..syn_ack(Flags::NONE) };
    for now in [10, 20] {
        let answer = deliver(&mut connection, syn, at(now));
        assert_eq!((answer.len(), answer[0].flags), (1, Flags::SYN | Flags::ACK));
        assert_eq!(answer[0].acknowledgment, SequenceNumber::new(THEIRS + 1));
    }
    connection.handle(Input::Segment(from_peer(Flags::ACK, 1, 12, 1)), at(30));
    assert_eq!(events(&mut connection), [Event::Connected, Event::Received(Bytes::new(12))]);
    assert_eq!(connection.deadline(), Some((at(70), TimerKind::Acknowledgment)));
    connection.handle(Input::Wake, at(70));
    assert_eq!(drain(&mut connection, at(70)).len(), 1);
}

#[test]
fn two_acknowledgments_of_later_data_send_new_data_and_the_third_sends_the_lost() {
    let (mut connection, window) = client(settings(), 100_000, syn_ack(Flags::NONE));
    assert_eq!(numbers(&window), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&deliver(&mut connection, acknowledging(0, &[(1, 2)]), at(200))), [10]);
    assert_eq!(numbers(&deliver(&mut connection, acknowledging(0, &[(1, 3)]), at(201))), [11]);
    assert_eq!(numbers(&deliver(&mut connection, acknowledging(0, &[(1, 4)]), at(202))), [0]);
    // CUBIC leaves 7 of 10 segments. In flight: 12, without 3 that arrived and 1 that is lost, plus
    // its retransmission: 9.
    assert_eq!(connection.congestion_window(), Some(Bytes::new(7_000)));
    assert_eq!(connection.in_flight(), Bytes::new(9_000));
    for arrived in 5..=6 {
        assert_eq!(deliver(&mut connection, acknowledging(0, &[(1, arrived)]), at(203)), []);
    }
    assert_eq!(numbers(&deliver(&mut connection, acknowledging(0, &[(1, 7)]), at(204))), [12]);
    // The retransmission arrived: recovery continues until everything sent before its start is
    // acknowledged.
    deliver(&mut connection, acknowledging(10, &[]), at(300));
    assert_eq!(connection.congestion_window(), Some(Bytes::new(7_000)));
    assert_eq!(connection.statistics().retransmitted, 1);
}

#[test]
fn the_same_acknowledgment_again_is_no_sign_of_loss() {
    let (mut connection, _) = client(settings(), 100_000, syn_ack(Flags::NONE));
    deliver(&mut connection, acknowledging(0, &[(1, 2)]), at(200));
    for _ in 0..5 {
        assert_eq!(deliver(&mut connection, acknowledging(0, &[(1, 2)]), at(201)), []);
    }
}

#[test]
fn the_end_of_a_stream_is_rescued_once_when_there_is_room_in_recovery() {
    let (mut connection, _) = client(settings(), 10_000, syn_ack(Flags::NONE));
    let sent: Vec<_> = (2..=8)
        .flat_map(|arrived| numbers(&deliver(&mut connection, acknowledging(0, &[(1, arrived)]), at(200))))
        .collect();
    // Everything was sent, and 8 and 9 are missing above the received data. The last one is
    // retransmitted: its arrival reveals the loss of 8.
    assert_eq!(sent, [0, 9]);
    assert_eq!(deliver(&mut connection, acknowledging(0, &[(1, 8)]), at(201)), []);
}

#[test]
fn a_timeout_sends_one_segment_and_the_rest_as_acknowledgments_come() {
    let (mut connection, _) = client(settings(), 10_000, syn_ack(Flags::NONE));
    assert_eq!(connection.deadline(), Some((at(400), TimerKind::Retransmission)));
    connection.handle(Input::Wake, at(400));
    assert_eq!(numbers(&drain(&mut connection, at(400))), [0]);
    // RTO = 100 ms + 4 * 50 ms, doubled.
    assert_eq!(connection.deadline(), Some((at(1_000), TimerKind::Retransmission)));
    assert_eq!(numbers(&deliver(&mut connection, acknowledging(1, &[]), at(500))), [1, 2]);
    // Data that arrived before is not retransmitted.
    assert_eq!(numbers(&deliver(&mut connection, acknowledging(3, &[(4, 6)]), at(600))), [3, 6, 7, 8]);
    assert_eq!(deliver(&mut connection, acknowledging(10, &[]), at(700)), []);
    assert_eq!((connection.deadline(), connection.in_flight()), (None, Bytes::ZERO));
}

#[test]
fn an_echoed_mark_reduces_the_window_once_for_each_window() {
    let settings = Settings { ecn: true, algorithm: Algorithm::NewReno, ..settings() };
    let (mut connection, window) = client(settings, 100_000, syn_ack(Flags::ECE));
    assert!(window.iter().all(|segment| segment.ecn == Ecn::Capable0));
    let echo = |segments| Segment { flags: Flags::ACK | Flags::ECE, ..acknowledging(segments, &[]) };
    deliver(&mut connection, echo(2), at(200));
    assert_eq!(connection.congestion_window(), Some(Bytes::new(5_000)));
    let after: Vec<_> =
        (3..10).flat_map(|segments| deliver(&mut connection, echo(segments), at(201))).collect();
    assert_eq!(connection.statistics().marked_windows, 1);
    let has_cwr: Vec<_> = after.iter().map(|segment| segment.flags.contain(Flags::CWR)).collect();
    assert_eq!((has_cwr[0], has_cwr[1..].contains(&true)), (true, false));
    deliver(&mut connection, echo(10), at(300));
    deliver(&mut connection, echo(11), at(301));
    assert_eq!(connection.statistics().marked_windows, 2);
}

#[test]
fn marks_are_echoed_until_the_peer_has_heard() {
    let settings = Settings { ecn: true, delays_acknowledgments: false, ..settings() };
    let (mut connection, _) = client(settings, 0, syn_ack(Flags::ECE));
    let data = |sent, flags, ecn| Segment { ecn, ..from_peer(Flags::ACK | flags, sent, 10, 1) };
    let echoes = [
        data(1, Flags::NONE, Ecn::CongestionExperienced),
        data(11, Flags::NONE, Ecn::Capable0),
        data(21, Flags::CWR, Ecn::Capable0),
        data(31, Flags::CWR, Ecn::CongestionExperienced),
    ]
    .map(|segment| deliver(&mut connection, segment, at(200))[0].flags.contain(Flags::ECE));
    assert_eq!(echoes, [true, true, false, true]);
}

#[test]
fn a_side_that_closes_first_hears_the_other_out_and_waits() {
    let (mut connection, _) = client(settings(), 500, syn_ack(Flags::NONE));
    connection.handle(Input::Close, at(150));
    let fin = drain(&mut connection, at(150));
    assert_eq!((fin.len(), fin[0].flags, fin[0].payload_bytes), (1, Flags::FIN | Flags::ACK, 0));
    connection.handle(Input::Write(Bytes::new(10)), at(150));
    assert_eq!(deliver(&mut connection, from_peer(Flags::ACK, 1, 300, 502), at(200)), [], "it may wait");
    let last = deliver(&mut connection, from_peer(Flags::ACK | Flags::FIN, 301, 0, 502), at(201));
    assert_eq!((last.len(), last[0].acknowledgment), (1, SequenceNumber::new(THEIRS + 302)));
    let reported = events(&mut connection);
    assert_eq!(reported, [Event::Received(Bytes::new(300)), Event::PeerClosed, Event::Finished]);
    assert_eq!(connection.deadline(), Some((at(60_201), TimerKind::TimeWait)));
    assert_eq!(deliver(&mut connection, from_peer(Flags::ACK | Flags::FIN, 301, 0, 502), at(900)).len(), 1);
    connection.handle(Input::Wake, at(60_201));
    assert!(connection.is_closed());
}

proptest! {
    #[test]
    fn whatever_a_peer_says_nothing_breaks(
        said in prop::collection::vec((any::<(u8, u32, u32, u16)>(), any::<[u32; 4]>(), 0_u16..1_500), 0..60),
        near in any::<bool>(), ecn in any::<bool>(),
    ) {
        let settings = Settings { ecn, timestamps: true, ..Settings::default() };
        let (mut connection, _) = client(settings, 1_000_000, syn_ack(Flags::ECE));
        for (index, ((bits, sequence, acknowledgment, window), blocks, payload_bytes)) in (0..).zip(said) {
            // Sequence numbers close to the expected ones reach more of the code than others do.
            let bound = if near { 20_000 } else { u32::MAX };
            let ours = |number: u32| SequenceNumber::new(OURS.wrapping_add(number % bound));
            let mut segment = from_peer(Flags::from_bits(bits & 0xd3).unwrap(), sequence % bound, payload_bytes, 0);
            (segment.acknowledgment, segment.window) = (ours(acknowledgment), window);
            let block = |two: &[u32]| SackBlock { start: ours(two[0]), end: ours(two[1]) };
            segment.options.sack_blocks = blocks.chunks(2).map(block).collect();
            segment.options.timestamps = Some(Timestamps { value: blocks[0], echo: blocks[1] });
            let now = at(200 + index * 10);
            prop_assert!(deliver(&mut connection, segment, now).len() < 1_000);
            if connection.deadline().is_some_and(|(deadline, _)| deadline <= now) {
                connection.handle(Input::Wake, now);
                drain(&mut connection, now);
            }
        }
    }
}
