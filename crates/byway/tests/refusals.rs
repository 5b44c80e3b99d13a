//! What the program says when something is wrong, and how it ends: the code, the thing, the place and the remedy.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests take ports and files away from the program"
)]

mod support;

use std::net::{TcpListener, UdpSocket};

use support::{Bench, Managed, TwoSites, byway, path, text};

/// That the program ends with this code, and says all of these.
fn assert_refuses(arguments: &[&str], code: i32, says: &[&str]) {
    let output = byway(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.starts_with("error: "), "{said}");
    for phrase in says {
        assert!(said.contains(phrase), "{phrase:?} is not in: {said}");
    }
}

#[test]
fn a_malformed_file_is_named_with_line_key_and_remedy() {
    let bench = Bench::new();
    let forward = "[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"bob\"\nto = \"video\"\n";
    for (text, says) in [
        ("[agent]\ntitle = \"alice\"\n", &[":2: ", "title", "expected one of", "`name`"][..]),
        ("[agent\n", &[":1: "]),
        (&format!("{forward}service = \"code\"\n"), &[":5: ", "code", "`coding`"]),
        (&format!("{forward}rate = \"4 Mbps\"\n"), &[":5: ", "\"4 Mbps\" is no rate", "\"4 Mbit/s\""]),
        (
            &format!("{forward}latency_budget = \"1 h\"\n"),
            &[":5: forward[0].latency_budget: ", "1 ms to 10 s"],
        ),
        (&format!("{forward}{forward}"), &[":6: forward[1].listen: ", "another forward"]),
        (
            "[agent]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n",
            &[":2: agent.listen: ", "one IPv4 address"],
        ),
        ("[agent]\n[observe]\nlisten = \"0.0.0.0:4680\"\n", &[":3: observe.listen: ", "127.0.0.1"]),
        ("[agent]\ntoken = \"byway1.abc\"\n", &[":2: agent.token: "]),
        ("[relay]\nshards = 0\naddresses = [\"192.0.2.1:4600\"]\n", &[":2: relay.shards: ", "1 to 64"]),
        ("[relay]\nname = \"east\"\n", &["relay.addresses: ", "--address"]),
        ("[controller]\ngrant_lifetime = \"1 h\"\n", &[":2: controller.grant_lifetime: ", "24 h"]),
        ("[agent]\nname = \"x\"\n[network]\n", &[":2: agent.name: ", "[network] has no agent \"x\""]),
        ("title = 1\n", &[":1: ", "title", "expected one of"]),
    ] {
        let file = bench.write("byway.toml", text);
        assert_refuses(&["config", "check", path(&file)], 2, &[&[path(&file)], says].concat());
    }
}

#[test]
fn a_network_whose_parts_do_not_fit_is_refused_where_they_do_not() {
    let bench = Bench::new();
    let relay = |name: &str, number: u32, key: char| {
        let key = key.to_string().repeat(64);
        format!(
            "[[network.relays]]\nname = \"{name}\"\nnumber = {number}\nkey = \"{key}\"\naddresses = [\"192.0.2.1:1\"]\n"
        )
    };
    let agent = |name: &str, number: u32, near: &str| {
        let key = format!("{number:064x}");
        format!(
            "[[network.agents]]\nname = \"{name}\"\nnumber = {number}\nkey = \"{key}\"\nrelays = [\"{near}\"]\n"
        )
    };
    let (east, alice) = (relay("east", 1, 'a'), agent("alice", 1, "east"));
    for (text, says) in [
        (format!("{east}{}", relay("east", 2, 'b')), ["network.relays[1].name", "east"]),
        (format!("{east}{}", relay("west", 1, 'b')), ["network.relays[1].number", "each needs its own"]),
        (format!("{east}{}", relay("west", 2, 'a')), ["network.relays[1].key", "each needs its own"]),
        (agent("alice", 1, "east"), ["network.agents[0].relays[0]", "there is no relay \"east\""]),
        (
            format!("{east}{alice}[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n"),
            ["agents[1]", "no agent \"bob\""],
        ),
        (
            format!("{east}{alice}[[network.pairs]]\nagents = [\"alice\", \"alice\"]\n"),
            ["agents", "two different"],
        ),
    ] {
        let file = bench.write("byway.toml", &text);
        assert_refuses(&["config", "check", path(&file)], 2, &says);
    }
}

#[test]
fn a_port_in_use_is_the_machines_fault_and_is_named() {
    let sites = TwoSites::new();
    let at = sites.bench.at(1, 4_600);
    let taken = UdpSocket::bind(at).expect("the port is free");
    let mut relay = sites.spawn_relay(1);
    assert_eq!(relay.code(), Some(3), "{}", relay.log());
    assert!(
        relay.log().contains(&at.to_string()) && relay.log().contains("another process"),
        "{}",
        relay.log()
    );
    drop(taken);
    let observe = sites.observe(1);
    let _taken = TcpListener::bind(observe).expect("the port is free");
    let mut relay = sites.spawn_relay(1);
    assert_eq!(relay.code(), Some(3), "{}", relay.log());
    assert!(
        relay.log().contains(&observe.to_string()) && relay.log().contains("observe.listen"),
        "{}",
        relay.log()
    );
}

#[test]
fn a_key_that_is_not_the_named_one_is_refused() {
    let sites = TwoSites::new();
    std::fs::remove_file(sites.bench.path("east.key")).expect("there is one");
    sites.bench.key("east");
    let mut relay = sites.spawn_relay(1);
    assert_eq!(relay.code(), Some(2), "{}", relay.log());
    assert!(relay.log().contains("[network] names"), "{}", relay.log());
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let sites = TwoSites::new();
    let key = sites.bench.path("east.key");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("it is ours");
    let mut relay = sites.spawn_relay(1);
    assert_eq!(relay.code(), Some(2), "{}", relay.log());
    assert!(relay.log().contains("chmod 600"), "{}", relay.log());
}

#[test]
fn a_node_without_a_token_is_told_how_to_get_one() {
    let bench = Bench::new();
    let state = bench.path("state");
    let observe = bench.at(1, 4_680);
    let file =
        bench.write("agent.toml", &format!("[agent]\nname = \"alice\"\n[observe]\nlisten = \"{observe}\"\n"));
    let arguments = ["agent", "--config", path(&file), "--state", path(&state)];
    assert_refuses(&arguments, 2, &["byway token create --role agent"]);
}

#[test]
fn who_shows_no_good_token_is_refused_and_who_finds_nobody_says_so() {
    let (network, mut controller) = Managed::new();
    let token = std::fs::read_to_string(network.bench.path("agent.token")).expect("it was made");
    let number = 2_u32.to_string();
    let state = network.bench.path("controller");
    let revoked = byway(&["token", "revoke", &number, "--state", path(&state)]);
    assert!(revoked.status.success(), "{}", text(&revoked.stderr));
    let observe = network.observe(11);
    let node = network.bench.path("alice");
    let config = network.bench.write(
        "alice.toml",
        &format!(
            "[agent]\nname = \"alice\"\ntoken = \"{}\"\n[observe]\nlisten = \"{observe}\"\n",
            token.trim()
        ),
    );
    let arguments = ["agent", "--config", path(&config), "--state", path(&node)];
    assert_refuses(&arguments, 5, &["token", "byway token create"]);
    controller.kill();
    let at = network.bench.at(9, 4_443).to_string();
    assert_refuses(&arguments, 4, &[&at, "cannot be reached"]);
}

#[test]
fn an_unknown_variable_is_a_typing_error() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_byway"))
        .args(["config", "reference"])
        .env("BYWAY_TOKENS", "x")
        .output()
        .expect("the program runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("BYWAY_TOKENS") && said.contains("BYWAY_TOKEN_FILE"), "{said}");
}

#[test]
fn status_of_nobody_says_so() {
    let bench = Bench::new();
    let nobody = bench.at(1, 4_680).to_string();
    assert_refuses(&["status", "--at", &nobody], 4, &[&nobody, "no node answers"]);
}

#[test]
fn keygen_overwrites_nothing() {
    let bench = Bench::new();
    bench.key("node");
    let key = bench.path("node.key");
    assert_refuses(&["keygen", path(&key)], 3, &["node.key"]);
}
