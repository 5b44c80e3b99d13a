//! When low-delay packets tell of congestion instead of being lost.

use crate::limits::{MARKING_BEGINS, MARKING_ENDS};

/// Decides which packets are marked: the more, the fuller their queue is.
///
/// The queue empties within a few milliseconds, and what its packets tell comes to their senders' effect a round trip later: it is full or empty
/// by chance, whatever they do, and only how often can be governed. So what counts is how full it is now, and no controller of its mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marker {
    /// What is to be marked and has not been yet, in packets.
    owed: f64,
    /// What is to be dropped and has not been yet, in the longest packets.
    owed_by_others: f64,
}

impl Marker {
    /// Whether the packet that comes is marked, where so many bytes wait in this much room.
    pub(crate) fn marks(&mut self, backlog: u64, room: u64) -> bool {
        take(&mut self.owed, share(backlog, room))
    }

    /// Whether a packet that cannot be marked is dropped instead, which takes this share of the longest packet's bytes: acknowledgments, which
    /// cannot be marked (RFC 3168, section 6.1.4) and take no room worth telling, are hardly ever.
    pub(crate) fn drops(&mut self, backlog: u64, room: u64, length: f64) -> bool {
        take(&mut self.owed_by_others, share(backlog, room) * length)
    }
}

/// The share of packets that are marked at a fill.
#[allow(clippy::cast_precision_loss, reason = "a share of bytes")]
fn share(backlog: u64, room: u64) -> f64 {
    let fill = backlog as f64 / room.max(1) as f64;
    let over = ((fill - MARKING_BEGINS) / (MARKING_ENDS - MARKING_BEGINS)).clamp(0.0, 1.0);
    over * over
}

/// Takes one of what is owed, once that is as much.
pub(crate) fn take(owed: &mut f64, more: f64) -> bool {
    *owed += more;
    let is_due = *owed >= 1.0;
    *owed -= f64::from(u8::from(is_due));
    is_due
}
