//! From what is wanted to what agents agree on.

use byway_proto::agent::{Offer, Terms, Traffic};
use byway_proto::conventions::{self, Subject, offer_for};

use crate::settings::Wanted;

/// What a peer is offered for what carries this, under this name: the same in both directions.
pub(super) fn offer_of(wanted: &Wanted, traffic: Traffic, subject: &Subject) -> Offer {
    offer_for(wanted.forth(traffic), subject)
}

/// What comes back.
pub(super) fn back(wanted: &Wanted, traffic: Traffic) -> Terms {
    conventions::back(&wanted.forth(traffic))
}
