//! Registered rates of flows.

use byway_proto::limits::COPY_BURST;
use byway_units::{Bytes, Duration, Rate};

use crate::frames::FrameTrace;
use crate::scenario::Pattern;

/// Largest overhead of a sealed packet around a datagram, in bytes.
const OVERHEAD: usize = 64;

/// Returns a rate a quarter higher than that of an application's sealed packets, with datagrams of
/// this length.
///
/// A relay polices copies with a token bucket that fills at the registered rate and holds
/// [`COPY_BURST`] of it; it drops copies beyond that. Therefore the rate is not that of the largest
/// frame, which is followed by smaller ones, but that of the worst consecutive frames within the
/// burst. At any offset of a recording, this many frames never exceed the tokens available by then.
/// Nor does a single frame exceed the bucket, even if frames are rare.
///
/// Frames of random sizes count with their largest size, because any number of these may follow
/// each other.
pub(super) fn registered_rate(pattern: &Pattern, every: Duration, bytes: usize) -> Rate {
    let (sent, time) = match pattern {
        Pattern::Video { frames, .. } => {
            let count = (COPY_BURST.as_nanos() / every.as_nanos().max(1)).max(1);
            (worst(frames, count, bytes), every * count)
        }
        Pattern::Frames { packets } => ((bytes + OVERHEAD) as u64 * u64::from(*packets), every),
        Pattern::Steady | Pattern::OnOff { .. } | Pattern::Voice { .. } => ((bytes + OVERHEAD) as u64, every),
    };
    Rate::over(Bytes::new(sent * 5 / 4), time.min(COPY_BURST))
        .unwrap_or(Rate::from_megabits_per_second(1_000))
}

/// Returns the most bytes of `count` consecutive frames in sealed packets, at any offset of the
/// repeated recording.
fn worst(frames: &FrameTrace, count: u64, datagram: usize) -> u64 {
    let sealed = |nth| {
        let bytes = frames.bytes(nth) as usize;
        (bytes + bytes.div_ceil(datagram) * OVERHEAD) as u64
    };
    let first: u64 = (0..count).map(sealed).sum();
    let later = (0..frames.count()).scan(first, |sum, nth| {
        *sum = *sum + sealed(nth + count) - sealed(nth);
        Some(*sum)
    });
    later.fold(first, u64::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn video(sizes: &[u32]) -> Pattern {
        let lines: Vec<String> = sizes.iter().map(u32::to_string).collect();
        Pattern::Video {
            frames: FrameTrace::parse(&lines.join("\n")).expect("frames"),
            spread: Duration::ZERO,
        }
    }

    fn kilobits(pattern: &Pattern, every: u64, bytes: usize) -> u64 {
        registered_rate(pattern, Duration::from_millis(every), bytes).bits_per_second() / 1_000
    }

    #[test]
    fn a_recording_is_registered_with_its_worst_half_second() {
        let mut sizes = vec![2_000; 250];
        sizes[100] = 100_000;
        // 11 small frames of two packets and a large one of 100: 129.8 kB and a quarter, in 480 ms.
        assert_eq!(kilobits(&video(&sizes), 40, 1_000), 2_704);
        // At the repetition, its largest frames follow each other.
        assert_eq!(kilobits(&video(&[9_000, 500, 9_000]), 250, 1_000), 383);
        assert_eq!(kilobits(&video(&[936]), 100, 1_000), 100, "one frame, over and over");
    }

    #[test]
    fn others_are_registered_with_what_they_send() {
        assert_eq!(kilobits(&Pattern::Steady, 10, 936), 1_000);
        assert_eq!(kilobits(&Pattern::Frames { packets: 3 }, 10, 936), 3_000);
        assert_eq!(kilobits(&Pattern::Steady, 60_000, 936), 20, "a burst of 500 ms fits the packet");
    }

    proptest! {
        #[test]
        fn an_account_at_the_relay_bears_every_frame(
            sizes in prop::collection::vec(16_u32..200_000, 1..60),
            every in 1_u64..2_000,
        ) {
            let pattern = video(&sizes);
            let rate = registered_rate(&pattern, Duration::from_millis(every), 1_000);
            let bucket = rate.bytes_in(COPY_BURST).expect("it fits").count();
            let income = rate.bytes_in(Duration::from_millis(every)).expect("it fits").count();
            let mut left = bucket;
            for bytes in sizes.iter().cycle().take(3 * sizes.len()) {
                let sealed = u64::from(*bytes) + u64::from(bytes.div_ceil(1_000)) * OVERHEAD as u64;
                prop_assert!(sealed <= left, "{sealed} of {left}");
                left = (left - sealed + income).min(bucket);
            }
        }
    }
}
