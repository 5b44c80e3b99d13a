//! Applications of the guide: a caller, a listener that may answer, and the counts of a flow.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::TIMEOUT;
use crate::world::{Impairments, World};

/// Rate of random losses besides the outage.
pub const LOSS: f64 = 0.06;

/// Interval of a call's packets.
const EVERY: Duration = Duration::from_millis(20);

/// Number of packets of a call: six seconds.
pub const PACKETS: u32 = 300;

/// Bytes of a packet. A call is shorter than the part that captures copy of each possible bulk
/// connection.
const BYTES: usize = 150;

/// Bytes that a TCP client sends and gets back.
const FETCHED: usize = 20_000;

/// Application that receives at a port, and may answer.
pub struct Listener {
    /// Received sequence numbers, by sender.
    received: Arc<Mutex<BTreeSet<(SocketAddr, u32)>>>,
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
                    // The sender may have closed its socket.
                    let _ = socket.send_to(&buffer[..length], from);
                }
            }
        });
        Self { received: heard }
    }

    /// Counts the different packets received from all senders.
    pub fn count(&self) -> usize {
        self.received.lock().expect("nobody panics with it").len()
    }
}

/// Application that sends a call.
pub struct Caller {
    socket: UdpSocket,
    to: SocketAddr,
}

impl Caller {
    /// Makes a caller on a machine with this destination.
    pub fn new(world: &World, host: &str, to: &str) -> Self {
        Self::from_port(world, host, 0, to)
    }

    /// Makes a caller that sends from this port.
    pub fn from_port(world: &World, host: &str, port: u16, to: &str) -> Self {
        let to: SocketAddr = to.parse().expect("an address and a port");
        let socket = world.at(host, move || UdpSocket::bind(("0.0.0.0", port)).expect("nobody has the port"));
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        Self { socket, to }
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.socket.local_addr().expect("it is bound").port()
    }

    /// Sends until an answer arrives.
    pub fn reach(&self) {
        let (begun, mut buffer) = (Instant::now(), [0; 2_000]);
        loop {
            self.socket.send_to(b"....hello", self.to).expect("it leaves");
            if self.socket.recv(&mut buffer).is_ok() {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "nobody answers at {}", self.to);
        }
    }

    /// Sends this number of a call's packets.
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

/// Sends a call from each caller at the same time, over a path with losses and an outage of a
/// second.
pub fn call_through_an_outage(world: &World, callers: &[&Caller]) {
    world.set_impairments(Impairments::Lossy(LOSS));
    let sending: Vec<_> = callers.iter().map(|caller| caller.send(PACKETS, EVERY)).collect();
    std::thread::sleep(EVERY * PACKETS / 3);
    world.set_impairments(Impairments::Outage);
    std::thread::sleep(Duration::from_secs(1));
    end_in_losses(world, callers, sending);
}

/// Sends a third of a call from each caller at the same time, over a path with losses.
pub fn call_through_losses(world: &World, callers: &[&Caller]) {
    let sending = callers.iter().map(|caller| caller.send(PACKETS / 3, EVERY)).collect();
    end_in_losses(world, callers, sending);
}

/// Continues losses until all packets are sent, then sends more to reveal the last losses.
fn end_in_losses(world: &World, callers: &[&Caller], sending: Vec<JoinHandle<()>>) {
    world.set_impairments(Impairments::Lossy(LOSS));
    for sender in sending {
        sender.join().expect("all is sent");
    }
    world.set_impairments(Impairments::Clear);
    // Only later packets reveal the last losses.
    let sending: Vec<_> = callers.iter().map(|caller| caller.send(5, EVERY)).collect();
    for sender in sending {
        sender.join().expect("all is sent");
    }
}

/// A receiver's counts of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    pub direct: u64,
    pub lost: u64,
    pub in_stream: u64,
    pub cooperative: u64,
    pub cached: u64,
    pub resent: u64,
    pub forwarded: u64,
    pub missing: u64,
}

impl FlowCounts {
    /// Parses the counts of received packets from the API.
    pub fn new(received: &Value) -> Self {
        let count = |name: &str| received[name].as_u64().unwrap_or_else(|| panic!("{name} of {received}"));
        Self {
            direct: count("direct"),
            lost: count("lost_direct"),
            in_stream: count("in_stream"),
            cooperative: count("cooperative"),
            cached: count("cached"),
            resent: count("resent"),
            forwarded: count("forwarded"),
            missing: count("unrepaired"),
        }
    }

    /// Returns the share of the direct path's losses that was repaired.
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    pub fn repaired(&self) -> f64 {
        1.0 - self.missing as f64 / self.lost as f64
    }

    /// Returns the counts since an earlier state.
    pub const fn since(&self, before: Self) -> Self {
        Self {
            direct: self.direct - before.direct,
            lost: self.lost - before.lost,
            in_stream: self.in_stream - before.in_stream,
            cooperative: self.cooperative - before.cooperative,
            cached: self.cached - before.cached,
            resent: self.resent - before.resent,
            forwarded: self.forwarded - before.forwarded,
            missing: self.missing - before.missing,
        }
    }

    /// Returns the number of all packets, received or lost.
    pub const fn all(&self) -> u64 {
        let restored = self.in_stream + self.cooperative + self.cached + self.resent;
        self.direct + restored + self.forwarded + self.missing
    }
}

/// Returns the final counts of a caller's flow.
pub fn flow_counts(world: &World, caller: &Caller) -> FlowCounts {
    let number = flow_of(world, caller);
    settled(|| {
        let status = world.status("bob");
        let mappings = status["mappings"].as_array().into_iter().flatten();
        let mapping = mappings.into_iter().find(|mapping| mapping["flow"] == number);
        FlowCounts::new(&mapping.unwrap_or_else(|| panic!("flow {number} is not in {status}"))["received"])
    })
}

/// Returns the final counts of all packets to an agent.
pub fn total_counts(world: &World, host: &str) -> FlowCounts {
    settled(|| FlowCounts::new(&world.status(host)["totals"][0]["received"]))
}

/// Returns an agent's counter of this name.
pub fn counter(world: &World, host: &str, name: &str) -> u64 {
    crate::counters::counter(&world.status(host), "counters", name)
}

/// Returns the number of a caller's flow.
fn flow_of(world: &World, caller: &Caller) -> Value {
    let status = world.status("alice");
    let end = format!(":{}", caller.port());
    let mut mappings = status["mappings"].as_array().into_iter().flatten();
    let mapping = mappings.find(|mapping| mapping["endpoint"].as_str().is_some_and(|at| at.ends_with(&end)));
    mapping.unwrap_or_else(|| panic!("port {end} is not in {status}"))["flow"].clone()
}

/// Serves TCP connections on a machine: echoes all bytes.
pub fn serve_tcp(world: &World, host: &str, address: &str) {
    let address: SocketAddr = address.parse().expect("an address and a port");
    let listener = world.at(host, move || TcpListener::bind(address).expect("nobody has the port"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = vec![0; FETCHED];
            if stream.read_exact(&mut bytes).is_ok() {
                // The client may have closed its connection.
                let _ = stream.write_all(&bytes);
            }
        }
    });
}

/// Sends bytes over TCP, and checks the echo.
pub fn fetch_tcp(world: &World, host: &str, address: &str) {
    let address: SocketAddr = address.parse().expect("an address and a port");
    let stream =
        world.at(host, move || TcpStream::connect_timeout(&address, TIMEOUT).expect("somebody listens"));
    let (mut stream, sent) = (stream, vec![7; FETCHED]);
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    stream.write_all(&sent).expect("it is taken");
    let mut back = vec![0; FETCHED];
    stream.read_exact(&mut back).expect("it comes back");
    assert!(back == sent, "other bytes came back");
}

/// Returns a count after it has been constant for half a second.
pub fn settled<T: PartialEq>(count: impl Fn() -> T) -> T {
    let until = Instant::now() + TIMEOUT;
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
