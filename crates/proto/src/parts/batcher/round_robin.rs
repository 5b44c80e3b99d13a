//! Batching strategy of the CASPR paper: round robin.

use byway_units::Time;

use super::{BatchPacket, QueueChoice, Queues, Strategy};

/// Strategy that tries the queues in turn, and chooses the first without a packet of the flow:
/// Algorithm 1 of the CASPR paper, literally.
///
/// If all have one, the queue that was tried first closes, and the packet begins the next batch
/// there.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Strategy for RoundRobin {
    fn choose(&mut self, queues: &Queues, packet: &BatchPacket, _is_rich: bool, _now: Time) -> QueueChoice {
        let count = queues.count();
        let first = self.next;
        let suiting =
            (0..count).map(|step| (first + step) % count).find(|index| queues.suits(*index, packet));
        let chosen = suiting.unwrap_or(first);
        self.next = (chosen + 1) % count;
        suiting.map_or(QueueChoice::Replace(first), QueueChoice::Join)
    }

    fn closes_early(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use byway_units::Duration;
    use proptest::{prop_assert_eq, proptest};

    use super::*;
    use crate::parts::batcher::{
        BatchedFlow, Batcher, BatcherSettings, ClosedQueue, CodingClass, RedundancyPolicy,
    };

    /// Lines 6 to 24 of the algorithm, word for word. A sent batch is the list of its flows.
    struct Algorithm {
        queues: Vec<Vec<u32>>,
        k: usize,
        q_index: usize,
    }

    impl Algorithm {
        fn process(&mut self, flow: u32) -> Vec<Vec<u32>> {
            let mut sent = Vec::new();
            let next = |index: usize| (index + 1) % self.queues.len();
            let mut q = next(self.q_index);
            let initial_q = q;
            while self.queues[q].contains(&flow) {
                q = next(q);
                if q == initial_q {
                    if self.queues[q].len() > 1 {
                        sent.push(self.queues[q].clone());
                    }
                    self.queues[q].clear();
                    break;
                }
            }
            self.q_index = q;
            self.queues[q].push(flow);
            if self.queues[q].len() == self.k {
                sent.push(core::mem::take(&mut self.queues[q]));
            }
            sent
        }
    }

    proptest! {
        #[test]
        fn packets_are_placed_as_published(
            queues in 1_u8..6,
            k in 2_u8..6,
            flows in proptest::collection::vec(0_u32..8, 0..200),
        ) {
            let settings =
                BatcherSettings { batch_packets: k, batch_repairs: 1, queues, redundancy: RedundancyPolicy::PerBatch };
            let mut batcher = Batcher::new(settings, RoundRobin::default());
            let mut algorithm =
                Algorithm { queues: vec![Vec::new(); queues.into()], k: k.into(), q_index: usize::from(queues) - 1 };
            let mut held = vec![Vec::new(); queues.into()];
            for slot in flows {
                let (class, cohort) = (CodingClass::SHARED, 0);
                let flow = BatchedFlow { slot, class, receiver: 0, sender: 0, cohort, avoids_network: false };
                let packet = BatchPacket { flow, bytes: 100 };
                let decision = batcher.add(&packet, Duration::from_secs(1), Time::START);
                let mut sent = Vec::new();
                let mut close = |closed: Option<ClosedQueue>, held: &mut Vec<Vec<u32>>| {
                    let batch = closed.map(|closed| core::mem::take(&mut held[closed.queue]));
                    sent.extend(batch.filter(|batch| batch.len() > 1));
                };
                close(decision.closed_before, &mut held);
                held[decision.queue].push(slot);
                close(decision.closed_after, &mut held);
                prop_assert_eq!(sent, algorithm.process(slot));
                prop_assert_eq!(&held, &algorithm.queues);
            }
        }
    }
}
