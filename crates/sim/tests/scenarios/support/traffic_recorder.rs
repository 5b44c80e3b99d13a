//! Recorder of the world's own observations.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use byway_sim::checkers::{BudgetExceeded, ByteBudget};
use byway_sim::{NodeId, Observer, Record, Step};
use byway_units::{Bytes, Time};
use byway_wire::packets::{Kind, SourcePacket};

/// An observed packet.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPacket {
    pub(crate) time: Time,
    pub(crate) from: NodeId,
    pub(crate) to: Option<NodeId>,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) payload: Vec<u8>,
    pub(crate) step: Step,
}

/// Records the outcomes of source packets on direct paths, and other events that a test needs.
#[derive(Debug, Default)]
pub(crate) struct TrafficRecorder {
    /// Source packets lost on a direct path: flow and sequence number, in the order of their loss.
    pub(crate) lost: Vec<(usize, u64)>,
    /// Source packets that a direct path delivered: time, flow, sequence number.
    pub(crate) direct: Vec<(Time, usize, u64)>,
    /// Links whose packets are all recorded.
    pub(crate) observed_links: Vec<(NodeId, NodeId)>,
    pub(crate) observed: Vec<ObservedPacket>,
    /// Packets sent from a node to a node, by first byte and second byte (an envelope's role).
    pub(crate) sent: BTreeMap<(NodeId, NodeId, u8, u8), u64>,
    /// Rate limits of UDP payloads between sets of nodes.
    pub(crate) budgets: Vec<TokenBucket>,
}

/// Hops that share a budget.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    pub(crate) hops: Vec<(NodeId, NodeId)>,
    pub(crate) bytes: ByteBudget,
    pub(crate) over: Option<BudgetExceeded>,
}

impl TokenBucket {
    fn charge(&mut self, record: &Record<'_>) {
        let hop = (record.from, record.to.unwrap_or(record.from));
        if record.step == Step::Sent && self.hops.contains(&hop) {
            let spent = self.bytes.spend(Bytes::from(record.payload.len()), record.time);
            self.over = self.over.or(spent.err());
        }
    }
}

/// Returns the flow, counted from 0, and the sequence number of a source packet.
fn flow_and_sequence(payload: &[u8]) -> Option<(usize, u64)> {
    let packet = SourcePacket::parse(payload).ok()?;
    let (flow, sequence) = (packet.header().flow.number(), packet.header().sequence_low);
    Some((usize::from(flow).checked_sub(1)?, u64::from(sequence)))
}

impl Observer for TrafficRecorder {
    fn packet(&mut self, record: &Record<'_>) {
        match (record.step, flow_and_sequence(record.payload)) {
            (Step::Lost(_), Some(packet)) => self.lost.push(packet),
            (Step::Delivered, Some((flow, sequence))) => self.direct.push((record.time, flow, sequence)),
            _ => {}
        }
        self.budgets.iter_mut().for_each(|budget| budget.charge(record));
        let Some(to) = record.to else {
            return;
        };
        if record.step == Step::Sent
            && let [kind, role, ..] = record.payload
        {
            let role = if *kind == Kind::Envelope.first_byte() { *role } else { 0 };
            *self.sent.entry((record.from, to, *kind, role)).or_default() += 1;
        }
        if self.observed_links.contains(&(record.from, to)) {
            self.observed.push(ObservedPacket {
                time: record.time,
                from: record.from,
                to: record.to,
                source: record.source,
                destination: record.destination,
                payload: record.payload.to_vec(),
                step: record.step,
            });
        }
    }
}
