//! Simulated machines of the study of network state: interactive senders and their receivers, TCP,
//! and sources of random datagrams.

use std::collections::VecDeque;
use std::net::SocketAddr;

use byway_sim::tcp::{TcpApplication, TcpHost};
use byway_sim::{Datagram, Ecn, Host, Marks, Random, Transmit};
use byway_state::{Ack, Congestion, CongestionControl, PacketSize, PathEntry, Rules};
use byway_units::{Bytes, Duration, Time};

/// Length of full IP packets, and of their UDP and IPv4 headers.
pub(crate) const PACKET_BYTES: u32 = 1_500;
pub(crate) const HEADER_BYTES: u32 = 28;

/// Length of a full packet as its sender counts it.
const PAYLOAD: Bytes = Bytes::new((PACKET_BYTES - HEADER_BYTES) as u64);

/// Time without any acknowledgment after which all packets count as lost: longer than all queues.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest delay of an acknowledgment that waits for further packets (RFC 1122, 4.2.3.2: less than
/// 500 ms). Packets of fifty flows at 5 Mbit/s are 120 ms apart.
const ACK_DELAY_MAX: Duration = Duration::from_millis(200);

/// Simulated machine of the study of network state.
#[derive(Debug)]
pub(crate) enum NetworkHost {
    /// Router, which forwards packets of other machines.
    Router,
    /// Host that sends or receives by TCP.
    Tcp(Box<TcpHost<TcpApplication>>),
    /// Sender whose window follows network state.
    Sender(Box<InteractiveSender>),
    /// Receiver of such a sender.
    Receiver(InteractiveReceiver),
    /// Source of random datagrams.
    Poisson(PoissonSource),
    /// Receiver of random datagrams, with the number of bytes of their IP packets.
    PoissonSink(u64),
}

impl NetworkHost {
    /// Calls `act` if the host is an interactive sender.
    pub(crate) fn with_sender(&mut self, act: impl FnOnce(&mut InteractiveSender)) {
        if let Self::Sender(sender) = self {
            act(sender);
        }
    }
}

/// Sender of numbered packets, as many as its window allows.
#[derive(Debug)]
pub(crate) struct InteractiveSender {
    peer: SocketAddr,
    dscp: u8,
    control: CongestionControl,
    is_active: bool,
    /// True while the application has something to send.
    is_on: bool,
    /// Numbers and departures of packets in flight, oldest first.
    in_flight: VecDeque<(u64, Time)>,
    next_number: u64,
    paced_until: Time,
    sending: Vec<u8>,
    /// Times of acknowledgments, and round trips of the newest packet in each.
    pub(crate) round_trips: Vec<(Time, Duration)>,
}

impl InteractiveSender {
    /// Creates a sender that has not begun.
    pub(crate) fn new(peer: SocketAddr, dscp: u8, rules: Rules) -> Self {
        let packets = PacketSize::new(PACKET_BYTES, HEADER_BYTES).expect("a full packet has payload");
        Self {
            peer,
            dscp,
            control: CongestionControl::new(packets, rules),
            is_active: false,
            is_on: true,
            in_flight: VecDeque::new(),
            next_number: 0,
            paced_until: Time::START,
            sending: Vec::new(),
            round_trips: Vec::new(),
        }
    }

    /// Input: entries of both directions.
    pub(crate) fn on_entries<'a>(
        &mut self,
        forward: impl IntoIterator<Item = &'a PathEntry>,
        back: impl IntoIterator<Item = &'a PathEntry>,
        now: Time,
    ) {
        forward.into_iter().for_each(|entry| self.control.on_forward_entry(entry, now));
        back.into_iter().for_each(|entry| self.control.on_back_entry(entry, now));
    }

    /// Input: begins to send, or ends for good.
    pub(crate) const fn set_active(&mut self, is_active: bool) {
        self.is_active = is_active;
    }

    /// Input: the application pauses, or continues.
    pub(crate) const fn toggle(&mut self) {
        self.is_on = !self.is_on;
    }

    fn has_window(&self) -> bool {
        let in_flight = PAYLOAD * (self.in_flight.len() as u64);
        self.is_active && self.is_on && in_flight + PAYLOAD <= self.control.window()
    }

    /// Handles an acknowledgment of packets with these numbers, in order, which the receiver sent
    /// `delay` after the newest one. The network keeps the order: earlier packets are lost.
    fn on_ack(&mut self, delay: Duration, numbers: &[u64], now: Time) {
        let Some(newest) = numbers.last() else { return };
        let (mut acked, mut lost, mut sent_at) = (0_u32, 0_u64, None);
        while let Some((first, at)) = self.in_flight.front().copied().filter(|(first, _)| first <= newest) {
            self.in_flight.pop_front();
            if numbers.contains(&first) {
                (acked, sent_at) = (acked + 1, Some(at));
            } else {
                lost += 1;
            }
        }
        if let Some(sent_at) = sent_at {
            let round_trip = now.saturating_since(sent_at).saturating_sub(delay);
            self.round_trips.push((now, round_trip));
            let (bytes, is_app_limited) = (PAYLOAD * u64::from(acked), !self.is_on);
            self.control.on_ack(Ack { bytes, packets: acked, round_trip, is_app_limited }, now);
        }
        if lost > 0 {
            self.control.on_congestion(Congestion::Lost(PAYLOAD * lost), now);
        }
    }

    fn timeout(&self) -> Option<Time> {
        self.in_flight.front().map(|(_, sent_at)| *sent_at + TIMEOUT)
    }

    fn wake(&mut self, now: Time) {
        if self.timeout().is_some_and(|timeout| timeout <= now) {
            self.in_flight.clear();
            self.control.on_congestion(Congestion::Persistent, now);
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        if !self.has_window() || self.paced_until > now {
            return None;
        }
        let gap = PAYLOAD / self.control.pacing().rate;
        // After a pause, two packets may leave at once.
        self.paced_until = self.paced_until.max(now.saturating_sub(gap)) + gap;
        self.in_flight.push_back((self.next_number, now));
        self.sending.clear();
        self.sending.extend(self.next_number.to_be_bytes());
        self.sending.resize((PACKET_BYTES - HEADER_BYTES) as usize, 0);
        self.next_number += 1;
        self.control.on_sent(now);
        Some(datagram(self.peer, self.dscp, &self.sending))
    }

    fn deadline(&self) -> Option<Time> {
        let paced = self.has_window().then_some(self.paced_until);
        [paced, self.timeout()].into_iter().flatten().min()
    }
}

/// Receiver that acknowledges a sender's packets: every so many, or the first after a delay.
#[derive(Debug)]
pub(crate) struct InteractiveReceiver {
    peer: SocketAddr,
    packets_for_ack: usize,
    /// Numbers of packets that are not acknowledged, and the arrivals of the first and the newest.
    unacked: Vec<u64>,
    arrivals: [Time; 2],
    is_ack_due: bool,
    sending: Vec<u8>,
    /// Bytes of IP packets received.
    pub(crate) ip_bytes: u64,
}

impl InteractiveReceiver {
    /// Creates the receiver of the sender at this address.
    pub(crate) const fn new(peer: SocketAddr, packets_for_ack: usize) -> Self {
        Self {
            peer,
            packets_for_ack,
            unacked: Vec::new(),
            arrivals: [Time::START; 2],
            is_ack_due: false,
            sending: Vec::new(),
            ip_bytes: 0,
        }
    }

    fn on_packet(&mut self, payload: &[u8], now: Time) {
        let Some(number) = payload.first_chunk() else { return };
        if self.unacked.is_empty() {
            self.arrivals[0] = now;
        }
        self.arrivals[1] = now;
        self.unacked.push(u64::from_be_bytes(*number));
        self.ip_bytes += ip_bytes(payload);
        self.is_ack_due = self.unacked.len() >= self.packets_for_ack;
    }

    fn deadline(&self) -> Option<Time> {
        (!self.unacked.is_empty()).then(|| self.arrivals[0] + ACK_DELAY_MAX)
    }

    fn wake(&mut self, now: Time) {
        self.is_ack_due |= self.deadline().is_some_and(|deadline| deadline <= now);
    }

    /// Returns the acknowledgment that is due: the delay in nanoseconds, and the numbers.
    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        if !std::mem::take(&mut self.is_ack_due) {
            return None;
        }
        let delay = now.saturating_since(self.arrivals[1]).as_nanos();
        self.sending.clear();
        for word in [delay].into_iter().chain(self.unacked.drain(..)) {
            self.sending.extend(word.to_be_bytes());
        }
        Some(datagram(self.peer, 0, &self.sending))
    }
}

/// Source of full packets at random times, without congestion control.
#[derive(Debug)]
pub(crate) struct PoissonSource {
    to: SocketAddr,
    dscp: u8,
    mean_interval: Duration,
    random: Random,
    next: Time,
    end: Time,
    is_due: bool,
    payload: Vec<u8>,
}

impl PoissonSource {
    /// Creates a source of packets to this address, from the first time on and before the second.
    pub(crate) fn new(
        to: SocketAddr,
        dscp: u8,
        mean_interval: Duration,
        random: Random,
        [begin, end]: [Time; 2],
    ) -> Self {
        let payload = vec![0; (PACKET_BYTES - HEADER_BYTES) as usize];
        Self { to, dscp, mean_interval, random, next: begin, end, is_due: false, payload }
    }

    fn wake(&mut self, now: Time) {
        if self.next <= now {
            self.is_due = self.next < self.end;
            self.next += self.random.exponential(self.mean_interval);
        }
    }

    fn transmit(&mut self) -> Option<Transmit<'_>> {
        std::mem::take(&mut self.is_due).then(|| datagram(self.to, self.dscp, &self.payload))
    }

    fn deadline(&self) -> Option<Time> {
        (self.next < self.end).then_some(self.next)
    }
}

fn datagram(destination: SocketAddr, dscp: u8, payload: &[u8]) -> Transmit<'_> {
    let marks = Marks { dscp, flow_label: 0 };
    Transmit { source: None, destination, marks, ecn: Ecn::NotCapable, payload }
}

fn ip_bytes(payload: &[u8]) -> u64 {
    payload.len() as u64 + u64::from(HEADER_BYTES)
}

impl Host for NetworkHost {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        match self {
            Self::Router | Self::Poisson(_) => {}
            Self::Tcp(host) => host.receive(datagram, now),
            Self::Sender(sender) => {
                let (words, _) = datagram.payload.as_chunks::<8>();
                let words: Vec<u64> = words.iter().map(|word| u64::from_be_bytes(*word)).collect();
                if let Some((delay, numbers)) = words.split_first() {
                    sender.on_ack(Duration::from_nanos(*delay), numbers, now);
                }
            }
            Self::Receiver(receiver) => receiver.on_packet(datagram.payload, now),
            Self::PoissonSink(bytes) => *bytes += ip_bytes(datagram.payload),
        }
    }

    fn wake(&mut self, now: Time) {
        match self {
            Self::Router | Self::PoissonSink(_) => {}
            Self::Tcp(host) => host.wake(now),
            Self::Sender(sender) => sender.wake(now),
            Self::Receiver(receiver) => receiver.wake(now),
            Self::Poisson(source) => source.wake(now),
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        match self {
            Self::Router | Self::PoissonSink(_) => None,
            Self::Tcp(host) => host.transmit(now),
            Self::Sender(sender) => sender.transmit(now),
            Self::Receiver(receiver) => receiver.transmit(now),
            Self::Poisson(source) => source.transmit(),
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Router | Self::PoissonSink(_) => None,
            Self::Tcp(host) => host.deadline(),
            Self::Sender(sender) => sender.deadline(),
            Self::Receiver(receiver) => receiver.deadline(),
            Self::Poisson(source) => source.deadline(),
        }
    }
}
