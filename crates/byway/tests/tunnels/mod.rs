//! Two machines with a tunnel's device each, and a relay, over emulated links, in namespaces of
//! their own.

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

use byway_lab::{EmulatorThread, Machine, addresses};
use byway_net::{Device, DeviceSettings};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};

#[path = "../sites/emulation.rs"]
mod emulation;

use emulation::start_machines;

/// Scenario of two agents, a relay near both, and bursts of losses between the agents.
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
/// Index of the controller, on the relay's machine.
pub const CONTROLLER: usize = 3;

/// Ports of the tunnel at both ends.
pub const PORTS: [u16; 2] = [51_821, 51_820];

/// Longest packet of a tunnel with its usual MTU of 1,420 bytes.
pub const LONGEST: usize = 1_420 + 32;

/// Longest time of any step: a guard, not a measure.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Log message of an agent that captures.
pub const CAPTURED: &str = "capture active";

pub struct Lab {
    pub folder: tempfile::TempDir,
    pub machines: Vec<Machine>,
    pub carrier: EmulatorThread,
    /// Devices of the tunnel, while it is up.
    devices: [Option<Device>; 2],
    nodes: Vec<Option<Child>>,
    /// True with a controller, on the relay's machine.
    is_managed: bool,
}

impl Drop for Lab {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|index| self.kill(index));
    }
}

impl Lab {
    /// Makes the machines, with a tunnel's device at both ends; `None` if the kernel refuses them.
    pub fn new() -> Option<Self> {
        Self::of(SCENARIO)
    }

    pub fn of(scenario: &str) -> Option<Self> {
        // The controller is on the relay's machine.
        let (machines, carrier) = start_machines(scenario, RELAY + 1, 0)?;
        let mut lab = Self {
            devices: [None, None],
            folder: tempfile::tempdir().expect("a folder"),
            machines,
            carrier,
            nodes: (0..=CONTROLLER).map(|_| None).collect(),
            is_managed: false,
        };
        for index in [ALICE, BOB] {
            lab.add_tunnel_device(index);
        }
        lab.write_files();
        lab.set_wg_output(ALICE, &[&endpoint(BOB)]);
        lab.set_wg_output(BOB, &[&endpoint(ALICE)]);
        Some(lab)
    }

    /// Makes an end's device of the tunnel, and enables it.
    pub fn add_tunnel_device(&mut self, index: usize) {
        let inside = IpAddr::from([10, 7, 0, u8::try_from(index + 1).expect("two ends")]);
        let settings = DeviceSettings { name: "wg0".into(), mtu: 1_420, addresses: vec![(inside, 24)] };
        let make = move || Device::create(&settings).expect("a machine has devices");
        self.devices[index] = Some(self.machines[index].run(make));
    }

    /// Removes an end's device of the tunnel.
    pub fn remove_tunnel_device(&mut self, index: usize) {
        self.devices[index] = None;
    }

    pub fn file(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", NAMES[index]))
    }

    /// Returns the folder of the program in place of `WireGuard`'s tool.
    pub fn tools(&self, index: usize) -> PathBuf {
        self.folder.path().join(NAMES[index]).join("tools")
    }

    pub fn write_files(&self) {
        let keys: Vec<String> = NAMES.iter().map(|name| key(&self.folder.path().join(name))).collect();
        let at = |index: usize| {
            let [ipv4, ipv6] = addresses(index).map(|address| SocketAddr::new(address, 4_600).to_string());
            format!("[\"{ipv4}\", \"{ipv6}\"]")
        };
        let agent = |index: usize| {
            format!(
                "[[network.agents]]\nname = \"{}\"\nnumber = {}\nkey = \"{}\"\naddresses = {}\nrelays = [\"relay\"]\n",
                NAMES[index],
                index + 1,
                keys[index],
                at(index)
            )
        };
        let network = format!(
            "{}{}[[network.relays]]\nname = \"relay\"\nnumber = 1\nkey = \"{}\"\naddresses = {}\n[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n",
            agent(ALICE),
            agent(BOB),
            keys[RELAY],
            at(RELAY),
        );
        for index in [ALICE, BOB, RELAY] {
            self.write_file(index, "", &network);
        }
    }

    /// Writes a node's file: its own table with these keys, and further tables.
    pub fn write_file(&self, index: usize, keys: &str, tables: &str) {
        let (name, state) = (NAMES[index], self.folder.path().join(NAMES[index]));
        let listen = addresses(index).map(|address| SocketAddr::new(address, 4_600).to_string());
        let node = format!(
            "[{}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = {listen:?}\n{keys}",
            if index == RELAY { "relay" } else { "agent" },
            state.display()
        );
        let observe = "[observe]\nlisten = \"127.0.0.1:4680\"\n";
        fs::write(self.file(index), format!("{node}{observe}{tables}")).expect("space on the disk");
    }

    /// Makes the same machines with a controller.
    pub fn managed() -> Option<Self> {
        let mut lab = Self::new()?;
        lab.is_managed = true;
        let state = lab.folder.path().join(NAMES[CONTROLLER]);
        let listen = SocketAddr::new(addresses(RELAY)[0], 4_443);
        let observe = "[observe]\nlisten = \"127.0.0.1:4681\"\n";
        let own =
            format!("[controller]\nlisten = [\"{listen}\"]\nstate = \"{}\"\n{observe}", state.display());
        fs::write(lab.file(CONTROLLER), own).expect("space on the disk");
        lab.start(CONTROLLER);
        for (index, role) in [(ALICE, "agent"), (BOB, "agent"), (RELAY, "relay")] {
            let state = state.to_str().expect("text");
            let made = lab.run(RELAY, &["token", "create", "--role", role, "--uses", "1", "--state", state]);
            let token = String::from_utf8(made.stdout).expect("text");
            let near = if role == "agent" { "relay = \"relay\"\n" } else { "" };
            lab.write_file(index, &format!("{near}token = \"{}\"\n", token.trim()), "");
        }
        Some(lab)
    }

    /// Sets the output of `WireGuard`'s tool: a device with peers at these endpoints.
    pub fn set_wg_output(&self, index: usize, endpoints: &[&str]) {
        self.set_wg_output_of_port(index, PORTS[index], endpoints);
    }

    /// Sets the output for a device with another port.
    pub fn set_wg_output_of_port(&self, index: usize, port: u16, endpoints: &[&str]) {
        let mut dump = format!("cHJpdmF0ZQ==\tcHVibGlj\t{port}\toff\n");
        for (number, endpoint) in endpoints.iter().enumerate() {
            let _ = writeln!(dump, "a2V5{number}AAAAAAA=\t(none)\t{endpoint}\t10.7.0.0/24\t0\t0\t0\toff");
        }
        self.tool(index, &format!("[ \"$*\" = 'show wg0 dump' ] || exit 1\ncat <<'END'\n{dump}END\n"));
    }

    pub fn tool(&self, index: usize, script: &str) {
        let tools = self.tools(index);
        fs::create_dir_all(&tools).expect("space on the disk");
        fs::write(tools.join("wg"), format!("#!/bin/sh\n{script}")).expect("space on the disk");
        fs::set_permissions(tools.join("wg"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// Returns a command of the program.
    pub fn command(&self, index: usize, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.env("PATH", format!("{}:{path}", self.tools(index).display()));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    pub fn run(&self, index: usize, arguments: &[&str]) -> Output {
        let mut command = self.command(index, arguments);
        self.machines[index].run(move || command.output().expect("it starts"))
    }

    /// Runs a command on a tunnel that cannot be protected, and returns its exit code and message.
    pub fn refusal(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let config = self.file(ALICE);
        let config = config.to_str().expect("text");
        let output = self.run(ALICE, &[&["protect", "--config", config, "--dry-run"], arguments].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    pub fn start(&mut self, index: usize) {
        let role = ["agent", "agent", "relay", "controller"][index];
        let words = if index < RELAY { &["protect", "wg0"] } else { &[role][..] };
        self.spawn(index, words, &format!("{role} started"));
    }

    pub fn spawn(&mut self, index: usize, words: &[&str], says: &str) {
        let log = fs::File::create(self.log(index)).expect("space on the disk");
        let mut command = self.command(index, words);
        if self.is_managed && index < RELAY {
            command.args(["--peer", NAMES[1 - index]]);
        }
        command.arg("--config").arg(self.file(index));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        let machine = &self.machines[index.min(RELAY)];
        self.nodes[index] = Some(machine.run(move || command.spawn().expect("it starts")));
        self.wait(index, says);
    }

    pub fn start_all(&mut self) {
        for index in [RELAY, BOB, ALICE] {
            self.start(index);
        }
    }

    pub fn log(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.log", NAMES[index]))
    }

    /// Waits until the log of a node has these words.
    pub fn wait(&self, index: usize, words: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let message = fs::read_to_string(self.log(index)).unwrap_or_default();
            if message.contains(words) {
                return;
            }
            assert!(Instant::now() < until, "{words} is not in: {message}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end of a node, and returns its exit code; `None` if it was killed.
    pub fn exit_code(&mut self, index: usize) -> Option<i32> {
        let mut node = self.nodes[index].take().expect("it was started");
        let until = Instant::now() + TIMEOUT;
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

    pub fn kill(&mut self, index: usize) {
        if let Some(mut node) = self.nodes[index].take() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }

    pub fn status(&self, index: usize) -> serde_json::Value {
        let output = self.run(index, &["status", "--json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Returns an agent's counter of this name.
    pub fn counter(&self, index: usize, name: &str) -> u64 {
        crate::counters::counter(&self.status(index), "counters", name)
    }

    /// Counts the packets to an agent that a cache repaired.
    pub fn repaired(&self, index: usize) -> u64 {
        self.status(index)["totals"][0]["received"]["cached"].as_u64().unwrap_or(0)
    }

    /// Returns the notes of an agent on unprotected traffic.
    pub fn notes(&self, index: usize) -> Vec<String> {
        serde_json::from_value(self.status(index)["notes"].clone()).unwrap_or_default()
    }

    /// Returns the only mapping of an agent.
    pub fn mapping(&self, index: usize) -> serde_json::Value {
        self.status(index)["mappings"][0].clone()
    }

    pub fn metrics(&self, index: usize) -> String {
        self.machines[index].run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:4680").expect("the agent answers");
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .expect("it is asked");
            let mut page = String::new();
            stream.read_to_string(&mut page).expect("it answers");
            page
        })
    }

    /// Appends tables to a node's file.
    pub fn append(&self, index: usize, tables: &str) {
        let text = fs::read_to_string(self.file(index)).expect("it is there");
        fs::write(self.file(index), format!("{text}{tables}")).expect("space on the disk");
    }

    /// Starts an agent that protects no device.
    pub fn spawn_agent(&mut self, index: usize) {
        self.spawn(index, &["agent"], "agent started");
    }

    /// Sends a packet of alice's device to bob as a `WireGuard` in user space does, pinned to the
    /// device in this manner.
    pub fn send_by_tunnel(&self, [alice, bob]: &[UdpSocket; 2], pin: Pin) {
        let device: &'static str = byway_lab::DEVICE;
        let socket = alice.try_clone().expect("a socket");
        let bound = (pin == Pin::Socket).then_some(device.as_bytes());
        socket2::SockRef::from(&socket).bind_device(bound).expect("the device is there");
        let inside = self.machines[ALICE].run(|| UdpSocket::bind(("10.7.0.1", 0)).expect("it is alice's"));
        inside.send_to(&[7; 100], ("10.7.0.2", 9)).expect("the tunnel is up");
        let mut packet = [0; 2_000];
        let until = Instant::now() + TIMEOUT;
        let length = loop {
            match rustix::io::read(self.devices[ALICE].as_ref().expect("it is up"), &mut packet) {
                Ok(length) => break length,
                Err(error) => assert!(Instant::now() < until, "nothing comes: {error}"),
            }
        };
        let packet = packet[..length].to_vec();
        let pinned = pin == Pin::Packets;
        self.machines[ALICE].run(move || send(&socket, &packet, pinned));
        // Callers check the arrival, because the path loses some packets.
        let _ = bob.recv(&mut [0; 2_000]);
    }

    /// Opens sockets in place of `WireGuard` at both ends.
    pub fn ends(&self) -> [UdpSocket; 2] {
        [ALICE, BOB].map(|index| {
            let socket = self.machines[index]
                .run(move || UdpSocket::bind(("0.0.0.0", PORTS[index])).expect("nobody has it"));
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("more than nothing");
            socket
        })
    }
}

pub fn endpoint(index: usize) -> String {
    SocketAddr::new(addresses(index)[0], PORTS[index]).to_string()
}

/// Method by which a program pins its packets to one device, if any.
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

/// Makes a node's key, and returns its public part.
pub fn key(folder: &Path) -> String {
    fs::create_dir(folder).expect("space on the disk");
    let output = Command::new(env!("CARGO_BIN_EXE_byway"))
        .arg("keygen")
        .arg(folder.join("key"))
        .arg("--json")
        .output();
    let made: serde_json::Value = serde_json::from_slice(&output.expect("it starts").stdout).expect("JSON");
    made["public_key"].as_str().expect("a key").to_owned()
}

/// Sends datagrams from one end to the other's endpoint, which answers each to its source; returns
/// the number of answers.
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
