//! Tests of machines in network namespaces over emulated links; skipped if the kernel refuses them.

#![allow(clippy::disallowed_types, reason = "sockets are what is tried")]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration as RealDuration;

use byway_lab::{EmulationReport, EmulatorThread, LabError, Machine, addresses};
use byway_net::Clock;
use byway_scenario::{Network, NetworkChange, Scenario};
use byway_units::{Duration, Time};

/// Two machines with 30 ms between them through a router. After a millisecond the link between the
/// router and the second machine is cut.
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
    { between = ["gate", "bob"], delay = "20 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "internet", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
step = [
    { at = "1 ms", do = "cut", between = ["gate", "bob"] },
]
"#;

const PORT: u16 = 7_000;

struct Lab {
    machines: Vec<Machine>,
    emulator: EmulatorThread,
    clock: Clock,
    network: Network,
}

/// Makes both machines and the emulator; `None` if the kernel refuses them.
fn lab() -> Option<Lab> {
    let network = Scenario::parse(SCENARIO).expect("a scenario").network(1).expect("all are joined");
    let all: Vec<[IpAddr; 2]> = (0..3).map(addresses).collect();
    let (mut machines, mut devices) = (Vec::new(), Vec::new());
    for addresses in &all[..2] {
        match Machine::new(*addresses) {
            Ok((machine, device)) => {
                machines.push(machine);
                devices.push(Some(device));
            }
            Err(LabError::Machine(error)) => {
                eprintln!("skipped: the kernel makes no machine: {error}");
                return None;
            }
            Err(other) => panic!("{other}"),
        }
    }
    devices.push(None);
    let addresses: Vec<Vec<IpAddr>> = all.iter().map(|of| of.to_vec()).collect();
    let clock = Clock::start();
    let carrier =
        EmulatorThread::start(network.clone(), devices, &addresses, &[], 1, clock, None).expect("a thread");
    Some(Lab { machines, emulator: carrier, clock, network })
}

/// Opens a socket within a machine.
fn socket(machine: &Machine, address: IpAddr) -> UdpSocket {
    let socket = machine.run(move || UdpSocket::bind((address, PORT)).expect("it has this address"));
    socket.set_read_timeout(Some(RealDuration::from_secs(10))).expect("more than nothing");
    socket
}

fn round_trip(lab: &Lab, version: usize) -> (Time, Time) {
    let [alice, bob] = [0, 1].map(|index| socket(&lab.machines[index], addresses(index)[version]));
    let sent = lab.clock.now();
    alice.send_to(b"ping", SocketAddr::new(addresses(1)[version], PORT)).expect("it is sent");
    let mut buffer = [0; 100];
    let (length, from) = bob.recv_from(&mut buffer).expect("it comes");
    assert_eq!((&buffer[..length], from.ip()), (&b"ping"[..], addresses(0)[version]));
    bob.send_to(b"pong", from).expect("it is sent");
    assert_eq!(alice.recv(&mut buffer).expect("it comes"), 4);
    (sent, lab.clock.now())
}

#[test]
fn datagrams_take_the_time_of_their_links_in_both_versions_of_ip() {
    let Some(lab) = lab() else { return };
    for version in [0, 1] {
        let (sent, received) = round_trip(&lab, version);
        // A busy machine may take longer, but none takes less.
        assert!(received.saturating_since(sent) >= Duration::from_millis(60), "{sent} to {received}");
    }
    let EmulationReport { counters, lateness, .. } = lab.emulator.stop().expect("no device failed");
    assert!(counters.delivered >= 4 && lateness.summary().packets >= 4, "{counters:?}");
}

#[test]
fn a_link_that_is_cut_carries_nothing() {
    let Some(lab) = lab() else { return };
    round_trip(&lab, 0);
    let NetworkChange::Links(links) = lab.network.steps[0].change.clone() else {
        panic!("the step cuts links");
    };
    // The cut takes effect at its time.
    while lab.clock.now() < Time::START + lab.network.steps[0].at {
        std::thread::yield_now();
    }
    lab.emulator.change(links);
    let [alice, bob] = [0, 1].map(|index| socket(&lab.machines[index], addresses(index)[0]));
    bob.set_read_timeout(Some(RealDuration::from_millis(300))).expect("more than nothing");
    alice.send_to(b"ping", SocketAddr::new(addresses(1)[0], PORT)).expect("it is sent");
    assert!(bob.recv(&mut [0; 100]).is_err());
    assert!(lab.emulator.stop().expect("no device failed").counters.lost >= 1);
}

#[test]
fn machines_do_not_see_each_others_sockets() {
    let Some(lab) = lab() else { return };
    let here = socket(&lab.machines[0], addresses(0)[0]);
    let bound = lab.machines[1].run(|| UdpSocket::bind((addresses(0)[0], PORT)).map(|_| ()));
    assert!(bound.is_err(), "it has another address");
    let free = lab.machines[1].run(|| UdpSocket::bind((addresses(1)[0], PORT)).map(|_| ()));
    assert!(free.is_ok(), "{free:?}");
    drop(here);
}
