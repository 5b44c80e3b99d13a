//! Conversion of flow settings into the terms that two agents negotiate.

use byway_proto::agent::{Offer, Terms, Traffic};
use byway_proto::conventions::{self, Subject, offer_for};

use crate::settings::FlowSpec;

/// Returns the offer of a mapping with this traffic and subject. Both directions have the same
/// terms.
pub(super) fn build_offer(wanted: &FlowSpec, traffic: Traffic, subject: &Subject) -> Offer {
    offer_for(wanted.forward_terms(traffic), subject)
}

/// Returns the terms of the flow that returns from the peer.
pub(super) fn return_terms(wanted: &FlowSpec, traffic: Traffic) -> Terms {
    conventions::reverse_terms(&wanted.forward_terms(traffic))
}
