//! Simulated world of the study of network state: machines, reports of links, and measurements.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;

use byway_scenario::StopReason;
use byway_sim::tcp::{BulkSender, ConnectionId, Ports, Settings, Sink as TcpSink, TcpApplication, TcpHost};
use byway_sim::{Jitter, Link, NodeId, Random, Scenario, Seed, World};
use byway_state::{LinkSample, Path, SAMPLE_INTERVAL, StateQuery, Table};
use byway_units::{Bytes, Duration, Time};

use super::hosts::{InteractiveReceiver, InteractiveSender, NetworkHost, PACKET_BYTES, PoissonSource};
use super::plan::{PACKET, PlannedReporter, StatePlan, StateTraffic};
use super::raw::SenderSetting;
use super::reports::{LinkReporter, link_ids};

/// Payload of a TCP segment with options, in bytes: full IP packets have those of UDP and TCP
/// headers beside it.
const SEGMENT_BYTES: u16 = 1_452;

/// Port of all machines.
const PORT: u16 = 80;

/// Longest random delay of a flow's start, if flows start one after the other.
const START_SPREAD: Duration = Duration::from_millis(20);

/// Interval at which flows with state pause or continue by chance (section 6.2 of the paper).
const TOGGLE_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which senders get the state of their paths, and flows are measured.
pub(crate) const TICK: Duration = SAMPLE_INTERVAL;

/// Packets for each acknowledgment, unless set (RFC 9000, section 13.2.2).
const ACK_PACKETS: u32 = 2;

/// Scheduled event of the simulated world.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StateEvent {
    /// Start of a flow.
    Begin(usize),
    /// End of a flow.
    End(usize),
    /// Chance of a flow to pause or continue.
    Toggle(usize),
    /// Sample of a link.
    Sample(usize),
    /// Arrival of a link's reports.
    Report { link: usize, samples: [LinkSample; 2] },
    /// Delivery of state to senders, and measurement of flows.
    Tick,
}

/// State of a run: machines, random numbers, and measurements so far.
pub(crate) struct StateRun<'a> {
    pub(crate) plan: &'a StatePlan,
    routers: Vec<NodeId>,
    pub(crate) flows: Vec<RunningFlow>,
    reporters: Vec<LinkReporter>,
    losses: Vec<Random>,
    /// Samples of each link.
    pub(crate) points: Vec<Vec<QueuePoint>>,
}

/// Flow of a run, with its measurements.
pub(crate) struct RunningFlow {
    /// Index of its traffic in the plan.
    pub(crate) traffic: usize,
    pub(crate) begin: Time,
    from: NodeId,
    to: NodeId,
    /// Tables of both directions, if a link of its path reports.
    tables: Option<[Table; 2]>,
    is_begun: bool,
    random: Random,
    /// Bytes of IP packets that were delivered until each tick.
    pub(crate) delivered: Vec<u64>,
    /// Times and round trips: of acknowledgments, or of TCP's smoothed estimate.
    pub(crate) round_trips: Vec<(Time, Duration)>,
}

/// Sample of a link's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuePoint {
    pub(crate) time: Time,
    /// Bytes that wait in the interactive queue.
    pub(crate) backlog: Bytes,
    /// Bytes of all packets that have left the link so far.
    pub(crate) sent: Bytes,
}

type StateWorld<'a> = World<StateRun<'a>>;

/// Builds the simulated world of a plan, with all machines and the first events.
pub(crate) fn build(plan: &StatePlan, seed: u64) -> (StateRun<'_>, StateWorld<'_>) {
    let seed = Seed::new(seed);
    let mut world: StateWorld<'_> = World::new(seed, ());
    let routers: Vec<NodeId> =
        (0..=plan.links.len()).map(|number| world.add(NetworkHost::Router, address(number))).collect();
    for (link, ends) in plan.links.iter().zip(routers.windows(2)) {
        let forward =
            Link { scheduling: Some(link.scheduling), delay: link.simulated_delay(), ..Link::default() };
        world.connect(ends[0], ends[1], forward);
        world.connect(ends[1], ends[0], Link { delay: link.propagation, ..Link::default() });
    }
    let mut run = StateRun {
        plan,
        routers,
        flows: Vec::new(),
        reporters: (0..plan.links.len()).map(LinkReporter::new).collect(),
        losses: (0..plan.links.len() as u64)
            .map(|link| seed.named("reports").numbered(link).sequence())
            .collect(),
        points: vec![Vec::new(); plan.links.len()],
    };
    for traffic in 0..plan.traffics.len() {
        for nth in 0..plan.traffics[traffic].count {
            run.add_flow(traffic, nth, seed, &mut world);
        }
    }
    for (index, link) in plan.links.iter().enumerate() {
        world.schedule(Time::START + link.reporting.every, StateEvent::Sample(index));
    }
    // After the samples of the same instant.
    world.schedule(Time::START + TICK + Duration::from_nanos(1), StateEvent::Tick);
    (run, world)
}

/// Returns the simulated address of a machine: 10.0.0.0 plus `number`.
fn address(number: usize) -> SocketAddr {
    let number = u32::try_from(number).expect("a world has fewer machines than addresses");
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + number), PORT))
}

/// Returns the tables of both directions, with the managed links of a path; `None` without such
/// links.
fn tables(links: &[PlannedReporter], (first, next): (usize, usize)) -> Option<[Table; 2]> {
    let managed = || (first..next).filter(move |index| links[*index].reporting.is_managed);
    let forward = Path::new(managed().map(|index| link_ids(index)[0])).ok()?;
    let back = Path::new(managed().rev().map(|index| link_ids(index)[1])).ok()?;
    Some([forward, back].map(Table::new))
}

/// Makes both machines of a flow, and the sender's settings of TCP.
fn machines(
    plan: &StatePlan,
    traffic: &StateTraffic,
    ends: [SocketAddr; 2],
    times: [Time; 2],
    seed: Seed,
) -> [NetworkHost; 2] {
    let [from, to] = ends;
    match &traffic.sends {
        SenderSetting::State { rules, acks, .. } => {
            let sender = InteractiveSender::new(to, traffic.dscp, rules.rules());
            let packets_for_ack = acks.unwrap_or(ACK_PACKETS) as usize;
            let receiver = InteractiveReceiver::new(from, packets_for_ack);
            [NetworkHost::Sender(Box::new(sender)), NetworkHost::Receiver(receiver)]
        }
        SenderSetting::Tcp { algorithm } => {
            let settings = Settings {
                algorithm: algorithm.algorithm(),
                segment_bytes: SEGMENT_BYTES,
                timestamps: false,
                receive_window: plan.receive_window(traffic),
                ..Settings::default()
            };
            let mut hosts = [0, 1].map(|end| TcpHost::new(settings, seed.numbered(end)));
            hosts[0].set_dscp(traffic.dscp);
            hosts[1].listen(PORT, TcpApplication::Sink(TcpSink::default()));
            hosts.map(|host| NetworkHost::Tcp(Box::new(host)))
        }
        SenderSetting::Poisson { rate } => {
            let mean = PACKET / rate.0;
            let source = PoissonSource::new(to, traffic.dscp, mean, seed.sequence(), times);
            [NetworkHost::Poisson(source), NetworkHost::PoissonSink(0)]
        }
    }
}

impl<'a> StateRun<'a> {
    /// Adds a flow's machines, routes and first events to the world.
    fn add_flow(&mut self, index: usize, nth: u32, seed: Seed, world: &mut StateWorld<'a>) {
        let traffic = &self.plan.traffics[index];
        let seed = seed.named("flow").numbered(index as u64).numbered(u64::from(nth));
        let mut random = seed.named("times").sequence();
        let spread = if traffic.apart.is_zero() { Duration::ZERO } else { random.up_to(START_SPREAD) };
        let begin = Time::START + traffic.starts + traffic.apart * u64::from(nth) + spread;
        let end = Time::START + traffic.stops;
        let ends = [0, 1].map(|machine| address(world.nodes() + machine));
        let hosts = machines(self.plan, traffic, ends, [begin, end], seed.named("machines"));
        let mut addresses = ends.into_iter();
        let [from, to] = hosts.map(|host| {
            let address = addresses.next().expect("each machine has an address");
            world.add(host, address)
        });
        let jitter = Jitter { max: traffic.jitter, may_reorder: false };
        let path = &self.routers[traffic.links.0..=traffic.links.1];
        connect(world, [from, to], path, jitter);
        let number = self.flows.len();
        if end > begin {
            world.schedule(begin, StateEvent::Begin(number));
            world.schedule(end, StateEvent::End(number));
        }
        if traffic.toggles.value() > 0.0 {
            world.schedule(begin + TOGGLE_INTERVAL, StateEvent::Toggle(number));
        }
        self.flows.push(RunningFlow {
            traffic: index,
            begin,
            from,
            to,
            tables: tables(&self.plan.links, traffic.links),
            is_begun: false,
            random,
            delivered: Vec::new(),
            round_trips: Vec::new(),
        });
    }

    fn begin(&mut self, number: usize, world: &mut StateWorld<'a>) {
        let flow = &mut self.flows[number];
        flow.is_begun = true;
        match &self.plan.traffics[flow.traffic].sends {
            SenderSetting::State { history, .. } => {
                let has_history = history.unwrap_or(true);
                let tables = flow.tables.as_ref().filter(|_| has_history);
                world.input(flow.from, |host, now| {
                    host.with_sender(|sender| {
                        if let Some([forward, back]) = tables {
                            let query = StateQuery::first();
                            sender.on_entries(forward.after(query, now), back.after(query, now), now);
                        }
                        sender.set_active(true);
                    });
                });
            }
            SenderSetting::Tcp { .. } => {
                let id = connection(flow.to);
                world.input(flow.from, |host, now| {
                    if let NetworkHost::Tcp(host) = host {
                        host.open(id, TcpApplication::Bulk(BulkSender::new(None)), now);
                    }
                });
            }
            SenderSetting::Poisson { .. } => {}
        }
    }

    /// Ends a flow: nothing more of it is sent.
    fn end(&self, number: usize, world: &mut StateWorld<'a>) {
        let RunningFlow { from, to, .. } = self.flows[number];
        world.input(from, |host, _| match host {
            NetworkHost::Sender(sender) => sender.set_active(false),
            NetworkHost::Tcp(host) => {
                host.remove(connection(to));
            }
            _ => {}
        });
    }

    fn toggle(&mut self, number: usize, world: &mut StateWorld<'a>) {
        let flow = &mut self.flows[number];
        if flow.random.happens(self.plan.traffics[flow.traffic].toggles) {
            world.input(flow.from, |host, _| host.with_sender(InteractiveSender::toggle));
        }
        world.schedule_in(TOGGLE_INTERVAL, StateEvent::Toggle(number));
    }

    fn sample(&mut self, index: usize, world: &mut StateWorld<'a>) {
        let (link, now) = (&self.plan.links[index], world.now());
        world.schedule_in(link.reporting.every, StateEvent::Sample(index));
        let Some(sample) = world.sample(self.routers[index], self.routers[index + 1]) else { return };
        self.points[index].push(QueuePoint {
            time: now,
            backlog: sample.backlog[link.class as usize],
            sent: sample.sent.into_iter().sum(),
        });
        let samples = self.reporters[index].report(link, &sample, now);
        let is_lost = self.losses[index].happens(link.reporting.lost);
        if link.reporting.is_managed && !is_lost {
            world.schedule_in(link.reporting.age, StateEvent::Report { link: index, samples });
        }
    }

    fn on_reports(&mut self, index: usize, samples: [LinkSample; 2], now: Time) {
        let age = self.plan.links[index].reporting.age;
        let states = self.reporters[index].on_reports(samples, age, now);
        for flow in &mut self.flows {
            for (table, state) in flow.tables.iter_mut().flatten().zip(&states) {
                if let Some(state) = state {
                    table.report(state, now);
                }
            }
        }
    }

    fn tick(&mut self, world: &mut StateWorld<'a>) {
        let now = world.now();
        for flow in &mut self.flows {
            if let Some([forward, back]) = &mut flow.tables {
                let (forward, back) = (forward.tick(now), back.tick(now));
                if flow.is_begun {
                    world.input(flow.from, |host, now| {
                        host.with_sender(|sender| sender.on_entries(forward, back, now));
                    });
                }
            }
            flow.measure(world);
        }
        world.schedule_in(TICK, StateEvent::Tick);
    }
}

impl RunningFlow {
    /// Records the bytes delivered so far, and the round trip of TCP.
    fn measure(&mut self, world: &StateWorld<'_>) {
        let bytes = match (world.host(self.from), world.host(self.to)) {
            (_, NetworkHost::Receiver(receiver)) => receiver.ip_bytes,
            (_, NetworkHost::PoissonSink(bytes)) => *bytes,
            (NetworkHost::Tcp(host), _) => {
                let estimate = host.connection(connection(self.to));
                let estimate = estimate.and_then(|(connection, _)| connection.smoothed_round_trip());
                self.round_trips.extend(estimate.map(|round_trip| (world.now(), round_trip)));
                let payload = host.statistics().bytes_acknowledged.count();
                payload * u64::from(PACKET_BYTES) / u64::from(SEGMENT_BYTES)
            }
            _ => 0,
        };
        self.delivered.push(bytes);
    }
}

/// Returns the only connection to a machine.
fn connection(to: NodeId) -> ConnectionId {
    let peer = address(to.number() as usize);
    ConnectionId { peer, ports: Ports { source: 1_024, destination: PORT } }
}

/// Connects both machines of a flow to the first and the last router, with routes in both
/// directions.
fn connect(world: &mut StateWorld<'_>, [from, to]: [NodeId; 2], path: &[NodeId], jitter: Jitter) {
    let [first, .., last] = path else { return };
    world.connect_both(from, *first, &Link::default());
    world.connect(*last, to, Link { jitter, ..Link::default() });
    world.connect(to, *last, Link::default());
    for (there, next) in [&from].into_iter().chain(path).zip(path.iter().chain([&to])) {
        world.route(*there, to, *next);
        world.route(*next, from, *there);
    }
}

impl<'a> Scenario for StateRun<'a> {
    type Host = NetworkHost;
    type Event = StateEvent;
    type Observer = ();

    fn event(&mut self, event: StateEvent, world: &mut StateWorld<'a>) {
        match event {
            StateEvent::Begin(flow) => self.begin(flow, world),
            StateEvent::End(flow) => self.end(flow, world),
            StateEvent::Toggle(flow) => self.toggle(flow, world),
            StateEvent::Sample(link) => self.sample(link, world),
            StateEvent::Report { link, samples } => self.on_reports(link, samples, world.now()),
            StateEvent::Tick => self.tick(world),
        }
    }
}

/// Runs the world until the plan's end, or until `watch` stops it; returns the time and reason of
/// the stop. Then takes over the round trips that the senders measured.
pub(crate) fn advance<'a>(
    run: &mut StateRun<'a>,
    world: &mut StateWorld<'a>,
    watch: &mut dyn FnMut(Duration, Bytes) -> ControlFlow<StopReason>,
) -> Option<(Duration, StopReason)> {
    /// Simulated time between two calls of `watch`.
    const PART: Duration = Duration::from_millis(100);
    let (mut now, mut stop) = (Duration::ZERO, None);
    while now < run.plan.length && stop.is_none() {
        now = (now + PART).min(run.plan.length);
        // With the tick of the same instant.
        world.run_until(Time::START + now + Duration::from_nanos(1), run);
        if let ControlFlow::Break(reason) = watch(now, world.memory_bytes()) {
            stop = Some((now, reason));
        }
    }
    for flow in &mut run.flows {
        let round_trips = &mut flow.round_trips;
        world.host_mut(flow.from).with_sender(|sender| round_trips.append(&mut sender.round_trips));
    }
    stop
}
