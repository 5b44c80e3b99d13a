//! Comparison of every engine with the definition, at every shape, length and alignment.

mod support;

use byway_code::{
    Encoder, Engine, LengthSymbol, REPAIR_PACKETS_MAX, Repair, SOURCE_PACKETS_MAX, decode, encode,
};
use byway_units::BatchId;
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;
use support::{OffsetBuffer, below, choose, engines, engines_from, oracle, random};

const LENGTHS: [usize; 6] = [0, 1, 63, 64, 65, 1_500];
const BATCH: BatchId = BatchId::new(1);

type RepairPackets = Vec<(LengthSymbol, Vec<u8>)>;

/// Random packets at random offsets, and their repair packets by definition.
struct Batch {
    packets: Vec<OffsetBuffer>,
    repairs: usize,
    repair_packets: RepairPackets,
    /// The repair packets of the first half of the batch.
    repair_packets_of_half: RepairPackets,
}

impl Batch {
    fn random(lengths: &[usize], repairs: usize, random: &mut Pcg64Mcg) -> Self {
        let buffer = |length: &usize| OffsetBuffer::random(*length, below(64, random), random);
        Self::of(lengths.iter().map(buffer).collect(), repairs)
    }

    fn of(packets: Vec<OffsetBuffer>, repairs: usize) -> Self {
        let sources: Vec<_> = packets.iter().map(AsRef::as_ref).collect();
        let coded = oracle(&sources, repairs);
        let coded_half = oracle(&sources[..sources.len().div_ceil(2)], repairs);
        Self { packets, repairs, repair_packets: coded, repair_packets_of_half: coded_half }
    }

    fn sources(&self) -> Vec<&[u8]> {
        self.packets.iter().map(AsRef::as_ref).collect()
    }

    fn longest(&self) -> usize {
        self.repair_packets[0].1.len()
    }

    fn check_engines(&self, random: &mut Pcg64Mcg) {
        for engine in engines() {
            self.check(engine, random);
        }
    }

    fn check(&self, engine: Engine, random: &mut Pcg64Mcg) {
        self.check_encode(engine, random);
        self.check_incremental(engine, random);
        for lost in 1..=self.repairs.min(self.packets.len()) {
            self.check_decode(engine, lost, random);
        }
    }

    /// Encodes at once and checks every byte, those around the payloads included.
    fn check_encode(&self, engine: Engine, random: &mut Pcg64Mcg) {
        let longest = self.longest();
        let mut payloads = self.buffers(self.repairs, random);
        let around: Vec<_> = payloads.iter().map(|payload| payload.except(longest)).collect();
        let encoded = encode(engine, &self.sources(), &mut payloads).expect("the batch is valid");
        assert_eq!((encoded.source_packets(), encoded.payload_bytes()), (self.packets.len(), longest));
        for (i, (length_symbol, payload)) in self.repair_packets.iter().enumerate() {
            assert_eq!(encoded.length_symbols()[i], *length_symbol, "{engine}: length symbol {i}");
            assert!(payloads[i].as_ref()[..longest] == *payload, "{engine}: payload {i}");
            assert!(payloads[i].except(longest) == around[i], "{engine}: around payload {i}");
        }
    }

    /// Encodes packet by packet, twice in the same buffers, and checks the half and the whole of
    /// the batch, and every byte around the payloads.
    fn check_incremental(&self, engine: Engine, random: &mut Pcg64Mcg) {
        let payloads = self.buffers(self.repairs, random);
        let around: Vec<_> = payloads.iter().map(|payload| payload.except(self.longest())).collect();
        let mut encoder = Encoder::new(engine, payloads).expect("the shape is valid");
        for _ in 0..2 {
            assert_eq!(encoder.repairs(BATCH).count(), 0, "nothing is covered yet");
            for (i, source) in self.sources().into_iter().enumerate() {
                assert_eq!(encoder.add(source), Ok(i));
                if i + 1 == self.packets.len().div_ceil(2) {
                    assert!(repairs_of(&encoder) == self.repair_packets_of_half, "{engine}: half the batch");
                }
            }
            assert!(repairs_of(&encoder) == self.repair_packets, "{engine}: the whole batch");
            encoder.restart();
        }
        for (payload, around) in encoder.into_payloads().iter().zip(around) {
            assert!(payload.except(self.longest()) == around, "{engine}: around an incremental payload");
        }
    }

    /// Returns buffers that are a little longer than necessary, at random offsets.
    fn buffers(&self, count: usize, random: &mut Pcg64Mcg) -> Vec<OffsetBuffer> {
        let spare = below(3, random);
        (0..count).map(|_| OffsetBuffer::random(self.longest() + spare, below(64, random), random)).collect()
    }

    /// Loses as many packets as chosen repair packets can restore, and restores them.
    fn check_decode(&self, engine: Engine, lost: usize, random: &mut Pcg64Mcg) {
        let sources = self.sources();
        let mut losses = choose(lost, sources.len(), random);
        losses.sort_unstable();
        let mut received: Vec<_> = sources.iter().copied().map(Some).collect();
        for index in &losses {
            received[*index] = None;
        }
        let repair = |index: usize| Repair {
            batch: BATCH,
            index,
            source_packets: sources.len(),
            length_symbol: self.repair_packets[index].0,
            payload: &self.repair_packets[index].1,
        };
        let repairs: Vec<_> = choose(lost, self.repairs, random).into_iter().map(repair).collect();
        let mut buffers = self.buffers(lost, random);
        let around: Vec<_> = buffers.iter().map(|buffer| buffer.except(self.longest())).collect();
        let recovered =
            decode(engine, &received, &repairs, &mut buffers).expect("the losses are within reach");
        let restored: Vec<_> = recovered.packets(&buffers).collect();
        let sent: Vec<_> = losses.iter().map(|index| (*index, sources[*index])).collect();
        assert!(restored == sent, "{engine}: {lost} lost");
        for (buffer, around) in buffers.iter().zip(around) {
            assert!(buffer.except(self.longest()) == around, "{engine}: around a restored packet");
        }
    }
}

fn repairs_of(encoder: &Encoder<OffsetBuffer>) -> RepairPackets {
    encoder.repairs(BATCH).map(|repair| (repair.length_symbol, repair.payload.to_vec())).collect()
}

#[test]
fn every_engine_equals_the_definition_at_every_shape() {
    let mut random = random(1);
    for source_packets in 1..=SOURCE_PACKETS_MAX {
        for repair_packets in 1..=REPAIR_PACKETS_MAX {
            let batch = Batch::random(&vec![65; source_packets], repair_packets, &mut random);
            batch.check_engines(&mut random);
        }
    }
}

#[test]
fn every_engine_equals_the_definition_at_every_length() {
    let mut random = random(2);
    for length in (0..=300).chain([511, 512, 513, 1_199, 1_200, 1_499, 1_500]) {
        for repair_packets in [1, 2, 3, 5] {
            Batch::random(&[length; 3], repair_packets, &mut random).check_engines(&mut random);
        }
    }
}

#[test]
fn every_engine_equals_the_definition_at_every_alignment() {
    let mut random = random(3);
    for offset in 0..64 {
        let buffer = |i: usize| OffsetBuffer::random(200, (offset + i * 7) % 64, &mut random);
        let batch = Batch::of((0..4).map(buffer).collect(), 3);
        batch.check_engines(&mut random);
    }
}

#[test]
fn the_longest_packets_are_coded_too() {
    let mut random = random(5);
    let longest = byway_code::PACKET_BYTES_MAX;
    Batch::random(&[longest, 70, longest - 1], 2, &mut random).check_engines(&mut random);
}

#[test]
fn a_forced_engine_is_the_only_one_tested() {
    for engine in Engine::available() {
        assert_eq!(engines_from(Some(engine.name())), [engine]);
    }
    assert!(engines_from(None).len() >= 2, "naive and table run anywhere");
}

#[test]
#[should_panic(expected = "BYWAY_ENGINE: unknown engine")]
fn an_engine_that_does_not_exist_cannot_be_forced() {
    engines_from(Some("mmx"));
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let one = prop_oneof![3 => prop::sample::select(&LENGTHS[..]), 1 => 0_usize..1_500];
    let mixed = prop::collection::vec(one, 1..=SOURCE_PACKETS_MAX);
    let even = (prop::sample::select(&LENGTHS[..]), 1..=SOURCE_PACKETS_MAX);
    prop_oneof![2 => mixed, 1 => even.prop_map(|(length, count)| vec![length; count])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_engine_equals_the_definition_on_random_batches(
        lengths in lengths(),
        repairs in 1..=REPAIR_PACKETS_MAX,
        seed: u64,
    ) {
        let mut random = random(seed);
        let batch = Batch::random(&lengths, repairs, &mut random);
        batch.check_engines(&mut random);
    }
}
