//! Machines with several addresses: the answer has the address to which the request was sent.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, sockets and clocks"
)]

mod counters;
mod namespaces;
mod support;

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use namespaces::Network;
use support::{Bench, Node, TIMEOUT, path, text};

/// Site with two agents and a relay, each a machine of one network.
struct Site {
    bench: Bench,
    network: Network,
    /// The tables of `[network]`.
    tables: String,
}

/// The hosts of a [`Site`]: the relay 10, alice 11, bob 12.
impl Site {
    /// Makes the machines, with the relay known at `address`. If `has_nats`, each agent is behind a
    /// NAT.
    fn new(address: &str, has_nats: bool) -> Option<Self> {
        let (bench, mut network) = (Bench::new(), Network::new()?);
        network.add("relay", 10);
        for (agent, host) in [("alice", 11), ("bob", 12)] {
            if has_nats {
                network.add_behind_nat(agent, host);
            } else {
                network.add(agent, host);
            }
        }
        let mut tables = format!(
            "[[network.relays]]\nname = \"relay\"\nnumber = 1\nkey = \"{}\"\naddresses = [\"{address}\"]\n",
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

    fn start(&self, role: &str, name: &str, rest: &str) -> Node {
        self.start_at(name, role, name, rest)
    }

    /// Starts a node on a machine.
    fn start_at(&self, machine: &str, role: &str, name: &str, rest: &str) -> Node {
        let key = self.bench.path(&format!("{name}.key"));
        let text =
            format!("[{role}]\nname = \"{name}\"\nkey_file = \"{}\"\n{rest}\n{}", key.display(), self.tables);
        let file = self.bench.write(&format!("{machine}.toml"), &text);
        let command = self.network.byway(machine, &[role, "--config", path(&file)]);
        let node = self.bench.spawn_command(machine, command);
        node.wait_until_ready();
        node
    }

    /// Starts all nodes; alice's forwards listen on all addresses, and bob exposes an echo.
    fn start_all(&self) -> [Node; 3] {
        let nodes = self.start_all_with("127.0.0.1:7");
        self.network.run("bob", || support::echo("127.0.0.1:7".parse().expect("an address")));
        nodes
    }

    /// Starts all nodes with another target.
    fn start_all_with(&self, target: &str) -> [Node; 3] {
        let forward = |listen| format!("[[forward]]\nlisten = \"{listen}\"\npeer = \"bob\"\nto = \"echo\"\n");
        let forwards = forward("0.0.0.0:5000") + &forward("[::]:5000");
        let expose = format!("[[expose]]\nname = \"echo\"\ntarget = \"{target}\"\n");
        [
            self.start("relay", "relay", ""),
            self.start("agent", "bob", &expose),
            self.start("agent", "alice", &forwards),
        ]
    }

    fn status(&self, machine: &str) -> serde_json::Value {
        let output = self.network.byway(machine, &["status", "--json"]).output().expect("the program runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Returns a node's counter of this name.
    fn counter(&self, machine: &str, name: &str) -> u64 {
        counters::counter(&self.status(machine), "counters", name)
    }

    /// Starts to count a machine's outgoing UDP packets with this source address and port.
    fn count_leaving(&self, machine: &str, from: &str, port: u16) {
        let tables = if from.contains(':') { "ip6tables" } else { "iptables" };
        self.network.shell(machine, &format!("{tables} -A OUTPUT -p udp -s {from} --sport {port}"));
    }

    /// Returns the number of packets counted so far.
    fn left(&self, machine: &str, from: &str) -> u64 {
        let tables = if from.contains(':') { "ip6tables" } else { "iptables" };
        let list = self.network.shell(machine, &format!("{tables} -L OUTPUT -nvx"));
        let is_it = |line: &&str| line.split_whitespace().any(|word| word.split('/').next() == Some(from));
        let line = list.lines().find(is_it).expect("the rule is there");
        line.split_whitespace().next().and_then(|count| count.parse().ok()).expect("a count")
    }
}

/// Sends requests until an answer arrives, and returns it.
fn ask(socket: &UdpSocket) -> Vec<u8> {
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let (begun, mut buffer) = (Instant::now(), [0; 2_048]);
    loop {
        // The target may not listen yet.
        let _ = socket.send(b"question");
        if let Ok(length) = socket.recv(&mut buffer) {
            return buffer[..length].to_vec();
        }
        assert!(begun.elapsed() < TIMEOUT, "{:?} does not answer", socket.peer_addr());
    }
}

/// Opens a socket of a machine that receives only from this address.
fn connected(network: &Network, machine: &str, to: &str) -> UdpSocket {
    let to: SocketAddr = to.parse().expect("an address");
    network.run(machine, || {
        let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).expect("a port");
        socket.connect(to).expect("there is a route");
        socket
    })
}

#[test]
fn a_relay_on_all_addresses_serves_agents_behind_nats_at_its_second_address() {
    let Some(site) = Site::new("198.51.100.20:4600", true) else { return };
    site.network.shell("relay", "ip address add 198.51.100.20/24 dev eth0");
    for address in ["198.51.100.10", "198.51.100.20"] {
        site.count_leaving("relay", address, 4_600);
    }
    let _nodes = site.start_all();
    let client = connected(&site.network, "alice", "127.0.0.1:5000");
    assert_eq!(ask(&client), b"question");
    assert!(site.left("relay", "198.51.100.20") > 0);
    assert_eq!(site.left("relay", "198.51.100.10"), 0, "nobody asked there");
}

#[test]
fn a_relay_on_all_addresses_answers_from_its_second_one_of_ipv6() {
    let Some(site) = Site::new("[2001:db8::20]:4600", false) else { return };
    site.network.shell(
        "relay",
        "ip address add 2001:db8::20/128 dev lo; ip address add 2001:db8::21/64 dev eth0 nodad",
    );
    site.network.shell("alice", "ip route add 2001:db8::20/128 via 2001:db8::10");
    site.network.shell("bob", "ip route add 2001:db8::20/128 via 2001:db8::10");
    for address in ["2001:db8::10", "2001:db8::20", "2001:db8::21"] {
        site.count_leaving("relay", address, 4_600);
    }
    let _nodes = site.start_all();
    assert_eq!(ask(&connected(&site.network, "alice", "[::1]:5000")), b"question");
    let left = ["2001:db8::10", "2001:db8::20", "2001:db8::21"].map(|from| site.left("relay", from));
    assert!(left[1] > 0 && left[0] == 0 && left[2] == 0, "{left:?}");
}

#[test]
fn forwards_on_all_addresses_answer_clients_from_the_one_that_each_asked() {
    let Some(site) = Site::new("198.51.100.10:4600", false) else { return };
    site.network.shell(
        "alice",
        "ip address add 198.51.100.111/24 dev eth0; ip address add 2001:db8::111/64 dev eth0 nodad
         ip address add 203.0.113.9/32 dev lo",
    );
    site.network.shell("relay", "ip route add 203.0.113.9/32 via 198.51.100.11");
    let _nodes = site.start_all();
    for to in [
        "198.51.100.11:5000",
        "198.51.100.111:5000",
        "203.0.113.9:5000",
        "[2001:db8::11]:5000",
        "[2001:db8::111]:5000",
    ] {
        assert_eq!(ask(&connected(&site.network, "relay", to)), b"question", "{to}");
    }
    for to in ["127.0.0.1:5000", "127.0.0.9:5000", "198.51.100.111:5000", "[2001:db8::111]:5000"] {
        assert_eq!(ask(&connected(&site.network, "alice", to)), b"question", "{to} from the machine itself");
    }
    assert_eq!(site.counter("alice", "socket_sources_unavailable"), 0);
}

/// Number of answers to each datagram, 5 ms apart; the client moves to another address meanwhile.
const ANSWERS: u16 = 200;

fn answer_often(network: &Network) {
    let socket = network.run("bob", || UdpSocket::bind("127.0.0.1:9").expect("the port is free"));
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            for number in 0..ANSWERS {
                let _ = socket.send_to(&number.to_be_bytes(), from);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
}

#[test]
fn answers_leave_from_another_address_as_soon_as_the_one_that_was_asked_is_gone() {
    let Some(site) = Site::new("198.51.100.10:4600", false) else { return };
    let second = "198.51.100.111/24 dev eth0";
    site.network.shell("alice", &format!("ip address add {second}"));
    let _nodes = site.start_all_with("127.0.0.1:9");
    answer_often(&site.network);
    let client = site.network.run("relay", || UdpSocket::bind(("198.51.100.10", 0)).expect("a port"));
    client.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut sources = Vec::new();
    for round in 0..2 {
        client.send_to(b"question", "198.51.100.111:5000").expect("it leaves");
        for number in 0..ANSWERS {
            let mut buffer = [0; 64];
            let (length, from) = client.recv_from(&mut buffer).expect("all answers come");
            assert_eq!(buffer[..length], number.to_be_bytes(), "nothing is lost");
            sources.push(from.to_string());
            if (round, number) == (0, ANSWERS / 2) {
                site.network.shell("alice", &format!("ip address del {second}"));
            }
        }
        assert_eq!(site.counter("alice", "socket_sources_unavailable"), 1);
        if round == 0 {
            site.network.shell("alice", &format!("ip address add {second}"));
        }
    }
    sources.dedup();
    assert_eq!(sources, ["198.51.100.111:5000", "198.51.100.11:5000", "198.51.100.111:5000"]);
}

#[test]
fn a_relays_address_that_moves_to_another_machine_takes_its_agents_along() {
    let Some(mut site) = Site::new("198.51.100.20:4600", true) else { return };
    site.network.add("spare", 13);
    let floating = "ip address add 198.51.100.20/24 dev eth0";
    site.network.shell("relay", floating);
    let _nodes = site.start_all();
    let client = connected(&site.network, "alice", "127.0.0.1:5000");
    assert_eq!(ask(&client), b"question");
    // A relay with the same key waits at the address's next machine.
    let _spare = site.start_at("spare", "relay", "relay", "");
    site.network.shell("relay", "ip address del 198.51.100.20/24 dev eth0");
    site.network.shell("spare", floating);
    for machine in ["alice-nat", "bob-nat"] {
        site.network.shell(machine, "ip neighbour flush all");
    }
    site.count_leaving("spare", "198.51.100.20", 4_600);
    let begun = Instant::now();
    while site.left("spare", "198.51.100.20") < 100 {
        assert_eq!(ask(&client), b"question");
        assert!(begun.elapsed() < TIMEOUT, "the agents do not come along");
    }
}

#[test]
fn an_agent_on_all_addresses_answers_peers_behind_nats_at_its_second_address() {
    let Some(mut site) = Site::new("198.51.100.10:4600", true) else { return };
    site.network.add("carol", 13);
    site.network.shell("carol", "ip address add 198.51.100.113/24 dev eth0");
    let entry = |name: &str, number: u32, rest: &str| {
        let key = site.bench.key(name);
        format!("[[network.agents]]\nname = \"{name}\"\nnumber = {number}\nkey = \"{key}\"\n{rest}")
    };
    // No relay introduces the two to each other, so alice must reach carol at this address.
    let carol = entry("carol", 3, "addresses = [\"198.51.100.113:4610\"]\n");
    let dave = entry("dave", 4, "");
    site.tables = format!("{carol}{dave}[[network.pairs]]\nagents = [\"dave\", \"carol\"]\n");
    for address in ["198.51.100.13", "198.51.100.113"] {
        site.count_leaving("carol", address, 4_610);
    }
    let listen = "listen = [\"0.0.0.0:4610\"]\n";
    let expose = "[[expose]]\nname = \"echo\"\ntarget = \"127.0.0.1:7\"\n";
    let forward =
        "[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"carol\"\nto = \"echo\"\nservice = \"internet\"\n";
    site.network.run("carol", || support::echo("127.0.0.1:7".parse().expect("an address")));
    let _agents = [
        site.start("agent", "carol", &format!("{listen}{expose}")),
        site.start_at("alice", "agent", "dave", forward),
    ];
    assert_eq!(ask(&connected(&site.network, "alice", "127.0.0.1:5000")), b"question");
    assert!(site.left("carol", "198.51.100.113") > 0);
    assert_eq!(site.left("carol", "198.51.100.13"), 0, "nobody asked there");
}

#[test]
fn a_session_follows_the_route_of_a_machine_that_moves_and_loses_nothing() {
    let Some(site) = Site::new("198.51.100.10:4600", false) else { return };
    site.network.shell("bob", "ip address add 198.51.100.112/24 dev eth0");
    site.count_leaving("bob", "198.51.100.112", 4_610);
    let forward =
        "[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"bob\"\nto = \"echo\"\nservice = \"internet\"\n";
    let expose = "[[expose]]\nname = \"echo\"\ntarget = \"127.0.0.1:7\"\n";
    site.network.run("bob", || support::echo("127.0.0.1:7".parse().expect("an address")));
    let _nodes = [
        site.start("relay", "relay", ""),
        site.start("agent", "bob", &format!("listen = [\"0.0.0.0:4610\"]\n{expose}")),
        site.start("agent", "alice", forward),
    ];
    let client = connected(&site.network, "alice", "127.0.0.1:5000");
    let begun = Instant::now();
    while site.status("alice")["peers"][0]["address"] != "198.51.100.12:4610" {
        assert_eq!(ask(&client), b"question");
        assert!(begun.elapsed() < TIMEOUT, "direct path blocked");
    }
    client.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    // Repeated requests may have several answers.
    client.set_nonblocking(true).expect("any socket may");
    while client.recv(&mut [0; 64]).is_ok() {}
    client.set_nonblocking(false).expect("any socket may");
    assert_eq!(site.left("bob", "198.51.100.112"), 0);
    for number in 0..200_u16 {
        if number == 100 {
            // The former address remains, as with an uplink that is no longer the preferred one.
            let route =
                "ip route replace 198.51.100.0/24 dev eth0 proto kernel scope link src 198.51.100.112";
            site.network.shell("bob", route);
        }
        client.send(&number.to_be_bytes()).expect("it leaves");
        let mut buffer = [0; 64];
        let length = client.recv(&mut buffer).expect("each is answered");
        assert_eq!(buffer[..length], number.to_be_bytes(), "in turn, as none is lost");
    }
    assert!(site.left("bob", "198.51.100.112") >= 90, "bob goes on by the new route at once");
}
