//! Delivery rate of a flow.

use byway_units::{Bytes, Rate, Time};

use crate::convert::{float, rate};
use crate::limits::{ACK_PACKETS, ACK_PACKETS_MAX, DELIVERY_PERIOD, DELIVERY_SLOT};
use crate::slots::Slots;

/// Slots of the period, and the one that is being filled.
const SLOTS: usize = 51;
const _: () = assert!(DELIVERY_SLOT.as_nanos() * (SLOTS as u64 - 1) == DELIVERY_PERIOD.as_nanos());

/// Rate of a flow's own acknowledged bytes in the last 0.5 s (λ̂ of the paper, section 4.1).
///
/// Sent bytes instead of acknowledged ones would make rates of flows with old state oscillate.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryRate {
    /// Acknowledged bytes of each slot.
    slots: Slots<u64, SLOTS>,
}

impl DeliveryRate {
    /// Creates a rate of zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Slots::new(0, DELIVERY_SLOT) }
    }

    /// Adds acknowledged bytes, with the headers of their IP packets.
    pub fn on_ack(&mut self, bytes: Bytes, now: Time) {
        let slot = self.slots.slot(now);
        *slot = slot.saturating_add(bytes.count());
    }

    /// Returns the rate of the last 0.5 s; a flow that is younger counts as idle before.
    #[must_use]
    pub fn rate(&self, now: Time) -> Rate {
        let bytes = self.slots.recent(now).fold(0, u64::saturating_add);
        let period = DELIVERY_PERIOD + self.slots.elapsed(now);
        rate(float(bytes) / period.as_secs_f64())
    }
}

impl Default for DeliveryRate {
    fn default() -> Self {
        Self::new()
    }
}

/// Packets of one acknowledgment: how bunched acknowledgments are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSize {
    /// Packets, which rise at once and decay by 1/8 with each acknowledgment.
    packets: f64,
}

impl AckSize {
    pub(crate) fn new() -> Self {
        Self { packets: f64::from(ACK_PACKETS) }
    }

    pub(crate) fn on_ack(&mut self, packets: u32) {
        let packets = f64::from(packets.min(ACK_PACKETS_MAX));
        self.packets = packets.max(self.packets - (self.packets - packets) / 8.0);
    }

    /// Returns the packets that a window allows for beyond the usual ones: they are acknowledged
    /// late, and the window would pause before.
    pub(crate) fn surplus(self) -> f64 {
        (self.packets - f64::from(ACK_PACKETS)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::at;

    #[test]
    fn a_steady_flow_has_its_rate_after_half_a_second_and_none_after_a_pause() {
        let mut delivery = DeliveryRate::new();
        assert_eq!(delivery.rate(at(0)), Rate::ZERO);
        for millis in (0..2_000).step_by(3) {
            delivery.on_ack(Bytes::new(1_875), at(millis));
        }
        let rate = delivery.rate(at(2_000)).bits_per_second();
        assert!((4_950_000..=5_050_000).contains(&rate), "{rate}");
        assert_eq!(delivery.rate(at(2_510)), Rate::ZERO);
        assert_eq!(delivery.rate(Time::MAX), Rate::ZERO);
    }

    #[test]
    fn a_young_flow_counts_as_idle_before() {
        let mut delivery = DeliveryRate::new();
        delivery.on_ack(Bytes::new(62_500), at(0));
        assert_eq!(delivery.rate(at(0)), Rate::from_megabits_per_second(1));
    }

    #[test]
    fn huge_numbers_and_a_clock_that_goes_backwards_do_not_overflow() {
        let mut delivery = DeliveryRate::new();
        delivery.on_ack(Bytes::MAX, Time::MAX);
        delivery.on_ack(Bytes::MAX, Time::START);
        assert_eq!(delivery.rate(Time::START), Rate::MAX);
        assert_eq!(delivery.rate(Time::MAX), Rate::MAX);
    }

    #[test]
    fn bunched_acknowledgments_are_allowed_for() {
        let mut acks = AckSize::new();
        acks.on_ack(2);
        assert!(acks.surplus() < 0.01);
        acks.on_ack(10);
        assert!((acks.surplus() - 8.0).abs() < 0.01);
        for _ in 0..40 {
            acks.on_ack(2);
        }
        assert!(acks.surplus() < 0.1);
        acks.on_ack(u32::MAX);
        assert!((acks.surplus() - 14.0).abs() < 0.01);
    }
}
