//! One run of the demo: starts the processes, transfers the video, reads the logs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use byway_lab::timer_lateness::LatenessSummary;

use super::clock::Instant;
use super::drops;
use super::measure::{DatagramOutcome, PairTraffic, Traffic, datagram_outcomes};
use super::media::{DatagramIndex, Video};
use super::overlay::Overlay;
use super::plan::{DemoNode, DemoPlan, Impairments, MEASURED_PAIR, ROUND_TRIP_MS};
use super::results::RunKind;
use super::status;
use super::traffic::{Arrival, Receivers, Senders};
use super::wan::{Description, PacketRecord, Wan, WanLog, losses_at};
use crate::interrupt;
use crate::temp_dir::RunTempDir;

/// Longest time until all receivers get hellos, in seconds. Agents need a few round trips to set up
/// sessions and to offer and register flows.
const HELLO_SECONDS: u64 = 20;

/// Interval at which senders repeat hellos before the video.
const HELLO_INTERVAL: Duration = Duration::from_millis(100);

/// Time between the first hello of the last pair and the video, in which relays advertise flows to
/// each other and agents measure round trips.
const SETTLE_TIME: Duration = Duration::from_millis(1_500);

/// Time between the decision to start and the first packet, in which the start command reaches the
/// emulator.
const START_DELAY_MS: u64 = 200;

/// Time after the last packet is sent until receivers stop. Later arrivals do not count.
const DRAIN_TIME: Duration = Duration::from_millis(800);

/// Parameters of one run: network, video, kind and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunPlan<'a> {
    pub(crate) plan: &'a DemoPlan,
    pub(crate) video: &'a Video,
    /// Parent folder of the run's files.
    pub(crate) scratch: &'a RunTempDir,
    pub(crate) kind: Option<RunKind>,
    /// Number of the video's datagrams that are sent.
    pub(crate) datagrams: usize,
}

/// Outcome of a demo run: the datagrams' outcomes, traffic, and how well the machine kept time.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    /// Outcome of each datagram of each pair: by pair, then by index of the datagram.
    pub(crate) fates: Vec<Vec<DatagramOutcome>>,
    pub(crate) traffic: Traffic,
    pub(crate) lateness: LatenessSummary,
    /// Notes in the status of the measured pair's sending agent.
    pub(crate) notes: Vec<String>,
    /// Time of the relays' kill, in milliseconds since the start; `None` if they survive.
    pub(crate) killed_ms: Option<f64>,
    /// Datagrams that the kernel dropped at full sockets: owner and number.
    pub(crate) drops: Vec<(String, u64)>,
}

impl RunOutcome {
    /// Counts the datagrams that this machine lost before they reached the network.
    pub(crate) fn lost_by_machine(&self) -> u64 {
        self.fates.iter().flatten().filter(|fate| fate.is_spoiled).count() as u64
    }

    /// True if the machine was too busy for the run to count.
    pub(crate) fn is_void(&self) -> bool {
        self.lateness.is_void() || self.lost_by_machine() > 0
    }
}

impl RunPlan<'_> {
    /// True for the run without Byway, whose applications send through the emulator without agents.
    const fn is_plain(&self) -> bool {
        self.kind.is_none()
    }

    const fn impairments(&self) -> Impairments {
        match self.kind {
            None | Some(RunKind::Lossless) => Impairments::DelayOnly,
            Some(_) => Impairments::LossAndOutage,
        }
    }

    const fn pairs(&self) -> usize {
        match self.kind {
            Some(RunKind::Lone) => 1,
            _ => self.plan.pairs,
        }
    }

    /// Performs the run once: starts all processes, transfers the video and evaluates the logs.
    /// Calls `show_progress` with each new state.
    pub(crate) fn run(&self, show_progress: &dyn Fn(&str)) -> anyhow::Result<RunOutcome> {
        let folder = self.scratch.folder()?;
        let description = self.plan.description(self.impairments());
        show_progress("starting processes");
        let mut wan = Wan::start(&description, folder.path())?;
        let mut overlay = match self.kind {
            Some(kind) => Some(Overlay::start(self.plan, kind, self.pairs(), folder.path())?),
            None => None,
        };
        let transfer = self.transfer_video(&mut wan, overlay.as_mut(), show_progress)?;
        let notes = if overlay.is_some() { self.notes()? } else { Vec::new() };
        let drops = drops::at_sockets(self.plan);
        show_progress("reading logs");
        let log = wan.finish(folder.path())?;
        drop(overlay);
        let outcome = self.outcome(&description, &log, &transfer)?;
        Ok(RunOutcome { notes, drops, ..outcome })
    }

    fn senders(&self) -> anyhow::Result<Senders> {
        let addresses = (0..self.pairs()).map(|pair| {
            if self.is_plain() {
                (self.plan.real(DemoNode::Sender(pair)), self.plan.public(DemoNode::Receiver(pair)))
            } else {
                (self.plan.application(pair), self.plan.forward(pair))
            }
        });
        Senders::bind(&addresses.collect::<Vec<_>>())
    }

    fn receivers(&self) -> anyhow::Result<Receivers> {
        let addresses = (0..self.pairs()).map(|pair| {
            if self.is_plain() { self.plan.real(DemoNode::Receiver(pair)) } else { self.plan.target(pair) }
        });
        Receivers::bind(&addresses.collect::<Vec<_>>())
    }

    /// Sends the video from every sender and records its arrivals, while [`monitor`](Self::monitor)
    /// checks the processes.
    fn transfer_video(
        &self,
        wan: &mut Wan,
        overlay: Option<&mut Overlay>,
        show_progress: &dyn Fn(&str),
    ) -> anyhow::Result<VideoTransfer> {
        let datagrams = &self.video.datagrams[..self.datagrams];
        let indices = DatagramIndex::new(datagrams)?;
        let (senders, receivers) = (&self.senders()?, &self.receivers()?);
        let (stop_sending, stop_receiving) = (&StopFlag::default(), &StopFlag::default());
        thread::scope(|scope| {
            // Both threads must stop on every exit from the scope, which otherwise waits for them
            // forever.
            let (_sending, _receiving) = (stop_sending.raise_at_end(), stop_receiving.raise_at_end());
            let receiving = scope.spawn(|| receivers.receive(&indices, self.datagrams, &stop_receiving.0));
            show_progress("connecting");
            Self::exchange_hellos(senders, receivers)?;
            let start = begin(wan)?;
            let sending = scope.spawn(move || senders.send(datagrams, start, &stop_sending.0));
            let killed = self.monitor(start, wan, overlay, show_progress)?;
            let sent = sending.join().expect("the sender does not panic");
            interrupt::sleep(DRAIN_TIME)?;
            stop_receiving.raise();
            let arrived = receiving.join().expect("the receiver does not panic");
            Ok(VideoTransfer { start, killed, sent, arrived })
        })
    }

    /// Sends hellos until every receiver has received one from its sender, and for [`SETTLE_TIME`]
    /// more.
    ///
    /// # Errors
    /// If a receiver gets none within [`HELLO_SECONDS`].
    fn exchange_hellos(senders: &Senders, receivers: &Receivers) -> anyhow::Result<()> {
        let until = Instant::now().plus_millis(HELLO_SECONDS * 1_000);
        let mut left = SETTLE_TIME;
        while !left.is_zero() {
            senders.send_hello();
            interrupt::sleep(HELLO_INTERVAL)?;
            let silent = receivers.silent_pairs();
            if silent.is_empty() {
                left = left.saturating_sub(HELLO_INTERVAL);
            } else if Instant::now() > until {
                let pairs: Vec<_> = silent.iter().map(|pair| (pair + 1).to_string()).collect();
                bail!("no packet of pair {} arrived within {HELLO_SECONDS} s", pairs.join(", "));
            }
        }
        Ok(())
    }

    /// Monitors the run until all datagrams are sent: shows the progress, checks the processes, and
    /// kills the relays half way if the run requires it. Returns the time of the kill.
    fn monitor(
        &self,
        start: Instant,
        wan: &mut Wan,
        mut overlay: Option<&mut Overlay>,
        show_progress: &dyn Fn(&str),
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
            show_progress(&self.progress(elapsed_ms, length_ms));
            interrupt::sleep(Duration::from_millis(100))?;
        }
    }

    fn progress(&self, elapsed_ms: u64, length_ms: u64) -> String {
        let (from, until) = self.plan.outage_ms;
        let is_out = self.impairments() == Impairments::LossAndOutage && (from..until).contains(&elapsed_ms);
        let are_killed = self.kind == Some(RunKind::RelaysKilled) && elapsed_ms >= length_ms / 2;
        let state = match (is_out, are_killed) {
            (true, true) => "outage of the path, relays killed",
            (true, false) => "outage of the path",
            (false, true) => "relays killed",
            (false, false) => "sending",
        };
        format!("{:4.1} of {:.0} s  {state}", seconds(elapsed_ms), seconds(length_ms))
    }

    /// Fetches the notes in the status of the measured pair's sending agent.
    fn notes(&self) -> anyhow::Result<Vec<String>> {
        let sender = self.plan.observe(DemoNode::Sender(MEASURED_PAIR));
        Ok(status::notes(&crate::status::of(sender)?))
    }

    fn outcome(
        &self,
        description: &Description,
        log: &WanLog,
        transfer: &VideoTransfer,
    ) -> anyhow::Result<RunOutcome> {
        if log.packets_left_out > 0 {
            bail!("emulator log full: use a shorter video");
        }
        let pairs =
            (0..self.pairs()).map(|pair| self.pair_outcomes(description, &log.packets, transfer, pair));
        let fates = pairs.collect::<anyhow::Result<_>>()?;
        let killed_ms = transfer.killed.map(|at| millis(at.nanos_since(transfer.start)));
        Ok(RunOutcome {
            fates,
            traffic: Traffic::of(&log.links),
            lateness: log.lateness.clone(),
            notes: Vec::new(),
            killed_ms,
            drops: Vec::new(),
        })
    }

    fn pair_outcomes(
        &self,
        description: &Description,
        packets: &[PacketRecord],
        transfer: &VideoTransfer,
        pair: usize,
    ) -> anyhow::Result<Vec<DatagramOutcome>> {
        let (sender, receiver) = (DemoNode::Sender(pair).index(), DemoNode::Receiver(pair).index());
        let sent: Vec<_> = transfer.sent[pair].iter().map(|at| at.nanos_since(transfer.start)).collect();
        let sent_ms: Vec<_> = sent.iter().copied().map(millis).collect();
        let arrived: Vec<_> = transfer.arrived[pair]
            .iter()
            .map(|arrival| (arrival.index, millis(arrival.at.nanos_since(transfer.start))))
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
        datagram_outcomes(packets, &traffic)
    }
}

/// Agrees with the emulator on the start of the measured time, and returns it. If a busy machine
/// delivers the command too late, tries later starts.
fn begin(wan: &mut Wan) -> anyhow::Result<Instant> {
    for run_up_ms in [START_DELAY_MS, 4 * START_DELAY_MS, 16 * START_DELAY_MS] {
        interrupt::check()?;
        let start = Instant::now().plus_millis(run_up_ms);
        wan.begin(start)?;
        if Instant::now() < start {
            return Ok(start);
        }
    }
    bail!("the emulator did not receive its start time in time: the machine is too busy, end other programs")
}

/// Start of the transfer and kill of the relays, with the times that the sending and receiving
/// applications recorded.
#[derive(Debug)]
struct VideoTransfer {
    start: Instant,
    killed: Option<Instant>,
    sent: Vec<Vec<Instant>>,
    arrived: Vec<Vec<Arrival>>,
}

/// Signal for a thread to stop.
#[derive(Debug, Default)]
struct StopFlag(AtomicBool);

impl StopFlag {
    fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn raise_at_end(&self) -> RaiseAtEnd<'_> {
        RaiseAtEnd(self)
    }
}

/// Guard that raises a flag when it is dropped.
struct RaiseAtEnd<'a>(&'a StopFlag);

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
