//! Bare loop that only reads the source packets: the minimum work of any coder.

#![allow(unsafe_code, reason = "the loop uses the widest loads there are, as the engines do")]

use std::hint::black_box;

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

pub(super) struct ReadLoop {
    source_packets: usize,
}

impl ReadLoop {
    pub(super) fn new(shape: &Shape) -> Self {
        Self { source_packets: shape.source_packets }
    }
}

impl Contender for ReadLoop {
    type EncodeInput<'a> = Vec<&'a [u8]>;
    type DecodeInput<'a> = Vec<&'a [u8]>;

    const SIDE: Side = Side::Peer;
    const RESTORES: bool = false;

    fn name(&self) -> &'static str {
        "read-loop"
    }

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> Vec<&'a [u8]> {
        batches.into_iter().flat_map(|batch| batch.sources).map(|source| &*source).collect()
    }

    fn encode(&mut self, sources: &mut Vec<&[u8]>) {
        sources.chunks_exact(self.source_packets).for_each(read);
    }

    fn prepare_decode<'a>(&self, batches: Vec<Batch<'a>>) -> Vec<&'a [u8]> {
        self.prepare_encode(batches)
    }

    fn decode(&mut self, sources: &mut Vec<&[u8]>) {
        self.encode(sources);
    }
}

/// Reads every byte of a batch's source packets.
#[cfg(target_arch = "x86_64")]
fn read(batch: &[&[u8]]) {
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
        // SAFETY: the processor has the features.
        unsafe { read_avx512(batch) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        unsafe { read_avx2(batch) }
    } else {
        read_words(batch);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read(batch: &[&[u8]]) {
    read_words(batch);
}

/// Reads with four independent results, because a load should not wait for the previous one.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn read_avx512(batch: &[&[u8]]) {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_maskz_loadu_epi8, _mm512_or_si512, _mm512_setzero_si512,
    };
    let mut seen = [_mm512_setzero_si512(); 4];
    for packet in batch {
        let (tiles, rest) = packet.as_chunks::<256>();
        for tile in tiles {
            for (i, seen) in seen.iter_mut().enumerate() {
                // SAFETY: the tile has four vectors of 64 bytes.
                *seen =
                    _mm512_or_si512(*seen, unsafe { _mm512_loadu_si512(tile.as_ptr().add(64 * i).cast()) });
            }
        }
        for (vector, seen) in rest.chunks(64).zip(&mut seen) {
            let mask = u64::MAX >> (64 - vector.len());
            // SAFETY: the mask selects the bytes that are there.
            *seen = _mm512_or_si512(*seen, unsafe { _mm512_maskz_loadu_epi8(mask, vector.as_ptr().cast()) });
        }
    }
    black_box(seen);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn read_avx2(batch: &[&[u8]]) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_or_si256, _mm256_setzero_si256};
    let mut seen = [_mm256_setzero_si256(); 4];
    for packet in batch {
        let (tiles, rest) = packet.as_chunks::<128>();
        for tile in tiles {
            for (i, seen) in seen.iter_mut().enumerate() {
                // SAFETY: the tile has four vectors of 32 bytes.
                *seen =
                    _mm256_or_si256(*seen, unsafe { _mm256_loadu_si256(tile.as_ptr().add(32 * i).cast()) });
            }
        }
        read_words(&[rest]);
    }
    black_box(seen);
}

fn read_words(batch: &[&[u8]]) {
    for packet in batch {
        let (words, rest) = packet.as_chunks::<8>();
        let rest = rest.iter().fold(0, |seen, byte| seen | byte);
        black_box((words.iter().fold(0, |seen, word| seen | u64::from_ne_bytes(*word)), rest));
    }
}
