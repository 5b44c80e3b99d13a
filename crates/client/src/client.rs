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
    self, AdmissionRequest, CONTACT_FLOW, Contacts, Exposure, FlowNumbers, PairUse, Segments, Subject,
    ip_bytes, offer_for,
};
use byway_proto::limits::{DATAGRAM_BYTES_MAX, FLOW_PAIRS_MAX};
use byway_units::{AgentId, FlowId, Time};
use byway_wire::seal::{PortableProvider, Provider, StaticSecret, Suite};
use byway_wire::{Ecn, FlowKey, Receiver, TrafficClass};
use thiserror::Error;

use crate::flow_pair::{FlowPair, FlowPairs, PairEntry, PairsInUseError, Side};
use crate::limits::{EXPOSED_MAX, SWEEP_INTERVAL};
use crate::network::{Network, NetworkError, NetworkView};
use crate::output::{Event, Output};
use crate::registration::{RegisterError, Registration};
use crate::report::{FlowReport, SentReport};

/// Identity of the client in its network, its ciphers, and its randomness.
pub struct Identity {
    /// Name of the client's agent in the network.
    pub name: String,
    /// Long-term secret of the client. The network has the public key that belongs to it.
    pub secret: StaticSecret,
    /// 32 secret random bytes, different for each client. The same seed and the same inputs yield
    /// the same outputs.
    pub seed: [u8; 32],
    /// Unix time at `Time::START`, in nanoseconds. It must exceed the Unix time at the end of the
    /// client's previous run, because peers reject handshakes with older timestamps.
    pub started_unix_nanos: u64,
    /// Implementation of the ciphers.
    pub provider: &'static (dyn Provider + Sync),
    /// Suite of the sessions that this client initiates: the fastest one on its processor.
    pub suite: Suite,
}

impl Identity {
    /// Returns an identity whose ciphers run on every processor.
    #[must_use]
    pub fn new(name: &str, secret: StaticSecret, seed: [u8; 32], started_unix_nanos: u64) -> Self {
        let suite = Suite::ChaCha20Poly1305;
        Self { name: name.into(), secret, seed, started_unix_nanos, provider: &PortableProvider, suite }
    }
}

/// Reason for which [`Client::send`] did not send a datagram. The application is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The pair of flows is closed.
    #[error("flows closed: register again")]
    Closed,
    /// The peer has not accepted the pair of flows yet.
    #[error("flows not accepted by the peer yet: wait for the event")]
    NotAccepted,
    /// The datagram is longer than [`DATAGRAM_BYTES_MAX`].
    #[error("datagram of {0} bytes too long: send at most {DATAGRAM_BYTES_MAX}")]
    TooLong(usize),
}

/// Reason for which [`Client::expose`] did not expose a name. The application is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExposeError {
    /// The name is too long or empty.
    #[error("invalid length of a name, {0} bytes: use 1 to 251")]
    BadName(usize),
    /// [`EXPOSED_MAX`] names are exposed already.
    #[error("too many exposed names: at most {EXPOSED_MAX} are supported")]
    Full,
}

/// Name for which peers may register flows, and the peers that may; `None` permits all.
#[derive(Debug)]
struct ExposedService {
    name: String,
    peers: Option<Vec<String>>,
}

/// An agent inside the application: sends, receives and repairs its datagrams.
///
/// It uses no socket and no clock.
/// - *Inputs*: [`received`](Self::received), [`send`](Self::send), [`timer`](Self::timer),
///   [`register`](Self::register), [`expose`](Self::expose), [`close`](Self::close),
///   [`leave`](Self::leave). Each has the time as an argument; time must not decrease.
/// - *Outputs*: after each input, call [`poll`](Self::poll) until it returns `None`, and then
///   [`deadline`](Self::deadline). At the deadline, call [`timer`](Self::timer).
/// - *State*: [`report`](Self::report), [`subject`](Self::subject), [`name_of`](Self::name_of).
#[derive(Debug)]
pub struct Client {
    agent: Box<Agent>,
    network_view: NetworkView,
    contacts: Contacts,
    numbers: FlowNumbers,
    /// Source number of the latest registration; each registration takes the next one. The peer's
    /// agent delivers from a different port for each source number.
    source: u32,
    exposed: Vec<ExposedService>,
    pairs: FlowPairs,
    events: VecDeque<Event>,
    delivered: Vec<u8>,
    segments: Segments,
    next_sweep: Time,
    now: Time,
    has_left: bool,
}

impl Client {
    /// Creates a client. Its first outputs are handshakes with its relays and peers.
    ///
    /// # Errors
    /// If the network is inconsistent, or does not contain this client.
    pub fn new(identity: Identity, network: &Network, now: Time) -> Result<Self, NetworkError> {
        let Identity { name, secret, seed, started_unix_nanos, provider, suite } = identity;
        let network_view = NetworkView::new(network, &name, &secret.public_key())?;
        let number = network_view.own_agent();
        // Peers may still have the flow numbers of the last run. Both values are visible to peers,
        // and therefore not derived from the secret seed.
        let [n0, n1, s0, s1, s2, s3, ..] = started_unix_nanos.to_le_bytes();
        let agent = AgentIdentity { number, secret, suite, started_unix_nanos };
        let mut client = Self {
            agent: Box::new(Agent::new(agent, Engine::fastest(), provider, seed, now)),
            network_view,
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
        client.network_view.register_peers(&mut client.agent, now);
        client.contacts.update(number, client.network_view.contacts(), &mut client.agent, now);
        Ok(client)
    }

    /// Handles a datagram that a socket received. The client decrypts it in place.
    ///
    /// `to` identifies the local destination address by a number that the caller assigns. Answers
    /// have the same number in [`Transmit::from`](crate::Transmit::from). If each socket has one
    /// address, it is [`LocalAddress::ANY`].
    pub fn received(&mut self, from: SocketAddr, to: LocalAddress, ecn: Ecn, bytes: &mut [u8], now: Time) {
        let now = self.update_now(now);
        *self.segments.received_mut(bytes) += ip_bytes(bytes, from).count();
        self.agent.handle(AgentInput::Received { from, to, ecn, bytes }, now);
    }

    /// Sends a datagram over a pair of flows that the peer has accepted. With
    /// [`Duplication::Marked`](byway_proto::agent::Duplication), relays get copies of `marked`
    /// datagrams only.
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
        let now = self.update_now(now);
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

    /// Handles the deadline that [`deadline`](Self::deadline) returned. A superfluous call has no
    /// effect.
    pub fn timer(&mut self, now: Time) {
        let now = self.update_now(now);
        if self.agent.deadline().is_some_and(|(at, _)| at <= now) {
            self.agent.handle(AgentInput::Deadline, now);
        }
        if self.next_sweep <= now && !self.has_left {
            self.next_sweep = now.saturating_add(SWEEP_INTERVAL);
            for pair in self.pairs.idle(now) {
                self.close_and_report(pair);
            }
        }
    }

    /// Offers a pair of flows to a peer, for a name that the peer exposes: by `[[expose]]` of
    /// `byway agent`, or by [`expose`](Self::expose) of an application.
    ///
    /// [`Event::Accepted`] or [`Event::Refused`] follows the peer's answer. The offer is repeated
    /// until then.
    ///
    /// The automatic selection of a service needs reports of the peer, and takes about a second of
    /// traffic. [`report`](Self::report) contains its result.
    ///
    /// # Errors
    /// If the peer is unknown, a value is out of range, or there are too many flows.
    pub fn register(
        &mut self,
        peer: &str,
        name: &str,
        registration: &Registration,
        now: Time,
    ) -> Result<FlowPair, RegisterError> {
        let now = self.update_now(now);
        if self.has_left {
            return Err(RegisterError::HasLeft);
        }
        if name.len() > Subject::NAME_BYTES_MAX {
            return Err(RegisterError::NameTooLong(name.len()));
        }
        let peer = self.network_view.peer(peer).ok_or_else(|| RegisterError::UnknownPeer(peer.into()))?;
        let paths = self.network_view.paths(self.network_view.own_agent(), peer);
        let terms = registration.terms(!paths.is_empty())?;
        if self.pairs.count() >= FLOW_PAIRS_MAX {
            return Err(RegisterError::Full);
        }
        let pairs = &self.pairs;
        let number = self.numbers.allocate(peer, |flow| pairs.of_number(peer, flow).is_some());
        let number = number.ok_or(RegisterError::Full)?;
        self.source = self.source.wrapping_add(1);
        let offer = offer_for(terms, &Subject { source: self.source, name: name.into() });
        let side = Side::Registered { is_accepted: false };
        let flow = self.open(peer, number, [&offer.forth, &offer.back], side, name);
        let flow = flow.ok_or(RegisterError::Full)?;
        if !self.agent.offer(peer, number, offer, now) {
            self.discard(flow);
            return Err(RegisterError::Full);
        }
        Ok(flow)
    }

    /// Permits these peers, or all if `None`, to register flows for the name `name`. Without a call
    /// for a name, the client refuses all registrations for it.
    ///
    /// A second call for a name replaces its peers. Existing flows remain open.
    ///
    /// # Errors
    /// If the name is empty or too long, or too many names are exposed.
    pub fn expose(&mut self, name: &str, peers: Option<Vec<String>>) -> Result<(), ExposeError> {
        if !(1..=Subject::NAME_BYTES_MAX).contains(&name.len()) {
            return Err(ExposeError::BadName(name.len()));
        }
        if let Some(exposed) = self.exposed.iter_mut().find(|exposed| exposed.name == name) {
            exposed.peers = peers;
        } else if self.exposed.len() < EXPOSED_MAX {
            self.exposed.push(ExposedService { name: name.into(), peers });
        } else {
            return Err(ExposeError::Full);
        }
        Ok(())
    }

    /// Closes a pair of flows, and notifies the peer. The peer can still repair lost packets in
    /// flight. A call for a closed pair has no effect.
    pub fn close(&mut self, flow: FlowPair, now: Time) {
        self.update_now(now);
        self.discard(flow);
    }

    /// Leaves the network, and notifies peers and relays. [`Event::Left`] is the last output.
    pub fn leave(&mut self, now: Time) {
        let now = self.update_now(now);
        self.has_left = true;
        self.pairs.clear();
        self.agent.close(now);
    }

    /// Returns the client's next output; `None` if there is none until the next input. Datagrams to
    /// send precede all others.
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
                Some(AgentOutput::Event(event)) => self.on_agent_event(event),
                Some(AgentOutput::Offered { peer, flow, offer }) => self.on_offer(peer, flow, &offer),
                Some(AgentOutput::Transmit(_)) | None => return self.events.pop_front().map(Output::Event),
            }
        }
    }

    /// Returns the time of the next call of [`timer`](Self::timer); `None` if there is no deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let agent = self.agent.deadline().map(|(at, _)| at);
        let sweep = (self.pairs.count() > 0).then_some(self.next_sweep);
        agent.into_iter().chain(sweep).min()
    }

    /// Returns the delivery statistics of a pair of flows; `None` if it is closed.
    #[must_use]
    pub fn report(&self, flow: FlowPair) -> Option<FlowReport> {
        let entry = self.pairs.get(flow)?;
        let newest = self.agent.report(entry.sent);
        let sent = newest.zip(self.agent.reported_totals(entry.sent)).map(|(newest, counted)| SentReport {
            counted,
            bursts: newest.bursts,
            longest_burst: newest.longest_burst,
            delay: newest.delay,
        });
        Some(FlowReport {
            sent,
            received: *self.agent.statistics(entry.received)?,
            status: self.agent.flow_status(entry.sent)?,
            selection: self.agent.selection(entry.sent),
        })
    }

    /// Returns the IP bytes on the direct path, and to and from relays, since the client was
    /// created.
    #[must_use]
    pub const fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Returns the name for which a pair of flows is registered, exposed here or at the peer;
    /// `None` if the pair is closed.
    #[must_use]
    pub fn subject(&self, flow: FlowPair) -> Option<&str> {
        self.pairs.get(flow).map(|entry| entry.name.as_str())
    }

    /// Returns the name of a peer; `None` if this client is not paired with the agent.
    #[must_use]
    pub fn name_of(&self, peer: AgentId) -> Option<&str> {
        self.network_view.name_of(peer)
    }

    /// Returns the agent's state machine, for inspection.
    #[must_use]
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Records the time of an input, and returns it. A time before that of an earlier input counts
    /// as the latter.
    fn update_now(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    fn deliver(&mut self, flow: FlowPair, delivery: Delivery) -> Output<'_> {
        if let Some(entry) = self.pairs.get_mut(flow) {
            entry.usage.note(entry.side != Side::Incoming, self.now);
        }
        Output::Delivered { flow, datagram: &self.delivered, delivery }
    }

    /// Opens both flows of a pair by these terms, and adds the pair; `None` if the agent has too
    /// many flows.
    fn open(
        &mut self,
        peer: AgentId,
        number: FlowId,
        [sending, receiving]: [&Terms; 2],
        side: Side,
        name: &str,
    ) -> Option<FlowPair> {
        let (own, now) = (self.network_view.own_agent(), self.now);
        let sending = sending.settings(self.network_view.paths(own, peer));
        let receiving = receiving.settings(self.network_view.paths(peer, own));
        let sent = self.agent.open_flow(flow_between(own, peer, number), sending, now)?;
        let Some(received) = self.agent.accept_flow(flow_between(peer, own, number), receiving, now) else {
            self.agent.close_flow(sent, now);
            return None;
        };
        let name = name.into();
        Some(self.pairs.add(PairEntry { peer, number, sent, received, side, name, usage: PairUse::new(now) }))
    }

    /// Closes both flows of a pair at this end, and notifies the peer.
    fn discard(&mut self, flow: FlowPair) {
        if let Some(PairEntry { peer, number, sent, received, .. }) = self.pairs.remove(flow) {
            self.agent.withdraw_offer(peer, number);
            self.agent.close_flow(sent, self.now);
            self.agent.close_received_flow(received, self.now);
        }
    }

    /// Closes a pair that the application did not close, and queues [`Event::Closed`].
    fn close_and_report(&mut self, flow: FlowPair) {
        self.discard(flow);
        self.events.push_back(Event::Closed(flow));
    }

    fn on_agent_event(&mut self, event: byway_proto::agent::Event) {
        use byway_proto::agent::Event as AgentEvent;
        match event {
            AgentEvent::PeerEstablished(peer) => self.events.push_back(Event::PeerEstablished(peer)),
            AgentEvent::PeerLost(peer) => self.events.push_back(Event::PeerLost(peer)),
            AgentEvent::PeerLeft(peer) => {
                let incoming: Vec<FlowPair> = self
                    .pairs
                    .of_peer(peer)
                    .filter(|(_, entry)| entry.side == Side::Incoming)
                    .map(|(pair, _)| pair)
                    .collect();
                for pair in incoming {
                    self.close_and_report(pair);
                }
                self.events.push_back(Event::PeerLeft(peer));
            }
            AgentEvent::FlowClosed(key) => self.on_closed(&key),
            AgentEvent::Left => self.events.push_back(Event::Left),
            AgentEvent::FlowRefused { flow, refusal } => {
                let pair = self.pair_of(&flow);
                self.events.extend(pair.map(|flow| Event::RelayRefused { flow, refusal }));
            }
            AgentEvent::PathChanged { flow, path } => {
                let pair = self.pair_of(&flow);
                self.events.extend(pair.map(|flow| Event::PathChanged { flow, path }));
            }
            AgentEvent::OfferAnswered { peer, flow, outcome } => self.on_offer_answer(peer, flow, outcome),
            // Events of newer protocol versions have no meaning here.
            _ => {}
        }
    }

    /// Returns the peer at the other end of a flow; `None` for flows of a group.
    fn peer_of(&self, key: &FlowKey) -> Option<AgentId> {
        match key.receiver() {
            Receiver::Agent(receiver) if key.sender() == self.network_view.own_agent() => Some(receiver),
            Receiver::Agent(_) => Some(key.sender()),
            Receiver::Group(_) => None,
        }
    }

    fn pair_of(&self, key: &FlowKey) -> Option<FlowPair> {
        self.pairs.of_number(self.peer_of(key)?, key.flow())
    }

    fn on_closed(&mut self, key: &FlowKey) {
        if key.flow() == CONTACT_FLOW {
            if let Some(peer) = self.peer_of(key) {
                self.contacts.on_closed(peer, &mut self.agent, self.now);
            }
        } else if let Some(pair) = self.pair_of(key) {
            self.close_and_report(pair);
        }
    }

    /// Handles a peer's answer to an offer of this application: queues [`Event::Accepted`] or
    /// closes the pair.
    fn on_offer_answer(&mut self, peer: AgentId, number: FlowId, outcome: Result<(), OfferRefusal>) {
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

    /// Handles the offer of a peer's application: accepts or refuses it, answers the peer, and
    /// queues an event.
    fn on_offer(&mut self, peer: AgentId, number: FlowId, offer: &Offer) {
        let accepted = self.accept(peer, number, offer);
        self.agent.answer_offer(peer, number, accepted.map(|_| ()), self.now);
        self.events.push_back(match accepted {
            Ok(flow) => Event::Incoming { flow, peer },
            Err(refusal) => Event::Declined { peer, refusal },
        });
    }

    fn accept(&mut self, peer: AgentId, number: FlowId, offer: &Offer) -> Result<FlowPair, OfferRefusal> {
        let peer_name = self.network_view.name_of(peer);
        let request = AdmissionRequest { peer_name, flow: number, subject: &offer.subject };
        let exposures = self.exposed.iter();
        let exposures =
            exposures.map(|ExposedService { name, peers }| Exposure { name, peers: peers.as_deref() });
        let (index, _) = conventions::admit(&request, exposures)?;
        let replaced = self.pairs.of_number(peer, number);
        let evicted = match replaced {
            Some(_) => replaced,
            None => {
                self.pairs.evictable_pair(peer, self.now).map_err(|PairsInUseError| OfferRefusal::Full)?
            }
        };
        if let Some(old) = evicted {
            self.close_and_report(old);
        }
        let name = self.exposed[index].name.clone();
        let flow = self.open(peer, number, [&offer.back, &offer.forth], Side::Incoming, &name);
        flow.ok_or(OfferRefusal::NotYet)
    }
}
