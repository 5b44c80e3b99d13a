//! Members of another tenant that flood a relay process, over sockets in the relay's machine.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use byway_api::{NetworkMap, SignedMap};
use byway_fuzz_targets::attacks::{Attack, Attacker, Credentials, Role, Testbed};
use byway_lab::addresses;
use byway_units::{AgentId, RelayId, Time};
use byway_wire::{GrantedRelay, Shard};
use data_encoding::BASE64;

use super::sites::{EAST, Sites, TIMEOUT, WEST};

/// Port of the attacker and its accomplice, in the same machine as the relay.
const PORT: u16 = 4_601;

/// Interval of reads from the relay while no packets are sent.
const POLL: Duration = Duration::from_millis(1);

/// Roles with their names and machines.
const PARTS: [(Role, &str, usize); 2] = [(Role::Attacker, "mallory", WEST), (Role::Accomplice, "mate", EAST)];

/// Non-blocking socket.
struct RelaySocket {
    socket: UdpSocket,
    relay: SocketAddr,
}

/// The attacker and its accomplice at two relays.
pub struct Members {
    credentials: Vec<Credentials>,
    sockets: Vec<RelaySocket>,
    attackers: Vec<Attacker>,
    begun: Instant,
}

/// Process of an agent, killed when dropped.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait().map(drop)).expect("it was ours");
    }
}

/// Starts a member as a real agent, which joins and gets its map.
fn join(sites: &Sites, tables: &str, name: &str, machine: usize) -> Agent {
    let token = sites.token_with(&["--role", "agent", "--tenant", "attackers"]);
    let state = sites.folder().join(name);
    let near = if machine == WEST { "west" } else { "east" };
    let [ipv4, _] = addresses(machine);
    let text = format!(
        "[agent]\nname = \"{name}\"\ntoken = \"{token}\"\nrelay = \"{near}\"\nstate = \"{}\"\n\
         listen = [\"{ipv4}:{PORT}\"]\n[observe]\nlisten = \"127.0.0.1:4681\"\n{tables}",
        state.display()
    );
    let file = sites.folder().join(format!("{name}.toml"));
    std::fs::write(&file, text).expect("space on the disk");
    let log = std::fs::File::create(sites.folder().join(format!("{name}.log"))).expect("space on the disk");
    let mut command = Command::new(env!("CARGO_BIN_EXE_byway"));
    command.args(["agent", "--config"]).arg(file).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a file")).stderr(log);
    Agent(sites.within(machine, move || command.spawn().expect("it starts")))
}

/// Reads the map that a member stored; `None` before there is one.
fn map(sites: &Sites, name: &str) -> Option<NetworkMap> {
    let text = std::fs::read_to_string(sites.folder().join(name).join("map.json")).ok()?;
    let signed: SignedMap = serde_json::from_str(&text).ok()?;
    serde_json::from_str(&signed.map).ok()
}

/// Reads the identity of a member from its files, if it has grants for both directions at both
/// relays.
fn credentials(sites: &Sites, name: &str, other: &str, machine: usize) -> Option<Credentials> {
    let map = map(sites, name)?;
    let number = |name: &str| map.agents.iter().find(|agent| agent.name == name).map(|agent| agent.number);
    let file = std::fs::read_to_string(sites.folder().join(name).join("membership.json")).ok()?;
    let membership: serde_json::Value = serde_json::from_str(&file).ok()?;
    let own = u32::try_from(membership["number"].as_u64()?).ok()?;
    let other = number(other)?;
    let (near, far) = if machine == WEST { ("west", "east") } else { ("east", "west") };
    let relay = |name: &str| map.relays.iter().find(|relay| relay.name == name);
    let (near, far) = (relay(near)?, relay(far)?);
    let grant = |sender: u32, receiver: u32, ingress: u32, egress: u32| {
        let is_it = |pairing: &&byway_api::Pairing| (pairing.sender, pairing.receiver) == (sender, receiver);
        let mut paths = map.pairings.iter().filter(is_it).flat_map(|pairing| &pairing.paths);
        let path = paths.find(|path| (path.ingress.relay, path.egress.relay) == (ingress, egress))?;
        BASE64.decode(path.grant.as_bytes()).ok()
    };
    let key = std::fs::read_to_string(sites.folder().join(name).join("key")).ok()?;
    Some(Credentials {
        secret: key.trim_end().parse().ok()?,
        agent: AgentId::new(own),
        other: AgentId::new(other),
        relay_key: near.key.parse().ok()?,
        relay_address: *near.addresses.iter().find(|address| address.is_ipv4())?,
        far_relay: GrantedRelay { relay: RelayId::new(far.number), shard: Shard::new(0) },
        sends: grant(own, other, near.number, far.number)?,
        receives: grant(other, own, far.number, near.number)?,
    })
}

impl Members {
    /// Joins both members as real agents. Afterwards the test acts in their place.
    pub fn join(sites: &Sites) -> Self {
        let tables = "[[expose]]\nname = \"app\"\ntarget = \"127.0.0.1:9\"\n";
        let mate = join(sites, tables, "mate", EAST);
        let tables = "[[forward]]\nlisten = \"127.0.0.1:5900\"\npeer = \"mate\"\nto = \"app\"\n";
        let mallory = join(sites, tables, "mallory", WEST);
        let all = || {
            let of = |(_, name, machine): &(Role, &str, usize)| {
                let other = if *name == "mate" { "mallory" } else { "mate" };
                credentials(sites, name, other, *machine)
            };
            PARTS.iter().map(of).collect::<Option<Vec<_>>>()
        };
        sites.wait_for("the attackers have grants", || all().is_some());
        let credentials = all().expect("as waited for");
        drop((mallory, mate));
        let line = |((_, _, machine), credentials): (&(Role, &str, usize), &Credentials)| {
            let [ip, _] = addresses(*machine);
            let socket = sites.within(*machine, move || UdpSocket::bind((ip, PORT)).expect("a free port"));
            socket.set_nonblocking(true).expect("a socket");
            RelaySocket { socket, relay: credentials.relay_address }
        };
        let lines = PARTS.iter().zip(&credentials).map(line).collect();
        let mut members = Self { credentials, sockets: lines, attackers: Vec::new(), begun: Instant::now() };
        members.attackers = members.fresh();
        members
    }

    /// Makes members in the state after a start.
    fn fresh(&self) -> Vec<Attacker> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let started = u64::try_from(since_1970.as_nanos()).expect("before 2554");
        let new = |((part, ..), credentials): (&(Role, &str, usize), &Credentials)| {
            Attacker::new(*part, credentials.clone(), started)
        };
        PARTS.iter().zip(&self.credentials).map(new).collect()
    }

    /// Establishes new sessions, with the flows of this attack.
    pub fn set_up(&mut self, attack: &Attack, flows: u16) {
        self.attackers = self.fresh();
        let begun = Instant::now();
        while !self.attackers.iter().all(Attacker::is_established) {
            for (part, ..) in PARTS {
                if !self.member(part).is_established() {
                    let initiation = self.member(part).initiate();
                    self.send(part, initiation);
                }
            }
            self.pass(byway_units::Duration::from_millis(100));
            assert!(begun.elapsed() < TIMEOUT, "the attackers get no session");
        }
        attack.set_up(self, flows);
    }

    /// Sends an attacker's datagrams at a rate for a time, and returns how many were sent.
    pub fn flood(&mut self, attack: &Attack, rate: u32, time: Duration) -> u32 {
        let (mut nth, mut sent, mut first) = (0, 0, Vec::new());
        let begun = Instant::now();
        while begun.elapsed() < time {
            let due = (begun.elapsed().as_secs_f64() * f64::from(rate)) as u32;
            // A busy machine does not catch up on missed datagrams.
            nth = nth.max(due.saturating_sub(rate / 50));
            while nth < due {
                if let Some(packet) = attack.datagram(&mut self.attackers[0], nth, &first) {
                    if first.is_empty() {
                        first.clone_from(&packet);
                    }
                    let line = &self.sockets[0];
                    sent += u32::from(line.socket.send_to(&packet, line.relay).is_ok());
                }
                nth += 1;
            }
            self.listen();
            sleep(POLL);
        }
        sent
    }

    /// Receives and answers the relays' packets.
    fn listen(&mut self) {
        let now = Time::START + byway_units::Duration::from_micros(self.begun.elapsed().as_micros() as u64);
        let mut packet = [0; 2_000];
        for (index, (part, ..)) in PARTS.iter().enumerate() {
            while let Ok((bytes, _)) = self.sockets[index].socket.recv_from(&mut packet) {
                if let Some(answer) = self.attackers[index].on_packet(&packet[..bytes], now) {
                    self.send(*part, answer);
                }
            }
        }
    }
}

impl Testbed for Members {
    fn member(&mut self, part: Role) -> &mut Attacker {
        &mut self.attackers[usize::from(part == Role::Accomplice)]
    }

    fn send(&mut self, part: Role, packet: Vec<u8>) {
        let line = &self.sockets[usize::from(part == Role::Accomplice)];
        // A datagram that a full buffer refuses is lost, as on any link.
        let _ = line.socket.send_to(&packet, line.relay);
    }

    fn pass(&mut self, time: byway_units::Duration) {
        let until = Instant::now() + Duration::from_micros(time.as_micros());
        while Instant::now() < until {
            self.listen();
            sleep(POLL.min(until.saturating_duration_since(Instant::now())));
        }
    }
}
