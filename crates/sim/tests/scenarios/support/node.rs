//! Nodes of the world: agents, relays, and off-path hosts that send any datagrams of a test.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use byway_proto::agent::{Agent, AgentInput};
use byway_proto::relay::Relay;
use byway_proto::{LocalAddress, Uplink};
use byway_sim::checkers::check_agent_input;
use byway_sim::overlay::OverlayHost;
use byway_sim::{Datagram, Ecn, Host, Marks, Transmit};
use byway_units::Time;

use super::faulty_relay::{FaultyHost, FaultyProvider};
use super::identities::RELAYS;

/// A datagram of a stranger.
#[derive(Clone, Debug)]
pub(crate) struct InjectedDatagram {
    /// Source address in its header; `None` for the stranger's own.
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) payload: Vec<u8>,
}

/// Datagram that a stranger received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedDatagram {
    /// Address of the stranger to which it was sent.
    pub(crate) to: SocketAddr,
    pub(crate) payload: Vec<u8>,
}

/// Host that sends queued datagrams, and stores received ones.
#[derive(Debug)]
pub(crate) struct OffPathHost {
    own: SocketAddr,
    queue: VecDeque<InjectedDatagram>,
    sending: Option<InjectedDatagram>,
    received: Vec<ReceivedDatagram>,
    /// True if it has keys, with which it proves its address: then the amplification limit does not
    /// apply.
    is_member: bool,
    /// Bytes sent from, and received at, each address so far.
    bytes: BTreeMap<SocketAddr, (usize, usize)>,
}

#[derive(Debug)]
pub(crate) enum TestNode {
    Overlay(OverlayHost),
    /// Agent with two uplinks, which all work: packets of relays arrive at the second one.
    TwoUplinks(OverlayHost),
    FaultyRelay(FaultyHost),
    OffPathHost(OffPathHost),
}

impl OffPathHost {
    /// Stores a received datagram. Asserts that no address has received more than three times the
    /// bytes sent from it, because more would flood a victim with a spoofed address.
    fn receive(&mut self, to: SocketAddr, payload: &[u8]) {
        let (sent, received) = self.bytes.entry(to).or_default();
        *received += payload.len();
        assert!(
            self.is_member || *received <= 3 * *sent,
            "{received} B came to {to} for {sent} B from there"
        );
        self.received.push(ReceivedDatagram { to, payload: payload.to_vec() });
    }

    fn transmit(&mut self) -> Option<&InjectedDatagram> {
        self.sending = self.queue.pop_front();
        let parcel = self.sending.as_ref()?;
        self.bytes.entry(parcel.source.unwrap_or(self.own)).or_default().0 += parcel.payload.len();
        Some(parcel)
    }
}

/// Returns the uplink of an agent with two at which packets from this address arrive.
fn uplink_from(source: SocketAddr) -> Uplink {
    let is_relay = matches!(source.ip(), IpAddr::V4(address) if address.octets()[1] == RELAYS);
    if is_relay { Uplink::Second } else { Uplink::First }
}

impl TestNode {
    /// Creates an overlay node, with falsifying ciphers if it misbehaves.
    pub(crate) fn of(host: OverlayHost, liar: Option<&FaultyProvider>) -> Self {
        match liar {
            Some(liar) => Self::FaultyRelay(FaultyHost::new(host, liar.clone())),
            None => Self::Overlay(host),
        }
    }

    /// Creates a stranger at this address.
    pub(crate) fn off_path_host(own: SocketAddr) -> Self {
        Self::with_membership(own, false)
    }

    /// Creates a member of a tenant at this address, whose keys the test has.
    pub(crate) fn member(own: SocketAddr) -> Self {
        Self::with_membership(own, true)
    }

    fn with_membership(own: SocketAddr, is_member: bool) -> Self {
        Self::OffPathHost(OffPathHost {
            own,
            queue: VecDeque::new(),
            sending: None,
            received: Vec::new(),
            is_member,
            bytes: BTreeMap::new(),
        })
    }

    pub(crate) fn overlay(&self) -> &OverlayHost {
        match self {
            Self::Overlay(host) | Self::TwoUplinks(host) => host,
            Self::FaultyRelay(liar) => &liar.host,
            Self::OffPathHost(_) => panic!("a stranger is no part of the overlay"),
        }
    }

    pub(crate) fn overlay_mut(&mut self) -> &mut OverlayHost {
        match self {
            Self::Overlay(host) | Self::TwoUplinks(host) => host,
            Self::FaultyRelay(liar) => &mut liar.host,
            Self::OffPathHost(_) => panic!("a stranger is no part of the overlay"),
        }
    }

    pub(crate) fn agent(&self) -> &Agent {
        self.overlay().as_agent()
    }

    pub(crate) fn relay(&self) -> &Relay {
        self.overlay().as_relay()
    }

    /// Queues a datagram of a stranger.
    pub(crate) fn queue_datagram(&mut self, parcel: InjectedDatagram) {
        match self {
            Self::OffPathHost(stranger) => stranger.queue.push_back(parcel),
            Self::Overlay(_) | Self::TwoUplinks(_) | Self::FaultyRelay(_) => {
                panic!("agents and relays send what they want")
            }
        }
    }

    /// Removes and returns the datagrams that a stranger received.
    pub(crate) fn drain_received(&mut self) -> Vec<Vec<u8>> {
        match self {
            Self::OffPathHost(stranger) => stranger.received.drain(..).map(|answer| answer.payload).collect(),
            Self::Overlay(_) | Self::TwoUplinks(_) | Self::FaultyRelay(_) => Vec::new(),
        }
    }

    /// Returns the datagrams that a stranger received.
    pub(crate) fn received(&self) -> &[ReceivedDatagram] {
        match self {
            Self::OffPathHost(stranger) => &stranger.received,
            Self::Overlay(_) | Self::TwoUplinks(_) | Self::FaultyRelay(_) => &[],
        }
    }
}

impl Host for TestNode {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        match self {
            Self::Overlay(host) => host.receive(datagram, now),
            Self::TwoUplinks(host) => {
                let Datagram { source: from, ecn, payload: bytes, .. } = datagram;
                let to = LocalAddress::any_at(uplink_from(from));
                let input = AgentInput::Received { from, to, ecn, bytes };
                check_agent_input(host.as_agent_mut(), |agent| agent.handle(input, now));
            }
            Self::FaultyRelay(liar) => liar.host.receive(datagram, now),
            Self::OffPathHost(stranger) => stranger.receive(datagram.destination, datagram.payload),
        }
    }

    fn wake(&mut self, now: Time) {
        match self {
            Self::Overlay(host) | Self::TwoUplinks(host) => host.wake(now),
            Self::FaultyRelay(liar) => liar.host.wake(now),
            Self::OffPathHost(_) => {}
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        match self {
            Self::Overlay(host) | Self::TwoUplinks(host) => host.transmit(now),
            Self::FaultyRelay(liar) => {
                let (host, liar, sending) = liar.parts();
                let honest = host.transmit(now)?;
                FaultyHost::falsify(liar, honest.payload, sending);
                Some(Transmit { payload: sending, ..honest })
            }
            Self::OffPathHost(stranger) => stranger.transmit().map(|parcel| Transmit {
                source: parcel.source,
                destination: parcel.destination,
                marks: Marks::default(),
                ecn: Ecn::NotCapable,
                payload: &parcel.payload,
            }),
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Overlay(host) | Self::TwoUplinks(host) => host.deadline(),
            Self::FaultyRelay(liar) => liar.host.deadline(),
            Self::OffPathHost(_) => None,
        }
    }
}
