//! Tests of allocation: the parts allocate nothing after they have grown to the traffic's needs.

mod support;

use byway_proto::parts::batcher::{
    BatchPacket, BatchedFlow, Batcher, BatcherSettings, CodingClass, FullestFirst, RedundancyPolicy,
};
use byway_proto::parts::gap_tracker::{GapTracker, NackTimers};
use byway_proto::parts::loss_timer::{LossTimer, TwoState};
use byway_proto::parts::packet_buffer::PacketBuffer;
use byway_proto::parts::resequencer::{PushOutcome, Resequencer};
use byway_proto::parts::sequence_ring::SequenceRing;
use byway_proto::parts::timers::{TimerKey, Timers};
use byway_units::{Bytes, Duration, Time};
use support::{below, random};

const AGAIN: Duration = Duration::from_millis(50);

/// Returns the allocations of a second series of steps, after a first one.
fn after_warm_up(mut step: impl FnMut(u64)) -> u64 {
    (0..50_000).for_each(&mut step);
    allocation_counter::measure(|| (50_000..100_000).for_each(&mut step)).count_total
}

fn at(step: u64) -> Time {
    Time::START + Duration::from_micros(100) * step
}

#[test]
fn the_counter_counts() {
    let mut kept = Vec::new();
    assert!(after_warm_up(|step| kept.push(step)) > 0);
}

#[test]
fn timers_allocate_nothing() {
    let (mut timers, mut random, mut fired) = (Timers::new(), random(1), 0);
    let allocations = after_warm_up(|step| {
        let key = u32::try_from(below(1_000, &mut random)).expect("below 1,000");
        timers.arm(TimerKey::new(key), at(step + below(500, &mut random)));
        fired += core::iter::from_fn(|| timers.expire(at(step))).count();
    });
    assert_eq!((allocations, fired > 10_000), (0, true));
}

#[test]
fn the_packet_log_and_its_index_allocate_nothing() {
    let mut log = PacketBuffer::new(Bytes::new(1 << 20), Duration::from_millis(200));
    let (mut ring, mut random, mut found) = (SequenceRing::new(4_096), random(1), 0);
    let packet = [7; 1_400];
    let allocations = after_warm_up(|step| {
        let bytes = usize::try_from(below(1_400, &mut random)).expect("below 1,400");
        let handle = log.push(&packet[..bytes], at(step)).expect("it is short");
        ring.insert(step, handle);
        let earlier = ring.get(step.saturating_sub(below(1_000, &mut random)));
        found += earlier.and_then(|handle| log.get(handle, at(step))).map_or(0, |_| 1);
    });
    assert_eq!((allocations, found > 50_000), (0, true));
}

#[test]
fn the_account_of_a_flow_with_losses_allocates_nothing() {
    let timers = NackTimers { packets: 3, time: Duration::from_millis(5), nacks_max: 2 };
    let mut tracker = GapTracker::new(timers);
    let mut resequencer = Resequencer::new(0, Bytes::new(1 << 20));
    let mut timer = TwoState::new(AGAIN);
    let (mut random, mut asked, mut delivered) = (random(1), 0, 0);
    let allocations = after_warm_up(|step| {
        if below(10, &mut random) > 0 {
            timer.on_packet(tracker.on_packet(step, at(step)).is_new(), at(step));
            let until = at(step) + Duration::from_millis(25);
            let pushed = resequencer.push(step, 1_000, until, || step);
            delivered += u64::from(pushed == PushOutcome::InOrder);
        }
        asked += tracker.due(AGAIN, at(step)).len();
        while tracker.expire(at(step).saturating_sub(Duration::from_millis(100))).is_some() {}
        while resequencer.pop(at(step)).is_some() {
            delivered += 1;
        }
    });
    assert_eq!((allocations, asked > 5_000, delivered > 80_000), (0, true, true));
}

#[test]
fn batcher_allocates_nothing() {
    let spending = RedundancyPolicy::TokenBucket { percent: 120, reserve: Bytes::new(38_400) };
    let settings = BatcherSettings { batch_packets: 8, batch_repairs: 2, queues: 64, redundancy: spending };
    let mut batcher = Batcher::new(settings, FullestFirst);
    let (mut random, mut closed_count) = (random(1), 0);
    let allocations = after_warm_up(|step| {
        closed_count += core::iter::from_fn(|| batcher.expire(at(step))).count();
        let slot = u32::try_from(below(40, &mut random)).expect("below 40");
        let (class, receiver) = (CodingClass::SHARED, slot / 10);
        let flow = BatchedFlow { slot, class, receiver, sender: 0, cohort: 0, avoids_network: false };
        let decision = batcher.add(&BatchPacket { flow, bytes: 1_200 }, Duration::from_millis(40), at(step));
        closed_count += usize::from(decision.closed_after.is_some());
    });
    assert_eq!((allocations, closed_count > 10_000), (0, true));
}
