//! A hostile tenant: two members with sessions, grants and flows of their own at the relays that
//! others use.
//!
//! Their packets are the attacks of `byway-fuzz-targets`: one member attacks, its accomplice sends
//! to it.

use std::net::SocketAddr;

use byway_fuzz_targets::attacks::{ATTACKS, Attack, Attacker, Credentials, Role, Testbed};
use byway_sim::overlay::topology::{self, AgentNode, address, secret_bytes};
use byway_sim::{Link, NodeId, Random, Seed};
use byway_units::{AgentId, Duration, FlowId, Time};
use byway_wire::messages::FlowRole;
use byway_wire::seal::StaticSecret;
use byway_wire::{Grant, GrantedRelay, Shard, TenantId};

use super::identities::relay_node;
use super::node::{InjectedDatagram, TestNode};
use super::{OverlayWorld, Plan, Run, ms};

/// Network of the members' addresses.
const MEMBERS: u8 = 98;

/// The tenant of the members; the flows of plans are of tenant 1.
const TENANT: TenantId = TenantId::new(666);

/// Flows that the attacker registers to receive: several datagrams of registrations.
const FLOWS: u16 = 60;

/// Interval between two datagrams of the attacker.
const INTERVAL: Duration = Duration::from_millis(1);

/// Duration of one attack until the next one is drawn.
const ATTACK_TIME: Duration = Duration::from_millis(100);

/// Interval at which both start a new session, and register: a relay that restarted knows neither.
const SESSION_TIME: Duration = Duration::from_millis(500);

/// The relays of the attacker and of its accomplice, by their indexes in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostileTenant {
    pub(crate) attacker_at: usize,
    pub(crate) mate_at: usize,
}

/// Returns the record of the attacker or of its accomplice.
fn card(seed: Seed, part: Role) -> AgentNode {
    let index = node_index(part);
    AgentNode {
        number: if part == Role::Attacker { AgentId::new(9_001) } else { AgentId::new(9_002) },
        secret: StaticSecret::from_bytes(secret_bytes(seed, "hostile", index)),
        address: Some(address(MEMBERS, index)),
    }
}

impl HostileTenant {
    const fn relay_of(self, part: Role) -> usize {
        match part {
            Role::Attacker => self.attacker_at,
            Role::Accomplice => self.mate_at,
        }
    }

    /// Returns the grants of flows between its members.
    pub(super) fn grants(self, seed: Seed) -> [Grant; 2] {
        [(Role::Accomplice, Role::Attacker), (Role::Attacker, Role::Accomplice)].map(|(from, to)| {
            let relays = (&relay_node(seed, self.relay_of(from)), &relay_node(seed, self.relay_of(to)));
            let flows = FlowId::new(0)..=FlowId::new(u16::MAX);
            Grant { tenant: TENANT, ..topology::grant((&card(seed, from), &card(seed, to)), relays, flows) }
        })
    }

    fn member(self, seed: Seed, part: Role) -> Attacker {
        let other = if part == Role::Attacker { Role::Accomplice } else { Role::Attacker };
        let (own, relay) = (card(seed, part), relay_node(seed, self.relay_of(part)));
        let far_relay =
            GrantedRelay { relay: relay_node(seed, self.relay_of(other)).number, shard: Shard::new(0) };
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

/// Both members, and the state of their attacks.
pub(crate) struct Members {
    /// The attacker and its accomplice, with their nodes and the addresses of their relays.
    nodes: [(Attacker, NodeId, SocketAddr); 2],
    attacks: Vec<&'static Attack>,
    random: Random,
    /// The current attack, the number of datagrams that it has sent, and the first of them.
    attack: &'static Attack,
    sent: u32,
    first: Vec<u8>,
    next_attack: Time,
    next_session: Time,
}

impl Members {
    /// Starts sessions of the hostile tenant's members with their relays, and attacks from `from`
    /// to `until` with a random subset of all attacks. Returns the names of the attacks.
    pub(crate) fn attack(
        random: Random,
        from: Time,
        until: Time,
        run: &mut Run,
        world: &mut OverlayWorld,
    ) -> Vec<&'static str> {
        let mut members = Self::new(random, run, world);
        world.run_until(from, run);
        let mut hostile = HostileScene { members: &mut members, run, world };
        hostile.begin_sessions();
        for attack in hostile.members.attacks.clone() {
            attack.set_up(&mut hostile, FLOWS);
        }
        let names = members.attacks.iter().map(|attack| attack.name).collect();
        members.go_on(until, world);
        names
    }

    fn new(mut random: Random, run: &Run, world: &mut OverlayWorld) -> Self {
        let (seed, tenant) = (run.plan.seed(), run.plan.hostile.expect("the plan has a hostile tenant"));
        let mut member = |part: Role| {
            let own = card(seed, part).address.expect("members have addresses");
            let relay = tenant.relay_of(part);
            let node = world.add(TestNode::member(own), own);
            world.connect_both(node, run.relays[relay], &Link { delay: ms(5), ..Link::default() });
            (tenant.member(seed, part), node, relay_node(seed, relay).address)
        };
        let nodes = [Role::Attacker, Role::Accomplice].map(&mut member);
        let draw = |random: &mut Random| {
            let index = random.below(ATTACKS.len() as u64);
            &ATTACKS[usize::try_from(index).expect("there are few attacks")]
        };
        let attacks: Vec<&Attack> = (0..=random.below(3)).map(|_| draw(&mut random)).collect();
        let (attack, start) = (attacks[0], Time::START);
        let (sent, first) = (0, Vec::new());
        Self { nodes, attacks, random, attack, sent, first, next_attack: start, next_session: start }
    }

    /// Sends the due packets now, and again after an interval.
    fn go_on(mut self, until: Time, world: &mut OverlayWorld) {
        if world.now() >= until {
            return;
        }
        Run::schedule(world, world.now() + INTERVAL, move |_, world| {
            self.step(world);
            self.go_on(until, world);
        });
    }

    fn step(&mut self, world: &mut OverlayWorld) {
        self.drain_all(world);
        let now = world.now();
        if self.next_session <= now {
            self.next_session = now + SESSION_TIME;
            self.meet_again(world);
        }
        if self.next_attack <= now {
            self.next_attack = now + ATTACK_TIME;
            let index = self.random.below(self.attacks.len() as u64);
            self.attack = self.attacks[usize::try_from(index).expect("there are few attacks")];
            self.sent = 0;
        }
        let packet = self.attack.datagram(&mut self.nodes[0].0, self.sent, &self.first);
        if self.sent == 0 {
            self.first = packet.clone().unwrap_or_default();
        }
        self.sent += 1;
        self.post(0, packet, world);
    }

    /// Starts new sessions, and registers some flows of each role.
    fn meet_again(&mut self, world: &mut OverlayWorld) {
        for index in [0, 1] {
            let role = if index == 0 { FlowRole::Receiver } else { FlowRole::Sender };
            let (flows, _) = self.nodes[index].0.register_some(role, &[1, 2, 3]);
            self.post(index, flows, world);
            let initiation = self.nodes[index].0.initiate();
            self.post(index, Some(initiation), world);
        }
    }

    /// Both members read their received packets, and send the answers that keep their sessions
    /// alive.
    fn drain_all(&mut self, world: &mut OverlayWorld) {
        for index in [0, 1] {
            let now = world.now();
            for packet in world.host_mut(self.nodes[index].1).drain_received() {
                let answer = self.nodes[index].0.on_packet(&packet, now);
                self.post(index, answer, world);
            }
        }
    }

    fn post(&mut self, index: usize, packet: Option<Vec<u8>>, world: &mut OverlayWorld) {
        let (_, node, destination) = self.nodes[index];
        if let Some(payload) = packet {
            world.input(node, |host, _| {
                host.queue_datagram(InjectedDatagram { source: None, destination, payload });
            });
        }
    }
}

/// The members during the set-up of their attacks.
struct HostileScene<'a> {
    members: &'a mut Members,
    run: &'a mut Run,
    world: &'a mut OverlayWorld,
}

impl HostileScene<'_> {
    fn begin_sessions(&mut self) {
        for part in [Role::Attacker, Role::Accomplice] {
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

impl Testbed for HostileScene<'_> {
    fn member(&mut self, part: Role) -> &mut Attacker {
        &mut self.members.nodes[node_index(part)].0
    }

    fn send(&mut self, part: Role, packet: Vec<u8>) {
        self.members.post(node_index(part), Some(packet), self.world);
    }

    fn pass(&mut self, time: Duration) {
        self.world.run_for(time, self.run);
        self.members.drain_all(self.world);
    }
}

const fn node_index(part: Role) -> usize {
    match part {
        Role::Attacker => 0,
        Role::Accomplice => 1,
    }
}

impl Plan {
    /// Adds a hostile tenant with members at the last relay of the first path, and at its first.
    pub(crate) fn with_hostile_tenant(mut self) -> Self {
        self.hostile = Some(HostileTenant { attacker_at: usize::from(self.relays > 1), mate_at: 0 });
        self
    }
}
