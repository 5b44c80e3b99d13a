//! Tunnels of `WireGuard` that `byway protect` protects, in machines of their own, over emulated links. `WireGuard` itself is not needed: a program
//! in its tool's place says what there is, and plain datagrams go from endpoint to endpoint. Where the kernel makes no namespaces for
//! this process, it says so.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use byway_lab::{Carrier, LabError, Machine, addresses};
use byway_net::{Clock, Device, DeviceSettings};
use byway_scenario::Scenario;

/// Two agents, the relay near both, and bursts of losses between the two.
const SCENARIO: &str = r#"
title = "Two machines and a relay"
length = "60 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "relay", role = "relay" },
]
link = [
    { between = ["alice", "bob"], delay = "20 ms", loss = [{ share = "10 %", burst = 3.0, every = "10 ms" }] },
    { between = ["alice", "relay"], delay = "5 ms" },
    { between = ["bob", "relay"], delay = "5 ms" },
]
flow = [
    { name = "tunnel", from = "alice", to = "bob", service = "caching", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
"#;

const NAMES: [&str; 3] = ["alice", "bob", "relay"];
const ALICE: usize = 0;
const BOB: usize = 1;
const RELAY: usize = 2;

/// The tunnel's ports at both ends.
const PORTS: [u16; 2] = [51_821, 51_820];

/// What a tunnel at its usual MTU, 1,420 bytes, sends at most.
const LONGEST: usize = 1_420 + 32;

/// What nothing here takes when all is well: a guard, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

/// What an agent logs then.
const CAPTURED: &str = "packets are captured";

struct Lab {
    folder: tempfile::TempDir,
    machines: Vec<Machine>,
    _carrier: Carrier,
    /// Those of the tunnel.
    _devices: Vec<Device>,
    nodes: Vec<Option<Child>>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|place| self.kill(place));
    }
}

impl Lab {
    /// The machines, with a tunnel's device at both ends; `None` where the kernel makes none.
    fn new() -> Option<Self> {
        let network = Scenario::parse(SCENARIO).expect("a scenario").network(1).expect("all are joined");
        let all: Vec<Vec<IpAddr>> = (0..3).map(|place| addresses(place).to_vec()).collect();
        let (mut machines, mut devices) = (Vec::new(), Vec::new());
        for place in 0..3 {
            match Machine::new(addresses(place)) {
                Ok((machine, device)) => {
                    machines.push(machine);
                    devices.push(Some(device));
                }
                Err(LabError::Machine(error)) => {
                    eprintln!("skipped: the kernel makes no machine: {error}");
                    return None;
                }
                Err(other) => panic!("{other}"),
            }
        }
        let carrier = Carrier::start(network, devices, &all, &[], 1, Clock::start(), None).expect("a thread");
        let device = |place: usize| {
            let inside = IpAddr::from([10, 7, 0, u8::try_from(place + 1).expect("two ends")]);
            let settings = DeviceSettings { name: "wg0".into(), mtu: 1_420, addresses: vec![(inside, 24)] };
            machines[place].run(move || Device::create(&settings).expect("a machine has devices"))
        };
        let lab = Self {
            _devices: vec![device(ALICE), device(BOB)],
            folder: tempfile::tempdir().expect("a folder"),
            machines,
            _carrier: carrier,
            nodes: (0..3).map(|_| None).collect(),
        };
        lab.write_files();
        lab.says(ALICE, &[&endpoint(BOB)]);
        lab.says(BOB, &[&endpoint(ALICE)]);
        Some(lab)
    }

    fn file(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", NAMES[place]))
    }

    /// The folder of what stands in the place of `WireGuard`'s tool.
    fn tools(&self, place: usize) -> PathBuf {
        self.folder.path().join(NAMES[place]).join("tools")
    }

    fn write_files(&self) {
        let keys: Vec<String> = NAMES.iter().map(|name| key(&self.folder.path().join(name))).collect();
        let at = |place: usize| {
            let [ipv4, ipv6] = addresses(place).map(|address| SocketAddr::new(address, 4_600).to_string());
            format!("[\"{ipv4}\", \"{ipv6}\"]")
        };
        let agent = |place: usize| {
            format!(
                "[[network.agents]]\nname = \"{}\"\nnumber = {}\nkey = \"{}\"\naddresses = {}\nrelays = [\"relay\"]\n",
                NAMES[place],
                place + 1,
                keys[place],
                at(place)
            )
        };
        let network = format!(
            "{}{}[[network.relays]]\nname = \"relay\"\nnumber = 1\nkey = \"{}\"\naddresses = {}\n[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n",
            agent(ALICE),
            agent(BOB),
            keys[RELAY],
            at(RELAY),
        );
        for (place, role) in ["agent", "agent", "relay"].into_iter().enumerate() {
            let (name, state) = (NAMES[place], self.folder.path().join(NAMES[place]));
            let node = format!(
                "[{role}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = {}\n",
                state.display(),
                at(place)
            );
            let observe = "[observe]\nlisten = \"127.0.0.1:4680\"\n";
            fs::write(self.file(place), format!("{node}{observe}{network}")).expect("room on the disk");
        }
    }

    /// What `WireGuard`'s tool says from now on: a device with peers of these endpoints.
    fn says(&self, place: usize, endpoints: &[&str]) {
        let mut dump = format!("cHJpdmF0ZQ==\tcHVibGlj\t{}\toff\n", PORTS[place]);
        for (number, endpoint) in endpoints.iter().enumerate() {
            let _ = writeln!(dump, "a2V5{number}AAAAAAA=\t(none)\t{endpoint}\t10.7.0.0/24\t0\t0\t0\toff");
        }
        self.tool(place, &format!("[ \"$*\" = 'show wg0 dump' ] || exit 1\ncat <<'END'\n{dump}END\n"));
    }

    fn tool(&self, place: usize, script: &str) {
        let tools = self.tools(place);
        fs::create_dir_all(&tools).expect("room on the disk");
        fs::write(tools.join("wg"), format!("#!/bin/sh\n{script}")).expect("room on the disk");
        fs::set_permissions(tools.join("wg"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// A command of the program.
    fn command(&self, place: usize, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.env("PATH", format!("{}:{path}", self.tools(place).display()));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    fn run(&self, place: usize, arguments: &[&str]) -> Output {
        let mut command = self.command(place, arguments);
        self.machines[place].run(move || command.output().expect("it starts"))
    }

    /// What is said about a tunnel that cannot be protected.
    fn refusal(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let config = self.file(ALICE);
        let config = config.to_str().expect("text");
        let output = self.run(ALICE, &[&["protect", "--config", config, "--dry-run"], arguments].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn start(&mut self, place: usize) {
        let role = if place == RELAY { "relay" } else { "agent" };
        let log = fs::File::create(self.log(place)).expect("room on the disk");
        let words = if place == RELAY { &["relay"][..] } else { &["protect", "wg0"] };
        let mut command = self.command(place, words);
        command.arg("--config").arg(self.file(place));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        self.nodes[place] = Some(self.machines[place].run(move || command.spawn().expect("it starts")));
        self.wait(place, &format!("the {role} works"));
    }

    fn start_all(&mut self) {
        for place in [RELAY, BOB, ALICE] {
            self.start(place);
        }
    }

    fn log(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("{}.log", NAMES[place]))
    }

    /// Until the log of a node says so.
    fn wait(&self, place: usize, words: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = fs::read_to_string(self.log(place)).unwrap_or_default();
            if said.contains(words) {
                return;
            }
            assert!(Instant::now() < until, "{words} is not in: {said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self, place: usize) {
        if let Some(mut node) = self.nodes[place].take() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }

    fn status(&self, place: usize) -> serde_json::Value {
        let output = self.run(place, &["status", "--json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// What an agent has counted under this name.
    fn counted(&self, place: usize, name: &str) -> u64 {
        let status = self.status(place);
        let found =
            status["counters"].as_array().into_iter().flatten().find(|counted| counted["reason"] == name);
        found.and_then(|counted| counted["count"].as_u64()).unwrap_or(0)
    }

    /// How many of the packets that came to an agent a cache repaired.
    fn repaired(&self, place: usize) -> u64 {
        self.status(place)["totals"][0]["received"]["cached"].as_u64().unwrap_or(0)
    }

    /// What stands in the place of `WireGuard` at both ends.
    fn ends(&self) -> [UdpSocket; 2] {
        [ALICE, BOB].map(|place| {
            let socket = self.machines[place]
                .run(move || UdpSocket::bind(("0.0.0.0", PORTS[place])).expect("nobody has it"));
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("more than nothing");
            socket
        })
    }
}

fn endpoint(place: usize) -> String {
    SocketAddr::new(addresses(place)[0], PORTS[place]).to_string()
}

/// Makes a node's key; its public part.
fn key(folder: &Path) -> String {
    fs::create_dir(folder).expect("room on the disk");
    let output = Command::new(env!("CARGO_BIN_EXE_byway"))
        .arg("keygen")
        .arg(folder.join("key"))
        .arg("--json")
        .output();
    let made: serde_json::Value = serde_json::from_slice(&output.expect("it starts").stdout).expect("JSON");
    made["public_key"].as_str().expect("a key").to_owned()
}

/// Has one end send so many datagrams to the other's endpoint, and the other answer each to where it came from; how many answers came.
fn talk([one, other]: [&UdpSocket; 2], from: usize, count: usize) -> usize {
    let to = SocketAddr::new(addresses(1 - from)[0], PORTS[1 - from]);
    let (mut buffer, mut answered) = ([0; 2_000], 0);
    for _ in 0..count {
        one.send_to(&[7; LONGEST], to).expect("it is sent");
        let Ok((length, came_from)) = other.recv_from(&mut buffer) else { continue };
        assert_eq!((length, came_from.to_string()), (LONGEST, endpoint(from)));
        other.send_to(&buffer[..length], came_from).expect("it is sent");
        let Ok((length, came_from)) = one.recv_from(&mut buffer) else { continue };
        assert_eq!((length, came_from), (LONGEST, to));
        answered += 1;
    }
    answered
}

#[test]
fn what_a_tunnel_sends_is_captured_whole_at_both_ends_and_losses_are_repaired() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    lab.wait(BOB, CAPTURED);
    let [alice, bob] = &lab.ends();
    let answered = talk([alice, bob], ALICE, 60) + talk([bob, alice], BOB, 60);
    assert!(answered >= 110, "{answered} of 120 were answered");
    for place in [ALICE, BOB] {
        let (taken, delivered) = (lab.counted(place, "proxy_taken"), lab.counted(place, "proxy_delivered"));
        // Not as fragments.
        assert!((100..=120).contains(&taken) && (100..=120).contains(&delivered), "{taken}, {delivered}");
    }
    let until = Instant::now() + PATIENCE;
    while lab.repaired(ALICE) + lab.repaired(BOB) == 0 {
        assert!(Instant::now() < until, "nothing was repaired");
        talk([alice, bob], ALICE, 10);
    }
}

#[test]
fn an_end_that_learns_its_peers_endpoint_answers_by_byway() {
    let Some(mut lab) = Lab::new() else { return };
    lab.says(BOB, &["(none)"]);
    lab.start_all();
    lab.wait(BOB, "WireGuard learns it when the peer sends");
    lab.wait(ALICE, CAPTURED);
    let [alice, bob] = &lab.ends();
    let answered = talk([alice, bob], ALICE, 60);
    let taken = lab.counted(BOB, "proxy_taken");
    assert!(answered >= 50 && taken >= 50, "{answered} of 60 were answered, {taken} of them by Byway");
}

#[test]
fn after_a_kill_the_tunnel_goes_on_without_byway_and_nothing_is_left() {
    for killed in [ALICE, BOB] {
        let Some(mut lab) = Lab::new() else { return };
        lab.start_all();
        lab.wait(ALICE, CAPTURED);
        lab.wait(BOB, CAPTURED);
        let [alice, bob] = &lab.ends();
        assert!(talk([alice, bob], ALICE, 20) >= 15);
        lab.kill(killed);
        lab.wait(1 - killed, "packets go without Byway");
        let until = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&lab.run(killed, &["uncapture"]).stdout).starts_with("0 rules") {
            assert!(Instant::now() < until, "rules are left of {}", NAMES[killed]);
        }
        let taken = lab.counted(1 - killed, "proxy_taken");
        let answered = talk([alice, bob], ALICE, 40);
        assert!(answered >= 20, "{answered} of 40 were answered without Byway");
        assert_eq!(lab.counted(1 - killed, "proxy_taken"), taken, "nothing is captured");
    }
}

#[test]
fn what_would_be_done_may_be_written_into_the_file() {
    let Some(lab) = Lab::new() else { return };
    let config = lab.file(ALICE);
    let path = config.to_str().expect("text");
    let shown = lab.run(ALICE, &["protect", "wg0", "--config", path, "--copies", "all", "--dry-run"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    let bob = addresses(BOB)[0];
    let rule = format!("ip rule add pref 4601 to {bob}/32 ipproto udp dport 51820-51820 lookup 4600");
    assert!(shown.contains(&rule), "{rule} is not in {shown}");
    let (tables, _) = shown.split_once("While the agent works").expect("settings, then changes");
    let text = fs::read_to_string(&config).expect("it is there");
    fs::write(&config, format!("{text}{tables}")).expect("room on the disk");
    let checked = lab.run(ALICE, &["config", "check", path]);
    assert!(checked.status.success(), "{tables}\n{checked:?}");
    let by_file = lab.run(ALICE, &["agent", "--config", path, "--dry-run"]);
    assert!(shown.ends_with(&String::from_utf8_lossy(&by_file.stdout).into_owned()), "{shown}\n{by_file:?}");
    let json = lab.run(
        BOB,
        &["protect", "wg0", "--config", lab.file(BOB).to_str().expect("text"), "--dry-run", "--json"],
    );
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(
        (&json["device"], &json["settings"]["tunnel"]["mtu"]),
        (&"wg0".into(), &1_480.into()),
        "{json}"
    );
    assert_eq!(json["settings"]["capture"][0]["ports"][0], "udp:51821", "{json}");
}

#[test]
fn a_tunnel_that_takes_everything_does_not_take_byways_own_packets() {
    let Some(mut lab) = Lab::new() else { return };
    // As wg-quick does.
    let full = "ip route add default dev wg0 table 51820 && ip rule add not fwmark 51820 table 51820";
    let made =
        lab.machines[ALICE].run(move || Command::new("sh").args(["-c", full]).output().expect("a shell"));
    if !made.status.success() {
        eprintln!("skipped: no iproute2: {made:?}");
        return;
    }
    lab.start_all();
    lab.wait(ALICE, CAPTURED);
    let [alice, bob] = &lab.ends();
    // What WireGuard sends has its mark.
    socket2::SockRef::from(alice).set_mark(51_820).expect("this process may");
    assert!(talk([alice, bob], ALICE, 40) >= 30, "it is not carried");
}

#[test]
fn what_cannot_be_protected_says_why_and_what_to_do() {
    let Some(lab) = Lab::new() else { return };
    lab.says(ALICE, &[&endpoint(BOB), "(none)"]);
    let list = "Unable to access interface: Operation not supported";
    for (arguments, code, words) in [
        (&["wg7"][..], 2, &["no device \"wg7\"", "wg-quick up wg7"][..]),
        (&["wan0"], 2, &["wan0 is no device of WireGuard"]),
        (&["wg0"], 2, &["by the beginning of its public key", "--peer bob=a2V50AAA", "no endpoint yet"]),
        (&["wg0", "--peer", "eve"], 2, &["nobody called \"eve\""]),
        (&["wg0", "--peer", "bob=a2V50", "--from", "here"], 2, &["is no prefix"]),
        (&["wg0", "--peer", "bob=a2V50", "--rate", "4 Mbps"], 2, &["is no rate"]),
    ] {
        let (ended, said) = lab.refusal(arguments);
        assert!(ended == Some(code) && words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }
    lab.tool(ALICE, &format!("echo '{list}' >&2\nexit 1\n"));
    assert!(lab.refusal(&["wg0"]).1.contains(list));
    let mut without = lab.command(ALICE, &["protect", "wg0", "--dry-run"]);
    without.env("PATH", lab.folder.path());
    let output = lab.machines[ALICE].run(move || without.output().expect("it starts"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("apt install wireguard-tools"), "{said}");
}
