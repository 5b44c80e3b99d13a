//! The machines: TCP, and those that send datagrams whatever becomes of them.

use std::net::SocketAddr;

use byway_sim::tcp::{Task, TcpHost};
use byway_sim::{Datagram, Ecn, Host, Marks, Random, Transmit};
use byway_units::{Duration, Time};

/// Bytes of the headers of UDP and IPv4.
const HEADER_BYTES: usize = 28;

/// What a datagram begins with: when it was sent, in nanoseconds, and its number.
const STAMP_BYTES: usize = 12;

/// A machine.
#[derive(Debug)]
pub(crate) enum Machine {
    /// Passes on what is not for it.
    Router,
    /// Speaks TCP.
    Tcp(Box<TcpHost<Task>>),
    /// Sends datagrams.
    Source(Source),
    /// Takes them.
    Sink(Sink),
}

/// Where datagrams come from.
#[derive(Debug)]
pub(crate) struct Source {
    to: SocketAddr,
    dscp: u8,
    payload: Vec<u8>,
    rhythm: Rhythm,
    next: Time,
    number: u32,
    is_due: bool,
}

/// When datagrams are sent.
#[derive(Debug)]
pub(crate) enum Rhythm {
    /// One each time.
    Every(Duration),
    /// At random, so long apart in the mean, each of a flow of its own.
    Dummies(Duration, Random),
}

impl Source {
    /// Sends IP packets of this length, at least [`HEADER_BYTES`] and a stamp, from an instant on.
    pub(crate) fn new(to: SocketAddr, dscp: u8, ip_bytes: usize, rhythm: Rhythm, begin: Time) -> Self {
        let payload = vec![0; ip_bytes.saturating_sub(HEADER_BYTES).max(STAMP_BYTES)];
        Self { to, dscp, payload, rhythm, next: begin, number: 0, is_due: false }
    }
}

/// Where datagrams end.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    /// The number of each, and how long it took.
    pub(crate) came: Vec<(u32, Duration)>,
    /// Of those that came.
    pub(crate) ip_bytes: u64,
}

impl Host for Machine {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        match self {
            Self::Router | Self::Source(_) => {}
            Self::Tcp(host) => host.receive(datagram, now),
            Self::Sink(sink) => {
                let stamp =
                    datagram.payload.first_chunk::<STAMP_BYTES>().expect("sources stamp what they send");
                let (sent, number) = stamp.split_at(8);
                let sent = Time::from_nanos(u64::from_be_bytes(sent.try_into().expect("eight bytes")));
                let number = u32::from_be_bytes(number.try_into().expect("four bytes"));
                sink.came.push((number, now.saturating_since(sent)));
                sink.ip_bytes += (datagram.payload.len() + HEADER_BYTES) as u64;
            }
        }
    }

    fn wake(&mut self, now: Time) {
        match self {
            Self::Tcp(host) => host.wake(now),
            Self::Source(source) => {
                source.is_due = true;
                source.next = now
                    + match &mut source.rhythm {
                        Rhythm::Every(interval) => *interval,
                        Rhythm::Dummies(mean, random) => random.exponential(*mean),
                    };
            }
            Self::Router | Self::Sink(_) => {}
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        let source = match self {
            Self::Tcp(host) => return host.transmit(now),
            Self::Source(source) => source,
            Self::Router | Self::Sink(_) => return None,
        };
        if !std::mem::take(&mut source.is_due) {
            return None;
        }
        source.payload[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        source.payload[8..STAMP_BYTES].copy_from_slice(&source.number.to_be_bytes());
        let flow_label = if matches!(source.rhythm, Rhythm::Dummies(..)) { source.number } else { 0 };
        source.number += 1;
        Some(Transmit {
            source: None,
            destination: source.to,
            marks: Marks { dscp: source.dscp, flow_label },
            ecn: Ecn::NotCapable,
            payload: &source.payload,
        })
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Tcp(host) => host.deadline(),
            Self::Source(source) => Some(source.next),
            Self::Router | Self::Sink(_) => None,
        }
    }
}
