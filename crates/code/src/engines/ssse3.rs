//! SSSE3 shuffles: the AVX2 engine's look-ups, 16 at a time.

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_load_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_setzero_si128,
    _mm_shuffle_epi8, _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128,
};

use super::tables::NIBBLES;
use super::{Vector, vector_engine};

cpufeatures::new!(features, "ssse3");

vector_engine!(
    __m128i,
    features: "ssse3",
    name: "ssse3",
    needs: "SSSE3",
    available: features::get
);

/// The products of one coefficient with low and high half bytes.
#[derive(Clone, Copy)]
pub(super) struct Shuffles {
    low: __m128i,
    high: __m128i,
}

// SAFETY: the register is as long as `BYTES` says. For every block, the trait's contract gives the
// features, and valid pointers for what is accessed.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all, given above")]
unsafe impl Vector for __m128i {
    type Multiplier = Shuffles;

    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm_storeu_si128(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm_xor_si128(self, other) }
    }

    #[inline(always)]
    unsafe fn multiplier(coefficient: u8) -> Shuffles {
        let nibbles = &NIBBLES[usize::from(coefficient)];
        // The tables are 32-byte aligned and their halves 16 bytes long, so both loads are aligned.
        unsafe {
            Shuffles {
                low: _mm_load_si128(nibbles.low.as_ptr().cast()),
                high: _mm_load_si128(nibbles.high.as_ptr().cast()),
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, multiplier: Shuffles) -> Self {
        unsafe {
            let half = _mm_set1_epi8(15);
            let low = _mm_shuffle_epi8(multiplier.low, _mm_and_si128(self, half));
            let high = _mm_and_si128(_mm_srli_epi64::<4>(self), half);
            _mm_xor_si128(low, _mm_shuffle_epi8(multiplier.high, high))
        }
    }
}
