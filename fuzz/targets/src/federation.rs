//! Fuzz target: neighbours that ask a network's controller for anything, and answer anything.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use byway_state::{
    Direction, Ends, Federation, LEASE, LinkEntry, LinkId, LinkState, Location, NETWORKS_MAX,
    NeighbourAnswer, NeighbourQuery, NetworkId, Path, PathEntry, QUERY_LIFETIME, Viewer,
};
use byway_units::{Bytes, Duration, Rate, Time};

use crate::harness::input::Input;

/// The own network, and its neighbours.
const OWN: NetworkId = NetworkId::new(2);
const NEIGHBOURS: [NetworkId; 2] = [NetworkId::new(1), NetworkId::new(3)];

/// Reasons to ask neighbours, without any bound: what a federation should know.
#[derive(Default)]
struct Reasons {
    ends: Option<Ends>,
    leased_until: Option<Time>,
    /// Neighbours that ask, and until when.
    askers: BTreeMap<NetworkId, Time>,
}

/// A federation, and the reasons for its queries.
struct Stage {
    now: Time,
    federation: Federation,
    reasons: BTreeMap<Direction, Reasons>,
}

/// Registers flows, and feeds queries and answers of neighbours.
///
/// # Panics
/// - If a federation panics.
/// - If a neighbour is asked without a reason, or not asked with one.
/// - If an answer is accepted that was not asked for.
/// - If a path comes back to a network.
pub fn federation(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut stage = Stage::new();
    while !input.is_empty() {
        stage.now = stage.now.saturating_add(input.step());
        let direction = direction(&mut input);
        match input.byte() % 8 {
            0 => stage.register(direction, &mut input),
            1 => stage.withdraw(direction),
            2..=4 => stage.query(direction, &mut input),
            _ => stage.answer(direction, &mut input),
        }
        stage.check_queries();
        stage.check_path(direction);
    }
}

fn direction(input: &mut Input<'_>) -> Direction {
    let choice = input.byte();
    let address = |number| IpAddr::V4(Ipv4Addr::new(10, 0, 0, number));
    Direction { from: address(choice & 3), to: address(choice >> 2 & 3) }
}

fn network(input: &mut Input<'_>) -> NetworkId {
    NetworkId::new(u32::try_from(input.below(9)).expect("a small number"))
}

fn location(choice: u8) -> Location {
    match choice % 4 {
        0 => Location::Inside,
        3 => Location::Behind(NetworkId::new(9)),
        neighbour => Location::Behind(NEIGHBOURS[usize::from(neighbour) - 1]),
    }
}

fn ends(input: &mut Input<'_>) -> Ends {
    let choice = input.byte();
    Ends { from: location(choice), to: location(choice / 4) }
}

impl Reasons {
    fn set_ends(&mut self, ends: Ends) {
        if self.ends != Some(ends) {
            *self = Self { ends: Some(ends), leased_until: self.leased_until, ..Self::default() };
        }
    }

    fn has_end(&self, neighbour: NetworkId) -> bool {
        let behind = Location::Behind(neighbour);
        self.ends.is_some_and(|ends| ends.from == behind || ends.to == behind)
    }

    /// True if there is a reason to ask the neighbour.
    fn has_reason(&self, neighbour: NetworkId) -> bool {
        let is_asked = self.askers.keys().any(|asker| *asker != neighbour);
        self.has_end(neighbour) && (self.leased_until.is_some() || is_asked)
    }
}

impl Stage {
    fn new() -> Self {
        let mut federation = Federation::new(OWN);
        assert!(NEIGHBOURS.into_iter().all(|neighbour| federation.add_neighbour(neighbour)));
        Self { now: Time::START, federation, reasons: BTreeMap::new() }
    }

    fn register(&mut self, direction: Direction, input: &mut Input<'_>) {
        let ends = ends(input);
        if self.federation.register(direction, ends, self.now).is_ok() {
            assert!(ends.from == Location::Inside || ends.to == Location::Inside, "a foreign flow: {ends:?}");
            let reasons = self.reasons.entry(direction).or_default();
            reasons.set_ends(ends);
            reasons.leased_until = Some(self.now.saturating_add(LEASE));
        }
    }

    fn withdraw(&mut self, direction: Direction) {
        self.federation.withdraw(&direction);
        if let Some(reasons) = self.reasons.get_mut(&direction) {
            reasons.leased_until = None;
        }
    }

    fn query(&mut self, direction: Direction, input: &mut Input<'_>) {
        let (ends, neighbour) = (ends(input), network(input));
        let mut visited: Vec<_> = (0..input.below(NETWORKS_MAX + 1)).map(|_| network(input)).collect();
        if input.byte() < 250 {
            visited.push(neighbour);
        }
        let query = NeighbourQuery { neighbour, direction, visited };
        if self.federation.on_query(&query, ends, self.now).is_ok() {
            assert!(NEIGHBOURS.contains(&neighbour) && !query.visited.contains(&OWN));
            let reasons = self.reasons.entry(direction).or_default();
            reasons.set_ends(ends);
            assert!(reasons.has_end(neighbour) && ends.from != ends.to, "a foreign flow: {ends:?}");
            reasons.askers.insert(neighbour, self.now.saturating_add(QUERY_LIFETIME));
        }
    }

    fn answer(&mut self, direction: Direction, input: &mut Input<'_>) {
        let (neighbour, epoch, index) =
            (network(input), u64::from(input.byte() / 128), u64::from(input.byte()));
        let count = [1, 2, 3, 5, 64, 65, 0, 8][input.below(8)];
        let links = (0..count).map(|number| {
            let of = if number < 5 { network(input) } else { NetworkId::new(7) };
            state(LinkId::new(of, number))
        });
        let Ok(entry) = PathEntry::new(index, links.collect()) else { return };
        let answer = NeighbourAnswer { neighbour, direction, epoch, entry: &entry };
        if self.federation.on_answer(answer, self.now).is_ok() {
            let is_asked = self.reasons.get(&direction).is_some_and(|reasons| reasons.has_reason(neighbour));
            assert!(is_asked, "{neighbour} was not asked");
            assert!(entry.links().iter().all(|state| state.link().network != OWN));
        }
    }

    /// Compares the queries with the reasons for them.
    fn check_queries(&mut self) {
        let now = self.now;
        self.federation.expire(now);
        self.reasons.retain(|_, reasons| {
            reasons.leased_until = reasons.leased_until.filter(|until| *until > now);
            reasons.askers.retain(|_, until| *until > now);
            reasons.leased_until.is_some() || !reasons.askers.is_empty()
        });
        let queries: Vec<NeighbourQuery> = self.federation.queries().collect();
        for query in &queries {
            assert!(query.visited.len() <= NETWORKS_MAX && query.visited.last() == Some(&OWN));
            assert_eq!(query.visited.iter().filter(|one| **one == OWN).count(), 1);
        }
        let mut asked: Vec<_> = queries.into_iter().map(|query| (query.direction, query.neighbour)).collect();
        asked.sort_unstable();
        let reasons = self.reasons.iter().flat_map(|(direction, reasons)| {
            NEIGHBOURS.into_iter().filter(|one| reasons.has_reason(*one)).map(|one| (*direction, one))
        });
        assert_eq!(asked, reasons.collect::<Vec<_>>());
    }

    fn check_path(&self, direction: Direction) {
        let own = Path::new([LinkId::new(OWN, 1)]).expect("a path");
        let viewers = NEIGHBOURS.map(Viewer::Neighbour).into_iter().chain([Viewer::Own]);
        for viewer in viewers {
            if let Ok(path) = self.federation.path(&direction, Some(&own), viewer, self.now) {
                let mut networks: Vec<_> = path.networks().collect();
                let count = networks.len();
                networks.sort_unstable();
                networks.dedup();
                assert!(networks.len() == count && networks.contains(&OWN), "{path:?}");
            }
        }
    }
}

fn state(link: LinkId) -> LinkState {
    let (interval, delay) = (Duration::from_millis(50), Duration::from_millis(10));
    let entry = LinkEntry::new(interval, Bytes::ZERO, Bytes::ZERO, Rate::from_megabits_per_second(5), delay);
    LinkState::new(link, entry.expect("a usual entry"), Duration::ZERO).expect("it is young")
}
