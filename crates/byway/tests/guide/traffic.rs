//! Applications of the guide: one that sends as a call does, one that receives and answers, and what became of a flow.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PATIENCE;
use crate::world::{Weather, World};

/// How much of what a path loses is lost at random, beside the outage.
pub const LOSS: f64 = 0.06;

/// The time between two packets of a call.
const EVERY: Duration = Duration::from_millis(20);

/// Packets of a call: six seconds of it.
pub const PACKETS: u32 = 300;

/// Bytes of a packet: a call is shorter than what captures copy of each connection that may be bulk.
const BYTES: usize = 150;

/// Bytes that a client of TCP sends and gets back.
const FETCHED: usize = 20_000;

/// An application that receives at a port, and answers if it is to.
pub struct Listener {
    /// The ends that sent, and the numbers that came of each.
    heard: Arc<Mutex<BTreeSet<(SocketAddr, u32)>>>,
}

impl Listener {
    /// Listens at an address of a machine.
    pub fn new(world: &World, host: &str, address: &str, answers: bool) -> Self {
        let address: SocketAddr = address.parse().expect("an address and a port");
        let socket = world.at(host, move || UdpSocket::bind(address).expect("nobody has the port"));
        let heard = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut buffer = [0; 2_000];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let number = buffer.first_chunk().map_or(0, |number| u32::from_be_bytes(*number));
                noted.lock().expect("nobody panics with it").insert((from, number));
                if answers {
                    // One that has gone misses nothing.
                    let _ = socket.send_to(&buffer[..length], from);
                }
            }
        });
        Self { heard }
    }

    /// How many different packets came, of all.
    pub fn count(&self) -> usize {
        self.heard.lock().expect("nobody panics with it").len()
    }
}

/// An application that calls.
pub struct Caller {
    socket: UdpSocket,
    to: SocketAddr,
}

impl Caller {
    /// One at a machine that sends there.
    pub fn new(world: &World, host: &str, to: &str) -> Self {
        Self::from_port(world, host, 0, to)
    }

    /// One that sends from a port of its own.
    pub fn from_port(world: &World, host: &str, port: u16, to: &str) -> Self {
        let to: SocketAddr = to.parse().expect("an address and a port");
        let socket = world.at(host, move || UdpSocket::bind(("0.0.0.0", port)).expect("nobody has the port"));
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        Self { socket, to }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.socket.local_addr().expect("it is bound").port()
    }

    /// Sends until an answer comes.
    pub fn reach(&self) {
        let (begun, mut buffer) = (Instant::now(), [0; 2_000]);
        loop {
            self.socket.send_to(b"....hello", self.to).expect("it leaves");
            if self.socket.recv(&mut buffer).is_ok() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "nobody answers at {}", self.to);
        }
    }

    /// Sends so many packets of a call.
    pub fn call(&self, packets: u32) {
        self.send(packets, EVERY).join().expect("all is sent");
    }

    /// Sends a call's packets in the background.
    fn send(&self, packets: u32, every: Duration) -> JoinHandle<()> {
        let (socket, to) = (self.socket.try_clone().expect("a socket"), self.to);
        std::thread::spawn(move || {
            let begun = Instant::now();
            for number in 0..packets {
                std::thread::sleep((begun + every * number).saturating_duration_since(Instant::now()));
                let mut packet = [7; BYTES];
                packet[..4].copy_from_slice(&(number + 1).to_be_bytes());
                socket.send_to(&packet, to).expect("it leaves");
            }
        })
    }
}

/// Sends a call from each caller at the same time, over a path that loses packets, and none passes for a second.
pub fn call_through_an_outage(world: &World, callers: &[&Caller]) {
    world.weather(Weather::Lossy(LOSS));
    let sending: Vec<_> = callers.iter().map(|caller| caller.send(PACKETS, EVERY)).collect();
    std::thread::sleep(EVERY * PACKETS / 3);
    world.weather(Weather::Dark);
    std::thread::sleep(Duration::from_secs(1));
    end_in_losses(world, callers, sending);
}

/// Sends a third of a call from each caller at the same time, over a path that loses packets.
pub fn call_through_losses(world: &World, callers: &[&Caller]) {
    let sending = callers.iter().map(|caller| caller.send(PACKETS / 3, EVERY)).collect();
    end_in_losses(world, callers, sending);
}

/// Loses packets until all have sent theirs, and shows the receivers which the last ones were.
fn end_in_losses(world: &World, callers: &[&Caller], sending: Vec<JoinHandle<()>>) {
    world.weather(Weather::Lossy(LOSS));
    for sender in sending {
        sender.join().expect("all is sent");
    }
    world.weather(Weather::Clear);
    // The last losses are noticed by what follows them.
    let sending: Vec<_> = callers.iter().map(|caller| caller.send(5, EVERY)).collect();
    for sender in sending {
        sender.join().expect("all is sent");
    }
}

/// What the receiver says of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub direct: u64,
    pub lost: u64,
    pub in_stream: u64,
    pub cooperative: u64,
    pub cached: u64,
    pub forwarded: u64,
    pub missing: u64,
}

impl Fate {
    /// That of received packets in the words of the API.
    pub fn new(received: &Value) -> Self {
        let count = |name: &str| received[name].as_u64().unwrap_or_else(|| panic!("{name} of {received}"));
        Self {
            direct: count("direct"),
            lost: count("lost_direct"),
            in_stream: count("in_stream"),
            cooperative: count("cooperative"),
            cached: count("cached"),
            forwarded: count("forwarded"),
            missing: count("unrepaired"),
        }
    }

    /// Of what the direct path lost, the share that was repaired.
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    pub fn repaired(&self) -> f64 {
        1.0 - self.missing as f64 / self.lost as f64
    }

    /// What came since then.
    pub const fn since(&self, before: Self) -> Self {
        Self {
            direct: self.direct - before.direct,
            lost: self.lost - before.lost,
            in_stream: self.in_stream - before.in_stream,
            cooperative: self.cooperative - before.cooperative,
            cached: self.cached - before.cached,
            forwarded: self.forwarded - before.forwarded,
            missing: self.missing - before.missing,
        }
    }

    /// All that came or was lost.
    pub const fn all(&self) -> u64 {
        self.direct + self.in_stream + self.cooperative + self.cached + self.forwarded + self.missing
    }
}

/// What became of a caller's flow, when nothing more becomes of it.
pub fn fate(world: &World, caller: &Caller) -> Fate {
    let number = flow_of(world, caller);
    settled(|| {
        let status = world.status("bob");
        let mappings = status["mappings"].as_array().into_iter().flatten();
        let mapping = mappings.into_iter().find(|mapping| mapping["flow"] == number);
        Fate::new(&mapping.unwrap_or_else(|| panic!("flow {number} is not in {status}"))["received"])
    })
}

/// What became of all that came to an agent, when nothing more becomes of it.
pub fn fate_of_all(world: &World, host: &str) -> Fate {
    settled(|| Fate::new(&world.status(host)["totals"][0]["received"]))
}

/// What an agent has counted under a name.
pub fn counted(world: &World, host: &str, name: &str) -> u64 {
    let status = world.status(host);
    let mut counters = status["counters"].as_array().into_iter().flatten();
    counters.find(|counted| counted["reason"] == name).and_then(|found| found["count"].as_u64()).unwrap_or(0)
}

/// The number of a caller's flow.
fn flow_of(world: &World, caller: &Caller) -> Value {
    let status = world.status("alice");
    let end = format!(":{}", caller.port());
    let mut mappings = status["mappings"].as_array().into_iter().flatten();
    let mapping = mappings.find(|mapping| mapping["endpoint"].as_str().is_some_and(|at| at.ends_with(&end)));
    mapping.unwrap_or_else(|| panic!("port {end} is not in {status}"))["flow"].clone()
}

/// Has connections of TCP to a machine have what they send sent back.
pub fn serve_tcp(world: &World, host: &str, address: &str) {
    let address: SocketAddr = address.parse().expect("an address and a port");
    let listener = world.at(host, move || TcpListener::bind(address).expect("nobody has the port"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = vec![0; FETCHED];
            if stream.read_exact(&mut bytes).is_ok() {
                // A client that has gone misses nothing.
                let _ = stream.write_all(&bytes);
            }
        }
    });
}

/// Sends something by TCP, and gets it back.
pub fn fetch_tcp(world: &World, host: &str, address: &str) {
    let address: SocketAddr = address.parse().expect("an address and a port");
    let stream =
        world.at(host, move || TcpStream::connect_timeout(&address, PATIENCE).expect("somebody listens"));
    let (mut stream, sent) = (stream, vec![7; FETCHED]);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&sent).expect("it is taken");
    let mut back = vec![0; FETCHED];
    stream.read_exact(&mut back).expect("it comes back");
    assert!(back == sent, "other bytes came back");
}

/// What is counted once it stays the same for half a second.
pub fn settled<T: PartialEq>(count: impl Fn() -> T) -> T {
    let until = Instant::now() + PATIENCE;
    let (mut last, mut since) = (count(), Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        std::thread::sleep(Duration::from_millis(100));
        let next = count();
        if next != last {
            (last, since) = (next, Instant::now());
        }
        assert!(Instant::now() < until, "it goes on changing");
    }
    last
}
