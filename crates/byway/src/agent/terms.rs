//! From forwards to what agents agree on.

use byway_proto::agent::{Offer, Terms};
use byway_proto::conventions::{self, Subject, offer_for};

use crate::settings::Forward;

/// What a peer is offered for an application's endpoint: the same in both directions.
pub(super) fn offer_of(forward: &Forward, source: u32) -> Offer {
    offer_for(forth(forward), &Subject { source, name: forward.to.clone() })
}

/// What this end sends.
pub(super) fn forth(forward: &Forward) -> Terms {
    Terms {
        service: forward.service,
        rates: forward.rates,
        rate: forward.rate,
        latency_budget: forward.latency_budget,
        duplication: forward.duplication,
        traffic: forward.traffic,
        standby: forward.standby,
        shares: false,
    }
}

/// What comes back.
pub(super) fn back(forward: &Forward) -> Terms {
    conventions::back(&forth(forward))
}
