//! Adversaries on links, which observe every packet and inject some.

use std::net::SocketAddr;

use byway_sim::{Link, NodeId, Random, Step};
use byway_units::Time;
use byway_wire::packets::{InitiationPacket, Kind, RESPONSE_BYTES_MIN};
use byway_wire::seal::{CookieJar, Responder, StaticSecret};

use super::identities::{AGENTS, RELAYS, agent_secret, relay_node};
use super::{InjectedDatagram, ObservedPacket, OverlayWorld, Run, TestNode, address, ms};

/// Interval between two looks of the adversary at sent packets: little of a handshake happens in
/// between.
const INTERVAL_MS: u64 = 2;

/// Packets that an adversary injects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InjectedPackets {
    /// Number of forged cookies, and of forged responses, for each initiation.
    pub(crate) cookies: usize,
    pub(crate) responses: usize,
    /// One in this many packets is replayed, with the sender's source address.
    pub(crate) replays_one_in: u64,
    /// One in this many packets is replayed with an inverted bit, and one as garbage of its length;
    /// 0 for none.
    pub(crate) alterations_one_in: u64,
    pub(crate) garbage_one_in: u64,
}

/// Adversary that observes some links, and has shorter delays to all nodes than they have to each
/// other.
pub(crate) struct Adversary {
    node: NodeId,
    injected: InjectedPackets,
    random: Random,
}

impl Adversary {
    /// Starts an adversary on these links, until an instant.
    pub(crate) fn attack(
        links: &[(NodeId, NodeId)],
        additions: InjectedPackets,
        until: Time,
        run: &Run,
        world: &mut OverlayWorld,
    ) {
        let own = address(99, 0);
        let node = world.add(TestNode::off_path_host(own), own);
        for other in run.agents.iter().chain(&run.relays) {
            world.connect_both(node, *other, &Link { delay: ms(1), ..Link::default() });
        }
        let both_ways = links.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
        world.observer_mut().observed_links.extend(both_ways);
        let random = run.plan.seed().named("additions").sequence();
        Self { node, injected: additions, random }.inject_periodically(until, world);
    }

    /// Injects packets now, and again after an interval.
    fn inject_periodically(mut self, until: Time, world: &mut OverlayWorld) {
        if world.now() >= until {
            world.observer_mut().observed_links.clear();
            return;
        }
        let next = world.now() + ms(INTERVAL_MS);
        Run::schedule(world, next, move |run, world| {
            self.inject_packets(run, world);
            self.inject_periodically(until, world);
        });
    }

    fn inject_packets(&mut self, run: &mut Run, world: &mut OverlayWorld) {
        let crossings = std::mem::take(&mut world.observer_mut().observed);
        let mut parcels = Vec::new();
        for crossing in crossings.into_iter().filter(|one| one.step == Step::Sent) {
            if crossing.payload[0] == Kind::Initiation.first_byte() {
                self.forge(&crossing, run, &mut parcels);
            }
            let ObservedPacket { source, destination, payload, .. } = crossing;
            let source = Some(source);
            if self.one_in(self.injected.alterations_one_in) {
                let payload = self.altered(&payload);
                parcels.push(InjectedDatagram { source, destination, payload });
            }
            if self.one_in(self.injected.garbage_one_in) {
                let payload = self.garbage(&payload);
                parcels.push(InjectedDatagram { source, destination, payload });
            }
            if self.one_in(self.injected.replays_one_in) {
                parcels.push(InjectedDatagram { source, destination, payload });
            }
        }
        world.input(self.node, |host, _| parcels.into_iter().for_each(|parcel| host.queue_datagram(parcel)));
    }

    /// Draws an event with probability 1 / `parts`; never for 0.
    fn one_in(&mut self, parts: u64) -> bool {
        parts > 0 && self.random.below(parts) == 0
    }

    /// Returns a packet with one inverted bit.
    fn altered(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut altered = packet.to_vec();
        let bit = self.random.below(8 * packet.len() as u64);
        let index = usize::try_from(bit / 8).expect("packets are short");
        altered[index] ^= 1 << (bit % 8);
        altered
    }

    /// Returns a packet of the same kind and session that no node sealed.
    fn garbage(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut garbage = packet.to_vec();
        byway_wire::seal::Random::fill(&mut Bytes(&mut self.random), &mut garbage[packet.len().min(8)..]);
        garbage
    }

    /// Answers an initiation with the responder's address as source.
    fn forge(&mut self, initiation: &ObservedPacket, run: &Run, parcels: &mut Vec<InjectedDatagram>) {
        let ObservedPacket { source, destination, ref payload, time, .. } = *initiation;
        let mut answer = |bytes: Vec<u8>| {
            parcels.push(InjectedDatagram { source: Some(destination), destination: source, payload: bytes });
        };
        // A damaged initiation has no valid responder, and gets no cookie.
        let secret = secret_at(destination, run);
        let packet = InitiationPacket::parse(payload.as_slice());
        if let (Ok(packet), Some(secret)) = (packet, secret)
            && let Ok(screened) = Responder::new(secret.clone()).screen(packet)
        {
            for _ in 0..self.injected.cookies {
                let mut jar = CookieJar::new(secret.public_key());
                answer(jar.packet(&screened, source.into(), time, &mut Bytes(&mut self.random)).to_vec());
            }
        }
        for _ in 0..self.injected.responses {
            let mut bytes: Vec<u8> =
                (0..RESPONSE_BYTES_MIN).map(|_| self.random.bits().to_be_bytes()[0]).collect();
            bytes[..4].copy_from_slice(&[Kind::Response.first_byte(), 0, 0, 0]);
            bytes[4..8].copy_from_slice(&payload[8..12]);
            answer(bytes);
        }
    }
}

/// Random bytes of the adversary.
struct Bytes<'a>(&'a mut Random);

impl byway_wire::seal::Random for Bytes<'_> {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.0.bits().to_be_bytes()[0];
        }
    }
}

/// Returns the secret of the node that started at an address. The adversary uses only data that
/// follows from the public key.
fn secret_at(destination: SocketAddr, run: &Run) -> Option<StaticSecret> {
    let seed = run.plan.seed();
    let relays = (0..run.relays.len()).map(|relay| (address(RELAYS, relay), relay_node(seed, relay).secret));
    let agents = (0..run.agents.len()).map(|agent| (address(AGENTS, agent), agent_secret(seed, agent)));
    relays.chain(agents).find(|(at, _)| *at == destination).map(|(_, secret)| secret)
}
