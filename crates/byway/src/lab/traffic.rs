//! Applications of a lab: send the datagrams of the scenario and record their arrivals.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use byway_net::Clock;
use byway_scenario::NetworkFlow;
use byway_units::{Duration, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::interrupt;

/// Interval at which the receiving thread checks its stop flag.
const STOP_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Bytes at the begin of a lab datagram: the index of its flow and its own index in the flow, four
/// bytes each.
const HEADER_BYTES: usize = 8;

/// Index of a probe datagram, which only tests whether its flow delivers.
const PROBE_NUMBER: u32 = u32::MAX;

/// Sockets of a flow's sending and receiving application, each in its machine's namespace.
#[derive(Debug)]
pub(super) struct FlowSockets {
    pub(super) sender: UdpSocket,
    pub(super) receiver: UdpSocket,
}

/// Times of a datagram: sent, and first received; `None` if that did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DatagramTimes {
    pub(super) sent: Option<Time>,
    pub(super) received: Option<Time>,
}

/// Times of the datagrams of all flows of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct DatagramLog {
    /// Times by flow, then by index of the datagram, which is the order of sending.
    pub(super) of_flows: Vec<Vec<DatagramTimes>>,
    /// Number of datagrams that arrived more than once.
    pub(super) repeated: u64,
}

/// Sends probe datagrams on each flow until it delivers one, or `timeout` is over. Returns the
/// indices of flows that delivered none.
pub(super) fn probe_flows(
    ends: &[Option<FlowSockets>],
    timeout: Duration,
    clock: Clock,
) -> anyhow::Result<Vec<usize>> {
    let until = clock.now() + timeout;
    let mut silent: Vec<(usize, &FlowSockets)> = present(ends).collect();
    while !silent.is_empty() && clock.now() < until {
        for (index, ends) in &silent {
            // The agent may not listen yet.
            let _ = ends.sender.send(&header(*index, PROBE_NUMBER));
        }
        interrupt::sleep(std::time::Duration::from_millis(100))?;
        silent.retain(|(_, ends)| !has_datagram(&ends.receiver));
    }
    Ok(silent.into_iter().map(|(index, _)| index).collect())
}

/// Returns the sockets of flows that the lab sends, with the flows' indices.
fn present(ends: &[Option<FlowSockets>]) -> impl Iterator<Item = (usize, &FlowSockets)> {
    ends.iter().enumerate().filter_map(|(index, ends)| Some((index, ends.as_ref()?)))
}

fn has_datagram(receiver: &UdpSocket) -> bool {
    let mut has_received = false;
    while receiver.recv(&mut [0; HEADER_BYTES]).is_ok() {
        has_received = true;
    }
    has_received
}

/// Sends all datagrams at their times after `zero`, and receives until `grace` after the scenario's
/// length. Returns all times.
pub(super) fn run_traffic(
    flows: &[NetworkFlow],
    ends: &[Option<FlowSockets>],
    (zero, length, grace): (Time, Duration, Duration),
    clock: Clock,
    stop: &AtomicBool,
) -> DatagramLog {
    let end = zero + length + grace;
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(flows, ends, end, clock, stop));
        let sent = send(flows, ends, zero, clock, stop);
        let mut fates = receiving.join().expect("the receiver does not panic");
        for (fates, sent) in fates.of_flows.iter_mut().zip(sent) {
            for (fate, sent) in fates.iter_mut().zip(sent) {
                fate.sent = Some(sent);
            }
        }
        fates
    })
}

fn send(
    flows: &[NetworkFlow],
    ends: &[Option<FlowSockets>],
    zero: Time,
    clock: Clock,
    stop: &AtomicBool,
) -> Vec<Vec<Time>> {
    let mut sent: Vec<Vec<Time>> = vec![Vec::new(); flows.len()];
    let mut all: Vec<(Duration, usize, usize)> = Vec::new();
    for (flow_index, flow) in flows.iter().enumerate() {
        let datagrams = flow.traffic.datagrams().iter();
        all.extend(datagrams.map(|datagram| (datagram.at, flow_index, datagram.bytes)));
    }
    all.sort_unstable_by_key(|(at, flow_index, _)| (*at, *flow_index));
    let mut datagram = Vec::new();
    for (at, flow_index, bytes) in all {
        if !wait_until(zero + at, clock, stop) {
            break;
        }
        let number = u32::try_from(sent[flow_index].len()).expect("a flow sends for minutes");
        datagram.clear();
        datagram.extend_from_slice(&header(flow_index, number));
        datagram.resize(bytes.max(HEADER_BYTES), 0);
        sent[flow_index].push(clock.now());
        // A stopped agent does not receive: datagrams sent meanwhile count as missing.
        let _ = ends[flow_index].as_ref().map(|ends| ends.sender.send(&datagram));
    }
    sent
}

/// Waits until `time`; returns `false` as soon as the stop flag is raised.
fn wait_until(time: Time, clock: Clock, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = time.saturating_since(clock.now());
        if left.is_zero() {
            return true;
        }
        let nap = left.min(Duration::from_millis(20));
        #[allow(clippy::disallowed_methods, reason = "an application waits for its time")]
        thread::sleep(std::time::Duration::from_nanos(nap.as_nanos()));
    }
}

fn receive(
    flows: &[NetworkFlow],
    ends: &[Option<FlowSockets>],
    end: Time,
    clock: Clock,
    stop: &AtomicBool,
) -> DatagramLog {
    let count = |flow: &NetworkFlow| flow.traffic.datagrams().len();
    let of_flows = flows.iter().map(|flow| vec![DatagramTimes::default(); count(flow)]).collect();
    let mut fates = DatagramLog { of_flows, repeated: 0 };
    let mut fds: Vec<PollFd<'_>> =
        present(ends).map(|(_, end)| PollFd::from_borrowed_fd(end.receiver.as_fd(), PollFlags::IN)).collect();
    while clock.now() < end && !stop.load(Ordering::Relaxed) {
        // An interrupted poll is repeated.
        if poll(&mut fds, Some(&STOP_POLL_INTERVAL)).is_err() {
            continue;
        }
        for ((index, ends), fd) in present(ends).zip(&fds) {
            if !fd.revents().is_empty() {
                drain_socket(index, &ends.receiver, clock, &mut fates);
            }
        }
    }
    fates
}

/// Receives all datagrams that wait at a flow's socket, and records their times.
fn drain_socket(flow_index: usize, receiver: &UdpSocket, clock: Clock, fates: &mut DatagramLog) {
    let mut buffer = [0; HEADER_BYTES];
    loop {
        match receiver.recv(&mut buffer) {
            Ok(length) => {
                let now = clock.now();
                let number = number(&buffer[..length.min(HEADER_BYTES)], flow_index);
                let fate = number.and_then(|number| fates.of_flows[flow_index].get_mut(number));
                match fate {
                    Some(fate) if fate.received.is_none() => fate.received = Some(now),
                    Some(_) => fates.repeated += 1,
                    // A late probe datagram.
                    None => {}
                }
            }
            // The target of a stopped machine has no listener.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => return,
        }
    }
}

fn header(flow: usize, number: u32) -> [u8; HEADER_BYTES] {
    let flow = u32::try_from(flow).expect("there are few flows");
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&flow.to_be_bytes());
    header[4..].copy_from_slice(&number.to_be_bytes());
    header
}

/// Parses a datagram's index in this flow; `None` for datagrams of other flows.
fn number(datagram: &[u8], flow: usize) -> Option<usize> {
    let (of, number) = datagram.split_first_chunk::<4>()?;
    let (number, _) = number.split_first_chunk::<4>()?;
    (u32::from_be_bytes(*of) as usize == flow).then_some(u32::from_be_bytes(*number) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_known_by_their_header() {
        assert_eq!(number(&header(3, 70_000), 3), Some(70_000));
        assert_eq!(number(&header(3, 70_000), 4), None);
        assert_eq!(number(b"short", 0), None);
    }
}
