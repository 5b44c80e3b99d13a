//! Example: a call of 50 marked packets a second to a peer, with reports of its true loss and its
//! repairs.
//!
//! ```text
//! call network.txt alice alice.key bob       # calls Bob's "call" for ten seconds
//! call network.txt alice alice.key bob 60    # the same for 60 seconds
//! call network.txt bob bob.key               # exposes "call", and returns all datagrams
//! ```
//!
//! `docs/client.md` has a network for it. Its file has lines such as
//!
//! ```text
//! relay east 1 <public key> 127.0.0.1:4600
//! agent alice 1 <public key> 127.0.0.1:4610 east
//! pair alice bob
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program has files, a socket and a clock"
)]
#![allow(clippy::print_stdout, reason = "it tells people")]

use std::error::Error;
use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use byway_client::{
    Client, Clock, Driver, DriverOutput, Event, FlowPair, Identity, Network, NetworkAgent, NetworkPair,
    NetworkRelay, Registration,
};
use byway_units::Time;

const PACKET_EVERY: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [file, name, key] => answer(driver(file, name, key)?),
        [file, name, key, peer] => call(driver(file, name, key)?, peer, 10),
        [file, name, key, peer, seconds] => call(driver(file, name, key)?, peer, seconds.parse()?),
        _ => Err("usage: call NETWORK-FILE NAME KEY-FILE [PEER [SECONDS]]".into()),
    }
}

fn driver(file: &str, name: &str, key: &str) -> Result<Driver, Box<dyn Error>> {
    let network = network(&std::fs::read_to_string(file)?)?;
    let secret = std::fs::read_to_string(key)?.trim().parse()?;
    let mut seed = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    let clock = Clock::start();
    let identity = Identity::new(name, secret, seed, clock.started_unix_nanos());
    let own =
        network.agents.iter().find(|agent| agent.name == name).and_then(|agent| agent.addresses.first());
    let listen: SocketAddr = own.copied().unwrap_or(([0, 0, 0, 0], 0).into());
    let client = Client::new(identity, &network, clock.now())?;
    Ok(Driver::new(client, UdpSocket::bind(listen)?, clock)?)
}

fn network(text: &str) -> Result<Network, Box<dyn Error>> {
    let mut network = Network::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["relay", name, number, key, address] => network.relays.push(NetworkRelay {
                name: name.to_owned(),
                number: number.parse()?,
                key: key.parse()?,
                addresses: vec![address.parse()?],
                shards: 1,
            }),
            ["agent", name, number, key, address, relay] => network.agents.push(NetworkAgent {
                name: name.to_owned(),
                number: number.parse()?,
                key: key.parse()?,
                addresses: vec![address.parse()?],
                relays: vec![relay.to_owned()],
            }),
            ["pair", one, other] => {
                network.pairs.push(NetworkPair { agents: [one.to_owned(), other.to_owned()], group: 1 });
            }
            _ => return Err(format!("invalid line of the network: {line}").into()),
        }
    }
    Ok(network)
}

/// Exposes "call" to all peers, and sends every datagram back.
fn answer(mut driver: Driver) -> Result<(), Box<dyn Error>> {
    driver.input(|client, _| client.expose("call", None))?;
    println!("waiting for calls");
    loop {
        driver.step(Duration::from_secs(1))?;
        let mut back: Vec<(FlowPair, Vec<u8>)> = Vec::new();
        while let Some(received) = driver.poll() {
            match received {
                DriverOutput::Delivered { flow, datagram, .. } => back.push((flow, datagram.to_vec())),
                DriverOutput::Event(event) => println!("{event:?}"),
            }
        }
        for (flow, datagram) in back {
            driver.send(flow, &datagram, true)?;
        }
    }
}

/// Registers flows to a peer, sends 50 packets a second for `seconds` seconds, and prints reports.
fn call(mut driver: Driver, peer: &str, seconds: u32) -> Result<(), Box<dyn Error>> {
    // Packets are useful for 150 ms, so later repairs are pointless.
    let wanted =
        Registration { latency_budget: byway_units::Duration::from_millis(150), ..Registration::default() };
    wait_for(&mut driver, |event| matches!(event, Event::PeerEstablished(_)))?;
    let flow = driver.input(|client, now| client.register(peer, "call", &wanted, now))?;
    wait_for(&mut driver, |event| event == Event::Accepted(flow))?;

    let begun = driver.now();
    let second = byway_units::Duration::from_secs(1);
    let (mut sent, mut back, mut next_report) = (0_u32, 0_u32, begun + second);
    while sent < seconds * 50 {
        driver.send(flow, &packet(sent), true)?;
        sent += 1;
        back += wait_until(&mut driver, begun + byway_units::Duration::try_from(PACKET_EVERY * sent)?)?;
        if driver.now() >= next_report {
            next_report += second;
            print_report(&driver, flow, sent, back);
        }
    }
    // The peer's last report arrives within a second.
    let end = driver.now() + second;
    back += wait_until(&mut driver, end)?;
    print_report(&driver, flow, sent, back);
    driver.input(Client::leave);
    wait_for(&mut driver, |event| event == Event::Left)
}

fn packet(number: u32) -> [u8; 160] {
    let mut packet = [0; 160];
    packet[..4].copy_from_slice(&number.to_be_bytes());
    packet
}

/// Runs the driver until `end`. Returns the number of datagrams delivered.
fn wait_until(driver: &mut Driver, end: Time) -> Result<u32, Box<dyn Error>> {
    let mut delivered = 0;
    while driver.now() < end {
        driver.step(end.saturating_since(driver.now()).into())?;
        while let Some(received) = driver.poll() {
            delivered += u32::from(matches!(received, DriverOutput::Delivered { .. }));
        }
    }
    Ok(delivered)
}

/// Runs the driver until an event for which `is_it` is true.
fn wait_for(driver: &mut Driver, is_it: impl Fn(Event) -> bool) -> Result<(), Box<dyn Error>> {
    loop {
        driver.step(Duration::from_secs(1))?;
        while let Some(received) = driver.poll() {
            match received {
                DriverOutput::Event(event) if is_it(event) => return Ok(()),
                DriverOutput::Event(Event::Refused { refusal, .. }) => {
                    return Err(format!("the peer refused the flows: {refusal:?}").into());
                }
                DriverOutput::Event(event) => println!("{event:?}"),
                DriverOutput::Delivered { .. } => {}
            }
        }
    }
}

fn print_report(driver: &Driver, flow: FlowPair, sent: u32, back: u32) {
    let Some(report) = driver.client().report(flow) else {
        return;
    };
    if let Some(there) = report.sent {
        println!(
            "{}: sent {sent}, lost {} ({}.{:02} %), repaired {}, late {}; echoed {back}, {} of them repaired",
            report.status.service.name(),
            there.counted.lost,
            there.lost_per_million() / 10_000,
            there.lost_per_million() / 100 % 100,
            there.repaired(),
            there.counted.late,
            report.received.repaired(),
        );
    }
}
