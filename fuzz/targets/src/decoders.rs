//! Fuzz target: the block code's decoder, with inconsistent repair packets.

use byway_code::{AlignedBuffer, Encoder, Engine, REPAIR_PACKETS_MAX, Repair, SOURCE_PACKETS_MAX, decode};
use byway_units::BatchId;

use crate::harness::input::Input;

/// Fields of a repair packet, which the input changes.
#[derive(Clone, Debug)]
struct RepairFields {
    batch: u32,
    index: usize,
    source_packets: usize,
    length_symbol: [u8; 2],
    payload: Vec<u8>,
}

/// Decodes a block with losses from repair packets that the input has changed.
///
/// # Panics
/// - If the decoder panics.
/// - If a block with unchanged repair packets is not restored.
/// - If the decoder restores more or fewer packets than were lost.
pub fn decoders(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sources = sources(&mut input);
    let (mut repairs, is_lost) = (repair_fields(&sources, &mut input), input.long());
    let mut changed = false;
    while !input.is_empty() {
        changed |= change(&mut repairs, &mut input);
    }
    let received: Vec<Option<&[u8]>> = (0_u32..)
        .zip(&sources)
        .map(|(index, source)| (is_lost >> index & 1 == 0).then_some(source.as_slice()))
        .collect();
    let repair_packets: Vec<Repair<'_>> = repairs.iter().map(RepairFields::as_repair).collect();
    let mut buffers: Vec<AlignedBuffer> =
        (0..REPAIR_PACKETS_MAX).map(|_| AlignedBuffer::new(2_048)).collect();
    let lost = received.iter().filter(|source| source.is_none()).count();
    match decode(Engine::fastest(), &received, &repair_packets, &mut buffers) {
        Ok(recovered) => {
            assert_eq!(recovered.count(), lost);
            for (index, packet) in recovered.packets(&buffers) {
                assert!(received[index].is_none() && packet.len() <= 2_048);
                assert!(changed || packet == sources[index], "packet {index} is not what it was");
            }
        }
        Err(error) => assert!(changed || lost > repair_packets.len(), "{error}"),
    }
}

fn sources(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let count = 1 + input.below(SOURCE_PACKETS_MAX);
    (0..count)
        .map(|index| {
            let (length, fill) = (input.length().min(2_048), input.byte());
            let index = u8::try_from(index).expect("there are few packets");
            (0..length).map(|at| fill.wrapping_mul(at.to_le_bytes()[0]).wrapping_add(index)).collect()
        })
        .collect()
}

fn repair_fields(sources: &[Vec<u8>], input: &mut Input<'_>) -> Vec<RepairFields> {
    let payloads = (0..=input.below(REPAIR_PACKETS_MAX)).map(|_| AlignedBuffer::new(2_048));
    let mut encoder = Encoder::new(Engine::fastest(), payloads).expect("there are few repair packets");
    for source in sources {
        encoder.add(source).expect("the packets are few and short");
    }
    let repairs = encoder.repairs(BatchId::new(1));
    repairs
        .map(|repair| RepairFields {
            batch: 1,
            index: repair.index,
            source_packets: repair.source_packets,
            length_symbol: repair.length_symbol,
            payload: repair.payload.to_vec(),
        })
        .collect()
}

/// Changes one repair packet. Returns true if the set is no longer consistent.
fn change(repairs: &mut Vec<RepairFields>, input: &mut Input<'_>) -> bool {
    if repairs.is_empty() {
        input.byte();
        return false;
    }
    let index = input.below(repairs.len());
    let repair = &mut repairs[index];
    match input.byte() % 7 {
        0 => repair.batch = input.long(),
        1 => repair.index = input.below(10),
        2 => repair.source_packets = input.below(40),
        3 => repair.length_symbol = input.array(),
        4 => repair.payload.resize(input.length(), 7),
        5 => {
            let (at, by) = (usize::from(input.byte()) * 8, input.byte());
            if let Some(byte) = repair.payload.get_mut(at) {
                *byte ^= by;
            }
        }
        _ => {
            // A lost repair packet leaves the set consistent, and a duplicate does not.
            let repair = repairs.remove(index);
            if input.byte() < 128 {
                return false;
            }
            repairs.push(repair.clone());
            repairs.push(repair);
        }
    }
    true
}

impl RepairFields {
    fn as_repair(&self) -> Repair<'_> {
        Repair {
            batch: BatchId::new(self.batch),
            index: self.index,
            source_packets: self.source_packets,
            length_symbol: self.length_symbol,
            payload: &self.payload,
        }
    }
}
