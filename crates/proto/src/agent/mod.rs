//! Agent: seals and sends the datagrams of applications, opens and repairs received packets, and
//! helps other receivers to repair theirs.
//!
//! # One input, then drain
//! After each call of [`Agent::handle`], call [`Agent::poll`] until it returns `None`, and then
//! [`Agent::deadline`]. When the deadline comes, handle [`AgentInput::Deadline`].
//!
//! [`Agent::poll`] returns source packets before all packets for the overlay.
//!
//! # Modules
//! | module | subject |
//! |---|---|
//! | `blocks` | in-stream repair packets at the receiver |
//! | `burst_end` | tail-loss hints of relays |
//! | `clock_offset` | offset between the clocks of a flow's ends |
//! | `closing` | teardown of flows, and of the agent |
//! | `cooperative_recovery` | in-stream decoding, and requests for others' repairs |
//! | `covered` | losses of the direct path that relays cover |
//! | `deliver` | received packets: loss state, cooperative answers, delivery |
//! | `detection` | prediction of the time in which losses are detected |
//! | `direct` | peers without a direct path |
//! | `early` | early packets at the sender, before the answer to an offer |
//! | `early_buffer` | early packets at the receiver |
//! | `events` | events for the driver |
//! | `explanation` | explanations of a sent flow's service |
//! | `flow_table` | table of flows by number |
//! | `flows` | opening and acceptance of flows, timers, session events |
//! | `interface` | inputs, outputs and counters of an agent |
//! | `long_datagrams` | retransmission in two fragments if the path MTU decreases |
//! | `messages` | dispatch of messages from relays and peers |
//! | `mixture` | congestion losses in mixed traffic |
//! | `nack` | loss detection and NACKs |
//! | `notice_intervals` | intervals of notices to a sender that retransmits |
//! | `offers` | offers of flows, made and received |
//! | `ordering` | in-order delivery of congestion-controlled flows |
//! | `owd` | base one-way delay, and lateness |
//! | `paths` | changes of a flow's relay paths |
//! | `peers` | known peers and relays |
//! | `pending_datagrams` | datagrams that wait for a path |
//! | `prefetching` | cache prefetching |
//! | `path_delays` | delays of a received flow by path |
//! | `path_queue` | queue of a flow's direct path |
//! | `reassembly` | reassembly of two fragments |
//! | `receive_flow` | state of a received flow |
//! | `receiving` | datagrams from the network |
//! | `register_message` | registration requests |
//! | `registration` | registration with relays, fallback to the direct path |
//! | `registration_state` | state of a flow's registrations, choice of the path in use |
//! | `relay_delivery` | monitoring of flows that use relays alone |
//! | `relay_keepalive` | relay probing: sessions with relays without flows |
//! | `relay_link` | link to one relay |
//! | `reporting` | receiver reports |
//! | `requests` | pending cooperative requests |
//! | `resending` | retransmission of copies, and of packets that receivers request |
//! | `route_following` | change of sent flows to their selected path |
//! | `routes` | routes of sent flows whose direct path is too slow |
//! | `selection` | selectors of the services of sent flows |
//! | `send_flow` | state of a sent flow |
//! | `sender_fec` | sender FEC: repair packets instead of copies |
//! | `sending` | source packets and copies |
//! | `service_changes` | changes of the services of open flows |
//! | `service_selection` | selection after each report, by the agent's measurements |
//! | `sent_usage` | packets and bytes that were sent |
//! | `settings` | settings of an agent and its flows |
//! | `silence` | notices of silence, which start copies in an outage |
//! | `statistics` | receive statistics of a flow |
//! | `status` | status of peers, relays and flows |
//! | `teardown` | unregister messages, and final sequence numbers of closed flows |
//! | `terms` | terms of offered flows |
//! | `totals` | packet totals by peer |
//! | `two_paths` | skew of the two paths, and packets on both |
//! | `unprotected` | packets that no relay has |
//! | `uplink_probing` | measurement of the uplink's capacity |
//! | `work` | work limits of inputs |

mod blocks;
mod burst_end;
mod clock_offset;
mod closing;
mod cooperative_recovery;
mod covered;
mod deliver;
mod detection;
mod direct;
mod early;
mod early_buffer;
mod events;
mod explanation;
mod flow_table;
mod flows;
mod interface;
mod long_datagrams;
mod messages;
mod mixture;
mod nack;
mod notice_intervals;
mod offers;
mod ordering;
mod owd;
mod path_delays;
mod path_queue;
mod paths;
mod peers;
mod pending_datagrams;
mod prefetching;
mod reassembly;
mod receive_flow;
mod receiving;
mod register_message;
mod registration;
mod registration_state;
mod relay_delivery;
mod relay_keepalive;
mod relay_link;
mod reporting;
mod requests;
mod resending;
mod route_following;
mod routes;
mod selection;
mod send_flow;
mod sender_fec;
mod sending;
mod sent_usage;
mod service_changes;
mod service_selection;
mod settings;
mod silence;
mod statistics;
mod status;
mod teardown;
mod terms;
mod totals;
mod two_paths;
mod unprotected;
mod uplink_probing;
mod work;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_code::{AlignedBuffer, Engine};
use byway_units::{AgentId, Bytes, FlowId, RelayId, Time};
pub use byway_wire::messages::OfferRefusal;
use byway_wire::seal::Provider;
use byway_wire::{Capabilities, FlowKey, Shard, TrafficClass};

pub use events::{Delivery, Event};
pub use explanation::{Explanation, explain};
pub use interface::{AgentCounters, AgentInput, AgentOutput};
pub use receive_flow::ReceiveFlowId;
pub use routes::RouteStatus;
pub use selection::FlowDelays;
pub use send_flow::SendFlowId;
pub use sent_usage::{PacketCount, SentUsage};
pub use settings::{
    AgentIdentity, Duplication, FlowSettings, Peer, RedundancyMode, RelayPath, RelayPeer, Traffic,
    can_use_routes, flow_between, initial_service,
};
pub use statistics::{
    AgentBacklog, REPAIR_TIME_BOUNDS_MS, ReceiveStatistics, RepairTimes, RepairTimesByKind,
};
pub use status::{FlowStatus, PathState, PeerStatus, RelayStatus};
pub use terms::{Offer, Terms, may_offer};
pub use totals::{FORMER_PEERS, PeerTotals, ReportedTotals};
pub use work::AgentWork;

use closing::AgentState;
use direct::DirectPaths;
use early::EarlySending;
use early_buffer::EarlyBuffer;
use flow_table::FlowTable;
use long_datagrams::LongDatagrams;
use offers::Offers;
use pending_datagrams::{OutgoingDatagram, PendingDatagrams};
use receive_flow::ReceiveFlow;
use relay_keepalive::RelayProbing;
use relay_link::RelayLink;
use send_flow::SendFlow;
use service_changes::ServiceChanges;
use teardown::Teardowns;
use totals::Totals;
use uplink_probing::{UplinkEstimates, UplinkProbing};

use crate::index_table::IndexTable;
use crate::limits::{AGENT_BUFFER_BYTES, AGENT_BUFFER_RETENTION, CODED_BYTES_MAX};
use crate::network_path::{NetworkPath, Uplinks};
use crate::outbox::Outbox;
use crate::parts::packet_buffer::PacketBuffer;
use crate::parts::timers::Timers;
use crate::random::Generator;
use crate::reason::Reason;
use crate::session::{LocalIdentity, Route, SessionCounters, SessionId, Sessions};

/// Flow at this agent: one that it sends, or one that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flow {
    Sent(SendFlowId),
    Received(ReceiveFlowId),
    /// Pseudo-flow that the agent registers at relays to have sessions with them.
    RelayProbing,
}

/// Node at the other end of a session: a peer, or a relay by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Peer(AgentId),
    Relay(usize),
}

/// Flow, traffic class and path of a datagram that waits for delivery to the application.
#[derive(Clone, Copy, Debug)]
struct DeliveryMeta {
    flow: ReceiveFlowId,
    traffic_class: TrafficClass,
    delivery: Delivery,
}

/// Egress relay through which a peer's flows may arrive.
#[derive(Clone, Copy, Debug)]
struct ArrivalRelay {
    relay: (RelayId, Shard),
    /// Number of the flows' paths that end there.
    paths: usize,
    /// Number of those paths whose flows are repaired from afar. Their relays send nothing until a
    /// packet is lost.
    watched: usize,
}

/// One agent: a state machine that seals, copies, acknowledges and repairs, without sockets or a
/// clock.
///
/// # Contract
/// - **Inputs**: [`handle`](Self::handle) takes one [`AgentInput`]: a datagram from the network, a
///   datagram of an application, an expired deadline, or an ICMP report. It never blocks and never
///   fails; bad input is counted in [`counters`](Self::counters).
/// - **Commands**: [`add_peer`](Self::add_peer), [`add_relay`](Self::add_relay),
///   [`open_flow`](Self::open_flow), [`offer`](Self::offer), [`close`](Self::close) and others
///   change the configuration. They may queue outputs, as inputs do.
/// - **Outputs**: after each input or command, the driver calls [`poll`](Self::poll) until it
///   returns `None`. An output borrows the agent's buffer until the next call.
/// - **Time**: `now` never decreases. After the last output, the driver asks for the
///   [`deadline`](Self::deadline), and passes [`AgentInput::Deadline`] once it is due. Each input
///   may move the deadline. A late input is safe, but delays repairs.
/// - **Getters** ([`statistics`](Self::statistics), [`peer_status`](Self::peer_status) and others)
///   change nothing.
///
/// # Examples
/// Two agents exchange a datagram on the direct path. The loop is all that a driver needs:
///
/// ```
/// use core::net::SocketAddr;
///
/// use byway_code::Engine;
/// use byway_proto::LocalAddress;
/// use byway_proto::agent::{
///     Agent, AgentIdentity, AgentInput, AgentOutput, FlowSettings, Peer, flow_between,
/// };
/// use byway_units::{AgentId, FlowId, Time};
/// use byway_wire::seal::{PortableProvider, PreSharedKey, StaticSecret, Suite};
/// use byway_wire::{Ecn, TrafficClass};
///
/// let number = |index: usize| AgentId::new(index as u32 + 1);
/// let secret = |index: usize| StaticSecret::from_bytes([index as u8 + 1; 32]);
/// let addresses: [SocketAddr; 2] = ["192.0.2.1:4600".parse()?, "192.0.2.2:4600".parse()?];
/// let mut now = Time::START;
/// let mut agents = [0, 1].map(|index| {
///     let identity = AgentIdentity {
///         number: number(index),
///         secret: secret(index),
///         suite: Suite::ChaCha20Poly1305,
///         started_unix_nanos: 1,
///     };
///     let seed = [index as u8; 32]; // from the operating system's random numbers, in production
///     Agent::new(identity, Engine::fastest(), &PortableProvider, seed, now)
/// });
/// for (index, agent) in agents.iter_mut().enumerate() {
///     let other = 1 - index;
///     agent.add_peer(
///         Peer {
///             number: number(other),
///             key: secret(other).public_key(),
///             pre_shared: PreSharedKey::from_bytes([0; 32]),
///             addresses: vec![addresses[other]],
///         },
///         now,
///     );
/// }
/// let key = flow_between(number(0), number(1), FlowId::new(7));
/// let sent = agents[0].open_flow(key, FlowSettings::default(), now).expect("the peer is known");
/// agents[1].accept_flow(key, FlowSettings::default(), now).expect("the peer is known");
/// let send = AgentInput::Send {
///     flow: sent,
///     datagram: b"hello",
///     traffic_class: TrafficClass::default(),
///     marked: false,
/// };
/// agents[0].handle(send, now);
///
/// let mut delivered = Vec::new();
/// while delivered.is_empty() {
///     // Drain the outputs of both. The network delivers each datagram to the other agent.
///     let mut network = Vec::new();
///     for (index, agent) in agents.iter_mut().enumerate() {
///         while let Some(output) = agent.poll() {
///             match output {
///                 AgentOutput::Transmit(sent) => network.push((index, sent.bytes.to_vec())),
///                 AgentOutput::Deliver { datagram, .. } => delivered.push(datagram.to_vec()),
///                 AgentOutput::Event(_) | AgentOutput::Offered { .. } => {}
///             }
///         }
///     }
///     let is_idle = network.is_empty();
///     for (from, mut bytes) in network {
///         let input = AgentInput::Received {
///             from: addresses[from],
///             to: LocalAddress::ANY,
///             ecn: Ecn::NotCapable,
///             bytes: &mut bytes,
///         };
///         agents[1 - from].handle(input, now);
///     }
///     if is_idle {
///         // Nothing is in flight: wait for the earliest deadline.
///         let due = agents.iter().filter_map(|agent| agent.deadline()).map(|(at, _)| at).min();
///         now = now.max(due.expect("a session has timers"));
///         for agent in &mut agents {
///             if agent.deadline().is_some_and(|(at, _)| at <= now) {
///                 agent.handle(AgentInput::Deadline, now);
///             }
///         }
///     }
/// }
/// assert_eq!(delivered, [b"hello"]);
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
#[derive(Debug)]
pub struct Agent {
    engine: Engine,
    sessions: Sessions,
    roles: BTreeMap<SessionId, Role>,
    peers: BTreeMap<AgentId, SessionId>,
    relays: Vec<RelayLink>,
    relay_indices: BTreeMap<(RelayId, Shard), usize>,
    senders: FlowTable<SendFlow>,
    receivers: FlowTable<ReceiveFlow>,
    sent_by_key: BTreeMap<FlowKey, SendFlowId>,
    received_by_key: BTreeMap<FlowKey, ReceiveFlowId>,
    /// Totals of closed flows, by peer.
    closed: Totals,
    /// Egress relays through which a peer's flows may arrive, by the peer's session.
    arrival_relays: BTreeMap<SessionId, Vec<ArrivalRelay>>,
    /// Received flows, by the sender's session and the flow number.
    incoming: IndexTable<(SessionId, FlowId)>,
    timers: Timers,
    teardowns: Teardowns,
    offers: Offers,
    service_changes: ServiceChanges,
    relay_probing: RelayProbing,
    pending_datagrams: PendingDatagrams,
    /// Datagrams sent with their flow's offer, before the peer has answered.
    early: EarlySending,
    /// Early packets of peers' offers that the driver has not answered yet.
    early_buffer: EarlyBuffer,
    direct_paths: DirectPaths,
    uplink: UplinkEstimates,
    uplink_probing: UplinkProbing,
    number: AgentId,
    state: AgentState,
    /// Coded bytes of sent packets, whose copies relays may request again.
    retransmit_buffer: PacketBuffer,
    /// Coded bytes of received packets, for blocks and for repairs of other receivers.
    cooperation_buffer: PacketBuffer,
    long_datagrams: LongDatagrams,
    /// Buffer in which the agent builds a packet, and in which a packet stays while it is opened.
    scratch: Vec<u8>,
    restored: Vec<u8>,
    decoded: Vec<AlignedBuffer>,
    /// Addresses of this agent as relays see them, the newest last.
    reflexive_addresses: Vec<SocketAddr>,
    deliveries: Outbox<DeliveryMeta>,
    events: VecDeque<Event>,
    deadline: Option<(Time, Reason)>,
    counters: AgentCounters,
    work: AgentWork,
    /// Work count after which no more messages of the current datagram are handled.
    messages_end: Option<u64>,
}

impl Agent {
    /// Returns an agent without peers and relays.
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
        let capabilities =
            Capabilities::DSCPS.with(Capabilities::SERVICE_CHANGES).with(Capabilities::DIRECT_SAMPLES);
        let (shard, uplinks) = (Shard::new(0), Uplinks::One);
        let local = LocalIdentity { secret, suite, shard, capabilities, started_unix_nanos, uplinks };
        Self {
            engine,
            sessions: Sessions::new(local, provider, Generator::new(seed), now),
            roles: BTreeMap::new(),
            peers: BTreeMap::new(),
            relays: Vec::new(),
            relay_indices: BTreeMap::new(),
            senders: FlowTable::new(),
            receivers: FlowTable::new(),
            sent_by_key: BTreeMap::new(),
            received_by_key: BTreeMap::new(),
            closed: Totals::default(),
            arrival_relays: BTreeMap::new(),
            incoming: IndexTable::default(),
            timers: Timers::new(),
            teardowns: Teardowns::default(),
            offers: Offers::default(),
            service_changes: ServiceChanges::default(),
            relay_probing: RelayProbing::new(number),
            pending_datagrams: PendingDatagrams::default(),
            early: EarlySending::default(),
            early_buffer: EarlyBuffer::default(),
            direct_paths: DirectPaths::default(),
            uplink: UplinkEstimates::default(),
            uplink_probing: UplinkProbing::default(),
            number,
            state: AgentState::Open,
            retransmit_buffer: PacketBuffer::new(Bytes::new(AGENT_BUFFER_BYTES), AGENT_BUFFER_RETENTION),
            cooperation_buffer: PacketBuffer::new(Bytes::new(AGENT_BUFFER_BYTES), AGENT_BUFFER_RETENTION),
            long_datagrams: LongDatagrams::new(),
            scratch: Vec::new(),
            restored: Vec::new(),
            reflexive_addresses: Vec::new(),
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

    /// Handles one input: queues its outputs for [`Agent::poll`], and updates [`Agent::deadline`].
    pub fn handle(&mut self, input: AgentInput<'_>, now: Time) {
        if self.state != AgentState::Open {
            self.send_close_if_due(now);
            self.deadline = self.close_deadline();
            return;
        }
        match input {
            AgentInput::Received { from, to, ecn, bytes } => {
                let origin = Route::Direct(NetworkPath { remote: from, local: to });
                self.receive_from(bytes, origin, ecn, now);
            }
            AgentInput::Send { flow, datagram, traffic_class, marked } => {
                self.send(flow, &OutgoingDatagram { datagram, traffic_class, marked, sent_at: now }, now);
            }
            AgentInput::Deadline => self.handle_deadline(now),
            AgentInput::TooLong { to, quoted, payload_bytes_max } => {
                self.on_packet_too_long(to, quoted, payload_bytes_max, now);
            }
            AgentInput::UplinkRefused { uplink, to } => self.sessions.on_uplink_refused(uplink, to, now),
        }
        self.finish(now);
    }

    /// Completes an input or command: handles session events, sends datagrams that have a path now,
    /// flushes queued messages, and updates the deadline.
    fn finish(&mut self, now: Time) {
        self.handle_session_events(now);
        if self.early.is_in_use() {
            self.expire_early(now);
            self.send_accepted_early(now);
        }
        if self.pending_datagrams.count() > 0 {
            self.send_pending_datagrams(now);
        }
        self.sessions.flush_all(now);
        self.deadline = self.find_deadline(now);
    }

    /// Returns the next output: datagrams in the order in which they have to leave, then
    /// deliveries, events and offers. `None` ends the outputs of an input.
    pub fn poll(&mut self) -> Option<AgentOutput<'_>> {
        if let Some((meta, bytes)) = self.sessions.outbox.pop() {
            return Some(AgentOutput::Transmit(meta.transmit(bytes)));
        }
        if let Some((meta, datagram)) = self.deliveries.pop() {
            let DeliveryMeta { flow, traffic_class, delivery } = meta;
            return Some(AgentOutput::Deliver { flow, datagram, traffic_class, delivery });
        }
        if let Some(event) = self.events.pop_front() {
            return Some(AgentOutput::Event(event));
        }
        let (peer, flow, offer) = self.offers.unreported.pop_front()?;
        Some(AgentOutput::Offered { peer, flow, offer })
    }

    /// Returns true if the next output of [`Agent::poll`] is a datagram to send.
    #[must_use]
    pub fn next_is_transmit(&self) -> bool {
        !self.sessions.outbox.is_empty()
    }

    /// Returns the time at which the driver has to handle [`AgentInput::Deadline`], and the reason;
    /// `None` if there is none.
    #[must_use]
    pub const fn deadline(&self) -> Option<(Time, Reason)> {
        self.deadline
    }

    /// Returns the counters of packets and messages that the agent sent or dropped.
    #[must_use]
    pub const fn counters(&self) -> &AgentCounters {
        &self.counters
    }

    /// Returns the counts of active flows, missing packets and pending requests. All of them become
    /// 0 if nobody sends.
    #[must_use]
    pub fn backlog(&self) -> AgentBacklog {
        let active = || self.receivers.iter().filter_map(|(_, flow)| flow.active());
        AgentBacklog {
            flows: active().count(),
            missing: active().map(|active| active.tracker.missing()).sum(),
            requests: active().map(|active| active.requests.count()).sum(),
        }
    }

    /// Returns the number of agents and relays that have a session, or will have one.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// Returns the counters of packets that the agent's sessions dropped.
    #[must_use]
    pub const fn session_counters(&self) -> &SessionCounters {
        &self.sessions.counters
    }

    /// Returns the bytes of packets stored for repairs and for other receivers. Their arrival times
    /// take up to an eighth more.
    #[must_use]
    pub fn packets_held(&self) -> Bytes {
        self.retransmit_buffer.memory_bytes()
            + self.cooperation_buffer.memory_bytes()
            + self.long_datagrams.memory_bytes()
    }

    /// Returns the statistics of a received flow; `None` if the flow was closed, which its sender
    /// may do at any time.
    #[must_use]
    pub fn statistics(&self, flow: ReceiveFlowId) -> Option<&ReceiveStatistics> {
        self.receivers.get(flow.0).map(|flow| &*flow.statistics)
    }

    /// Returns the latest report of a flow's receiver: the true loss of the direct path, which
    /// repairs hide, repairs by kind, and lateness. `None` before the first report, also of a
    /// receiver that restarted, and after the flow was closed.
    #[must_use]
    pub fn report(&self, flow: SendFlowId) -> Option<&byway_wire::messages::Report> {
        self.senders.get(flow.0)?.reports.as_ref()?.newest()
    }

    /// Returns the totals of all reports of a flow's receiver; `None` before the first report, and
    /// after the flow was closed.
    #[must_use]
    pub fn reported_totals(&self, flow: SendFlowId) -> Option<ReportedTotals> {
        Some(self.senders.get(flow.0)?.reports.as_ref()?.total())
    }
}

#[cfg(test)]
mod tests;
