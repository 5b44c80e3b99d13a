use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use byway_sim::{Datagram, Ecn, Host, Marks, Observer, Record, Script, Seed, Step, Transmit, World};
use byway_units::Time;

use super::description::{BurstDescription, Description, LinkDescription, NodeDescription};
use super::emulation::{Departure, Emulation, losses_at};
use super::log::PacketKind;
use crate::demo::clock::Instant;

const ORIGIN: Instant = Instant::from_nanos(5_000_000_000);
const INTERVAL_NS: u64 = 7_000_000;
const PACKETS: u64 = 3_000;

fn address(part: u8, last: u8) -> SocketAddr {
    ([127, 9, part, last], 4600).into()
}

fn node(name: &str, last: u8) -> NodeDescription {
    NodeDescription { name: name.into(), real: address(1, last), public: address(2, last) }
}

fn description(seed: u64) -> Description {
    let bursts = BurstDescription { loss: 0.05, mean_packets: 3.0, interval_us: INTERVAL_NS / 1_000 };
    let forth = LinkDescription {
        loss: 0.01,
        bursts: Some(bursts),
        outages_ms: vec![(2_000, 3_000)],
        ..LinkDescription::clean(0, 1, 50_000, 5_000)
    };
    let back = LinkDescription::clean(1, 0, 50_000, 0);
    Description { seed, nodes: vec![node("alice", 1), node("bob", 2)], links: vec![forth, back] }
}

fn payload(number: u64) -> Vec<u8> {
    let mut payload = vec![0; 40];
    payload[0] = 7;
    payload[7..11].copy_from_slice(&u32::try_from(number).expect("few packets").to_be_bytes());
    payload
}

/// Sends packets at these times after the origin, in steps of `tick` like a process that wakes up;
/// returns the departures.
fn emulated(emulation: &mut Emulation, times_ns: &[u64]) -> Vec<Departure> {
    let mut left = Vec::new();
    for (&time, number) in times_ns.iter().zip(0..) {
        let at = ORIGIN.plus_nanos(time);
        emulation.departures(at, |departure| left.push(departure));
        emulation.send(at, 0, address(2, 2), Ecn::Capable0, &payload(number));
    }
    emulation.departures(ORIGIN.plus_millis(60_000), |departure| left.push(departure));
    left
}

fn times() -> Vec<u64> {
    (0..PACKETS).map(|number| number * INTERVAL_NS).collect()
}

fn started(description: &Description) -> Emulation {
    let mut emulation = Emulation::new(description.clone(), Instant::from_nanos(1));
    emulation.start(ORIGIN).expect("a description that can be");
    emulation
}

/// Sends the same packets through a world in virtual time, and returns their arrival times.
fn simulated(description: &Description, times_ns: &[u64]) -> BTreeMap<u32, u64> {
    #[derive(Default)]
    struct Sink {
        to_send: Option<Vec<u8>>,
        sending: Vec<u8>,
    }
    impl Host for Sink {
        fn receive(&mut self, _: Datagram<'_>, _: Time) {}
        fn wake(&mut self, _: Time) {}
        fn transmit(&mut self, _: Time) -> Option<Transmit<'_>> {
            self.sending = self.to_send.take()?;
            let (destination, ecn) = (address(2, 2), Ecn::NotCapable);
            Some(Transmit { source: None, destination, marks: Marks::default(), ecn, payload: &self.sending })
        }
        fn deadline(&self) -> Option<Time> {
            None
        }
    }
    #[derive(Default)]
    struct Arrivals(BTreeMap<u32, u64>);
    impl Observer for Arrivals {
        fn packet(&mut self, record: &Record<'_>) {
            if record.step == Step::Delivered {
                let number = u32::from_be_bytes(record.payload[7..11].try_into().expect("four bytes"));
                self.0.insert(number, (record.time - Time::START).as_nanos());
            }
        }
    }
    let mut world = World::<Script<Sink, Arrivals>>::new(Seed::new(description.seed), Arrivals::default());
    let nodes = [1, 2].map(|last| world.add(Sink::default(), address(2, last)));
    world.connect(nodes[0], nodes[1], description.links[0].link().expect("a link"));
    for (&time, number) in times_ns.iter().zip(0..) {
        let from = nodes[0];
        world.at(Time::from_nanos(time), move |world| {
            world.input(from, |sink, _| sink.to_send = Some(payload(number)));
        });
    }
    world.run_until(Time::from_nanos(60_000_000_000), &mut Script::new());
    std::mem::take(&mut world.observer_mut().0)
}

#[test]
fn the_emulator_does_to_packets_what_the_simulator_does() {
    let description = description(7);
    let expected = simulated(&description, &times());
    let mut emulation = started(&description);
    let left = emulated(&mut emulation, &times());
    let found: BTreeMap<_, _> = left
        .iter()
        .map(|departure| {
            let number = u32::from_be_bytes(departure.payload[7..11].try_into().expect("four bytes"));
            (number, departure.due.nanos_since(ORIGIN))
        })
        .collect();
    assert_eq!(found, expected);
    assert!(expected.len() < 2_850 && expected.len() > 2_500, "{} of {PACKETS} arrived", expected.len());
    assert!(
        left.iter().all(|departure| (departure.from, departure.to, departure.ecn) == (0, 1, Ecn::Capable0))
    );
}

#[test]
fn losses_depend_on_the_time_since_the_start_and_not_on_what_was_before() {
    let description = description(3);
    let lost = |emulation: Emulation| {
        let log = emulation.into_log().expect("it was started");
        let (packets, _) = log.packets.into_parts();
        let lost = packets.iter().filter(|packet| packet.delivered_ns.is_none());
        lost.map(|packet| packet.sequence).collect::<Vec<_>>()
    };
    let mut one = started(&description);
    emulated(&mut one, &times());
    let mut other = Emulation::new(description.clone(), Instant::from_nanos(1_000));
    for number in 0..100 {
        other.send(Instant::from_nanos(number * 3_333), 1, address(2, 1), Ecn::NotCapable, b"set-up");
    }
    other.start(ORIGIN).expect("a description that can be");
    emulated(&mut other, &times());
    let lost = [lost(one), lost(other)];
    assert_eq!(lost[0], lost[1]);
    assert!(lost[0].len() > 150, "{} were lost", lost[0].len());
}

#[test]
fn before_the_start_nothing_is_lost_or_counted() {
    let mut emulation = Emulation::new(description(1), ORIGIN);
    assert_eq!(emulated(&mut emulation, &times()).len(), times().len());
    assert!(emulation.into_log().is_none());
}

#[test]
fn what_is_under_way_at_the_start_still_arrives() {
    let mut emulation = Emulation::new(description(1), Instant::from_nanos(0));
    emulation.send(Instant::from_nanos(0), 1, address(2, 1), Ecn::NotCapable, b"set-up");
    emulation.start(Instant::from_nanos(10)).expect("a description that can be");
    let mut left = Vec::new();
    emulation.departures(Instant::from_nanos(20), |departure| left.push(departure.payload));
    assert_eq!((left.len(), emulation.next_event()), (0, Some(Instant::from_nanos(50_000_000))));
    emulation.departures(Instant::from_nanos(50_000_000), |departure| left.push(departure.payload));
    assert_eq!(left, [b"set-up"]);
}

#[test]
fn what_would_be_lost_is_what_is_lost() {
    let description = description(5);
    let durations: Vec<_> = times().iter().map(|&nanos| byway_units::Duration::from_nanos(nanos)).collect();
    let predicted = losses_at(&description, 0, 1, &durations).expect("a description that can be");
    let arrived = simulated(&description, &times());
    let found: Vec<_> = (0..).take(times().len()).map(|number: u32| !arrived.contains_key(&number)).collect();
    assert_eq!(predicted, found);
}

#[test]
fn the_log_has_each_packet_once_and_links_add_up() {
    let mut emulation = started(&description(2));
    let left = emulated(&mut emulation, &times());
    emulation.send(ORIGIN.plus_millis(61_000), 0, address(2, 99), Ecn::NotCapable, b"nowhere");
    let log = emulation.into_log().expect("it was started");
    let (packets, left_out) = log.packets.into_parts();
    assert_eq!((packets.len(), left_out, log.unroutable), (times().len(), 0, 1));
    assert!(
        packets.iter().all(|packet| packet.kind == PacketKind::Source && (packet.from, packet.to) == (0, 1))
    );
    assert_eq!(packets.iter().filter(|packet| packet.delivered_ns.is_some()).count(), left.len());
    let (_, _, counters) = log.links[0];
    assert_eq!((counters.sent, counters.delivered), (PACKETS, left.len() as u64));
    assert_eq!(counters.sent_bytes.count(), PACKETS * 68);
}

#[test]
fn nodes_are_known_by_their_real_ip_address_whatever_the_port() {
    let emulation = Emulation::new(description(1), ORIGIN);
    let ip = |last| IpAddr::from([127, 9, 1, last]);
    assert_eq!([1, 2, 3].map(|last| emulation.node_at(ip(last))), [Some(0), Some(1), None]);
}

#[test]
fn a_description_survives_being_written_and_read() {
    let written = serde_json::to_string(&description(1)).expect("JSON");
    assert_eq!(serde_json::from_str::<Description>(&written).expect("a description"), description(1));
}
