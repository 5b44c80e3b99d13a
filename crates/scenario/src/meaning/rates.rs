//! What flows are registered with.

use byway_proto::limits::COPY_BURST;
use byway_units::{Bytes, Duration, Rate};

use crate::frames::FrameTrace;
use crate::scenario::Pattern;

/// What is around a datagram in a sealed packet, at most.
const OVERHEAD: usize = 64;

/// A quarter more than what an application sends in sealed packets, of datagrams of so many bytes.
///
/// A relay takes copies out of an account that fills at the registered rate and holds [`COPY_BURST`] of it: what goes beyond is
/// not copied. So this is not the rate of the largest frame, which no other may follow for as long, but that of the worst
/// frames in a row that are sent within the burst. However they are laid over a recording, spans of so many frames never have
/// more than the account has by then; nor does a frame alone have more than it holds, however seldom it comes.
///
/// Frames of random sizes count as large as they can be: any number of them in a row may be.
pub(super) fn registered_rate(pattern: &Pattern, every: Duration, bytes: usize) -> Rate {
    let (sent, time) = match pattern {
        Pattern::Video { frames, .. } => {
            let count = (COPY_BURST.as_nanos() / every.as_nanos().max(1)).max(1);
            (worst(frames, count, bytes), every * count)
        }
        Pattern::Frames { packets } => ((bytes + OVERHEAD) as u64 * u64::from(*packets), every),
        Pattern::Steady | Pattern::OnOff { .. } | Pattern::Talk { .. } => ((bytes + OVERHEAD) as u64, every),
    };
    Rate::over(Bytes::new(sent * 5 / 4), time.min(COPY_BURST))
        .unwrap_or(Rate::from_megabits_per_second(1_000))
}

/// The most bytes that so many frames in a row have in sealed packets, wherever in the recording, which begins again at its end.
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
        // Where it begins again, its largest frames follow each other.
        assert_eq!(kilobits(&video(&[9_000, 500, 9_000]), 250, 1_000), 383);
        assert_eq!(kilobits(&video(&[936]), 100, 1_000), 100, "one frame, over and over");
    }

    #[test]
    fn others_are_registered_with_what_they_send() {
        assert_eq!(kilobits(&Pattern::Steady, 10, 936), 1_000);
        assert_eq!(kilobits(&Pattern::Frames { packets: 3 }, 10, 936), 3_000);
        assert_eq!(kilobits(&Pattern::Steady, 60_000, 936), 20, "a burst of 500 ms has room for the packet");
    }

    proptest! {
        #[test]
        fn an_account_at_the_relay_bears_every_frame(
            sizes in prop::collection::vec(16_u32..200_000, 1..60),
            every in 1_u64..2_000,
        ) {
            let pattern = video(&sizes);
            let rate = registered_rate(&pattern, Duration::from_millis(every), 1_000);
            let room = rate.bytes_in(COPY_BURST).expect("it fits").count();
            let income = rate.bytes_in(Duration::from_millis(every)).expect("it fits").count();
            let mut left = room;
            for bytes in sizes.iter().cycle().take(3 * sizes.len()) {
                let sealed = u64::from(*bytes) + u64::from(bytes.div_ceil(1_000)) * OVERHEAD as u64;
                prop_assert!(sealed <= left, "{sealed} of {left}");
                left = (left - sealed + income).min(room);
            }
        }
    }
}
