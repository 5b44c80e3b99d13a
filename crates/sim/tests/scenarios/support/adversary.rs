//! Adversaries on links: they see every packet, and add some.

use std::net::SocketAddr;

use byway_sim::{Link, NodeId, Random, Step};
use byway_units::Time;
use byway_wire::packets::{InitiationPacket, Kind, RESPONSE_BYTES_MIN};
use byway_wire::seal::{CookieJar, Responder, StaticSecret};

use super::identities::{AGENTS, RELAYS, agent_secret, relay_card};
use super::{Crossing, Node, OverlayWorld, Parcel, Run, address, ms};

/// How often the adversary looks at what was sent: between two looks, little of a handshake happens.
const INTERVAL_MS: u64 = 2;

/// What an adversary adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Additions {
    /// Forged cookies, and forged responses, for each initiation.
    pub(crate) cookies: usize,
    pub(crate) responses: usize,
    /// One in so many packets is sent once more, as if by whoever sent it.
    pub(crate) replays_one_in: u64,
    /// One in so many packets is sent once more with a bit inverted, and one as garbage of its length; 0 for none.
    pub(crate) alterations_one_in: u64,
    pub(crate) garbage_one_in: u64,
}

/// Somebody who sees what crosses some links, and is nearer to everybody than they are to each other.
pub(crate) struct Adversary {
    node: NodeId,
    additions: Additions,
    random: Random,
}

impl Adversary {
    /// Puts an adversary on these links, until an instant.
    pub(crate) fn attack(
        links: &[(NodeId, NodeId)],
        additions: Additions,
        until: Time,
        run: &Run,
        world: &mut OverlayWorld,
    ) {
        let own = address(99, 0);
        let node = world.add(Node::stranger(own), own);
        for other in run.agents.iter().chain(&run.relays) {
            world.connect_both(node, *other, &Link { delay: ms(1), ..Link::default() });
        }
        let both_ways = links.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
        world.observer_mut().watched.extend(both_ways);
        let random = run.plan.seed().named("additions").sequence();
        Self { node, additions, random }.look(until, world);
    }

    /// Adds packets now, and again after an interval.
    fn look(mut self, until: Time, world: &mut OverlayWorld) {
        if world.now() >= until {
            world.observer_mut().watched.clear();
            return;
        }
        let next = world.now() + ms(INTERVAL_MS);
        Run::when(world, next, move |run, world| {
            self.add_packets(run, world);
            self.look(until, world);
        });
    }

    fn add_packets(&mut self, run: &mut Run, world: &mut OverlayWorld) {
        let crossings = std::mem::take(&mut world.observer_mut().crossings);
        let mut parcels = Vec::new();
        for crossing in crossings.into_iter().filter(|one| one.step == Step::Sent) {
            if crossing.payload[0] == Kind::Initiation.first_byte() {
                self.forge(&crossing, run, &mut parcels);
            }
            let Crossing { source, destination, payload, .. } = crossing;
            let source = Some(source);
            if self.one_in(self.additions.alterations_one_in) {
                let payload = self.altered(&payload);
                parcels.push(Parcel { source, destination, payload });
            }
            if self.one_in(self.additions.garbage_one_in) {
                let payload = self.garbage(&payload);
                parcels.push(Parcel { source, destination, payload });
            }
            if self.one_in(self.additions.replays_one_in) {
                parcels.push(Parcel { source, destination, payload });
            }
        }
        world.input(self.node, |host, _| parcels.into_iter().for_each(|parcel| host.post(parcel)));
    }

    /// True one in so many times, and never for 0.
    fn one_in(&mut self, parts: u64) -> bool {
        parts > 0 && self.random.below(parts) == 0
    }

    /// A packet of which one bit is another one.
    fn altered(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut altered = packet.to_vec();
        let bit = self.random.below(8 * packet.len() as u64);
        let place = usize::try_from(bit / 8).expect("packets are short");
        altered[place] ^= 1 << (bit % 8);
        altered
    }

    /// A packet of the same kind, for the same session, that nobody sealed.
    fn garbage(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut garbage = packet.to_vec();
        byway_wire::seal::Random::fill(&mut Bytes(&mut self.random), &mut garbage[packet.len().min(8)..]);
        garbage
    }

    /// Answers an initiation as if the responder had.
    fn forge(&mut self, initiation: &Crossing, run: &Run, parcels: &mut Vec<Parcel>) {
        let Crossing { source, destination, ref payload, time, .. } = *initiation;
        let mut answer = |bytes: Vec<u8>| {
            parcels.push(Parcel { source: Some(destination), destination: source, payload: bytes });
        };
        // A damaged initiation is for nobody, and gets no cookie.
        let secret = secret_at(destination, run);
        let packet = InitiationPacket::parse(payload.as_slice());
        if let (Ok(packet), Some(secret)) = (packet, secret)
            && let Ok(screened) = Responder::new(secret.clone()).screen(packet)
        {
            for _ in 0..self.additions.cookies {
                let mut jar = CookieJar::new(secret.public_key());
                answer(jar.packet(&screened, source.into(), time, &mut Bytes(&mut self.random)).to_vec());
            }
        }
        for _ in 0..self.additions.responses {
            let mut bytes: Vec<u8> =
                (0..RESPONSE_BYTES_MIN).map(|_| self.random.bits().to_be_bytes()[0]).collect();
            bytes[..4].copy_from_slice(&[Kind::Response.first_byte(), 0, 0, 0]);
            bytes[4..8].copy_from_slice(&payload[8..12]);
            answer(bytes);
        }
    }
}

/// The adversary's own random bytes.
struct Bytes<'a>(&'a mut Random);

impl byway_wire::seal::Random for Bytes<'_> {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.0.bits().to_be_bytes()[0];
        }
    }
}

/// The secret of the node that began at an address. Of it, the adversary uses only what follows from the public key.
fn secret_at(destination: SocketAddr, run: &Run) -> Option<StaticSecret> {
    let seed = run.plan.seed();
    let relays = (0..run.relays.len()).map(|relay| (address(RELAYS, relay), relay_card(seed, relay).secret));
    let agents = (0..run.agents.len()).map(|agent| (address(AGENTS, agent), agent_secret(seed, agent)));
    relays.chain(agents).find(|(at, _)| *at == destination).map(|(_, secret)| secret)
}
