//! Clients and servers, a link in each direction, and the network state of both.

use std::sync::Arc;
use std::time::Instant;

use byway_quic::{Factory, Publisher, Subscription, channel};
use byway_state::{Path, SAMPLE_INTERVAL, Table};
use byway_units::{Bytes, Duration, Time};

use crate::link::{Datagram, TestLink};
use crate::node::{CLIENT_ADDRESS, Library, Observation, SERVER_ADDRESS, TestNode, connect};

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Resolution of timers, as in tokio.
const TIMER_STEP: Duration = Duration::from_millis(1);

/// Events of a run that never comes to its end.
const EVENTS_MAX: u64 = 1_000_000;

/// Client that sends without end, and its server.
struct TestConnection {
    nodes: [Box<dyn TestNode>; 2],
    /// Bytes that the server has read.
    delivered: Bytes,
}

/// Sample of the link from clients to servers.
struct TracePoint {
    at: Time,
    /// Bytes that have left, and that wait.
    sent: Bytes,
    backlog: Bytes,
    /// Bytes that each server has read.
    delivered: Vec<Bytes>,
}

/// Network in which clients send without end.
pub(crate) struct TestNetwork {
    start: Instant,
    now: Time,
    connections: Vec<TestConnection>,
    /// Links from the clients, and from the servers.
    pub(crate) links: [TestLink; 2],
    tables: [Table; 2],
    subscription: Subscription,
    /// Feed of the clients, unless it ended.
    pub(crate) publisher: Option<Publisher>,
    next_sample: Time,
    trace: Vec<TracePoint>,
}

impl TestNetwork {
    /// Begins with a client whose window follows from network state.
    pub(crate) fn new(library: Library) -> Self {
        let mut network = Self::empty();
        network.connect(library);
        network
    }

    /// Begins with a client that has the congestion control of its library.
    pub(crate) fn without_control(library: Library) -> Self {
        let mut network = Self::empty();
        network.add(library, None);
        network
    }

    fn empty() -> Self {
        let (publisher, subscription) = channel();
        let links = [0, 1].map(TestLink::new);
        let tables =
            links.each_ref().map(|link| Table::new(Path::new([link.id()]).expect("a link is a path")));
        Self {
            start: Instant::now(),
            now: Time::START,
            connections: Vec::new(),
            links,
            tables,
            subscription,
            publisher: Some(publisher),
            next_sample: Time::START + SAMPLE_INTERVAL,
            trace: Vec::new(),
        }
    }

    /// Adds a client whose window follows from network state.
    pub(crate) fn connect(&mut self, library: Library) {
        let factory = Factory::for_path(self.subscription.clone(), CLIENT_ADDRESS, SERVER_ADDRESS);
        self.add(library, Some(&factory));
    }

    fn add(&mut self, library: Library, factory: Option<&Arc<Factory>>) {
        let nodes = connect(library, factory, self.instant());
        self.connections.push(TestConnection { nodes, delivered: Bytes::ZERO });
        self.step();
    }

    fn instant(&self) -> Instant {
        self.start + std::time::Duration::from(self.now.saturating_since(Time::START))
    }

    /// Runs until so many milliseconds after the beginning.
    pub(crate) fn run_until(&mut self, millis: u64) {
        let end = Time::START + Duration::from_millis(millis);
        for _ in 0..EVENTS_MAX {
            let next = self.next_event();
            if next > end {
                return;
            }
            self.now = self.now.max(next);
            self.step();
        }
        panic!("the network hangs at {}", self.now);
    }

    fn next_event(&mut self) -> Time {
        let arrivals = self.links.iter().filter_map(TestLink::next_arrival);
        let next = arrivals.fold(self.next_sample, Time::min);
        let start = self.start;
        let nodes = self.connections.iter_mut().flat_map(|connection| &mut connection.nodes);
        nodes.filter_map(|node| node.deadline()).map(|deadline| timer(start, deadline)).fold(next, Time::min)
    }

    fn step(&mut self) {
        if self.now >= self.next_sample {
            self.sample();
        }
        let now = self.instant();
        for from in [CLIENT, SERVER] {
            while let Some(Datagram { connection, payload }) = self.links[from].receive(self.now) {
                self.connections[connection].nodes[1 - from].receive(&payload, now);
            }
        }
        for (number, connection) in self.connections.iter_mut().enumerate() {
            for node in &mut connection.nodes {
                if node.deadline().is_some_and(|deadline| timer(self.start, deadline) <= self.now) {
                    node.on_deadline(now);
                }
            }
            connection.nodes[CLIENT].fill_stream();
            connection.delivered += Bytes::new(connection.nodes[SERVER].read_stream());
            for from in [CLIENT, SERVER] {
                for payload in connection.nodes[from].transmit(now) {
                    self.links[from].enqueue(Datagram { connection: number, payload }, self.now);
                }
            }
        }
    }

    /// Publishes the state of both links.
    fn sample(&mut self) {
        let (now, instant) = (self.now, self.instant());
        let link = &self.links[CLIENT];
        let delivered = self.connections.iter().map(|connection| connection.delivered).collect();
        self.trace.push(TracePoint { at: now, sent: link.sent(now), backlog: link.backlog(now), delivered });
        for from in [CLIENT, SERVER] {
            if let Some(state) = self.links[from].report(now) {
                self.tables[from].report(&state, now);
            }
            let entry = self.tables[from].tick(now).cloned();
            let (Some(entry), Some(publisher)) = (entry, &mut self.publisher) else { continue };
            if from == CLIENT {
                publisher.publish_forward(entry, instant);
            } else {
                publisher.publish_back(entry, instant);
            }
        }
        self.next_sample = now + SAMPLE_INTERVAL;
    }

    /// Returns the congestion control of the first client.
    pub(crate) fn observe(&self) -> Observation {
        self.connections[0].nodes[CLIENT].observe()
    }

    fn trace(&self, from_ms: u64, to_ms: u64) -> impl DoubleEndedIterator<Item = &TracePoint> {
        let [from, to] = [from_ms, to_ms].map(|millis| Time::START + Duration::from_millis(millis));
        self.trace.iter().filter(move |point| (from..=to).contains(&point.at))
    }

    fn ends_of_trace(&self, from_ms: u64, to_ms: u64) -> [&TracePoint; 2] {
        let mut points = self.trace(from_ms, to_ms);
        let first = points.next().expect("there are samples");
        [first, points.next_back().expect("there are samples")]
    }

    /// Returns the used part of the link's rate.
    pub(crate) fn used(&self, from_ms: u64, to_ms: u64) -> f64 {
        let [first, last] = self.ends_of_trace(from_ms, to_ms);
        let possible = TestLink::RATE * last.at.saturating_since(first.at);
        last.sent.saturating_sub(first.sent).count() as f64 / possible.count() as f64
    }

    /// Returns the fairness index of what the servers have read (Jain, Chiu and Hawe, 1984): 1 if
    /// all have read the same.
    pub(crate) fn fairness(&self, from_ms: u64, to_ms: u64) -> f64 {
        let [first, last] = self.ends_of_trace(from_ms, to_ms);
        let bytes = last.delivered.iter().zip(&first.delivered);
        let bytes: Vec<f64> = bytes.map(|(last, first)| last.saturating_sub(*first).count() as f64).collect();
        let squares: f64 = bytes.iter().map(|bytes| bytes * bytes).sum();
        bytes.iter().sum::<f64>().powi(2) / (bytes.len() as f64 * squares)
    }

    /// Returns the 95 % quantile of the backlog, in full packets.
    pub(crate) fn waiting_packets(&self, from_ms: u64, to_ms: u64) -> u64 {
        let mut backlogs: Vec<Bytes> = self.trace(from_ms, to_ms).map(|point| point.backlog).collect();
        backlogs.sort_unstable();
        backlogs[backlogs.len() * 95 / 100].count().div_ceil(1_480)
    }
}

/// Returns the time at which a timer fires.
fn timer(start: Instant, deadline: Instant) -> Time {
    let since = Duration::try_from(deadline.saturating_duration_since(start)).unwrap_or(Duration::MAX);
    Time::from_nanos(since.as_nanos().div_ceil(TIMER_STEP.as_nanos()).saturating_mul(TIMER_STEP.as_nanos()))
}
