//! What is seen of a world: which direct copies are lost, and where; what happens, in words and bytes, if somebody reads along.

use std::collections::BTreeSet;

use byway_sim::{LossReason, NodeChange, NodeId, Observer, Record, Step as PacketStep};
use byway_units::{Duration, Time};
use byway_wire::packets::{SOURCE_OVERHEAD, SourcePacket};
use byway_wire::seal::TAG_BYTES;

use crate::capture::Capture;
use crate::trace::Lines;

/// What begins each datagram: its number in its flow, and the flow's place.
pub(crate) const LABEL_BYTES: usize = 16;

/// Where a datagram begins in a source packet. Simulated worlds have checksums for ciphers, so that it can be read.
const DATAGRAM_START: usize = SOURCE_OVERHEAD - TAG_BYTES;

/// The place of a flow and the number of a datagram of it.
pub(crate) fn label(datagram: &[u8]) -> Option<(usize, u64)> {
    let (number, rest) = datagram.split_first_chunk()?;
    let place = u64::from_be_bytes(*rest.first_chunk()?);
    Some((usize::try_from(place).ok()?, u64::from_be_bytes(*number)))
}

/// A datagram of which a direct copy was lost or damaged on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostDatagram {
    /// The place of its flow.
    pub(crate) flow: usize,
    /// Its number in the flow.
    pub(crate) number: u64,
    /// The machines at the ends of the link.
    pub(crate) link: (usize, usize),
}

/// Sees everything: notes which source packets are lost on their way and, if somebody reads along, what happens.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The datagrams of which a direct copy was lost or damaged.
    pub(crate) lost: Vec<LostDatagram>,
    /// The datagrams of which a link carried a second copy: the place of the flow, and the number in it.
    pub(crate) duplicated: Vec<(usize, u64)>,
    pub(crate) lines: Option<Lines>,
    pub(crate) capture: Option<Capture>,
    /// The packets that were damaged, by their numbers: what they carry names their datagrams no more.
    damaged: BTreeSet<u64>,
    /// By machine, how often it was woken since this is watched.
    pub(crate) wake_ups: Option<Vec<WakeUps>>,
}

/// Most packets that are known to be damaged, each of some 20 bytes: those before them have arrived long since.
const DAMAGED_MAX: usize = 1 << 16;

/// How often a machine sent or received something after a second of silence: as often, a sleeping radio is woken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeUps {
    pub(crate) count: u64,
    last: Option<Time>,
}

/// Radios stay awake for some seconds after a packet; what follows within this costs nothing more.
const SILENCE: Duration = Duration::from_secs(1);

impl WakeUps {
    fn packet(&mut self, now: Time) {
        self.count += u64::from(self.last.is_none_or(|last| now.saturating_since(last) > SILENCE));
        self.last = Some(now);
    }
}

impl Watch {
    /// A packet is damaged; whether it was not yet.
    fn damage(&mut self, packet: u64) -> bool {
        if self.damaged.len() == DAMAGED_MAX {
            self.damaged.pop_first();
        }
        self.damaged.insert(packet)
    }

    /// A step of the scenario happens.
    pub(crate) fn note(&mut self, now: Time, node: usize, what: &str, description: &str) {
        if let Some(lines) = &mut self.lines {
            let words = format!("{what}: {description}");
            lines.note(now, node, words.trim_end_matches(": "));
        }
    }
}

impl Observer for Watch {
    fn packet(&mut self, record: &Record<'_>) {
        if let Some(capture) = &mut self.capture {
            capture.packet(record);
        }
        if let Some(lines) = &mut self.lines {
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
        let labelled = || record.payload.get(DATAGRAM_START..).and_then(label);
        if record.step == PacketStep::Duplicated && SourcePacket::parse(record.payload).is_ok() {
            self.duplicated.extend(labelled());
        }
        let is_lost = match record.step {
            // What finds nobody at home was not lost on the way.
            PacketStep::Lost(LossReason::Stopped | LossReason::Hung) => false,
            // What was damaged before was noted then.
            PacketStep::Lost(_) => !self.damaged.remove(&record.packet),
            PacketStep::Corrupted { .. } => self.damage(record.packet),
            _ => false,
        };
        if is_lost && SourcePacket::parse(record.payload).is_ok() {
            let place = |node: NodeId| node.number() as usize;
            let link = (place(record.from), record.to.map_or(usize::MAX, place));
            self.lost.extend(labelled().map(|(flow, number)| LostDatagram { flow, number, link }));
        }
    }

    fn node(&mut self, time: Time, node: NodeId, change: NodeChange) {
        if let Some(lines) = &mut self.lines {
            lines.node(time, node, change);
        }
    }
}
