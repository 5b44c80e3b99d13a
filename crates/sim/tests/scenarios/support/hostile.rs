//! A hostile tenant: two members with sessions, grants and flows of their own at the relays that others use.
//!
//! What they say is what `byway-fuzz-targets` floods relays with: one member attacks, its mate sends to it.

use std::net::SocketAddr;

use byway_fuzz_targets::attacks::{ATTACKS, Attack, Attacker, Credentials, Part, Scene};
use byway_sim::overlay::cast::{self, AgentCard, address, bytes};
use byway_sim::{Link, NodeId, Random, Seed};
use byway_units::{AgentId, Duration, FlowId, Time};
use byway_wire::messages::FlowRole;
use byway_wire::seal::StaticSecret;
use byway_wire::{Grant, GrantedRelay, Shard, TenantId};

use super::identities::relay_card;
use super::node::{Node, Parcel};
use super::{OverlayWorld, Plan, Run, ms};

/// The network of the members' addresses.
const MEMBERS: u8 = 98;

/// The tenant of the members; the flows of plans are of tenant 1.
const TENANT: TenantId = TenantId::new(666);

/// Flows that the attacker registers to receive: some datagrams full of them.
const FLOWS: u16 = 60;

/// The time between two datagrams of the attacker.
const INTERVAL: Duration = Duration::from_millis(1);

/// How long one attack takes before the next one is drawn.
const ATTACK_TIME: Duration = Duration::from_millis(100);

/// How often both begin a session anew, and register: a relay that restarted knows neither.
const SESSION_TIME: Duration = Duration::from_millis(500);

/// The relays of the attacker and of its mate, by their places in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostileTenant {
    pub(crate) attacker_at: usize,
    pub(crate) mate_at: usize,
}

/// The card of the attacker or of its mate.
fn card(seed: Seed, part: Part) -> AgentCard {
    let place = place(part);
    AgentCard {
        number: if part == Part::Attacker { AgentId::new(9_001) } else { AgentId::new(9_002) },
        secret: StaticSecret::from_bytes(bytes(seed, "hostile", place)),
        address: Some(address(MEMBERS, place)),
    }
}

impl HostileTenant {
    const fn relay_of(self, part: Part) -> usize {
        match part {
            Part::Attacker => self.attacker_at,
            Part::Mate => self.mate_at,
        }
    }

    /// What its members may send each other.
    pub(super) fn grants(self, seed: Seed) -> [Grant; 2] {
        [(Part::Mate, Part::Attacker), (Part::Attacker, Part::Mate)].map(|(from, to)| {
            let relays = (&relay_card(seed, self.relay_of(from)), &relay_card(seed, self.relay_of(to)));
            let flows = FlowId::new(0)..=FlowId::new(u16::MAX);
            Grant { tenant: TENANT, ..cast::grant((&card(seed, from), &card(seed, to)), relays, flows) }
        })
    }

    fn member(self, seed: Seed, part: Part) -> Attacker {
        let other = if part == Part::Attacker { Part::Mate } else { Part::Attacker };
        let (own, relay) = (card(seed, part), relay_card(seed, self.relay_of(part)));
        let far_relay =
            GrantedRelay { relay: relay_card(seed, self.relay_of(other)).number, shard: Shard::new(0) };
        let credentials = Credentials {
            secret: own.secret,
            agent: own.number,
            other: card(seed, other).number,
            relay_key: relay.secret.public_key(),
            relay_address: relay.address,
            far_relay,
            // The relays have a list of grants.
            sends: Vec::new(),
            receives: Vec::new(),
        };
        Attacker::new(part, credentials, 1)
    }
}

/// Both members, and what they are at.
pub(crate) struct Members {
    /// The attacker and its mate, with their nodes and the addresses of their relays.
    nodes: [(Attacker, NodeId, SocketAddr); 2],
    attacks: Vec<&'static Attack>,
    random: Random,
    /// The attack under way, how many datagrams it has sent, and the first of them.
    attack: &'static Attack,
    sent: u32,
    first: Vec<u8>,
    next_attack: Time,
    next_session: Time,
}

impl Members {
    /// Lets the members of the plan's hostile tenant meet their relays, and attack from `from` on until `until` with
    /// some of all attacks. Returns what these are.
    pub(crate) fn attack(
        random: Random,
        from: Time,
        until: Time,
        run: &mut Run,
        world: &mut OverlayWorld,
    ) -> Vec<&'static str> {
        let mut members = Self::new(random, run, world);
        world.run_until(from, run);
        let mut scene = Stage { members: &mut members, run, world };
        scene.begin_sessions();
        for attack in scene.members.attacks.clone() {
            attack.set_up(&mut scene, FLOWS);
        }
        let names = members.attacks.iter().map(|attack| attack.name).collect();
        members.go_on(until, world);
        names
    }

    fn new(mut random: Random, run: &Run, world: &mut OverlayWorld) -> Self {
        let (seed, tenant) = (run.plan.seed(), run.plan.hostile.expect("the plan has a hostile tenant"));
        let mut member = |part: Part| {
            let own = card(seed, part).address.expect("members have addresses");
            let relay = tenant.relay_of(part);
            let node = world.add(Node::member(own), own);
            world.connect_both(node, run.relays[relay], &Link { delay: ms(5), ..Link::default() });
            (tenant.member(seed, part), node, relay_card(seed, relay).address)
        };
        let nodes = [Part::Attacker, Part::Mate].map(&mut member);
        let draw = |random: &mut Random| {
            let place = random.below(ATTACKS.len() as u64);
            &ATTACKS[usize::try_from(place).expect("there are few attacks")]
        };
        let attacks: Vec<&Attack> = (0..=random.below(3)).map(|_| draw(&mut random)).collect();
        let (attack, start) = (attacks[0], Time::START);
        let (sent, first) = (0, Vec::new());
        Self { nodes, attacks, random, attack, sent, first, next_attack: start, next_session: start }
    }

    /// Sends what is due now, and again after an interval.
    fn go_on(mut self, until: Time, world: &mut OverlayWorld) {
        if world.now() >= until {
            return;
        }
        Run::when(world, world.now() + INTERVAL, move |_, world| {
            self.step(world);
            self.go_on(until, world);
        });
    }

    fn step(&mut self, world: &mut OverlayWorld) {
        self.take_all(world);
        let now = world.now();
        if self.next_session <= now {
            self.next_session = now + SESSION_TIME;
            self.meet_again(world);
        }
        if self.next_attack <= now {
            self.next_attack = now + ATTACK_TIME;
            let place = self.random.below(self.attacks.len() as u64);
            self.attack = self.attacks[usize::try_from(place).expect("there are few attacks")];
            self.sent = 0;
        }
        let packet = self.attack.datagram(&mut self.nodes[0].0, self.sent, &self.first);
        if self.sent == 0 {
            self.first = packet.clone().unwrap_or_default();
        }
        self.sent += 1;
        self.post(0, packet, world);
    }

    /// Begins sessions anew, and registers some flows of each role.
    fn meet_again(&mut self, world: &mut OverlayWorld) {
        for place in [0, 1] {
            let role = if place == 0 { FlowRole::Receiver } else { FlowRole::Sender };
            let (flows, _) = self.nodes[place].0.register_some(role, &[1, 2, 3]);
            self.post(place, flows, world);
            let initiation = self.nodes[place].0.initiate();
            self.post(place, Some(initiation), world);
        }
    }

    /// Both members take what came to them, and answer what keeps their sessions alive.
    fn take_all(&mut self, world: &mut OverlayWorld) {
        for place in [0, 1] {
            let now = world.now();
            for packet in world.host_mut(self.nodes[place].1).take_received() {
                let answer = self.nodes[place].0.take(&packet, now);
                self.post(place, answer, world);
            }
        }
    }

    fn post(&mut self, place: usize, packet: Option<Vec<u8>>, world: &mut OverlayWorld) {
        let (_, node, destination) = self.nodes[place];
        if let Some(payload) = packet {
            world.input(node, |host, _| host.post(Parcel { source: None, destination, payload }));
        }
    }
}

/// The members while they set up their attacks.
struct Stage<'a> {
    members: &'a mut Members,
    run: &'a mut Run,
    world: &'a mut OverlayWorld,
}

impl Stage<'_> {
    fn begin_sessions(&mut self) {
        for part in [Part::Attacker, Part::Mate] {
            let initiation = self.member(part).initiate();
            self.send(part, initiation);
        }
        self.pass(ms(100));
        assert!(
            self.members.nodes.iter().all(|(member, ..)| member.is_established()),
            "both have sessions: relays work still"
        );
    }
}

impl Scene for Stage<'_> {
    fn member(&mut self, part: Part) -> &mut Attacker {
        &mut self.members.nodes[place(part)].0
    }

    fn send(&mut self, part: Part, packet: Vec<u8>) {
        self.members.post(place(part), Some(packet), self.world);
    }

    fn pass(&mut self, time: Duration) {
        self.world.run_for(time, self.run);
        self.members.take_all(self.world);
    }
}

const fn place(part: Part) -> usize {
    match part {
        Part::Attacker => 0,
        Part::Mate => 1,
    }
}

impl Plan {
    /// A hostile tenant's members at the last relay of the first path, and at its first.
    pub(crate) fn with_hostile_tenant(mut self) -> Self {
        self.hostile = Some(HostileTenant { attacker_at: usize::from(self.relays > 1), mate_at: 0 });
        self
    }
}
