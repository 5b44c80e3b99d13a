//! Outcome of each datagram: lost, repaired, late or spoiled.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::matching::{PairNodes, match_datagrams};
use crate::demo::wan::{PacketKind, PacketRecord};

/// Source of the repair of a datagram that the direct path lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum RepairMethod {
    /// Decoded by the receiving agent, with in-stream repair packets of the datagram's own flow.
    InStream,
    /// Decoded by the egress relay, with packets that other receivers return.
    Cooperative,
    Cache,
    Forward,
}

/// Outcome of a video datagram. Times are milliseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DatagramOutcome {
    pub(crate) sent_ms: f64,
    /// Time at which its copy on the direct path was due without jitter.
    pub(crate) due_ms: f64,
    /// True if the direct path lost the datagram, or would have lost it in a run that does not use
    /// the path.
    pub(crate) is_lost: bool,
    /// Time of the datagram's first arrival at the receiving application; `None` if it never
    /// arrived.
    pub(crate) delivered_ms: Option<f64>,
    /// Number of arrivals at the receiving application after the first.
    pub(crate) duplicates: u32,
    /// Source of the datagram's repair; `None` if the direct path delivered it or nothing repaired
    /// it.
    pub(crate) repair_method: Option<RepairMethod>,
    /// True if this machine lost the datagram before it reached the network. Because such a loss
    /// does not depend on Byway, the datagram counts neither as lost nor as missing.
    pub(crate) is_spoiled: bool,
}

impl DatagramOutcome {
    /// True if the datagram reached the network and never arrived.
    pub(crate) const fn is_missing(&self) -> bool {
        self.delivered_ms.is_none() && !self.is_spoiled
    }

    pub(crate) fn is_in_time(&self, deadline_ms: f64) -> bool {
        self.delivered_ms.is_some_and(|delivered| delivered - self.sent_ms <= deadline_ms)
    }

    /// Returns the time from the due time of the direct copy to delivery, if the direct path lost
    /// the datagram and it arrived later.
    pub(crate) fn repair_ms(&self) -> Option<f64> {
        let delivered = self.delivered_ms.filter(|_| self.is_lost)?;
        Some((delivered - self.due_ms).max(0.0))
    }
}

/// Records of one pair's video: packets, sendings and arrivals. Times are in milliseconds since the
/// start.
#[derive(Clone, Debug)]
pub(crate) struct PairTraffic<'a> {
    /// Indices of the pair's nodes in the emulator's log.
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
    /// Sending times by index of the datagram.
    pub(crate) sent_ms: &'a [f64],
    /// Datagram index and time of every arrival.
    pub(crate) arrived: &'a [(u32, f64)],
    /// True, by index, for datagrams that the direct path would have lost; only in a run that sends
    /// none on the direct path.
    pub(crate) would_lose: Option<&'a [bool]>,
    /// One-way delay of the direct path without jitter, in milliseconds.
    pub(crate) direct_ms: f64,
}

/// Returns the outcome of each video datagram of a pair, by its index.
///
/// # Errors
/// If the packets that the emulator saw are not those of the datagrams.
pub(crate) fn datagram_outcomes(
    packets: &[PacketRecord],
    pair: &PairTraffic<'_>,
) -> anyhow::Result<Vec<DatagramOutcome>> {
    let ends = PairNodes { sender: pair.sender, receiver: pair.receiver };
    let indices = match_datagrams(packets, ends, pair.sent_ms)
        .with_context(|| format!("packets of node {}", pair.sender))?;
    let fate = |&sent_ms: &f64| DatagramOutcome {
        sent_ms,
        due_ms: sent_ms + pair.direct_ms,
        is_lost: true,
        delivered_ms: None,
        duplicates: 0,
        repair_method: None,
        is_spoiled: false,
    };
    let mut fates: Vec<_> = pair.sent_ms.iter().map(fate).collect();
    note_direct_path(&mut fates, packets, pair, &indices);
    note_arrivals(&mut fates, pair.arrived);
    note_repair_methods(&mut fates, packets, pair.receiver, &indices);
    note_spoiled(&mut fates, &indices);
    Ok(fates)
}

type IndexBySequence = std::collections::BTreeMap<u32, u32>;

fn note_direct_path(
    fates: &mut [DatagramOutcome],
    packets: &[PacketRecord],
    pair: &PairTraffic<'_>,
    indices: &IndexBySequence,
) {
    if let Some(would_lose) = pair.would_lose {
        fates.iter_mut().zip(would_lose).for_each(|(fate, &is_lost)| fate.is_lost = is_lost);
        return;
    }
    for packet in packets {
        let is_direct = matches!(packet.kind, PacketKind::Plain | PacketKind::Source)
            && (packet.from, packet.to) == (pair.sender, pair.receiver);
        let Some(&index) = indices.get(&packet.sequence).filter(|_| is_direct) else { continue };
        let fate = &mut fates[index as usize];
        fate.due_ms = millis(packet.sent_ns) + pair.direct_ms;
        fate.is_lost = packet.delivered_ns.is_none();
    }
}

fn note_arrivals(fates: &mut [DatagramOutcome], arrived: &[(u32, f64)]) {
    for &(index, at) in arrived {
        let Some(fate) = fates.get_mut(index as usize) else { continue };
        match fate.delivered_ms {
            None => fate.delivered_ms = Some(at),
            Some(_) => fate.duplicates += 1,
        }
    }
}

/// Marks datagrams that no packet contained as spoiled: this machine lost them before they reached
/// the network.
fn note_spoiled(fates: &mut [DatagramOutcome], indices: &IndexBySequence) {
    let mut is_on_wire = vec![false; fates.len()];
    for index in indices.values() {
        is_on_wire[*index as usize] = true;
    }
    for (fate, is_on_wire) in fates.iter_mut().zip(is_on_wire) {
        if !is_on_wire && fate.delivered_ms.is_none() {
            (fate.is_spoiled, fate.is_lost) = (true, false);
        }
    }
}

/// Records the source of each repair. Repairs that a relay sends as packets of their own appear on
/// the wire; the receiver decoded the others.
fn note_repair_methods(
    fates: &mut [DatagramOutcome],
    packets: &[PacketRecord],
    receiver: u32,
    indices: &IndexBySequence,
) {
    let mut first = vec![None::<(u64, RepairMethod)>; fates.len()];
    for packet in packets.iter().filter(|packet| packet.to == receiver) {
        let method = match packet.kind {
            PacketKind::Forwarded => RepairMethod::Forward,
            PacketKind::Cached => RepairMethod::Cache,
            PacketKind::Cooperative => RepairMethod::Cooperative,
            PacketKind::Plain | PacketKind::Source | PacketKind::Copy => continue,
        };
        let (Some(at), Some(&index)) = (packet.delivered_ns, indices.get(&packet.sequence)) else { continue };
        let known = &mut first[index as usize];
        if known.is_none_or(|(earlier, _)| at < earlier) {
            *known = Some((at, method));
        }
    }
    for (fate, seen) in fates.iter_mut().zip(first) {
        let Some(delivered) = fate.delivered_ms.filter(|_| fate.is_lost) else { continue };
        let seen = seen.filter(|&(at, _)| millis(at) <= delivered);
        fate.repair_method = Some(seen.map_or(RepairMethod::InStream, |(_, method)| method));
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
