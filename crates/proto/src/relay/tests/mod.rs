//! Conversations with a whole relay: agents and another relay are sessions that say what they are told to.

mod admission;
mod cooperation;
mod floods;
mod grants;
mod groups;
mod hops;
mod memory;
mod others;
mod quotas;
mod reach;
mod registration;
mod relaying;
mod uplink;

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_code::{Engine, encode};
use byway_units::{AgentId, BatchId, Duration, FlowId, RelayId, Time};
use byway_wire::messages::{
    AliasAnnouncement, AliasAnnouncements, AliasKnowledge, AliasKnowledges, Aliases, AliasesKnown, Consent,
    Cover, CrossStreamHead, CrossStreamRepair, Entries, Entry, FlowOptions, FlowRole, Lost, Nack, Refusal,
    Register,
};
use byway_wire::packets::EnvelopeRole;
use byway_wire::seal::{Portable, PreSharedKey, Purpose, StaticSecret, Suite};
use byway_wire::{
    Alias, BlockShape, Capabilities, CodingGroupId, Ecn, FlowKey, Grant, GrantedRelay, KilobitsPerSecond,
    Message, Messages, Microseconds, Place, RangeSet, Receiver, SIGNATURE_BYTES, SequenceNumber, Service,
    Services, Shard, TenantId,
};

use super::{Authority, OtherRelay, Relay, RelayInput, RelaySettings, TenantLimits, UplinkSettings};
use crate::limits::{CODED_START, CONSENT, RELAY_MEMORY};
use crate::network_path::LocalAddress;
use crate::outbox::Urgency;
use crate::random::Generator;
use crate::session::{Enveloped, Local, Origin, Received, Remote, SessionId, Sessions};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The relay under test, and the other one.
const RELAY: u8 = 200;
const OTHER: u8 = 201;

fn address(who: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, who)), 4_600)
}

fn secret(who: u8) -> StaticSecret {
    StaticSecret::from_bytes([who; 32])
}

/// The flow with this number between two agents.
fn flow(sender: u8, receiver: u8, number: u16) -> FlowKey {
    let (sender, receiver) = (AgentId::new(sender.into()), AgentId::new(receiver.into()));
    FlowKey::new(sender, Receiver::Agent(receiver), FlowId::new(number))
}

/// What a client heard.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Registered(Result<u16, Refusal>),
    Known(u16, bool),
    Request(u16, Vec<u32>),
    CopyNack(u16, Vec<u32>),
    Envelope(EnvelopeRole, u16, u32, Vec<u8>),
    Outage(u16, bool),
    Relayed(u32, usize),
    RelayedOn(u32, u32, usize),
    Unregistered(u16),
    Other,
}

/// An agent, or the other relay.
struct Client {
    who: u8,
    sessions: Sessions,
    session: SessionId,
    heard: Vec<Heard>,
    /// How many flows each message announced.
    announced: Vec<usize>,
}

/// A relay and its clients.
struct Desk {
    relay: Relay,
    clients: Vec<Client>,
    now: Time,
    /// Whether thousands of sessions, flows or aliases are there: the tables that hold them double now and then.
    has_thousands: bool,
    /// What the relay sent, and when.
    sent: Vec<(Time, SocketAddr, Vec<u8>)>,
}

/// For the relay at the other end of a path: whichever the grant names.
const AS_GRANTED: GrantedRelay = GrantedRelay { relay: RelayId::new(0), shard: Shard::new(0) };

/// A grant for all flows from an agent to another, from the other relay to this one.
fn grant(sender: u8, receiver: u8) -> Grant {
    let shard = Shard::new(0);
    Grant {
        services: Services::NONE.with(Service::Coding).with(Service::Caching),
        sharing: true,
        ingress: GrantedRelay { relay: RelayId::new(OTHER.into()), shard },
        egress: GrantedRelay { relay: RelayId::new(RELAY.into()), shard },
        first_flow: FlowId::new(0),
        last_flow: FlowId::new(u16::MAX),
        sender: AgentId::new(sender.into()),
        receiver: Receiver::Agent(AgentId::new(receiver.into())),
        coding_group: CodingGroupId::new(0),
        tenant: TenantId::new(0),
        rate: KilobitsPerSecond::new(10_000),
        not_after_unix_seconds: 0,
        sender_key: *secret(sender).public_key().bytes(),
        receiver_key: *secret(receiver).public_key().bytes(),
        signature: [0; SIGNATURE_BYTES],
    }
}

/// The same, from this relay to itself.
fn grant_here(sender: u8, receiver: u8) -> Grant {
    let grant = grant(sender, receiver);
    Grant { ingress: grant.egress, ..grant }
}

impl Client {
    fn new(who: u8, seed: u8, now: Time) -> Self {
        let purpose = if who == OTHER { Purpose::RelayToRelay } else { Purpose::AgentToRelay };
        let local = Local {
            secret: secret(who),
            suite: Suite::ChaCha20Poly1305,
            shard: Shard::new(0),
            capabilities: Capabilities::DIGESTS,
            started_unix_nanos: u64::from(seed) * 1_000_000_000_000,
        };
        let mut sessions = Sessions::new(local, &Portable, Generator::new([seed; 32]), now);
        let remote = Remote {
            key: secret(RELAY).public_key(),
            purpose,
            shard: Shard::new(0),
            pre_shared: PreSharedKey::default(),
            addresses: alloc::vec![address(RELAY)],
            keep: true,
        };
        let session = sessions.add(remote, now);
        Self { who, sessions, session, heard: Vec::new(), announced: Vec::new() }
    }

    fn receive(&mut self, mut bytes: Vec<u8>, now: Time) {
        let from = Origin::Address(address(RELAY).into());
        match self.sessions.receive_from(&mut bytes, from, now) {
            Received::Initiation { session, initiation, origin } => {
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Received::Response { messages, .. } => {
                for message in Messages::new(&messages) {
                    self.hear(&message.expect("the relay speaks properly"));
                }
            }
            Received::Messages { session, messages } => {
                let messages = messages.to_vec();
                for message in Messages::new(&messages) {
                    let message = message.expect("the relay speaks properly");
                    if !self.sessions.handle_message(session, &message, from, now) {
                        self.hear(&message);
                    }
                }
            }
            Received::Envelope { header, datagram, .. } => {
                let coded = datagram[CODED_START..datagram.len() - 16].to_vec();
                self.heard.push(Heard::Envelope(
                    header.role,
                    header.alias.number(),
                    header.sequence_low,
                    coded,
                ));
            }
            _ => {}
        }
    }

    fn hear(&mut self, message: &Message<'_>) {
        if let Message::Aliases(aliases) = message {
            self.announced.push(aliases.flows.iter().count());
        }
        self.heard.push(match message {
            Message::Registered(registered) => Heard::Registered(registered.outcome.map(Alias::number)),
            Message::AliasesKnown(known) => {
                let known = known.aliases.iter().next().expect("one at least");
                Heard::Known(known.alias.number(), known.has_receiver)
            }
            Message::CooperativeRequest(request) => {
                Heard::Request(request.alias.number(), request.ranges.numbers_low().collect())
            }
            Message::CopyNack(nack) => {
                Heard::CopyNack(nack.alias.number(), nack.ranges.numbers_low().collect())
            }
            Message::Unregistered(unregistered) => Heard::Unregistered(unregistered.flow_key.flow().number()),
            Message::Outage(outage) => Heard::Outage(outage.alias.number(), outage.is_dark),
            Message::Relayed(relayed) => Heard::Relayed(relayed.agent().number(), relayed.packet().len()),
            Message::RelayedOn(relayed) => {
                Heard::RelayedOn(relayed.from().number(), relayed.to().number(), relayed.packet().len())
            }
            _ => Heard::Other,
        });
    }
}

/// What may be allocated for one packet, in bytes, whatever it says.
const PACKET_COST_MAX: u64 = 64 << 10;

impl Desk {
    fn new(grants: Vec<Grant>) -> Self {
        Self::of(Authority::Static(grants), 1_000, 1)
    }

    /// A relay that began at this time, with so many others, of which the first is there.
    fn of(authority: Authority, started_unix_nanos: u64, others: u8) -> Self {
        Self::with(authority, started_unix_nanos, others, None)
    }

    /// The same, with an uplink.
    fn with(
        authority: Authority,
        started_unix_nanos: u64,
        others: u8,
        uplink: Option<UplinkSettings>,
    ) -> Self {
        Self::within(RELAY_MEMORY, TenantLimits::default(), authority, started_unix_nanos, others, uplink)
    }

    /// The same, with so much memory, and limits of tenants.
    fn within(
        memory: byway_units::Bytes,
        tenant_limits: TenantLimits,
        authority: Authority,
        started_unix_nanos: u64,
        others: u8,
        uplink: Option<UplinkSettings>,
    ) -> Self {
        let relays = (OTHER..OTHER + others).map(|who| OtherRelay {
            number: RelayId::new(who.into()),
            shard: Shard::new(0),
            key: secret(who).public_key(),
            address: address(who),
        });
        let settings = RelaySettings {
            follows_up: true,
            memory,
            tenant_limits,
            number: RelayId::new(RELAY.into()),
            shard: Shard::new(0),
            secret: secret(RELAY),
            suite: Suite::ChaCha20Poly1305,
            started_unix_nanos,
            authority,
            relays: relays.collect(),
            uplink,
        };
        let relay = Relay::new(settings, Engine::fastest(), &Portable, [7; 32], Time::START);
        let (clients, sent) = (Vec::new(), Vec::new());
        let mut desk = Self { relay, clients, now: Time::START, has_thousands: false, sent };
        desk.enter(OTHER);
        desk
    }

    /// A client comes and begins a session.
    fn enter(&mut self, who: u8) {
        self.enter_saying(who, &[]);
    }

    /// A client comes, with messages in its initiation.
    fn enter_saying(&mut self, who: u8, greeting: &[u8]) {
        let seed = u8::try_from(self.clients.len() + 1).expect("few clients");
        let mut client = Client::new(who, seed, self.now);
        client.sessions.connect(client.session, greeting, self.now);
        self.clients.retain(|client| client.who != who);
        self.clients.push(client);
        self.exchange();
    }

    fn client(&mut self, who: u8) -> &mut Client {
        self.clients.iter_mut().find(|client| client.who == who).expect("it entered")
    }

    /// All that is due is done, and all that was sent arrives, until everybody is silent.
    fn exchange(&mut self) {
        loop {
            let mut is_silent = true;
            for place in 0..self.clients.len() {
                let client = &mut self.clients[place];
                client.sessions.handle_timeout(self.now);
                client.sessions.flush_all(self.now);
                let from = address(client.who);
                let mut sent = Vec::new();
                while let Some((_, bytes)) = client.sessions.outbox.take() {
                    sent.push(bytes.to_vec());
                }
                for mut bytes in sent {
                    is_silent = false;
                    let input = RelayInput::Received {
                        from,
                        to: LocalAddress::ANY,
                        ecn: Ecn::NotCapable,
                        bytes: &mut bytes,
                    };
                    let cost = allocation_counter::measure(|| self.relay.handle(input, self.now));
                    let is_cheap = cost.bytes_max <= PACKET_COST_MAX || self.has_thousands;
                    assert!(is_cheap, "one packet costs {} bytes", cost.bytes_max);
                    self.drain();
                }
            }
            if self.relay.deadline().is_some_and(|(at, _)| at <= self.now) {
                self.relay.handle(RelayInput::Deadline, self.now);
                is_silent &= !self.drain();
            }
            if is_silent {
                return;
            }
        }
    }

    /// What the relay sends arrives; whether there was anything.
    fn drain(&mut self) -> bool {
        let mut sent = Vec::new();
        while let Some(transmit) = self.relay.poll() {
            sent.push((transmit.to, transmit.bytes.to_vec()));
        }
        self.sent.extend(sent.iter().map(|(to, bytes)| (self.now, *to, bytes.clone())));
        let is_any = !sent.is_empty();
        for (to, bytes) in sent {
            if let Some(client) = self.clients.iter_mut().find(|client| address(client.who) == to) {
                client.receive(bytes, self.now);
            }
        }
        is_any
    }

    fn says(&mut self, who: u8, message: &Message<'_>) {
        let now = self.now;
        let client = self.client(who);
        client.sessions.send_alone(client.session, message, Urgency::Original, now);
        self.exchange();
    }

    /// Registers a flow, and hears what the relay says to that.
    fn registers(&mut self, who: u8, key: FlowKey, role: FlowRole) -> Result<u16, Refusal> {
        self.registers_for(who, key, role, Service::Coding)
    }

    fn registers_for(
        &mut self,
        who: u8,
        key: FlowKey,
        role: FlowRole,
        service: Service,
    ) -> Result<u16, Refusal> {
        self.asks(who, &register(key, role, service, CONSENT))
    }

    /// The registration, towards the relay that the first grant for it names.
    fn as_granted<'a>(&self, register: &Register<'a>) -> Register<'a> {
        let shown = Grant::parse(register.grant).ok();
        let configured = match &self.relay.authority {
            Authority::Static(grants) => grants.iter().find(|grant| {
                grant.sender == register.flow_key.sender()
                    && grant.receiver == register.flow_key.receiver()
                    && (grant.first_flow..=grant.last_flow).contains(&register.flow_key.flow())
            }),
            Authority::Controller(_) => None,
        };
        let far_relay = match (shown.as_ref().or(configured), register.role) {
            _ if register.far_relay != AS_GRANTED => register.far_relay,
            (Some(grant), FlowRole::Sender) => grant.egress,
            (Some(grant), FlowRole::Receiver) => grant.ingress,
            (None, _) => AS_GRANTED,
        };
        Register { far_relay, ..*register }
    }

    /// Asks for something to be registered, and hears what the relay says to that.
    fn asks(&mut self, who: u8, register: &Register<'_>) -> Result<u16, Refusal> {
        self.client(who).heard.clear();
        self.says(who, &Message::Register(self.as_granted(register)));
        let heard = core::mem::take(&mut self.client(who).heard);
        let mut answers = heard.iter().rev().filter_map(|heard| match heard {
            Heard::Registered(outcome) => Some(*outcome),
            _ => None,
        });
        answers.next().expect("the relay answers")
    }

    /// The other relay announces its flows, from alias 1 on.
    fn announces(&mut self, flows: &[FlowKey]) {
        self.announces_as(flows, false);
    }

    /// The same, of senders that copy only some packets, or all.
    fn announces_as(&mut self, flows: &[FlowKey], selective: bool) {
        let mut scratch = [[0; AliasAnnouncement::BYTES]; 16];
        let mut announced = (1..).zip(flows).map(|(alias, key)| AliasAnnouncement {
            alias: Alias::new(alias).expect("not zero"),
            flow_key: *key,
            service: Service::Coding,
            selective,
            rate: KilobitsPerSecond::new(2_000),
        });
        let flows = AliasAnnouncements::collect(&mut announced, &mut scratch);
        self.says(OTHER, &Message::Aliases(Aliases { flows }));
    }

    /// The other relay sends a repair packet over one packet of each flow that it announced.
    fn repairs(&mut self, batch: u32, sequence: u32, flows: u16) {
        let packets: Vec<Vec<u8>> = (1..=flows).map(|alias| packet(alias, sequence)).collect();
        let views: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut payloads = [[0; 128]];
        let encoded = encode(Engine::fastest(), &views, &mut payloads).expect("a small batch");
        let repair = encoded.repairs(BatchId::new(batch), &payloads).next().expect("one was made");
        let client = self.client(OTHER);
        let alias = |number| Alias::new(number).expect("not zero");
        let digests: Vec<[u8; 4]> = (1..=flows)
            .zip(&packets)
            .map(|(number, coded)| {
                client
                    .sessions
                    .digest(client.session, alias(number), sequence, coded)
                    .expect("both want digests")
            })
            .collect();
        let mut scratch = [[0; Entry::BYTES]; 16];
        let mut entries = (1..=flows).map(|number| Entry { alias: alias(number), sequence_low: sequence });
        let entries = Entries::collect(&mut entries, &mut scratch);
        let head = CrossStreamHead {
            batch: BatchId::new(batch),
            place: Place::new(0, 1).expect("one of one"),
            length_symbol: repair.length_symbol,
            cover: Cover::new(entries, Some(&digests)).expect("a small batch"),
        };
        self.says(OTHER, &Message::CrossStreamRepair(CrossStreamRepair { head, payload: repair.payload }));
    }

    fn nacks(&mut self, who: u8, alias: u16, number: u64) {
        let mut ranges = RangeSet::new();
        assert!(ranges.insert(SequenceNumber::new(number)), "it fits");
        let nack = Nack {
            alias: Alias::new(alias).expect("not zero"),
            open_from_low: None,
            noticed_by_timer: false,
            answers_confirm: false,
            patience: Microseconds::from_duration(ms(200)),
            ranges: ranges.ranges(),
        };
        self.says(who, &Message::Nack(nack));
    }

    /// A receiver does not have packets that it may be asked for.
    fn loses<const N: usize>(&mut self, who: u8, alias: u16, numbers: [u64; N]) {
        let mut ranges = RangeSet::new();
        assert!(numbers.into_iter().all(|number| ranges.insert(SequenceNumber::new(number))), "they fit");
        let alias = Alias::new(alias).expect("not zero");
        self.says(who, &Message::Lost(Lost { alias, ranges: ranges.ranges() }));
    }

    /// A receiver gives a packet for somebody else.
    fn answers(&mut self, who: u8, alias: u16, sequence: u32, coded: &[u8]) {
        self.envelops(who, EnvelopeRole::CooperativeAnswer, alias, sequence, coded);
    }

    fn envelops(&mut self, who: u8, role: EnvelopeRole, alias: u16, sequence: u32, coded: &[u8]) {
        let now = self.now;
        let client = self.client(who);
        let alias = Alias::new(alias).expect("not zero");
        let contents =
            Enveloped { role, alias, sequence_low: sequence, coded, ecn: Ecn::NotCapable, owner: None };
        client.sessions.send_envelope(client.session, &contents, Urgency::Scavenger, now);
        self.exchange();
    }

    /// A sender sends a copy.
    fn copies(&mut self, who: u8, alias: u16, sequence: u32, coded: &[u8]) {
        self.envelops(who, EnvelopeRole::Copy, alias, sequence, coded);
    }

    /// The other relay has receivers of the flows that this one calls so.
    fn knows(&mut self, aliases: &[u16]) {
        self.says_of(aliases, true);
    }

    /// It has none any more.
    fn says_unknown(&mut self, aliases: &[u16]) {
        self.says_of(aliases, false);
    }

    fn says_of(&mut self, aliases: &[u16], has_receiver: bool) {
        let mut scratch = [[0; AliasKnowledge::BYTES]; 16];
        let alias = |number| Alias::new(number).expect("not zero");
        let mut known = aliases.iter().map(|number| AliasKnowledge { alias: alias(*number), has_receiver });
        let aliases = AliasKnowledges::collect(&mut known, &mut scratch);
        self.says(OTHER, &Message::AliasesKnown(AliasesKnown { aliases }));
    }

    /// Time passes, with all that is due meanwhile.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let clients = self.clients.iter().filter_map(|client| client.sessions.deadline());
            let relay = self.relay.deadline().map(|(at, _)| at);
            let Some(at) = clients.chain(relay).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            self.exchange();
        }
        self.now = end;
        self.exchange();
    }

    fn heard(&mut self, who: u8) -> Vec<Heard> {
        let mut heard = core::mem::take(&mut self.client(who).heard);
        heard.retain(|heard| *heard != Heard::Other);
        heard
    }
}

fn register(key: FlowKey, role: FlowRole, service: Service, consent: Consent) -> Register<'static> {
    Register {
        flow_key: key,
        role,
        revision: None,
        service,
        in_stream: BlockShape::new(5, 1),
        batch: BlockShape::new(10, 2),
        options: FlowOptions {
            relay_side_duplication: false,
            sender_makes_repairs: false,
            coded_with_other_tenants: true,
            selective: false,
        },
        rate: KilobitsPerSecond::new(2_000),
        budget: Microseconds::from_duration(ms(250)),
        consent,
        far_relay: AS_GRANTED,
        grant: &[],
    }
}

/// The coded bytes of a packet of the flow that the other relay calls so.
fn packet(alias: u16, sequence: u32) -> Vec<u8> {
    (0..40 + u32::from(alias))
        .map(|place| u8::try_from((place * 7 + sequence * 3 + u32::from(alias)) % 251).expect("reduced"))
        .collect()
}
