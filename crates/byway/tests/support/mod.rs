//! Real processes of the program, on addresses of this machine that no other test uses.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::print_stderr, reason = "what nodes logged is shown when a test fails")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, sockets and clocks"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest time of any step: a guard, not a measure.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Number of tests of this process so far.
static TESTS: AtomicU16 = AtomicU16::new(0);

/// Folder and loopback network of one test.
pub struct Bench {
    folder: tempfile::TempDir,
    network: [u8; 2],
}

impl Bench {
    /// Makes an empty bench. Test files run one after another, and each test of a file has its own
    /// network.
    pub fn new() -> Self {
        let number = TESTS.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id().to_be_bytes();
        let network = [64 + process[3] % 128, process[2].wrapping_add(number.to_be_bytes()[1])];
        Self { folder: tempfile::tempdir().expect("a folder"), network }
    }

    /// Returns a host's address.
    pub fn host(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, self.network[0], self.network[1], host)
    }

    /// Returns a host's port.
    pub fn at(&self, host: u8, port: u16) -> SocketAddr {
        SocketAddr::from((self.host(host), port))
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("the folder takes files");
        path
    }

    /// Makes a key, and returns its public part.
    pub fn key(&self, name: &str) -> String {
        let output = byway(&["keygen", &self.path(&format!("{name}.key")).display().to_string(), "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let made: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        made["public_key"].as_str().expect("a key").to_owned()
    }

    /// Starts a node, and waits until it reports readiness.
    pub fn start(&self, name: &str, arguments: &[&str]) -> Node {
        let node = self.spawn(name, arguments);
        node.wait_until_ready();
        node
    }

    /// Starts a node.
    pub fn spawn(&self, name: &str, arguments: &[&str]) -> Node {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.args(arguments);
        self.spawn_command(name, command)
    }

    /// Starts a node with a command.
    pub fn spawn_command(&self, name: &str, mut command: Command) -> Node {
        let socket = self.path(&format!("{name}.notify"));
        let _ = fs::remove_file(&socket);
        let notify = UnixDatagram::bind(&socket).expect("a socket for the node's news");
        notify.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let log = self.path(&format!("{name}.log"));
        let stderr = fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log");
        let child = command
            .env("NOTIFY_SOCKET", &socket)
            .env("STATE_DIRECTORY", self.path(name))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("the program starts");
        Node { child, notify, log, name: name.to_owned() }
    }
}

/// A running node, killed when dropped.
pub struct Node {
    child: Child,
    notify: UnixDatagram,
    log: PathBuf,
    name: String,
}

impl Node {
    /// Waits until the node reports readiness.
    pub fn wait_until_ready(&self) {
        let mut news = [0; 256];
        let length = self
            .notify
            .recv(&mut news)
            .unwrap_or_else(|error| panic!("{} is not ready ({error}); it says:\n{}", self.name, self.log()));
        assert!(news[..length].starts_with(b"READY=1"), "{}", text(&news[..length]));
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its process identifier.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Kills the node by SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("the node runs");
        self.child.wait().expect("the node ends");
    }

    /// Stops the node by SIGTERM, and returns its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("the node runs");
        self.child.wait().expect("the node ends").code()
    }

    /// Sends SIGHUP to the node.
    pub fn hang_up(&self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::HUP).expect("the node runs");
    }

    /// Waits until the log has these words so many times.
    pub fn wait_for(&self, words: &str, times: usize) {
        let until = Instant::now() + TIMEOUT;
        while self.log().matches(words).count() < times {
            assert!(Instant::now() < until, "{words:?} is not {times} times in the log of {}", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of a node, and returns its exit code.
    pub fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("the node ends").code()
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("== {} ==\n{}", self.name, self.log());
        }
    }
}

/// Runs the program to its end.
pub fn byway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byway")).args(arguments).output().expect("the program runs")
}

/// Returns a command of the program with a limit on file sizes, in blocks of 512 bytes, as on a
/// full disk. The kernel reports EFBIG instead of ENOSPC, because the signal is ignored.
pub fn on_a_full_disk(blocks: u32, arguments: &[&str]) -> Command {
    let limits = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &limits, env!("CARGO_BIN_EXE_byway")]).args(arguments);
    shell
}

/// Converts bytes to text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Requests a path of a node's status interface.
pub fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the node answers");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        unchunked(body)
    } else {
        body.to_owned()
    }
}

fn unchunked(body: &str) -> String {
    let mut rest = body;
    let mut whole = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).expect("a length");
        whole.push_str(&after[..length]);
        rest = after[length..].trim_start_matches("\r\n");
        if length == 0 {
            break;
        }
    }
    whole
}

/// Returns a node's status.
pub fn status(address: SocketAddr) -> serde_json::Value {
    serde_json::from_str(&ask(address, "/v1/status")).expect("JSON")
}

/// Number of the next datagram of a call.
static NEXT_CALL: AtomicU32 = AtomicU32::new(0);

/// Socket of an application.
pub struct App(UdpSocket);

impl App {
    /// Binds a socket at this address.
    pub fn at(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind(address).expect("the address is free");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        Self(socket)
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("it is bound")
    }

    /// Sends a datagram.
    pub fn send(&self, datagram: &[u8], to: SocketAddr) {
        self.0.send_to(datagram, to).expect("the datagram leaves");
    }

    /// Receives a datagram, and returns it with its source.
    pub fn receive(&self) -> (Vec<u8>, SocketAddr) {
        let mut buffer = vec![0; 65_536];
        let (length, from) = self.0.recv_from(&mut buffer).expect("a datagram comes");
        buffer.truncate(length);
        (buffer, from)
    }

    /// Receives a datagram within this time.
    pub fn receive_within(&self, time: Duration) -> Option<(Vec<u8>, SocketAddr)> {
        self.0.set_read_timeout(Some(time)).expect("a timeout");
        let mut buffer = vec![0; 65_536];
        let received = self.0.recv_from(&mut buffer).ok();
        self.0.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let (length, from) = received?;
        buffer.truncate(length);
        Some((buffer, from))
    }

    /// Sends until an answer arrives, like a persistent application, and returns the time. Late
    /// answers to an earlier call do not count.
    pub fn call(&self, to: SocketAddr) -> Duration {
        let (begun, first) = (Instant::now(), NEXT_CALL.load(Ordering::Relaxed));
        loop {
            self.send(&NEXT_CALL.fetch_add(1, Ordering::Relaxed).to_be_bytes(), to);
            let until = Instant::now() + Duration::from_millis(20);
            while let wait @ 1.. = until.saturating_duration_since(Instant::now()).as_millis() {
                let wait = Duration::from_millis(u64::try_from(wait).expect("short"));
                let Some((answer, _)) = self.receive_within(wait) else { break };
                let number = <[u8; 4]>::try_from(&answer[..]).map(u32::from_be_bytes);
                if number.is_ok_and(|number| number >= first) {
                    return begun.elapsed();
                }
            }
            assert!(begun.elapsed() < TIMEOUT, "nobody answers at {to}");
        }
    }
}

/// Echoes every datagram until the end of the process.
pub fn echo(address: SocketAddr) {
    let app = App::at(address);
    app.0.set_read_timeout(None).expect("no timeout");
    std::thread::spawn(move || {
        loop {
            let (datagram, from) = app.receive();
            app.send(&datagram, from);
        }
    });
}

/// Two agents, alice and bob, each near a relay of its own, in static mode; bob exposes `echo`.
pub struct TwoSites {
    pub bench: Bench,
    /// Tables of `[network]`.
    pub network: String,
    /// The port in alice's `listen`: 0 for any.
    pub alice_port: u16,
}

/// Hosts of [`TwoSites`]: relays 1 and 2, alice 11, bob 12, the echo 20.
impl TwoSites {
    pub fn new() -> Self {
        let bench = Bench::new();
        let mut network = String::new();
        for (number, relay) in [(1_u8, "east"), (2, "west")] {
            let (key, address) = (bench.key(relay), bench.at(number, 4_600));
            let _ = write!(
                network,
                "[[network.relays]]\nname = \"{relay}\"\nnumber = {number}\nkey = \"{key}\"\naddresses = [\"{address}\"]\n"
            );
        }
        for (number, agent, relay) in [(1_u8, "alice", "east"), (2, "bob", "west")] {
            let (key, address) = (bench.key(agent), bench.at(10 + number, 4_600));
            let _ = write!(
                network,
                "[[network.agents]]\nname = \"{agent}\"\nnumber = {number}\nkey = \"{key}\"\naddresses = [\"{address}\"]\nrelays = [\"{relay}\"]\n"
            );
        }
        network += "[[network.pairs]]\nagents = [\"alice\", \"bob\"]\n";
        Self { bench, network, alice_port: 4_600 }
    }

    fn file(&self, role: &str, name: &str, host: u8, rest: &str) -> PathBuf {
        let port = if name == "alice" { self.alice_port } else { 4_600 };
        let (key, listen, observe) =
            (self.bench.path(&format!("{name}.key")), self.bench.at(host, port), self.observe(host));
        let text = format!(
            "[{role}]\nname = \"{name}\"\nkey_file = \"{}\"\nlisten = [\"{listen}\"]\n[observe]\nlisten = \"{observe}\"\n{rest}\n{}",
            key.display(),
            self.network
        );
        self.bench.write(&format!("{name}.toml"), &text)
    }

    pub fn observe(&self, host: u8) -> SocketAddr {
        self.bench.at(host, 4_680)
    }

    pub fn forward(&self) -> SocketAddr {
        self.bench.at(11, 5_000)
    }

    pub fn echo(&self) -> SocketAddr {
        self.bench.at(20, 7)
    }

    pub fn relay(&self, number: u8) -> Node {
        let relay = self.spawn_relay(number);
        relay.wait_until_ready();
        relay
    }

    pub fn spawn_relay(&self, number: u8) -> Node {
        let name = ["east", "west"][usize::from(number) - 1];
        let file = self.file("relay", name, number, "");
        self.bench.spawn(name, &["relay", "--config", path(&file)])
    }

    pub fn alice(&self, service: &str) -> Node {
        let forward = self.forward();
        let rest = format!(
            "[[forward]]\nlisten = \"{forward}\"\npeer = \"bob\"\nto = \"echo\"\nservice = \"{service}\"\n"
        );
        let file = self.file("agent", "alice", 11, &rest);
        self.bench.start("alice", &["agent", "--config", path(&file)])
    }

    pub fn bob(&self) -> Node {
        let rest = format!("[[expose]]\nname = \"echo\"\ntarget = \"{}\"\n", self.echo());
        let file = self.file("agent", "bob", 12, &rest);
        self.bench.start("bob", &["agent", "--config", path(&file)])
    }
}

/// The same sites with a controller.
pub struct ManagedNetwork {
    pub bench: Bench,
}

/// Hosts of [`ManagedNetwork`]: the controller 9, relays 1 and 2, alice 11, bob 12, the echo 20.
impl ManagedNetwork {
    /// Makes a network with a new controller, and tokens for two relays and two agents.
    pub fn new() -> (Self, Node) {
        let managed = Self { bench: Bench::new() };
        let controller = managed.controller();
        for role in ["relay", "agent"] {
            let state = managed.bench.path("controller");
            let made = byway(&["token", "create", "--role", role, "--uses", "2", "--state", path(&state)]);
            assert!(made.status.success(), "{}", text(&made.stderr));
            managed.bench.write(&format!("{role}.token"), &text(&made.stdout));
        }
        (managed, controller)
    }

    fn file(&self, name: &str, host: u8, text: &str) -> PathBuf {
        let observe = self.observe(host);
        self.bench.write(&format!("{name}.toml"), &format!("{text}\n[observe]\nlisten = \"{observe}\"\n"))
    }

    pub fn observe(&self, host: u8) -> SocketAddr {
        self.bench.at(host, 4_680)
    }

    pub fn forward(&self) -> SocketAddr {
        self.bench.at(11, 5_000)
    }

    pub fn echo(&self) -> SocketAddr {
        self.bench.at(20, 7)
    }

    fn controller_file(&self) -> PathBuf {
        let listen = self.bench.at(9, 4_443);
        self.file("controller", 9, &format!("[controller]\nlisten = [\"{listen}\"]\n"))
    }

    pub fn controller(&self) -> Node {
        self.bench.start("controller", &["controller", "--config", path(&self.controller_file())])
    }

    pub fn controller_on_a_full_disk(&self) -> Node {
        let command = on_a_full_disk(8, &["controller", "--config", path(&self.controller_file())]);
        let controller = self.bench.spawn_command("controller", command);
        controller.wait_until_ready();
        controller
    }

    fn node(&self, role: &str, name: &str, host: u8, rest: &str) -> Node {
        let (token, listen) = (self.bench.path(&format!("{role}.token")), self.bench.at(host, 4_600));
        let text = format!(
            "[{role}]\nname = \"{name}\"\ntoken_file = \"{}\"\nlisten = [\"{listen}\"]\n{rest}",
            token.display()
        );
        let file = self.file(name, host, &text);
        self.bench.start(name, &[role, "--config", path(&file)])
    }

    pub fn relay(&self, number: u8) -> Node {
        self.node("relay", ["east", "west"][usize::from(number) - 1], number, "")
    }

    pub fn alice(&self, service: &str) -> Node {
        let forward = self.forward();
        let rest = format!(
            "relay = \"east\"\n[[forward]]\nlisten = \"{forward}\"\npeer = \"bob\"\nto = \"echo\"\nservice = \"{service}\"\n"
        );
        self.node("agent", "alice", 11, &rest)
    }

    pub fn bob(&self) -> Node {
        let rest = format!("relay = \"west\"\n[[expose]]\nname = \"echo\"\ntarget = \"{}\"\n", self.echo());
        self.node("agent", "bob", 12, &rest)
    }
}

/// Returns a path as an argument.
pub fn path(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}
