//! Roles on real sockets, over loopback. Nothing here waits for a time: only for what must come.

#![allow(clippy::disallowed_types, reason = "the peers of these tests are plain sockets")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};

use byway_net::{
    Arrival, Clock, ControlError, EndError, Handle, Io, IoCounters, OverlaySockets, Role, SocketId, spawn,
};
use byway_proto::{LocalAddress, Transmit, Urgency};
use byway_units::{Duration, Time};
use byway_wire::Ecn;

/// Only for a test that fails.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// What a puppet tells.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Started,
    Received { socket: SocketId, from: SocketAddr, bytes: Vec<u8> },
    Woken { at: Time },
    Opened { socket: SocketId, address: SocketAddr },
    Counted(Box<IoCounters>),
}

/// What a puppet does.
#[derive(Debug)]
enum Order {
    Send {
        socket: SocketId,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    WakeAfter(Duration),
    Open,
    /// Closes the next socket that receives, when it does.
    CloseOnArrival,
    Count,
    Nothing,
    Panic,
    Finish {
        last_words_to: Option<SocketAddr>,
    },
}

/// A role that does as it is told, and tells what it sees.
struct Puppet {
    tell: Sender<Told>,
    deadline: Option<Time>,
    closes: bool,
    is_finished: bool,
}

impl Puppet {
    fn tell(&self, told: Told) {
        self.tell.send(told).expect("the test listens");
    }
}

impl Role for Puppet {
    type Control = Order;

    fn start(&mut self, _: &mut Io) {
        self.tell(Told::Started);
    }

    fn received(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        let Arrival { socket, from, bytes, .. } = arrival;
        if self.closes {
            io.close(socket);
        }
        self.tell(Told::Received { socket, from, bytes: bytes.to_vec() });
    }

    fn woken(&mut self, io: &mut Io) {
        assert!(self.deadline.take().is_some_and(|deadline| deadline <= io.now()), "not before the deadline");
        self.tell(Told::Woken { at: io.now() });
    }

    fn controlled(&mut self, order: Order, io: &mut Io) {
        match order {
            Order::Send { socket, to, bytes } => io.send(socket, &original(to, &bytes)),
            Order::WakeAfter(duration) => self.deadline = Some(io.now() + duration),
            Order::Open => {
                let socket = io.open(loopback()).expect("the limit of descriptors is far");
                let address = io.local_address(socket).expect("it is open");
                self.tell(Told::Opened { socket, address });
            }
            Order::CloseOnArrival => self.closes = true,
            Order::Count => self.tell(Told::Counted(Box::new(*io.counters()))),
            Order::Nothing => {}
            Order::Panic => panic!("as told"),
            Order::Finish { last_words_to } => {
                if let Some(to) = last_words_to {
                    io.send(SocketId::OVERLAY, &original(to, b"last words"));
                }
                self.is_finished = true;
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

fn original(to: SocketAddr, bytes: &[u8]) -> Transmit<'_> {
    Transmit { to, from: LocalAddress::ANY, ecn: Ecn::NotCapable, urgency: Urgency::Original, bytes }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn peer() -> (UdpSocket, SocketAddr) {
    let peer = UdpSocket::bind(loopback()).expect("a port is free");
    peer.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let address = peer.local_addr().expect("it is bound");
    (peer, address)
}

struct Stage {
    handle: Handle<Order>,
    told: Receiver<Told>,
    address: SocketAddr,
}

impl Stage {
    fn new() -> Self {
        let sockets = OverlaySockets::bind(&[loopback()]).expect("a port is free");
        let address = sockets.addresses()[0];
        let (tell, told) = channel();
        let puppet = Puppet { tell, deadline: None, closes: false, is_finished: false };
        let handle = spawn("puppet", sockets, puppet, Clock::start()).expect("the kernel gives a thread");
        let stage = Self { handle, told, address };
        assert_eq!(stage.next(), Told::Started);
        stage
    }

    fn order(&self, order: Order) {
        self.handle.control(order).expect("few wait");
    }

    fn next(&self) -> Told {
        self.told.recv_timeout(PATIENCE).expect("the puppet tells something")
    }

    fn open(&self) -> (SocketId, SocketAddr) {
        self.order(Order::Open);
        match self.next() {
            Told::Opened { socket, address } => (socket, address),
            other => panic!("{other:?}"),
        }
    }

    fn counters(&self) -> IoCounters {
        self.order(Order::Count);
        match self.next() {
            Told::Counted(counters) => *counters,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn datagrams_come_to_the_role_and_go_where_it_sends_them() {
    let stage = Stage::new();
    let (peer, address) = peer();
    for bytes in [&b"first"[..], b"", b"third"] {
        peer.send_to(bytes, stage.address).unwrap();
        let received = Told::Received { socket: SocketId::OVERLAY, from: address, bytes: bytes.to_vec() };
        assert_eq!(stage.next(), received);
    }
    stage.order(Order::Send { socket: SocketId::OVERLAY, to: address, bytes: b"answer".to_vec() });
    let mut bytes = [0; 10];
    assert_eq!(peer.recv_from(&mut bytes).unwrap(), (6, stage.address));
    let counters = stage.counters();
    assert_eq!((counters.received, counters.received_bytes), (3, 10));
    assert_eq!((counters.sent, counters.sent_bytes, counters.send_calls), (1, 6, 1));
}

#[test]
fn deadlines_wake_the_role_and_not_before() {
    let stage = Stage::new();
    let mut last = Time::START;
    for micros in [0, 1, 700, 5_000] {
        stage.order(Order::WakeAfter(Duration::from_micros(micros)));
        let Told::Woken { at } = stage.next() else { panic!("nothing else happens") };
        assert!(at > last);
        last = at;
    }
    // A deadline that moves nearer is not missed.
    stage.order(Order::WakeAfter(Duration::from_secs(3_600)));
    stage.order(Order::WakeAfter(Duration::from_micros(100)));
    assert!(matches!(stage.next(), Told::Woken { at } if at > last));
}

#[test]
fn a_deadline_is_kept_while_datagrams_come_and_controls_are_heard() {
    let stage = Stage::new();
    let (peer, address) = peer();
    // The puppet is never idle: each datagram that it is sent has it send one that lets the next follow.
    stage.order(Order::WakeAfter(Duration::from_millis(3)));
    let mut received = 0;
    loop {
        peer.send_to(b"busy", stage.address).unwrap();
        match stage.next() {
            Told::Received { from, .. } if from == address => received += 1,
            Told::Woken { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(received > 0);
}

#[test]
fn a_role_that_is_finished_sends_its_last_words_and_ends_the_thread() {
    let stage = Stage::new();
    let (peer, address) = peer();
    assert!(stage.handle.is_running());
    let controls = stage.handle.controls();
    stage.order(Order::Finish { last_words_to: Some(address) });
    stage.handle.join().unwrap();
    assert_eq!(peer.recv(&mut [0; 20]).unwrap(), 10);
    assert!(matches!(controls.control(Order::Nothing), Err(ControlError::Ended(Order::Nothing))));
    // The port is free again.
    assert!(UdpSocket::bind(stage.address).is_ok());
}

#[test]
fn a_panic_in_the_thread_is_reported_by_whoever_joins() {
    let stage = Stage::new();
    stage.order(Order::Panic);
    let error = stage.handle.join().unwrap_err();
    assert_eq!(error.to_string(), "the thread puppet panicked: as told");
    assert!(matches!(error, EndError::Panicked { .. }));
}

#[test]
fn many_controls_are_all_heard_and_too_many_are_given_back() {
    let stage = Stage::new();
    let mut refused = 0_u32;
    for _ in 0..100_000 {
        match stage.handle.control(Order::Nothing) {
            Ok(()) => {}
            Err(ControlError::Full(Order::Nothing)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    // However many were refused, the thread hears the next ones.
    while stage.handle.control(Order::Count).is_err() {
        refused += 1;
    }
    assert!(matches!(stage.next(), Told::Counted(_)), "{refused} were refused");
}

#[test]
fn thousands_of_sockets_receive_and_send_each_for_itself() {
    const SOCKETS: usize = 3_000;
    let stage = Stage::new();
    let (peer, address) = peer();
    let sockets: Vec<_> = (0..SOCKETS).map(|_| stage.open()).collect();
    for (socket, there) in sockets {
        peer.send_to(b"ping", there).unwrap();
        let received = Told::Received { socket, from: address, bytes: b"ping".to_vec() };
        assert_eq!(stage.next(), received);
        stage.order(Order::Send { socket, to: address, bytes: b"pong".to_vec() });
        assert_eq!(peer.recv_from(&mut [0; 10]).unwrap(), (4, there));
    }
    assert_eq!(stage.counters().sent, SOCKETS as u64);
}

#[test]
fn a_socket_that_is_closed_while_its_datagrams_are_handled_receives_no_more() {
    let stage = Stage::new();
    let (peer, _) = peer();
    let (socket, there) = stage.open();
    let (other, there_too) = stage.open();
    stage.order(Order::CloseOnArrival);
    // It has heard this when it answers.
    stage.counters();
    // Those that come after the first are dropped, whether the role has them already or not.
    for _ in 0..10 {
        let _ = peer.send_to(b"knock", there);
    }
    assert!(matches!(stage.next(), Told::Received { socket: found, .. } if found == socket));
    peer.send_to(b"knock", there_too).unwrap();
    assert!(matches!(stage.next(), Told::Received { socket: found, .. } if found == other));
    assert_eq!(stage.counters().received, 2);
}
