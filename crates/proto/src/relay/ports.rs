//! Ways to egress relays, and from ingress relays: which aliases are in force between two relays.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use byway_units::{RelayId, Time};
use byway_wire::{Alias, FlowKey, Shard};

use super::ingress::{EgressPort, FlowSlot, Onward};
use crate::limits::ANNOUNCE_INTERVAL;
use crate::session::SessionId;

/// A relay shard that copies and repairs go to, and come from.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) relay: (RelayId, Shard),
    /// `None` for this shard itself.
    pub(super) session: Option<SessionId>,
    /// The flows that this side announced, alias n + 1 at place n.
    announced: Vec<Option<Announced>>,
    /// The aliases among them that are free, those that have been for longest first: what is still under way under one
    /// is then hardly taken for another flow's.
    free: VecDeque<Alias>,
    /// The flows that the other side announced, alias n + 1 at place n.
    heard: Vec<Option<Heard>>,
}

/// A flow whose packets go through a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) flow: FlowSlot,
    pub(super) key: FlowKey,
    pub(super) known: bool,
}

/// A flow that the other side announced.
#[derive(Clone, Copy, Debug)]
struct Heard {
    key: FlowKey,
    /// Whether a receiver's grant says that its packets come from there.
    is_fed: bool,
}

/// All ports of a relay.
#[derive(Debug, Default)]
pub(super) struct Ports {
    all: Vec<Port>,
    by_session: BTreeMap<SessionId, EgressPort>,
    announce_at: Option<Time>,
}

impl Ports {
    /// Adds the way to another relay.
    pub(super) fn add_relay(&mut self, relay: RelayId, shard: Shard, session: SessionId) {
        let port = self.add((relay, shard), Some(session));
        self.by_session.insert(session, port);
    }

    /// The port to a relay shard; the way to this shard itself is added when first asked for.
    pub(super) fn towards(&mut self, relay: (RelayId, Shard), own: (RelayId, Shard)) -> Option<EgressPort> {
        let known = self.all.iter().position(|port| port.relay == relay);
        match known {
            Some(place) => Some(EgressPort(u16::try_from(place).expect("there are few relays"))),
            None if relay == own => Some(self.add(own, None)),
            None => None,
        }
    }

    fn add(&mut self, relay: (RelayId, Shard), session: Option<SessionId>) -> EgressPort {
        self.all.push(Port {
            relay,
            session,
            announced: Vec::new(),
            free: VecDeque::new(),
            heard: Vec::new(),
        });
        EgressPort(u16::try_from(self.all.len() - 1).expect("there are few relays"))
    }

    pub(super) fn get(&self, port: EgressPort) -> &Port {
        &self.all[usize::from(port.0)]
    }

    pub(super) fn of_session(&self, session: SessionId) -> Option<EgressPort> {
        self.by_session.get(&session).copied()
    }

    /// Gives a flow an alias on its way through a port, to be announced.
    pub(super) fn announce(
        &mut self,
        port: EgressPort,
        flow: FlowSlot,
        key: FlowKey,
        now: Time,
    ) -> Option<Alias> {
        let Port { announced, free, .. } = &mut self.all[usize::from(port.0)];
        let news = Some(Announced { flow, key, known: false });
        let alias = if let Some(alias) = free.pop_front() {
            announced[place_of(alias)] = news;
            alias
        } else {
            let alias = alias_at(announced.len())?;
            announced.push(news);
            alias
        };
        self.announce_at = Some(now);
        Some(alias)
    }

    /// Takes a flow's alias back.
    pub(super) fn withdraw(&mut self, port: EgressPort, alias: Alias) {
        let Port { announced, free, .. } = &mut self.all[usize::from(port.0)];
        if announced.get_mut(place_of(alias)).is_some_and(|place| place.take().is_some()) {
            free.push_back(alias);
        }
    }

    /// The flow behind an alias that this side announced.
    pub(super) fn announced_mut(&mut self, port: EgressPort, alias: Alias) -> Option<&mut Announced> {
        self.all[usize::from(port.0)].announced.get_mut(place_of(alias))?.as_mut()
    }

    /// The flow behind an alias that the other side announced, if the flow's packets may come from there.
    pub(super) fn heard(&self, port: EgressPort, alias: Alias) -> Option<FlowKey> {
        let heard = self.get(port).heard.get(place_of(alias)).copied().flatten();
        heard.filter(|heard| heard.is_fed).map(|heard| heard.key)
    }

    /// The port to a relay shard, if there is one.
    pub(super) fn find(&self, relay: (RelayId, Shard)) -> Option<EgressPort> {
        self.all().find(|port| self.get(*port).relay == relay)
    }

    /// The flow that this relay sends to itself under this alias.
    pub(super) fn own_flow(&self, onward: Onward) -> Option<FlowKey> {
        let place = place_of(onward.alias);
        self.get(onward.port).announced.get(place)?.map(|announced| announced.key)
    }

    /// The flows under this key that this relay sends to itself.
    pub(super) fn own_flows(&self, key: FlowKey) -> Vec<FlowSlot> {
        let own = self.all.iter().filter(|port| port.session.is_none());
        let announced = own.flat_map(|port| port.announced.iter().flatten());
        announced.filter(|announced| announced.key == key).map(|announced| announced.flow).collect()
    }

    /// Notes what the other side calls a flow, and whether the flow's packets may come from there.
    pub(super) fn hear(&mut self, port: EgressPort, alias: Alias, key: FlowKey, is_fed: bool) {
        let heard = &mut self.all[usize::from(port.0)].heard;
        let place = place_of(alias);
        if heard.len() <= place {
            heard.resize(place + 1, None);
        }
        heard[place] = Some(Heard { key, is_fed });
    }

    /// All ports and aliases by which others know a flow that they send here.
    pub(super) fn heard_as(&self, key: FlowKey) -> Vec<(EgressPort, Alias)> {
        let ports = (0_u16..).map(EgressPort).zip(&self.all);
        ports
            .flat_map(|(number, port)| {
                let is_of_flow = move |known: &Option<Heard>| known.is_some_and(|known| known.key == key);
                let places = port.heard.iter().enumerate().filter(move |(_, known)| is_of_flow(known));
                places.filter_map(move |(place, _)| Some((number, alias_at(place)?)))
            })
            .collect()
    }

    /// The aliases of a port that have to be announced (again).
    pub(super) fn unknown(&self, port: EgressPort) -> impl Iterator<Item = (Alias, Announced)> + '_ {
        let announced = self.get(port).announced.iter().enumerate();
        announced.filter_map(|(place, announced)| {
            let announced = announced.filter(|announced| !announced.known)?;
            Some((alias_at(place)?, announced))
        })
    }

    /// Forgets what the other side knew: it restarted.
    pub(super) fn forget(&mut self, port: EgressPort, now: Time) -> Vec<FlowSlot> {
        let port = &mut self.all[usize::from(port.0)];
        port.heard.clear();
        for announced in port.announced.iter_mut().flatten() {
            announced.known = false;
        }
        self.announce_at = Some(now);
        port.announced.iter().flatten().map(|announced| announced.flow).collect()
    }

    /// All ports.
    pub(super) fn all(&self) -> impl Iterator<Item = EgressPort> + use<> {
        (0..u16::try_from(self.all.len()).expect("there are few relays")).map(EgressPort)
    }

    /// When aliases are to be announced.
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.announce_at
    }

    /// Notes that aliases were announced, or that there is nothing to announce.
    pub(super) fn announced(&mut self, again: bool, now: Time) {
        self.announce_at = again.then(|| now + ANNOUNCE_INTERVAL);
    }

    /// Makes sure that aliases are announced soon.
    pub(super) fn announce_soon(&mut self, now: Time) {
        self.announce_at = Some(now);
    }
}

/// The place of an alias in a list of all of them; 0 is none.
fn place_of(alias: Alias) -> usize {
    usize::from(alias.number()) - 1
}

fn alias_at(place: usize) -> Option<Alias> {
    Alias::new(u16::try_from(place + 1).ok()?)
}
