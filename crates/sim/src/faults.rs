//! Faults of nodes and of their addresses.

use core::mem;
use core::net::SocketAddr;

use crate::event_queue::Event;
use crate::log::{LossReason, NodeChange};
use crate::node::{Condition, Freeze, NodeId};
use crate::world::{Scenario, World};

impl<S: Scenario> World<S> {
    /// Crashes a node: until a restart, its host takes no input, and packets that arrive are lost.
    /// Packets that it has sent stay in flight.
    pub fn stop(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if node.condition != Condition::Stopped {
            node.condition = Condition::Stopped;
            self.network.log.node(self.now, id, NodeChange::Stopped);
            for packet in node.buffered.drain(..) {
                self.network.lose(packet, LossReason::Stopped, self.now);
            }
        }
    }

    /// Freezes a running node: its host takes no input until it is resumed. A stopped node stays
    /// stopped.
    pub fn freeze(&mut self, node: NodeId, hang: Freeze) {
        let condition = &mut self.nodes[node.index()].condition;
        if *condition != Condition::Stopped {
            *condition = Condition::Frozen(hang);
            self.network.log.node(self.now, node, NodeChange::Frozen);
        }
    }

    /// Resumes a frozen node: its host takes the buffered packets in order, and is woken if its
    /// deadline has passed.
    pub fn resume(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if let Condition::Frozen(_) = node.condition {
            node.condition = Condition::Running;
            self.network.log.node(self.now, id, NodeChange::Resumed);
            for packet in mem::take(&mut node.buffered) {
                self.on_arrival(packet);
            }
            self.drain(id);
        }
    }

    /// Replaces a node's host by a fresh one, in any condition of the node. Returns the old host.
    /// Links and addresses stay, and packets in flight to the node reach the fresh host.
    pub fn restart(&mut self, id: NodeId, host: S::Host) -> S::Host {
        self.stop(id);
        let node = &mut self.nodes[id.index()];
        node.condition = Condition::Running;
        let old = mem::replace(&mut node.host, host);
        self.queue.push(self.now, Event::Drain(id));
        self.network.log.node(self.now, id, NodeChange::Restarted);
        old
    }

    /// Returns the condition of a node.
    #[must_use]
    pub fn condition(&self, node: NodeId) -> Condition {
        self.nodes[node.index()].condition
    }

    /// Returns the addresses of a node; it sends from the first.
    #[must_use]
    pub fn addresses(&self, node: NodeId) -> &[SocketAddr] {
        &self.nodes[node.index()].addresses
    }

    /// Assigns one more address to a node, and removes it from its previous owner. Packets in
    /// flight to that owner are lost.
    pub fn assign(&mut self, address: SocketAddr, node: NodeId) {
        self.release(address);
        self.nodes[node.index()].addresses.push(address);
        self.announce(address, node);
    }

    /// Replaces one of a node's addresses by another at the same index, as if a NAT lost its
    /// binding. The host gets no notification, and packets in flight to the old address are lost.
    ///
    /// # Panics
    /// If the node does not have the old address.
    pub fn change_address(&mut self, node: NodeId, old: SocketAddr, new: SocketAddr) {
        if old != new {
            self.release(new);
        }
        let addresses = &self.nodes[node.index()].addresses;
        let index = addresses.iter().position(|&address| address == old);
        let index = index.unwrap_or_else(|| panic!("{node} does not have {old}, but {addresses:?}"));
        self.release(old);
        self.nodes[node.index()].addresses.insert(index, new);
        self.announce(new, node);
    }

    /// Removes an address from its owner, if any: packets to it are unroutable from then on.
    pub fn release(&mut self, address: SocketAddr) {
        if let Some(owner) = self.network.release(address) {
            self.nodes[owner.index()].addresses.retain(|&owned| owned != address);
            self.network.log.node(self.now, owner, NodeChange::Released(address));
        }
    }

    fn announce(&mut self, address: SocketAddr, node: NodeId) {
        self.network.assign(address, node);
        self.network.log.node(self.now, node, NodeChange::Assigned(address));
    }
}
