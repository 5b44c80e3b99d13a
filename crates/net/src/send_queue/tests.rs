use std::collections::BTreeMap;

use byway_wire::Ecn;
use proptest::prelude::*;

use super::*;

const SEGMENTS: usize = 64;

fn to(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn datagram(port: u16, bytes: &[u8]) -> Datagram<'_> {
    Datagram {
        socket: 0,
        to: to(port),
        from: LocalAddress::ANY,
        shard: 0,
        traffic_class: TrafficClass::DEFAULT,
        priority: Priority::Source,
        bytes,
        segments_max: SEGMENTS,
    }
}

/// Returns the datagrams of a run that have not been sent.
fn datagrams(run: &Run) -> Vec<Vec<u8>> {
    match run.next(usize::MAX) {
        [] => vec![Vec::new()],
        bytes => bytes.chunks(run.segment_bytes).map(<[u8]>::to_vec).collect(),
    }
}

/// Flushes the queue; returns the port and the datagrams of each run.
fn flush_runs(outgoing: &mut SendQueue) -> Vec<(u16, Vec<Vec<u8>>)> {
    let mut runs = Vec::new();
    let dropped = outgoing.flush(|run| {
        let datagrams = datagrams(run);
        assert_eq!(datagrams.len(), run.segments());
        runs.push((run.to.port(), datagrams));
        SendOutcome::Complete
    });
    assert_eq!(dropped, DropCounts::default());
    assert!(outgoing.is_empty());
    runs
}

#[test]
fn datagrams_of_one_length_to_one_destination_share_a_run_and_a_shorter_one_ends_it() {
    let mut outgoing = SendQueue::new();
    for (port, bytes) in [(1, &b"aaa"[..]), (2, b"xxx"), (1, b"bbb"), (1, b"c"), (1, b"d"), (1, b"eee")] {
        assert!(outgoing.add(&datagram(port, bytes)));
    }
    let run = |datagrams: &[&[u8]]| datagrams.iter().map(|bytes| bytes.to_vec()).collect::<Vec<_>>();
    let expected =
        [(1, run(&[b"aaa", b"bbb", b"c"])), (2, run(&[b"xxx"])), (1, run(&[b"d"])), (1, run(&[b"eee"]))];
    assert_eq!(flush_runs(&mut outgoing), expected);
}

#[test]
fn another_traffic_class_shard_socket_or_urgency_begins_another_run() {
    let first = datagram(1, b"aaa");
    let others = [
        Datagram { traffic_class: Ecn::Capable0.into(), ..first },
        Datagram { traffic_class: TrafficClass::from_bits(46 << 2), ..first },
        Datagram { shard: 1, ..first },
        Datagram { from: LocalAddress::new(1), ..first },
        Datagram { socket: 1, ..first },
        Datagram { priority: Priority::Scavenger, ..first },
    ];
    for other in others {
        let mut outgoing = SendQueue::new();
        assert!(outgoing.add(&first) && outgoing.add(&other));
        assert_eq!(flush_runs(&mut outgoing).len(), 2, "{other:?}");
    }
}

#[test]
fn what_every_path_carries_does_not_go_with_what_is_longer() {
    let base = PAYLOAD_BYTES_BASE;
    for (first, second, runs) in
        [(base + 1, base, 2), (base + 1, 40, 2), (base + 2, base + 1, 1), (base, base - 1, 1)]
    {
        let mut outgoing = SendQueue::new();
        assert!(outgoing.add(&datagram(1, &vec![0; first])) && outgoing.add(&datagram(1, &vec![0; second])));
        assert_eq!(flush_runs(&mut outgoing).len(), runs, "{first} and {second} B");
    }
}

#[test]
fn source_packets_go_before_scavengers_that_were_queued_earlier() {
    let mut outgoing = SendQueue::new();
    assert!(outgoing.add(&Datagram { priority: Priority::Scavenger, ..datagram(1, b"copy") }));
    assert!(outgoing.add(&datagram(2, b"original")));
    let ports: Vec<_> = flush_runs(&mut outgoing).into_iter().map(|(port, _)| port).collect();
    assert_eq!(ports, [2, 1]);
}

#[test]
fn a_run_has_no_more_datagrams_and_bytes_than_one_call_takes() {
    let mut outgoing = SendQueue::new();
    for _ in 0..=SEGMENTS {
        assert!(outgoing.add(&datagram(1, &[0; 10])));
    }
    for _ in 0..7 {
        assert!(outgoing.add(&datagram(2, &[0; 10_000])));
    }
    assert!(outgoing.add(&Datagram { segments_max: 1, ..datagram(3, &[0; 10]) }));
    assert!(outgoing.add(&Datagram { segments_max: 1, ..datagram(3, &[0; 10]) }));
    let lengths: Vec<_> =
        flush_runs(&mut outgoing).into_iter().map(|(port, datagrams)| (port, datagrams.len())).collect();
    assert_eq!(lengths, [(1, SEGMENTS), (1, 1), (2, 6), (2, 1), (3, 1), (3, 1)]);
}

#[test]
fn an_empty_datagram_is_sent_alone() {
    let mut outgoing = SendQueue::new();
    for bytes in [&b"a"[..], b"", b"", b"b"] {
        assert!(outgoing.add(&datagram(1, bytes)));
    }
    let lengths: Vec<_> =
        flush_runs(&mut outgoing).into_iter().flat_map(|(_, datagrams)| datagrams).collect();
    assert_eq!(lengths, [&b"a"[..], b"", b"", b"b"]);
}

#[test]
fn a_run_that_was_sent_in_part_goes_on_where_it_stopped() {
    let mut outgoing = SendQueue::new();
    for bytes in [b"aa", b"bb", b"cc"] {
        assert!(outgoing.add(&datagram(1, bytes)));
    }
    outgoing.flush(|run| {
        assert_eq!(run.next(2), b"aabb");
        run.advance(2);
        SendOutcome::WouldBlock
    });
    assert!(outgoing.add(&datagram(1, b"dd")));
    assert_eq!(flush_runs(&mut outgoing), [(1, vec![b"cc".to_vec(), b"dd".to_vec()])]);
}

#[test]
fn of_what_is_not_taken_scavengers_are_dropped_first_and_the_oldest_of_them() {
    let mut outgoing = SendQueue::new();
    // Datagrams of different lengths, so each has a run of its own.
    let bytes = vec![0; HELD_BYTES_MAX / 8];
    for (index, priority) in [Priority::Source, Priority::Scavenger].into_iter().cycle().take(16).enumerate()
    {
        let length = bytes.len() - 15 + index;
        let port = u16::try_from(index).unwrap();
        assert!(outgoing.add(&Datagram { priority, ..datagram(port, &bytes[..length]) }));
    }
    let dropped = outgoing.flush(|_| SendOutcome::WouldBlock);
    assert_eq!(dropped, DropCounts { source_packets: 0, scavengers: 8 });
    assert!(outgoing.bytes <= HELD_BYTES_MAX);
    assert!(outgoing.add(&datagram(99, &bytes)));
    assert_eq!(outgoing.flush(|_| SendOutcome::WouldBlock), DropCounts { source_packets: 1, scavengers: 0 });
    let ports: Vec<_> = flush_runs(&mut outgoing).into_iter().map(|(port, _)| port).collect();
    assert_eq!(ports, [2, 4, 6, 8, 10, 12, 14, 99], "the oldest went");
}

#[test]
fn a_socket_that_takes_nothing_leaves_room_for_the_others() {
    let mut outgoing = SendQueue::new();
    let mut added = 0;
    while outgoing.add(&datagram(added, b"x")) {
        added += 1;
    }
    assert_eq!(usize::from(added), RUNS_MAX);
    let dropped = outgoing.flush(|_| SendOutcome::WouldBlock);
    assert_eq!(dropped.source_packets, (RUNS_MAX - HELD_RUNS_MAX) as u64);
    for port in 0..HELD_RUNS_MAX {
        assert!(outgoing.add(&Datagram { socket: 1, ..datagram(u16::try_from(port).unwrap(), b"y") }));
    }
}

#[test]
fn what_a_closed_socket_had_to_send_is_forgotten() {
    let mut outgoing = SendQueue::new();
    for socket in [0, 1, 0] {
        assert!(outgoing.add(&Datagram { socket, ..datagram(1, b"x") }));
        assert!(outgoing.add(&Datagram { socket, priority: Priority::Scavenger, ..datagram(1, b"x") }));
    }
    assert_eq!(outgoing.discard_socket(0), 4);
    assert_eq!(outgoing.bytes, 2);
    assert_eq!(flush_runs(&mut outgoing).len(), 2);
    assert_eq!(outgoing.free.len(), RUNS_MAX);
}

/// A step of the property: a datagram, or a flush at which a socket accepts a number of datagrams.
#[derive(Clone, Debug)]
enum Step {
    Add { socket: u32, port: u16, shard: u8, ecn: u8, is_source_packet: bool, length: usize },
    Flush { sent: [usize; 2] },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let add = (0..2_u32, 1..5_u16, 0..2_u8, 0..3_u8, any::<bool>(), prop_oneof![Just(8_usize), 0..20_usize])
        .prop_map(|(socket, port, shard, ecn, is_source_packet, length)| Step::Add {
            socket,
            port,
            shard,
            ecn: ecn / 2,
            is_source_packet,
            length,
        });
    let flush = [0..40_usize, 0..40].prop_map(|sent| Step::Flush { sent });
    prop::collection::vec(prop_oneof![15 => add, 1 => flush], 0..300)
}

/// Identifier of a stream within which the order is preserved.
type Stream = (u32, u16, bool);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_datagram_is_sent_once_in_the_order_of_its_stream(steps in steps()) {
        let mut outgoing = SendQueue::new();
        let mut added: BTreeMap<Stream, Vec<(u8, Vec<u8>)>> = BTreeMap::new();
        let mut taken_of: BTreeMap<Stream, Vec<(u8, Vec<u8>)>> = BTreeMap::new();
        let everything = Step::Flush { sent: [usize::MAX; 2] };
        for (number, step) in steps.into_iter().chain([everything]).enumerate() {
            match step {
                Step::Add { socket, port, shard, ecn, is_source_packet, length } => {
                    let bytes: Vec<u8> = (0..length).map(|index| u8::try_from((number * 31 + index) % 256).unwrap()).collect();
                    let priority = if is_source_packet { Priority::Source } else { Priority::Scavenger };
                    let traffic_class = Ecn::from_bits(ecn).into();
                    let new = Datagram { socket, shard, traffic_class, priority, ..datagram(port, &bytes) };
                    if !outgoing.add(&new) {
                        // The limit of runs is reached, and further ones would be dropped.
                        continue;
                    }
                    added.entry((socket, port, is_source_packet)).or_default().push((ecn, bytes));
                }
                Step::Flush { mut sent } => {
                    let mut calls = 0;
                    let held: usize = outgoing.queues[0].len();
                    let dropped = outgoing.flush(|run| {
                        let is_source_packet = calls < held;
                        calls += 1;
                        let left = &mut sent[run.socket as usize];
                        let count = run.segments().min(*left);
                        *left -= count;
                        let stream = (run.socket, run.to.port(), is_source_packet);
                        let sent = taken_of.entry(stream).or_default();
                        sent.extend(datagrams(run).into_iter().take(count).map(|bytes| (run.traffic_class.bits(), bytes)));
                        run.advance(count);
                        if run.segments() == 0 { SendOutcome::Complete } else { *left = 0; SendOutcome::WouldBlock }
                    });
                    prop_assume!(dropped == DropCounts::default());
                }
            }
        }
        taken_of.retain(|_, datagrams| !datagrams.is_empty());
        prop_assert_eq!(added, taken_of);
        prop_assert_eq!((outgoing.bytes, outgoing.free.len()), (0, RUNS_MAX));
    }
}
