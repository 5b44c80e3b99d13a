//! Emulated link, which stores and forwards, and reports its counters.

use std::collections::VecDeque;

use byway_state::{FlowCounts, LinkId, LinkMeter, LinkSample, LinkState, NetworkId, TARGET_BACKLOG};
use byway_units::{Bytes, Duration, Rate, Time};

/// Bytes of IPv4 and UDP headers.
const HEADERS: usize = 28;

/// UDP payload of a packet, and the number of its connection.
pub(crate) struct Datagram {
    pub(crate) connection: usize,
    pub(crate) payload: Vec<u8>,
}

/// Packet on the link, or waiting for it.
struct Transit {
    starts_at: Time,
    leaves_at: Time,
    arrives_at: Time,
    bytes: Bytes,
    datagram: Datagram,
}

/// Link of 5 Mbit/s and 50 ms in one direction. Its buffer has no limit.
pub(crate) struct TestLink {
    meter: LinkMeter,
    /// Rate that the link reports.
    pub(crate) shown: Rate,
    free_at: Time,
    in_transit: VecDeque<Transit>,
    /// Bytes of packets that have arrived.
    arrived: Bytes,
    samples: u64,
}

impl TestLink {
    pub(crate) const RATE: Rate = Rate::from_megabits_per_second(5);
    const PROPAGATION: Duration = Duration::from_millis(50);

    pub(crate) fn new(number: u32) -> Self {
        Self {
            meter: LinkMeter::new(LinkId::new(NetworkId::new(1), number)),
            shown: Self::RATE,
            free_at: Time::START,
            in_transit: VecDeque::new(),
            arrived: Bytes::ZERO,
            samples: 0,
        }
    }

    pub(crate) const fn id(&self) -> LinkId {
        self.meter.link()
    }

    pub(crate) fn enqueue(&mut self, datagram: Datagram, now: Time) {
        let bytes = Bytes::from(datagram.payload.len() + HEADERS);
        let starts_at = self.free_at.max(now);
        let leaves_at = starts_at + bytes / Self::RATE;
        let arrives_at = leaves_at + Self::PROPAGATION;
        self.free_at = leaves_at;
        self.in_transit.push_back(Transit { starts_at, leaves_at, arrives_at, bytes, datagram });
    }

    pub(crate) fn next_arrival(&self) -> Option<Time> {
        self.in_transit.front().map(|first| first.arrives_at)
    }

    /// Returns a datagram that has arrived.
    pub(crate) fn receive(&mut self, now: Time) -> Option<Datagram> {
        if self.next_arrival().is_none_or(|at| at > now) {
            return None;
        }
        let first = self.in_transit.pop_front()?;
        self.arrived += first.bytes;
        Some(first.datagram)
    }

    /// Returns the bytes that have left.
    pub(crate) fn sent(&self, now: Time) -> Bytes {
        let has_left = |transit: &&Transit| transit.leaves_at <= now;
        let on_the_link: Bytes = self.in_transit.iter().filter(has_left).map(|transit| transit.bytes).sum();
        self.arrived + on_the_link
    }

    /// Returns the bytes that wait, without the packet being sent.
    pub(crate) fn backlog(&self, now: Time) -> Bytes {
        let waits = |transit: &&Transit| transit.starts_at > now;
        self.in_transit.iter().filter(waits).map(|transit| transit.bytes).sum()
    }

    /// Returns the state of the link since the last call.
    pub(crate) fn report(&mut self, now: Time) -> Option<LinkState> {
        self.samples += 1;
        let sample = LinkSample {
            incarnation: 1,
            number: self.samples,
            clock: now,
            sent: self.sent(now),
            backlog: self.backlog(now),
            shown: self.shown,
            guaranteed: self.shown,
            // A link that stores and forwards reports a full packet's time, too.
            delay: Self::PROPAGATION + Bytes::new(1_500) / Self::RATE,
            target: TARGET_BACKLOG,
            flows: FlowCounts::default(),
        };
        self.meter.on_sample(sample, Duration::ZERO, now).expect("counters and clock advance")
    }
}
