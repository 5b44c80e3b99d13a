//! The world: hosts, the network between them, and virtual time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_sched::{Class, Sample};
use byway_units::{Bytes, Duration, Time};

use crate::event_queue::{Event, EventQueue};
use crate::host::Host;
use crate::link::{BottleneckUsage, ClassCounters, Link};
use crate::log::{LinkCounters, Observer};
use crate::network::{ConservationError, Network};
use crate::node::{Condition, Node, NodeId};
use crate::random::Seed;
use crate::slab::Slab;

/// Applications above the hosts and faults around them.
///
/// It also names the types that make up a world, which all other code writes as `World<Self>`.
pub trait Scenario: Sized {
    /// Type of the hosts; an enum if there are several kinds.
    type Host: Host;
    /// Type of the events that the scenario schedules.
    type Event;
    /// Type of the observer of every packet; `()` for none.
    type Observer: Observer;

    /// Handles an event that was [scheduled](World::schedule) for this instant.
    fn event(&mut self, event: Self::Event, world: &mut World<Self>);

    /// Hint, possibly repeated, that an event will happen soon: the scenario may prefetch its data
    /// into the cache. Returns the node that gets an input because of the event, if any; the world
    /// gives its host the same hint.
    fn prepare(&self, _event: &Self::Event, _world: &World<Self>) -> Option<NodeId> {
        None
    }

    /// Notifies the scenario that a node got an input and was drained. The scenario can drain the
    /// host's outputs to its application, by [`World::host_mut`], and react, by [`World::input`].
    fn drained(&mut self, _node: NodeId, _world: &mut World<Self>) {}
}

/// A world in virtual time.
///
/// - *Built* by [`add`](Self::add) and [`connect`](Self::connect);
/// - *run* by [`run_until`](Self::run_until) or [`step`](Self::step), which call the [`Scenario`];
/// - *changed* from there, by [`input`](Self::input) to a host, by [`schedule`](Self::schedule),
///   and by faults: [`stop`](Self::stop), [`freeze`](Self::freeze), [`resume`](Self::resume),
///   [`restart`](Self::restart), [`assign`](Self::assign),
///   [`change_address`](Self::change_address);
/// - *read* at any time: counters, digest, observer, hosts.
///
/// The same seed and the same calls give the same trace, byte for byte, on every machine. Events of
/// one instant happen in the order in which they were caused.
pub struct World<S: Scenario> {
    pub(crate) now: Time,
    seed: Seed,
    pub(crate) nodes: Vec<Node<S::Host>>,
    pub(crate) network: Network<S::Observer>,
    pub(crate) queue: EventQueue,
    pub(crate) scheduled: Slab<S::Event>,
    /// Drained nodes that the scenario has not yet been notified of.
    pub(crate) drained: VecDeque<NodeId>,
    /// Number of events in the current instant until now.
    pub(crate) instant_events: usize,
}

impl<S: Scenario> World<S> {
    /// Creates an empty world.
    #[must_use]
    pub fn new(seed: Seed, observer: S::Observer) -> Self {
        Self {
            now: Time::START,
            seed,
            nodes: Vec::new(),
            network: Network::new(seed, observer),
            queue: EventQueue::default(),
            scheduled: Slab::new(),
            drained: VecDeque::new(),
            instant_events: 0,
        }
    }

    /// Adds a host with this address, and removes the address from its previous owner. The world
    /// drains the host when it runs next.
    pub fn add(&mut self, host: S::Host, address: SocketAddr) -> NodeId {
        let node = NodeId::from_index(self.nodes.len());
        self.nodes.push(Node::new(host));
        self.assign(address, node);
        self.queue.push(self.now, Event::Drain(node));
        node
    }

    /// Creates or changes the link from one node to another. Queued packets and packets in flight
    /// are not affected, and loss processes whose properties do not change continue unchanged.
    ///
    /// # Panics
    /// If a node is of another world.
    pub fn connect(&mut self, from: NodeId, to: NodeId, link: Link) {
        assert!(from.index().max(to.index()) < self.nodes.len(), "{from} or {to} is not in this world");
        self.network.connect(from, to, link, self.now);
    }

    /// Creates or changes the links in both directions. They have the same properties and separate
    /// random processes.
    ///
    /// # Panics
    /// If a node is of another world.
    pub fn connect_both(&mut self, one: NodeId, other: NodeId, link: &Link) {
        self.connect(one, other, link.clone());
        self.connect(other, one, link.clone());
    }

    /// Sets the next hop for packets that are at node `at` with a destination at node `to`. A link
    /// to `next` must exist; `next` may be `to` itself. A running node forwards packets for others
    /// without its host, if it has a next hop for them.
    ///
    /// # Panics
    /// If a node is of another world.
    pub fn route(&mut self, at: NodeId, to: NodeId, next: NodeId) {
        let last = at.index().max(to.index()).max(next.index());
        assert!(last < self.nodes.len(), "{at}, {to} or {next} is not in this world");
        self.network.set_next_hop(at, to, next);
    }

    /// Returns the current time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Returns the time of the next event; `None` if there is none. A driver in real time waits
    /// until then.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.queue.next_time()
    }

    /// Returns the seed of this world, from which scenarios may derive their own.
    #[must_use]
    pub const fn seed(&self) -> Seed {
        self.seed
    }

    /// Returns the number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node with this index.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn node(&self, index: usize) -> NodeId {
        assert!(index < self.nodes.len(), "this world has {} nodes", self.nodes.len());
        NodeId::from_index(index)
    }

    /// Returns the host of a node.
    #[must_use]
    pub fn host(&self, node: NodeId) -> &S::Host {
        &self.nodes[node.index()].host
    }

    /// Returns the host of a node, for draining its outputs to the application. The world does not
    /// drain inputs through it: use [`World::input`].
    pub fn host_mut(&mut self, node: NodeId) -> &mut S::Host {
        &mut self.nodes[node.index()].host
    }

    /// Passes one input of the application to a host, and drains it. Returns `None` without a call
    /// if the node is stopped or frozen.
    pub fn input<R>(&mut self, node: NodeId, act: impl FnOnce(&mut S::Host, Time) -> R) -> Option<R> {
        let Node { host, condition: Condition::Running, .. } = &mut self.nodes[node.index()] else {
            return None;
        };
        let answer = act(host, self.now);
        self.drain(node);
        Some(answer)
    }

    /// Schedules an event of the scenario at this instant.
    ///
    /// # Panics
    /// If the instant has passed.
    pub fn schedule(&mut self, at: Time, event: S::Event) {
        assert!(at >= self.now, "{at} has passed: it is {}", self.now);
        let index = self.scheduled.insert(event);
        self.queue.push(at, Event::Scheduled(index));
    }

    /// Schedules an event of the scenario after this time.
    pub fn schedule_in(&mut self, delay: Duration, event: S::Event) {
        self.schedule(self.now + delay, event);
    }

    /// Runs until `end`, including events at that very instant, and sets the time to `end`.
    pub fn run_until(&mut self, end: Time, scenario: &mut S) {
        self.notify_drained(scenario);
        while self.queue.next_time().is_some_and(|next| next <= end) {
            self.step(scenario);
        }
        self.advance(self.now.max(end));
    }

    /// Runs for this time.
    pub fn run_for(&mut self, time: Duration, scenario: &mut S) {
        self.run_until(self.now + time, scenario);
    }

    /// Runs the next event at any time; `false` if there is none.
    pub fn step(&mut self, scenario: &mut S) -> bool {
        self.notify_drained(scenario);
        let Some((time, event)) = self.queue.pop() else {
            return false;
        };
        self.advance(time);
        self.count_event();
        self.prefetch_upcoming(scenario);
        match event {
            Event::Arrival(packet) => self.on_arrival(packet),
            Event::Departure(link) => self.network.on_departure(link, self.now, &mut self.queue),
            Event::Wake(node) => self.on_alarm(node),
            Event::Drain(node) => self.drain_if_running(node),
            Event::Scheduled(index) => scenario.event(self.scheduled.remove(index), self),
        }
        self.notify_drained(scenario);
        true
    }

    /// Returns the counters of the link between these nodes; `None` if there is no link.
    #[must_use]
    pub fn counters(&self, from: NodeId, to: NodeId) -> Option<&LinkCounters> {
        self.network.counters(from, to)
    }

    /// Returns the usage until now of the bottleneck between these nodes; `None` without a link or
    /// a bottleneck.
    #[must_use]
    pub fn bottleneck_usage(&self, from: NodeId, to: NodeId) -> Option<BottleneckUsage> {
        self.network.bottleneck_usage(from, to, self.now)
    }

    /// Returns the counters of each class of the link between these nodes, in the order of
    /// [`Class::ALL`]; `None` without a link or a scheduler.
    #[must_use]
    pub fn class_counters(&self, from: NodeId, to: NodeId) -> Option<&[ClassCounters; Class::COUNT]> {
        self.network.class_counters(from, to)
    }

    /// Returns the number of flows of each class, in the order of [`Class::ALL`], that the
    /// Rate-Delay queue between these nodes has counted; `None` without a link or such a queue.
    #[must_use]
    pub fn counted_flows(&self, from: NodeId, to: NodeId) -> Option<[u32; Class::COUNT]> {
        self.network.counted_flows(from, to)
    }

    /// Returns the counters, backlogs and rates of the Rate-Delay queue between these nodes at this
    /// time; `None` without a link or such a queue.
    pub fn sample(&mut self, from: NodeId, to: NodeId) -> Option<Sample> {
        self.network.sample(from, to, self.now)
    }

    /// Registers the flow between two addresses as interactive, at the link from one node to
    /// another. Until `end`, the link serves it in the low-delay class, whatever its DSCP. Returns
    /// false without a link or a scheduler, or if too many flows are registered there.
    pub fn register_flow(&mut self, ends: [NodeId; 2], addresses: [SocketAddr; 2], end: Time) -> bool {
        self.network.register_flow(ends, addresses, end, self.now)
    }

    /// Returns the counters of all links with their ends, in order.
    pub fn links(&self) -> impl Iterator<Item = (NodeId, NodeId, &LinkCounters)> {
        self.network.links()
    }

    /// Returns the number of packets to addresses without an owner, or without a link to it.
    #[must_use]
    pub const fn unroutable(&self) -> u64 {
        self.network.log.unroutable()
    }

    /// Returns the number of packets in flight, including those buffered for frozen hosts.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.network.in_flight()
    }

    /// Returns the memory of the packets in flight: payloads and headers.
    #[must_use]
    pub const fn memory_bytes(&self) -> Bytes {
        Bytes::new(self.network.memory_bytes() as u64)
    }

    /// Returns the number of times that the host of a node was woken at its deadline, across
    /// restarts.
    #[must_use]
    pub fn wake_ups(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].wake_ups
    }

    /// Returns a digest of all steps of packets until now: equal for two runs only if their traces
    /// are.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.network.log.digest()
    }

    /// Returns the observer.
    #[must_use]
    pub const fn observer(&self) -> &S::Observer {
        self.network.log.observer()
    }

    /// Returns the observer, for example to drain it.
    pub const fn observer_mut(&mut self) -> &mut S::Observer {
        self.network.log.observer_mut()
    }

    /// Checks that on each link, every packet sent or duplicated is delivered, lost, or in flight.
    ///
    /// # Errors
    /// If that is not the case; the error names the first link.
    pub fn check_conservation(&self) -> Result<(), ConservationError> {
        self.network.check_conservation()
    }
}
