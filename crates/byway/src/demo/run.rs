//! One run: processes start, video flies, logs are read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use byway_lab::lateness::LatenessSummary;

use super::clock::Instant;
use super::drops;
use super::measure::{Fate, PairTraffic, Traffic, fates};
use super::media::{Places, Video};
use super::overlay::Overlay;
use super::plan::{MEASURED_PAIR, Node, Plan, ROUND_TRIP_MS, Weather};
use super::results::RunKind;
use super::status;
use super::traffic::{Arrival, Receivers, Senders};
use super::wan::{Description, PacketRecord, Wan, WanLog, losses_at};
use crate::interrupt;
use crate::scratch::Scratch;

/// Until senders are heard: agents set up sessions, offer flows and register them, in a few round trips.
const HELLO_SECONDS: u64 = 20;

/// Between hellos.
const HELLO_EVERY: Duration = Duration::from_millis(100);

/// After everybody is heard, until the video: relays tell each other of flows, and agents measure round trips.
const SETTLE: Duration = Duration::from_millis(1_500);

/// From the decision to start until the first packet: the emulator has to hear of it.
const RUN_UP_MS: u64 = 200;

/// After the last packet: whatever comes later than this is nobody's.
const TAIL: Duration = Duration::from_millis(800);

/// What a run is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) video: &'a Video,
    /// Where the run has its files.
    pub(crate) scratch: &'a Scratch,
    pub(crate) kind: Option<RunKind>,
    /// How many of the video's datagrams are sent.
    pub(crate) datagrams: usize,
}

/// What has come out.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// By pair.
    pub(crate) fates: Vec<Vec<Fate>>,
    pub(crate) traffic: Traffic,
    pub(crate) lateness: LatenessSummary,
    /// What the measured pair's sender says about its flow.
    pub(crate) notes: Vec<String>,
    /// When the relays were killed, in milliseconds since the start; `None` if they were not.
    pub(crate) killed_ms: Option<f64>,
    /// Datagrams that the kernel dropped at full sockets: whose, and how many.
    pub(crate) drops: Vec<(String, u64)>,
}

impl Outcome {
    /// Datagrams that this machine lost before they were on the network.
    pub(crate) fn lost_by_machine(&self) -> u64 {
        self.fates.iter().flatten().filter(|fate| fate.is_spoiled).count() as u64
    }

    /// Whether the machine was too busy for the run to count.
    pub(crate) fn is_void(&self) -> bool {
        self.lateness.is_void() || self.lost_by_machine() > 0
    }
}

impl Course<'_> {
    /// Without Byway, applications speak to the emulator themselves.
    const fn is_plain(&self) -> bool {
        self.kind.is_none()
    }

    const fn weather(&self) -> Weather {
        match self.kind {
            None | Some(RunKind::Lossless) => Weather::Fair,
            Some(_) => Weather::Foul,
        }
    }

    const fn pairs(&self) -> usize {
        match self.kind {
            Some(RunKind::Lone) => 1,
            _ => self.plan.pairs,
        }
    }

    /// Runs it, once. `said` is told how far it is.
    pub(crate) fn run(&self, said: &dyn Fn(&str)) -> anyhow::Result<Outcome> {
        let folder = self.scratch.folder()?;
        let description = self.plan.description(self.weather());
        said("starting processes");
        let mut wan = Wan::start(&description, folder.path())?;
        let mut overlay = match self.kind {
            Some(kind) => Some(Overlay::start(self.plan, kind, self.pairs(), folder.path())?),
            None => None,
        };
        let flight = self.fly(&mut wan, overlay.as_mut(), said)?;
        let notes = if overlay.is_some() { self.notes()? } else { Vec::new() };
        let drops = drops::at_sockets(self.plan);
        said("reading logs");
        let log = wan.finish(folder.path())?;
        drop(overlay);
        let outcome = self.outcome(&description, &log, &flight)?;
        Ok(Outcome { notes, drops, ..outcome })
    }

    fn senders(&self) -> anyhow::Result<Senders> {
        let addresses = (0..self.pairs()).map(|pair| {
            if self.is_plain() {
                (self.plan.real(Node::Sender(pair)), self.plan.public(Node::Receiver(pair)))
            } else {
                (self.plan.application(pair), self.plan.forward(pair))
            }
        });
        Senders::bind(&addresses.collect::<Vec<_>>())
    }

    fn receivers(&self) -> anyhow::Result<Receivers> {
        let addresses = (0..self.pairs()).map(|pair| {
            if self.is_plain() { self.plan.real(Node::Receiver(pair)) } else { self.plan.target(pair) }
        });
        Receivers::bind(&addresses.collect::<Vec<_>>())
    }

    /// Sends and receives the video.
    fn fly(
        &self,
        wan: &mut Wan,
        overlay: Option<&mut Overlay>,
        said: &dyn Fn(&str),
    ) -> anyhow::Result<Flight> {
        let datagrams = &self.video.datagrams[..self.datagrams];
        let places = Places::new(datagrams)?;
        let (senders, receivers) = (&self.senders()?, &self.receivers()?);
        let (stop_sending, stop_receiving) = (&Flag::default(), &Flag::default());
        thread::scope(|scope| {
            // Threads are told to stop on every way out of here, or the scope would wait for them forever.
            let (_sending, _receiving) = (stop_sending.raise_at_end(), stop_receiving.raise_at_end());
            let receiving = scope.spawn(|| receivers.receive(&places, self.datagrams, &stop_receiving.0));
            said("connecting");
            Self::introduce(senders, receivers)?;
            let start = begin(wan)?;
            let sending = scope.spawn(move || senders.send(datagrams, start, &stop_sending.0));
            let killed = self.watch(start, wan, overlay, said)?;
            let sent = sending.join().expect("the sender does not panic");
            interrupt::sleep(TAIL)?;
            stop_receiving.raise();
            let arrived = receiving.join().expect("the receiver does not panic");
            Ok(Flight { start, killed, sent, arrived })
        })
    }

    /// Says hello until every receiver hears its sender, and a while longer.
    fn introduce(senders: &Senders, receivers: &Receivers) -> anyhow::Result<()> {
        let until = Instant::now().plus_millis(HELLO_SECONDS * 1_000);
        let mut left = SETTLE;
        while !left.is_zero() {
            senders.hello();
            interrupt::sleep(HELLO_EVERY)?;
            let deaf = receivers.deaf();
            if deaf.is_empty() {
                left = left.saturating_sub(HELLO_EVERY);
            } else if Instant::now() > until {
                let pairs: Vec<_> = deaf.iter().map(|pair| (pair + 1).to_string()).collect();
                bail!("after {HELLO_SECONDS} s, nothing has come through of pair {}", pairs.join(", "));
            }
        }
        Ok(())
    }

    /// Until all is sent: shows how far it is, kills the relays half way if that is the run, and looks after the processes.
    /// When it has killed them.
    fn watch(
        &self,
        start: Instant,
        wan: &mut Wan,
        mut overlay: Option<&mut Overlay>,
        said: &dyn Fn(&str),
    ) -> anyhow::Result<Option<Instant>> {
        let length_ms = self.datagrams as u64 * Video::INTERVAL_NANOS / 1_000_000;
        let mut killed = None;
        loop {
            let elapsed_ms = Instant::now().nanos_since(start) / 1_000_000;
            if elapsed_ms >= length_ms {
                return Ok(killed);
            }
            if killed.is_none()
                && elapsed_ms >= length_ms / 2
                && let (Some(RunKind::RelaysKilled), Some(overlay)) = (self.kind, overlay.as_deref_mut())
            {
                killed = Some(Instant::now());
                overlay.kill_relays();
            }
            wan.expect_running()?;
            if let Some(overlay) = overlay.as_deref_mut() {
                overlay.expect_running()?;
            }
            said(&self.progress(elapsed_ms, length_ms));
            interrupt::sleep(Duration::from_millis(100))?;
        }
    }

    fn progress(&self, elapsed_ms: u64, length_ms: u64) -> String {
        let (from, until) = self.plan.outage_ms;
        let is_dark = self.weather() == Weather::Foul && (from..until).contains(&elapsed_ms);
        let are_killed = self.kind == Some(RunKind::RelaysKilled) && elapsed_ms >= length_ms / 2;
        let what = match (is_dark, are_killed) {
            (true, true) => "path is dark, relays are dead",
            (true, false) => "path is dark",
            (false, true) => "relays are dead",
            (false, false) => "sending",
        };
        format!("{:4.1} of {:.0} s  {what}", seconds(elapsed_ms), seconds(length_ms))
    }

    /// What the measured pair's sender says about its flow.
    fn notes(&self) -> anyhow::Result<Vec<String>> {
        let sender = self.plan.observe(Node::Sender(MEASURED_PAIR));
        Ok(status::notes(&crate::status::of(sender)?))
    }

    fn outcome(&self, description: &Description, log: &WanLog, flight: &Flight) -> anyhow::Result<Outcome> {
        if log.packets_left_out > 0 {
            bail!("the emulator's log was full: give a shorter video");
        }
        let pairs = (0..self.pairs()).map(|pair| self.pair(description, &log.packets, flight, pair));
        let fates = pairs.collect::<anyhow::Result<_>>()?;
        let killed_ms = flight.killed.map(|at| millis(at.nanos_since(flight.start)));
        Ok(Outcome {
            fates,
            traffic: Traffic::of(&log.links),
            lateness: log.lateness.clone(),
            notes: Vec::new(),
            killed_ms,
            drops: Vec::new(),
        })
    }

    fn pair(
        &self,
        description: &Description,
        packets: &[PacketRecord],
        flight: &Flight,
        pair: usize,
    ) -> anyhow::Result<Vec<Fate>> {
        let (sender, receiver) = (Node::Sender(pair).place(), Node::Receiver(pair).place());
        let sent: Vec<_> = flight.sent[pair].iter().map(|at| at.nanos_since(flight.start)).collect();
        let sent_ms: Vec<_> = sent.iter().copied().map(millis).collect();
        let arrived: Vec<_> = flight.arrived[pair]
            .iter()
            .map(|arrival| (arrival.place, millis(arrival.at.nanos_since(flight.start))))
            .collect();
        let would_lose = match self.kind {
            Some(RunKind::Forwarding) => {
                let times: Vec<_> = sent.iter().map(|&at| byway_units::Duration::from_nanos(at)).collect();
                Some(losses_at(description, sender, receiver, &times)?)
            }
            _ => None,
        };
        let traffic = PairTraffic {
            sender: u32::try_from(sender)?,
            receiver: u32::try_from(receiver)?,
            sent_ms: &sent_ms,
            arrived: &arrived,
            would_lose: would_lose.as_deref(),
            direct_ms: seconds(ROUND_TRIP_MS) * 1_000.0 / 2.0,
        };
        fates(packets, &traffic)
    }
}

/// Agrees with the emulator on the start. On a machine that is too busy to tell it in time, on a later one.
fn begin(wan: &mut Wan) -> anyhow::Result<Instant> {
    for run_up_ms in [RUN_UP_MS, 4 * RUN_UP_MS, 16 * RUN_UP_MS] {
        interrupt::check()?;
        let start = Instant::now().plus_millis(run_up_ms);
        wan.begin(start)?;
        if Instant::now() < start {
            return Ok(start);
        }
    }
    bail!("the emulator does not hear of the start in time: this machine is too busy, end other programs")
}

/// What the applications have written down.
#[derive(Debug)]
struct Flight {
    start: Instant,
    killed: Option<Instant>,
    sent: Vec<Vec<Instant>>,
    arrived: Vec<Vec<Arrival>>,
}

/// Tells a thread to stop.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Flag {
    fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn raise_at_end(&self) -> RaiseAtEnd<'_> {
        RaiseAtEnd(self)
    }
}

/// Raises a flag when it is dropped.
struct RaiseAtEnd<'a>(&'a Flag);

impl Drop for RaiseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}
