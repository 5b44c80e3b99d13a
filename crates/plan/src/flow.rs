//! Traffic of a flow: its packets, and the bytes of its recovery.

use byway_units::{Bytes, Duration, Probability, Rate};
use byway_wire::BlockShape;
use byway_wire::messages::{CrossStreamHead, InStreamHead};
use byway_wire::packets::{ENVELOPE_OVERHEAD, MESSAGE_OVERHEAD};

/// Period for which costs are computed: prices of machines and the published costs are per hour.
pub const HOUR: Duration = Duration::from_secs(3_600);

/// Length of the headers of IPv4 and UDP in bytes, which clouds bill too.
pub const IP_AND_UDP_BYTES: u64 = 28;

/// Length of a packet with one NACK of one range in bytes, headers of IP and UDP included.
pub const NACK_BYTES: u64 = IP_AND_UDP_BYTES + MESSAGE_OVERHEAD as u64 + 21;

/// Length of a packet with one cooperative request of one range in bytes, headers of IP and UDP
/// included.
pub const REQUEST_BYTES: u64 = IP_AND_UDP_BYTES + MESSAGE_OVERHEAD as u64 + 16;

/// Accounting of the messages that recovery needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOverhead {
    /// NACKs, requests and answers are neglected, and repair packets are as long as source packets.
    ///
    /// The published numbers use this.
    Neglected,
    /// All messages that Byway sends are counted: see [`FlowTerms::traffic`].
    Counted,
}

/// Properties of a flow: rate, loss, and parameters of coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTerms {
    /// Rate of the source packets, as relays see copies of them: headers included.
    pub rate: Rate,
    /// Length of a source packet with headers; zero counts as one byte.
    pub packet: Bytes,
    /// `p`: share of source packets that the direct path loses.
    pub loss: Probability,
    /// Share of packets that the direct paths of the other flows in its batches lose; `None` if it
    /// is the same.
    pub loss_of_others: Option<Probability>,
    /// Share of packets that relays lose if they alone forward the flow; `None` if nobody has
    /// measured it.
    pub relay_loss: Option<Probability>,
    /// Shape of batches across flows: `k` flows and their repair packets; `r` is the ratio of the
    /// two. `None` if no other flow can be coded with this one.
    pub cross_stream: Option<BlockShape>,
    /// Shape of blocks along the flow; `s` is the ratio of repair packets to source packets. `None`
    /// without in-stream coding.
    pub in_stream: Option<BlockShape>,
    /// Accounting of the messages for recovery.
    pub messages: MessageOverhead,
}

/// Bytes of one flow and its recovery in one [`HOUR`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// `b`: bytes of all source packets.
    pub source: Bytes,
    /// `b (r + s)`: bytes of repair packets between the relays.
    pub repairs: Bytes,
    /// `b p`: bytes of repairs that the egress relay sends for lost packets.
    pub resent: Bytes,
    /// `N`: bytes of the receiver's NACKs.
    pub nacks: Bytes,
    /// `Q`: bytes of requests to cooperating receivers.
    pub requests: Bytes,
    /// `A`: bytes of the cooperating receivers' answers.
    pub answers: Bytes,
}

impl FlowTerms {
    /// Returns the flow of J-QoS, section 5.1.1: a video call of 1.5 Mbit/s, two repair packets for
    /// ten flows, no in-stream coding; messages neglected.
    ///
    /// It assumes packets of 1,200 bytes: a video call uses most of the length that fits through
    /// any path. Relays lose nothing.
    #[must_use]
    pub fn published_call(loss: Probability) -> Self {
        Self {
            rate: Rate::from_kilobits_per_second(1_500),
            packet: Bytes::new(1_200),
            loss,
            loss_of_others: None,
            relay_loss: Some(Probability::ZERO),
            cross_stream: BlockShape::new(10, 2),
            in_stream: None,
            messages: MessageOverhead::Neglected,
        }
    }

    /// Returns this flow on a direct path that loses this share of packets.
    #[must_use]
    pub const fn at_loss(self, loss: Probability) -> Self {
        Self { loss, ..self }
    }

    /// Returns `r + s`: the number of repair packets for each source packet.
    #[must_use]
    pub fn overhead(&self) -> f64 {
        [self.cross_stream, self.in_stream].into_iter().flatten().map(ratio).sum()
    }

    /// Returns the share of lost packets that the flow's in-stream repair packets restore, without
    /// packets of other receivers.
    ///
    /// It assumes independent losses; bursts are worse.
    #[must_use]
    pub fn repaired_in_stream(&self) -> Probability {
        self.in_stream.map_or(Probability::ZERO, |shape| repaired(shape, self.loss))
    }

    /// Returns the share of lost packets that coding restores if the other flows of a batch lose
    /// [`Self::loss_of_others`], independently.
    ///
    /// A batch of `k` flows with `r` repair packets restores a lost packet if at most `r - 1` of
    /// the others are lost too. The measured share may be higher or lower. If only one flow has
    /// losses, all its packets are restored. Late answers count as lost.
    #[must_use]
    pub fn repaired_by_coding(&self) -> Probability {
        let loss = self.loss_of_others.unwrap_or(self.loss);
        let across = self.cross_stream.map_or(Probability::ZERO, |shape| repaired(shape, loss));
        (self.repaired_in_stream().complement() * across.complement()).complement()
    }

    /// Returns the bytes of the flow and its recovery in an hour.
    ///
    /// If messages are counted, their numbers are upper bounds, because lost packets of one burst
    /// share messages:
    /// - `N`: a packet of [`NACK_BYTES`] for each lost packet;
    /// - `Q`: for each lost packet that in-stream repair packets do not restore, [`REQUEST_BYTES`]
    ///   to each of the `k - 1` other receivers of its batch;
    /// - `A`: from each of these that has its packet (a share `1 - p`), the packet in an envelope;
    /// - repair packets are longer than source packets by their descriptions of the covered
    ///   packets.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let source = self.rate.bytes_in(HOUR).unwrap_or(Bytes::MAX);
        let lost_packets = as_number(source) / self.packet_bytes() * self.loss.value();
        let (requests, answers) = self.cooperation(lost_packets);
        let nacks = self.messages.if_counted(lost_packets * as_number(Bytes::new(NACK_BYTES)));
        Traffic {
            source,
            repairs: nearest(as_number(source) * self.repair_bytes_per_source_byte()),
            resent: nearest(as_number(source) * self.loss.value()),
            nacks: nearest(nacks),
            requests: nearest(requests),
            answers: nearest(answers),
        }
    }

    /// Returns `Q` and `A`, the bytes of requests and answers, for this number of lost packets.
    fn cooperation(&self, lost_packets: f64) -> (f64, f64) {
        let others = self.cross_stream.map_or(0.0, |shape| f64::from(shape.source_packets()) - 1.0);
        let request_count = lost_packets * self.repaired_in_stream().complement().value() * others;
        let requests = request_count * as_number(Bytes::new(REQUEST_BYTES));
        let answers = request_count * self.loss.complement().value() * self.packet_bytes();
        (self.messages.if_counted(requests), self.messages.if_counted(answers))
    }

    fn repair_bytes_per_source_byte(&self) -> f64 {
        let across = self.cross_stream.map_or(0.0, |shape| {
            let head_bytes = CrossStreamHead::bytes(usize::from(shape.source_packets()), true);
            ratio(shape) * self.relative_length(head_bytes)
        });
        let along =
            self.in_stream.map_or(0.0, |shape| ratio(shape) * self.relative_length(InStreamHead::BYTES));
        across + along
    }

    /// Returns the length of a sent repair packet, as a multiple of a source packet's length.
    /// `head_bytes` is the length of the repair message before its payload. A repair packet is
    /// sealed as a message, and the relays' copy of a source packet as an envelope, so their
    /// overheads differ.
    fn relative_length(&self, head_bytes: usize) -> f64 {
        let added = as_number(Bytes::from(MESSAGE_OVERHEAD + head_bytes));
        let removed = as_number(Bytes::from(ENVELOPE_OVERHEAD));
        1.0 + self.messages.if_counted(added - removed) / self.packet_bytes()
    }

    fn packet_bytes(&self) -> f64 {
        as_number(self.packet.max(Bytes::new(1)))
    }
}

impl MessageOverhead {
    /// Returns this number of bytes if messages are counted, otherwise zero.
    fn if_counted(self, number: f64) -> f64 {
        if self == Self::Counted { number } else { 0.0 }
    }
}

/// Returns the number of repair packets for each source packet, in blocks or batches of this shape.
fn ratio(shape: BlockShape) -> f64 {
    f64::from(shape.repair_packets()) / f64::from(shape.source_packets())
}

/// Returns the share of lost packets that a block or batch of this shape restores. It is the
/// probability that fewer of the other source packets are lost than there are repair packets. Each
/// is lost with probability `loss`.
pub(crate) fn repaired(shape: BlockShape, loss: Probability) -> Probability {
    let other_count = u32::from(shape.source_packets()) - 1;
    let (loss_share, arrived) = (loss.value(), loss.complement().value());
    let mut combinations = 1.0;
    let mut total = 0.0;
    for count in 0..u32::from(shape.repair_packets()).min(other_count + 1) {
        total += combinations * power(loss_share, count) * power(arrived, other_count - count);
        combinations *= f64::from(other_count - count) / f64::from(count + 1);
    }
    Probability::new(total.clamp(0.0, 1.0)).expect("a clamped sum of chances is a probability")
}

/// Returns `base` to the power of `times`; 1 for zero times.
fn power(base: f64, times: u32) -> f64 {
    (0..times).fold(1.0, |product, _| product * base)
}

#[allow(clippy::cast_precision_loss, reason = "costs are known to a few digits")]
fn as_number(bytes: Bytes) -> f64 {
    bytes.count() as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares of a flow's bytes are never negative, and the cast saturates"
)]
fn nearest(bytes: f64) -> Bytes {
    Bytes::new((bytes + 0.5) as u64)
}

#[cfg(test)]
mod tests {
    use byway_wire::messages::{CooperativeRequest, Nack};
    use byway_wire::{Alias, Microseconds, RangeSet, SequenceNumber, Writer};

    use super::*;

    fn share(value: f64) -> Probability {
        Probability::new(value).expect("the test gives a share")
    }

    #[test]
    fn messages_are_as_long_as_the_wire_has_them() {
        let mut ranges = RangeSet::new();
        assert!(ranges.insert(SequenceNumber::new(7)));
        let (alias, repair_lifetime) = (Alias::new(3).expect("3 is not 0"), Microseconds::new(40_000));
        let mut buffer = [0; 100];
        let length = |writer: &Writer<'_>| {
            IP_AND_UDP_BYTES + u64::try_from(MESSAGE_OVERHEAD + writer.length()).expect("it is short")
        };

        let nack = Nack {
            alias,
            open_from_low: None,
            noticed_by_timer: false,
            answers_confirm: false,
            queue_grows: false,
            repair_lifetime,
            ranges: ranges.ranges(),
        };
        let mut writer = Writer::new(&mut buffer);
        nack.emit(&mut writer).expect("there is room");
        assert_eq!(length(&writer), NACK_BYTES);

        let request = CooperativeRequest { alias, repair_lifetime, ranges: ranges.ranges() };
        let mut writer = Writer::new(&mut buffer);
        request.emit(&mut writer).expect("there is room");
        assert_eq!(length(&writer), REQUEST_BYTES);
    }

    #[test]
    fn neglected_messages_leave_the_published_terms() {
        let traffic = FlowTerms::published_call(share(0.01)).traffic();
        let expected = Traffic {
            source: Bytes::new(675_000_000),
            repairs: Bytes::new(135_000_000),
            resent: Bytes::new(6_750_000),
            ..Traffic::default()
        };
        assert_eq!(traffic, expected);
    }

    #[test]
    fn on_the_wire_every_lost_packet_costs_messages() {
        let flow = FlowTerms { messages: MessageOverhead::Counted, ..FlowTerms::published_call(share(0.01)) };
        let traffic = flow.traffic();
        // 562,500 packets in an hour: 5,625 are lost, each with nine requests.
        assert_eq!(traffic.nacks, Bytes::new(5_625 * NACK_BYTES));
        assert_eq!(traffic.requests, Bytes::new(5_625 * 9 * REQUEST_BYTES));
        assert_eq!(traffic.answers, Bytes::new(60_142_500));
        // A head of 11 + 10 * 10 bytes and a message's overhead of 25 replace an envelope's 32.
        assert_eq!(traffic.repairs, Bytes::new(135_000_000 / 1_200 * (1_200 + 111 + 25 - 32)));
    }

    #[test]
    fn in_stream_repairs_spare_requests() {
        let lone = FlowTerms { messages: MessageOverhead::Counted, ..FlowTerms::published_call(share(0.01)) };
        let both = FlowTerms { in_stream: BlockShape::new(5, 1), ..lone };
        assert!(both.traffic().requests < lone.traffic().requests);
        assert!((both.repaired_in_stream().value() - 0.99_f64.powi(4)).abs() < 1e-12);
        assert!((both.overhead() - 0.4).abs() < 1e-12);
        let alone = FlowTerms { cross_stream: None, ..both };
        assert!(alone.traffic().requests.is_zero() && alone.traffic().answers.is_zero());
    }

    #[test]
    fn batches_repair_up_to_their_repair_packets() {
        let flow = FlowTerms::published_call(share(0.1));
        let expected = 0.9_f64.powi(9) + 9.0 * 0.1 * 0.9_f64.powi(8);
        assert!((flow.repaired_by_coding().value() - expected).abs() < 1e-12);
        assert_eq!(flow.at_loss(Probability::ZERO).repaired_by_coding(), Probability::ONE);
        assert_eq!(flow.at_loss(Probability::ONE).repaired_by_coding(), Probability::ZERO);
        let nobody = FlowTerms { cross_stream: None, ..flow };
        assert_eq!(nobody.repaired_by_coding(), Probability::ZERO);
    }
}
