//! Counters of the protocol and of sockets by name, for status and metrics. Those of work and those
//! of drops are separate.

use std::collections::BTreeMap;

use byway_api::ReasonCount;
use byway_net::IoCounters;
use byway_proto::SessionCounters;
use byway_proto::agent::AgentCounters;
use byway_proto::relay::{EgressCounters, IngressCounters, RelayCounters, UplinkCounters};

/// Names of those counters of a component that count dropped or omitted packets and messages. The
/// component's other counters are of work.
type DropNames = &'static [&'static str];

const RELAY_DROPS: DropNames = &[
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
    "transit_refused",
    "transit_unknown",
    "transit_limited",
    "transit_unreachable",
];

const INGRESS_DROPS: DropNames = &[
    "copies_duplicate",
    "copies_beyond_rate",
    "copies_too_long",
    "copies_too_old",
    "retransmits_expired",
    "retransmits_refused",
    "uncovered_alone",
    "uncovered_budget",
    "uncovered_unknown",
    "uncovered_memory",
    "losses_refused",
    "sender_fec_refused",
    "in_stream_left_out",
];

const EGRESS_DROPS: DropNames = &[
    "copies_duplicate",
    "decode_attempts_expired",
    "decode_attempts_inconsistent",
    "decode_attempts_refused",
    "requests_beyond_consent",
    "answers_unsolicited",
    "answers_false",
    "repairs_surplus",
    "repairs_unknown",
    "too_long",
    "refused_repeated",
    "refused_budget",
    "refused_range",
    "refused_capacity",
    "refused_service",
    "refused_early",
    "abandoned",
];

const UPLINK_DROPS: DropNames = &["full", "scavengers", "flushed", "trimmed", "greedy", "early"];

const SESSION_DROPS: DropNames = &[
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

const AGENT_DROPS: DropNames = &[
    "copies_suppressed",
    "copies_expired",
    "sender_fec_suppressed",
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

/// Counters of drops among the packets that an agent receives. The status shows most other counters
/// of them by peer.
const FLOW_DROPS: DropNames = &["marked_dropped", "forged", "false_repairs", "beyond_consent"];

/// Fates of the packets that an agent receives, which the status shows by peer.
const FLOW_FATES: &[&str] =
    &["direct", "lost", "in_stream", "cooperative", "cached", "resent", "forwarded", "late", "duplicates"];

/// Counters of the work of an agent's proxy, which exchanges datagrams with applications.
const PROXY_WORK: &[&str] = &[
    "accepted",
    "accepted_bytes",
    "delivered",
    "delivered_bytes",
    "evicted_unanswered",
    "evicted_answered",
    "evicted_idle",
    "evicted_share",
    "queued",
    "queued_captured",
    "queued_accepted",
    "queue_overruns",
];

const PROXY_DROPS: DropNames = &[
    "unsolicited",
    "refused_by_peer",
    "unknown_peer",
    "mappings_full",
    "peer_mappings_full",
    "mappings_refused",
    "pending_overflow",
    "pending_stale",
    "pending_refused",
    "device_overflow",
    "not_captured",
    "not_permitted",
];

const SOCKET_DROPS: DropNames = &[
    "dropped_source_packets",
    "dropped_scavengers",
    "dropped_unsendable",
    "dropped_refused",
    "dropped_closed",
    "dropped_by_device",
    "dropped_by_kernel",
];

/// Sums of counters, by the counter's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterSums(BTreeMap<String, u64>);

impl CounterSums {
    /// Adds a value to the counter of this name.
    pub(crate) fn add(&mut self, name: impl Into<String>, count: u64) {
        *self.0.entry(name.into()).or_default() += count;
    }

    /// Adds all counters of another collection, such as another shard's.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add(name.as_str(), *count);
        }
    }

    /// Returns all counters in the form of the status.
    pub(crate) fn counted(&self) -> Vec<ReasonCount> {
        let one = |(name, count): (&String, &u64)| ReasonCount { reason: name.clone(), count: *count };
        self.0.iter().map(one).collect()
    }
}

/// Counters of a node: of work, and of dropped packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) work: CounterSums,
    pub(crate) drops: CounterSums,
}

impl Counts {
    /// Returns the counters of a relay's shard, without those of its sessions, sockets and uplink.
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

    /// Adds a node's counters of the work that received packets cause.
    pub(crate) fn add_work(&mut self, work: impl Iterator<Item = (&'static str, u64)>) {
        self.add("work_", work, &[]);
    }

    /// Adds the counters of a relay's uplink.
    pub(crate) fn add_uplink(&mut self, uplink: &UplinkCounters) {
        self.add("uplink_", uplink.by_name(), UPLINK_DROPS);
    }

    /// Adds the IP bytes that a relay received and sent, by destination.
    pub(crate) fn add_traffic(&mut self, bytes: impl Iterator<Item = (&'static str, u64)>) {
        self.add("ip_", bytes, &[]);
    }

    /// Returns the counters of an agent, without those of its flows, sessions and sockets.
    pub(crate) fn of_agent(agent: &AgentCounters) -> Self {
        let mut counts = Self::default();
        counts.add("", agent.by_name(), AGENT_DROPS);
        counts
    }

    /// Adds an agent's counters of received packets, except the fates that the status shows by
    /// peer.
    pub(crate) fn add_received(&mut self, received: impl Iterator<Item = (&'static str, u64)>) {
        self.add("flow_", received.filter(|(name, _)| !FLOW_FATES.contains(name)), FLOW_DROPS);
    }

    /// Adds the counters of a node's sessions and sockets.
    pub(crate) fn add_node(&mut self, sessions: &SessionCounters, sockets: &IoCounters) {
        self.add("session_", sessions.by_name(), SESSION_DROPS);
        self.add("socket_", sockets.by_name(), SOCKET_DROPS);
    }

    /// Adds counters of an agent's proxy.
    ///
    /// # Panics
    /// In a debug build, if a name is in neither of the lists: the metrics document both.
    pub(crate) fn add_proxy(&mut self, counters: impl IntoIterator<Item = (&'static str, u64)>) {
        let listed = counters.into_iter().inspect(|(name, _)| {
            let is_listed = PROXY_WORK.contains(name) || PROXY_DROPS.contains(name);
            debug_assert!(is_listed, "the proxy's counter {name} is in no list");
        });
        self.add("proxy_", listed, PROXY_DROPS);
    }

    /// Adds the counters of another shard of the same relay.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.work.add_all(&other.work);
        self.drops.add_all(&other.drops);
    }

    fn add(&mut self, prefix: &str, counters: impl Iterator<Item = (&'static str, u64)>, drops: DropNames) {
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

    /// Returns all existing counters, by role.
    fn all() -> [(&'static str, Counts); 2] {
        let mut relay = Counts::of_relay(
            &RelayCounters::default(),
            &IngressCounters::default(),
            &EgressCounters::default(),
        );
        relay.add_uplink(&UplinkCounters::default());
        relay.add_work(RelayWork::default().by_name());
        let traffic = ["received_bytes", "sent_to_agents_bytes", "sent_to_relays_bytes"];
        relay.add_traffic(traffic.into_iter().map(|name| (name, 0)));
        let mut agent = Counts::of_agent(&AgentCounters::default());
        agent.add_received(ReceiveStatistics::default().by_name());
        agent.add_work(AgentWork::default().by_name());
        agent.add_proxy(PROXY_WORK.iter().chain(PROXY_DROPS).map(|name| (*name, 0)));
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
                assert!(counts.work.0.contains_key(name), "there is no counter {name} of {role}s");
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
            assert!(is_there, "nothing is dropped for the reason {reason}");
        }
    }

    #[test]
    fn what_is_called_a_drop_is_a_counter() {
        let of_relay = [RELAY_DROPS, INGRESS_DROPS, EGRESS_DROPS, UPLINK_DROPS];
        let named: usize = of_relay.iter().map(|drops| drops.len()).sum();
        let of_node = SESSION_DROPS.len() + SOCKET_DROPS.len();
        let [(_, relay), (_, agent)] = all();
        assert_eq!(relay.drops.0.len(), named + of_node);
        assert_eq!(agent.drops.0.len(), AGENT_DROPS.len() + FLOW_DROPS.len() + PROXY_DROPS.len() + of_node);
        let fates = ReceiveStatistics::default().by_name().filter(|(name, _)| FLOW_FATES.contains(name));
        assert_eq!(fates.count(), FLOW_FATES.len());
    }

    #[test]
    fn counters_of_shards_are_added_up() {
        let count = |copies_bytes, refused_room| {
            let (mut ingress, mut egress) = (IngressCounters::default(), EgressCounters::default());
            (ingress.copies_bytes, egress.refused_capacity) = (copies_bytes, refused_room);
            Counts::of_relay(&RelayCounters::default(), &ingress, &egress)
        };
        let mut all = count(5, 2);
        all.add_all(&count(7, 3));
        assert_eq!(all.work.0["ingress_copies_bytes"], 12);
        assert_eq!(all.drops.0["egress_refused_capacity"], 5);
    }
}
