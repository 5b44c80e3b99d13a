//! The applications of a lab: they send what the scenario says, and write down when it comes.

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

/// How often the receiver looks whether all is over.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// What a datagram begins with: the place of its flow and its own, four bytes each.
const HEADER: usize = 8;

/// The place of a datagram that only tries whether its flow comes through.
const TRIAL: u32 = u32::MAX;

/// A flow's sockets, each within its machine.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) sender: UdpSocket,
    pub(super) receiver: UdpSocket,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) sent: Option<Time>,
    pub(super) came: Option<Time>,
}

/// What became of the datagrams of all flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Fates {
    /// By flow, in the order of sending.
    pub(super) of_flows: Vec<Vec<Fate>>,
    /// Datagrams that came more than once.
    pub(super) repeated: u64,
}

/// Sends trial datagrams until each flow has brought one, or the time is over; the places of flows that brought none.
pub(super) fn try_flows(
    ends: &[Option<Ends>],
    patience: Duration,
    clock: Clock,
) -> anyhow::Result<Vec<usize>> {
    let until = clock.now() + patience;
    let mut silent: Vec<(usize, &Ends)> = present(ends).collect();
    while !silent.is_empty() && clock.now() < until {
        for (place, ends) in &silent {
            // The agent may not listen yet.
            let _ = ends.sender.send(&header(*place, TRIAL));
        }
        interrupt::sleep(std::time::Duration::from_millis(100))?;
        silent.retain(|(_, ends)| !has_come(&ends.receiver));
    }
    Ok(silent.into_iter().map(|(place, _)| place).collect())
}

/// The sockets of flows that the lab sends, with the flows' places.
fn present(ends: &[Option<Ends>]) -> impl Iterator<Item = (usize, &Ends)> {
    ends.iter().enumerate().filter_map(|(place, ends)| Some((place, ends.as_ref()?)))
}

fn has_come(receiver: &UdpSocket) -> bool {
    let mut has_come = false;
    while receiver.recv(&mut [0; HEADER]).is_ok() {
        has_come = true;
    }
    has_come
}

/// Sends everything from `zero` on, and takes what comes until `grace` after the last.
pub(super) fn play(
    flows: &[NetworkFlow],
    ends: &[Option<Ends>],
    (zero, length, grace): (Time, Duration, Duration),
    clock: Clock,
    stop: &AtomicBool,
) -> Fates {
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
    ends: &[Option<Ends>],
    zero: Time,
    clock: Clock,
    stop: &AtomicBool,
) -> Vec<Vec<Time>> {
    let mut sent: Vec<Vec<Time>> = vec![Vec::new(); flows.len()];
    let mut all: Vec<(Duration, usize, usize)> = Vec::new();
    for (place, flow) in flows.iter().enumerate() {
        let datagrams = flow.traffic.datagrams().iter();
        all.extend(datagrams.map(|datagram| (datagram.at, place, datagram.bytes)));
    }
    all.sort_unstable_by_key(|(at, place, _)| (*at, *place));
    let mut datagram = Vec::new();
    for (at, place, bytes) in all {
        if !wait_until(zero + at, clock, stop) {
            break;
        }
        let number = u32::try_from(sent[place].len()).expect("a flow sends for minutes");
        datagram.clear();
        datagram.extend_from_slice(&header(place, number));
        datagram.resize(bytes.max(HEADER), 0);
        sent[place].push(clock.now());
        // An agent that is stopped does not listen: what is sent meanwhile is missing.
        let _ = ends[place].as_ref().map(|ends| ends.sender.send(&datagram));
    }
    sent
}

/// Waits; whether all goes on.
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
    ends: &[Option<Ends>],
    end: Time,
    clock: Clock,
    stop: &AtomicBool,
) -> Fates {
    let count = |flow: &NetworkFlow| flow.traffic.datagrams().len();
    let of_flows = flows.iter().map(|flow| vec![Fate::default(); count(flow)]).collect();
    let mut fates = Fates { of_flows, repeated: 0 };
    let mut fds: Vec<PollFd<'_>> =
        present(ends).map(|(_, end)| PollFd::from_borrowed_fd(end.receiver.as_fd(), PollFlags::IN)).collect();
    while clock.now() < end && !stop.load(Ordering::Relaxed) {
        // Interrupted, it looks again.
        if poll(&mut fds, Some(&GLANCE)).is_err() {
            continue;
        }
        for ((place, ends), fd) in present(ends).zip(&fds) {
            if !fd.revents().is_empty() {
                take(place, &ends.receiver, clock, &mut fates);
            }
        }
    }
    fates
}

/// Takes all that has come to a socket.
fn take(place: usize, receiver: &UdpSocket, clock: Clock, fates: &mut Fates) {
    let mut buffer = [0; HEADER];
    loop {
        match receiver.recv(&mut buffer) {
            Ok(length) => {
                let now = clock.now();
                let number = number(&buffer[..length.min(HEADER)], place);
                let fate = number.and_then(|number| fates.of_flows[place].get_mut(number));
                match fate {
                    Some(fate) if fate.came.is_none() => fate.came = Some(now),
                    Some(_) => fates.repeated += 1,
                    // A trial that comes late.
                    None => {}
                }
            }
            // Nobody listens at a target whose machine was stopped.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => return,
        }
    }
}

fn header(flow: usize, number: u32) -> [u8; HEADER] {
    let flow = u32::try_from(flow).expect("there are few flows");
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&flow.to_be_bytes());
    header[4..].copy_from_slice(&number.to_be_bytes());
    header
}

/// The place of a datagram of this flow; `None` if it is none.
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
