//! What a peer is offered for an application.

use super::subject::Subject;
use crate::agent::{Duplication, Offer, Terms};

/// What comes back: the same as what goes there, but for what only the offering end's uplink is too narrow for.
#[must_use]
pub fn back(forth: &Terms) -> Terms {
    let duplication = match forth.duplication {
        Duplication::All => Duplication::All,
        Duplication::Marked | Duplication::Chosen(_) => Duplication::Marked,
        Duplication::Usual | Duplication::ByRelay | Duplication::OwnRepairs => Duplication::Usual,
    };
    Terms { duplication, ..*forth }
}

/// The offer of a flow by these terms, and of one back.
#[must_use]
pub fn offer_for(forth: Terms, subject: &Subject) -> Offer {
    Offer { forth, back: back(&forth), subject: subject.bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comes_back_copied_where_all_goes_there_copied() {
        let comes_back = |duplication| back(&Terms { duplication, ..Terms::default() }).duplication;
        assert!(matches!(comes_back(Duplication::All), Duplication::All));
        assert!(matches!(comes_back(Duplication::Marked), Duplication::Marked));
        for of_narrow_uplinks in [Duplication::ByRelay, Duplication::OwnRepairs] {
            assert!(matches!(comes_back(of_narrow_uplinks), Duplication::Usual));
        }
    }
}
