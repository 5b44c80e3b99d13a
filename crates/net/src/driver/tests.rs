use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;

use byway_proto::{LocalAddress, Priority, Transmit};
use byway_units::Time;

use super::*;
use crate::bind::OverlaySockets;
use crate::clock::Clock;
use crate::loopback::ipv4;

/// Role that echoes datagrams, or closes a socket at its first datagram.
struct Echo {
    closes: bool,
    application: Option<SocketId>,
}

impl Role for Echo {
    type Control = ();

    fn start(&mut self, io: &mut Io) {
        self.application = Some(io.open(ipv4()).unwrap());
    }

    fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        let Arrival { socket, from, to, traffic_class, bytes } = arrival;
        let ecn = traffic_class.ecn();
        if self.closes {
            return io.close(socket);
        }
        io.send(socket, &Transmit { to: from, from: to, ecn, priority: Priority::Source, bytes });
    }

    fn on_deadline(&mut self, _: &mut Io) {}

    fn on_control(&mut self, (): (), _: &mut Io) {}

    fn deadline(&self) -> Option<Time> {
        Some(Time::MAX)
    }

    fn is_finished(&self) -> bool {
        false
    }
}

fn echo(closes: bool) -> (Driver<Echo>, SocketAddr) {
    let sockets = OverlaySockets::bind(&[ipv4()]).unwrap();
    let address = sockets.addresses()[0];
    let (_, controls) = sync_channel(1);
    (
        Driver::new(Echo { closes, application: None }, Io::new(sockets, Clock::start()).unwrap(), controls),
        address,
    )
}

#[test]
fn a_turn_allocates_nothing_once_buffers_have_grown() {
    let ((mut one, _), (mut other, address)) = (echo(false), echo(false));
    for number in 0..32 {
        let bytes = [number; 900];
        let first = Transmit {
            to: address,
            from: LocalAddress::ANY,
            ecn: byway_wire::Ecn::Capable1,
            priority: Priority::Source,
            bytes: &bytes,
        };
        one.io.send(SocketId::OVERLAY, &first);
    }
    one.start();
    let mut turns = |count| {
        for _ in 0..count {
            other.turn().unwrap();
            one.turn().unwrap();
        }
    };
    turns(3);
    let allocations = allocation_counter::measure(|| turns(20));
    assert_eq!(allocations.count_total, 0);
    // Each turn waits for the datagrams of the other's turn.
    assert!(one.io.counters().received >= 23, "{:?}", one.io.counters());
}

#[test]
fn a_socket_that_is_closed_receives_no_more_of_its_batch() {
    let ((mut from, _), (mut to, _)) = (echo(false), echo(true));
    to.start();
    let socket = to.role.application.unwrap();
    let address = to.io.local_address(socket).unwrap();
    let ecn = byway_wire::Ecn::NotCapable;
    for _ in 0..10 {
        let transmit = Transmit {
            to: address,
            from: LocalAddress::ANY,
            ecn,
            priority: Priority::Source,
            bytes: b"knock",
        };
        from.io.send(SocketId::OVERLAY, &transmit);
    }
    from.io.flush();
    to.turn().unwrap();
    assert_eq!((to.io.counters().received, to.io.counters().dropped_closed), (1, 9));
}
