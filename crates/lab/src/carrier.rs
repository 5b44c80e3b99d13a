//! The thread that carries packets from machine to machine.

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
use byway_sim::ClassUse;
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
use crate::capture::{Capture, Captured};
use crate::emulation::{Arrival, Emulation, EmulationCounters, ForwardedPort, MachineCounters};
use crate::lateness::Lateness;
use crate::limits::PACKET_BYTES_MAX;
use crate::wakefulness::Wakefulness;

/// How long it sleeps at most: so soon it hears that a link changes or that all is over.
const SLEEPS_FOR: Duration = Duration::from_millis(2);

/// Packets that are read of one machine before it is the next one's turn.
const READ_AT_ONCE: usize = 32;

/// Above what programs of a usual machine have, and no more than its interrupts.
const PRIORITY: u8 = 50;

/// What a carrier is told.
#[derive(Debug)]
enum Order {
    /// These links are so from now on.
    Change(Vec<NetworkLink>),
    /// The time of the scenario begins now; whoever says so wants to know when that was.
    Begin(Sender<Time>),
}

/// The carrier of a lab at work.
#[derive(Debug)]
pub struct Carrier {
    orders: Sender<Order>,
    thread: JoinHandle<Result<Carried, LabError>>,
}

/// What a carrier did.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// What became of packets.
    pub counters: EmulationCounters,
    /// What happened to the packets of each class, high rate and low delay, by the ends of links that tell them apart.
    pub classes: Vec<((usize, usize), [ClassUse; Class::COUNT])>,
    /// What the programs of each machine sent, by place.
    pub machines: Vec<MachineCounters>,
    /// What captures have not.
    pub captured: Captured,
    /// How late programs got theirs.
    pub lateness: Lateness,
    /// Packets that a machine's kernel did not take, as its queue was full.
    pub refused: u64,
    /// Whether the kernel gave the thread the precedence over others that keeps it in time.
    pub has_precedence: bool,
}

impl Carrier {
    /// Begins to carry packets between the machines with these devices and addresses, by their places; routers have no device, and an
    /// address only if they translate those of others, who are reached from outside by these ports of theirs. What is carried in the
    /// time of the scenario is captured, if that is wanted.
    ///
    /// # Errors
    /// If the machine has no thread for it.
    pub fn start(
        network: Network,
        machines: Vec<Option<SyncDevice>>,
        addresses: &[Vec<IpAddr>],
        forwarded: &[ForwardedPort],
        seed: u64,
        clock: Clock,
        capture: Option<Capture>,
    ) -> Result<Self, LabError> {
        let (orders, heard) = mpsc::channel();
        let mut emulation = Emulation::new(network, addresses, seed);
        for port in forwarded {
            emulation.forward(*port);
        }
        let work = move || Work::new(emulation, machines, clock, capture).carry(&heard);
        let thread = thread::Builder::new().name("carrier".into()).spawn(work).map_err(LabError::Thread)?;
        Ok(Self { orders, thread })
    }

    /// Begins the time of the scenario now: links are as at its begin, and empty. What was carried before is not counted. When that
    /// was, by the carrier's clock; `None` if it has ended by itself.
    #[must_use]
    pub fn begin(&self) -> Option<Time> {
        let (tell, told) = mpsc::channel();
        self.orders.send(Order::Begin(tell)).ok()?;
        told.recv().ok()
    }

    /// These links are so from now on.
    pub fn change(&self, links: Vec<NetworkLink>) {
        // A carrier that has ended by itself says why when it is stopped.
        let _ = self.orders.send(Order::Change(links));
    }

    /// Whether it carries nothing any more, though nobody has stopped it: [`Carrier::stop`] says why.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Carries nothing any more.
    ///
    /// # Errors
    /// If a device failed meanwhile.
    ///
    /// # Panics
    /// If the carrier did.
    pub fn stop(self) -> Result<Carried, LabError> {
        drop(self.orders);
        self.thread.join().expect("the carrier does not panic")
    }
}

struct Work {
    emulation: Emulation,
    /// By place.
    devices: Rc<[Option<SyncDevice>]>,
    clock: Clock,
    /// When the time of the scenario began.
    zero: Time,
    has_begun: bool,
    carried: Carried,
    capture: Option<Capture>,
    wakefulness: Wakefulness,
}

impl Work {
    fn new(
        emulation: Emulation,
        devices: Vec<Option<SyncDevice>>,
        clock: Clock,
        capture: Option<Capture>,
    ) -> Self {
        let (zero, carried) = (Time::START, Carried::default());
        Self {
            emulation,
            devices: devices.into(),
            clock,
            zero,
            has_begun: false,
            carried,
            capture,
            wakefulness: Wakefulness::new(Time::START),
        }
    }

    /// A packet is at the device of a machine.
    fn note(&mut self, machine: usize, direction: Direction, packet: &[u8]) {
        let time = self.now();
        if let Some(capture) = self.capture.as_mut().filter(|_| self.has_begun) {
            capture.note(machine, time, direction, packet);
        }
    }

    /// The time of the scenario.
    fn now(&self) -> Time {
        Time::START + self.clock.now().saturating_since(self.zero)
    }

    fn carry(mut self, orders: &Receiver<Order>) -> Result<Carried, LabError> {
        self.carried.has_precedence = take_precedence();
        let devices = Rc::clone(&self.devices);
        let places: Vec<usize> = (0..devices.len()).filter(|place| devices[*place].is_some()).collect();
        let fds =
            devices.iter().flatten().map(|device| PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        loop {
            match orders.try_recv() {
                Ok(Order::Change(links)) => self.change(links)?,
                Ok(Order::Begin(tell)) => {
                    // Who wants to know waits.
                    let _ = tell.send(self.begin());
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => break,
            }
            self.deliver(self.now())?;
            let (from, sleep) = self.sleep();
            // Not epoll: some of its calls sleep for whole milliseconds.
            match poll(&mut fds, Some(&timespec(sleep))) {
                Ok(_) if sleep.is_zero() => {}
                Ok(_) => self.wakefulness.note_sleep(from, self.now()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(LabError::Device(error.into())),
            }
            for (fd, place) in fds.iter().zip(&places) {
                if !fd.revents().is_empty() {
                    self.read(*place)?;
                }
            }
        }
        self.carried.counters = self.emulation.counters();
        let classes = self.emulation.class_uses().map(|(ends, uses)| (ends, *uses));
        self.carried.classes = classes.collect();
        self.carried.machines = self.emulation.machines().to_vec();
        let captured = self.capture.take().map(Capture::finish).transpose().map_err(LabError::Capture)?;
        self.carried.captured = captured.unwrap_or_default();
        Ok(self.carried)
    }

    fn begin(&mut self) -> Time {
        let before = self.now();
        self.zero = self.clock.now();
        self.wakefulness = Wakefulness::new(Time::START);
        self.has_begun = true;
        self.emulation.restart(before);
        self.carried = Carried { has_precedence: self.carried.has_precedence, ..Carried::default() };
        self.zero
    }

    fn change(&mut self, links: Vec<NetworkLink>) -> Result<(), LabError> {
        let now = self.now();
        // What was due before met the links as they were.
        self.deliver(now)?;
        for link in links {
            self.emulation.set_link(link, now);
        }
        Ok(())
    }

    /// The time, and how long nothing has to be done from then on, unless a packet comes.
    fn sleep(&mut self) -> (Time, Duration) {
        let now = self.now();
        let until_due = self.emulation.deadline().map_or(Duration::MAX, |due| due.saturating_since(now));
        (now, self.wakefulness.sleep(until_due, now).min(SLEEPS_FOR))
    }

    /// Takes what the programs of a machine send.
    fn read(&mut self, place: usize) -> Result<(), LabError> {
        let mut packet = [0; PACKET_BYTES_MAX];
        for _ in 0..READ_AT_ONCE {
            let read = match &self.devices[place] {
                Some(device) => device.recv(&mut packet),
                None => return Ok(()),
            };
            match read {
                Ok(length) => {
                    let now = self.now();
                    // Links hear of packets in the order of time.
                    self.deliver(now)?;
                    self.note(place, Direction::Out, &packet[..length]);
                    self.emulation.send(place, &packet[..length], now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(LabError::Device(error)),
            }
        }
        Ok(())
    }

    /// Hands out what is due.
    fn deliver(&mut self, now: Time) -> Result<(), LabError> {
        while let Some(Arrival { machine, due, packet }) = self.emulation.next(now) {
            self.carried.lateness.note(self.now().saturating_since(due));
            self.note(machine, Direction::In, &packet);
            let sent = self.devices[machine].as_ref().map(|device| device.send(&packet));
            self.emulation.recycle(packet);
            match sent {
                Some(Ok(_)) => {}
                // What a program sends to a router; and full queues, or a device that a program took down.
                None => self.carried.refused += 1,
                Some(Err(error)) if is_refusal(&error) => self.carried.refused += 1,
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

/// Has the kernel wake this thread up before others and without delay; whether it does.
fn take_precedence() -> bool {
    // A nanosecond: timers are not put together with others.
    let is_exact = set_current_timer_slack(std::num::NonZero::new(1)).is_ok();
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let priority = ThreadPriorityValue::try_from(PRIORITY).map(ThreadPriority::Crossplatform);
    let is_first = priority
        .is_ok_and(|priority| set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok());
    is_exact && is_first
}
