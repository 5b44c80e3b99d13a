//! Who is let in, and who is not.

use alloc::string::String;

use byway_units::FlowId;
use byway_wire::messages::OfferRefusal;

use super::numbers::CONTACT_FLOW;
use super::subject::Subject;

/// What a peer asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// What this agent calls the peer; `None` if it does not know it any more.
    pub peer_name: Option<&'a str>,
    /// The number of the flows.
    pub flow: FlowId,
    /// What they are for.
    pub subject: &'a [u8],
}

/// Something that peers may send to.
#[derive(Clone, Copy, Debug)]
pub struct Exposure<'a> {
    /// Its name.
    pub name: &'a str,
    /// The peers that may; all if `None`.
    pub peers: Option<&'a [String]>,
}

/// Which of what is exposed a peer asks for, by its place, and the number of its application, if the peer may have it.
///
/// # Errors
/// What the peer is to be answered.
pub fn admit<'a>(
    wish: &Wish<'_>,
    exposed: impl IntoIterator<Item = Exposure<'a>>,
) -> Result<(usize, u32), OfferRefusal> {
    if wish.flow == CONTACT_FLOW {
        return Err(OfferRefusal::NumberTaken);
    }
    let subject = Subject::parse(wish.subject).ok_or(OfferRefusal::UnknownSubject)?;
    let found = exposed.into_iter().enumerate().find(|(_, exposed)| exposed.name == subject.name);
    let (place, Exposure { peers, .. }) = found.ok_or(OfferRefusal::UnknownSubject)?;
    let peer_name = wish.peer_name.ok_or(OfferRefusal::NotAllowed)?;
    if peers.is_some_and(|peers| peers.iter().all(|may| may != peer_name)) {
        return Err(OfferRefusal::NotAllowed);
    }
    Ok((place, subject.source))
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
        may: Option<&[&str]>,
    ) -> Result<(usize, u32), OfferRefusal> {
        let may: Option<Vec<String>> = may.map(|peers| peers.iter().map(|peer| (*peer).to_owned()).collect());
        let exposed =
            [Exposure { name: "video", peers: None }, Exposure { name: "echo", peers: may.as_deref() }];
        admit(&Wish { peer_name, flow, subject }, exposed)
    }

    fn echo() -> Vec<u8> {
        Subject { source: 9, name: "echo".to_owned() }.bytes()
    }

    #[test]
    fn what_is_exposed_to_the_peer_is_admitted() {
        for may in [None, Some(&["carol", "bob"][..])] {
            assert_eq!(ask(FlowId::new(3), Some("bob"), &echo(), may), Ok((1, 9)));
        }
    }

    #[test]
    fn what_is_not_exposed_or_not_to_the_peer_is_refused() {
        let flow = FlowId::new(3);
        let other = Subject { source: 9, name: "ech".to_owned() }.bytes();
        assert_eq!(ask(flow, Some("bob"), &other, None), Err(OfferRefusal::UnknownSubject));
        assert_eq!(ask(flow, Some("bob"), &[0], None), Err(OfferRefusal::UnknownSubject));
        for may in [&["carol"][..], &[]] {
            assert_eq!(ask(flow, Some("bob"), &echo(), Some(may)), Err(OfferRefusal::NotAllowed));
        }
    }

    #[test]
    fn who_is_not_known_any_more_is_let_in_nowhere_and_nobody_by_the_number_of_contact() {
        assert_eq!(ask(FlowId::new(3), None, &echo(), None), Err(OfferRefusal::NotAllowed));
        assert_eq!(ask(CONTACT_FLOW, Some("bob"), &echo(), None), Err(OfferRefusal::NumberTaken));
    }
}
