//! Two machines and a relay over emulated links, in namespaces of their own, with agents that capture packets.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use byway_lab::{Carrier, LabError, Machine, addresses};
use byway_net::Clock;
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
    { between = ["alice", "bob"], delay = "40 ms", loss = [{ share = "10 %", burst = 3.0, every = "10 ms" }] },
    { between = ["alice", "relay"], delay = "5 ms" },
    { between = ["bob", "relay"], delay = "5 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "caching", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
"#;

pub const NAMES: [&str; 3] = ["alice", "bob", "relay"];
pub const ALICE: usize = 0;
pub const BOB: usize = 1;
pub const RELAY: usize = 2;

/// What is captured, TCP and UDP; and a port of each that is not.
pub const PORT: u16 = 8_000;
pub const OTHER_PORT: u16 = 8_001;

/// What nothing here takes when all is well: a guard, not a measure.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Lab {
    pub folder: tempfile::TempDir,
    pub machines: Vec<Machine>,
    _carrier: Carrier,
    pub nodes: Vec<Option<Child>>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|place| self.kill(place));
    }
}

impl Lab {
    /// The machines, with nothing in them but files; `None` where the kernel makes none.
    pub fn new() -> Option<Self> {
        let destinations = addresses(BOB).map(|address| address.to_string());
        Self::capturing(&format!("destinations = {destinations:?}\nports = {}", ports()))
    }

    /// The same where alice's agent captures by these keys.
    pub fn capturing(keys: &str) -> Option<Self> {
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
        let lab = Self {
            folder: tempfile::tempdir().expect("a folder"),
            machines,
            _carrier: carrier,
            nodes: (0..3).map(|_| None).collect(),
        };
        lab.write_files(keys);
        Some(lab)
    }

    pub fn file(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", NAMES[place]))
    }

    fn write_files(&self, keys_of_capture: &str) {
        let keys: Vec<String> = NAMES.iter().map(|name| key(&self.folder.path().join(name))).collect();
        let at = |place: usize| {
            let [ipv4, ipv6] = addresses(place).map(|address| SocketAddr::new(address, 4_600).to_string());
            format!("[\"{ipv4}\", \"{ipv6}\"]")
        };
        let own = |place: usize| addresses(place).map(|address| address.to_string());
        let agent = |place: usize| {
            let (name, key, at) = (NAMES[place], &keys[place], at(place));
            format!(
                "{{ name = \"{name}\", number = {}, key = \"{key}\", addresses = {at}, relays = [\"relay\"] }}",
                place + 1
            )
        };
        let network = format!(
            "[network]\nagents = [{}, {}]\nrelays = [{{ name = \"relay\", number = 1, key = \"{}\", addresses = {} }}]\n\
             pairs = [{{ agents = [\"alice\", \"bob\"] }}]\n",
            agent(ALICE),
            agent(BOB),
            keys[RELAY],
            at(RELAY),
        );
        let ports = ports();
        let capture =
            format!("[[capture]]\npeer = \"bob\"\nto = \"all\"\ncopies = \"all\"\n{keys_of_capture}\n");
        let expose = format!(
            "[[expose]]\nname = \"all\"\nnetworks = {:?}\nsources = {:?}\nports = {ports}\n",
            own(BOB),
            own(ALICE)
        );
        for (place, (role, tables)) in
            [("agent", capture), ("agent", expose), ("relay", String::new())].into_iter().enumerate()
        {
            let (name, state) = (NAMES[place], self.folder.path().join(NAMES[place]));
            let listen = at(place);
            let node =
                format!("[{role}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = {listen}\n", state.display());
            let observe = "[observe]\nlisten = \"127.0.0.1:4680\"\n";
            std::fs::write(self.file(place), format!("{node}{tables}{observe}{network}"))
                .expect("room on the disk");
        }
    }

    /// A command of the program.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    pub fn run(&self, place: usize, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        self.machines[place].run(move || command.output().expect("it starts"))
    }

    /// What becomes of an agent that has no rights; `None` where nobody but root may run the program.
    pub fn run_as_nobody(&self, place: usize) -> Option<Output> {
        let (file, state) = (self.file(place), tempfile::tempdir().expect("a folder"));
        let mut stranger = self.command(&["agent", "--config"]);
        let all =
            |path: &Path| std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let key = state.path().join("key");
        std::fs::copy(self.folder.path().join(NAMES[place]).join("key"), &key).expect("room on the disk");
        std::os::unix::fs::chown(&key, Some(65_534), Some(65_534)).expect("this process may");
        [state.path(), self.folder.path()].into_iter().try_for_each(all).expect("they are ours");
        stranger.arg(file).arg("--state").arg(state.path()).uid(65_534).gid(65_534);
        self.machines[place].run(move || stranger.output()).ok()
    }

    pub fn start(&mut self, place: usize) {
        let role = if place == RELAY { "relay" } else { "agent" };
        let log = std::fs::File::create(self.folder.path().join(format!("{role}-{place}.log")))
            .expect("room on the disk");
        let mut command = self.command(&[role, "--config"]);
        command
            .arg(self.file(place))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log);
        self.nodes[place] = Some(self.machines[place].run(move || command.spawn().expect("it starts")));
    }

    /// All of them, until what is captured goes through.
    pub fn start_all(&mut self) {
        for place in [RELAY, BOB, ALICE] {
            self.start(place);
        }
        self.wait(ALICE, "packets are captured");
    }

    /// Until the log of an agent says so.
    pub fn wait(&self, place: usize, words: &str) {
        let log = self.folder.path().join(format!("agent-{place}.log"));
        let until = Instant::now() + PATIENCE;
        loop {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.contains(words) {
                return;
            }
            assert!(Instant::now() < until, "{words} is not in: {said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn kill(&mut self, place: usize) {
        if let Some(mut node) = self.nodes[place].take() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }

    /// What an agent has counted under this name.
    pub fn counted(&self, place: usize, name: &str) -> u64 {
        let output = self.run(place, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found =
            status["counters"].as_array().into_iter().flatten().find(|counted| counted["reason"] == name);
        found.and_then(|counted| counted["count"].as_u64()).unwrap_or(0)
    }

    /// How many of the packets that came to an agent a cache repaired.
    pub fn repaired(&self, place: usize) -> u64 {
        let output = self.run(place, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        status["totals"][0]["received"]["cached"].as_u64().unwrap_or(0)
    }

    /// Serves at a port of bob: TCP connections have what they send sent back, or are pushed something for two seconds.
    pub fn serve(&self, address: IpAddr, port: u16) {
        let listener =
            self.machines[BOB].run(move || TcpListener::bind((address, port)).expect("it is bob's"));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::spawn(move || {
                    let mut bytes = [0; 4_096];
                    while let Ok(length) = stream.read(&mut bytes) {
                        if &bytes[..length] == PUSH {
                            return push(&mut stream);
                        }
                        if length == 0 || stream.write_all(&bytes[..length]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }

    /// A connection of alice to bob.
    pub fn connect(&self, address: IpAddr, port: u16) -> TcpStream {
        let stream = self.machines[ALICE].run(move || {
            TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE).expect("somebody listens")
        });
        stream.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
        stream
    }
}

/// Those of bob, as settings name them.
fn ports() -> String {
    format!("[\"tcp:{PORT}\", \"udp:{PORT}\"]")
}

/// What a client says that wants something pushed, and how much that is.
pub const PUSH: &[u8] = b"push";
pub const PUSHED: usize = 400;

fn push(stream: &mut TcpStream) {
    for _ in 0..PUSHED {
        if stream.write_all(&[7; 1_000]).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes a node's key; its public part.
fn key(folder: &Path) -> String {
    std::fs::create_dir(folder).expect("room on the disk");
    let output = Command::new(env!("CARGO_BIN_EXE_byway"))
        .arg("keygen")
        .arg(folder.join("key"))
        .arg("--json")
        .output();
    let made: serde_json::Value = serde_json::from_slice(&output.expect("it starts").stdout).expect("JSON");
    made["public_key"].as_str().expect("a key").to_owned()
}

/// Sends so many bytes and reads them back.
pub fn talk(stream: &mut TcpStream, count: usize) {
    let sent: Vec<u8> = (0..=250).cycle().take(count).collect();
    let mut writer = stream.try_clone().expect("a socket");
    let bytes = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&bytes).expect("it is taken"));
    let mut read = vec![0; count];
    stream.read_exact(&mut read).expect("all comes back");
    writing.join().expect("it was written");
    assert!(read == sent, "what came back is not what was sent");
}
