//! What services and rates mean to agents and relays.

use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::messages::Consent;
use byway_wire::{BlockShape, Service};

use crate::limits::{BATCH_REPAIRS_MAX, BLOCK_REPAIRS_MAX};
use crate::parts::token_bucket::TokenBucket;

/// How a flow is coded (CASPR 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingRates {
    /// `n_s` source packets and `r_s` repair packets of an in-stream block; `None` for no in-stream coding.
    pub in_stream: Option<BlockShape>,
    /// Most source packets k of a cross-stream batch, and `r_c` repair packets of a full one; `None` for no
    /// cross-stream coding.
    pub batch: Option<BlockShape>,
}

impl Default for CodingRates {
    /// The published defaults: s = 1/5, r = 2/10.
    fn default() -> Self {
        Self { in_stream: BlockShape::new(5, 1), batch: BlockShape::new(10, 2) }
    }
}

/// Whether packets take the direct path.
pub(crate) const fn is_direct(service: Service) -> bool {
    !matches!(service, Service::Forwarding)
}

/// Whether the ingress relay gets copies.
pub(crate) const fn copies(service: Service) -> bool {
    !matches!(service, Service::Internet)
}

/// Whether the egress relay delivers what comes.
pub(crate) const fn forwards(service: Service) -> bool {
    matches!(service, Service::Forwarding | Service::Both)
}

/// Whether a receiver asks its egress relay for repairs: that has every packet, or repair packets for it.
pub(crate) const fn repairs(service: Service) -> bool {
    copies(service)
}

/// Whether a receiver keeps packets, to rebuild others from them and to help other receivers.
pub(crate) const fn keeps(service: Service) -> bool {
    matches!(service, Service::Coding | Service::Caching)
}

/// Whether packets come on two ways: what came on neither is missing.
pub(crate) const fn takes_two_ways(service: Service) -> bool {
    is_direct(service) && forwards(service)
}

/// The account of what a receiver with a flow of this rate still gives for others.
pub(crate) fn consent_account(consent: Consent, rate: Rate, now: Time) -> TokenBucket<Bytes> {
    let refill = rate.bits_per_second() / 1_000 * u64::from(consent.average_per_mille);
    let whole = rate.bytes_in(Duration::from_secs(u64::from(consent.seconds))).unwrap_or(Bytes::MAX);
    let burst = Bytes::new(whole.count() / 100 * u64::from(consent.burst_percent));
    TokenBucket::of_bytes(Rate::from_bits_per_second(refill), burst, now)
}

impl CodingRates {
    /// Whether batches and blocks are within what relays keep.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        let in_stream =
            self.in_stream.is_none_or(|shape| usize::from(shape.repair_packets()) <= BLOCK_REPAIRS_MAX);
        let batch = self.batch.is_none_or(|shape| usize::from(shape.repair_packets()) <= BATCH_REPAIRS_MAX);
        in_stream && batch
    }
}
