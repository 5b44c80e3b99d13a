//! Simulated world of the study of classes: machines, starts of flows, and measurements.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;

use byway_sched::Class;
use byway_sim::tcp::{
    Algorithm, BulkSender, ConnectionId, Ports, Settings, Sink as TcpSink, TcpApplication, TcpHost,
};
use byway_sim::{
    Bottleneck, ClassCounters, Link, NodeId, Observer, Random, Record, Scenario, Seed, Step, World,
};
use byway_units::{Bytes, Duration, Time};

use super::hosts::{Machine, SendSchedule, Sink, Source};
use super::plan::{Plan, PlannedFlow, Traffic, interval};
use super::raw::{AlgorithmSetting, SendsSetting, TcpSetting};

/// Interval at which the run samples the observed link's queues (`T_q` of the paper, section V).
pub(crate) const SAMPLING_INTERVAL: Duration = Duration::from_millis(10);

/// Payload of a TCP segment, in bytes.
pub(crate) const SEGMENT_BYTES: u16 = 1_000;

/// Port to which all TCP connections of the world are opened.
const PORT: u16 = 80;

/// Length of a call's IP packets: 32 bytes of AMR at 12.2 kbit/s and the headers of RTP, UDP and
/// IP.
const VOICE_PACKET_BYTES: usize = 72;

/// Length of the speech in one packet of a call.
pub(crate) const VOICE_EVERY: Duration = Duration::from_millis(20);

/// Both machines of a flow, its start and its round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) begin: Time,
    /// Round-trip time of the flow without queues.
    pub(crate) round_trip: Duration,
}

/// Scheduled event of the simulated world.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Start of a TCP flow.
    Begin { traffic: usize, flow: usize },
    /// Start of a source's next short transfer.
    Transfer { traffic: usize, flow: usize },
    /// Sampling of the observed link's queues.
    Sample,
    /// End of the warm-up: measuring begins.
    WarmedUp,
}

/// State of a run: machines, random numbers, and measurements so far.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    /// Machines of the flows, by traffic and flow.
    pub(crate) ends: Vec<Vec<Ends>>,
    /// Routers in the order of the links: link `i` connects routers `i` and `i + 1`.
    routers: Vec<NodeId>,
    /// Random numbers of each source of short transfers, by traffic and flow.
    random: BTreeMap<(usize, usize), Random>,
    ports: BTreeMap<(usize, usize), u16>,
    /// Class counters of the links in forward direction at the end of the warm-up.
    pub(crate) baseline: Vec<[ClassCounters; Class::COUNT]>,
    last_sample: [ClassCounters; Class::COUNT],
    has_warmed_up: bool,
    /// Sums of the observed link's flow counts by class, over the samples since the warm-up;
    /// `samples` is their number.
    pub(crate) counted: [u64; Class::COUNT],
    pub(crate) samples: u64,
    /// Mean sojourn times of the low-delay packets at the observed link, in milliseconds: one for
    /// each sampling interval in which such a packet left it, with those of the warm-up.
    pub(crate) sojourns_ms: Vec<f64>,
    /// Bytes that flows had delivered at the end of the warm-up, by traffic and flow.
    pub(crate) delivered: Vec<Vec<u64>>,
}

/// Role of a machine in its flow; for receivers with the index of the traffic.
#[derive(Clone, Copy, Debug)]
enum End {
    Sender,
    Receiver(usize),
}

/// Observer of the one-way delays of packets in forward direction, including all queues.
#[derive(Debug, Default)]
pub(crate) struct DelayObserver {
    /// Sending times of packets in flight, by the packets' number in the world.
    sent: BTreeMap<u64, Time>,
    /// Roles by number of the machine; `None` for routers and for flows in backward direction.
    ends: Vec<Option<End>>,
    /// Longest one-way delay of each traffic's packets.
    pub(crate) longest: Vec<Duration>,
}

impl DelayObserver {
    fn end(&self, node: NodeId) -> Option<End> {
        self.ends.get(node.number() as usize).copied().flatten()
    }
}

impl Observer for DelayObserver {
    fn packet(&mut self, record: &Record<'_>) {
        match record.step {
            Step::Sent if matches!(self.end(record.from), Some(End::Sender)) => {
                self.sent.insert(record.packet, record.time);
            }
            Step::Lost(_) => {
                self.sent.remove(&record.packet);
            }
            Step::Delivered => {
                let Some(End::Receiver(traffic)) = record.to.and_then(|to| self.end(to)) else {
                    return;
                };
                if let Some(sent) = self.sent.remove(&record.packet) {
                    let took = record.time.saturating_since(sent);
                    self.longest[traffic] = self.longest[traffic].max(took);
                }
            }
            _ => {}
        }
    }
}

/// Builds the simulated world of a plan, with all machines and the first events.
pub(crate) fn build(plan: &Plan, seed: u64) -> (Run<'_>, World<Run<'_>>) {
    let seed = Seed::new(seed);
    let watch =
        DelayObserver { longest: vec![Duration::ZERO; plan.traffics.len()], ..DelayObserver::default() };
    let mut world: World<Run<'_>> = World::new(seed, watch);
    let routers: Vec<NodeId> =
        (0..=plan.links.len()).map(|number| world.add(Machine::Router, address(number, 0))).collect();
    for (link, ends) in plan.links.iter().zip(routers.windows(2)) {
        let described = Link { scheduling: Some(link.scheduling), delay: link.delay, ..Link::default() };
        world.connect_both(ends[0], ends[1], &described);
    }
    world.observer_mut().ends = vec![None; routers.len()];
    let mut builder = Builder { plan, seed, world, routers };
    let ends: Vec<Vec<Ends>> = (0..plan.traffics.len()).map(|traffic| builder.traffic(traffic)).collect();
    let Builder { mut world, routers, .. } = builder;
    let mut run = Run {
        plan,
        delivered: ends.iter().map(|flows| vec![0; flows.len()]).collect(),
        ends,
        routers,
        random: BTreeMap::new(),
        ports: BTreeMap::new(),
        baseline: vec![[ClassCounters::default(); Class::COUNT]; plan.links.len()],
        last_sample: [ClassCounters::default(); Class::COUNT],
        has_warmed_up: false,
        counted: [0; Class::COUNT],
        samples: 0,
        sojourns_ms: Vec::new(),
    };
    run.begin(seed, &mut world);
    (run, world)
}

/// Returns the simulated address of a machine: 10.0.0.0 plus `number`. Simulated machines have no
/// other addresses.
fn address(number: usize, port: u16) -> SocketAddr {
    let number = u32::try_from(number).expect("a world has fewer machines than addresses");
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + number), port))
}

struct Builder<'a> {
    plan: &'a Plan,
    seed: Seed,
    world: World<Run<'a>>,
    routers: Vec<NodeId>,
}

impl Builder<'_> {
    fn traffic(&mut self, index: usize) -> Vec<Ends> {
        let traffic = &self.plan.traffics[index];
        let mut random = self.seed.named("traffic").numbered(index as u64).sequence();
        let mut begin = Time::START;
        let mut ends = Vec::new();
        for (number, flow) in traffic.flows.iter().enumerate() {
            begin += random.exponential(traffic.starts_every);
            let fraction = random.fraction();
            let seed = self.seed.named("machines").numbered(index as u64).numbered(number as u64);
            ends.push(self.flow(index, *flow, fraction, begin, seed));
        }
        ends
    }

    /// Adds both machines of a flow to the world, with their access links, and routes over the
    /// shared links in both directions.
    fn flow(
        &mut self,
        traffic_index: usize,
        flow: PlannedFlow,
        fraction: f64,
        begin: Time,
        seed: Seed,
    ) -> Ends {
        let traffic = &self.plan.traffics[traffic_index];
        let first = self.world.nodes();
        let addresses = [address(first, PORT), address(first + 1, PORT)];
        let [from, to] = machines(traffic, addresses[1], begin, seed);
        let links = &self.plan.links[flow.links.0..flow.links.1];
        let length: Duration = links.iter().map(|link| link.delay).sum();
        let delay = traffic.access_delay(fraction, length);
        let ends = Ends {
            from: self.world.add(from, addresses[0]),
            to: self.world.add(to, addresses[1]),
            begin,
            round_trip: (length + delay * 2) * 2,
        };
        let roles = [End::Sender, End::Receiver(traffic_index)].map(|end| (!flow.is_back).then_some(end));
        self.world.observer_mut().ends.extend(roles);
        let buffer_bytes = traffic.access.bytes_in(Duration::from_millis(250)).unwrap_or(Bytes::MAX);
        let access =
            Link { bottleneck: Bottleneck::new(traffic.access, buffer_bytes).ok(), delay, ..Link::default() };
        let mut path = self.routers[flow.links.0..=flow.links.1].to_vec();
        if flow.is_back {
            path.reverse();
        }
        let last = path.len() - 1;
        self.world.connect_both(ends.from, path[0], &access);
        self.world.connect_both(path[last], ends.to, &access);
        for (there, next) in path.iter().zip(path[1..].iter().chain([&ends.to])) {
            self.world.route(*there, ends.to, *next);
        }
        self.world.route(ends.from, ends.to, path[0]);
        for (next, there) in [&ends.from].into_iter().chain(&path).zip(&path) {
            self.world.route(*there, ends.from, *next);
        }
        self.world.route(ends.to, ends.from, path[last]);
        ends
    }
}

/// Makes both machines of a flow: two TCP hosts, or a source and its sink.
fn machines(traffic: &Traffic, to: SocketAddr, begin: Time, seed: Seed) -> [Machine; 2] {
    let bytes = |bytes: Option<byway_config_types::BytesSetting>, usual: u64| {
        usize::try_from(bytes.map_or(usual, |bytes| bytes.0.count())).unwrap_or(usize::MAX)
    };
    let source = |ip_bytes, schedule| {
        let source = Source::new(to, traffic.dscp(), ip_bytes, schedule, begin);
        [Machine::Source(source), Machine::Sink(Sink::default())]
    };
    match &traffic.sends {
        SendsSetting::Bulk {} | SendsSetting::Short { .. } => {
            let mut hosts = [0, 1].map(|end| TcpHost::new(settings(&traffic.tcp), seed.numbered(end)));
            for host in &mut hosts {
                host.set_dscp(traffic.dscp());
            }
            hosts[1].listen(PORT, TcpApplication::Sink(TcpSink::default()));
            hosts.map(|host| Machine::Tcp(Box::new(host)))
        }
        SendsSetting::Constant { rate, packet } => {
            let ip_bytes = bytes(*packet, 1_000);
            source(ip_bytes, SendSchedule::Every(Bytes::new(ip_bytes as u64) / rate.0))
        }
        SendsSetting::Voice {} => source(VOICE_PACKET_BYTES, SendSchedule::Every(VOICE_EVERY)),
        SendsSetting::Dummies { per_second, packet } => {
            source(bytes(*packet, 40), SendSchedule::Dummies(interval(*per_second), seed.sequence()))
        }
    }
}

/// Returns TCP settings as of the paper's publication, with selective acknowledgments.
fn settings(tcp: &TcpSetting) -> Settings {
    Settings {
        algorithm: match tcp.algorithm {
            AlgorithmSetting::Newreno => Algorithm::NewReno,
            AlgorithmSetting::Fractional => Algorithm::Fractional,
        },
        segment_bytes: SEGMENT_BYTES,
        initial_window_segments: tcp.initial_window.unwrap_or(2),
        timestamps: false,
        ecn: tcp.ecn,
        ..Settings::default()
    }
}

impl Scenario for Run<'_> {
    type Host = Machine;
    type Event = Event;
    type Observer = DelayObserver;

    fn event(&mut self, event: Event, world: &mut World<Self>) {
        match event {
            Event::Begin { traffic, flow } => self.open(traffic, flow, None, world),
            Event::Transfer { traffic, flow } => self.transfer(traffic, flow, world),
            Event::Sample => {
                self.sample_queues(world);
                world.schedule_in(SAMPLING_INTERVAL, Event::Sample);
            }
            Event::WarmedUp => self.end_warm_up(world),
        }
    }
}

impl Run<'_> {
    /// Schedules the events whose times are known in advance: starts of flows, sampling, and the
    /// end of the warm-up.
    fn begin(&mut self, seed: Seed, world: &mut World<Self>) {
        for (index, traffic) in self.plan.traffics.iter().enumerate() {
            for (number, ends) in self.ends[index].iter().enumerate() {
                let event = match traffic.sends {
                    SendsSetting::Bulk {} => Event::Begin { traffic: index, flow: number },
                    SendsSetting::Short { .. } => Event::Transfer { traffic: index, flow: number },
                    _ => continue,
                };
                let own = seed.named("transfers").numbered(index as u64).numbered(number as u64);
                self.random.insert((index, number), own.sequence());
                world.schedule(ends.begin, event);
            }
        }
        world.schedule(Time::START + SAMPLING_INTERVAL, Event::Sample);
        world.schedule(Time::START + self.plan.settle, Event::WarmedUp);
    }

    /// Opens a TCP connection of a flow that sends `bytes`; without an end if `None`.
    fn open(&mut self, traffic: usize, flow: usize, bytes: Option<Bytes>, world: &mut World<Self>) {
        let ends = self.ends[traffic][flow];
        let port = self.ports.entry((traffic, flow)).or_insert(1_024);
        let ports = Ports { source: *port, destination: PORT };
        *port = port.checked_add(1).unwrap_or(1_024);
        let peer = address(ends.to.number() as usize, PORT);
        world.input(ends.from, |host, now| {
            if let Machine::Tcp(host) = host {
                // A transfer is removed when its ports are used again, after 64,000 others, even if
                // it is unfinished.
                let id = ConnectionId { peer, ports };
                host.remove(id);
                host.open(id, TcpApplication::Bulk(BulkSender::new(bytes)), now);
            }
        });
    }

    /// Begins a short transfer of random length, and schedules the source's next one.
    fn transfer(&mut self, traffic: usize, flow: usize, world: &mut World<Self>) {
        let SendsSetting::Short { per_second, segments, shape, .. } = self.plan.traffics[traffic].sends
        else {
            return;
        };
        let random =
            self.random.get_mut(&(traffic, flow)).expect("each source has random numbers of its own");
        let next = random.exponential(interval(per_second));
        let segments = pareto(random.fraction(), segments.unwrap_or(30.0), shape.unwrap_or(1.3));
        let bytes = Bytes::new(segments * u64::from(SEGMENT_BYTES));
        self.open(traffic, flow, Some(bytes), world);
        world.schedule_in(next, Event::Transfer { traffic, flow });
    }

    /// Returns the class counters of a link in forward direction since the start.
    pub(crate) fn class_counters(&self, link: usize, world: &World<Self>) -> [ClassCounters; Class::COUNT] {
        *world
            .class_counters(self.routers[link], self.routers[link + 1])
            .expect("all links between routers have classes")
    }

    fn sample_queues(&mut self, world: &World<Self>) {
        let uses = self.class_counters(self.plan.observed, world);
        let [_, low_delay, _] = uses;
        let [_, before, _] = std::mem::replace(&mut self.last_sample, uses);
        let link = [0, 1].map(|end| self.routers[self.plan.observed + end]);
        if let Some(flows) = world.counted_flows(link[0], link[1]).filter(|_| self.has_warmed_up) {
            self.samples += 1;
            for (sum, flows) in self.counted.iter_mut().zip(flows) {
                *sum += u64::from(flows);
            }
        }
        let packets = low_delay.dequeued - before.dequeued;
        if packets > 0 {
            let waited = (low_delay.sojourn_total - before.sojourn_total) / packets;
            self.sojourns_ms.push(waited.as_secs_f64() * 1_000.0);
        }
    }

    fn end_warm_up(&mut self, world: &World<Self>) {
        self.has_warmed_up = true;
        self.baseline = (0..self.plan.links.len()).map(|link| self.class_counters(link, world)).collect();
        self.delivered = self.all_delivered(world);
    }

    /// Returns the bytes that each flow has delivered so far, by traffic and flow: payload of TCP,
    /// or IP bytes of datagrams.
    pub(crate) fn all_delivered(&self, world: &World<Self>) -> Vec<Vec<u64>> {
        let of = |ends: &Ends| match (world.host(ends.from), world.host(ends.to)) {
            (Machine::Tcp(host), _) => host.statistics().bytes_acknowledged.count(),
            (_, Machine::Sink(sink)) => sink.ip_bytes,
            _ => 0,
        };
        self.ends.iter().map(|flows| flows.iter().map(of).collect()).collect()
    }
}

/// Draws an integer, at least 1, from a Pareto distribution with this mean and shape. The shape
/// must exceed 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of segments; casts saturate"
)]
fn pareto(fraction: f64, mean: f64, shape: f64) -> u64 {
    let least = mean * (shape - 1.0) / shape;
    (least / libm::pow(1.0 - fraction, 1.0 / shape)).round().clamp(1.0, 1e6) as u64
}

/// Runs the world until the plan's end, or until `watch` stops it; returns the time and reason of
/// the stop.
pub(crate) fn advance<'a>(
    run: &mut Run<'a>,
    world: &mut World<Run<'a>>,
    watch: &mut dyn FnMut(Duration, Bytes) -> ControlFlow<byway_scenario::StopReason>,
) -> Option<(Duration, byway_scenario::StopReason)> {
    /// Simulated time between two calls of `watch`.
    const PART: Duration = Duration::from_millis(100);
    let mut now = Duration::ZERO;
    while now < run.plan.length {
        now = (now + PART).min(run.plan.length);
        world.run_until(Time::START + now, run);
        if let ControlFlow::Break(halt) = watch(now, world.memory_bytes()) {
            return Some((now, halt));
        }
    }
    None
}
