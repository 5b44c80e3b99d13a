//! Checker of deliveries: an application gets the bytes sent to it, in the same flow, at most once,
//! in time.

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use byway_units::{Duration, Time};
use thiserror::Error;

use crate::hash::digest;

/// Time at which an application sent a payload, and whether its peer has received it.
#[derive(Clone, Copy, Debug)]
struct PayloadRecord {
    sent: Time,
    delivered: Option<Time>,
}

/// A payload's digest and length: two different payloads of a test agree in both with probability
/// 10^-19.
type Content = (u64, usize);

/// Timeliness of a delivered payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Delivered before or at its deadline.
    InTime,
    /// Delivered after its deadline, which is as good as lost.
    Late,
}

/// Error of a delivery that the workload or the protocol under test must not cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DeliveryError<F: Debug> {
    /// The workload sent the same bytes twice, which makes their deliveries indistinguishable.
    #[error("flow {flow:?} sent the same {bytes} bytes at {first} and at {again}: number the payloads")]
    SentTwice {
        /// Flow in which the same payload was sent twice.
        flow: F,
        /// Length of the payload, in bytes.
        bytes: usize,
        /// Time of the first sending.
        first: Time,
        /// Time of the second sending.
        again: Time,
    },
    /// An application received bytes that nobody sent: they are altered or invented.
    #[error("flow {flow:?} delivered {bytes} bytes at {now} that nobody sent")]
    NeverSent {
        /// Flow that delivered the payload.
        flow: F,
        /// Length of the payload, in bytes.
        bytes: usize,
        /// Time of the delivery.
        now: Time,
    },
    /// An application received a payload in a flow other than that in which it was sent.
    #[error("flow {flow:?} delivered {bytes} bytes at {now} that flow {sender:?} sent")]
    WrongFlow {
        /// The flow that delivered.
        flow: F,
        /// The flow that sent.
        sender: F,
        /// Length of the payload, in bytes.
        bytes: usize,
        /// Time of the delivery.
        now: Time,
    },
    /// An application received the same payload twice.
    #[error("flow {flow:?} delivered the same {bytes} bytes at {first} and at {again}")]
    Twice {
        /// Flow that delivered the payload twice.
        flow: F,
        /// Length of the payload, in bytes.
        bytes: usize,
        /// Time of the first delivery.
        first: Time,
        /// Time of the second delivery.
        again: Time,
    },
}

/// Numbers of payloads sent and delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounters {
    /// Payloads that applications sent.
    pub sent: u64,
    /// Payloads delivered before or at their deadline.
    pub in_time: u64,
    /// Payloads delivered after their deadline.
    pub late: u64,
}

impl DeliveryCounters {
    /// Returns the number of payloads sent and not delivered until now.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.sent - self.in_time - self.late
    }
}

/// Compares payloads that applications receive with those sent. `F` identifies flows.
///
/// No two payloads of a flow may be equal: workloads number them. Memory grows with the number of
/// payloads sent.
#[derive(Clone, Debug)]
pub struct Deliveries<F> {
    deadline: Duration,
    packets: BTreeMap<(Content, F), PayloadRecord>,
    counters: DeliveryCounters,
}

impl<F: Copy + Ord + Debug> Deliveries<F> {
    /// Creates a checker for which a delivery is late if it is more than `deadline` after the
    /// sending.
    #[must_use]
    pub const fn new(deadline: Duration) -> Self {
        let counters = DeliveryCounters { sent: 0, in_time: 0, late: 0 };
        Self { deadline, packets: BTreeMap::new(), counters }
    }

    /// Records that an application sends a payload in a flow now.
    ///
    /// # Errors
    /// If the flow has sent the same payload before.
    pub fn on_sent(&mut self, flow: F, payload: &[u8], now: Time) -> Result<(), DeliveryError<F>> {
        let packet = PayloadRecord { sent: now, delivered: None };
        if let Some(before) = self.packets.insert((content(payload), flow), packet) {
            let (bytes, first) = (payload.len(), before.sent);
            return Err(DeliveryError::SentTwice { flow, bytes, first, again: now });
        }
        self.counters.sent += 1;
        Ok(())
    }

    /// Records that an application receives a payload now. Returns its timeliness.
    ///
    /// # Errors
    /// If nobody sent the payload, another flow sent it, or it was delivered before.
    pub fn on_delivered(&mut self, flow: F, payload: &[u8], now: Time) -> Result<Delivery, DeliveryError<F>> {
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

    /// Returns the numbers of payloads sent and delivered until now.
    #[must_use]
    pub const fn counters(&self) -> DeliveryCounters {
        self.counters
    }

    /// Returns a flow that sent this content; `None` if nobody sent it.
    fn sender(&self, content: Content) -> Option<F> {
        // Not every type of flow has a smallest value, therefore the search covers all packets. The
        // error ends the test anyway.
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
        assert_eq!(deliveries.on_sent(1, b"one", at(10)), Ok(()));
        deliveries
    }

    #[test]
    fn a_delivery_is_late_after_its_deadline_and_not_at_it() {
        assert_eq!(with_one_sent().on_delivered(1, b"one", at(110)), Ok(Delivery::InTime));
        let mut late = with_one_sent();
        assert_eq!(late.on_delivered(1, b"one", at(111)), Ok(Delivery::Late));
        assert_eq!(late.counters(), DeliveryCounters { sent: 1, in_time: 0, late: 1 });
    }

    #[test]
    fn what_is_not_delivered_is_missing() {
        let mut deliveries = with_one_sent();
        assert_eq!(deliveries.counters().missing(), 1);
        assert!(deliveries.on_delivered(1, b"one", at(20)).is_ok());
        assert_eq!(deliveries.counters().missing(), 0);
    }

    #[test]
    fn altered_bytes_are_found() {
        let error = DeliveryError::NeverSent { flow: 1, bytes: 3, now: at(20) };
        assert_eq!(with_one_sent().on_delivered(1, b"onf", at(20)), Err(error));
    }

    #[test]
    fn bytes_of_another_flow_are_found() {
        let error = DeliveryError::WrongFlow { flow: 2, sender: 1, bytes: 3, now: at(20) };
        assert_eq!(with_one_sent().on_delivered(2, b"one", at(20)), Err(error));
    }

    #[test]
    fn a_second_delivery_is_found() {
        let mut deliveries = with_one_sent();
        assert!(deliveries.on_delivered(1, b"one", at(20)).is_ok());
        let error = DeliveryError::Twice { flow: 1, bytes: 3, first: at(20), again: at(30) };
        assert_eq!(deliveries.on_delivered(1, b"one", at(30)), Err(error));
        assert_eq!(deliveries.counters().in_time, 1);
    }

    #[test]
    fn equal_payloads_are_refused_within_a_flow_only() {
        let mut deliveries = with_one_sent();
        assert_eq!(deliveries.on_sent(2, b"one", at(20)), Ok(()));
        let error = DeliveryError::SentTwice { flow: 1, bytes: 3, first: at(10), again: at(20) };
        assert_eq!(deliveries.on_sent(1, b"one", at(20)), Err(error));
    }
}
