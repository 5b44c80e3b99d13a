//! Admission of peers' offers, by the names that this agent exposes.

use alloc::string::String;

use byway_units::FlowId;
use byway_wire::messages::OfferRefusal;

use super::numbers::CONTACT_FLOW;
use super::subject::Subject;

/// Offer of a peer for flows to an exposed name.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// This agent's name for the peer; `None` if it does not know the peer any more.
    pub peer_name: Option<&'a str>,
    /// Number of the offered flow pair.
    pub flow: FlowId,
    /// Encoded subject of the offer, see [`Subject`].
    pub subject: &'a [u8],
}

/// Exposed name, and the peers that may send to it.
#[derive(Clone, Copy, Debug)]
pub struct Exposure<'a> {
    /// Exposed name, as subjects of offers have it.
    pub name: &'a str,
    /// Names of the peers that may send to it; `None` for all.
    pub peers: Option<&'a [String]>,
}

/// Returns the index of the exposure that a peer's offer names, and the number of the peer's
/// application endpoint, if the peer is allowed.
///
/// # Errors
/// The refusal to send to the peer.
pub fn admit<'a>(
    request: &AdmissionRequest<'_>,
    exposed: impl IntoIterator<Item = Exposure<'a>>,
) -> Result<(usize, u32), OfferRefusal> {
    if request.flow == CONTACT_FLOW {
        return Err(OfferRefusal::NumberInUse);
    }
    let subject = Subject::parse(request.subject).ok_or(OfferRefusal::UnknownSubject)?;
    let found = exposed.into_iter().enumerate().find(|(_, exposed)| exposed.name == subject.name);
    let (index, Exposure { peers, .. }) = found.ok_or(OfferRefusal::UnknownSubject)?;
    let peer_name = request.peer_name.ok_or(OfferRefusal::NotAllowed)?;
    if peers.is_some_and(|peers| peers.iter().all(|allowed| allowed != peer_name)) {
        return Err(OfferRefusal::NotAllowed);
    }
    Ok((index, subject.source))
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned as _;
    use alloc::vec::Vec;

    use super::*;

    fn ask(
        flow: FlowId,
        peer_name: Option<&str>,
        subject: &[u8],
        allowed: Option<&[&str]>,
    ) -> Result<(usize, u32), OfferRefusal> {
        let allowed: Option<Vec<String>> =
            allowed.map(|peers| peers.iter().map(|peer| (*peer).to_owned()).collect());
        let exposed =
            [Exposure { name: "video", peers: None }, Exposure { name: "echo", peers: allowed.as_deref() }];
        admit(&AdmissionRequest { peer_name, flow, subject }, exposed)
    }

    fn echo() -> Vec<u8> {
        Subject { source: 9, name: "echo".to_owned() }.bytes()
    }

    #[test]
    fn what_is_exposed_to_the_peer_is_admitted() {
        for allowed in [None, Some(&["carol", "bob"][..])] {
            assert_eq!(ask(FlowId::new(3), Some("bob"), &echo(), allowed), Ok((1, 9)));
        }
    }

    #[test]
    fn what_is_not_exposed_or_not_to_the_peer_is_refused() {
        let flow = FlowId::new(3);
        let other = Subject { source: 9, name: "ech".to_owned() }.bytes();
        assert_eq!(ask(flow, Some("bob"), &other, None), Err(OfferRefusal::UnknownSubject));
        assert_eq!(ask(flow, Some("bob"), &[0], None), Err(OfferRefusal::UnknownSubject));
        for allowed in [&["carol"][..], &[]] {
            assert_eq!(ask(flow, Some("bob"), &echo(), Some(allowed)), Err(OfferRefusal::NotAllowed));
        }
    }

    #[test]
    fn who_is_not_known_any_more_is_let_in_nowhere_and_nobody_by_the_number_of_contact() {
        assert_eq!(ask(FlowId::new(3), None, &echo(), None), Err(OfferRefusal::NotAllowed));
        assert_eq!(ask(CONTACT_FLOW, Some("bob"), &echo(), None), Err(OfferRefusal::NumberInUse));
    }
}
