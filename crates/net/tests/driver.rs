//! Tests of roles on real sockets, over loopback. They wait only for events that must occur, never
//! for a time.

#![allow(clippy::disallowed_types, reason = "the peers of these tests are plain sockets")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};

use byway_net::{
    Arrival, Clock, ControlError, Handle, Io, IoCounters, OverlaySockets, Role, SocketId, ThreadError, spawn,
};
use byway_proto::{LocalAddress, Priority, Transmit};
use byway_units::{Duration, Time};
use byway_wire::Ecn;

/// Only for a test that fails.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

/// Report of a scripted role.
#[derive(Debug, PartialEq, Eq)]
enum PuppetReport {
    Started,
    Received { socket: SocketId, from: SocketAddr, bytes: Vec<u8> },
    Woken { at: Time },
    Opened { socket: SocketId, address: SocketAddr },
    Counted(Box<IoCounters>),
}

/// Command to a scripted role.
#[derive(Debug)]
enum Command {
    Send {
        socket: SocketId,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    WakeAfter(Duration),
    Open,
    /// Closes the next socket that receives a datagram.
    CloseOnArrival,
    Count,
    Nothing,
    Panic,
    Finish {
        last_words_to: Option<SocketAddr>,
    },
}

/// A role that executes commands, and reports its events.
struct ScriptedRole {
    reports: Sender<PuppetReport>,
    deadline: Option<Time>,
    closes: bool,
    is_finished: bool,
}

impl ScriptedRole {
    fn report(&self, reports: PuppetReport) {
        self.reports.send(reports).expect("the test listens");
    }
}

impl Role for ScriptedRole {
    type Control = Command;

    fn start(&mut self, _: &mut Io) {
        self.report(PuppetReport::Started);
    }

    fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        let Arrival { socket, from, bytes, .. } = arrival;
        if self.closes {
            io.close(socket);
        }
        self.report(PuppetReport::Received { socket, from, bytes: bytes.to_vec() });
    }

    fn on_deadline(&mut self, io: &mut Io) {
        assert!(self.deadline.take().is_some_and(|deadline| deadline <= io.now()), "not before the deadline");
        self.report(PuppetReport::Woken { at: io.now() });
    }

    fn on_control(&mut self, order: Command, io: &mut Io) {
        match order {
            Command::Send { socket, to, bytes } => io.send(socket, &source_packet(to, &bytes)),
            Command::WakeAfter(duration) => self.deadline = Some(io.now() + duration),
            Command::Open => {
                let socket = io.open(loopback()).expect("the limit of descriptors is far");
                let address = io.local_address(socket).expect("it is open");
                self.report(PuppetReport::Opened { socket, address });
            }
            Command::CloseOnArrival => self.closes = true,
            Command::Count => self.report(PuppetReport::Counted(Box::new(*io.counters()))),
            Command::Nothing => {}
            Command::Panic => panic!("as told"),
            Command::Finish { last_words_to } => {
                if let Some(to) = last_words_to {
                    io.send(SocketId::OVERLAY, &source_packet(to, b"last words"));
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

fn source_packet(to: SocketAddr, bytes: &[u8]) -> Transmit<'_> {
    Transmit { to, from: LocalAddress::ANY, ecn: Ecn::NotCapable, priority: Priority::Source, bytes }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn peer() -> (UdpSocket, SocketAddr) {
    let peer = UdpSocket::bind(loopback()).expect("a port is free");
    peer.set_read_timeout(Some(TIMEOUT)).expect("not zero");
    let address = peer.local_addr().expect("it is bound");
    (peer, address)
}

struct TestDriver {
    handle: Handle<Command>,
    reports: Receiver<PuppetReport>,
    address: SocketAddr,
}

impl TestDriver {
    fn new() -> Self {
        let sockets = OverlaySockets::bind(&[loopback()]).expect("a port is free");
        let address = sockets.addresses()[0];
        let (tell, reports) = channel();
        let puppet = ScriptedRole { reports: tell, deadline: None, closes: false, is_finished: false };
        let handle = spawn("puppet", sockets, puppet, Clock::start()).expect("the kernel gives a thread");
        let stage = Self { handle, reports, address };
        assert_eq!(stage.next(), PuppetReport::Started);
        stage
    }

    fn order(&self, order: Command) {
        self.handle.control(order).expect("few wait");
    }

    fn next(&self) -> PuppetReport {
        self.reports.recv_timeout(TIMEOUT).expect("the puppet tells something")
    }

    fn open(&self) -> (SocketId, SocketAddr) {
        self.order(Command::Open);
        match self.next() {
            PuppetReport::Opened { socket, address } => (socket, address),
            other => panic!("{other:?}"),
        }
    }

    fn counters(&self) -> IoCounters {
        self.order(Command::Count);
        match self.next() {
            PuppetReport::Counted(counters) => *counters,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn datagrams_come_to_the_role_and_go_where_it_sends_them() {
    let stage = TestDriver::new();
    let (peer, address) = peer();
    for bytes in [&b"first"[..], b"", b"third"] {
        peer.send_to(bytes, stage.address).unwrap();
        let received =
            PuppetReport::Received { socket: SocketId::OVERLAY, from: address, bytes: bytes.to_vec() };
        assert_eq!(stage.next(), received);
    }
    stage.order(Command::Send { socket: SocketId::OVERLAY, to: address, bytes: b"answer".to_vec() });
    let mut bytes = [0; 10];
    assert_eq!(peer.recv_from(&mut bytes).unwrap(), (6, stage.address));
    let counters = stage.counters();
    assert_eq!((counters.received, counters.received_bytes), (3, 10));
    assert_eq!((counters.sent, counters.sent_bytes, counters.send_calls), (1, 6, 1));
}

#[test]
fn deadlines_wake_the_role_and_not_before() {
    let stage = TestDriver::new();
    let mut last = Time::START;
    for micros in [0, 1, 700, 5_000] {
        stage.order(Command::WakeAfter(Duration::from_micros(micros)));
        let PuppetReport::Woken { at } = stage.next() else { panic!("nothing else happens") };
        assert!(at > last);
        last = at;
    }
    // A deadline that moves closer is not missed.
    stage.order(Command::WakeAfter(Duration::from_secs(3_600)));
    stage.order(Command::WakeAfter(Duration::from_micros(100)));
    assert!(matches!(stage.next(), PuppetReport::Woken { at } if at > last));
}

#[test]
fn a_deadline_is_kept_while_datagrams_come_and_controls_are_heard() {
    let stage = TestDriver::new();
    let (peer, address) = peer();
    // The role is never idle: each datagram makes it send one that triggers the next.
    stage.order(Command::WakeAfter(Duration::from_millis(3)));
    let mut received = 0;
    loop {
        peer.send_to(b"busy", stage.address).unwrap();
        match stage.next() {
            PuppetReport::Received { from, .. } if from == address => received += 1,
            PuppetReport::Woken { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(received > 0);
}

#[test]
fn a_role_that_is_finished_sends_its_last_words_and_ends_the_thread() {
    let stage = TestDriver::new();
    let (peer, address) = peer();
    assert!(stage.handle.is_running());
    let controls = stage.handle.controls();
    stage.order(Command::Finish { last_words_to: Some(address) });
    stage.handle.join().unwrap();
    assert_eq!(peer.recv(&mut [0; 20]).unwrap(), 10);
    assert!(matches!(controls.control(Command::Nothing), Err(ControlError::Ended(Command::Nothing))));
    // The port is free again.
    assert!(UdpSocket::bind(stage.address).is_ok());
}

#[test]
fn a_panic_in_the_thread_is_reported_by_whoever_joins() {
    let stage = TestDriver::new();
    stage.order(Command::Panic);
    let error = stage.handle.join().unwrap_err();
    assert_eq!(error.to_string(), "thread puppet panicked: as told");
    assert!(matches!(error, ThreadError::Panicked { .. }));
}

#[test]
fn many_controls_are_all_heard_and_too_many_are_given_back() {
    let stage = TestDriver::new();
    let mut refused = 0_u32;
    for _ in 0..100_000 {
        match stage.handle.control(Command::Nothing) {
            Ok(()) => {}
            Err(ControlError::Full(Command::Nothing)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    // The thread handles later controls, however many were rejected.
    while stage.handle.control(Command::Count).is_err() {
        refused += 1;
    }
    assert!(matches!(stage.next(), PuppetReport::Counted(_)), "{refused} were refused");
}

#[test]
fn thousands_of_sockets_receive_and_send_each_for_itself() {
    const SOCKETS: usize = 3_000;
    let stage = TestDriver::new();
    let (peer, address) = peer();
    let sockets: Vec<_> = (0..SOCKETS).map(|_| stage.open()).collect();
    for (socket, there) in sockets {
        peer.send_to(b"ping", there).unwrap();
        let received = PuppetReport::Received { socket, from: address, bytes: b"ping".to_vec() };
        assert_eq!(stage.next(), received);
        stage.order(Command::Send { socket, to: address, bytes: b"pong".to_vec() });
        assert_eq!(peer.recv_from(&mut [0; 10]).unwrap(), (4, there));
    }
    assert_eq!(stage.counters().sent, SOCKETS as u64);
}

#[test]
fn a_socket_that_is_closed_while_its_datagrams_are_handled_receives_no_more() {
    let stage = TestDriver::new();
    let (peer, _) = peer();
    let (socket, there) = stage.open();
    let (other, there_too) = stage.open();
    stage.order(Command::CloseOnArrival);
    // The answer shows that the thread has handled this control.
    stage.counters();
    // Later datagrams are dropped, whether the role has them already or not.
    for _ in 0..10 {
        let _ = peer.send_to(b"knock", there);
    }
    assert!(matches!(stage.next(), PuppetReport::Received { socket: found, .. } if found == socket));
    peer.send_to(b"knock", there_too).unwrap();
    assert!(matches!(stage.next(), PuppetReport::Received { socket: found, .. } if found == other));
    assert_eq!(stage.counters().received, 2);
}
