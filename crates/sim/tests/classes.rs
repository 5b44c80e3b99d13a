//! Links whose queues tell packets apart.

mod support;

use byway_sched::{Class, Marking, Settings};
use byway_sim::tcp::{Bulk, ConnectionId, Ports, Sink, Task, TcpHost};
use byway_sim::{ClassUse, Link, LossReason, NodeId, Queueing, Scheduling, Script, Seed, World};
use byway_units::{Bytes, Duration, Rate};
use support::{address, millis};

const RATE: Rate = Rate::from_megabits_per_second(60);
const PACKET: Bytes = Bytes::new(1_508);
const LOW_DELAY: u8 = 45;

type Hosts = World<Script<TcpHost<Task>>>;

fn settings() -> Settings {
    Settings::new(RATE, PACKET).expect("a usual link")
}

fn link(queueing: Queueing) -> Link {
    let scheduling = Scheduling { rate: RATE, queueing, marking: Marking::default(), packet: PACKET };
    Link { scheduling: Some(scheduling), delay: Duration::from_millis(20), ..Link::default() }
}

/// Two routers with this link between them, and flows of both classes from one to the other.
fn dumbbell(queueing: Queueing, ecn: bool, flows: [u16; 2]) -> (Hosts, [NodeId; 2]) {
    let mut world: Hosts = World::new(Seed::new(4), ());
    let host = |number: u8, dscp| {
        let mut host = TcpHost::new(
            byway_sim::tcp::Settings { ecn, ..Default::default() },
            Seed::new(u64::from(number)),
        );
        host.mark(dscp);
        host.listen(80, Task::Sink(Sink::default()));
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
            world.input(from, |host, now| host.open(id, Task::Bulk(Bulk::new(None)), now));
        }
    }
    (world, routers)
}

/// What happened to both classes in so many seconds.
fn uses(queueing: Queueing, ecn: bool, flows: [u16; 2], seconds: u64) -> [ClassUse; Class::COUNT] {
    let (mut world, [one, other]) = dumbbell(queueing, ecn, flows);
    world.run_until(millis(seconds * 1_000), &mut Script::new());
    world.check_conservation().expect("nothing is lost track of");
    let uses = *world.class_uses(one, other).expect("a link with classes");
    let counters = world.counters(one, other).expect("a link");
    assert_eq!(uses.iter().map(|class| class.offered).sum::<u64>(), counters.sent);
    assert_eq!(uses.iter().map(|class| class.dropped).sum::<u64>(), counters.lost[LossReason::QueueFull]);
    uses
}

#[test]
fn low_delay_flows_wait_as_long_as_was_promised_and_get_half_the_rate() {
    let [high_rate, low_delay, _] = uses(Queueing::RateDelay(settings()), false, [30, 30], 20);
    assert!(low_delay.waited_max <= settings().delay(), "{low_delay:?}");
    assert!(low_delay.waited_max > settings().delay() / 2 && high_rate.waited_max > settings().delay() * 10);
    // TCP of the low-delay class does not always have something waiting, so that it gets somewhat less than half.
    let percent = high_rate.left_bytes.count() * 100 / low_delay.left_bytes.count();
    assert!((180..=300).contains(&percent), "{percent} %");
    let room = RATE.bytes_in(Duration::from_millis(250)).expect("it can be counted");
    let [_, with_one, _] = uses(Queueing::DropTail(room), false, [30, 30], 20);
    assert!(with_one.waited_max > settings().delay() * 10, "one queue makes all wait: {with_one:?}");
}

#[test]
fn high_rate_flows_get_more_by_each_that_asks_for_a_low_delay() {
    let room = RATE.bytes_in(Duration::from_millis(250)).expect("it can be counted");
    let of_high_rate = |queueing| uses(queueing, false, [30, 30], 20)[0].left_bytes;
    let [with_classes, without] =
        [Queueing::RateDelay(settings()), Queueing::DropTail(room)].map(of_high_rate);
    assert!(with_classes > without, "{with_classes} and {without}");
}

#[test]
fn marks_take_the_place_of_losses() {
    let [_, lossy, _] = uses(Queueing::RateDelay(settings()), true, [30, 30], 20);
    let [_, marked, _] = uses(Queueing::RateDelay(settings().with_ecn()), true, [30, 30], 20);
    assert!(marked.marked > 100 && lossy.marked == 0);
    assert!(marked.dropped * 2 < lossy.dropped, "{} and {} dropped", marked.dropped, lossy.dropped);
    assert!(marked.waited_max <= settings().delay());
}

#[test]
fn a_link_may_change_while_packets_wait() {
    let (mut world, [one, other]) = dumbbell(Queueing::RateDelay(settings()), false, [4, 4]);
    world.run_until(millis(5_000), &mut Script::new());
    let before = *world.class_uses(one, other).expect("classes");
    let slower = Rate::from_megabits_per_second(12);
    let promised = Settings::new(slower, PACKET).expect("a usual link");
    let mut changed = link(Queueing::RateDelay(promised));
    changed.scheduling.as_mut().expect("a queue").rate = slower;
    world.connect_both(one, other, &changed);
    world.run_until(millis(15_000), &mut Script::new());
    let after = *world.class_uses(one, other).expect("classes");
    let sent: u64 =
        [0, 1].map(|class| (after[class].left_bytes - before[class].left_bytes).count()).iter().sum();
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
    let room = RATE.bytes_in(Duration::from_millis(100)).expect("it can be counted");
    let [high_rate, low_delay, _] = uses(Queueing::StrictPriority(room), false, [4, 4], 20);
    assert!(low_delay.left_bytes.count() > 5 * high_rate.left_bytes.count(), "{high_rate:?} {low_delay:?}");
    let [high_rate, low_delay, _] = uses(Queueing::FqCodel(room), false, [4, 4], 20);
    let percent = high_rate.left_bytes.count() * 100 / low_delay.left_bytes.count();
    assert!((80..=125).contains(&percent), "{percent} %: all flows alike");
}
