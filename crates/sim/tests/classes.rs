//! Tests of links with packet schedulers.

mod support;

use byway_sched::{Class, FlowHash, Marking, Settings, Sharing};
use byway_sim::tcp::{BulkSender, ConnectionId, Ports, Sink, TcpApplication, TcpHost};
use byway_sim::{
    ArrivingPacket, ClassCounters, Link, LinkState, LossReason, NodeId, QueueDiscipline, SchedulerSettings,
    Script, Seed, World,
};
use byway_units::{Bytes, Duration, Rate, Time};
use support::{address, millis};

const RATE: Rate = Rate::from_megabits_per_second(60);
const PACKET: Bytes = Bytes::new(1_508);
const LOW_DELAY: u8 = 45;

type Hosts = World<Script<TcpHost<TcpApplication>>>;

fn settings() -> Settings {
    Settings::new(RATE, PACKET).expect("a usual link")
}

fn link(queueing: QueueDiscipline) -> Link {
    let scheduling = SchedulerSettings {
        rate: RATE,
        discipline: queueing,
        marking: Marking::default(),
        packet_bytes_max: PACKET,
    };
    Link { scheduling: Some(scheduling), delay: Duration::from_millis(20), ..Link::default() }
}

/// Two routers with this link between them, and flows of both classes from one to the other.
fn dumbbell(queueing: QueueDiscipline, ecn: bool, flows: [u16; 2]) -> (Hosts, [NodeId; 2]) {
    let mut world: Hosts = World::new(Seed::new(4), ());
    let host = |number: u8, dscp| {
        let mut host = TcpHost::new(
            byway_sim::tcp::Settings { ecn, ..Default::default() },
            Seed::new(u64::from(number)),
        );
        host.set_dscp(dscp);
        host.listen(80, TcpApplication::Sink(Sink::default()));
        host
    };
    let routers = [1, 2].map(|number| world.add(host(number, 0), address(number)));
    world.connect_both(routers[0], routers[1], &link(queueing));
    let mut number = 2_u8;
    for (count, dscp) in flows.into_iter().zip([0, LOW_DELAY]) {
        for _ in 0..count {
            number += 2;
            let ends = [number, number + 1];
            let [from, to] = ends.map(|end| world.add(host(end, dscp), address(end)));
            let access = Link { delay: Duration::from_millis(u64::from(number) % 17), ..Link::default() };
            world.connect_both(from, routers[0], &access);
            world.connect_both(routers[1], to, &access);
            for (at, target, next) in [
                (from, to, routers[0]),
                (routers[0], to, routers[1]),
                (routers[1], to, to),
                (to, from, routers[1]),
                (routers[1], from, routers[0]),
                (routers[0], from, from),
            ] {
                world.route(at, target, next);
            }
            let id = ConnectionId { peer: address(ends[1]), ports: Ports { source: 1_000, destination: 80 } };
            world.input(from, |host, now| host.open(id, TcpApplication::Bulk(BulkSender::new(None)), now));
        }
    }
    (world, routers)
}

/// Returns the counters of both classes after this many seconds.
fn class_counters(
    queueing: QueueDiscipline,
    ecn: bool,
    flows: [u16; 2],
    seconds: u64,
) -> [ClassCounters; Class::COUNT] {
    let (mut world, [one, other]) = dumbbell(queueing, ecn, flows);
    world.run_until(millis(seconds * 1_000), &mut Script::new());
    world.check_conservation().expect("nothing is lost track of");
    let uses = *world.class_counters(one, other).expect("a link with classes");
    let counters = world.counters(one, other).expect("a link");
    assert_eq!(uses.iter().map(|class| class.offered).sum::<u64>(), counters.sent);
    assert_eq!(uses.iter().map(|class| class.dropped).sum::<u64>(), counters.lost[LossReason::QueueFull]);
    uses
}

#[test]
fn low_delay_flows_wait_as_long_as_was_promised_and_get_half_the_rate() {
    let [high_rate, low_delay, _] =
        class_counters(QueueDiscipline::RateDelay(settings()), false, [30, 30], 20);
    assert!(low_delay.sojourn_max <= settings().delay(), "{low_delay:?}");
    assert!(
        low_delay.sojourn_max > settings().delay() / 2 && high_rate.sojourn_max > settings().delay() * 10
    );
    // TCP of the low-delay class is not always backlogged, therefore it gets somewhat less than
    // half.
    let percent = high_rate.dequeued_bytes.count() * 100 / low_delay.dequeued_bytes.count();
    assert!((180..=300).contains(&percent), "{percent} %");
    let buffer = RATE.bytes_in(Duration::from_millis(250)).expect("it can be counted");
    let [_, with_one, _] = class_counters(QueueDiscipline::DropTail(buffer), false, [30, 30], 20);
    assert!(with_one.sojourn_max > settings().delay() * 10, "one queue makes all wait: {with_one:?}");
}

#[test]
fn high_rate_flows_get_more_by_each_that_asks_for_a_low_delay() {
    let buffer = RATE.bytes_in(Duration::from_millis(250)).expect("it can be counted");
    let of_high_rate = |queueing| class_counters(queueing, false, [30, 30], 20)[0].dequeued_bytes;
    let [with_classes, without] =
        [QueueDiscipline::RateDelay(settings()), QueueDiscipline::DropTail(buffer)].map(of_high_rate);
    assert!(with_classes > without, "{with_classes} and {without}");
}

#[test]
fn marks_take_the_place_of_losses() {
    let [_, lossy, _] = class_counters(QueueDiscipline::RateDelay(settings()), true, [30, 30], 20);
    let [_, marked, _] =
        class_counters(QueueDiscipline::RateDelay(settings().with_ecn()), true, [30, 30], 20);
    assert!(marked.marked > 100 && lossy.marked == 0);
    assert!(marked.dropped * 2 < lossy.dropped, "{} and {} dropped", marked.dropped, lossy.dropped);
    assert!(marked.sojourn_max <= settings().delay());
}

#[test]
fn a_link_may_change_while_packets_wait() {
    let (mut world, [one, other]) = dumbbell(QueueDiscipline::RateDelay(settings()), false, [4, 4]);
    world.run_until(millis(5_000), &mut Script::new());
    let before = *world.class_counters(one, other).expect("classes");
    let slower = Rate::from_megabits_per_second(12);
    let promised = Settings::new(slower, PACKET).expect("a usual link");
    let mut changed = link(QueueDiscipline::RateDelay(promised));
    changed.scheduling.as_mut().expect("a queue").rate = slower;
    world.connect_both(one, other, &changed);
    world.run_until(millis(15_000), &mut Script::new());
    let after = *world.class_counters(one, other).expect("classes");
    let sent: u64 =
        [0, 1].map(|class| (after[class].dequeued_bytes - before[class].dequeued_bytes).count()).iter().sum();
    let able = slower.bytes_in(Duration::from_secs(10)).expect("it can be counted").count();
    assert!(sent <= able + 20_000 && sent > able * 9 / 10, "{sent} of {able}");
    world.connect_both(one, other, &Link { delay: Duration::from_millis(20), ..Link::default() });
    world.run_until(millis(16_000), &mut Script::new());
    world.check_conservation().expect("what waited is lost, and known to be");
}

#[test]
fn whose_packets_go_first_is_for_the_marking_to_say() {
    for (dscp, class) in [(0, Class::HighRate), (4, Class::LowDelay), (LOW_DELAY, Class::LowDelay)] {
        assert_eq!(Marking::default().class(dscp << 2), class);
    }
    let buffer = RATE.bytes_in(Duration::from_millis(100)).expect("it can be counted");
    let [high_rate, low_delay, _] =
        class_counters(QueueDiscipline::StrictPriority(buffer), false, [4, 4], 20);
    assert!(
        low_delay.dequeued_bytes.count() > 5 * high_rate.dequeued_bytes.count(),
        "{high_rate:?} {low_delay:?}"
    );
    let [high_rate, low_delay, _] = class_counters(QueueDiscipline::FqCodel(buffer), false, [4, 4], 20);
    let percent = high_rate.dequeued_bytes.count() * 100 / low_delay.dequeued_bytes.count();
    assert!((80..=125).contains(&percent), "{percent} %: all flows alike");
}

/// Packet of 1,500 bytes of this flow, without a DSCP.
fn arriving(number: u32, flow: u64) -> ArrivingPacket {
    let flow = FlowHash::new(flow << 54);
    ArrivingPacket { number, ip_bytes: Bytes::new(1_500), dscp: 0, flow, source: flow, is_ecn_capable: false }
}

#[test]
fn a_packet_counts_as_sent_once_its_last_bit_has_left() {
    let by_flows = settings().with_sharing(Sharing::ByFlows { floor_milli: 0 }).expect("two classes");
    let mut state =
        LinkState::between(0, 1, link(QueueDiscipline::RateDelay(by_flows)), Seed::new(1), Time::START);
    (0..2).for_each(|number| state.enqueue(arriving(number, 1), Time::START));
    let sample = state.sample(Time::START).expect("a Rate-Delay queue");
    assert_eq!((sample.sent[0], sample.backlog[0]), (Bytes::ZERO, Bytes::new(1_500)));
    // 1,500 bytes at 60 Mbit/s.
    let due = Time::START + Duration::from_micros(200);
    assert_eq!(state.next_departure(), Some(due));
    assert!(state.dequeue(due).is_some());
    let sample = state.sample(due).expect("a Rate-Delay queue");
    assert_eq!((sample.sent[0], sample.backlog[0]), (Bytes::new(1_500), Bytes::ZERO));
    assert_eq!(sample.rates.guaranteed, Rate::from_megabits_per_second(30), "half, without flows");
    state.reconfigure(Link::default(), due);
    assert_eq!(state.sample(due), None);
}

#[test]
fn a_registered_flow_has_low_delay_without_a_dscp_until_its_lease_ends() {
    let mut state =
        LinkState::between(0, 1, link(QueueDiscipline::RateDelay(settings())), Seed::new(1), Time::START);
    let lease_end = Time::START + Duration::from_secs(60);
    assert!(state.register_flow(FlowHash::new(2 << 54), lease_end, Time::START));
    let offered = |state: &LinkState| state.class_counters().expect("classes").map(|class| class.offered);
    for (number, flow, now, expected) in [
        (0, 1, Time::START, [1, 0, 0]),
        (1, 2, Time::START, [1, 1, 0]),
        (2, 2, lease_end - Duration::from_nanos(1), [1, 2, 0]),
        (3, 2, lease_end, [2, 2, 0]),
    ] {
        state.enqueue(arriving(number, flow), now);
        assert_eq!(offered(&state), expected, "packet {number} of flow {flow}");
    }
    let mut plain = LinkState::between(0, 1, Link::default(), Seed::new(1), Time::START);
    assert!(!plain.register_flow(FlowHash::new(2 << 54), lease_end, Time::START), "a link without classes");
}
