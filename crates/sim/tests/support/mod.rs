//! A host that does as it is told and remembers what it saw.
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

/// What a probe received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) time: Time,
    pub(crate) source: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

/// What a probe is to send.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

impl Order {
    pub(crate) fn new(destination: SocketAddr, payload: &[u8]) -> Self {
        Self { source: None, destination, ecn: Ecn::NotCapable, payload: payload.to_vec() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Probe {
    pub(crate) orders: VecDeque<Order>,
    pub(crate) received: Vec<Received>,
    pub(crate) deadline: Option<Time>,
    /// At a wake-up, the deadline moves on by this; without it, there is none any more.
    pub(crate) period: Option<Duration>,
    pub(crate) woken: Vec<Time>,
    /// Sends back whatever comes.
    pub(crate) echoes: bool,
    pub(crate) sending: Vec<u8>,
}

impl Host for Probe {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        let Datagram { source, ecn, payload, .. } = datagram;
        if self.echoes {
            self.orders.push_back(Order::new(source, payload));
        }
        self.received.push(Received { time: now, source, ecn, payload: payload.to_vec() });
        payload.fill(0xff);
    }

    fn wake(&mut self, now: Time) {
        self.woken.push(now);
        self.deadline = self.period.map(|period| now + period);
    }

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        let Order { source, destination, ecn, payload } = self.orders.pop_front()?;
        self.sending = payload;
        Some(Transmit { source, destination, marks: Marks::default(), ecn, payload: &self.sending })
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }
}

impl Probe {
    pub(crate) fn times(&self) -> Vec<Time> {
        self.received.iter().map(|received| received.time).collect()
    }

    pub(crate) fn payloads(&self) -> Vec<&[u8]> {
        self.received.iter().map(|received| &received.payload[..]).collect()
    }
}

pub(crate) type World<O = ()> = byway_sim::World<Script<Probe, O>>;

/// Runs the world until an instant.
pub(crate) fn run<O: Observer>(world: &mut World<O>, until: Time) {
    world.run_until(until, &mut Script::new());
}

/// Has a node send a datagram at an instant.
pub(crate) fn send<O: Observer>(world: &mut World<O>, at: Time, from: NodeId, order: Order) {
    world.at(at, move |world| {
        world.input(from, |host, _now| host.orders.push_back(order));
    });
}
