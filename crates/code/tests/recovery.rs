//! Any `k` of the `k + r` packets of a batch are enough, and one fewer is refused.

mod support;

use byway_code::{DecodeError, Engine, Repair, decode, encode};
use byway_units::BatchId;
use support::{choose, engines, random};

const BATCH: BatchId = BatchId::new(9);

/// A batch of `source_packets` packets of different lengths.
fn batch(source_packets: usize) -> Vec<Vec<u8>> {
    let packet = |i: usize| {
        (0..3 + i * 5 % 7).map(|j| u8::try_from((i * 41 + j * 17 + 5) % 256).expect("reduced")).collect()
    };
    (0..source_packets).map(packet).collect()
}

/// Drops the packets for which `survives` is false (source packets first) and restores the rest;
/// returns the number of restored packets.
fn survive(engine: Engine, sources: &[Vec<u8>], repairs: usize, survives: impl Fn(usize) -> bool) -> usize {
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut payloads = vec![vec![0; 10]; repairs];
    let encoded = encode(engine, &sources, &mut payloads).expect("the batch is valid");
    let arrived: Vec<Repair<'_>> =
        encoded.repairs(BATCH, &payloads).filter(|repair| survives(sources.len() + repair.index)).collect();
    let received: Vec<_> =
        sources.iter().enumerate().map(|(i, source)| survives(i).then_some(*source)).collect();
    let mut buffers = vec![vec![0xAA; 10]; received.iter().filter(|source| source.is_none()).count()];
    let recovered = decode(engine, &received, &arrived, &mut buffers).expect("enough packets survive");
    assert_eq!(recovered.count(), buffers.len(), "{engine}: every lost packet is repaired");
    for (index, packet) in recovered.packets(&buffers) {
        assert_eq!(packet, sources[index], "{engine}: source packet {index}");
    }
    recovered.count()
}

#[test]
fn any_k_of_small_batches_are_enough() {
    let mut restored = 0;
    for engine in engines() {
        for (source_packets, repairs) in (1..=6_usize).flat_map(|k| (1..=4_usize).map(move |r| (k, r))) {
            let sources = batch(source_packets);
            for pattern in 0..1_u32 << (source_packets + repairs) {
                if usize::try_from(pattern.count_ones()) == Ok(source_packets) {
                    restored += survive(engine, &sources, repairs, |packet| pattern >> packet & 1 == 1);
                }
            }
        }
    }
    assert!(restored > 0, "something was repaired");
}

#[test]
fn any_k_of_large_batches_are_enough() {
    let mut random = random(4);
    let mut restored = 0;
    for engine in engines() {
        for (source_packets, repairs) in [(10, 2), (20, 2), (32, 1), (32, 8), (31, 7), (8, 8)] {
            let sources = batch(source_packets);
            for _ in 0..300 {
                let survivors = choose(source_packets, source_packets + repairs, &mut random);
                restored += survive(engine, &sources, repairs, |packet| survivors.contains(&packet));
            }
        }
    }
    assert!(restored > 0, "something was repaired");
}

#[test]
fn one_packet_too_few_is_refused() {
    let sources = batch(5);
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut payloads = [[0; 10]; 2];
    let [first, second] = &mut payloads;
    let encoded = encode(Engine::fastest(), &sources, &mut [first, second]).expect("the batch is valid");
    let repairs: Vec<_> = encoded.repairs(BATCH, &payloads).collect();
    let received = [None, Some(sources[1]), None, None, Some(sources[4])];
    let mut buffers = [[0xAA; 10]; 3];
    let refused = decode(Engine::fastest(), &received, &repairs, &mut buffers);
    assert_eq!(refused, Err(DecodeError::TooManyLost { lost: 3, repairs: 2 }));
    assert_eq!(buffers, [[0xAA; 10]; 3], "nothing is written");
}

#[test]
fn nothing_lost_needs_nothing() {
    let recovered =
        decode(Engine::fastest(), &[Some(b"here")], &[], &mut [[0; 0]; 0]).expect("nothing is lost");
    assert_eq!(recovered.count(), 0);
}

#[test]
fn spare_repair_packets_are_left_alone() {
    let sources: [&[u8]; 2] = [b"one", b"two"];
    let mut payloads = [[0; 3]; 3];
    let encoded = encode(Engine::fastest(), &sources, &mut payloads).expect("the batch is valid");
    let repairs: Vec<_> = encoded.repairs(BATCH, &payloads).collect();
    let mut buffer = [0; 3];
    let recovered = decode(Engine::fastest(), &[Some(b"one"), None], &repairs, &mut [&mut buffer]);
    assert_eq!(recovered.map(|recovered| recovered.count()), Ok(1));
    assert_eq!(&buffer, b"two");
}
