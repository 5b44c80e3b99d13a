//! The emulator as a process of its own: real sockets, real time.
//!
//! Commands come on standard input, a line each: first the [`Description`] as JSON, then `start NANOS` with the instant of
//! `CLOCK_MONOTONIC` at which the measured time begins, then `finish PATH`, where the log goes. The answers on standard
//! output are `ready`, `started` and `finished`. Commands come before packets that have been received: what comes after the start
//! is measured, however late the emulator hears of it. When standard input ends, so does the process.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use byway_lab::lateness::Lateness;
use byway_sim::Ecn;
use byway_units::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::description::Description;
use super::emulation::Emulation;
use super::log::{LinkRecord, WanLog};
use crate::demo::clock::{Instant, sharpen_timers, sleep_before};
use crate::demo::limits::CONTROL_LINE_BYTES_MAX;
use crate::demo::udp::{Buffers, Port};

/// The longest sleep without anything to do.
const IDLE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Runs the emulator until it is told to finish, or standard input ends.
pub(crate) fn main() -> anyhow::Result<()> {
    sharpen_timers();
    let mut commands = Commands::default();
    let description = loop {
        match commands.next()? {
            Next::Line(line) => break serde_json::from_str(&line).context("description of the network")?,
            Next::Nothing => commands.read()?,
            Next::End => return Ok(()),
        }
    };
    Emulator::new(description)?.run(&mut commands)
}

/// Lines from standard input, which is read only when it has something.
#[derive(Default)]
struct Commands {
    bytes: Vec<u8>,
    has_ended: bool,
}

enum Next {
    Line(String),
    Nothing,
    End,
}

impl Commands {
    fn read(&mut self) -> anyhow::Result<()> {
        let mut chunk = [0; 4096];
        let count = rustix::io::read(io::stdin(), &mut chunk).context("control channel of the emulator")?;
        self.has_ended |= count == 0;
        self.bytes.extend_from_slice(&chunk[..count]);
        if self.bytes.len() > CONTROL_LINE_BYTES_MAX {
            bail!("a command to the emulator is longer than {CONTROL_LINE_BYTES_MAX} bytes");
        }
        Ok(())
    }

    fn next(&mut self) -> anyhow::Result<Next> {
        let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') else {
            return Ok(if self.has_ended { Next::End } else { Next::Nothing });
        };
        let line =
            String::from_utf8(self.bytes.drain(..=end).collect()).context("command to the emulator")?;
        Ok(Next::Line(line.trim_end().to_owned()))
    }
}

/// A packet that was read from a socket and has not entered the world yet.
struct Incoming {
    at: Instant,
    from: SocketAddr,
    /// The place of the node to which it was sent.
    to: usize,
    ecn: Ecn,
    payload: Vec<u8>,
}

struct Emulator {
    emulation: Emulation,
    /// By place: the socket at the node's public address.
    ports: Vec<Port>,
    /// By place: where the node is reached.
    real: Vec<SocketAddr>,
    buffers: Buffers,
    lateness: Lateness,
}

impl Emulator {
    fn new(description: Description) -> anyhow::Result<Self> {
        let ports = description.nodes.iter().map(|node| Port::bind(node.public)).collect::<Result<_, _>>()?;
        let real = description.nodes.iter().map(|node| node.real).collect();
        let emulation = Emulation::new(description, Instant::now());
        Ok(Self { emulation, ports, real, buffers: Buffers::new(), lateness: Lateness::default() })
    }

    fn run(mut self, commands: &mut Commands) -> anyhow::Result<()> {
        answer("ready")?;
        loop {
            self.let_out();
            let readable = self.wait(commands)?;
            loop {
                match commands.next()? {
                    Next::Nothing => break,
                    Next::End => return Ok(()),
                    Next::Line(line) => match line.split_once(' ') {
                        Some(("start", nanos)) => self.start(nanos)?,
                        Some(("finish", path)) => return self.finish(Path::new(path)),
                        _ => bail!("the emulator knows start NANOS and finish PATH, not {line:?}"),
                    },
                }
            }
            self.take_in(&readable);
        }
    }

    fn start(&mut self, nanos: &str) -> anyhow::Result<()> {
        self.lateness = Lateness::default();
        self.emulation.start(Instant::from_nanos(nanos.parse().context("start of the emulator")?))?;
        answer("started")
    }

    /// Sends what is due.
    fn let_out(&mut self) {
        let Self { emulation, ports, real, lateness, .. } = self;
        emulation.departures(Instant::now(), |departure| {
            lateness.note(Duration::from_nanos(Instant::now().nanos_since(departure.due)));
            ports[departure.from].send(real[departure.to], departure.ecn, &departure.payload);
        });
    }

    /// Waits until a packet is due or one comes; which of the ports have something.
    fn wait(&mut self, commands: &mut Commands) -> anyhow::Result<Vec<usize>> {
        let stdin = io::stdin();
        let mut polled: Vec<_> = self.ports.iter().map(|port| PollFd::new(port, PollFlags::IN)).collect();
        polled.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
        let next = self.emulation.next_event();
        let timeout = next.map_or(IDLE, |next| sleep_before(next, Instant::now()));
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for packets"),
        }
        let has_something = |place: &usize| !polled[*place].revents().is_empty();
        if has_something(&self.ports.len()) {
            commands.read()?;
        }
        Ok((0..self.ports.len()).filter(has_something).collect())
    }

    /// Takes packets from the sockets into the world, in the order in which the kernel received them.
    fn take_in(&mut self, readable: &[usize]) {
        let mut incoming = Vec::new();
        for &to in readable {
            self.ports[to].receive(&mut self.buffers, |received| {
                let payload = received.payload.to_vec();
                incoming.push(Incoming {
                    at: received.at,
                    from: received.from,
                    to,
                    ecn: received.ecn,
                    payload,
                });
            });
        }
        incoming.sort_by_key(|packet| packet.at);
        for packet in incoming {
            // Strangers on this machine's loopback are no part of the network.
            let Some(from) = self.emulation.node_at(packet.from.ip()) else { continue };
            self.real[from] = packet.from;
            let to = self.emulation.description().nodes[packet.to].public;
            self.emulation.send(packet.at, from, to, packet.ecn, &packet.payload);
        }
    }

    fn finish(self, path: &Path) -> anyhow::Result<()> {
        let log = self.emulation.into_log().context("finish comes after start")?;
        let links = log.links.into_iter().map(|(from, to, counters)| LinkRecord {
            from,
            to,
            packets: counters.sent,
            ip_bytes: counters.sent_bytes.count(),
            lost: counters.lost.total(),
        });
        let (packets, packets_left_out) = log.packets.into_parts();
        let lateness = self.lateness.summary();
        let log = WanLog {
            links: links.collect(),
            packets,
            packets_left_out,
            unroutable: log.unroutable,
            lateness,
        };
        let file = || format!("the emulator's log {}", path.display());
        let mut writer = BufWriter::new(File::create(path).with_context(file)?);
        serde_json::to_writer(&mut writer, &log).with_context(file)?;
        writer.flush().with_context(file)?;
        answer("finished")
    }
}

fn answer(word: &str) -> anyhow::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{word}").and_then(|()| output.flush()).context("answer of the emulator")
}
