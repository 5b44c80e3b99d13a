//! Who gets a mapping, and who does not.

use byway_proto::agent::OfferRefusal;
use byway_proto::conventions::{self, Exposure, FlowNumbers, Wish};
use byway_units::{AgentId, FlowId};

use super::mappings::{MappingId, Mappings};
use crate::settings::Exposed;

/// A mapping that a peer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    /// The place of what is exposed.
    pub(super) place: usize,
    /// The peer's application, as the peer numbers it.
    pub(super) source: u32,
    /// The mapping that has this number so far, to be closed before.
    pub(super) replaces: Option<MappingId>,
}

/// Why an application's endpoint gets no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declined {
    /// The peer of the forward is not on the map.
    UnknownPeer,
    /// There are too many.
    NoRoom,
}

/// The peer and the flow of the mapping that an application's endpoint begins, if it may. There is room for it.
pub(super) fn begin(
    peer: Option<AgentId>,
    mappings: &Mappings,
    numbers: &mut FlowNumbers,
) -> Result<(AgentId, FlowId), Declined> {
    let peer = peer.ok_or(Declined::UnknownPeer)?;
    let flow = numbers.draw(peer, |flow| mappings.of_flow(peer, flow).is_some());
    Ok((peer, flow.ok_or(Declined::NoRoom)?))
}

/// Checks that there is room for the mapping that a peer asks for.
pub(super) fn admit(
    peer: AgentId,
    wish: &Wish<'_>,
    exposed: &[Exposed],
    mappings: &Mappings,
) -> Result<Admission, OfferRefusal> {
    let names: Vec<String> = exposed.iter().map(Exposed::subject_name).collect();
    let exposures = exposed.iter().zip(&names);
    let exposures = exposures.map(|(exposed, name)| Exposure { name, peers: exposed.peers.as_deref() });
    let (place, source) = conventions::admit(wish, exposures)?;
    let replaces = mappings.of_flow(peer, wish.flow);
    Ok(Admission { place, source, replaces })
}

#[cfg(test)]
mod tests {
    use byway_proto::conventions::{CONTACT_FLOW, Subject};

    use super::super::mappings::tests::{endpoint, incoming};
    use super::*;
    use crate::settings::ExposedAt;

    const PEER: AgentId = AgentId::new(2);

    fn exposed(peers: Option<&[&str]>) -> Vec<Exposed> {
        let peers = peers.map(|peers| peers.iter().map(|peer| (*peer).to_owned()).collect());
        let one = |name: &str, port, peers| Exposed {
            name: name.to_owned(),
            at: ExposedAt::Target(endpoint(port).into()),
            peers,
            keep_dscp: true,
        };
        vec![one("video", 6_000, None), one("echo", 7, peers)]
    }

    fn ask(
        flow: u16,
        name: &str,
        exposed: &[Exposed],
        mappings: &Mappings,
    ) -> Result<Admission, OfferRefusal> {
        let subject = Subject { source: 9, name: name.to_owned() }.bytes();
        let wish = Wish { peer_name: Some("bob"), flow: FlowId::new(flow), subject: &subject };
        admit(PEER, &wish, exposed, mappings)
    }

    #[test]
    fn what_is_exposed_to_the_peer_is_admitted() {
        let admission = Admission { place: 1, source: 9, replaces: None };
        for peers in [None, Some(&["carol", "bob"][..])] {
            assert_eq!(ask(3, "echo", &exposed(peers), &Mappings::default()), Ok(admission));
        }
    }

    #[test]
    fn what_is_not_exposed_or_not_to_the_peer_is_refused() {
        let mappings = Mappings::default();
        assert_eq!(ask(3, "ech", &exposed(None), &mappings), Err(OfferRefusal::UnknownSubject));
        for peers in [&["carol"][..], &[]] {
            assert_eq!(ask(3, "echo", &exposed(Some(peers)), &mappings), Err(OfferRefusal::NotAllowed));
        }
        let wish = Wish { peer_name: Some("bob"), flow: FlowId::new(3), subject: &[0] };
        assert_eq!(admit(PEER, &wish, &exposed(None), &mappings), Err(OfferRefusal::UnknownSubject));
    }

    #[test]
    fn who_is_not_on_the_map_any_more_is_let_in_nowhere() {
        let subject = Subject { source: 9, name: "echo".to_owned() }.bytes();
        let wish = Wish { peer_name: None, flow: FlowId::new(3), subject: &subject };
        assert_eq!(admit(PEER, &wish, &exposed(None), &Mappings::default()), Err(OfferRefusal::NotAllowed));
    }

    #[test]
    fn an_application_gets_a_free_number_with_a_peer_of_the_map() {
        let mut numbers = FlowNumbers::new(AgentId::new(1), 2);
        let mut mappings = Mappings::default();
        mappings.add(incoming(PEER, 4, endpoint(7)));
        assert_eq!(begin(Some(PEER), &mappings, &mut numbers), Ok((PEER, FlowId::new(6))));
        assert_eq!(begin(None, &mappings, &mut numbers), Err(Declined::UnknownPeer));
    }

    #[test]
    fn the_number_of_contact_is_taken() {
        let answer = ask(CONTACT_FLOW.number(), "echo", &exposed(None), &Mappings::default());
        assert_eq!(answer, Err(OfferRefusal::NumberTaken));
    }

    #[test]
    fn a_mapping_of_the_same_number_is_replaced() {
        let mut mappings = Mappings::default();
        let old = mappings.add(incoming(PEER, 40_000, endpoint(9)));
        let admission = ask(40_000, "echo", &exposed(None), &mappings).expect("it is exposed");
        assert_eq!(admission.replaces, Some(old));
    }
}
