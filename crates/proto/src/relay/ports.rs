//! Ways to egress relays, and from ingress relays: which aliases are in force between two relays, and whether they
//! lead anywhere.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use byway_units::{RelayId, Time};
use byway_wire::messages::AliasAnnouncement;
use byway_wire::{Alias, FlowKey, Shard};

use super::ingress::{EgressPort, FlowSlot, Onward};
use crate::limits::{ANNOUNCE_INTERVAL, ANNOUNCED_OFTEN, DOUBTED_FOR, REPAIR_RETENTION, TELL_DOUBLINGS_MAX};
use crate::policy::forwards;
use crate::session::SessionId;

/// Where a port leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// To this shard itself.
    Here,
    /// To the relay at the other end of a session.
    There(SessionId),
    /// Nowhere: the relay was removed, and another one may take the port.
    Nowhere,
}

/// A relay shard that copies and repairs go to, and come from.
#[derive(Debug)]
struct Port {
    relay: (RelayId, Shard),
    end: End,
    /// Whether the other relay does not answer.
    is_lost: bool,
    /// Until when it is probed although nothing may go there: it was lost lately, and may be again.
    doubtful_until: Time,
    /// The flows that this side announced, alias n + 1 at place n.
    announced: Vec<Option<Announced>>,
    /// The aliases among them that are free, those that have been for longest first: what is still under way under one
    /// is then hardly taken for another flow's.
    free: VecDeque<(Time, Alias)>,
    /// The flows that the other side announced, alias n + 1 at place n.
    heard: Vec<Option<Heard>>,
}

/// A flow whose packets go through a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) flow: FlowSlot,
    pub(super) key: FlowKey,
    pub(super) known: bool,
    /// Time of the next announcement, as long as it is not known.
    due_at: Time,
    /// Number of announcements in vain.
    in_vain: u8,
    /// Whether its packets get no further than here: the other relay does not answer, or has lost its receiver.
    is_cut: bool,
    /// When its sender is to be told so (again), or that they do again.
    tell_at: Option<Time>,
    /// How often it was told.
    told: u8,
}

/// What the sender of a flow is to be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    pub(super) flow: FlowSlot,
    pub(super) key: FlowKey,
    pub(super) is_cut: bool,
}

impl Port {
    const fn new(relay: (RelayId, Shard), end: End) -> Self {
        Self {
            relay,
            end,
            is_lost: false,
            doubtful_until: Time::START,
            announced: Vec::new(),
            free: VecDeque::new(),
            heard: Vec::new(),
        }
    }
}

impl Announced {
    /// Has it announced as a new one is, if it is not known.
    const fn announce_anew(&mut self, at: Time) {
        (self.due_at, self.in_vain) = (at, 0);
    }

    /// Notes that it was announced.
    fn note_announced(&mut self, is_active: bool, now: Time) {
        let doublings = self.in_vain.saturating_sub(ANNOUNCED_OFTEN).min(TELL_DOUBLINGS_MAX);
        self.in_vain = if is_active { 0 } else { self.in_vain.saturating_add(1) };
        self.due_at = now + ANNOUNCE_INTERVAL * (1 << if is_active { 0 } else { doublings });
    }

    const fn set_cut(&mut self, is_cut: bool, now: Time) {
        if self.is_cut != is_cut {
            (self.is_cut, self.tell_at, self.told) = (is_cut, Some(now), 0);
        }
    }

    /// What its sender is to be told now. That packets get no further is said until the sender answers; that they do
    /// is said once, as the sender asks.
    fn take_news(&mut self, now: Time) -> Option<News> {
        self.tell_at.take_if(|at| *at <= now)?;
        if self.is_cut {
            self.tell_at = Some(now + ANNOUNCE_INTERVAL * (1 << self.told));
            self.told = (self.told + 1).min(TELL_DOUBLINGS_MAX);
        }
        Some(News { flow: self.flow, key: self.key, is_cut: self.is_cut })
    }
}

/// A flow that the other side announced.
#[derive(Clone, Copy, Debug)]
struct Heard {
    key: FlowKey,
    /// Whether a receiver's grant says that its packets come from there.
    is_fed: bool,
    /// Whether its packets are to be delivered, whatever the receiver asked for.
    forwards: bool,
    /// Whether its sender copies only some packets.
    is_selective: bool,
}

/// A flow that comes from another relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fed {
    pub(super) key: FlowKey,
    /// Whether its packets are to be delivered, whatever the receiver asked for.
    pub(super) forwards: bool,
    /// Whether its sender copies only some packets: a gap is then no loss.
    pub(super) is_selective: bool,
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
        let port = self.add((relay, shard), End::There(session));
        self.by_session.insert(session, port);
    }

    /// Lets a port lead to its relay by another session.
    pub(super) fn replace_session(&mut self, port: EgressPort, session: SessionId) {
        if let End::There(before) = self.get(port).end {
            self.by_session.remove(&before);
        }
        self.all[usize::from(port.0)].end = End::There(session);
        self.by_session.insert(session, port);
    }

    /// Removes the way to another relay, whose flows have gone.
    pub(super) fn remove_relay(&mut self, port: EgressPort) {
        if let End::There(session) = self.get(port).end {
            self.by_session.remove(&session);
            let relay = self.get(port).relay;
            self.all[usize::from(port.0)] = Port::new(relay, End::Nowhere);
        }
    }

    /// The flows whose packets go through a port.
    pub(super) fn flows(&self, port: EgressPort) -> Vec<FlowSlot> {
        self.get(port).announced.iter().flatten().map(|announced| announced.flow).collect()
    }

    /// The port to a relay shard; the way to this shard itself is added when first asked for.
    pub(super) fn towards(&mut self, relay: (RelayId, Shard), own: (RelayId, Shard)) -> Option<EgressPort> {
        let known = self.find(relay);
        if known.is_none() && relay == own { Some(self.add(own, End::Here)) } else { known }
    }

    /// The port to a relay shard that is known.
    pub(super) fn find(&self, relay: (RelayId, Shard)) -> Option<EgressPort> {
        let place = self.all.iter().position(|port| port.relay == relay && port.end != End::Nowhere)?;
        Some(EgressPort(u16::try_from(place).expect("there are few relays")))
    }

    /// The relay shard at the other end.
    pub(super) fn place(&self, port: EgressPort) -> (RelayId, Shard) {
        self.get(port).relay
    }

    /// Whether the other relay does not answer.
    pub(super) fn is_lost(&self, port: EgressPort) -> bool {
        self.get(port).is_lost
    }

    fn add(&mut self, relay: (RelayId, Shard), end: End) -> EgressPort {
        let vacant = self.all.iter().position(|port| port.end == End::Nowhere);
        let place = vacant.unwrap_or(self.all.len());
        let port = Port::new(relay, end);
        match self.all.get_mut(place) {
            Some(known) => *known = port,
            None => self.all.push(port),
        }
        EgressPort(u16::try_from(place).expect("there are few relays"))
    }

    fn get(&self, port: EgressPort) -> &Port {
        &self.all[usize::from(port.0)]
    }

    /// The session with the other relay; none on the way to this relay itself.
    #[inline]
    pub(super) fn session(&self, port: EgressPort) -> Option<SessionId> {
        match self.get(port).end {
            End::There(session) => Some(session),
            End::Here | End::Nowhere => None,
        }
    }

    /// Whether the port leads to this relay itself.
    pub(super) fn is_here(&self, port: EgressPort) -> bool {
        self.get(port).end == End::Here
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
        let Port { announced, free, is_lost, .. } = &mut self.all[usize::from(port.0)];
        let due_at = now;
        let (tell_at, told, in_vain) = (None, 0, 0);
        let news = Announced { flow, key, known: false, due_at, in_vain, is_cut: *is_lost, tell_at, told };
        // As long as repair packets are kept, one that names the old flow must not be taken for the new one's.
        let rested = free.front().copied().filter(|(since, _)| *since + REPAIR_RETENTION <= now);
        let alias = if let Some((_, alias)) = rested {
            free.pop_front();
            announced[place_of(alias)] = Some(news);
            alias
        } else {
            let alias = alias_at(announced.len())?;
            announced.push(Some(news));
            alias
        };
        self.announce_at = Some(now);
        Some(alias)
    }

    /// Takes a flow's alias back.
    pub(super) fn withdraw(&mut self, port: EgressPort, alias: Alias, now: Time) {
        let Port { announced, free, .. } = &mut self.all[usize::from(port.0)];
        if announced.get_mut(place_of(alias)).is_some_and(|place| place.take().is_some()) {
            free.push_back((now, alias));
        }
    }

    /// The flow behind an alias that this side announced.
    pub(super) fn announced_mut(&mut self, port: EgressPort, alias: Alias) -> Option<&mut Announced> {
        self.all[usize::from(port.0)].announced.get_mut(place_of(alias))?.as_mut()
    }

    /// The flow behind an alias that the other side announced, if the flow's packets may come from there.
    pub(super) fn heard(&self, port: EgressPort, alias: Alias) -> Option<FlowKey> {
        self.fed(port, alias).map(|fed| fed.key)
    }

    /// The same, and how its packets are to be taken.
    pub(super) fn fed(&self, port: EgressPort, alias: Alias) -> Option<Fed> {
        let heard = self.get(port).heard.get(place_of(alias)).copied().flatten();
        heard.filter(|heard| heard.is_fed).map(|Heard { key, forwards, is_selective, .. }| Fed {
            key,
            forwards,
            is_selective,
        })
    }

    /// The flow that this relay sends to itself under this alias.
    pub(super) fn own_flow(&self, port: EgressPort, alias: Alias) -> Option<FlowKey> {
        let place = place_of(alias);
        self.get(port).announced.get(place)?.map(|announced| announced.key)
    }

    /// The flows under this key that this relay sends to itself.
    pub(super) fn own_flows(&self, key: FlowKey) -> Vec<FlowSlot> {
        let own = self.all.iter().filter(|port| port.end == End::Here);
        let announced = own.flat_map(|port| port.announced.iter().flatten());
        announced.filter(|announced| announced.key == key).map(|announced| announced.flow).collect()
    }

    /// The aliases under which this relay sends itself the flows of this key.
    pub(super) fn own_onward(&self, key: FlowKey) -> Vec<Onward> {
        let ports = (0_u16..).map(EgressPort).zip(&self.all).filter(|(_, port)| port.end == End::Here);
        let onward = ports.flat_map(|(number, port)| {
            let places = port.announced.iter().enumerate();
            places.filter_map(move |(place, announced)| {
                let announced = announced.filter(|announced| announced.key == key)?;
                Some(Onward { port: number, alias: alias_at(place)?, known: announced.known })
            })
        });
        onward.collect()
    }

    /// Notes what the other side calls a flow, and whether the flow's packets may come from there.
    pub(super) fn hear(&mut self, port: EgressPort, flow: &AliasAnnouncement, is_fed: bool) {
        let heard = &mut self.all[usize::from(port.0)].heard;
        let place = place_of(flow.alias);
        if heard.len() <= place {
            heard.resize(place + 1, None);
        }
        heard[place] = Some(Heard {
            key: flow.flow_key,
            is_fed,
            forwards: forwards(flow.service),
            is_selective: flow.selective,
        });
    }

    /// Notes whether the packets of a flow may come from there.
    pub(super) fn set_fed(&mut self, port: EgressPort, alias: Alias, is_fed: bool) {
        let heard = self.all[usize::from(port.0)].heard.get_mut(place_of(alias));
        if let Some(heard) = heard.and_then(Option::as_mut) {
            heard.is_fed = is_fed;
        }
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

    /// Returns true if a port has aliases that the other side does not know.
    pub(super) fn has_unknown(&self, port: EgressPort) -> bool {
        self.unknown(port).next().is_some()
    }

    /// Takes the aliases of a port that are announced now. Those of idle flows are announced less and less often, as
    /// the other side tells of a receiver that comes.
    pub(super) fn take_due(
        &mut self,
        port: EgressPort,
        is_active: impl Fn(FlowSlot) -> bool,
        now: Time,
    ) -> Vec<(Alias, Announced)> {
        let mut due = Vec::new();
        for (place, announced) in self.all[usize::from(port.0)].announced.iter_mut().enumerate() {
            let unknown = announced.as_mut().filter(|announced| !announced.known && announced.due_at <= now);
            if let Some((announced, alias)) = unknown.zip(alias_at(place)) {
                due.push((alias, *announced));
                announced.note_announced(is_active(announced.flow), now);
            }
        }
        due
    }

    /// Returns when the next alias of a flow is announced to another relay, at the earliest after an interval.
    fn due_at(&self, now: Time) -> Option<Time> {
        let there = self.all.iter().filter(|port| matches!(port.end, End::There(_)));
        let unknown =
            there.flat_map(|port| port.announced.iter().flatten()).filter(|announced| !announced.known);
        unknown.map(|announced| announced.due_at.max(now + ANNOUNCE_INTERVAL)).min()
    }

    /// Forgets what the other side knew: it restarted.
    pub(super) fn forget(&mut self, port: EgressPort, now: Time) -> Vec<FlowSlot> {
        let port = &mut self.all[usize::from(port.0)];
        port.heard.clear();
        for announced in port.announced.iter_mut().flatten() {
            announced.announce_anew(now);
            if core::mem::take(&mut announced.known) {
                announced.set_cut(true, now);
            }
        }
        self.announce_at = Some(now);
        port.announced.iter().flatten().map(|announced| announced.flow).collect()
    }

    /// Notes what the other side says of an alias; the flow behind it.
    pub(super) fn learn(
        &mut self,
        port: EgressPort,
        alias: Alias,
        has_receiver: bool,
        now: Time,
    ) -> Option<FlowSlot> {
        let port = &mut self.all[usize::from(port.0)];
        let announced = port.announced.get_mut(place_of(alias))?.as_mut()?;
        let was_known = core::mem::replace(&mut announced.known, has_receiver);
        // That there is no receiver any more may have been said long ago, and have come late: it is asked again.
        if was_known && !has_receiver {
            let next = now + ANNOUNCE_INTERVAL;
            announced.announce_anew(next);
            self.announce_at = Some(self.announce_at.map_or(next, |at| at.min(next)));
        }
        if has_receiver && !port.is_lost && announced.is_cut {
            announced.set_cut(false, now);
            self.announce_at = Some(now);
        }
        Some(announced.flow)
    }

    /// Notes that the other relay answers no more, or again.
    pub(super) fn set_lost(&mut self, port: EgressPort, is_lost: bool, now: Time) {
        let port = &mut self.all[usize::from(port.0)];
        (port.is_lost, port.doubtful_until) = (is_lost, now + DOUBTED_FOR);
        for announced in port.announced.iter_mut().flatten().filter(|announced| is_lost || announced.known) {
            announced.set_cut(is_lost, now);
        }
        port.announced.iter_mut().flatten().for_each(|announced| announced.announce_anew(now));
        self.announce_at = Some(now);
    }

    /// Whether the packets of a flow that go on so get no further; its sender, who asks, need not be told.
    pub(super) fn answer_is_cut(&mut self, onward: Onward) -> bool {
        let announced = self.announced_mut(onward.port, onward.alias).filter(|announced| announced.is_cut);
        announced.map(|announced| announced.tell_at = None).is_some()
    }

    /// What the senders of a port's flows are to be told now.
    pub(super) fn take_news(&mut self, port: EgressPort, now: Time) -> Vec<News> {
        let announced = self.all[usize::from(port.0)].announced.iter_mut().flatten();
        announced.filter_map(|announced| announced.take_news(now)).collect()
    }

    /// Whether the other relay is missed or was lately, or a sender has to be told something later.
    pub(super) fn is_watched(&self, port: EgressPort, now: Time) -> bool {
        let Port { is_lost, doubtful_until, announced, .. } = self.get(port);
        let is_doubtful = *is_lost || now < *doubtful_until;
        announced.iter().flatten().any(|announced| is_doubtful || announced.tell_at.is_some())
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
        let soon = again.then(|| now + ANNOUNCE_INTERVAL);
        self.announce_at = soon.or_else(|| self.due_at(now));
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
