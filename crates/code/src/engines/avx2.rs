//! AVX2 shuffles: a byte's product is the sum of two 16-entry look-ups, 32 at a time.

use core::arch::x86_64::{
    __m256i, _mm_load_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256,
};

use super::tables::NIBBLES;
use super::{Vector, vector_engine};

cpufeatures::new!(features, "avx2");

vector_engine!(
    __m256i,
    features: "avx2",
    name: "avx2",
    needs: "AVX2",
    available: features::get
);

/// The products of one coefficient with low and high half bytes, in both halves of the register.
#[derive(Clone, Copy)]
pub(super) struct Shuffles {
    low: __m256i,
    high: __m256i,
}

// SAFETY: the register is as long as `BYTES` says. For every block, the trait's contract gives the
// features, and valid pointers for what is accessed.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all, given above")]
unsafe impl Vector for __m256i {
    type Multiplier = Shuffles;

    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    unsafe fn multiplier(coefficient: u8) -> Shuffles {
        let nibbles = &NIBBLES[usize::from(coefficient)];
        // The tables are 32-byte aligned and their halves 16 bytes long, so both loads are aligned.
        unsafe {
            Shuffles {
                low: _mm256_broadcastsi128_si256(_mm_load_si128(nibbles.low.as_ptr().cast())),
                high: _mm256_broadcastsi128_si256(_mm_load_si128(nibbles.high.as_ptr().cast())),
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, multiplier: Shuffles) -> Self {
        unsafe {
            let half = _mm256_set1_epi8(15);
            let low = _mm256_shuffle_epi8(multiplier.low, _mm256_and_si256(self, half));
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(self), half);
            _mm256_xor_si256(low, _mm256_shuffle_epi8(multiplier.high, high))
        }
    }
}
