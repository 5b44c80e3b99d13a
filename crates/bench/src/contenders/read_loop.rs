//! The bound: a loop that reads the source packets and does nothing else.

#![allow(unsafe_code, reason = "the loop uses the widest loads there are, as the engines do")]

use std::hint::black_box;

use crate::contender::{Batch, Contender, Side};

pub(super) struct ReadLoop;

impl Contender for ReadLoop {
    type Encode<'a> = Vec<&'a [u8]>;
    type Decode<'a> = Vec<&'a [u8]>;

    const SIDE: Side = Side::Peer;
    const RESTORES: bool = false;

    fn name(&self) -> &'static str {
        "read-loop"
    }

    fn prepare_encode<'a>(&self, batch: Batch<'a>) -> Vec<&'a [u8]> {
        batch.sources.into_iter().map(|source| &*source).collect()
    }

    fn encode(&mut self, sources: &mut Vec<&[u8]>) {
        for source in sources.iter() {
            read(source);
        }
    }

    fn prepare_decode<'a>(&self, batch: Batch<'a>) -> Vec<&'a [u8]> {
        self.prepare_encode(batch)
    }

    fn decode(&mut self, sources: &mut Vec<&[u8]>) {
        self.encode(sources);
    }
}

#[cfg(target_arch = "x86_64")]
fn read(packet: &[u8]) {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the feature.
        unsafe { read_avx512(packet) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        unsafe { read_avx2(packet) }
    } else {
        read_words(packet);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read(packet: &[u8]) {
    read_words(packet);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn read_avx512(packet: &[u8]) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_or_si512, _mm512_setzero_si512};
    let mut seen = _mm512_setzero_si512();
    let vectors = packet.chunks_exact(64);
    read_words(vectors.remainder());
    for vector in vectors {
        // SAFETY: the chunk has the vector's 64 bytes.
        seen = _mm512_or_si512(seen, unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) });
    }
    black_box(seen);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn read_avx2(packet: &[u8]) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_or_si256, _mm256_setzero_si256};
    let mut seen = _mm256_setzero_si256();
    let vectors = packet.chunks_exact(32);
    read_words(vectors.remainder());
    for vector in vectors {
        // SAFETY: the chunk has the vector's 32 bytes.
        seen = _mm256_or_si256(seen, unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) });
    }
    black_box(seen);
}

fn read_words(packet: &[u8]) {
    let words = packet.chunks_exact(8);
    let rest = words.remainder().iter().fold(0, |seen, byte| seen | byte);
    let seen = words.fold(0, |seen, word| seen | u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    black_box((seen, rest));
}
