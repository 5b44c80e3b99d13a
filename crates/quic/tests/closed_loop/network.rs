//! Client and server, a link in each direction, and the network state of both.

use std::time::Instant;

use byway_quic::{Factory, Publisher, channel};
use byway_state::{Path, SAMPLE_INTERVAL, Table};
use byway_units::{Bytes, Duration, Time};

use crate::link::TestLink;
use crate::node::{CLIENT_ADDRESS, Library, Observation, SERVER_ADDRESS, TestNode, connect};

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Events of a run that never comes to its end.
const EVENTS_MAX: u64 = 1_000_000;

/// Bytes of the link from client to server that have left, and that wait.
struct TracePoint {
    at: Time,
    sent: Bytes,
    backlog: Bytes,
}

/// Network in which the client sends without end.
pub(crate) struct TestNetwork {
    start: Instant,
    now: Time,
    nodes: [Box<dyn TestNode>; 2],
    /// Links from the client, and from the server.
    pub(crate) links: [TestLink; 2],
    tables: [Table; 2],
    /// Feed of the client, unless it ended.
    pub(crate) publisher: Option<Publisher>,
    next_sample: Time,
    trace: Vec<TracePoint>,
}

impl TestNetwork {
    /// Begins with a client whose window follows from network state.
    pub(crate) fn new(library: Library) -> Self {
        Self::begin(library, true)
    }

    /// Begins with a client that has the congestion control of its library.
    pub(crate) fn without_control(library: Library) -> Self {
        Self::begin(library, false)
    }

    fn begin(library: Library, is_controlled: bool) -> Self {
        let start = Instant::now();
        let (publisher, subscription) = channel();
        let factory = is_controlled.then(|| Factory::for_path(subscription, CLIENT_ADDRESS, SERVER_ADDRESS));
        let links = [0, 1].map(TestLink::new);
        let tables =
            links.each_ref().map(|link| Table::new(Path::new([link.id()]).expect("a link is a path")));
        let mut network = Self {
            start,
            now: Time::START,
            nodes: connect(library, factory.as_ref(), start),
            links,
            tables,
            publisher: Some(publisher),
            next_sample: Time::START + SAMPLE_INTERVAL,
            trace: Vec::new(),
        };
        network.step();
        network
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
        let deadlines = self.nodes.iter_mut().filter_map(|node| node.deadline());
        let times = deadlines.map(|deadline| {
            let since = Duration::try_from(deadline.saturating_duration_since(start));
            Time::START.saturating_add(since.unwrap_or(Duration::MAX))
        });
        times.fold(next, Time::min)
    }

    fn step(&mut self) {
        if self.now >= self.next_sample {
            self.sample();
        }
        let now = self.instant();
        for from in [CLIENT, SERVER] {
            while let Some(datagram) = self.links[from].receive(self.now) {
                self.nodes[1 - from].receive(&datagram, now);
            }
        }
        for node in &mut self.nodes {
            if node.deadline().is_some_and(|deadline| deadline <= now) {
                node.on_deadline(now);
            }
        }
        self.nodes[CLIENT].fill_stream();
        for from in [CLIENT, SERVER] {
            for datagram in self.nodes[from].transmit(now) {
                self.links[from].enqueue(datagram, self.now);
            }
        }
    }

    /// Publishes the state of both links.
    fn sample(&mut self) {
        let (now, instant) = (self.now, self.instant());
        let link = &self.links[CLIENT];
        self.trace.push(TracePoint { at: now, sent: link.sent(now), backlog: link.backlog(now) });
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

    /// Returns the congestion control of the client.
    pub(crate) fn observe(&self) -> Observation {
        self.nodes[CLIENT].observe()
    }

    fn trace(&self, from_ms: u64, to_ms: u64) -> impl DoubleEndedIterator<Item = &TracePoint> {
        let [from, to] = [from_ms, to_ms].map(|millis| Time::START + Duration::from_millis(millis));
        self.trace.iter().filter(move |point| (from..=to).contains(&point.at))
    }

    /// Returns the used part of the link's rate.
    pub(crate) fn used(&self, from_ms: u64, to_ms: u64) -> f64 {
        let first = self.trace(from_ms, to_ms).next().expect("there are samples");
        let last = self.trace(from_ms, to_ms).next_back().expect("there are samples");
        let possible = TestLink::RATE * last.at.saturating_since(first.at);
        last.sent.saturating_sub(first.sent).count() as f64 / possible.count() as f64
    }

    /// Returns the 95 % quantile of the backlog, in full packets.
    pub(crate) fn waiting_packets(&self, from_ms: u64, to_ms: u64) -> u64 {
        let mut backlogs: Vec<Bytes> = self.trace(from_ms, to_ms).map(|point| point.backlog).collect();
        backlogs.sort_unstable();
        backlogs[backlogs.len() * 95 / 100].count().div_ceil(1_480)
    }
}
