//! A sender whose window follows network state, and its receiver.

use std::collections::VecDeque;
use std::net::SocketAddr;

use byway_sim::tcp::{TcpApplication, TcpHost};
use byway_sim::{Datagram, Ecn, Host, Marks, Transmit};
use byway_state::{Ack, Congestion, CongestionControl, PacketSize, PathEntry, Rules};
use byway_units::{Bytes, Duration, Time};

/// Length of an interactive packet, with 28 bytes of IP and UDP headers.
pub(crate) const PACKET: u32 = 1_500;
const HEADERS: u32 = 28;
const PAYLOAD: u32 = PACKET - HEADERS;

/// Time without any acknowledgment after which all packets count as lost: longer than the queues of
/// all tests.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sender of numbered packets, as many as its window allows. Each packet is acknowledged.
#[derive(Debug)]
pub(crate) struct InteractiveSender {
    peer: SocketAddr,
    control: CongestionControl,
    is_active: bool,
    /// Numbers and departures of packets in flight, oldest first.
    in_flight: VecDeque<(u64, Time)>,
    next_number: u64,
    paced_until: Time,
    sending: Vec<u8>,
    /// Times of acknowledgments, and round trips.
    pub(crate) acknowledged: Vec<(Time, Duration)>,
}

impl InteractiveSender {
    pub(crate) fn new(peer: SocketAddr) -> Self {
        let packets = PacketSize::new(PACKET, HEADERS).expect("a packet with payload");
        Self {
            peer,
            control: CongestionControl::new(packets, Rules::CORRECTED),
            is_active: false,
            in_flight: VecDeque::new(),
            next_number: 0,
            paced_until: Time::START,
            sending: Vec::new(),
            acknowledged: Vec::new(),
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

    /// Input: begins to send.
    pub(crate) const fn begin(&mut self) {
        self.is_active = true;
    }

    fn has_window(&self) -> bool {
        let payload = u64::from(PAYLOAD);
        let in_flight = self.in_flight.len() as u64 * payload;
        self.is_active && Bytes::new(in_flight + payload) <= self.control.window()
    }

    fn on_number(&mut self, number: u64, now: Time) {
        let payload = Bytes::new(u64::from(PAYLOAD));
        let mut lost = Bytes::ZERO;
        // The network keeps the order: earlier packets are lost.
        while let Some((first, sent_at)) =
            self.in_flight.front().copied().filter(|(first, _)| *first <= number)
        {
            self.in_flight.pop_front();
            if first < number {
                lost += payload;
                continue;
            }
            let round_trip = now - sent_at;
            self.acknowledged.push((now, round_trip));
            self.control.on_ack(Ack { bytes: payload, packets: 1, round_trip, is_app_limited: false }, now);
        }
        if !lost.is_zero() {
            self.control.on_congestion(Congestion::Lost(lost), now);
        }
    }

    fn timeout(&self) -> Option<Time> {
        self.in_flight.front().map(|(_, sent_at)| *sent_at + TIMEOUT)
    }
}

impl Host for InteractiveSender {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        let number = datagram.payload.first_chunk().expect("a number");
        self.on_number(u64::from_be_bytes(*number), now);
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
        let gap = Bytes::new(u64::from(PAYLOAD)) / self.control.pacing().rate;
        // After a pause, two packets may leave at once.
        self.paced_until = self.paced_until.max(now.saturating_sub(gap)) + gap;
        self.in_flight.push_back((self.next_number, now));
        self.sending.clear();
        self.sending.extend(self.next_number.to_be_bytes());
        self.sending.resize(PAYLOAD as usize, 0);
        self.next_number += 1;
        self.control.on_sent(now);
        Some(datagram(self.peer, &self.sending))
    }

    fn deadline(&self) -> Option<Time> {
        let paced = self.has_window().then_some(self.paced_until);
        [paced, self.timeout()].into_iter().flatten().min()
    }
}

/// Receiver that returns the number of each packet.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    numbers: VecDeque<([u8; 8], SocketAddr)>,
    sending: [u8; 8],
}

impl Host for Receiver {
    fn receive(&mut self, datagram: Datagram<'_>, _now: Time) {
        let number = datagram.payload.first_chunk().expect("a number");
        self.numbers.push_back((*number, datagram.source));
    }

    fn wake(&mut self, _now: Time) {}

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        let (number, peer) = self.numbers.pop_front()?;
        self.sending = number;
        Some(datagram(peer, &self.sending))
    }

    fn deadline(&self) -> Option<Time> {
        None
    }
}

fn datagram(destination: SocketAddr, payload: &[u8]) -> Transmit<'_> {
    Transmit { source: None, destination, marks: Marks::default(), ecn: Ecn::NotCapable, payload }
}

/// Host of the test network.
pub(crate) enum TestHost {
    Router,
    Tcp(Box<TcpHost<TcpApplication>>),
    Sender(Box<InteractiveSender>),
    Receiver(Receiver),
}

impl TestHost {
    pub(crate) fn tcp(&mut self) -> &mut TcpHost<TcpApplication> {
        let Self::Tcp(host) = self else { panic!("it is no TCP host") };
        host
    }

    pub(crate) fn sender(&mut self) -> &mut InteractiveSender {
        let Self::Sender(host) = self else { panic!("it is no interactive sender") };
        host
    }
}

impl Host for TestHost {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        match self {
            Self::Router => panic!("a router only forwards"),
            Self::Tcp(host) => host.receive(datagram, now),
            Self::Sender(host) => host.receive(datagram, now),
            Self::Receiver(host) => host.receive(datagram, now),
        }
    }

    fn wake(&mut self, now: Time) {
        match self {
            Self::Router => {}
            Self::Tcp(host) => host.wake(now),
            Self::Sender(host) => host.wake(now),
            Self::Receiver(host) => host.wake(now),
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        match self {
            Self::Router => None,
            Self::Tcp(host) => host.transmit(now),
            Self::Sender(host) => host.transmit(now),
            Self::Receiver(host) => host.transmit(now),
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Router => None,
            Self::Tcp(host) => host.deadline(),
            Self::Sender(host) => host.deadline(),
            Self::Receiver(host) => host.deadline(),
        }
    }
}
