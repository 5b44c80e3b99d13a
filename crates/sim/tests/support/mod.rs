//! Test host that sends what a test queues, and records received datagrams.
#![allow(dead_code, reason = "each test binary uses another part of it")]

use std::collections::VecDeque;
use std::net::SocketAddr;

use byway_sim::{Datagram, Ecn, Host, Marks, NodeId, Observer, Script, Transmit};
use byway_units::{Duration, Time};

/// The address `192.0.2.host:7`.
pub(crate) fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 7))
}

pub(crate) fn millis(millis: u64) -> Time {
    Time::START + Duration::from_millis(millis)
}

/// Datagram that a probe received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedDatagram {
    pub(crate) time: Time,
    pub(crate) source: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

/// Datagram that a probe will send.
#[derive(Clone, Debug)]
pub(crate) struct QueuedDatagram {
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

impl QueuedDatagram {
    pub(crate) fn new(destination: SocketAddr, payload: &[u8]) -> Self {
        Self { source: None, destination, ecn: Ecn::NotCapable, payload: payload.to_vec() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct TestHost {
    pub(crate) queue: VecDeque<QueuedDatagram>,
    pub(crate) received: Vec<ReceivedDatagram>,
    pub(crate) deadline: Option<Time>,
    /// Interval by which a wake-up advances the deadline; without it, the deadline is removed.
    pub(crate) period: Option<Duration>,
    pub(crate) woken: Vec<Time>,
    /// True to echo every received datagram.
    pub(crate) echoes: bool,
    pub(crate) sending: Vec<u8>,
}

impl Host for TestHost {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        let Datagram { source, ecn, payload, .. } = datagram;
        if self.echoes {
            self.queue.push_back(QueuedDatagram::new(source, payload));
        }
        self.received.push(ReceivedDatagram { time: now, source, ecn, payload: payload.to_vec() });
        payload.fill(0xff);
    }

    fn wake(&mut self, now: Time) {
        self.woken.push(now);
        self.deadline = self.period.map(|period| now + period);
    }

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        let QueuedDatagram { source, destination, ecn, payload } = self.queue.pop_front()?;
        self.sending = payload;
        Some(Transmit { source, destination, marks: Marks::default(), ecn, payload: &self.sending })
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }
}

impl TestHost {
    pub(crate) fn times(&self) -> Vec<Time> {
        self.received.iter().map(|received| received.time).collect()
    }

    pub(crate) fn payloads(&self) -> Vec<&[u8]> {
        self.received.iter().map(|received| &received.payload[..]).collect()
    }
}

pub(crate) type World<O = ()> = byway_sim::World<Script<TestHost, O>>;

/// Runs the world until an instant.
pub(crate) fn run<O: Observer>(world: &mut World<O>, until: Time) {
    world.run_until(until, &mut Script::new());
}

/// Schedules a datagram of a node at an instant.
pub(crate) fn send<O: Observer>(world: &mut World<O>, at: Time, from: NodeId, order: QueuedDatagram) {
    world.at(at, move |world| {
        world.input(from, |host, _now| host.queue.push_back(order));
    });
}
