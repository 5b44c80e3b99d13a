//! NEON look-ups: the same two 16-entry tables on 64-bit ARM.

use core::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};

use super::tables::NIBBLES;
use super::{Vector, vector_engine};

vector_engine!(
    uint8x16_t,
    features: "neon",
    name: "neon",
    needs: "NEON",
    // Part of the 64-bit ARM baseline that this crate is compiled for.
    available: || cfg!(target_feature = "neon")
);

/// The products of one coefficient with low and high half bytes.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    low: uint8x16_t,
    high: uint8x16_t,
}

// SAFETY: the register is as long as `BYTES` says. For every block, the trait's contract gives the
// features, and valid pointers for what is accessed.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all, given above")]
unsafe impl Vector for uint8x16_t {
    type Multiplier = Tables;

    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { vst1q_u8(to, self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { veorq_u8(self, other) }
    }

    #[inline(always)]
    unsafe fn multiplier(coefficient: u8) -> Tables {
        let nibbles = &NIBBLES[usize::from(coefficient)];
        unsafe { Tables { low: vld1q_u8(nibbles.low.as_ptr()), high: vld1q_u8(nibbles.high.as_ptr()) } }
    }

    #[inline(always)]
    unsafe fn multiply(self, multiplier: Tables) -> Self {
        unsafe {
            let low = vqtbl1q_u8(multiplier.low, vandq_u8(self, vdupq_n_u8(15)));
            let high = vqtbl1q_u8(multiplier.high, vshrq_n_u8::<4>(self));
            veorq_u8(low, high)
        }
    }
}
