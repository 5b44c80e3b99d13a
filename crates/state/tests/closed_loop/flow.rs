//! Simulated flow: a sender with congestion control, and its receiver.

use std::collections::VecDeque;

use byway_state::{Ack, CongestionControl, PacketSize, Rules, Table};
use byway_units::{Bytes, Duration, Time};

/// Bytes of full IP packets, of their payload, and of acknowledgments.
pub(crate) const PACKET: u64 = 1_500;
pub(crate) const PAYLOAD: u64 = 1_472;
pub(crate) const ACK_BYTES: u64 = 40;

/// Settings of a flow.
pub(crate) struct FlowSetup {
    /// Links from the sender, and back.
    pub(crate) forward: Vec<usize>,
    pub(crate) back: Vec<usize>,
    pub(crate) stops_at: Time,
    /// Packets for each acknowledgment.
    pub(crate) ack_every: usize,
    /// Longest delay between the last link and the receiver.
    pub(crate) jitter: Duration,
    /// True if the flow begins with the history of the table.
    pub(crate) has_history: bool,
}

/// Measurements of a flow.
#[derive(Default)]
pub(crate) struct FlowLog {
    /// Times at which packets were delivered.
    pub(crate) delivered: Vec<Time>,
    pub(crate) round_trips: Vec<(Time, Duration)>,
}

pub(crate) struct TestFlow {
    pub(crate) setup: FlowSetup,
    pub(crate) control: CongestionControl,
    /// Tables of both directions.
    pub(crate) tables: [Table; 2],
    pub(crate) log: FlowLog,
    pub(crate) is_started: bool,
    /// True if the application has something to send.
    pub(crate) is_on: bool,
    pub(crate) in_flight: u64,
    /// Time of the next packet by pacing, and true if there is an event for it.
    pub(crate) next_send: Time,
    pub(crate) is_waking: bool,
    /// Times at which packets were sent that the receiver has not acknowledged yet.
    pub(crate) unacked: VecDeque<Time>,
    pub(crate) latest_arrival: Time,
}

impl TestFlow {
    pub(crate) fn new(rules: Rules, forward: &[usize], back: &[usize], tables: [Table; 2]) -> Self {
        let headers = PACKET - PAYLOAD;
        let size = PacketSize::new(PACKET as u32, headers as u32).expect("usual packets");
        Self {
            setup: FlowSetup {
                forward: forward.to_vec(),
                back: back.to_vec(),
                stops_at: Time::MAX,
                ack_every: 2,
                jitter: Duration::ZERO,
                has_history: true,
            },
            control: CongestionControl::new(size, rules),
            tables,
            log: FlowLog::default(),
            is_started: false,
            is_on: true,
            in_flight: 0,
            next_send: Time::START,
            is_waking: false,
            unacked: VecDeque::new(),
            latest_arrival: Time::START,
        }
    }

    /// True if the window has space for a packet.
    pub(crate) fn may_send(&self, now: Time) -> bool {
        let is_running = self.is_started && self.is_on && now < self.setup.stops_at;
        is_running && self.in_flight + PAYLOAD <= self.control.window().count()
    }

    /// Counts a packet, and the time of the next one by pacing.
    pub(crate) fn on_sent(&mut self, now: Time) {
        let gap = Bytes::new(PAYLOAD) / self.control.pacing().rate;
        // Two packets at once after a pause.
        self.next_send = self.next_send.max(now.saturating_sub(gap)) + gap;
        self.in_flight += PAYLOAD;
        self.control.on_sent(now);
    }

    /// Handles the acknowledgment of packets that were sent at these times.
    pub(crate) fn on_ack(&mut self, sent_at: &[Time], now: Time) {
        let newest = sent_at.iter().max().copied().unwrap_or(now);
        let packets = sent_at.len() as u64;
        self.in_flight -= packets * PAYLOAD;
        let round_trip = now.saturating_since(newest);
        self.log.round_trips.push((now, round_trip));
        let ack = Ack {
            bytes: Bytes::new(packets * PAYLOAD),
            packets: packets as u32,
            round_trip,
            is_app_limited: !self.is_on,
        };
        self.control.on_ack(ack, now);
    }
}
