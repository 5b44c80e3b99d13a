//! Packets of programs that know nothing of Byway, captured by real agents in machines of their own, over emulated links. Where the
//! kernel makes no namespaces for this process, it says so.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs use files, sockets and clocks"
)]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
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

const NAMES: [&str; 3] = ["alice", "bob", "relay"];
const ALICE: usize = 0;
const BOB: usize = 1;
const RELAY: usize = 2;

/// What is captured, TCP and UDP; and a port of each that is not.
const PORT: u16 = 8_000;
const OTHER_PORT: u16 = 8_001;

/// What nothing here takes when all is well: a guard, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

struct Lab {
    folder: tempfile::TempDir,
    machines: Vec<Machine>,
    _carrier: Carrier,
    nodes: Vec<Option<Child>>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|place| self.kill(place));
    }
}

impl Lab {
    /// The machines, with nothing in them but files; `None` where the kernel makes none.
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
        let lab = Self {
            folder: tempfile::tempdir().expect("a folder"),
            machines,
            _carrier: carrier,
            nodes: (0..3).map(|_| None).collect(),
        };
        lab.write_files();
        Some(lab)
    }

    fn file(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("{}.toml", NAMES[place]))
    }

    fn write_files(&self) {
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
        let ports = format!("[\"tcp:{PORT}\", \"udp:{PORT}\"]");
        let capture = format!(
            "[[capture]]\npeer = \"bob\"\nto = \"all\"\ndestinations = {:?}\nports = {ports}\ncopies = \"all\"\n",
            own(BOB)
        );
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
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    fn run(&self, place: usize, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        self.machines[place].run(move || command.output().expect("it starts"))
    }

    fn start(&mut self, place: usize) {
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
    fn start_all(&mut self) {
        for place in [RELAY, BOB, ALICE] {
            self.start(place);
        }
        self.wait(ALICE, "packets are captured");
    }

    /// Until the log of an agent says so.
    fn wait(&self, place: usize, words: &str) {
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

    fn kill(&mut self, place: usize) {
        if let Some(mut node) = self.nodes[place].take() {
            node.kill().and_then(|()| node.wait().map(drop)).expect("it was ours");
        }
    }

    /// What an agent has counted under this name.
    fn counted(&self, place: usize, name: &str) -> u64 {
        let output = self.run(place, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found =
            status["counters"].as_array().into_iter().flatten().find(|counted| counted["reason"] == name);
        found.and_then(|counted| counted["count"].as_u64()).unwrap_or(0)
    }

    /// How many of the packets that came to an agent a cache repaired.
    fn repaired(&self, place: usize) -> u64 {
        let output = self.run(place, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        status["totals"][0]["received"]["cached"].as_u64().unwrap_or(0)
    }

    /// Serves at a port of bob: TCP connections have what they send sent back, or are pushed something for two seconds.
    fn serve(&self, address: IpAddr, port: u16) {
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
    fn connect(&self, address: IpAddr, port: u16) -> TcpStream {
        let stream = self.machines[ALICE].run(move || {
            TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE).expect("somebody listens")
        });
        stream.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
        stream
    }
}

/// What a client says that wants something pushed, and how much that is.
const PUSH: &[u8] = b"push";
const PUSHED: usize = 400;

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
fn talk(stream: &mut TcpStream, count: usize) {
    let sent: Vec<u8> = (0..=250).cycle().take(count).collect();
    let mut writer = stream.try_clone().expect("a socket");
    let bytes = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&bytes).expect("it is taken"));
    let mut read = vec![0; count];
    stream.read_exact(&mut read).expect("all comes back");
    writing.join().expect("it was written");
    assert!(read == sent, "what came back is not what was sent");
}

#[test]
fn programs_talk_through_agents_that_they_do_not_know_and_losses_are_repaired() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    for address in addresses(BOB) {
        lab.serve(address, PORT);
        let mut stream = lab.connect(address, PORT);
        assert_eq!(stream.local_addr().expect("it has one").ip().is_ipv4(), address.is_ipv4());
        talk(&mut stream, 200_000);
    }
    let (taken, delivered) =
        (lab.counted(ALICE, "proxy_taken_bytes"), lab.counted(BOB, "proxy_delivered_bytes"));
    assert!(taken > 400_000 && delivered > 400_000, "{taken} bytes taken, {delivered} delivered");
    // Bursts come several times a second, and one is soon met.
    let until = Instant::now() + PATIENCE;
    while lab.repaired(BOB) == 0 {
        assert!(Instant::now() < until, "nothing was repaired");
        talk(&mut lab.connect(addresses(BOB)[0], PORT), 200_000);
    }
    let taken = lab.counted(ALICE, "proxy_taken_bytes");
    // What is not captured goes its own way.
    lab.serve(addresses(BOB)[0], OTHER_PORT);
    talk(&mut lab.connect(addresses(BOB)[0], OTHER_PORT), 1_000);
    assert!(lab.counted(ALICE, "proxy_taken_bytes") < taken + 1_000);
}

#[test]
fn datagrams_go_both_ways_and_keep_their_addresses() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    for (own, there) in addresses(ALICE).into_iter().zip(addresses(BOB)) {
        let bob = lab.machines[BOB].run(move || UdpSocket::bind((there, PORT)).expect("it is bob's"));
        let alice = lab.machines[ALICE].run(move || UdpSocket::bind((own, 0)).expect("it is alice's"));
        for socket in [&alice, &bob] {
            socket.set_read_timeout(Some(Duration::from_secs(2))).expect("more than nothing");
        }
        let (mut buffer, mut answered) = ([0; 2_000], 0);
        // The longest that an Ethernet takes: two packets of the device.
        for length in [4, 1_326, 1_472].into_iter().cycle().take(60) {
            alice.send_to(&vec![7; length], (there, PORT)).expect("it is sent");
            let Ok((came, from)) = bob.recv_from(&mut buffer) else { continue };
            assert_eq!((came, from.ip()), (length, own));
            bob.send_to(&buffer[..came], from).expect("it is sent");
            answered += u32::from(alice.recv(&mut buffer).is_ok_and(|came| came == length));
        }
        assert!(answered >= 50, "{answered} of 60 came back");
    }
    assert!(lab.repaired(BOB) > 0, "nothing was repaired");
    assert!(lab.counted(ALICE, "proxy_taken") >= 120 && lab.counted(ALICE, "proxy_delivered") >= 100);
}

#[test]
fn after_a_kill_connections_go_on_without_byway_and_nothing_is_left() {
    for killed in [ALICE, BOB] {
        let Some(mut lab) = Lab::new() else { return };
        lab.start_all();
        let address = addresses(BOB)[0];
        lab.serve(address, PORT);
        let mut stream = lab.connect(address, PORT);
        talk(&mut stream, 10_000);
        lab.kill(killed);
        talk(&mut stream, 10_000);
        talk(&mut lab.connect(address, PORT), 10_000);
        let until = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&lab.run(killed, &["uncapture"]).stdout).starts_with("0 rules") {
            assert!(Instant::now() < until, "rules are left of {}", NAMES[killed]);
        }
        // Back again, it captures again, and what only comes goes on meanwhile.
        let mut pushed = lab.connect(address, PORT);
        pushed.write_all(PUSH).expect("it is taken");
        lab.start(killed);
        lab.wait(killed, "the agent works");
        pushed.read_exact(&mut vec![0; PUSHED * 1_000]).expect("all of it comes");
        let taken = lab.counted(ALICE, "proxy_taken");
        let until = Instant::now() + PATIENCE;
        while lab.counted(ALICE, "proxy_taken") == taken {
            talk(&mut lab.connect(address, PORT), 1_000);
            assert!(Instant::now() < until, "nothing is captured after {} is back", NAMES[killed]);
        }
    }
}

#[test]
fn an_agent_that_ends_as_asked_leaves_nothing() {
    let Some(mut lab) = Lab::new() else { return };
    lab.start_all();
    let node = lab.nodes[ALICE].take().expect("it works");
    let pid = rustix::process::Pid::from_child(&node);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
    let ended = node.wait_with_output().expect("it was ours");
    assert!(ended.status.success(), "{:?}", ended.status);
    let left = lab.run(ALICE, &["uncapture"]);
    assert!(String::from_utf8_lossy(&left.stdout).starts_with("0 rules"), "{left:?}");
}

#[test]
fn what_an_agent_may_not_or_cannot_do_is_said() {
    let Some(mut lab) = Lab::new() else { return };
    let file = lab.file(ALICE);
    let file = file.to_str().expect("text");
    // Anybody may look what would be done.
    let shown = lab.run(ALICE, &["agent", "--config", file, "--dry-run"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    let [ipv4, ipv6] = addresses(BOB);
    for rule in [
        format!("ip rule add pref 4601 to {ipv4}/32 ipproto tcp dport {PORT}-{PORT} lookup 4600"),
        format!("ip -6 rule add pref 4601 to {ipv6}/128 ipproto udp dport {PORT}-{PORT} lookup 4600"),
    ] {
        assert!(shown.contains(&rule), "{rule} is not in {shown}");
    }
    let mut stranger = lab.command(&["agent", "--config", file, "--state"]);
    let state = tempfile::tempdir().expect("a folder");
    let all =
        |path: &Path| std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let key = state.path().join("key");
    std::fs::copy(lab.folder.path().join("alice/key"), &key).expect("room on the disk");
    std::os::unix::fs::chown(&key, Some(65_534), Some(65_534)).expect("this process may");
    [state.path(), lab.folder.path()].into_iter().try_for_each(all).expect("they are ours");
    stranger.arg(state.path()).uid(65_534).gid(65_534);
    let refused = lab.machines[ALICE].run(move || stranger.output());
    // Where nobody but root may run the program, there is nothing to see.
    if let Ok(refused) = refused {
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(3) && said.contains("CAP_NET_ADMIN"), "{said}");
    }
    lab.start(ALICE);
    lab.wait(ALICE, "the agent works");
    // Another one with the same table, and one of which the rules would be among those of the first.
    for (table, says) in
        [("", "another agent of this machine has the table 4600"), ("table = 4650", "table = 4750")]
    {
        let text = std::fs::read_to_string(file).expect("it was written");
        let other = lab.folder.path().join("other.toml");
        std::fs::write(&other, format!("{text}\n[tunnel]\n{table}\n")).expect("room on the disk");
        let other = other.to_str().expect("text");
        let ports = ["--observe", "127.0.0.1:4690", "--listen", "127.0.0.1:0"];
        let second = lab.run(ALICE, &[&["agent", "--config", other], &ports[..]].concat());
        let said = String::from_utf8_lossy(&second.stderr);
        assert!(second.status.code() == Some(2) && said.contains(says), "{said}");
    }
}
