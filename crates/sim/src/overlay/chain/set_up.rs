//! Who the nodes of a chain are.

use alloc::vec::Vec;
use core::array;

use byway_code::Engine;
use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, Peer, RelayPath, RelayPeer, flow_between};
use byway_proto::relay::{Authority, OtherRelay, Relay, RelaySettings};
use byway_units::{AgentId, Duration, FlowId, RelayId, Time};
use byway_wire::seal::{PreSharedKey, Provider, StaticSecret, Suite};
use byway_wire::{
    CodingGroupId, FlowKey, Grant, GrantedRelay, KilobitsPerSecond, Receiver, SIGNATURE_BYTES, Services,
    Shard, TenantId,
};

use super::mail::address;
use super::{AGENTS, EGRESS, INGRESS};

/// What a chain is made of, and what its flows send.
#[derive(Clone, Debug)]
pub struct ChainSettings {
    /// Pairs of a sending and a receiving agent.
    pub pairs: usize,
    /// Most flows of each pair.
    pub flows: u16,
    /// What the flows ask for; their paths are filled in.
    pub flow: FlowSettings,
    /// The datagrams' length.
    pub datagram_bytes: usize,
    /// Between two packets, whichever flows they are of.
    pub interval: Duration,
    /// How long a step is, and what every path takes.
    pub step: Duration,
}

const SHARD: Shard = Shard::new(0);
const RELAYS: [RelayId; 2] = [RelayId::new(1), RelayId::new(2)];

fn secret(place: usize) -> StaticSecret {
    StaticSecret::from_bytes(seed(place, 1))
}

/// Any 32 bytes that differ from node to node and purpose to purpose.
fn seed(place: usize, purpose: u8) -> [u8; 32] {
    let [a, b, c, d] = u32::try_from(place).expect("there are few nodes").to_be_bytes();
    array::from_fn(|index| match index {
        0 => a,
        1 => b,
        2 => c,
        3 => d,
        _ => purpose,
    })
}

impl ChainSettings {
    fn place(&self, is_sender: bool, pair: usize) -> usize {
        if is_sender { AGENTS + pair } else { AGENTS + self.pairs + pair }
    }

    fn number(&self, is_sender: bool, pair: usize) -> AgentId {
        AgentId::new(u32::try_from(self.place(is_sender, pair)).expect("there are few agents"))
    }

    pub(super) fn key_of(&self, pair: usize, flow: u16) -> FlowKey {
        flow_between(self.number(true, pair), self.number(false, pair), FlowId::new(flow))
    }

    pub(super) fn flow_settings(&self) -> FlowSettings {
        let path = RelayPath {
            ingress: (RELAYS[INGRESS], SHARD),
            egress: (RELAYS[EGRESS], SHARD),
            grant: Vec::new(),
        };
        FlowSettings { paths: alloc::vec![path], ..self.flow.clone() }
    }

    fn grants(&self) -> Vec<Grant> {
        let key = |place| *secret(place).public_key().bytes();
        (0..self.pairs)
            .map(|pair| Grant {
                services: Services::from_bits(0b1_1111),
                sharing: false,
                ingress: GrantedRelay { relay: RELAYS[INGRESS], shard: SHARD },
                egress: GrantedRelay { relay: RELAYS[EGRESS], shard: SHARD },
                first_flow: FlowId::new(0),
                last_flow: FlowId::new(self.flows),
                sender: self.number(true, pair),
                receiver: Receiver::Agent(self.number(false, pair)),
                coding_group: CodingGroupId::new(1),
                tenant: TenantId::new(1),
                rate: KilobitsPerSecond::new(u32::MAX),
                not_after_unix_seconds: u64::MAX,
                sender_key: key(self.place(true, pair)),
                receiver_key: key(self.place(false, pair)),
                signature: [0; SIGNATURE_BYTES],
            })
            .collect()
    }

    /// The ingress and the egress relay.
    pub(super) fn relays(&self, engine: Engine, provider: &'static (dyn Provider + Sync)) -> [Relay; 2] {
        let grants = self.grants();
        [INGRESS, EGRESS].map(|own| {
            let other = if own == INGRESS { EGRESS } else { INGRESS };
            let settings = RelaySettings {
                number: RELAYS[own],
                shard: SHARD,
                secret: secret(own),
                suite: Suite::Aes256Gcm,
                started_unix_nanos: 1,
                authority: Authority::Static(grants.clone()),
                relays: alloc::vec![OtherRelay {
                    number: RELAYS[other],
                    shard: SHARD,
                    key: secret(other).public_key(),
                    address: address(other),
                }],
            };
            Relay::new(settings, engine, provider, seed(own, 2), Time::START)
        })
    }

    /// An agent that knows its relay and its peer.
    pub(super) fn agent(
        &self,
        is_sender: bool,
        pair: usize,
        engine: Engine,
        provider: &'static (dyn Provider + Sync),
    ) -> Agent {
        let (own, other) = (self.place(is_sender, pair), self.place(!is_sender, pair));
        let identity = AgentIdentity { secret: secret(own), suite: Suite::Aes256Gcm, started_unix_nanos: 1 };
        let mut agent = Agent::new(identity, engine, provider, seed(own, 2), Time::START);
        let relay = if is_sender { INGRESS } else { EGRESS };
        let (number, key) = (RELAYS[relay], secret(relay).public_key());
        agent.add_relay(&RelayPeer { number, shard: SHARD, key, address: address(relay) }, Time::START);
        let peer = Peer {
            number: self.number(!is_sender, pair),
            key: secret(other).public_key(),
            pre_shared: PreSharedKey::default(),
            addresses: alloc::vec![address(other)],
        };
        agent.add_peer(peer, Time::START);
        agent
    }
}
