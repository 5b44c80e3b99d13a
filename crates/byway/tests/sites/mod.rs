//! Two agents, each near a relay of its own, in namespaces of their own over emulated links; with a controller or without.
//! Each exposes `app`, and forwards to the other's.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byway_lab::{Carrier, LabError, Machine, addresses};
use byway_net::Clock;
use byway_scenario::Scenario;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;

pub const ALICE: usize = 0;
pub const BOB: usize = 1;
pub const EAST: usize = 2;
pub const WEST: usize = 3;
pub const CONTROLLER: usize = 4;
const NAMES: [&str; 5] = ["alice", "bob", "east", "west", "controller"];

/// The program of this build.
pub const BYWAY: &str = env!("CARGO_BIN_EXE_byway");

/// A router between alice and all others, where her access line has keys of its own.
const GATE: &str = "gate";

/// The first port at which an agent listens for an application, and that of the application of the other one.
const FORWARD: u16 = 5_000;
const APP: u16 = 7;

/// What nothing here takes when all is well: a guard, not a measure.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The length of its packets.
const BYTES: usize = 200;

/// Between two packets of an application.
const INTERVAL: Duration = Duration::from_millis(10);

/// How nodes know of one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Static,
    Managed,
}

/// What a test varies.
#[derive(Clone, Debug)]
pub struct Plan {
    pub mode: Mode,
    /// Keys of the direct link beside its delay.
    pub direct: String,
    /// Keys of alice's links to both relays beside their delay.
    pub uplink: String,
    /// Keys of the access line that alice shares among all her links, if she has one.
    pub access: Option<String>,
    /// Keys of each `[[forward]]` beside where it listens and leads; the same at both agents.
    pub forwards: Vec<String>,
}

/// Receiver of a burst.
#[derive(Clone, Copy, Debug)]
pub enum BurstTo {
    /// The application of bob's to which a forward of alice's leads.
    Forward(usize),
    /// A port of bob's machine, without Byway.
    Machine,
}

/// Receive buffer of a burst's receiver: 1,000 datagrams take 768 bytes of it each, and more if they are longer.
const BURST_BUFFER_BYTES: usize = 8 << 20;

pub struct Sites {
    folder: tempfile::TempDir,
    plan: Plan,
    /// The program that each node runs.
    programs: [PathBuf; NAMES.len()],
    machines: Vec<Machine>,
    carrier: Carrier,
    begun: Instant,
    nodes: Vec<Option<Child>>,
}

impl Drop for Sites {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|place| self.kill(place));
    }
}

impl Sites {
    /// All nodes run; `None` where the kernel makes no machines for this process.
    pub fn start(plan: Plan) -> Option<Self> {
        Self::start_with(plan, std::array::from_fn(|_| PathBuf::from(BYWAY)))
    }

    /// The same with a program for each node.
    pub fn start_with(plan: Plan, programs: [PathBuf; NAMES.len()]) -> Option<Self> {
        let network =
            Scenario::parse(&scenario(&plan)).expect("a scenario").network(1).expect("all are joined");
        let (mut machines, mut devices) = (Vec::new(), Vec::new());
        for place in 0..NAMES.len() {
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
        devices.extend(plan.access.as_ref().map(|_| None));
        let all: Vec<Vec<IpAddr>> = (0..devices.len()).map(|place| addresses(place).to_vec()).collect();
        let begun = Instant::now();
        let carrier = Carrier::start(network, devices, &all, &[], 1, Clock::start(), None).expect("a thread");
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
        for place in [EAST, WEST, BOB, ALICE] {
            self.revive(place);
        }
        for place in [EAST, WEST, BOB, ALICE] {
            self.wait_for(&format!("{} serves its status", NAMES[place]), || self.status(place).is_object());
        }
    }

    /// Begins the time of the links anew, with the outages and losses that the plan has for it.
    pub fn begin_links(&mut self) {
        self.begun = Instant::now();
        self.carrier.begin().expect("it carries");
    }

    /// How long the links have worked.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Starts a node.
    pub fn revive(&mut self, place: usize) {
        let role = role(place);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file(place));
        let log = log.expect("room on the disk");
        let mut command = Command::new(&self.programs[place]);
        command.args([role, "--config"]).arg(self.file(place)).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        self.nodes[place] = Some(self.machines[place].run(move || command.spawn().expect("it starts")));
    }

    /// Runs something in a machine.
    pub fn within<T: Send + 'static>(&self, place: usize, task: impl FnOnce() -> T + Send + 'static) -> T {
        self.machines[place].run(task)
    }

    /// The process of a node that runs.
    pub fn process(&self, place: usize) -> u32 {
        self.nodes[place].as_ref().expect("it runs").id()
    }

    /// The folder of all files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds keys to a node's own table, and starts it again with them.
    pub fn restart_with(&mut self, place: usize, keys: &str) {
        let table = format!("[{}]\n", role(place));
        let text = std::fs::read_to_string(self.file(place)).expect("it was written");
        self.write(place, &text.replacen(&table, &format!("{table}{keys}\n"), 1));
        self.kill(place);
        self.revive(place);
    }

    /// SIGKILL.
    pub fn kill(&mut self, place: usize) {
        if let Some(mut node) = self.nodes[place].take() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }

    /// Stops a node by SIGTERM, and starts it with another program; what its machine runs is of that one from then on.
    pub fn replace(&mut self, place: usize, program: &Path) {
        let mut node = self.nodes[place].take().expect("it runs");
        let process = rustix::process::Pid::from_child(&node);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it is ours");
        let ended = node.wait().expect("it was ours");
        assert_eq!(ended.code(), Some(0), "{}: {}", NAMES[place], self.log(place));
        program.clone_into(&mut self.programs[place]);
        self.revive(place);
    }

    pub fn log(&self, place: usize) -> String {
        std::fs::read_to_string(self.log_file(place)).unwrap_or_default()
    }

    fn log_file(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("{}.log", NAMES[place]))
    }

    fn file(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", NAMES[place]))
    }

    /// Runs the program in a machine.
    pub fn run(&self, place: usize, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.programs[place]);
        command.args(arguments).current_dir(self.folder.path());
        self.machines[place].run(move || command.output().expect("it starts"))
    }

    /// What a node says of itself; null before it does.
    pub fn status(&self, place: usize) -> serde_json::Value {
        serde_json::from_slice(&self.run(place, &["status", "--json"]).stdout).unwrap_or_default()
    }

    /// Until something holds.
    pub fn wait_for(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds() {
            if Instant::now() > until {
                let logs: Vec<String> = (0..NAMES.len()).map(|place| self.log(place)).collect();
                panic!("{what}: it does not; alice: {}\nlogs: {}", self.status(ALICE), logs.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The mapping of a forward, as the agent that listens for it sees it; null if there is none.
    pub fn mapping(&self, from: usize, forward: usize) -> serde_json::Value {
        let status = self.status(from);
        let endpoint = |mapping: &&serde_json::Value| {
            let service = mapping["endpoint"].as_str().unwrap_or_default();
            mapping["is_from_here"] == true && service.ends_with(&format!(":{}", source_port(forward)))
        };
        status["mappings"].as_array().into_iter().flatten().find(endpoint).cloned().unwrap_or_default()
    }

    /// Begins to send packets by a forward of an agent, and to note those that come to the other's application.
    pub fn begin(&self, from: usize, forward: usize) -> Stream {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let sender = self.machines[from]
            .run(move || UdpSocket::bind(address(source_port(forward))).expect("the port is free"));
        let to = 1 - from;
        let receiver = self.machines[to]
            .run(move || UdpSocket::bind(address(app_port(forward))).expect("the port is free"));
        Stream::begin(sender, address(forward_port(forward)), receiver, BYTES)
    }

    /// Sends datagrams at once from a new port of alice's, to her forward or to bob's machine by itself; returns the number that
    /// arrive. No queue or buffer of the machines is shorter than the burst.
    pub fn burst(&self, to: BurstTo, count: u32, bytes: usize) -> usize {
        for place in [ALICE, BOB] {
            self.machines[place].run(|| {
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

    fn write(&self, place: usize, text: &str) {
        std::fs::write(self.file(place), text).expect("room on the disk");
    }

    /// What an agent's file says whatever the mode.
    fn agent_tables(&self, place: usize) -> String {
        let mut tables = String::new();
        let peer = NAMES[1 - place];
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

    fn node(&self, place: usize, rest: &str) -> String {
        let (role, name, state) = (role(place), NAMES[place], self.folder.path().join(NAMES[place]));
        let [ipv4, ipv6] = sockets(place);
        let tables = if place < EAST { self.agent_tables(place) } else { String::new() };
        format!(
            "[{role}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = [\"{ipv4}\", \"{ipv6}\"]\n{rest}\n{tables}\
             [observe]\nlisten = \"127.0.0.1:4680\"\n",
            state.display()
        )
    }

    fn write_static_files(&self) {
        let mut network = String::new();
        for place in [EAST, WEST, ALICE, BOB] {
            let key = key(&self.folder.path().join(NAMES[place]));
            let [ipv4, ipv6] = sockets(place);
            let (table, number) = if place < EAST { ("agents", place + 1) } else { ("relays", place - 1) };
            let _ = write!(
                network,
                "[[network.{table}]]\nname = \"{}\"\nnumber = {number}\nkey = \"{key}\"\naddresses = [\"{ipv4}\", \"{ipv6}\"]\n",
                NAMES[place]
            );
            if place < EAST {
                let _ = writeln!(network, "relays = [\"{}\", \"{}\"]", NAMES[place + 2], NAMES[3 - place]);
            }
        }
        network += "[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n";
        for place in [EAST, WEST, ALICE, BOB] {
            self.write(place, &format!("{}{network}", self.node(place, "")));
        }
    }

    fn write_managed_files(&mut self) {
        let [ipv4, _] = addresses(CONTROLLER);
        let state = self.folder.path().join(NAMES[CONTROLLER]);
        std::fs::create_dir(&state).expect("room on the disk");
        self.write(
            CONTROLLER,
            &format!("[controller]\nstate = \"{}\"\nlisten = [\"{ipv4}:4443\"]\n", state.display()),
        );
        self.revive(CONTROLLER);
        for place in [EAST, WEST, ALICE, BOB] {
            let token = self.token(role(place));
            let near =
                if place < EAST { format!("relay = \"{}\"\n", NAMES[place + 2]) } else { String::new() };
            self.write(place, &self.node(place, &format!("token = \"{token}\"\n{near}")));
        }
    }

    fn token(&self, role: &str) -> String {
        self.token_with(&["--role", role])
    }

    /// A token of the controller, made with these flags.
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

/// The machines and their links: the direct path takes 40 ms, and so does the one by both relays.
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

fn role(place: usize) -> &'static str {
    ["agent", "agent", "relay", "relay", "controller"][place]
}

fn sockets(place: usize) -> [SocketAddr; 2] {
    addresses(place).map(|address| SocketAddr::new(address, 4_600))
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

/// Makes a node's key; its public part.
pub fn key(folder: &Path) -> String {
    std::fs::create_dir(folder).expect("room on the disk");
    let mut command = Command::new(BYWAY);
    let output = command.arg("keygen").arg(folder.join("key")).arg("--json").output().expect("it starts");
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    made["public_key"].as_str().expect("a key").to_owned()
}

/// Packets on their way from one application to another, a hundred a second.
pub struct Stream {
    ends: Arc<AtomicBool>,
    sending: JoinHandle<Vec<Instant>>,
    receiving: JoinHandle<()>,
    came: Arc<Mutex<Vec<Came>>>,
}

/// Outcome of a packet.
#[derive(Clone, Copy, Default)]
struct Came {
    count: u32,
    first: Option<Instant>,
}

/// What became of the packets of a stream.
pub struct Fate {
    /// When each was sent.
    pub sent: Vec<Instant>,
    /// How often each came.
    pub came: Vec<u32>,
    /// How long each took that came.
    pub took: Vec<Option<Duration>>,
}

impl Stream {
    /// Begins to send packets of this length, and to note those that come.
    pub fn begin(sender: UdpSocket, to: SocketAddr, receiver: UdpSocket, bytes: usize) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let came = Arc::new(Mutex::new(Vec::new()));
        let sending = {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || send_all(&sender, to, bytes, &ends))
        };
        let receiving = {
            let (ends, came) = (Arc::clone(&ends), Arc::clone(&came));
            std::thread::spawn(move || receive_all(&receiver, &ends, &came))
        };
        Self { ends, sending, receiving, came }
    }

    /// How many packets have come.
    pub fn count(&self) -> usize {
        self.came.lock().expect("nobody panicked").iter().filter(|came| came.count > 0).count()
    }

    /// Ends it, and waits for what is still under way.
    pub fn finish(self) -> Fate {
        self.ends.store(true, Ordering::Relaxed);
        let sent = self.sending.join().expect("it was sent");
        self.receiving.join().expect("it came");
        let mut came = std::mem::take(&mut *self.came.lock().expect("nobody panicked"));
        came.resize(sent.len(), Came::default());
        let took = sent.iter().zip(&came).map(|(sent, came)| came.first.map(|first| first - *sent)).collect();
        Fate { sent, took, came: came.iter().map(|came| came.count).collect() }
    }
}

impl Fate {
    /// How many packets of a span of time never came.
    pub fn missing(&self, from: Instant, until: Instant) -> usize {
        let all = self.sent.iter().zip(&self.came);
        all.filter(|(sent, came)| (from..until).contains(*sent) && **came == 0).count()
    }

    /// When the last packet of a span of time that never came was sent.
    pub fn last_missing(&self, from: Instant, until: Instant) -> Option<Instant> {
        let all = self.sent.iter().zip(&self.came).rev();
        all.filter(|(sent, came)| (from..until).contains(*sent) && **came == 0).map(|(sent, _)| *sent).next()
    }

    /// How many packets came more than once.
    pub fn twice(&self) -> usize {
        self.came.iter().filter(|came| **came > 1).count()
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

/// Takes what comes, and half a second longer than anything is sent.
fn receive_all(receiver: &UdpSocket, ends: &AtomicBool, came: &Mutex<Vec<Came>>) {
    receiver.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let mut packet = [0; 2_000];
    loop {
        match receiver.recv(&mut packet) {
            Ok(_) => {
                let now = Instant::now();
                let number = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]) as usize;
                let mut came = came.lock().expect("nobody panicked");
                if came.len() <= number {
                    came.resize(number + 1, Came::default());
                }
                came[number].count += 1;
                came[number].first.get_or_insert(now);
            }
            Err(_) if ends.load(Ordering::Relaxed) => return,
            Err(_) => {}
        }
    }
}
