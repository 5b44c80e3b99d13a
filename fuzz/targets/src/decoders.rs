//! The block code's decoder, given repair packets that do not belong together.

use byway_code::{AlignedBuffer, Encoder, Engine, REPAIR_PACKETS_MAX, Repair, SOURCE_PACKETS_MAX, decode};
use byway_units::BatchId;

use crate::harness::input::Input;

/// What stands in a repair packet, changed as the input says.
#[derive(Clone, Debug)]
struct Told {
    batch: u32,
    index: usize,
    source_packets: usize,
    length_symbol: [u8; 2],
    payload: Vec<u8>,
}

/// Decodes a block of which packets are lost with repair packets that the input has changed.
///
/// # Panics
/// If decoding does, if what nobody changed is not restored, or if too much is.
pub fn decoders(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sources = sources(&mut input);
    let (mut repairs, is_lost) = (told(&sources, &mut input), input.long());
    let mut changed = false;
    while !input.is_empty() {
        changed |= change(&mut repairs, &mut input);
    }
    let kept: Vec<Option<&[u8]>> = (0_u32..)
        .zip(&sources)
        .map(|(place, source)| (is_lost >> place & 1 == 0).then_some(source.as_slice()))
        .collect();
    let given: Vec<Repair<'_>> = repairs.iter().map(Told::as_repair).collect();
    let mut buffers: Vec<AlignedBuffer> =
        (0..REPAIR_PACKETS_MAX).map(|_| AlignedBuffer::new(2_048)).collect();
    let lost = kept.iter().filter(|source| source.is_none()).count();
    match decode(Engine::fastest(), &kept, &given, &mut buffers) {
        Ok(recovered) => {
            assert_eq!(recovered.count(), lost);
            for (place, packet) in recovered.packets(&buffers) {
                assert!(kept[place].is_none() && packet.len() <= 2_048);
                assert!(changed || packet == sources[place], "packet {place} is not what it was");
            }
        }
        Err(error) => assert!(changed || lost > given.len(), "{error}"),
    }
}

fn sources(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let count = 1 + input.below(SOURCE_PACKETS_MAX);
    (0..count)
        .map(|place| {
            let (length, fill) = (input.length().min(2_048), input.byte());
            let place = u8::try_from(place).expect("there are few packets");
            (0..length).map(|at| fill.wrapping_mul(at.to_le_bytes()[0]).wrapping_add(place)).collect()
        })
        .collect()
}

fn told(sources: &[Vec<u8>], input: &mut Input<'_>) -> Vec<Told> {
    let payloads = (0..=input.below(REPAIR_PACKETS_MAX)).map(|_| AlignedBuffer::new(2_048));
    let mut encoder = Encoder::new(Engine::fastest(), payloads).expect("there are few repair packets");
    for source in sources {
        encoder.add(source).expect("the packets are few and short");
    }
    let repairs = encoder.repairs(BatchId::new(1));
    repairs
        .map(|repair| Told {
            batch: 1,
            index: repair.index,
            source_packets: repair.source_packets,
            length_symbol: repair.length_symbol,
            payload: repair.payload.to_vec(),
        })
        .collect()
}

/// Changes one repair packet; whether it is another one now.
fn change(repairs: &mut Vec<Told>, input: &mut Input<'_>) -> bool {
    if repairs.is_empty() {
        input.byte();
        return false;
    }
    let place = input.below(repairs.len());
    let repair = &mut repairs[place];
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
            // To lose a repair packet is nobody's lie, and to repeat one is.
            let repair = repairs.remove(place);
            if input.byte() < 128 {
                return false;
            }
            repairs.push(repair.clone());
            repairs.push(repair);
        }
    }
    true
}

impl Told {
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
