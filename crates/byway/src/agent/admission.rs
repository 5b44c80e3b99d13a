//! Admission of new mappings, both those of applications here and those that peers offer.

use byway_proto::agent::OfferRefusal;
use byway_proto::conventions::{self, AdmissionRequest, Exposure, FlowNumbers};
use byway_units::{AgentId, FlowId};

use super::mappings::{MappingId, Mappings};
use crate::settings::ExposedResource;

/// Permission for a mapping that a peer offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    /// Index of the exposed resource to which the peer may send.
    pub(super) exposed_index: usize,
    /// Peer's number for its application's endpoint.
    pub(super) source: u32,
    /// Mapping that has the offer's flow number so far. The caller closes it first.
    pub(super) replaces: Option<MappingId>,
}

/// Reason why an application's endpoint, or a capture, gets no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MappingRefusal {
    /// The peer is not on the map.
    UnknownPeer,
    /// All flow numbers, or all mappings, are in use.
    Full,
}

/// Allocates a flow number at a peer for a mapping that begins here. Returns the peer and the flow.
/// The caller has checked the limits of mappings.
pub(super) fn allocate_flow(
    peer: Option<AgentId>,
    mappings: &Mappings,
    numbers: &mut FlowNumbers,
) -> Result<(AgentId, FlowId), MappingRefusal> {
    let peer = peer.ok_or(MappingRefusal::UnknownPeer)?;
    let flow = numbers.allocate(peer, |flow| mappings.of_flow(peer, flow).is_some());
    Ok((peer, flow.ok_or(MappingRefusal::Full)?))
}

/// Checks a peer's offer against the exposed resources. Returns the permission for its mapping, or
/// the reason to refuse it.
pub(super) fn admit_offer(
    peer: AgentId,
    request: &AdmissionRequest<'_>,
    exposed: &[ExposedResource],
    mappings: &Mappings,
) -> Result<Admission, OfferRefusal> {
    let names: Vec<String> = exposed.iter().map(ExposedResource::subject_name).collect();
    let exposures = exposed.iter().zip(&names);
    let exposures = exposures.map(|(exposed, name)| Exposure { name, peers: exposed.peers.as_deref() });
    let (exposed_index, source) = conventions::admit(request, exposures)?;
    let replaces = mappings.of_flow(peer, request.flow);
    Ok(Admission { exposed_index, source, replaces })
}

#[cfg(test)]
mod tests {
    use byway_proto::conventions::{CONTACT_FLOW, Subject};

    use super::super::mappings::tests::{endpoint, incoming};
    use super::*;
    use crate::settings::ExposedKind;

    const PEER: AgentId = AgentId::new(2);

    fn exposed(peers: Option<&[&str]>) -> Vec<ExposedResource> {
        let peers = peers.map(|peers| peers.iter().map(|peer| (*peer).to_owned()).collect());
        let one = |name: &str, port, peers| ExposedResource {
            name: name.to_owned(),
            at: ExposedKind::Target(endpoint(port).into()),
            peers,
            keep_dscp: true,
        };
        vec![one("video", 6_000, None), one("echo", 7, peers)]
    }

    fn try_admit(
        flow: u16,
        name: &str,
        exposed: &[ExposedResource],
        mappings: &Mappings,
    ) -> Result<Admission, OfferRefusal> {
        let subject = Subject { source: 9, name: name.to_owned() }.bytes();
        let request = AdmissionRequest { peer_name: Some("bob"), flow: FlowId::new(flow), subject: &subject };
        admit_offer(PEER, &request, exposed, mappings)
    }

    #[test]
    fn what_is_exposed_to_the_peer_is_admitted() {
        let admission = Admission { exposed_index: 1, source: 9, replaces: None };
        for peers in [None, Some(&["carol", "bob"][..])] {
            assert_eq!(try_admit(3, "echo", &exposed(peers), &Mappings::default()), Ok(admission));
        }
    }

    #[test]
    fn what_is_not_exposed_or_not_to_the_peer_is_refused() {
        let mappings = Mappings::default();
        assert_eq!(try_admit(3, "ech", &exposed(None), &mappings), Err(OfferRefusal::UnknownSubject));
        for peers in [&["carol"][..], &[]] {
            assert_eq!(try_admit(3, "echo", &exposed(Some(peers)), &mappings), Err(OfferRefusal::NotAllowed));
        }
        let request = AdmissionRequest { peer_name: Some("bob"), flow: FlowId::new(3), subject: &[0] };
        assert_eq!(admit_offer(PEER, &request, &exposed(None), &mappings), Err(OfferRefusal::UnknownSubject));
    }

    #[test]
    fn who_is_not_on_the_map_any_more_is_let_in_nowhere() {
        let subject = Subject { source: 9, name: "echo".to_owned() }.bytes();
        let request = AdmissionRequest { peer_name: None, flow: FlowId::new(3), subject: &subject };
        assert_eq!(
            admit_offer(PEER, &request, &exposed(None), &Mappings::default()),
            Err(OfferRefusal::NotAllowed)
        );
    }

    #[test]
    fn an_application_gets_a_free_number_with_a_peer_of_the_map() {
        let mut numbers = FlowNumbers::new(AgentId::new(1), 2);
        let mut mappings = Mappings::default();
        mappings.add(incoming(PEER, 4, endpoint(7)));
        assert_eq!(allocate_flow(Some(PEER), &mappings, &mut numbers), Ok((PEER, FlowId::new(6))));
        assert_eq!(allocate_flow(None, &mappings, &mut numbers), Err(MappingRefusal::UnknownPeer));
    }

    #[test]
    fn the_number_of_contact_is_taken() {
        let answer = try_admit(CONTACT_FLOW.number(), "echo", &exposed(None), &Mappings::default());
        assert_eq!(answer, Err(OfferRefusal::NumberInUse));
    }

    #[test]
    fn a_mapping_of_the_same_number_is_replaced() {
        let mut mappings = Mappings::default();
        let old = mappings.add(incoming(PEER, 40_000, endpoint(9)));
        let admission = try_admit(40_000, "echo", &exposed(None), &mappings).expect("it is exposed");
        assert_eq!(admission.replaces, Some(old));
    }
}
