//! Counters of a relay.

use crate::counters::counters;

counters! {
/// Drops and refusals of a relay, and packets that it passes on, besides what its halves and
/// sessions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayCounters {
    /// Messages that do not parse, or of a type that this version does not know.
    pub messages_unknown: u64,
    /// Messages and envelopes about an alias that the session does not have.
    pub aliases_unknown: u64,
    /// Flows that another relay advertised and that were left out: none has a receiver at this
    /// relay, and memory is exhausted.
    pub aliases_left_out: u64,
    /// Messages and envelopes of a type that their sender must not send.
    pub out_of_role: u64,
    /// Registrations refused.
    pub registrations_refused: u64,
    /// Flows removed because their grant has expired.
    pub grants_ended: u64,
    /// Sessions refused because no grant entitles the peer.
    pub strangers_refused: u64,
    /// Sessions refused to entitled agents, because the session table is full.
    pub sessions_refused: u64,
    /// Idle sessions that were ended to free capacity.
    pub sessions_shed: u64,
    /// Sessions refused because the agent's tenant has reached its quota.
    pub quota_sessions: u64,
    /// Registrations refused because the agent's tenant has reached its quota of flows or of
    /// another table.
    pub quota_flows: u64,
    /// Sessions of a tenant above its share that were ended for another tenant's session.
    pub sessions_evicted: u64,
    /// Registrations of a tenant above its share that were ended for another tenant's registration.
    pub flows_evicted: u64,
    /// Sessions ended because the agent showed too many forged grants.
    pub expelled: u64,
    /// Packets forwarded from agent to agent.
    pub relayed: u64,
    /// Packets not forwarded: no grant connects the agents, the receiver is unknown, or the sender
    /// exceeded its budget.
    pub relayed_refused: u64,
    /// Datagrams with more bytes of messages than agents may send in one.
    pub datagrams_too_long: u64,
    /// Messages beyond the number that agents may send in one datagram.
    pub messages_too_many: u64,
    /// Messages of agents whose session or tenant has exhausted its work budget.
    pub work_refused: u64,
    /// Packets sent through a third relay, probes included.
    pub transit_sent: u64,
    /// Packets received through a third relay.
    pub transit_received: u64,
    /// Number of times that packets to another relay changed to a third one between.
    pub transit_routes: u64,
    /// Number of times that this third relay failed, or became slow.
    pub transit_failed: u64,
    /// Packets passed on from one relay to another.
    pub transit_passed: u64,
    /// UDP payload of the packets that [`Self::transit_passed`] counts, in bytes.
    pub transit_passed_bytes: u64,
    /// Requests of other relays to pass on packets that were refused.
    pub transit_refused: u64,
    /// Packets not passed on because their label is unknown, their digest is wrong, or they were
    /// received before.
    pub transit_unknown: u64,
    /// Packets not passed on because their source exceeds its rate.
    pub transit_limited: u64,
    /// Packets not passed on because their receiver does not answer.
    pub transit_unreachable: u64,
}
}
