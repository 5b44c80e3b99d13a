//! Thread that moves packets between machines through the emulated network.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use byway_net::Clock;
use byway_scenario::pcapng::Direction;
use byway_scenario::{Network, NetworkLink};
use byway_sched::Class;
use byway_sim::ClassCounters;
use byway_units::{Duration, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use tun_rs::SyncDevice;

use crate::LabError;
use crate::capture::{Capture, MissedPackets};
use crate::emulation::{Arrival, Emulation, EmulationCounters, ForwardedPort, MachineCounters};
use crate::limits::PACKET_BYTES_MAX;
use crate::timer_lateness::TimerLateness;
use crate::wakeup_estimator::WakeupEstimator;

/// Longest sleep of the emulator's thread, after which it checks for commands.
const SLEEP_MAX: Duration = Duration::from_millis(2);

/// Most packets that the thread reads from one machine before the next machine's turn.
const READ_BATCH: usize = 32;

/// Real-time priority of the thread: above usual programs, and not above interrupt threads.
const PRIORITY: u8 = 50;

/// Command to the emulator's thread.
#[derive(Debug)]
enum EmulatorCommand {
    /// Replacement of the links with these ends.
    Change(Vec<NetworkLink>),
    /// Start of the scenario's time; the thread sends that time to the channel.
    Begin(Sender<Time>),
}

/// Handle of the running emulator of a lab.
#[derive(Debug)]
pub struct EmulatorThread {
    commands: Sender<EmulatorCommand>,
    thread: JoinHandle<Result<EmulationReport, LabError>>,
}

/// Report of an emulator about its whole run since the scenario's start.
#[derive(Clone, Debug, Default)]
pub struct EmulationReport {
    /// Counters of packets by outcome.
    pub counters: EmulationCounters,
    /// Counters of each link with classes, by the indices of its ends; those of a link are in the
    /// order of [`Class::ALL`].
    pub classes: Vec<((usize, usize), [ClassCounters; Class::COUNT])>,
    /// Counters of packets that each machine's programs sent, by index.
    pub machines: Vec<MachineCounters>,
    /// Counters of packets that are missing in captures.
    pub missed: MissedPackets,
    /// Lateness of the packets' deliveries to programs.
    pub lateness: TimerLateness,
    /// Packets that a machine's kernel refused because its queue was full.
    pub refused: u64,
    /// True if the kernel granted the real-time priority that the thread needs to be in time.
    pub has_realtime_priority: bool,
}

impl EmulatorThread {
    /// Starts to move packets between the machines with these devices and addresses, by index.
    /// Routers have no device. NAT routers have an address, and forward the ports in `forwarded`.
    /// The capture, if any, covers the time of the scenario.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        network: Network,
        machines: Vec<Option<SyncDevice>>,
        addresses: &[Vec<IpAddr>],
        forwarded: &[ForwardedPort],
        seed: u64,
        clock: Clock,
        capture: Option<Capture>,
    ) -> Result<Self, LabError> {
        let (commands, received) = mpsc::channel();
        let mut emulation = Emulation::new(network, addresses, seed);
        for port in forwarded {
            emulation.forward(*port);
        }
        let work = move || EmulatorLoop::new(emulation, machines, clock, capture).run(&received);
        let thread = thread::Builder::new().name("carrier".into()).spawn(work).map_err(LabError::Thread)?;
        Ok(Self { commands, thread })
    }

    /// Starts the time of the scenario: links are in their initial state and empty, and earlier
    /// packets do not count. Links have no outages before. Returns this time by the emulator's
    /// clock; `None` if the emulator has ended by itself.
    #[must_use]
    pub fn begin(&self) -> Option<Time> {
        let (answer, answered) = mpsc::channel();
        self.commands.send(EmulatorCommand::Begin(answer)).ok()?;
        answered.recv().ok()
    }

    /// Tells the emulator's thread to replace links. Does nothing if the thread has ended.
    pub fn change(&self, links: Vec<NetworkLink>) {
        // An emulator that has ended by itself reports the reason in `stop`.
        let _ = self.commands.send(EmulatorCommand::Change(links));
    }

    /// True if the emulator has ended by itself; [`EmulatorThread::stop`] returns the reason.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the emulator's thread and returns its report.
    ///
    /// # Errors
    /// If a device failed.
    ///
    /// # Panics
    /// If the emulator panicked.
    pub fn stop(self) -> Result<EmulationReport, LabError> {
        drop(self.commands);
        self.thread.join().expect("the emulator's thread does not panic")
    }
}

struct EmulatorLoop {
    emulation: Emulation,
    /// TUN devices by index of the machine; `None` for routers.
    devices: Rc<[Option<SyncDevice>]>,
    clock: Clock,
    /// Begin of the scenario's time, by the emulator's clock.
    zero: Time,
    has_begun: bool,
    report: EmulationReport,
    capture: Option<Capture>,
    wakeups: WakeupEstimator,
}

impl EmulatorLoop {
    fn new(
        emulation: Emulation,
        devices: Vec<Option<SyncDevice>>,
        clock: Clock,
        capture: Option<Capture>,
    ) -> Self {
        let (zero, report) = (Time::START, EmulationReport::default());
        Self {
            emulation,
            devices: devices.into(),
            clock,
            zero,
            has_begun: false,
            report,
            capture,
            wakeups: WakeupEstimator::new(Time::START),
        }
    }

    /// Captures a packet at the device of a machine, if there is a capture and the scenario has
    /// begun.
    fn note(&mut self, machine: usize, direction: Direction, packet: &[u8]) {
        let time = self.now();
        if let Some(capture) = self.capture.as_mut().filter(|_| self.has_begun) {
            capture.note(machine, time, direction, packet);
        }
    }

    /// Returns the time since the scenario's begin.
    fn now(&self) -> Time {
        Time::START + self.clock.now().saturating_since(self.zero)
    }

    fn run(mut self, commands: &Receiver<EmulatorCommand>) -> Result<EmulationReport, LabError> {
        self.report.has_realtime_priority = set_realtime_priority();
        let devices = Rc::clone(&self.devices);
        let indices: Vec<usize> = (0..devices.len()).filter(|index| devices[*index].is_some()).collect();
        let fds =
            devices.iter().flatten().map(|device| PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        loop {
            match commands.try_recv() {
                Ok(EmulatorCommand::Change(links)) => self.change(links)?,
                Ok(EmulatorCommand::Begin(answer)) => {
                    // The caller waits for the answer.
                    let _ = answer.send(self.begin());
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => break,
            }
            self.deliver(self.now())?;
            let (from, sleep) = self.sleep();
            // Some calls of epoll sleep for whole milliseconds, so poll is used.
            match poll(&mut fds, Some(&timespec(sleep))) {
                Ok(_) if sleep.is_zero() => {}
                Ok(_) => self.wakeups.note_sleep(from, self.now()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(LabError::Device(error.into())),
            }
            for (fd, index) in fds.iter().zip(&indices) {
                if !fd.revents().is_empty() {
                    self.read(*index)?;
                }
            }
        }
        self.report.counters = self.emulation.counters();
        let classes = self.emulation.class_uses().map(|(ends, uses)| (ends, *uses));
        self.report.classes = classes.collect();
        self.report.machines = self.emulation.machines().to_vec();
        let captured = self.capture.take().map(Capture::finish).transpose().map_err(LabError::Capture)?;
        self.report.missed = captured.unwrap_or_default();
        Ok(self.report)
    }

    fn begin(&mut self) -> Time {
        let before = self.now();
        self.zero = self.clock.now();
        self.wakeups = WakeupEstimator::new(Time::START);
        self.has_begun = true;
        self.emulation.restart(before);
        self.report = EmulationReport {
            has_realtime_priority: self.report.has_realtime_priority,
            ..EmulationReport::default()
        };
        self.zero
    }

    fn change(&mut self, links: Vec<NetworkLink>) -> Result<(), LabError> {
        let now = self.now();
        // Earlier packets must meet the links as they were.
        self.deliver(now)?;
        for link in links {
            self.emulation.set_link(link, now);
        }
        Ok(())
    }

    /// Returns the present time, and the longest time that the thread may sleep from then on unless
    /// a packet arrives.
    fn sleep(&mut self) -> (Time, Duration) {
        let now = self.now();
        let until_due = self.emulation.deadline().map_or(Duration::MAX, |due| due.saturating_since(now));
        (now, self.wakeups.sleep_time(until_due, now).min(SLEEP_MAX))
    }

    /// Reads up to [`READ_BATCH`] packets that the programs of a machine sent, and sends them into
    /// the emulated network.
    fn read(&mut self, index: usize) -> Result<(), LabError> {
        let mut packet = [0; PACKET_BYTES_MAX];
        for _ in 0..READ_BATCH {
            let read = match &self.devices[index] {
                Some(device) => device.recv(&mut packet),
                None => return Ok(()),
            };
            match read {
                Ok(length) => {
                    let now = self.now();
                    // Links must get packets in the order of time.
                    self.deliver(now)?;
                    self.note(index, Direction::Out, &packet[..length]);
                    self.emulation.send(index, &packet[..length], now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(LabError::Device(error)),
            }
        }
        Ok(())
    }

    /// Delivers the packets that are due to their machines' devices, and records how late this
    /// happens.
    fn deliver(&mut self, now: Time) -> Result<(), LabError> {
        while let Some(Arrival { machine, due, packet }) = self.emulation.next(now) {
            self.report.lateness.note(self.now().saturating_since(due));
            self.note(machine, Direction::In, &packet);
            let sent = self.devices[machine].as_ref().map(|device| device.send(&packet));
            self.emulation.recycle(packet);
            match sent {
                Some(Ok(_)) => {}
                // The packet is for a router, or its queue is full, or a program disabled the
                // device.
                None => self.report.refused += 1,
                Some(Err(error)) if is_refusal(&error) => self.report.refused += 1,
                Some(Err(error)) => return Err(LabError::Device(error)),
            }
        }
        Ok(())
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: i64::try_from(time.as_nanos()).expect("it is short") }
}

fn is_refusal(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::InvalidInput | ErrorKind::NotConnected | ErrorKind::NetworkDown
    ) || error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
        || error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// Requests real-time priority and exact timers for this thread; `true` if the kernel grants both.
fn set_realtime_priority() -> bool {
    // A slack of one nanosecond prevents the kernel from combining timers.
    let is_exact = set_current_timer_slack(std::num::NonZero::new(1)).is_ok();
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let priority = ThreadPriorityValue::try_from(PRIORITY).map(ThreadPriority::Crossplatform);
    let is_first = priority
        .is_ok_and(|priority| set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok());
    is_exact && is_first
}
