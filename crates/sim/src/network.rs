//! Addresses, links and the packets on them: everything between hosts.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::net::SocketAddr;

use byway_code::{prefetch, prefetch_value};
use byway_proto::conventions::ip_bytes;
use byway_sched::{Class, FlowHash, FlowTuple};
use byway_units::Time;
use byway_wire::Ecn;
use thiserror::Error;

use crate::flows::Flows;
use crate::host::Transmit;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::link::{BottleneckUse, ClassUse, Coming, Fate, Link, LinkState, Passage};
use crate::log::{LinkCounters, Log, LossReason, Observer, Record, Step};
use crate::node::NodeId;
use crate::pool::{Header, Holder, Packet, PacketIndex, Pool};
use crate::queue::{Event, EventQueue};
use crate::random::Seed;
use crate::table::Table;

/// The number of UDP among IP's protocols.
const UDP: u8 = 17;

/// A link's place in the [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkIndex(u32);

impl LinkIndex {
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("a world has fewer links than fit in memory"))
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A link whose counters do not add up: the world has lost track of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "from {from} to {to}, {sent} packets were sent and {duplicated} duplicated, but {delivered} were delivered, \
     {lost} lost and {in_flight} are under way"
)]
pub struct ConservationError {
    /// Where the link begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Packets offered to the link.
    pub sent: u64,
    /// Copies that it added.
    pub duplicated: u64,
    /// Copies that arrived.
    pub delivered: u64,
    /// Copies that did not.
    pub lost: u64,
    /// Copies that are still under way.
    pub in_flight: u64,
}

/// Everything between hosts.
#[derive(Debug)]
pub(crate) struct Network<O> {
    seed: Seed,
    addresses: Table<SocketAddr, NodeId>,
    /// How often an address changed hands.
    changes: u32,
    by_ends: Table<(NodeId, NodeId), LinkIndex>,
    /// Where packets go first, by the node where they are and the one they are for, if that is no neighbour.
    next_hops: Table<(NodeId, NodeId), NodeId>,
    links: Vec<LinkState>,
    /// The links' ends, in order.
    ends: BTreeMap<(NodeId, NodeId), LinkIndex>,
    pool: Pool,
    packets: u64,
    flows: Flows,
    pub(crate) log: Log<O>,
}

impl<O: Observer> Network<O> {
    pub(crate) fn new(seed: Seed, observer: O) -> Self {
        Self {
            seed,
            addresses: Table::new(),
            changes: 0,
            by_ends: Table::new(),
            next_hops: Table::new(),
            links: Vec::new(),
            ends: BTreeMap::new(),
            pool: Pool::default(),
            packets: 0,
            flows: Flows::new(seed),
            log: Log::new(observer),
        }
    }

    pub(crate) fn connect(&mut self, from: NodeId, to: NodeId, link: Link, now: Time) {
        if let Some(index) = self.by_ends.get((from, to)) {
            self.links[index.index()].change(link, now);
            return self.lose_dropped(index, now);
        }
        let index = LinkIndex::from_index(self.links.len());
        self.by_ends.insert((from, to), index);
        self.ends.insert((from, to), index);
        self.links.push(LinkState::between(from.number(), to.number(), link, self.seed, now));
        self.log.add_link();
    }

    pub(crate) fn assign(&mut self, address: SocketAddr, node: NodeId) {
        self.changes += 1;
        self.addresses.insert(address, node);
    }

    /// Nobody has the address from now on; whose it was before.
    pub(crate) fn release(&mut self, address: SocketAddr) -> Option<NodeId> {
        self.changes += 1;
        self.addresses.remove(address)
    }

    pub(crate) fn counters(&self, from: NodeId, to: NodeId) -> Option<&LinkCounters> {
        self.by_ends.get((from, to)).map(|link| self.log.counters(link))
    }

    pub(crate) fn bottleneck_use(&self, from: NodeId, to: NodeId, now: Time) -> Option<BottleneckUse> {
        self.links[self.by_ends.get((from, to))?.index()].bottleneck_use(now)
    }

    pub(crate) fn class_uses(&self, from: NodeId, to: NodeId) -> Option<&[ClassUse; Class::COUNT]> {
        self.links[self.by_ends.get((from, to))?.index()].class_uses()
    }

    pub(crate) fn counted_flows(&self, from: NodeId, to: NodeId) -> Option<[u32; Class::COUNT]> {
        self.links[self.by_ends.get((from, to))?.index()].counted_flows()
    }

    /// All links by their ends, in order.
    pub(crate) fn links(&self) -> impl Iterator<Item = (NodeId, NodeId, &LinkCounters)> {
        self.ends.iter().map(|(&(from, to), &link)| (from, to, self.log.counters(link)))
    }

    pub(crate) const fn in_flight(&self) -> usize {
        self.pool.len()
    }

    pub(crate) const fn held_bytes(&self) -> usize {
        self.pool.held_bytes()
    }

    /// Compares the counters of each link with the packets that are really under way.
    pub(crate) fn check_conservation(&self) -> Result<(), ConservationError> {
        let mut under_way = alloc::vec![0; self.links.len()];
        for packet in self.pool.under_way() {
            under_way[packet.header.link.index()] += 1;
        }
        for (&(from, to), &link) in &self.ends {
            let &LinkCounters { sent, duplicated, delivered, lost, .. } = self.log.counters(link);
            let (lost, in_flight) = (lost.total(), under_way[link.index()]);
            if sent + duplicated != delivered + lost + in_flight {
                return Err(ConservationError { from, to, sent, duplicated, delivered, lost, in_flight });
            }
        }
        Ok(())
    }

    /// Sends a datagram of the node, whose first address is `address`.
    pub(crate) fn send(
        &mut self,
        from: NodeId,
        address: Option<SocketAddr>,
        transmit: Transmit<'_>,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let Transmit { source, destination, marks, ecn, payload } = transmit;
        assert!(
            payload.len() <= DATAGRAM_BYTES_MAX,
            "{from} sent a datagram of {} bytes, UDP carries {DATAGRAM_BYTES_MAX}",
            payload.len()
        );
        let number = self.packets;
        self.packets += 1;
        // Who has no address sends from none.
        let source = source.or(address).unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let Some((link, to, holder)) = self.route(from, destination) else {
            let step = Step::Unroutable;
            let to = None;
            let record =
                Record { time: now, packet: number, from, to, source, destination, ecn, payload, step };
            return self.log.unroutable_packet(&record);
        };
        let header = Header { number, link, from, to, holder, source, destination, marks, ecn };
        self.offer(header, payload, now, queue);
    }

    /// Packets at one node for another go by a third one next.
    pub(crate) fn set_next_hop(&mut self, at: NodeId, to: NodeId, next: NodeId) {
        self.next_hops.insert((at, to), next);
    }

    /// The link on which a packet leaves a node, the node at its end, and the one that the packet is for.
    fn route(&self, from: NodeId, destination: SocketAddr) -> Option<(LinkIndex, NodeId, Holder)> {
        let node = self.addresses.get(destination)?;
        let next = self.next_hop(from, node).unwrap_or(node);
        let link = self.by_ends.get((from, next))?;
        Some((link, next, Holder { node, changes: self.changes }))
    }

    fn next_hop(&self, at: NodeId, to: NodeId) -> Option<NodeId> {
        // Few worlds have routers.
        if self.next_hops.is_empty() { None } else { self.next_hops.get((at, to)) }
    }

    /// Who has the address that the packet was sent to.
    fn holder(&self, header: &Header) -> Option<NodeId> {
        let Holder { node, changes } = header.holder;
        if changes == self.changes { Some(node) } else { self.addresses.get(header.destination) }
    }

    /// The packet as it goes on from where it is; `None` if it goes no further.
    pub(crate) fn onward(&self, index: PacketIndex) -> Option<Header> {
        let header = self.pool.get(index).header;
        let (at, holder) = (header.to, self.holder(&header)?);
        if at == holder || self.next_hop(at, holder).is_none() {
            return None;
        }
        let (link, to, holder) = self.route(at, header.destination)?;
        Some(Header { link, from: at, to, holder, ..header })
    }

    /// The packet goes on.
    pub(crate) fn pass_on(&mut self, index: PacketIndex, onward: Header, now: Time, queue: &mut EventQueue) {
        self.note_packet(now, index, Step::Delivered);
        let payload = mem::take(&mut self.pool.get_mut(index).payload);
        self.offer(onward, &payload, now, queue);
        // The buffer is used again.
        self.pool.get_mut(index).payload = payload;
        self.pool.release(index);
    }

    fn offer(&mut self, mut header: Header, payload: &[u8], now: Time, queue: &mut EventQueue) {
        self.note(now, header, payload, Step::Sent);
        if self.links[header.link.index()].is_scheduled() {
            return self.wait(header, payload, now, queue);
        }
        let link = &mut self.links[header.link.index()];
        header.ecn = link.ecn_behind(header.ecn);
        match link.offer(now, ip_bytes(payload, header.destination), payload.len()) {
            Fate::Lost(reason) => self.note(now, header, payload, Step::Lost(reason)),
            Fate::Carried { original, duplicate } => {
                self.launch(header, payload, original, now, queue);
                if let Some(duplicate) = duplicate {
                    self.note(now, header, payload, Step::Duplicated);
                    self.launch(header, payload, duplicate, now, queue);
                }
            }
        }
    }

    /// The packet comes to a queue that tells packets apart.
    fn wait(&mut self, header: Header, payload: &[u8], now: Time, queue: &mut EventQueue) {
        let coming = Coming {
            number: self.pool.insert(header, payload).number(),
            ip_bytes: ip_bytes(payload, header.destination),
            dscp: header.marks.dscp,
            flow: self.flow(&header),
            source: self.flows.source(header.source.ip()),
            is_ecn_capable: header.ecn != Ecn::NotCapable,
        };
        let link = &mut self.links[header.link.index()];
        let due_before = link.due();
        link.enqueue(coming, now);
        if let Some(due) = link.due().filter(|due| Some(*due) != due_before) {
            queue.push(due, Event::Departure(header.link));
        }
        self.lose_dropped(header.link, now);
    }

    /// What the link's queue has dropped is lost.
    fn lose_dropped(&mut self, link: LinkIndex, now: Time) {
        while let Some(number) = self.links[link.index()].take_dropped() {
            self.lose(PacketIndex::from_number(number), LossReason::QueueFull, now);
        }
    }

    /// What tells the flow of a packet from others, evenly spread.
    fn flow(&self, header: &Header) -> FlowHash {
        let tuple = FlowTuple {
            source: header.source.ip(),
            destination: header.destination.ip(),
            protocol: UDP,
            ports: [header.source.port(), header.destination.port()],
        };
        self.flows.flow(&tuple, header.marks.flow_label)
    }

    /// A packet may have left the queue of a link.
    pub(crate) fn depart(&mut self, index: LinkIndex, now: Time, queue: &mut EventQueue) {
        let link = &mut self.links[index.index()];
        let Some(sent) = link.depart(now) else {
            return;
        };
        if let Some(due) = link.due() {
            queue.push(due, Event::Departure(index));
        }
        self.lose_dropped(index, now);
        let packet = PacketIndex::from_number(sent.number);
        let link = &mut self.links[index.index()];
        let Packet { header, payload, .. } = self.pool.get_mut(packet);
        if sent.is_marked {
            header.ecn = Ecn::CongestionExperienced;
        }
        header.ecn = link.ecn_behind(header.ecn);
        match link.offer(now, sent.ip_bytes, payload.len()) {
            Fate::Lost(reason) => self.lose(packet, reason, now),
            Fate::Carried { original, duplicate } => {
                if let Some(duplicate) = duplicate {
                    let (header, payload) = (*header, mem::take(payload));
                    self.note(now, header, &payload, Step::Duplicated);
                    self.launch(header, &payload, duplicate, now, queue);
                    self.pool.get_mut(packet).payload = payload;
                }
                self.send_off(packet, original, now, queue);
            }
        }
    }

    /// A packet of the pool goes its way.
    fn send_off(&mut self, index: PacketIndex, passage: Passage, now: Time, queue: &mut EventQueue) {
        if let Some(bit) = passage.flipped_bit {
            self.note_packet(now, index, Step::Corrupted { bit });
            self.pool.get_mut(index).flip(bit);
        }
        queue.push(passage.arrival, Event::Arrival(index));
    }

    fn launch(
        &mut self,
        header: Header,
        payload: &[u8],
        passage: Passage,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let index = self.pool.insert(header, payload);
        self.send_off(index, passage, now, queue);
    }

    /// To which node the packet goes.
    pub(crate) fn target(&self, index: PacketIndex) -> NodeId {
        self.pool.get(index).header.to
    }

    /// Whether the node still has the address that the packet was sent to.
    pub(crate) fn is_current(&self, index: PacketIndex) -> bool {
        let header = &self.pool.get(index).header;
        self.holder(header) == Some(header.to)
    }

    /// The packet will arrive soon: first what the world knows of it is brought near, then what it carries.
    pub(crate) fn fetch(&self, index: PacketIndex) {
        prefetch_value(self.pool.get(index));
    }

    /// See [`Network::fetch`].
    pub(crate) fn fetch_payload(&self, index: PacketIndex) {
        let Packet { header, payload, .. } = self.pool.get(index);
        prefetch(payload);
        prefetch_value(self.log.counters(header.link));
    }

    /// What arrives, if something does.
    pub(crate) fn datagram(&self, event: Event) -> Option<&[u8]> {
        match event {
            Event::Arrival(index) => Some(&self.pool.get(index).payload),
            _ => None,
        }
    }

    /// The packet is lost at the end of its link.
    pub(crate) fn lose(&mut self, index: PacketIndex, reason: LossReason, now: Time) {
        self.note_packet(now, index, Step::Lost(reason));
        self.pool.release(index);
    }

    /// The packet, to be handed to its host; [`Network::release_packet`] ends it.
    pub(crate) fn deliver(&mut self, index: PacketIndex, now: Time) -> &mut Packet {
        self.note_packet(now, index, Step::Delivered);
        self.pool.get_mut(index)
    }

    pub(crate) fn release_packet(&mut self, index: PacketIndex) {
        self.pool.release(index);
    }

    fn note_packet(&mut self, now: Time, index: PacketIndex, step: Step) {
        let Packet { header, payload, .. } = self.pool.get(index);
        self.log.packet(header.link, &record(now, header, payload, step));
    }

    fn note(&mut self, now: Time, header: Header, payload: &[u8], step: Step) {
        self.log.packet(header.link, &record(now, &header, payload, step));
    }
}

fn record<'a>(time: Time, header: &Header, payload: &'a [u8], step: Step) -> Record<'a> {
    let &Header { number: packet, from, to, source, destination, ecn, .. } = header;
    Record { time, packet, from, to: Some(to), source, destination, ecn, payload, step }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use byway_units::Duration;

    use super::*;
    use crate::marks::Marks;

    #[test]
    fn a_packet_that_is_forgotten_or_made_up_is_found() {
        let (one, other) = (NodeId::from_index(0), NodeId::from_index(1));
        let address = SocketAddr::from(([192, 0, 2, 1], 7));
        let transmit = Transmit {
            source: None,
            destination: address,
            marks: Marks::default(),
            ecn: Ecn::NotCapable,
            payload: b"one",
        };
        let mut queue = EventQueue::default();
        let mut network = Network::new(Seed::new(1), ());
        network.assign(address, other);
        let link = Link { delay: Duration::from_nanos(1), ..Link::default() };
        network.connect(one, other, link, Time::START);
        network.send(one, Some(address), transmit, Time::START, &mut queue);
        assert_eq!((network.check_conservation(), network.in_flight()), (Ok(()), 1));

        let Some((_, Event::Arrival(packet))) = queue.pop() else { panic!("the packet is under way") };
        network.release_packet(packet);
        let error = network.check_conservation().expect_err("it is gone");
        assert_eq!(
            error.to_string(),
            "from node 0 to node 1, 1 packets were sent and 0 duplicated, but 0 were delivered, 0 lost and 0 are \
             under way"
        );

        let header = network.pool.get(packet).header;
        network.pool.insert(header, b"one");
        assert_eq!(network.check_conservation(), Ok(()));
        network.pool.insert(header, b"another");
        assert!(network.check_conservation().is_err());
    }
}
