//! What the emulator writes down: from this, and from nothing that agents say, losses are counted.

use std::collections::BTreeMap;

use byway_sim::{Observer, Record, Step};
use byway_units::Time;
use serde::{Deserialize, Serialize};

use crate::demo::limits::RECORDED_PACKETS_MAX;
use byway_lab::lateness::LatenessSummary;

/// What a packet is, as far as anybody on its way can see (`docs/wire.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A datagram of video without Byway: it begins with MPEG-TS's sync byte.
    Plain,
    /// A source packet on its direct path.
    Source,
    /// A copy on its way to the ingress relay.
    Copy,
    /// A delivery that nobody had to ask for.
    Forwarded,
    /// A repair from the cache.
    Cached,
    /// A repair with others' help.
    Cooperative,
}

/// One packet. Times are nanoseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PacketRecord {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: Kind,
    /// The lower half of its sequence number; of plain datagrams, how many were before it on this link.
    pub(crate) sequence: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) sent_ns: u64,
    /// `None`: it was lost.
    pub(crate) delivered_ns: Option<u64>,
}

/// A link's totals, in IP packets and bytes; those that were lost on it are counted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkRecord {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) packets: u64,
    pub(crate) ip_bytes: u64,
    pub(crate) lost: u64,
}

/// The emulator's log of a run, as it is written to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WanLog {
    pub(crate) links: Vec<LinkRecord>,
    pub(crate) packets: Vec<PacketRecord>,
    /// Packets that were not written down because there were too many.
    pub(crate) packets_left_out: u64,
    /// Packets to addresses that nobody has or no link leads to.
    pub(crate) unroutable: u64,
    pub(crate) lateness: LatenessSummary,
}

/// Sees every packet of the world, and keeps those that tell of losses and repairs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketLog {
    packets: Vec<PacketRecord>,
    left_out: u64,
    /// Where the record of a packet under way is, by the packet's number in the world.
    under_way: BTreeMap<u64, usize>,
    /// How many plain datagrams each link has seen.
    plain: BTreeMap<(u32, u32), u32>,
}

impl PacketLog {
    /// The records, and how many were left out.
    pub(crate) fn into_parts(self) -> (Vec<PacketRecord>, u64) {
        (self.packets, self.left_out)
    }

    fn sent(&mut self, record: &Record<'_>) {
        let Some(to) = record.to.map(byway_sim::NodeId::number) else { return };
        let from = record.from.number();
        let Some((kind, sequence)) = self.look_at(from, to, record.payload) else { return };
        if self.packets.len() >= RECORDED_PACKETS_MAX {
            self.left_out += 1;
            return;
        }
        self.under_way.insert(record.packet, self.packets.len());
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

    /// What a packet is and its number, if it is of those that count.
    fn look_at(&mut self, from: u32, to: u32, payload: &[u8]) -> Option<(Kind, u32)> {
        if payload.first() == Some(&crate::demo::media::SYNC_BYTE) {
            let number = self.plain.entry((from, to)).or_default();
            *number += 1;
            return Some((Kind::Plain, *number - 1));
        }
        sealed(payload)
    }
}

/// Kind and sequence number of the packets of `docs/wire.md` that count.
fn sealed(payload: &[u8]) -> Option<(Kind, u32)> {
    let number = |at: usize| {
        let bytes = payload.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let kind = match *payload {
        [7, ..] => return Some((Kind::Source, number(7)?)),
        [9, 0 | 1, ..] => Kind::Copy,
        [9, 3, ..] => Kind::Forwarded,
        [9, 4, ..] => Kind::Cached,
        [9, 5, ..] => Kind::Cooperative,
        _ => return None,
    };
    Some((kind, number(12)?))
}

impl Observer for PacketLog {
    fn packet(&mut self, record: &Record<'_>) {
        match record.step {
            Step::Sent => self.sent(record),
            Step::Delivered => {
                if let Some(place) = self.under_way.remove(&record.packet) {
                    self.packets[place].delivered_ns = Some(nanos(record.time));
                }
            }
            Step::Lost(_) => {
                self.under_way.remove(&record.packet);
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
        assert_eq!(sealed(&source), Some((Kind::Source, 300)));
        let mut envelope = [9, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 3, 0, 0, 0, 7, 0xff];
        for (role, kind) in [
            (0, Some(Kind::Copy)),
            (1, Some(Kind::Copy)),
            (2, None),
            (3, Some(Kind::Forwarded)),
            (4, Some(Kind::Cached)),
            (5, Some(Kind::Cooperative)),
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
