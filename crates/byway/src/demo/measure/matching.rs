//! Assignment of the emulator's sealed packets to the video datagrams inside them.
//!
//! Packets are sealed, but their sequence numbers grow by one with every datagram of a flow. All
//! datagrams of the video have the same length, and the hellos before it have another. So the n-th
//! sequence number belongs to the n-th datagram, unless the machine lost some.

use std::collections::BTreeMap;

use anyhow::ensure;

use crate::demo::media::DATAGRAM_BYTES;
use crate::demo::wan::{PacketKind, PacketRecord};

/// Indices of a pair's nodes in the emulator's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairNodes {
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
}

/// Returns the index of the video datagram in each packet, by the packet's sequence number.
///
/// A machine that is too busy drops datagrams at full sockets:
///
/// - Between agent and emulator, the lost datagram has a sequence number that the emulator never
///   sees.
/// - Before its agent, the lost datagram has no sequence number, and later ones have lower sequence
///   numbers than their indices. Each packet then contains the latest datagram that was sent before
///   the emulator saw the packet.
///
/// The result is exact if a packet crosses this machine in less time than lies between two
/// datagrams.
pub(crate) fn match_datagrams(
    packets: &[PacketRecord],
    ends: PairNodes,
    sent_ms: &[f64],
) -> anyhow::Result<BTreeMap<u32, u32>> {
    let carries_video = |packet: &&PacketRecord| {
        let is_first_hop = packet.from == ends.sender
            && match packet.kind {
                PacketKind::Plain | PacketKind::Source => packet.to == ends.receiver,
                PacketKind::Copy => true,
                PacketKind::Forwarded | PacketKind::Cached | PacketKind::Cooperative => false,
            };
        is_first_hop && packet.payload_bytes as usize >= DATAGRAM_BYTES
    };
    let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
    for packet in packets.iter().filter(carries_video) {
        let at = seen.entry(packet.sequence).or_insert(packet.sent_ns);
        *at = packet.sent_ns.min(*at);
    }
    let (sent, first) = (sent_ms.len(), seen.keys().next().copied().unwrap_or_default());
    let numbered = seen.keys().next_back().map_or(0, |last| (last - first) as usize + 1);
    ensure!(
        seen.len() * 2 > sent && numbered <= sent,
        "application datagrams and packets do not match: {sent} datagrams were sent, but {} source \
         packets with {numbered} sequence numbers left the agent. The forward's rate is too low, or \
         packets bypassed the emulator",
        seen.len(),
    );
    let mut indices = BTreeMap::new();
    // The match goes backwards, because the last datagrams have all been sent when their packets
    // are seen.
    let mut next = sent;
    for number in (first..).take(numbered).collect::<Vec<_>>().into_iter().rev() {
        let before = (number - first) as usize;
        let latest = seen.get(&number).map_or(next, |at| sent_before(sent_ms, *at).min(next));
        // Each lower sequence number needs a lower index of its own.
        next = latest.clamp(before + 1, next) - 1;
        if seen.contains_key(&number) {
            indices.insert(number, u32::try_from(next)?);
        }
    }
    Ok(indices)
}

/// Counts the datagrams that were sent by this time, in nanoseconds.
fn sent_before(sent_ms: &[f64], at_ns: u64) -> usize {
    sent_ms.partition_point(|sent| *sent <= at_ns as f64 / 1e6)
}
