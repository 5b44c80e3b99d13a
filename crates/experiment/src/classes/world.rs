//! Links with classes at work: machines, who begins when, and what is noted meanwhile.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;

use byway_sched::Class;
use byway_sim::tcp::{Algorithm, Bulk, ConnectionId, Ports, Settings, Sink as TcpSink, Task, TcpHost};
use byway_sim::{Bottleneck, ClassUse, Link, NodeId, Observer, Random, Record, Scenario, Seed, Step, World};
use byway_units::{Bytes, Duration, Time};

use super::hosts::{Machine, Rhythm, Sink, Source};
use super::plan::{Plan, PlannedFlow, Traffic, interval};
use super::typed::{TypedAlgorithm, TypedSends, TypedTcp};

/// How often queues are looked at (`T_q` of the paper, section V).
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// The payload of a segment.
pub(crate) const SEGMENT_BYTES: u16 = 1_000;

/// The port to which TCP opens connections.
const PORT: u16 = 80;

/// The length of a call's IP packets: 32 bytes of AMR at 12.2 kbit/s behind the headers of RTP, UDP and IP.
const VOICE_PACKET_BYTES: usize = 72;

/// How long a call's packet speaks.
pub(crate) const VOICE_EVERY: Duration = Duration::from_millis(20);

/// A flow's two machines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) begin: Time,
    /// The way there and back without queues.
    pub(crate) round_trip: Duration,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A flow of TCP begins.
    Begin { traffic: usize, flow: usize },
    /// A source of short transfers begins the next one.
    Transfer { traffic: usize, flow: usize },
    /// Queues are looked at.
    Look,
    /// What is measured begins.
    Settled,
}

/// A run.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    /// By traffic, and flow.
    pub(crate) ends: Vec<Vec<Ends>>,
    /// The first and the last router of each link.
    routers: Vec<NodeId>,
    /// One for each source of short transfers.
    random: BTreeMap<(usize, usize), Random>,
    ports: BTreeMap<(usize, usize), u16>,
    /// What the links had done, from first router to last, when all had settled, and at the last look at the observed one.
    pub(crate) settled: Vec<[ClassUse; Class::COUNT]>,
    looked: [ClassUse; Class::COUNT],
    has_settled: bool,
    /// The flows of each class that the observed link had counted since all had settled, at all looks together, and how many those were.
    pub(crate) counted: [u64; Class::COUNT],
    pub(crate) looks: u64,
    /// The mean wait of the low-delay packets of each look at the observed link, in milliseconds.
    pub(crate) waits: Vec<f64>,
    /// What all flows had delivered when all had settled, by traffic and flow.
    pub(crate) delivered: Vec<Vec<u64>>,
}

/// Which end of which traffic a machine is.
#[derive(Clone, Copy, Debug)]
enum End {
    Sender,
    Receiver(usize),
}

/// How long packets that go forth take from end to end, through all queues.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// When packets under way were sent.
    sent: BTreeMap<u64, Time>,
    /// By machine; routers are none.
    ends: Vec<Option<End>>,
    /// By traffic, the longest.
    pub(crate) longest: Vec<Duration>,
}

impl Watch {
    fn end(&self, node: NodeId) -> Option<End> {
        self.ends.get(node.number() as usize).copied().flatten()
    }
}

impl Observer for Watch {
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

/// Builds the world of a plan.
pub(crate) fn build(plan: &Plan, seed: u64) -> (Run<'_>, World<Run<'_>>) {
    let seed = Seed::new(seed);
    let watch = Watch { longest: vec![Duration::ZERO; plan.traffics.len()], ..Watch::default() };
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
        settled: vec![[ClassUse::default(); Class::COUNT]; plan.links.len()],
        looked: [ClassUse::default(); Class::COUNT],
        has_settled: false,
        counted: [0; Class::COUNT],
        looks: 0,
        waits: Vec::new(),
    };
    run.begin(seed, &mut world);
    (run, world)
}

/// An address of the world's own: there are no others.
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
    fn traffic(&mut self, place: usize) -> Vec<Ends> {
        let traffic = &self.plan.traffics[place];
        let mut random = self.seed.named("traffic").numbered(place as u64).sequence();
        let mut begin = Time::START;
        let mut ends = Vec::new();
        for (number, flow) in traffic.flows.iter().enumerate() {
            begin += random.exponential(traffic.starts_every);
            let fraction = random.fraction();
            let seed = self.seed.named("machines").numbered(place as u64).numbered(number as u64);
            ends.push(self.flow(place, *flow, fraction, begin, seed));
        }
        ends
    }

    /// Adds both machines of a flow, and the ways to the links and back.
    fn flow(&mut self, place: usize, flow: PlannedFlow, fraction: f64, begin: Time, seed: Seed) -> Ends {
        let traffic = &self.plan.traffics[place];
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
        let followed = [End::Sender, End::Receiver(place)].map(|end| (!flow.is_back).then_some(end));
        self.world.observer_mut().ends.extend(followed);
        let room = traffic.access.bytes_in(Duration::from_millis(250)).unwrap_or(Bytes::MAX);
        let access =
            Link { bottleneck: Bottleneck::new(traffic.access, room).ok(), delay, ..Link::default() };
        let mut way = self.routers[flow.links.0..=flow.links.1].to_vec();
        if flow.is_back {
            way.reverse();
        }
        let last = way.len() - 1;
        self.world.connect_both(ends.from, way[0], &access);
        self.world.connect_both(way[last], ends.to, &access);
        for (there, next) in way.iter().zip(way[1..].iter().chain([&ends.to])) {
            self.world.route(*there, ends.to, *next);
        }
        self.world.route(ends.from, ends.to, way[0]);
        for (next, there) in [&ends.from].into_iter().chain(&way).zip(&way) {
            self.world.route(*there, ends.from, *next);
        }
        self.world.route(ends.to, ends.from, way[last]);
        ends
    }
}

/// Both machines of a flow.
fn machines(traffic: &Traffic, to: SocketAddr, begin: Time, seed: Seed) -> [Machine; 2] {
    let bytes = |bytes: Option<byway_typed::TypedBytes>, usual: u64| {
        usize::try_from(bytes.map_or(usual, |bytes| bytes.0.count())).unwrap_or(usize::MAX)
    };
    let source = |ip_bytes, rhythm| {
        let source = Source::new(to, traffic.dscp(), ip_bytes, rhythm, begin);
        [Machine::Source(source), Machine::Sink(Sink::default())]
    };
    match &traffic.sends {
        TypedSends::Bulk {} | TypedSends::Short { .. } => {
            let mut hosts = [0, 1].map(|end| TcpHost::new(settings(&traffic.tcp), seed.numbered(end)));
            for host in &mut hosts {
                host.mark(traffic.dscp());
            }
            hosts[1].listen(PORT, Task::Sink(TcpSink::default()));
            hosts.map(|host| Machine::Tcp(Box::new(host)))
        }
        TypedSends::Constant { rate, packet } => {
            let ip_bytes = bytes(*packet, 1_000);
            source(ip_bytes, Rhythm::Every(Bytes::new(ip_bytes as u64) / rate.0))
        }
        TypedSends::Voice {} => source(VOICE_PACKET_BYTES, Rhythm::Every(VOICE_EVERY)),
        TypedSends::Dummies { per_second, packet } => {
            source(bytes(*packet, 40), Rhythm::Dummies(interval(*per_second), seed.sequence()))
        }
    }
}

/// TCP as it was when the results were published, with selective acknowledgments.
fn settings(tcp: &TypedTcp) -> Settings {
    Settings {
        algorithm: match tcp.algorithm {
            TypedAlgorithm::Newreno => Algorithm::NewReno,
            TypedAlgorithm::Fractional => Algorithm::Fractional,
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
    type Observer = Watch;

    fn event(&mut self, event: Event, world: &mut World<Self>) {
        match event {
            Event::Begin { traffic, flow } => self.open(traffic, flow, None, world),
            Event::Transfer { traffic, flow } => self.transfer(traffic, flow, world),
            Event::Look => {
                self.look(world);
                world.schedule_in(LOOKS_EVERY, Event::Look);
            }
            Event::Settled => self.settle(world),
        }
    }
}

impl Run<'_> {
    /// Schedules what is known to happen.
    fn begin(&mut self, seed: Seed, world: &mut World<Self>) {
        for (place, traffic) in self.plan.traffics.iter().enumerate() {
            for (number, ends) in self.ends[place].iter().enumerate() {
                let event = match traffic.sends {
                    TypedSends::Bulk {} => Event::Begin { traffic: place, flow: number },
                    TypedSends::Short { .. } => Event::Transfer { traffic: place, flow: number },
                    _ => continue,
                };
                let own = seed.named("transfers").numbered(place as u64).numbered(number as u64);
                self.random.insert((place, number), own.sequence());
                world.schedule(ends.begin, event);
            }
        }
        world.schedule(Time::START + LOOKS_EVERY, Event::Look);
        world.schedule(Time::START + self.plan.settle, Event::Settled);
    }

    /// Opens a connection that sends so many bytes, or for ever.
    fn open(&mut self, traffic: usize, flow: usize, bytes: Option<Bytes>, world: &mut World<Self>) {
        let ends = self.ends[traffic][flow];
        let port = self.ports.entry((traffic, flow)).or_insert(1_024);
        let ports = Ports { source: *port, destination: PORT };
        *port = port.checked_add(1).unwrap_or(1_024);
        let peer = address(ends.to.number() as usize, PORT);
        world.input(ends.from, |host, now| {
            if let Machine::Tcp(host) = host {
                // A transfer is forgotten when its ports come up again, after 64,000 others, whatever it does by then.
                let id = ConnectionId { peer, ports };
                host.take(id);
                host.open(id, Task::Bulk(Bulk::new(bytes)), now);
            }
        });
    }

    /// Begins a short transfer, and schedules the next.
    fn transfer(&mut self, traffic: usize, flow: usize, world: &mut World<Self>) {
        let TypedSends::Short { per_second, segments, shape, .. } = self.plan.traffics[traffic].sends else {
            return;
        };
        let random = self.random.get_mut(&(traffic, flow)).expect("each source has its own chance");
        let next = random.exponential(interval(per_second));
        let segments = pareto(random.fraction(), segments.unwrap_or(30.0), shape.unwrap_or(1.3));
        let bytes = Bytes::new(segments * u64::from(SEGMENT_BYTES));
        self.open(traffic, flow, Some(bytes), world);
        world.schedule_in(next, Event::Transfer { traffic, flow });
    }

    /// What happened on a link so far, in the direction of the first router to the last.
    pub(crate) fn uses(&self, link: usize, world: &World<Self>) -> [ClassUse; Class::COUNT] {
        *world
            .class_uses(self.routers[link], self.routers[link + 1])
            .expect("all links between routers have classes")
    }

    fn look(&mut self, world: &World<Self>) {
        let uses = self.uses(self.plan.observed, world);
        let [_, low_delay, _] = uses;
        let [_, before, _] = std::mem::replace(&mut self.looked, uses);
        let link = [0, 1].map(|end| self.routers[self.plan.observed + end]);
        if let Some(flows) = world.counted_flows(link[0], link[1]).filter(|_| self.has_settled) {
            self.looks += 1;
            for (sum, flows) in self.counted.iter_mut().zip(flows) {
                *sum += u64::from(flows);
            }
        }
        let packets = low_delay.left - before.left;
        if packets > 0 {
            let waited = (low_delay.waited - before.waited) / packets;
            self.waits.push(waited.as_secs_f64() * 1_000.0);
        }
    }

    fn settle(&mut self, world: &World<Self>) {
        self.has_settled = true;
        self.settled = (0..self.plan.links.len()).map(|link| self.uses(link, world)).collect();
        self.delivered = self.all_delivered(world);
    }

    /// What all flows have delivered so far, in bytes of payload, or of IP packets where that is no stream.
    pub(crate) fn all_delivered(&self, world: &World<Self>) -> Vec<Vec<u64>> {
        let of = |ends: &Ends| match (world.host(ends.from), world.host(ends.to)) {
            (Machine::Tcp(host), _) => host.statistics().bytes_acknowledged.count(),
            (_, Machine::Sink(sink)) => sink.ip_bytes,
            _ => 0,
        };
        self.ends.iter().map(|flows| flows.iter().map(of).collect()).collect()
    }
}

/// So many, at least 1, of a Pareto distribution with this mean and shape, above 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of segments; casts saturate"
)]
fn pareto(fraction: f64, mean: f64, shape: f64) -> u64 {
    let least = mean * (shape - 1.0) / shape;
    (least / libm::pow(1.0 - fraction, 1.0 / shape)).round().clamp(1.0, 1e6) as u64
}

/// Runs it until the end, or until `watch` does not let it.
pub(crate) fn advance<'a>(
    run: &mut Run<'a>,
    world: &mut World<Run<'a>>,
    watch: &mut dyn FnMut(Duration, Bytes) -> ControlFlow<byway_scenario::Halt>,
) -> Option<(Duration, byway_scenario::Halt)> {
    /// A run is looked at after each such part.
    const PART: Duration = Duration::from_millis(100);
    let mut now = Duration::ZERO;
    while now < run.plan.length {
        now = (now + PART).min(run.plan.length);
        world.run_until(Time::START + now, run);
        if let ControlFlow::Break(halt) = watch(now, world.held_bytes()) {
            return Some((now, halt));
        }
    }
    None
}
