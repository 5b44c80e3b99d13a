//! Conversion of a class's counters, which are of frames, to IP packets.

use byway_net::ClassCounters;
use byway_state::InteractiveRates;
use byway_units::{Bytes, Rate};

/// Bytes of the header that Ethernet adds to an IP packet.
const HEADER_BYTES: u64 = 14;

/// Part of the recent frames that a sample with new ones replaces: 1 s of samples, so that a few
/// acknowledgments do not change the mean length much.
const RECENT_SAMPLES: u64 = 20;

/// Scale of the recent frames, so that their decay is not lost in integers.
const SCALE: u64 = 1_000;

/// State of a link's low-delay class, as the kernel and the policy have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassSample {
    /// Counters of the class, whose bytes are those of frames.
    pub(super) counters: ClassCounters,
    /// Rates of the policy, with the headers of frames.
    pub(super) rates: InteractiveRates,
    /// Numbers of flows, high rate first.
    pub(super) flows: [u32; 2],
    /// Rate of the link.
    pub(super) capacity: Rate,
}

/// Bytes of IP packets that a class has sent, and the mean length of its recent frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IpCounters {
    /// Bytes of a frame's header: 0 for devices without Ethernet.
    header: u64,
    /// Bytes and packets at the latest sample.
    counted: (u64, u32),
    /// Bytes of IP packets, since the class was created.
    sent: u64,
    /// Bytes and number of recent frames, in thousandths.
    recent: [u64; 2],
}

impl IpCounters {
    /// Creates the counters of a new class. Until the first packet, frames are assumed to be those
    /// of the MTU.
    pub(super) fn new(is_ethernet: bool, mtu: u32) -> Self {
        let header = if is_ethernet { HEADER_BYTES } else { 0 };
        let frame = u64::from(mtu) + header;
        Self { header, counted: (0, 0), sent: 0, recent: [frame * SCALE, SCALE] }
    }

    /// Adds what the class has sent since the latest sample. A counter that goes backwards adds
    /// nothing.
    pub(super) fn count(&mut self, counters: &ClassCounters) {
        let now = (counters.sent.count(), counters.sent_packets);
        let (before, packets_before) = std::mem::replace(&mut self.counted, now);
        // The kernel's counter of packets has 32 bits.
        let packets = u64::from(now.1.wrapping_sub(packets_before));
        let Some(bytes) = now.0.checked_sub(before).filter(|bytes| *bytes > packets * self.header) else {
            return;
        };
        self.sent = self.sent.saturating_add(bytes - packets * self.header);
        for (recent, new) in self.recent.iter_mut().zip([bytes, packets]) {
            *recent = (*recent - *recent / RECENT_SAMPLES).saturating_add(new.saturating_mul(SCALE));
        }
    }

    /// Returns the bytes of IP packets that the class has sent.
    pub(super) const fn sent(&self) -> Bytes {
        Bytes::new(self.sent)
    }

    /// Returns the part of some bytes, or of a rate, that IP packets have, by the mean length of
    /// recent frames.
    pub(super) fn ip_part(&self, of_frames: u64) -> u64 {
        let [bytes, packets] = self.recent.map(u128::from);
        let headers = packets.saturating_mul(self.header.into()).min(bytes);
        let part = u128::from(of_frames) * (bytes - headers) / bytes.max(1);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(sent: u64, sent_packets: u32) -> ClassCounters {
        ClassCounters { sent: Bytes::new(sent), sent_packets, ..ClassCounters::default() }
    }

    #[test]
    fn fourteen_bytes_of_each_frame_are_no_bytes_of_ip() {
        let mut class = IpCounters::new(true, 1_500);
        class.count(&counters(3 * 1_514, 3));
        assert_eq!(class.sent(), Bytes::new(4_500));
        class.count(&counters(3 * 1_514 + 54, 4));
        assert_eq!(class.sent(), Bytes::new(4_540));
        let mut without = IpCounters::new(false, 1_500);
        without.count(&counters(3_000, 2));
        assert_eq!((without.sent(), without.ip_part(3_000)), (Bytes::new(3_000), 3_000));
    }

    #[test]
    fn the_counter_of_packets_wraps_and_one_that_goes_backwards_adds_nothing() {
        let mut class = IpCounters::new(true, 1_500);
        class.count(&counters(1_514, u32::MAX));
        assert_eq!(class.sent(), Bytes::ZERO, "so many packets have no such bytes");
        class.count(&counters(3 * 1_514, 1));
        assert_eq!(class.sent(), Bytes::new(3_000));
        class.count(&counters(100, 1));
        class.count(&counters(100 + 1_514, 2));
        assert_eq!(class.sent(), Bytes::new(4_500));
    }

    #[test]
    fn rates_and_backlogs_follow_the_mean_length_of_recent_frames() {
        let mut class = IpCounters::new(true, 1_500);
        // One frame of the MTU is assumed.
        assert_eq!(class.ip_part(1_514), 1_500);
        let mut sent = (0, 0);
        for _ in 0..200 {
            sent = (sent.0 + 140, sent.1 + 2);
            class.count(&counters(sent.0, sent.1));
        }
        // Frames of 70 bytes: four fifths are IP. What was assumed has decayed.
        assert!(class.ip_part(1_000_000).abs_diff(800_000) < 100, "{}", class.ip_part(1_000_000));
        // No packets change nothing.
        let before = class;
        class.count(&counters(sent.0, sent.1));
        assert_eq!(class, before);
        assert_eq!(class.ip_part(u64::MAX) >> 60, 12, "no overflow");
    }
}
