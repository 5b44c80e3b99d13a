//! The client: an agent inside the application.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_code::Engine;
use byway_proto::LocalAddress;
use byway_proto::agent::{
    Agent, AgentIdentity, AgentInput, AgentOutput, Delivery, Offer, OfferRefusal, Terms, flow_between,
};
use byway_proto::conventions::{
    self, CONTACT_FLOW, Contacts, Exposure, FlowNumbers, PairUse, Segments, Subject, Wish, ip_bytes,
    offer_for,
};
use byway_proto::limits::{DATAGRAM_BYTES_MAX, FLOW_PAIRS_MAX};
use byway_units::{AgentId, FlowId, Time};
use byway_wire::seal::{Portable, Provider, StaticSecret, Suite};
use byway_wire::{Ecn, FlowKey, Receiver, TrafficClass};
use thiserror::Error;

use crate::choice::choose;
use crate::flow_pair::{AllInUse, Entry, FlowPair, FlowPairs, Side};
use crate::limits::{EXPOSED_MAX, SWEEP_INTERVAL};
use crate::network::{Known, Network, NetworkError};
use crate::output::{Event, Output};
use crate::registration::{RegisterError, Registered, Registration};
use crate::report::{FlowReport, SentReport};

/// Who the client is, and its randomness.
pub struct Identity {
    /// Its name in the network.
    pub name: String,
    /// Its long-term secret, whose public key the network has.
    pub secret: StaticSecret,
    /// 32 secret random bytes, others for each client. The same seed and the same inputs give the same outputs.
    pub seed: [u8; 32],
    /// When it starts, in nanoseconds of Unix time. It must rise from one start to the next: peers refuse what is older than
    /// what they know.
    pub started_unix_nanos: u64,
    /// The ciphers.
    pub provider: &'static (dyn Provider + Sync),
    /// Which of them are used with those whom this client calls: the ones that its processor is faster with.
    pub suite: Suite,
}

impl Identity {
    /// An identity with ciphers that run everywhere.
    #[must_use]
    pub fn new(name: &str, secret: StaticSecret, seed: [u8; 32], started_unix_nanos: u64) -> Self {
        let suite = Suite::ChaCha20Poly1305;
        Self { name: name.into(), secret, seed, started_unix_nanos, provider: &Portable, suite }
    }
}

/// Why a datagram was not sent. The application is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The flows are closed.
    #[error("these flows are closed: register again")]
    Closed,
    /// The peer has not accepted them.
    #[error("the peer has not accepted these flows yet: wait for the event")]
    NotAccepted,
    /// The datagram is too long.
    #[error("a datagram of {0} bytes is too long: {DATAGRAM_BYTES_MAX} are possible")]
    TooLong(usize),
}

/// Why something is not exposed. The application is to blame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExposeError {
    /// The name is too long or empty.
    #[error("a name has 1 to 251 bytes, and not {0}")]
    BadName(usize),
    /// So much is exposed already.
    #[error("{EXPOSED_MAX} names are exposed already")]
    NoRoom,
}

/// Something that peers may send to.
#[derive(Debug)]
struct Exposed {
    name: String,
    peers: Option<Vec<String>>,
}

/// An agent inside the application: what sends, receives and repairs its datagrams.
///
/// It touches no socket and no clock.
/// - *Inputs*: [`received`](Self::received), [`send`](Self::send), [`timer`](Self::timer), [`register`](Self::register),
///   [`expose`](Self::expose), [`close`](Self::close), [`leave`](Self::leave). Each is told the time, which never falls.
/// - *Outputs*: after each input, [`poll`](Self::poll) until it gives `None`, and then [`deadline`](Self::deadline): when it
///   has come, call [`timer`](Self::timer).
/// - *What is known*: [`report`](Self::report), [`subject`](Self::subject), [`name_of`](Self::name_of).
#[derive(Debug)]
pub struct Client {
    agent: Box<Agent>,
    known: Known,
    contacts: Contacts,
    numbers: FlowNumbers,
    /// The number that stood for this application in the last registration.
    source: u32,
    exposed: Vec<Exposed>,
    pairs: FlowPairs,
    events: VecDeque<Event>,
    delivered: Vec<u8>,
    segments: Segments,
    next_sweep: Time,
    now: Time,
    has_left: bool,
}

impl Client {
    /// A client that begins to speak to its relays and peers at once.
    ///
    /// # Errors
    /// If the network contradicts itself, or does not have this client.
    pub fn new(identity: Identity, network: &Network, now: Time) -> Result<Self, NetworkError> {
        let Identity { name, secret, seed, started_unix_nanos, provider, suite } = identity;
        let known = Known::new(network, &name, &secret.public_key())?;
        let number = known.own();
        // Peers may still know the numbers of the last run; and they see these, which are therefore not of the seed.
        let [n0, n1, s0, s1, s2, s3, ..] = started_unix_nanos.to_le_bytes();
        let agent = AgentIdentity { number, secret, suite, started_unix_nanos };
        let mut client = Self {
            agent: Box::new(Agent::new(agent, Engine::fastest(), provider, seed, now)),
            known,
            contacts: Contacts::default(),
            numbers: FlowNumbers::new(number, u16::from_le_bytes([n0, n1])),
            source: u32::from_le_bytes([s0, s1, s2, s3]),
            exposed: Vec::new(),
            pairs: FlowPairs::default(),
            events: VecDeque::new(),
            delivered: Vec::new(),
            segments: Segments::default(),
            next_sweep: now.saturating_add(SWEEP_INTERVAL),
            now,
            has_left: false,
        };
        client.known.introduce(&mut client.agent, now);
        client.contacts.follow(number, client.known.acquainted(), &mut client.agent, now);
        Ok(client)
    }

    /// A datagram came from the network. It is opened in place.
    ///
    /// `to` is the local address that it came to, by a number of the caller's, which what answers it names as
    /// [`Transmit::from`](crate::Transmit::from). Where sockets have one address each, it is [`LocalAddress::ANY`].
    pub fn received(&mut self, from: SocketAddr, to: LocalAddress, ecn: Ecn, bytes: &mut [u8], now: Time) {
        let now = self.at(now);
        *self.segments.received_mut(bytes) += ip_bytes(bytes, from).count();
        self.agent.handle(AgentInput::Received { from, to, ecn, bytes }, now);
    }

    /// Sends a datagram. One that is `marked` is worth a copy: with [`Duplication::Marked`](byway_proto::agent::Duplication),
    /// relays get those alone.
    ///
    /// # Errors
    /// If the flows are closed or not accepted yet, or the datagram is too long.
    pub fn send(
        &mut self,
        flow: FlowPair,
        datagram: &[u8],
        marked: bool,
        now: Time,
    ) -> Result<(), SendError> {
        let now = self.at(now);
        let entry = self.pairs.get_mut(flow).ok_or(SendError::Closed)?;
        if entry.side == (Side::Registered { is_accepted: false }) {
            return Err(SendError::NotAccepted);
        }
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(SendError::TooLong(datagram.len()));
        }
        entry.usage.note(entry.side == Side::Incoming, now);
        let flow = entry.sent;
        self.agent
            .handle(AgentInput::Send { flow, datagram, traffic_class: TrafficClass::DEFAULT, marked }, now);
        Ok(())
    }

    /// The deadline has come. A call too many does no harm.
    pub fn timer(&mut self, now: Time) {
        let now = self.at(now);
        if self.agent.deadline().is_some_and(|(at, _)| at <= now) {
            self.agent.handle(AgentInput::Deadline, now);
        }
        if self.next_sweep <= now && !self.has_left {
            self.next_sweep = now.saturating_add(SWEEP_INTERVAL);
            for pair in self.pairs.idle(now) {
                self.end(pair);
            }
        }
    }

    /// Asks a peer for flows to something that it exposes: a `byway agent`'s `[[expose]]` of that name, or what an application
    /// [exposes](Self::expose). [`Event::Accepted`] or [`Event::Refused`] follows once the peer has answered; it is asked for as
    /// long as it does not.
    ///
    /// Which service is fast enough is told by measured round trips: half a second after [`Event::PeerEstablished`], they are
    /// mostly known.
    ///
    /// # Errors
    /// If the peer is unknown, a value is out of range, or there are too many flows.
    pub fn register(
        &mut self,
        peer: &str,
        name: &str,
        registration: &Registration,
        now: Time,
    ) -> Result<Registered, RegisterError> {
        let now = self.at(now);
        if self.has_left {
            return Err(RegisterError::HasLeft);
        }
        if name.len() > Subject::NAME_BYTES_MAX {
            return Err(RegisterError::NameTooLong(name.len()));
        }
        let peer = self.known.peer(peer).ok_or_else(|| RegisterError::UnknownPeer(peer.into()))?;
        let chosen = choose(registration, peer, &self.known, &self.agent, now);
        let terms = registration.terms(chosen.service)?;
        let terms = Terms { standby: terms.standby || chosen.standby, ..terms };
        if self.pairs.count() >= FLOW_PAIRS_MAX {
            return Err(RegisterError::NoRoom);
        }
        let pairs = &self.pairs;
        let number = self.numbers.draw(peer, |flow| pairs.of_number(peer, flow).is_some());
        let number = number.ok_or(RegisterError::NoRoom)?;
        self.source = self.source.wrapping_add(1);
        let offer = offer_for(terms, &Subject { source: self.source, name: name.into() });
        let side = Side::Registered { is_accepted: false };
        let flow = self.open(peer, number, [&offer.forth, &offer.back], side, name);
        let flow = flow.ok_or(RegisterError::NoRoom)?;
        if !self.agent.offer(peer, number, offer, now) {
            self.discard(flow);
            return Err(RegisterError::NoRoom);
        }
        Ok(Registered { flow, chosen })
    }

    /// Lets these peers, or all if `None`, register flows under this name. Without any call, all are refused. A name that is
    /// exposed already is exposed to these peers from now on; flows that stand are not closed.
    ///
    /// # Errors
    /// If the name is empty or too long, or too much is exposed.
    pub fn expose(&mut self, name: &str, peers: Option<Vec<String>>) -> Result<(), ExposeError> {
        if !(1..=Subject::NAME_BYTES_MAX).contains(&name.len()) {
            return Err(ExposeError::BadName(name.len()));
        }
        if let Some(exposed) = self.exposed.iter_mut().find(|exposed| exposed.name == name) {
            exposed.peers = peers;
        } else if self.exposed.len() < EXPOSED_MAX {
            self.exposed.push(Exposed { name: name.into(), peers });
        } else {
            return Err(ExposeError::NoRoom);
        }
        Ok(())
    }

    /// Closes a pair of flows. The peer is told; packets that are under way are still repaired there. What is closed already is
    /// not closed again.
    pub fn close(&mut self, flow: FlowPair, now: Time) {
        self.at(now);
        self.discard(flow);
    }

    /// Leaves the network: peers and relays are told. [`Event::Left`] is the last output.
    pub fn leave(&mut self, now: Time) {
        let now = self.at(now);
        self.has_left = true;
        self.pairs.clear();
        self.agent.close(now);
    }

    /// The next output: datagrams to be sent before all else.
    pub fn poll(&mut self) -> Option<Output<'_>> {
        loop {
            if self.agent.next_is_transmit() {
                return match self.agent.poll() {
                    Some(AgentOutput::Transmit(transmit)) => {
                        let bytes = ip_bytes(transmit.bytes, transmit.to).count();
                        *self.segments.sent_mut(transmit.bytes) += bytes;
                        Some(Output::Transmit(transmit))
                    }
                    _ => None,
                };
            }
            match self.agent.poll() {
                Some(AgentOutput::Deliver { flow, datagram, delivery, .. }) => {
                    self.delivered.clear();
                    self.delivered.extend_from_slice(datagram);
                    if let Some(flow) = self.pairs.of_received(flow) {
                        return Some(self.deliver(flow, delivery));
                    }
                }
                Some(AgentOutput::Event(event)) => self.event(event),
                Some(AgentOutput::Offered { peer, flow, offer }) => self.offered(peer, flow, &offer),
                Some(AgentOutput::Transmit(_)) | None => return self.events.pop_front().map(Output::Event),
            }
        }
    }

    /// When to call [`timer`](Self::timer).
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let agent = self.agent.deadline().map(|(at, _)| at);
        let sweep = (self.pairs.count() > 0).then_some(self.next_sweep);
        agent.into_iter().chain(sweep).min()
    }

    /// What became of the packets of a pair of flows; `None` if it is closed.
    #[must_use]
    pub fn report(&self, flow: FlowPair) -> Option<FlowReport> {
        let entry = self.pairs.get(flow)?;
        let newest = self.agent.report(entry.sent);
        let sent = newest.zip(self.agent.reported(entry.sent)).map(|(newest, counted)| SentReport {
            counted,
            bursts: newest.bursts,
            longest_burst: newest.longest_burst,
            delay: newest.delay,
        });
        Some(FlowReport {
            sent,
            received: *self.agent.statistics(entry.received)?,
            status: self.agent.flow_status(entry.sent)?,
        })
    }

    /// The IP bytes that went over the direct path, and to and from relays, since the client was made.
    #[must_use]
    pub const fn segments(&self) -> &Segments {
        &self.segments
    }

    /// What a pair of flows is for: the name that is exposed here or there; `None` if it is closed.
    #[must_use]
    pub fn subject(&self, flow: FlowPair) -> Option<&str> {
        self.pairs.get(flow).map(|entry| entry.name.as_str())
    }

    /// What a peer is called; `None` if it is no peer.
    #[must_use]
    pub fn name_of(&self, peer: AgentId) -> Option<&str> {
        self.known.name_of(peer)
    }

    /// The agent inside, to look at.
    #[must_use]
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Notes the time. One that falls counts as no time passed.
    fn at(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    fn deliver(&mut self, flow: FlowPair, delivery: Delivery) -> Output<'_> {
        if let Some(entry) = self.pairs.get_mut(flow) {
            entry.usage.note(entry.side != Side::Incoming, self.now);
        }
        Output::Delivered { flow, datagram: &self.delivered, delivery }
    }

    /// Opens the flow there and the one back, by these terms.
    fn open(
        &mut self,
        peer: AgentId,
        number: FlowId,
        [sending, receiving]: [&Terms; 2],
        side: Side,
        name: &str,
    ) -> Option<FlowPair> {
        let (own, now) = (self.known.own(), self.now);
        let sending = sending.settings(self.known.paths(own, peer));
        let receiving = receiving.settings(self.known.paths(peer, own));
        let sent = self.agent.open_flow(flow_between(own, peer, number), sending, now)?;
        let Some(received) = self.agent.accept_flow(flow_between(peer, own, number), receiving, now) else {
            self.agent.close_flow(sent, now);
            return None;
        };
        let name = name.into();
        Some(self.pairs.add(Entry { peer, number, sent, received, side, name, usage: PairUse::new(now) }))
    }

    /// Closes a pair at both ends.
    fn discard(&mut self, flow: FlowPair) {
        if let Some(Entry { peer, number, sent, received, .. }) = self.pairs.remove(flow) {
            self.agent.withdraw_offer(peer, number);
            self.agent.close_flow(sent, self.now);
            self.agent.close_received_flow(received, self.now);
        }
    }

    /// Closes a pair that the application does not know to be closed.
    fn end(&mut self, flow: FlowPair) {
        self.discard(flow);
        self.events.push_back(Event::Closed(flow));
    }

    fn event(&mut self, event: byway_proto::agent::Event) {
        use byway_proto::agent::Event as Said;
        match event {
            Said::PeerEstablished(peer) => self.events.push_back(Event::PeerEstablished(peer)),
            Said::PeerLost(peer) => self.events.push_back(Event::PeerLost(peer)),
            Said::PeerLeft(peer) => {
                let begun: Vec<FlowPair> = self
                    .pairs
                    .of_peer(peer)
                    .filter(|(_, entry)| entry.side == Side::Incoming)
                    .map(|(pair, _)| pair)
                    .collect();
                for pair in begun {
                    self.end(pair);
                }
                self.events.push_back(Event::PeerLeft(peer));
            }
            Said::FlowClosed(key) => self.closed(&key),
            Said::Left => self.events.push_back(Event::Left),
            Said::FlowRefused { flow, refusal } => {
                let pair = self.pair_of(&flow);
                self.events.extend(pair.map(|flow| Event::RelayRefused { flow, refusal }));
            }
            Said::PathChanged { flow, path } => {
                let pair = self.pair_of(&flow);
                self.events.extend(pair.map(|flow| Event::PathChanged { flow, path }));
            }
            Said::OfferAnswered { peer, flow, outcome } => self.answered(peer, flow, outcome),
            // What a newer protocol says is for those who know it.
            _ => {}
        }
    }

    /// The other end of a flow, if it is an agent.
    fn peer_of(&self, key: &FlowKey) -> Option<AgentId> {
        match key.receiver() {
            Receiver::Agent(receiver) if key.sender() == self.known.own() => Some(receiver),
            Receiver::Agent(_) => Some(key.sender()),
            Receiver::Group(_) => None,
        }
    }

    fn pair_of(&self, key: &FlowKey) -> Option<FlowPair> {
        self.pairs.of_number(self.peer_of(key)?, key.flow())
    }

    fn closed(&mut self, key: &FlowKey) {
        if key.flow() == CONTACT_FLOW {
            if let Some(peer) = self.peer_of(key) {
                self.contacts.closed(peer, &mut self.agent, self.now);
            }
        } else if let Some(pair) = self.pair_of(key) {
            self.end(pair);
        }
    }

    /// A peer answers to what was registered.
    fn answered(&mut self, peer: AgentId, number: FlowId, outcome: Result<(), OfferRefusal>) {
        let Some(flow) = self.pairs.of_number(peer, number) else {
            return;
        };
        match (outcome, self.pairs.get_mut(flow).map(|entry| &mut entry.side)) {
            (Ok(()), Some(Side::Registered { is_accepted })) if !*is_accepted => {
                *is_accepted = true;
                self.events.push_back(Event::Accepted(flow));
            }
            (Err(refusal), Some(Side::Registered { .. })) => {
                self.discard(flow);
                self.events.push_back(Event::Refused { flow, refusal });
            }
            _ => {}
        }
    }

    /// A peer's application registers something.
    fn offered(&mut self, peer: AgentId, number: FlowId, offer: &Offer) {
        let accepted = self.accept(peer, number, offer);
        self.agent.answer_offer(peer, number, accepted.map(|_| ()), self.now);
        self.events.push_back(match accepted {
            Ok(flow) => Event::Incoming { flow, peer },
            Err(refusal) => Event::Declined { peer, refusal },
        });
    }

    fn accept(&mut self, peer: AgentId, number: FlowId, offer: &Offer) -> Result<FlowPair, OfferRefusal> {
        let peer_name = self.known.name_of(peer);
        let wish = Wish { peer_name, flow: number, subject: &offer.subject };
        let exposures = self.exposed.iter();
        let exposures = exposures.map(|Exposed { name, peers }| Exposure { name, peers: peers.as_deref() });
        let (place, _) = conventions::admit(&wish, exposures)?;
        let replaced = self.pairs.of_number(peer, number);
        let evicted = match replaced {
            Some(_) => replaced,
            None => self.pairs.make_room(peer, self.now).map_err(|AllInUse| OfferRefusal::NoRoom)?,
        };
        if let Some(old) = evicted {
            self.end(old);
        }
        let name = self.exposed[place].name.clone();
        let flow = self.open(peer, number, [&offer.back, &offer.forth], Side::Incoming, &name);
        flow.ok_or(OfferRefusal::NotYet)
    }
}
