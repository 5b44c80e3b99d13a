//! The relay: ingress and egress halves, joined by sessions.
//!
//! One [`Relay`] is one shard: it shares nothing with others, and is given the packets whose index names it.
//!
//! # One input, then drain
//! After each call of [`Relay::handle`], call [`Relay::poll`] until it returns `None`, and then [`Relay::deadline`].
//! When the deadline comes, handle [`RelayInput::Deadline`].

mod admission;
mod alias_table;
mod egress;
mod flow_memory;
mod grants;
mod ingress;
mod links;
mod messages;
mod others;
mod outlet;
mod perform;
mod ports;
mod prefetching;
mod quotas;
mod reach;
mod registration;
mod relaying;
mod settings;
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
pub use settings::{Authority, OtherRelay, RelaySettings, TenantLimits};
pub use uplink::{UplinkCounters, UplinkSettings, UplinkStatus};
pub use work::RelayWork;

use egress::{Action, Egress};
use grants::VerifiedGrants;
use ingress::{ArrivingCopy, Ingress};
use links::{FlowRef, Links};
use outlet::Outlet;
use ports::Ports;
use quotas::Quotas;
use uplink::Uplink;
use work::WorkBudgets;

use crate::counters::counters;
use crate::limits::{
    CODED_START, HEARD_MEMORY_PART, LOW_DELAY_BUDGET, PACKET_TIMES_PART, REGISTRATION_BYTES,
    REGISTRATIONS_MAX, RELAY_BASE_BYTES, RELAY_MEMORY_MIN, RELAY_MEMORY_PARTS, RELAY_MEMORY_TABLE_PARTS,
    RELAY_START_BYTES, SESSION_BYTES, SESSIONS_MAX, TENANT_BYTES, VERIFIED_GRANT_BYTES,
};
use crate::network_path::{LocalAddress, NetworkPath};
use crate::outbox::Transmit;
use crate::random::Generator;
use crate::reason::Reason;
use crate::session::{Change, Local, Origin, Received, SessionCounters, SessionId, Sessions};

/// Memory of a registration in all tables but those of the halves: places, keys, aliases, ends of grants.
const REGISTRATION_TABLE_BYTES: u64 = 800;

const _: () = assert!(
    // A slot of the other half may be left from an earlier registration.
    egress::SET_ASIDE_BYTES + ingress::SLOT_BYTES + REGISTRATION_TABLE_BYTES <= REGISTRATION_BYTES
        && ingress::SET_ASIDE_BYTES + egress::SLOT_BYTES + REGISTRATION_TABLE_BYTES <= REGISTRATION_BYTES,
    "a registration takes no more than is set aside for it"
);

/// Returns how many sessions and registrations there may be, from the size of one part of a shard's memory.
const fn table_sizes(part: u64) -> (u64, u64) {
    let table = part * RELAY_MEMORY_TABLE_PARTS;
    let sessions = (table - RELAY_BASE_BYTES) / SESSION_BYTES;
    let sessions = if sessions < SESSIONS_MAX as u64 { sessions } else { SESSIONS_MAX as u64 };
    let registrations = (table - part / HEARD_MEMORY_PART) / REGISTRATION_BYTES;
    (sessions, if registrations < REGISTRATIONS_MAX { registrations } else { REGISTRATIONS_MAX })
}

/// What comes to a relay.
#[derive(Debug)]
pub enum RelayInput<'a> {
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
    /// The deadline has come.
    Deadline,
}

counters! {
/// What a relay dropped beside what its halves and sessions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayCounters {
    /// Messages that do not parse, or that this version does not know.
    pub messages_unknown: u64,
    /// Messages and envelopes about an alias that the session does not have.
    pub aliases_unknown: u64,
    /// Flows that another relay announced and that were left out: none has a receiver here, and there is no memory for more.
    pub aliases_left_out: u64,
    /// Messages and envelopes that their sender has no business sending.
    pub out_of_role: u64,
    /// Registrations refused.
    pub registrations_refused: u64,
    /// Flows forgotten because their grant has ended.
    pub grants_ended: u64,
    /// Sessions refused because nothing entitles the peer.
    pub strangers_refused: u64,
    /// Sessions refused to agents that are entitled to one, because there are too many in use.
    pub sessions_refused: u64,
    /// Sessions of no use that were given up to make room.
    pub sessions_shed: u64,
    /// Sessions refused to agents whose tenant has as many as it may have.
    pub quota_sessions: u64,
    /// Registrations refused to agents whose tenant has as many as it may have, or as much of another table.
    pub quota_flows: u64,
    /// Sessions of a tenant with more than its share that were ended for another tenant's.
    pub sessions_evicted: u64,
    /// Registrations of a tenant with more than its share that were ended for another tenant's.
    pub flows_evicted: u64,
    /// Sessions ended because the agent showed one forged grant too many.
    pub expelled: u64,
    /// Packets passed on from agent to agent.
    pub relayed: u64,
    /// Packets not passed on: no grant connects the agents, the other one is nowhere, or they were too many.
    pub relayed_refused: u64,
    /// Datagrams with more bytes of messages than agents send in one.
    pub datagrams_too_long: u64,
    /// Messages of datagrams with more of them than agents send in one.
    pub messages_too_many: u64,
    /// Messages of agents whose session or tenant has used up its budget of work.
    pub work_refused: u64,
}
}

/// One shard of a relay.
#[derive(Debug)]
pub struct Relay {
    authority: Authority,
    number: byway_units::RelayId,
    shard: Shard,
    sessions: Sessions,
    links: Links,
    ports: Ports,
    ingress: Ingress,
    egress: Egress,
    /// What the egress half wants done; empty between inputs.
    actions: Vec<Action>,
    /// What all that is sent waits for.
    uplink: Option<Box<Uplink>>,
    /// When sessions may be given up next to make room.
    next_shedding: Time,
    counters: RelayCounters,
    /// Work of all but the egress half, which counts its own.
    work: RelayWork,
    budgets: WorkBudgets,
    quotas: Quotas,
    verified: VerifiedGrants,
}

impl Relay {
    /// A relay that knows nobody but the other relays it is told of, with which it begins sessions at once.
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
        let RelaySettings { authority, relays, follows_up, memory, tenant_limits, uplink, .. } = settings;
        let part = memory.max(RELAY_MEMORY_MIN).count() / RELAY_MEMORY_PARTS;
        let (packets, flows) = (Bytes::new(part - part / PACKET_TIMES_PART), Bytes::new(part));
        let capabilities = Capabilities::DIGESTS;
        let local = Local { secret, suite, shard, capabilities, started_unix_nanos };
        let mut relay = Self {
            authority,
            number,
            shard,
            sessions: Sessions::new(local, provider, Generator::new(seed), now),
            links: Links::default(),
            ports: Ports::new(part / HEARD_MEMORY_PART),
            ingress: Ingress::new(engine, packets, flows),
            egress: Egress::new(engine, follows_up, packets, flows),
            actions: Vec::new(),
            uplink: uplink.map(|settings| Box::new(Uplink::new(settings, &seed, now))),
            next_shedding: Time::START,
            counters: RelayCounters::default(),
            work: RelayWork::default(),
            budgets: WorkBudgets::default(),
            quotas: Quotas::new(table_sizes(part), tenant_limits),
            verified: VerifiedGrants::default(),
        };
        for other in relays {
            relay.add_relay(&other, now);
        }
        relay
    }

    /// Takes one input.
    pub fn handle(&mut self, input: RelayInput<'_>, now: Time) {
        self.egress.allow_attempts();
        match input {
            RelayInput::Received { from, to, ecn, bytes } => {
                let origin = Origin::Address(NetworkPath { remote: from, local: to });
                let received = self.sessions.receive_from(bytes, origin, now);
                // What a new epoch makes void is void before anything is said in it.
                self.handle_changes(now);
                self.received(received, origin, ecn, now);
            }
            RelayInput::Deadline => self.handle_deadline(now),
        }
        self.perform_actions(now);
        self.handle_changes(now);
        self.flush(now);
    }

    /// Sends all messages that wait to be put together, and lets go what need not wait for the uplink.
    fn flush(&mut self, now: Time) {
        self.sessions.flush_all(now);
        if let Some(uplink) = &mut self.uplink {
            uplink.take(&mut self.sessions.outbox, now);
        }
    }

    /// Has all that is sent wait for this uplink from now on, or for none. Packets that wait stay, or leave at once where nothing waits any
    /// more. `seed` is secret.
    pub fn set_uplink(&mut self, settings: Option<UplinkSettings>, seed: &[u8; 32], now: Time) {
        match (settings, self.uplink.take()) {
            (Some(settings), Some(mut uplink)) => {
                uplink.change(settings, now);
                self.uplink = Some(uplink);
            }
            (Some(settings), None) => self.uplink = Some(Box::new(Uplink::new(settings, seed, now))),
            (None, Some(uplink)) => uplink.release(&mut self.sessions.outbox, now),
            (None, None) => {}
        }
        self.flush(now);
    }

    /// The next datagram to be sent.
    pub fn poll(&mut self) -> Option<Transmit<'_>> {
        if let Some(uplink) = &mut self.uplink {
            return uplink.poll();
        }
        let (heading, bytes) = self.sessions.outbox.take()?;
        Some(heading.transmit(bytes))
    }

    /// When to handle [`RelayInput::Deadline`], and what for.
    #[must_use]
    pub fn deadline(&self) -> Option<(Time, Reason)> {
        [
            self.sessions.deadline().map(|at| (at, Reason::Session)),
            self.ingress.deadline().map(|at| (at, Reason::Coding)),
            self.egress.asks_at().map(|at| (at, Reason::Loss)),
            self.egress.review_at().map(|at| (at, Reason::Loss)),
            self.egress.deadline().map(|at| (at, Reason::Sweep)),
            self.ports.deadline().map(|at| (at, Reason::Registration)),
            self.links.next_end().map(|at| (at, Reason::Registration)),
            self.uplink.as_ref().and_then(|uplink| uplink.deadline()).map(|at| (at, Reason::Uplink)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// What was dropped, and why.
    #[must_use]
    pub const fn counters(&self) -> &RelayCounters {
        &self.counters
    }

    /// What the ingress half did.
    #[must_use]
    pub const fn ingress_counters(&self) -> &IngressCounters {
        &self.ingress.counters
    }

    /// What the egress half did.
    #[must_use]
    pub const fn egress_counters(&self) -> &EgressCounters {
        &self.egress.counters
    }

    /// The work that was done for what came: the same for the same inputs, however fast the processor is.
    #[must_use]
    pub fn work(&self) -> RelayWork {
        self.work + self.egress.work
    }

    /// The memory that repair packets and copies take which wait to be asked for; up to an eighth more notes their
    /// times.
    #[must_use]
    pub fn packets_held(&self) -> Bytes {
        self.ingress.packets_held() + self.egress.packets_held()
    }

    /// The memory that is taken by what is known of flows with receivers.
    #[must_use]
    pub const fn flows_held(&self) -> Bytes {
        self.egress.flows_held()
    }

    /// The memory that is taken, or set aside, for all that grows with what comes.
    #[must_use]
    pub fn memory_held(&self) -> Bytes {
        let flows = self.quotas.flows.used().max(self.ingress.slots().max(self.egress.slots()) as u64);
        let packets = self.packets_held().count();
        let tables = self.sessions.count() as u64 * SESSION_BYTES + flows * REGISTRATION_BYTES;
        let states = self.egress.flows_held() + self.ingress.flows_held();
        Bytes::new(
            RELAY_START_BYTES
                + self.verified.count() as u64 * VERIFIED_GRANT_BYTES
                + self.budgets.tenants() as u64 * TENANT_BYTES
                + packets
                + packets / (PACKET_TIMES_PART - 1)
                + tables
                + states.count()
                + self.ports.heard_bytes(),
        )
    }

    /// What is not finished. When nobody sends, all of it comes to nothing.
    #[must_use]
    pub fn backlog(&self) -> RelayBacklog {
        self.egress.backlog()
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

    /// How the uplink is shared; `None` if nothing waits for one.
    #[must_use]
    pub fn uplink_status(&self) -> Option<UplinkStatus> {
        self.uplink.as_ref().map(|uplink| uplink.status())
    }

    /// What became of what was to be sent; `None` if nothing waits for an uplink.
    #[must_use]
    pub fn uplink_counters(&self) -> Option<&UplinkCounters> {
        self.uplink.as_ref().map(|uplink| &uplink.counters)
    }

    /// The class of a flow with this latency budget, by the usual bound where nothing waits: an uplink may come later.
    fn class_within(&self, latency_budget: byway_units::Duration) -> byway_sched::Class {
        let bound = self.uplink.as_ref().map_or(LOW_DELAY_BUDGET, |uplink| uplink.low_delay_budget());
        if latency_budget <= bound { byway_sched::Class::LowDelay } else { byway_sched::Class::HighRate }
    }

    fn handle_deadline(&mut self, now: Time) {
        self.sessions.handle_timeout(now);
        let (ingress, mut outlet) = self.ingress_and_outlet(now);
        ingress.handle_timeout(&mut outlet, now);
        if self.egress.deadline().is_some_and(|at| at <= now) {
            self.egress.sweep(now);
        }
        self.egress.review(now, &mut self.actions);
        self.perform_actions(now);
        self.ask_for_copies(now);
        self.end_grants(now);
        self.announce(now);
    }

    fn received(&mut self, received: Received<'_>, origin: Origin, ecn: Ecn, now: Time) {
        match received {
            Received::Nothing => {}
            Received::Source { .. } => self.counters.out_of_role += 1,
            Received::Stranger { initiation, origin } => self.admit(initiation, origin, now),
            Received::Initiation { session, initiation, origin } => {
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Received::Response { session, messages } => self.messages(session, &messages, origin, now),
            Received::Messages { session, messages } => self.messages(session, messages, origin, now),
            Received::Envelope { session, header, datagram } => {
                let coded = &datagram[CODED_START..datagram.len() - byway_wire::limits::TAG_BYTES];
                self.envelope(session, &header, coded, ecn, now);
            }
        }
    }

    /// Takes an envelope: a copy, a carried copy, or an answer.
    fn envelope(&mut self, session: SessionId, header: &EnvelopeHeader, coded: &[u8], ecn: Ecn, now: Time) {
        match header.role {
            EnvelopeRole::Copy | EnvelopeRole::ResentCopy => {
                let Some(FlowRef::Sent(flow)) = self.links.flow(session, header.alias) else {
                    self.counters.aliases_unknown += 1;
                    return;
                };
                let resent = header.role == EnvelopeRole::ResentCopy;
                let copy = ArrivingCopy { sequence_low: header.sequence_low, coded, is_resent: resent, ecn };
                let (ingress, mut outlet) = self.ingress_and_outlet(now);
                ingress.copy(flow, &copy, &mut outlet, now);
            }
            EnvelopeRole::Carried => self.carried(session, header, coded, ecn, now),
            EnvelopeRole::CooperativeAnswer => self.answer(session, header, coded, now),
            EnvelopeRole::Forwarded | EnvelopeRole::CachedRepair | EnvelopeRole::CooperativeRepair => {
                self.counters.out_of_role += 1;
            }
        }
    }

    /// The ingress half, and where its work goes.
    fn ingress_and_outlet(&mut self, now: Time) -> (&mut Ingress, Outlet<'_>) {
        let outlet = Outlet {
            sessions: &mut self.sessions,
            links: &self.links,
            ports: &self.ports,
            egress: &mut self.egress,
            actions: &mut self.actions,
            now,
        };
        (&mut self.ingress, outlet)
    }

    fn handle_changes(&mut self, now: Time) {
        while let Some(change) = self.sessions.changes.pop_front() {
            match change {
                Change::Established { session, fresh } => self.established(session, fresh, now),
                Change::Ended { session } => self.ended(session, now),
                Change::Closed { session } => self.closed(session, now),
                Change::Dead { session } => self.reach(session, false, now),
                Change::Alive { session } => self.reach(session, true, now),
                Change::Moved { .. }
                | Change::DirectPath { .. }
                | Change::PathNarrowed { .. }
                | Change::Probed { .. }
                | Change::Weighed { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
