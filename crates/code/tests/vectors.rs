//! The published test vectors, made by the implementation in `docs/block-code-vectors.py`.

mod support;

use byway_code::{Repair, SOURCE_PACKETS_MAX, coefficient, decode, encode};
use byway_units::BatchId;
use support::engines;

const VECTORS: &str = include_str!("../../../docs/block-code-vectors.txt");

#[derive(Default)]
struct Batch {
    name: String,
    sources: Vec<Vec<u8>>,
    repairs: Vec<([u8; 2], Vec<u8>)>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim_start_matches('-').as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = str::from_utf8(pair).expect("vectors are ASCII");
            u8::from_str_radix(pair, 16).expect("vectors are hexadecimal")
        })
        .collect()
}

fn batches() -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for line in VECTORS.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match (words.as_slice(), batches.last_mut()) {
            ([] | ["#" | "coefficients", ..], _) => {}
            (["batch", name], _) => batches.push(Batch { name: (*name).to_owned(), ..Batch::default() }),
            (["source", source], Some(batch)) => batch.sources.push(bytes(source)),
            (["repair", index, length_symbol, payload], Some(batch)) => {
                assert_eq!(*index, batch.repairs.len().to_string(), "repair packets are in order");
                let length_symbol = bytes(length_symbol).try_into().expect("a length symbol has two bytes");
                batch.repairs.push((length_symbol, bytes(payload)));
            }
            _ => panic!("not a vector: {line}"),
        }
    }
    batches
}

#[test]
fn coefficients_are_the_published_ones() {
    let rows: Vec<_> = VECTORS.lines().filter_map(|line| line.strip_prefix("coefficients ")).collect();
    assert_eq!(rows.len(), 8);
    for (row, line) in rows.into_iter().enumerate() {
        let (number, hex) = line.split_once(' ').expect("a row has a number and its coefficients");
        assert_eq!(number, row.to_string());
        let expected: Vec<_> = (0..SOURCE_PACKETS_MAX).map(|column| coefficient(row, column)).collect();
        assert_eq!(bytes(hex), expected, "row {row}");
    }
}

#[test]
fn batches_encode_to_the_published_bytes() {
    assert_eq!(batches().len(), 6);
    for (engine, batch) in
        engines().into_iter().flat_map(|engine| batches().into_iter().map(move |b| (engine, b)))
    {
        let sources: Vec<_> = batch.sources.iter().map(Vec::as_slice).collect();
        let mut payloads: Vec<_> =
            batch.repairs.iter().map(|(_, payload)| vec![0xAA; payload.len()]).collect();
        let encoded = encode(engine, &sources, &mut payloads).expect("vectors are valid");
        let symbols = encoded.length_symbols().iter().copied();
        let repairs: Vec<_> = symbols.zip(payloads).collect();
        assert_eq!(repairs, batch.repairs, "{engine}: {}", batch.name);
    }
}

#[test]
fn published_repair_packets_restore_the_published_packets() {
    for (engine, batch) in
        engines().into_iter().flat_map(|engine| batches().into_iter().map(move |b| (engine, b)))
    {
        let sources: Vec<_> = batch.sources.iter().map(Vec::as_slice).collect();
        let lost = batch.repairs.len().min(sources.len());
        let received: Vec<_> = (0..sources.len()).map(|i| (i >= lost).then(|| sources[i])).collect();
        let repairs = batch.repairs.iter().enumerate().map(|(index, (length_symbol, payload))| Repair {
            batch: BatchId::new(0),
            index,
            source_packets: sources.len(),
            length_symbol: *length_symbol,
            payload,
        });
        let repairs: Vec<_> = repairs.collect();
        let mut buffers = vec![vec![0xAA; batch.repairs[0].1.len()]; lost];
        let recovered = decode(engine, &received, &repairs, &mut buffers).expect("vectors are decodable");
        let restored: Vec<_> = recovered.packets(&buffers).map(|(_, packet)| packet).collect();
        assert_eq!(restored, sources[..lost], "{engine}: {}", batch.name);
    }
}
