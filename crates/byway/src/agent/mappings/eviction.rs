//! Limits of mappings, and selection of the mapping to evict at a limit.

use std::collections::BTreeMap;
use std::net::IpAddr;

use byway_proto::agent::OfferRefusal;
use byway_proto::conventions::{EvictionCandidate, PairLimits, choose_beyond_share, choose_evicted};
use byway_units::{AgentId, Time};

use super::{Consent, Endpoint, Mapping, MappingId, Mappings, Side};
use crate::connections::Source;
use crate::settings::MappingLimits;

/// Owner of a mapping, by whom mappings are counted. The agent evicts mappings of the owner with
/// the most of them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::agent) enum Owner {
    /// This agent's captures.
    Here,
    /// Address, or IPv6 network of 64 bits, of the applications that send to forwards.
    Source(IpAddr),
    /// Peer whose applications send to exposed resources.
    Peer(AgentId),
}

impl Owner {
    /// Returns the owner of the mappings that an application's endpoint begins.
    pub(in crate::agent) fn of(application: Endpoint) -> Self {
        Self::Source(Source::of(application.address.ip()).address)
    }
}

/// Number of mappings of one owner, and the result of the latest search among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnerUsage {
    count: usize,
    /// Time before which none of the owner's mappings is evictable, as an earlier search found.
    in_use_until: Time,
}

/// Error: all mappings that could be evicted for a new one are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::agent) struct MappingsExhausted;

impl Mappings {
    /// Sets the limits of mappings.
    pub(in crate::agent) const fn limit_to(&mut self, limits: MappingLimits) {
        self.limits = limits;
    }

    /// Returns the limits on the number of mappings.
    pub(in crate::agent) const fn limits(&self) -> PairLimits {
        self.limits.number
    }

    /// Returns the consent to return packets of received flows for other agents' repairs.
    pub(in crate::agent) const fn repair_consent(&self) -> byway_wire::messages::Consent {
        self.limits.repair_consent
    }

    /// Returns the mapping to evict before an owner gets another one; `None` if no limit is
    /// reached.
    ///
    /// # Errors
    /// If all candidates are in use.
    pub(in crate::agent) fn select_victim(
        &mut self,
        owner: Owner,
        now: Time,
    ) -> Result<Option<MappingId>, MappingsExhausted> {
        let count = self.owners.get(&owner).map_or(0, |owned| owned.count);
        if matches!(owner, Owner::Peer(_)) && count >= self.limits.number.of_peer {
            return self.victim_of_owner(owner, now).map(Some);
        }
        if self.count() < self.limits.number.all {
            return Ok(None);
        }
        self.victim_of_all(now)
            .or_else(|MappingsExhausted| self.over_share_victim(owner, now).ok_or(MappingsExhausted))
            .map(Some)
    }

    /// Returns the mapping to evict for `owner` although all are in use. It belongs to the owner
    /// with the most mappings; `None` if `owner` has hardly fewer.
    fn over_share_victim(&self, owner: Owner, now: Time) -> Option<MappingId> {
        let own = self.owners.get(&owner).map_or(0, |owned| owned.count);
        let (most, largest) = self.owners.iter().max_by_key(|(_, owned)| owned.count)?;
        if own + 1 >= largest.count {
            return None;
        }
        let its = self.candidates().filter(|(owner, _)| owner == most);
        choose_beyond_share(its.map(|(_, candidate)| (candidate.pair, candidate.usage)), now)
    }

    /// Returns the mapping to evict here after a full peer refused the mapping `refused`. It
    /// belongs to the source with the most mappings at that peer; `None` if the refused mapping's
    /// source has hardly fewer. Only the first refusal of a mapping evicts one.
    pub(in crate::agent) fn over_share_victim_at_peer(
        &self,
        refused: MappingId,
        now: Time,
    ) -> Option<MappingId> {
        let mapping = self.get(refused).filter(|mapping| mapping.refusal != Some(OfferRefusal::Full))?;
        let (peer, owner) = (mapping.peer, mapping.owner());
        let at_peer = || {
            let is_there = |mapping: &Mapping| {
                let is_granted = matches!(mapping.consent, Consent::Granted);
                mapping.peer == peer && is_granted && matches!(mapping.side, Side::Forward(_))
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

    /// Returns the mapping to evict among those of an owner. If all are in use, it records when the
    /// first becomes evictable. A flood of new ports therefore does not search each time.
    fn victim_of_owner(&mut self, owner: Owner, now: Time) -> Result<MappingId, MappingsExhausted> {
        if self.owners.get(&owner).is_some_and(|owned| now < owned.in_use_until) {
            return Err(MappingsExhausted);
        }
        let its = self.candidates().filter(|(its_owner, _)| *its_owner == owner);
        choose_evicted(its.map(|(_, candidate)| candidate), now).map_err(|earliest| {
            self.owners.entry(owner).or_default().in_use_until = earliest;
            MappingsExhausted
        })
    }

    /// Returns the mapping to evict among those of all owners. If all are in use, it records when
    /// the first becomes evictable.
    pub(in crate::agent) fn victim_of_all(&mut self, now: Time) -> Result<MappingId, MappingsExhausted> {
        if now < self.in_use_until {
            return Err(MappingsExhausted);
        }
        choose_evicted(self.candidates().map(|(_, candidate)| candidate), now).map_err(|earliest| {
            self.in_use_until = earliest;
            MappingsExhausted
        })
    }

    /// Returns the mappings that may be evicted, with their owners.
    fn candidates(&self) -> impl Iterator<Item = (Owner, EvictionCandidate<MappingId>)> {
        self.iter().filter(|(_, mapping)| mapping.side.is_evictable()).map(|(pair, mapping)| {
            let owner = mapping.owner();
            let of_owner = self.owners.get(&owner).map_or(0, |owned| owned.count);
            (owner, EvictionCandidate { pair, of_owner, usage: mapping.usage })
        })
    }

    /// Makes the mappings that a peer's applications began evictable, because the peer has
    /// restarted and lost them.
    pub(in crate::agent) fn abandon(&mut self, peer: AgentId, now: Time) {
        for id in self.initiated_by(peer) {
            if let Some(mapping) = self.get_mut(id) {
                mapping.usage.abandon(now);
            }
        }
        self.invalidate_scan(Owner::Peer(peer));
    }

    /// Counts a new mapping of an owner.
    pub(super) fn count_added(&mut self, owner: Owner) {
        self.invalidate_scan(owner);
        self.owners.entry(owner).or_default().count += 1;
    }

    /// Counts the removal of an owner's mapping.
    pub(super) fn count_removed(&mut self, owner: Owner) {
        if let Some(owned) = self.owners.get_mut(&owner) {
            owned.count -= 1;
            if owned.count == 0 {
                self.owners.remove(&owner);
            }
        }
    }

    /// Makes the next search for a mapping to evict look again, at all mappings and at those of
    /// `owner`.
    fn invalidate_scan(&mut self, owner: Owner) {
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
    use super::super::{Consent, OfferState, Side};
    use super::*;

    /// Owner of the mappings that [`forwarded`] adds.
    const APPLICATIONS: Owner = Owner::Source(IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// Adds an application's mapping by its port, last used at this time, either confirmed by both
    /// ends or unanswered.
    fn forwarded(mappings: &mut Mappings, port: u16, used_ms: u64, is_confirmed: bool) -> MappingId {
        forwarded_from(mappings, endpoint(port), used_ms, is_confirmed)
    }

    fn forwarded_from(
        mappings: &mut Mappings,
        application: SocketAddr,
        used_ms: u64,
        is_confirmed: bool,
    ) -> MappingId {
        let mut forwarded =
            mapping(PEER, application.port(), application, Side::Forward(0), Consent::Granted);
        forwarded.usage.note(is_confirmed, at(used_ms));
        forwarded.usage.note(false, at(used_ms));
        mappings.add(forwarded)
    }

    fn limited(all: usize, of_peer: usize) -> Mappings {
        let mut mappings = Mappings::default();
        let number = PairLimits { all, of_peer };
        mappings.limit_to(MappingLimits { number, ..MappingLimits::default() });
        mappings
    }

    #[test]
    fn the_longest_idle_mapping_makes_room_and_none_in_use_does() {
        let mut mappings = limited(3, 3);
        let ids = [(2, 3_000), (4, 1_000), (6, 2_000)]
            .map(|(port, used_ms)| forwarded(&mut mappings, port, used_ms, true));
        assert_eq!(mappings.select_victim(APPLICATIONS, at(10_999)), Err(MappingsExhausted));
        assert_eq!(mappings.select_victim(APPLICATIONS, at(11_000)), Ok(Some(ids[1])));
        assert!(send(&mut mappings, ids[1], &[0], 11_000).is_some());
        assert_eq!(
            mappings.select_victim(APPLICATIONS, at(11_999)),
            Err(MappingsExhausted),
            "it is in use again"
        );
        assert_eq!(mappings.select_victim(APPLICATIONS, at(12_000)), Ok(Some(ids[2])));
        assert!(mappings.remove(ids[2]).is_some());
        assert_eq!(mappings.select_victim(APPLICATIONS, at(12_000)), Ok(None));
    }

    #[test]
    fn a_mapping_without_an_answer_makes_room_after_a_second_and_one_with_an_answer_does_not() {
        let mut mappings = limited(2, 2);
        forwarded(&mut mappings, 2, 0, true);
        assert_eq!(mappings.select_victim(APPLICATIONS, at(0)), Ok(None));
        let unanswered = forwarded(&mut mappings, 4, 100, false);
        assert_eq!(mappings.select_victim(APPLICATIONS, at(1_099)), Err(MappingsExhausted));
        assert_eq!(mappings.select_victim(APPLICATIONS, at(1_100)), Ok(Some(unanswered)));
    }

    #[test]
    fn a_target_answers_and_an_application_does_not() {
        let mut mappings = limited(1, 1);
        let id = mappings.add(incoming(PEER, 3, endpoint(7)));
        mappings.get_mut(id).expect("it was added").note_arrival(at(0));
        assert_eq!(mappings.select_victim(APPLICATIONS, at(999)), Err(MappingsExhausted));
        assert_eq!(mappings.select_victim(APPLICATIONS, at(1_000)), Ok(Some(id)));
        assert!(send(&mut mappings, id, &[1], 1_000).is_some());
        assert_eq!(
            mappings.select_victim(APPLICATIONS, at(1_099)),
            Err(MappingsExhausted),
            "it was just answered"
        );
        assert_eq!(mappings.select_victim(APPLICATIONS, at(1_100)), Ok(Some(id)));
        mappings.get_mut(id).expect("it is there").note_arrival(at(1_500));
        assert_eq!(
            mappings.select_victim(APPLICATIONS, at(11_499)),
            Err(MappingsExhausted),
            "now it is a conversation"
        );
    }

    #[test]
    fn a_new_mapping_is_found_although_none_could_make_room_before() {
        let mut mappings = limited(2, 2);
        let first = forwarded(&mut mappings, 2, 0, true);
        forwarded(&mut mappings, 4, 0, true);
        assert_eq!(mappings.select_victim(APPLICATIONS, at(1)), Err(MappingsExhausted));
        assert!(mappings.remove(first).is_some());
        let second = forwarded(&mut mappings, 6, 1, false);
        assert_eq!(mappings.select_victim(APPLICATIONS, at(1_001)), Ok(Some(second)));
    }

    #[test]
    fn one_peer_makes_room_with_its_own_mappings_and_whoever_has_most_pays_where_all_are_full() {
        let (other, used) = (AgentId::new(3), Owner::Peer(PEER));
        let mut mappings = limited(4, 2);
        let modest = mappings.add(incoming(other, 1, endpoint(1)));
        let busy = mappings.add(incoming(PEER, 3, endpoint(3)));
        assert_eq!(mappings.select_victim(used, at(0)), Ok(None));
        let its = mappings.add(incoming(PEER, 5, endpoint(5)));
        assert!(send(&mut mappings, busy, &[0], 60_000).is_some());
        assert_eq!(
            mappings.select_victim(used, at(60_000)),
            Ok(Some(its)),
            "the other one has been idle as long"
        );
        assert!(send(&mut mappings, its, &[0], 60_000).is_some());
        assert_eq!(
            mappings.select_victim(used, at(60_001)),
            Err(MappingsExhausted),
            "it takes nothing from others"
        );
        assert_eq!(mappings.select_victim(Owner::Peer(other), at(60_001)), Ok(None));
        forwarded(&mut mappings, 8, 60_000, true);
        assert_eq!(
            mappings.select_victim(APPLICATIONS, at(60_001)),
            Ok(Some(modest)),
            "those of most are in use"
        );
        assert_eq!(mappings.select_victim(APPLICATIONS, at(70_000)), Ok(Some(busy)), "and now they are not");
    }

    #[test]
    fn mappings_of_a_peer_that_began_anew_make_room_at_once_unless_they_are_used_again() {
        let mut mappings = limited(9, 1);
        let id = mappings.add(incoming(PEER, 3, endpoint(7)));
        assert!(send(&mut mappings, id, &[0], 20_000).is_some());
        mappings.get_mut(id).expect("it was added").note_arrival(at(20_000));
        assert_eq!(mappings.select_victim(Owner::Peer(PEER), at(20_001)), Err(MappingsExhausted));
        mappings.abandon(PEER, at(20_002));
        assert_eq!(mappings.select_victim(Owner::Peer(PEER), at(20_002)), Ok(Some(id)));
        assert!(send(&mut mappings, id, &[0], 20_003).is_some());
        assert_eq!(mappings.select_victim(Owner::Peer(PEER), at(20_003)), Err(MappingsExhausted));
    }

    #[test]
    fn a_source_that_has_most_makes_room_for_another_at_once_but_not_with_its_calls() {
        let mut mappings = limited(5, 5);
        let (flood, call) = (endpoint(2), forwarded(&mut mappings, 9, 0, true));
        let unanswered: Vec<_> = (1..=4)
            .map(|number| SocketAddr::new(flood.ip(), 10 + 2 * number))
            .map(|port| forwarded_from(&mut mappings, port, 0, false))
            .collect();
        let newcomer = Owner::Source(IpAddr::from([192, 0, 2, 1]));
        assert_eq!(
            mappings.select_victim(APPLICATIONS, at(1)),
            Err(MappingsExhausted),
            "its own newcomers wait"
        );
        let evicted = mappings.select_victim(newcomer, at(1)).expect("below the limits").expect("of another");
        assert!(unanswered.contains(&evicted) && evicted != call);
        for id in unanswered {
            mappings.remove(id);
        }
        for port in [30, 32, 34, 36] {
            forwarded(&mut mappings, port, 500, true);
        }
        assert_eq!(mappings.select_victim(newcomer, at(999)), Err(MappingsExhausted), "all are calls");
        assert_eq!(mappings.select_victim(newcomer, at(1_000)), Ok(Some(call)), "it pauses");
    }

    #[test]
    fn a_source_with_as_many_mappings_as_another_takes_none_from_it() {
        let mut mappings = limited(4, 4);
        for port in [2, 4] {
            forwarded(&mut mappings, port, 0, false);
            forwarded_from(&mut mappings, ([192, 0, 2, 1], port + 100).into(), 0, false);
        }
        assert_eq!(mappings.select_victim(APPLICATIONS, at(1)), Err(MappingsExhausted));
        let newcomer = Owner::Source(IpAddr::from([192, 0, 2, 2]));
        assert!(mappings.select_victim(newcomer, at(1)).is_ok_and(|evicted| evicted.is_some()));
    }

    #[test]
    fn at_a_full_peer_the_source_that_has_most_there_makes_room_once() {
        let mut mappings = limited(9, 9);
        let many: Vec<_> = [2, 4, 6].map(|port| forwarded(&mut mappings, port, 0, false)).into();
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 8));
        let refused = forwarded_from(&mut mappings, elsewhere, 0, false);
        mappings.get_mut(refused).expect("it was added").consent = Consent::Requested(OfferState::default());
        let makes_room = mappings.over_share_victim_at_peer(refused, at(1)).expect("the other has three");
        assert!(many.contains(&makes_room));
        let its_own = forwarded(&mut mappings, 10, 0, false);
        assert_eq!(mappings.over_share_victim_at_peer(its_own, at(1)), None, "it takes nothing from itself");
        let no_room = Err(OfferRefusal::Full);
        assert!(mappings.on_offer_answer(refused, no_room, at(1)).is_some());
        assert_eq!(mappings.over_share_victim_at_peer(refused, at(1)), None, "it was refused again");
    }

    #[test]
    fn a_capture_makes_no_room() {
        let mut mappings = limited(1, 1);
        let side = Side::Capture { index: 0, traffic: Traffic::Datagrams };
        mappings.add(mapping(PEER, 2, endpoint(7), side, Consent::Granted));
        assert_eq!(mappings.select_victim(APPLICATIONS, at(1_000_000)), Err(MappingsExhausted));
    }
}
