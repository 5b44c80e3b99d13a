//! Batches solved together.

use byway_code::{
    AlignedBuffer, Encoder, Engine, JOINT_EQUATIONS_MAX, JOINT_UNKNOWNS_MAX, JointDecoder, JointError,
    Repair, Source,
};
use byway_units::BatchId;
use proptest::prelude::*;

const PACKET_BYTES: usize = 200;

/// A repair packet, and the packets that it covers, by flow and time.
struct GridRepair {
    cover: Vec<(usize, usize)>,
    index: usize,
    length_symbol: [u8; 2],
    payload: Vec<u8>,
}

/// Packets in a grid of flows and times. There is one batch for each time, with two repair packets.
/// There is one block for each flow, with one repair packet from a row of its own.
struct Grid {
    packets: Vec<Vec<Vec<u8>>>,
    repairs: Vec<GridRepair>,
}

impl Grid {
    fn new(flows: usize, times: usize, own_rows: bool) -> Self {
        let packet = |flow: usize, time: usize| {
            let length = 100 + (flow * 31 + time * 17) % 100;
            (0..length).map(|position| (position * 7 + flow * 13 + time * 101).to_le_bytes()[0]).collect()
        };
        let packets: Vec<Vec<Vec<u8>>> =
            (0..flows).map(|flow| (0..times).map(|time| packet(flow, time)).collect()).collect();
        let mut grid = Self { packets, repairs: Vec::new() };
        for time in 0..times {
            // The order within batches changes, as it does when packets race.
            let cover: Vec<_> = (0..flows).map(|flow| ((flow + time) % flows, time)).collect();
            grid.add(&cover, 0, 2);
        }
        for flow in 0..flows {
            let cover: Vec<_> = (0..times).map(|time| (flow, time)).collect();
            grid.add(&cover, if own_rows { flow % 8 } else { 0 }, 1);
        }
        grid
    }

    fn add(&mut self, cover: &[(usize, usize)], first_row: usize, count: usize) {
        let payloads = (0..count).map(|_| AlignedBuffer::new(PACKET_BYTES));
        let mut encoder =
            Encoder::from_row(Engine::fastest(), first_row, payloads).expect("rows and buffers fit");
        for (flow, time) in cover {
            encoder.add(&self.packets[*flow][*time]).expect("packets fit");
        }
        for repair in encoder.repairs(BatchId::new(0)) {
            self.repairs.push(GridRepair {
                cover: cover.to_vec(),
                index: repair.index,
                length_symbol: repair.length_symbol,
                payload: repair.payload.to_vec(),
            });
        }
    }

    /// Returns the packets that are restored of these losses.
    fn solve(&self, lost: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let mut decoder = JointDecoder::new(Engine::fastest(), PACKET_BYTES);
        for GridRepair { cover, index, length_symbol, payload } in &self.repairs {
            let sources: Vec<Source<'_>> = cover
                .iter()
                .map(|(flow, time)| match lost.iter().position(|position| position == &(*flow, *time)) {
                    Some(unknown) => Source::Unknown(unknown),
                    None => Source::Known(&self.packets[*flow][*time]),
                })
                .collect();
            let (batch, source_packets) = (BatchId::new(0), sources.len());
            let (index, length_symbol) = (*index, *length_symbol);
            let repair = Repair { batch, index, source_packets, length_symbol, payload };
            decoder.add(&repair, &sources).expect("the grid fits");
        }
        let mut restored = Vec::new();
        for (unknown, packet) in decoder.solve() {
            let (flow, time) = lost[unknown];
            assert_eq!(packet, self.packets[flow][time], "flow {flow}, time {time}");
            restored.push((flow, time));
        }
        restored
    }
}

/// The same burst in several flows.
fn burst(flows: &[usize], times: std::ops::Range<usize>) -> Vec<(usize, usize)> {
    flows.iter().flat_map(|flow| times.clone().map(|time| (*flow, time))).collect()
}

#[test]
fn three_flows_that_lose_together_are_restored_together() {
    let grid = Grid::new(8, 5, true);
    let lost = burst(&[0, 3, 6], 1..4);
    assert_eq!(grid.solve(&lost).len(), lost.len());
}

#[test]
fn blocks_that_share_a_row_make_a_product_code_which_cannot() {
    let grid = Grid::new(8, 5, false);
    let lost = burst(&[0, 3, 6], 1..4);
    assert!(grid.solve(&lost).len() < lost.len());
}

#[test]
fn what_has_no_answer_is_left_out_and_the_rest_restored() {
    let grid = Grid::new(8, 5, true);
    let mut lost = burst(&[0, 1, 2, 3], 0..4);
    lost.push((5, 4));
    assert_eq!(grid.solve(&lost), [(5, 4)]);
}

#[test]
fn a_false_packet_does_not_pass_for_a_solution() {
    let sources: [&[u8]; 2] = [b"one", b"two"];
    let mut encoder = Encoder::new(Engine::fastest(), [AlignedBuffer::new(8)]).unwrap();
    for source in sources {
        encoder.add(source).unwrap();
    }
    let repair = encoder.repairs(BatchId::new(0)).next().unwrap();
    let mut decoder = JointDecoder::new(Engine::fastest(), 8);
    // A shorter packet than was encoded: the length that comes out is no packet's.
    decoder.add(&repair, &[Source::Known(b"o"), Source::Unknown(0)]).unwrap();
    assert!(decoder.solve().all(|(_, packet)| packet != b"two"));
}

#[test]
fn the_decoder_says_what_it_does_not_take() {
    let payload = [0; 9];
    let repair = |index, payload| Repair {
        batch: BatchId::new(0),
        index,
        source_packets: 1,
        length_symbol: [0; 2],
        payload,
    };
    let mut decoder = JointDecoder::new(Engine::fastest(), 8);
    let unknown = [Source::Unknown(0)];
    let too_long = JointError::TooLong { bytes: 9, capacity: 8 };
    assert_eq!(decoder.add(&repair(0, &payload), &unknown), Err(too_long));
    let longer = [Source::Known(&payload[..3])];
    assert_eq!(
        decoder.add(&repair(0, &payload[..2]), &longer),
        Err(JointError::TooLong { bytes: 3, capacity: 2 })
    );
    let no_such = JointError::NoSuchRepair { index: 8, sources: 1 };
    assert_eq!(decoder.add(&repair(8, &payload[..2]), &unknown), Err(no_such));
    let beyond = [Source::Unknown(JOINT_UNKNOWNS_MAX)];
    let too_many = JointError::TooManyUnknowns { number: JOINT_UNKNOWNS_MAX };
    assert_eq!(decoder.add(&repair(0, &payload[..2]), &beyond), Err(too_many));
    for _ in 0..JOINT_EQUATIONS_MAX {
        assert_eq!(decoder.add(&repair(0, &payload[..2]), &unknown), Ok(()));
    }
    assert_eq!(decoder.add(&repair(0, &payload[..2]), &unknown), Err(JointError::Full));
    decoder.restart();
    assert_eq!(decoder.add(&repair(0, &payload[..2]), &unknown), Ok(()));
}

proptest! {
    #[test]
    fn whatever_is_restored_is_what_was_sent(lost in prop::collection::btree_set((0_usize..8, 0_usize..5), 1..24)) {
        let grid = Grid::new(8, 5, true);
        let lost: Vec<_> = lost.into_iter().collect();
        let restored = grid.solve(&lost);
        // A batch or block that can be decoded alone is restored in any case.
        for time in 0..5 {
            let in_batch: Vec<_> = lost.iter().filter(|position| position.1 == time).collect();
            if in_batch.len() <= 2 {
                prop_assert!(in_batch.iter().all(|position| restored.contains(position)));
            }
        }
    }
}
