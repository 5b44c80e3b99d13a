//! Restarts of an agent under attack: by an observer that forges answers, and by a flood of
//! initiations. This is a small version; `make attack` restarts the agent 20 times for each.

#![allow(unreachable_pub, reason = "modules of tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "programs use sockets and clocks")]
#![allow(clippy::print_stderr, reason = "says what was measured")]

mod support;

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use byway_fuzz_targets::attacks::{Forger, InitiationFlood, PORTS};
use byway_proto::limits::HANDSHAKE_RETRY;
use byway_units::Time;
use byway_wire::packets::Kind;
use byway_wire::seal::StaticSecret;
use support::{Node, TIMEOUT, TwoSites};

/// Longest time from a restarted agent's first initiation to its session.
const RESTARTED_WITHIN: Duration = Duration::from_secs(3);

/// Delay that forgeries may add after the true response. An idle core reads 2,000 forged ones in a
/// fifth of a second; a core that eight other processes use needs 0.6 s.
const FORGERIES_TAKE: Duration = Duration::from_secs(1);

/// Lead of a flood, in which it exhausts the relay's budgets for initiations with and without a
/// cookie.
const LEAD: Duration = Duration::from_millis(500);

/// Hosts of the observer, on the agent's side and on the relay's, and of the flood.
const NEAR: u8 = 51;
const FAR: u8 = 52;
const FLOOD: u8 = 60;

struct Size {
    restarts: usize,
    /// Initiations a second.
    rate: u32,
}

/// Size for `make test`: ten seconds in all.
const SMALL: Size = Size { restarts: 2, rate: 5_000 };

/// Size for `make attack`.
const LARGE: Size = Size { restarts: 20, rate: 50_000 };

fn size() -> Size {
    if std::env::var("ATTACK").is_ok_and(|size| size == "large") { LARGE } else { SMALL }
}

/// Observations since the start of the agent.
#[derive(Default)]
struct Seen {
    agent: Option<SocketAddr>,
    initiations: usize,
    /// Forged answers of each kind to an initiation.
    forged: usize,
    first: Option<Instant>,
    /// The relay's first response.
    answered: Option<Instant>,
    /// The agent's first packet under the keys of its session.
    established: Option<Instant>,
}

/// Observer between the agent and its relay, and the agent's NAT. It forwards all packets from the
/// agent's port, and adds forged answers.
struct Observer {
    seen: Arc<Mutex<Seen>>,
    ends: Arc<AtomicBool>,
    passing: Option<JoinHandle<()>>,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.passing.take().map(JoinHandle::join).expect("it passes packets on").expect("no panic");
    }
}

fn open(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(address).expect("the address is free");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    socket
}

impl Observer {
    fn start(near: SocketAddr, far: IpAddr, relay: SocketAddr, secret: StaticSecret) -> Self {
        let (seen, ends) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let passing = {
            let (seen, ends, near) = (Arc::clone(&seen), Arc::clone(&ends), open(near));
            std::thread::spawn(move || pass_out(&near, (far, relay), &seen, &ends, Forger::new(secret)))
        };
        Self { seen, ends, passing: Some(passing) }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no panic")
    }
}

/// Forwards the agent's packets to its relay, and adds forged answers.
fn pass_out(
    near: &UdpSocket,
    (far, relay): (IpAddr, SocketAddr),
    seen: &Arc<Mutex<Seen>>,
    ends: &Arc<AtomicBool>,
    mut forger: Forger,
) {
    let mut outside: Option<SourcePort> = None;
    let mut packet = [0; 2_000];
    while !ends.load(Ordering::Relaxed) {
        let Ok((bytes, agent)) = near.recv_from(&mut packet) else { continue };
        let packet = &packet[..bytes];
        let count = note(&mut seen.lock().expect("no panic"), packet, agent);
        for answer in forger.answers(packet, count, Time::START) {
            // A datagram that a full buffer refuses is lost, as on any link.
            let _ = near.send_to(&answer, agent);
        }
        if outside.as_ref().is_none_or(|outside| outside.port != agent.port()) {
            // The socket of another port is closed first.
            drop(outside.take());
            let near = near.try_clone().expect("a socket");
            outside = Some(SourcePort::open(SocketAddr::new(far, agent.port()), near, Arc::clone(seen)));
        }
        let _ = outside.as_ref().expect("as opened").socket.send_to(packet, relay);
    }
}

/// The NAT's mapping of the agent's port.
struct SourcePort {
    port: u16,
    socket: UdpSocket,
    ends: Arc<AtomicBool>,
    passing: Option<JoinHandle<()>>,
}

impl SourcePort {
    /// Passes what the relay sends to this address on to the agent.
    fn open(address: SocketAddr, near: UdpSocket, seen: Arc<Mutex<Seen>>) -> Self {
        let (socket, ends) = (open(address), Arc::new(AtomicBool::new(false)));
        let (far, until) = (socket.try_clone().expect("a socket"), Arc::clone(&ends));
        let passing = std::thread::spawn(move || {
            let mut packet = [0; 2_000];
            while !until.load(Ordering::Relaxed) {
                let Ok((bytes, _)) = far.recv_from(&mut packet) else { continue };
                let mut seen = seen.lock().expect("no panic");
                if packet[0] == Kind::Response.first_byte() {
                    seen.answered.get_or_insert_with(Instant::now);
                }
                if let Some(agent) = seen.agent {
                    let _ = near.send_to(&packet[..bytes], agent);
                }
            }
        });
        Self { port: address.port(), socket, ends, passing: Some(passing) }
    }
}

impl Drop for SourcePort {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.passing.take().map(JoinHandle::join).expect("it passes packets on").expect("no panic");
    }
}

/// Records a packet of the agent, and returns the number of forged answers of each kind to it.
fn note(seen: &mut Seen, packet: &[u8], from: SocketAddr) -> usize {
    seen.agent = Some(from);
    match packet.first().copied().and_then(Kind::from_first_byte) {
        Some(Kind::Initiation) if seen.established.is_none() => {
            seen.first.get_or_insert_with(Instant::now);
            seen.initiations += 1;
            seen.forged
        }
        Some(Kind::Message) if seen.first.is_some() => {
            seen.established.get_or_insert_with(Instant::now);
            0
        }
        _ => 0,
    }
}

/// Continuous flood of initiations from a stranger.
struct Flooding {
    ends: Arc<AtomicBool>,
    /// Thread that returns the number of initiations a second.
    sending: Option<JoinHandle<u64>>,
}

impl Flooding {
    fn start(sites: &TwoSites, host: u8, rate: u32) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let open = |port| {
            let socket = UdpSocket::bind(sites.bench.at(host, 20_000 + port)).expect("the port is free");
            socket.set_nonblocking(true).expect("a socket");
            socket
        };
        let sockets: Vec<UdpSocket> = (0..PORTS).map(open).collect();
        let (relay, key) = (sites.bench.at(1, 4_600), secret(sites).public_key());
        let until = Arc::clone(&ends);
        let sending = std::thread::spawn(move || {
            let mut flood = InitiationFlood::new(&key, true);
            let (begun, mut sent, mut answer) = (Instant::now(), 0_u32, [0; 2_000]);
            while !until.load(Ordering::Relaxed) {
                let due = u128::from(rate) * begun.elapsed().as_millis() / 1_000;
                while u128::from(sent) < due {
                    let (port, packet) = flood.next();
                    // A datagram that a full buffer refuses is lost, as on any link.
                    let _ = sockets[port].send_to(packet, relay);
                    sent += 1;
                }
                for (port, socket) in sockets.iter().enumerate() {
                    while let Ok(bytes) = socket.recv(&mut answer) {
                        flood.on_packet(port, &answer[..bytes]);
                    }
                }
                sleep(Duration::from_millis(1));
            }
            u64::from(sent) * 1_000 / u64::try_from(begun.elapsed().as_millis().max(1)).expect("a short test")
        });
        Self { ends, sending: Some(sending) }
    }

    fn finish(mut self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.sending.take().map_or(0, |sending| sending.join().expect("no panic"))
    }
}

fn secret(sites: &TwoSites) -> StaticSecret {
    let text = std::fs::read_to_string(sites.bench.path("east.key")).expect("the relay has a key");
    text.trim_end().parse().expect("a key")
}

struct Restarts {
    name: String,
    took: Vec<Option<Duration>>,
    initiations_max: usize,
}

impl Restarts {
    fn run(name: String, sites: &TwoSites, observer: &Observer, forged: usize, count: usize) -> Self {
        let mut restarts = Self { name, took: Vec::new(), initiations_max: 0 };
        for _ in 0..count {
            *observer.seen() = Seen { forged, ..Seen::default() };
            let alice: Node = sites.alice("caching");
            let begun = Instant::now();
            while observer.seen().established.is_none() && begun.elapsed() < TIMEOUT {
                sleep(Duration::from_millis(1));
            }
            let seen = observer.seen();
            // The time before the true response includes the observer's own work.
            let begun = if forged > 0 { seen.answered } else { seen.first };
            let both = seen.established.zip(begun);
            restarts.took.push(both.map(|(established, begun)| established.saturating_duration_since(begun)));
            // On a busy machine, forging takes so long that a retry is due; forgeries do not cause
            // it.
            let attempt = seen.established.zip(seen.first).map(|(established, first)| established - first);
            let retries = attempt.unwrap_or(TIMEOUT).as_millis() / u128::from(HANDSHAKE_RETRY.as_millis());
            let initiations = seen.initiations.saturating_sub(usize::try_from(retries).expect("few retries"));
            restarts.initiations_max = restarts.initiations_max.max(initiations);
            drop((seen, alice));
        }
        eprintln!("{restarts}");
        restarts
    }

    fn slowest(&self) -> Duration {
        self.took.iter().map(|took| took.unwrap_or(TIMEOUT)).max().unwrap_or(TIMEOUT)
    }

    fn faults(&self, slowest_max: Duration, initiations_max: usize) -> Vec<String> {
        let is_right = self.slowest() <= slowest_max && self.initiations_max <= initiations_max;
        (!is_right).then(|| format!("{self} not {slowest_max:?} and {initiations_max}")).into_iter().collect()
    }
}

impl fmt::Display for Restarts {
    /// Writes a row of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, done, all) = (&self.name, self.took.iter().flatten().count(), self.took.len());
        let slowest = self.slowest().as_secs_f64() * 1_000.0;
        write!(f, "| {name} | {done} of {all} | {slowest:.1} ms | {} |", self.initiations_max)
    }
}

#[test]
fn nobody_keeps_a_restarted_agent_from_its_relay() {
    let size = size();
    // The agent has the port of its last start, as by default.
    let mut sites = TwoSites { alice_port: 0, ..TwoSites::new() };
    let [relay, near] = [1, NEAR].map(|host| sites.bench.at(host, 4_600));
    let _relay = sites.relay(1);
    let observer = Observer::start(near, sites.bench.host(FAR).into(), relay, secret(&sites));
    // Alice knows her relay at the observer's address.
    sites.network = sites.network.replace(&relay.to_string(), &near.to_string());
    eprintln!(
        "| beside a restarted agent | sessions | the slowest took | initiations of one start at most |"
    );
    eprintln!("|---|---|---|---|");
    let run = |name: &str, forged| Restarts::run(name.to_owned(), &sites, &observer, forged, size.restarts);
    let control = run("nobody", 0);
    let (initiations_max, slowest_max) = (control.initiations_max + 1, control.slowest() + FORGERIES_TAKE);
    let mut faults = control.faults(RESTARTED_WITHIN, initiations_max);
    for (name, forged) in [
        ("one forged cookie and response for each initiation", 1),
        ("1,000 forged cookies and responses for each initiation", 1_000),
    ] {
        faults.extend(run(name, forged).faults(slowest_max, initiations_max));
    }
    for (name, host) in
        [("initiations from another address", FLOOD), ("initiations from behind its NAT, with cookies", FAR)]
    {
        let flooding = Flooding::start(&sites, host, size.rate);
        sleep(LEAD);
        let flooded = run(name, 0);
        eprintln!("({} initiations a second were sent)", flooding.finish());
        faults.extend(flooded.faults(RESTARTED_WITHIN, initiations_max));
    }
    assert_eq!(faults, Vec::<String>::new());
}
