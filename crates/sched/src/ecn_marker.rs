//! ECN marking of low-delay packets.

use crate::limits::{MARKING_FILL_MAX, MARKING_FILL_MIN};

/// Selects low-delay packets to mark, with a probability that rises with the queue's fill.
///
/// The queue empties within a few milliseconds, but a mark has its effect a round trip later. The
/// queue is therefore full or empty by chance, whatever senders do, and marking can only control
/// how often. So the marker uses the current fill, and no controller of its mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnMarker {
    /// Sum of marking probabilities since the last mark, in packets.
    mark_debt: f64,
    /// Sum of drop probabilities since the last drop of a packet that cannot be marked, in longest
    /// packets.
    drop_debt: f64,
}

impl EcnMarker {
    /// True if the arriving packet should be marked, with this backlog in a buffer of `buffer`
    /// bytes.
    pub(crate) fn should_mark(&mut self, backlog: u64, buffer: u64) -> bool {
        consume_debt(&mut self.mark_debt, share(backlog, buffer))
    }

    /// True if an arriving packet that is not ECN-capable should be dropped instead of marked.
    /// `length` is its length as a part of the longest packet's. Acknowledgments, which cannot be
    /// marked (RFC 3168, section 6.1.4), are short and hardly ever dropped.
    pub(crate) fn should_drop(&mut self, backlog: u64, buffer: u64, length: f64) -> bool {
        consume_debt(&mut self.drop_debt, share(backlog, buffer) * length)
    }
}

/// Returns the share of packets to mark with this backlog: it rises with the square of the fill.
#[allow(clippy::cast_precision_loss, reason = "a share of bytes")]
fn share(backlog: u64, buffer: u64) -> f64 {
    let fill = backlog as f64 / buffer.max(1) as f64;
    let over = ((fill - MARKING_FILL_MIN) / (MARKING_FILL_MAX - MARKING_FILL_MIN)).clamp(0.0, 1.0);
    over * over
}

/// Adds a probability to the sum of earlier ones. Returns true once the sum has reached one, and
/// then reduces it by one: so the right share of packets is selected, without randomness.
pub(crate) fn consume_debt(debt: &mut f64, more: f64) -> bool {
    *debt += more;
    let is_due = *debt >= 1.0;
    *debt -= f64::from(u8::from(is_due));
    is_due
}
