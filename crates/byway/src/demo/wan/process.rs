//! The emulator as a process of its own, with real sockets in real time.
//!
//! Commands arrive on standard input, one a line:
//!
//! 1. the [`Description`] as JSON;
//! 2. `start NANOS` with the instant of `CLOCK_MONOTONIC` at which the measured time begins;
//! 3. `finish PATH` with the path of the log.
//!
//! The answers on standard output are `ready`, `started` and `finished`. Commands are handled
//! before packets that have been received. So a packet after the start is measured even if the
//! emulator reads the command late. The process ends when standard input ends.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use byway_lab::timer_lateness::TimerLateness;
use byway_sim::Ecn;
use byway_units::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::description::Description;
use super::emulation::Emulation;
use super::log::{LinkRecord, WanLog};
use crate::demo::clock::{Instant, sharpen_timers, sleep_before};
use crate::demo::limits::CONTROL_LINE_BYTES_MAX;
use crate::demo::udp::{Buffers, TimestampedSocket};

/// Longest sleep of the emulator's loop if no event is due.
const IDLE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Runs the emulator until the command `finish`, or until standard input ends.
pub(crate) fn main() -> anyhow::Result<()> {
    sharpen_timers();
    let mut commands = Commands::default();
    let description = loop {
        match commands.next()? {
            CommandInput::Line(line) => {
                break serde_json::from_str(&line).context("invalid description of the network")?;
            }
            CommandInput::Nothing => commands.read()?,
            CommandInput::End => return Ok(()),
        }
    };
    Emulator::new(description)?.run(&mut commands)
}

/// Buffer of commands from standard input. The emulator reads standard input only when it has data.
#[derive(Default)]
struct Commands {
    bytes: Vec<u8>,
    has_ended: bool,
}

enum CommandInput {
    Line(String),
    Nothing,
    End,
}

impl Commands {
    fn read(&mut self) -> anyhow::Result<()> {
        let mut chunk = [0; 4096];
        let count = rustix::io::read(io::stdin(), &mut chunk)
            .context("cannot read the emulator's control channel")?;
        self.has_ended |= count == 0;
        self.bytes.extend_from_slice(&chunk[..count]);
        if self.bytes.len() > CONTROL_LINE_BYTES_MAX {
            bail!("command to the emulator longer than {CONTROL_LINE_BYTES_MAX} bytes");
        }
        Ok(())
    }

    fn next(&mut self) -> anyhow::Result<CommandInput> {
        let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') else {
            return Ok(if self.has_ended { CommandInput::End } else { CommandInput::Nothing });
        };
        let line = String::from_utf8(self.bytes.drain(..=end).collect())
            .context("command to the emulator not UTF-8")?;
        Ok(CommandInput::Line(line.trim_end().to_owned()))
    }
}

/// Packet that the emulator read from a socket and has not sent into the simulated world yet.
struct IncomingPacket {
    at: Instant,
    from: SocketAddr,
    /// Index of the packet's destination node.
    to: usize,
    ecn: Ecn,
    payload: Vec<u8>,
}

struct Emulator {
    emulation: Emulation,
    /// Sockets at the nodes' public addresses, by index.
    sockets: Vec<TimestampedSocket>,
    /// Real addresses of the nodes, by index; updated to the source of each node's latest packet.
    real: Vec<SocketAddr>,
    buffers: Buffers,
    lateness: TimerLateness,
}

impl Emulator {
    fn new(description: Description) -> anyhow::Result<Self> {
        let sockets = description
            .nodes
            .iter()
            .map(|node| TimestampedSocket::bind(node.public))
            .collect::<Result<_, _>>()?;
        let real = description.nodes.iter().map(|node| node.real).collect();
        let emulation = Emulation::new(description, Instant::now());
        Ok(Self { emulation, sockets, real, buffers: Buffers::new(), lateness: TimerLateness::default() })
    }

    fn run(mut self, commands: &mut Commands) -> anyhow::Result<()> {
        answer("ready")?;
        loop {
            self.send_due();
            let readable = self.wait(commands)?;
            loop {
                match commands.next()? {
                    CommandInput::Nothing => break,
                    CommandInput::End => return Ok(()),
                    CommandInput::Line(line) => match line.split_once(' ') {
                        Some(("start", nanos)) => self.start(nanos)?,
                        Some(("finish", path)) => return self.finish(Path::new(path)),
                        _ => bail!(
                            "unknown command {line:?} to the emulator: expected start NANOS or finish PATH"
                        ),
                    },
                }
            }
            self.receive_ready(&readable);
        }
    }

    fn start(&mut self, nanos: &str) -> anyhow::Result<()> {
        self.lateness = TimerLateness::default();
        self.emulation
            .start(Instant::from_nanos(nanos.parse().context("invalid start time of the emulator")?))?;
        answer("started")
    }

    /// Sends the packets that are due on the simulated links, and records how late this happens.
    fn send_due(&mut self) {
        let Self { emulation, sockets, real, lateness, .. } = self;
        emulation.departures(Instant::now(), |departure| {
            lateness.note(Duration::from_nanos(Instant::now().nanos_since(departure.due)));
            sockets[departure.from].send(real[departure.to], departure.ecn, &departure.payload);
        });
    }

    /// Waits until a packet is due, or a packet or command arrives. Reads commands, and returns the
    /// indices of readable sockets.
    fn wait(&mut self, commands: &mut Commands) -> anyhow::Result<Vec<usize>> {
        let stdin = io::stdin();
        let mut polled: Vec<_> =
            self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        polled.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
        let next = self.emulation.next_event();
        let timeout = next.map_or(IDLE, |next| sleep_before(next, Instant::now()));
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for packets"),
        }
        let has_something = |index: &usize| !polled[*index].revents().is_empty();
        if has_something(&self.sockets.len()) {
            commands.read()?;
        }
        Ok((0..self.sockets.len()).filter(has_something).collect())
    }

    /// Moves packets from the readable sockets into the simulated world, in the order in which the
    /// kernel received them.
    fn receive_ready(&mut self, readable: &[usize]) {
        let mut incoming = Vec::new();
        for &to in readable {
            self.sockets[to].receive(&mut self.buffers, |received| {
                let payload = received.payload.to_vec();
                incoming.push(IncomingPacket {
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
            // Packets of other programs on this machine's loopback are not part of the network.
            let Some(from) = self.emulation.node_at(packet.from.ip()) else { continue };
            self.real[from] = packet.from;
            let to = self.emulation.description().nodes[packet.to].public;
            self.emulation.send(packet.at, from, to, packet.ecn, &packet.payload);
        }
    }

    fn finish(self, path: &Path) -> anyhow::Result<()> {
        let log = self.emulation.into_log().context("command finish before start")?;
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
        let file = || format!("cannot write the emulator's log {}", path.display());
        let mut writer = BufWriter::new(File::create(path).with_context(file)?);
        serde_json::to_writer(&mut writer, &log).with_context(file)?;
        writer.flush().with_context(file)?;
        answer("finished")
    }
}

fn answer(word: &str) -> anyhow::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{word}").and_then(|()| output.flush()).context("cannot write the emulator's reply")
}
