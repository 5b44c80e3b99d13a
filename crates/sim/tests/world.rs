//! Tests of the whole world: time, order, addresses, the log.

mod support;

use byway_sim::{
    Bottleneck, Ecn, Freeze, GilbertElliott, Jitter, Link, Loss, LossReason, NodeId, Observer, Record,
    Reordering, Scenario, Script, Seed, Span, Step, Transcript,
};
use byway_units::{Bytes, Duration, Probability, Rate, Time};
use support::{QueuedDatagram, TestHost, World, address, millis, run, send};

const DELAY: Duration = Duration::from_millis(10);

fn share(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}

fn delayed() -> Link {
    Link { delay: DELAY, ..Link::default() }
}

/// Nodes 0 and 1, at addresses 1 and 2, with equal links.
fn pair<O: Observer>(seed: u64, observer: O, link: &Link) -> (World<O>, NodeId, NodeId) {
    let mut world = World::new(Seed::new(seed), observer);
    let one = world.add(TestHost::default(), address(1));
    let other = world.add(TestHost::default(), address(2));
    world.connect_both(one, other, link);
    (world, one, other)
}

/// A link with all impairments.
fn random_link() -> Link {
    let bursts = GilbertElliott::bursts(share(0.05), 3.0, Duration::from_millis(1)).expect("bursts");
    Link {
        bottleneck: Bottleneck::new(Rate::from_megabits_per_second(1), Bytes::new(5_000)).ok(),
        scheduling: None,
        delay: DELAY,
        measured: None,
        jitter: Jitter { max: Duration::from_millis(5), may_reorder: true },
        reordering: Reordering { probability: share(0.1), detour: Duration::from_millis(50) },
        loss: vec![Loss::Independent(share(0.1)), Loss::GilbertElliott(bursts)],
        outages: vec![Span::new(millis(500), Duration::from_millis(100))],
        ip_bytes_max: Some(Bytes::new(1_000)),
        duplication: share(0.1),
        corruption: share(0.1),
        bleaches_ecn: false,
        marks_congestion: false,
    }
}

/// Both ends send 1,000 packets, one a millisecond, some of them long; the node at the other end
/// echoes.
fn busy<O: Observer>(seed: u64, observer: O, link: &Link) -> (World<O>, NodeId, NodeId) {
    let (mut world, one, other) = pair(seed, observer, link);
    world.host_mut(other).echoes = true;
    for number in 0..1_000_u16 {
        let length = if number % 50 == 0 { 1_100 } else { 100 + usize::from(number % 7) * 20 };
        let mut payload = vec![0; length];
        payload[..2].copy_from_slice(&number.to_be_bytes());
        send(&mut world, millis(number.into()), one, QueuedDatagram::new(address(2), &payload));
    }
    (world, one, other)
}

#[test]
fn datagrams_arrive_after_their_delay_with_source_and_ecn() {
    let (mut world, one, other) = pair(1, (), &delayed());
    let order = QueuedDatagram { ecn: Ecn::Capable0, ..QueuedDatagram::new(address(2), b"hello") };
    send(&mut world, millis(3), one, order);
    run(&mut world, millis(13));
    let received = &world.host(other).received;
    assert_eq!(received.len(), 1);
    assert_eq!(
        (received[0].time, received[0].source, received[0].ecn),
        (millis(13), address(1), Ecn::Capable0)
    );
    assert_eq!(received[0].payload, b"hello");
}

#[test]
fn running_until_an_instant_includes_it_and_nothing_after() {
    let (mut world, one, other) = pair(1, (), &delayed());
    send(&mut world, millis(0), one, QueuedDatagram::new(address(2), b"hello"));
    run(&mut world, millis(10) - Duration::from_nanos(1));
    assert!(world.host(other).received.is_empty());
    world.run_for(Duration::from_nanos(1), &mut Script::new());
    assert_eq!((world.host(other).times(), world.now()), (vec![millis(10)], millis(10)));
    assert!(!world.step(&mut Script::new()), "nothing is left to happen");
}

#[test]
fn a_driver_is_told_when_something_happens_next() {
    let (mut world, one, _) = pair(1, (), &delayed());
    send(&mut world, millis(3), one, QueuedDatagram::new(address(2), b"hello"));
    run(&mut world, millis(1));
    assert_eq!(world.next_event(), Some(millis(3)));
    run(&mut world, millis(3));
    assert_eq!(world.next_event(), Some(millis(13)));
    run(&mut world, millis(13));
    assert_eq!(world.next_event(), None);
}

#[test]
fn a_bottleneck_is_exact_to_the_nanosecond() {
    // 972 + 28 bytes at 3 Mbit/s: 2,666,667 ns each, rounded up. The queue holds two of them.
    let bottleneck = Bottleneck::new(Rate::from_megabits_per_second(3), Bytes::new(2_000)).ok();
    let (mut world, one, other) = pair(1, (), &Link { bottleneck, ..delayed() });
    for at in [0, 0, 0, 2_666_666, 2_666_667] {
        send(&mut world, Time::from_nanos(at), one, QueuedDatagram::new(address(2), &[0; 972]));
    }
    run(&mut world, millis(100));
    let arrivals = [12_666_667, 15_333_334, 18_000_001].map(Time::from_nanos);
    assert_eq!(world.host(other).times(), arrivals);
    let counters = world.counters(one, other).expect("a link");
    assert_eq!((counters.sent, counters.lost[LossReason::QueueFull], counters.delivered), (5, 2, 3));
    assert_eq!((counters.sent_bytes, counters.delivered_bytes), (Bytes::new(5_000), Bytes::new(3_000)));
}

#[test]
fn events_of_one_instant_happen_in_the_order_in_which_they_were_caused() {
    let (mut world, one, other) = pair(1, (), &delayed());
    for payload in [b"a", b"b", b"c"] {
        send(&mut world, millis(5), one, QueuedDatagram::new(address(2), payload));
    }
    run(&mut world, millis(100));
    assert_eq!(world.host(other).payloads(), [b"a", b"b", b"c"]);
}

#[test]
fn hosts_are_woken_at_their_deadlines_and_not_between() {
    let (mut world, one, _) = pair(1, (), &delayed());
    world.input(one, |host, _now| {
        (host.deadline, host.period) = (Some(millis(7)), Some(Duration::from_millis(100)));
    });
    run(&mut world, millis(300));
    assert_eq!(world.host(one).woken, [7, 107, 207].map(millis));
    assert_eq!(world.wake_ups(one), 3);
}

#[test]
fn a_deadline_that_moved_back_wakes_nobody() {
    let (mut world, one, _) = pair(1, (), &delayed());
    world.input(one, |host, _now| host.deadline = Some(millis(10)));
    world.input(one, |host, _now| host.deadline = Some(millis(30)));
    run(&mut world, millis(20));
    assert!(world.host(one).woken.is_empty());
    world.input(one, |host, _now| host.deadline = Some(millis(25)));
    run(&mut world, millis(100));
    assert_eq!(world.host(one).woken, [millis(25)]);
}

#[test]
fn a_deadline_in_the_past_is_due_at_once() {
    let (mut world, one, _) = pair(1, (), &delayed());
    run(&mut world, millis(50));
    world.input(one, |host, _now| host.deadline = Some(millis(10)));
    run(&mut world, millis(60));
    assert_eq!(world.host(one).woken, [millis(50)]);
}

#[test]
#[should_panic(expected = "time stands still")]
fn a_deadline_that_never_moves_on_is_found() {
    let (mut world, one, _) = pair(1, (), &delayed());
    world.input(one, |host, _now| {
        (host.deadline, host.period) = (Some(millis(7)), Some(Duration::ZERO));
    });
    run(&mut world, millis(10));
}

#[test]
#[should_panic(expected = "has passed")]
fn the_past_cannot_be_scheduled() {
    let (mut world, _, _) = pair(1, (), &delayed());
    run(&mut world, millis(1));
    world.at(millis(0), |_world| {});
}

#[test]
fn packets_without_a_way_are_unroutable() {
    let (mut world, one, _) = pair(1, Transcript::default(), &delayed());
    let _island = world.add(TestHost::default(), address(3));
    for host in [3, 4] {
        send(&mut world, millis(0), one, QueuedDatagram::new(address(host), b"lost"));
    }
    run(&mut world, millis(100));
    assert_eq!(world.unroutable(), 2);
    assert_eq!(world.observer().text.matches("unroutable").count(), 2);
}

#[test]
fn a_source_address_may_be_anybodys() {
    let (mut world, one, other) = pair(1, (), &delayed());
    let order = QueuedDatagram { source: Some(address(9)), ..QueuedDatagram::new(address(2), b"forged") };
    send(&mut world, millis(0), one, order);
    run(&mut world, millis(100));
    assert_eq!(world.host(other).received[0].source, address(9));
}

#[test]
fn a_link_that_bleaches_clears_the_ecn_field() {
    let (mut world, one, other) = pair(1, (), &Link { bleaches_ecn: true, ..delayed() });
    let order =
        QueuedDatagram { ecn: Ecn::CongestionExperienced, ..QueuedDatagram::new(address(2), b"marked") };
    send(&mut world, millis(0), one, order);
    run(&mut world, millis(100));
    assert_eq!(world.host(other).received[0].ecn, Ecn::NotCapable);
}

#[test]
fn a_link_with_a_long_queue_marks_what_is_ecn_capable() {
    let fields = [Ecn::NotCapable, Ecn::Capable1, Ecn::Capable0, Ecn::CongestionExperienced];
    let (mut world, one, other) = pair(1, (), &Link { marks_congestion: true, ..delayed() });
    for ecn in fields {
        send(
            &mut world,
            millis(0),
            one,
            QueuedDatagram { ecn, ..QueuedDatagram::new(address(2), b"packet") },
        );
    }
    run(&mut world, millis(100));
    let received: Vec<_> = world.host(other).received.iter().map(|received| received.ecn).collect();
    let marked = Ecn::CongestionExperienced;
    assert_eq!(received, [Ecn::NotCapable, marked, marked, marked]);
}

#[test]
fn a_link_may_change_while_packets_are_under_way() {
    let (mut world, one, other) = pair(1, (), &delayed());
    send(&mut world, millis(0), one, QueuedDatagram::new(address(2), b"before"));
    send(&mut world, millis(5), one, QueuedDatagram::new(address(2), b"after"));
    world.at(millis(4), move |world| {
        world.connect(one, other, Link { delay: Duration::from_millis(50), ..Link::default() });
    });
    run(&mut world, millis(100));
    assert_eq!(world.host(other).times(), [10, 55].map(millis));
    assert_eq!(world.counters(one, other).map(|counters| counters.sent), Some(2));
}

/// Records the times of notifications that a node was drained.
#[derive(Default)]
struct DrainObserver(Vec<(Time, NodeId)>);

impl Scenario for DrainObserver {
    type Host = TestHost;
    type Event = ();
    type Observer = ();

    fn event(&mut self, (): (), _world: &mut byway_sim::World<Self>) {}

    fn drained(&mut self, node: NodeId, world: &mut byway_sim::World<Self>) {
        self.0.push((world.now(), node));
    }
}

#[test]
fn a_scenario_is_told_at_once_of_every_node_that_took_an_input() {
    let mut world = byway_sim::World::<DrainObserver>::new(Seed::new(1), ());
    let one = world.add(TestHost::default(), address(1));
    let other = world.add(TestHost::default(), address(2));
    world.connect(one, other, delayed());
    let mut listener = DrainObserver::default();
    world.run_until(millis(1), &mut listener);
    world.input(one, |host, _now| host.queue.push_back(QueuedDatagram::new(address(2), b"hello")));
    world.run_until(millis(5), &mut listener);
    world.input(other, |host, _now| host.deadline = Some(millis(20)));
    world.run_until(millis(20), &mut listener);
    let expected = [(0, one), (0, other), (1, one), (5, other), (11, other), (20, other)];
    assert_eq!(listener.0, expected.map(|(time, node)| (millis(time), node)));
}

/// Counts the steps that the observer sees.
#[derive(Default)]
struct StepCounters {
    sent: u64,
    duplicated: u64,
    corrupted: u64,
    delivered: u64,
    lost: u64,
}

impl Observer for StepCounters {
    fn packet(&mut self, record: &Record<'_>) {
        match record.step {
            Step::Unroutable => {}
            Step::Sent => self.sent += 1,
            Step::Duplicated => self.duplicated += 1,
            Step::Corrupted { .. } => self.corrupted += 1,
            Step::Delivered => self.delivered += 1,
            Step::Lost(_) => self.lost += 1,
        }
    }
}

#[test]
fn packets_are_conserved_at_every_instant_and_counted_exactly() {
    let (mut world, one, other) = busy(3, StepCounters::default(), &random_link());
    while world.now() < millis(2_000) {
        world.run_for(Duration::from_micros(900), &mut Script::new());
        assert_eq!(world.check_conservation(), Ok(()));
    }
    let there = *world.counters(one, other).expect("a link");
    let back = *world.counters(other, one).expect("a link");
    for reason in [LossReason::QueueFull, LossReason::Outage, LossReason::TooLong, LossReason::Random] {
        assert!(there.lost[reason] > 0, "{reason:?} did not happen");
    }
    let tally = world.observer();
    assert_eq!(tally.sent, there.sent + back.sent);
    assert_eq!(tally.duplicated, there.duplicated + back.duplicated);
    assert_eq!(tally.corrupted, there.corrupted + back.corrupted);
    assert_eq!(tally.delivered, there.delivered + back.delivered);
    assert_eq!(tally.lost, there.lost.total() + back.lost.total());
    assert_eq!(back.sent, there.delivered, "all is echoed");
    assert!(there.duplicated > 0 && there.corrupted > 0);
}

#[test]
fn certain_duplication_and_corruption_are_counted_exactly() {
    let link = Link { duplication: Probability::ONE, corruption: Probability::ONE, ..delayed() };
    let (mut world, one, other) = pair(1, (), &link);
    for number in 0..100 {
        send(&mut world, millis(number), one, QueuedDatagram::new(address(2), &[0; 10]));
    }
    run(&mut world, millis(1_000));
    let counters = world.counters(one, other).expect("a link");
    assert_eq!(
        (counters.sent, counters.duplicated, counters.corrupted, counters.delivered),
        (100, 100, 200, 200)
    );
    for payload in world.host(other).payloads() {
        assert_eq!(payload.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1, "one bit is inverted");
    }
}

fn digest_of(seed: u64, link: &Link) -> u64 {
    let (mut world, ..) = busy(seed, (), link);
    run(&mut world, millis(2_000));
    world.digest()
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_does_not() {
    assert_eq!(digest_of(3, &random_link()), digest_of(3, &random_link()));
    assert_ne!(digest_of(3, &random_link()), digest_of(4, &random_link()));
    let transcript = |seed| {
        let (mut world, ..) = busy(seed, Transcript::default(), &random_link());
        run(&mut world, millis(2_000));
        world.observer().text.clone()
    };
    assert_eq!(transcript(3), transcript(3));
}

#[test]
fn the_digest_sees_a_single_nanosecond_byte_mark_and_address() {
    let digest = |delay, order: QueuedDatagram| {
        let link = Link { delay: Duration::from_nanos(delay), ..Link::default() };
        let (mut world, one, _) = pair(1, (), &link);
        send(&mut world, millis(0), one, order);
        run(&mut world, millis(100));
        world.digest()
    };
    let order = || QueuedDatagram::new(address(2), b"same");
    let digests = [
        digest(10, order()),
        digest(11, order()),
        digest(10, QueuedDatagram::new(address(2), b"sane")),
        digest(10, QueuedDatagram { ecn: Ecn::CongestionExperienced, ..order() }),
        digest(10, QueuedDatagram { source: Some(address(9)), ..order() }),
        digest(10, QueuedDatagram::new(address(9), b"same")),
        digest(10, QueuedDatagram::new(address(8), b"same")),
    ];
    for (index, digest) in digests.iter().enumerate() {
        assert!(!digests[..index].contains(digest), "{index}");
    }
    assert_eq!(digest(10, order()), digests[0]);
}

#[test]
fn the_trace_of_a_known_run_is_what_it_was() {
    // Integers, and logarithms in software, give the same digest on every machine and with every
    // compiler.
    assert_eq!(digest_of(3, &random_link()), 5_566_557_246_157_814_774);
}

#[test]
fn another_link_and_its_traffic_change_nothing_here() {
    let run = |is_busy: bool| {
        let (mut world, one, other) = pair(5, (), &random_link());
        let third = world.add(TestHost::default(), address(3));
        if is_busy {
            world.connect_both(one, third, &random_link());
        }
        for number in 0..1_000 {
            send(&mut world, millis(number), one, QueuedDatagram::new(address(2), &[1; 100]));
            send(&mut world, millis(number), one, QueuedDatagram::new(address(3), &[2; 100]));
        }
        run(&mut world, millis(2_000));
        world.host(other).received.clone()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn links_in_both_directions_share_no_chance() {
    let (mut world, one, other) =
        pair(5, (), &Link { loss: vec![Loss::Independent(share(0.5))], ..delayed() });
    for number in 0..64 {
        send(&mut world, millis(number), one, QueuedDatagram::new(address(2), b"there"));
        send(&mut world, millis(number), other, QueuedDatagram::new(address(1), b"back"));
    }
    run(&mut world, millis(1_000));
    // With shared draws, both would be equal; by chance they are with 2^-64.
    assert_ne!(world.host(one).times(), world.host(other).times());
}

#[test]
fn a_transcript_has_a_line_for_each_step() {
    let link = Link { loss: vec![Loss::Ordinals(vec![1])], ..delayed() };
    let (mut world, one, other) = pair(1, Transcript::default(), &link);
    for number in 0..2 {
        send(&mut world, millis(number), one, QueuedDatagram::new(address(2), &[0; 100]));
    }
    run(&mut world, millis(20));
    world.freeze(other, Freeze::Drop);
    world.change_address(one, address(1), address(8));
    let expected = "\
0.000000000 node 0 assigned 192.0.2.1:7
0.000000000 node 1 assigned 192.0.2.2:7
0.000000000 #0 node 0 -> node 1, 192.0.2.1:7 -> 192.0.2.2:7, 128 B, ECN 00: sent
0.001000000 #1 node 0 -> node 1, 192.0.2.1:7 -> 192.0.2.2:7, 128 B, ECN 00: sent
0.001000000 #1 node 0 -> node 1, 192.0.2.1:7 -> 192.0.2.2:7, 128 B, ECN 00: lost: random
0.010000000 #0 node 0 -> node 1, 192.0.2.1:7 -> 192.0.2.2:7, 128 B, ECN 00: delivered
0.020000000 node 1 frozen
0.020000000 node 0 released 192.0.2.1:7
0.020000000 node 0 assigned 192.0.2.8:7
";
    assert_eq!(world.observer().text, expected);
}

#[test]
fn what_is_for_others_is_passed_on_and_shares_the_losses_of_the_way() {
    let (mut world, one, other) = pair(1, Transcript::default(), &delayed());
    let between = world.add(TestHost::default(), address(3));
    let far = world.add(TestHost::default(), address(4));
    world.connect_both(one, between, &delayed());
    world.connect_both(other, between, &delayed());
    let lossy = Link { loss: vec![Loss::Every { first: 1, period: 2 }], ..delayed() };
    world.connect_both(between, far, &lossy);
    for from in [one, other] {
        world.route(from, far, between);
    }
    world.route(between, far, far);
    for number in 0..10_u8 {
        for from in [one, other] {
            send(&mut world, millis(number.into()), from, QueuedDatagram::new(address(4), &[number]));
        }
    }
    run(&mut world, millis(1_000));
    // Of each two packets at an instant, one is lost on their shared link.
    assert_eq!(world.host(far).received.len(), 10);
    assert!(world.host(far).received.iter().all(|got| got.time.as_nanos() % 1_000_000 == 0));
    assert!(world.host(between).received.is_empty(), "it only passes on");
    assert_eq!(world.counters(between, far).map(|link| (link.sent, link.lost.total())), Some((20, 10)));
    world.check_conservation().expect("no packet appears or disappears");
}

#[test]
fn a_node_that_has_stopped_passes_nothing_on() {
    let (mut world, one, between) = pair(1, (), &delayed());
    let far = world.add(TestHost::default(), address(4));
    world.connect_both(between, far, &delayed());
    world.route(one, far, between);
    world.route(between, far, far);
    world.stop(between);
    send(&mut world, millis(1), one, QueuedDatagram::new(address(4), b"one"));
    run(&mut world, millis(100));
    assert!(world.host(far).received.is_empty());
    assert_eq!(world.counters(one, between).map(|link| link.lost[LossReason::Stopped]), Some(1));
    world.check_conservation().expect("no packet appears or disappears");
}
