//! Observer of a run: lost direct copies and their links, and a trace and a capture if they are
//! enabled.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use byway_sim::{LossReason, NodeChange, NodeId, Observer, Record, Step as PacketStep};
use byway_units::{Duration, Time};
use byway_wire::packets::{SOURCE_OVERHEAD, SourcePacket};
use byway_wire::seal::TAG_BYTES;

use crate::capture::Capture;
use crate::costs::RelayMeter;
use crate::trace::TraceText;

/// Length of the label at the start of each datagram, in bytes: its number in its flow, and the
/// flow's index.
pub(crate) const LABEL_BYTES: usize = 16;

/// Offset of the datagram in a source packet. It is readable because simulated worlds use checksums
/// instead of ciphers.
const DATAGRAM_START: usize = SOURCE_OVERHEAD - TAG_BYTES;

/// Returns the flow's index and the datagram's number from the label of a datagram; `None` if it is
/// too short for a label.
pub(crate) fn parse_label(datagram: &[u8]) -> Option<(usize, u64)> {
    let (number, rest) = datagram.split_first_chunk()?;
    let index = u64::from_be_bytes(*rest.first_chunk()?);
    Some((usize::try_from(index).ok()?, u64::from_be_bytes(*number)))
}

/// A datagram with a direct copy that was lost or damaged on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostDatagram {
    /// Index of the datagram's flow.
    pub(crate) flow: usize,
    /// Number of the datagram in its flow.
    pub(crate) number: u64,
    /// Machines at the two ends of the link that lost it.
    pub(crate) link: (usize, usize),
}

/// Observer of a run that records lost source packets and, if enabled, a trace, a capture and
/// wake-ups.
#[derive(Debug, Default)]
pub(crate) struct RunObserver {
    /// Datagrams with a lost or damaged direct copy.
    pub(crate) lost: Vec<LostDatagram>,
    /// Datagrams that a link duplicated: the index of the flow, and the datagram's number in it.
    pub(crate) duplicated: Vec<(usize, u64)>,
    /// Addresses of machines without Byway, whose datagrams are no source packets.
    bare: BTreeSet<SocketAddr>,
    pub(crate) trace: Option<TraceText>,
    pub(crate) capture: Option<Capture>,
    /// Bytes of relays, if some have prices.
    pub(crate) meter: Option<RelayMeter>,
    /// Packets that a link has damaged, by their number in the simulated world. Their datagrams are
    /// recorded already, so a further damage or loss is not. A damaged payload may name a wrong
    /// datagram.
    damaged: BTreeSet<u64>,
    /// Wake-ups of each machine since the start of counting; `None` before.
    pub(crate) wake_ups: Option<Vec<WakeUps>>,
}

/// Most recorded numbers of damaged packets, each of some 20 bytes: older ones have arrived long
/// before.
const DAMAGED_MAX: usize = 1 << 16;

/// Number of packets that a machine sent or received after a second of silence: each wakes a
/// sleeping radio.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeUps {
    pub(crate) count: u64,
    last: Option<Time>,
}

/// Radios stay awake for some seconds after a packet; packets within this time wake no radio.
const SILENCE: Duration = Duration::from_secs(1);

impl WakeUps {
    fn packet(&mut self, now: Time) {
        self.count += u64::from(self.last.is_none_or(|last| now.saturating_since(last) > SILENCE));
        self.last = Some(now);
    }
}

impl RunObserver {
    /// Creates the observer of a world with machines without Byway at these addresses.
    pub(crate) fn new(bare: BTreeSet<SocketAddr>) -> Self {
        Self { bare, ..Self::default() }
    }

    /// Records that a link damaged a packet. Returns true unless it was damaged before.
    fn mark_damaged(&mut self, packet: u64) -> bool {
        if self.damaged.len() == DAMAGED_MAX {
            self.damaged.pop_first();
        }
        self.damaged.insert(packet)
    }

    /// Returns the flow's index and the datagram's number of a packet on the direct path; `None`
    /// for other packets.
    fn label(&self, record: &Record<'_>) -> Option<(usize, u64)> {
        if self.bare.contains(&record.source) {
            return parse_label(record.payload);
        }
        SourcePacket::parse(record.payload).ok()?;
        parse_label(record.payload.get(DATAGRAM_START..)?)
    }

    /// Writes a step of the scenario to the trace.
    pub(crate) fn note(&mut self, now: Time, node: usize, what: &str, description: &str) {
        if let Some(lines) = &mut self.trace {
            let words = format!("{what}: {description}");
            lines.note(now, node, words.trim_end_matches(": "));
        }
    }
}

impl Observer for RunObserver {
    fn packet(&mut self, record: &Record<'_>) {
        if let Some(capture) = &mut self.capture {
            capture.packet(record);
        }
        if let Some(meter) = &mut self.meter {
            meter.packet(record);
        }
        if let Some(lines) = &mut self.trace {
            lines.packet(record);
        }
        if let Some(wake_ups) = &mut self.wake_ups {
            let awake = match record.step {
                PacketStep::Sent => Some(record.from),
                PacketStep::Delivered => record.to,
                _ => None,
            };
            let machine = awake.and_then(|node| wake_ups.get_mut(node.number() as usize));
            if let Some(machine) = machine {
                machine.packet(record.time);
            }
        }
        if record.step == PacketStep::Duplicated {
            let label = self.label(record);
            self.duplicated.extend(label);
        }
        let is_lost = match record.step {
            // A packet for a stopped or frozen host was not lost in the network.
            PacketStep::Lost(LossReason::Stopped | LossReason::Frozen) => false,
            // A damaged packet is already recorded.
            PacketStep::Lost(_) => !self.damaged.remove(&record.packet),
            PacketStep::Corrupted { .. } => self.mark_damaged(record.packet),
            _ => false,
        };
        if is_lost && let Some((flow, number)) = self.label(record) {
            let index = |node: NodeId| node.number() as usize;
            let link = (index(record.from), record.to.map_or(usize::MAX, index));
            self.lost.push(LostDatagram { flow, number, link });
        }
    }

    fn node(&mut self, time: Time, node: NodeId, change: NodeChange) {
        if let Some(lines) = &mut self.trace {
            lines.node(time, node, change);
        }
    }
}
