//! Reduction of the path MTU during traffic: at a router's link, with ICMP and without, and at the
//! machine's own interface. Plain UDP, which is fragmented, is the control.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use clocks and sockets"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped, and what was measured")]

mod counters;
mod sites;

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use sites::{Stream, TIMEOUT, key};

/// Bytes of datagrams that exceed the narrow link's MTU, and this MTU.
const LONG_BYTES: usize = 1_350;
const NARROW: &str = "1300";

/// Longest time of losses after the path MTU shrinks: two round trips, which are short here, and
/// 100 ms. The limit is twice that, because the machine may be busy.
const DETECTED: Duration = Duration::from_millis(200);

/// Part of the path whose MTU shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MtuReduction {
    /// The router's link to bob; the router sends ICMP.
    Router,
    /// The router's link to bob, with ICMP filtered.
    SilentRouter,
    /// Alice's own interface.
    Interface,
}

const ALICE: usize = 0;
const ROUTER: usize = 1;
const BOB: usize = 2;
const NAMES: [&str; 3] = ["alice", "router", "bob"];
const ADDRESSES: [&str; 3] = ["10.81.1.2", "10.81.1.1", "10.81.2.2"];

/// Three machines in a row, with the relay on the middle one.
struct Row {
    folder: tempfile::TempDir,
    nodes: Vec<Child>,
}

/// Returns the name of a machine's namespace, unique among concurrent tests.
fn namespace(index: usize, narrowing: MtuReduction) -> String {
    format!("byway-{}-{narrowing:?}-{}", NAMES[index], std::process::id()).to_lowercase()
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs a command in a machine.
fn run_in(namespace: &str, command: &str) -> bool {
    ip(&format!("netns exec {namespace} {command}"))
}

/// Opens a socket of a machine.
fn bind_in(namespace: &str, address: SocketAddr) -> UdpSocket {
    let file = File::open(format!("/run/netns/{namespace}")).expect("the namespace is there");
    let bind = move || {
        setns(file, CloneFlags::CLONE_NEWNET).expect("root may enter it");
        UdpSocket::bind(address).expect("the port is free")
    };
    std::thread::spawn(bind).join().expect("the socket is bound")
}

/// Makes the machines; false if the system lacks namespaces or a firewall.
fn make_machines(names: &[String]) -> bool {
    let [alice, router, bob] = names else { return false };
    let set_up = [
        format!("-n {alice} link add a0 type veth peer name ra netns {router}"),
        format!("-n {bob} link add b0 type veth peer name rb netns {router}"),
        format!("-n {alice} addr add 10.81.1.2/24 dev a0"),
        format!("-n {router} addr add 10.81.1.1/24 dev ra"),
        format!("-n {router} addr add 10.81.2.1/24 dev rb"),
        format!("-n {bob} addr add 10.81.2.2/24 dev b0"),
    ];
    let links = [(alice, "a0"), (router, "ra"), (router, "rb"), (bob, "b0")];
    let ups = names.iter().map(|name| (name, "lo")).chain(links);
    names.iter().all(|name| ip(&format!("netns add {name}")))
        && set_up.iter().all(|arguments| ip(arguments))
        && ups.into_iter().all(|(name, device)| ip(&format!("-n {name} link set {device} up")))
        && ip(&format!("-n {alice} route add default via 10.81.1.1"))
        && ip(&format!("-n {bob} route add default via 10.81.2.1"))
        && run_in(router, "sysctl -qw net.ipv4.ip_forward=1")
        // Plain UDP is fragmented by the first node whose link is too narrow.
        && run_in(alice, "sysctl -qw net.ipv4.ip_no_pmtu_disc=1")
}

impl Row {
    fn start(narrowing: MtuReduction, names: &[String]) -> Self {
        let mut row = Self { folder: tempfile::tempdir().expect("a folder"), nodes: Vec::new() };
        row.write_files();
        for index in [ROUTER, BOB, ALICE] {
            let role = if index == ROUTER { "relay" } else { "agent" };
            let log = File::create(row.file(index, "log")).expect("space on the disk");
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &names[index], env!("CARGO_BIN_EXE_byway"), role, "--config"]);
            command.arg(row.file(index, "toml")).stdin(Stdio::null());
            command.stdout(log.try_clone().expect("a file")).stderr(log);
            row.nodes.push(command.spawn().unwrap_or_else(|error| panic!("{narrowing:?}: {error}")));
        }
        row
    }

    fn file(&self, index: usize, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("{}.{suffix}", NAMES[index]))
    }

    fn write_files(&self) {
        let keys = NAMES.map(|name| key(&self.folder.path().join(name)));
        let node = |index: usize| {
            let (name, key, address) = (NAMES[index], &keys[index], ADDRESSES[index]);
            let near = if index == ROUTER { "" } else { "relays = [\"router\"]\n" };
            let (table, number) = if index == ROUTER { ("relays", 1) } else { ("agents", index + 1) };
            format!(
                "[[network.{table}]]\nname = \"{name}\"\nnumber = {number}\nkey = \"{key}\"\n\
                 addresses = [\"{address}:4600\"]\n{near}"
            )
        };
        let network = format!(
            "{}{}{}[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n",
            node(ALICE),
            node(ROUTER),
            node(BOB)
        );
        let forwards = "[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"bob\"\nto = \"direct\"\nservice = \"internet\"\n\
             [[forward]]\nlisten = \"127.0.0.1:5001\"\npeer = \"bob\"\nto = \"relayed\"\nservice = \"forwarding\"\n";
        let exposes = "[[expose]]\nname = \"direct\"\ntarget = \"127.0.0.1:7\"\n\
             [[expose]]\nname = \"relayed\"\ntarget = \"127.0.0.1:8\"\n";
        for index in [ALICE, ROUTER, BOB] {
            let (role, tables) = [("agent", forwards), ("relay", ""), ("agent", exposes)][index];
            let (name, address) = (NAMES[index], ADDRESSES[index]);
            let state = self.folder.path().join(name);
            let text = format!(
                "[{role}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = [\"{address}:4600\"]\n{tables}\
                 [observe]\nlisten = \"127.0.0.1:4680\"\n{network}",
                state.display()
            );
            std::fs::write(self.file(index, "toml"), text).expect("space on the disk");
        }
    }

    /// Returns the status of a node; null before it answers.
    fn status(names: &[String], index: usize) -> serde_json::Value {
        let arguments = ["netns", "exec", &names[index], env!("CARGO_BIN_EXE_byway"), "status", "--json"];
        let output = Command::new("ip").args(arguments).output().expect("it starts");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn logs(&self) -> String {
        let log = |index| std::fs::read_to_string(self.file(index, "log")).unwrap_or_default();
        [ALICE, ROUTER, BOB].map(log).join("\n")
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }
}

/// Guard that removes the namespaces at the end of the test.
struct Namespaces(Vec<String>);

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            ip(&format!("netns del {name}"));
        }
    }
}

/// Narrows the path during a call, and checks that the call continues as plain UDP does.
fn narrow(narrowing: MtuReduction) {
    let names = Namespaces([ALICE, ROUTER, BOB].map(|index| namespace(index, narrowing)).to_vec());
    let is_filtered = narrowing == MtuReduction::SilentRouter;
    let has_filter = !is_filtered || Command::new("iptables").arg("--version").output().is_ok();
    if !has_filter || !make_machines(&names.0) {
        eprintln!("skipped: the system makes no machines, or has no iptables");
        return;
    }
    let [alice, router, bob] = &names.0[..] else { unreachable!("there are three") };
    if is_filtered {
        assert!(run_in(router, "iptables -A OUTPUT -p icmp -j DROP"), "ICMP is filtered");
    }
    let row = Row::start(narrowing, &names.0);
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let until = Instant::now() + TIMEOUT;
    while !Row::status(&names.0, ALICE).is_object() {
        assert!(Instant::now() < until, "alice does not run: {}", row.logs());
        std::thread::sleep(Duration::from_millis(20));
    }
    let stream = |from: u16, to: SocketAddr, at: SocketAddr| {
        let (sender, receiver) = (bind_in(alice, SocketAddr::from(([0; 4], from))), bind_in(bob, at));
        Stream::begin(sender, to, receiver, LONG_BYTES)
    };
    let bobs = SocketAddr::from(([10, 81, 2, 2], 9));
    let streams = [
        ("direct", stream(5_100, local(5_000), local(7))),
        ("relayed", stream(5_101, local(5_001), local(8))),
        ("plain", stream(5_102, bobs, bobs)),
    ];
    // In this time all path MTUs are discovered.
    std::thread::sleep(Duration::from_secs(4));
    let settled =
        Instant::now().checked_sub(Duration::from_secs(1)).expect("the machine has run for a second");
    let narrowed = Instant::now();
    let is_narrow = match narrowing {
        MtuReduction::Router | MtuReduction::SilentRouter => {
            ip(&format!("-n {router} link set rb mtu {NARROW}"))
        }
        MtuReduction::Interface => ip(&format!("-n {alice} link set a0 mtu {NARROW}")),
    };
    assert!(is_narrow, "the MTU is set");
    std::thread::sleep(Duration::from_secs(3));
    let (alices, bobs) = (Row::status(&names.0, ALICE), Row::status(&names.0, BOB));
    let fates = streams.map(|(context, stream)| (context, stream.finish()));
    let end = Instant::now();
    for (context, fate) in &fates {
        let meanwhile = fate.missing(narrowed, narrowed + DETECTED);
        let (before, after) = (fate.missing(settled, narrowed), fate.missing(narrowed + DETECTED, end));
        let last = fate.last_missing(narrowed, end).map(|sent| sent - narrowed);
        eprintln!(
            "{narrowing:?}, {context}: {before} missing before, {meanwhile} meanwhile, {after} after; last {last:?}"
        );
        assert_eq!(before, 0, "{context}: the path is sound before: {}", row.logs());
        assert_eq!(
            after, 0,
            "{narrowing:?}, {context}: the last one missing was sent {last:?} after: {alices}"
        );
        assert!(
            meanwhile <= 4,
            "{narrowing:?}, {context}: those in time are sent again: {meanwhile}, {alices}"
        );
        assert_eq!(fate.twice(), 0, "{context}: a packet arrived twice");
    }
    assert!(
        counters::counter(&alices, "counters", "datagrams_split_again") > 0,
        "they were sent whole before: {alices}"
    );
    let lost = bobs["totals"][0]["received"]["lost_direct"].as_u64();
    assert!(narrowing == MtuReduction::Interface || lost > Some(0), "losses are counted: {bobs}");
}

#[test]
fn a_call_goes_on_when_a_router_says_that_packets_are_too_long() {
    narrow(MtuReduction::Router);
}

#[test]
fn a_call_goes_on_when_a_router_drops_long_packets_in_silence() {
    narrow(MtuReduction::SilentRouter);
}

#[test]
fn a_call_goes_on_when_the_interface_refuses_long_packets() {
    narrow(MtuReduction::Interface);
}
