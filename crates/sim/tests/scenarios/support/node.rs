//! What lives in the world: agents, relays, and strangers that send whatever they are told to.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use byway_proto::agent::Agent;
use byway_proto::relay::Relay;
use byway_sim::overlay::OverlayHost;
use byway_sim::{Datagram, Ecn, Host, Marks, Transmit};
use byway_units::Time;

use super::liar::{Liar, LyingHost};

/// A datagram of a stranger.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// The address it says it comes from; `None` for the stranger's own.
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) payload: Vec<u8>,
}

/// What somebody said to a stranger.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Which of the stranger's addresses it came to.
    pub(crate) to: SocketAddr,
    pub(crate) payload: Vec<u8>,
}

/// Somebody who sends what is queued, and keeps what comes.
#[derive(Debug)]
pub(crate) struct Stranger {
    own: SocketAddr,
    queue: VecDeque<Parcel>,
    sending: Option<Parcel>,
    received: Vec<Answer>,
    /// Whether it has keys, with which it proves its address: what it gets is not bounded by what it sends.
    is_member: bool,
    /// Bytes sent from, and received at, each address so far.
    bytes: BTreeMap<SocketAddr, (usize, usize)>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Overlay(OverlayHost),
    Liar(LyingHost),
    Stranger(Stranger),
}

impl Stranger {
    /// Keeps an answer. At no moment has an address got more than three times what came from it: whose address it is
    /// nobody knows, so that more would flood a victim.
    fn receive(&mut self, to: SocketAddr, payload: &[u8]) {
        let (sent, received) = self.bytes.entry(to).or_default();
        *received += payload.len();
        assert!(
            self.is_member || *received <= 3 * *sent,
            "{received} B came to {to} for {sent} B from there"
        );
        self.received.push(Answer { to, payload: payload.to_vec() });
    }

    fn transmit(&mut self) -> Option<&Parcel> {
        self.sending = self.queue.pop_front();
        let parcel = self.sending.as_ref()?;
        self.bytes.entry(parcel.source.unwrap_or(self.own)).or_default().0 += parcel.payload.len();
        Some(parcel)
    }
}

impl Node {
    /// A part of the overlay, with the ciphers of a liar if it is one.
    pub(crate) fn of(host: OverlayHost, liar: Option<&Liar>) -> Self {
        match liar {
            Some(liar) => Self::Liar(LyingHost::new(host, liar.clone())),
            None => Self::Overlay(host),
        }
    }

    /// A stranger at this address.
    pub(crate) fn stranger(own: SocketAddr) -> Self {
        Self::told_what_to_say(own, false)
    }

    /// A member of a tenant at this address, whose keys the test has.
    pub(crate) fn member(own: SocketAddr) -> Self {
        Self::told_what_to_say(own, true)
    }

    fn told_what_to_say(own: SocketAddr, is_member: bool) -> Self {
        Self::Stranger(Stranger {
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
            Self::Overlay(host) => host,
            Self::Liar(liar) => &liar.host,
            Self::Stranger(_) => panic!("a stranger is no part of the overlay"),
        }
    }

    pub(crate) fn overlay_mut(&mut self) -> &mut OverlayHost {
        match self {
            Self::Overlay(host) => host,
            Self::Liar(liar) => &mut liar.host,
            Self::Stranger(_) => panic!("a stranger is no part of the overlay"),
        }
    }

    pub(crate) fn agent(&self) -> &Agent {
        self.overlay().as_agent()
    }

    pub(crate) fn relay(&self) -> &Relay {
        self.overlay().as_relay()
    }

    /// Has a stranger send this.
    pub(crate) fn post(&mut self, parcel: Parcel) {
        match self {
            Self::Stranger(stranger) => stranger.queue.push_back(parcel),
            Self::Overlay(_) | Self::Liar(_) => panic!("agents and relays send what they want"),
        }
    }

    /// Takes what a stranger received.
    pub(crate) fn take_received(&mut self) -> Vec<Vec<u8>> {
        match self {
            Self::Stranger(stranger) => stranger.received.drain(..).map(|answer| answer.payload).collect(),
            Self::Overlay(_) | Self::Liar(_) => Vec::new(),
        }
    }

    /// What a stranger received.
    pub(crate) fn received(&self) -> &[Answer] {
        match self {
            Self::Stranger(stranger) => &stranger.received,
            Self::Overlay(_) | Self::Liar(_) => &[],
        }
    }
}

impl Host for Node {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        match self {
            Self::Overlay(host) => host.receive(datagram, now),
            Self::Liar(liar) => liar.host.receive(datagram, now),
            Self::Stranger(stranger) => stranger.receive(datagram.destination, datagram.payload),
        }
    }

    fn wake(&mut self, now: Time) {
        match self {
            Self::Overlay(host) => host.wake(now),
            Self::Liar(liar) => liar.host.wake(now),
            Self::Stranger(_) => {}
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        match self {
            Self::Overlay(host) => host.transmit(now),
            Self::Liar(liar) => {
                let (host, liar, sending) = liar.parts();
                let honest = host.transmit(now)?;
                LyingHost::falsify(liar, honest.payload, sending);
                Some(Transmit { payload: sending, ..honest })
            }
            Self::Stranger(stranger) => stranger.transmit().map(|parcel| Transmit {
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
            Self::Overlay(host) => host.deadline(),
            Self::Liar(liar) => liar.host.deadline(),
            Self::Stranger(_) => None,
        }
    }
}
