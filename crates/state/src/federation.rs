//! Exchange of network state between the controllers of neighbouring networks.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use byway_units::Time;

use crate::limits::{
    DIRECTIONS_MAX, DIRECTIONS_OF_NEIGHBOURS_MAX, ENTRY_LIFETIME, LEASE, NEIGHBOURS_MAX, NETWORKS_MAX,
    QUERY_LIFETIME, SAMPLE_INTERVAL,
};
use crate::link_state::{LinkState, NetworkId};
use crate::path::Path;
use crate::path_entry::PathEntry;
use crate::refusal::{AnswerRefusal, PathUnknown, QueryRefusal};

/// One direction between two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Direction {
    /// Address of the endpoint that sends.
    pub from: IpAddr,
    /// Address of the endpoint that receives.
    pub to: IpAddr,
}

/// Location of an endpoint, as a controller's routes have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the controller's own network.
    Inside,
    /// Behind this neighbour.
    Behind(NetworkId),
}

/// Locations of both endpoints of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Location of the endpoint that sends.
    pub from: Location,
    /// Location of the endpoint that receives.
    pub to: Location,
}

impl Ends {
    fn has(&self, neighbour: NetworkId) -> bool {
        self.neighbours().any(|known| known == neighbour)
    }

    fn neighbours(&self) -> impl Iterator<Item = NetworkId> {
        [self.from, self.to].into_iter().filter_map(|end| match end {
            Location::Inside => None,
            Location::Behind(neighbour) => Some(neighbour),
        })
    }

    /// True if packets pass the own network once: between two neighbours, or to or from the inside.
    fn passes_once(&self) -> bool {
        self.from != self.to || self.from == Location::Inside
    }
}

/// Query of a neighbour, or to one, for the state of its part of a path and of what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourQuery {
    /// Neighbour that asks, or that is asked.
    pub neighbour: NetworkId,
    /// Direction that the query is about.
    pub direction: Direction,
    /// Networks that the query has passed, the first one first. The last one is the network that
    /// asks.
    pub visited: Vec<NetworkId>,
}

/// Answer of a neighbour about its part of a path and what is behind it.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourAnswer<'a> {
    /// Neighbour that answers.
    pub neighbour: NetworkId,
    /// Direction that it was asked about.
    pub direction: Direction,
    /// Run of the neighbour's controller: with another one, indices begin anew.
    pub epoch: u64,
    /// Entry of its table.
    pub entry: &'a PathEntry,
}

/// Reader of a path's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// Application in the own network: it sees the whole path.
    Own,
    /// Neighbour: it sees what is not on its side.
    Neighbour(NetworkId),
}

/// Federation of one network's controller with its neighbours (section 6 of the paper).
///
/// A controller asks its neighbours only. It asks about flows that begin or end in its network, and
/// about those that a neighbour asks about, because they pass its network. It does so while there
/// are any.
///
/// [`Federation::queries`] lists what to ask. States of an accepted answer go to the tables of the
/// direction ([`Table::report`](crate::Table::report)), whose path is [`Federation::path`].
#[derive(Clone, Debug)]
pub struct Federation {
    network: NetworkId,
    /// Neighbours, and the number of directions that each one asks about.
    neighbours: BTreeMap<NetworkId, usize>,
    directions: BTreeMap<Direction, Interest>,
    expired_at: Time,
}

/// Interest in one direction, and what neighbours answered.
#[derive(Clone, Debug)]
struct Interest {
    ends: Ends,
    /// End of the lease of own flows.
    leased_until: Option<Time>,
    askers: Vec<Asker>,
    segments: Vec<Segment>,
}

/// Neighbour that asks about a direction.
#[derive(Clone, Debug)]
struct Asker {
    neighbour: NetworkId,
    visited: Vec<NetworkId>,
    until: Time,
}

/// Part of a path behind a neighbour, as its last answer had it.
#[derive(Clone, Debug)]
struct Segment {
    neighbour: NetworkId,
    epoch: u64,
    index: u64,
    path: Path,
    received_at: Time,
}

impl Interest {
    const fn new(ends: Ends) -> Self {
        Self { ends, leased_until: None, askers: Vec::new(), segments: Vec::new() }
    }

    /// Changes the locations. If they are others, what neighbours answered is about another path.
    fn set_ends(&mut self, ends: Ends) {
        if self.ends != ends {
            *self = Self { leased_until: self.leased_until, ..Self::new(ends) };
        }
    }

    fn expire(&mut self, now: Time) {
        self.leased_until = self.leased_until.filter(|until| *until > now);
        self.askers.retain(|asker| asker.until > now);
    }

    fn is_needed(&self) -> bool {
        self.leased_until.is_some() || !self.askers.is_empty()
    }

    /// Returns the networks that a query to this neighbour has passed before this one; `None` if
    /// there is no reason to ask it.
    fn visited(&self, neighbour: NetworkId) -> Option<&[NetworkId]> {
        if !self.ends.has(neighbour) {
            return None;
        }
        if self.leased_until.is_some() {
            return Some(&[]);
        }
        let asker = self.askers.iter().find(|asker| asker.neighbour != neighbour)?;
        Some(&asker.visited)
    }

    fn segment(&self, neighbour: NetworkId, now: Time) -> Result<&Path, PathUnknown> {
        let segment = self.segments.iter().find(|segment| segment.neighbour == neighbour);
        let fresh = segment.filter(|segment| now.saturating_since(segment.received_at) <= ENTRY_LIFETIME);
        fresh.map(|segment| &segment.path).ok_or(PathUnknown::Silent(neighbour))
    }
}

impl Federation {
    /// Creates the federation of a network without neighbours.
    #[must_use]
    pub const fn new(network: NetworkId) -> Self {
        Self { network, neighbours: BTreeMap::new(), directions: BTreeMap::new(), expired_at: Time::START }
    }

    /// Adds a neighbour. Returns false if there are 64, or if it is this network.
    pub fn add_neighbour(&mut self, neighbour: NetworkId) -> bool {
        if neighbour == self.network || self.neighbours.len() >= NEIGHBOURS_MAX {
            return self.neighbours.contains_key(&neighbour);
        }
        self.neighbours.entry(neighbour).or_default();
        true
    }

    /// Removes a neighbour, with what it asked and answered.
    pub fn remove_neighbour(&mut self, neighbour: NetworkId) {
        self.neighbours.remove(&neighbour);
        self.directions.retain(|_, interest| !interest.ends.has(neighbour));
    }

    /// Registers own interactive flows in a direction, for 60 s: call it again to renew.
    ///
    /// # Errors
    /// If neither end is inside, if an end is behind an unknown neighbour, or if there are too many
    /// directions.
    pub fn register(&mut self, direction: Direction, ends: Ends, now: Time) -> Result<(), QueryRefusal> {
        if ends.from != Location::Inside && ends.to != Location::Inside {
            return Err(QueryRefusal::ForeignFlow);
        }
        let interest = self.interest(direction, ends, DIRECTIONS_MAX, now)?;
        interest.leased_until = Some(now.saturating_add(LEASE));
        Ok(())
    }

    /// Ends the registration of own flows in a direction.
    pub fn withdraw(&mut self, direction: &Direction) {
        if let Some(interest) = self.directions.get_mut(direction) {
            interest.leased_until = None;
        }
    }

    /// Accepts a neighbour's query, for 5 s: each poll or keepalive renews it. `ends` are the
    /// locations by this controller's routes.
    ///
    /// # Errors
    /// - If the network is no neighbour, or if the flow does not pass from or to it.
    /// - If the query has been here before, or has passed too many networks.
    /// - If there are too many directions, or half as many and the neighbour asks about more than
    ///   its share.
    pub fn on_query(&mut self, query: &NeighbourQuery, ends: Ends, now: Time) -> Result<(), QueryRefusal> {
        let NeighbourQuery { neighbour, direction, visited } = query;
        let count = *self.neighbours.get(neighbour).ok_or(QueryRefusal::NotANeighbour)?;
        if visited.last() != Some(neighbour) || visited.len() >= NETWORKS_MAX {
            return Err(QueryRefusal::Visited);
        }
        let again = visited.iter().enumerate().any(|(index, network)| visited[..index].contains(network));
        if again || visited.contains(&self.network) {
            return Err(QueryRefusal::Loop);
        }
        if !ends.has(*neighbour) || !ends.passes_once() {
            return Err(QueryRefusal::ForeignFlow);
        }
        // One neighbour cannot use up what all others need.
        let half = DIRECTIONS_OF_NEIGHBOURS_MAX / 2;
        let has_share = count < half / self.neighbours.len();
        let count_max = if has_share { DIRECTIONS_OF_NEIGHBOURS_MAX } else { half };
        let interest = self.interest(*direction, ends, count_max, now)?;
        let asker = Asker {
            neighbour: *neighbour,
            visited: visited.clone(),
            until: now.saturating_add(QUERY_LIFETIME),
        };
        if let Some(known) = interest.askers.iter_mut().find(|known| known.neighbour == *neighbour) {
            *known = asker;
        } else {
            interest.askers.push(asker);
            if let Some(count) = self.neighbours.get_mut(neighbour) {
                *count += 1;
            }
        }
        Ok(())
    }

    /// Returns the interest in a direction, which is new only if there are less than `count_max`.
    fn interest(
        &mut self,
        direction: Direction,
        ends: Ends,
        count_max: usize,
        now: Time,
    ) -> Result<&mut Interest, QueryRefusal> {
        if !ends.neighbours().all(|neighbour| self.neighbours.contains_key(&neighbour)) {
            return Err(QueryRefusal::NotANeighbour);
        }
        if !self.directions.contains_key(&direction) && self.directions.len() >= count_max {
            // Queries that are refused must be cheap.
            if now.saturating_since(self.expired_at) >= SAMPLE_INTERVAL {
                self.expire(now);
            }
            if self.directions.len() >= count_max {
                return Err(QueryRefusal::TooMany);
            }
        }
        let interest = self.directions.entry(direction).or_insert(Interest::new(ends));
        interest.set_ends(ends);
        Ok(interest)
    }

    /// Forgets what nobody needs any more. Call it before [`Federation::queries`].
    pub fn expire(&mut self, now: Time) {
        self.expired_at = now;
        for asked in self.neighbours.values_mut() {
            *asked = 0;
        }
        self.directions.retain(|_, interest| {
            interest.expire(now);
            for asker in &interest.askers {
                if let Some(asked) = self.neighbours.get_mut(&asker.neighbour) {
                    *asked += 1;
                }
            }
            interest.is_needed()
        });
    }

    /// Returns the queries that should be open at the moment, in a stable order.
    pub fn queries(&self) -> impl Iterator<Item = NeighbourQuery> {
        self.directions.iter().flat_map(|(direction, interest)| {
            interest.ends.neighbours().filter_map(|neighbour| {
                let mut visited = interest.visited(neighbour)?.to_vec();
                visited.push(self.network);
                Some(NeighbourQuery { neighbour, direction: *direction, visited })
            })
        })
    }

    /// Accepts a neighbour's answer. The states of its links then go to the direction's tables,
    /// older by the time that the answer took ([`LinkState::older_by`]).
    ///
    /// # Errors
    /// - If nobody asked this neighbour about the direction.
    /// - If the entry is not newer than the last one.
    /// - If the path comes back to this network, or to one that asked.
    ///
    /// The last good answer stays.
    pub fn on_answer(&mut self, answer: NeighbourAnswer<'_>, now: Time) -> Result<(), AnswerRefusal> {
        let NeighbourAnswer { neighbour, direction, epoch, entry } = answer;
        let interest = self.directions.get_mut(&direction).ok_or(AnswerRefusal::NotAsked)?;
        let visited = interest.visited(neighbour).ok_or(AnswerRefusal::NotAsked)?;
        let path = Path::new(entry.links().iter().map(LinkState::link)).map_err(AnswerRefusal::Path)?;
        let is_loop = |one: &NetworkId| *one == self.network || visited.contains(one);
        let again = path.networks().find(is_loop);
        if let Some(again) = again {
            return Err(AnswerRefusal::Loop(again));
        }
        let segment = Segment { neighbour, epoch, index: entry.index(), path, received_at: now };
        match interest.segments.iter_mut().find(|segment| segment.neighbour == neighbour) {
            Some(before) if before.epoch == epoch && before.index >= segment.index => {
                return Err(AnswerRefusal::NotNewer);
            }
            Some(before) => *before = segment,
            None => interest.segments.push(segment),
        }
        Ok(())
    }

    /// Returns the path of a direction as `viewer` may see it, with `own` as the part in this
    /// network; `None` if it has no links there that can queue.
    ///
    /// # Errors
    /// If nobody registered the direction or asked for it, if a neighbour has not answered for 5 s,
    /// or if the parts are no path.
    pub fn path(
        &self,
        direction: &Direction,
        own: Option<&Path>,
        viewer: Viewer,
        now: Time,
    ) -> Result<Path, PathUnknown> {
        let interest = self.directions.get(direction).ok_or(PathUnknown::NotRegistered)?;
        let part = |end: Location| match end {
            Location::Inside => Ok(None),
            Location::Behind(neighbour) if viewer == Viewer::Neighbour(neighbour) => Ok(None),
            Location::Behind(neighbour) => interest.segment(neighbour, now).map(Some),
        };
        let parts = [part(interest.ends.from)?, own, part(interest.ends.to)?];
        Path::joined(parts.into_iter().flatten()).map_err(PathUnknown::Path)
    }
}

#[cfg(test)]
mod tests;
