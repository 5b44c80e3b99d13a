//! Offers of flow pairs to a peer, for an application.

use super::subject::Subject;
use crate::agent::{Duplication, Offer, Terms};

/// Returns the terms of the flow that the peer sends: the same, but without settings for a narrow
/// uplink of the offering agent.
#[must_use]
pub fn reverse_terms(forth: &Terms) -> Terms {
    let duplication = match forth.duplication {
        Duplication::All => Duplication::All,
        Duplication::Marked | Duplication::Chosen(_) => Duplication::Marked,
        Duplication::Usual | Duplication::ByRelay | Duplication::SenderFec => Duplication::Usual,
    };
    Terms { duplication, ..*forth }
}

/// Returns the offer of a flow with these terms, and of its reverse flow, to the name in the
/// subject.
#[must_use]
pub fn offer_for(forth: Terms, subject: &Subject) -> Offer {
    Offer { forth, back: reverse_terms(&forth), subject: subject.bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comes_back_copied_where_all_goes_there_copied() {
        let comes_back = |duplication| reverse_terms(&Terms { duplication, ..Terms::default() }).duplication;
        assert!(matches!(comes_back(Duplication::All), Duplication::All));
        assert!(matches!(comes_back(Duplication::Marked), Duplication::Marked));
        for of_narrow_uplinks in [Duplication::ByRelay, Duplication::SenderFec] {
            assert!(matches!(comes_back(of_narrow_uplinks), Duplication::Usual));
        }
    }
}
