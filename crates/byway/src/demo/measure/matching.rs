//! Which packet on the wire carries which datagram.
//!
//! Packets are sealed, but their sequence numbers grow by one with every datagram of a flow, and all datagrams of the
//! video are equally long, unlike what was said before it. So the n-th number belongs to the n-th datagram, unless the machine lost some.

use std::collections::BTreeMap;

use anyhow::ensure;

use crate::demo::media::DATAGRAM_BYTES;
use crate::demo::wan::{Kind, PacketRecord};

/// A pair's packets in the emulator's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
}

/// The place of the datagram that each sequence number carries, by number.
///
/// A machine that is too busy drops datagrams at full sockets. Between agent and emulator, such a one has a number that was never seen.
/// Before its agent, it has none, and those behind it have lower numbers than their places: each number then carries the latest datagram that
/// was sent before its packet was seen. While a packet takes less time through this machine than is between two datagrams, that is exact.
pub(crate) fn places(
    packets: &[PacketRecord],
    ends: Ends,
    sent_ms: &[f64],
) -> anyhow::Result<BTreeMap<u32, u32>> {
    let carries_video = |packet: &&PacketRecord| {
        let is_first_hop = packet.from == ends.sender
            && match packet.kind {
                Kind::Plain | Kind::Source => packet.to == ends.receiver,
                Kind::Copy => true,
                Kind::Forwarded | Kind::Cached | Kind::Cooperative => false,
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
        "the application sent {sent} datagrams, but {} source packets with {numbered} numbers left its agent: the forward's rate is too \
         low, or packets went round the emulator",
        seen.len(),
    );
    let mut places = BTreeMap::new();
    // From the last one on, as the last datagrams have all been sent when their packets are seen.
    let mut next = sent;
    for number in (first..).take(numbered).collect::<Vec<_>>().into_iter().rev() {
        let before = (number - first) as usize;
        let latest = seen.get(&number).map_or(next, |at| sent_before(sent_ms, *at).min(next));
        // Each number before it takes a place, too.
        next = latest.clamp(before + 1, next) - 1;
        if seen.contains_key(&number) {
            places.insert(number, u32::try_from(next)?);
        }
    }
    Ok(places)
}

/// How many datagrams had been sent by this time, in nanoseconds.
fn sent_before(sent_ms: &[f64], at_ns: u64) -> usize {
    sent_ms.partition_point(|sent| *sent <= at_ns as f64 / 1e6)
}
