//! Two agents, each near a relay of its own, in namespaces over emulated links, with or without a
//! controller. Each exposes `app`, and forwards to the other's.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byway_lab::{EmulatorThread, Machine, addresses};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;

mod emulation;

pub use emulation::start_machines;

pub const ALICE: usize = 0;
pub const BOB: usize = 1;
pub const EAST: usize = 2;
pub const WEST: usize = 3;
pub const CONTROLLER: usize = 4;
const NAMES: [&str; 5] = ["alice", "bob", "east", "west", "controller"];

/// Program of this build.
pub const BYWAY: &str = env!("CARGO_BIN_EXE_byway");

/// Name of the router between alice and all others, if her access link has keys of its own.
const GATE: &str = "gate";

/// First port at which an agent listens for applications, and the port of the other agent's
/// application.
const FORWARD: u16 = 5_000;
const APP: u16 = 7;

/// Longest time of any step: a guard, not a measure.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a stream's packets.
const BYTES: usize = 200;

/// Interval of an application's packets.
const INTERVAL: Duration = Duration::from_millis(10);

/// Source of the nodes' knowledge of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Static,
    Managed,
}

/// Parameters of a test's sites.
#[derive(Clone, Debug)]
pub struct Plan {
    pub mode: Mode,
    /// Keys of the direct link besides its delay.
    pub direct: String,
    /// Keys of alice's links to both relays besides their delay.
    pub uplink: String,
    /// Keys of the access link that all of alice's links share, if she has one.
    pub access: Option<String>,
    /// Keys of each `[[forward]]` besides its addresses; the same at both agents.
    pub forwards: Vec<String>,
}

/// Receiver of a burst.
#[derive(Clone, Copy, Debug)]
pub enum BurstTo {
    /// Bob's application, through a forward of alice's.
    Forward(usize),
    /// Port of bob's machine, without Byway.
    Machine,
}

/// Receive buffer of a burst's receiver: each of 1,000 datagrams occupies at least 768 bytes.
const BURST_BUFFER_BYTES: usize = 8 << 20;

pub struct Sites {
    folder: tempfile::TempDir,
    plan: Plan,
    /// Program of each node.
    programs: [PathBuf; NAMES.len()],
    machines: Vec<Machine>,
    carrier: EmulatorThread,
    begun: Instant,
    nodes: Vec<Option<Child>>,
}

impl Drop for Sites {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|index| self.kill(index));
    }
}

impl Sites {
    /// Starts all nodes; `None` if the kernel refuses machines to this process.
    pub fn start(plan: Plan) -> Option<Self> {
        Self::start_with(plan, std::array::from_fn(|_| PathBuf::from(BYWAY)))
    }

    /// Starts all nodes, with a program for each.
    pub fn start_with(plan: Plan, programs: [PathBuf; NAMES.len()]) -> Option<Self> {
        let routers = usize::from(plan.access.is_some());
        let (machines, carrier) = start_machines(&scenario(&plan), NAMES.len(), routers)?;
        let begun = Instant::now();
        let mut sites = Self {
            folder: tempfile::tempdir().expect("a folder"),
            plan,
            programs,
            machines,
            carrier,
            begun,
            nodes: (0..NAMES.len()).map(|_| None).collect(),
        };
        sites.start_all();
        Some(sites)
    }

    fn start_all(&mut self) {
        match self.plan.mode {
            Mode::Static => self.write_static_files(),
            Mode::Managed => self.write_managed_files(),
        }
        for index in [EAST, WEST, BOB, ALICE] {
            self.revive(index);
        }
        for index in [EAST, WEST, BOB, ALICE] {
            self.wait_for(&format!("{} serves its status", NAMES[index]), || self.status(index).is_object());
        }
    }

    /// Restarts the time of the links, with the outages and losses of the plan.
    pub fn begin_links(&mut self) {
        self.begun = Instant::now();
        self.carrier.begin().expect("it carries");
    }

    /// Returns the time since the begin of the links.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Starts a node.
    pub fn revive(&mut self, index: usize) {
        let role = role(index);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file(index));
        let log = log.expect("space on the disk");
        let mut command = Command::new(&self.programs[index]);
        command.args([role, "--config"]).arg(self.file(index)).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        self.nodes[index] = Some(self.machines[index].run(move || command.spawn().expect("it starts")));
    }

    /// Runs a task in a machine.
    pub fn within<T: Send + 'static>(&self, index: usize, task: impl FnOnce() -> T + Send + 'static) -> T {
        self.machines[index].run(task)
    }

    /// Returns the process of a running node.
    pub fn process(&self, index: usize) -> u32 {
        self.nodes[index].as_ref().expect("it runs").id()
    }

    /// Returns the folder of all files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds keys to a node's own table, and restarts it with them.
    pub fn restart_with(&mut self, index: usize, keys: &str) {
        let table = format!("[{}]\n", role(index));
        let text = std::fs::read_to_string(self.file(index)).expect("it was written");
        self.write(index, &text.replacen(&table, &format!("{table}{keys}\n"), 1));
        self.kill(index);
        self.revive(index);
    }

    /// Kills a node by SIGKILL.
    pub fn kill(&mut self, index: usize) {
        if let Some(mut node) = self.nodes[index].take() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }

    /// Stops a node by SIGTERM, and starts it with another program, which its machine uses from
    /// then on.
    pub fn replace(&mut self, index: usize, program: &Path) {
        let mut node = self.nodes[index].take().expect("it runs");
        let process = rustix::process::Pid::from_child(&node);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it is ours");
        let ended = node.wait().expect("it was ours");
        assert_eq!(ended.code(), Some(0), "{}: {}", NAMES[index], self.log(index));
        program.clone_into(&mut self.programs[index]);
        self.revive(index);
    }

    pub fn log(&self, index: usize) -> String {
        std::fs::read_to_string(self.log_file(index)).unwrap_or_default()
    }

    fn log_file(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.log", NAMES[index]))
    }

    fn file(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", NAMES[index]))
    }

    /// Runs the program in a machine.
    pub fn run(&self, index: usize, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.programs[index]);
        command.args(arguments).current_dir(self.folder.path());
        self.machines[index].run(move || command.output().expect("it starts"))
    }

    /// Returns the status of a node; null before it answers.
    pub fn status(&self, index: usize) -> serde_json::Value {
        serde_json::from_slice(&self.run(index, &["status", "--json"]).stdout).unwrap_or_default()
    }

    /// Waits until a condition is true.
    pub fn wait_for(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let until = Instant::now() + TIMEOUT;
        while !holds() {
            if Instant::now() > until {
                let logs: Vec<String> = (0..NAMES.len()).map(|index| self.log(index)).collect();
                panic!("{what}: it does not; alice: {}\nlogs: {}", self.status(ALICE), logs.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the mapping of a forward, from the status of the agent that listens for it; null if
    /// there is none.
    pub fn mapping(&self, from: usize, forward: usize) -> serde_json::Value {
        let status = self.status(from);
        let endpoint = |mapping: &&serde_json::Value| {
            let service = mapping["endpoint"].as_str().unwrap_or_default();
            mapping["is_from_here"] == true && service.ends_with(&format!(":{}", source_port(forward)))
        };
        status["mappings"].as_array().into_iter().flatten().find(endpoint).cloned().unwrap_or_default()
    }

    /// Starts to send packets through a forward of an agent, and to record the arrivals at the
    /// other's application.
    pub fn begin(&self, from: usize, forward: usize) -> Stream {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let sender = self.machines[from]
            .run(move || UdpSocket::bind(address(source_port(forward))).expect("the port is free"));
        let to = 1 - from;
        let receiver = self.machines[to]
            .run(move || UdpSocket::bind(address(app_port(forward))).expect("the port is free"));
        Stream::begin(sender, address(forward_port(forward)), receiver, BYTES)
    }

    /// Sends a burst of datagrams from a new port of alice's, to her forward or directly to bob's
    /// machine, and returns the number that arrive. All queues and buffers of the machines can hold
    /// the burst.
    pub fn burst(&self, to: BurstTo, count: u32, bytes: usize) -> usize {
        for index in [ALICE, BOB] {
            self.machines[index].run(|| {
                let mut command = Command::new("ip");
                command.args(["link", "set", "dev", "wan0", "txqueuelen", "10000"]);
                let set = command.output().expect("ip is there");
                assert!(set.status.success(), "{set:?}");
            });
        }
        let (receiver, to) = match to {
            BurstTo::Forward(forward) => (
                SocketAddr::from(([127, 0, 0, 1], app_port(forward))),
                ([127, 0, 0, 1], forward_port(forward)).into(),
            ),
            BurstTo::Machine => {
                let bob = SocketAddr::new(addresses(BOB)[0], 9_000);
                (bob, bob)
            }
        };
        let receiver = self.machines[BOB].run(move || UdpSocket::bind(receiver).expect("the port is free"));
        setsockopt(&receiver, RcvBufForce, &BURST_BUFFER_BYTES).expect("tests with machines run as root");
        receiver.set_read_timeout(Some(Duration::from_secs(3))).expect("a timeout");
        self.machines[ALICE].run(move || {
            let sender = UdpSocket::bind(("0.0.0.0", 0)).expect("a port is free");
            let mut datagram = vec![0; bytes];
            for number in 0..count {
                datagram[..4].copy_from_slice(&number.to_be_bytes());
                sender.send_to(&datagram, to).expect("it can be sent");
            }
        });
        let (mut arrived, mut datagram) = (BTreeSet::new(), [0; 2_000]);
        while arrived.len() < count as usize
            && let Ok(length) = receiver.recv(&mut datagram)
        {
            assert_eq!(length, bytes);
            let number = u32::from_be_bytes([datagram[0], datagram[1], datagram[2], datagram[3]]);
            assert!(arrived.insert(number), "{number} arrived twice");
        }
        arrived.len()
    }

    fn write(&self, index: usize, text: &str) {
        std::fs::write(self.file(index), text).expect("space on the disk");
    }

    /// Returns the parts of an agent's file that do not depend on the mode.
    fn agent_tables(&self, index: usize) -> String {
        let mut tables = String::new();
        let peer = NAMES[1 - index];
        for (number, keys) in self.plan.forwards.iter().enumerate() {
            let (listen, target) = (forward_port(number), app_port(number));
            let _ = write!(
                tables,
                "[[forward]]\nlisten = \"127.0.0.1:{listen}\"\npeer = \"{peer}\"\nto = \"app-{number}\"\n{keys}\n\
                 [[expose]]\nname = \"app-{number}\"\ntarget = \"127.0.0.1:{target}\"\n"
            );
        }
        tables
    }

    fn node(&self, index: usize, rest: &str) -> String {
        let (role, name, state) = (role(index), NAMES[index], self.folder.path().join(NAMES[index]));
        let [ipv4, ipv6] = sockets(index);
        let tables = if index < EAST { self.agent_tables(index) } else { String::new() };
        format!(
            "[{role}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = [\"{ipv4}\", \"{ipv6}\"]\n{rest}\n{tables}\
             [observe]\nlisten = \"127.0.0.1:4680\"\n",
            state.display()
        )
    }

    fn write_static_files(&self) {
        let mut network = String::new();
        for index in [EAST, WEST, ALICE, BOB] {
            let key = key(&self.folder.path().join(NAMES[index]));
            let [ipv4, ipv6] = sockets(index);
            let (table, number) = if index < EAST { ("agents", index + 1) } else { ("relays", index - 1) };
            let _ = write!(
                network,
                "[[network.{table}]]\nname = \"{}\"\nnumber = {number}\nkey = \"{key}\"\naddresses = [\"{ipv4}\", \"{ipv6}\"]\n",
                NAMES[index]
            );
            if index < EAST {
                let _ = writeln!(network, "relays = [\"{}\", \"{}\"]", NAMES[index + 2], NAMES[3 - index]);
            }
        }
        network += "[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n";
        for index in [EAST, WEST, ALICE, BOB] {
            self.write(index, &format!("{}{network}", self.node(index, "")));
        }
    }

    fn write_managed_files(&mut self) {
        let [ipv4, _] = addresses(CONTROLLER);
        let state = self.folder.path().join(NAMES[CONTROLLER]);
        std::fs::create_dir(&state).expect("space on the disk");
        self.write(
            CONTROLLER,
            &format!("[controller]\nstate = \"{}\"\nlisten = [\"{ipv4}:4443\"]\n", state.display()),
        );
        self.revive(CONTROLLER);
        for index in [EAST, WEST, ALICE, BOB] {
            let token = self.token(role(index));
            let near =
                if index < EAST { format!("relay = \"{}\"\n", NAMES[index + 2]) } else { String::new() };
            self.write(index, &self.node(index, &format!("token = \"{token}\"\n{near}")));
        }
    }

    fn token(&self, role: &str) -> String {
        self.token_with(&["--role", role])
    }

    /// Requests a token of the controller with these flags.
    pub fn token_with(&self, flags: &[&str]) -> String {
        let state = self.folder.path().join(NAMES[CONTROLLER]);
        let mut token = String::new();
        self.wait_for("the controller gives tokens", || {
            let rest = ["--state", state.to_str().expect("UTF-8")];
            let made = self.run(CONTROLLER, &[&["token", "create"], flags, &rest].concat());
            String::from_utf8_lossy(&made.stdout).trim().clone_into(&mut token);
            made.status.success()
        });
        token
    }
}

/// Returns the scenario of the machines and links. The direct path takes 40 ms, and so does the
/// relay path.
fn scenario(plan: &Plan) -> String {
    let Plan { direct, uplink, access, .. } = plan;
    let alice = if access.is_some() { GATE } else { NAMES[ALICE] };
    let mut control = String::new();
    for name in [alice].iter().chain(&NAMES[1..CONTROLLER]) {
        let _ = write!(control, "[[link]]\nbetween = [\"controller\", \"{name}\"]\ndelay = \"10 ms\"\n");
    }
    let access = access.as_ref().map_or_else(String::new, |keys| {
        format!(
            "[[node]]\nname = \"{GATE}\"\nrole = \"router\"\n\
             [[link]]\nbetween = [\"alice\", \"{GATE}\"]\n{keys}\n"
        )
    });
    format!(
        "title = \"Two sites\"\nlength = \"1 h\"\n\
         [[node]]\nname = \"alice\"\nrole = \"agent\"\n[[node]]\nname = \"bob\"\nrole = \"agent\"\n\
         [[node]]\nname = \"east\"\nrole = \"relay\"\n[[node]]\nname = \"west\"\nrole = \"relay\"\n\
         [[node]]\nname = \"controller\"\nrole = \"agent\"\n\
         {access}\
         [[link]]\nbetween = [\"{alice}\", \"bob\"]\ndelay = \"40 ms\"\n{direct}\n\
         [[link]]\nbetween = [\"{alice}\", \"east\"]\ndelay = \"5 ms\"\n{uplink}\n\
         [[link]]\nbetween = [\"{alice}\", \"west\"]\ndelay = \"35 ms\"\n{uplink}\n\
         [[link]]\nbetween = [\"bob\", \"west\"]\ndelay = \"5 ms\"\n\
         [[link]]\nbetween = [\"bob\", \"east\"]\ndelay = \"35 ms\"\n\
         [[link]]\nbetween = [\"east\", \"west\"]\ndelay = \"30 ms\"\n\
         {control}\
         [[flow]]\nname = \"call\"\nfrom = \"alice\"\nto = \"bob\"\nservice = \"caching\"\n\
         sends = {{ kind = \"steady\", every = \"10 ms\", bytes = 200 }}\n"
    )
}

fn role(index: usize) -> &'static str {
    ["agent", "agent", "relay", "relay", "controller"][index]
}

fn sockets(index: usize) -> [SocketAddr; 2] {
    addresses(index).map(|address| SocketAddr::new(address, 4_600))
}

fn port(base: u16, forward: usize) -> u16 {
    base + u16::try_from(forward).expect("few forwards")
}

fn forward_port(forward: usize) -> u16 {
    port(FORWARD, forward)
}

fn app_port(forward: usize) -> u16 {
    port(APP, forward)
}

fn source_port(forward: usize) -> u16 {
    port(FORWARD + 100, forward)
}

/// Makes a node's key, and returns its public part.
pub fn key(folder: &Path) -> String {
    std::fs::create_dir(folder).expect("space on the disk");
    let mut command = Command::new(BYWAY);
    let output = command.arg("keygen").arg(folder.join("key")).arg("--json").output().expect("it starts");
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    made["public_key"].as_str().expect("a key").to_owned()
}

/// Stream of packets from one application to another, a hundred a second.
pub struct Stream {
    ends: Arc<AtomicBool>,
    sending: JoinHandle<Vec<Instant>>,
    receiving: JoinHandle<()>,
    arrivals: Arc<Mutex<Vec<ArrivalCount>>>,
}

/// Outcome of a packet.
#[derive(Clone, Copy, Default)]
struct ArrivalCount {
    count: u32,
    first: Option<Instant>,
}

/// Fate of a stream's packets.
pub struct Fate {
    /// Sending times.
    pub sent: Vec<Instant>,
    /// Number of arrivals of each packet.
    pub arrivals: Vec<u32>,
    /// Delay of each packet that arrived.
    pub took: Vec<Option<Duration>>,
}

impl Stream {
    /// Starts to send packets of this length, and to record arrivals.
    pub fn begin(sender: UdpSocket, to: SocketAddr, receiver: UdpSocket, bytes: usize) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let sending = {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || send_all(&sender, to, bytes, &ends))
        };
        let receiving = {
            let (ends, arrived) = (Arc::clone(&ends), Arc::clone(&arrived));
            std::thread::spawn(move || receive_all(&receiver, &ends, &arrived))
        };
        Self { ends, sending, receiving, arrivals: arrived }
    }

    /// Counts the packets that have arrived.
    pub fn count(&self) -> usize {
        self.arrivals.lock().expect("nobody panicked").iter().filter(|arrived| arrived.count > 0).count()
    }

    /// Ends the stream, and waits for packets in flight.
    pub fn finish(self) -> Fate {
        self.ends.store(true, Ordering::Relaxed);
        let sent = self.sending.join().expect("it was sent");
        self.receiving.join().expect("it came");
        let mut arrived = std::mem::take(&mut *self.arrivals.lock().expect("nobody panicked"));
        arrived.resize(sent.len(), ArrivalCount::default());
        let took = sent
            .iter()
            .zip(&arrived)
            .map(|(sent, arrived)| arrived.first.map(|first| first - *sent))
            .collect();
        Fate { sent, took, arrivals: arrived.iter().map(|arrived| arrived.count).collect() }
    }
}

impl Fate {
    /// Counts the packets sent in a period that never arrived.
    pub fn missing(&self, from: Instant, until: Instant) -> usize {
        let all = self.sent.iter().zip(&self.arrivals);
        all.filter(|(sent, arrived)| (from..until).contains(*sent) && **arrived == 0).count()
    }

    /// Returns the sending time of the last packet in a period that never arrived.
    pub fn last_missing(&self, from: Instant, until: Instant) -> Option<Instant> {
        let all = self.sent.iter().zip(&self.arrivals).rev();
        all.filter(|(sent, arrived)| (from..until).contains(*sent) && **arrived == 0)
            .map(|(sent, _)| *sent)
            .next()
    }

    /// Counts the packets that arrived more than once.
    pub fn twice(&self) -> usize {
        self.arrivals.iter().filter(|arrived| **arrived > 1).count()
    }
}

fn send_all(sender: &UdpSocket, to: SocketAddr, bytes: usize, ends: &AtomicBool) -> Vec<Instant> {
    let mut sent = Vec::new();
    let begun = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        let number = u32::try_from(sent.len()).expect("a test is short");
        std::thread::sleep((INTERVAL * number).saturating_sub(begun.elapsed()));
        let mut packet = vec![0; bytes];
        packet[..4].copy_from_slice(&number.to_be_bytes());
        sent.push(Instant::now());
        sender.send_to(&packet, to).expect("the agent listens");
    }
    sent
}

/// Receives packets until half a second after the last one was sent.
fn receive_all(receiver: &UdpSocket, ends: &AtomicBool, arrived: &Mutex<Vec<ArrivalCount>>) {
    receiver.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let mut packet = [0; 2_000];
    loop {
        match receiver.recv(&mut packet) {
            Ok(_) => {
                let now = Instant::now();
                let number = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]) as usize;
                let mut arrived = arrived.lock().expect("nobody panicked");
                if arrived.len() <= number {
                    arrived.resize(number + 1, ArrivalCount::default());
                }
                arrived[number].count += 1;
                arrived[number].first.get_or_insert(now);
            }
            Err(_) if ends.load(Ordering::Relaxed) => return,
            Err(_) => {}
        }
    }
}
