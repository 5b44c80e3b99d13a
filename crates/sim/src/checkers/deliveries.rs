//! Whether applications get what was sent to them: the same bytes, in the same flow, at most once, in time.

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use byway_units::{Duration, Time};
use thiserror::Error;

use crate::hash::digest;

/// What is known about a payload.
#[derive(Clone, Copy, Debug)]
struct Packet {
    sent: Time,
    delivered: Option<Time>,
}

/// A payload's digest and length: two different payloads of a test agree in both once in 10^19 pairs.
type Content = (u64, usize);

/// How a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Before or at the deadline.
    InTime,
    /// After it: as good as lost.
    Late,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DeliveryError<F: Debug> {
    /// The workload sent the same bytes twice, so that their deliveries cannot be told apart.
    #[error("flow {flow:?} sent the same {bytes} bytes at {first} and at {again}: number the payloads")]
    SentTwice {
        /// The flow.
        flow: F,
        /// The length of the payload.
        bytes: usize,
        /// When it was sent first.
        first: Time,
        /// When it was sent again.
        again: Time,
    },
    /// Nobody sent these bytes: they were altered or made up.
    #[error("flow {flow:?} delivered {bytes} bytes at {now} that nobody sent")]
    NeverSent {
        /// The flow.
        flow: F,
        /// The length of the payload.
        bytes: usize,
        /// When it was delivered.
        now: Time,
    },
    /// Another flow sent these bytes.
    #[error("flow {flow:?} delivered {bytes} bytes at {now} that flow {sender:?} sent")]
    WrongFlow {
        /// The flow that delivered.
        flow: F,
        /// The flow that sent.
        sender: F,
        /// The length of the payload.
        bytes: usize,
        /// When it was delivered.
        now: Time,
    },
    /// It was delivered before.
    #[error("flow {flow:?} delivered the same {bytes} bytes at {first} and at {again}")]
    Twice {
        /// The flow.
        flow: F,
        /// The length of the payload.
        bytes: usize,
        /// When it was delivered first.
        first: Time,
        /// When it was delivered again.
        again: Time,
    },
}

/// How many payloads were sent and delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounters {
    /// Sent.
    pub sent: u64,
    /// Delivered, in time.
    pub in_time: u64,
    /// Delivered, after the deadline.
    pub late: u64,
}

impl DeliveryCounters {
    /// Sent and not delivered, so far.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.sent - self.in_time - self.late
    }
}

/// Compares what applications get with what they sent. `F` names flows.
///
/// No two payloads of a flow may be equal: workloads number them. Memory grows with what was sent.
#[derive(Clone, Debug)]
pub struct Deliveries<F> {
    deadline: Duration,
    packets: BTreeMap<(Content, F), Packet>,
    counters: DeliveryCounters,
}

impl<F: Copy + Ord + Debug> Deliveries<F> {
    /// A delivery is late if it is more than `deadline` after the sending.
    #[must_use]
    pub const fn new(deadline: Duration) -> Self {
        let counters = DeliveryCounters { sent: 0, in_time: 0, late: 0 };
        Self { deadline, packets: BTreeMap::new(), counters }
    }

    /// The application sends a payload.
    ///
    /// # Errors
    /// If it has sent the same one before, in this flow.
    pub fn sent(&mut self, flow: F, payload: &[u8], now: Time) -> Result<(), DeliveryError<F>> {
        let packet = Packet { sent: now, delivered: None };
        if let Some(before) = self.packets.insert((content(payload), flow), packet) {
            let (bytes, first) = (payload.len(), before.sent);
            return Err(DeliveryError::SentTwice { flow, bytes, first, again: now });
        }
        self.counters.sent += 1;
        Ok(())
    }

    /// The application gets a payload.
    ///
    /// # Errors
    /// If it was not sent, not in this flow, or delivered before.
    pub fn delivered(&mut self, flow: F, payload: &[u8], now: Time) -> Result<Delivery, DeliveryError<F>> {
        let (content, bytes) = (content(payload), payload.len());
        let Some(packet) = self.packets.get_mut(&(content, flow)) else {
            return Err(match self.sender(content) {
                Some(sender) => DeliveryError::WrongFlow { flow, sender, bytes, now },
                None => DeliveryError::NeverSent { flow, bytes, now },
            });
        };
        if let Some(first) = packet.delivered {
            return Err(DeliveryError::Twice { flow, bytes, first, again: now });
        }
        packet.delivered = Some(now);
        if now - packet.sent > self.deadline {
            self.counters.late += 1;
            return Ok(Delivery::Late);
        }
        self.counters.in_time += 1;
        Ok(Delivery::InTime)
    }

    /// How many payloads were sent and delivered so far.
    #[must_use]
    pub const fn counters(&self) -> DeliveryCounters {
        self.counters
    }

    /// A flow that sent this content.
    fn sender(&self, content: Content) -> Option<F> {
        // Flows have no smallest name in general, so the search goes over all: it ends the test anyway.
        self.packets.keys().find(|(sent, _)| *sent == content).map(|&(_, flow)| flow)
    }
}

fn content(payload: &[u8]) -> Content {
    (digest(0, payload), payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_nanos(100);

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn with_one_sent() -> Deliveries<u16> {
        let mut deliveries = Deliveries::new(DEADLINE);
        assert_eq!(deliveries.sent(1, b"one", at(10)), Ok(()));
        deliveries
    }

    #[test]
    fn a_delivery_is_late_after_its_deadline_and_not_at_it() {
        assert_eq!(with_one_sent().delivered(1, b"one", at(110)), Ok(Delivery::InTime));
        let mut late = with_one_sent();
        assert_eq!(late.delivered(1, b"one", at(111)), Ok(Delivery::Late));
        assert_eq!(late.counters(), DeliveryCounters { sent: 1, in_time: 0, late: 1 });
    }

    #[test]
    fn what_is_not_delivered_is_missing() {
        let mut deliveries = with_one_sent();
        assert_eq!(deliveries.counters().missing(), 1);
        assert!(deliveries.delivered(1, b"one", at(20)).is_ok());
        assert_eq!(deliveries.counters().missing(), 0);
    }

    #[test]
    fn altered_bytes_are_found() {
        let error = DeliveryError::NeverSent { flow: 1, bytes: 3, now: at(20) };
        assert_eq!(with_one_sent().delivered(1, b"onf", at(20)), Err(error));
    }

    #[test]
    fn bytes_of_another_flow_are_found() {
        let error = DeliveryError::WrongFlow { flow: 2, sender: 1, bytes: 3, now: at(20) };
        assert_eq!(with_one_sent().delivered(2, b"one", at(20)), Err(error));
    }

    #[test]
    fn a_second_delivery_is_found() {
        let mut deliveries = with_one_sent();
        assert!(deliveries.delivered(1, b"one", at(20)).is_ok());
        let error = DeliveryError::Twice { flow: 1, bytes: 3, first: at(20), again: at(30) };
        assert_eq!(deliveries.delivered(1, b"one", at(30)), Err(error));
        assert_eq!(deliveries.counters().in_time, 1);
    }

    #[test]
    fn equal_payloads_are_refused_within_a_flow_only() {
        let mut deliveries = with_one_sent();
        assert_eq!(deliveries.sent(2, b"one", at(20)), Ok(()));
        let error = DeliveryError::SentTwice { flow: 1, bytes: 3, first: at(10), again: at(20) };
        assert_eq!(deliveries.sent(1, b"one", at(20)), Err(error));
    }
}
