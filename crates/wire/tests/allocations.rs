//! Reading and writing legal or illegal bytes does not allocate.

mod support;

use byway_wire::{Grant, Message, Messages, Packet, Writer};
use support::vectors::all;

/// Counts allocations, and the packets and messages that were read and rejected.
fn measured(mut inputs: Vec<Vec<u8>>) -> (u64, [usize; 2]) {
    let mut counts = [0; 2];
    let mut buffer = vec![0; 2_000];
    let allocations = allocation_counter::measure(|| {
        for bytes in &mut inputs {
            for message in Messages::new(bytes) {
                counts[usize::from(message.is_err())] += 1;
                let mut writer = Writer::new(&mut buffer);
                let _ = message.map(|message: Message<'_>| message.emit(&mut writer));
            }
            counts[usize::from(Grant::parse(bytes).is_err())] += 1;
            counts[usize::from(Packet::parse(bytes).is_err())] += 1;
        }
    });
    (allocations.count_total, counts)
}

#[test]
fn reading_and_writing_allocate_nothing() {
    let inputs: Vec<_> = all().into_iter().map(|vector| vector.bytes).collect();
    let (allocations, [read, refused]) = measured(inputs);
    assert_eq!(allocations, 0);
    assert!(read > 50 && refused > 50, "{read} read, {refused} refused");
}

#[test]
fn the_counter_counts() {
    let count = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(7)))).count_total;
    assert_eq!(count, 1);
}
