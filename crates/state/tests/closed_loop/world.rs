//! Simulated network in virtual time: links, flows, and a controller.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use byway_state::{
    Congestion, LinkId, LinkMeter, LinkSample, NetworkId, Path, PathEntry, Rules, StateQuery, Table,
};
use byway_units::{Bytes, Duration, Rate, Time};

use crate::flow::{ACK_BYTES, PACKET, PAYLOAD, TestFlow};
use crate::link::{INTERACTIVE, Kind, LinkSetup, OTHER, TestLink};

/// Packet of a flow, or an acknowledgment of its packets.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) flow: usize,
    pub(crate) class: usize,
    pub(crate) bytes: u64,
    /// Links that it has passed; an acknowledgment counts those back.
    pub(crate) hops: usize,
    pub(crate) sent_at: Time,
    /// Times at which the acknowledged packets were sent.
    pub(crate) acked: Option<Vec<Time>>,
}

type Action = Box<dyn FnOnce(&mut World)>;

enum Event {
    LinkFree(usize),
    Sent { link: usize, packet: Packet },
    Arrived(Packet),
    Received(Packet),
    Lost(usize),
    Wake(usize),
    Sample(usize),
    Report { link: usize, sample: LinkSample },
    Tick,
    OtherPacket(usize),
    Action(Action),
}

struct Scheduled {
    at: Time,
    number: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Source of other traffic on one link.
struct OtherTraffic {
    link: usize,
    /// Mean rate of random packets; without one, the queue is never empty after a slow start.
    rate: Option<Rate>,
    starts_at: Time,
    stops_at: Time,
}

/// Reporting of a link to the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reporting {
    pub(crate) interval: Duration,
    pub(crate) age: Duration,
    /// Lost samples in a thousand.
    pub(crate) lost_permille: u64,
}

impl Reporting {
    /// Reports each 50 ms, which arrive at once.
    pub(crate) const FRESH: Self =
        Self { interval: Duration::from_millis(50), age: Duration::ZERO, lost_permille: 0 };

    pub(crate) const fn aged(millis: u64, lost_permille: u64) -> Self {
        Self { age: Duration::from_millis(millis), lost_permille, ..Self::FRESH }
    }
}

pub(crate) struct World {
    pub(crate) now: Time,
    events: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    pub(crate) links: Vec<TestLink>,
    reporting: Vec<Reporting>,
    meters: Vec<LinkMeter>,
    pub(crate) flows: Vec<TestFlow>,
    others: Vec<OtherTraffic>,
    pub(crate) has_controller: bool,
    tick: Duration,
    random: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            now: Time::START,
            events: BinaryHeap::new(),
            scheduled: 0,
            links: Vec::new(),
            reporting: Vec::new(),
            meters: Vec::new(),
            flows: Vec::new(),
            others: Vec::new(),
            has_controller: true,
            tick: Duration::from_millis(50),
            random: 0x9e37_79b9_7f4a_7c15,
        };
        // After the samples of the same instant.
        world.schedule(Duration::from_nanos(50_000_001), Event::Tick);
        world
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse(Scheduled { at: self.now + after, number: self.scheduled, event }));
    }

    /// Runs `action` at `millis` after the start.
    pub(crate) fn at(&mut self, millis: u64, action: impl FnOnce(&mut Self) + 'static) {
        let after = (Time::START + Duration::from_millis(millis)).saturating_since(self.now);
        self.schedule(after, Event::Action(Box::new(action)));
    }

    fn random_below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % end
    }

    pub(crate) fn add_link(&mut self, setup: LinkSetup) -> usize {
        self.add_reporting_link(setup, Reporting::FRESH)
    }

    pub(crate) fn add_reporting_link(&mut self, setup: LinkSetup, reporting: Reporting) -> usize {
        let index = self.links.len();
        let id = LinkId::new(NetworkId::new(1), index as u32);
        self.links.push(TestLink::new(id, setup));
        self.meters.push(LinkMeter::new(id));
        self.reporting.push(reporting);
        self.schedule(reporting.interval, Event::Sample(index));
        index
    }

    /// Adds a link in each direction, the opposite one fast and with the same delay.
    pub(crate) fn add_link_pair(&mut self, setup: LinkSetup, reporting: Reporting) -> (usize, usize) {
        let back = LinkSetup { rate: Rate::from_megabits_per_second(1_000), ..setup };
        (self.add_reporting_link(setup, reporting), self.add_reporting_link(back, reporting))
    }

    /// Adds a flow over these links, of which those that are managed are in its tables.
    pub(crate) fn add_flow(
        &mut self,
        rules: Rules,
        forward: &[usize],
        back: &[usize],
        start_ms: u64,
    ) -> usize {
        let table = |links: &[usize]| {
            let managed = links.iter().filter(|link| self.links[**link].setup.is_managed);
            Table::new(Path::new(managed.map(|link| self.links[*link].id)).expect("a path"))
        };
        let tables = [table(forward), table(back)];
        let index = self.flows.len();
        self.flows.push(TestFlow::new(rules, forward, back, tables));
        self.at(start_ms, move |world| world.start(index));
        index
    }

    pub(crate) fn add_other_traffic(&mut self, link: usize, rate: Option<Rate>, from_to_ms: [u64; 2]) {
        let index = self.others.len();
        let [starts_at, stops_at] = from_to_ms.map(|millis| Time::START + Duration::from_millis(millis));
        self.others.push(OtherTraffic { link, rate, starts_at, stops_at });
        self.at(from_to_ms[0], move |world| world.schedule(Duration::ZERO, Event::OtherPacket(index)));
    }

    pub(crate) fn run_until(&mut self, millis: u64) {
        let end = Time::START + Duration::from_millis(millis);
        while self.events.peek().is_some_and(|Reverse(next)| next.at <= end) {
            let Some(Reverse(Scheduled { at, event, .. })) = self.events.pop() else { break };
            self.now = at;
            self.handle(event);
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::LinkFree(link) => self.send_next(link),
            Event::Sent { link, packet } => {
                self.links[link].count_sent(&packet);
                self.propagate(link, packet);
                self.send_next(link);
            }
            Event::Arrived(packet) => self.on_arrived(packet),
            Event::Received(packet) => self.on_received(&packet),
            Event::Lost(flow) => {
                self.flows[flow].in_flight -= PAYLOAD;
                self.flows[flow].control.on_congestion(Congestion::Lost(Bytes::new(PAYLOAD)), self.now);
                self.try_send(flow);
            }
            Event::Wake(flow) => {
                self.flows[flow].is_waking = false;
                self.try_send(flow);
            }
            Event::Sample(link) => self.sample(link),
            Event::Report { link, sample } => self.on_report(link, sample),
            Event::Tick => self.on_tick(),
            Event::OtherPacket(source) => self.send_other(source),
            Event::Action(action) => action(self),
        }
    }

    fn start(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.is_started = true;
        flow.next_send = self.now;
        if flow.setup.has_history && self.has_controller {
            let [forward, back] = flow.tables.each_ref();
            for entry in forward.after(StateQuery::first(), self.now) {
                flow.control.on_forward_entry(entry, self.now);
            }
            for entry in back.after(StateQuery::first(), self.now) {
                flow.control.on_back_entry(entry, self.now);
            }
        }
        self.try_send(index);
    }

    pub(crate) fn try_send(&mut self, index: usize) {
        loop {
            let (flow, now) = (&mut self.flows[index], self.now);
            if !flow.may_send(now) || flow.is_waking {
                return;
            }
            if flow.next_send > now {
                flow.is_waking = true;
                let after = flow.next_send.saturating_since(now);
                return self.schedule(after, Event::Wake(index));
            }
            flow.on_sent(now);
            let packet =
                Packet { flow: index, class: INTERACTIVE, bytes: PACKET, hops: 0, sent_at: now, acked: None };
            self.pass_on(packet);
        }
    }

    /// Queues a packet at its next link.
    fn pass_on(&mut self, packet: Packet) {
        let link = match (packet.flow.checked_sub(OTHER_FLOWS), &packet.acked) {
            (Some(source), _) => self.others[source].link,
            (None, None) => self.flows[packet.flow].setup.forward[packet.hops],
            (None, Some(_)) => self.flows[packet.flow].setup.back[packet.hops],
        };
        let (flow, is_data) = (packet.flow, packet.acked.is_none());
        let dropped = self.links[link].enqueue(packet, self.now);
        if dropped.is_some() && is_data {
            self.lose(flow);
        }
        if !self.links[link].is_busy {
            self.send_next(link);
        }
    }

    fn send_next(&mut self, link: usize) {
        let one = &mut self.links[link];
        let Some((packet, time)) = one.dequeue() else {
            one.is_busy = false;
            return;
        };
        one.is_busy = true;
        match one.setup.kind {
            Kind::StoreAndForward => self.schedule(time, Event::Sent { link, packet }),
            Kind::TokenBucket => {
                one.count_sent(&packet);
                self.propagate(link, packet);
                self.schedule(time, Event::LinkFree(link));
            }
        }
    }

    /// Lets a packet travel over a link, or loses it.
    fn propagate(&mut self, link: usize, packet: Packet) {
        let LinkSetup { propagation, lost_permille, .. } = self.links[link].setup;
        if packet.acked.is_none() && self.random_below(1_000) < lost_permille {
            self.lose(packet.flow);
        } else {
            self.schedule(propagation, Event::Arrived(packet));
        }
    }

    /// Lets the sender notice a lost packet about a round trip later.
    fn lose(&mut self, flow: usize) {
        if flow < OTHER_FLOWS {
            self.schedule(Duration::from_millis(100), Event::Lost(flow));
        }
    }

    fn on_arrived(&mut self, mut packet: Packet) {
        if packet.flow >= OTHER_FLOWS {
            return;
        }
        packet.hops += 1;
        let flow = &self.flows[packet.flow];
        let links = if packet.acked.is_none() { &flow.setup.forward } else { &flow.setup.back };
        if packet.hops < links.len() {
            return self.pass_on(packet);
        }
        if let Some(acked) = &packet.acked {
            self.flows[packet.flow].on_ack(acked, self.now);
            return self.try_send(packet.flow);
        }
        let jitter = self.flows[packet.flow].setup.jitter;
        let delay = if jitter.is_zero() { 0 } else { self.random_below(jitter.as_nanos()) };
        let flow = &mut self.flows[packet.flow];
        flow.latest_arrival = flow.latest_arrival.max(self.now + Duration::from_nanos(delay));
        let after = flow.latest_arrival.saturating_since(self.now);
        self.schedule(after, Event::Received(packet));
    }

    fn on_received(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow];
        flow.log.delivered.push(self.now);
        flow.unacked.push_back(packet.sent_at);
        if flow.unacked.len() >= flow.setup.ack_every {
            let acked = flow.unacked.drain(..).collect();
            let ack = Packet { bytes: ACK_BYTES, hops: 0, acked: Some(acked), ..packet.clone() };
            self.pass_on(ack);
        }
    }

    fn sample(&mut self, link: usize) {
        let reporting = self.reporting[link];
        let sample = self.links[link].sample(self.now);
        if self.random_below(1_000) >= reporting.lost_permille && self.links[link].setup.is_managed {
            self.schedule(reporting.age, Event::Report { link, sample });
        }
        self.schedule(reporting.interval, Event::Sample(link));
    }

    fn on_report(&mut self, link: usize, sample: LinkSample) {
        if !self.has_controller {
            return;
        }
        let state = self.meters[link].on_sample(sample, self.reporting[link].age, self.now);
        if let Some(state) = state.expect("links report what is right") {
            for table in self.flows.iter_mut().flat_map(|flow| &mut flow.tables) {
                table.report(&state, self.now);
            }
        }
    }

    fn on_tick(&mut self) {
        self.schedule(self.tick, Event::Tick);
        if !self.has_controller {
            return;
        }
        for index in 0..self.flows.len() {
            let (flow, now) = (&mut self.flows[index], self.now);
            let [forward, back] = flow.tables.each_mut().map(|table| table.tick(now).cloned());
            if flow.is_started {
                deliver(flow, forward.as_ref(), back.as_ref(), now);
                self.try_send(index);
            }
        }
    }

    fn send_other(&mut self, source: usize) {
        let OtherTraffic { link, rate, stops_at, .. } = self.others[source];
        if self.now >= stops_at {
            return;
        }
        let packet = Packet {
            flow: OTHER_FLOWS + source,
            class: OTHER,
            bytes: PACKET,
            hops: 0,
            sent_at: self.now,
            acked: None,
        };
        let is_turn = self.random_below(2) == 0;
        let (queue, packets) = if self.links[link].has_one_queue { (INTERACTIVE, 200) } else { (OTHER, 20) };
        if rate.is_some() || is_turn && self.links[link].backlog[queue] < packets * PACKET {
            self.pass_on(packet);
        }
        let gap = if let Some(rate) = rate {
            let uniform = (self.random_below(1 << 32) + 1) as f64 / (1_u64 << 32) as f64;
            let mean = (Bytes::new(PACKET) / rate).as_secs_f64();
            Duration::from_nanos((-uniform.ln() * mean * 1e9) as u64)
        } else {
            // Slow start: ten packets in the first 100 ms, and twice as many in each round trip.
            let rounds = self.now.saturating_since(self.others[source].starts_at).as_millis() / 100;
            Duration::from_millis(10) / (1 << rounds.min(5))
        };
        self.schedule(gap, Event::OtherPacket(source));
    }
}

/// Numbers of flows of other traffic begin here.
const OTHER_FLOWS: usize = 1_000;

fn deliver(flow: &mut TestFlow, forward: Option<&PathEntry>, back: Option<&PathEntry>, now: Time) {
    if let Some(entry) = forward {
        flow.control.on_forward_entry(entry, now);
    }
    if let Some(entry) = back {
        flow.control.on_back_entry(entry, now);
    }
}
