//! Two agents and two relays as real processes, without a controller.

#![allow(clippy::disallowed_methods, reason = "tests of the program use files and clocks")]

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use support::{App, TwoSites, echo, status};

#[test]
fn applications_speak_through_agents_in_both_directions() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let _agents = [sites.bob(), sites.alice("caching")];
    let target = App::at(sites.echo());
    let app = App::at(sites.bench.at(30, 0));
    for length in [0, 1, 100, 1_316, 1_354, 1_355, 1_472, 1_500] {
        let datagram: Vec<u8> = (0..length).map(|place| u8::try_from(place % 251).expect("a byte")).collect();
        app.send(&datagram, sites.forward());
        let (came, from) = target.receive();
        assert!(came == datagram, "{} bytes came instead of {length}", came.len());
        target.send(&datagram, from);
        assert!(app.receive() == (datagram, sites.forward()));
    }
}

#[test]
fn each_application_has_an_outside_port_of_its_own_and_keeps_it() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let _agents = [sites.bob(), sites.alice("caching")];
    let target = App::at(sites.echo());
    let apps: Vec<App> = (0..20).map(|_| App::at(sites.bench.at(30, 0))).collect();
    let mut addresses = BTreeSet::new();
    for round in 0..2 {
        for (number, app) in (0_u8..).zip(&apps) {
            app.send(&[number], sites.forward());
            let (came, outside) = target.receive();
            assert_eq!(came, [number]);
            assert_eq!(addresses.insert(outside), round == 0, "{outside}");
            target.send(&[number, 1], outside);
            assert_eq!(app.receive().0, [number, 1], "the answer is the application's own");
        }
    }
}

#[test]
fn a_stranger_at_an_outside_port_reaches_no_application() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let _agents = [sites.bob(), sites.alice("caching")];
    let (target, app) = (App::at(sites.echo()), App::at(sites.bench.at(30, 0)));
    app.send(b"hello", sites.forward());
    let (_, outside) = target.receive();
    App::at(sites.bench.at(31, 0)).send(b"intruder", outside);
    target.send(b"answer", outside);
    assert_eq!(app.receive().0, b"answer");
}

#[test]
fn what_is_too_long_is_dropped_and_counted() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let _agents = [sites.bob(), sites.alice("caching")];
    let (target, app) = (App::at(sites.echo()), App::at(sites.bench.at(30, 0)));
    app.send(b"first", sites.forward());
    target.receive();
    app.send(&[0; 1_501], sites.forward());
    app.send(b"last", sites.forward());
    assert_eq!(target.receive().0, b"last");
    let status = status(sites.observe(11));
    assert_eq!(status["payload_bytes_max"], 1_500);
    let drops = status["drops"].as_array().expect("drops");
    let too_long = drops.iter().find(|drop| drop["reason"] == "datagrams_too_long").expect("a counter");
    assert_eq!(too_long["count"], 1, "{drops:?} {}", status["counters"]);
}

#[test]
fn what_is_not_exposed_is_refused_and_status_says_so() {
    let sites = TwoSites::new();
    let _bob = sites.bob();
    let mut alice = sites.alice("internet");
    let file = sites.bench.path("alice.toml");
    let text = std::fs::read_to_string(&file).expect("the file").replace("to = \"echo\"", "to = \"other\"");
    alice.kill();
    sites.bench.write("alice.toml", &text);
    let alice = sites.bench.start("alice", &["agent", "--config", support::path(&file)]);
    let app = App::at(sites.bench.at(30, 0));
    let begun = std::time::Instant::now();
    while !alice.log().contains("peer refused the mapping") {
        app.send(b"anybody?", sites.forward());
        app.receive_within(Duration::from_millis(10));
        assert!(begun.elapsed() < support::TIMEOUT, "{}", alice.log());
    }
    let status = status(sites.observe(11));
    assert_eq!(status["mappings"][0]["consent"], "refused", "{status}");
}

/// Longest time from a restart until applications are served again.
const HEALED: Duration = Duration::from_secs(2);

#[test]
fn whoever_is_killed_and_comes_back_is_served_again_without_a_restart_of_the_others() {
    let sites = TwoSites::new();
    echo(sites.echo());
    let starts: [&dyn Fn() -> support::Node; 4] =
        [&|| sites.relay(1), &|| sites.relay(2), &|| sites.bob(), &|| sites.alice("caching")];
    let mut nodes = starts.map(|start| start());
    let app = App::at(sites.bench.at(30, 0));
    app.call(sites.forward());
    for (start, node) in starts.into_iter().zip(&mut nodes) {
        node.kill();
        *node = start();
        let took = app.call(sites.forward());
        assert!(took < HEALED, "after the restart of {}, {took:?}", node.name());
    }
}

#[test]
fn an_agent_has_the_port_of_its_last_run_unless_another_process_has_it() {
    let sites = TwoSites { alice_port: 0, ..TwoSites::new() };
    let port = || {
        let status = status(sites.observe(11));
        let listen: SocketAddr =
            status["listen"][0].as_str().expect("it listens").parse().expect("an address");
        listen.port()
    };
    let mut alice = sites.alice("caching");
    let first = port();
    alice.kill();
    alice = sites.alice("caching");
    assert_eq!(port(), first);
    assert_eq!(alice.stop(), Some(0));
    let other = App::at(sites.bench.at(11, first));
    alice = sites.alice("caching");
    let second = port();
    assert_ne!(second, first);
    alice.kill();
    drop(other);
    let _alice = sites.alice("caching");
    assert_eq!(port(), second, "the newest counts");
}

#[test]
fn counters_go_on_when_mappings_are_closed() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let (_bob, mut alice) = (sites.bob(), sites.alice("caching"));
    echo(sites.echo());
    let app = App::at(sites.bench.at(30, 0));
    for _ in 0..5 {
        app.call(sites.forward());
    }
    let received = |status: &serde_json::Value| status["totals"][0]["received"]["direct"].as_u64();
    let before = status(sites.observe(12));
    assert!(received(&before).is_some_and(|direct| direct > 0), "{before}");
    assert_eq!(alice.stop(), Some(0));
    let begun = std::time::Instant::now();
    let after = loop {
        let after = status(sites.observe(12));
        if after["mappings"].as_array().is_some_and(Vec::is_empty) {
            break after;
        }
        assert!(begun.elapsed() < support::TIMEOUT, "{after}");
    };
    assert!(received(&after) >= received(&before), "{after}");
    let metric = format!(
        "byway_packets_received_total{{peer=\"alice\",fate=\"direct\"}} {}",
        received(&after).unwrap_or(0)
    );
    let page = support::ask(sites.observe(12), "/metrics");
    assert!(page.contains(&metric), "{page}");
}

#[test]
fn a_stop_is_graceful() {
    let sites = TwoSites::new();
    let mut nodes = [sites.relay(1), sites.bob()];
    assert_eq!(nodes.each_mut().map(support::Node::stop), [Some(0), Some(0)]);
}
