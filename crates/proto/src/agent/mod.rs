//! The agent: seals what applications send, opens and repairs what they receive, and helps others to repair.
//!
//! # One input, then drain
//! After each call of [`Agent::handle`], call [`Agent::poll`] until it returns `None`, and then
//! [`Agent::deadline`]. When the deadline comes, handle [`AgentInput::Deadline`].
//!
//! Originals come out of [`Agent::poll`] before anything that the overlay wants.

mod arrival_clock;
mod asking;
mod blocks;
mod closing;
mod closings;
mod delivering;
mod direct;
mod early;
mod early_buffer;
mod events;
mod flow_table;
mod flows;
mod helping;
mod joiner;
mod known;
mod long_datagrams;
mod looking;
mod messages;
mod mixture;
mod never_copied;
mod offers;
mod ordering;
mod own_repairs;
mod paths;
mod prefetching;
mod receive_flow;
mod receiving;
mod registration;
mod relay_delivery;
mod relay_link;
mod reporting;
mod requests;
mod resending;
mod send_flow;
mod sending;
mod settings;
mod silence;
mod statistics;
mod tail;
mod terms;
mod totals;
mod two_ways;
mod visits;
mod waiting;
mod weighing;
mod work;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_code::{AlignedBuffer, Engine};
use byway_units::{AgentId, Bytes, FlowId, RelayId, Time};
pub use byway_wire::messages::OfferRefusal;
use byway_wire::seal::Provider;
use byway_wire::{Capabilities, Ecn, FlowKey, Shard, TrafficClass};

pub use events::{Delivery, Event};
pub use looking::{FlowStatus, PathState, PeerStatus, RelayStatus};
pub use receive_flow::ReceiveFlowId;
pub use send_flow::SendFlowId;
pub use settings::{
    AgentIdentity, Duplication, FlowSettings, Peer, RelayPath, RelayPeer, Traffic, flow_between,
};
pub use statistics::{AgentBacklog, REPAIR_TIME_BOUNDS_MS, ReceiveStatistics, RepairTimes};
pub use terms::{Offer, Terms, may_offer};
pub use totals::{FORMER_PEERS, PeerTotals, Reported};
pub use work::AgentWork;

use closing::Life;
use closings::Closings;
use direct::DirectPaths;
use early::EarlySending;
use early_buffer::EarlyBuffer;
use flow_table::FlowTable;
use long_datagrams::LongDatagrams;
use offers::Offers;
use receive_flow::ReceiveFlow;
use relay_link::RelayLink;
use send_flow::SendFlow;
use totals::Totals;
use visits::Visits;
use waiting::{Outgoing, Waiting};

use crate::counters::counters;
use crate::index_table::IndexTable;
use crate::limits::{AGENT_LOG_BYTES, CODED_BYTES_MAX, KEPT_FOR};
use crate::network_path::{LocalAddress, NetworkPath};
use crate::outbox::{Outbox, Transmit};
use crate::parts::line_load::LineLoad;
use crate::parts::packet_log::PacketLog;
use crate::parts::timers::Timers;
use crate::random::Generator;
use crate::reason::Reason;
use crate::session::{Local, Origin, SessionCounters, SessionId, Sessions};

/// What comes to an agent.
#[derive(Debug)]
pub enum AgentInput<'a> {
    /// A datagram from the network, to be opened in place.
    Received {
        /// Where it came from.
        from: SocketAddr,
        /// The local address that it came to.
        to: LocalAddress,
        /// The ECN field of its IP header.
        ecn: Ecn,
        /// The UDP payload.
        bytes: &'a mut [u8],
    },
    /// A datagram from an application, to be sent.
    Send {
        /// The flow it belongs to.
        flow: SendFlowId,
        /// The datagram, up to [`DATAGRAM_BYTES_MAX`](crate::limits::DATAGRAM_BYTES_MAX) bytes.
        datagram: &'a [u8],
        /// The traffic class of the application's packet. A DSCP other than 0 takes a byte of what the packet carries;
        /// the packets of the overlay have the ECN field alone.
        traffic_class: TrafficClass,
        /// Whether the application marked it as worth a copy.
        marked: bool,
    },
    /// The deadline has come.
    Deadline,
    /// A packet of this agent is too long for its way: the interface refused it, or a router said so.
    TooLong {
        /// Where it was to go.
        to: SocketAddr,
        /// Its UDP payload, or as much of the beginning as is quoted.
        quoted: &'a [u8],
        /// The longest UDP payload that fits.
        payload_bytes_max: usize,
    },
}

/// What an agent wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum AgentOutput<'a> {
    /// A datagram to be sent.
    Transmit(Transmit<'a>),
    /// A datagram for an application.
    Deliver {
        /// The flow it belongs to.
        flow: ReceiveFlowId,
        /// The datagram.
        datagram: &'a [u8],
        /// The traffic class for the application's packet: the DSCP that was sent, and the ECN field with the marks of
        /// the way (RFC 6040), and with CE where a loss was repaired on an ECN-capable flow.
        traffic_class: TrafficClass,
        /// How it came; of two pieces, how the later one did.
        delivery: Delivery,
    },
    /// Something to know.
    Event(Event),
    /// A peer offers a flow in each direction, to be answered by [`Agent::answer_offer`]. Flows of the same number that it
    /// offered before are replaced by these.
    Offered {
        /// Who offers them.
        peer: AgentId,
        /// Their number.
        flow: FlowId,
        /// What they are to be, as the peer sees it: `forth` comes from there.
        offer: Box<Offer>,
    },
}

counters! {
/// What an agent dropped beside what its sessions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCounters {
    /// Originals sent.
    pub originals: u64,
    /// Packets sent with their flow's offer, before the peer had answered it.
    pub early: u64,
    /// Packets dropped that came with an offer which was not answered yet: too many of the flow or the peer waited.
    pub early_dropped: u64,
    /// Copies sent.
    pub copies: u64,
    /// Copies sent again, as a relay asked for them.
    pub copies_resent: u64,
    /// Originals sent again, as a relay missed their copies: both leave by the same line.
    pub originals_again: u64,
    /// Originals not sent: the direct path was dark, and the line had no room for them beside their copies.
    pub originals_withheld: u64,
    /// Copies not sent: the line does not bear them, they would queue, do not arrive, or too many wait.
    pub copies_held: u64,
    /// In-stream repair packets sent that this agent made of its own packets.
    pub own_repairs: u64,
    /// In-stream repair packets not sent, as copies would not be.
    pub own_repairs_held: u64,
    /// Copies asked for that are no longer kept.
    pub copies_gone: u64,
    /// Datagrams not sent: too long.
    pub datagrams_too_long: u64,
    /// Times that long packets were found not to pass any more where they had passed.
    pub paths_narrowed: u64,
    /// Datagrams sent whole that were too long for a path which had become narrower.
    pub datagrams_too_long_for_path: u64,
    /// Of these, datagrams sent again in two pieces. The others would have been late.
    pub datagrams_split_again: u64,
    /// Reports of routers that a packet is too long, which quote no packet of this agent.
    pub too_long_unknown: u64,
    /// Datagrams not sent: no session with the receiver, or no way to it, was found in time.
    pub datagrams_unsendable: u64,
    /// Datagrams that waited for consent or a way for longer than their flow's latency budget, and were sent all the
    /// same.
    pub datagrams_late: u64,
    /// Packets and messages about flows that this agent does not know.
    pub flows_unknown: u64,
    /// Messages that do not parse, or that this version does not know.
    pub messages_unknown: u64,
    /// Messages that their sender has no business sending.
    pub out_of_role: u64,
    /// Plaintexts that do not parse: the sender is broken.
    pub malformed: u64,
    /// Messages of datagrams that had cost as much work as one may.
    pub work_refused: u64,
}
}

/// A flow at this agent, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flow {
    Sent(SendFlowId),
    Received(ReceiveFlowId),
    /// What this agent registers to have sessions with relays.
    Visits,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Peer(AgentId),
    Relay(usize),
}

/// What is said about a delivered datagram beside its bytes.
#[derive(Clone, Copy, Debug)]
struct Delivered {
    flow: ReceiveFlowId,
    traffic_class: TrafficClass,
    delivery: Delivery,
}

/// A relay through which flows of a peer come, and how many of their paths end there.
type WayIn = ((RelayId, Shard), usize);

/// One agent.
#[derive(Debug)]
pub struct Agent {
    engine: Engine,
    sessions: Sessions,
    roles: BTreeMap<SessionId, Role>,
    peers: BTreeMap<AgentId, SessionId>,
    relays: Vec<RelayLink>,
    relay_places: BTreeMap<(RelayId, Shard), usize>,
    senders: FlowTable<SendFlow>,
    receivers: FlowTable<ReceiveFlow>,
    sent_by_key: BTreeMap<FlowKey, SendFlowId>,
    received_by_key: BTreeMap<FlowKey, ReceiveFlowId>,
    /// What closed flows counted.
    closed: Totals,
    /// The relays through which a peer's flows come, by its session.
    ways_in: BTreeMap<SessionId, Vec<WayIn>>,
    /// The flows that a peer sends here, by its session.
    incoming: IndexTable<(SessionId, FlowId)>,
    timers: Timers,
    closings: Closings,
    offers: Offers,
    visits: Visits,
    waiting: Waiting,
    /// Datagrams that go with their flow's offer.
    early: EarlySending,
    /// Packets that came with an offer that the driver has not answered yet.
    early_buffer: EarlyBuffer,
    direct_paths: DirectPaths,
    /// What the uplink carries, and what it is to carry.
    load: LineLoad,
    /// When something about lines that are weighed is due.
    weighing_due: Option<Time>,
    /// The relay that accepted flows with the messages at hand: its line is weighed behind them, as that takes a look at all
    /// flows.
    bound_at: Option<usize>,
    /// The relay by whose line the packet at hand was not copied, as it is not known to bear it.
    unborne: Option<usize>,
    number: AgentId,
    life: Life,
    /// Coded bytes of copies that may be asked for again.
    sent: PacketLog,
    /// Coded bytes of packets that arrived.
    kept: PacketLog,
    long: LongDatagrams,
    /// Where a packet is put together, and where one is kept while it is opened.
    scratch: Vec<u8>,
    restored: Vec<u8>,
    decoded: Vec<AlignedBuffer>,
    /// Where relays say that this agent is seen.
    seen_at: Vec<SocketAddr>,
    deliveries: Outbox<Delivered>,
    events: VecDeque<Event>,
    deadline: Option<(Time, Reason)>,
    counters: AgentCounters,
    work: AgentWork,
    /// The count of units at which no more messages of the datagram at hand are read.
    messages_end: Option<u64>,
}

impl Agent {
    /// An agent that knows nobody yet.
    ///
    /// `seed` is 32 secret random bytes. The same seed and the same inputs give the same outputs.
    #[must_use]
    pub fn new(
        identity: AgentIdentity,
        engine: Engine,
        provider: &'static (dyn Provider + Sync),
        seed: [u8; 32],
        now: Time,
    ) -> Self {
        let AgentIdentity { number, secret, suite, started_unix_nanos } = identity;
        let capabilities = Capabilities::DSCPS;
        let local = Local { secret, suite, shard: Shard::new(0), capabilities, started_unix_nanos };
        Self {
            engine,
            sessions: Sessions::new(local, provider, Generator::new(seed), now),
            roles: BTreeMap::new(),
            peers: BTreeMap::new(),
            relays: Vec::new(),
            relay_places: BTreeMap::new(),
            senders: FlowTable::new(),
            receivers: FlowTable::new(),
            sent_by_key: BTreeMap::new(),
            received_by_key: BTreeMap::new(),
            closed: Totals::default(),
            ways_in: BTreeMap::new(),
            incoming: IndexTable::default(),
            timers: Timers::new(),
            closings: Closings::default(),
            offers: Offers::default(),
            visits: Visits::new(number),
            waiting: Waiting::default(),
            early: EarlySending::default(),
            early_buffer: EarlyBuffer::default(),
            direct_paths: DirectPaths::default(),
            load: LineLoad::new(),
            weighing_due: None,
            bound_at: None,
            unborne: None,
            number,
            life: Life::Open,
            sent: PacketLog::new(Bytes::new(AGENT_LOG_BYTES), KEPT_FOR),
            kept: PacketLog::new(Bytes::new(AGENT_LOG_BYTES), KEPT_FOR),
            long: LongDatagrams::new(),
            scratch: Vec::new(),
            restored: Vec::new(),
            seen_at: Vec::new(),
            decoded: (0..byway_code::REPAIR_PACKETS_MAX)
                .map(|_| AlignedBuffer::new(CODED_BYTES_MAX))
                .collect(),
            deliveries: Outbox::default(),
            events: VecDeque::new(),
            deadline: None,
            counters: AgentCounters::default(),
            work: AgentWork::default(),
            messages_end: None,
        }
    }

    /// Takes one input.
    pub fn handle(&mut self, input: AgentInput<'_>, now: Time) {
        if self.life != Life::Open {
            self.leave(now);
            self.deadline = self.leaving_deadline();
            return;
        }
        match input {
            AgentInput::Received { from, to, ecn, bytes } => {
                let origin = Origin::Address(NetworkPath { remote: from, local: to });
                self.receive_from(bytes, origin, ecn, now);
            }
            AgentInput::Send { flow, datagram, traffic_class, marked } => {
                self.send(flow, &Outgoing { datagram, traffic_class, marked, came: now }, now);
            }
            AgentInput::Deadline => self.handle_deadline(now),
            AgentInput::TooLong { to, quoted, payload_bytes_max } => {
                self.packet_too_long(to, quoted, payload_bytes_max, now);
            }
        }
        self.finish(now);
    }

    /// What every input ends with.
    fn finish(&mut self, now: Time) {
        self.handle_changes(now);
        if self.early.is_in_use() {
            self.expire_early(now);
            self.send_accepted_early(now);
        }
        if self.waiting.count() > 0 {
            self.send_what_waited(now);
        }
        self.sessions.flush_all(now);
        self.deadline = self.find_deadline(now);
    }

    /// The next output: datagrams in the order in which they have to leave, then deliveries, then events, then
    /// offers.
    pub fn poll(&mut self) -> Option<AgentOutput<'_>> {
        if let Some((heading, bytes)) = self.sessions.outbox.take() {
            return Some(AgentOutput::Transmit(heading.transmit(bytes)));
        }
        if let Some((delivered, datagram)) = self.deliveries.take() {
            let Delivered { flow, traffic_class, delivery } = delivered;
            return Some(AgentOutput::Deliver { flow, datagram, traffic_class, delivery });
        }
        if let Some(event) = self.events.pop_front() {
            return Some(AgentOutput::Event(event));
        }
        let (peer, flow, offer) = self.offers.news.pop_front()?;
        Some(AgentOutput::Offered { peer, flow, offer })
    }

    /// Whether [`Agent::poll`] gives a datagram to be sent next.
    #[must_use]
    pub fn next_is_transmit(&self) -> bool {
        !self.sessions.outbox.is_empty()
    }

    /// When to handle [`AgentInput::Deadline`], and what for.
    #[must_use]
    pub const fn deadline(&self) -> Option<(Time, Reason)> {
        self.deadline
    }

    /// What was sent and dropped, and why.
    #[must_use]
    pub const fn counters(&self) -> &AgentCounters {
        &self.counters
    }

    /// What is not finished. When nobody sends, all of it comes to nothing.
    #[must_use]
    pub fn backlog(&self) -> AgentBacklog {
        let active = || self.receivers.iter().filter_map(|(_, flow)| flow.active());
        AgentBacklog {
            flows: active().count(),
            missing: active().map(|active| active.tracker.missing()).sum(),
            requests: active().map(|active| active.requests.count()).sum(),
        }
    }

    /// How many agents and relays have a session, or are to get one.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// What sessions dropped, and why.
    #[must_use]
    pub const fn session_counters(&self) -> &SessionCounters {
        &self.sessions.counters
    }

    /// The memory that packets take which are kept for repairs and for others; up to an eighth more notes their times.
    #[must_use]
    pub fn packets_held(&self) -> Bytes {
        self.sent.held() + self.kept.held() + self.long.held()
    }

    /// What became of a flow's packets; `None` if the flow was closed, which its sender may do at any time.
    #[must_use]
    pub fn statistics(&self, flow: ReceiveFlowId) -> Option<&ReceiveStatistics> {
        self.receivers.get(flow.0).map(|flow| &*flow.statistics)
    }

    /// What a flow's receiver reported last: the true loss of the direct path, which repairs hide, what came back and
    /// how, and how late packets are. `None` before the first report, also of a receiver that restarted, and once the flow
    /// was closed.
    #[must_use]
    pub fn report(&self, flow: SendFlowId) -> Option<&byway_wire::messages::Report> {
        self.senders.get(flow.0)?.reports.as_ref()?.newest()
    }

    /// What a flow's receiver reported altogether; `None` before the first report, and once the flow was closed.
    #[must_use]
    pub fn reported(&self, flow: SendFlowId) -> Option<Reported> {
        Some(self.senders.get(flow.0)?.reports.as_ref()?.so_far())
    }
}

#[cfg(test)]
mod tests;
