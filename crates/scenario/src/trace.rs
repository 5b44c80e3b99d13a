//! What happens in a run, one readable line each.

use std::fmt::{Display, Write as _};

use byway_proto::agent::Event;
use byway_sim::{NodeChange, NodeId, Record};
use byway_units::{AgentId, Time};

/// Lines that nobody has read yet.
#[derive(Debug)]
pub(crate) struct Lines {
    names: Vec<String>,
    has_packets: bool,
    text: String,
}

impl Lines {
    /// About machines of these names; with each step of each packet, if that is wanted.
    pub(crate) const fn new(names: Vec<String>, has_packets: bool) -> Self {
        Self { names, has_packets, text: String::new() }
    }

    /// Something happens to a machine.
    pub(crate) fn note(&mut self, at: Time, machine: usize, what: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{at} {}: {what}", self.names[machine]);
    }

    pub(crate) fn node(&mut self, at: Time, node: NodeId, change: NodeChange) {
        self.note(at, node.number() as usize, change);
    }

    /// An agent has something to say.
    pub(crate) fn event(&mut self, at: Time, node: NodeId, event: &Event) {
        let words = match event {
            Event::PeerEstablished(peer) => format!("has a session with {}", self.agent(*peer)),
            Event::PeerLost(peer) => format!("hears nothing of {} any more", self.agent(*peer)),
            Event::PeerLeft(peer) => format!("is told that {} leaves", self.agent(*peer)),
            Event::FlowRefused { flow, refusal } => {
                format!(
                    "a relay refuses flow {} from {}: {refusal:?}",
                    flow.flow().number(),
                    self.agent(flow.sender())
                )
            }
            other => format!("{other:?}"),
        };
        self.note(at, node.number() as usize, words);
    }

    /// Agents have the numbers of their machines, from 1.
    fn agent(&self, agent: AgentId) -> &str {
        let place = (agent.number() as usize).wrapping_sub(1);
        self.names.get(place).map_or("somebody", String::as_str)
    }

    pub(crate) fn packet(&mut self, record: &Record<'_>) {
        if !self.has_packets {
            return;
        }
        let name = |node: NodeId| self.names[node.number() as usize].as_str();
        let (from, to) = (name(record.from), record.to.map_or("nobody", name));
        let Record { time, packet, step, payload, ecn, .. } = record;
        let bytes = payload.len();
        let line = format!("{time} {from} -> {to}: #{packet}, {bytes} B, ECN {ecn}: {step}\n");
        self.text.push_str(&line);
    }

    /// What was written since the last call.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}
