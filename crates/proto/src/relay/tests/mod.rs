//! Tests of a whole relay: agents and another relay are sessions that send scripted messages.

mod admission;
mod cooperation;
mod floods;
mod grants;
mod groups;
mod memory;
mod quotas;
mod reachability;
mod receiver_networks;
mod registration;
mod relay_changes;
mod relay_hops;
mod relaying;
mod transit;
mod uplink;

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_code::{Engine, encode};
use byway_units::{AgentId, BatchId, Duration, FlowId, RelayId, Time};
use byway_wire::messages::{
    AliasAnnouncement, AliasAnnouncements, AliasStatus, AliasStatuses, Aliases, AliasesReply, Consent,
    CooperativeRefusal, Cover, CrossStreamHead, CrossStreamRepair, Entries, Entry, FlowOptions, FlowRole,
    Nack, NetworkTag, NetworkTags, Refusal, Register,
};
use byway_wire::packets::EnvelopeRole;
use byway_wire::seal::{PortableProvider, PreSharedKey, Purpose, StaticSecret, Suite};
use byway_wire::{
    Alias, BlockShape, Capabilities, CodingGroupId, Ecn, FlowKey, Grant, GrantedRelay, KilobitsPerSecond,
    Message, Messages, Microseconds, RangeSet, Receiver, RepairIndex, SIGNATURE_BYTES, SequenceNumber,
    Service, Services, Shard, TenantId,
};

use super::{Authority, PeerRelay, Relay, RelayInput, RelaySettings, TenantLimits, UplinkSettings};
use crate::limits::{CODED_START, CONSENT, RELAY_MEMORY};
use crate::network_path::{LocalAddress, Uplinks};
use crate::outbox::Priority;
use crate::random::Generator;
use crate::session::{EnvelopeContents, Inbound, LocalIdentity, RemoteIdentity, Route, SessionId, Sessions};

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

/// Returns the flow with this number between two agents.
fn flow(sender: u8, receiver: u8, number: u16) -> FlowKey {
    let (sender, receiver) = (AgentId::new(sender.into()), AgentId::new(receiver.into()));
    FlowKey::new(sender, Receiver::Agent(receiver), FlowId::new(number))
}

/// Event at a client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClientEvent {
    Registered(Result<u16, Refusal>),
    Known(u16, bool),
    Request(u16, Vec<u32>),
    CopyNack(u16, Vec<u32>),
    Losses(u16, [i16; 4]),
    Envelope(EnvelopeRole, u16, u32, Vec<u8>),
    Outage(u16, bool),
    Relayed(u32, usize),
    RelayedOn(u32, u32, usize),
    Unregistered(u16),
    Other,
}

/// An agent, or the other relay.
struct TestClient {
    who: u8,
    sessions: Sessions,
    session: SessionId,
    events: Vec<ClientEvent>,
    /// Number of flows in each advertisement.
    announced: Vec<usize>,
    /// Networks in answers to advertisements.
    networks: Vec<NetworkTag>,
}

/// A relay and its clients.
struct RelayHarness {
    relay: Relay,
    clients: Vec<TestClient>,
    now: Time,
    /// True if there are thousands of sessions, flows or aliases. Their tables then double
    /// occasionally, which is a large allocation.
    has_thousands: bool,
    /// Packets that the relay sent, with times and destinations.
    sent: Vec<(Time, SocketAddr, Vec<u8>)>,
}

/// Far relay of a registration: the one that the grant names.
const AS_GRANTED: GrantedRelay = GrantedRelay { relay: RelayId::new(0), shard: Shard::new(0) };

/// Returns a grant for all flows from an agent to another, from the other relay to this one.
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

/// Returns the same grant, from this relay to itself.
fn grant_here(sender: u8, receiver: u8) -> Grant {
    let grant = grant(sender, receiver);
    Grant { ingress: grant.egress, ..grant }
}

impl TestClient {
    fn new(who: u8, seed: u8, now: Time) -> Self {
        let purpose = if who == OTHER { Purpose::RelayToRelay } else { Purpose::AgentToRelay };
        let local = LocalIdentity {
            secret: secret(who),
            suite: Suite::ChaCha20Poly1305,
            shard: Shard::new(0),
            capabilities: Capabilities::DIGESTS.with(Capabilities::LOSS_REPORTS),
            started_unix_nanos: u64::from(seed) * 1_000_000_000_000,
            uplinks: Uplinks::One,
        };
        let mut sessions = Sessions::new(local, &PortableProvider, Generator::new([seed; 32]), now);
        let remote = RemoteIdentity {
            key: secret(RELAY).public_key(),
            purpose,
            shard: Shard::new(0),
            pre_shared: PreSharedKey::default(),
            addresses: alloc::vec![address(RELAY)],
            is_persistent: true,
        };
        let session = sessions.add(remote, now);
        let (events, announced, networks) = (Vec::new(), Vec::new(), Vec::new());
        Self { who, sessions, session, events, announced, networks }
    }

    fn receive(&mut self, mut bytes: Vec<u8>, now: Time) {
        let from = Route::Direct(address(RELAY).into());
        match self.sessions.receive_from(&mut bytes, from, now) {
            Inbound::Initiation { session, initiation, origin } => {
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Inbound::Response { messages, .. } => {
                for message in Messages::new(&messages) {
                    self.on_message(&message.expect("the relay sends valid messages"));
                }
            }
            Inbound::Messages { session, messages } => {
                let messages = messages.to_vec();
                for message in Messages::new(&messages) {
                    let message = message.expect("the relay sends valid messages");
                    if !self.sessions.handle_message(session, &message, from, now) {
                        self.on_message(&message);
                    }
                }
            }
            Inbound::Envelope { header, datagram, .. } => {
                let coded = datagram[CODED_START..datagram.len() - 16].to_vec();
                self.events.push(ClientEvent::Envelope(
                    header.role,
                    header.alias.number(),
                    header.sequence_low,
                    coded,
                ));
            }
            _ => {}
        }
    }

    fn on_message(&mut self, message: &Message<'_>) {
        if let Message::Aliases(aliases) = message {
            self.announced.push(aliases.flows.iter().count());
        }
        if let Message::AliasesReply(reply) = message {
            self.networks.extend(reply.networks.iter());
        }
        self.events.push(match message {
            Message::RegisterReply(registered) => {
                ClientEvent::Registered(registered.outcome.map(Alias::number))
            }
            Message::AliasesReply(known) => {
                let known = known.aliases.iter().next().expect("one at least");
                ClientEvent::Known(known.alias.number(), known.has_receiver)
            }
            Message::CooperativeRequest(request) => {
                ClientEvent::Request(request.alias.number(), request.ranges.numbers_low().collect())
            }
            Message::CopyNack(nack) => {
                ClientEvent::CopyNack(nack.alias.number(), nack.ranges.numbers_low().collect())
            }
            Message::LossReport(report) => {
                let losses = report.flows.iter().next().expect("one at least");
                ClientEvent::Losses(losses.alias.number(), losses.losses)
            }
            Message::UnregisterReply(unregistered) => {
                ClientEvent::Unregistered(unregistered.flow_key.flow().number())
            }
            Message::Outage(outage) => ClientEvent::Outage(outage.alias.number(), outage.is_active),
            Message::RelayedPacket(relayed) => {
                ClientEvent::Relayed(relayed.agent().number(), relayed.packet().len())
            }
            Message::InterRelayPacket(relayed) => {
                ClientEvent::RelayedOn(relayed.from().number(), relayed.to().number(), relayed.packet().len())
            }
            _ => ClientEvent::Other,
        });
    }
}

/// Most bytes that the relay may allocate for one packet, whatever its contents.
const PACKET_COST_MAX: u64 = 64 << 10;

impl RelayHarness {
    fn new(grants: Vec<Grant>) -> Self {
        Self::of(Authority::Static(grants), 1_000, 1)
    }

    /// A relay started at this time, with `others` other relays; the first one is reachable.
    fn of(authority: Authority, started_unix_nanos: u64, others: u8) -> Self {
        Self::with(authority, started_unix_nanos, others, None)
    }

    /// The same relay, with an uplink.
    fn with(
        authority: Authority,
        started_unix_nanos: u64,
        others: u8,
        uplink: Option<UplinkSettings>,
    ) -> Self {
        Self::within(RELAY_MEMORY, TenantLimits::default(), authority, started_unix_nanos, others, uplink)
    }

    /// The same relay, with this memory and these tenant limits.
    fn within(
        memory: byway_units::Bytes,
        tenant_limits: TenantLimits,
        authority: Authority,
        started_unix_nanos: u64,
        others: u8,
        uplink: Option<UplinkSettings>,
    ) -> Self {
        let relays = (OTHER..OTHER + others).map(|who| PeerRelay {
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
            transit: false,
        };
        let relay = Relay::new(settings, Engine::fastest(), &PortableProvider, [7; 32], Time::START);
        let (clients, sent) = (Vec::new(), Vec::new());
        let mut harness = Self { relay, clients, now: Time::START, has_thousands: false, sent };
        harness.enter(OTHER);
        harness
    }

    /// Adds a client, which begins a session.
    fn enter(&mut self, who: u8) {
        self.enter_with_messages(who, &[]);
    }

    /// Adds a client, with messages in its initiation.
    fn enter_with_messages(&mut self, who: u8, greeting: &[u8]) {
        let seed = u8::try_from(self.clients.len() + 1).expect("few clients");
        let mut client = TestClient::new(who, seed, self.now);
        client.sessions.connect(client.session, greeting, self.now);
        self.clients.retain(|client| client.who != who);
        self.clients.push(client);
        self.exchange();
    }

    fn client(&mut self, who: u8) -> &mut TestClient {
        self.clients.iter_mut().find(|client| client.who == who).expect("it entered")
    }

    /// Handles all due timers and delivers all packets, until no one sends any more.
    fn exchange(&mut self) {
        loop {
            let mut is_silent = true;
            for index in 0..self.clients.len() {
                let client = &mut self.clients[index];
                client.sessions.handle_timeout(self.now);
                client.sessions.flush_all(self.now);
                let from = address(client.who);
                let mut sent = Vec::new();
                while let Some((_, bytes)) = client.sessions.outbox.pop() {
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

    /// Delivers the packets that the relay sends. Returns `false` if there were none.
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

    fn send_message(&mut self, who: u8, message: &Message<'_>) {
        let now = self.now;
        let client = self.client(who);
        client.sessions.send_alone(client.session, message, Priority::Source, now);
        self.exchange();
    }

    /// Registers a flow, and returns the relay's reply.
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
        self.request_registration(who, &register(key, role, service, CONSENT))
    }

    /// Returns the registration with the far relay that the first matching grant names.
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

    /// Sends a registration, and returns the relay's reply.
    fn request_registration(&mut self, who: u8, register: &Register<'_>) -> Result<u16, Refusal> {
        self.client(who).events.clear();
        self.send_message(who, &Message::Register(self.as_granted(register)));
        let events = core::mem::take(&mut self.client(who).events);
        let mut answers = events.iter().rev().filter_map(|event| match event {
            ClientEvent::Registered(outcome) => Some(*outcome),
            _ => None,
        });
        answers.next().expect("the relay answers")
    }

    /// Advertises flows as the other relay, from alias 1 on.
    fn announces(&mut self, flows: &[FlowKey]) {
        self.announces_as(flows, false, false);
    }

    /// Advertises flows whose senders copy only some packets, or all, and whose redundancy adapts
    /// or not.
    fn announces_as(&mut self, flows: &[FlowKey], selective: bool, adaptive_redundancy: bool) {
        let mut scratch = [[0; AliasAnnouncement::BYTES]; 16];
        let mut announced = (1..).zip(flows).map(|(alias, key)| AliasAnnouncement {
            alias: Alias::new(alias).expect("not zero"),
            flow_key: *key,
            service: Service::Coding,
            selective,
            adaptive_redundancy,
            rate: KilobitsPerSecond::new(2_000),
        });
        let flows = AliasAnnouncements::collect(&mut announced, &mut scratch);
        self.send_message(OTHER, &Message::Aliases(Aliases { flows }));
    }

    /// Sends a repair packet as the other relay, over one packet of each flow that it advertised.
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
            repair_index: RepairIndex::new(0, 1).expect("one of one"),
            length_symbol: repair.length_symbol,
            cover: Cover::new(entries, Some(&digests)).expect("a small batch"),
        };
        self.send_message(
            OTHER,
            &Message::CrossStreamRepair(CrossStreamRepair { head, payload: repair.payload }),
        );
    }

    fn nacks(&mut self, who: u8, alias: u16, number: u64) {
        let mut ranges = RangeSet::new();
        assert!(ranges.insert(SequenceNumber::new(number)), "it fits");
        let nack = Nack {
            alias: Alias::new(alias).expect("not zero"),
            open_from_low: None,
            noticed_by_timer: false,
            answers_confirm: false,
            queue_grows: false,
            repair_lifetime: Microseconds::from_duration(ms(200)),
            ranges: ranges.ranges(),
        };
        self.send_message(who, &Message::Nack(nack));
    }

    /// Refuses a cooperative request: the receiver has lost the packets itself.
    fn loses<const N: usize>(&mut self, who: u8, alias: u16, numbers: [u64; N]) {
        let mut ranges = RangeSet::new();
        assert!(numbers.into_iter().all(|number| ranges.insert(SequenceNumber::new(number))), "they fit");
        let alias = Alias::new(alias).expect("not zero");
        self.send_message(
            who,
            &Message::CooperativeRefusal(CooperativeRefusal { alias, ranges: ranges.ranges() }),
        );
    }

    /// Answers a cooperative request with a packet.
    fn send_answer(&mut self, who: u8, alias: u16, sequence: u32, coded: &[u8]) {
        self.envelops(who, EnvelopeRole::CooperativeAnswer, alias, sequence, coded);
    }

    fn envelops(&mut self, who: u8, role: EnvelopeRole, alias: u16, sequence: u32, coded: &[u8]) {
        let now = self.now;
        let client = self.client(who);
        let alias = Alias::new(alias).expect("not zero");
        let contents = EnvelopeContents {
            role,
            alias,
            sequence_low: sequence,
            coded,
            ecn: Ecn::NotCapable,
            owner: None,
        };
        client.sessions.send_envelope(client.session, &contents, Priority::Scavenger, now);
        self.exchange();
    }

    /// Sends a copy as a sender.
    fn copies(&mut self, who: u8, alias: u16, sequence: u32, coded: &[u8]) {
        self.envelops(who, EnvelopeRole::Copy, alias, sequence, coded);
    }

    /// Reports receivers for these aliases as the other relay.
    fn send_receivers(&mut self, aliases: &[u16]) {
        self.send_alias_status(aliases, true);
    }

    /// Reports that these aliases have no receivers any more.
    fn send_no_receivers(&mut self, aliases: &[u16]) {
        self.send_alias_status(aliases, false);
    }

    fn send_alias_status(&mut self, aliases: &[u16], has_receiver: bool) {
        let mut scratch = [[0; AliasStatus::BYTES]; 16];
        let alias = |number| Alias::new(number).expect("not zero");
        let mut known = aliases.iter().map(|number| AliasStatus { alias: alias(*number), has_receiver });
        let aliases = AliasStatuses::collect(&mut known, &mut scratch);
        let networks = NetworkTags::EMPTY;
        self.send_message(OTHER, &Message::AliasesReply(AliasesReply { aliases, networks }));
    }

    /// Advances the time, and handles all timers that expire meanwhile.
    fn advance(&mut self, time: Duration) {
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

    fn drain_events(&mut self, who: u8) -> Vec<ClientEvent> {
        let mut events = core::mem::take(&mut self.client(who).events);
        events.retain(|event| *event != ClientEvent::Other);
        events
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
            adaptive_redundancy: false,
        },
        rate: KilobitsPerSecond::new(2_000),
        budget: Microseconds::from_duration(ms(250)),
        consent,
        far_relay: AS_GRANTED,
        grant: &[],
    }
}

/// Returns the coded bytes of a packet of the flow with this alias of the other relay.
fn packet(alias: u16, sequence: u32) -> Vec<u8> {
    (0..40 + u32::from(alias))
        .map(|index| u8::try_from((index * 7 + sequence * 3 + u32::from(alias)) % 251).expect("reduced"))
        .collect()
}
