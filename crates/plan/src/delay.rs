//! Delays of a flow's paths, and the delivery times of services if the direct copy is lost.

use byway_units::Duration;
use byway_wire::Service;

/// One-way delays between sender, relays and receivers of one flow.
///
/// Symbols are those of J-QoS, section 5.1: `d_S`, `x`, `d_R`, `y` and `d_R'`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// `d_S`: delay from the sender to its ingress relay.
    pub sender_to_ingress: Duration,
    /// `x`: delay from the ingress relay to the egress relay.
    pub ingress_to_egress: Duration,
    /// `d_R`: delay from the egress relay to the receiver, equal in both directions.
    pub egress_to_receiver: Duration,
    /// `y`: delay from the sender to the receiver, on the direct path.
    pub direct: Duration,
    /// `max(d_R')`: delay from the egress relay to the farthest of the receivers that cooperate in
    /// a repair.
    pub cooperating: Duration,
    /// `T_det`: time from the expected arrival of a lost packet to its receiver's NACK.
    pub detection: Duration,
    /// `T_det` of services whose repairs come from the sender or the ingress relay, if that is
    /// longer: they request a packet once the next one arrives.
    pub detection_afar: Duration,
    /// `T_enc`: time for which a packet waits at the ingress relay until its batch is encoded.
    pub encoding: Duration,
}

impl Delays {
    /// Derives all delays from two measured ones: of the direct path, and from the sender to the
    /// ingress relay.
    ///
    /// A relay that is both ingress and egress is assumed to be on the direct path: its two parts
    /// add up. Two relays are assumed to be as far from each other as sender and receiver, and
    /// equally far from these.
    #[must_use]
    pub fn from_measured(direct: Duration, sender_to_ingress: Duration, is_one_relay: bool) -> Self {
        let (ingress_to_egress, egress_to_receiver) = if is_one_relay {
            (Duration::ZERO, direct.saturating_sub(sender_to_ingress))
        } else {
            (direct, sender_to_ingress)
        };
        Self {
            sender_to_ingress,
            ingress_to_egress,
            egress_to_receiver,
            direct,
            cooperating: egress_to_receiver,
            ..Self::default()
        }
    }

    /// Returns these delays as the published model has them: losses are detected and batches are
    /// encoded without delay.
    #[must_use]
    pub const fn as_published(self) -> Self {
        Self { detection: Duration::ZERO, detection_afar: Duration::ZERO, encoding: Duration::ZERO, ..self }
    }

    /// Returns the round-trip time of the direct path: twice `y`.
    #[must_use]
    pub const fn direct_round_trip(&self) -> Duration {
        self.direct.saturating_add(self.direct)
    }

    /// Returns the time from a packet's sending to its delivery by this service if the direct copy
    /// is lost; `None` for the Internet alone, which does not deliver it.
    ///
    /// - forwarding: `x + d_S + d_R`;
    /// - both: the smaller of `y` and that, because the first copy counts: for packets that neither
    ///   path loses;
    /// - caching: `y + T_det + 2 d_R + D`;
    /// - pull: `y + T_det + 2 (d_R + x)`;
    /// - retransmission: `y + T_det + min(y, x + d_S + d_R) + x + d_S + d_R`, because the request
    ///   travels on both paths, and the packet through relays;
    /// - coding: `y + T_det + 2 d_R + 2 max(d_R') + D`, for repairs with other receivers. A repair
    ///   from in-stream repair packets alone takes as long as with caching, plus `T_enc` if that is
    ///   late.
    ///
    /// Sums saturate at [`Duration::MAX`].
    #[must_use]
    pub fn delivery(&self, service: Service) -> Option<Duration> {
        match service {
            Service::Internet => None,
            Service::Forwarding => Some(self.relayed()),
            Service::Both => Some(self.relayed().min(self.direct)),
            Service::Caching | Service::Coding | Service::Pull | Service::Retransmission => {
                Some(sum(&[self.direct, self.detected(service), self.repair(service)?]))
            }
        }
    }

    /// Returns `T_det` of a service.
    fn detected(&self, service: Service) -> Duration {
        match service {
            Service::Pull | Service::Retransmission => self.detection.max(self.detection_afar),
            _ => self.detection,
        }
    }

    /// Returns the time from a receiver's NACK to the arrival of the repair; `None` for services
    /// without repairs.
    #[must_use]
    pub fn repair(&self, service: Service) -> Option<Duration> {
        let (round_trip, wait) = (twice(self.egress_to_receiver), self.wait(service));
        match service {
            Service::Caching => Some(sum(&[round_trip, wait])),
            Service::Coding => Some(sum(&[round_trip, twice(self.cooperating), wait])),
            Service::Pull => Some(sum(&[round_trip, twice(self.ingress_to_egress)])),
            Service::Retransmission => Some(sum(&[self.relayed().min(self.direct), self.relayed()])),
            Service::Internet | Service::Forwarding | Service::Both => None,
        }
    }

    /// Returns `D`: the time for which a NACK waits at the egress relay for the copy or the repair
    /// packets.
    ///
    /// `max(0, d_S + T_enc + x - (y + T_det + d_R))`; copies for a cache wait for no batch, so
    /// `T_enc` is zero there.
    #[must_use]
    pub fn wait(&self, service: Service) -> Duration {
        let encoding = if service == Service::Coding { self.encoding } else { Duration::ZERO };
        let data = sum(&[self.sender_to_ingress, encoding, self.ingress_to_egress]);
        data.saturating_sub(sum(&[self.direct, self.detection, self.egress_to_receiver]))
    }

    /// Returns the time from the expected arrival of the direct copy to the repair, as a share of
    /// the direct round-trip time. A retransmission by the sender takes 1 at least.
    ///
    /// J-QoS, figure 4c. `None` for services without repairs, and if the delay of the direct path
    /// is zero.
    #[must_use]
    pub fn recovery_share(&self, service: Service) -> Option<f64> {
        let recovery = sum(&[self.detected(service), self.repair(service)?]);
        let round_trip = self.direct_round_trip();
        (!round_trip.is_zero()).then(|| recovery.as_secs_f64() / round_trip.as_secs_f64())
    }

    /// Returns the delay from the sender to the receiver through the relays: `d_S + x + d_R`.
    #[must_use]
    pub fn relayed(&self) -> Duration {
        sum(&[self.sender_to_ingress, self.ingress_to_egress, self.egress_to_receiver])
    }
}

const fn twice(duration: Duration) -> Duration {
    duration.saturating_add(duration)
}

fn sum(durations: &[Duration]) -> Duration {
    durations.iter().fold(Duration::ZERO, |total, duration| total.saturating_add(*duration))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn delays() -> Delays {
        Delays {
            sender_to_ingress: ms(10),
            ingress_to_egress: ms(80),
            egress_to_receiver: ms(8),
            direct: ms(100),
            cooperating: ms(12),
            detection: ms(25),
            detection_afar: Duration::ZERO,
            encoding: ms(40),
        }
    }

    #[test]
    fn every_service_delivers_as_the_formulas_say() {
        let deliveries = Service::ALL.iter().map(|service| delays().delivery(*service));
        let published = [None, Some(ms(165)), Some(ms(141)), Some(ms(98)), Some(ms(98))];
        // Pull: 100 + 25 + 2 * (80 + 8); retransmission: 100 + 25 + 98 + 98.
        let expected = published.into_iter().chain([Some(ms(301)), Some(ms(321))]);
        assert!(deliveries.eq(expected));
    }

    #[test]
    fn repairs_from_afar_wait_for_the_next_packet() {
        let paced = Delays { detection_afar: ms(60), ..delays() };
        let [caching, pull, retransmission] =
            [Service::Caching, Service::Pull, Service::Retransmission].map(|service| paced.delivery(service));
        assert_eq!([caching, pull, retransmission], [Some(ms(141)), Some(ms(336)), Some(ms(356))]);
    }

    #[test]
    fn published_deliveries_know_neither_detection_nor_encoding() {
        let published = delays().as_published();
        assert_eq!(published.delivery(Service::Coding), Some(ms(140)));
        assert_eq!(published.delivery(Service::Caching), Some(ms(116)));
        let share = |service| published.recovery_share(service).map(|share| (share * 1e3).round() / 1e3);
        assert_eq!((share(Service::Caching), share(Service::Coding)), (Some(0.08), Some(0.2)));
        assert_eq!(published.recovery_share(Service::Forwarding), None);
    }

    #[test]
    fn a_request_that_is_early_waits_for_the_data() {
        let slow = Delays { ingress_to_egress: ms(140), ..delays() };
        assert_eq!((slow.wait(Service::Caching), slow.wait(Service::Coding)), (ms(17), ms(57)));
        assert_eq!(slow.delivery(Service::Caching), Some(ms(158)));
    }

    #[test]
    fn without_a_direct_path_no_share_of_it_is_named() {
        let nowhere = Delays { direct: Duration::ZERO, ..delays() };
        assert_eq!(nowhere.recovery_share(Service::Caching), None);
    }

    proptest! {
        #[test]
        fn coding_is_never_faster_than_caching(all in proptest::array::uniform7(0..=u64::MAX)) {
            let [s, x, r, y, others, detection, encoding] = all.map(Duration::from_nanos);
            let delays = Delays {
                sender_to_ingress: s,
                ingress_to_egress: x,
                egress_to_receiver: r,
                direct: y,
                cooperating: others,
                detection,
                detection_afar: Duration::ZERO,
                encoding,
            };
            prop_assert!(delays.delivery(Service::Coding) >= delays.delivery(Service::Caching));
            prop_assert!(delays.delivery(Service::Both) <= delays.delivery(Service::Forwarding));
        }
    }
}
