//! Metrics of nodes in the text format of Prometheus.

use std::fmt;

use byway_api::{
    AgentStatus, ControllerStatus, FlowDeliveries, NetworkStateUse, ReasonCount, RelayReach, RelayRoute,
    RelayStatus, RequestCount, TenantUse, UplinkClass, UplinkStatus,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Returns an agent's metrics as text.
pub(crate) fn of_agent(status: AgentStatus) -> String {
    encode(AgentMetrics(status))
}

/// Returns a relay's metrics as text.
pub(crate) fn of_relay(status: RelayStatus) -> String {
    encode(RelayMetrics(status))
}

/// Returns a controller's metrics as text.
pub(crate) fn of_controller(status: ControllerStatus) -> String {
    encode(ControllerMetrics(status))
}

/// Adds the counters of connections to the status server that ended early to a page of metrics.
pub(crate) fn with_connections(mut page: String, ended: Vec<ReasonCount>) -> String {
    const END: &str = "# EOF\n";
    page.truncate(page.strip_suffix(END).map_or(page.len(), str::len));
    page + &encode(ObserveMetrics(ended))
}

fn encode(metrics: impl Collector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("a string takes whatever is written");
    page
}

/// Documentation of the metrics, from which counters get their descriptions.
const METRICS: &str = include_str!("../../../../docs/metrics.md");

#[derive(Debug)]
struct AgentMetrics(AgentStatus);

#[derive(Debug)]
struct RelayMetrics(RelayStatus);

#[derive(Debug)]
struct ControllerMetrics(ControllerStatus);

#[derive(Debug)]
struct ObserveMetrics(Vec<ReasonCount>);

impl Collector for ObserveMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Connections to this port that ended early, and refused requests, by reason";
        reasons(&mut encoder, "byway_observe_refused", help, &self.0)
    }
}

/// One value of a family of counters: its labels and the count.
type Row<'a> = (Vec<(&'static str, &'a str)>, u64);

/// Encodes one family of counters, or nothing if it has no rows.
fn counters(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, rows: &[Row<'_>]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let counter = ConstCounter::new(0_u64);
    let mut family = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
    for (labels, value) in rows {
        ConstCounter::new(*value).encode(family.encode_family(&Labels(labels))?)?;
    }
    Ok(())
}

/// Encodes one family of gauges, or nothing if it has no rows.
fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: &[(Vec<(&'static str, &str)>, f64)],
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let gauge = ConstGauge::new(0.0_f64);
    let mut family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
    for (labels, value) in rows {
        ConstGauge::new(*value).encode(family.encode_family(&Labels(labels))?)?;
    }
    Ok(())
}

#[derive(Debug)]
struct Labels<'a>(&'a [(&'static str, &'a str)]);

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}

impl Collector for AgentMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = &self.0;
        let received: Vec<_> =
            status.totals.iter().map(|totals| (totals.peer.as_str(), &totals.received)).collect();
        flows(&mut encoder, "received", "flows that this agent received", &received)?;
        let sent: Vec<_> = status
            .totals
            .iter()
            .filter_map(|totals| Some((totals.peer.as_str(), totals.sent.as_ref()?)))
            .collect();
        flows(&mut encoder, "sent", "flows that this agent sent, as reported by the peer", &sent)?;
        repair_times(&mut encoder, &received)?;
        let bytes = &status.bytes;
        let segments = [
            ("direct", "out", bytes.direct_sent),
            ("direct", "in", bytes.direct_received),
            ("copies", "out", bytes.copies_sent),
            ("answers", "out", bytes.answers_sent),
            ("messages", "out", bytes.messages_sent),
            ("messages", "in", bytes.messages_received),
            ("repairs", "in", bytes.repairs_received),
            ("forwarded", "in", bytes.forwarded_received),
        ];
        let rows: Vec<Row<'_>> = segments
            .into_iter()
            .map(|(segment, direction, count)| (vec![("segment", segment), ("direction", direction)], count))
            .collect();
        counters(&mut encoder, "byway_segment_bytes", "IP bytes by segment", &rows)?;
        costs(&mut encoder, status)?;
        work(&mut encoder, "agent", &status.counters)?;
        reasons(&mut encoder, "byway_dropped_packets", "Packets dropped by reason", &status.drops)?;
        let peers: Vec<_> = status
            .peers
            .iter()
            .map(|peer| (vec![("peer", peer.name.as_str())], f64::from(u8::from(peer.is_alive))))
            .collect();
        gauges(&mut encoder, "byway_peer_alive", "1 if the peer answers", &peers)?;
        unprotected(&mut encoder, status)?;
        round_trips(&mut encoder, &status.relays)
    }
}

/// Encodes the bytes that relays send for an agent's flows, and their costs.
fn costs(encoder: &mut DescriptorEncoder<'_>, status: &AgentStatus) -> fmt::Result {
    let cost = &status.cost;
    let segments = [("between-relays", cost.between_relays_bytes), ("from-relays", cost.from_relays_bytes)];
    let rows: Vec<Row<'_>> =
        segments.into_iter().map(|(segment, bytes)| (vec![("segment", segment)], bytes)).collect();
    let help = "IP bytes that relays sent for the flows of this agent";
    counters(encoder, "byway_flow_relay_bytes", help, &rows)?;
    #[allow(clippy::cast_precision_loss, reason = "amounts for people have a few digits")]
    let amount = |nanounits: i64| nanounits as f64 / 1e9;
    let currency = status.currency.as_deref().unwrap_or("nominal");
    let cases = [("actual", cost.nanounits), ("all-relayed", cost.all_relayed_nanounits)];
    let rows: Vec<_> = cases
        .into_iter()
        .map(|(case, nanounits)| (vec![("case", case), ("currency", currency)], amount(nanounits)))
        .collect();
    gauges(encoder, "byway_flow_relay_cost", "Cost of the relays' bytes since the agent started", &rows)
}

/// Encodes an agent's metrics of traffic that should be protected and is not.
fn unprotected(encoder: &mut DescriptorEncoder<'_>, status: &AgentStatus) -> fmt::Result {
    #[allow(clippy::cast_precision_loss, reason = "there are far fewer than 2^53")]
    let gauge = |count: usize| [(vec![], count as f64)];
    let flows = status.mappings.iter().filter(|mapping| mapping.losses_unrepaired).count();
    let help = "Flows without any repaired loss in the last seconds";
    gauges(encoder, "byway_unrepaired_flows", help, &gauge(flows))?;
    let help = "1 if a watched device sends packets that are not captured";
    gauges(encoder, "byway_capture_blind", help, &gauge(status.notes.len()))
}

fn round_trips(encoder: &mut DescriptorEncoder<'_>, relays: &[RelayReach]) -> fmt::Result {
    let shards: Vec<String> = relays.iter().map(|relay| relay.shard.to_string()).collect();
    let row = |(relay, shard)| {
        let relay: &RelayReach = relay;
        let shard: &String = shard;
        Some((
            vec![("relay", relay.name.as_str()), ("shard", shard.as_str())],
            relay.round_trip_ms? / 1_000.0,
        ))
    };
    let rows: Vec<_> = relays.iter().zip(&shards).filter_map(row).collect();
    gauges(encoder, "byway_relay_round_trip_seconds", "Round trip to a relay's shard", &rows)
}

/// Encodes an agent's counters of packets by peer and fate. Peers of one name are added up, because
/// a peer that was removed may be back under another number.
fn flows(
    encoder: &mut DescriptorEncoder<'_>,
    direction: &str,
    help: &str,
    flows: &[(&str, &FlowDeliveries)],
) -> fmt::Result {
    let mut by_peer: std::collections::BTreeMap<&str, FlowDeliveries> = std::collections::BTreeMap::new();
    for (peer, flow) in flows {
        let sum = by_peer.entry(peer).or_default();
        for (sum, count) in fates_mut(sum).into_iter().zip(fates(flow)) {
            *sum += count.1;
        }
    }
    let rows: Vec<Row<'_>> = by_peer
        .iter()
        .flat_map(|(peer, flow)| {
            fates(flow).map(|(fate, count)| (vec![("peer", *peer), ("fate", fate)], count))
        })
        .collect();
    counters(
        encoder,
        &format!("byway_packets_{direction}"),
        &format!(
            "Packets of {help}, by fate; lost_direct is the loss before repair, unrepaired the loss after it"
        ),
        &rows,
    )
}

const fn fates(flow: &FlowDeliveries) -> [(&'static str, u64); 10] {
    [
        ("direct", flow.direct),
        ("lost_direct", flow.lost_direct),
        ("in_stream", flow.in_stream),
        ("cooperative", flow.cooperative),
        ("cache", flow.cached),
        ("resent", flow.resent),
        ("forward", flow.forwarded),
        ("late", flow.late),
        ("unrepaired", flow.unrepaired),
        ("duplicate", flow.duplicates),
    ]
}

const fn fates_mut(flow: &mut FlowDeliveries) -> [&mut u64; 10] {
    [
        &mut flow.direct,
        &mut flow.lost_direct,
        &mut flow.in_stream,
        &mut flow.cooperative,
        &mut flow.cached,
        &mut flow.resent,
        &mut flow.forwarded,
        &mut flow.late,
        &mut flow.unrepaired,
        &mut flow.duplicates,
    ]
}

/// Encodes the histogram of repair times, of all an agent's flows together.
fn repair_times(encoder: &mut DescriptorEncoder<'_>, flows: &[(&str, &FlowDeliveries)]) -> fmt::Result {
    let mut times = flows.iter().filter_map(|(_, flow)| flow.repair_times.as_ref());
    let Some(mut sum) = times.next().cloned() else {
        return Ok(());
    };
    for times in times {
        sum.sum_ms += times.sum_ms;
        sum.counts.iter_mut().zip(&times.counts).for_each(|(sum, count)| *sum += count);
    }
    let bounds = sum.bounds_ms.iter().map(|bound| bound / 1_000.0).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(sum.counts.iter().copied()).collect();
    let count = sum.counts.iter().sum();
    let help = "Time from the due time of a lost packet to its delivery";
    let kind = prometheus_client::metrics::MetricType::Histogram;
    let mut metric = encoder.encode_descriptor("byway_repair_seconds", help, None, kind)?;
    metric.encode_histogram::<prometheus_client::encoding::NoLabelSet>(
        sum.sum_ms / 1_000.0,
        count,
        &buckets,
        None,
    )
}

impl Collector for RelayMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = &self.0;
        work(&mut encoder, "relay", &status.counters)?;
        reasons(&mut encoder, "byway_dropped_packets", "Packets dropped by reason", &status.drops)?;
        #[allow(clippy::cast_precision_loss, reason = "counts of sessions and bytes are far below 2^53")]
        let (sessions, buffered_bytes) = (status.sessions as f64, status.buffered_bytes as f64);
        gauges(
            &mut encoder,
            "byway_relay_sessions",
            "Sessions with agents and relays",
            &[(vec![], sessions)],
        )?;
        gauges(
            &mut encoder,
            "byway_relay_buffered_bytes",
            "Bytes of memory in use or reserved",
            &[(vec![], buffered_bytes)],
        )?;
        route_metrics(&mut encoder, &status.routes)?;
        status.uplink.as_ref().map_or(Ok(()), |uplink| uplink_metrics(&mut encoder, uplink))
    }
}

/// Encodes the delays of a relay's routes through third relays.
fn route_metrics(encoder: &mut DescriptorEncoder<'_>, routes: &[RelayRoute]) -> fmt::Result {
    let rows = |delay_ms: fn(&RelayRoute) -> f64| {
        let labels = |route| {
            let route: &RelayRoute = route;
            (vec![("to", route.to.as_str()), ("through", route.through.as_str())], delay_ms(route) / 1_000.0)
        };
        routes.iter().map(labels).collect::<Vec<_>>()
    };
    let help = "Delay of packets to another relay through a third one";
    gauges(encoder, "byway_relay_transit_delay_seconds", help, &rows(|route| route.delay_ms))?;
    let help = "Delay of the direct path of these packets";
    gauges(encoder, "byway_relay_transit_direct_delay_seconds", help, &rows(|route| route.direct_delay_ms))
}

/// Encodes the metrics of a relay's uplink.
fn uplink_metrics(encoder: &mut DescriptorEncoder<'_>, uplink: &UplinkStatus) -> fmt::Result {
    #[allow(clippy::cast_precision_loss, reason = "rates and bytes are far below 2^53")]
    let by_class = |of: fn(&UplinkClass) -> u64| {
        [("high-rate", &uplink.high_rate), ("low-delay", &uplink.low_delay)]
            .map(|(class, values)| (vec![("class", class)], of(values) as f64))
    };
    let rows = by_class(|class| class.backlog_bytes);
    gauges(encoder, "byway_relay_uplink_backlog_bytes", "Backlog of the uplink in bytes", &rows)?;
    let rows = by_class(|class| class.flows);
    gauges(encoder, "byway_relay_uplink_flows", "Estimated number of flows", &rows)?;
    let rows = by_class(|class| class.rate_bits_per_second);
    let help = "Rate of a class while both classes are backlogged";
    gauges(encoder, "byway_relay_uplink_rate_bits_per_second", help, &rows)?;
    let help = "Upper bound of the sojourn time of low-delay packets";
    gauges(encoder, "byway_relay_uplink_delay_seconds", help, &[(vec![], uplink.delay_ms / 1_000.0)])
}

impl Collector for ControllerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = &self.0;
        #[allow(clippy::cast_precision_loss, reason = "counts of members and bytes are far below 2^53")]
        let gauge = |count: u64| count as f64;
        let count = |count: usize| gauge(u64::try_from(count).unwrap_or(u64::MAX));
        let by_role = |agents, relays| {
            [("agent", agents), ("relay", relays)]
                .map(|(role, members)| (vec![("role", role)], count(members)))
        };
        let members = by_role(status.agents, status.relays);
        gauges(&mut encoder, "byway_controller_members", "Members of the network", &members)?;
        let alive = by_role(status.agents_alive, status.relays_alive);
        let help = "Members with contact within the last minute";
        gauges(&mut encoder, "byway_controller_members_alive", help, &alive)?;
        let pairs = [(vec![], count(status.pairs))];
        gauges(&mut encoder, "byway_controller_pairs", "Pairs of agents", &pairs)?;
        let polls = [(vec![], count(status.polls))];
        gauges(&mut encoder, "byway_controller_polls", "Members with a pending poll for a new map", &polls)?;
        let requests: Vec<Row<'_>> = status.requests.iter().map(requests_row).collect();
        let help = "Requests by outcome";
        counters(&mut encoder, "byway_controller_requests", help, &requests)?;
        let connections = &status.connections;
        let rows = [("stranger", connections.strangers), ("member", connections.members)];
        let rows = rows.map(|(of, connections)| (vec![("of", of)], count(connections)));
        gauges(&mut encoder, "byway_controller_connections", "Connections", &rows)?;
        let help = "Connections that ended early or were refused, by reason";
        reasons(&mut encoder, "byway_controller_connections_ended", help, &connections.ended)?;
        tenant_metrics(&mut encoder, &status.tenants)?;
        network_state_metrics(&mut encoder, &status.network_state)?;
        let commits = [("ok", status.storage.commits), ("failed", status.storage.commits_failed)];
        let commits = commits.map(|(outcome, count)| (vec![("outcome", outcome)], count));
        counters(&mut encoder, "byway_controller_commits", "Changes written to the database", &commits)?;
        let bytes: Vec<_> =
            status.storage.database_bytes.into_iter().map(|bytes| (vec![], gauge(bytes))).collect();
        gauges(&mut encoder, "byway_controller_database_bytes", "Size of the database", &bytes)?;
        let failing = [(vec![], f64::from(u8::from(status.storage.storage_problem.is_some())))];
        let help = "1 if the controller cannot store changes";
        gauges(&mut encoder, "byway_controller_storage_failing", help, &failing)
    }
}

/// Encodes each tenant's use of the controller's tables, and the requests that its quotas refused.
fn tenant_metrics(encoder: &mut DescriptorEncoder<'_>, tenants: &[TenantUse]) -> fmt::Result {
    #[allow(clippy::cast_precision_loss, reason = "counts of members and pairs are far below 2^53")]
    let uses = tenants.iter().flat_map(|tenant| {
        let tables = [("agents", tenant.agents), ("pairs", tenant.pairs), ("tokens", tenant.tokens)];
        tables.map(|(table, used)| (vec![("tenant", tenant.name.as_str()), ("table", table)], used as f64))
    });
    let help = "Entries of a tenant in each shared table";
    gauges(encoder, "byway_controller_tenant_used", help, &uses.collect::<Vec<_>>())?;
    let refused = tenants.iter().map(|tenant| (vec![("tenant", tenant.name.as_str())], tenant.refused));
    let help = "Requests refused because a quota of the tenant was reached";
    counters(encoder, "byway_controller_tenant_refused", help, &refused.collect::<Vec<_>>())
}

/// Encodes the use of network state. A controller without paths has none.
fn network_state_metrics(encoder: &mut DescriptorEncoder<'_>, used: &NetworkStateUse) -> fmt::Result {
    if used.paths == 0 {
        return Ok(());
    }
    let rows = [
        ("paths", used.paths),
        ("paths_known", used.paths_known),
        ("reporters", used.reporters),
        ("flows", used.flows),
        ("streams", used.streams),
    ];
    #[allow(clippy::cast_precision_loss, reason = "counts of paths and flows are far below 2^53")]
    let rows = rows.map(|(of, count)| (vec![("of", of)], count as f64));
    gauges(encoder, "byway_controller_network_state", "Use of network state", &rows)?;
    let samples = [("accepted", used.samples_accepted), ("refused", used.samples_refused)];
    let samples = samples.map(|(outcome, count)| (vec![("outcome", outcome)], count));
    counters(encoder, "byway_controller_samples", "Samples of links by outcome", &samples)
}

/// Encodes each work counter of an agent or a relay (`role`) as a family of its own.
fn work(encoder: &mut DescriptorEncoder<'_>, role: &str, counted: &[ReasonCount]) -> fmt::Result {
    for counter in counted {
        let name = format!("byway_{role}_{}", counter.reason);
        counters(encoder, &name, documented(&name), &[(vec![], counter.count)])?;
    }
    Ok(())
}

/// Returns the description of a counter in docs/metrics.md; empty if it has none.
fn documented(name: &str) -> &'static str {
    let row_start = format!("| `{name}_total` |");
    let row = METRICS.lines().find(|row| row.starts_with(&row_start));
    row.and_then(|row| row.trim_end_matches([' ', '|']).rsplit('|').next()).unwrap_or_default().trim()
}

fn requests_row(counted: &RequestCount) -> Row<'_> {
    let labels = vec![
        ("method", counted.method.as_str()),
        ("path", counted.path.as_str()),
        ("outcome", counted.outcome.as_str()),
    ];
    (labels, counted.count)
}

fn reasons(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counted: &[ReasonCount],
) -> fmt::Result {
    let rows: Vec<Row<'_>> =
        counted.iter().map(|counted| (vec![("reason", counted.reason.as_str())], counted.count)).collect();
    counters(encoder, name, help, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_api::{Histogram, PeerTotals};

    fn totals(peer: &str, lost: u64) -> PeerTotals {
        let times = Histogram { bounds_ms: vec![10.0, 20.0], counts: vec![1, 2, 0], sum_ms: 40.0 };
        PeerTotals {
            peer: peer.to_owned(),
            received: FlowDeliveries {
                lost_direct: lost,
                repair_times: Some(times),
                ..FlowDeliveries::default()
            },
            sent: Some(FlowDeliveries { late: lost, ..FlowDeliveries::default() }),
        }
    }

    #[test]
    fn totals_of_one_name_are_summed_and_histograms_are_cumulative() {
        let totals = vec![totals("alice", 3), totals("alice", 4), totals("bob", 1)];
        let page = of_agent(AgentStatus { totals, ..AgentStatus::default() });
        assert!(page.contains("byway_packets_sent_total{peer=\"alice\",fate=\"late\"} 7"), "{page}");
        assert!(
            page.contains("byway_packets_received_total{peer=\"alice\",fate=\"lost_direct\"} 7"),
            "{page}"
        );
        assert!(page.contains("byway_packets_received_total{peer=\"bob\",fate=\"lost_direct\"} 1"), "{page}");
        assert!(page.contains("byway_repair_seconds_bucket{le=\"0.02\"} 9"), "{page}");
        assert!(page.contains("byway_repair_seconds_bucket{le=\"+Inf\"} 9"), "{page}");
        assert!(page.contains("byway_repair_seconds_count 9") && page.ends_with("# EOF\n"), "{page}");
    }

    #[test]
    fn each_shard_of_a_relay_has_its_round_trip() {
        let reach = |shard, round_trip_ms| RelayReach {
            name: "fra".to_owned(),
            shard,
            is_alive: true,
            round_trip_ms,
        };
        let relays = vec![reach(0, Some(40.0)), reach(1, Some(50.0)), reach(2, None)];
        let page = of_agent(AgentStatus { relays, ..AgentStatus::default() });
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("byway_relay_round_trip")).collect();
        assert_eq!(
            rows,
            [
                "byway_relay_round_trip_seconds{relay=\"fra\",shard=\"0\"} 0.04",
                "byway_relay_round_trip_seconds{relay=\"fra\",shard=\"1\"} 0.05"
            ]
        );
    }

    #[test]
    fn counters_say_what_they_count() {
        let counters = vec![ReasonCount { reason: "ingress_copies".to_owned(), count: 5 }];
        let page = of_relay(RelayStatus { counters, ..RelayStatus::default() });
        assert!(page.contains("# HELP byway_relay_ingress_copies Copies accepted from senders."), "{page}");
    }

    #[test]
    fn an_uplink_has_its_classes_and_without_one_there_is_nothing() {
        let class = |flows| UplinkClass {
            flows,
            rate_bits_per_second: 1_000 * flows,
            backlog_bytes: 10 * flows,
            buffer_bytes: 100 * flows,
        };
        let uplink = UplinkStatus {
            rate_bits_per_second: 10_000,
            delay_ms: 12.5,
            high_rate: class(7),
            low_delay: class(3),
        };
        let page = of_relay(RelayStatus { uplink: Some(uplink), ..RelayStatus::default() });
        for row in [
            "byway_relay_uplink_backlog_bytes{class=\"high-rate\"} 70.0",
            "byway_relay_uplink_flows{class=\"low-delay\"} 3.0",
            "byway_relay_uplink_rate_bits_per_second{class=\"high-rate\"} 7000.0",
            "byway_relay_uplink_delay_seconds{} 0.0125",
        ] {
            assert!(page.contains(row), "{row}: {page}");
            let name = row.split(['{', ' ']).next().expect("a name");
            assert!(
                METRICS.contains(&format!("| `{name}` | gauge |")),
                "docs/metrics.md does not say what {name} is"
            );
        }
        assert!(!of_relay(RelayStatus::default()).contains("uplink"));
    }

    #[test]
    fn a_route_through_a_third_relay_has_both_delays() {
        let (to, through) = ("nrt".to_owned(), "sfo".to_owned());
        let routes = vec![RelayRoute { to, through, delay_ms: 40.5, direct_delay_ms: 100.0 }];
        let page = of_relay(RelayStatus { routes, ..RelayStatus::default() });
        for row in [
            "byway_relay_transit_delay_seconds{to=\"nrt\",through=\"sfo\"} 0.0405",
            "byway_relay_transit_direct_delay_seconds{to=\"nrt\",through=\"sfo\"} 0.1",
        ] {
            assert!(page.contains(row), "{row}: {page}");
            let name = row.split('{').next().expect("a name");
            assert!(METRICS.contains(&format!("| `{name}` | gauge |")), "docs/metrics.md lacks {name}");
        }
        assert!(!of_relay(RelayStatus::default()).contains("transit"));
    }

    #[derive(Debug)]
    struct TestMetrics(NetworkStateUse);

    impl Collector for TestMetrics {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            network_state_metrics(&mut encoder, &self.0)
        }
    }

    #[test]
    fn network_state_has_its_use_and_without_paths_there_is_nothing() {
        let used =
            NetworkStateUse { paths: 3, paths_known: 2, samples_refused: 7, ..NetworkStateUse::default() };
        let page = encode(TestMetrics(used));
        for row in [
            "byway_controller_network_state{of=\"paths_known\"} 2.0",
            "byway_controller_samples_total{outcome=\"refused\"} 7",
        ] {
            assert!(page.contains(row), "{row}: {page}");
            let name = row.split('{').next().expect("a name");
            assert!(METRICS.contains(&format!("| `{name}` |")), "docs/metrics.md lacks {name}");
        }
        assert!(!encode(TestMetrics(NetworkStateUse::default())).contains("byway_controller"));
    }

    #[test]
    fn refusals_of_the_port_stand_behind_the_metrics_of_its_node() {
        let ended = vec![ReasonCount { reason: "host".to_owned(), count: 2 }];
        let page = with_connections(of_relay(RelayStatus::default()), ended);
        assert!(page.ends_with("byway_observe_refused_total{reason=\"host\"} 2\n# EOF\n"), "{page}");
        assert_eq!(page.matches("# EOF").count(), 1);
    }

    #[test]
    fn drops_have_their_reasons() {
        let drops = vec![ReasonCount { reason: "forged".to_owned(), count: 5 }];
        let page = of_relay(RelayStatus { drops, ..RelayStatus::default() });
        assert!(page.contains("byway_dropped_packets_total{reason=\"forged\"} 5"), "{page}");
    }
}
