//! Room for new mappings: the limits, and which mapping is evicted where they are reached.

use std::collections::BTreeMap;
use std::net::IpAddr;

use byway_proto::agent::OfferRefusal;
use byway_proto::conventions::{Candidate, PairLimits, choose_beyond_share, choose_evicted};
use byway_units::{AgentId, Time};

use super::{Consent, Endpoint, Mapping, MappingId, Mappings, Side};
use crate::connections::Source;

/// Owner of a mapping: who has most of them makes room first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::agent) enum Owner {
    /// This agent's captures.
    Here,
    /// An address, or a network of 64 bits, whose applications send to forwards.
    Source(IpAddr),
    /// A peer, whose applications send to what is exposed.
    Peer(AgentId),
}

impl Owner {
    /// Returns the owner of what an application's endpoint begins.
    pub(in crate::agent) fn of(application: Endpoint) -> Self {
        Self::Source(Source::of(application.address.ip()).address)
    }
}

/// Mappings of one owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owned {
    count: usize,
    /// Before, none of them can make room.
    in_use_until: Time,
}

/// Error of a new mapping where all that could make room for it are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::agent) struct AllInUse;

impl Mappings {
    /// Sets how many there may be.
    pub(in crate::agent) const fn limit_to(&mut self, limits: PairLimits) {
        self.limits = limits;
    }

    /// Returns how many there may be.
    pub(in crate::agent) const fn limits(&self) -> PairLimits {
        self.limits
    }

    /// Finds room for another mapping of an owner: the mapping to be closed before, if there are as many as may be.
    ///
    /// # Errors
    /// If all that could make room are in use.
    pub(in crate::agent) fn make_room(
        &mut self,
        owner: Owner,
        now: Time,
    ) -> Result<Option<MappingId>, AllInUse> {
        let count = self.owners.get(&owner).map_or(0, |owned| owned.count);
        if matches!(owner, Owner::Peer(_)) && count >= self.limits.of_peer {
            return self.evicted_of(owner, now).map(Some);
        }
        if self.count() < self.limits.all {
            return Ok(None);
        }
        self.evicted(now).or_else(|AllInUse| self.beyond_share(owner, now).ok_or(AllInUse)).map(Some)
    }

    /// Returns the mapping that makes room although it is in use, as its owner has most of all and the other one fewer.
    fn beyond_share(&self, owner: Owner, now: Time) -> Option<MappingId> {
        let own = self.owners.get(&owner).map_or(0, |owned| owned.count);
        let (most, largest) = self.owners.iter().max_by_key(|(_, owned)| owned.count)?;
        if own + 1 >= largest.count {
            return None;
        }
        let its = self.candidates().filter(|(owner, _)| owner == most);
        choose_beyond_share(its.map(|(_, candidate)| (candidate.pair, candidate.usage)), now)
    }

    /// Returns the mapping that makes room at a peer that has refused another one for want of it: one of the source that
    /// has most at that peer, if the other's source has fewer. A refusal leads to one of them once.
    pub(in crate::agent) fn beyond_share_at_peer(&self, refused: MappingId, now: Time) -> Option<MappingId> {
        let mapping = self.get(refused).filter(|mapping| mapping.refusal != Some(OfferRefusal::NoRoom))?;
        let (peer, owner) = (mapping.peer, mapping.owner());
        let at_peer = || {
            let is_there = |mapping: &Mapping| {
                let is_taken = matches!(mapping.consent, Consent::Given);
                mapping.peer == peer && is_taken && matches!(mapping.side, Side::Forward(_))
            };
            self.iter().filter(move |(_, mapping)| is_there(mapping))
        };
        let mut counts = BTreeMap::<Owner, usize>::new();
        at_peer().for_each(|(_, mapping)| *counts.entry(mapping.owner()).or_default() += 1);
        let (most, count) = counts.iter().max_by_key(|(_, count)| **count)?;
        if counts.get(&owner).copied().unwrap_or_default() + 1 >= *count {
            return None;
        }
        let its = at_peer().filter(|(_, mapping)| mapping.owner() == *most);
        choose_beyond_share(its.map(|(id, mapping)| (id, mapping.usage)), now)
    }

    /// Returns the mapping that makes room among those of an owner. A flood of new ports does not have them looked through
    /// each time: none is free before the time that was found last.
    fn evicted_of(&mut self, owner: Owner, now: Time) -> Result<MappingId, AllInUse> {
        if self.owners.get(&owner).is_some_and(|owned| now < owned.in_use_until) {
            return Err(AllInUse);
        }
        let its = self.candidates().filter(|(its_owner, _)| *its_owner == owner);
        choose_evicted(its.map(|(_, candidate)| candidate), now).map_err(|earliest| {
            self.owners.entry(owner).or_default().in_use_until = earliest;
            AllInUse
        })
    }

    /// Returns the mapping that makes room among all.
    pub(in crate::agent) fn evicted(&mut self, now: Time) -> Result<MappingId, AllInUse> {
        if now < self.in_use_until {
            return Err(AllInUse);
        }
        choose_evicted(self.candidates().map(|(_, candidate)| candidate), now).map_err(|earliest| {
            self.in_use_until = earliest;
            AllInUse
        })
    }

    /// Returns those that may have to make room, with their owners.
    fn candidates(&self) -> impl Iterator<Item = (Owner, Candidate<MappingId>)> {
        self.iter().filter(|(_, mapping)| mapping.side.is_evictable()).map(|(pair, mapping)| {
            let owner = mapping.owner();
            let of_owner = self.owners.get(&owner).map_or(0, |owned| owned.count);
            (owner, Candidate { pair, of_owner, usage: mapping.usage })
        })
    }

    /// Lets the mappings that a peer's applications began make room: the peer began anew, and knows them no more.
    pub(in crate::agent) fn abandon(&mut self, peer: AgentId, now: Time) {
        for id in self.begun_by(peer) {
            if let Some(mapping) = self.get_mut(id) {
                mapping.usage.abandon(now);
            }
        }
        self.look_again(Owner::Peer(peer));
    }

    /// Counts a mapping that begins.
    pub(super) fn count_in(&mut self, owner: Owner) {
        self.look_again(owner);
        self.owners.entry(owner).or_default().count += 1;
    }

    /// Counts a mapping that has ended.
    pub(super) fn count_out(&mut self, owner: Owner) {
        if let Some(owned) = self.owners.get_mut(&owner) {
            owned.count -= 1;
            if owned.count == 0 {
                self.owners.remove(&owner);
            }
        }
    }

    /// Has mappings looked through again when there is no room: what was found before does not hold any more.
    fn look_again(&mut self, owner: Owner) {
        self.in_use_until = Time::START;
        if let Some(owned) = self.owners.get_mut(&owner) {
            owned.in_use_until = Time::START;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use byway_proto::agent::Traffic;

    use super::super::tests::{PEER, at, endpoint, incoming, mapping, send};
    use super::super::{Beginning, Consent, Side};
    use super::*;

    /// Owner of the mappings that [`forwarded`] adds.
    const APPLICATIONS: Owner = Owner::Source(IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// An application's mapping here, by its port, used last at this time, with a conversation or without an answer.
    fn forwarded(mappings: &mut Mappings, port: u16, used_ms: u64, is_confirmed: bool) -> MappingId {
        forwarded_from(mappings, endpoint(port), used_ms, is_confirmed)
    }

    fn forwarded_from(
        mappings: &mut Mappings,
        application: SocketAddr,
        used_ms: u64,
        is_confirmed: bool,
    ) -> MappingId {
        let mut forwarded = mapping(PEER, application.port(), application, Side::Forward(0), Consent::Given);
        forwarded.usage.note(is_confirmed, at(used_ms));
        forwarded.usage.note(false, at(used_ms));
        mappings.add(forwarded)
    }

    fn limited(all: usize, of_peer: usize) -> Mappings {
        let mut mappings = Mappings::default();
        mappings.limit_to(PairLimits { all, of_peer });
        mappings
    }

    #[test]
    fn the_longest_idle_mapping_makes_room_and_none_in_use_does() {
        let mut mappings = limited(3, 3);
        let ids = [(2, 3_000), (4, 1_000), (6, 2_000)]
            .map(|(port, used_ms)| forwarded(&mut mappings, port, used_ms, true));
        assert_eq!(mappings.make_room(APPLICATIONS, at(10_999)), Err(AllInUse));
        assert_eq!(mappings.make_room(APPLICATIONS, at(11_000)), Ok(Some(ids[1])));
        assert!(send(&mut mappings, ids[1], &[0], 11_000).is_some());
        assert_eq!(mappings.make_room(APPLICATIONS, at(11_999)), Err(AllInUse), "it is in use again");
        assert_eq!(mappings.make_room(APPLICATIONS, at(12_000)), Ok(Some(ids[2])));
        assert!(mappings.remove(ids[2]).is_some());
        assert_eq!(mappings.make_room(APPLICATIONS, at(12_000)), Ok(None));
    }

    #[test]
    fn a_mapping_without_an_answer_makes_room_after_a_second_and_one_with_an_answer_does_not() {
        let mut mappings = limited(2, 2);
        forwarded(&mut mappings, 2, 0, true);
        assert_eq!(mappings.make_room(APPLICATIONS, at(0)), Ok(None));
        let unanswered = forwarded(&mut mappings, 4, 100, false);
        assert_eq!(mappings.make_room(APPLICATIONS, at(1_099)), Err(AllInUse));
        assert_eq!(mappings.make_room(APPLICATIONS, at(1_100)), Ok(Some(unanswered)));
    }

    #[test]
    fn a_target_answers_and_an_application_does_not() {
        let mut mappings = limited(1, 1);
        let id = mappings.add(incoming(PEER, 3, endpoint(7)));
        mappings.get_mut(id).expect("it was added").note_arrival(at(0));
        assert_eq!(mappings.make_room(APPLICATIONS, at(999)), Err(AllInUse));
        assert_eq!(mappings.make_room(APPLICATIONS, at(1_000)), Ok(Some(id)));
        assert!(send(&mut mappings, id, &[1], 1_000).is_some());
        assert_eq!(mappings.make_room(APPLICATIONS, at(1_099)), Err(AllInUse), "it was just answered");
        assert_eq!(mappings.make_room(APPLICATIONS, at(1_100)), Ok(Some(id)));
        mappings.get_mut(id).expect("it is there").note_arrival(at(1_500));
        assert_eq!(mappings.make_room(APPLICATIONS, at(11_499)), Err(AllInUse), "now it is a conversation");
    }

    #[test]
    fn a_new_mapping_is_found_although_none_could_make_room_before() {
        let mut mappings = limited(2, 2);
        let first = forwarded(&mut mappings, 2, 0, true);
        forwarded(&mut mappings, 4, 0, true);
        assert_eq!(mappings.make_room(APPLICATIONS, at(1)), Err(AllInUse));
        assert!(mappings.remove(first).is_some());
        let second = forwarded(&mut mappings, 6, 1, false);
        assert_eq!(mappings.make_room(APPLICATIONS, at(1_001)), Ok(Some(second)));
    }

    #[test]
    fn one_peer_makes_room_with_its_own_mappings_and_whoever_has_most_pays_where_all_are_full() {
        let (other, used) = (AgentId::new(3), Owner::Peer(PEER));
        let mut mappings = limited(4, 2);
        let modest = mappings.add(incoming(other, 1, endpoint(1)));
        let busy = mappings.add(incoming(PEER, 3, endpoint(3)));
        assert_eq!(mappings.make_room(used, at(0)), Ok(None));
        let its = mappings.add(incoming(PEER, 5, endpoint(5)));
        assert!(send(&mut mappings, busy, &[0], 60_000).is_some());
        assert_eq!(
            mappings.make_room(used, at(60_000)),
            Ok(Some(its)),
            "the other one has been idle as long"
        );
        assert!(send(&mut mappings, its, &[0], 60_000).is_some());
        assert_eq!(mappings.make_room(used, at(60_001)), Err(AllInUse), "it takes nothing from others");
        assert_eq!(mappings.make_room(Owner::Peer(other), at(60_001)), Ok(None));
        forwarded(&mut mappings, 8, 60_000, true);
        assert_eq!(
            mappings.make_room(APPLICATIONS, at(60_001)),
            Ok(Some(modest)),
            "those of most are in use"
        );
        assert_eq!(mappings.make_room(APPLICATIONS, at(70_000)), Ok(Some(busy)), "and now they are not");
    }

    #[test]
    fn mappings_of_a_peer_that_began_anew_make_room_at_once_unless_they_are_used_again() {
        let mut mappings = limited(9, 1);
        let id = mappings.add(incoming(PEER, 3, endpoint(7)));
        assert!(send(&mut mappings, id, &[0], 20_000).is_some());
        mappings.get_mut(id).expect("it was added").note_arrival(at(20_000));
        assert_eq!(mappings.make_room(Owner::Peer(PEER), at(20_001)), Err(AllInUse));
        mappings.abandon(PEER, at(20_002));
        assert_eq!(mappings.make_room(Owner::Peer(PEER), at(20_002)), Ok(Some(id)));
        assert!(send(&mut mappings, id, &[0], 20_003).is_some());
        assert_eq!(mappings.make_room(Owner::Peer(PEER), at(20_003)), Err(AllInUse));
    }

    #[test]
    fn a_source_that_has_most_makes_room_for_another_at_once_but_not_with_its_calls() {
        let mut mappings = limited(5, 5);
        let (flood, call) = (endpoint(2), forwarded(&mut mappings, 9, 0, true));
        let asked: Vec<_> = (1..=4)
            .map(|number| SocketAddr::new(flood.ip(), 10 + 2 * number))
            .map(|port| forwarded_from(&mut mappings, port, 0, false))
            .collect();
        let newcomer = Owner::Source(IpAddr::from([192, 0, 2, 1]));
        assert_eq!(mappings.make_room(APPLICATIONS, at(1)), Err(AllInUse), "its own newcomers wait");
        let evicted = mappings.make_room(newcomer, at(1)).expect("there is room").expect("of another");
        assert!(asked.contains(&evicted) && evicted != call);
        for id in asked {
            mappings.remove(id);
        }
        for port in [30, 32, 34, 36] {
            forwarded(&mut mappings, port, 500, true);
        }
        assert_eq!(mappings.make_room(newcomer, at(999)), Err(AllInUse), "all are calls");
        assert_eq!(mappings.make_room(newcomer, at(1_000)), Ok(Some(call)), "it pauses");
    }

    #[test]
    fn a_source_with_as_many_mappings_as_another_takes_none_from_it() {
        let mut mappings = limited(4, 4);
        for port in [2, 4] {
            forwarded(&mut mappings, port, 0, false);
            forwarded_from(&mut mappings, ([192, 0, 2, 1], port + 100).into(), 0, false);
        }
        assert_eq!(mappings.make_room(APPLICATIONS, at(1)), Err(AllInUse));
        let newcomer = Owner::Source(IpAddr::from([192, 0, 2, 2]));
        assert!(mappings.make_room(newcomer, at(1)).is_ok_and(|evicted| evicted.is_some()));
    }

    #[test]
    fn at_a_full_peer_the_source_that_has_most_there_makes_room_once() {
        let mut mappings = limited(9, 9);
        let many: Vec<_> = [2, 4, 6].map(|port| forwarded(&mut mappings, port, 0, false)).into();
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 8));
        let refused = forwarded_from(&mut mappings, elsewhere, 0, false);
        mappings.get_mut(refused).expect("it was added").consent = Consent::Asked(Beginning::default());
        let makes_room = mappings.beyond_share_at_peer(refused, at(1)).expect("the other has three");
        assert!(many.contains(&makes_room));
        let its_own = forwarded(&mut mappings, 10, 0, false);
        assert_eq!(mappings.beyond_share_at_peer(its_own, at(1)), None, "it takes nothing from itself");
        let no_room = Err(OfferRefusal::NoRoom);
        assert!(mappings.answered(refused, no_room, at(1)).is_some());
        assert_eq!(mappings.beyond_share_at_peer(refused, at(1)), None, "it was refused again");
    }

    #[test]
    fn a_capture_makes_no_room() {
        let mut mappings = limited(1, 1);
        let side = Side::Capture { place: 0, traffic: Traffic::Datagrams };
        mappings.add(mapping(PEER, 2, endpoint(7), side, Consent::Given));
        assert_eq!(mappings.make_room(APPLICATIONS, at(1_000_000)), Err(AllInUse));
    }
}
