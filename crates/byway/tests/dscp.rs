//! DSCP of a forward's datagrams: preserved in both directions, with real processes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, sockets and clocks"
)]

mod namespaces;
mod support;

use std::fmt::Write as _;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use namespaces::Network;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use socket2::SockRef;
use support::{Bench, Node, TIMEOUT, path, text};

/// DSCPs of Expedited Forwarding (RFC 3246), of Assured Forwarding (RFC 2597) and of network
/// control.
const EF: u8 = 46;
const AF41: u8 = 34;
const CS6: u8 = 48;

/// Addresses of the targets, at bob.
const TARGETS: [&str; 2] = ["127.0.0.1:7", "[::1]:7"];

/// Site with two agents and a relay, each a machine of one network; alice forwards to targets that
/// bob exposes.
struct DscpSite {
    network: Network,
    _bench: Bench,
    _nodes: Vec<Node>,
}

impl DscpSite {
    fn new(forward_keys: &str, expose_keys: &str) -> Option<Self> {
        let (bench, mut network) = (Bench::new(), Network::new()?);
        for (machine, host) in [("relay", 10), ("alice", 11), ("bob", 12)] {
            network.add(machine, host);
        }
        let mut tables = format!(
            "[[network.relays]]\nname = \"relay\"\nnumber = 1\nkey = \"{}\"\naddresses = [\"198.51.100.10:4600\"]\n",
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
        let (mut forwards, mut exposed) = (String::new(), String::new());
        for (listen, target, name) in
            [("127.0.0.1:5000", TARGETS[0], "four"), ("[::1]:5000", TARGETS[1], "six")]
        {
            let _ = write!(
                forwards,
                "[[forward]]\nlisten = \"{listen}\"\npeer = \"bob\"\nto = \"{name}\"\n{forward_keys}\n"
            );
            let _ = write!(exposed, "[[expose]]\nname = \"{name}\"\ntarget = \"{target}\"\n{expose_keys}\n");
        }
        let start = |role: &str, name: &str, rest: &str| {
            let key = bench.path(&format!("{name}.key"));
            let text =
                format!("[{role}]\nname = \"{name}\"\nkey_file = \"{}\"\n{rest}\n{tables}", key.display());
            let file = bench.write(&format!("{name}.toml"), &text);
            let command = network.byway(name, &[role, "--config", path(&file)]);
            let node = bench.spawn_command(name, command);
            node.wait_until_ready();
            node
        };
        let nodes = vec![
            start("relay", "relay", ""),
            start("agent", "bob", &exposed),
            start("agent", "alice", &forwards),
        ];
        for target in TARGETS {
            answer(&network, target);
        }
        Some(Self { network, _bench: bench, _nodes: nodes })
    }

    /// Opens a client on a machine that communicates with this address only.
    fn client(&self, machine: &str, to: &str) -> DscpSocket {
        let to: SocketAddr = to.parse().expect("an address");
        self.network.run(machine, || {
            let client = DscpSocket::bind(if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" });
            client.0.connect(to).expect("there is a route");
            client
        })
    }

    /// Returns bob's counters of received packets, over all flows.
    fn received(&self) -> serde_json::Value {
        let output = self.network.byway("bob", &["status", "--json"]).output().expect("the program runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        status["totals"][0]["received"].clone()
    }
}

/// Socket that reads and sets the traffic class of each datagram.
struct DscpSocket(UdpSocket);

impl DscpSocket {
    fn bind(address: &str) -> Self {
        let socket = UdpSocket::bind(address).expect("the port is free");
        let options = SockRef::from(&socket);
        if address.starts_with('[') {
            options.set_recv_tclass_v6(true).expect("Linux tells");
        } else {
            options.set_recv_tos_v4(true).expect("Linux tells");
        }
        Self(socket)
    }

    /// Sets the traffic class of the next datagrams.
    fn mark(&self, class: u8) {
        let options = SockRef::from(&self.0);
        let is_ipv4 = self.0.local_addr().expect("it is bound").is_ipv4();
        let marked =
            if is_ipv4 { options.set_tos_v4(class.into()) } else { options.set_tclass_v6(class.into()) };
        marked.expect("anybody may mark");
    }

    /// Receives a datagram with its traffic class and its sender.
    fn receive(&self, time: Duration) -> Option<(Vec<u8>, u8, SocketAddr)> {
        self.0.set_read_timeout(Some(time)).expect("a timeout");
        let (mut bytes, mut control) = ([0; 2_048], nix::cmsg_space!([i32; 4]));
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let descriptor = self.0.as_raw_fd();
        let message =
            recvmsg::<SockaddrStorage>(descriptor, &mut parts, Some(&mut control), MsgFlags::empty());
        let message = message.ok()?;
        let classes = message.cmsgs().expect("they have room").find_map(|control| match control {
            ControlMessageOwned::Ipv4Tos(class) => Some(class),
            ControlMessageOwned::Ipv6TClass(class) => u8::try_from(class).ok(),
            _ => None,
        });
        let from = message.address.expect("it has a sender");
        let from = from
            .as_sockaddr_in()
            .map(|from| SocketAddr::V4((*from).into()))
            .or_else(|| from.as_sockaddr_in6().map(|from| SocketAddr::V6((*from).into())));
        let length = message.bytes;
        Some((bytes[..length].to_vec(), classes.expect("a traffic class"), from.expect("an address")))
    }

    /// Sends requests with a traffic class until the answer to this one arrives. Returns the class
    /// that the target saw, and that of the answer.
    fn ask(&self, class: u8, number: u16) -> (u8, u8) {
        let begun = Instant::now();
        self.mark(class);
        loop {
            // The target may not listen yet.
            let _ = self.0.send(&number.to_be_bytes());
            while let Some((answer, of_answer, _)) = self.receive(Duration::from_millis(300)) {
                if answer[..2] == number.to_be_bytes() {
                    return (answer[2], of_answer);
                }
            }
            assert!(begun.elapsed() < TIMEOUT, "{:?} does not answer", self.0.peer_addr());
        }
    }
}

/// Returns the traffic class of the answer to a request with this one: another DSCP, and the same
/// ECN field.
const fn answered(class: u8) -> u8 {
    class ^ 0b100
}

/// Starts a target at bob that reports the traffic class of each request.
fn answer(network: &Network, target: &str) {
    let socket = network.run("bob", || DscpSocket::bind(target));
    std::thread::spawn(move || {
        loop {
            let Some((request, class, from)) = socket.receive(Duration::from_secs(600)) else { return };
            socket.mark(answered(class));
            let _ = socket.0.send_to(&[&request[..], &[class]].concat(), from);
        }
    });
}

#[test]
fn each_datagram_arrives_with_its_dscp_both_ways_over_both_families_and_overlay_packets_have_none() {
    let Some(site) = DscpSite::new("", "") else { return };
    for machine in ["alice", "bob"] {
        let rule = "-A OUTPUT -d 198.51.100.0/24 -p udp -m dscp ! --dscp 0";
        site.network
            .shell(machine, &format!("iptables {rule}; iptables -A OUTPUT -d 198.51.100.0/24 -p udp"));
    }
    for (forward, target) in ["127.0.0.1:5000", "[::1]:5000"].into_iter().zip(TARGETS) {
        // Plain UDP behaves the same.
        for client in [site.client("alice", forward), site.client("bob", target)] {
            // One flow, in which the DSCP and the ECN field change with each datagram.
            let classes = [EF << 2, AF41 << 2, 0, EF << 2 | 0b10, 47 << 2, AF41 << 2 | 0b01, EF << 2, 0b10];
            for (number, class) in (0..).zip(classes) {
                assert_eq!(client.ask(class, number), (class, answered(class)), "{forward}, {class:#x}");
            }
        }
    }
    for machine in ["alice", "bob"] {
        let list = site.network.shell(machine, "iptables -L OUTPUT -nvx");
        let counts: Vec<u64> = list
            .lines()
            .filter(|line| line.contains("198.51.100.0/24"))
            .map(|line| line.split_whitespace().next().expect("a count").parse().expect("a number"))
            .collect();
        assert!(counts[0] == 0 && counts[1] > 0, "{machine}: {counts:?} marked, and all");
    }
}

#[test]
fn repaired_datagrams_keep_their_dscp() {
    let Some(site) = DscpSite::new("service = \"caching\"", "") else { return };
    let client = site.client("alice", "127.0.0.1:5000");
    let begun = Instant::now();
    let loss = "iptables -A INPUT -s 198.51.100.11 -p udp -m length --length 300:2000 -m statistic --mode nth --every 4 --packet 0 -j DROP";
    site.network.shell("bob", loss);
    let mut rounds = 0;
    while site.received()["cached"].as_u64().unwrap_or(0) < 20 {
        assert!(begun.elapsed() < TIMEOUT, "too little was repaired: {}", site.received());
        rounds += 1;
        for number in 0..50_u16 {
            let class = [EF << 2, AF41 << 2][usize::from(number % 2)];
            client.mark(class);
            client.0.send(&[&number.to_be_bytes()[..], &[0; 400]].concat()).expect("it leaves");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut arrived = 0;
        while let Some((answer, of_answer, _)) = client.receive(Duration::from_millis(300)) {
            let number = u16::from_be_bytes([answer[0], answer[1]]);
            let class = [EF << 2, AF41 << 2][usize::from(number % 2)];
            assert_eq!((answer[402], of_answer), (class, answered(class)), "round {rounds}, {number}");
            arrived += 1;
        }
        assert!(rounds == 1 || arrived >= 45, "{arrived} of 50 arrived");
    }
}

#[test]
fn either_end_may_refuse_dscps_and_those_of_network_control_are_not_put_back() {
    for (forward, expose) in [("", ""), ("keep_dscp = false", ""), ("", "keep_dscp = false")] {
        let Some(site) = DscpSite::new(forward, expose) else { return };
        for to in ["127.0.0.1:5000", "[::1]:5000"] {
            let client = site.client("alice", to);
            let is_kept = forward.is_empty() && expose.is_empty();
            let kept = |class: u8| if is_kept { class } else { 0b10 };
            let ef = EF << 2 | 0b10;
            let seen = kept(ef);
            // The target that gets DSCP 0 answers with DSCP 1, which is handled in the same manner.
            assert_eq!(client.ask(ef, 1), (seen, kept(answered(seen))), "{to}, {forward:?}, {expose:?}");
            let (control, answer) = client.ask(CS6 << 2 | 0b10, 2);
            assert_eq!((control, answer), (0b10, kept(answered(0b10))), "{to}, {forward:?}, {expose:?}");
        }
    }
}
