//! What can go wrong with nodes and their addresses.

use core::mem;
use core::net::SocketAddr;

use crate::log::{LossReason, NodeChange};
use crate::node::{Condition, Hang, NodeId};
use crate::queue::Event;
use crate::world::{Scenario, World};

impl<S: Scenario> World<S> {
    /// Crashes a node: its host takes no input any more, and what arrives is lost, until it is restarted. What
    /// it has sent stays under way.
    pub fn stop(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if node.condition != Condition::Stopped {
            node.condition = Condition::Stopped;
            self.network.log.node(self.now, id, NodeChange::Stopped);
            for packet in node.held.drain(..) {
                self.network.lose(packet, LossReason::Stopped, self.now);
            }
        }
    }

    /// Makes a running node hang: its host takes no input until it is resumed. A stopped one stays stopped.
    pub fn hang(&mut self, node: NodeId, hang: Hang) {
        let condition = &mut self.nodes[node.index()].condition;
        if *condition != Condition::Stopped {
            *condition = Condition::Hung(hang);
            self.network.log.node(self.now, node, NodeChange::Hung);
        }
    }

    /// Lets a hung node go on: it takes what waited for it, in order, and is woken if its deadline has passed.
    pub fn resume(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if let Condition::Hung(_) = node.condition {
            node.condition = Condition::Running;
            self.network.log.node(self.now, id, NodeChange::Resumed);
            for packet in mem::take(&mut node.held) {
                self.arrive(packet);
            }
            self.drain(id);
        }
    }

    /// Puts a fresh host in the place of a node's, whatever its condition; gives back the old one. Links and
    /// addresses stay, and packets under way to it reach the fresh one.
    pub fn restart(&mut self, id: NodeId, host: S::Host) -> S::Host {
        self.stop(id);
        let node = &mut self.nodes[id.index()];
        node.condition = Condition::Running;
        let old = mem::replace(&mut node.host, host);
        self.queue.push(self.now, Event::Drain(id));
        self.network.log.node(self.now, id, NodeChange::Restarted);
        old
    }

    /// How a node is.
    #[must_use]
    pub fn condition(&self, node: NodeId) -> Condition {
        self.nodes[node.index()].condition
    }

    /// The addresses of a node; it sends from the first.
    #[must_use]
    pub fn addresses(&self, node: NodeId) -> &[SocketAddr] {
        &self.nodes[node.index()].addresses
    }

    /// Gives a node one more address, which is taken from whoever had it. Packets on their way to that one are
    /// lost.
    pub fn assign(&mut self, address: SocketAddr, node: NodeId) {
        self.release(address);
        self.nodes[node.index()].addresses.push(address);
        self.announce(address, node);
    }

    /// Moves a node from one of its addresses to another, in the same place among them, as when a NAT forgets
    /// its binding: the host is not told, and packets on their way to the old address are lost.
    ///
    /// # Panics
    /// If the node does not have the old address.
    pub fn readdress(&mut self, node: NodeId, old: SocketAddr, new: SocketAddr) {
        if old != new {
            self.release(new);
        }
        let addresses = &self.nodes[node.index()].addresses;
        let place = addresses.iter().position(|&address| address == old);
        let place = place.unwrap_or_else(|| panic!("{node} does not have {old}, but {addresses:?}"));
        self.release(old);
        self.nodes[node.index()].addresses.insert(place, new);
        self.announce(new, node);
    }

    /// Takes an address from the node that has it, if any: nobody can be reached there.
    pub fn release(&mut self, address: SocketAddr) {
        if let Some(holder) = self.network.release(address) {
            self.nodes[holder.index()].addresses.retain(|&held| held != address);
            self.network.log.node(self.now, holder, NodeChange::Released(address));
        }
    }

    fn announce(&mut self, address: SocketAddr, node: NodeId) {
        self.network.assign(address, node);
        self.network.log.node(self.now, node, NodeChange::Assigned(address));
    }
}
