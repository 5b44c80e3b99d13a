//! What became of each datagram.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::matching::{Ends, places};
use crate::demo::wan::{Kind, PacketRecord};

/// The way on which a datagram came that the direct path had lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Way {
    /// Decoded by the receiver, with repair packets of its own flow.
    InStream,
    /// Decoded by the relay, with other receivers' help.
    Cooperative,
    Cache,
    Forward,
}

/// A datagram. Times are milliseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fate {
    pub(crate) sent_ms: f64,
    /// When its direct copy was due without jitter.
    pub(crate) due_ms: f64,
    /// Whether the direct path lost it, or would have.
    pub(crate) is_lost: bool,
    /// When it came first.
    pub(crate) delivered_ms: Option<f64>,
    /// How often it came again.
    pub(crate) duplicates: u32,
    /// How it was repaired.
    pub(crate) way: Option<Way>,
    /// Whether this machine lost it before it was on the network: that says nothing of Byway, and it counts neither as lost nor as
    /// missing.
    pub(crate) is_spoiled: bool,
}

impl Fate {
    /// Whether it never came, though it was on the network.
    pub(crate) const fn is_missing(&self) -> bool {
        self.delivered_ms.is_none() && !self.is_spoiled
    }

    pub(crate) fn is_in_time(&self, deadline_ms: f64) -> bool {
        self.delivered_ms.is_some_and(|delivered| delivered - self.sent_ms <= deadline_ms)
    }

    /// How long its repair took, if it was lost and came after all.
    pub(crate) fn repair_ms(&self) -> Option<f64> {
        let delivered = self.delivered_ms.filter(|_| self.is_lost)?;
        Some((delivered - self.due_ms).max(0.0))
    }
}

/// What is known about a pair: times in milliseconds since the start.
#[derive(Clone, Debug)]
pub(crate) struct PairTraffic<'a> {
    /// The pair's places in the emulator's log.
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
    /// By place of the datagram.
    pub(crate) sent_ms: &'a [f64],
    /// Place and time of all that came.
    pub(crate) arrived: &'a [(u32, f64)],
    /// What the direct path would have lost, by place, where nothing was sent on it.
    pub(crate) would_lose: Option<&'a [bool]>,
    /// The delay of the direct path without jitter.
    pub(crate) direct_ms: f64,
}

/// What became of each datagram of a pair.
///
/// # Errors
/// If the packets that the emulator has seen are not those of the datagrams.
pub(crate) fn fates(packets: &[PacketRecord], pair: &PairTraffic<'_>) -> anyhow::Result<Vec<Fate>> {
    let ends = Ends { sender: pair.sender, receiver: pair.receiver };
    let places =
        places(packets, ends, pair.sent_ms).with_context(|| format!("packets of node {}", pair.sender))?;
    let fate = |&sent_ms: &f64| Fate {
        sent_ms,
        due_ms: sent_ms + pair.direct_ms,
        is_lost: true,
        delivered_ms: None,
        duplicates: 0,
        way: None,
        is_spoiled: false,
    };
    let mut fates: Vec<_> = pair.sent_ms.iter().map(fate).collect();
    note_direct_path(&mut fates, packets, pair, &places);
    note_arrivals(&mut fates, pair.arrived);
    note_ways(&mut fates, packets, pair.receiver, &places);
    note_spoiled(&mut fates, &places);
    Ok(fates)
}

type Places = std::collections::BTreeMap<u32, u32>;

fn note_direct_path(fates: &mut [Fate], packets: &[PacketRecord], pair: &PairTraffic<'_>, places: &Places) {
    if let Some(would_lose) = pair.would_lose {
        fates.iter_mut().zip(would_lose).for_each(|(fate, &is_lost)| fate.is_lost = is_lost);
        return;
    }
    for packet in packets {
        let is_direct = matches!(packet.kind, Kind::Plain | Kind::Source)
            && (packet.from, packet.to) == (pair.sender, pair.receiver);
        let Some(&place) = places.get(&packet.sequence).filter(|_| is_direct) else { continue };
        let fate = &mut fates[place as usize];
        fate.due_ms = millis(packet.sent_ns) + pair.direct_ms;
        fate.is_lost = packet.delivered_ns.is_none();
    }
}

fn note_arrivals(fates: &mut [Fate], arrived: &[(u32, f64)]) {
    for &(place, at) in arrived {
        let Some(fate) = fates.get_mut(place as usize) else { continue };
        match fate.delivered_ms {
            None => fate.delivered_ms = Some(at),
            Some(_) => fate.duplicates += 1,
        }
    }
}

/// What no packet carried, the machine lost before.
fn note_spoiled(fates: &mut [Fate], places: &Places) {
    let mut is_carried = vec![false; fates.len()];
    for place in places.values() {
        is_carried[*place as usize] = true;
    }
    for (fate, is_carried) in fates.iter_mut().zip(is_carried) {
        if !is_carried && fate.delivered_ms.is_none() {
            (fate.is_spoiled, fate.is_lost) = (true, false);
        }
    }
}

/// Repairs that the relay sends as packets of their own are seen on the wire; what came without one was decoded by the
/// receiver.
fn note_ways(fates: &mut [Fate], packets: &[PacketRecord], receiver: u32, places: &Places) {
    let mut first = vec![None::<(u64, Way)>; fates.len()];
    for packet in packets.iter().filter(|packet| packet.to == receiver) {
        let way = match packet.kind {
            Kind::Forwarded => Way::Forward,
            Kind::Cached => Way::Cache,
            Kind::Cooperative => Way::Cooperative,
            Kind::Plain | Kind::Source | Kind::Copy => continue,
        };
        let (Some(at), Some(&place)) = (packet.delivered_ns, places.get(&packet.sequence)) else { continue };
        let known = &mut first[place as usize];
        if known.is_none_or(|(earlier, _)| at < earlier) {
            *known = Some((at, way));
        }
    }
    for (fate, seen) in fates.iter_mut().zip(first) {
        let Some(delivered) = fate.delivered_ms.filter(|_| fate.is_lost) else { continue };
        let seen = seen.filter(|&(at, _)| millis(at) <= delivered);
        fate.way = Some(seen.map_or(Way::InStream, |(_, way)| way));
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
