//! Two machines and a relay over emulated links, in namespaces of their own, with agents that
//! capture packets.

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

use byway_lab::{EmulatorThread, Machine, addresses};

#[path = "../sites/emulation.rs"]
mod emulation;

use emulation::start_machines;

/// Scenario of two agents, a relay near both, and bursts of losses between the agents.
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

/// Port whose TCP and UDP packets are captured, and a port whose packets are not.
pub const PORT: u16 = 8_000;
pub const OTHER_PORT: u16 = 8_001;

/// Longest time of any step: a guard, not a measure.
pub const TIMEOUT: Duration = Duration::from_secs(20);

pub struct Lab {
    pub folder: tempfile::TempDir,
    pub machines: Vec<Machine>,
    _carrier: EmulatorThread,
    pub nodes: Vec<Option<Child>>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|index| self.kill(index));
    }
}

impl Lab {
    /// Makes the machines with their files, without nodes; `None` if the kernel refuses them.
    pub fn new() -> Option<Self> {
        let destinations = addresses(BOB).map(|address| address.to_string());
        Self::capturing(&format!("destinations = {destinations:?}\nports = {}", ports()))
    }

    /// Makes the machines with these keys of alice's capture.
    pub fn capturing(keys: &str) -> Option<Self> {
        let (machines, carrier) = start_machines(SCENARIO, NAMES.len(), 0)?;
        let lab = Self {
            folder: tempfile::tempdir().expect("a folder"),
            machines,
            _carrier: carrier,
            nodes: (0..3).map(|_| None).collect(),
        };
        lab.write_files(keys);
        Some(lab)
    }

    pub fn file(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", NAMES[index]))
    }

    fn write_files(&self, keys_of_capture: &str) {
        let keys: Vec<String> = NAMES.iter().map(|name| key(&self.folder.path().join(name))).collect();
        let at = |index: usize| {
            let [ipv4, ipv6] = addresses(index).map(|address| SocketAddr::new(address, 4_600).to_string());
            format!("[\"{ipv4}\", \"{ipv6}\"]")
        };
        let own = |index: usize| addresses(index).map(|address| address.to_string());
        let agent = |index: usize| {
            let (name, key, at) = (NAMES[index], &keys[index], at(index));
            format!(
                "{{ name = \"{name}\", number = {}, key = \"{key}\", addresses = {at}, relays = [\"relay\"] }}",
                index + 1
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
        for (index, (role, tables)) in
            [("agent", capture), ("agent", expose), ("relay", String::new())].into_iter().enumerate()
        {
            let (name, state) = (NAMES[index], self.folder.path().join(NAMES[index]));
            let listen = at(index);
            let node =
                format!("[{role}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = {listen}\n", state.display());
            let observe = "[observe]\nlisten = \"127.0.0.1:4680\"\n";
            std::fs::write(self.file(index), format!("{node}{tables}{observe}{network}"))
                .expect("space on the disk");
        }
    }

    /// Returns a command of the program.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    pub fn run(&self, index: usize, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        self.machines[index].run(move || command.output().expect("it starts"))
    }

    /// Runs an agent without rights; `None` if only root can run the program.
    pub fn run_as_nobody(&self, index: usize) -> Option<Output> {
        let (file, state) = (self.file(index), tempfile::tempdir().expect("a folder"));
        let mut stranger = self.command(&["agent", "--config"]);
        let all =
            |path: &Path| std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let key = state.path().join("key");
        std::fs::copy(self.folder.path().join(NAMES[index]).join("key"), &key).expect("space on the disk");
        std::os::unix::fs::chown(&key, Some(65_534), Some(65_534)).expect("this process may");
        [state.path(), self.folder.path()].into_iter().try_for_each(all).expect("they are ours");
        stranger.arg(file).arg("--state").arg(state.path()).uid(65_534).gid(65_534);
        self.machines[index].run(move || stranger.output()).ok()
    }

    pub fn start(&mut self, index: usize) {
        let role = if index == RELAY { "relay" } else { "agent" };
        let log = std::fs::File::create(self.folder.path().join(format!("{role}-{index}.log")))
            .expect("space on the disk");
        let mut command = self.command(&[role, "--config"]);
        command
            .arg(self.file(index))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log);
        self.nodes[index] = Some(self.machines[index].run(move || command.spawn().expect("it starts")));
    }

    /// Starts all nodes, and waits until captured packets arrive.
    pub fn start_all(&mut self) {
        for index in [RELAY, BOB, ALICE] {
            self.start(index);
        }
        self.wait(ALICE, "capture active");
    }

    /// Waits until the log of an agent has these words.
    pub fn wait(&self, index: usize, words: &str) {
        let log = self.folder.path().join(format!("agent-{index}.log"));
        let until = Instant::now() + TIMEOUT;
        loop {
            let message = std::fs::read_to_string(&log).unwrap_or_default();
            if message.contains(words) {
                return;
            }
            assert!(Instant::now() < until, "{words} is not in: {message}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn kill(&mut self, index: usize) {
        if let Some(mut node) = self.nodes[index].take() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }

    /// Returns an agent's counter of this name.
    pub fn counter(&self, index: usize, name: &str) -> u64 {
        let output = self.run(index, &["status", "--json"]);
        let status = serde_json::from_slice(&output.stdout).expect("JSON");
        crate::counters::counter(&status, "counters", name)
    }

    /// Counts the packets to an agent that the direct path lost, and that relays or the sender
    /// repaired.
    pub fn repaired(&self, index: usize) -> u64 {
        let output = self.run(index, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let received = |kind: &str| status["totals"][0]["received"][kind].as_u64().unwrap_or(0);
        received("cached") + received("resent") + self.counter(index, "flow_covered")
    }

    /// Serves at a port of bob: echoes the bytes of TCP connections, or pushes data to them for two
    /// seconds.
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

    /// Connects from alice to bob.
    pub fn connect(&self, address: IpAddr, port: u16) -> TcpStream {
        let stream = self.machines[ALICE].run(move || {
            TcpStream::connect_timeout(&SocketAddr::new(address, port), TIMEOUT).expect("somebody listens")
        });
        stream.set_read_timeout(Some(TIMEOUT)).expect("more than nothing");
        stream
    }
}

/// Returns bob's ports in the syntax of the settings.
fn ports() -> String {
    format!("[\"tcp:{PORT}\", \"udp:{PORT}\"]")
}

/// Request of a client for pushed data, and the amount.
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

/// Makes a node's key, and returns its public part.
fn key(folder: &Path) -> String {
    std::fs::create_dir(folder).expect("space on the disk");
    let output = Command::new(env!("CARGO_BIN_EXE_byway"))
        .arg("keygen")
        .arg(folder.join("key"))
        .arg("--json")
        .output();
    let made: serde_json::Value = serde_json::from_slice(&output.expect("it starts").stdout).expect("JSON");
    made["public_key"].as_str().expect("a key").to_owned()
}

/// Sends this number of bytes and reads the echo.
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
