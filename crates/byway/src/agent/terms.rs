//! From forwards to what agents agree on.

use byway_proto::agent::{Duplication, Offer, Terms};

use super::subject::Subject;
use crate::settings::Forward;

/// What a peer is offered for an application's endpoint: the same in both directions.
pub(super) fn offer_of(forward: &Forward, source: u32) -> Offer {
    let subject = Subject { source, name: forward.to.clone() };
    Offer { forth: forth(forward), back: back(forward), subject: subject.bytes() }
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

/// What comes back: the same, but for what only this end's uplink is too narrow for.
pub(super) fn back(forward: &Forward) -> Terms {
    Terms { duplication: Duplication::Usual, ..forth(forward) }
}
