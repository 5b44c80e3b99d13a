//! Who gets a mapping, and who does not.

use std::collections::BTreeMap;

use byway_proto::agent::OfferRefusal;
use byway_proto::conventions::{self, Exposure, FlowNumbers, Wish};
use byway_units::{AgentId, FlowId, Time};

use super::limits::FULL_SAID_EVERY;
use super::mappings::{MappingId, Mappings, Owner};
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

/// Place where nothing is left for another port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Full {
    /// This agent has no mapping.
    Here,
    /// The peer has none.
    Peer,
    /// A relay has no room for the flow.
    Relay,
    /// The system has no socket.
    Sockets,
}

/// Times at which the log said last that nothing is left for ports of an owner.
#[derive(Debug, Default)]
pub(super) struct FullNotices(BTreeMap<(Full, Owner), Time>);

impl FullNotices {
    /// True if that is to be said now.
    pub(super) fn is_due(&mut self, full: Full, owner: Owner, now: Time) -> bool {
        let said = self.0.get(&(full, owner));
        let is_due = said.is_none_or(|said| now.saturating_since(*said) >= FULL_SAID_EVERY);
        if is_due {
            self.0.insert((full, owner), now);
        }
        is_due
    }

    /// Forgets a peer.
    pub(super) fn forget(&mut self, peer: AgentId) {
        self.0.retain(|(_, owner), _| *owner != Owner::Peer(peer));
    }
}

/// What peers were refused last, so that the log says it once.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<AgentId, OfferRefusal>);

impl Refused {
    /// Forgets a peer.
    pub(super) fn forget(&mut self, peer: AgentId) {
        self.0.remove(&peer);
    }

    /// Notes how an offer was answered; why it was refused, if that is news.
    pub(super) fn news(&mut self, peer: AgentId, answer: Result<(), OfferRefusal>) -> Option<OfferRefusal> {
        match answer {
            Ok(()) => {
                self.0.remove(&peer);
                None
            }
            Err(refusal) => (self.0.insert(peer, refusal) != Some(refusal)).then_some(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_proto::conventions::{CONTACT_FLOW, Subject};
    use byway_units::Duration;

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

    #[test]
    fn that_there_is_no_mapping_left_is_said_once_a_minute_of_each_owner_and_place() {
        let (mut said, owner) = (FullNotices::default(), Owner::Peer(PEER));
        let at = |seconds| Time::START + Duration::from_secs(seconds);
        assert!(said.is_due(Full::Here, owner, at(0)) && !said.is_due(Full::Here, owner, at(59)));
        assert!(said.is_due(Full::Peer, owner, at(59)) && said.is_due(Full::Here, Owner::Here, at(59)));
        assert!(said.is_due(Full::Here, owner, at(60)) && !said.is_due(Full::Here, owner, at(61)));
        said.forget(PEER);
        assert!(said.is_due(Full::Here, owner, at(61)) && !said.is_due(Full::Here, Owner::Here, at(61)));
    }

    #[test]
    fn a_refusal_is_said_once_until_something_else_is() {
        let (mut refused, other) = (Refused::default(), AgentId::new(3));
        let no = Err(OfferRefusal::NotAllowed);
        assert_eq!(refused.news(PEER, no), Some(OfferRefusal::NotAllowed));
        assert_eq!(refused.news(PEER, no), None);
        assert_eq!(refused.news(other, no), Some(OfferRefusal::NotAllowed), "that is another peer");
        assert_eq!(refused.news(PEER, Err(OfferRefusal::NoRoom)), Some(OfferRefusal::NoRoom));
        assert_eq!(refused.news(PEER, Ok(())), None);
        assert_eq!(refused.news(PEER, Err(OfferRefusal::NoRoom)), Some(OfferRefusal::NoRoom));
    }
}
