//! What a peer is offered for an application.

use super::subject::Subject;
use crate::agent::{Duplication, Offer, Terms};

/// What comes back: the same as what goes there, but for what only the offering end's uplink is too narrow for.
#[must_use]
pub fn back(forth: &Terms) -> Terms {
    let duplication = match forth.duplication {
        Duplication::Marked | Duplication::Chosen(_) => Duplication::Marked,
        _ => Duplication::Usual,
    };
    Terms { duplication, ..*forth }
}

/// The offer of a flow by these terms, and of one back.
#[must_use]
pub fn offer_for(forth: Terms, subject: &Subject) -> Offer {
    Offer { forth, back: back(&forth), subject: subject.bytes() }
}
