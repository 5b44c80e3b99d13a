//! Which packet on the wire carries which datagram.
//!
//! Packets are sealed, but their sequence numbers grow by one with every datagram of a flow, and all datagrams of the
//! video are equally long, unlike what was said before it. So the n-th number belongs to the n-th datagram.

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

/// The place of the datagram that each sequence number carries.
pub(crate) fn places(
    packets: &[PacketRecord],
    ends: Ends,
    sent: usize,
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
    let mut numbers: Vec<_> = packets.iter().filter(carries_video).map(|packet| packet.sequence).collect();
    numbers.sort_unstable();
    numbers.dedup();
    ensure!(
        numbers.len() == sent,
        "the application sent {sent} datagrams, but {} source packets left its agent: the forward's rate is too low, \
         packets went round the emulator, or this machine is too busy",
        numbers.len()
    );
    Ok(numbers.into_iter().zip(0..).collect())
}
