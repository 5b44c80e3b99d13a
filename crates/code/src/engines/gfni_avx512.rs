//! GFNI on 64-byte vectors: one instruction multiplies 64 bytes.

use core::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

use super::tables::AFFINE;
use super::{Vector, vector_engine};

cpufeatures::new!(features, "avx512f", "avx512bw", "gfni");

vector_engine!(
    __m512i,
    features: "avx512f,avx512bw,gfni",
    name: "gfni-avx512",
    needs: "GFNI and AVX-512 (F and BW)",
    available: features::get
);

// SAFETY: the register is as long as `BYTES` says. For every block, the trait's contract gives the
// features, and valid pointers for what is accessed.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all, given above")]
unsafe impl Vector for __m512i {
    type Multiplier = __m512i;

    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        unsafe { _mm512_maskz_loadu_epi8((1 << bytes) - 1, from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        unsafe { _mm512_mask_storeu_epi8(to.cast(), (1 << bytes) - 1, self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn multiplier(coefficient: u8) -> __m512i {
        unsafe { _mm512_set1_epi64(AFFINE[usize::from(coefficient)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn multiply(self, multiplier: __m512i) -> Self {
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self, multiplier) }
    }
}
