//! Log of the emulator. Losses are counted from this log alone, and not from statements of agents.

use std::collections::BTreeMap;

use byway_sim::{Observer, Record, Step};
use byway_units::Time;
use serde::{Deserialize, Serialize};

use crate::demo::limits::RECORDED_PACKETS_MAX;
use byway_lab::timer_lateness::LatenessSummary;

/// Kind of a packet in the emulator, as visible to any node on its path (`docs/wire.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum PacketKind {
    /// Datagram of video without Byway; its first byte is the sync byte of MPEG-TS.
    Plain,
    /// A source packet on its direct path.
    Source,
    /// Copy that an agent sends to the ingress relay.
    Copy,
    /// Delivery by a relay that no NACK requested.
    Forwarded,
    /// Repair that the relay sends from its cache.
    Cached,
    /// Repair that the relay decoded with other receivers' packets.
    Cooperative,
}

/// Record of one packet in the emulator. Times are nanoseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PacketRecord {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: PacketKind,
    /// Lower half of the sequence number. For plain datagrams, the number of earlier ones on the
    /// link.
    pub(crate) sequence: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) sent_ns: u64,
    /// Time of delivery; `None` if the packet was lost.
    pub(crate) delivered_ns: Option<u64>,
}

/// Totals of a link in IP packets and bytes, including packets that it lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkRecord {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) packets: u64,
    pub(crate) ip_bytes: u64,
    pub(crate) lost: u64,
}

/// The emulator's log of a run, as written to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WanLog {
    pub(crate) links: Vec<LinkRecord>,
    pub(crate) packets: Vec<PacketRecord>,
    /// Packets that were not recorded because the log was full.
    pub(crate) packets_left_out: u64,
    /// Packets to unknown addresses, or to nodes without a link.
    pub(crate) unroutable: u64,
    pub(crate) lateness: LatenessSummary,
}

/// Observer of every packet of the world, which records those that show losses and repairs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketLog {
    packets: Vec<PacketRecord>,
    left_out: u64,
    /// Index of the record of a packet in flight, by the packet's number in the world.
    in_flight: BTreeMap<u64, usize>,
    /// Number of plain datagrams that each link has transported.
    plain: BTreeMap<(u32, u32), u32>,
}

impl PacketLog {
    /// Returns the records of packets, and the number of packets left out because the log was full.
    pub(crate) fn into_parts(self) -> (Vec<PacketRecord>, u64) {
        (self.packets, self.left_out)
    }

    fn record_sent(&mut self, record: &Record<'_>) {
        let Some(to) = record.to.map(byway_sim::NodeId::number) else { return };
        let from = record.from.number();
        let Some((kind, sequence)) = self.classify(from, to, record.payload) else { return };
        if self.packets.len() >= RECORDED_PACKETS_MAX {
            self.left_out += 1;
            return;
        }
        self.in_flight.insert(record.packet, self.packets.len());
        let payload_bytes = u32::try_from(record.payload.len()).unwrap_or(u32::MAX);
        let sent_ns = nanos(record.time);
        self.packets.push(PacketRecord {
            from,
            to,
            kind,
            sequence,
            payload_bytes,
            sent_ns,
            delivered_ns: None,
        });
    }

    /// Returns a packet's kind and sequence number; `None` for packets that the log does not
    /// record.
    fn classify(&mut self, from: u32, to: u32, payload: &[u8]) -> Option<(PacketKind, u32)> {
        if payload.first() == Some(&crate::demo::media::SYNC_BYTE) {
            let number = self.plain.entry((from, to)).or_default();
            *number += 1;
            return Some((PacketKind::Plain, *number - 1));
        }
        sealed(payload)
    }
}

/// Returns the kind and sequence number of a sealed packet (`docs/wire.md`); `None` if the log does
/// not record its kind.
fn sealed(payload: &[u8]) -> Option<(PacketKind, u32)> {
    let number = |at: usize| {
        let bytes = payload.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let kind = match *payload {
        [7, ..] => return Some((PacketKind::Source, number(7)?)),
        [9, 0 | 1, ..] => PacketKind::Copy,
        [9, 3, ..] => PacketKind::Forwarded,
        [9, 4, ..] => PacketKind::Cached,
        [9, 5, ..] => PacketKind::Cooperative,
        _ => return None,
    };
    Some((kind, number(12)?))
}

impl Observer for PacketLog {
    fn packet(&mut self, record: &Record<'_>) {
        match record.step {
            Step::Sent => self.record_sent(record),
            Step::Delivered => {
                if let Some(index) = self.in_flight.remove(&record.packet) {
                    self.packets[index].delivered_ns = Some(nanos(record.time));
                }
            }
            Step::Lost(_) => {
                self.in_flight.remove(&record.packet);
            }
            Step::Unroutable | Step::Duplicated | Step::Corrupted { .. } => {}
        }
    }
}

fn nanos(time: Time) -> u64 {
    (time - Time::START).as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_known_by_what_everybody_can_see() {
        let source = [7, 0, 0, 0, 9, 0, 2, 0, 0, 1, 44, 0xff];
        assert_eq!(sealed(&source), Some((PacketKind::Source, 300)));
        let mut envelope = [9, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 3, 0, 0, 0, 7, 0xff];
        for (role, kind) in [
            (0, Some(PacketKind::Copy)),
            (1, Some(PacketKind::Copy)),
            (2, None),
            (3, Some(PacketKind::Forwarded)),
            (4, Some(PacketKind::Cached)),
            (5, Some(PacketKind::Cooperative)),
            (6, None),
        ] {
            envelope[1] = role;
            assert_eq!(sealed(&envelope), kind.map(|kind| (kind, 7)), "role {role}");
        }
        assert_eq!(sealed(&source[..10]), None, "too short to have a number");
        assert_eq!(sealed(&[8; 40]), None);
        assert_eq!(sealed(&[]), None);
    }
}
