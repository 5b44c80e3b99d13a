//! Network: addresses, links and the packets on them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::net::SocketAddr;

use byway_code::{prefetch, prefetch_value};
use byway_proto::conventions::ip_bytes;
use byway_sched::{Class, FlowHash, FlowTuple, Sample};
use byway_units::Time;
use byway_wire::Ecn;
use thiserror::Error;

use crate::event_queue::{Event, EventQueue};
use crate::flow_hasher::FlowHasher;
use crate::hash_table::Table;
use crate::host::Transmit;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::link::{
    ArrivingPacket, BottleneckUsage, ClassCounters, Link, LinkState, PacketCopy, PacketOutcome,
};
use crate::log::{LinkCounters, Log, LossReason, Observer, Record, Step};
use crate::node::NodeId;
use crate::pool::{AddressOwner, Header, Packet, PacketIndex, Pool};
use crate::random::Seed;

/// IP protocol number of UDP.
const UDP: u8 = 17;

/// Index of a link in the [`Network`].
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

/// Error of a link whose counters do not add up: the world has lost or invented packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "from {from} to {to}, {sent} packets were sent and {duplicated} duplicated, but {delivered} were delivered, \
     {lost} lost and {in_flight} are under way"
)]
pub struct ConservationError {
    /// Node at which the link begins.
    pub from: NodeId,
    /// Node at which the link ends.
    pub to: NodeId,
    /// Packets offered to the link.
    pub sent: u64,
    /// Copies that the link added.
    pub duplicated: u64,
    /// Copies that reached the node at the end of the link.
    pub delivered: u64,
    /// Copies lost on the link or at its end.
    pub lost: u64,
    /// Copies still on the link.
    pub in_flight: u64,
}

/// Network between the hosts of a world: address owners, routes, links and packets in flight.
#[derive(Debug)]
pub(crate) struct Network<O> {
    seed: Seed,
    addresses: Table<SocketAddr, NodeId>,
    /// Number of changes of address owners in this world. A packet repeats its look-up if it
    /// changed.
    changes: u32,
    by_ends: Table<(NodeId, NodeId), LinkIndex>,
    /// Next hop by the node at which a packet is, and the node of its destination. Neighbours need
    /// no entry.
    next_hops: Table<(NodeId, NodeId), NodeId>,
    links: Vec<LinkState>,
    /// Links by their two end nodes, in order.
    ends: BTreeMap<(NodeId, NodeId), LinkIndex>,
    pool: Pool,
    packets: u64,
    flows: FlowHasher,
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
            flows: FlowHasher::new(seed),
            log: Log::new(observer),
        }
    }

    pub(crate) fn connect(&mut self, from: NodeId, to: NodeId, link: Link, now: Time) {
        if let Some(index) = self.by_ends.get((from, to)) {
            self.links[index.index()].reconfigure(link, now);
            return self.log_dropped(index, now);
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

    /// Removes an address and returns its previous owner.
    pub(crate) fn release(&mut self, address: SocketAddr) -> Option<NodeId> {
        self.changes += 1;
        self.addresses.remove(address)
    }

    pub(crate) fn counters(&self, from: NodeId, to: NodeId) -> Option<&LinkCounters> {
        self.by_ends.get((from, to)).map(|link| self.log.counters(link))
    }

    pub(crate) fn bottleneck_usage(&self, from: NodeId, to: NodeId, now: Time) -> Option<BottleneckUsage> {
        self.links[self.by_ends.get((from, to))?.index()].bottleneck_usage(now)
    }

    pub(crate) fn class_counters(&self, from: NodeId, to: NodeId) -> Option<&[ClassCounters; Class::COUNT]> {
        self.links[self.by_ends.get((from, to))?.index()].class_counters()
    }

    pub(crate) fn counted_flows(&self, from: NodeId, to: NodeId) -> Option<[u32; Class::COUNT]> {
        self.links[self.by_ends.get((from, to))?.index()].counted_flows()
    }

    pub(crate) fn sample(&mut self, from: NodeId, to: NodeId, now: Time) -> Option<Sample> {
        let link = self.by_ends.get((from, to))?;
        let sample = self.links[link.index()].sample(now);
        self.log_dropped(link, now);
        sample
    }

    /// Registers the flow of these addresses, without a flow label, at the link between two nodes.
    pub(crate) fn register_flow(
        &mut self,
        [from, to]: [NodeId; 2],
        [source, destination]: [SocketAddr; 2],
        end: Time,
        now: Time,
    ) -> bool {
        let flow = self.flows.flow(&udp_tuple(source, destination), 0);
        let link = self.by_ends.get((from, to));
        link.is_some_and(|link| self.links[link.index()].register_flow(flow, end, now))
    }

    /// Returns all links with their ends, in order.
    pub(crate) fn links(&self) -> impl Iterator<Item = (NodeId, NodeId, &LinkCounters)> {
        self.ends.iter().map(|(&(from, to), &link)| (from, to, self.log.counters(link)))
    }

    pub(crate) const fn in_flight(&self) -> usize {
        self.pool.len()
    }

    pub(crate) const fn memory_bytes(&self) -> usize {
        self.pool.memory_bytes()
    }

    /// Checks that each link's counters and its packets in flight add up.
    pub(crate) fn check_conservation(&self) -> Result<(), ConservationError> {
        let mut in_flight_counts = alloc::vec![0; self.links.len()];
        for packet in self.pool.in_flight() {
            in_flight_counts[packet.header.link.index()] += 1;
        }
        for (&(from, to), &link) in &self.ends {
            let &LinkCounters { sent, duplicated, delivered, lost, .. } = self.log.counters(link);
            let (lost, in_flight) = (lost.total(), in_flight_counts[link.index()]);
            if sent + duplicated != delivered + lost + in_flight {
                return Err(ConservationError { from, to, sent, duplicated, delivered, lost, in_flight });
            }
        }
        Ok(())
    }

    /// Sends a datagram of node `from` over the first link on its route, or logs it as unroutable.
    /// `address` is the node's first address: the source unless the datagram names one.
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
        // A node without an address sends from the unspecified one.
        let source = source.or(address).unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let Some((link, to, owner)) = self.route(from, destination) else {
            let step = Step::Unroutable;
            let to = None;
            let record =
                Record { time: now, packet: number, from, to, source, destination, ecn, payload, step };
            return self.log.unroutable_packet(&record);
        };
        let header = Header { number, link, from, to, address_owner: owner, source, destination, marks, ecn };
        self.offer(header, payload, now, queue);
    }

    /// Sets the next hop for packets that are at node `at` with a destination at node `to`.
    pub(crate) fn set_next_hop(&mut self, at: NodeId, to: NodeId, next: NodeId) {
        self.next_hops.insert((at, to), next);
    }

    /// Returns the link that a packet at node `from` takes to this address, the node at its end,
    /// and the owner of the address. `None` if there is none.
    fn route(&self, from: NodeId, destination: SocketAddr) -> Option<(LinkIndex, NodeId, AddressOwner)> {
        let node = self.addresses.get(destination)?;
        let next = self.next_hop(from, node).unwrap_or(node);
        let link = self.by_ends.get((from, next))?;
        Some((link, next, AddressOwner { node, changes: self.changes }))
    }

    fn next_hop(&self, at: NodeId, to: NodeId) -> Option<NodeId> {
        // Few worlds have routers.
        if self.next_hops.is_empty() { None } else { self.next_hops.get((at, to)) }
    }

    /// Returns the current owner of the packet's destination address.
    fn address_owner(&self, header: &Header) -> Option<NodeId> {
        let AddressOwner { node, changes } = header.address_owner;
        if changes == self.changes { Some(node) } else { self.addresses.get(header.destination) }
    }

    /// Returns the header that a packet has on its next link; `None` if it is at the owner of its
    /// destination address.
    pub(crate) fn forwarded_header(&self, index: PacketIndex) -> Option<Header> {
        let header = self.pool.get(index).header;
        let (at, owner) = (header.to, self.address_owner(&header)?);
        if at == owner || self.next_hop(at, owner).is_none() {
            return None;
        }
        let (link, to, owner) = self.route(at, header.destination)?;
        Some(Header { link, from: at, to, address_owner: owner, ..header })
    }

    /// Forwards the packet over its next link, with the header from [`Network::forwarded_header`].
    pub(crate) fn forward(&mut self, index: PacketIndex, header: Header, now: Time, queue: &mut EventQueue) {
        self.note_packet(now, index, Step::Delivered);
        let payload = mem::take(&mut self.pool.get_mut(index).payload);
        self.offer(header, &payload, now, queue);
        // The next packet reuses the buffer.
        self.pool.get_mut(index).payload = payload;
        self.pool.release(index);
    }

    fn offer(&mut self, mut header: Header, payload: &[u8], now: Time, queue: &mut EventQueue) {
        self.note(now, header, payload, Step::Sent);
        if self.links[header.link.index()].is_scheduled() {
            return self.enqueue(header, payload, now, queue);
        }
        let link = &mut self.links[header.link.index()];
        header.ecn = link.outgoing_ecn(header.ecn);
        match link.offer(now, ip_bytes(payload, header.destination), payload.len()) {
            PacketOutcome::Lost(reason) => self.note(now, header, payload, Step::Lost(reason)),
            PacketOutcome::Passed { original, duplicate } => {
                self.insert_and_schedule(header, payload, original, now, queue);
                if let Some(duplicate) = duplicate {
                    self.note(now, header, payload, Step::Duplicated);
                    self.insert_and_schedule(header, payload, duplicate, now, queue);
                }
            }
        }
    }

    /// Adds the packet to the link's scheduler, and queues the event of the next departure.
    fn enqueue(&mut self, header: Header, payload: &[u8], now: Time, queue: &mut EventQueue) {
        let arriving = ArrivingPacket {
            number: self.pool.insert(header, payload).number(),
            ip_bytes: ip_bytes(payload, header.destination),
            dscp: header.marks.dscp,
            flow: self.flow(&header),
            source: self.flows.source(header.source.ip()),
            is_ecn_capable: header.ecn != Ecn::NotCapable,
        };
        let link = &mut self.links[header.link.index()];
        let due_before = link.next_departure();
        link.enqueue(arriving, now);
        if let Some(due) = link.next_departure().filter(|due| Some(*due) != due_before) {
            queue.push(due, Event::Departure(header.link));
        }
        self.log_dropped(header.link, now);
    }

    /// Records the drops of the link's queue as losses.
    fn log_dropped(&mut self, link: LinkIndex, now: Time) {
        while let Some(number) = self.links[link.index()].pop_dropped() {
            self.lose(PacketIndex::from_number(number), LossReason::QueueFull, now);
        }
    }

    /// Returns the hash of the packet's flow for the link's scheduler, evenly distributed.
    fn flow(&self, header: &Header) -> FlowHash {
        self.flows.flow(&udp_tuple(header.source, header.destination), header.marks.flow_label)
    }

    /// Sends the packet that has left a link's queue, if any, to the wire, and queues the event of
    /// the next departure.
    pub(crate) fn on_departure(&mut self, index: LinkIndex, now: Time, queue: &mut EventQueue) {
        let link = &mut self.links[index.index()];
        let Some(sent) = link.dequeue(now) else {
            return;
        };
        if let Some(due) = link.next_departure() {
            queue.push(due, Event::Departure(index));
        }
        self.log_dropped(index, now);
        let packet = PacketIndex::from_number(sent.number);
        let link = &mut self.links[index.index()];
        let Packet { header, payload, .. } = self.pool.get_mut(packet);
        if sent.is_marked {
            header.ecn = Ecn::CongestionExperienced;
        }
        header.ecn = link.outgoing_ecn(header.ecn);
        match link.offer(now, sent.ip_bytes, payload.len()) {
            PacketOutcome::Lost(reason) => self.lose(packet, reason, now),
            PacketOutcome::Passed { original, duplicate } => {
                if let Some(duplicate) = duplicate {
                    let (header, payload) = (*header, mem::take(payload));
                    self.note(now, header, &payload, Step::Duplicated);
                    self.insert_and_schedule(header, &payload, duplicate, now, queue);
                    self.pool.get_mut(packet).payload = payload;
                }
                self.schedule_arrival(packet, original, now, queue);
            }
        }
    }

    /// Schedules the arrival of a packet of the pool.
    fn schedule_arrival(&mut self, index: PacketIndex, copy: PacketCopy, now: Time, queue: &mut EventQueue) {
        if let Some(bit) = copy.flipped_bit {
            self.note_packet(now, index, Step::Corrupted { bit });
            self.pool.get_mut(index).flip_bit(bit);
        }
        queue.push(copy.arrival, Event::Arrival(index));
    }

    fn insert_and_schedule(
        &mut self,
        header: Header,
        payload: &[u8],
        copy: PacketCopy,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let index = self.pool.insert(header, payload);
        self.schedule_arrival(index, copy, now, queue);
    }

    /// Returns the node at the end of the packet's link.
    pub(crate) fn target(&self, index: PacketIndex) -> NodeId {
        self.pool.get(index).header.to
    }

    /// True if the node still owns the packet's destination address.
    pub(crate) fn is_address_current(&self, index: PacketIndex) -> bool {
        let header = &self.pool.get(index).header;
        self.address_owner(header) == Some(header.to)
    }

    /// Prefetches the record of a packet that will arrive soon; [`Network::prefetch_payload`]
    /// follows.
    pub(crate) fn prefetch_header(&self, index: PacketIndex) {
        prefetch_value(self.pool.get(index));
    }

    /// Prefetches the payload of a packet that will arrive soon; see [`Network::prefetch_header`].
    pub(crate) fn prefetch_payload(&self, index: PacketIndex) {
        let Packet { header, payload, .. } = self.pool.get(index);
        prefetch(payload);
        prefetch_value(self.log.counters(header.link));
    }

    /// Returns the datagram of an arrival; `None` for other events.
    pub(crate) fn datagram(&self, event: Event) -> Option<&[u8]> {
        match event {
            Event::Arrival(index) => Some(&self.pool.get(index).payload),
            _ => None,
        }
    }

    /// Records that a packet is lost at the end of its link, and releases it.
    pub(crate) fn lose(&mut self, index: PacketIndex, reason: LossReason, now: Time) {
        self.note_packet(now, index, Step::Lost(reason));
        self.pool.release(index);
    }

    /// Records the delivery of the packet and returns it for its host; [`Network::release_packet`]
    /// releases it.
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

/// Returns the header fields of the flow between two addresses.
const fn udp_tuple(source: SocketAddr, destination: SocketAddr) -> FlowTuple {
    FlowTuple {
        source: source.ip(),
        destination: destination.ip(),
        protocol: UDP,
        ports: [source.port(), destination.port()],
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
