//! Tests of the emulated network.

use std::net::Ipv4Addr;

use byway_scenario::Scenario;
use byway_units::Duration;

use super::*;

/// Alice and Bob on both sides of a router, with a link of 1 Mbit/s after it.
const SCENARIO: &str = r#"
title = "Two machines and a router"
length = "10 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "gate", role = "router" },
]
link = [
    { between = ["alice", "gate"], delay = "10 ms" },
    { between = ["gate", "bob"], delay = "20 ms", rate = "1 Mbit/s", queue = "3 kB" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "internet", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
step = [
    { at = "5 s", do = "cut", between = ["gate", "bob"] },
]
"#;

/// Alice and Anne behind a NAT router, and Bob outside.
const HOME: &str = r#"
title = "A home"
length = "10 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "anne", role = "agent" },
    { name = "home", role = "router", nat = true },
    { name = "gate", role = "router" },
]
link = [
    { between = ["alice", "home"] },
    { between = ["anne", "home"] },
    { between = ["home", "gate"] },
    { between = ["gate", "bob"] },
]
"#;

const ALICE: usize = 0;
const BOB: usize = 1;
const ANNE: usize = 2;
const HOME_ROUTER: usize = 3;

fn emulation() -> Emulation {
    emulation_of(SCENARIO)
}

fn emulation_of(scenario: &str) -> Emulation {
    let network = Scenario::parse(scenario).expect("a scenario").network(1).expect("all are joined");
    let addresses: Vec<Vec<IpAddr>> =
        (1..=3).map(|host| vec![Ipv4Addr::new(10, 77, 0, host).into()]).collect();
    Emulation::new(network, &addresses, 1)
}

/// Makes an IPv4 packet of this length.
fn packet(to: u8, length: u16) -> Vec<u8> {
    let mut packet = vec![0; usize::from(length)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[16..20].copy_from_slice(&[10, 77, 0, to]);
    packet
}

fn at(micros: u64) -> Time {
    Time::START + Duration::from_micros(micros)
}

#[test]
fn a_packet_takes_the_time_of_all_links_however_late_it_is_looked_at() {
    for late in [0, 700, 100_000] {
        let mut emulation = emulation();
        emulation.send(ALICE, &packet(2, 1_000), at(0));
        assert_eq!(emulation.deadline(), Some(at(10_000)));
        assert_eq!(emulation.next(at(9_999)), None);
        // The delay is 10 ms to the router, 8 ms for 1,000 bytes at 1 Mbit/s, and 20 ms after
        // it.
        let arrival = loop {
            let due = emulation.deadline().expect("the packet is in flight");
            if let Some(arrival) = emulation.next(due + Duration::from_micros(late)) {
                break arrival;
            }
        };
        assert_eq!(arrival, Arrival { machine: BOB, due: at(38_000), packet: packet(2, 1_000) });
    }
}

#[test]
fn outages_are_at_their_times_of_the_scenario_and_not_before_it_begins() {
    let key = "delay = \"10 ms\"";
    let outage = format!("{key}, outage = [{{ at = \"1 s\", for = \"2 s\" }}]");
    let mut emulation = emulation_of(&SCENARIO.replacen(key, &outage, 1));
    let arrivals = |emulation: &mut Emulation, micros: u64| {
        emulation.send(ALICE, &packet(2, 1_000), at(micros));
        core::iter::from_fn(|| emulation.next(at(micros + 1_000_000))).count()
    };
    assert_eq!(arrivals(&mut emulation, 1_500_000), 1);
    emulation.restart(at(5_000_000));
    let times = [500_000, 1_500_000, 3_500_000];
    assert_eq!(times.map(|micros| arrivals(&mut emulation, micros)), [1, 0, 1]);
}

#[test]
fn a_full_queue_loses_and_what_passes_leaves_at_the_rate_of_the_link() {
    let mut emulation = emulation();
    for _ in 0..10 {
        emulation.send(ALICE, &packet(2, 1_000), at(0));
    }
    let due: Vec<Time> =
        core::iter::from_fn(|| emulation.next(at(10_000_000))).map(|arrival| arrival.due).collect();
    assert_eq!(due, [at(38_000), at(46_000), at(54_000)]);
    let counters = emulation.counters();
    assert_eq!((counters.sent, counters.lost, counters.delivered), (10, 7, 3));
    let of_alice = MachineCounters { packets: 10, bytes: 10_000 };
    assert_eq!(emulation.machines(), [of_alice, MachineCounters::default(), MachineCounters::default()]);
}

#[test]
fn a_link_that_is_cut_loses_everything() {
    let mut emulation = emulation();
    let step = emulation.network.steps[0].clone();
    let byway_scenario::NetworkChange::Links(links) = step.change else {
        panic!("a cut is one of links: {step:?}");
    };
    let now = Time::START + step.at;
    for link in links {
        emulation.set_link(link, now);
    }
    emulation.send(ALICE, &packet(2, 1_000), now);
    assert_eq!(emulation.next(now + Duration::from_secs(1)), None);
    assert_eq!(emulation.counters().lost, 1);
}

fn home() -> Emulation {
    let network = Scenario::parse(HOME).expect("a scenario").network(1).expect("all are joined");
    let addresses: Vec<Vec<IpAddr>> =
        (1..=5).map(|host| vec![Ipv4Addr::new(10, 77, 0, host).into()]).collect();
    Emulation::new(network, &addresses, 1)
}

/// Makes a datagram with these addresses and ports.
fn datagram(from: (u8, u16), to: (u8, u16)) -> Vec<u8> {
    let mut packet = packet(to.0, 28);
    packet[9] = 17;
    packet[12..16].copy_from_slice(&[10, 77, 0, from.0]);
    packet[20..26].copy_from_slice(&[from.1.to_be_bytes(), to.1.to_be_bytes(), [0, 8]].concat());
    packet
}

fn arrives(emulation: &mut Emulation, from: usize, packet: &[u8]) -> Option<(usize, Vec<u8>)> {
    emulation.send(from, packet, at(0));
    emulation.next(at(10_000_000)).map(|arrival| (arrival.machine, arrival.packet))
}

#[test]
fn a_router_that_translates_lets_answers_in_and_nothing_else() {
    let mut emulation = home();
    assert_eq!(arrives(&mut emulation, BOB, &datagram((2, 7), (4, 49_152))), None, "nobody asked");
    let asked = arrives(&mut emulation, ALICE, &datagram((1, 5), (2, 7)));
    let (machine, request) = asked.expect("it arrives");
    assert_eq!((machine, &request[12..16], &request[20..22]), (BOB, &[10, 77, 0, 4][..], &[192, 0][..]));
    let answered = arrives(&mut emulation, BOB, &datagram((2, 7), (4, 49_152)));
    let (machine, answer) = answered.expect("it arrives");
    assert_eq!((machine, &answer[16..20], &answer[22..24]), (ALICE, &[10, 77, 0, 1][..], &[0, 5][..]));
    let counters = emulation.counters();
    assert_eq!((counters.not_translated, counters.unroutable, counters.delivered), (1, 0, 2));
}

#[test]
fn addresses_inside_mean_nothing_outside_and_stay_as_they_are_inside() {
    let mut emulation = home();
    assert_eq!(arrives(&mut emulation, BOB, &datagram((2, 7), (1, 5))), None);
    assert_eq!(emulation.counters().unroutable, 1);
    let between = datagram((1, 5), (3, 6));
    assert_eq!(arrives(&mut emulation, ALICE, &between), Some((ANNE, between)));
}

#[test]
fn a_forwarded_port_lets_all_in_also_after_the_begin() {
    let mut emulation = home();
    let inside = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 5);
    emulation.forward(ForwardedPort { router: HOME_ROUTER, inside });
    emulation.restart(at(5));
    let arrived = arrives(&mut emulation, BOB, &datagram((2, 7), (4, 5)));
    let (machine, packet) = arrived.expect("it arrives");
    assert_eq!((machine, &packet[16..20], &packet[22..24]), (ALICE, &[10, 77, 0, 1][..], &[0, 5][..]));
}

/// A link with classes of 2 Mbit/s from Alice to a router, and a link to Bob after it.
const CLASSES: &str = r#"
title = "Two machines and a link with classes"
length = "10 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "gate", role = "router" },
]
link = [
    { between = ["alice", "gate"], rate = "2 Mbit/s", queue = "100 kB", delay = "1 ms", classes = { kind = "rate-delay", bound = "30 ms" } },
    { between = ["gate", "bob"], delay = "1 ms" },
]
step = [
    { at = "1 s", do = "change", between = ["alice", "gate"], rate = "1 Mbit/s" },
]
"#;

/// Links between Alice and the router, in both directions.
const CLASSES_FORTH: (usize, usize) = (0, 2);

fn with_classes(text: &str) -> Emulation {
    let network = Scenario::parse(text).expect("a scenario").network(1).expect("all are joined");
    let addresses: Vec<Vec<IpAddr>> =
        (1..=3).map(|host| vec![Ipv4Addr::new(10, 77, 0, host).into()]).collect();
    Emulation::new(network, &addresses, 1)
}

/// Makes a datagram of 500 bytes from Alice to Bob with this port, TOS byte and number in its
/// payload.
fn classed_datagram(port: u16, class: u8, number: u16) -> Vec<u8> {
    let mut packet = packet(2, 500);
    packet[1] = class;
    packet[9] = 17;
    packet[12..16].copy_from_slice(&[10, 77, 0, 1]);
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    packet[22..26].copy_from_slice(&[0, 9, 1, 224]);
    packet[28..30].copy_from_slice(&number.to_be_bytes());
    let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = !u16::try_from((sum & 0xFFFF) + (sum >> 16)).expect("it was folded");
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

const LOW_DELAY: u8 = 45 << 2;

/// Returns the arrivals by this time: the time of each and the number in its payload.
fn arrivals(emulation: &mut Emulation, by: Time) -> Vec<(Time, u16)> {
    let number = |packet: &[u8]| u16::from_be_bytes([packet[28], packet[29]]);
    core::iter::from_fn(|| emulation.next(by)).map(|arrival| (arrival.due, number(&arrival.packet))).collect()
}

#[test]
fn low_delay_packets_overtake_and_leave_at_the_rate_of_the_link_however_late_that_is_looked_at() {
    let mut emulation = with_classes(CLASSES);
    for number in 0..5 {
        emulation.send(ALICE, &classed_datagram(1, 0, number), at(0));
    }
    emulation.send(ALICE, &classed_datagram(2, LOW_DELAY, 5), at(0));
    // 500 bytes take 2 ms at 2 Mbit/s, and 2 ms after it. The first is already in transmission.
    assert_eq!(emulation.deadline(), Some(at(2_000)));
    let order: Vec<u16> = arrivals(&mut emulation, at(9_000_000)).iter().map(|(_, number)| *number).collect();
    let position = order.iter().position(|number| *number == 5);
    assert!(position.is_some_and(|position| position <= 2), "{order:?}");
    let mut again = with_classes(CLASSES);
    (0..5).for_each(|number| again.send(ALICE, &classed_datagram(1, 0, number), at(0)));
    let due: Vec<_> = (1..=5).map(|nth| at(2_000 * nth + 2_000)).collect();
    let arrived = arrivals(&mut again, at(9_000_000));
    assert_eq!(arrived.iter().map(|(due, _)| *due).collect::<Vec<_>>(), due);
    assert_eq!((again.counters().delivered, again.counters().lost, again.in_flight()), (5, 0, 0));
}

/// Sends twice the link's rate for `millis` after an instant: one packet of each class every
/// millisecond. Returns the arrivals during this time.
fn overload(emulation: &mut Emulation, from: u64, millis: u16) -> Vec<(Time, u16)> {
    let mut arrived = Vec::new();
    for number in 0..millis {
        let now = at((from + u64::from(number)) * 1_000);
        arrived.extend(arrivals(emulation, now));
        for (port, class) in [(1, 0), (2, LOW_DELAY)] {
            emulation.send(ALICE, &classed_datagram(port, class, number), now);
        }
    }
    arrived
}

#[test]
fn the_bound_holds_under_overload_and_drops_are_counted_as_lost() {
    let mut emulation = with_classes(CLASSES);
    let mut arrived = overload(&mut emulation, 0, 900);
    arrived.extend(arrivals(&mut emulation, at(9_000_000)));
    let (ends, [high_rate, low_delay, _]) = emulation.class_uses().next().expect("a link has classes");
    assert_eq!((ends, high_rate.offered, low_delay.offered), (CLASSES_FORTH, 900, 900));
    assert!(low_delay.sojourn_max <= Duration::from_millis(30), "{low_delay:?}");
    assert!(high_rate.sojourn_max > Duration::from_millis(100), "{high_rate:?}");
    assert!(low_delay.dropped > 0 && high_rate.dropped > 0);
    let counters = emulation.counters();
    assert_eq!(counters.lost, high_rate.dropped + low_delay.dropped);
    assert_eq!((counters.sent, counters.delivered), (1_800, 1_800 - counters.lost));
    assert_eq!((arrived.len() as u64, emulation.in_flight()), (counters.delivered, 0));
}

fn change(emulation: &mut Emulation) {
    let step = emulation.network.steps[0].clone();
    let byway_scenario::NetworkChange::Links(links) = step.change else {
        panic!("a change is one of links: {step:?}");
    };
    for link in links {
        emulation.set_link(link, Time::START + step.at);
    }
}

#[test]
fn a_change_of_the_rate_keeps_what_waits() {
    let mut emulation = with_classes(CLASSES);
    for number in 0..10 {
        emulation.send(ALICE, &classed_datagram(1, 0, number), at(995_000));
    }
    let mut arrived = arrivals(&mut emulation, at(1_000_000));
    change(&mut emulation);
    arrived.extend(arrivals(&mut emulation, at(9_000_000)));
    // The packet in transmission leaves after its 2 ms; the others take 4 ms each.
    let left = [997_000, 999_000, 1_001_000].into_iter().chain((1..=7).map(|nth| 1_001_000 + 4_000 * nth));
    let expected: Vec<_> = left.map(|left| at(left + 2_000)).zip(0..).collect();
    assert_eq!(arrived, expected);
}

#[test]
fn low_delay_packets_go_on_after_a_change_of_the_rate() {
    let mut emulation = with_classes(CLASSES);
    let mut arrived = overload(&mut emulation, 0, 1_000);
    arrived.extend(arrivals(&mut emulation, at(1_000_000)));
    let left = |emulation: &Emulation| {
        let (_, uses) = emulation.class_uses().next().expect("a link has classes");
        uses.map(|class| class.dequeued)
    };
    let before = left(&emulation);
    change(&mut emulation);
    arrived.extend(overload(&mut emulation, 1_000, 1_000));
    let after = left(&emulation);
    // At 1 Mbit/s, a second has 250 packets, a third of them low-delay.
    assert!((75..=90).contains(&(after[1] - before[1])), "{before:?} {after:?}");
    assert!((240..=255).contains(&(after.iter().sum::<u64>() - before.iter().sum::<u64>())));
}

#[test]
fn a_class_alone_has_the_whole_link_before_and_after_a_change_of_the_rate() {
    let mut emulation = with_classes(CLASSES);
    let mut left = Vec::new();
    for second in 0..4 {
        if second == 1 {
            arrivals(&mut emulation, at(1_000_000));
            change(&mut emulation);
        }
        for number in 0..1_000 {
            let now = at(second * 1_000_000 + u64::from(number) * 1_000);
            arrivals(&mut emulation, now);
            emulation.send(ALICE, &classed_datagram(2, LOW_DELAY, number), now);
        }
        let (_, [_, low_delay, _]) = emulation.class_uses().next().expect("a link has classes");
        left.push(low_delay.dequeued);
    }
    assert!((495..=501).contains(&left[0]), "{left:?}");
    assert!(left.windows(2).all(|left| (248..=252).contains(&(left[1] - left[0]))), "{left:?}");
}

#[test]
fn what_has_no_room_after_a_change_is_lost() {
    let mut emulation = with_classes(CLASSES);
    for number in 0..100 {
        emulation.send(ALICE, &classed_datagram(1, 0, number), at(0));
    }
    let mut link = emulation.network.links[0].clone();
    let (small, same) = (CLASSES.replace("100 kB", "5 kB"), (link.from, link.to));
    let links = with_classes(&small).network.links;
    link = links.into_iter().find(|link| (link.from, link.to) == same).expect("the same link");
    emulation.set_link(link, at(1_000));
    // One packet is in transmission, and the high-rate class has the part of 5 kB that the
    // other class leaves.
    assert!((89..=95).contains(&emulation.counters().lost), "{:?}", emulation.counters());
    assert_eq!(arrivals(&mut emulation, at(9_000_000)).len() as u64, 100 - emulation.counters().lost);
    let mut without_classes = with_classes(CLASSES);
    (0..100).for_each(|number| without_classes.send(ALICE, &classed_datagram(1, 0, number), at(0)));
    let mut link = without_classes.network.links[0].clone();
    link.link.scheduling = None;
    without_classes.set_link(link, at(1_000));
    without_classes.send(ALICE, &classed_datagram(1, 0, 7), at(1_500));
    assert_eq!(arrivals(&mut without_classes, at(9_000_000)), [(at(3_500), 7)], "there is no queue any more");
    assert_eq!((without_classes.counters().lost, without_classes.in_flight()), (100, 0));
}

#[test]
fn what_is_queued_is_dropped_when_the_time_of_the_scenario_begins() {
    let mut emulation = with_classes(CLASSES);
    let arrived = overload(&mut emulation, 0, 100);
    assert!(!arrived.is_empty() && emulation.queued.len() > 0);
    emulation.restart(at(100_000));
    assert_eq!((emulation.in_flight(), emulation.deadline(), emulation.next(at(9_000_000))), (0, None, None));
    assert!(emulation.class_uses().all(|(_, uses)| uses.iter().all(|class| class.offered == 0)));
    emulation.send(ALICE, &classed_datagram(1, 0, 7), at(0));
    assert_eq!(arrivals(&mut emulation, at(9_000_000)), [(at(4_000), 7)]);
}

#[test]
fn what_waits_is_bounded_as_what_is_under_way_is() {
    let mut emulation = with_classes(&CLASSES.replace("100 kB", "100 MB"));
    for _ in 0..IN_FLIGHT_MAX + 10 {
        emulation.send(ALICE, &packet(2, 20), at(0));
    }
    assert!(emulation.in_flight() <= IN_FLIGHT_MAX + 1);
    assert!((10..=11).contains(&emulation.counters().overflowed), "{:?}", emulation.counters());
}

#[test]
fn marks_are_written_into_headers_whose_checksum_stays_right() {
    let mut emulation = with_classes(&CLASSES.replace("\"30 ms\"", "\"200 ms\", ecn = true"));
    let mut marks = 0;
    for number in 0..400 {
        let now = at(u64::from(number) * 1_000);
        emulation.send(ALICE, &classed_datagram(2, LOW_DELAY | 2, number), now);
        while let Some(Arrival { packet, .. }) = emulation.next(now) {
            marks += u64::from(packet[1] == LOW_DELAY | 3);
            assert!([LOW_DELAY | 2, LOW_DELAY | 3].contains(&packet[1]));
            let words = packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum: u32 = words.sum();
            assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
        }
    }
    let (_, [_, low_delay, _]) = emulation.class_uses().next().expect("a link has classes");
    assert!(marks > 10 && low_delay.marked >= marks, "{marks} of {low_delay:?}");
}

mod beside_the_simulator {
    use core::net::SocketAddr;

    use byway_sim::{Datagram, Host, Link, Marks, Script, Transmit, World};

    use super::*;

    /// Host that sends scheduled packets and records arrivals.
    #[derive(Default)]
    struct TestHost {
        to_send: Vec<(u16, u8, u16)>,
        payload: Vec<u8>,
        received: Vec<(Time, u16)>,
    }

    impl Host for TestHost {
        fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
            self.received.push((now, u16::from_be_bytes([datagram.payload[0], datagram.payload[1]])));
        }

        fn wake(&mut self, _now: Time) {}

        fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
            let (port, dscp, number) = self.to_send.pop()?;
            self.payload = vec![0; 472];
            self.payload[..2].copy_from_slice(&number.to_be_bytes());
            Some(Transmit {
                source: Some(SocketAddr::from(([10, 77, 0, 1], port))),
                destination: SocketAddr::from(([10, 77, 0, 2], 9)),
                marks: Marks { dscp, flow_label: 0 },
                ecn: Ecn::NotCapable,
                payload: &self.payload,
            })
        }

        fn deadline(&self) -> Option<Time> {
            None
        }
    }

    /// Returns the packets to send, with time, port, DSCP and number: bursts of several flows
    /// in both classes.
    fn packets_to_send() -> Vec<(Time, u16, u8, u16)> {
        let mut steps = 0;
        let packet = |number: u16| {
            steps += u64::from(number * 7 % 5);
            let dscp = if number.is_multiple_of(3) { 45 } else { 0 };
            // Packets are never sent at a time at which another one leaves, because the order
            // of these events is undefined.
            (Time::START + Duration::from_nanos(400_001) * steps, 1 + number % 7, dscp, number)
        };
        (0..3_000).map(packet).collect()
    }

    /// Time of the link's change, at which no other event occurs.
    const CHANGES_AT: Time = Time::from_nanos(1_000_000_007);

    fn simulated(link: &Link, then: Link) -> Vec<(Time, u16)> {
        let mut world: World<Script<TestHost>> = World::new(Seed::new(1), ());
        let alice = world.add(TestHost::default(), SocketAddr::from(([10, 77, 0, 1], 1)));
        let bob = world.add(TestHost::default(), SocketAddr::from(([10, 77, 0, 2], 9)));
        world.connect(alice, bob, link.clone());
        for (time, port, dscp, number) in packets_to_send() {
            world.at(time, move |world| {
                world.input(alice, |host, _now| host.to_send.push((port, dscp, number)));
            });
        }
        world.at(CHANGES_AT, move |world| world.connect(alice, bob, then));
        world.run_for(Duration::from_secs(20), &mut Script::new());
        world.host(bob).received.clone()
    }

    /// Returns the arrivals of an emulation whose link is replaced by another one during the
    /// run.
    fn emulated(text: &str, then: &Link) -> Vec<(Time, u16)> {
        let mut emulation = with_classes(text);
        let mut arrived = Vec::new();
        let mut then = Some(NetworkLink { from: ALICE, to: BOB, link: then.clone() });
        for (time, port, dscp, number) in packets_to_send() {
            if let Some(link) = then.take_if(|_| time > CHANGES_AT) {
                arrived.extend(arrivals(&mut emulation, CHANGES_AT));
                emulation.set_link(link, CHANGES_AT);
            }
            arrived.extend(arrivals(&mut emulation, time));
            emulation.send(ALICE, &classed_datagram(port, dscp << 2, number), time);
        }
        arrived.extend(arrivals(&mut emulation, at(20_000_000)));
        arrived
    }

    fn forth(text: &str) -> Link {
        let links = with_classes(text).network.links;
        let forth = links.into_iter().find(|link| (link.from, link.to) == (ALICE, BOB));
        forth.expect("they are joined").link
    }

    #[test]
    fn the_same_packets_arrive_at_the_same_instants_also_when_a_rate_changes() {
        for kind in ["drop-tail", "rate-delay", "priority", "fq-codel"] {
            let text = format!(
                r#"
title = "Two machines"
length = "10 s"
node = [{{ name = "alice", role = "agent" }}, {{ name = "bob", role = "agent" }}]
link = [{{ between = ["alice", "bob"], rate = "4 Mbit/s", delay = "3 ms", loss = [{{ share = "1 %" }}], classes = {{ kind = "{kind}" }} }}]
"#
            );
            let then = forth(&text.replace("4 Mbit/s", "2 Mbit/s"));
            let emulated = emulated(&text, &then);
            let simulated = simulated(&forth(&text), then);
            assert!((1_000..2_990).contains(&simulated.len()), "{kind}: {}", simulated.len());
            let first = simulated.iter().zip(&emulated).position(|(one, other)| one != other);
            assert_eq!((first, simulated.len()), (None, emulated.len()), "{kind}");
        }
    }
}

#[test]
fn what_is_for_nobody_is_counted() {
    let mut emulation = emulation();
    emulation.send(ALICE, &packet(9, 100), at(0));
    emulation.send(ALICE, &packet(3, 100), at(0));
    emulation.send(ALICE, b"hello", at(0));
    assert_eq!(emulation.next(at(1_000_000)), None);
    assert_eq!(emulation.counters().unroutable, 3);
}
