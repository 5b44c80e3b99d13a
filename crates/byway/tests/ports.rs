//! More client ports than an agent has mappings, with real processes: the longest idle one makes room, as at a NAT.

#![allow(clippy::disallowed_methods, reason = "tests of the program use files and clocks")]

mod support;

use std::time::{Duration, Instant};

use support::{App, PATIENCE, TwoSites, echo, status};

/// Three times the mappings that one peer had once, and half as many again as one has by default.
const PORTS: u16 = 1_500;

/// A new port each 14 ms: the first of a thousand has been idle for 14 s when the next one begins.
const INTERVAL: Duration = Duration::from_millis(14);

/// Asks from a new port, until the time for the next one; whether the answer came.
fn ask(sites: &TwoSites, number: u16, until: Instant) -> bool {
    let app = App::at(sites.bench.at(30, 10_000 + number));
    app.send(&number.to_be_bytes(), sites.forward());
    let answer = app.receive_within(PATIENCE / 10);
    while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
        app.receive_within(rest);
    }
    answer.is_some_and(|(answer, _)| answer == number.to_be_bytes())
}

/// What an agent counted under this name, as work or as drops.
fn counted(status: &serde_json::Value, list: &str, name: &str) -> u64 {
    let counters = status[list].as_array().expect("a list");
    let counter = counters.iter().find(|counter| counter["reason"] == name);
    counter.and_then(|counter| counter["count"].as_u64()).unwrap_or(0)
}

#[test]
fn each_of_more_ports_than_there_are_mappings_gets_its_answer() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let _agents = [sites.bob(), sites.alice("caching")];
    echo(sites.echo());
    App::at(sites.bench.at(30, 9_999)).call(sites.forward());
    let begun = Instant::now();
    let is_missed = |number: &u16| !ask(&sites, *number, begun + INTERVAL * u32::from(*number));
    let missed: Vec<u16> = (1..=PORTS).filter(is_missed).take(2).collect();
    assert!(missed.len() < 2, "of {PORTS} ports, {missed:?} got no answer");
    let [alice, bob] = [11, 12].map(|host| status(sites.observe(host)));
    for status in [&alice, &bob] {
        let mappings = status["mappings"].as_array().map_or(0, Vec::len);
        assert!((1..=1_000).contains(&mappings), "{mappings} mappings");
    }
    let evicted = counted(&bob, "counters", "proxy_mappings_evicted");
    assert!(evicted >= u64::from(PORTS) - 1_000, "{evicted} mappings made room");
    assert_eq!(counted(&bob, "drops", "proxy_mappings_refused"), 0);
}

/// Bob with room for so many ports of alice.
fn bob_with_room_for(sites: &TwoSites, ports: u8) -> support::Node {
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
    let (bob, alice) = (bob_with_room_for(&sites, 3), sites.alice("internet"));
    echo(sites.echo());
    let busy: Vec<App> = (0..3).map(|_| App::at(sites.bench.at(30, 0))).collect();
    let call = |apps: &[App]| apps.iter().for_each(|app| assert!(app.call(sites.forward()) < PATIENCE));
    call(&busy);
    let newcomer = App::at(sites.bench.at(30, 0));
    let begun = Instant::now();
    let is_said = || bob.log().contains("`peer_max`") && alice.log().contains("`peer_max`");
    while !is_said() {
        newcomer.send(b"room?", sites.forward());
        call(&busy);
        assert!(begun.elapsed() < PATIENCE, "{}", bob.log());
    }
    assert!(!alice.log().contains("[[expose]]"), "that is not to blame");
    let [alice, bob] = [11, 12].map(|host| status(sites.observe(host)));
    assert!(counted(&bob, "drops", "proxy_mappings_refused") > 0, "{bob}");
    assert!(counted(&alice, "drops", "proxy_no_room_at_peer") > 0, "{alice}");
    assert_eq!(counted(&bob, "counters", "proxy_mappings_evicted"), 0, "{bob}");
    // The others are silent from now on.
    newcomer.call(sites.forward());
    let bob = status(sites.observe(12));
    assert_eq!(counted(&bob, "counters", "proxy_mappings_evicted"), 1, "{bob}");
    assert_eq!(bob["mappings"].as_array().map(Vec::len), Some(3), "{bob}");
}

#[test]
fn limits_of_mappings_out_of_their_range_are_named_with_it() {
    let sites = TwoSites::new();
    for (limits, says) in [
        ("max = 0", "0 is not between 1 and 4096"),
        ("max = 4097", "4097 is not between 1 and 4096"),
        ("max = 10\npeer_max = 11", "11 is not between 1 and 10"),
    ] {
        let file =
            sites.bench.write("limits.toml", &format!("[mappings]\n{limits}\n[agent]\nname = \"a\"\n"));
        let output = support::byway(&["config", "check", support::path(&file)]);
        let said = support::text(&output.stderr);
        assert!(!output.status.success() && said.contains(says) && said.contains("mappings."), "{said}");
    }
}
