//! The strategy for bursts.

use byway_units::Time;

use super::{Choice, Packet, Queue, Queues, Strategy};

/// The fullest queue that lacks the flow.
///
/// A burst of one flow opens many queues, one packet each; the packets of other flows then fill the queues
/// that are nearest to being full, so that few repair packets cover many packets. Beyond that:
///
/// - A packet that is alone after half of its time gets company before any fuller queue does, while repair
///   packets are affordable: else packets of long bursts end alone.
/// - Packets of like size share a batch, because each repair packet is as long as the longest: those that
///   differ by more than a factor of two do only when one would end alone or no queue is free.
/// - A queue without correlated flows goes before any queue with some, and one with flows of the same sender before one
///   with flows to the same receiver, which can neither do without the packet nor help: of 24 flows in pairs, half as
///   many meet. To open another queue instead would keep nearly all apart, but makes batches smaller, and where
///   networks are few leaves packets alone: flows of one sender to many receivers are coded together.
/// - A queue closes at half of its time if it pays for itself, while repair packets are affordable: that takes
///   a quarter off the mean wait of bursty video and costs next to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullestFirst;

/// Packets of a batch differ in size by no more than this factor, where possible.
///
/// Voice and video packets differ by 5 or more. The last packet of a frame has any length: a narrower bound
/// would keep those apart from the others and leave smaller batches.
const SIZE_RATIO: u32 = 2;

/// What the flows of a queue have in common with a packet's: the less, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kinship {
    Receiver,
    Sender,
    Nothing,
}

/// How well a queue suits a packet: the greatest is best, criterion by criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    has_like_size: bool,
    kinship: Kinship,
    is_in_need: bool,
    size: usize,
    age_nanos: u64,
}

impl Strategy for FullestFirst {
    fn choose(&mut self, queues: &Queues, packet: &Packet, is_rich: bool, now: Time) -> Choice {
        let fits = queues.lacking(packet).map(|(index, queue)| (fit(queue, packet, is_rich, now), index));
        let best = fits.max_by_key(|(fit, _)| *fit);
        match (best, queues.free()) {
            (Some((fit, index)), free) if fit.has_like_size || free.is_none() => Choice::Join(index),
            (_, Some(free)) => Choice::Join(free),
            (_, None) => Choice::Replace(queues.oldest()),
        }
    }

    fn closes_early(&self) -> bool {
        true
    }
}

fn fit(queue: &Queue, packet: &Packet, is_rich: bool, now: Time) -> Fit {
    let is_in_need = is_rich && queue.size() == 1 && now >= queue.halfway();
    Fit {
        has_like_size: is_in_need || have_like_size(queue.longest(), packet.bytes),
        kinship: kinship(queue, packet),
        is_in_need,
        size: queue.size(),
        age_nanos: now.saturating_since(queue.opened()).as_nanos(),
    }
}

fn kinship(queue: &Queue, packet: &Packet) -> Kinship {
    if queue.shares_receiver(&packet.flow) {
        Kinship::Receiver
    } else if queue.shares_sender(&packet.flow) {
        Kinship::Sender
    } else {
        Kinship::Nothing
    }
}

fn have_like_size(a: u16, b: u16) -> bool {
    u32::from(a.max(b)) <= SIZE_RATIO * u32::from(a.min(b))
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;
    use crate::parts::placement::{CodingClass, PlacedFlow};

    const WAIT: Duration = Duration::from_millis(40);

    fn packet(slot: u32, bytes: u16, receiver: u32) -> Packet {
        packet_from(slot, bytes, receiver, 0)
    }

    fn packet_from(slot: u32, bytes: u16, receiver: u32, sender: u32) -> Packet {
        Packet { flow: PlacedFlow { slot, class: CodingClass::SHARED, receiver, sender }, bytes }
    }

    /// Queues that hold these packets, all from the start on.
    fn queues(contents: &[&[Packet]], count: u8) -> Queues {
        let mut queues = Queues::new(count);
        for (index, packets) in contents.iter().enumerate() {
            packets.iter().for_each(|packet| queues.add(index, packet, Time::START, WAIT));
        }
        queues
    }

    fn choose(queues: &Queues, packet: &Packet, is_rich: bool, after_ms: u64) -> Choice {
        FullestFirst.choose(queues, packet, is_rich, Time::START + Duration::from_millis(after_ms))
    }

    #[test]
    fn the_fullest_queue_that_lacks_the_flow_is_joined() {
        let [a, b, c] = [1, 2, 3].map(|slot| packet(slot, 1_200, 0));
        let queues = queues(&[&[a], &[a, b], &[a, b, c]], 4);
        assert_eq!(choose(&queues, &c, true, 0), Choice::Join(1));
        assert_eq!(choose(&queues, &packet(4, 1_200, 0), true, 0), Choice::Join(2));
        assert_eq!(choose(&queues, &a, true, 0), Choice::Join(3), "all hold it: an empty one");
    }

    #[test]
    fn without_an_empty_queue_the_oldest_makes_room() {
        let a = packet(1, 1_200, 0);
        let mut queues = Queues::new(2);
        queues.add(1, &a, Time::START, WAIT);
        queues.add(0, &a, Time::START + Duration::from_millis(1), WAIT);
        assert_eq!(choose(&queues, &a, true, 2), Choice::Replace(1));
    }

    #[test]
    fn from_half_of_its_time_a_packet_alone_comes_first_if_that_is_affordable() {
        let [a, b, c] = [1, 2, 3].map(|slot| packet(slot, 1_200, 0));
        let queues = queues(&[&[a], &[a, b]], 3);
        assert_eq!(choose(&queues, &c, true, 19), Choice::Join(1));
        assert_eq!(choose(&queues, &c, true, 20), Choice::Join(0));
        assert_eq!(choose(&queues, &c, false, 20), Choice::Join(1));
    }

    #[test]
    fn packets_of_like_size_share_a_queue() {
        let [long, short] = [1_200, 200].map(|bytes| packet(1, bytes, 0));
        let queues = queues(&[&[long, packet(2, 1_200, 0)], &[short]], 3);
        assert_eq!(choose(&queues, &packet(3, 100, 0), false, 0), Choice::Join(1));
        assert_eq!(choose(&queues, &packet(3, 600, 0), false, 0), Choice::Join(0));
        assert_eq!(choose(&queues, &packet(3, 450, 0), false, 0), Choice::Join(2));
    }

    #[test]
    fn packets_of_unlike_size_share_a_queue_before_another_has_to_close() {
        let queues = queues(&[&[packet(1, 1_200, 0)]], 1);
        assert_eq!(choose(&queues, &packet(2, 200, 0), false, 0), Choice::Join(0));
    }

    #[test]
    fn flows_that_lose_together_share_a_queue_only_where_there_is_no_other() {
        let [a, b, c] = [(1, 7), (2, 8), (3, 9)].map(|(slot, network)| packet(slot, 1_200, network));
        let queues = queues(&[&[a, b], &[c]], 3);
        assert_eq!(choose(&queues, &packet(4, 1_200, 8), false, 0), Choice::Join(1));
        assert_eq!(choose(&queues, &packet(4, 1_200, 0), false, 0), Choice::Join(0));
        assert_eq!(choose(&queues, &packet(3, 1_200, 7), false, 0), Choice::Join(0));
        // 72 and 8 share a bit.
        assert_eq!(choose(&queues, &packet(4, 1_200, 72), false, 0), Choice::Join(0));
    }

    #[test]
    fn flows_of_one_sender_share_a_queue_only_where_there_is_no_other() {
        let [a, b, c] =
            [(1, 7), (2, 8), (3, 9)].map(|(slot, sender)| packet_from(slot, 1_200, 100 + slot, sender));
        let queues = queues(&[&[a, b], &[c]], 3);
        assert_eq!(choose(&queues, &packet_from(4, 1_200, 50, 8), false, 0), Choice::Join(1));
        assert_eq!(choose(&queues, &packet_from(4, 1_200, 50, 5), false, 0), Choice::Join(0));
        // Rather beside what comes from where it comes from than beside what goes to where it goes.
        assert_eq!(choose(&queues, &packet_from(4, 1_200, 103, 8), false, 0), Choice::Join(0));
        // The numbers of senders are none of receivers.
        assert_eq!(choose(&queues, &packet_from(4, 1_200, 7, 101), false, 0), Choice::Join(0));
    }

    #[test]
    fn flows_of_one_sender_to_many_receivers_fill_one_queue() {
        let mut queues = queues(&[&[packet_from(1, 1_200, 101, 7)]], 8);
        for slot in 2..10 {
            let next = packet_from(slot, 1_200, 100 + slot, 7);
            assert_eq!(choose(&queues, &next, false, 0), Choice::Join(0));
            queues.add(0, &next, Time::START, WAIT);
        }
    }

    #[test]
    fn sizes_are_compared_without_overflow() {
        assert!(have_like_size(u16::MAX, u16::MAX / 2 + 1) && !have_like_size(u16::MAX, u16::MAX / 2));
        assert!(have_like_size(0, 0) && !have_like_size(0, 1));
    }
}
