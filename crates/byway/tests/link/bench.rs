//! Machine with a link, and processes that control it.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use byway_lab::{LabError, Machine, addresses};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest time of any step: a guard, not a measure.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Log message of an attached controller.
const ATTACHED: &str = "link attached";

/// Machine with a link from `v0` to `v1`, where no socket listens, and with a TUN device `wan0`.
pub(crate) struct Bench {
    pub(crate) machine: Machine,
    pub(crate) folder: tempfile::TempDir,
    _device: Box<dyn std::any::Any>,
}

/// Process that controls the link, killed when dropped.
pub(crate) struct AttachedLink {
    process: Child,
    /// Log until it was attached.
    pub(crate) startup_log: String,
    log: BufReader<ChildStderr>,
}

impl Drop for AttachedLink {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl AttachedLink {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("it is ours");
    }

    /// Waits for its end, and returns its exit code and the rest of its log.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let status = self.process.wait().expect("it is ours");
        let mut rest = String::new();
        while self.log.read_line(&mut rest).is_ok_and(|length| length > 0) {}
        (status.code(), rest)
    }
}

impl Bench {
    /// Makes the machine; `None` if the kernel refuses it.
    pub(crate) fn new() -> Option<Self> {
        let has_tc = Command::new("tc").arg("-V").output().is_ok_and(|output| output.status.success());
        if !has_tc {
            eprintln!("skipped: there is no tc (Debian: apt install iproute2)");
            return None;
        }
        let (machine, device) = match Machine::new(addresses(0)) {
            Ok(made) => made,
            Err(LabError::Machine(error)) => {
                eprintln!("skipped: the kernel makes no machine: {error}");
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let bench = Self { machine, folder, _device: Box::new(device) };
        bench.make_link("v0");
        Some(bench)
    }

    pub(crate) fn make_link(&self, name: &str) {
        self.shell(&format!(
            "ip link add '{name}' address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
             echo 0 > '/proc/sys/net/ipv6/conf/{name}/router_solicitations' 2>/dev/null
             ip address add 10.1.0.1/24 dev '{name}'; ip address add fd01::1/64 dev '{name}' nodad
             ip link set '{name}' up; ip link set v1 up
             ip neighbour add 10.1.0.2 lladdr 02:00:00:00:00:02 dev '{name}'
             ip neighbour add fd01::2 lladdr 02:00:00:00:00:02 dev '{name}'"
        ));
    }

    /// Runs a script and returns its output.
    pub(crate) fn shell(&self, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let output = self.machine.run(move || command.output().expect("there is a shell"));
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.arg("link").args(words).arg("--state").arg(self.folder.path());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let mut command = self.command(words);
        self.machine.run(move || command.output().expect("it starts"))
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn expect_success(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command that must fail, and returns its exit code and message.
    pub(crate) fn expect_failure(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run(words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Attaches the link, and waits until it is attached.
    pub(crate) fn attach(&self, words: &[&str]) -> AttachedLink {
        self.attach_by(self.command(&[&["attach"], words].concat()))
    }

    pub(crate) fn attach_by(&self, command: Command) -> AttachedLink {
        self.start(command, ATTACHED)
    }

    /// Starts a process on the machine, and waits until it logs this message.
    pub(crate) fn start(&self, mut command: Command, started: &str) -> AttachedLink {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = self.machine.run(move || command.spawn().expect("it starts"));
        let mut log = BufReader::new(process.stderr.take().expect("it is a pipe"));
        let mut message = String::new();
        while !message.contains(started) {
            let length = log.read_line(&mut message).expect("text");
            assert!(length > 0, "it has ended: {message}");
        }
        AttachedLink { process, startup_log: message, log }
    }

    pub(crate) fn usual(&self) -> AttachedLink {
        self.attach(&["v0", "--rate", "100 Mbit/s"])
    }

    /// Returns all changeable state, as the system's own tools show it.
    pub(crate) fn seen(&self, device: &str) -> String {
        // HTB counts packets that it did not classify, and neighbour discovery may send some at any
        // time.
        self.shell(&format!(
            "tc qdisc show | sed 's/direct_packets_stat [0-9]*//'; tc class show dev '{device}'; tc filter show dev '{device}' egress; tc filter show dev '{device}' ingress
             ip -d link show dev '{device}'; ethtool -k '{device}' 2>/dev/null"
        ))
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.expect_success(&["status", "v0", "--json"])).expect("JSON")
    }

    /// Waits until the status is as expected, and returns it.
    pub(crate) fn status_when(&self, is_expected: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + TIMEOUT;
        loop {
            let status = self.status();
            if is_expected(&status) {
                return status;
            }
            assert!(Instant::now() < until, "it stays {status}");
        }
    }

    /// Opens sockets on the machine, each a flow with this traffic class.
    pub(crate) fn flows(&self, traffic_class: u8, to: &[&str], each: u16) -> Vec<(UdpSocket, SocketAddr)> {
        let to: Vec<IpAddr> = to.iter().map(|to| to.parse().expect("an address")).collect();
        self.machine.run(move || {
            let flow = |to: IpAddr| {
                let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any).expect("a free port");
                let options = socket2::SockRef::from(&socket);
                let marked = if to.is_ipv4() {
                    options.set_tos_v4(traffic_class.into())
                } else {
                    options.set_tclass_v6(traffic_class.into())
                };
                marked.expect("anybody may mark");
                (socket, SocketAddr::new(to, 9))
            };
            to.iter().flat_map(|to| (0..each).map(|_| flow(*to))).collect()
        })
    }
}
