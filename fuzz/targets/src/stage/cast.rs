//! Who is who: secrets, addresses, grants, and the state machines made of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_code::Engine;
use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, Peer, RelayPath, RelayPeer, flow_between};
use byway_proto::relay::{Authority, OtherRelay, Relay, RelaySettings};
use byway_units::{AgentId, FlowId, RelayId, Time};
use byway_wire::seal::{Portable, PreSharedKey, PublicKey, StaticSecret, Suite};
use byway_wire::{
    CodingGroupId, FlowKey, Grant, GrantedRelay, KilobitsPerSecond, Receiver, SIGNATURE_BYTES, Service,
    Services, Shard, TenantId,
};

/// A node of the set-up: agents 1 to 4, relays 1 and 2, and somebody whom nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Agent(u8),
    Relay(u8),
    Stranger,
}

/// The relay at which most flows enter the overlay, and the one at which they leave it.
pub(crate) const INGRESS: Who = Who::Relay(1);
pub(crate) const EGRESS: Who = Who::Relay(2);

/// Agents that flows connect, with the relays at both ends: pairs between the relays, back, and within one.
pub(crate) const GRANTED: [(u8, u8, u8, u8); 4] = [(1, 2, 1, 2), (3, 4, 1, 2), (2, 1, 2, 1), (4, 2, 2, 2)];

/// What the flows of a grant may send together.
pub(crate) const GRANTED_KBITS: u32 = 100_000;

impl Who {
    const fn letter(self) -> u8 {
        match self {
            Self::Agent(number) => number,
            Self::Relay(number) => 100 + number,
            Self::Stranger => 200,
        }
    }

    pub(crate) fn secret(self) -> StaticSecret {
        StaticSecret::from_bytes([self.letter(); 32])
    }

    pub(crate) fn key(self) -> PublicKey {
        self.secret().public_key()
    }

    pub(crate) fn address(self) -> SocketAddr {
        let ip = match self {
            Self::Stranger => Ipv4Addr::new(203, 0, 113, 9),
            _ => Ipv4Addr::new(10, 0, 0, self.letter()),
        };
        SocketAddr::new(IpAddr::V4(ip), 4_600)
    }

    pub(crate) const fn agent_id(self) -> AgentId {
        AgentId::new(self.letter() as u32)
    }

    fn relay_id(self) -> RelayId {
        let Self::Relay(number) = self else { panic!("{self:?} is no relay") };
        RelayId::new(number.into())
    }

    fn seed(self) -> [u8; 32] {
        [self.letter() ^ 0x55; 32]
    }
}

/// The flow with this number between two agents.
pub(crate) fn flow(sender: u8, receiver: u8, number: u16) -> FlowKey {
    flow_between(Who::Agent(sender).agent_id(), Who::Agent(receiver).agent_id(), FlowId::new(number))
}

fn grants() -> Vec<Grant> {
    let granted = |relay: u8| GrantedRelay { relay: RelayId::new(relay.into()), shard: Shard::new(0) };
    let grant = |(sender, receiver, ingress, egress): (u8, u8, u8, u8)| Grant {
        services: Services::from_bits(0b1_1111),
        sharing: true,
        ingress: granted(ingress),
        egress: granted(egress),
        first_flow: FlowId::new(1),
        last_flow: FlowId::new(9),
        sender: Who::Agent(sender).agent_id(),
        receiver: Receiver::Agent(Who::Agent(receiver).agent_id()),
        coding_group: CodingGroupId::new(1),
        tenant: TenantId::new(1),
        rate: KilobitsPerSecond::new(GRANTED_KBITS),
        not_after_unix_seconds: u64::MAX,
        sender_key: *Who::Agent(sender).key().bytes(),
        receiver_key: *Who::Agent(receiver).key().bytes(),
        signature: [0; SIGNATURE_BYTES],
    };
    GRANTED.map(grant).to_vec()
}

/// A relay that knows the other one.
pub(crate) fn relay(who: Who) -> Relay {
    let other = if who == INGRESS { EGRESS } else { INGRESS };
    let settings = RelaySettings {
        number: who.relay_id(),
        shard: Shard::new(0),
        secret: who.secret(),
        suite: Suite::ChaCha20Poly1305,
        started_unix_nanos: 1,
        authority: Authority::Static(grants()),
        relays: vec![OtherRelay {
            number: other.relay_id(),
            shard: Shard::new(0),
            key: other.key(),
            address: other.address(),
        }],
    };
    Relay::new(settings, Engine::fastest(), &Portable, who.seed(), Time::START)
}

/// An agent that knows a relay and another agent.
pub(crate) fn agent(who: Who, relay: Who, peer: Who) -> Agent {
    let identity =
        AgentIdentity { secret: who.secret(), suite: Suite::ChaCha20Poly1305, started_unix_nanos: 1 };
    let mut agent = Agent::new(identity, Engine::fastest(), &Portable, who.seed(), Time::START);
    let shard = Shard::new(0);
    let relay = RelayPeer { number: relay.relay_id(), shard, key: relay.key(), address: relay.address() };
    agent.add_relay(&relay, Time::START);
    let peer = Peer {
        number: peer.agent_id(),
        key: peer.key(),
        pre_shared: PreSharedKey::default(),
        addresses: vec![peer.address()],
    };
    agent.add_peer(peer, Time::START);
    agent
}

/// A flow of this service through a pair of relays.
pub(crate) fn settings(service: Service, ingress: Who, egress: Who) -> FlowSettings {
    let shard = Shard::new(0);
    let ends = ((ingress.relay_id(), shard), (egress.relay_id(), shard));
    let path = RelayPath { ingress: ends.0, egress: ends.1, grant: Vec::new() };
    FlowSettings { service, paths: vec![path], ..FlowSettings::default() }
}
