//! Two drivers on real sockets of this machine, IPv4 and IPv6.
#![cfg(feature = "sockets")]
#![allow(clippy::disallowed_types, reason = "drivers have sockets")]

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use byway_client::{
    Client, Clock, Driver, DriverOutput, Event, FlowPair, Identity, Network, NetworkAgent, NetworkPair,
    Registration,
};
use byway_wire::seal::StaticSecret;

/// More steps than any of these tests needs: a guard, not a measurement.
const STEPS_MAX: usize = 10_000;

fn drivers(host: &str) -> [Driver; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind((host, 0)).expect("the machine has it"));
    let addresses = [0, 1].map(|index: usize| sockets[index].local_addr().expect("it is bound"));
    let secrets = [1, 2].map(|byte| StaticSecret::from_bytes([byte; 32]));
    let agent = |name: &str, number: u32, secret: &StaticSecret, address: SocketAddr| NetworkAgent {
        name: name.to_owned(),
        number,
        key: secret.public_key(),
        addresses: vec![address],
        relays: vec![],
    };
    let network = Network {
        relays: vec![],
        agents: vec![
            agent("alice", 1, &secrets[0], addresses[0]),
            agent("bob", 2, &secrets[1], addresses[1]),
        ],
        pairs: vec![NetworkPair { agents: ["alice".to_owned(), "bob".to_owned()], group: 1 }],
    };
    let mut parts = ["alice", "bob"].into_iter().zip(secrets).zip(sockets);
    [(); 2].map(|()| {
        let ((name, secret), socket) = parts.next().expect("there are two");
        let clock = Clock::start();
        let identity = Identity::new(name, secret, [7; 32], clock.started_unix_nanos());
        let client = Client::new(identity, &network, clock.now()).expect("the network is good");
        Driver::new(client, socket, clock).expect("the socket is good")
    })
}

/// Steps both drivers until `find` returns a value for an output of the first one.
fn until<T>(
    drivers: &mut [Driver; 2],
    receiver: usize,
    mut find: impl FnMut(&DriverOutput<'_>) -> Option<T>,
) -> T {
    for _ in 0..STEPS_MAX {
        drivers[1 - receiver].step(Duration::ZERO).expect("it works");
        // A driver does not receive while outputs are pending.
        while drivers[1 - receiver].poll().is_some() {}
        drivers[receiver].step(Duration::from_millis(2)).expect("it works");
        while let Some(received) = drivers[receiver].poll() {
            if let Some(found) = find(&received) {
                return found;
            }
        }
    }
    panic!("it does not come");
}

fn datagram(received: &DriverOutput<'_>) -> Option<(FlowPair, Vec<u8>)> {
    match received {
        DriverOutput::Delivered { flow, datagram, .. } => Some((*flow, datagram.to_vec())),
        DriverOutput::Event(_) => None,
    }
}

fn exchange(host: &str) {
    let mut drivers = drivers(host);
    drivers[1].input(|bob, _| bob.expose("call", None)).expect("fewer names than the limit");
    let registration = Registration::default();
    let flow = drivers[0].input(|alice, now| alice.register("bob", "call", &registration, now));
    let flow = flow.expect("Bob is a peer");
    until(&mut drivers, 0, |received| {
        (*received == DriverOutput::Event(Event::Accepted(flow))).then_some(())
    });
    drivers[0].send(flow, b"hello?", false).expect("it is accepted");
    let (received_on, received_bytes) = until(&mut drivers, 1, datagram);
    assert_eq!(received_bytes, b"hello?");
    drivers[1].send(received_on, b"hello!", false).expect("it is open");
    assert_eq!(until(&mut drivers, 0, datagram), (flow, b"hello!".to_vec()));
    assert_eq!(drivers[0].unsent(), 0);
}

#[test]
fn two_drivers_talk_over_ipv4() {
    exchange("127.0.0.1");
}

#[test]
fn two_drivers_talk_over_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: this machine has no IPv6");
        return;
    }
    exchange("::1");
}

#[test]
fn a_loop_of_the_applications_own_has_a_socket_and_a_deadline() {
    let [mut alice, _bob] = drivers("127.0.0.1");
    assert!(alice.as_fd().as_raw_fd() >= 0);
    assert!(alice.local_address().port() != 0);
    assert!(alice.until_deadline().is_none(), "nothing is wanted yet");
    let registration = Registration::default();
    alice.input(|alice, now| alice.register("bob", "call", &registration, now)).expect("Bob is a peer");
    assert!(alice.until_deadline().is_some(), "the peer is to be asked again");
}
