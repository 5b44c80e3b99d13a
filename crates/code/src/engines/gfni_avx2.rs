//! GFNI on 32-byte vectors: for processors that have it without AVX-512.

use core::arch::x86_64::{
    __cpuid_count, __m256i, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
};

use super::tables::AFFINE;
use super::{Vector, vector_engine};

cpufeatures::new!(avx2, "avx2");

vector_engine!(
    Bytes32,
    features: "avx2,gfni",
    name: "gfni-avx2",
    needs: "GFNI and AVX2",
    available: || avx2::get() && has_gfni()
);

/// Returns true if the processor has GFNI. The detection library requires AVX-512 for it, which
/// many processors with GFNI lack, so this uses CPUID.
fn has_gfni() -> bool {
    const GFNI: u32 = 1 << 8;
    #[allow(unused_unsafe, reason = "newer compilers know that the instruction is safe")]
    // SAFETY: every 64-bit x86 processor has the instruction; a leaf it does not know gives zeros
    // or the last leaf, and AVX2, checked first, implies leaf 7.
    let leaf = unsafe { __cpuid_count(7, 0) };
    leaf.ecx & GFNI != 0
}

/// Vector type of its own, because the AVX2 engine multiplies the same register by other means.
#[derive(Clone, Copy)]
struct Bytes32(__m256i);

// SAFETY: the register is as long as `BYTES` says. For every block, the trait's contract gives the
// features, and valid pointers for what is accessed.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all, given above")]
unsafe impl Vector for Bytes32 {
    type Multiplier = __m256i;

    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn multiplier(coefficient: u8) -> __m256i {
        unsafe { _mm256_set1_epi64x(AFFINE[usize::from(coefficient)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn multiply(self, multiplier: __m256i) -> Self {
        Self(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self.0, multiplier) })
    }
}
