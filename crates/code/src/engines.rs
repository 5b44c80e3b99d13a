//! The engines: one set of operations, implemented for each kind of processor.
//!
//! This module and the files below it hold all `unsafe` code of the crate. Each engine is one file
//! with one [`Implementation`]; the vector engines share [`kernel`] and differ in the operations of
//! a [`Vector`] and in the processor features they are compiled with.

#![allow(unsafe_code, reason = "vector instructions and their loads and stores; each block has its argument")]
#![allow(clippy::inline_always, reason = "the kernel has to be compiled inside a function with the features")]

use core::ops::Range;

use crate::coefficients::Row;
use crate::limits::SOURCE_PACKETS_MAX;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni_avx2;
#[cfg(target_arch = "x86_64")]
mod gfni_avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod kernel;
mod naive;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod ssse3;
mod table;
mod tables;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use kernel::Vector;

/// All engines for this architecture, slowest first.
pub(crate) static ALL: &[Implementation] = &[
    naive::IMPLEMENTATION,
    table::IMPLEMENTATION,
    #[cfg(target_arch = "x86_64")]
    ssse3::IMPLEMENTATION,
    #[cfg(target_arch = "x86_64")]
    avx2::IMPLEMENTATION,
    #[cfg(target_arch = "x86_64")]
    gfni_avx2::IMPLEMENTATION,
    #[cfg(target_arch = "x86_64")]
    gfni_avx512::IMPLEMENTATION,
    #[cfg(target_arch = "aarch64")]
    neon::IMPLEMENTATION,
];

/// Engine: its name, the test if this processor can run it, and its operations.
pub(crate) struct Implementation {
    pub(crate) name: &'static str,
    /// Processor features that the engine needs, for error messages.
    pub(crate) needs: &'static str,
    pub(crate) is_available: fn() -> bool,
    combine: CombineFn,
    sum: SumFn,
    accumulate: AccumulateFn,
}

/// `outputs[i][span] = sum over j of coefficients[i][j] * inputs[j][span]`.
///
/// # Safety
/// The processor has the features of the engine. There is one row of coefficients for each output,
/// with a coefficient for each input. Every input and every output is at least `span.end` bytes
/// long, and `span.start <= span.end`.
type CombineFn =
    unsafe fn(coefficients: &[Row], inputs: &[&[u8]], outputs: &mut [&mut [u8]], span: Range<usize>);

/// `output[span] = sum over j of inputs[j][span]`: the result of [`CombineFn`] for one output and
/// coefficients of 1.
///
/// A block within one flow usually has one repair packet, the plain sum. The computation is so
/// short that detecting this case in the kernel would take longer.
///
/// # Safety
/// As [`CombineFn`].
type SumFn = unsafe fn(inputs: &[&[u8]], output: &mut [u8], span: Range<usize>);

/// `outputs[i][..input.len()] += coefficients[i] * input`.
///
/// # Safety
/// The processor has the features of the engine; there are `outputs.len()` coefficients; every
/// output is at least as long as the input.
type AccumulateFn = unsafe fn(coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]);

/// Starts to load the beginning of a packet or its buffer into the processor's first-level cache.
///
/// The beginning suffices, because the processor prefetches the rest when the kernel reads on. For
/// a shorter packet a few instructions are wasted, which costs less than a check of its length.
#[inline]
pub fn prefetch(packet: &[u8]) {
    /// Number of prefetched cache lines, half a kilobyte: with six or twelve, batches of every
    /// measured shape take longer.
    const LINES: usize = 8;
    #[cfg(target_arch = "x86_64")]
    for line in 0..LINES {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = packet.as_ptr().wrapping_add(line * crate::ALIGNMENT);
        // SAFETY: every processor of this architecture has the instruction, and it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (packet, LINES);
}

/// Starts to load all of a value into the processor's first-level cache, except for data behind
/// pointers.
///
/// It is for callers that know early which data they need, because memory has a long latency and a
/// high throughput.
#[inline]
pub fn prefetch_value<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of::<T>().div_ceil(crate::ALIGNMENT) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = core::ptr::from_ref(value).cast::<i8>().wrapping_add(line * crate::ALIGNMENT);
        // SAFETY: every processor of this architecture has the instruction, and it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Packets to combine, with the lengths of the shortest and the longest.
pub(crate) struct Inputs<'a> {
    packets: &'a [&'a [u8]],
    shortest: usize,
    longest: usize,
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(packets: &'a [&'a [u8]]) -> Self {
        let lengths = packets.iter().map(|packet| packet.len());
        let (shortest, longest) = lengths
            .fold((usize::MAX, 0), |(shortest, longest), length| (length.min(shortest), length.max(longest)));
        Self { packets, shortest, longest }
    }

    pub(crate) const fn packets(&self) -> &'a [&'a [u8]] {
        self.packets
    }

    /// Returns the length of the longest packet, in bytes.
    pub(crate) const fn longest(&self) -> usize {
        self.longest
    }

    /// True if all packets have equal length.
    pub(crate) const fn have_one_length(&self) -> bool {
        self.shortest == self.longest
    }
}

impl Implementation {
    /// Runs the engine's [`CombineFn`] or [`SumFn`], after checks of all their conditions.
    #[inline]
    pub(crate) fn combine(
        &self,
        coefficients: &[Row],
        inputs: &Inputs<'_>,
        outputs: &mut [&mut [u8]],
        span: Range<usize>,
    ) {
        assert_eq!(coefficients.len(), outputs.len(), "one row of coefficients for each output");
        assert!(inputs.packets.len() <= SOURCE_PACKETS_MAX, "one coefficient for each input");
        assert!(span.start <= span.end, "the span runs forward");
        assert!(span.end <= inputs.shortest, "the span lies within every input");
        assert!(outputs.iter().all(|output| span.end <= output.len()), "the span lies within every output");
        // SAFETY of both calls: everything is checked above; `Engine` only hands out
        // implementations whose `is_available` has said yes on this processor.
        if let ([row], [output]) = (coefficients, &mut *outputs)
            && *row == [1; SOURCE_PACKETS_MAX]
        {
            // SAFETY: see above.
            return unsafe { (self.sum)(inputs.packets, output, span) };
        }
        // SAFETY: see above.
        unsafe { (self.combine)(coefficients, inputs.packets, outputs, span) }
    }

    /// Runs the engine's [`AccumulateFn`], after checks of all its conditions.
    pub(crate) fn accumulate(&self, coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
        assert_eq!(coefficients.len(), outputs.len(), "one coefficient for each output");
        assert!(outputs.iter().all(|output| input.len() <= output.len()), "the input fits in every output");
        // SAFETY: as for `combine`.
        unsafe { (self.accumulate)(coefficients, input, outputs) }
    }
}

/// Defines an engine that runs the shared kernel on one vector type, compiled with the named
/// features.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vector_engine {
    ($vector:ty, features: $features:literal, name: $name:literal, needs: $needs:literal, available: $available:expr) => {
        pub(super) const IMPLEMENTATION: super::Implementation = super::Implementation {
            name: $name,
            needs: $needs,
            is_available: $available,
            combine,
            sum,
            accumulate,
        };

        /// # Safety
        /// As [`super::CombineFn`].
        #[target_feature(enable = $features)]
        unsafe fn combine(
            coefficients: &[$crate::coefficients::Row],
            inputs: &[&[u8]],
            outputs: &mut [&mut [u8]],
            span: core::ops::Range<usize>,
        ) {
            // SAFETY: the caller's promises are the kernel's; this function has the vector's
            // features.
            unsafe { super::kernel::combine::<$vector>(coefficients, inputs, outputs, span) }
        }

        /// # Safety
        /// As [`super::SumFn`].
        #[target_feature(enable = $features)]
        unsafe fn sum(inputs: &[&[u8]], output: &mut [u8], span: core::ops::Range<usize>) {
            // SAFETY: the caller's promises are the kernel's; this function has the vector's
            // features.
            unsafe { super::kernel::sum::<$vector>(inputs, output, span) }
        }

        /// # Safety
        /// As [`super::AccumulateFn`].
        #[target_feature(enable = $features)]
        unsafe fn accumulate(coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
            // SAFETY: the caller's promises are the kernel's; this function has the vector's
            // features.
            unsafe { super::kernel::accumulate::<$vector>(coefficients, input, outputs) }
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use vector_engine;
