//! Errors of bad input: each names the item, the cause and the remedy.

use byway_code::{
    DecodeError, EncodeError, Encoder, Engine, EngineError, PACKET_BYTES_MAX, REPAIR_PACKETS_MAX, Repair,
    SOURCE_PACKETS_MAX, decode, encode,
};
use byway_units::BatchId;

const SOURCES: [&[u8]; 3] = [b"first", b"second", b"third"];

fn no_buffers() -> [[u8; 0]; 0] {
    []
}

fn try_encode(sources: &[&[u8]], payload_bytes: &[usize]) -> Result<(), EncodeError> {
    let mut payloads: Vec<_> = payload_bytes.iter().map(|bytes| vec![0xAA; *bytes]).collect();
    let encoded = encode(Engine::fastest(), sources, &mut payloads);
    if encoded.is_err() {
        assert!(payloads.iter().flatten().all(|byte| *byte == 0xAA), "nothing is written on an error");
    }
    encoded.map(drop)
}

#[test]
fn a_batch_needs_source_packets() {
    let error = try_encode(&[], &[10]).expect_err("there is nothing to code");
    assert_eq!(error, EncodeError::NoSourcePackets);
    assert_eq!(error.to_string(), "batch without source packets: add at least one");
}

#[test]
fn a_batch_has_a_limit() {
    let sources = vec![&b"packet"[..]; SOURCE_PACKETS_MAX + 1];
    let error = try_encode(&sources, &[10]).expect_err("the batch is too large");
    assert_eq!(error, EncodeError::TooManySourcePackets { count: 33 });
    assert_eq!(
        error.to_string(),
        "too many source packets in a batch, 33: close it at 32, and start another"
    );
}

#[test]
fn repair_packets_have_bounds() {
    assert_eq!(try_encode(&SOURCES, &[]), Err(EncodeError::NoRepairPackets));
    let too_many = vec![10; REPAIR_PACKETS_MAX + 1];
    assert_eq!(try_encode(&SOURCES, &too_many), Err(EncodeError::TooManyRepairPackets { count: 9 }));
}

#[test]
fn a_packet_over_the_limit_is_named() {
    let long = vec![0; PACKET_BYTES_MAX + 1];
    let error = try_encode(&[b"short", &long], &[100_000, 100_000]).expect_err("the packet is too long");
    assert_eq!(error, EncodeError::PacketTooLong { index: 1, bytes: 65_536 });
    assert_eq!(error.to_string(), "source packet 1 too long, 65536 bytes: the limit is 65535");
    assert_eq!(try_encode(&[&long[1..]], &[65_535]), Ok(()), "the limit itself is allowed");
}

#[test]
fn a_buffer_too_short_is_named_with_the_packet_that_needs_it() {
    let error = try_encode(&SOURCES, &[6, 5]).expect_err("the second buffer is too short");
    let expected = EncodeError::BufferTooShort { index: 1, bytes: 5, source_index: 1, needed: 6 };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "buffer of repair packet 1 too short, 5 bytes: source packet 1 needs 6");
}

#[test]
fn a_refused_packet_leaves_the_batch_as_it_was() {
    let mut encoder = Encoder::new(Engine::fastest(), [vec![0; 6]]).expect("one repair packet is fine");
    encoder.add(b"first").expect("it fits");
    let refused = encoder.add(b"seventh");
    assert_eq!(refused, Err(EncodeError::BufferTooShort { index: 0, bytes: 6, source_index: 1, needed: 7 }));
    assert_eq!(encoder.encoded().source_packets(), 1);
    let repairs: Vec<_> = encoder.repairs(BatchId::new(1)).collect();
    assert_eq!(repairs[0].payload, b"first");
}

#[test]
fn an_encoder_refuses_a_packet_too_many_and_goes_on_after_a_restart() {
    let mut encoder = Encoder::new(Engine::fastest(), [vec![0; 6]]).expect("one repair packet is fine");
    for _ in 0..SOURCE_PACKETS_MAX {
        encoder.add(b"packet").expect("the batch has room");
    }
    assert_eq!(encoder.add(b"packet"), Err(EncodeError::TooManySourcePackets { count: 33 }));
    encoder.restart();
    assert_eq!(encoder.add(b"packet"), Ok(0));
    assert_eq!(encoder.into_payloads().len(), 1);
    assert!(matches!(Encoder::<Vec<u8>>::new(Engine::fastest(), []), Err(EncodeError::NoRepairPackets)));
}

/// The first two repair packets of `SOURCES`, in batch 1.
fn repairs(payloads: &mut [[u8; 6]; 2]) -> [Repair<'_>; 2] {
    let encoded = encode(Engine::fastest(), &SOURCES, payloads).expect("the batch is valid");
    let symbols = [encoded.length_symbols()[0], encoded.length_symbols()[1]];
    [0, 1].map(|index| Repair {
        batch: BatchId::new(1),
        index,
        source_packets: 3,
        length_symbol: symbols[index],
        payload: &payloads[index],
    })
}

/// Decodes with the first and the last source packet lost.
fn try_decode(repairs: &[Repair<'_>]) -> Result<usize, DecodeError> {
    let mut buffers = [[0xAA; 6]; 2];
    let recovered = decode(Engine::fastest(), &[None, Some(SOURCES[1]), None], repairs, &mut buffers);
    if !matches!(recovered, Ok(_) | Err(DecodeError::Inconsistent { .. })) {
        assert_eq!(buffers, [[0xAA; 6]; 2], "nothing is written on an error");
    }
    recovered.map(|recovered| recovered.count())
}

#[test]
fn too_many_losses_say_how_many() {
    let mut payloads = [[0; 6]; 2];
    let [first, second] = repairs(&mut payloads);
    assert_eq!(try_decode(&[first, second]), Ok(2));
    let error = try_decode(&[second]).expect_err("one repair packet cannot restore two");
    assert_eq!(error, DecodeError::TooManyLost { lost: 2, repairs: 1 });
    let text = "too many losses to restore: source packets lost: 2, repair packets arrived: 1";
    assert_eq!(error.to_string(), text);
    assert_eq!(try_decode(&[]), Err(DecodeError::TooManyLost { lost: 2, repairs: 0 }));
}

#[test]
fn repair_packets_of_different_batches_are_refused() {
    let mut payloads = [[0; 6]; 2];
    let [first, second] = repairs(&mut payloads);
    let odd = Repair { batch: BatchId::new(2), ..second };
    let error = try_decode(&[first, odd]).expect_err("the batches differ");
    let (batch, other) = (BatchId::new(1), BatchId::new(2));
    assert_eq!(error, DecodeError::DifferentBatches { position: 1, batch, other });
    let text = "repair packet at position 1 belongs to batch 2, the one at position 0 to batch 1: \
                decode each batch separately";
    assert_eq!(error.to_string(), text);
}

#[test]
fn repair_packets_that_do_not_fit_together_are_refused() {
    let mut payloads = [[0; 6]; 2];
    let [first, second] = repairs(&mut payloads);
    let cases = [
        (
            Repair { source_packets: 4, ..second },
            DecodeError::DifferentCover { position: 1, covered: 4, expected: 3 },
        ),
        (
            Repair { payload: &second.payload[1..], ..second },
            DecodeError::DifferentLengths { position: 1, bytes: 5, expected: 6 },
        ),
        (Repair { index: 8, ..second }, DecodeError::RepairIndexOutOfRange { position: 1, index: 8 }),
        (Repair { index: 0, ..second }, DecodeError::RepeatedRepair { position: 1, index: 0 }),
    ];
    for (odd, expected) in cases {
        assert_eq!(try_decode(&[first, odd]), Err(expected));
    }
    let too_many = [first; REPAIR_PACKETS_MAX + 1];
    assert_eq!(try_decode(&too_many), Err(DecodeError::TooManyRepairPackets { count: 9 }));
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let long = vec![0; PACKET_BYTES_MAX + 1];
    let repair = |payload| Repair {
        batch: BatchId::new(1),
        index: 0,
        source_packets: 2,
        length_symbol: [0, 0],
        payload,
    };
    let too_long = decode(Engine::fastest(), &[None, Some(b"")], &[repair(&long)], &mut no_buffers());
    assert_eq!(too_long, Err(DecodeError::RepairTooLong { bytes: 65_536 }));
    let longer = decode(Engine::fastest(), &[None, Some(b"longer")], &[repair(b"short")], &mut no_buffers());
    assert_eq!(longer, Err(DecodeError::SourceTooLong { index: 1, bytes: 6, covered: 5 }));
}

#[test]
fn source_packets_have_bounds_when_decoding() {
    assert_eq!(decode(Engine::fastest(), &[], &[], &mut no_buffers()), Err(DecodeError::NoSourcePackets));
    let too_many = decode(Engine::fastest(), &[None; SOURCE_PACKETS_MAX + 1], &[], &mut no_buffers());
    assert_eq!(too_many, Err(DecodeError::TooManySourcePackets { count: 33 }));
}

#[test]
fn buffers_have_to_be_there_and_long_enough() {
    let mut payloads = [[0; 6]; 2];
    let repairs = repairs(&mut payloads);
    let received = [None, Some(SOURCES[1]), None];
    let mut buffer = [0; 6];
    let few = decode(Engine::fastest(), &received, &repairs, &mut [&mut buffer]);
    assert_eq!(few, Err(DecodeError::TooFewBuffers { lost: 2, buffers: 1 }));
    let mut short = [0; 5];
    let short = decode(Engine::fastest(), &received, &repairs, &mut [&mut buffer[..], &mut short]);
    assert_eq!(short, Err(DecodeError::BufferTooShort { position: 1, bytes: 5, needed: 6 }));
}

#[test]
fn a_damaged_length_or_padding_is_refused() {
    let mut payloads = [[0; 6]; 2];
    let [first, second] = repairs(&mut payloads);
    let damaged = Repair { length_symbol: [0x40, second.length_symbol[1]], ..second };
    let error = try_decode(&[first, damaged]).expect_err("the length is impossible");
    assert!(matches!(error, DecodeError::Inconsistent { index: 0, available: 6, .. }), "{error}");

    let mut last_byte_damaged = payloads[0];
    last_byte_damaged[5] ^= 1;
    let [first, second] = repairs(&mut payloads);
    let damaged = Repair { payload: &last_byte_damaged, ..first };
    let error = try_decode(&[damaged, second]).expect_err("the padding is not zero");
    assert!(matches!(error, DecodeError::Inconsistent { .. }), "{error}");
}

#[test]
fn a_foreign_packet_of_the_same_length_is_not_found_out() {
    let mut payloads = [[0; 6]; 2];
    let repairs = repairs(&mut payloads);
    let mut buffers = [[0; 6]; 2];
    let received = [None, Some(&b"forged"[..]), None];
    let recovered = decode(Engine::fastest(), &received, &repairs, &mut buffers).expect("it looks right");
    let wrong = recovered.packets(&buffers).all(|(index, packet)| packet != SOURCES[index]);
    assert!(wrong, "telling truth from lies is for the receiver's tag");
}

#[test]
fn engines_are_known_by_name_or_refused_with_the_reason() {
    for engine in Engine::available() {
        assert_eq!(engine.name().parse(), Ok(engine));
        assert_eq!(format!("{engine} {engine:?}"), format!("{0} Engine({0})", engine.name()));
    }
    let error = "mmx".parse::<Engine>().expect_err("there is no such engine");
    let text =
        "unknown engine \"mmx\": choose one of naive, table, ssse3, avx2, gfni-avx2, gfni-avx512, neon";
    assert_eq!(error.to_string(), text);
    let name = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    let error = name.parse::<Engine>().expect_err("the engine is for another architecture");
    assert_eq!(error, EngineError::Foreign { name });
    let remedy = "needs another processor architecture: leave the choice to Byway, or use naive or table";
    assert_eq!(error.to_string(), format!("engine {name} {remedy}"));
}
