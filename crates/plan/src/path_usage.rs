//! Bytes that a flow causes on each segment of its relay path: copies, repairs, messages and
//! probes.
//!
//! [`cost`](crate::cost()) compares services; it leaves out what sessions exchange anyway. This
//! module predicts what relays are then billed for. Lengths and probes are those of Byway's packets
//! over IPv4, as the simulator counts them.

use byway_units::{Bytes, Money};
use byway_wire::Service;
use byway_wire::packets::{ENVELOPE_OVERHEAD, SourceHeader};

use crate::flow::{FlowTerms, HOUR};
use crate::price_table::SegmentPrices;

/// Bytes by which a copy is longer than its source packet: an envelope replaces the header.
#[allow(clippy::cast_precision_loss, reason = "it is a few bytes")]
const COPY_EXTRA_BYTES: f64 = (ENVELOPE_OVERHEAD - SourceHeader::CODED_START) as f64;

/// Bytes of a NACK to an egress relay, or of a request for copies between relays.
const NACK_BYTES: f64 = 70.0;

/// Bytes of a NACK or notice that relays forward from a receiver to its sender: one packet in
/// another.
const RELAYED_NACK_BYTES: f64 = 105.0;

/// Bytes of messages from the ingress to the egress relay for each packet that is sent again.
const RESEND_MESSAGE_BYTES: f64 = 27.0;

/// Bytes of NACKs to the sender for each lost packet of a burst after the first one: a long burst
/// is sometimes requested in two parts.
const FURTHER_NACK_BYTES: f64 = 5.0;

/// Bytes of NACKs to an egress relay without copies for each burst of losses, and of its requests
/// to the ingress relay. Some are repeated before the copies arrive. Both are measured by
/// `crates/scenario/tests/explanations.rs`.
const PULL_NACK_BYTES: f64 = 180.0;
const PULL_REQUEST_BYTES: f64 = 52.0;

/// Bytes of an egress relay's messages to the ingress relay for each loss that is also a silence:
/// forwarded notices, and requests for the copies that follow.
const NOTICE_BYTES: f64 = 480.0;

/// Time for which the ingress relay sends spurious copies after each burst of losses that is also a
/// silence. It declares an outage of the direct path until the next packet arrives. The time is
/// measured by `crates/scenario/tests/explanations.rs`.
const SPURIOUS_SECONDS: f64 = 0.065;

/// Greatest number of spurious copies after such a burst, measured by
/// `crates/scenario/tests/explanations.rs`.
const SPURIOUS_COPIES_MAX: f64 = 5.5;

/// Bytes of a tail-loss hint of an egress relay.
const HINT_BYTES: f64 = 65.0;

/// Bytes of probes and their answers in a second, in both directions of a session.
#[derive(Clone, Copy, Debug)]
struct ProbeBytes {
    /// From the agent to the relay, or from the ingress to the egress relay.
    forth: f64,
    /// In the other direction.
    back: f64,
}

/// Probes between an agent and a relay in use: one each 200 ms, as packets pass.
const AGENT_IN_USE: ProbeBytes = ProbeBytes { forth: 345.0, back: 399.0 };

/// Probes between an agent and a relay that is watched: one each 1.5 s.
const AGENT_WATCHED: ProbeBytes = ProbeBytes { forth: 53.0, back: 58.0 };

/// Probes between two relays in use.
const RELAYS_IN_USE: ProbeBytes = ProbeBytes { forth: 352.0, back: 406.0 };

/// Probes between two relays that no packet passes.
const RELAYS_IDLE: ProbeBytes = ProbeBytes { forth: 19.1, back: 16.8 };

/// Probes and messages for each request of a sender to a relay that it only watches: the request
/// keeps the session in use for a while.
const REQUEST_WATCHED: ProbeBytes = ProbeBytes { forth: 357.0, back: 396.0 };

/// Seconds for which a repair keeps a session in use.
const USE_SECONDS: f64 = 1.4;

/// Seconds for which a packet that is sent again keeps the session of two relays in use from the
/// ingress relay. The NACK before it crosses that session too.
const RESEND_USE_SECONDS: f64 = 2.1;

/// Facts about a flow's packets that its bytes depend on besides its rate and loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsageTerms {
    /// True if one relay is both ingress and egress.
    pub is_one_relay: bool,
    /// True if packets are so far apart that the egress relay of a flow with a cache takes each
    /// interval for a pause, and sends a hint.
    pub has_hints: bool,
    /// Share of the bursts of losses that are silences, 0 to 1: the receiver notifies its sender
    /// and the relays of these.
    pub silent_share: f64,
    /// Mean number of packets that are lost in a row, at least 1.
    pub burst: f64,
    /// Number of flows that share the sessions of the path, this one included; 0 counts as 1.
    pub flows: u32,
    /// Requests of the sender for the delay between the relays, in an hour.
    pub delay_requests_per_hour: u32,
}

/// Bytes in an hour on each segment of a flow's relay path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathUsage {
    /// From the sender to the ingress relay.
    pub sender_to_ingress: Bytes,
    /// From the ingress relay to the sender.
    pub ingress_to_sender: Bytes,
    /// From the ingress relay to the egress relay.
    pub ingress_to_egress: Bytes,
    /// From the egress relay to the ingress relay.
    pub egress_to_ingress: Bytes,
    /// From the egress relay to the receiver.
    pub egress_to_receiver: Bytes,
    /// From the receiver to the egress relay.
    pub receiver_to_egress: Bytes,
}

impl PathUsage {
    /// Predicts the bytes of a service for a flow whose losses are independent. For coding, those
    /// include the egress relay's requests to other receivers, and the packets with which these
    /// answer.
    #[must_use]
    pub fn new(service: Service, flow: &FlowTerms, terms: &UsageTerms) -> Self {
        if service == Service::Internet {
            return Self::default();
        }
        let rates = Rates::new(service, flow, terms.burst);
        let mut usage = rates.probes(service).scaled(1.0 / f64::from(terms.flows.max(1)));
        usage.add(&requests(service, terms));
        usage.add(&rates.packets(service, terms));
        if terms.is_one_relay {
            (usage.ingress_to_egress, usage.egress_to_ingress) = (0.0, 0.0);
        }
        usage.in_an_hour()
    }

    /// Returns the bytes that both relays send.
    #[must_use]
    pub fn relays_send(&self) -> Bytes {
        [self.ingress_to_sender, self.ingress_to_egress, self.egress_to_ingress, self.egress_to_receiver]
            .into_iter()
            .fold(Bytes::ZERO, Bytes::saturating_add)
    }

    /// Returns the cost of these bytes at both relays.
    #[must_use]
    pub fn cost(&self, prices: &SegmentPrices) -> Money {
        let [ingress, egress] = [&prices.ingress, &prices.egress];
        let between = self.ingress_to_egress;
        let items = [
            ingress.incoming.of(self.sender_to_ingress.saturating_add(self.egress_to_ingress)),
            ingress.to_agents.of(self.ingress_to_sender),
            ingress.to_relay.of(between),
            egress.incoming.of(self.receiver_to_egress.saturating_add(between)),
            egress.to_relay.of(self.egress_to_ingress),
            egress.to_agents.of(self.egress_to_receiver),
        ];
        items.into_iter().fold(Money::ZERO, Money::saturating_add)
    }
}

/// Bytes in a second on each segment.
#[derive(Clone, Copy, Debug, Default)]
struct SegmentRates {
    sender_to_ingress: f64,
    ingress_to_sender: f64,
    ingress_to_egress: f64,
    egress_to_ingress: f64,
    egress_to_receiver: f64,
    receiver_to_egress: f64,
}

impl SegmentRates {
    fn all_mut(&mut self) -> [&mut f64; 6] {
        [
            &mut self.sender_to_ingress,
            &mut self.ingress_to_sender,
            &mut self.ingress_to_egress,
            &mut self.egress_to_ingress,
            &mut self.egress_to_receiver,
            &mut self.receiver_to_egress,
        ]
    }

    fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (rate, more) in self.all_mut().into_iter().zip(other.all_mut()) {
            *rate += *more;
        }
    }

    fn scaled(mut self, factor: f64) -> Self {
        self.all_mut().into_iter().for_each(|rate| *rate *= factor);
        self
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are never negative, and the cast saturates"
    )]
    fn in_an_hour(self) -> PathUsage {
        let bytes = |rate: f64| Bytes::new((rate * HOUR.as_secs_f64() + 0.5) as u64);
        PathUsage {
            sender_to_ingress: bytes(self.sender_to_ingress),
            ingress_to_sender: bytes(self.ingress_to_sender),
            ingress_to_egress: bytes(self.ingress_to_egress),
            egress_to_ingress: bytes(self.egress_to_ingress),
            egress_to_receiver: bytes(self.egress_to_receiver),
            receiver_to_egress: bytes(self.receiver_to_egress),
        }
    }
}

/// Packets of a flow in a second, and their lengths.
#[derive(Clone, Copy, Debug)]
struct Rates {
    packets: f64,
    lost: f64,
    /// Bursts of losses in a second.
    bursts: f64,
    copy_bytes: f64,
    repair_bytes: f64,
    /// Bytes of requests to the receivers of other flows, and of their answers.
    requests: f64,
    answers: f64,
}

impl Rates {
    #[allow(clippy::cast_precision_loss, reason = "costs are known to a few digits")]
    fn new(service: Service, flow: &FlowTerms, burst: f64) -> Self {
        let packet_bytes = flow.packet.count().max(1) as f64;
        let packets = flow.rate.bits_per_second() as f64 / 8.0 / packet_bytes;
        let traffic = flow.traffic();
        let in_a_second = |bytes: Bytes| bytes.count() as f64 / HOUR.as_secs_f64();
        let share = traffic.repairs.count() as f64 / traffic.source.count().max(1) as f64;
        let repairs = if service == Service::Coding { share } else { 0.0 };
        let copy_bytes = packet_bytes + COPY_EXTRA_BYTES;
        Self {
            packets,
            lost: packets * flow.loss.value(),
            bursts: packets * flow.loss.value() / burst.max(1.0),
            copy_bytes,
            repair_bytes: packets * repairs * copy_bytes,
            requests: in_a_second(traffic.requests),
            answers: in_a_second(traffic.answers),
        }
    }

    /// Returns the probes of all three sessions.
    fn probes(self, service: Service) -> SegmentRates {
        let relays = self.used(RELAYS_IDLE, RELAYS_IN_USE, USE_SECONDS);
        let resent = self.used(RELAYS_IDLE, RELAYS_IN_USE, RESEND_USE_SECONDS);
        let (sender, between, receiver) = match service {
            Service::Retransmission => {
                (AGENT_WATCHED, ProbeBytes { forth: resent.forth, ..relays }, AGENT_WATCHED)
            }
            Service::Pull => (AGENT_IN_USE, relays, self.used(AGENT_WATCHED, AGENT_IN_USE, USE_SECONDS)),
            _ => (AGENT_IN_USE, RELAYS_IN_USE, AGENT_IN_USE),
        };
        SegmentRates {
            sender_to_ingress: sender.forth,
            ingress_to_sender: sender.back,
            ingress_to_egress: between.forth,
            egress_to_ingress: between.back,
            egress_to_receiver: receiver.back,
            receiver_to_egress: receiver.forth,
        }
    }

    /// Returns the probes of a session that is in use for this time after each burst of losses. The
    /// times between bursts have an exponential distribution.
    fn used(self, idle: ProbeBytes, in_use: ProbeBytes, seconds: f64) -> ProbeBytes {
        let share = 1.0 - exponential(-self.bursts * seconds);
        let between = |idle: f64, in_use: f64| idle + (in_use - idle) * share;
        ProbeBytes { forth: between(idle.forth, in_use.forth), back: between(idle.back, in_use.back) }
    }

    /// Returns copies, repairs and messages.
    fn packets(self, service: Service, terms: &UsageTerms) -> SegmentRates {
        let all = self.packets * self.copy_bytes;
        let repaired = self.lost * self.copy_bytes;
        let nacks = self.lost * NACK_BYTES;
        let hints = if terms.has_hints { self.packets * HINT_BYTES } else { 0.0 };
        let noticed = self.bursts * terms.silent_share;
        let copies_per_silence = (self.packets * SPURIOUS_SECONDS).min(SPURIOUS_COPIES_MAX);
        let spurious = noticed * copies_per_silence * self.copy_bytes;
        let copied = SegmentRates {
            sender_to_ingress: all,
            ingress_to_sender: noticed * RELAYED_NACK_BYTES,
            ..SegmentRates::default()
        };
        match service {
            Service::Internet => SegmentRates::default(),
            Service::Forwarding | Service::Both => {
                SegmentRates { ingress_to_egress: all, egress_to_receiver: all, ..copied }
            }
            Service::Caching => SegmentRates {
                ingress_to_egress: all + spurious,
                egress_to_ingress: noticed * NOTICE_BYTES,
                egress_to_receiver: repaired + hints,
                receiver_to_egress: nacks,
                ..copied
            },
            Service::Coding => SegmentRates {
                ingress_to_egress: self.repair_bytes,
                egress_to_receiver: repaired + self.requests,
                receiver_to_egress: nacks + self.answers,
                ..copied
            },
            Service::Pull => SegmentRates {
                ingress_to_egress: repaired + spurious,
                egress_to_ingress: self.bursts * PULL_REQUEST_BYTES + noticed * NOTICE_BYTES,
                egress_to_receiver: repaired,
                receiver_to_egress: self.bursts * PULL_NACK_BYTES,
                ..copied
            },
            Service::Retransmission => {
                let further = (self.lost - self.bursts) * FURTHER_NACK_BYTES;
                let relayed = self.bursts * RELAYED_NACK_BYTES + further;
                SegmentRates {
                    sender_to_ingress: repaired,
                    ingress_to_sender: relayed,
                    ingress_to_egress: repaired + self.lost * RESEND_MESSAGE_BYTES,
                    egress_to_ingress: relayed,
                    egress_to_receiver: repaired,
                    receiver_to_egress: relayed,
                }
            }
        }
    }
}

/// Returns the bytes of the sender's requests for the delay between the relays. Other services than
/// retransmission probe the session anyway.
fn requests(service: Service, terms: &UsageTerms) -> SegmentRates {
    let is_watched = service == Service::Retransmission;
    let requests =
        if is_watched { f64::from(terms.delay_requests_per_hour) / HOUR.as_secs_f64() } else { 0.0 };
    SegmentRates {
        sender_to_ingress: requests * REQUEST_WATCHED.forth,
        ingress_to_sender: requests * REQUEST_WATCHED.back,
        ..SegmentRates::default()
    }
}

/// Returns e to the power of a number below 0, by its series: this crate has no library of
/// mathematical functions.
fn exponential(power: f64) -> f64 {
    // Below a 64th, four terms have nine exact digits; each doubling squares the result.
    const DOUBLINGS: u32 = 12;
    let part = power.max(-32.0) / f64::from(1 << DOUBLINGS);
    let small = 1.0 + part * (1.0 + part / 2.0 * (1.0 + part / 3.0 * (1.0 + part / 4.0)));
    (0..DOUBLINGS).fold(small, |value, _| value * value)
}

#[cfg(test)]
mod tests {
    use byway_units::{Probability, Rate};

    use super::*;
    use crate::flow::MessageOverhead;
    use crate::price::PricePerGigabyte;
    use crate::price_table::OneRelayPrices;

    fn flow(loss: f64) -> FlowTerms {
        FlowTerms {
            // A hundred packets a second.
            rate: Rate::from_kilobits_per_second(800),
            packet: Bytes::new(1_000),
            cross_stream: None,
            messages: MessageOverhead::Counted,
            ..FlowTerms::published_call(Probability::new(loss).expect("a share"))
        }
    }

    const ALONE: UsageTerms = UsageTerms {
        is_one_relay: false,
        has_hints: false,
        silent_share: 0.0,
        burst: 1.0,
        flows: 1,
        delay_requests_per_hour: 0,
    };

    fn per_second(bytes: Bytes) -> u64 {
        bytes.count() / 3_600
    }

    #[test]
    fn copies_and_repairs_cross_the_segments_that_each_service_uses() {
        let usage = |service| PathUsage::new(service, &flow(0.05), &ALONE);
        let copies = 100 * 1_021;
        for (service, to_ingress, between, to_receiver) in [
            (Service::Internet, 0, 0, 0),
            (Service::Caching, copies, copies, copies / 20),
            (Service::Pull, copies, copies / 20, copies / 20),
            (Service::Retransmission, copies / 20, copies / 20, copies / 20),
            (Service::Forwarding, copies, copies, copies),
            (Service::Both, copies, copies, copies),
        ] {
            let usage = usage(service);
            let segments = [usage.sender_to_ingress, usage.ingress_to_egress, usage.egress_to_receiver];
            for (found, expected) in
                segments.map(per_second).into_iter().zip([to_ingress, between, to_receiver])
            {
                assert!((expected..=expected + 1_200).contains(&found), "{service:?}: {usage:?}");
            }
        }
    }

    #[test]
    fn flows_share_probes_and_a_lone_relay_sends_itself_nothing() {
        let usage = |terms| PathUsage::new(Service::Retransmission, &flow(0.0), &terms);
        let alone = usage(ALONE);
        assert_eq!(per_second(alone.egress_to_receiver), 58);
        let ten = usage(UsageTerms { flows: 10, ..ALONE });
        assert_eq!(per_second(ten.egress_to_receiver), 5);
        let one_relay = usage(UsageTerms { is_one_relay: true, ..ALONE });
        assert!(one_relay.ingress_to_egress.is_zero() && one_relay.egress_to_ingress.is_zero());
        assert!(!alone.ingress_to_egress.is_zero());
    }

    #[test]
    fn losses_in_bursts_wake_sessions_less_often() {
        let usage = |burst| PathUsage::new(Service::Pull, &flow(0.005), &UsageTerms { burst, ..ALONE });
        assert!(usage(5.0).egress_to_receiver < usage(1.0).egress_to_receiver);
    }

    #[test]
    fn silences_cause_spurious_copies_and_requests_keep_a_watched_session_in_use() {
        let usage = |service, terms| PathUsage::new(service, &flow(0.02), &terms);
        let copies_and_notices = |silent_share| {
            let usage = usage(Service::Pull, UsageTerms { silent_share, ..ALONE });
            (per_second(usage.ingress_to_egress), per_second(usage.egress_to_ingress))
        };
        // Two losses in a second, each with 5.5 spurious copies of 1,021 bytes.
        let (without, with) = (copies_and_notices(0.0), copies_and_notices(1.0));
        assert_eq!((with.0 - without.0, with.1 - without.1), (2 * 1_021 * 11 / 2, 2 * 480));
        let asked = |service, delay_requests_per_hour| {
            per_second(usage(service, UsageTerms { delay_requests_per_hour, ..ALONE }).ingress_to_sender)
        };
        let more = |service| asked(service, 3_600) - asked(service, 0);
        assert_eq!((more(Service::Retransmission), more(Service::Pull)), (396, 0));
    }

    #[test]
    fn the_series_is_the_exponential_function() {
        for (power, expected) in [(0.0, 1.0), (-1.0, 0.367_879_441), (-7.0, 0.000_911_882), (-90.0, 0.0)] {
            assert!((exponential(power) - expected).abs() < 1e-9, "{power}: {}", exponential(power));
        }
    }

    #[test]
    fn every_segment_has_its_price() {
        let price = |cents| PricePerGigabyte::new(Money::from_cents(cents));
        let relay =
            |at| OneRelayPrices { incoming: price(at), to_relay: price(10 * at), to_agents: price(100 * at) };
        let prices = SegmentPrices { ingress: relay(1), egress: relay(1_000) };
        let gigabyte = Bytes::new(1_000_000_000);
        let cost = |usage: PathUsage| usage.cost(&prices).nanodollars() / 10_000_000;
        let none = PathUsage::default();
        assert_eq!(cost(PathUsage { sender_to_ingress: gigabyte, ..none }), 1);
        assert_eq!(cost(PathUsage { ingress_to_sender: gigabyte, ..none }), 100);
        assert_eq!(cost(PathUsage { ingress_to_egress: gigabyte, ..none }), 10 + 1_000);
        assert_eq!(cost(PathUsage { egress_to_ingress: gigabyte, ..none }), 10_000 + 1);
        assert_eq!(cost(PathUsage { egress_to_receiver: gigabyte, ..none }), 100_000);
        assert_eq!(cost(PathUsage { receiver_to_egress: gigabyte, ..none }), 1_000);
    }
}
