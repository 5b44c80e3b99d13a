//! Dispatch of events: the world passes inputs to hosts and drains them.

use byway_code::prefetch_value;
use byway_units::Time;

use crate::event_queue::Event;
use crate::host::{Datagram, Host};
use crate::limits::{
    CACHED_NODES, DRAINED_DATAGRAMS_MAX, FROZEN_BACKLOG_MAX, INSTANT_EVENTS_MAX, NEAR_EVENTS,
};
use crate::log::LossReason;
use crate::node::{Condition, Freeze, NodeId};
use crate::pool::PacketIndex;
use crate::world::{Scenario, World};

/// Number of prefetch steps inside a host: each follows a pointer that the step before loaded.
const HOST_DEPTHS: usize = 3;

// The node and the datagram are prefetched before the host's data.
const _: () = assert!(NEAR_EVENTS - 2 > HOST_DEPTHS);

impl<S: Scenario> World<S> {
    /// Sets the current time.
    ///
    /// # Panics
    /// If `time` is before the current time.
    pub(crate) fn advance(&mut self, time: Time) {
        assert!(time >= self.now, "time goes back from {} to {time}", self.now);
        if time > self.now {
            (self.now, self.instant_events) = (time, 0);
        }
    }

    /// Counts an event of this instant.
    ///
    /// # Panics
    /// If the instant has more than [`INSTANT_EVENTS_MAX`] events: time stands still.
    pub(crate) fn count_event(&mut self) {
        self.instant_events += 1;
        assert!(
            self.instant_events <= INSTANT_EVENTS_MAX,
            "time stands still at {}, after {INSTANT_EVENTS_MAX} events: a deadline that does not move on, or \
             hosts that answer each other without delay",
            self.now
        );
    }

    /// Prefetches the data of the next events into the cache while the current event is processed.
    ///
    /// The data of an event is prefetched step by step, one step for each event before it. The
    /// steps are the world's record, the datagram, and then the host's data, at each depth through
    /// the data of the previous one.
    pub(crate) fn prefetch_upcoming(&mut self, scenario: &S) {
        if self.nodes.len() < CACHED_NODES {
            return;
        }
        while let Some(event) = self.queue.promote_next() {
            match event {
                Event::Arrival(packet) => self.network.prefetch_header(packet),
                _ => self.prefetch_node(event, scenario),
            }
        }
        if let Some(event @ Event::Arrival(packet)) = self.queue.ahead(NEAR_EVENTS - 2) {
            self.network.prefetch_payload(packet);
            self.prefetch_node(event, scenario);
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

    fn prefetch_node(&self, event: Event, scenario: &S) {
        if let Some(node) = self.node_of(event, scenario) {
            prefetch_value(&self.nodes[node.index()]);
        }
    }

    /// Returns the node to whose host an event will be an input; `None` if there is none.
    fn node_of(&self, event: Event, scenario: &S) -> Option<NodeId> {
        match event {
            Event::Arrival(packet) => Some(self.network.target(packet)),
            Event::Wake(node) | Event::Drain(node) => Some(node),
            Event::Departure(_) => None,
            Event::Scheduled(index) => scenario.prepare(self.scheduled.get(index)?, self),
        }
    }

    pub(crate) fn on_arrival(&mut self, packet: PacketIndex) {
        let target = self.network.target(packet);
        if let Some(header) = self.network.forwarded_header(packet) {
            return match self.nodes[target.index()].condition {
                Condition::Running => self.network.forward(packet, header, self.now, &mut self.queue),
                Condition::Frozen(_) => self.network.lose(packet, LossReason::Frozen, self.now),
                Condition::Stopped => self.network.lose(packet, LossReason::Stopped, self.now),
            };
        }
        if !self.network.is_address_current(packet) {
            return self.network.lose(packet, LossReason::AddressMoved, self.now);
        }
        let node = &mut self.nodes[target.index()];
        match node.condition {
            Condition::Running => self.deliver(packet, target),
            Condition::Frozen(Freeze::Buffer) if node.buffered.len() < FROZEN_BACKLOG_MAX => {
                node.buffered.push_back(packet);
            }
            Condition::Frozen(_) => self.network.lose(packet, LossReason::Frozen, self.now),
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

    /// Wakes the node's host if its deadline is due. If the deadline has moved to a later time,
    /// this queues a new alarm.
    pub(crate) fn on_alarm(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        node.alarms.pop_first();
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

    /// Sends all datagrams of the host, and records its deadline.
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

    /// Notifies the scenario of drained nodes until its reactions drain no further ones.
    pub(crate) fn notify_drained(&mut self, scenario: &mut S) {
        while let Some(id) = self.drained.pop_front() {
            self.nodes[id.index()].is_drained = false;
            self.count_event();
            scenario.drained(id, self);
        }
    }
}
