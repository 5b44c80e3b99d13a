//! Simulated machines of the study of classes: hosts with TCP, and sources and sinks of datagrams
//! without congestion control.

use std::net::SocketAddr;

use byway_sim::tcp::{TcpApplication, TcpHost};
use byway_sim::{Datagram, Ecn, Host, Marks, Random, Transmit};
use byway_units::{Duration, Time};

/// Bytes of the headers of UDP and IPv4.
const HEADER_BYTES: usize = 28;

/// Bytes at the begin of a source's datagram: its sending time in nanoseconds, and its sequence
/// number.
const TIMESTAMP_BYTES: usize = 12;

/// Simulated machine of the study of classes.
#[derive(Debug)]
pub(crate) enum Machine {
    /// Router, which forwards packets of other machines.
    Router,
    /// Host that sends or receives by TCP.
    Tcp(Box<TcpHost<TcpApplication>>),
    /// Source of datagrams without congestion control.
    Source(Source),
    /// Receiver of a source's datagrams.
    Sink(Sink),
}

/// Sender of datagrams without congestion control, whose payload begins with sending time and
/// sequence number.
#[derive(Debug)]
pub(crate) struct Source {
    to: SocketAddr,
    dscp: u8,
    payload: Vec<u8>,
    schedule: SendSchedule,
    next: Time,
    number: u32,
    is_due: bool,
}

/// Sending times of a source's datagrams.
#[derive(Debug)]
pub(crate) enum SendSchedule {
    /// One datagram in each interval of this length.
    Every(Duration),
    /// Random times with this mean interval; each datagram is a flow of its own.
    Dummies(Duration, Random),
}

impl Source {
    /// Makes a source that starts at `begin`. Its IP packets have `ip_bytes` bytes, at least
    /// headers and a timestamp.
    pub(crate) fn new(
        to: SocketAddr,
        dscp: u8,
        ip_bytes: usize,
        schedule: SendSchedule,
        begin: Time,
    ) -> Self {
        let payload = vec![0; ip_bytes.saturating_sub(HEADER_BYTES).max(TIMESTAMP_BYTES)];
        Self { to, dscp, payload, schedule, next: begin, number: 0, is_due: false }
    }
}

/// Receiver of a source's datagrams, which records their delays.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    /// Sequence number and one-way delay of each datagram received.
    pub(crate) received: Vec<(u32, Duration)>,
    /// Bytes of IP packets received.
    pub(crate) ip_bytes: u64,
}

impl Host for Machine {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        match self {
            Self::Router | Self::Source(_) => {}
            Self::Tcp(host) => host.receive(datagram, now),
            Self::Sink(sink) => {
                let timestamp =
                    datagram.payload.first_chunk::<TIMESTAMP_BYTES>().expect("sources write a timestamp");
                let (sent, number) = timestamp.split_at(8);
                let sent = Time::from_nanos(u64::from_be_bytes(sent.try_into().expect("eight bytes")));
                let number = u32::from_be_bytes(number.try_into().expect("four bytes"));
                sink.received.push((number, now.saturating_since(sent)));
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
                    + match &mut source.schedule {
                        SendSchedule::Every(interval) => *interval,
                        SendSchedule::Dummies(mean, random) => random.exponential(*mean),
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
        source.payload[8..TIMESTAMP_BYTES].copy_from_slice(&source.number.to_be_bytes());
        let flow_label = if matches!(source.schedule, SendSchedule::Dummies(..)) { source.number } else { 0 };
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
