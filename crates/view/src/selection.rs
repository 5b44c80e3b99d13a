//! Requests for windows, and the packets that answer them.

use alloc::vec::Vec;

use crate::cache::Cache;
use crate::index::Index;
use crate::layout::PacketNumber;
use crate::limits::ANSWER_BYTES_MAX;
use crate::packet_code::coded_length;
use crate::window::{Window, WindowPrecincts};

/// Request of a client for packets of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the request, which its answer repeats.
    pub number: u32,
    /// Part of the image.
    pub window: Window,
    /// Highest resolution: 0 is the smallest image. Resolutions beyond the image's count as its
    /// highest.
    pub resolution: u8,
    /// Most bytes of the encoded answer; at most [`ANSWER_BYTES_MAX`](crate::ANSWER_BYTES_MAX)
    /// count.
    pub bytes_max: u32,
    /// True if the client has no packets, although it received some: it cleared its store.
    pub is_fresh: bool,
}

/// Packets of a window that an answer does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// None: with this answer, the client has all packets of the window.
    Nothing,
    /// Some: the next request has further ones. If an answer has no packet at all, the limit of its
    /// request is too low for the next packet.
    Pending,
    /// Some that no answer will have, because the window has more precincts than
    /// [`WINDOW_PRECINCTS_MAX`](crate::WINDOW_PRECINCTS_MAX). A lower resolution has fewer.
    Refused,
}

/// Packets that answer a request: coarse resolutions before fine ones, in a resolution by layer,
/// and in a layer in the order of the codestream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    number: u32,
    packets: Vec<PacketNumber>,
    remainder: Remainder,
    bytes: u32,
}

/// Bytes of an encoded answer without packets.
pub(crate) const ANSWER_OVERHEAD: u32 = 11;

impl Selection {
    /// Selects the packets of a request that are not in the cache, and adds them to it.
    ///
    /// The first packet beyond the limit ends the answer, because a layer is of no use without
    /// those below it. The time is that of the window's packets, and of its tiles.
    #[must_use]
    pub fn new(index: &Index, request: &Request, cache: &mut Cache) -> Self {
        if request.is_fresh {
            cache.clear();
        }
        let (number, packets) = (request.number, Vec::new());
        let mut selection = Self { number, packets, remainder: Remainder::Pending, bytes: ANSWER_OVERHEAD };
        let bytes_max = request.bytes_max.min(ANSWER_BYTES_MAX);
        let precincts = WindowPrecincts::new(index.layout(), request.window, request.resolution);
        let layers = index.layout().layers();
        for numbers in &precincts.resolutions {
            for packet in
                (0..layers).flat_map(|layer| numbers.iter().map(move |number| number * layers + layer))
            {
                let packet = PacketNumber::new(packet);
                if !cache.contains(packet) && !selection.add(index, packet, bytes_max) {
                    return selection;
                }
                cache.insert(packet);
            }
        }
        selection.remainder = if precincts.is_cut { Remainder::Refused } else { Remainder::Nothing };
        selection
    }

    /// Adds a packet, unless the answer becomes too long; returns `false` then.
    fn add(&mut self, index: &Index, packet: PacketNumber, bytes_max: u32) -> bool {
        let length = index.packet_bytes(packet).and_then(|bytes| u32::try_from(bytes.end - bytes.start).ok());
        // An index has no packet without bytes.
        let Some(length) = length else { return false };
        let bytes = self.bytes.saturating_add(coded_length(self.packets.last().copied(), packet, length));
        if bytes > bytes_max {
            return false;
        }
        self.bytes = bytes;
        self.packets.push(packet);
        true
    }

    /// Returns the number of the request.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the packets, in the order in which they are sent.
    #[must_use]
    pub fn packets(&self) -> &[PacketNumber] {
        &self.packets
    }

    /// Returns the packets of the window that the answer does not have.
    #[must_use]
    pub const fn remainder(&self) -> Remainder {
        self.remainder
    }

    /// Returns the bytes of the encoded answer. They are above the request's limit only if that is
    /// lower than the bytes of an answer without packets.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }
}
