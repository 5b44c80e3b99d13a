//! Reload of settings by running nodes: by SIGHUP, and by `byway reload`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program change files that it reads"
)]

mod support;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use support::{App, Bench, ManagedNetwork, Node, TIMEOUT, TwoSites, byway, echo, path, status, text};

const READ_AGAIN: &str = "settings reloaded";
const SETTINGS_UNCHANGED: &str = "cannot reload the settings";

/// Most datagrams in flight.
const IN_FLIGHT_MAX: u32 = 16;

/// Stream of numbered datagrams, echoed by the other end. The thread panics unless each arrives
/// exactly once.
struct Stream {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Stream {
    fn begin(from: SocketAddr, to: SocketAddr) -> Self {
        let app = App::at(from);
        app.call(to);
        // Repeated requests may be answered late.
        while app.receive_within(Duration::from_millis(300)).is_some() {}
        let ends = Arc::new(AtomicBool::new(false));
        let asked = ends.clone();
        Self { ends, thread: std::thread::spawn(move || exchange(&app, to, &asked)) }
    }

    /// Ends the stream, and returns the number of datagrams.
    fn end(self) -> u32 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("each datagram comes back once")
    }
}

fn exchange(app: &App, to: SocketAddr, ends: &AtomicBool) -> u32 {
    let send = |number: u32| app.send(&(1_000_000 + number).to_be_bytes(), to);
    for number in 0..IN_FLIGHT_MAX {
        send(number);
    }
    let (mut count, mut back) = (IN_FLIGHT_MAX, BTreeSet::new());
    while back.len() < count as usize {
        let (datagram, _) = app.receive();
        let number = u32::from_be_bytes(datagram.try_into().expect("four bytes"));
        assert!(back.insert(number), "{number} arrived twice");
        if !ends.load(Ordering::Relaxed) {
            send(count);
            count += 1;
        }
    }
    assert_eq!(app.receive_within(Duration::from_millis(300)), None, "nothing comes twice");
    count
}

/// Configuration file of a node, which a test changes.
struct File<'a> {
    bench: &'a Bench,
    name: String,
    first: String,
}

impl<'a> File<'a> {
    fn of(bench: &'a Bench, node: &str) -> Self {
        let name = format!("{node}.toml");
        let first = std::fs::read_to_string(bench.path(&name)).expect("the node has one");
        Self { bench, name, first }
    }

    /// Replaces the file by another one, as editors do.
    fn write(&self, text: &str) {
        let new = self.bench.write("new.toml", text);
        std::fs::rename(new, self.bench.path(&self.name)).expect("it is ours");
    }

    /// Writes the first version with these tables at its end.
    fn add(&self, tables: &str) {
        self.write(&format!("{}\n{tables}", self.first));
    }
}

fn forward(listen: SocketAddr, to: &str) -> String {
    format!("[[forward]]\nlisten = \"{listen}\"\npeer = \"bob\"\nto = \"{to}\"\n")
}

/// Reloads the settings of the node at this address.
fn reload(at: SocketAddr) -> Output {
    byway(&["reload", "--json", "--at", &at.to_string()])
}

/// Reloads the settings, and returns the node's answer.
fn reloaded(at: SocketAddr) -> serde_json::Value {
    let output = reload(at);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Sends SIGHUP to a node, and waits until its number of reloads is right.
fn hang_up(node: &Node, times: usize) {
    node.hang_up();
    node.wait_for(READ_AGAIN, times);
}

/// Returns the numbers of alice's flows.
fn flows(at: SocketAddr) -> Vec<serde_json::Value> {
    let mappings = status(at)["mappings"].clone();
    mappings.as_array().expect("a list").iter().map(|mapping| mapping["flow"].clone()).collect()
}

/// Starts the relays and both agents.
fn all(sites: &TwoSites) -> [Node; 4] {
    echo(sites.echo());
    [sites.relay(1), sites.relay(2), sites.bob(), sites.alice("caching")]
}

#[test]
fn a_flow_that_stays_loses_and_doubles_nothing_while_others_come_and_go() {
    let sites = TwoSites::new();
    let [_east, _west, bob, alice] = all(&sites);
    let (file, bobs) = (File::of(&sites.bench, "alice"), File::of(&sites.bench, "bob"));
    let (kept, passing) = (sites.forward(), sites.bench.at(11, 5_001));
    let stream = Stream::begin(sites.bench.at(11, 6_000), kept);
    let before = flows(sites.observe(11));
    for round in 0..5 {
        if round % 2 == 0 {
            // The unchanged forward moves to another position of the list.
            file.write(
                &file.first.replace("[[forward]]", &format!("{}[[forward]]", forward(passing, "more"))),
            );
            let more = format!("[[expose]]\nname = \"more\"\ntarget = \"{}\"\n", sites.echo());
            bobs.write(&bobs.first.replace("[[expose]]", &format!("{more}[[expose]]")));
        } else {
            file.add("");
            bobs.add("");
        }
        hang_up(&bob, round + 1);
        hang_up(&alice, round + 1);
        if round % 2 == 0 {
            App::at(sites.bench.at(11, 6_001)).call(passing);
        } else {
            UdpSocket::bind(passing).expect("the port of a forward that is gone is free");
        }
    }
    let after = flows(sites.observe(11));
    assert!(before.len() == 1 && after.contains(&before[0]), "{before:?}, then {after:?}");
    let exchanged = stream.end();
    assert!(exchanged > 1_000, "only {exchanged} datagrams were exchanged meanwhile");
}

#[test]
fn a_forward_that_changes_is_another_one_at_once() {
    let sites = TwoSites::new();
    let [_east, _west, _bob, _alice] = all(&sites);
    let file = File::of(&sites.bench, "alice");
    let app = App::at(sites.bench.at(11, 6_000));
    app.call(sites.forward());
    assert_eq!(status(sites.observe(11))["mappings"][0]["service"], "caching");
    file.write(&file.first.replace("\"caching\"", "\"forwarding\""));
    let answer = reloaded(sites.observe(11));
    assert_eq!(answer["changes"][0]["change"], "changed");
    assert_eq!(answer["changes"][0]["setting"], format!("forward {}", sites.forward()));
    app.call(sites.forward());
    assert_eq!(status(sites.observe(11))["mappings"][0]["service"], "forwarding");
}

#[test]
fn a_wrong_file_changes_nothing_and_says_why() {
    let sites = TwoSites::new();
    let [_east, _west, _bob, mut alice] = all(&sites);
    let file = File::of(&sites.bench, "alice");
    let observe = sites.observe(11);
    let stream = Stream::begin(sites.bench.at(11, 6_000), sites.forward());
    file.write("[agent]\nname = \"alice\"\ntitle = \"of an ar");
    alice.hang_up();
    alice.wait_for(SETTINGS_UNCHANGED, 1);
    let refused = reload(observe);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(
        message.contains("alice.toml:3") && message.contains("continues with its current settings"),
        "{message}"
    );
    // The file is valid, but this machine does not permit the change: another program has the port.
    let taken = UdpSocket::bind(sites.bench.at(11, 5_001)).expect("the port is free");
    let other = forward(sites.bench.at(11, 5_002), "echo");
    let gone = forward(sites.bench.at(11, 5_001), "echo");
    let kept =
        file.first.replace("[[forward]]", "[[expose]]\nname = \"x\"\ntarget = \"127.0.0.1:9\"\n[[forward]]");
    file.write(&format!("{kept}{other}{gone}"));
    let refused = reload(observe);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains(":5001 for a forward"), "{said}");
    assert_eq!(status(observe)["forwards"].as_array().map(Vec::len), Some(1));
    UdpSocket::bind(sites.bench.at(11, 5_002)).expect("none of it is in force");
    drop(taken);
    assert_eq!(reloaded(observe)["changes"].as_array().map(Vec::len), Some(3));
    assert!(stream.end() > 100);
    assert_eq!(alice.stop(), Some(0));
}

#[test]
fn a_port_moves_from_a_forward_to_a_wider_one() {
    let sites = TwoSites::new();
    let [_east, _west, _bob, _alice] = all(&sites);
    let file = File::of(&sites.bench, "alice");
    // While the first forward uses the port, no other one can bind it at all addresses.
    let port = sites.forward().port() + u16::from(sites.bench.host(1).octets()[2]) + 1_000;
    let narrow = SocketAddr::from((sites.bench.host(11), port));
    file.add(&forward(narrow, "echo"));
    reloaded(sites.observe(11));
    App::at(sites.bench.at(11, 6_000)).call(narrow);
    file.add(&forward(SocketAddr::from(([0, 0, 0, 0], port)), "echo"));
    let answer = reloaded(sites.observe(11));
    assert_eq!(answer["changes"].as_array().map(Vec::len), Some(2), "{answer}");
    App::at(sites.bench.at(11, 6_001)).call(narrow);
}

#[test]
fn what_waits_for_a_restart_is_named_and_the_rest_is_in_force() {
    let sites = TwoSites::new();
    let [_east, _west, _bob, alice] = all(&sites);
    let file = File::of(&sites.bench, "alice");
    let (listen, other) = (sites.bench.at(11, 4_600), sites.bench.at(11, 4_601));
    let changed = file.first.replace(&format!("listen = [\"{listen}\"]"), &format!("listen = [\"{other}\"]"));
    file.write(&format!("{changed}[log]\nlevel = \"error\"\n"));
    let answer = reloaded(sites.observe(11));
    assert_eq!(answer["needs_restart"], serde_json::json!(["agent.listen"]));
    assert_eq!(answer["changes"][0]["setting"], "log.level");
    assert_eq!((&answer["name"], &answer["unchanged"]), (&"alice".into(), &1.into()));
    App::at(sites.bench.at(11, 6_000)).call(sites.forward());
    // The text for readers repeats the pending changes, and has no others.
    let shown = byway(&["reload", "--at", &sites.observe(11).to_string()]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("changes: 0") && shown.contains("agent.listen takes effect"), "{shown}");
    assert!(!alice.log().contains(READ_AGAIN), "what is no error is not logged: {}", alice.log());
    file.write(&changed);
    reloaded(sites.observe(11));
    alice.wait_for(READ_AGAIN, 1);
}

#[test]
fn what_is_exposed_no_more_or_not_to_this_peer_is_closed() {
    let sites = TwoSites::new();
    let [_east, _west, _bob, _alice] = all(&sites);
    let file = File::of(&sites.bench, "bob");
    let app = App::at(sites.bench.at(11, 6_000));
    for closed in [file.first.replace("name = \"echo\"\n", "name = \"echo\"\npeers = [\"carol\"]\n"), {
        file.first.replace("name = \"echo\"\n", "name = \"other\"\n")
    }] {
        app.call(sites.forward());
        assert_eq!(status(sites.observe(12))["mappings"].as_array().map(Vec::len), Some(1));
        file.write(&closed);
        reloaded(sites.observe(12));
        assert_eq!(status(sites.observe(12))["mappings"].as_array().map(Vec::len), Some(0));
        file.add("");
        reloaded(sites.observe(12));
    }
}

#[test]
fn a_relay_and_a_controller_outlive_sighup_and_an_uplink_comes_changes_and_goes() {
    let (managed, mut controller) = ManagedNetwork::new();
    echo(managed.echo());
    let (mut east, _west) = (managed.relay(1), managed.relay(2));
    let (_bob, _alice) = (managed.bob(), managed.alice("forwarding"));
    let file = File::of(&managed.bench, "east");
    let app = App::at(managed.bench.at(11, 6_000));
    app.call(managed.forward());
    let rate = |at| status(at)["uplink"]["rate_bits_per_second"].as_u64();
    for (times, (megabits, expected)) in
        [(Some(400), Some(400_000_000)), (Some(300), Some(300_000_000)), (None, None)].into_iter().enumerate()
    {
        let uplink = megabits.map(|rate| format!("[uplink]\nrate = \"{rate} Mbit/s\"\n"));
        file.add(&uplink.unwrap_or_default());
        hang_up(&east, times + 1);
        let until = Instant::now() + TIMEOUT;
        while rate(managed.observe(1)) != expected {
            assert!(Instant::now() < until, "{:?}, not {expected:?}", rate(managed.observe(1)));
        }
        // A datagram that waits longer than its latency budget is late; a test in virtual time
        // shows that the relay loses none.
        app.call(managed.forward());
    }
    let file = File::of(&managed.bench, "controller");
    file.add("[log]\nlevel = \"warn\"\n");
    controller.hang_up();
    let until = Instant::now() + TIMEOUT;
    while !reloaded(managed.observe(9))["changes"].as_array().is_some_and(Vec::is_empty) {
        assert!(Instant::now() < until, "the level changes for ever");
    }
    assert_eq!((east.stop(), controller.stop()), (Some(0), Some(0)));
}

#[test]
fn tenants_that_share_coding_change_by_a_reload_and_an_unknown_one_changes_nothing() {
    let (managed, mut controller) = ManagedNetwork::new();
    let file = File::of(&managed.bench, "controller");
    let write = |tenants: &str| {
        let setting = format!("[controller]\nshared_coding = [{tenants}]\n");
        file.write(&file.first.replace("[controller]\n", &setting));
    };
    write("\"default\"");
    assert_eq!(
        reloaded(managed.observe(9))["changes"],
        serde_json::json!([{ "change": "changed", "setting": "controller.shared_coding" }])
    );
    write("\"default\", \"nobody\"");
    let refused = reload(managed.observe(9));
    let error = text(&refused.stderr);
    assert!(!refused.status.success() && error.contains("controller.shared_coding[1]: tenant"), "{error}");
    assert!(error.contains("byway token create --role agent --tenant nobody"), "{error}");
    assert_eq!(controller.stop(), Some(0));
    // A controller does not start with a tenant that it does not know.
    let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
    command.args(["controller", "--config", path(&managed.bench.path("controller.toml"))]);
    let started = command.env("STATE_DIRECTORY", managed.bench.path("controller")).output();
    let started = started.expect("the program is there");
    assert!(!started.status.success(), "{}", text(&started.stdout));
    assert!(text(&started.stderr).contains("controller.shared_coding[1]"), "{}", text(&started.stderr));
}

#[test]
fn an_agent_with_a_controller_reads_its_settings_again() {
    let (managed, _controller) = ManagedNetwork::new();
    echo(managed.echo());
    let _relays = [managed.relay(1), managed.relay(2)];
    let _bob = managed.bob();
    // The peer of its forward is named later, and before that the agent has no pair.
    let alice = managed.alice("caching");
    let file = File::of(&managed.bench, "alice");
    let (own, _) = file.first.split_once("[[forward]]").expect("it has one");
    let (_, observe) = file.first.split_once("[observe]").expect("it has one");
    file.write(&format!("{own}[observe]{observe}"));
    hang_up(&alice, 1);
    let added = managed.bench.at(11, 5_001);
    file.write(&format!("{own}[observe]{observe}{}", forward(added, "echo")));
    hang_up(&alice, 2);
    App::at(managed.bench.at(11, 6_000)).call(added);
    UdpSocket::bind(managed.forward()).expect("the port of the first one is free");
}

#[test]
fn only_a_command_of_this_machine_reloads() {
    let sites = TwoSites::new();
    let [_east, _west, _bob, alice] = all(&sites);
    let observe = sites.observe(11);
    let mut stream = TcpStream::connect(observe).expect("it answers");
    write!(stream, "POST /v1/reload HTTP/1.1\r\nHost: {observe}\r\nConnection: close\r\n\r\n")
        .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(!alice.log().contains(READ_AGAIN), "{}", alice.log());
    let nobody = reload(sites.bench.at(1, 4_699));
    assert_eq!(nobody.status.code(), Some(4), "{}", text(&nobody.stderr));
}

/// Variables that Kubernetes sets in each container next to services named byway-relay and byway.
const ORCHESTRATOR: [(&str, &str); 6] = [
    ("BYWAY_RELAY_PORT", "tcp://10.0.0.1:4600"),
    ("BYWAY_RELAY_PORT_4600_UDP", "udp://10.0.0.1:4600"),
    ("BYWAY_RELAY_PORT_4600_UDP_ADDR", "10.0.0.1"),
    ("BYWAY_RELAY_SERVICE_HOST", "10.0.0.1"),
    ("BYWAY_SERVICE_PORT", "4600"),
    ("BYWAY_PORT", "udp://10.0.0.1:4600"),
];

#[test]
fn variables_of_an_orchestrator_stop_nothing_and_are_a_warning() {
    let sites = TwoSites::new();
    let relay = sites.relay(1);
    let file = sites.bench.path("east.toml");
    let at = sites.observe(1).to_string();
    for arguments in [
        &["config", "check", path(&file)][..],
        &["config", "reference"],
        &["status", "--at", &at],
        &["reload", "--at", &at],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        let output = command.args(arguments).envs(ORCHESTRATOR).output().expect("the program runs");
        let log = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {log}");
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(
            log.starts_with("warning: ") && ORCHESTRATOR.iter().all(|(name, _)| log.contains(name)),
            "{log}"
        );
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
    command.args(["relay", "--log-format", "json", "--config", path(&file)]).envs(ORCHESTRATOR);
    drop(relay);
    let relay = sites.bench.spawn_command("again", command);
    relay.wait_until_ready();
    let log = relay.log();
    assert_eq!(log.matches("BYWAY_RELAY_PORT_4600_UDP_ADDR").count(), 1, "{log}");
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}
