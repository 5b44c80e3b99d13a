//! Gates: limits on the instructions for coding one batch, on the engines that valgrind can run.
//!
//! Valgrind supports neither AVX-512 nor GFNI on 32 bytes, so those engines have goals in the
//! comparison instead. Counts are independent of other work on the machine, so a regression fails
//! the run. Counts depend slightly on the compiler: each limit is the higher count of Rust 1.89 and
//! 1.95 plus five per cent. If an engine becomes faster, lower its limit.

#![allow(
    missing_docs,
    unused_qualifications,
    reason = "the benchmark macros generate public items and long paths"
)]

use std::hint::black_box;

use byway_code::{AlignedBuffer, Encoder, Engine, Repair, decode, encode};
use byway_units::BatchId;
use gungraun::prelude::*;
use gungraun::{Callgrind, EventKind};

const SOURCE_PACKETS: usize = 10;
const REPAIR_PACKETS: usize = 2;
const PACKET_BYTES: usize = 1_200;
const BATCH: BatchId = BatchId::new(1);

/// Batch of 10 source packets of 1200 bytes with 2 repair packets, and the memory to restore two
/// losses.
struct Batch {
    engine: Engine,
    sources: Vec<AlignedBuffer>,
    payloads: [AlignedBuffer; REPAIR_PACKETS],
    length_symbols: [[u8; 2]; REPAIR_PACKETS],
    restored: [AlignedBuffer; REPAIR_PACKETS],
    encoder: Encoder<AlignedBuffer>,
}

impl Batch {
    fn new(engine: &str) -> Self {
        Self::with_lengths(engine, |_| PACKET_BYTES)
    }

    /// Makes a batch whose source packets have ten different lengths, 10 bytes apart.
    fn uneven(engine: &str) -> Self {
        Self::with_lengths(engine, |index| PACKET_BYTES - 10 * index)
    }

    fn with_lengths(engine: &str, length: fn(usize) -> usize) -> Self {
        let engine: Engine = engine.parse().unwrap_or_else(|error| panic!("{error}"));
        let buffers = || [AlignedBuffer::new(PACKET_BYTES), AlignedBuffer::new(PACKET_BYTES)];
        let mut sources: Vec<_> =
            (0..SOURCE_PACKETS).map(|index| AlignedBuffer::new(length(index))).collect();
        for (i, byte) in sources.iter_mut().flat_map(AsMut::as_mut).enumerate() {
            *byte = u8::try_from(i * 31 % 256).unwrap_or_default();
        }
        let encoder = Encoder::new(engine, buffers()).unwrap_or_else(|error| panic!("{error}"));
        let mut batch = Self {
            engine,
            sources,
            payloads: buffers(),
            length_symbols: [[0; 2]; REPAIR_PACKETS],
            restored: buffers(),
            encoder,
        };
        // Loads every table before the count begins.
        batch.encode();
        batch
    }

    fn encode(&mut self) {
        let sources: [&[u8]; SOURCE_PACKETS] = std::array::from_fn(|i| self.sources[i].as_ref());
        let encoded =
            encode(self.engine, &sources, &mut self.payloads).unwrap_or_else(|error| panic!("{error}"));
        self.length_symbols.copy_from_slice(encoded.length_symbols());
    }

    /// Encodes only the first repair packet, which is the plain sum of the source packets.
    fn encode_one(&mut self) {
        let sources: [&[u8]; SOURCE_PACKETS] = std::array::from_fn(|i| self.sources[i].as_ref());
        let encoded = encode(self.engine, &sources, &mut self.payloads[..1]);
        assert_eq!(encoded.map(|encoded| encoded.length_symbols().len()), Ok(1));
    }

    fn encode_incrementally(&mut self) {
        self.encoder.restart();
        for source in &self.sources {
            self.encoder.add(source.as_ref()).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Restores source packets 2 and 7 of the batch.
    fn decode(&mut self) {
        let mut received: [_; SOURCE_PACKETS] = std::array::from_fn(|i| Some(self.sources[i].as_ref()));
        (received[2], received[7]) = (None, None);
        let repairs: [_; REPAIR_PACKETS] = std::array::from_fn(|index| Repair {
            batch: BATCH,
            index,
            source_packets: SOURCE_PACKETS,
            length_symbol: self.length_symbols[index],
            payload: self.payloads[index].as_ref(),
        });
        let recovered = decode(self.engine, &received, &repairs, &mut self.restored);
        assert_eq!(recovered.map(|recovered| recovered.count()), Ok(REPAIR_PACKETS));
    }
}

/// Returns the configuration of a benchmark that fails above this number of instructions.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark]
#[bench::naive(args = ("naive"), setup = Batch::new, config = at_most(2_980_000))]
#[bench::table(args = ("table"), setup = Batch::new, config = at_most(120_000))]
#[bench::ssse3(args = ("ssse3"), setup = Batch::new, config = at_most(12_700))]
#[bench::avx2(args = ("avx2"), setup = Batch::new, config = at_most(5_760))]
fn at_once(mut batch: Batch) -> Batch {
    black_box(&mut batch).encode();
    batch
}

#[library_benchmark]
#[bench::table(args = ("table"), setup = Batch::new, config = at_most(5_450))]
#[bench::ssse3(args = ("ssse3"), setup = Batch::new, config = at_most(3_130))]
#[bench::avx2(args = ("avx2"), setup = Batch::new, config = at_most(1_610))]
fn one_repair_packet(mut batch: Batch) -> Batch {
    black_box(&mut batch).encode_one();
    batch
}

#[library_benchmark]
#[bench::table(args = ("table"), setup = Batch::uneven, config = at_most(126_000))]
#[bench::ssse3(args = ("ssse3"), setup = Batch::uneven, config = at_most(21_000))]
#[bench::avx2(args = ("avx2"), setup = Batch::uneven, config = at_most(14_200))]
fn at_once_with_ten_lengths(mut batch: Batch) -> Batch {
    black_box(&mut batch).encode();
    batch
}

#[library_benchmark]
#[bench::naive(args = ("naive"), setup = Batch::new, config = at_most(2_780_000))]
#[bench::table(args = ("table"), setup = Batch::new, config = at_most(114_600))]
#[bench::ssse3(args = ("ssse3"), setup = Batch::new, config = at_most(20_700))]
#[bench::avx2(args = ("avx2"), setup = Batch::new, config = at_most(9_760))]
fn incrementally(mut batch: Batch) -> Batch {
    black_box(&mut batch).encode_incrementally();
    batch
}

#[library_benchmark]
#[bench::naive(args = ("naive"), setup = Batch::new, config = at_most(3_000_000))]
#[bench::table(args = ("table"), setup = Batch::new, config = at_most(232_000))]
#[bench::ssse3(args = ("ssse3"), setup = Batch::new, config = at_most(19_600))]
#[bench::avx2(args = ("avx2"), setup = Batch::new, config = at_most(9_690))]
fn two_lost(mut batch: Batch) -> Batch {
    black_box(&mut batch).decode();
    batch
}

library_benchmark_group!(
    name = encoding,
    benchmarks = [at_once, one_repair_packet, at_once_with_ten_lengths, incrementally]
);
library_benchmark_group!(name = decoding, benchmarks = [two_lost]);

main!(library_benchmark_groups = [encoding, decoding]);
