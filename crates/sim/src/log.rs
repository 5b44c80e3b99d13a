//! Log of every packet: counters, a digest of all events, and an observer.
//!
//! Loss is counted only here, because reports of hosts about themselves prove nothing.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::net::{IpAddr, SocketAddr};
use core::ops::{Index, IndexMut};

use byway_proto::conventions::ip_bytes;
use byway_units::{Bytes, Time};

use byway_wire::Ecn;

use crate::hash;
use crate::network::LinkIndex;
use crate::node::NodeId;
use crate::random::mix;

/// Reason for the loss of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossReason {
    /// The queue of a bottleneck was full.
    QueueFull,
    /// An outage of the link.
    Outage,
    /// The packet was longer than the link's longest.
    TooLong,
    /// A loss process of the link.
    Random,
    /// The packet's destination address moved to another node before its arrival.
    AddressMoved,
    /// The packet's receiver was stopped.
    Stopped,
    /// The packet's receiver was frozen and did not buffer it.
    Frozen,
}

impl LossReason {
    const ALL: [Self; 7] = [
        Self::QueueFull,
        Self::Outage,
        Self::TooLong,
        Self::Random,
        Self::AddressMoved,
        Self::Stopped,
        Self::Frozen,
    ];
    const COUNT: usize = Self::ALL.len();

    const fn words(self) -> &'static str {
        match self {
            Self::QueueFull => "queue full",
            Self::Outage => "outage",
            Self::TooLong => "too long",
            Self::Random => "random",
            Self::AddressMoved => "address moved",
            Self::Stopped => "host stopped",
            Self::Frozen => "host frozen",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Numbers of lost packets by [`LossReason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([u64; LossReason::COUNT]);

impl Losses {
    /// Returns the number of losses of all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the number of losses of each reason.
    pub fn by_reason(&self) -> impl Iterator<Item = (LossReason, u64)> {
        LossReason::ALL.into_iter().map(|reason| (reason, self[reason]))
    }
}

impl Index<LossReason> for Losses {
    type Output = u64;

    fn index(&self, reason: LossReason) -> &u64 {
        &self.0[reason as usize]
    }
}

impl IndexMut<LossReason> for Losses {
    fn index_mut(&mut self, reason: LossReason) -> &mut u64 {
        &mut self.0[reason as usize]
    }
}

/// Counters of one link. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets offered to the link.
    pub sent: u64,
    /// Bytes of the packets offered to the link: the sender's cost, including lost packets.
    pub sent_bytes: Bytes,
    /// Copies that reached the node at the end of the link, including duplicates.
    pub delivered: u64,
    /// Bytes of the copies that reached the node at the end of the link.
    pub delivered_bytes: Bytes,
    /// Second copies that the link added.
    pub duplicated: u64,
    /// Copies with a bit that the link inverted.
    pub corrupted: u64,
    /// Copies lost on the link or at its end, by reason.
    pub lost: Losses,
}

/// Step of a packet on its path, as the log records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A host sent the packet to an address without an owner, or without a link to it.
    Unroutable,
    /// A host sent the packet over a link.
    Sent,
    /// The link duplicated the packet.
    Duplicated,
    /// The link inverts one bit of the packet's payload.
    Corrupted {
        /// Index of the inverted bit, from 0.
        bit: u64,
    },
    /// The packet was lost, for this reason.
    Lost(LossReason),
    /// The packet reached the node at the end of its link.
    Delivered,
}

impl Step {
    /// Returns a number that is unique to the step, for the digest.
    const fn code(self) -> u64 {
        match self {
            Self::Unroutable => 1,
            Self::Sent => 2,
            Self::Duplicated => 3,
            Self::Delivered => 4,
            Self::Lost(reason) => 5 + reason as u64,
            Self::Corrupted { bit } => 5 + LossReason::COUNT as u64 + bit,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unroutable => f.write_str("unroutable"),
            Self::Sent => f.write_str("sent"),
            Self::Duplicated => f.write_str("duplicated"),
            Self::Corrupted { bit } => write!(f, "corrupted: bit {bit}"),
            Self::Lost(reason) => write!(f, "lost: {reason}"),
            Self::Delivered => f.write_str("delivered"),
        }
    }
}

/// Log entry of one step of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time of the step.
    pub time: Time,
    /// Number of the packet in this world; a duplicate has the number of the packet that it
    /// repeats.
    pub packet: u64,
    /// Node at which the packet's link begins.
    pub from: NodeId,
    /// Node at which the packet's link ends; `None` if the packet is unroutable.
    pub to: Option<NodeId>,
    /// Source address in the packet's header.
    pub source: SocketAddr,
    /// Destination address in the packet's header.
    pub destination: SocketAddr,
    /// ECN field of the packet's IP header.
    pub ecn: Ecn,
    /// Payload of the packet at this step.
    pub payload: &'a [u8],
    /// Step that the entry records.
    pub step: Step,
}

impl Record<'_> {
    fn ip_bytes(&self) -> Bytes {
        ip_bytes(self.payload, self.destination)
    }
}

impl fmt::Display for Record<'_> {
    /// Writes one text line:
    /// `0.010000000 #3 node 0 -> node 1, 192.0.2.1:1 -> 192.0.2.2:1, 128 B, ECN 10: sent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{} {}", self.time, self.packet, self.from)?;
        if let Some(to) = self.to {
            write!(f, " -> {to}")?;
        }
        let bytes = self.ip_bytes().count();
        write!(f, ", {} -> {}, {bytes} B, ECN {}: {}", self.source, self.destination, self.ecn, self.step)
    }
}

/// Change of a node's condition or addresses, as the log reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// The node crashed.
    Stopped,
    /// The node takes no more inputs until it is resumed.
    Frozen,
    /// The node takes inputs again.
    Resumed,
    /// The node has a fresh host.
    Restarted,
    /// The node owns this address from now on.
    Assigned(SocketAddr),
    /// The node no longer owns this address.
    Released(SocketAddr),
}

impl fmt::Display for NodeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Frozen => f.write_str("frozen"),
            Self::Resumed => f.write_str("resumed"),
            Self::Restarted => f.write_str("restarted"),
            Self::Assigned(address) => write!(f, "assigned {address}"),
            Self::Released(address) => write!(f, "released {address}"),
        }
    }
}

/// Observer of all events in a world, without influence on them. `()` ignores them; a pair passes
/// each to both.
pub trait Observer {
    /// Handles a step of a packet.
    fn packet(&mut self, record: &Record<'_>);

    /// Handles a change of a node's condition or addresses.
    fn node(&mut self, _time: Time, _node: NodeId, _change: NodeChange) {}
}

impl Observer for () {
    fn packet(&mut self, _record: &Record<'_>) {}
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    fn packet(&mut self, record: &Record<'_>) {
        self.0.packet(record);
        self.1.packet(record);
    }

    fn node(&mut self, time: Time, node: NodeId, change: NodeChange) {
        self.0.node(time, node, change);
        self.1.node(time, node, change);
    }
}

/// Transcript with one text line for each step or change, to read when a test fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// Text of all records until now.
    pub text: String,
}

impl Observer for Transcript {
    fn packet(&mut self, record: &Record<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{record}");
    }

    fn node(&mut self, time: Time, node: NodeId, change: NodeChange) {
        let _ = writeln!(self.text, "{time} {node} {change}");
    }
}

/// Log of a world: link counters, the digest of all steps, and the observer.
#[derive(Debug)]
pub(crate) struct Log<O> {
    counters: Vec<LinkCounters>,
    unroutable: u64,
    digest: u64,
    observer: O,
}

impl<O: Observer> Log<O> {
    pub(crate) const fn new(observer: O) -> Self {
        Self { counters: Vec::new(), unroutable: 0, digest: 0, observer }
    }

    /// Adds the counters of a new link; links are logged in the order of these calls.
    pub(crate) fn add_link(&mut self) {
        self.counters.push(LinkCounters::default());
    }

    pub(crate) fn counters(&self, link: LinkIndex) -> &LinkCounters {
        &self.counters[link.index()]
    }

    pub(crate) const fn unroutable(&self) -> u64 {
        self.unroutable
    }

    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) const fn observer(&self) -> &O {
        &self.observer
    }

    pub(crate) const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    pub(crate) fn unroutable_packet(&mut self, record: &Record<'_>) {
        self.unroutable += 1;
        self.note(record);
    }

    /// Logs a step of a packet on this link.
    pub(crate) fn packet(&mut self, link: LinkIndex, record: &Record<'_>) {
        self.count(link, record);
        self.note(record);
    }

    pub(crate) fn node(&mut self, time: Time, node: NodeId, change: NodeChange) {
        self.observer.node(time, node, change);
    }

    fn count(&mut self, link: LinkIndex, record: &Record<'_>) {
        let counters = &mut self.counters[link.index()];
        match record.step {
            Step::Unroutable => unreachable!("what is unroutable is on no link"),
            Step::Sent => {
                counters.sent += 1;
                counters.sent_bytes += record.ip_bytes();
            }
            Step::Duplicated => counters.duplicated += 1,
            Step::Corrupted { .. } => counters.corrupted += 1,
            Step::Lost(reason) => counters.lost[reason] += 1,
            Step::Delivered => {
                counters.delivered += 1;
                counters.delivered_bytes += record.ip_bytes();
            }
        }
    }

    fn note(&mut self, record: &Record<'_>) {
        let to = record.to.map_or(u64::MAX, |to| u64::from(to.number()));
        let words =
            [record.time.as_nanos(), record.packet, u64::from(record.from.number()), to, record.step.code()];
        self.digest = chain(self.digest, &words);
        // All later steps follow from these fields.
        if matches!(record.step, Step::Sent | Step::Unroutable) {
            let (source, destination) = (address_digest(record.source), address_digest(record.destination));
            let content = hash::digest(u64::from(record.ecn.bits()), record.payload);
            self.digest = chain(self.digest, &[source, destination, content]);
        }
        self.observer.packet(record);
    }
}

/// Returns the digest that follows `digest` after these words.
fn chain(digest: u64, words: &[u64]) -> u64 {
    // The addition of one matters because zeros would not change a digest of zero.
    words.iter().fold(digest, |digest, word| mix(digest ^ word).wrapping_add(1))
}

/// Returns a number that is almost unique to the address.
fn address_digest(address: SocketAddr) -> u64 {
    let port = u64::from(address.port());
    match address.ip() {
        IpAddr::V4(ip) => u64::from(ip.to_bits()) << 16 | port,
        IpAddr::V6(ip) => hash::digest(port, &ip.octets()),
    }
}
