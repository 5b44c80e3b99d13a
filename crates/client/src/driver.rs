//! A client with a UDP socket and a clock, called by the application.
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

/// Most datagrams that are received in one step, so that deadlines and the application have their turn.
const BATCH: usize = 64;

/// What a step brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A datagram.
    Delivered {
        /// The flows it belongs to.
        flow: FlowPair,
        /// The datagram.
        datagram: &'a [u8],
        /// How it came: directly, or as which kind of repair.
        delivery: Delivery,
    },
    /// Something to know.
    Event(Event),
}

/// What waits to be taken.
#[derive(Debug)]
enum Waiting {
    Delivered(FlowPair, Range<usize>, Delivery),
    Event(Event),
}

/// A [`Client`] with a UDP socket and a clock.
///
/// It has no thread. Call [`step`](Self::step), which waits for as long as it is allowed to, and then [`take`](Self::take)
/// until there is nothing more; and so on. An application with a loop of its own waits for the socket ([`AsFd`]) to be
/// readable, or for [`until_deadline`](Self::until_deadline), and then calls `step` with no time to wait.
///
/// What the kernel takes no more of, or cannot send, is dropped and [counted](Self::unsent), as the network may drop anything.
/// A socket on all addresses answers from the one that was asked. Nothing is sent in fragments.
/// The ECN field of packets is neither set nor read: applications that need it give the [`Client`] their own socket.
#[derive(Debug)]
pub struct Driver {
    client: Client,
    socket: DriverSocket,
    clock: Clock,
    buffer: Vec<u8>,
    waiting: VecDeque<Waiting>,
    bytes: Vec<u8>,
    unsent: u64,
}

impl Driver {
    /// A driver of a client that was made at `clock.now()`. What the client wants to send first leaves at once.
    ///
    /// # Errors
    /// If the socket has no address, or the system does not know an option that it needs.
    pub fn new(client: Client, socket: UdpSocket, clock: Clock) -> io::Result<Self> {
        let socket = DriverSocket::new(socket)?;
        let mut driver = Self {
            client,
            socket,
            clock,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            waiting: VecDeque::new(),
            bytes: Vec::new(),
            unsent: 0,
        };
        driver.drain();
        Ok(driver)
    }

    /// Waits until something comes, the client's deadline, or the end of this time; then does all that is to be done. It
    /// returns as soon as something can be taken, and receives nothing as long as that is not taken.
    ///
    /// # Errors
    /// If the system cannot wait for the socket.
    pub fn step(&mut self, timeout: core::time::Duration) -> io::Result<()> {
        let end = self.now().saturating_add(Duration::try_from(timeout).unwrap_or(Duration::MAX));
        loop {
            self.timer();
            if self.waiting.is_empty() {
                self.receive()?;
                self.timer();
            }
            let now = self.now();
            if !self.waiting.is_empty() || now >= end {
                return Ok(());
            }
            let until = self.client.deadline().map_or(end, |deadline| deadline.min(end));
            self.wait(until.saturating_since(now))?;
        }
    }

    /// What came, and was not taken before.
    pub fn take(&mut self) -> Option<Received<'_>> {
        match self.waiting.pop_front() {
            Some(Waiting::Event(event)) => Some(Received::Event(event)),
            Some(Waiting::Delivered(flow, range, delivery)) => {
                Some(Received::Delivered { flow, datagram: &self.bytes[range], delivery })
            }
            None => None,
        }
    }

    /// Gives the client an input, and sends what comes of it: `driver.input(|client, now| client.close(flow, now))`.
    pub fn input<R>(&mut self, act: impl FnOnce(&mut Client, Time) -> R) -> R {
        let now = self.now();
        let answer = act(&mut self.client, now);
        self.drain();
        answer
    }

    /// Sends a datagram: [`Client::send`].
    ///
    /// # Errors
    /// See there.
    pub fn send(&mut self, flow: FlowPair, datagram: &[u8], marked: bool) -> Result<(), SendError> {
        self.input(|client, now| client.send(flow, datagram, marked, now))
    }

    /// The client, to look at.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The time, as the client is told it.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// How long until the next call of [`step`](Self::step), if nothing comes before; `None` for as long as nothing does.
    #[must_use]
    pub fn until_deadline(&self) -> Option<core::time::Duration> {
        if !self.waiting.is_empty() {
            return Some(core::time::Duration::ZERO);
        }
        self.client.deadline().map(|deadline| deadline.saturating_since(self.now()).into())
    }

    /// Where the socket is bound.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.socket.local()
    }

    /// How many datagrams the system did not send.
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
            let row = match self.socket.receive(&mut self.buffer) {
                Ok(row) => row,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // What an earlier datagram met on its way is said so; the next call goes on.
                Err(error) if is_about_a_datagram(&error) => continue,
                Err(error) => return Err(error),
            };
            let Row { from, to, length, stride } = row;
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
        if self.waiting.is_empty() {
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
                    self.waiting.push_back(Waiting::Delivered(flow, start..self.bytes.len(), delivery));
                }
                Output::Event(event) => self.waiting.push_back(Waiting::Event(event)),
            }
        }
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether the socket itself is well.
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
