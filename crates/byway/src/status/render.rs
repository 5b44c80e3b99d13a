//! Formatting of nodes' status as text, for `byway status`.

use std::fmt::Write as _;

use byway_api::{
    AgentStatus, ControllerState, ControllerStatus, FlowDeliveries, MappingStatus, NetworkStateUse,
    NodeStatus, ReasonCount, RelayRoute, RelayStatus, UplinkStatus, UplinkUse,
};
use byway_units::{Bytes, Rate};
use serde::Deserialize as _;
use serde_json::Value;

/// Formats the status of a node of any role for people.
pub(super) fn text(status: &Value) -> String {
    if let Ok(agent) = AgentStatus::deserialize(status) {
        return agent_text(&agent);
    }
    if let Ok(relay) = RelayStatus::deserialize(status) {
        return relay_text(&relay);
    }
    match ControllerStatus::deserialize(status) {
        Ok(controller) => controller_text(&controller),
        Err(_) => format!("{status:#}\n"),
    }
}

fn controller_text(status: &ControllerStatus) -> String {
    let problem = status.storage.storage_problem.as_ref();
    let problem = problem.map(|problem| format!("  storage: {problem}\n")).unwrap_or_default();
    let mut page = format!(
        "controller of {}, byway {}; agents: {}, relays: {}, pairs: {}, pending polls: {}\n{problem}",
        status.network, status.version, status.agents, status.relays, status.pairs, status.polls
    );
    let connections = &status.connections;
    let _ = writeln!(
        page,
        "  connections of members: {}, of others: {}",
        connections.members, connections.strangers
    );
    counted(&mut page, "connections ended early", &connections.ended);
    page.push_str(&network_state_text(&status.network_state));
    page
}

/// Formats the use of network state; empty at a controller without paths.
fn network_state_text(used: &NetworkStateUse) -> String {
    let NetworkStateUse { paths, paths_known, reporters, flows, streams, .. } = used;
    let (accepted, refused) = (used.samples_accepted, used.samples_refused);
    if *paths == 0 {
        return String::new();
    }
    format!(
        "  network state: {paths_known} of {paths} paths known, reporting nodes: {reporters}, \
         registered flows: {flows}, streams: {streams}, samples: {accepted}, refused: {refused}\n"
    )
}

/// Formats the part of the status that agents and relays have in common.
fn node_text(role: &str, node: &NodeStatus) -> String {
    let mut page = format!(
        "{role} {} (number {}), byway {}, up {}, controller {}, map {}\n",
        node.name,
        node.number,
        node.version,
        seconds(node.uptime_seconds),
        kebab(node.controller),
        node.map_revision
    );
    if let Some(problem) = &node.controller_problem {
        let _ = writeln!(page, "  controller: {problem}");
    }
    for problem in &node.unresolved {
        let _ = writeln!(page, "  {problem}");
    }
    page
}

fn agent_text(status: &AgentStatus) -> String {
    let mut page = node_text("agent", &status.node);
    let _ = writeln!(
        page,
        "  datagrams up to {} bytes; listens on {}",
        status.payload_bytes_max,
        join_addresses(&status.node.listen)
    );
    for uplink in &status.node.uplinks {
        let _ = writeln!(page, "  uplink {}", uplink_use_text(uplink));
    }
    for relay in &status.relays {
        let state = if relay.is_alive { "alive" } else { "does not answer" };
        let _ = writeln!(
            page,
            "  relay {}/{}: {state}{}",
            relay.name,
            relay.shard,
            round_trip(relay.round_trip_ms)
        );
    }
    for peer in &status.peers {
        let state = match (peer.is_alive, peer.address, peer.is_relayed) {
            (false, ..) => "no session".to_owned(),
            (true, _, true) => "relay paths only".to_owned(),
            (true, Some(address), false) => format!("direct path to {address}"),
            (true, None, false) => "alive".to_owned(),
        };
        let _ = writeln!(page, "  peer {}: {state}{}", peer.name, round_trip(peer.round_trip_ms));
    }
    for totals in &status.totals {
        let _ = writeln!(page, "  received from {} in total: {}", totals.peer, flow_text(&totals.received));
        if let Some(sent) = &totals.sent {
            let _ = writeln!(page, "  sent to {} in total, as it reports: {}", totals.peer, flow_text(sent));
        }
    }
    for forward in &status.forwards {
        let listen = forward.listen.map_or_else(|| "closed".to_owned(), |listen| listen.to_string());
        let problem = forward.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
        let _ = writeln!(page, "  forward {listen} to {}/{}{problem}", forward.peer, forward.to);
    }
    for capture in &status.captures {
        let state = if capture.is_active { "active" } else { "inactive, packets bypass Byway" };
        let _ = writeln!(
            page,
            "  capture to {}/{}: {state}, {} captured",
            capture.peer, capture.to, capture.captured
        );
    }
    for mapping in &status.mappings {
        mapping_text(&mut page, mapping);
    }
    for note in &status.notes {
        let _ = writeln!(page, "  note: {note}");
    }
    counted(&mut page, "counters", &status.counters);
    counted(&mut page, "dropped or suppressed", &status.drops);
    page
}

fn uplink_use_text(uplink: &UplinkUse) -> String {
    let metered = if uplink.is_metered { " (metered)" } else { "" };
    let to = |role: &str, names: &[String]| match names {
        [] => None,
        names => Some(format!("{role} {}", names.join(", "))),
    };
    let carried: Vec<String> =
        [to("peers", &uplink.peers), to("relays", &uplink.relays)].into_iter().flatten().collect();
    let carried = if carried.is_empty() { "nothing".to_owned() } else { carried.join("; ") };
    format!("{}{metered}: packets to {carried}; sent {}", uplink.device, Bytes::new(uplink.sent_bytes))
}

fn mapping_text(page: &mut String, mapping: &MappingStatus) {
    let endpoint = mapping.endpoint.map_or_else(|| "the device".to_owned(), |endpoint| endpoint.to_string());
    let reason =
        mapping.service_reason.as_ref().map_or_else(String::new, |reason| format!(" (chosen: {reason})"));
    let arrow = if mapping.is_from_here { "to" } else { "from" };
    let _ = writeln!(
        page,
        "  flow {} {arrow} {}: {} at {}, {}{reason}, consent {}",
        mapping.flow, mapping.peer, mapping.to, endpoint, mapping.service, mapping.consent
    );
    for path in &mapping.paths {
        let used = if path.is_in_use { " (in use)" } else { "" };
        let _ = writeln!(page, "    via {} and {}: {}{used}", path.ingress, path.egress, path.state);
    }
    let _ = writeln!(page, "    received: {}", flow_text(&mapping.received));
    if let Some(sent) = &mapping.sent {
        let _ = writeln!(page, "    sent, as the peer reports: {}", flow_text(sent));
    }
    if let Some(note) = &mapping.note {
        let _ = writeln!(page, "    note: {note}");
    }
}

fn flow_text(flow: &FlowDeliveries) -> String {
    let delivered =
        flow.direct + flow.forwarded + flow.in_stream + flow.cooperative + flow.cached + flow.resent;
    let all = delivered + flow.unrepaired;
    let left = match flow.left_to_congestion_control {
        0 => String::new(),
        left => format!(" ({left} left to congestion control)"),
    };
    format!(
        "{delivered} packets; lost {} ({}) before repair, {} ({}) after{left}; repaired: {} in-stream, {} cooperative, {} cache, {} resent, {} forward; late {}",
        flow.lost_direct,
        share(flow.lost_direct, all),
        flow.unrepaired,
        share(flow.unrepaired, all),
        flow.in_stream,
        flow.cooperative,
        flow.cached,
        flow.resent,
        flow.forwarded,
        flow.late
    )
}

#[allow(clippy::cast_precision_loss, reason = "a share for people needs no more than three digits")]
fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "0 %".to_owned() } else { format!("{:.2} %", part as f64 * 100.0 / whole as f64) }
}

fn relay_text(status: &RelayStatus) -> String {
    let mut page = node_text("relay", &status.node);
    let _ = writeln!(
        page,
        "  listens on {}; {} sessions; {} bytes of memory in use",
        join_addresses(&status.node.listen),
        status.sessions,
        status.buffered_bytes
    );
    if let Some(uplink) = &status.uplink {
        page += &uplink_text(uplink);
    }
    if status.transit {
        page += "  passes on packets between other relays\n";
    }
    for RelayRoute { to, through, delay_ms, direct_delay_ms } in &status.routes {
        let delays = format!("{delay_ms:.1} ms, directly {direct_delay_ms:.1} ms");
        let _ = writeln!(page, "  packets to {to} go through {through}: {delays}");
    }
    counted(&mut page, "counters", &status.counters);
    counted(&mut page, "dropped or suppressed", &status.drops);
    page
}

fn uplink_text(uplink: &UplinkStatus) -> String {
    let rate = Rate::from_bits_per_second(uplink.rate_bits_per_second);
    let mut page = format!("  uplink {rate}; low-delay sojourn time at most {} ms\n", uplink.delay_ms);
    for (name, class) in [("high-rate", &uplink.high_rate), ("low-delay", &uplink.low_delay)] {
        let rate = Rate::from_bits_per_second(class.rate_bits_per_second);
        let (backlog, capacity) = (Bytes::new(class.backlog_bytes), Bytes::new(class.buffer_bytes));
        let _ =
            writeln!(page, "    {name}: {} flows at {rate}; backlog {backlog} of {capacity}", class.flows);
    }
    page
}

/// Adds a line with the counters that are not zero to a page; none if all are zero.
fn counted(page: &mut String, what: &str, counts: &[ReasonCount]) {
    let some: Vec<String> = counts
        .iter()
        .filter(|counted| counted.count > 0)
        .map(|counted| format!("{} {}", counted.reason.replace('_', " "), counted.count))
        .collect();
    if !some.is_empty() {
        let _ = writeln!(page, "  {what}: {}", some.join(", "));
    }
}

fn join_addresses(addresses: &[std::net::SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

const fn kebab(state: ControllerState) -> &'static str {
    match state {
        ControllerState::None => "none",
        ControllerState::Connected => "connected",
        ControllerState::Unknown => "not contacted yet",
        ControllerState::Disconnected => "disconnected",
    }
}

fn round_trip(millis: Option<f64>) -> String {
    millis.map(|millis| format!(", round trip {millis:.1} ms")).unwrap_or_default()
}

/// Formats a duration in seconds for people.
fn seconds(seconds: f64) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a run lasts less than 2^64 s"
    )]
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{} min", whole / 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use byway_api::PeerTotals;

    use super::*;

    #[test]
    fn an_agent_and_a_relay_are_told_apart() {
        let node = |name: &str| NodeStatus { name: name.to_owned(), ..NodeStatus::default() };
        let agent = AgentStatus { node: node("alice"), ..AgentStatus::default() };
        let page = text(&serde_json::to_value(&agent).expect("JSON"));
        assert!(page.starts_with("agent alice"), "{page}");
        let relay = RelayStatus { node: node("fra"), ..RelayStatus::default() };
        let page = text(&serde_json::to_value(&relay).expect("JSON"));
        assert!(page.starts_with("relay fra"), "{page}");
    }

    #[test]
    fn how_an_uplink_is_shared_is_said_of_a_relay_that_has_one() {
        let mut relay = RelayStatus::default();
        let page = |relay: &RelayStatus| text(&serde_json::to_value(relay).expect("JSON"));
        assert!(!page(&relay).contains("at most"));
        let mut uplink =
            UplinkStatus { rate_bits_per_second: 10_000_000, delay_ms: 10.0, ..UplinkStatus::default() };
        uplink.low_delay.flows = 3;
        uplink.high_rate.backlog_bytes = 1_500;
        relay.uplink = Some(uplink);
        let page = page(&relay);
        assert!(page.contains("uplink 10 Mbit/s; low-delay sojourn time at most 10 ms"), "{page}");
        assert!(page.contains("low-delay: 3 flows") && page.contains("backlog 1.5 kB of 0 B"), "{page}");
    }

    #[test]
    fn routes_through_third_relays_are_said_of_a_relay_that_has_some() {
        let page = |relay: &RelayStatus| text(&serde_json::to_value(relay).expect("JSON"));
        let mut relay = RelayStatus::default();
        assert!(!page(&relay).contains("through"), "{}", page(&relay));
        let (to, through) = ("nrt".to_owned(), "sfo".to_owned());
        relay.routes = vec![RelayRoute { to, through, delay_ms: 40.5, direct_delay_ms: 100.0 }];
        relay.transit = true;
        let page = page(&relay);
        assert!(page.contains("  packets to nrt go through sfo: 40.5 ms, directly 100.0 ms\n"), "{page}");
        assert!(page.contains("  passes on packets between other relays\n"), "{page}");
    }

    #[test]
    fn status_names_the_peers_and_relays_of_each_uplink() {
        let first = UplinkUse { device: "eth0".to_owned(), sent_bytes: 1_500, ..UplinkUse::default() };
        let (peers, relays) = (vec!["bob".to_owned()], vec!["east".to_owned(), "west".to_owned()]);
        let second =
            UplinkUse { device: "wwan0".to_owned(), is_metered: true, peers, relays, ..UplinkUse::default() };
        let node = NodeStatus { uplinks: vec![first, second], ..NodeStatus::default() };
        let page = text(&serde_json::to_value(AgentStatus { node, ..AgentStatus::default() }).expect("JSON"));
        assert!(page.contains("  uplink eth0: packets to nothing; sent 1.5 kB\n"), "{page}");
        assert!(
            page.contains("  uplink wwan0 (metered): packets to peers bob; relays east, west; sent 0 B\n"),
            "{page}"
        );
    }

    #[test]
    fn network_state_is_reported_where_there_are_paths() {
        assert_eq!(network_state_text(&NetworkStateUse::default()), "");
        let used = NetworkStateUse {
            paths: 3,
            paths_known: 2,
            reporters: 1,
            flows: 7,
            streams: 5,
            samples_accepted: 90,
            samples_refused: 4,
        };
        let expected = "  network state: 2 of 3 paths known, reporting nodes: 1, registered flows: 7, \
                        streams: 5, samples: 90, refused: 4\n";
        assert_eq!(network_state_text(&used), expected);
    }

    #[test]
    fn why_the_controller_is_of_no_help_is_said_of_agents_and_relays() {
        let node = NodeStatus {
            controller: ControllerState::Disconnected,
            controller_problem: Some("the node was removed: join with a new token".to_owned()),
            ..NodeStatus::default()
        };
        let agent = AgentStatus { node: node.clone(), ..AgentStatus::default() };
        let relay = RelayStatus { node, ..RelayStatus::default() };
        for status in [serde_json::to_value(&agent), serde_json::to_value(&relay)] {
            let page = text(&status.expect("JSON"));
            assert!(
                page.contains("controller disconnected")
                    && page.contains(": the node was removed: join with"),
                "{page}"
            );
        }
    }

    #[test]
    fn totals_and_counters_that_are_not_0_are_shown() {
        let received = FlowDeliveries { direct: 7, ..FlowDeliveries::default() };
        let totals = PeerTotals { peer: "bob".to_owned(), received, sent: None };
        let counters = [("copies", 3), ("source_packets", 0), ("session_moves", 1)];
        let counters = counters.map(|(name, count)| ReasonCount { reason: name.to_owned(), count });
        let agent =
            AgentStatus { totals: vec![totals], counters: counters.to_vec(), ..AgentStatus::default() };
        let page = text(&serde_json::to_value(&agent).expect("JSON"));
        assert!(page.contains("  received from bob in total: 7 packets;"), "{page}");
        assert!(page.contains("  counters: copies 3, session moves 1\n"), "{page}");
    }

    #[test]
    fn loss_before_and_after_repair_is_said() {
        let flow = FlowDeliveries {
            direct: 990,
            lost_direct: 10,
            cooperative: 9,
            unrepaired: 1,
            ..FlowDeliveries::default()
        };
        let text = flow_text(&flow);
        assert!(text.contains("lost 10 (1.00 %) before repair, 1 (0.10 %) after;"), "{text}");
        let text = flow_text(&FlowDeliveries { left_to_congestion_control: 1, ..flow });
        assert!(text.contains("1 (0.10 %) after (1 left to congestion control);"), "{text}");
    }

    #[test]
    fn times_are_short() {
        assert_eq!(
            [5.0, 61.0, 3_700.0, 90_000.0].map(seconds),
            ["5 s", "1 min", "1 h 1 min", "1 d 1 h"].map(str::to_owned)
        );
    }
}
