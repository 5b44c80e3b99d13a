//! The engines: one set of operations, implemented for each kind of processor.
//!
//! This module and the files below it hold all `unsafe` code of the crate. Each engine is one file with one
//! [`Implementation`]; the vector engines share [`kernel`] and differ in the operations of a [`Vector`] and in
//! the processor features they are compiled with.

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

/// Every engine compiled for this architecture, slowest first.
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

/// One engine: its name, whether this processor can run it, and its two operations.
pub(crate) struct Implementation {
    pub(crate) name: &'static str,
    /// What the processor must have, for error messages.
    pub(crate) needs: &'static str,
    pub(crate) is_available: fn() -> bool,
    combine: CombineFn,
    accumulate: AccumulateFn,
}

/// `outputs[i][span] = sum over j of coefficients[i][j] * inputs[j][span]`.
///
/// # Safety
/// The processor has what the engine needs; there is one row of coefficients for each output, with a
/// coefficient for each input; every input and every output is at least `span.end` bytes long, and
/// `span.start <= span.end`.
type CombineFn =
    unsafe fn(coefficients: &[Row], inputs: &[&[u8]], outputs: &mut [&mut [u8]], span: Range<usize>);

/// `outputs[i][..input.len()] += coefficients[i] * input`.
///
/// # Safety
/// The processor has what the engine needs; there are `outputs.len()` coefficients; every output is at least
/// as long as the input.
type AccumulateFn = unsafe fn(coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]);

/// Packets to be combined, with the bounds of their lengths.
#[derive(Clone, Copy)]
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

    /// The length of the longest packet.
    pub(crate) const fn longest(&self) -> usize {
        self.longest
    }

    /// Whether all packets have one length.
    pub(crate) const fn are_even(&self) -> bool {
        self.shortest == self.longest
    }
}

impl Implementation {
    /// Runs [`CombineFn`] after checking everything it asks for.
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
        // SAFETY: everything is checked above; `Engine` only hands out implementations whose `is_available` has
        // said yes on this processor.
        unsafe { (self.combine)(coefficients, inputs.packets, outputs, span) }
    }

    /// Runs [`AccumulateFn`] after checking everything it asks for.
    pub(crate) fn accumulate(&self, coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
        assert_eq!(coefficients.len(), outputs.len(), "one coefficient for each output");
        assert!(outputs.iter().all(|output| input.len() <= output.len()), "the input fits in every output");
        // SAFETY: as for `combine`.
        unsafe { (self.accumulate)(coefficients, input, outputs) }
    }
}

/// Whether a row of coefficients is all ones, so that adding replaces multiplying.
///
/// The whole row is compared, used or not: one comparison of fixed length.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline]
fn is_plain(row: &Row) -> bool {
    *row == [1; SOURCE_PACKETS_MAX]
}

/// Defines an engine that runs the shared kernel on one vector type, compiled with the named features.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vector_engine {
    ($vector:ty, features: $features:literal, name: $name:literal, needs: $needs:literal, available: $available:expr) => {
        pub(super) const IMPLEMENTATION: super::Implementation = super::Implementation {
            name: $name,
            needs: $needs,
            is_available: $available,
            combine,
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
            let mut rest = (coefficients, outputs);
            while !rest.1.is_empty() {
                let count = rest.1.len().min(super::kernel::ROWS);
                let (rows, rows_rest) = rest.0.split_at(count);
                let (outputs, outputs_rest) = rest.1.split_at_mut(count);
                rest = (rows_rest, outputs_rest);
                let span = span.clone();
                // SAFETY: each call has as many rows as the group has outputs; the rest are the caller's promises.
                unsafe {
                    match (count, super::is_plain(&rows[0])) {
                        (1, true) => combine_rows::<1, 8, true>(rows, inputs, outputs, span),
                        (1, false) => combine_rows::<1, 8, false>(rows, inputs, outputs, span),
                        (2, true) => combine_rows::<2, 4, true>(rows, inputs, outputs, span),
                        (2, false) => combine_rows::<2, 4, false>(rows, inputs, outputs, span),
                        (3, true) => combine_rows::<3, 2, true>(rows, inputs, outputs, span),
                        (3, false) => combine_rows::<3, 2, false>(rows, inputs, outputs, span),
                        (_, true) => combine_rows::<4, 2, true>(rows, inputs, outputs, span),
                        (_, false) => combine_rows::<4, 2, false>(rows, inputs, outputs, span),
                    }
                }
            }
        }

        /// A function of its own for each number of rows, so that a call only prepares what it uses.
        ///
        /// # Safety
        /// As [`super::kernel::combine_rows`].
        #[target_feature(enable = $features)]
        unsafe fn combine_rows<const R: usize, const T: usize, const PLAIN: bool>(
            rows: &[$crate::coefficients::Row],
            inputs: &[&[u8]],
            outputs: &mut [&mut [u8]],
            span: core::ops::Range<usize>,
        ) {
            // SAFETY: the caller's promises are the kernel's; this function has the vector's features.
            unsafe { super::kernel::combine_rows::<$vector, R, T, PLAIN>(rows, inputs, outputs, span) }
        }

        /// # Safety
        /// As [`super::AccumulateFn`].
        #[target_feature(enable = $features)]
        unsafe fn accumulate(coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
            // SAFETY: the caller's promises are the kernel's; this function has the vector's features.
            unsafe { super::kernel::accumulate::<$vector>(coefficients, input, outputs) }
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use vector_engine;
