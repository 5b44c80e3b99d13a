//! Ways to egress relays, and from ingress relays: which aliases are in force between two relays, and whether they
//! lead anywhere.

mod heard;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::{RelayId, Time};
use byway_wire::messages::Refusal;
use byway_wire::{Alias, FlowKey, Shard, TenantId};

use super::alias_table::AliasTable;
use super::ingress::{EgressPort, FlowSlot, Onward};
use super::quotas::Shares;
use crate::limits::{
    ALIASES_AWAITED_MAX, ANNOUNCE_INTERVAL, DOUBTED_FOR, REPAIR_RETENTION, TELL_DOUBLINGS_MAX,
};
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
    /// The aliases among them of which the other side has no receiver yet, by when they are announced (again).
    unknown: BTreeSet<(Time, Alias)>,
    /// Those whose senders are to be told something, by when.
    news: BTreeSet<(Time, Alias)>,
    /// The aliases among them that are free, those that have been for longest first: what is still under way under one
    /// is then hardly taken for another flow's.
    free: VecDeque<(Time, Alias, TenantId)>,
    /// How many of those are free for all tenants: one that rests counts as its last tenant's.
    rested: usize,
    /// The aliases of each tenant.
    shares: Shares,
    /// Flows for each of which another tenant's alias rests, and when that has rested.
    awaited: BTreeMap<FlowKey, Time>,
    /// The flows that the other side announced.
    heard: AliasTable<Heard>,
}

/// A flow whose packets go through a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) flow: FlowSlot,
    tenant: TenantId,
    pub(super) key: FlowKey,
    /// When it is to be announced (again); `None` where its receiver is known, or would be if there were one.
    announce_at: Option<Time>,
    /// How often it was announced since it was last known.
    announcements: u8,
    /// Whether the other side has a receiver.
    known: bool,
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
            unknown: BTreeSet::new(),
            news: BTreeSet::new(),
            free: VecDeque::new(),
            rested: 0,
            shares: Shares::new(u16::MAX as u64, None),
            awaited: BTreeMap::new(),
            heard: AliasTable::new(),
        }
    }

    /// Changes what is known of an alias, and when something of it is due.
    fn change<T>(&mut self, alias: Alias, change: impl FnOnce(&mut Announced) -> T) -> Option<T> {
        let announced = self.announced.get_mut(place_of(alias))?.as_mut()?;
        let before = *announced;
        let changed = change(announced);
        let after = *announced;
        set(&mut self.unknown, alias, before.announce_at, after.announce_at);
        set(&mut self.news, alias, before.tell_at, after.tell_at);
        Some(changed)
    }

    /// Lets all tenants have the aliases that have rested as long as repair packets are kept: one of those that names the old flow must not
    /// be taken for the new one's.
    fn settle_rested(&mut self, now: Time) {
        while let Some((since, _, tenant)) = self.free.get(self.rested)
            && *since + REPAIR_RETENTION <= now
        {
            self.shares.give_back(*tenant, 1);
            self.rested += 1;
        }
    }

    /// The aliases of all flows.
    fn aliases(&self) -> Vec<Alias> {
        let taken = self.announced.iter().enumerate().filter(|(_, announced)| announced.is_some());
        taken.filter_map(|(place, _)| alias_at(place)).collect()
    }
}

/// Puts an alias from one place in a line to another.
fn set(line: &mut BTreeSet<(Time, Alias)>, alias: Alias, before: Option<Time>, after: Option<Time>) {
    if before == after {
        return;
    }
    if let Some(at) = before {
        line.remove(&(at, alias));
    }
    line.extend(after.map(|at| (at, alias)));
}

impl Announced {
    const fn set_cut(&mut self, is_cut: bool, now: Time) {
        if self.is_cut != is_cut {
            (self.is_cut, self.tell_at, self.told) = (is_cut, Some(now), 0);
        }
    }

    /// Notes that it is announced now; how long until that is done again doubles, as an answer that is lost is the only reason for it.
    fn announce(&mut self, now: Time) {
        self.announce_at = Some(now + ANNOUNCE_INTERVAL * (1 << self.announcements));
        self.announcements = (self.announcements + 1).min(TELL_DOUBLINGS_MAX);
    }

    /// Has it announced from a certain time on, as if it had never been.
    const fn announce_from(&mut self, at: Time) {
        (self.announce_at, self.announcements) = (Some(at), 0);
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
#[derive(Debug)]
pub(super) struct Ports {
    /// Memory for what others call their flows, in bytes. Flows with a receiver here are noted all the same.
    heard_max: u64,
    all: Vec<Port>,
    by_session: BTreeMap<SessionId, EgressPort>,
    /// How others know flows that they send here: their newest aliases.
    heard: BTreeMap<FlowKey, Vec<(EgressPort, Alias)>>,
    /// How this relay knows the flows that it sends to itself.
    own: BTreeMap<FlowKey, Vec<(EgressPort, Alias)>>,
    announce_at: Option<Time>,
}

impl Ports {
    /// No ports, and so much memory for what others call their flows.
    pub(super) const fn new(heard_max: u64) -> Self {
        Self {
            heard_max,
            all: Vec::new(),
            by_session: BTreeMap::new(),
            heard: BTreeMap::new(),
            own: BTreeMap::new(),
            announce_at: None,
        }
    }

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
            self.forget_heard(port);
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
        (flow, tenant): (FlowSlot, TenantId),
        key: FlowKey,
        now: Time,
    ) -> Result<Alias, Refusal> {
        let port_of = &mut self.all[usize::from(port.0)];
        port_of.settle_rested(now);
        if port_of.shares.is_over(tenant) {
            return Err(Refusal::QuotaReached);
        }
        let Port { announced, unknown, free, rested, shares, is_lost, end, .. } = port_of;
        // Whether there are receivers here shows at once.
        let is_here = *end == End::Here;
        let announce_at = (!is_here).then_some(now);
        let (is_cut, tell_at, told) = (*is_lost, None, 0);
        let news = Announced {
            flow,
            tenant,
            key,
            announce_at,
            announcements: 0,
            known: false,
            is_cut,
            tell_at,
            told,
        };
        let alias = if *rested > 0
            && let Some((_, alias, _)) = free.pop_front()
        {
            *rested -= 1;
            announced[place_of(alias)] = Some(news);
            alias
        } else {
            let alias = alias_at(announced.len()).ok_or(Refusal::NoRoom)?;
            announced.push(Some(news));
            alias
        };
        shares.take(tenant, 1);
        unknown.extend(announce_at.map(|at| (at, alias)));
        if is_here {
            self.own.entry(key).or_default().push((port, alias));
        } else {
            self.announce_at = Some(now);
        }
        Ok(alias)
    }

    /// Returns a flow of the tenant with the most aliases on a way, if those in use are more than its share, and this tenant has less. The
    /// flow that waits for the alias gets no other victim while that alias rests.
    pub(super) fn victim_for(
        &mut self,
        port: EgressPort,
        (tenant, key): (TenantId, FlowKey),
        now: Time,
    ) -> Option<FlowSlot> {
        let Port { announced, shares, awaited, .. } = &mut self.all[usize::from(port.0)];
        let victim = shares.victim_for(tenant)?;
        awaited.retain(|_, rested_at| now < *rested_at);
        if awaited.contains_key(&key) || awaited.len() >= ALIASES_AWAITED_MAX {
            return None;
        }
        let in_use = announced.iter().flatten().filter(|announced| announced.tenant == victim);
        let (count, last) = in_use.fold((0, None), |(count, _), known| (count + 1, Some(known.flow)));
        // What rests is no longer the victim's to give.
        let flow = last.filter(|_| count > shares.share(tenant))?;
        awaited.insert(key, now + REPAIR_RETENTION);
        Some(flow)
    }

    /// Takes a flow's alias back.
    pub(super) fn withdraw(&mut self, port: EgressPort, alias: Alias, now: Time) {
        let Port { announced, unknown, news, free, .. } = &mut self.all[usize::from(port.0)];
        let Some(announced) = announced.get_mut(place_of(alias)).and_then(Option::take) else {
            return;
        };
        set(unknown, alias, announced.announce_at, None);
        set(news, alias, announced.tell_at, None);
        free.push_back((now, alias, announced.tenant));
        remove(&mut self.own, announced.key, (port, alias));
    }

    /// The flow behind an alias that this side announced.
    pub(super) fn announced(&self, port: EgressPort, alias: Alias) -> Option<&Announced> {
        self.get(port).announced.get(place_of(alias))?.as_ref()
    }

    /// The flow behind an alias that the other side announced, if the flow's packets may come from there.
    pub(super) fn heard(&self, port: EgressPort, alias: Alias) -> Option<FlowKey> {
        self.fed(port, alias).map(|fed| fed.key)
    }

    /// The same, and how its packets are to be taken.
    pub(super) fn fed(&self, port: EgressPort, alias: Alias) -> Option<Fed> {
        let heard = self.get(port).heard.get(alias);
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
        let own = self.own.get(&key).into_iter().flatten();
        own.filter_map(|(port, alias)| Some(self.announced(*port, *alias)?.flow)).collect()
    }

    /// The aliases under which this relay sends itself the flows of this key.
    pub(super) fn own_onward(&self, key: FlowKey) -> Vec<(EgressPort, Alias)> {
        self.own.get(&key).cloned().unwrap_or_default()
    }

    /// Whether the other side has no receiver of some flow, as far as it is known.
    pub(super) fn has_unknown(&self, port: EgressPort) -> bool {
        !self.get(port).unknown.is_empty()
    }

    /// An alias of a port that has to be announced (again) now.
    pub(super) fn next_unknown(&mut self, port: EgressPort, now: Time) -> Option<(Alias, Announced)> {
        let port = &mut self.all[usize::from(port.0)];
        let (_, alias) = *port.unknown.first().filter(|(at, _)| *at <= now)?;
        let announced = port.change(alias, |announced| {
            announced.announce(now);
            *announced
        })?;
        Some((alias, announced))
    }

    /// Forgets what the other side knew: it restarted.
    pub(super) fn forget(&mut self, port: EgressPort, now: Time) -> Vec<FlowSlot> {
        self.forget_heard(port);
        let port = &mut self.all[usize::from(port.0)];
        for alias in port.aliases() {
            port.change(alias, |announced| {
                announced.announce_from(now);
                if core::mem::take(&mut announced.known) {
                    announced.set_cut(true, now);
                }
            });
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
        let (is_lost, is_here) = (port.is_lost, port.end == End::Here);
        let (flow, is_due) = port.change(alias, |announced| {
            let was_known = core::mem::replace(&mut announced.known, has_receiver);
            let is_lately_unknown = was_known && !has_receiver && !is_here;
            if has_receiver {
                (announced.announce_at, announced.announcements) = (None, 0);
            } else if is_lately_unknown {
                // That there is no receiver any more may have been said long ago, and have come late: it is asked again.
                announced.announce_from(now + ANNOUNCE_INTERVAL);
            }
            let is_back = has_receiver && !is_lost && announced.is_cut;
            if is_back {
                announced.set_cut(false, now);
            }
            let is_due =
                if is_back { Some(now) } else { announced.announce_at.filter(|_| is_lately_unknown) };
            (announced.flow, is_due)
        })?;
        if let Some(at) = is_due {
            self.announce_at = Some(self.announce_at.map_or(at, |known| known.min(at)));
        }
        Some(flow)
    }

    /// Notes that the other relay answers no more, or again.
    pub(super) fn set_lost(&mut self, port: EgressPort, is_lost: bool, now: Time) {
        let port = &mut self.all[usize::from(port.0)];
        (port.is_lost, port.doubtful_until) = (is_lost, now + DOUBTED_FOR);
        for alias in port.aliases() {
            port.change(alias, |announced| {
                if is_lost || announced.known {
                    announced.set_cut(is_lost, now);
                }
            });
        }
        self.announce_at = Some(now);
    }

    /// Whether the packets of a flow that go on so get no further; its sender, who asks, need not be told.
    pub(super) fn answer_is_cut(&mut self, onward: Onward) -> bool {
        let port = &mut self.all[usize::from(onward.port.0)];
        let is_cut = port.change(onward.alias, |announced| {
            announced.tell_at = announced.tell_at.filter(|_| !announced.is_cut);
            announced.is_cut
        });
        is_cut == Some(true)
    }

    /// What the senders of a port's flows are to be told now.
    pub(super) fn take_news(&mut self, port: EgressPort, now: Time) -> Vec<News> {
        let port = &mut self.all[usize::from(port.0)];
        let mut news = Vec::new();
        while let Some((_, alias)) = port.news.first().copied().filter(|(at, _)| *at <= now) {
            news.extend(port.change(alias, |announced| announced.take_news(now)).flatten());
        }
        news
    }

    /// Whether the other relay is missed or was lately, or a sender has to be told something later.
    pub(super) fn is_watched(&self, port: EgressPort, now: Time) -> bool {
        let Port { is_lost, doubtful_until, announced, free, news, .. } = self.get(port);
        let is_doubtful = *is_lost || now < *doubtful_until;
        !news.is_empty() || (is_doubtful && announced.len() > free.len())
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
    pub(super) fn plan_announcements(&mut self, again: bool, now: Time) {
        self.announce_at = again.then(|| now + ANNOUNCE_INTERVAL);
    }

    /// Makes sure that aliases are announced soon.
    pub(super) fn announce_soon(&mut self, now: Time) {
        self.announce_at = Some(now);
    }
}

/// Takes an alias out of those that a flow is known by.
fn remove(
    aliases: &mut BTreeMap<FlowKey, Vec<(EgressPort, Alias)>>,
    key: FlowKey,
    gone: (EgressPort, Alias),
) {
    if let Some(known) = aliases.get_mut(&key) {
        known.retain(|known| *known != gone);
        if known.is_empty() {
            aliases.remove(&key);
        }
    }
}

/// The place of an alias in a list of all of them; 0 is none.
fn place_of(alias: Alias) -> usize {
    usize::from(alias.number()) - 1
}

fn alias_at(place: usize) -> Option<Alias> {
    Alias::new(u16::try_from(place + 1).ok()?)
}
