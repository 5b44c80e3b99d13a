//! What the world does when something happens: it hands inputs to hosts, and drains them.

use byway_code::prefetch_value;
use byway_units::Time;

use crate::host::{Datagram, Host};
use crate::limits::{CACHED_NODES, DRAINED_DATAGRAMS_MAX, HELD_PACKETS_MAX, INSTANT_EVENTS_MAX, NEAR_EVENTS};
use crate::log::LossReason;
use crate::node::{Condition, Hang, NodeId};
use crate::pool::PacketIndex;
use crate::queue::Event;
use crate::world::{Scenario, World};

/// How many steps it takes to find what a host needs.
const HOST_DEPTHS: usize = 3;

// Before a host is asked, its node and the datagram have been fetched.
const _: () = assert!(NEAR_EVENTS - 2 > HOST_DEPTHS);

impl<S: Scenario> World<S> {
    /// It is `time` now.
    ///
    /// # Panics
    /// If it was later before.
    pub(crate) fn advance(&mut self, time: Time) {
        assert!(time >= self.now, "time goes back from {} to {time}", self.now);
        if time > self.now {
            (self.now, self.instant_events) = (time, 0);
        }
    }

    /// # Panics
    /// If time stands still.
    pub(crate) fn count_event(&mut self) {
        self.instant_events += 1;
        assert!(
            self.instant_events <= INSTANT_EVENTS_MAX,
            "time stands still at {}, after {INSTANT_EVENTS_MAX} events: a deadline that does not move on, or \
             hosts that answer each other without delay",
            self.now
        );
    }

    /// Brings what the next events need into the cache, while the one at hand happens.
    ///
    /// What an event needs is found step by step, one for each event before it: what the world knows of it, the datagram, and
    /// then what hosts have, at each depth what the one before found.
    pub(crate) fn look_ahead(&mut self, scenario: &S) {
        if self.nodes.len() < CACHED_NODES {
            return;
        }
        while let Some(event) = self.queue.approach() {
            match event {
                Event::Arrival(packet) => self.network.fetch(packet),
                _ => self.fetch_node(event, scenario),
            }
        }
        if let Some(event @ Event::Arrival(packet)) = self.queue.ahead(NEAR_EVENTS - 2) {
            self.network.fetch_payload(packet);
            self.fetch_node(event, scenario);
        }
        for depth in 0..HOST_DEPTHS {
            let Some(event) = self.queue.ahead(HOST_DEPTHS - depth) else {
                continue;
            };
            if let Some(node) = self.node_of(event, scenario) {
                self.nodes[node.index()].host.prepare(depth, self.network.datagram(event));
            }
        }
    }

    fn fetch_node(&self, event: Event, scenario: &S) {
        if let Some(node) = self.node_of(event, scenario) {
            prefetch_value(&self.nodes[node.index()]);
        }
    }

    /// The node that an event is about.
    fn node_of(&self, event: Event, scenario: &S) -> Option<NodeId> {
        match event {
            Event::Arrival(packet) => Some(self.network.target(packet)),
            Event::Wake(node) | Event::Drain(node) => Some(node),
            Event::Departure(_) => None,
            Event::Scheduled(index) => scenario.prepare(self.scheduled.get(index)?, self),
        }
    }

    pub(crate) fn arrive(&mut self, packet: PacketIndex) {
        let target = self.network.target(packet);
        if let Some(onward) = self.network.onward(packet) {
            return match self.nodes[target.index()].condition {
                Condition::Running => self.network.pass_on(packet, onward, self.now, &mut self.queue),
                Condition::Hung(_) => self.network.lose(packet, LossReason::Hung, self.now),
                Condition::Stopped => self.network.lose(packet, LossReason::Stopped, self.now),
            };
        }
        if !self.network.is_current(packet) {
            return self.network.lose(packet, LossReason::AddressMoved, self.now);
        }
        let node = &mut self.nodes[target.index()];
        match node.condition {
            Condition::Running => self.deliver(packet, target),
            Condition::Hung(Hang::Keep) if node.held.len() < HELD_PACKETS_MAX => node.held.push_back(packet),
            Condition::Hung(_) => self.network.lose(packet, LossReason::Hung, self.now),
            Condition::Stopped => self.network.lose(packet, LossReason::Stopped, self.now),
        }
    }

    fn deliver(&mut self, index: PacketIndex, target: NodeId) {
        let packet = self.network.deliver(index, self.now);
        let datagram = Datagram {
            source: packet.header.source,
            destination: packet.header.destination,
            ecn: packet.header.ecn,
            payload: &mut packet.payload,
        };
        self.nodes[target.index()].host.receive(datagram, self.now);
        self.network.release_packet(index);
        self.drain(target);
    }

    /// An alarm of the node came up; its deadline may have moved since.
    pub(crate) fn ring(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        node.alarms.ring();
        if !node.is_running() {
            return;
        }
        if node.host.deadline().is_some_and(|deadline| deadline <= self.now) {
            node.wake_ups += 1;
            node.host.wake(self.now);
            self.drain(id);
        } else {
            self.set_alarm(id);
        }
    }

    pub(crate) fn drain_if_running(&mut self, node: NodeId) {
        if self.nodes[node.index()].is_running() {
            self.drain(node);
        }
    }

    /// Sends all that the host has to send, and notes its deadline.
    ///
    /// # Panics
    /// If the host never stops sending.
    pub(crate) fn drain(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        let address = node.addresses.first().copied();
        let mut datagrams = 0;
        while let Some(transmit) = node.host.transmit(self.now) {
            datagrams += 1;
            assert!(
                datagrams <= DRAINED_DATAGRAMS_MAX,
                "{id} sent {datagrams} datagrams in answer to one input"
            );
            self.network.send(id, address, transmit, self.now, &mut self.queue);
        }
        self.set_alarm(id);
        self.mark_drained(id);
    }

    fn set_alarm(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if let Some(deadline) = node.host.deadline() {
            let time = deadline.max(self.now);
            if node.alarms.set(time) {
                self.queue.push(time, Event::Wake(id));
            }
        }
    }

    fn mark_drained(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if !node.is_drained {
            node.is_drained = true;
            self.drained.push_back(id);
        }
    }

    /// Tells the scenario which nodes were drained, until its answers drain no further ones.
    pub(crate) fn tell_drained(&mut self, scenario: &mut S) {
        while let Some(id) = self.drained.pop_front() {
            self.nodes[id.index()].is_drained = false;
            self.count_event();
            scenario.drained(id, self);
        }
    }
}
