//! Tests of applications over TCP: durations of transfers, and the effect of copies.

use byway_scenario::{FlowOutcome, Outcome, Scenario, TransfersOutcome};

/// A client and a server 100 ms apart, and a relay near each.
fn text(link: &str, flow: &str, rest: &str) -> String {
    format!(
        r#"
title = "Transfers"
length = "60 s"
node = [
    {{ name = "client", role = "agent" }},
    {{ name = "server", role = "agent" }},
    {{ name = "near", role = "relay" }},
    {{ name = "far", role = "relay" }},
]

[[link]]
between = ["client", "server"]
delay = "100 ms"
{link}

[[link]]
between = ["client", "near"]
delay = "15 ms"

[[link]]
between = ["near", "far"]
delay = "100 ms"

[[link]]
between = ["far", "server"]
delay = "15 ms"

[[flow]]
name = "web"
from = "client"
to = "server"
budget = "1 s"
batch = "none"
{flow}
{rest}
"#
    )
}

const FETCHES: &str = r#"kind = "fetches", request = 12, response = 50_000"#;

fn run(text: &str, seed: u64) -> Outcome {
    let scenario = Scenario::parse(text).unwrap_or_else(|problem| panic!("{problem}"));
    scenario.run(seed).expect("all machines are joined")
}

fn web(outcome: &Outcome) -> (&FlowOutcome, &TransfersOutcome) {
    let flow = &outcome.flows[0];
    (flow, flow.transfers.as_ref().expect("it goes over TCP"))
}

#[test]
fn a_fetch_without_loss_takes_four_round_trips() {
    // One for the handshake, one for the request and ten segments, one for twenty, and one for the
    // last thirteen of 43.
    for service in ["internet", "caching", "coding"] {
        let flow = format!("service = \"{service}\"\nsends = {{ {FETCHES}, count = 20 }}");
        let outcome = run(&text("", &flow, ""), 1);
        let (flow, transfers) = web(&outcome);
        assert_eq!((transfers.begun, transfers.finished, transfers.failed), (20, 20, 0), "{service}");
        let times = transfers.completion_ms.expect("fetches finished");
        assert!((times.p50 - 800.0).abs() < 1.0 && times.max < 801.0, "{service}: {times:?}");
        assert_eq!((transfers.retransmitted, transfers.timeouts), (0, 0), "{service}");
        assert_eq!((flow.flows, flow.missing, flow.lost_direct), (2, 0, 0), "{service}");
        assert!(flow.app_bytes > 20 * 50_000, "{service}: {flow:?}");
    }
}

#[test]
fn transfers_of_one_seed_are_the_same() {
    let flow = format!("sends = {{ {FETCHES} }}");
    let lossy = text("loss = [{ first = \"1 %\", next = \"50 %\" }]", &flow, "");
    let [first, again, other] = [7, 7, 8].map(|seed| run(&lossy, seed));
    assert_eq!(first, again);
    assert_ne!(first.digest, other.digest);
    assert_ne!(first.flows, other.flows);
}

#[test]
fn copies_bring_the_tail_nearer() {
    let lossy = |flow: &str| {
        let flow = format!("{flow}\nsends = {{ {FETCHES} }}");
        run(&text("loss = [{ first = \"3 %\", next = \"50 %\" }]", &flow, ""), 3)
    };
    let [plain, all, marked] =
        ["service = \"internet\"", "copies = \"all\"", "copies = \"marked\""].map(lossy);
    let p99 = |outcome: &Outcome| web(outcome).1.completion_ms.expect("fetches finished").p99;
    assert!(p99(&all) < p99(&plain) * 0.7, "{} ms, and {} ms without", p99(&all), p99(&plain));
    let resent = |outcome: &Outcome| web(outcome).1.retransmitted;
    assert!(resent(&plain) > 20 && resent(&all) * 5 < resent(&plain), "{}", resent(&all));
    let relayed = |outcome: &Outcome| web(outcome).0.relay_share.expect("something was sent");
    assert!(relayed(&marked) < relayed(&all) / 4.0, "{} of {}", relayed(&marked), relayed(&all));
}

#[test]
fn only_the_segments_that_are_meant_are_copied() {
    let copies = |copies: &str| {
        let flow = format!("copies = \"{copies}\"\nsends = {{ {FETCHES}, count = 10, begin = \"4 s\" }}");
        let outcome = run(&text("", &flow, ""), 1);
        ["client", "server"].map(|name| {
            let node = outcome.nodes.iter().find(|node| node.name == name).expect("it is there");
            node.counted.get("copies").copied().unwrap_or_default()
        })
    };
    assert_eq!(copies("syn"), [10, 10]);
    assert_eq!(copies("syn-ack"), [0, 10]);
    // SYN, request and FIN; SYN-ACK and the last segment with FIN.
    assert_eq!(copies("marked"), [30, 20]);
    let both = format!(
        "service = \"internet\"\nback = {{ service = \"caching\", copies = \"syn\" }}\nsends = {{ {FETCHES}, count = 10 }}"
    );
    let outcome = run(&text("", &both, ""), 1);
    assert!(!outcome.nodes[0].counted.contains_key("copies") && outcome.nodes[1].counted["copies"] == 10);
}

#[test]
fn a_bulk_transfer_fills_its_link_and_says_how_fast_it_was() {
    let link = "rate = \"10 Mbit/s\"";
    let flow =
        "service = \"internet\"\nsends = { kind = \"bulk\", bytes = 20_000_000, algorithm = \"newreno\" }";
    let expect = "expect = [{ flow = \"web\", measure = \"goodput\", at_least = \"6 Mbit/s\" }, { flow = \"web\", measure = \"transfer-max\", at_most = \"27 s\" }]";
    let outcome = run(&format!("{expect}\n{}", text(link, flow, "")), 1);
    assert!(outcome.is_met(), "{:#?}", outcome.expectations);
    let (_, transfers) = web(&outcome);
    assert_eq!((transfers.begun, transfers.finished), (1, 1));
    let delivered: f64 = transfers.goodput_mbit_by_second.iter().sum();
    assert!((delivered - 160.0).abs() < 1e-6, "{delivered} Mbit");
    let fastest = transfers.goodput_mbit_by_second.iter().copied().fold(0.0, f64::max);
    // 1,188 of 1,300 bytes of IP, with acknowledgments in the other direction.
    assert!((8.5..9.5).contains(&fastest), "{fastest} Mbit/s");
}

#[test]
fn a_transfer_without_an_end_goes_on_to_the_end() {
    let flow = "service = \"internet\"\nsends = { kind = \"bulk\" }";
    let outcome = run(&text("rate = \"5 Mbit/s\"", flow, ""), 1);
    let (_, transfers) = web(&outcome);
    assert_eq!((transfers.begun, transfers.finished, transfers.failed), (1, 0, 0));
    assert!(transfers.goodput_mbit.is_some_and(|rate| (3.5..5.0).contains(&rate)), "{transfers:?}");
}

#[test]
fn transfers_outlive_a_restart_of_an_agent() {
    let steps = "[[step]]\nat = \"10 s\"\ndo = \"stop\"\nnode = \"client\"\n[[step]]\nat = \"12 s\"\ndo = \"start\"\nnode = \"client\"\n";
    let outcome = run(&text("", &format!("sends = {{ {FETCHES} }}"), steps), 1);
    let (_, transfers) = web(&outcome);
    assert!(transfers.finished > 30 && transfers.failed == 0, "{transfers:?}");
    assert!(transfers.completion_ms.is_some_and(|times| times.max > 2_000.0), "{transfers:?}");
}

#[test]
fn idle_machines_are_seldom_woken() {
    let flow = "sends = { kind = \"steady\", every = \"1 s\", bytes = 100, end = \"4 s\" }";
    let text = text("", flow, "").replace("length = \"60 s\"", "length = \"5 min\"");
    let outcome = run(&text, 1);
    for node in &outcome.nodes[..2] {
        let wake_ups = node.wake_ups_in_last_minute.expect("it lasts for more than a minute");
        assert!((1..=4).contains(&wake_ups), "{}: {wake_ups}", node.name);
    }
}
