//! What a flow gets that takes what it can: the median of flows, weighted by their bytes.
//!
//! The mean of all flows says little where most are acknowledgments or calls, or few are elephants. Weighted by bytes, the former hardly count; and the
//! median does not care how large the latter are.

use alloc::boxed::Box;
use alloc::vec;

use crate::flows::FlowHash;
use crate::limits::TYPICAL_SLOTS;

/// What each of some thousand slots carried in this interval, in bytes; flows share them by their hash.
#[derive(Clone, Debug)]
pub(crate) struct TypicalFlow {
    slots: Box<[u32]>,
}

impl TypicalFlow {
    pub(crate) fn new() -> Self {
        Self { slots: vec![0; TYPICAL_SLOTS].into_boxed_slice() }
    }

    /// Notes a packet of a flow.
    pub(crate) fn note(&mut self, flow: FlowHash, bytes: u32) {
        let slot = &mut self.slots[flow.slot(TYPICAL_SLOTS)];
        *slot = slot.saturating_add(bytes);
    }

    /// What such a flow carried, in bytes, to an eighth; an interval ends. Nothing if none did. Half of all bytes are of flows that carried more.
    pub(crate) fn take(&mut self) -> u64 {
        let mut bytes_of = [0_u64; BINS];
        for slot in &mut self.slots {
            let carried = core::mem::take(slot);
            bytes_of[bin(carried)] += u64::from(carried);
        }
        let half = bytes_of.iter().sum::<u64>() / 2;
        let mut below = 0;
        let median = bytes_of.iter().position(|bytes| {
            below += bytes;
            below > half
        });
        median.map_or(0, middle)
    }
}

/// Eight for each power of two.
const BINS: usize = 30 * 8;

/// Where a count belongs.
const fn bin(count: u32) -> usize {
    if count < 8 {
        return count as usize;
    }
    let power = count.ilog2() as usize;
    (power - 2) * 8 + (count >> (power - 3) & 7) as usize
}

/// The middle of the counts of a bin.
const fn middle(bin: usize) -> u64 {
    if bin < 8 {
        return bin as u64;
    }
    let (power, eighth) = (bin / 8 + 2, bin as u64 % 8);
    ((8 + eighth) * 2 + 1) << (power - 3) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_carry_little_hardly_count() {
        let mut typical = TypicalFlow::new();
        let hash = |number: u64| FlowHash::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..100).for_each(|number| typical.note(hash(number), 30_000));
        (100..200).for_each(|number| typical.note(hash(number), 1_000));
        typical.note(hash(200), 900_000);
        let found = typical.take();
        assert!((27_000..33_000).contains(&found), "{found}");
        assert_eq!(typical.take(), 0);
    }

    #[test]
    fn a_count_is_within_an_eighth_of_the_middle_of_its_bin() {
        for count in (0..2_000).chain([65_535, 1 << 20, u32::MAX]) {
            let middle = middle(bin(count));
            assert!(middle.abs_diff(u64::from(count)) <= u64::from(count) / 8, "{count} {middle}");
        }
    }
}
