//! Counters of the protocol and of sockets as names and numbers: what was done, and what was dropped or left out.

use std::collections::BTreeMap;

use byway_api::Counted;
use byway_net::IoCounters;
use byway_proto::SessionCounters;
use byway_proto::agent::AgentCounters;
use byway_proto::relay::{EgressCounters, IngressCounters, RelayCounters, UplinkCounters};

/// Packets and messages of one place that were dropped or left out; its other counters are of work.
type Drops = &'static [&'static str];

const RELAY_DROPS: Drops = &[
    "messages_unknown",
    "aliases_unknown",
    "aliases_left_out",
    "out_of_role",
    "registrations_refused",
    "grants_ended",
    "strangers_refused",
    "sessions_refused",
    "sessions_shed",
    "quota_sessions",
    "quota_flows",
    "sessions_evicted",
    "flows_evicted",
    "expelled",
    "relayed_refused",
    "datagrams_too_long",
    "messages_too_many",
    "work_refused",
];

const INGRESS_DROPS: Drops = &[
    "copies_repeated",
    "copies_beyond_rate",
    "copies_too_long",
    "copies_too_old",
    "resends_gone",
    "resends_refused",
    "uncovered_alone",
    "uncovered_budget",
    "uncovered_unknown",
    "uncovered_memory",
    "own_repairs_refused",
    "in_stream_left_out",
];

const EGRESS_DROPS: Drops = &[
    "carried_repeated",
    "rounds_expired",
    "rounds_inconsistent",
    "rounds_refused",
    "requests_beyond_consent",
    "answers_unasked",
    "answers_false",
    "repairs_surplus",
    "repairs_unknown",
    "too_long",
    "refused_repeated",
    "refused_budget",
    "refused_range",
    "refused_room",
    "refused_service",
    "refused_early",
    "given_up",
];

const UPLINK_DROPS: Drops = &["full", "scavengers", "flushed", "trimmed", "greedy", "early"];

const SESSION_DROPS: Drops = &[
    "malformed",
    "unknown_kinds",
    "unknown_index",
    "forged",
    "replayed",
    "too_old",
    "initiations_refused",
    "cookies",
    "probes_ignored",
    "unsendable",
];

const AGENT_DROPS: Drops = &[
    "copies_held",
    "copies_gone",
    "own_repairs_held",
    "early_dropped",
    "datagrams_too_long",
    "datagrams_too_long_for_path",
    "too_long_unknown",
    "datagrams_unsendable",
    "flows_unknown",
    "messages_unknown",
    "out_of_role",
    "malformed",
    "work_refused",
];

/// Of what an agent receives; what else its statistics count is shown by peer.
const FLOW_DROPS: Drops = &["marked_dropped", "forged", "false_repairs", "beyond_consent"];

/// What an agent received, shown by peer.
const FLOW_FATES: &[&str] =
    &["direct", "lost", "in_stream", "cooperative", "cached", "forwarded", "late", "duplicates"];

const SOCKET_DROPS: Drops = &[
    "dropped_originals",
    "dropped_scavengers",
    "dropped_unsendable",
    "dropped_refused",
    "dropped_closed",
    "dropped_by_device",
    "dropped_by_kernel",
];

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(BTreeMap<String, u64>);

impl Sums {
    /// Adds to one.
    pub(crate) fn add(&mut self, name: impl Into<String>, count: u64) {
        *self.0.entry(name.into()).or_default() += count;
    }

    /// Adds all of another.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add(name.as_str(), *count);
        }
    }

    /// All of them by name.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let one = |(name, count): (&String, &u64)| Counted { reason: name.clone(), count: *count };
        self.0.iter().map(one).collect()
    }
}

/// What was done, and what was not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) work: Sums,
    pub(crate) drops: Sums,
}

impl Counts {
    /// Those of a relay's shard.
    pub(crate) fn of_relay(
        relay: &RelayCounters,
        ingress: &IngressCounters,
        egress: &EgressCounters,
    ) -> Self {
        let mut counts = Self::default();
        counts.add("", relay.by_name(), RELAY_DROPS);
        counts.add("ingress_", ingress.by_name(), INGRESS_DROPS);
        counts.add("egress_", egress.by_name(), EGRESS_DROPS);
        counts
    }

    /// Adds the work that a node did for what came.
    pub(crate) fn add_work(&mut self, work: impl Iterator<Item = (&'static str, u64)>) {
        self.add("work_", work, &[]);
    }

    /// Adds those of a relay's uplink.
    pub(crate) fn add_uplink(&mut self, uplink: &UplinkCounters) {
        self.add("uplink_", uplink.by_name(), UPLINK_DROPS);
    }

    /// Those of an agent.
    pub(crate) fn of_agent(agent: &AgentCounters) -> Self {
        let mut counts = Self::default();
        counts.add("", agent.by_name(), AGENT_DROPS);
        counts
    }

    /// Adds what an agent received.
    pub(crate) fn add_received(&mut self, received: impl Iterator<Item = (&'static str, u64)>) {
        self.add("flow_", received.filter(|(name, _)| !FLOW_FATES.contains(name)), FLOW_DROPS);
    }

    /// Adds those of a node's sessions and sockets.
    pub(crate) fn add_node(&mut self, sessions: &SessionCounters, sockets: &IoCounters) {
        self.add("session_", sessions.by_name(), SESSION_DROPS);
        self.add("socket_", sockets.by_name(), SOCKET_DROPS);
    }

    /// Adds those of another shard.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.work.add_all(&other.work);
        self.drops.add_all(&other.drops);
    }

    fn add(&mut self, prefix: &str, counters: impl Iterator<Item = (&'static str, u64)>, drops: Drops) {
        for (name, count) in counters {
            let sums = if drops.contains(&name) { &mut self.drops } else { &mut self.work };
            sums.add(format!("{prefix}{name}"), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_proto::agent::{AgentWork, ReceiveStatistics};
    use byway_proto::relay::RelayWork;

    use super::*;

    const METRICS: &str = include_str!("../../../../docs/metrics.md");

    /// All counters that there are, by role.
    fn all() -> [(&'static str, Counts); 2] {
        let mut relay = Counts::of_relay(
            &RelayCounters::default(),
            &IngressCounters::default(),
            &EgressCounters::default(),
        );
        relay.add_uplink(&UplinkCounters::default());
        relay.add_work(RelayWork::default().by_name());
        let mut agent = Counts::of_agent(&AgentCounters::default());
        agent.add_received(ReceiveStatistics::default().by_name());
        agent.add_work(AgentWork::default().by_name());
        for counts in [&mut relay, &mut agent] {
            counts.add_node(&SessionCounters::default(), &IoCounters::default());
        }
        [("relay", relay), ("agent", agent)]
    }

    #[test]
    fn every_counter_is_documented() {
        for (role, counts) in all() {
            let work = counts.work.0.keys().map(|name| format!("`byway_{role}_{name}_total`"));
            let drops = counts.drops.0.keys().map(|name| format!("\n| `{name}` |"));
            let missing: Vec<String> = work.chain(drops).filter(|text| !METRICS.contains(text)).collect();
            assert!(missing.is_empty(), "docs/metrics.md does not say what these are: {missing:?}");
        }
    }

    #[test]
    fn every_documented_counter_is_there() {
        for (role, counts) in all() {
            let named = METRICS
                .split('`')
                .filter_map(|word| word.strip_prefix(&format!("byway_{role}_"))?.strip_suffix("_total"));
            for name in named {
                assert!(
                    name.starts_with("proxy_") || counts.work.0.contains_key(name),
                    "there is no counter {name} of {role}s"
                );
            }
        }
    }

    #[test]
    fn every_documented_reason_is_there() {
        let tables = METRICS.split("\n\n").filter(|table| table.starts_with("| reason |"));
        let rows = tables.flat_map(str::lines).filter_map(|row| row.strip_prefix("| `")?.split_once("` |"));
        let reasons: Vec<&str> = rows.map(|(reason, _)| reason).collect();
        assert!(reasons.len() > 20, "docs/metrics.md has {} reasons", reasons.len());
        for reason in reasons {
            let is_there = all().iter().any(|(_, counts)| counts.drops.0.contains_key(reason));
            assert!(is_there || reason.starts_with("proxy_"), "nothing is dropped for the reason {reason}");
        }
    }

    #[test]
    fn what_is_called_a_drop_is_a_counter() {
        let of_relay = [RELAY_DROPS, INGRESS_DROPS, EGRESS_DROPS, UPLINK_DROPS];
        let named: usize = of_relay.iter().map(|drops| drops.len()).sum();
        let of_node = SESSION_DROPS.len() + SOCKET_DROPS.len();
        let [(_, relay), (_, agent)] = all();
        assert_eq!(relay.drops.0.len(), named + of_node);
        assert_eq!(agent.drops.0.len(), AGENT_DROPS.len() + FLOW_DROPS.len() + of_node);
        let fates = ReceiveStatistics::default().by_name().filter(|(name, _)| FLOW_FATES.contains(name));
        assert_eq!(fates.count(), FLOW_FATES.len());
    }

    #[test]
    fn counters_of_shards_are_added_up() {
        let count = |copies_bytes, refused_room| {
            let (mut ingress, mut egress) = (IngressCounters::default(), EgressCounters::default());
            (ingress.copies_bytes, egress.refused_room) = (copies_bytes, refused_room);
            Counts::of_relay(&RelayCounters::default(), &ingress, &egress)
        };
        let mut all = count(5, 2);
        all.add_all(&count(7, 3));
        assert_eq!(all.work.0["ingress_copies_bytes"], 12);
        assert_eq!(all.drops.0["egress_refused_room"], 5);
    }
}
