//! Driver: a client with a UDP socket and a clock, called by the application.
#![allow(clippy::disallowed_types, reason = "this is where the socket is")]

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use byway_proto::agent::Delivery;
use byway_units::{Duration, Time};
use byway_wire::Ecn;
use byway_wire::limits::DATAGRAM_BYTES_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::client::{Client, SendError};
use crate::clock::Clock;
use crate::flow_pair::FlowPair;
use crate::output::{Event, Output};
use crate::socket::{DriverSocket, Row};

/// Most receive calls in one step. The limit gives deadlines and the application their turn.
const BATCH: usize = 64;

/// Output of a driver for the application.
#[derive(Debug, PartialEq, Eq)]
pub enum DriverOutput<'a> {
    /// Datagram from a peer's application.
    Delivered {
        /// Pair of flows that the datagram belongs to.
        flow: FlowPair,
        /// The datagram.
        datagram: &'a [u8],
        /// Path of the datagram: direct or by relays, or the kind of its repair.
        delivery: Delivery,
    },
    /// Event of the client.
    Event(Event),
}

/// Output that the application has not polled yet; a datagram as its range in the driver's bytes.
#[derive(Debug)]
enum PendingOutput {
    Delivered(FlowPair, Range<usize>, Delivery),
    Event(Event),
}

/// A [`Client`] with a UDP socket and a clock.
///
/// It has no thread. Call [`step`](Self::step), which waits for at most its timeout, and then
/// [`poll`](Self::poll) until it returns `None`; repeat. An application with its own event loop
/// waits until the socket ([`AsFd`]) is readable or [`until_deadline`](Self::until_deadline) has
/// passed. It then calls `step` with a timeout of zero.
///
/// Datagrams that the kernel cannot send are dropped and [counted](Self::unsent). A socket on all
/// addresses answers from a datagram's destination address. IP fragmentation is disabled.
///
/// The driver neither sets nor reads the ECN field of packets. Applications that need it use the
/// [`Client`] with their own socket.
#[derive(Debug)]
pub struct Driver {
    client: Client,
    socket: DriverSocket,
    clock: Clock,
    buffer: Vec<u8>,
    pending: VecDeque<PendingOutput>,
    bytes: Vec<u8>,
    unsent: u64,
}

impl Driver {
    /// Creates a driver of a client that was created at `clock.now()`, and sends the client's first
    /// datagrams.
    ///
    /// # Errors
    /// If the socket has no address, or the system does not support a required socket option.
    pub fn new(client: Client, socket: UdpSocket, clock: Clock) -> io::Result<Self> {
        let socket = DriverSocket::new(socket)?;
        let mut driver = Self {
            client,
            socket,
            clock,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            pending: VecDeque::new(),
            bytes: Vec::new(),
            unsent: 0,
        };
        driver.drain();
        Ok(driver)
    }

    /// Waits until a datagram arrives, the client's deadline passes, or the timeout ends. Then
    /// handles all pending work.
    ///
    /// Returns as soon as there is an output to poll. Receives no datagrams before the application
    /// has polled all outputs.
    ///
    /// # Errors
    /// If the system cannot wait for the socket.
    pub fn step(&mut self, timeout: core::time::Duration) -> io::Result<()> {
        let end = self.now().saturating_add(Duration::try_from(timeout).unwrap_or(Duration::MAX));
        loop {
            self.timer();
            if self.pending.is_empty() {
                self.receive()?;
                self.timer();
            }
            let now = self.now();
            if !self.pending.is_empty() || now >= end {
                return Ok(());
            }
            let until = self.client.deadline().map_or(end, |deadline| deadline.min(end));
            self.wait(until.saturating_since(now))?;
        }
    }

    /// Returns the next output for the application; `None` if it has polled all outputs of the last
    /// step.
    pub fn poll(&mut self) -> Option<DriverOutput<'_>> {
        match self.pending.pop_front() {
            Some(PendingOutput::Event(event)) => Some(DriverOutput::Event(event)),
            Some(PendingOutput::Delivered(flow, range, delivery)) => {
                Some(DriverOutput::Delivered { flow, datagram: &self.bytes[range], delivery })
            }
            None => None,
        }
    }

    /// Applies an input to the client, and sends the resulting datagrams:
    /// `driver.input(|client, now| client.close(flow, now))`.
    pub fn input<R>(&mut self, act: impl FnOnce(&mut Client, Time) -> R) -> R {
        let now = self.now();
        let answer = act(&mut self.client, now);
        self.drain();
        answer
    }

    /// Sends a datagram over a pair of flows: see [`Client::send`].
    ///
    /// # Errors
    /// Those of [`Client::send`].
    pub fn send(&mut self, flow: FlowPair, datagram: &[u8], marked: bool) -> Result<(), SendError> {
        self.input(|client, now| client.send(flow, datagram, marked, now))
    }

    /// Returns the client, for inspection.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the current time by the driver's clock, as passed to the client.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the time until the next call of [`step`](Self::step) if no datagram arrives before;
    /// zero if outputs are pending, `None` without a deadline.
    #[must_use]
    pub fn until_deadline(&self) -> Option<core::time::Duration> {
        if !self.pending.is_empty() {
            return Some(core::time::Duration::ZERO);
        }
        self.client.deadline().map(|deadline| deadline.saturating_since(self.now()).into())
    }

    /// Returns the local address of the driver's socket.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.socket.local()
    }

    /// Returns the number of datagrams that the system did not send.
    #[must_use]
    pub const fn unsent(&self) -> u64 {
        self.unsent
    }

    fn timer(&mut self) {
        let now = self.now();
        if self.client.deadline().is_some_and(|deadline| deadline <= now) {
            self.client.timer(now);
            self.drain();
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let batch = match self.socket.receive(&mut self.buffer) {
                Ok(batch) => batch,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // This error concerns an earlier datagram that was sent; the socket remains usable.
                Err(error) if is_about_a_datagram(&error) => continue,
                Err(error) => return Err(error),
            };
            let Row { from, to, length, stride } = batch;
            let mut buffer = core::mem::take(&mut self.buffer);
            for bytes in buffer[..length].chunks_mut(stride) {
                let now = self.clock.now();
                self.client.received(from, to, Ecn::NotCapable, bytes, now);
                self.drain();
            }
            self.buffer = buffer;
        }
        Ok(())
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        let nanos = time.as_nanos();
        let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let timeout =
            Timespec { tv_sec: part(nanos / 1_000_000_000), tv_nsec: part(nanos % 1_000_000_000) as _ };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn drain(&mut self) {
        if self.pending.is_empty() {
            self.bytes.clear();
        }
        while let Some(output) = self.client.poll() {
            match output {
                Output::Transmit(transmit) => {
                    self.unsent += u64::from(self.socket.send(&transmit).is_err());
                }
                Output::Delivered { flow, datagram, delivery } => {
                    let start = self.bytes.len();
                    self.bytes.extend_from_slice(datagram);
                    self.pending.push_back(PendingOutput::Delivered(flow, start..self.bytes.len(), delivery));
                }
                Output::Event(event) => self.pending.push_back(PendingOutput::Event(event)),
            }
        }
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// True if the error concerns one datagram, and the socket remains usable.
fn is_about_a_datagram(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::Interrupted
    )
}
