//! Errors of the program: exit code, subject, location and remedy.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests take ports and files away from the program"
)]

mod counters;
mod support;

use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::time::Instant;

use counters::counter;
use support::{Bench, ManagedNetwork, TIMEOUT, TwoSites, byway, on_a_full_disk, path, status, text};

/// Asserts that the program ends with this code, and that its output contains all of these texts.
fn assert_refuses(arguments: &[&str], code: i32, says: &[&str]) {
    let output = byway(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.starts_with("error: "), "{message}");
    for phrase in says {
        assert!(message.contains(phrase), "{phrase:?} is not in: {message}");
    }
}

#[test]
fn destinations_that_nothing_can_be_sent_to_are_named_with_line_key_and_remedy() {
    let bench = Bench::new();
    let expose = |target: &str| format!("[[expose]]\nname = \"video\"\ntarget = \"{target}\"\n");
    let forward =
        |listen: &str| format!("[[forward]]\nlisten = \"{listen}\"\npeer = \"bob\"\nto = \"video\"\n");
    let relay = |address: &str| {
        let key = "11".repeat(32);
        format!(
            "[[network.relays]]\nname = \"east\"\nnumber = 1\nkey = \"{key}\"\naddresses = [\"{address}\"]\n"
        )
    };
    for (text, says) in [
        (expose("239.1.1.1:5000"), &[":3: expose[0].target: ", "multicast group", "one machine"][..]),
        (expose("255.255.255.255:5000"), &[":3: expose[0].target: ", "broadcast"]),
        (expose("192.0.2.1:0"), &[":3: expose[0].target: ", "port 0"]),
        (expose("media.example.org:0"), &[":3: expose[0].target: ", "port 0"]),
        (expose("[fe80::1]:5000"), &[":3: expose[0].target: ", "\"[fe80::1%eth0]:5000\"", "ip -6 address"]),
        (expose("[fe80::1%no-such0]:5000"), &[":3: ", "no-such0", "ip link"]),
        (expose("192.0.2.300:5000"), &[":3: ", ": write an address or a DNS name"]),
        (forward("239.1.1.1:5000"), &[":2: forward[0].listen: ", "multicast group"]),
        (forward("[fe80::1]:5000"), &[":2: forward[0].listen: ", "fe80::1%eth0"]),
        (relay("224.0.0.1:4600"), &[":5: network.relays[0].addresses[0]: ", "multicast group"]),
        (relay("192.0.2.1:0"), &[":5: network.relays[0].addresses[0]: ", "port 0"]),
        ("[agent]\nlisten = [\"[ff02::1%1]:5000\"]\n".to_owned(), &[":2: agent.listen[0]: ", "multicast"]),
    ] {
        let file = bench.write("wrong.toml", &text);
        assert_refuses(&["config", "check", path(&file)], 2, &[&[path(&file)], says].concat());
    }
    for text in [expose("[fe80::1%lo]:5000"), expose("media.example.org:5000"), forward("[fe80::1%lo]:5000")]
    {
        let output = byway(&["config", "check", path(&bench.write("right.toml", &text))]);
        assert!(output.status.success(), "{text}: {}", support::text(&output.stderr));
    }
}

#[test]
fn what_the_system_does_not_send_is_not_delivered_and_said_with_the_remedy() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let mut bob = sites.bob();
    bob.kill();
    let file = sites.bench.path("bob.toml");
    let text = std::fs::read_to_string(&file).expect("the file");
    // Only the machine itself knows that this is a broadcast address.
    let to = "127.255.255.255:9";
    let text = text.replace(&format!("target = \"{}\"", sites.echo()), &format!("target = \"{to}\""));
    sites.bench.write("bob.toml", &text);
    let _bob = sites.bench.start("bob", &["agent", "--config", path(&file)]);
    let _alice = sites.alice("internet");
    let app = support::App::at(sites.bench.at(30, 0));
    let begun = Instant::now();
    let status = loop {
        app.send(b"to nobody", sites.forward());
        let status = status(sites.observe(12));
        if counter(&status, "drops", "socket_dropped_refused") >= 3 {
            break status;
        }
        assert!(begun.elapsed() < TIMEOUT, "{status}");
    };
    assert_eq!(counter(&status, "counters", "proxy_delivered"), 0, "{status}");
    let note = status["mappings"][0]["note"].as_str().unwrap_or_default();
    assert!(note.contains(&format!("refuses to send to {to}")) && note.contains("ip route get"), "{note}");
}

#[test]
fn a_malformed_file_is_named_with_line_key_and_remedy() {
    let bench = Bench::new();
    let forward = "[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"bob\"\nto = \"video\"\n";
    for (text, says) in [
        ("[agent]\ntitle = \"alice\"\n", &[":2: ", "title", "expected one of", "`name`"][..]),
        ("[agent\n", &[":1: "]),
        (&format!("{forward}service = \"code\"\n"), &[":5: ", "code", "`coding`"]),
        (&format!("{forward}rate = \"4 Mbps\"\n"), &[":5: ", "invalid rate \"4 Mbps\"", "\"4 Mbit/s\""]),
        (
            &format!("{forward}service = \"auto\"\ncopies = \"by-relay\"\n"),
            &[":5: forward[0].service: ", "omit `copies`, or name a service"],
        ),
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
        (
            "[relay]\naddresses = [\"192.0.2.1:4600\"]\nshards = 2\nmemory = \"15 MB\"\n",
            &[":4: relay.memory: ", "at least 8 MB for each of 2 shards"],
        ),
        ("[relay]\nname = \"east\"\n", &["relay.addresses: ", "--address"]),
        ("[uplink]\ndelay = \"10 ms\"\n", &[":1: ", "missing field `rate`"]),
        ("[uplink]\nrate = \"0 bit/s\"\n", &[":2: uplink.rate: ", "give its rate"]),
        (
            "[uplink]\nrate = \"2 Mbit/s\"\n",
            &[":2: uplink.rate: ", "12.16 ms", "delay of 10 ms", "a rate of 2.432 Mbit/s or more"],
        ),
        (
            "[relay]\naddresses = [\"192.0.2.1:4600\"]\nshards = 2\n[uplink]\nrate = \"4 Mbit/s\"\n",
            &[":5: uplink.rate: ", "2 shards", "a rate of 4.864 Mbit/s or more", "fewer shards"],
        ),
        ("[uplink]\nrate = \"9 Mbit/s\"\ndelay = \"2 ms\"\n", &[":3: uplink.delay: ", "a longer delay"]),
        ("[uplink]\nrate = \"9 Mbit/s\"\nratio = 1\n", &[":3: uplink.ratio: ", "more than 1"]),
        ("[uplink]\nrate = \"9 Mbit/s\"\nbound = \"5 ms\"\n", &[":3: ", "bound", "`delay`"]),
        ("[controller]\ngrant_lifetime = \"1 h\"\n", &[":2: controller.grant_lifetime: ", "24 h"]),
        ("[agent]\nname = \"x\"\n[network]\n", &[":2: agent.name: ", "agent \"x\" not found in [network]"]),
        ("title = 1\n", &[":1: ", "title", "expected one of"]),
        ("[agent]\nname = \"alice's laptop\"\n", &[":2: agent.name: ", "1 to 63 letters"]),
        ("[agent]\nrelay = \"é\"\n", &[":2: agent.relay: ", "1 to 63 letters"]),
        ("[controller]\nnetwork = \"a b\"\n", &[":2: controller.network: ", "1 to 63 letters"]),
        (&forward.replace("bob", "lab/bob"), &[":3: forward[0].peer: ", "1 to 63 letters"]),
        (&forward.replace("video", &"v".repeat(64)), &[":4: forward[0].to: ", "1 to 63 letters"]),
        (
            "[[expose]]\nname = \"a\"\ntarget = \"127.0.0.1:1\"\npeers = [\"b\", \"\"]\n",
            &[":4: expose[0].peers[1]: ", "1 to 63 letters"],
        ),
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
        (relay("", 1, 'a'), ["network.relays[0].name", "1 to 63 letters"]),
        (format!("{east}{}", relay("east", 2, 'b')), ["network.relays[1].name", "east"]),
        (format!("{east}{}", relay("west", 1, 'b')), ["network.relays[1].number", "each needs its own"]),
        (format!("{east}{}", relay("west", 2, 'a')), ["network.relays[1].key", "each needs its own"]),
        (
            format!("{east}{}", agent("alice", 1, "east\", \"east")),
            ["network.agents[0].relays[1]", "name each relay once"],
        ),
        (agent("alice", 1, "east"), ["network.agents[0].relays[0]", "relay \"east\" not found"]),
        (
            format!("{east}{alice}[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n"),
            ["agents[1]", "agent \"bob\" not found"],
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
    assert!(relay.log().contains("[network] has"), "{}", relay.log());
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

/// Returns the arguments of an agent of this network that has not joined yet.
fn alice(network: &ManagedNetwork, token: &str) -> Vec<String> {
    let observe = network.observe(11);
    let text = format!(
        "[agent]\nname = \"alice\"\ntoken = \"{}\"\n[observe]\nlisten = \"{observe}\"\n",
        token.trim()
    );
    let (config, state) = (network.bench.write("alice.toml", &text), network.bench.path("alice"));
    ["agent", "--config", path(&config), "--state", path(&state)].map(str::to_owned).to_vec()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn who_shows_no_good_token_is_refused_and_who_finds_nobody_says_so() {
    let (network, mut controller) = ManagedNetwork::new();
    let state = network.bench.path("controller");
    let administer = |words: &[&str]| {
        let done = byway(&[words, &["--state", path(&state)]].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    let for_relays = administer(&["token", "create", "--role", "relay"]);
    assert_refuses(
        &words(&alice(&network, &for_relays)),
        5,
        &["of role relay", "byway token create --role agent"],
    );
    let ended = administer(&["token", "create", "--role", "agent", "--expires", "0 s"]);
    assert_refuses(
        &words(&alice(&network, &ended)),
        5,
        &["token expired at", "byway token create --role agent"],
    );
    let revoked = administer(&["token", "create", "--role", "agent"]);
    let list: serde_json::Value =
        serde_json::from_str(&administer(&["token", "list", "--json"])).expect("JSON");
    let tokens = list["tokens"].as_array().expect("a list");
    let number = tokens.last().expect("there are some")["number"].to_string();
    administer(&["token", "revoke", &number]);
    let arguments = alice(&network, &revoked);
    assert_refuses(
        &words(&arguments),
        5,
        &["token unknown to the controller", "byway token create --role agent"],
    );
    let again = ["token", "revoke", &number, "--state", path(&state)];
    assert_refuses(&again, 5, &["not found", "byway token list"]);
    assert_refuses(
        &["node", "remove", "77", "--state", path(&state)],
        5,
        &["node 77 not found", "byway node list"],
    );
    controller.kill();
    let at = network.bench.at(9, 4_443).to_string();
    assert_refuses(&words(&arguments), 4, &[&at, "cannot reach the controller", "byway status"]);
}

#[test]
fn a_controller_with_another_key_is_not_believed() {
    let (network, mut controller) = ManagedNetwork::new();
    let token = std::fs::read_to_string(network.bench.path("agent.token")).expect("it was made");
    controller.kill();
    std::fs::remove_dir_all(network.bench.path("controller")).expect("it is ours");
    let _other = network.controller();
    let says = ["does not match the token", "byway token create"];
    assert_refuses(&words(&alice(&network, &token)), 5, &says);
}

#[test]
fn a_controllers_port_in_use_is_named() {
    let bench = Bench::new();
    let (listen, observe) = (bench.at(1, 4_443), bench.at(1, 4_682));
    let _taken = TcpListener::bind(listen).expect("the port is free");
    let config = format!("[controller]\nlisten = [\"{listen}\"]\n[observe]\nlisten = \"{observe}\"\n");
    let (config, state) = (bench.write("controller.toml", &config), bench.path("controller"));
    let arguments = ["controller", "--config", path(&config), "--state", path(&state)];
    assert_refuses(&arguments, 3, &[&listen.to_string(), "a free port", "`listen`"]);
}

/// Library that shows a process a clock an hour late, by overriding the C library's function.
const LATE_CLOCK: &str = r"
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && clock == CLOCK_REALTIME) time->tv_sec -= 3600;
    return failed;
}
";

#[test]
fn a_clock_that_is_far_off_is_the_machines_fault_and_is_told_by_how_much() {
    let (network, _controller) = ManagedNetwork::new();
    let (source, library) = (network.bench.write("late.c", LATE_CLOCK), network.bench.path("late.so"));
    // Building this program requires a C compiler for linking.
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o", path(&library), path(&source)]).output();
    let made = made.expect("there is a C compiler");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let token = std::fs::read_to_string(network.bench.path("agent.token")).expect("it was made");
    let mut late = Command::new(env!("CARGO_BIN_EXE_byway"));
    let output = late.args(alice(&network, &token)).env("LD_PRELOAD", &library).output().expect("it runs");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    for phrase in ["1 h 0 min behind the controller's", "timedatectl set-ntp true", "chronyc"] {
        assert!(message.contains(phrase), "{phrase:?} is not in: {message}");
    }
}

#[test]
fn a_full_disk_is_the_machines_fault_and_leaves_nothing_half_done() {
    let (network, _controller) = ManagedNetwork::new();
    let token = std::fs::read_to_string(network.bench.path("agent.token")).expect("it was made");
    let arguments = alice(&network, &token);
    let refused_for = |file: &str| {
        let output = on_a_full_disk(0, &words(&arguments)).output().expect("it runs");
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains(file) && message.contains("disk full: free some space"), "{message}");
        assert!(!network.bench.path(file).exists(), "{file}");
    };
    refused_for("alice/key");
    network.bench.key("alice/key");
    std::fs::rename(network.bench.path("alice/key.key"), network.bench.path("alice/key"))
        .expect("it is ours");
    refused_for("alice/membership.json");
    // With free space again, the node is accepted with its own identity.
    let _agent = network.bench.start("alice", &words(&arguments));
    let state = network.bench.path("controller");
    let nodes = text(&byway(&["node", "list", "--state", path(&state)]).stdout);
    assert_eq!(nodes.lines().filter(|line| line.contains("alice")).count(), 1, "{nodes}");
}

#[test]
fn a_controller_whose_disk_is_full_does_not_start_for_the_first_time() {
    let bench = Bench::new();
    let (listen, observe) = (bench.at(1, 4_443), bench.at(1, 4_682));
    let config = format!("[controller]\nlisten = [\"{listen}\"]\n[observe]\nlisten = \"{observe}\"\n");
    let (config, state) = (bench.write("controller.toml", &config), bench.path("controller"));
    let arguments = ["controller", "--config", path(&config), "--state", path(&state)];
    let output = on_a_full_disk(1, &arguments).output().expect("it runs");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("controller.redb") && message.contains("disk full: free some space"),
        "{message}"
    );
}

#[test]
fn a_node_that_was_removed_says_so_and_how_to_come_back() {
    let (network, _controller) = ManagedNetwork::new();
    let bob = network.bob();
    let observe = network.observe(12);
    let number = status(observe)["number"].to_string();
    let state = network.bench.path("controller");
    let removed = byway(&["node", "remove", &number, "--state", path(&state)]);
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    let begun = Instant::now();
    while !status(observe)["controller_problem"].as_str().is_some_and(|why| why.contains("new token")) {
        assert!(begun.elapsed() < TIMEOUT, "{}\n{}", status(observe), bob.log());
    }
    let shown = byway(&["status", "--at", &observe.to_string()]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("controller disconnected") && shown.contains("join with a new token"), "{shown}");
}

#[test]
fn an_unknown_variable_is_a_warning_that_names_what_may_be_meant() {
    let output = Command::new(env!("CARGO_BIN_EXE_byway"))
        .args(["config", "reference"])
        .env("BYWAY_TOKENS", "x")
        .output()
        .expect("the program runs");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(message.starts_with("warning: "), "{message}");
    assert!(message.contains("BYWAY_TOKENS (is BYWAY_TOKEN meant?)"), "{message}");
}

#[test]
fn status_of_nobody_says_so() {
    let bench = Bench::new();
    let nobody = bench.at(1, 4_680).to_string();
    assert_refuses(&["status", "--at", &nobody], 4, &[&nobody, "cannot reach a node"]);
}

#[test]
fn keygen_overwrites_nothing() {
    let bench = Bench::new();
    bench.key("node");
    let key = bench.path("node.key");
    let before = std::fs::read(&key).expect("there is one");
    assert_refuses(
        &["keygen", path(&key)],
        2,
        &["node.key already exists", "name another file, or remove this one"],
    );
    assert_eq!(std::fs::read(&key).expect("it is still there"), before);
}
