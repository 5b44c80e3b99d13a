//! Calls between pairs of agents that share two relays, each over a path of its own with outages,
//! in namespaces over emulated links, with or without a controller.
//!
//! Delays, jitter and random losses are those of `experiments/scenarios/dark-paths.toml`.

#![allow(unreachable_pub, reason = "module of tests")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use byway_lab::timer_lateness::LatenessSummary;
use byway_lab::{EmulatorThread, Machine, addresses};

use crate::sites::{BYWAY, Fate, Mode, Stream, TIMEOUT, key, start_machines};

/// Bytes of a call's packets, of which each call sends a hundred a second.
const BYTES: usize = 500;

/// Latency budget of the calls.
pub const BUDGET: Duration = Duration::from_millis(250);

/// Round trip of each direct path, with the mean of its jitter.
pub const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Keys of the links through relays: their jitter, and their random losses.
const SEGMENT: &str = "jitter = \"5 ms\"\nloss = [{ share = \"0.1 %\" }]";

/// Keys of the direct paths besides their outages.
const DIRECT: &str =
    "delay = \"48 ms\"\njitter = \"5 ms\"\nloss = [{ share = \"0.5 %\", burst = 2.0, every = \"10 ms\" }]";

/// Ports of each sender's forward, of its application, and of the receiver's application.
const FORWARD: u16 = 5_000;
const SOURCE: u16 = 5_100;
const APP: u16 = 7;

/// Outage of a direct path, in both directions.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// Begin, after that of the links.
    pub at: Duration,
    pub length: Duration,
}

/// A call from a sender to a receiver of its own.
#[derive(Clone, Debug)]
pub struct Call {
    /// Keys of the forward besides its addresses.
    pub keys: String,
    /// Rate of the sender's uplink.
    pub uplink: &'static str,
    /// Calls of the same group may be coded together: static pairs of a group, or agents of a
    /// tenant.
    pub group: usize,
    pub outages: Vec<Outage>,
}

impl Call {
    /// True if relays take part in the call.
    fn uses_relays(&self) -> bool {
        !self.keys.contains("\"internet\"")
    }
}

/// Nodes of running calls.
pub struct Calls {
    folder: tempfile::TempDir,
    planned: Vec<Call>,
    names: Vec<String>,
    machines: Vec<Machine>,
    emulator: Option<EmulatorThread>,
    nodes: Vec<Option<Child>>,
}

/// Fates of all calls, in their order.
pub struct CallsOutcome {
    /// Begin of the links' time.
    pub begun: Instant,
    pub fates: Vec<Fate>,
    /// Lateness of the emulator's packets.
    pub lateness: LatenessSummary,
}

impl Drop for Calls {
    fn drop(&mut self) {
        for node in self.nodes.iter_mut().flatten() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }
}

impl Calls {
    /// Starts all nodes; `None` if the kernel refuses machines to this process.
    pub fn start(mode: Mode, calls: Vec<Call>) -> Option<Self> {
        let names = names(calls.len());
        // Each sender has a router.
        let (machines, emulator) = start_machines(&scenario(&calls), names.len(), calls.len())?;
        let mut started = Self {
            folder: tempfile::tempdir().expect("a folder"),
            nodes: names.iter().map(|_| None).collect(),
            planned: calls,
            names,
            machines,
            emulator: Some(emulator),
        };
        match mode {
            Mode::Static => started.write_static_files(),
            Mode::Managed => started.write_managed_files(),
        }
        started.start_nodes();
        Some(started)
    }

    /// Begins all calls, waits until relays protect each, and begins the links' time. Ends the
    /// calls after a time.
    pub fn run(&mut self, time: Duration) -> CallsOutcome {
        let streams: Vec<Stream> = (0..self.planned.len()).map(|call| self.begin_call(call)).collect();
        for call in (0..self.planned.len()).filter(|call| self.planned[*call].uses_relays()) {
            self.wait_for(&format!("relays protect call {call}"), || {
                let status = self.status(call);
                let paths = status["mappings"][0]["paths"].as_array().cloned().unwrap_or_default();
                paths.iter().any(|path| {
                    path["is_in_use"] == true && path["ingress"] == "ingress" && path["egress"] == "egress"
                })
            });
        }
        let emulator = self.emulator.as_ref().expect("it runs");
        emulator.begin().expect("it carries");
        let begun = Instant::now();
        std::thread::sleep(time);
        let fates = streams.into_iter().map(Stream::finish).collect();
        let emulator = self.emulator.take().expect("it runs");
        let report = emulator.stop().expect("no device failed");
        CallsOutcome { begun, fates, lateness: report.lateness.summary() }
    }

    fn begin_call(&self, call: usize) -> Stream {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let bind = |index: usize, port| {
            self.machines[index].run(move || UdpSocket::bind(address(port)).expect("the port is free"))
        };
        let (sender, receiver) = (bind(call, SOURCE), bind(self.planned.len() + call, APP));
        Stream::begin(sender, address(FORWARD), receiver, BYTES)
    }

    fn start_nodes(&mut self) {
        let agents = 2 * self.planned.len();
        for index in [agents, agents + 1].into_iter().chain(0..agents) {
            self.start_node(index, if index < agents { "agent" } else { "relay" });
        }
        for index in 0..agents + 2 {
            self.wait_for(&format!("{} serves its status", self.names[index]), || {
                self.status(index).is_object()
            });
        }
    }

    fn start_node(&mut self, index: usize, role: &str) {
        let log = std::fs::File::create(self.log_file(index)).expect("space on the disk");
        let mut command = Command::new(BYWAY);
        command.args([role, "--config"]).arg(self.file(index)).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        self.nodes[index] = Some(self.machines[index].run(move || command.spawn().expect("it starts")));
    }

    fn log_file(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.log", self.names[index]))
    }

    fn file(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", self.names[index]))
    }

    fn state(&self, index: usize) -> PathBuf {
        self.folder.path().join(&self.names[index])
    }

    fn run_in(&self, index: usize, arguments: &[&str]) -> Output {
        let mut command = Command::new(BYWAY);
        command.args(arguments).current_dir(self.folder.path());
        self.machines[index].run(move || command.output().expect("it starts"))
    }

    /// Returns the status pages of the agents of these calls, and of both relays.
    pub fn statuses(&self, calls: Range<usize>) -> String {
        let count = self.planned.len();
        let agents = calls.clone().chain(calls.map(|call| count + call));
        let nodes = agents.chain([2 * count, 2 * count + 1]);
        let page = |index| String::from_utf8_lossy(&self.run_in(index, &["status"]).stdout).into_owned();
        nodes.map(page).collect()
    }

    /// Returns the status of a node; null before it answers.
    pub fn status(&self, index: usize) -> serde_json::Value {
        serde_json::from_slice(&self.run_in(index, &["status", "--json"]).stdout).unwrap_or_default()
    }

    fn wait_for(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let until = Instant::now() + TIMEOUT;
        while !holds() {
            if Instant::now() > until {
                let log = |index: usize| std::fs::read_to_string(self.log_file(index)).unwrap_or_default();
                let logs: Vec<String> = (0..self.names.len()).map(log).collect();
                panic!("{what}: it does not\nlogs: {}", logs.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn write(&self, index: usize, text: &str) {
        std::fs::write(self.file(index), text).expect("space on the disk");
    }

    /// Returns a node's file without the parts that depend on the mode, besides `rest`.
    fn node(&self, index: usize, rest: &str) -> String {
        let count = self.planned.len();
        let (role, name, state) =
            (if index < 2 * count { "agent" } else { "relay" }, &self.names[index], self.state(index));
        let [ipv4, ipv6] = sockets(index);
        let tables = if let Some(call) = self.planned.get(index) {
            let (peer, keys) = (&self.names[count + index], &call.keys);
            format!(
                "[[forward]]\nlisten = \"127.0.0.1:{FORWARD}\"\npeer = \"{peer}\"\nto = \"app\"\n\
                 latency_budget = \"{} ms\"\n{keys}\n",
                BUDGET.as_millis()
            )
        } else if index < 2 * count {
            format!("[[expose]]\nname = \"app\"\ntarget = \"127.0.0.1:{APP}\"\n")
        } else {
            String::new()
        };
        format!(
            "[{role}]\nname = \"{name}\"\nstate = \"{}\"\nlisten = [\"{ipv4}\", \"{ipv6}\"]\n{rest}\n\
             {tables}[observe]\nlisten = \"127.0.0.1:4680\"\n",
            state.display()
        )
    }

    fn write_static_files(&self) {
        let (count, mut network) = (self.planned.len(), String::new());
        for index in 0..2 * count + 2 {
            let (key, name, [ipv4, ipv6]) = (key(&self.state(index)), &self.names[index], sockets(index));
            let table = if index < 2 * count { "agents" } else { "relays" };
            let _ = write!(
                network,
                "[[network.{table}]]\nname = \"{name}\"\nnumber = {}\nkey = \"{key}\"\n\
                 addresses = [\"{ipv4}\", \"{ipv6}\"]\n",
                index + 1
            );
            if index < 2 * count {
                let relays = if index < count { ["ingress", "egress"] } else { ["egress", "ingress"] };
                let _ = writeln!(network, "relays = {relays:?}");
            }
        }
        for (index, call) in self.planned.iter().enumerate() {
            let agents = [&self.names[index], &self.names[count + index]];
            let _ = writeln!(network, "[[network.pairs]]\nagents = {agents:?}\ngroup = {}", call.group + 1);
        }
        for index in 0..2 * count + 2 {
            self.write(index, &format!("{}{network}", self.node(index, "")));
        }
    }

    fn write_managed_files(&mut self) {
        let (count, controller) = (self.planned.len(), self.names.len() - 1);
        let ([ipv4, _], state) = (addresses(controller), self.state(controller));
        std::fs::create_dir(&state).expect("space on the disk");
        let text = format!("[controller]\nstate = \"{}\"\nlisten = [\"{ipv4}:4443\"]\n", state.display());
        self.write(controller, &text);
        self.start_node(controller, "controller");
        let relays = self.token(&["--role", "relay", "--uses", "2"]);
        for index in [2 * count, 2 * count + 1] {
            self.write(index, &self.node(index, &format!("token = \"{relays}\"")));
        }
        for (call, Call { group, .. }) in self.planned.iter().enumerate() {
            let tenant = format!("tenant-{group}");
            let token = self.token(&["--role", "agent", "--uses", "2", "--tenant", &tenant]);
            for (index, near) in [(call, "ingress"), (count + call, "egress")] {
                self.write(index, &self.node(index, &format!("token = \"{token}\"\nrelay = \"{near}\"")));
            }
        }
    }

    fn token(&self, flags: &[&str]) -> String {
        let controller = self.names.len() - 1;
        let state = self.state(controller);
        let state = ["--state", state.to_str().expect("UTF-8")];
        let mut token = String::new();
        self.wait_for("the controller gives tokens", || {
            let made = self.run_in(controller, &[&["token", "create"], flags, &state].concat());
            String::from_utf8_lossy(&made.stdout).trim().clone_into(&mut token);
            made.status.success()
        });
        token
    }
}

fn sockets(index: usize) -> [SocketAddr; 2] {
    addresses(index).map(|address| SocketAddr::new(address, 4_600))
}

/// Returns the names of all machines with programs: senders, receivers, relays, and the controller.
fn names(calls: usize) -> Vec<String> {
    let agents = ["sender", "receiver"].into_iter();
    let agents = agents.flat_map(|kind| (1..=calls).map(move |number| format!("{kind}-{number}")));
    agents.chain(["ingress", "egress", "controller"].map(str::to_owned)).collect()
}

/// Returns the scenario of the machines and links.
fn scenario(calls: &[Call]) -> String {
    let mut text = "title = \"Calls\"\nlength = \"1 h\"\n".to_owned();
    let mut append = |part: String| text.push_str(&part);
    for name in names(calls.len()) {
        let role = if ["ingress", "egress"].contains(&name.as_str()) { "relay" } else { "agent" };
        append(format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n"));
    }
    for number in 1..=calls.len() {
        append(format!("[[node]]\nname = \"gate-{number}\"\nrole = \"router\"\n"));
    }
    let mut link = |one: &str, other: &str, keys: &str| {
        append(format!("[[link]]\nbetween = [\"{one}\", \"{other}\"]\n{keys}\n"));
    };
    for (number, call) in (1..).zip(calls) {
        let [sender, gate, receiver] = ["sender", "gate", "receiver"].map(|kind| format!("{kind}-{number}"));
        let outage = |outage: &Outage| {
            let [at, length] = [outage.at, outage.length].map(|time| time.as_millis());
            format!("{{ at = \"{at} ms\", for = \"{length} ms\" }}")
        };
        let outages: Vec<String> = call.outages.iter().map(outage).collect();
        link(&sender, &gate, &format!("delay = \"1 ms\"\nrate = \"{}\"", call.uplink));
        link(&gate, &receiver, &format!("{DIRECT}\noutage = [{}]", outages.join(", ")));
        for (agent, near, far) in [(&gate, "ingress", "egress"), (&receiver, "egress", "ingress")] {
            link(agent, near, &format!("delay = \"5 ms\"\n{SEGMENT}"));
            link(agent, far, &format!("delay = \"41 ms\"\n{SEGMENT}"));
            link(agent, "controller", "delay = \"10 ms\"");
        }
    }
    link("ingress", "egress", &format!("delay = \"36 ms\"\n{SEGMENT}"));
    link("ingress", "controller", "delay = \"10 ms\"");
    link("egress", "controller", "delay = \"10 ms\"");
    text.push_str(
        "[[flow]]\nname = \"call\"\nfrom = \"sender-1\"\nto = \"receiver-1\"\nservice = \"caching\"\n\
         sends = { kind = \"steady\", every = \"10 ms\", bytes = 500 }\n",
    );
    text
}
