//! Properties of services, limits of code rates, and the token bucket of a receiver's consent.

use byway_units::{Bytes, Duration, Probability, Rate, Time};
use byway_wire::messages::Consent;
use byway_wire::{BlockShape, SequenceNumber, Service};

use crate::limits::{
    BATCH_REPAIRS_MAX, BATCH_WAIT_DIVISOR, BATCH_WAIT_MAX, BLOCK_REPAIRS_MAX, BLOCK_WAIT_DIVISOR,
    BLOCK_WAIT_MAX, CODING_WAIT_MIN, CONSENT, DIRECT_SAMPLE_INTERVAL,
};
use crate::parts::token_bucket::TokenBucket;

/// Code rates of a flow, in-stream and cross-stream (CASPR, section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingRates {
    /// `n_s` source packets and `r_s` repair packets of an in-stream block; `None` for no in-stream
    /// coding.
    pub in_stream: Option<BlockShape>,
    /// Most source packets k of a cross-stream batch, and `r_c` repair packets of a full one;
    /// `None` for no cross-stream coding.
    pub batch: Option<BlockShape>,
}

impl Default for CodingRates {
    /// Returns the published defaults: s = 1/5, r = 2/10.
    fn default() -> Self {
        Self { in_stream: BlockShape::new(5, 1), batch: BlockShape::new(10, 2) }
    }
}

/// Returns the longest time for which a packet of a flow with this latency budget waits until its
/// cross-stream batch is full.
#[must_use]
pub(crate) fn batch_wait(latency_budget: Duration) -> Duration {
    (latency_budget / BATCH_WAIT_DIVISOR).clamp(CODING_WAIT_MIN, BATCH_WAIT_MAX)
}

/// Returns the longest time for which an in-stream block of a flow with this latency budget waits
/// for more source packets.
pub(crate) fn block_wait(latency_budget: Duration) -> Duration {
    (latency_budget / BLOCK_WAIT_DIVISOR).clamp(CODING_WAIT_MIN, BLOCK_WAIT_MAX)
}

/// Returns true if source packets of the service use the direct path.
pub(crate) const fn is_direct(service: Service) -> bool {
    !matches!(service, Service::Forwarding)
}

/// Returns true if a flow that relays alone forward also sends this packet on the direct path, as a
/// sample. The receiver measures the delay and the loss of that path by these packets.
pub(crate) const fn samples_direct_path(sequence: SequenceNumber) -> bool {
    sequence.number().is_multiple_of(DIRECT_SAMPLE_INTERVAL)
}

/// Returns true if the ingress relay gets copies of the service's packets: of all, or of those that
/// the direct path loses.
pub(crate) const fn copies(service: Service) -> bool {
    !matches!(service, Service::Internet)
}

/// Returns true if the egress relay delivers all copies of the service without a request.
pub(crate) const fn forwards(service: Service) -> bool {
    matches!(service, Service::Forwarding | Service::Both | Service::Retransmission)
}

/// Returns true if all packets of the service use relays, and the egress relay delivers them.
pub(crate) const fn forwards_all(service: Service) -> bool {
    matches!(service, Service::Forwarding | Service::Both)
}

/// Returns true if a receiver sends NACKs for missing packets: to its egress relay, or to the
/// sender.
pub(crate) const fn repairs(service: Service) -> bool {
    copies(service)
}

/// Returns true if the sender sends lost packets again through relays, and otherwise copies
/// packets in an outage of the direct path only.
pub(crate) const fn retransmits(service: Service) -> bool {
    matches!(service, Service::Retransmission)
}

/// Returns true if copies stay at the ingress relay. Egress relays get those that they request,
/// and all of them in an outage of the direct path.
pub(crate) const fn fetches(service: Service) -> bool {
    matches!(service, Service::Coding | Service::Pull)
}

/// Returns true if copies wait at the ingress relay, and egress relays get those that they request.
pub(crate) const fn pulls(service: Service) -> bool {
    matches!(service, Service::Pull)
}

/// Returns true if the sender or the ingress relay answers requests for lost packets. An open-ended
/// NACK is then answered only after the silence has lasted for a while.
pub(crate) const fn is_repaired_from_afar(service: Service) -> bool {
    retransmits(service) || pulls(service)
}

/// Returns true if all packets use the direct path alone, and its losses are repaired on request.
pub(crate) const fn repairs_on_request(service: Service) -> bool {
    copies(service) && is_direct(service) && !uses_both_paths(service)
}

/// Returns true if a flow with this service may leave the direct path for a route over relays. The
/// service uses that path, and relays at need.
pub(crate) const fn may_have_route(service: Service) -> bool {
    repairs_on_request(service) || uses_both_paths(service)
}

/// Returns true if a receiver stores the coded bytes of the service's packets, to restore others
/// from them and to help other receivers.
pub(crate) const fn buffers_packets(service: Service) -> bool {
    matches!(service, Service::Coding | Service::Caching)
}

/// Returns true if the service sends every packet on the direct path and through relays. A packet
/// is lost only if neither path delivers it.
pub(crate) const fn uses_both_paths(service: Service) -> bool {
    matches!(service, Service::Both)
}

/// Returns the consent of a receiver to return this share of its flow's rate in the long run.
///
/// Up to the whole rate is allowed for as long as with [`CONSENT`]. A share of zero allows nothing,
/// not even that. Shares below a thousandth count as one.
#[must_use]
pub fn consent(share: Probability) -> Consent {
    let least = u16::from(share > Probability::ZERO);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is between 0 and 1")]
    let per_mille = (share.value() * 1_000.0 + 0.5) as u16;
    let average_per_mille = per_mille.max(least);
    let burst_percent = if average_per_mille == 0 { 0 } else { CONSENT.burst_percent };
    Consent { burst_percent, average_per_mille, ..CONSENT }
}

/// Returns the token bucket of the bytes that a receiver may send for repairs of other flows, for a
/// flow of its own with this rate.
pub(crate) fn consent_bucket(consent: Consent, rate: Rate, now: Time) -> TokenBucket<Bytes> {
    let refill = rate.bits_per_second() / 1_000 * u64::from(consent.average_per_mille);
    let whole = rate.bytes_in(Duration::from_secs(u64::from(consent.seconds))).unwrap_or(Bytes::MAX);
    let burst = Bytes::new(whole.count() / 100 * u64::from(consent.burst_percent));
    TokenBucket::of_bytes(Rate::from_bits_per_second(refill), burst, now)
}

impl CodingRates {
    /// Returns true if relays can store the repair packets of such batches and blocks.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        let in_stream =
            self.in_stream.is_none_or(|shape| usize::from(shape.repair_packets()) <= BLOCK_REPAIRS_MAX);
        let batch = self.batch.is_none_or(|shape| usize::from(shape.repair_packets()) <= BATCH_REPAIRS_MAX);
        in_stream && batch
    }
}
