//! The relay: ingress and egress halves, joined by sessions.
//!
//! One [`Relay`] is one shard. It shares nothing with other shards, and handles the packets whose
//! session index names its shard.
//!
//! # One input, then drain
//! After each call of [`Relay::handle`], call [`Relay::poll`] until it returns `None`, and then
//! [`Relay::deadline`]. When the deadline comes, handle [`RelayInput::Deadline`].
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `admission` | admission control for sessions, eviction of idle ones |
//! | `advertisements` | advertisements of aliases to other relays, notices of reachability to senders |
//! | `alias_table` | values by alias |
//! | `dispatch` | execution of the egress half's actions |
//! | `egress` | egress half: repair packets, NACKs, decoding |
//! | `flow_memory` | memory accounting for flow state |
//! | `flow_table` | registered flows, their aliases and receivers |
//! | `grants` | checks of registrations against grants |
//! | `ingress` | ingress half: copies, blocks, batches |
//! | `ingress_context` | outputs of the ingress half |
//! | `loss_reports` | losses of coded flows, reported by egress relays |
//! | `messages` | handlers of messages from agents and relays |
//! | `prefetching` | cache prefetch for the next datagram |
//! | `quotas` | shares of tenants in sessions and registrations |
//! | `receiver_networks` | networks of receivers' addresses, as reported to ingress relays |
//! | `registration` | registration of flows |
//! | `relay_changes` | addition, change and removal of other relays |
//! | `relay_counters` | counters of a relay |
//! | `relay_peer_table` | table of peer relays: aliases in force, reachability |
//! | `relaying` | packets forwarded between agents |
//! | `settings` | configuration of a relay |
//! | `tenant_traffic` | bytes charged to tenants, and the flows' shares of repair packets |
//! | `transit` | packets between relays through a third one |
//! | `uplink` | scheduler of the relay's uplink |
//! | `work` | work accounting and budgets |

mod admission;
mod advertisements;
mod alias_table;
mod dispatch;
mod egress;
mod flow_memory;
mod flow_table;
mod grants;
mod ingress;
mod ingress_context;
mod loss_reports;
mod messages;
mod prefetching;
mod quotas;
mod receiver_networks;
mod registration;
mod relay_changes;
mod relay_counters;
mod relay_peer_table;
mod relaying;
mod settings;
mod tenant_traffic;
mod transit;
mod uplink;
mod work;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_code::Engine;
use byway_units::{Bytes, Time};
use byway_wire::packets::{EnvelopeHeader, EnvelopeRole};
use byway_wire::seal::Provider;
use byway_wire::{Capabilities, Ecn, Shard};

pub use egress::{EgressCounters, RelayBacklog};
pub use ingress::IngressCounters;
pub use relay_counters::RelayCounters;
pub use settings::{Authority, PeerRelay, RelaySettings, TenantLimits};
pub use tenant_traffic::TenantTraffic;
pub use transit::TransitRouteStatus;
pub use uplink::{UplinkCounters, UplinkSettings, UplinkStatus};
pub use work::RelayWork;

use egress::{Action, Egress};
use flow_table::{FlowRef, FlowTable};
use grants::VerifiedGrants;
use ingress::{ArrivingCopy, Ingress};
use ingress_context::IngressContext;
use quotas::Quotas;
use receiver_networks::ReceiverNetworks;
use relay_peer_table::RelayPeerTable;
use uplink::Uplink;
use work::WorkBudgets;

use crate::limits::{
    CODED_START, LOW_DELAY_BUDGET, PACKET_TIMES_PART, REGISTRATION_BYTES, REGISTRATIONS_MAX,
    RELAY_BASE_BYTES, RELAY_MEMORY_MIN, RELAY_MEMORY_PARTS, RELAY_MEMORY_TABLE_PARTS, RELAY_START_BYTES,
    REMOTE_FLOW_MEMORY_PART, SESSION_BYTES, SESSIONS_MAX, TENANT_BYTES, VERIFIED_GRANT_BYTES,
};
use crate::network_path::{LocalAddress, NetworkPath, Uplinks};
use crate::outbox::Transmit;
use crate::random::Generator;
use crate::reason::Reason;
use crate::session::{Inbound, LocalIdentity, Route, SessionCounters, SessionEvent, SessionId, Sessions};

/// Memory of a registration in all tables except those of the halves: slots, keys, aliases, grant
/// expiries.
const REGISTRATION_TABLE_BYTES: u64 = 800;

const _: () = assert!(
    // A slot of the other half may remain from an earlier registration.
    egress::RESERVED_BYTES + ingress::SLOT_BYTES + REGISTRATION_TABLE_BYTES <= REGISTRATION_BYTES
        && ingress::RESERVED_BYTES + egress::SLOT_BYTES + REGISTRATION_TABLE_BYTES <= REGISTRATION_BYTES,
    "a registration needs no more memory than is reserved for it"
);

/// Returns the limits of sessions and registrations, from the size of one part of a shard's memory.
const fn table_sizes(part: u64) -> (u64, u64) {
    let table = part * RELAY_MEMORY_TABLE_PARTS;
    let sessions = (table - RELAY_BASE_BYTES) / SESSION_BYTES;
    let sessions = if sessions < SESSIONS_MAX as u64 { sessions } else { SESSIONS_MAX as u64 };
    let registrations = (table - part / REMOTE_FLOW_MEMORY_PART) / REGISTRATION_BYTES;
    (sessions, if registrations < REGISTRATIONS_MAX { registrations } else { REGISTRATIONS_MAX })
}

/// Input of a relay.
#[derive(Debug)]
pub enum RelayInput<'a> {
    /// A datagram from the network, which the relay opens in place.
    Received {
        /// Source address.
        from: SocketAddr,
        /// Local address that received it.
        to: LocalAddress,
        /// ECN field of its IP header.
        ecn: Ecn,
        /// UDP payload.
        bytes: &'a mut [u8],
    },
    /// Expiry of the time that [`Relay::deadline`] returned.
    Deadline,
}

/// One shard of a relay: a state machine that stores copies, codes them, and repairs losses,
/// without sockets or a clock.
///
/// # Contract
/// - **Inputs**: [`handle`](Self::handle) takes one [`RelayInput`]: a datagram from the network, or
///   an expired deadline. It never blocks and never fails; bad input is counted in
///   [`counters`](Self::counters), at bounded work ([`work`](Self::work)).
/// - **Commands**: [`add_relay`](Self::add_relay), [`set_uplink`](Self::set_uplink) and others
///   change the configuration. They may queue outputs, as inputs do.
/// - **Outputs**: after each input or command, the driver calls [`poll`](Self::poll) until it
///   returns `None`. A datagram borrows the relay's buffer until the next call.
/// - **Time**: `now` never decreases. After the last output, the driver asks for the
///   [`deadline`](Self::deadline), and passes [`RelayInput::Deadline`] once it is due.
/// - **Shards** share nothing. The driver gives each datagram to the shard that the packet's
///   session index names.
/// - **Getters** ([`counters`](Self::counters), [`backlog`](Self::backlog) and others) change
///   nothing.
///
/// # Examples
/// A relay receives a stranger's datagram, and sends no answer:
///
/// ```
/// use core::net::SocketAddr;
/// use std::collections::VecDeque;
///
/// use byway_code::Engine;
/// use byway_proto::LocalAddress;
/// use byway_proto::limits::RELAY_MEMORY_MIN;
/// use byway_proto::relay::{Authority, Relay, RelayInput, RelaySettings, TenantLimits};
/// use byway_units::{RelayId, Time};
/// use byway_wire::seal::{PortableProvider, StaticSecret, Suite};
/// use byway_wire::{Ecn, Shard};
///
/// let settings = RelaySettings {
///     number: RelayId::new(1),
///     shard: Shard::new(0),
///     secret: StaticSecret::from_bytes([7; 32]),
///     suite: Suite::ChaCha20Poly1305,
///     started_unix_nanos: 1,
///     authority: Authority::Static(Vec::new()),
///     relays: Vec::new(),
///     follows_up: true,
///     memory: RELAY_MEMORY_MIN,
///     tenant_limits: TenantLimits::default(),
///     uplink: None,
///     transit: false,
/// };
/// let mut now = Time::START;
/// let seed = [7; 32]; // from the operating system's random numbers, in production
/// let mut relay = Relay::new(settings, Engine::fastest(), &PortableProvider, seed, now);
///
/// let from: SocketAddr = "192.0.2.1:4600".parse()?;
/// let mut socket = VecDeque::from([[1; 148]]);
/// let mut sent = 0;
/// loop {
///     if let Some(mut bytes) = socket.pop_front() {
///         let to = LocalAddress::ANY;
///         let ecn = Ecn::NotCapable;
///         relay.handle(RelayInput::Received { from, to, ecn, bytes: &mut bytes }, now);
///     } else if let Some((due, _)) = relay.deadline() {
///         now = now.max(due);
///         relay.handle(RelayInput::Deadline, now);
///     } else {
///         break; // neither input nor timer: a driver would wait for its socket
///     }
///     while let Some(transmit) = relay.poll() {
///         sent += transmit.bytes.len();
///     }
/// }
/// assert_eq!(sent, 0);
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
#[derive(Debug)]
pub struct Relay {
    authority: Authority,
    number: byway_units::RelayId,
    shard: Shard,
    sessions: Sessions,
    flow_table: FlowTable,
    peers: RelayPeerTable,
    ingress: Ingress,
    egress: Egress,
    /// Actions that the egress half has requested and that are not executed yet; empty between
    /// inputs.
    actions: Vec<Action>,
    /// Scheduler of the uplink, if one is configured.
    uplink: Option<Box<Uplink>>,
    /// Earliest time of the next scan for idle sessions, if the session table is full.
    next_shed_at: Time,
    counters: RelayCounters,
    /// Work units of all parts except the egress half, which counts its own.
    work: RelayWork,
    work_budgets: WorkBudgets,
    quotas: Quotas,
    verified_grants: VerifiedGrants,
}

impl Relay {
    /// Creates a relay that knows only the configured other relays, and begins sessions with them
    /// at once.
    ///
    /// `seed` is 32 secret random bytes. The same seed and the same inputs give the same outputs.
    #[must_use]
    pub fn new(
        settings: RelaySettings,
        engine: Engine,
        provider: &'static (dyn Provider + Sync),
        seed: [u8; 32],
        now: Time,
    ) -> Self {
        let RelaySettings { number, shard, secret, suite, started_unix_nanos, .. } = settings;
        let RelaySettings { authority, relays, follows_up, memory, tenant_limits, uplink, transit, .. } =
            settings;
        let part = memory.max(RELAY_MEMORY_MIN).count() / RELAY_MEMORY_PARTS;
        let (packets, flows) = (Bytes::new(part - part / PACKET_TIMES_PART), Bytes::new(part));
        let capabilities =
            Capabilities::DIGESTS.with(Capabilities::SERVICE_CHANGES).with(Capabilities::TRANSIT);
        // Without repair packets, only fetches repair the first losses.
        let reports = if follows_up { Capabilities::LOSS_REPORTS } else { Capabilities::NONE };
        let capabilities = capabilities.with(reports);
        let uplinks = Uplinks::One;
        let local = LocalIdentity { secret, suite, shard, capabilities, started_unix_nanos, uplinks };
        let mut relay = Self {
            authority,
            number,
            shard,
            sessions: Sessions::new(local, provider, Generator::new(seed), now),
            flow_table: FlowTable::default(),
            peers: RelayPeerTable::new(part / REMOTE_FLOW_MEMORY_PART, ReceiverNetworks::new(&seed)),
            ingress: Ingress::new(engine, packets, flows),
            egress: Egress::new(engine, follows_up, packets, flows),
            actions: Vec::new(),
            uplink: uplink.map(|settings| Box::new(Uplink::new(settings, &seed, now))),
            next_shed_at: Time::START,
            counters: RelayCounters::default(),
            work: RelayWork::default(),
            work_budgets: WorkBudgets::default(),
            quotas: Quotas::new(table_sizes(part), tenant_limits),
            verified_grants: VerifiedGrants::default(),
        };
        relay.peers.transit.is_offered = transit;
        for other in relays {
            relay.add_relay(&other, now);
        }
        relay
    }

    /// Handles one input: a datagram, or an expired deadline. It may queue datagrams for
    /// [`poll`](Self::poll).
    pub fn handle(&mut self, input: RelayInput<'_>, now: Time) {
        self.egress.allow_joint_decodes();
        match input {
            RelayInput::Received { from, to, ecn, bytes } => {
                let origin = Route::Direct(NetworkPath { remote: from, local: to });
                let received = self.sessions.receive_from(bytes, origin, now);
                // Session changes take effect before the messages of the new epoch: they end
                // registrations of the old one.
                self.handle_session_events(now);
                self.on_inbound(received, origin, ecn, now);
            }
            RelayInput::Deadline => self.handle_deadline(now),
        }
        self.dispatch_actions(now);
        self.handle_session_events(now);
        self.flush(now);
    }

    /// Seals all pending messages into packets, and releases the packets that the uplink's
    /// scheduler sends now.
    fn flush(&mut self, now: Time) {
        self.sessions.flush_all(now);
        if let Some(uplink) = &mut self.uplink {
            uplink.drain_outbox(&mut self.sessions.outbox, now);
        }
    }

    /// Configures the uplink's scheduler, or removes it. Queued packets stay queued in a new
    /// configuration, and leave at once without a scheduler. `seed` is secret.
    pub fn set_uplink(&mut self, settings: Option<UplinkSettings>, seed: &[u8; 32], now: Time) {
        match (settings, self.uplink.take()) {
            (Some(settings), Some(mut uplink)) => {
                uplink.reconfigure(settings, now);
                self.uplink = Some(uplink);
            }
            (Some(settings), None) => self.uplink = Some(Box::new(Uplink::new(settings, seed, now))),
            (None, Some(uplink)) => uplink.release_to(&mut self.sessions.outbox, now),
            (None, None) => {}
        }
        self.flush(now);
    }

    /// Returns the next datagram to send; `None` if nothing can be sent now.
    pub fn poll(&mut self) -> Option<Transmit<'_>> {
        if let Some(uplink) = &mut self.uplink {
            return uplink.poll();
        }
        let (meta, bytes) = self.sessions.outbox.pop()?;
        Some(meta.transmit(bytes))
    }

    /// Returns the time at which to handle [`RelayInput::Deadline`], and its reason.
    #[must_use]
    pub fn deadline(&self) -> Option<(Time, Reason)> {
        [
            self.sessions.deadline().map(|at| (at, Reason::Session)),
            self.ingress.deadline().map(|at| (at, Reason::Coding)),
            self.egress.copy_nack_at().map(|at| (at, Reason::Loss)),
            self.egress.review_at().map(|at| (at, Reason::Loss)),
            egress::loss_report_at(&self.egress).map(|at| (at, Reason::Loss)),
            self.egress.deadline().map(|at| (at, Reason::Sweep)),
            self.peers.deadline().map(|at| (at, Reason::Registration)),
            self.peers.transit.deadline().map(|at| (at, Reason::Session)),
            self.flow_table.next_expiry().map(|at| (at, Reason::Registration)),
            self.uplink.as_ref().and_then(|uplink| uplink.deadline()).map(|at| (at, Reason::Uplink)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the counters of drops and refusals.
    #[must_use]
    pub const fn counters(&self) -> &RelayCounters {
        &self.counters
    }

    /// Returns the counters of the ingress half.
    #[must_use]
    pub const fn ingress_counters(&self) -> &IngressCounters {
        &self.ingress.counters
    }

    /// Returns the counters of the egress half.
    #[must_use]
    pub const fn egress_counters(&self) -> &EgressCounters {
        &self.egress.counters
    }

    /// Returns the work done since the start, in counts and units. It is the same for the same
    /// inputs, on any processor.
    #[must_use]
    pub fn work(&self) -> RelayWork {
        self.work + self.egress.work
    }

    /// Returns the memory of stored repair packets and copies. Their timestamps use up to an eighth
    /// more.
    #[must_use]
    pub fn buffered_bytes(&self) -> Bytes {
        self.ingress.buffered_bytes() + self.egress.buffered_bytes()
    }

    /// Returns the memory of flow state in the egress half, beyond what registrations reserve.
    #[must_use]
    pub const fn flow_state_bytes(&self) -> Bytes {
        self.egress.flow_state_bytes()
    }

    /// Returns the memory in use or reserved, of all tables that grow with input.
    #[must_use]
    pub fn memory_bytes(&self) -> Bytes {
        let flows = self.quotas.flows.used().max(self.ingress.slots().max(self.egress.slots()) as u64);
        let packets = self.buffered_bytes().count();
        let tables = self.sessions.count() as u64 * SESSION_BYTES + flows * REGISTRATION_BYTES;
        let states = self.egress.flow_state_bytes() + self.ingress.flow_state_bytes();
        Bytes::new(
            RELAY_START_BYTES
                + self.verified_grants.count() as u64 * VERIFIED_GRANT_BYTES
                + self.work_budgets.tenants() as u64 * TENANT_BYTES
                + packets
                + packets / (PACKET_TIMES_PART - 1)
                + tables
                + states.count()
                + self.peers.remote_flow_bytes()
                + self.peers.transit.bytes(),
        )
    }

    /// Returns the unfinished work of the egress half. It reaches zero some time after the last
    /// input.
    #[must_use]
    pub fn backlog(&self) -> RelayBacklog {
        self.egress.backlog()
    }

    /// Returns the number of agents and relays with a session, established or not.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// Returns the counters of the sessions.
    #[must_use]
    pub const fn session_counters(&self) -> &SessionCounters {
        &self.sessions.counters
    }

    /// Returns the routes of packets to other relays through third ones.
    #[must_use]
    pub fn transit_routes(&self) -> Vec<TransitRouteStatus> {
        transit::routes(self)
    }

    /// Returns the status of the uplink's scheduler; `None` without one.
    #[must_use]
    pub fn uplink_status(&self) -> Option<UplinkStatus> {
        self.uplink.as_ref().map(|uplink| uplink.status())
    }

    /// Returns the counters of the uplink's scheduler; `None` without one.
    #[must_use]
    pub fn uplink_counters(&self) -> Option<&UplinkCounters> {
        self.uplink.as_ref().map(|uplink| &uplink.counters)
    }

    /// Returns the uplink's class for a flow with this latency budget. Without an uplink scheduler,
    /// [`LOW_DELAY_BUDGET`] is the bound, because one may be configured later.
    fn class_within(&self, latency_budget: byway_units::Duration) -> byway_sched::Class {
        let bound = self.uplink.as_ref().map_or(LOW_DELAY_BUDGET, |uplink| uplink.low_delay_budget());
        if latency_budget <= bound { byway_sched::Class::LowDelay } else { byway_sched::Class::HighRate }
    }

    fn handle_deadline(&mut self, now: Time) {
        self.sessions.handle_timeout(now);
        transit::handle_timeout(self, now);
        let (ingress, mut context) = self.ingress_and_context(now);
        ingress.handle_timeout(&mut context, now);
        if self.egress.deadline().is_some_and(|at| at <= now) {
            self.egress.sweep(now);
        }
        self.egress.review(now, &mut self.actions);
        self.dispatch_actions(now);
        self.send_copy_nacks(now);
        loss_reports::send_loss_reports(self, now);
        self.expire_grants(now);
        self.send_advertisements(now);
    }

    fn on_inbound(&mut self, received: Inbound<'_>, origin: Route, ecn: Ecn, now: Time) {
        match received {
            Inbound::Nothing => {}
            Inbound::Source { .. } => self.counters.out_of_role += 1,
            Inbound::Stranger { initiation, origin } => self.admit(initiation, origin, now),
            Inbound::Initiation { session, initiation, origin } => {
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Inbound::Response { session, messages } => self.on_messages(session, &messages, origin, now),
            Inbound::Messages { session, messages } => self.on_messages(session, messages, origin, now),
            Inbound::Envelope { session, header, datagram } => {
                let coded = &datagram[CODED_START..datagram.len() - byway_wire::limits::TAG_BYTES];
                self.on_envelope(session, &header, coded, ecn, now);
            }
            Inbound::Transit { packet } => transit::on_transit_packet(self, packet, (origin, ecn), now),
        }
    }

    /// Handles an envelope: a copy, a relayed copy, or a cooperative answer.
    fn on_envelope(
        &mut self,
        session: SessionId,
        header: &EnvelopeHeader,
        coded: &[u8],
        ecn: Ecn,
        now: Time,
    ) {
        match header.role {
            EnvelopeRole::Copy | EnvelopeRole::ResentCopy => {
                let Some(FlowRef::Sent(flow)) = self.flow_table.flow(session, header.alias) else {
                    self.counters.aliases_unknown += 1;
                    return;
                };
                let is_resent = header.role == EnvelopeRole::ResentCopy;
                let copy = ArrivingCopy { sequence_low: header.sequence_low, coded, is_resent, ecn };
                let (ingress, mut context) = self.ingress_and_context(now);
                ingress.on_copy(flow, &copy, &mut context, now);
            }
            EnvelopeRole::RelayedCopy | EnvelopeRole::RelayedResend => {
                self.on_relayed_copy(session, header, coded, ecn, now);
            }
            EnvelopeRole::CooperativeAnswer => self.on_cooperative_answer(session, header, coded, now),
            EnvelopeRole::Forwarded
            | EnvelopeRole::CachedRepair
            | EnvelopeRole::CooperativeRepair
            | EnvelopeRole::ResentRepair => {
                self.counters.out_of_role += 1;
            }
        }
    }

    /// Returns the ingress half, and the context through which it sends its outputs.
    fn ingress_and_context(&mut self, now: Time) -> (&mut Ingress, IngressContext<'_>) {
        let context = IngressContext {
            sessions: &mut self.sessions,
            flow_table: &self.flow_table,
            peers: &self.peers,
            egress: &mut self.egress,
            actions: &mut self.actions,
            now,
        };
        (&mut self.ingress, context)
    }

    fn handle_session_events(&mut self, now: Time) {
        while let Some(event) = self.sessions.events.pop_front() {
            match event {
                SessionEvent::Established { session, fresh } => {
                    if fresh {
                        transit::on_relay_lost(self, session, true, now);
                    }
                    self.on_session_established(session, fresh, now);
                }
                SessionEvent::Ended { session } => self.on_session_ended(session, now),
                SessionEvent::Closed { session } => {
                    transit::on_relay_lost(self, session, true, now);
                    self.on_session_closed(session, now);
                }
                SessionEvent::Dead { session } => {
                    transit::on_relay_lost(self, session, false, now);
                    self.on_reachability_change(session, false, now);
                }
                SessionEvent::ProbeReplyReceived { session, reply, before } => {
                    transit::on_direct_reply(self, session, &reply, before, now);
                }
                SessionEvent::OtherProbeAnswered { session, reply } => {
                    transit::on_other_reply(self, session, &reply, now);
                }
                SessionEvent::Alive { session } => self.on_reachability_change(session, true, now),
                SessionEvent::Moved { .. }
                | SessionEvent::UplinkChanged { .. }
                | SessionEvent::AddressObserved { .. }
                | SessionEvent::DirectPath { .. }
                | SessionEvent::PathNarrowed { .. }
                | SessionEvent::ProbeTrainReceived { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
