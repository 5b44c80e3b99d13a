//! Batching strategy for bursts: fullest queue first.

use byway_units::Time;

use super::{BatchPacket, Queue, QueueChoice, Queues, Strategy};

/// Strategy that puts a packet into the fullest queue without a packet of its flow.
///
/// A burst of one flow opens many queues, with one packet each. Packets of other flows then fill
/// the queues that are nearest to being full. So few repair packets cover many packets. Further
/// rules:
///
/// - While repair packets are affordable, a packet that is alone after half of its time has
///   priority over fuller queues. Otherwise, packets of long bursts would stay alone.
/// - Packets of similar length share a batch, because each repair packet is as long as the longest.
///   Packets that differ by more than a factor of two share one only if a packet would stay alone
///   otherwise, or no queue is free.
/// - A packet joins queues of its flow's cohort. One of another cohort joins a packet that is alone
///   after half of its time, if that is affordable and the two share no receiver's network. Where
///   no queue is free, packets of all cohorts join each other's queues.
/// - Queues without correlated flows have priority. Next are queues with flows of the same sender,
///   last those with flows to the same receiver: such a receiver loses both packets, and cannot
///   help. With 24 flows in pairs, this halves the number of batches in which both flows of a pair
///   meet. Opening another queue instead would avoid nearly all of them, but makes batches smaller.
///   With few networks it leaves packets alone: flows of one sender to many receivers are coded
///   together. So only flows that are apart from others of their receiver's network open one: of
///   these, each cohort has one at most.
/// - While repair packets are affordable, a queue closes at half of its time if its income covers
///   its first repair packet. This reduces the mean wait of bursty video by a quarter, at almost no
///   cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullestFirst;

/// Largest ratio between the lengths of two packets that count as similar.
///
/// Voice and video packets differ by 5 or more. The last packet of a frame has any length: a
/// narrower bound would separate these from the others, and make batches smaller.
const SIZE_RATIO: u32 = 2;

/// Access network that flows of a queue share with a packet's flow, worst first: such flows lose
/// packets together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SharedRisk {
    Receiver,
    Sender,
    Nothing,
}

/// Fitness of a queue for a packet. Scores are compared field by field, and the queue with the
/// greatest is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    has_like_size: bool,
    shared_risk: SharedRisk,
    is_in_need: bool,
    size: usize,
    age_nanos: u64,
}

impl Score {
    /// True if the packet joins a queue with this score, and false if it opens another one.
    fn admits(&self, packet: &BatchPacket) -> bool {
        let is_separate = packet.flow.avoids_network && self.shared_risk == SharedRisk::Receiver;
        self.has_like_size && !is_separate
    }
}

impl Strategy for FullestFirst {
    fn choose(&mut self, queues: &Queues, packet: &BatchPacket, is_rich: bool, now: Time) -> QueueChoice {
        let cohort = packet.flow.cohort;
        let is_candidate =
            |queue: &Queue| queue.cohort() == cohort || admits_other_cohort(queue, packet, is_rich, now);
        let score = |(index, queue): (usize, &Queue)| (score_of(queue, packet, is_rich, now), index);
        let candidates = queues.lacking(packet).filter(|(_, queue)| is_candidate(queue));
        let mut best = candidates.map(score).max();
        let free = queues.free();
        if best.is_none() && free.is_none() {
            // Another cohort is better than a batch that ends early.
            best = queues.lacking(packet).map(score).max();
        }
        match (best, free) {
            (Some((score, index)), free) if free.is_none() || score.admits(packet) => {
                QueueChoice::Join(index)
            }
            (_, Some(free)) => QueueChoice::Join(free),
            (_, None) => QueueChoice::Replace(queues.oldest_for(packet)),
        }
    }

    fn closes_early(&self) -> bool {
        true
    }
}

/// True if a packet is alone in the queue after half of its time, and another repair packet is
/// affordable.
fn is_in_need(queue: &Queue, is_rich: bool, now: Time) -> bool {
    is_rich && queue.size() == 1 && now >= queue.halfway()
}

/// True if the queue admits the packet although it is of another cohort.
fn admits_other_cohort(queue: &Queue, packet: &BatchPacket, is_rich: bool, now: Time) -> bool {
    is_in_need(queue, is_rich, now) && shared_risk(queue, packet) != SharedRisk::Receiver
}

fn score_of(queue: &Queue, packet: &BatchPacket, is_rich: bool, now: Time) -> Score {
    let is_in_need = is_in_need(queue, is_rich, now);
    Score {
        has_like_size: is_in_need || have_like_size(queue.longest(), packet.bytes),
        shared_risk: shared_risk(queue, packet),
        is_in_need,
        size: queue.size(),
        age_nanos: now.saturating_since(queue.opened_at()).as_nanos(),
    }
}

fn shared_risk(queue: &Queue, packet: &BatchPacket) -> SharedRisk {
    if queue.shares_receiver(&packet.flow) {
        SharedRisk::Receiver
    } else if queue.shares_sender(&packet.flow) {
        SharedRisk::Sender
    } else {
        SharedRisk::Nothing
    }
}

fn have_like_size(a: u16, b: u16) -> bool {
    u32::from(a.max(b)) <= SIZE_RATIO * u32::from(a.min(b))
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;
    use crate::parts::batcher::{BatchedFlow, CodingClass};

    const WAIT: Duration = Duration::from_millis(40);

    fn packet(slot: u32, bytes: u16, receiver: u32) -> BatchPacket {
        packet_from(slot, bytes, receiver, 0)
    }

    fn packet_from(slot: u32, bytes: u16, receiver: u32, sender: u32) -> BatchPacket {
        let class = CodingClass::SHARED;
        let flow = BatchedFlow { slot, class, receiver, sender, cohort: 0, avoids_network: false };
        BatchPacket { flow, bytes }
    }

    /// Returns a packet of a flow in a cohort, apart from others of its receiver's network.
    fn packet_apart(slot: u32, receiver: u32, cohort: u8) -> BatchPacket {
        let BatchPacket { flow, bytes } = packet(slot, 1_200, receiver);
        BatchPacket { flow: BatchedFlow { cohort, avoids_network: true, ..flow }, bytes }
    }

    /// Returns queues with these packets, all from the start on.
    fn queues(contents: &[&[BatchPacket]], count: u8) -> Queues {
        let mut queues = Queues::new(count);
        for (index, packets) in contents.iter().enumerate() {
            packets.iter().for_each(|packet| queues.add(index, packet, Time::START, WAIT));
        }
        queues
    }

    fn choose(queues: &Queues, packet: &BatchPacket, is_rich: bool, after_ms: u64) -> QueueChoice {
        FullestFirst.choose(queues, packet, is_rich, Time::START + Duration::from_millis(after_ms))
    }

    #[test]
    fn the_fullest_queue_that_lacks_the_flow_is_joined() {
        let [a, b, c] = [1, 2, 3].map(|slot| packet(slot, 1_200, 0));
        let queues = queues(&[&[a], &[a, b], &[a, b, c]], 4);
        assert_eq!(choose(&queues, &c, true, 0), QueueChoice::Join(1));
        assert_eq!(choose(&queues, &packet(4, 1_200, 0), true, 0), QueueChoice::Join(2));
        assert_eq!(choose(&queues, &a, true, 0), QueueChoice::Join(3), "all hold it: an empty one");
    }

    #[test]
    fn without_an_empty_queue_the_oldest_makes_room() {
        let a = packet(1, 1_200, 0);
        let mut queues = Queues::new(2);
        queues.add(1, &a, Time::START, WAIT);
        queues.add(0, &a, Time::START + Duration::from_millis(1), WAIT);
        assert_eq!(choose(&queues, &a, true, 2), QueueChoice::Replace(1));
    }

    #[test]
    fn from_half_of_its_time_a_packet_alone_comes_first_if_that_is_affordable() {
        let [a, b, c] = [1, 2, 3].map(|slot| packet(slot, 1_200, 0));
        let queues = queues(&[&[a], &[a, b]], 3);
        assert_eq!(choose(&queues, &c, true, 19), QueueChoice::Join(1));
        assert_eq!(choose(&queues, &c, true, 20), QueueChoice::Join(0));
        assert_eq!(choose(&queues, &c, false, 20), QueueChoice::Join(1));
    }

    #[test]
    fn packets_of_like_size_share_a_queue() {
        let [long, short] = [1_200, 200].map(|bytes| packet(1, bytes, 0));
        let queues = queues(&[&[long, packet(2, 1_200, 0)], &[short]], 3);
        assert_eq!(choose(&queues, &packet(3, 100, 0), false, 0), QueueChoice::Join(1));
        assert_eq!(choose(&queues, &packet(3, 600, 0), false, 0), QueueChoice::Join(0));
        assert_eq!(choose(&queues, &packet(3, 450, 0), false, 0), QueueChoice::Join(2));
    }

    #[test]
    fn packets_of_unlike_size_share_a_queue_before_another_has_to_close() {
        let queues = queues(&[&[packet(1, 1_200, 0)]], 1);
        assert_eq!(choose(&queues, &packet(2, 200, 0), false, 0), QueueChoice::Join(0));
    }

    #[test]
    fn flows_that_lose_together_share_a_queue_only_where_there_is_no_other() {
        let [a, b, c] = [(1, 7), (2, 8), (3, 9)].map(|(slot, network)| packet(slot, 1_200, network));
        let queues = queues(&[&[a, b], &[c]], 3);
        assert_eq!(choose(&queues, &packet(4, 1_200, 8), false, 0), QueueChoice::Join(1));
        assert_eq!(choose(&queues, &packet(4, 1_200, 0), false, 0), QueueChoice::Join(0));
        assert_eq!(choose(&queues, &packet(3, 1_200, 7), false, 0), QueueChoice::Join(0));
        // 72 and 8 share a bit.
        assert_eq!(choose(&queues, &packet(4, 1_200, 72), false, 0), QueueChoice::Join(0));
    }

    #[test]
    fn flows_of_one_sender_share_a_queue_only_where_there_is_no_other() {
        let [a, b, c] =
            [(1, 7), (2, 8), (3, 9)].map(|(slot, sender)| packet_from(slot, 1_200, 100 + slot, sender));
        let queues = queues(&[&[a, b], &[c]], 3);
        assert_eq!(choose(&queues, &packet_from(4, 1_200, 50, 8), false, 0), QueueChoice::Join(1));
        assert_eq!(choose(&queues, &packet_from(4, 1_200, 50, 5), false, 0), QueueChoice::Join(0));
        // A shared sender is better than a shared receiver.
        assert_eq!(choose(&queues, &packet_from(4, 1_200, 103, 8), false, 0), QueueChoice::Join(0));
        // Sender and receiver networks are numbered independently.
        assert_eq!(choose(&queues, &packet_from(4, 1_200, 7, 101), false, 0), QueueChoice::Join(0));
    }

    #[test]
    fn cohorts_share_a_queue_only_with_a_packet_that_would_stay_alone() {
        let [a, b] =
            [(1, 7, 0), (2, 8, 1)].map(|(slot, network, cohort)| packet_apart(slot, network, cohort));
        let both = queues(&[&[a], &[b]], 3);
        assert_eq!(choose(&both, &packet_apart(3, 9, 1), true, 0), QueueChoice::Join(1));
        assert_eq!(choose(&both, &packet_apart(3, 9, 2), true, 19), QueueChoice::Join(2));
        let first = queues(&[&[a]], 3);
        assert_eq!(choose(&first, &packet_apart(3, 9, 1), true, 20), QueueChoice::Join(0));
        assert_eq!(choose(&first, &packet_apart(3, 9, 1), false, 20), QueueChoice::Join(1));
        assert_eq!(choose(&first, &packet_apart(3, 7, 1), true, 20), QueueChoice::Join(1), "one network");
        // Without a free queue, another cohort's is better than the end of a batch.
        let full = queues(&[&[a]], 1);
        assert_eq!(choose(&full, &packet_apart(3, 9, 1), false, 0), QueueChoice::Join(0));
    }

    #[test]
    fn a_flow_that_is_apart_opens_a_queue_before_it_meets_its_network() {
        let a = packet_apart(1, 7, 0);
        let contents: &[&[BatchPacket]] = &[&[a, packet_apart(2, 8, 0)]];
        assert_eq!(choose(&queues(contents, 2), &packet_apart(3, 7, 0), true, 0), QueueChoice::Join(1));
        assert_eq!(choose(&queues(contents, 1), &packet_apart(3, 7, 0), true, 0), QueueChoice::Join(0));
        assert_eq!(choose(&queues(contents, 2), &packet(3, 1_200, 7), true, 0), QueueChoice::Join(0));
    }

    #[test]
    fn flows_of_one_sender_to_many_receivers_fill_one_queue() {
        let mut queues = queues(&[&[packet_from(1, 1_200, 101, 7)]], 8);
        for slot in 2..10 {
            let next = packet_from(slot, 1_200, 100 + slot, 7);
            assert_eq!(choose(&queues, &next, false, 0), QueueChoice::Join(0));
            queues.add(0, &next, Time::START, WAIT);
        }
    }

    #[test]
    fn sizes_are_compared_without_overflow() {
        assert!(have_like_size(u16::MAX, u16::MAX / 2 + 1) && !have_like_size(u16::MAX, u16::MAX / 2));
        assert!(have_like_size(0, 0) && !have_like_size(0, 1));
    }
}
