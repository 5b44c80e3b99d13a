//! Applications with the library, in Rust and in C, with real relays and real agents.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

mod support;

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byway_client::{
    Client, Clock, Delivery, Ecn, Event, FlowPair, Identity, LocalAddress, Network, NetworkAgent,
    NetworkPair, NetworkRelay, Output, Registration,
};
use byway_units::Time;
use byway_wire::packets::Kind;

use support::{App, TIMEOUT, TwoSites, echo, path, text};

/// Interval of dropped packets on the direct path.
const DROP_EVERY: usize = 8;

/// Application with the library and its own socket, which drops a part of the packets from the
/// direct path.
struct Application {
    client: Client,
    socket: UdpSocket,
    clock: Clock,
    direct: usize,
    events: Vec<Event>,
    delivered: Vec<(FlowPair, Vec<u8>, Delivery)>,
}

impl Application {
    fn new(sites: &TwoSites, name: &str) -> Self {
        let network = network(sites);
        let own = network.agents.iter().find(|agent| agent.name == name).expect("it is in the network");
        let socket = UdpSocket::bind(own.addresses[0]).expect("the address is free");
        let key = std::fs::read_to_string(sites.bench.path(&format!("{name}.key"))).expect("it has a key");
        let secret = key.trim().parse().expect("a key");
        let clock = Clock::start();
        let identity = Identity::new(name, secret, [9; 32], clock.started_unix_nanos());
        let client = Client::new(identity, &network, clock.now()).expect("the network is good");
        Self { client, socket, clock, direct: 0, events: Vec::new(), delivered: Vec::new() }
    }

    fn input<R>(&mut self, act: impl FnOnce(&mut Client, Time) -> R) -> R {
        let answer = act(&mut self.client, self.clock.now());
        while let Some(output) = self.client.poll() {
            match output {
                Output::Transmit(transmit) => {
                    // Losses of the network are part of the test.
                    let _ = self.socket.send_to(transmit.bytes, transmit.to);
                }
                Output::Delivered { flow, datagram, delivery } => {
                    self.delivered.push((flow, datagram.to_vec(), delivery));
                }
                Output::Event(event) => self.events.push(event),
            }
        }
        answer
    }

    /// Handles packets until the deadline, at most for this time.
    fn step(&mut self, time: Duration) {
        let deadline = self.client.deadline().map(|deadline| deadline.saturating_since(self.clock.now()));
        let time = deadline.map_or(time, |deadline| time.min(deadline.into())).max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(time)).expect("a timeout");
        let mut buffer = [0; 2_048];
        if let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            let is_direct = buffer[0] == Kind::Source.first_byte();
            self.direct += usize::from(is_direct);
            if !(is_direct && self.direct.is_multiple_of(DROP_EVERY)) {
                let bytes = &mut buffer[..length];
                self.input(|client, now| {
                    client.received(from, LocalAddress::ANY, Ecn::NotCapable, bytes, now);
                });
            }
        }
        self.input(Client::timer);
    }

    /// Echoes the delivered datagrams.
    fn send_back(&mut self) {
        for (flow, datagram, _) in std::mem::take(&mut self.delivered) {
            // The flow may have been closed meanwhile.
            let _ = self.input(|client, now| client.send(flow, &datagram, true, now));
        }
    }

    fn until(&mut self, mut is_done: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !is_done(self) {
            assert!(begun.elapsed() < TIMEOUT, "it does not come; events: {:?}", self.events);
            self.step(Duration::from_millis(10));
        }
    }
}

/// Converts the program's tables of `[network]` for the library.
fn network(sites: &TwoSites) -> Network {
    let table: toml::Table = sites.network.parse().expect("the file is TOML");
    let entries = |name: &str| table["network"][name].as_array().expect("a list").clone();
    let word = |entry: &toml::Value, key: &str| entry[key].as_str().expect("a text").to_owned();
    let number = |entry: &toml::Value| entry["number"].as_integer().and_then(|it| it.try_into().ok());
    let words = |entry: &toml::Value, key: &str| -> Vec<String> {
        let list = entry[key].as_array().expect("a list");
        list.iter().map(|word| word.as_str().expect("a text").to_owned()).collect()
    };
    let addresses = |entry: &toml::Value| {
        words(entry, "addresses").iter().map(|address| address.parse().expect("an address")).collect()
    };
    let relay = |entry: &toml::Value| NetworkRelay {
        name: word(entry, "name"),
        number: number(entry).expect("a number"),
        key: word(entry, "key").parse().expect("a key"),
        addresses: addresses(entry),
        shards: 1,
    };
    let agent = |entry: &toml::Value| NetworkAgent {
        name: word(entry, "name"),
        number: number(entry).expect("a number"),
        key: word(entry, "key").parse().expect("a key"),
        addresses: addresses(entry),
        relays: words(entry, "relays"),
    };
    let pair = |entry: &toml::Value| NetworkPair {
        agents: words(entry, "agents").try_into().expect("two agents"),
        group: 1,
    };
    Network {
        relays: entries("relays").iter().map(relay).collect(),
        agents: entries("agents").iter().map(agent).collect(),
        pairs: entries("pairs").iter().map(pair).collect(),
    }
}

#[test]
fn an_application_calls_what_an_agent_exposes_and_its_losses_are_repaired() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let _bob = sites.bob();
    echo(sites.echo());
    let mut alice = Application::new(&sites, "alice");
    let registration = Registration::default();
    let registered = alice.input(|client, now| client.register("bob", "echo", &registration, now));
    let flow = registered.expect("Bob is a peer");
    alice.until(|alice| alice.events.contains(&Event::Accepted(flow)));
    let repaired = |alice: &Application| {
        alice
            .delivered
            .iter()
            .filter(|(.., delivery)| matches!(delivery, Delivery::Cached | Delivery::Resent))
            .count()
    };
    let mut sent = 0_u32;
    alice.until(|alice| alice.client.report(flow).is_some());
    let begun = Instant::now();
    while repaired(&alice) < 5 {
        assert!(
            begun.elapsed() < TIMEOUT,
            "{} of {sent} came back, nothing is repaired",
            alice.delivered.len()
        );
        alice.input(|client, now| client.send(flow, &sent.to_be_bytes(), true, now)).expect("it is accepted");
        sent += 1;
        alice.step(Duration::from_millis(10));
    }
    let received = alice.client.report(flow).expect("it is open").received;
    assert!(received.lost >= 5 && received.cached + received.resent >= 5, "{received:?}");
}

#[test]
fn an_agents_forward_reaches_what_an_application_exposes() {
    let sites = TwoSites::new();
    let _relays = [sites.relay(1), sites.relay(2)];
    let mut bob = Application::new(&sites, "bob");
    bob.input(|client, _| client.expose("echo", Some(vec!["alice".to_owned()]))).expect("there is room");
    let _alice = sites.alice("caching");
    let app = App::at(sites.bench.at(30, 0));
    app.send(b"hello", sites.forward());
    bob.until(|bob| !bob.delivered.is_empty());
    let (flow, datagram, _) = bob.delivered[0].clone();
    assert_eq!((datagram.as_slice(), bob.client.subject(flow)), (&b"hello"[..], Some("echo")));
    assert!(bob.events.iter().any(|event| matches!(event, Event::Incoming { .. })));
    bob.send_back();
    // The answer may wait for the reverse flow, which opens after Bob has accepted Alice's offer.
    let (begun, mut answer) = (Instant::now(), None);
    while answer.is_none() {
        assert!(begun.elapsed() < TIMEOUT, "no answer comes; events: {:?}", bob.events);
        bob.step(Duration::from_millis(10));
        answer = app.receive_within(Duration::from_millis(1));
    }
    assert_eq!(answer, Some((b"hello".to_vec(), sites.forward())));
}

/// Compiles and links the example in C; `None` without a compiler.
fn compiled(sites: &TwoSites) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: the example in C needs a C compiler, cc");
        return None;
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    let library = std::env::current_exe().expect("a path").with_file_name("libbyway_client_c.a");
    let program = sites.bench.path("call");
    let include = crates.join("client-c/include");
    let source = crates.join("client-c/examples/call.c");
    let compiler = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o", path(&program), path(&source), "-I"])
        .args([path(&include), path(&library), "-lpthread", "-ldl", "-lm"])
        .output()
        .expect("the compiler runs");
    assert!(compiler.status.success(), "{}", text(&compiler.stderr));
    Some(program)
}

/// Formats the network for the examples.
fn lines(network: &Network) -> String {
    let mut lines = String::new();
    for relay in &network.relays {
        let _ = writeln!(lines, "relay {} {} {} {}", relay.name, relay.number, relay.key, relay.addresses[0]);
    }
    for agent in &network.agents {
        let NetworkAgent { name, number, key, addresses, relays } = agent;
        let _ = writeln!(lines, "agent {name} {number} {key} {} {}", addresses[0], relays[0]);
    }
    for NetworkPair { agents: [one, other], .. } in &network.pairs {
        let _ = writeln!(lines, "pair {one} {other}");
    }
    lines
}

/// Parses the number after a word of a line: `lost 12 (...)`.
fn number_after(line: &str, word: &str) -> u64 {
    let (_, rest) = line.split_once(word).unwrap_or_else(|| panic!("no {word:?} in {line:?}"));
    let digits = rest.trim_start().split(|character: char| !character.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no number in {line:?}"))
}

#[test]
fn the_example_in_c_calls_loses_packets_and_has_them_repaired() {
    let sites = TwoSites::new();
    let Some(program) = compiled(&sites) else {
        return;
    };
    let _relays = [sites.relay(1), sites.relay(2)];
    let file = sites.bench.write("network.txt", &lines(&network(&sites)));
    let mut bob = Application::new(&sites, "bob");
    bob.input(|client, _| client.expose("call", None)).expect("there is room");
    let key = sites.bench.path("alice.key");
    let mut alice = Command::new(program)
        .args([path(&file), "alice", path(&key), "bob", "4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example runs");
    let begun = Instant::now();
    while alice.try_wait().expect("it can be asked").is_none() {
        bob.step(Duration::from_millis(10));
        bob.send_back();
        if begun.elapsed() > TIMEOUT {
            alice.kill().expect("it runs");
        }
    }
    let ended = alice.wait_with_output().expect("it has ended");
    let (output, errors) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{output}{errors}");
    // The first choice may come before the first report or after it.
    let services = ["both: sent ", "retransmission: sent "];
    assert!(services.iter().any(|service| output.starts_with(service)), "{output}");
    let last = output.lines().last().expect("it reports");
    assert!(last.contains(": sent 200, "), "{output}");
    let (losses, repairs) = (number_after(last, " lost"), number_after(last, " repaired"));
    assert!(losses >= 10 && repairs >= 5, "nothing was repaired: {output}");
    assert!(number_after(last, "echoed") > 100, "{output}");
}
