//! Counters of the protocol as names and numbers.

use std::collections::BTreeMap;

use byway_api::Counted;
use byway_net::IoCounters;
use byway_proto::agent::AgentCounters;
use byway_proto::relay::{EgressCounters, IngressCounters, RelayCounters};

/// Sums of counters by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(BTreeMap<&'static str, u64>);

impl Sums {
    /// Adds to one.
    pub(crate) fn add(&mut self, name: &'static str, count: u64) {
        *self.0.entry(name).or_default() += count;
    }

    /// Adds all of another.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add(name, *count);
        }
    }

    /// All of them by name.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let one = |(name, count): (&&str, &u64)| Counted { reason: (*name).to_owned(), count: *count };
        self.0.iter().map(one).collect()
    }
}

macro_rules! add {
    ($sums:ident, $counters:ident, $prefix:literal: $($field:ident),+ $(,)?) => {
        $($sums.add(concat!($prefix, stringify!($field)), $counters.$field);)+
    };
}

/// What a relay's halves did.
pub(crate) fn relay_work(sums: &mut Sums, ingress: &IngressCounters, egress: &EgressCounters) {
    add!(sums, ingress, "ingress_": copies, copies_resent, copies_asked, carried, covered, cross_stream, in_stream,
        in_stream_saved, own_repairs);
    add!(sums, egress, "egress_": asked, open_ended, in_stream, cached, cooperative, forwarded, rounds, rounds_decoded,
        rounds_widened, solved_together, requests, answers, repairs_kept, confirms);
}

/// What a relay dropped or left out, and why.
pub(crate) fn relay_drops(
    sums: &mut Sums,
    relay: &RelayCounters,
    ingress: &IngressCounters,
    egress: &EgressCounters,
) {
    add!(sums, relay, "": messages_unknown, aliases_unknown, out_of_role, registrations_refused, grants_ended,
        strangers_refused, sessions_refused, sessions_shed, expelled, relayed_refused);
    add!(sums, ingress, "ingress_": copies_repeated, copies_beyond_rate, copies_too_long, copies_too_old,
        uncovered_alone, uncovered_budget, uncovered_unknown, own_repairs_refused, in_stream_left_out);
    add!(sums, egress, "egress_": rounds_expired, rounds_inconsistent, rounds_refused, requests_beyond_consent,
        answers_unasked, answers_false, repairs_surplus, repairs_unknown, too_long, refused_repeated, refused_budget,
        refused_range, refused_room, given_up);
}

macro_rules! session_drops {
    ($sums:ident, $counters:expr) => {{
        let counters = $counters;
        add!($sums, counters, "session_": malformed, unknown_kinds, unknown_index, forged, replayed, too_old,
            initiations_refused, cookies, unsendable);
    }};
}

/// What a relay's sessions dropped.
pub(crate) fn relay_sessions(sums: &mut Sums, relay: &byway_proto::relay::Relay) {
    session_drops!(sums, relay.session_counters());
}

/// What an agent's sessions dropped.
pub(crate) fn agent_sessions(sums: &mut Sums, agent: &byway_proto::agent::Agent) {
    session_drops!(sums, agent.session_counters());
}

/// What an agent dropped, and why.
pub(crate) fn agent_drops(sums: &mut Sums, agent: &AgentCounters) {
    add!(sums, agent, "": copies_held, copies_gone, own_repairs_held, datagrams_too_long, datagrams_unsendable,
        flows_unknown, messages_unknown, out_of_role, malformed);
}

/// What sockets dropped.
pub(crate) fn socket_drops(sums: &mut Sums, io: &IoCounters) {
    add!(sums, io, "socket_": dropped_originals, dropped_scavengers, dropped_unsendable, dropped_refused,
        dropped_closed, dropped_by_kernel);
}
