//! What the world knows about every packet: counters, a digest of everything that happened, and an observer.
//!
//! Loss is counted here and nowhere else: what hosts report about themselves proves nothing.

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

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossReason {
    /// The queue of a bottleneck had no room.
    QueueFull,
    /// The link was dark.
    Outage,
    /// It was longer than what passes.
    TooLong,
    /// A loss process of the link took it.
    Random,
    /// Its address had moved away when it came.
    AddressMoved,
    /// Its host had stopped.
    Stopped,
    /// Its host hung, and did not keep it.
    Hung,
}

impl LossReason {
    const ALL: [Self; 7] = [
        Self::QueueFull,
        Self::Outage,
        Self::TooLong,
        Self::Random,
        Self::AddressMoved,
        Self::Stopped,
        Self::Hung,
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
            Self::Hung => "host hung",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// How many packets were lost for which reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([u64; LossReason::COUNT]);

impl Losses {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many for which reason.
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

/// What happened on one link. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that were offered to the link.
    pub sent: u64,
    /// Their bytes: what the sender pays for, lost or not.
    pub sent_bytes: Bytes,
    /// Packets that a host received, duplicates included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: Bytes,
    /// Copies that the link added.
    pub duplicated: u64,
    /// Copies of which the link inverted a bit.
    pub corrupted: u64,
    /// Copies that no host received.
    pub lost: Losses,
}

/// A step in the life of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A host sent it to an address that nobody has, or that no link leads to.
    Unroutable,
    /// A host sent it over a link.
    Sent,
    /// The link carries a second copy of it.
    Duplicated,
    /// This bit of its payload, counted from 0, is inverted on the way.
    Corrupted {
        /// Which bit.
        bit: u64,
    },
    /// It is gone.
    Lost(LossReason),
    /// A host received it.
    Delivered,
}

impl Step {
    /// A number that no other step has, for the digest.
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

/// One step of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When.
    pub time: Time,
    /// The number of the packet in this world; a duplicate has that of its original.
    pub packet: u64,
    /// Who sent it.
    pub from: NodeId,
    /// Who gets it; `None` if it is unroutable.
    pub to: Option<NodeId>,
    /// The address it says it comes from.
    pub source: SocketAddr,
    /// The address it goes to.
    pub destination: SocketAddr,
    /// Its ECN field.
    pub ecn: Ecn,
    /// What it carries at this step.
    pub payload: &'a [u8],
    /// What happened to it.
    pub step: Step,
}

impl Record<'_> {
    fn ip_bytes(&self) -> Bytes {
        ip_bytes(self.payload, self.destination)
    }
}

impl fmt::Display for Record<'_> {
    /// One line: `0.010000000 #3 node 0 -> node 1, 192.0.2.1:1 -> 192.0.2.2:1, 128 B, ECN 10: sent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{} {}", self.time, self.packet, self.from)?;
        if let Some(to) = self.to {
            write!(f, " -> {to}")?;
        }
        let bytes = self.ip_bytes().count();
        write!(f, ", {} -> {}, {bytes} B, ECN {}: {}", self.source, self.destination, self.ecn, self.step)
    }
}

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// It crashed.
    Stopped,
    /// It stopped taking inputs.
    Hung,
    /// It takes inputs again.
    Resumed,
    /// It has a fresh host.
    Restarted,
    /// It has this address now, alone.
    Assigned(SocketAddr),
    /// It has this address no more.
    Released(SocketAddr),
}

impl fmt::Display for NodeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Hung => f.write_str("hung"),
            Self::Resumed => f.write_str("resumed"),
            Self::Restarted => f.write_str("restarted"),
            Self::Assigned(address) => write!(f, "assigned {address}"),
            Self::Released(address) => write!(f, "released {address}"),
        }
    }
}

/// Sees everything that happens in a world, and changes nothing. `()` looks away; a pair sees it twice.
pub trait Observer {
    /// A step of a packet.
    fn packet(&mut self, record: &Record<'_>);

    /// A change of a node.
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

/// Writes everything down, one line for each step or change: to be read when a test fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// What was written so far.
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

/// The log of a world.
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

    /// Links are logged in the order in which they are added here.
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

    /// A packet on this link took a step.
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
        // Afterwards, all this follows from the steps.
        if matches!(record.step, Step::Sent | Step::Unroutable) {
            let (source, destination) = (address_digest(record.source), address_digest(record.destination));
            let content = hash::digest(u64::from(record.ecn.bits()), record.payload);
            self.digest = chain(self.digest, &[source, destination, content]);
        }
        self.observer.packet(record);
    }
}

/// One digest of all that went into `digest`, and then of these words.
fn chain(digest: u64, words: &[u64]) -> u64 {
    // Without the one, zeros would leave a digest of zero as it is.
    words.iter().fold(digest, |digest, word| mix(digest ^ word).wrapping_add(1))
}

/// A number that hardly another address has.
fn address_digest(address: SocketAddr) -> u64 {
    let port = u64::from(address.port());
    match address.ip() {
        IpAddr::V4(ip) => u64::from(ip.to_bits()) << 16 | port,
        IpAddr::V6(ip) => hash::digest(port, &ip.octets()),
    }
}
