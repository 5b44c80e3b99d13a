//! Agents with two uplinks: real network devices in namespaces, one of which goes down or loses
//! everything while packets flow.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what a failure of an uplink cost")]

mod namespaces;
mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namespaces::Network;
use support::{Bench, Node, TIMEOUT, path, text};

/// Interval of an application's packets, and their length.
const INTERVAL: Duration = Duration::from_millis(10);
const BYTES: usize = 200;

/// Duration of an outage: long enough to be detected, and for packets by the other uplink.
const OUTAGE: Duration = Duration::from_secs(3);

/// An agent with a second uplink, and its device there.
#[derive(Clone, Copy, Debug)]
struct TwoUplinks {
    agent: &'static str,
    /// Setting of the agent.
    uplinks: &'static str,
    /// True if a controller introduces the nodes to each other, instead of their files.
    is_managed: bool,
}

const BOTH_FREE: &str = "uplinks = [\"eth0\", \"wwan0\"]";
const SECOND_METERED: &str = "uplinks = [\"eth0\", { device = \"wwan0\", metered = true }]";

/// Relays 10 and 20, alice 11, bob 12 and a controller 30 at `198.51.100.0/24`. The second uplinks
/// of agents are at `203.0.113.0/24`, and the switch routes between the two networks.
struct World {
    bench: Bench,
    network: Network,
    /// Key and network of each node: tables of a static network, or the token of a role.
    identities: Identities,
    nodes: Vec<Node>,
}

/// Parts of the nodes' files by which they know each other.
enum Identities {
    /// Tables of the network.
    Tables(String),
    /// Tokens of relays and of agents.
    Tokens { relay: String, agent: String },
}

impl World {
    /// Makes the machines, and starts the nodes. Alice forwards to bob with these keys. Returns
    /// `None` if the kernel makes no namespaces.
    fn start(two: TwoUplinks, forward: &str) -> Option<Self> {
        let (bench, mut network) = (Bench::new(), Network::new()?);
        network.shell(
            "switch",
            "ip address add 198.51.100.1/24 dev br0
             ip link add br1 type bridge && ip link set br1 up && ip address add 203.0.113.1/24 dev br1
             echo 1 > /proc/sys/net/ipv4/ip_forward",
        );
        for (machine, host) in [("east", 10), ("west", 20), ("alice", 11), ("bob", 12), ("ctl", 30)] {
            network.add(machine, host);
            network.shell(machine, "ip route add default via 198.51.100.1 dev eth0");
        }
        let identities = Identities::Tables(tables(&bench));
        let mut world = Self { bench, network, identities, nodes: Vec::new() };
        world.add_second_uplink(two.agent, if two.agent == "alice" { 11 } else { 12 });
        if two.is_managed {
            world.start_controller();
        }
        world.start_nodes(two, forward);
        Some(world)
    }

    fn add_second_uplink(&self, agent: &str, host: u8) {
        let own = self.network.namespace(agent);
        self.network.shell(
            "switch",
            &format!(
                "ip link add wwan0 netns {own} type veth peer name second-{agent}
                 ip link set second-{agent} master br1 up"
            ),
        );
        self.network.shell(
            agent,
            &format!(
                "ip address add 203.0.113.{host}/24 dev wwan0 && ip link set wwan0 up
                 ip route add default via 203.0.113.1 dev wwan0 metric 200
                 for filter in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $filter; done"
            ),
        );
    }

    /// Starts a controller, and makes the tokens by which the nodes join.
    fn start_controller(&mut self) {
        let state = self.bench.path("controller");
        let settings =
            format!("[controller]\nstate = \"{}\"\nlisten = [\"198.51.100.30:4443\"]\n", path(&state));
        let file = self.bench.write("controller.toml", &settings);
        let command = self.network.byway("ctl", &["controller", "--config", path(&file)]);
        let node = self.bench.spawn_command("controller", command);
        node.wait_until_ready();
        self.nodes.push(node);
        let [relay, agent] = ["relay", "agent"].map(|role| {
            let arguments = ["token", "create", "--role", role, "--uses", "2", "--state", path(&state)];
            let output = self.network.byway("ctl", &arguments).output().expect("the program runs");
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stdout).trim().to_owned()
        });
        self.identities = Identities::Tokens { relay, agent };
    }

    fn start_nodes(&mut self, two: TwoUplinks, forward: &str) {
        let agent = |name: &str, tables: &str| {
            let uplinks = if name == two.agent { two.uplinks } else { "" };
            format!("listen = [\"0.0.0.0:4610\"]\n{uplinks}\n{tables}")
        };
        let expose = "[[expose]]\nname = \"app\"\ntarget = \"127.0.0.1:9\"\n";
        let forward =
            format!("[[forward]]\nlisten = \"127.0.0.1:5000\"\npeer = \"bob\"\nto = \"app\"\n{forward}\n");
        for (role, name, rest) in [
            ("relay", "east", "listen = [\"198.51.100.10:4600\"]".to_owned()),
            ("relay", "west", "listen = [\"198.51.100.20:4600\"]".to_owned()),
            ("agent", "bob", agent("bob", expose)),
            ("agent", "alice", agent("alice", &forward)),
        ] {
            let node = self.spawn(role, name, &rest);
            node.wait_until_ready();
            self.nodes.push(node);
        }
    }

    fn spawn(&self, role: &str, name: &str, rest: &str) -> Node {
        let (own, tables) = match &self.identities {
            Identities::Tables(tables) => {
                let key = self.bench.path(&format!("{name}.key"));
                (format!("key_file = \"{}\"", path(&key)), tables.as_str())
            }
            Identities::Tokens { relay, agent } => {
                let token = if role == "relay" { relay } else { agent };
                (format!("token = \"{token}\"\nstate = \"{}\"", path(&self.bench.path(name))), "")
            }
        };
        let settings = format!("[{role}]\nname = \"{name}\"\n{own}\n{rest}\n{tables}");
        let file = self.bench.write(&format!("{name}.toml"), &settings);
        let command = self.network.byway(name, &[role, "--config", path(&file)]);
        self.bench.spawn_command(name, command)
    }

    fn status(&self, machine: &str) -> serde_json::Value {
        let output = self.network.byway(machine, &["status", "--json"]).output().expect("the program runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Returns which packets of an agent leave by each uplink: those to peers, and those to relays.
    fn uplink_roles(&self, agent: &str) -> [[bool; 2]; 2] {
        let status = self.status(agent);
        [0, 1].map(|uplink| {
            let has = |role: &str| !status["uplinks"][uplink][role].as_array().is_none_or(Vec::is_empty);
            [has("peers"), has("relays")]
        })
    }

    /// Waits until an agent's packets leave so, and returns the time that it took.
    fn wait_until_split(&self, agent: &str, wanted: [[bool; 2]; 2]) -> Duration {
        let begun = Instant::now();
        while self.uplink_roles(agent) != wanted {
            assert!(
                begun.elapsed() < TIMEOUT,
                "{wanted:?} of {agent} does not come about: {}",
                self.status(agent)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        begun.elapsed()
    }

    /// Begins a stream from alice to bob, and waits until its relays and its direct path are in
    /// use.
    fn begin(&self) -> NumberedStream {
        let sender = self.network.run("alice", || UdpSocket::bind("127.0.0.1:0").expect("a port"));
        let receiver = self.network.run("bob", || UdpSocket::bind("127.0.0.1:9").expect("the port is free"));
        sender.connect("127.0.0.1:5000").expect("the forward is there");
        let stream = NumberedStream::begin(sender, receiver);
        let begun = Instant::now();
        loop {
            let status = self.status("alice");
            let paths = status["mappings"][0]["paths"].as_array().cloned().unwrap_or_default();
            let is_direct = status["peers"][0]["is_relayed"] == false;
            if is_direct && paths.iter().any(|path| path["is_in_use"] == true) {
                break;
            }
            assert!(begun.elapsed() < TIMEOUT, "the flow does not settle: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(700));
        stream.settle();
        stream
    }

    /// Makes the network of an agent's uplink lose everything, or deliver again; the device stays
    /// up.
    fn set_silent(&self, agent: &str, device: &str, is_silent: bool) {
        let port = if device == "eth0" { "to" } else { "second" };
        let state = if is_silent { 0 } else { 3 };
        self.network.shell("switch", &format!("bridge link set dev {port}-{agent} state {state}"));
    }

    /// Takes an agent's device down, or up again with its default route.
    fn set_down(&self, agent: &str, device: &str, is_down: bool) {
        let gateway = if device == "eth0" { "198.51.100.1" } else { "203.0.113.1 metric 200" };
        let script = if is_down {
            format!("ip link set {device} down")
        } else {
            format!("ip link set {device} up && ip route add default dev {device} via {gateway}")
        };
        self.network.shell(agent, &script);
    }

    /// Returns the packets of bob's flow that relays delivered or repaired, and all that he counts
    /// as sent to him by them.
    fn by_relays(&self) -> u64 {
        let received = &self.status("bob")["totals"][0]["received"];
        let kinds = ["forwarded", "in_stream", "cooperative", "cached", "resent"];
        kinds.iter().filter_map(|kind| received[kind].as_u64()).sum()
    }

    fn direct(&self) -> u64 {
        self.status("bob")["totals"][0]["received"]["direct"].as_u64().unwrap_or(0)
    }
}

/// Returns the tables of a static network.
fn tables(bench: &Bench) -> String {
    let mut tables = String::new();
    for (number, relay, host) in [(1, "east", 10), (2, "west", 20)] {
        let key = bench.key(relay);
        let _ = write!(
            tables,
            "[[network.relays]]\nname = \"{relay}\"\nnumber = {number}\nkey = \"{key}\"\n\
             addresses = [\"198.51.100.{host}:4600\"]\n"
        );
    }
    for (number, agent, host, relay) in [(1, "alice", 11, "east"), (2, "bob", 12, "west")] {
        let key = bench.key(agent);
        let _ = write!(
            tables,
            "[[network.agents]]\nname = \"{agent}\"\nnumber = {number}\nkey = \"{key}\"\n\
             addresses = [\"198.51.100.{host}:4610\"]\nrelays = [\"{relay}\"]\n"
        );
    }
    tables + "[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n"
}

/// Packets from one socket to another, each with its number.
struct NumberedStream {
    ends: Arc<AtomicBool>,
    sent: Arc<AtomicU32>,
    settled: AtomicU32,
    arrived: Arc<Mutex<BTreeSet<u32>>>,
    threads: Vec<JoinHandle<()>>,
}

impl NumberedStream {
    fn begin(sender: UdpSocket, receiver: UdpSocket) -> Self {
        let (ends, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let arrived = Arc::new(Mutex::new(BTreeSet::new()));
        let sending = {
            let (ends, sent) = (Arc::clone(&ends), Arc::clone(&sent));
            std::thread::spawn(move || {
                let mut next = Instant::now();
                while !ends.load(Ordering::Relaxed) {
                    let mut packet = [0; BYTES];
                    packet[..4].copy_from_slice(&sent.fetch_add(1, Ordering::Relaxed).to_be_bytes());
                    sender.send(&packet).expect("the forward is there");
                    next += INTERVAL;
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            })
        };
        let receiving = {
            let (ends, arrived) = (Arc::clone(&ends), Arc::clone(&arrived));
            receiver.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
            std::thread::spawn(move || {
                let mut buffer = [0; 2_048];
                loop {
                    match receiver.recv(&mut buffer) {
                        Ok(length) => {
                            assert_eq!(length, BYTES);
                            let number = buffer[..4].try_into().map(u32::from_be_bytes).expect("four bytes");
                            assert!(arrived.lock().expect("no panic").insert(number), "{number} came twice");
                        }
                        // The last packets may still be on their way when the sender ends.
                        Err(_) if ends.load(Ordering::Relaxed) => return,
                        Err(_) => {}
                    }
                }
            })
        };
        let settled = AtomicU32::new(0);
        Self { ends, sent, settled, arrived, threads: vec![sending, receiving] }
    }

    /// Counts only packets from now on.
    fn settle(&self) {
        self.settled.store(self.sent.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Ends the stream, and returns the numbers sent since it settled that never arrived.
    fn missing(self) -> Vec<u32> {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no packet came twice");
        }
        let arrived = self.arrived.lock().expect("no panic");
        let sent = self.settled.load(Ordering::Relaxed)..self.sent.load(Ordering::Relaxed);
        assert!(sent.len() > 300, "only {} sent", sent.len());
        sent.filter(|number| !arrived.contains(number)).collect()
    }
}

const SPLIT: [[bool; 2]; 2] = [[true, false], [false, true]];
const ALL_BY_FIRST: [[bool; 2]; 2] = [[true, true], [false, false]];
const ALL_BY_SECOND: [[bool; 2]; 2] = [[false, false], [true, true]];

/// Way in which an uplink fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UplinkFailure {
    /// The network loses everything, and the device stays up.
    Silent,
    /// The device goes down.
    Down,
}

/// Runs a stream while an uplink of an agent fails and comes back. Returns the missing packets, and
/// the number of packets that came by relays meanwhile.
fn over_a_failure(
    two: TwoUplinks,
    device: &str,
    failure: UplinkFailure,
    forward: &str,
) -> Option<(Vec<u32>, u64)> {
    let world = World::start(two, forward)?;
    let stream = world.begin();
    world.wait_until_split(two.agent, SPLIT);
    let set = |is_out| match failure {
        UplinkFailure::Silent => world.set_silent(two.agent, device, is_out),
        UplinkFailure::Down => world.set_down(two.agent, device, is_out),
    };
    let (by_relays, began) = (world.by_relays(), Instant::now());
    set(true);
    let alone = if device == "eth0" { ALL_BY_SECOND } else { ALL_BY_FIRST };
    world.wait_until_split(two.agent, alone);
    let direct = world.direct();
    std::thread::sleep(OUTAGE.saturating_sub(began.elapsed()));
    assert!(world.direct() > direct + 20, "the direct path works by the other uplink");
    let by_relays = world.by_relays() - by_relays;
    set(false);
    world.wait_until_split(two.agent, SPLIT);
    std::thread::sleep(Duration::from_millis(500));
    let missing = stream.missing();
    eprintln!("{two:?}, {device} {failure:?}, {forward}: missing {missing:?}; {by_relays} by relays");
    Some((missing, by_relays))
}

const ALICE: TwoUplinks = TwoUplinks { agent: "alice", uplinks: BOTH_FREE, is_managed: false };
const BOB: TwoUplinks = TwoUplinks { agent: "bob", ..ALICE };

/// Fewest packets that relays deliver until the sender leaves a silent uplink: a part of those of
/// half a second.
const LOST_MIN: u64 = 20;

#[test]
fn with_copies_on_the_other_uplink_nothing_is_lost_when_the_first_falls_silent() {
    for service in ["both", "caching"] {
        let forward = format!("service = \"{service}\"");
        let Some((missing, by_relays)) = over_a_failure(ALICE, "eth0", UplinkFailure::Silent, &forward)
        else {
            return;
        };
        assert_eq!(missing, [0; 0], "{service}");
        assert!(by_relays >= LOST_MIN, "{service}: {by_relays} by relays");
    }
}

#[test]
fn nothing_is_lost_when_the_uplink_of_copies_falls_silent() {
    for service in ["both", "caching"] {
        let forward = format!("service = \"{service}\"");
        let Some((missing, _)) = over_a_failure(ALICE, "wwan0", UplinkFailure::Silent, &forward) else {
            return;
        };
        assert_eq!(missing, [0; 0], "{service}");
    }
}

#[test]
fn in_a_managed_network_nothing_is_lost_when_either_uplink_falls_silent() {
    for device in ["eth0", "wwan0"] {
        let managed = TwoUplinks { is_managed: true, ..ALICE };
        let outcome = over_a_failure(managed, device, UplinkFailure::Silent, "service = \"caching\"");
        let Some((missing, by_relays)) = outcome else { return };
        assert_eq!(missing, [0; 0], "{device}");
        assert!(device == "wwan0" || by_relays >= LOST_MIN, "{by_relays} by relays");
    }
}

#[test]
fn a_flow_without_relays_loses_nothing_when_a_device_goes_down() {
    let Some((missing, _)) = over_a_failure(ALICE, "eth0", UplinkFailure::Down, "service = \"internet\"")
    else {
        return;
    };
    assert_eq!(missing, [0; 0]);
}

#[test]
fn a_receiver_loses_nothing_when_either_of_its_uplinks_falls_silent() {
    for device in ["eth0", "wwan0"] {
        for service in ["both", "caching"] {
            let forward = format!("service = \"{service}\"");
            let Some((missing, by_relays)) = over_a_failure(BOB, device, UplinkFailure::Silent, &forward)
            else {
                return;
            };
            assert_eq!(missing, [0; 0], "{device}, {service}");
            assert!(device == "wwan0" || by_relays >= LOST_MIN, "{service}: {by_relays} by relays");
        }
    }
}

/// Largest number of packets that a flow with retransmission may lose in an outage: those of the
/// detection time of the silence, and of a round trip.
const NOTICED_MAX: usize = 30;

#[test]
fn a_metered_uplink_gets_copies_only_after_a_loss() {
    let metered = TwoUplinks { uplinks: SECOND_METERED, ..ALICE };
    let Some(world) = World::start(metered, "service = \"caching\"") else { return };
    let stream = world.begin();
    world.wait_until_split("alice", SPLIT);
    // The first packets of a flow may be copied, before its receiver's first report.
    std::thread::sleep(Duration::from_secs(1));
    let sent =
        |uplink: usize| world.status("alice")["uplinks"][uplink]["sent_bytes"].as_u64().expect("bytes");
    let before = [sent(0), sent(1)];
    std::thread::sleep(Duration::from_secs(2));
    let clean = [sent(0) - before[0], sent(1) - before[1]];
    assert!(clean[1] * 10 < clean[0], "no copies while nothing is lost: {clean:?}");
    world.set_silent("alice", "eth0", true);
    world.wait_until_split("alice", ALL_BY_SECOND);
    std::thread::sleep(Duration::from_secs(1));
    world.set_silent("alice", "eth0", false);
    world.wait_until_split("alice", SPLIT);
    let by_relays = world.by_relays();
    let missing = stream.missing();
    eprintln!("metered: {clean:?}; missing {missing:?}; {by_relays} by relays");
    assert!(missing.len() <= NOTICED_MAX, "{missing:?}");
    assert!(by_relays >= LOST_MIN, "{by_relays} by relays");
}

#[test]
fn a_flow_with_retransmission_loses_no_more_than_a_silence_takes_to_notice() {
    let forward = "service = \"retransmission\"";
    let Some((missing, by_relays)) = over_a_failure(ALICE, "eth0", UplinkFailure::Silent, forward) else {
        return;
    };
    assert!(missing.len() <= NOTICED_MAX, "{missing:?}");
    assert!(by_relays + missing.len() as u64 >= LOST_MIN, "{by_relays} by relays");
}

#[test]
fn an_uplink_without_a_device_is_named() {
    let Some(mut world) = World::start(ALICE, "service = \"both\"") else { return };
    world.nodes.clear();
    let mut node =
        world.spawn("agent", "bob", "listen = [\"0.0.0.0:4610\"]\nuplinks = [\"eth0\", \"wwan7\"]");
    assert_eq!(node.code(), Some(3));
    let log = node.log();
    assert!(log.contains("\"wwan7\"") && log.contains("ip link"), "{log}");
}
