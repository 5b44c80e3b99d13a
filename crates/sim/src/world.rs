//! The world: hosts, what is between them, and time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_sched::Class;
use byway_units::{Bytes, Duration, Time};

use crate::host::Host;
use crate::link::{BottleneckUse, ClassUse, Link};
use crate::log::{LinkCounters, Observer};
use crate::network::{ConservationError, Network};
use crate::node::{Condition, Node, NodeId};
use crate::queue::{Event, EventQueue};
use crate::random::Seed;
use crate::slab::Slab;

/// What hosts are made to do: the applications above them and the faults around them.
///
/// It also names the types that a world is made of, so that everything else says `World<Self>`.
pub trait Scenario: Sized {
    /// The hosts; an enum if there are several kinds.
    type Host: Host;
    /// What can be scheduled.
    type Event;
    /// Who sees every packet; `()` for nobody.
    type Observer: Observer;

    /// What was [scheduled](World::schedule) for this instant happens.
    fn event(&mut self, event: Self::Event, world: &mut World<Self>);

    /// Hint, more than once for an event: it is going to happen soon, and the scenario may bring what it needs into the cache.
    /// The node that gets an input by it, if one does, whose host is told likewise.
    fn prepare(&self, _event: &Self::Event, _world: &World<Self>) -> Option<NodeId> {
        None
    }

    /// A node took an input and was drained: now is the time to take what its host has for the application, by
    /// [`World::host_mut`], and to answer, by [`World::input`].
    fn drained(&mut self, _node: NodeId, _world: &mut World<Self>) {}
}

/// A world in virtual time.
///
/// - *Built* by [`add`](Self::add) and [`connect`](Self::connect);
/// - *moved* by [`run_until`](Self::run_until) or [`step`](Self::step), which call the [`Scenario`];
/// - *changed* from there, by [`input`](Self::input) to a host, by [`schedule`](Self::schedule), and by faults:
///   [`stop`](Self::stop), [`hang`](Self::hang), [`resume`](Self::resume), [`restart`](Self::restart),
///   [`assign`](Self::assign), [`readdress`](Self::readdress);
/// - *read* at any time: counters, digest, observer, hosts.
///
/// The same seed and the same calls give the same trace, byte for byte, on every machine. Events of one instant
/// happen in the order in which they were caused.
pub struct World<S: Scenario> {
    pub(crate) now: Time,
    seed: Seed,
    pub(crate) nodes: Vec<Node<S::Host>>,
    pub(crate) network: Network<S::Observer>,
    pub(crate) queue: EventQueue,
    pub(crate) scheduled: Slab<S::Event>,
    /// Nodes of which the scenario has not yet been told that they were drained.
    pub(crate) drained: VecDeque<NodeId>,
    /// Events in this instant so far.
    pub(crate) instant_events: usize,
}

impl<S: Scenario> World<S> {
    /// An empty world.
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

    /// Adds a host with this address, which is taken from whoever had it. What it has to send leaves when the
    /// world moves on.
    pub fn add(&mut self, host: S::Host, address: SocketAddr) -> NodeId {
        let node = NodeId::from_index(self.nodes.len());
        self.nodes.push(Node::new(host));
        self.assign(address, node);
        self.queue.push(self.now, Event::Drain(node));
        node
    }

    /// Makes the link from one node to another, or changes it: packets that are queued or under way stay so, and
    /// loss processes that are described as before go on as before.
    ///
    /// # Panics
    /// If a node is of another world.
    pub fn connect(&mut self, from: NodeId, to: NodeId, link: Link) {
        assert!(from.index().max(to.index()) < self.nodes.len(), "{from} or {to} is not in this world");
        self.network.connect(from, to, link, self.now);
    }

    /// Makes or changes the links in both directions. They are described alike, and chance is not shared.
    ///
    /// # Panics
    /// If a node is of another world.
    pub fn connect_both(&mut self, one: NodeId, other: NodeId, link: &Link) {
        self.connect(one, other, link.clone());
        self.connect(other, one, link.clone());
    }

    /// Has packets that are at one node, and for another, go by a third one next, to which there is a link; `next` may be
    /// `to` itself. A node that runs passes on what is for others, without its host, as far as it was said where to.
    ///
    /// # Panics
    /// If a node is of another world.
    pub fn route(&mut self, at: NodeId, to: NodeId, next: NodeId) {
        let last = at.index().max(to.index()).max(next.index());
        assert!(last < self.nodes.len(), "{at}, {to} or {next} is not in this world");
        self.network.set_next_hop(at, to, next);
    }

    /// The present instant.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// When something happens next; `None` if nothing is going to. A driver in real time waits until then.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.queue.next_time()
    }

    /// The seed of this world, from which scenarios may derive their own.
    #[must_use]
    pub const fn seed(&self) -> Seed {
        self.seed
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The node that was added after so many others.
    ///
    /// # Panics
    /// If there are no more.
    #[must_use]
    pub fn node(&self, place: usize) -> NodeId {
        assert!(place < self.nodes.len(), "this world has {} nodes", self.nodes.len());
        NodeId::from_index(place)
    }

    /// The host of a node, to look at.
    #[must_use]
    pub fn host(&self, node: NodeId) -> &S::Host {
        &self.nodes[node.index()].host
    }

    /// The host of a node, to take its outputs to the application. An input would not be drained: use
    /// [`World::input`].
    pub fn host_mut(&mut self, node: NodeId) -> &mut S::Host {
        &mut self.nodes[node.index()].host
    }

    /// Gives a host one input from its application, and drains it. `None`, without a call, if the node is
    /// stopped or hangs.
    pub fn input<R>(&mut self, node: NodeId, act: impl FnOnce(&mut S::Host, Time) -> R) -> Option<R> {
        let Node { host, condition: Condition::Running, .. } = &mut self.nodes[node.index()] else {
            return None;
        };
        let answer = act(host, self.now);
        self.drain(node);
        Some(answer)
    }

    /// Has the scenario called with this event at this instant.
    ///
    /// # Panics
    /// If the instant has passed.
    pub fn schedule(&mut self, at: Time, event: S::Event) {
        assert!(at >= self.now, "{at} has passed: it is {}", self.now);
        let index = self.scheduled.insert(event);
        self.queue.push(at, Event::Scheduled(index));
    }

    /// Has the scenario called with this event after this time.
    pub fn schedule_in(&mut self, delay: Duration, event: S::Event) {
        self.schedule(self.now + delay, event);
    }

    /// Runs until `end`, events at that very instant included; then it is `end`.
    pub fn run_until(&mut self, end: Time, scenario: &mut S) {
        self.tell_drained(scenario);
        while self.queue.next_time().is_some_and(|next| next <= end) {
            self.step(scenario);
        }
        self.advance(self.now.max(end));
    }

    /// Runs for this time.
    pub fn run_for(&mut self, time: Duration, scenario: &mut S) {
        self.run_until(self.now + time, scenario);
    }

    /// Runs the next event, whenever it is; `false` if there is none.
    pub fn step(&mut self, scenario: &mut S) -> bool {
        self.tell_drained(scenario);
        let Some((time, event)) = self.queue.pop() else {
            return false;
        };
        self.advance(time);
        self.count_event();
        self.look_ahead(scenario);
        match event {
            Event::Arrival(packet) => self.arrive(packet),
            Event::Departure(link) => self.network.depart(link, self.now, &mut self.queue),
            Event::Wake(node) => self.ring(node),
            Event::Drain(node) => self.drain_if_running(node),
            Event::Scheduled(index) => scenario.event(self.scheduled.take(index), self),
        }
        self.tell_drained(scenario);
        true
    }

    /// What happened on the link between these nodes; `None` if there is no link.
    #[must_use]
    pub fn counters(&self, from: NodeId, to: NodeId) -> Option<&LinkCounters> {
        self.network.counters(from, to)
    }

    /// How much the bottleneck of the link between these nodes had to do by now; `None` if there is no link, or none with one.
    #[must_use]
    pub fn bottleneck_use(&self, from: NodeId, to: NodeId) -> Option<BottleneckUse> {
        self.network.bottleneck_use(from, to, self.now)
    }

    /// What happened to the packets of each class, high rate and low delay, on the link between these nodes; `None` if there is no link,
    /// or none whose queue tells them apart.
    #[must_use]
    pub fn class_uses(&self, from: NodeId, to: NodeId) -> Option<&[ClassUse; Class::COUNT]> {
        self.network.class_uses(from, to)
    }

    /// How many flows of each class, high rate and low delay, the Rate-Delay queue of the link between these nodes has counted; `None`
    /// if there is no link, or none with such a queue.
    #[must_use]
    pub fn counted_flows(&self, from: NodeId, to: NodeId) -> Option<[u32; Class::COUNT]> {
        self.network.counted_flows(from, to)
    }

    /// What happened on all links, by their ends, in order.
    pub fn links(&self) -> impl Iterator<Item = (NodeId, NodeId, &LinkCounters)> {
        self.network.links()
    }

    /// Packets to addresses that nobody has, or that no link leads to.
    #[must_use]
    pub const fn unroutable(&self) -> u64 {
        self.network.log.unroutable()
    }

    /// How many packets are under way, those that are kept for hung hosts included.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.network.in_flight()
    }

    /// What the packets under way take of memory: what they carry, and what the world knows of each.
    #[must_use]
    pub const fn held_bytes(&self) -> Bytes {
        Bytes::new(self.network.held_bytes() as u64)
    }

    /// How often the host of a node was woken because its deadline had come, restarts included.
    #[must_use]
    pub fn wake_ups(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].wake_ups
    }

    /// A digest of everything that happened to packets so far: the same for two runs only if their traces are.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.network.log.digest()
    }

    /// The observer.
    #[must_use]
    pub const fn observer(&self) -> &S::Observer {
        self.network.log.observer()
    }

    /// The observer, to empty it for instance.
    pub const fn observer_mut(&mut self) -> &mut S::Observer {
        self.network.log.observer_mut()
    }

    /// Whether on each link, all that was sent or duplicated was delivered, lost, or is under way.
    ///
    /// # Errors
    /// If not; the error names the first link.
    pub fn check_conservation(&self) -> Result<(), ConservationError> {
        self.network.check_conservation()
    }
}
