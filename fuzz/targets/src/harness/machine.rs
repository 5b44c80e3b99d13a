//! An agent or a relay with a driver that checks the rules of the interface, and the work of each
//! input.

use std::fmt::{self, Write};
use std::net::SocketAddr;

use byway_proto::LocalAddress;
use byway_proto::agent::{Agent, AgentInput, AgentOutput, Offer, ReceiveFlowId, SendFlowId};
use byway_proto::limits::DATAGRAM_BYTES_MAX;
use byway_proto::relay::{Relay, RelayInput};
use byway_sim::checkers::{check_agent_input, check_relay_input};
use byway_units::{AgentId, FlowId, Time};
use byway_wire::{Ecn, TrafficClass};

/// Most datagrams that one input may cause: all missing packets of a flow, repaired at once, and
/// some more.
const SENT_MAX: usize = 2_048;

/// Most wakes within one millisecond: more than a pacer needs, and fewer than an endless loop
/// causes.
const WAKES_PER_MILLI_MAX: u32 = 100;

/// Most wakes at one instant: deadlines that become due while another is handled.
const WAKES_AT_ONCE_MAX: u32 = 10;

#[derive(Debug)]
pub(crate) enum Kind {
    Agent(Box<Agent>),
    Relay(Box<Relay>),
}

/// Datagrams and deliveries that one input of a machine causes.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) sent: Vec<(SocketAddr, Vec<u8>)>,
    pub(crate) delivered: Vec<(ReceiveFlowId, Vec<u8>)>,
    pub(crate) offered: Vec<(AgentId, FlowId, Offer)>,
}

impl Output {
    pub(crate) fn bytes_to(&self, address: SocketAddr) -> usize {
        self.sent.iter().filter(|(to, _)| *to == address).map(|(_, bytes)| bytes.len()).sum()
    }
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) kind: Kind,
    /// Deadline after the latest drain of outputs.
    deadline: Option<Time>,
    woken: Time,
    wakes_in_milli: u32,
    wakes_at_once: u32,
}

impl Machine {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, deadline: None, woken: Time::START, wakes_in_milli: 0, wakes_at_once: 0 }
    }

    pub(crate) fn agent(agent: Agent) -> Self {
        Self::new(Kind::Agent(Box::new(agent)))
    }

    pub(crate) fn relay(relay: Relay) -> Self {
        Self::new(Kind::Relay(Box::new(relay)))
    }

    pub(crate) fn as_agent(&mut self) -> &mut Agent {
        match &mut self.kind {
            Kind::Agent(agent) => agent,
            Kind::Relay(_) => panic!("the machine is a relay"),
        }
    }

    /// Returns the number of peers in the machine's sessions, from its debug text.
    pub(crate) fn peers(&self) -> usize {
        let mut parser = PeerCountParser::default();
        // Formatting ends with an error at the number, which saves time.
        let _ = match &self.kind {
            Kind::Agent(agent) => write!(parser, "{agent:?}"),
            Kind::Relay(relay) => write!(parser, "{relay:?}"),
        };
        parser.count.expect("the number of peers is shown")
    }

    pub(crate) fn receive(&mut self, from: SocketAddr, bytes: &[u8], now: Time) -> Output {
        // Any ECN field is valid here, because the path's marks are independent of the packet.
        let ecn = Ecn::from_bits(bytes.last().copied().unwrap_or(0));
        let bytes = &mut bytes.to_vec();
        match &mut self.kind {
            Kind::Agent(agent) => {
                let input = AgentInput::Received { from, to: LocalAddress::ANY, ecn, bytes };
                check_agent_input(agent, |agent| agent.handle(input, now));
            }
            Kind::Relay(relay) => {
                let input = RelayInput::Received { from, to: LocalAddress::ANY, ecn, bytes };
                check_relay_input(relay, |relay| relay.handle(input, now));
            }
        }
        self.drain()
    }

    pub(crate) fn send(&mut self, flow: SendFlowId, datagram: &[u8], marked: bool, now: Time) -> Output {
        // Some datagrams have a DSCP.
        let dscp = datagram.first().map_or(0, |byte| byte & 0b1);
        let traffic_class = TrafficClass::new(dscp, Ecn::Capable0);
        let input = AgentInput::Send { flow, datagram, traffic_class, marked };
        check_agent_input(self.as_agent(), |agent| agent.handle(input, now));
        self.drain()
    }

    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn next_deadline(&self) -> Option<Time> {
        match &self.kind {
            Kind::Agent(agent) => agent.deadline().map(|(at, _)| at),
            Kind::Relay(relay) => relay.deadline().map(|(at, _)| at),
        }
    }

    /// Passes the deadline to the machine, due or not, and drains its outputs.
    pub(crate) fn wake(&mut self, now: Time) -> Output {
        self.count_wake(now);
        match &mut self.kind {
            Kind::Agent(agent) => {
                check_agent_input(agent, |agent| agent.handle(AgentInput::Deadline, now));
            }
            Kind::Relay(relay) => {
                check_relay_input(relay, |relay| relay.handle(RelayInput::Deadline, now));
            }
        }
        self.drain()
    }

    fn count_wake(&mut self, now: Time) {
        let milli = |time: Time| time.as_nanos() / 1_000_000;
        self.wakes_at_once = if now == self.woken { self.wakes_at_once + 1 } else { 0 };
        self.wakes_in_milli = if milli(now) == milli(self.woken) { self.wakes_in_milli + 1 } else { 0 };
        self.woken = now;
        assert!(
            self.wakes_at_once < WAKES_AT_ONCE_MAX,
            "the deadline {:?} does not move at {now}",
            self.deadline()
        );
        assert!(self.wakes_in_milli < WAKES_PER_MILLI_MAX, "too many wakes in the millisecond of {now}");
    }

    /// Drains the outputs, and checks the rules that apply to all of them.
    pub(crate) fn drain(&mut self) -> Output {
        let mut output = Output::default();
        match &mut self.kind {
            Kind::Agent(agent) => drain_agent(agent, &mut output),
            Kind::Relay(relay) => {
                while let Some(transmit) = relay.poll() {
                    output.sent.push((transmit.to, transmit.bytes.to_vec()));
                }
            }
        }
        self.deadline = self.next_deadline();
        assert!(output.sent.len() <= SENT_MAX, "{} datagrams in answer to one input", output.sent.len());
        for (to, bytes) in &output.sent {
            assert!(
                !bytes.is_empty() && bytes.len() <= 65_507,
                "{} bytes in a datagram to {to}",
                bytes.len()
            );
        }
        for (_, datagram) in &output.delivered {
            assert!(datagram.len() <= DATAGRAM_BYTES_MAX, "{} bytes are delivered", datagram.len());
        }
        output
    }
}

/// Parser of the number in `Sessions(3 peers)`. It stops there.
#[derive(Default)]
struct PeerCountParser {
    text: String,
    count: Option<usize>,
}

impl Write for PeerCountParser {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        // Few pieces of text contain this word. A search of the whole text for each piece would
        // take longer than a handshake.
        if !text.contains(" peers") {
            return Ok(());
        }
        let Some((_, after)) = self.text.split_once("Sessions(") else { return Ok(()) };
        let Some((count, _)) = after.split_once(" peers") else { return Ok(()) };
        self.count = count.parse().ok();
        Err(fmt::Error)
    }
}

fn drain_agent(agent: &mut Agent, output: &mut Output) {
    while let Some(next) = agent.poll() {
        match next {
            AgentOutput::Transmit(transmit) => output.sent.push((transmit.to, transmit.bytes.to_vec())),
            AgentOutput::Deliver { flow, datagram, .. } => output.delivered.push((flow, datagram.to_vec())),
            AgentOutput::Event(_) => {}
            AgentOutput::Offered { peer, flow, offer } => output.offered.push((peer, flow, *offer)),
        }
    }
}
