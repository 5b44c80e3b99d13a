//! DNS names of relays and targets, resolved from `/etc/hosts` of each machine, which changes
//! during the test.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, sockets and clocks"
)]

mod namespaces;
mod support;

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use namespaces::Network;
use support::{Bench, Node, TIMEOUT, path, text};

/// Site with two agents and a relay known by its name `relay.test`, on machines of one network.
struct NamedRelaySite {
    bench: Bench,
    network: Network,
    tables: String,
}

/// The hosts of a [`NamedRelaySite`]: the relay 10, alice 11, bob 12, and a spare machine 13.
impl NamedRelaySite {
    fn new() -> Option<Self> {
        let (bench, mut network) = (Bench::new(), Network::new()?);
        for (machine, host) in [("relay", 10), ("alice", 11), ("bob", 12), ("spare", 13)] {
            network.add(machine, host);
            network.write_setting(machine, "hosts", "127.0.0.1 localhost\n");
            network.write_setting(machine, "resolv.conf", "");
        }
        let mut tables = format!(
            "[[network.relays]]\nname = \"relay\"\nnumber = 1\nkey = \"{}\"\naddresses = [\"relay.test:4600\"]\n",
            bench.key("relay")
        );
        for (number, agent) in [(1, "alice"), (2, "bob")] {
            let key = bench.key(agent);
            let _ = write!(
                tables,
                "[[network.agents]]\nname = \"{agent}\"\nnumber = {number}\nkey = \"{key}\"\nrelays = [\"relay\"]\n"
            );
        }
        tables += "[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n";
        Some(Self { bench, network, tables })
    }

    /// Sets the address of `relay.test` on these machines, or removes it.
    fn relay_is_at(&self, machines: &[&str], address: Option<&str>) {
        let entry = address.map(|address| format!("{address} relay.test\n")).unwrap_or_default();
        for machine in machines {
            self.network.write_setting(machine, "hosts", &format!("127.0.0.1 localhost\n{entry}"));
        }
    }

    fn start(&self, machine: &str, role: &str, name: &str, rest: &str) -> Node {
        let key = self.bench.path(&format!("{name}.key"));
        let text =
            format!("[{role}]\nname = \"{name}\"\nkey_file = \"{}\"\n{rest}\n{}", key.display(), self.tables);
        let file = self.bench.write(&format!("{machine}.toml"), &text);
        let command = self.network.byway(machine, &[role, "--config", path(&file)]);
        let node = self.bench.spawn_command(machine, command);
        node.wait_until_ready();
        node
    }

    fn start_agents(&self, target: &str) -> [Node; 2] {
        let expose = format!("[[expose]]\nname = \"echo\"\ntarget = \"{target}\"\n");
        let forward = "[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"bob\"\nto = \"echo\"\nservice = \"caching\"\n";
        [self.start("bob", "agent", "bob", &expose), self.start("alice", "agent", "alice", forward)]
    }

    fn status(&self, machine: &str) -> serde_json::Value {
        let output = self.network.byway(machine, &["status", "--json"]).output().expect("the program runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn is_relay_alive(&self, machine: &str) -> bool {
        self.status(machine)["relays"][0]["is_alive"] == true
    }

    fn application(&self) -> UdpSocket {
        self.network.run("alice", || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.connect("127.0.0.1:5000").expect("there is a route");
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
            socket
        })
    }
}

/// Sends requests until an answer satisfies the condition.
fn ask_until(socket: &UdpSocket, mut is_so: impl FnMut(&[u8]) -> bool) {
    let (begun, mut buffer) = (Instant::now(), [0; 64]);
    loop {
        // The target may not listen yet.
        let _ = socket.send(b"question");
        let length = socket.recv(&mut buffer).unwrap_or(0);
        if is_so(&buffer[..length]) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "it does not come to that");
    }
}

/// Starts a target that answers with one word.
fn answer(network: &Network, address: &str, word: &'static str) {
    let socket = network.run("bob", || UdpSocket::bind(address).expect("the address is free"));
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(word.as_bytes(), from);
        }
    });
}

#[test]
fn a_relay_that_moves_is_found_by_its_name_without_a_restart() {
    let Some(site) = NamedRelaySite::new() else { return };
    site.relay_is_at(&["relay", "alice", "bob", "spare"], Some("198.51.100.10"));
    let mut relay = site.start("relay", "relay", "relay", "");
    let _agents = site.start_agents("127.0.0.1:7");
    answer(&site.network, "127.0.0.1:7", "here");
    let application = site.application();
    ask_until(&application, |answer| {
        answer == b"here" && site.is_relay_alive("alice") && site.is_relay_alive("bob")
    });
    relay.kill();
    ask_until(&application, |_| !site.is_relay_alive("alice") && !site.is_relay_alive("bob"));
    let _spare = site.start("spare", "relay", "relay", "");
    site.relay_is_at(&["alice", "bob"], Some("198.51.100.13"));
    ask_until(&application, |answer| {
        answer == b"here" && site.is_relay_alive("alice") && site.is_relay_alive("bob")
    });
}

#[test]
fn a_name_that_does_not_resolve_is_a_warning_with_the_remedy_and_is_tried_again() {
    let Some(site) = NamedRelaySite::new() else { return };
    site.relay_is_at(&["relay", "bob"], Some("198.51.100.10"));
    let _relay = site.start("relay", "relay", "relay", "");
    let agents = site.start_agents("127.0.0.1:7");
    answer(&site.network, "127.0.0.1:7", "here");
    agents[1].wait_for("cannot resolve \"relay.test\"", 1);
    let problem = site.status("alice")["unresolved"][0].as_str().unwrap_or_default().to_owned();
    assert!(problem.contains("relay.test") && problem.contains("getent hosts"), "{problem}");
    site.relay_is_at(&["alice"], Some("198.51.100.10"));
    let application = site.application();
    ask_until(&application, |answer| answer == b"here" && site.is_relay_alive("alice"));
    assert!(site.status("alice").get("unresolved").is_none());
    // If the name no longer resolves, the last address remains in use.
    site.relay_is_at(&["alice"], None);
    agents[1].hang_up();
    agents[1].wait_for("using its last addresses (198.51.100.10)", 1);
    ask_until(&application, |answer| answer == b"here");
    assert!(site.is_relay_alive("alice"));
}

#[test]
fn a_target_that_moves_is_found_by_its_name() {
    let Some(site) = NamedRelaySite::new() else { return };
    site.relay_is_at(&["relay", "alice"], Some("198.51.100.10"));
    let hosts = |target| format!("198.51.100.10 relay.test\n{target} target.test\n");
    site.network.write_setting("bob", "hosts", &hosts("127.0.0.8"));
    let _relay = site.start("relay", "relay", "relay", "");
    let agents = site.start_agents("target.test:7");
    answer(&site.network, "127.0.0.9:7", "there");
    let application = site.application();
    let first = site.network.run("bob", || UdpSocket::bind("127.0.0.8:7").expect("the address is free"));
    first.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut buffer = [0; 64];
    application.send(b"question").expect("it leaves");
    let (_, from) = first.recv_from(&mut buffer).expect("the target is asked");
    first.send_to(b"here", from).expect("it leaves");
    ask_until(&application, |answer| answer == b"here");
    drop(first);
    site.network.write_setting("bob", "hosts", &hosts("127.0.0.9"));
    // Names are resolved regularly, and at once after a reload.
    agents[0].hang_up();
    ask_until(&application, |answer| answer == b"there");
}

#[test]
fn a_check_accepts_names_and_says_what_they_resolve_to_if_that_is_asked() {
    let Some(site) = NamedRelaySite::new() else { return };
    site.relay_is_at(&["alice"], Some("198.51.100.10"));
    let rest = "[[expose]]\nname = \"echo\"\ntarget = \"no-such.test:7\"\n";
    let file = site.bench.write("alice.toml", &format!("[agent]\nname = \"alice\"\n{rest}\n{}", site.tables));
    let printed = |arguments: &[&str]| {
        let output = site.network.byway("alice", arguments).output().expect("the program runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let silent = printed(&["config", "check", path(&file)]);
    assert!(silent.contains("valid for agent") && !silent.contains("198.51.100.10"), "{silent}");
    let resolved = printed(&["config", "check", "--resolve", path(&file)]);
    assert!(resolved.contains("relay.test: 198.51.100.10"), "{resolved}");
    assert!(resolved.contains("no-such.test: cannot resolve"), "{resolved}");
}
