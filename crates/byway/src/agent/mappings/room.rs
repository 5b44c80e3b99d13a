//! Room for new mappings: the limits, and which mapping is evicted where they are reached.

use byway_proto::conventions::{Candidate, PairLimits, choose_evicted};
use byway_units::{AgentId, Time};

use super::{MappingId, Mappings};

/// Agent whose applications began a mapping: its limit counts, and its mappings make room first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::agent) enum Owner {
    Here,
    Peer(AgentId),
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
        if self.count() >= self.limits.all { self.evicted(now).map(Some) } else { Ok(None) }
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
    use byway_proto::agent::Traffic;

    use super::super::tests::{PEER, at, endpoint, incoming, mapping, send};
    use super::super::{Consent, Side};
    use super::*;

    /// An application's mapping here, by its port, used last at this time, and answered or not.
    fn forwarded(mappings: &mut Mappings, port: u16, used_ms: u64, is_answered: bool) -> MappingId {
        let mut forwarded = mapping(PEER, port, endpoint(port), Side::Forward(0), Consent::Given);
        forwarded.usage.note(is_answered, at(used_ms));
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
        assert_eq!(mappings.make_room(Owner::Here, at(10_999)), Err(AllInUse));
        assert_eq!(mappings.make_room(Owner::Here, at(11_000)), Ok(Some(ids[1])));
        assert!(send(&mut mappings, ids[1], &[0], 11_000).is_some());
        assert_eq!(mappings.make_room(Owner::Here, at(11_999)), Err(AllInUse), "it is in use again");
        assert_eq!(mappings.make_room(Owner::Here, at(12_000)), Ok(Some(ids[2])));
        assert!(mappings.remove(ids[2]).is_some());
        assert_eq!(mappings.make_room(Owner::Here, at(12_000)), Ok(None));
    }

    #[test]
    fn a_mapping_without_an_answer_makes_room_after_a_second_and_one_with_an_answer_does_not() {
        let mut mappings = limited(2, 2);
        let answered = forwarded(&mut mappings, 2, 0, false);
        mappings.get_mut(answered).expect("it was added").note_arrival(at(0));
        assert_eq!(mappings.make_room(Owner::Here, at(0)), Ok(None));
        let unanswered = forwarded(&mut mappings, 4, 100, false);
        assert_eq!(mappings.make_room(Owner::Here, at(1_099)), Err(AllInUse));
        assert_eq!(mappings.make_room(Owner::Here, at(1_100)), Ok(Some(unanswered)));
    }

    #[test]
    fn a_target_answers_and_an_application_does_not() {
        let mut mappings = limited(1, 1);
        let id = mappings.add(incoming(PEER, 3, endpoint(7)));
        mappings.get_mut(id).expect("it was added").note_arrival(at(0));
        assert_eq!(mappings.make_room(Owner::Here, at(1_000)), Ok(Some(id)));
        assert!(send(&mut mappings, id, &[1], 1_000).is_some());
        assert_eq!(mappings.make_room(Owner::Here, at(10_999)), Err(AllInUse));
    }

    #[test]
    fn a_new_mapping_is_found_although_none_could_make_room_before() {
        let mut mappings = limited(2, 2);
        let first = forwarded(&mut mappings, 2, 0, true);
        forwarded(&mut mappings, 4, 0, true);
        assert_eq!(mappings.make_room(Owner::Here, at(1)), Err(AllInUse));
        assert!(mappings.remove(first).is_some());
        let second = forwarded(&mut mappings, 6, 1, false);
        assert_eq!(mappings.make_room(Owner::Here, at(1_001)), Ok(Some(second)));
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
        assert_eq!(mappings.make_room(Owner::Here, at(60_001)), Ok(Some(modest)), "those of most are in use");
        assert_eq!(mappings.make_room(Owner::Here, at(70_000)), Ok(Some(busy)), "and now they are not");
    }

    #[test]
    fn mappings_of_a_peer_that_began_anew_make_room_at_once_unless_they_are_used_again() {
        let mut mappings = limited(9, 1);
        let id = mappings.add(incoming(PEER, 3, endpoint(7)));
        assert!(send(&mut mappings, id, &[0], 20_000).is_some());
        assert_eq!(mappings.make_room(Owner::Peer(PEER), at(20_001)), Err(AllInUse));
        mappings.abandon(PEER, at(20_002));
        assert_eq!(mappings.make_room(Owner::Peer(PEER), at(20_002)), Ok(Some(id)));
        assert!(send(&mut mappings, id, &[0], 20_003).is_some());
        assert_eq!(mappings.make_room(Owner::Peer(PEER), at(20_003)), Err(AllInUse));
    }

    #[test]
    fn a_capture_makes_no_room() {
        let mut mappings = limited(1, 1);
        let side = Side::Capture { place: 0, traffic: Traffic::Datagrams };
        mappings.add(mapping(PEER, 2, endpoint(7), side, Consent::Given));
        assert_eq!(mappings.make_room(Owner::Here, at(1_000_000)), Err(AllInUse));
    }
}
