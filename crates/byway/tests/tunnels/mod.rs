//! Two machines with a tunnel's device each, and a relay, over emulated links, in namespaces of their own.

#![allow(unreachable_pub, reason = "the tests use it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::fmt::Write as _;
use std::fs;
use std::io::{IoSlice, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use byway_lab::{Carrier, LabError, Machine, addresses};
use byway_net::{Clock, Device, DeviceSettings};
use byway_scenario::Scenario;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};

/// Two agents, the relay near both, and bursts of losses between the two.
pub const SCENARIO: &str = r#"
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

pub const NAMES: [&str; 4] = ["alice", "bob", "relay", "controller"];
pub const ALICE: usize = 0;
pub const BOB: usize = 1;
pub const RELAY: usize = 2;
/// On the relay's machine.
pub const CONTROLLER: usize = 3;

/// The tunnel's ports at both ends.
pub const PORTS: [u16; 2] = [51_821, 51_820];

/// What a tunnel at its usual MTU, 1,420 bytes, sends at most.
pub const LONGEST: usize = 1_420 + 32;

/// What nothing here takes when all is well: a guard, not a measure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What an agent logs then.
pub const CAPTURED: &str = "packets are captured";

pub struct Lab {
    pub folder: tempfile::TempDir,
    pub machines: Vec<Machine>,
    pub carrier: Carrier,
    /// Those of the tunnel, while it is up.
    devices: [Option<Device>; 2],
    nodes: Vec<Option<Child>>,
    /// Whether there is a controller, on the relay's machine.
    is_managed: bool,
}

impl Drop for Lab {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|place| self.kill(place));
    }
}

impl Lab {
    /// The machines, with a tunnel's device at both ends; `None` where the kernel makes none.
    pub fn new() -> Option<Self> {
        Self::of(SCENARIO)
    }

    pub fn of(scenario: &str) -> Option<Self> {
        let network = Scenario::parse(scenario).expect("a scenario").network(1).expect("all are joined");
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
        let mut lab = Self {
            devices: [None, None],
            folder: tempfile::tempdir().expect("a folder"),
            machines,
            carrier,
            nodes: (0..=CONTROLLER).map(|_| None).collect(),
            is_managed: false,
        };
        for place in [ALICE, BOB] {
            lab.take_up(place);
        }
        lab.write_files();
        lab.says(ALICE, &[&endpoint(BOB)]);
        lab.says(BOB, &[&endpoint(ALICE)]);
        Some(lab)
    }

    /// Makes an end's device of the tunnel, and takes it up.
    pub fn take_up(&mut self, place: usize) {
        let inside = IpAddr::from([10, 7, 0, u8::try_from(place + 1).expect("two ends")]);
        let settings = DeviceSettings { name: "wg0".into(), mtu: 1_420, addresses: vec![(inside, 24)] };
        let make = move || Device::create(&settings).expect("a machine has devices");
        self.devices[place] = Some(self.machines[place].run(make));
    }

    /// Removes an end's device of the tunnel.
    pub fn take_down(&mut self, place: usize) {
        self.devices[place] = None;
    }

    pub fn file(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", NAMES[place]))
    }

    /// The folder of what stands in the place of `WireGuard`'s tool.
    pub fn tools(&self, place: usize) -> PathBuf {
        self.folder.path().join(NAMES[place]).join("tools")
    }

    pub fn write_files(&self) {
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
        for place in [ALICE, BOB, RELAY] {
            self.write_file(place, "", &network);
        }
    }

    /// A node's own table with these keys, and the tables behind it.
    pub fn write_file(&self, place: usize, keys: &str, tables: &str) {
        let (name, state) = (NAMES[place], self.folder.path().join(NAMES[place]));
        let listen = addresses(place).map(|address| SocketAddr::new(address, 4_600).to_string());
        let node = format!(
            "[{}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = {listen:?}\n{keys}",
            if place == RELAY { "relay" } else { "agent" },
            state.display()
        );
        let observe = "[observe]\nlisten = \"127.0.0.1:4680\"\n";
        fs::write(self.file(place), format!("{node}{observe}{tables}")).expect("room on the disk");
    }

    /// The same machines with a controller.
    pub fn managed() -> Option<Self> {
        let mut lab = Self::new()?;
        lab.is_managed = true;
        let state = lab.folder.path().join(NAMES[CONTROLLER]);
        let listen = SocketAddr::new(addresses(RELAY)[0], 4_443);
        let observe = "[observe]\nlisten = \"127.0.0.1:4681\"\n";
        let own =
            format!("[controller]\nlisten = [\"{listen}\"]\nstate = \"{}\"\n{observe}", state.display());
        fs::write(lab.file(CONTROLLER), own).expect("room on the disk");
        lab.start(CONTROLLER);
        for (place, role) in [(ALICE, "agent"), (BOB, "agent"), (RELAY, "relay")] {
            let state = state.to_str().expect("text");
            let made = lab.run(RELAY, &["token", "create", "--role", role, "--uses", "1", "--state", state]);
            let token = String::from_utf8(made.stdout).expect("text");
            let near = if role == "agent" { "relay = \"relay\"\n" } else { "" };
            lab.write_file(place, &format!("{near}token = \"{}\"\n", token.trim()), "");
        }
        Some(lab)
    }

    /// What `WireGuard`'s tool says from now on: a device with peers of these endpoints.
    pub fn says(&self, place: usize, endpoints: &[&str]) {
        self.says_of_port(place, PORTS[place], endpoints);
    }

    /// The same of a device that has another port.
    pub fn says_of_port(&self, place: usize, port: u16, endpoints: &[&str]) {
        let mut dump = format!("cHJpdmF0ZQ==\tcHVibGlj\t{port}\toff\n");
        for (number, endpoint) in endpoints.iter().enumerate() {
            let _ = writeln!(dump, "a2V5{number}AAAAAAA=\t(none)\t{endpoint}\t10.7.0.0/24\t0\t0\t0\toff");
        }
        self.tool(place, &format!("[ \"$*\" = 'show wg0 dump' ] || exit 1\ncat <<'END'\n{dump}END\n"));
    }

    pub fn tool(&self, place: usize, script: &str) {
        let tools = self.tools(place);
        fs::create_dir_all(&tools).expect("room on the disk");
        fs::write(tools.join("wg"), format!("#!/bin/sh\n{script}")).expect("room on the disk");
        fs::set_permissions(tools.join("wg"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// A command of the program.
    pub fn command(&self, place: usize, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.env("PATH", format!("{}:{path}", self.tools(place).display()));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    pub fn run(&self, place: usize, arguments: &[&str]) -> Output {
        let mut command = self.command(place, arguments);
        self.machines[place].run(move || command.output().expect("it starts"))
    }

    /// What is said about a tunnel that cannot be protected.
    pub fn refusal(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let config = self.file(ALICE);
        let config = config.to_str().expect("text");
        let output = self.run(ALICE, &[&["protect", "--config", config, "--dry-run"], arguments].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    pub fn start(&mut self, place: usize) {
        let role = ["agent", "agent", "relay", "controller"][place];
        let words = if place < RELAY { &["protect", "wg0"] } else { &[role][..] };
        self.spawn(place, words, &format!("the {role} works"));
    }

    pub fn spawn(&mut self, place: usize, words: &[&str], says: &str) {
        let log = fs::File::create(self.log(place)).expect("room on the disk");
        let mut command = self.command(place, words);
        if self.is_managed && place < RELAY {
            command.args(["--peer", NAMES[1 - place]]);
        }
        command.arg("--config").arg(self.file(place));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        let machine = &self.machines[place.min(RELAY)];
        self.nodes[place] = Some(machine.run(move || command.spawn().expect("it starts")));
        self.wait(place, says);
    }

    pub fn start_all(&mut self) {
        for place in [RELAY, BOB, ALICE] {
            self.start(place);
        }
    }

    pub fn log(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("{}.log", NAMES[place]))
    }

    /// Until the log of a node says so.
    pub fn wait(&self, place: usize, words: &str) {
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

    /// The code with which a node ends by itself; `None` if it was killed.
    pub fn exit_code(&mut self, place: usize) -> Option<i32> {
        let mut node = self.nodes[place].take().expect("it was started");
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = node.try_wait().expect("it was ours") {
                return status.code();
            }
            if Instant::now() > until {
                node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
                panic!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn kill(&mut self, place: usize) {
        if let Some(mut node) = self.nodes[place].take() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }

    pub fn status(&self, place: usize) -> serde_json::Value {
        let output = self.run(place, &["status", "--json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// What an agent has counted under this name.
    pub fn counted(&self, place: usize, name: &str) -> u64 {
        let status = self.status(place);
        let found =
            status["counters"].as_array().into_iter().flatten().find(|counted| counted["reason"] == name);
        found.and_then(|counted| counted["count"].as_u64()).unwrap_or(0)
    }

    /// How many of the packets that came to an agent a cache repaired.
    pub fn repaired(&self, place: usize) -> u64 {
        self.status(place)["totals"][0]["received"]["cached"].as_u64().unwrap_or(0)
    }

    /// What a person should know of what is not protected.
    pub fn notes(&self, place: usize) -> Vec<String> {
        serde_json::from_value(self.status(place)["notes"].clone()).unwrap_or_default()
    }

    /// The only mapping of an agent.
    pub fn mapping(&self, place: usize) -> serde_json::Value {
        self.status(place)["mappings"][0].clone()
    }

    pub fn metrics(&self, place: usize) -> String {
        self.machines[place].run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:4680").expect("the agent answers");
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .expect("it is asked");
            let mut page = String::new();
            stream.read_to_string(&mut page).expect("it answers");
            page
        })
    }

    /// More tables for a node's file.
    pub fn append(&self, place: usize, tables: &str) {
        let text = fs::read_to_string(self.file(place)).expect("it is there");
        fs::write(self.file(place), format!("{text}{tables}")).expect("room on the disk");
    }

    /// Starts an agent that protects no device.
    pub fn spawn_agent(&mut self, place: usize) {
        self.spawn(place, &["agent"], "the agent works");
    }

    /// What a `WireGuard` in user space does: takes a packet from alice's device and sends it to bob, pinned in this way.
    pub fn send_by_tunnel(&self, [alice, bob]: &[UdpSocket; 2], pin: Pin) {
        let device: &'static str = byway_lab::DEVICE;
        let socket = alice.try_clone().expect("a socket");
        let bound = (pin == Pin::Socket).then_some(device.as_bytes());
        socket2::SockRef::from(&socket).bind_device(bound).expect("the device is there");
        let inside = self.machines[ALICE].run(|| UdpSocket::bind(("10.7.0.1", 0)).expect("it is alice's"));
        inside.send_to(&[7; 100], ("10.7.0.2", 9)).expect("the tunnel is up");
        let mut packet = [0; 2_000];
        let until = Instant::now() + PATIENCE;
        let length = loop {
            match rustix::io::read(self.devices[ALICE].as_ref().expect("it is up"), &mut packet) {
                Ok(length) => break length,
                Err(error) => assert!(Instant::now() < until, "nothing comes: {error}"),
            }
        };
        let packet = packet[..length].to_vec();
        let pinned = pin == Pin::Packets;
        self.machines[ALICE].run(move || send(&socket, &packet, pinned));
        // Whether it comes is for others to say: the path loses some.
        let _ = bob.recv(&mut [0; 2_000]);
    }

    /// What stands in the place of `WireGuard` at both ends.
    pub fn ends(&self) -> [UdpSocket; 2] {
        [ALICE, BOB].map(|place| {
            let socket = self.machines[place]
                .run(move || UdpSocket::bind(("0.0.0.0", PORTS[place])).expect("nobody has it"));
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("more than nothing");
            socket
        })
    }
}

pub fn endpoint(place: usize) -> String {
    SocketAddr::new(addresses(place)[0], PORTS[place]).to_string()
}

/// How a program keeps its packets to one device, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    Nothing,
    /// Each packet, with the source (`IP_PKTINFO`).
    Packets,
    /// The socket (`SO_BINDTODEVICE`).
    Socket,
}

/// Sends a packet to bob's endpoint.
pub fn send(socket: &UdpSocket, packet: &[u8], pinned: bool) {
    let IpAddr::V4(source) = addresses(ALICE)[0] else { panic!("the first is of IPv4") };
    let index = nix::net::if_::if_nametoindex(byway_lab::DEVICE).expect("the device is there");
    let info = nix::libc::in_pktinfo {
        ipi_ifindex: i32::try_from(index).expect("few devices"),
        ipi_spec_dst: nix::libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) },
        ipi_addr: nix::libc::in_addr { s_addr: 0 },
    };
    let all = [ControlMessage::Ipv4PacketInfo(&info)];
    let to = SockaddrStorage::from(endpoint(BOB).parse::<SocketAddr>().expect("an endpoint"));
    let pins = if pinned { &all[..] } else { &[] };
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(packet)], pins, MsgFlags::empty(), Some(&to))
        .expect("it is sent");
}

/// Makes a node's key; its public part.
pub fn key(folder: &Path) -> String {
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
pub fn talk([one, other]: [&UdpSocket; 2], from: usize, count: usize) -> usize {
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
