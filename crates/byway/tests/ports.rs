//! More client ports than an agent has mappings, with real processes: the longest idle mapping is
//! evicted, as at a NAT.

#![allow(clippy::disallowed_methods, reason = "tests of the program use files and clocks")]

mod counters;
mod support;

use std::time::{Duration, Instant};

use counters::counter;
use support::{App, TIMEOUT, TwoSites, echo, status};

/// Number of clients, which exceeds an agent's default number of mappings, and is more than twice
/// those of one peer.
const PORTS: u16 = 2_300;

/// Ports of a flood: about seven times the mappings of an agent.
const FLOOD_PORTS: u16 = 15_000;

/// Sends a request from a new port; true if the answer arrived.
fn ask(sites: &TwoSites, number: u16) -> bool {
    let app = App::at(sites.bench.at(30, 10_000 + number));
    app.send(&number.to_be_bytes(), sites.forward());
    let answer = app.receive_within(TIMEOUT / 10);
    answer.is_some_and(|(answer, _)| answer == number.to_be_bytes())
}

/// Counts the evicted mappings, over all reasons.
fn evicted(status: &serde_json::Value) -> u64 {
    let reasons = ["unanswered", "answered", "idle", "share"];
    reasons.iter().map(|reason| counter(status, "counters", &format!("proxy_evicted_{reason}"))).sum()
}

#[test]
fn each_of_more_clients_than_there_are_mappings_gets_its_answer_one_after_the_other() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let _agents = [sites.bob(), sites.alice("caching")];
    echo(sites.echo());
    App::at(sites.bench.at(30, 9_999)).call(sites.forward());
    let missed: Vec<u16> = (1..=PORTS).filter(|number| !ask(&sites, *number)).collect();
    assert!(missed.is_empty(), "of {PORTS} ports, {missed:?} got no answer");
    let [alice, bob] = [11, 12].map(|host| status(sites.observe(host)));
    for status in [&alice, &bob] {
        let mappings = status["mappings"].as_array().map_or(0, Vec::len);
        assert!((1..=1_000).contains(&mappings), "{mappings} mappings");
    }
    assert!(evicted(&bob) >= u64::from(PORTS) - 1_000, "{bob}");
    assert_eq!(counter(&bob, "counters", "proxy_evicted_share"), 0, "{bob}");
    assert_eq!(counter(&bob, "drops", "proxy_mappings_refused"), 0);
}

/// Sends a datagram from each of many ports, not faster than the forward reads its socket.
fn flood(from: impl Fn(u16) -> std::net::SocketAddr, to: std::net::SocketAddr) {
    for number in 0..FLOOD_PORTS {
        App::at(from(number)).send(b"flood", to);
        if number % 5 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Sends a request until its answer arrives.
fn ask_until_answered(app: &App, request: &[u8], to: std::net::SocketAddr) {
    let begun = Instant::now();
    loop {
        app.send(request, to);
        let until = Instant::now() + Duration::from_millis(100);
        while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
            if app.receive_within(rest).is_some_and(|(answer, _)| answer == request) {
                return;
            }
        }
        assert!(begun.elapsed() < TIMEOUT, "nobody answers at {to}");
    }
}

#[test]
fn a_flood_of_ports_cuts_no_call_and_keeps_no_application_out() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let _agents = [sites.bob(), sites.alice("caching")];
    echo(sites.echo());
    let to = sites.forward();
    let call = App::at(sites.bench.at(30, 9_999));
    call.call(to);
    call.call(to);
    let from = [0, 1].map(|number| sites.bench.at(40 + number, 0).ip());
    let flooding = std::thread::spawn(move || {
        flood(|number| (from[usize::from(number % 2)], 10_000 + number).into(), to);
    });
    let before = flow_of(&sites, &call);
    let mut newcomers = 0_u16;
    while !flooding.is_finished() || newcomers < 10 {
        newcomers += 1;
        ask_until_answered(&call, &newcomers.to_be_bytes(), to);
        let newcomer = App::at(sites.bench.at(31, 10_000 + newcomers));
        ask_until_answered(&newcomer, &newcomers.to_be_bytes(), to);
    }
    flooding.join().expect("no panic");
    // A client on the flooding host is accepted as soon as the flood stops.
    let late = App::at(sites.bench.at(40, 9_999));
    ask_until_answered(&late, b"late", to);
    assert_eq!(flow_of(&sites, &call), before, "the call has the mapping that it had");
    let [alice, bob] = [11, 12].map(|host| status(sites.observe(host)));
    // The agent whose limit is reached first evicts for both.
    let made_room = evicted(&alice) + evicted(&bob);
    assert!(made_room > 1_000, "the flood came to {made_room} mappings that made room");
    for (status, name) in [(&alice, "alice"), (&bob, "bob")] {
        let mappings = status["mappings"].as_array().map_or(0, Vec::len);
        assert!(mappings <= 2_000, "{mappings} mappings of {name}");
    }
}

/// Returns the flow number of an application's mapping.
fn flow_of(sites: &TwoSites, app: &App) -> serde_json::Value {
    let (status, endpoint) = (status(sites.observe(11)), app.address().to_string());
    let mappings = status["mappings"].as_array().expect("a list");
    let its = mappings.iter().find(|mapping| mapping["endpoint"] == endpoint.as_str());
    its.unwrap_or_else(|| panic!("{endpoint} has no mapping"))["flow"].clone()
}

/// Starts bob with this number of mappings for alice's ports.
fn bob_with_mappings_for(sites: &TwoSites, ports: u8) -> support::Node {
    let mut bob = sites.bob();
    bob.kill();
    let file = sites.bench.path("bob.toml");
    let text = std::fs::read_to_string(&file).expect("the file");
    sites.bench.write("bob.toml", &format!("{text}[mappings]\nmax = {}\npeer_max = {ports}\n", ports + 4));
    sites.bench.start("bob", &["agent", "--config", support::path(&file)])
}

#[test]
fn a_port_too_many_is_refused_by_name_of_the_setting_while_all_others_are_in_use_and_served_after() {
    let sites = TwoSites::new();
    let (bob, alice) = (bob_with_mappings_for(&sites, 3), sites.alice("internet"));
    echo(sites.echo());
    let busy: Vec<App> = (0..3).map(|_| App::at(sites.bench.at(30, 0))).collect();
    let call = |apps: &[App]| apps.iter().for_each(|app| assert!(app.call(sites.forward()) < TIMEOUT));
    call(&busy);
    let newcomer = App::at(sites.bench.at(30, 0));
    let begun = Instant::now();
    let is_said = || bob.log().contains("`peer_max`") && alice.log().contains("`peer_max`");
    while !is_said() {
        newcomer.send(b"room?", sites.forward());
        call(&busy);
        assert!(begun.elapsed() < TIMEOUT, "{}", bob.log());
    }
    assert!(!alice.log().contains("[[expose]]"), "that is not to blame");
    let [alice, bob] = [11, 12].map(|host| status(sites.observe(host)));
    assert!(counter(&bob, "drops", "proxy_mappings_refused") > 0, "{bob}");
    assert!(counter(&alice, "drops", "proxy_peer_mappings_full") > 0, "{alice}");
    assert_eq!(evicted(&bob), 0, "{bob}");
    // The others are idle from now on.
    newcomer.call(sites.forward());
    let bob = status(sites.observe(12));
    assert_eq!(evicted(&bob), 1, "{bob}");
    assert_eq!(bob["mappings"].as_array().map(Vec::len), Some(3), "{bob}");
}

#[test]
fn limits_of_mappings_out_of_their_range_are_named_with_it() {
    let sites = TwoSites::new();
    for (limits, says) in [
        ("max = 0", "0 is out of range: 1 to 4096"),
        ("max = 4097", "4097 is out of range: 1 to 4096"),
        ("max = 10\npeer_max = 11", "11 is out of range: 1 to 10"),
    ] {
        let file =
            sites.bench.write("limits.toml", &format!("[mappings]\n{limits}\n[agent]\nname = \"a\"\n"));
        let output = support::byway(&["config", "check", support::path(&file)]);
        let message = support::text(&output.stderr);
        assert!(
            !output.status.success() && message.contains(says) && message.contains("mappings."),
            "{message}"
        );
    }
}
