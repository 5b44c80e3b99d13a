//! The simulated world under real traffic: packets enter and leave it at instants of the shared
//! clock.
//!
//! There are two worlds with the same delays. In the first, before the start, nothing is lost,
//! because the setup should be the same in every run. The second begins at the start, as its time
//! zero. Every run therefore meets the same losses at the same time since the start, regardless of
//! the duration of the setup. Packets in flight at the start stay in the first world.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::mem;
use std::net::{IpAddr, SocketAddr};

use byway_sim::{
    Datagram, Ecn, Host, LinkCounters, Marks, NodeId, Observer, Scenario, Seed, Transmit, World,
};
use byway_units::{Duration, Time};

use super::description::Description;
use super::log::PacketLog;
use crate::demo::clock::Instant;

/// Packet that leaves the emulated network, with the instant at which the emulator must send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) due: Instant,
    /// Indices of sender and receiver in the description.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

/// The two simulated worlds, before the start and measured, driven in real time.
pub(crate) struct Emulation {
    description: Description,
    by_real_ip: BTreeMap<IpAddr, usize>,
    before: Epoch<()>,
    measured: Option<Epoch<PacketLog>>,
}

impl Emulation {
    pub(crate) fn new(description: Description, now: Instant) -> Self {
        let by_real_ip = (0..).zip(&description.nodes).map(|(index, node)| (node.real.ip(), index)).collect();
        let seed = Seed::new(description.seed).named("before the start");
        let mut before = Epoch::new(&description, seed, now, ());
        for link in &description.links {
            before.connect(link.from, link.to, link.lossless_link());
        }
        Self { description, by_real_ip, before, measured: None }
    }

    /// Starts the measured world: from `origin` on, packets meet the losses of the description.
    pub(crate) fn start(&mut self, origin: Instant) -> anyhow::Result<()> {
        let log = PacketLog::default();
        let mut epoch = Epoch::new(&self.description, Seed::new(self.description.seed), origin, log);
        for link in &self.description.links {
            epoch.connect(link.from, link.to, link.link()?);
        }
        self.measured = Some(epoch);
        Ok(())
    }

    /// Returns the node with this real IP address, on any port.
    pub(crate) fn node_at(&self, real: IpAddr) -> Option<usize> {
        self.by_real_ip.get(&real).copied()
    }

    pub(crate) const fn description(&self) -> &Description {
        &self.description
    }

    /// Sends a packet of node `from` to a public address, in the world of this instant: before the
    /// start, or measured.
    pub(crate) fn send(&mut self, at: Instant, from: usize, to: SocketAddr, ecn: Ecn, payload: &[u8]) {
        match &mut self.measured {
            Some(measured) if at >= measured.origin => measured.send(at, from, to, ecn, payload),
            _ => self.before.send(at, from, to, ecn, payload),
        }
    }

    /// Runs both worlds to `now`, and calls `each` with every packet that has left them.
    pub(crate) fn departures(&mut self, now: Instant, mut each: impl FnMut(Departure)) {
        self.before.departures(now, &mut each);
        if let Some(measured) = &mut self.measured {
            measured.departures(now, &mut each);
        }
    }

    /// Returns the instant of the worlds' next event, usually a departure.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let measured = self.measured.as_ref().and_then(Epoch::next_event);
        self.before.next_event().into_iter().chain(measured).min()
    }

    /// Returns the log of the measured world; `None` if it never began.
    pub(crate) fn into_log(self) -> Option<MeasuredLog> {
        let mut measured = self.measured?;
        let index = |node: NodeId| node.number() as usize;
        let links = measured.world.links();
        let links = links.map(|(from, to, counters)| (index(from), index(to), *counters)).collect();
        let unroutable = measured.world.unroutable();
        let packets = mem::take(measured.world.observer_mut());
        Some(MeasuredLog { links, unroutable, packets })
    }
}

/// Log of the emulation since the start.
#[derive(Debug)]
pub(crate) struct MeasuredLog {
    pub(crate) links: Vec<(usize, usize, LinkCounters)>,
    pub(crate) unroutable: u64,
    pub(crate) packets: PacketLog,
}

/// Simulated world, and the instant of the demo's clock at which its time began.
struct Epoch<O: Observer> {
    origin: Instant,
    world: World<Carrier<O>>,
    carrier: Carrier<O>,
}

impl<O: Observer> Epoch<O> {
    fn new(description: &Description, seed: Seed, origin: Instant, observer: O) -> Self {
        let mut world = World::new(seed, observer);
        let nodes: Vec<_> =
            description.nodes.iter().map(|node| world.add(EdgeHost::default(), node.public)).collect();
        let by_public = description.nodes.iter().map(|node| node.public).zip(0..).collect();
        let carrier = Carrier { nodes, by_public, departed: VecDeque::new(), observer: PhantomData };
        Self { origin, world, carrier }
    }

    fn connect(&mut self, from: usize, to: usize, link: byway_sim::Link) {
        self.world.connect(self.carrier.nodes[from], self.carrier.nodes[to], link);
    }

    /// Returns the world's time at this instant, or its current time if that is later.
    fn time(&self, instant: Instant) -> Time {
        let since = Duration::from_nanos(instant.nanos_since(self.origin));
        (Time::START + since).max(self.world.now())
    }

    fn send(&mut self, at: Instant, from: usize, to: SocketAddr, ecn: Ecn, payload: &[u8]) {
        let time = self.time(at);
        self.world.run_until(time, &mut self.carrier);
        let node = self.carrier.nodes[from];
        self.world.input(node, |gate, _| gate.to_send = Some((to, ecn, payload.to_vec())));
    }

    fn departures(&mut self, now: Instant, each: &mut impl FnMut(Departure)) {
        let time = self.time(now);
        self.world.run_until(time, &mut self.carrier);
        for (time, to, arrival) in self.carrier.departed.drain(..) {
            let Arrival { from, ecn, payload } = arrival;
            let due = self.origin.plus_nanos((time - Time::START).as_nanos());
            each(Departure { due, from: self.carrier.by_public[&from], to, ecn, payload });
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let next = self.world.next_event()?;
        Some(self.origin.plus_nanos((next - Time::START).as_nanos()))
    }
}

/// Passive host of the simulator, at which a node's packets enter and leave the world.
#[derive(Debug, Default)]
struct EdgeHost {
    to_send: Option<(SocketAddr, Ecn, Vec<u8>)>,
    sending: Vec<u8>,
    arrived: VecDeque<Arrival>,
}

#[derive(Debug)]
struct Arrival {
    from: SocketAddr,
    ecn: Ecn,
    payload: Vec<u8>,
}

impl Host for EdgeHost {
    fn receive(&mut self, datagram: Datagram<'_>, _now: Time) {
        let Datagram { source: from, ecn, payload, .. } = datagram;
        self.arrived.push_back(Arrival { from, ecn, payload: payload.to_vec() });
    }

    fn wake(&mut self, _now: Time) {}

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        let (destination, ecn, payload) = self.to_send.take()?;
        self.sending = payload;
        Some(Transmit { source: None, destination, marks: Marks::default(), ecn, payload: &self.sending })
    }

    fn deadline(&self) -> Option<Time> {
        None
    }
}

/// Collector of the packets that arrive at the simulated hosts.
struct Carrier<O> {
    nodes: Vec<NodeId>,
    by_public: BTreeMap<SocketAddr, usize>,
    departed: VecDeque<(Time, usize, Arrival)>,
    observer: PhantomData<fn(O)>,
}

impl<O: Observer> Scenario for Carrier<O> {
    type Host = EdgeHost;
    type Event = ();
    type Observer = O;

    fn event(&mut self, (): (), _world: &mut World<Self>) {}

    fn drained(&mut self, node: NodeId, world: &mut World<Self>) {
        let now = world.now();
        let arrived = world.host_mut(node).arrived.drain(..);
        self.departed.extend(arrived.map(|arrival| (now, node.number() as usize, arrival)));
    }
}

/// Predicts the losses of the link from one node to another for packets at these times since the
/// start.
pub(crate) fn losses_at(
    description: &Description,
    from: usize,
    to: usize,
    times: &[Duration],
) -> anyhow::Result<Vec<bool>> {
    let origin = Instant::from_nanos(0);
    let mut emulation = Emulation::new(description.clone(), origin);
    emulation.start(origin)?;
    let public = description.nodes[to].public;
    let mut is_lost = Vec::with_capacity(times.len());
    for &time in times {
        let Some(measured) = &mut emulation.measured else { unreachable!("it has been started") };
        let lost = |epoch: &Epoch<PacketLog>| {
            let (from, to) = (epoch.carrier.nodes[from], epoch.carrier.nodes[to]);
            epoch.world.counters(from, to).map_or(0, |counters| counters.lost.total())
        };
        let before = lost(measured);
        measured.send(origin.plus_nanos(time.as_nanos()), from, public, Ecn::NotCapable, b"probe");
        is_lost.push(lost(measured) > before);
    }
    Ok(is_lost)
}
