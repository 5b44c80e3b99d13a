//! Trace of a run, one readable line of text for each event.

use std::fmt::{Display, Write as _};

use byway_proto::agent::Event;
use byway_sim::{NodeChange, NodeId, Record};
use byway_units::{AgentId, Time};

/// Text of a run's trace that was not yet drained, and the names of the machines.
#[derive(Debug)]
pub(crate) struct TraceText {
    names: Vec<String>,
    has_packets: bool,
    text: String,
}

impl TraceText {
    /// Creates a trace of machines with these names, with each step of each packet if
    /// `has_packets`.
    pub(crate) const fn new(names: Vec<String>, has_packets: bool) -> Self {
        Self { names, has_packets, text: String::new() }
    }

    /// Appends an event of a machine to the trace.
    pub(crate) fn note(&mut self, at: Time, machine: usize, what: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{at} {}: {what}", self.names[machine]);
    }

    pub(crate) fn node(&mut self, at: Time, node: NodeId, change: NodeChange) {
        self.note(at, node.number() as usize, change);
    }

    /// Appends an event of an agent to the trace, in words.
    pub(crate) fn event(&mut self, at: Time, node: NodeId, event: &Event) {
        let words = match event {
            Event::PeerEstablished(peer) => format!("session with {} established", self.agent(*peer)),
            Event::PeerLost(peer) => format!("{} unreachable", self.agent(*peer)),
            Event::PeerLeft(peer) => format!("{} left", self.agent(*peer)),
            Event::FlowRefused { flow, refusal } => {
                format!(
                    "a relay refused flow {} from {}: {refusal:?}",
                    flow.flow().number(),
                    self.agent(flow.sender())
                )
            }
            other => format!("{other:?}"),
        };
        self.note(at, node.number() as usize, words);
    }

    /// Returns the name of an agent; agents have the numbers of their machines, from 1.
    fn agent(&self, agent: AgentId) -> &str {
        let index = (agent.number() as usize).wrapping_sub(1);
        self.names.get(index).map_or("unknown", String::as_str)
    }

    pub(crate) fn packet(&mut self, record: &Record<'_>) {
        if !self.has_packets {
            return;
        }
        let name = |node: NodeId| self.names[node.number() as usize].as_str();
        let (from, to) = (name(record.from), record.to.map_or("unknown", name));
        let Record { time, packet, step, payload, ecn, .. } = record;
        let bytes = payload.len();
        let line = format!("{time} {from} -> {to}: #{packet}, {bytes} B, ECN {ecn}: {step}\n");
        self.text.push_str(&line);
    }

    /// Returns the trace since the last call.
    pub(crate) fn drain(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}
