//! Coding allocates nothing after its start.

mod support;

use byway_code::{AlignedBuffer, Encoder, decode, encode};
use byway_units::BatchId;
use support::engines;

const BATCH: BatchId = BatchId::new(3);

fn allocations(run: impl FnOnce()) -> u64 {
    allocation_counter::measure(run).count_total
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
}

#[test]
fn coding_packets_of_one_length_allocates_nothing() {
    check((0..10).map(|i| vec![i; 1_200]).collect::<Vec<_>>().as_slice());
}

#[test]
fn coding_packets_of_ten_lengths_allocates_nothing() {
    check((0..10).map(|i| vec![i; 1_100 + 10 * usize::from(i)]).collect::<Vec<_>>().as_slice());
}

fn check(packets: &[Vec<u8>]) {
    for engine in engines() {
        let sources: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut payloads = [AlignedBuffer::new(1_200), AlignedBuffer::new(1_200)];
        let mut encoder = Encoder::new(engine, [AlignedBuffer::new(1_200), AlignedBuffer::new(1_200)])
            .expect("two repair packets are few enough");
        let mut received: Vec<_> = sources.iter().copied().map(Some).collect();
        (received[3], received[8]) = (None, None);
        let mut buffers = [[0; 1_200]; 2];
        let mut restored = 0;
        let count = allocations(|| {
            let at_once = encode(engine, &sources, &mut payloads).expect("the batch is valid");
            for _ in 0..3 {
                encoder.restart();
                for source in &sources {
                    encoder.add(source).expect("the batch is valid");
                }
            }
            let mut repairs = at_once.repairs(BATCH, &payloads).zip(encoder.repairs(BATCH));
            let (first, second) = (repairs.next().expect("two"), repairs.next().expect("two"));
            let recovered = decode(engine, &received, &[first.1, second.0], &mut buffers);
            restored = recovered.expect("two losses, two repair packets").count();
        });
        assert_eq!((count, restored), (0, 2), "{engine}");
    }
}
