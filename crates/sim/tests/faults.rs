//! Tests of stopped, frozen and restarted nodes, and of addresses that change.

mod support;

use byway_sim::limits::FROZEN_BACKLOG_MAX;
use byway_sim::{Condition, Freeze, Link, LossReason, NodeId, Seed};
use byway_units::Duration;
use support::{QueuedDatagram, TestHost, World, address, millis, run, send};

/// Nodes 0 and 1, at addresses 1 and 2, 10 ms apart. Node 0 sends its ordinal every millisecond,
/// 100 times.
fn sending_pair() -> (World, NodeId, NodeId) {
    let mut world = World::new(Seed::new(1), ());
    let one = world.add(TestHost::default(), address(1));
    let other = world.add(TestHost::default(), address(2));
    world.connect_both(one, other, &Link { delay: Duration::from_millis(10), ..Link::default() });
    for number in 0..100_u8 {
        send(&mut world, millis(number.into()), one, QueuedDatagram::new(address(2), &[number]));
    }
    (world, one, other)
}

/// The ordinals that a node has received, in the order of their arrival.
fn received(world: &World, node: NodeId) -> Vec<u8> {
    world.host(node).payloads().iter().map(|payload| payload[0]).collect()
}

fn finish(world: &mut World) {
    run(world, millis(1_000));
    assert_eq!(world.check_conservation(), Ok(()));
}

fn lost(world: &World, from: NodeId, to: NodeId, reason: LossReason) -> u64 {
    world.counters(from, to).expect("a link").lost[reason]
}

#[test]
fn a_stopped_host_takes_no_input() {
    let (mut world, one, other) = sending_pair();
    world.input(other, |host, _now| host.deadline = Some(millis(50)));
    world.at(millis(30), move |world| world.stop(other));
    finish(&mut world);
    // The packet of 20 ms would arrive in the instant of the crash, which was scheduled before it
    // was sent.
    assert_eq!(received(&world, other).last(), Some(&19));
    assert!(world.host(other).woken.is_empty());
    assert_eq!(world.input(other, |_host, _now| ()), None);
    assert_eq!(world.condition(other), Condition::Stopped);
    assert_eq!(lost(&world, one, other, LossReason::Stopped), 80);
}

#[test]
fn a_restarted_node_has_a_fresh_host_at_the_old_addresses() {
    let (mut world, one, other) = sending_pair();
    world.at(millis(30), move |world| world.stop(other));
    world.at(millis(60), move |world| {
        let mut fresh = TestHost { deadline: Some(millis(70)), ..TestHost::default() };
        fresh.queue.push_back(QueuedDatagram::new(address(1), b"I am back"));
        let old = world.restart(other, fresh);
        assert_eq!(old.received.len(), 20);
    });
    finish(&mut world);
    assert_eq!(received(&world, other), (50..100).collect::<Vec<_>>());
    assert_eq!(world.host(other).woken, [millis(70)]);
    assert_eq!(world.host(one).times(), [millis(70)]);
    assert_eq!(world.condition(other), Condition::Running);
}

#[test]
fn a_frozen_host_gets_what_was_buffered_for_it_in_order() {
    let (mut world, _, other) = sending_pair();
    world.input(other, |host, _now| host.deadline = Some(millis(40)));
    world.at(millis(30), move |world| {
        world.freeze(other, Freeze::Buffer);
        assert_eq!(world.input(other, |_host, _now| ()), None);
    });
    world.at(millis(60), move |world| world.resume(other));
    finish(&mut world);
    assert_eq!(received(&world, other), (0..100).collect::<Vec<_>>());
    let times = world.host(other).times();
    assert_eq!(
        (times[19], times[20], times[49], times[51]),
        (millis(29), millis(60), millis(60), millis(61))
    );
    assert_eq!(world.host(other).woken, [millis(60)]);
}

#[test]
fn a_host_that_froze_through_its_deadline_is_woken_when_it_resumes() {
    let (mut world, _, other) = sending_pair();
    run(&mut world, millis(500));
    world.input(other, |host, _now| host.deadline = Some(millis(510)));
    world.freeze(other, Freeze::Drop);
    run(&mut world, millis(600));
    assert!(world.host(other).woken.is_empty());
    world.resume(other);
    finish(&mut world);
    assert_eq!(world.host(other).woken, [millis(600)]);
}

#[test]
fn a_frozen_host_may_lose_what_comes() {
    let (mut world, one, other) = sending_pair();
    world.at(millis(30), move |world| world.freeze(other, Freeze::Drop));
    world.at(millis(60), move |world| world.resume(other));
    finish(&mut world);
    assert_eq!(received(&world, other), (0..20).chain(50..100).collect::<Vec<_>>());
    assert_eq!(lost(&world, one, other, LossReason::Frozen), 30);
}

#[test]
fn what_is_buffered_for_a_frozen_host_is_bounded() {
    let (mut world, one, other) = sending_pair();
    run(&mut world, millis(500));
    world.freeze(other, Freeze::Buffer);
    for _ in 0..FROZEN_BACKLOG_MAX + 3 {
        world.input(one, |host, _now| host.queue.push_back(QueuedDatagram::new(address(2), b"more")));
    }
    run(&mut world, millis(600));
    assert_eq!(world.in_flight(), FROZEN_BACKLOG_MAX);
    world.resume(other);
    finish(&mut world);
    assert_eq!(world.in_flight(), 0);
    assert_eq!(world.host(other).received.len(), 100 + FROZEN_BACKLOG_MAX);
    assert_eq!(lost(&world, one, other, LossReason::Frozen), 3);
}

#[test]
fn a_crash_loses_what_was_buffered_for_a_frozen_host() {
    let (mut world, one, other) = sending_pair();
    world.at(millis(30), move |world| world.freeze(other, Freeze::Buffer));
    world.at(millis(60), move |world| drop(world.restart(other, TestHost::default())));
    finish(&mut world);
    assert_eq!(received(&world, other), (50..100).collect::<Vec<_>>());
    assert_eq!(lost(&world, one, other, LossReason::Stopped), 30);
}

#[test]
fn a_stopped_node_neither_freezes_nor_resumes() {
    let (mut world, _, other) = sending_pair();
    world.stop(other);
    world.freeze(other, Freeze::Buffer);
    world.resume(other);
    assert_eq!(world.condition(other), Condition::Stopped);
}

#[test]
fn packets_to_an_address_that_moved_away_are_lost() {
    let (mut world, one, other) = sending_pair();
    world.host_mut(other).echoes = true;
    world.at(millis(30), move |world| world.change_address(other, address(2), address(9)));
    finish(&mut world);
    assert_eq!(received(&world, other), (0..20).collect::<Vec<_>>());
    // In flight at 30 ms: the packets of 20 to 29 ms, and that of 30 ms, which was sent before the
    // change.
    assert_eq!(lost(&world, one, other, LossReason::AddressMoved), 11);
    assert_eq!(world.unroutable(), 69);
}

#[test]
fn after_a_change_of_address_a_host_sends_from_the_new_one() {
    let (mut world, one, other) = sending_pair();
    world.at(millis(30), move |world| world.change_address(one, address(1), address(9)));
    finish(&mut world);
    let sources: Vec<_> = world.host(other).received.iter().map(|received| received.source).collect();
    assert_eq!(sources.iter().filter(|&&source| source == address(1)).count(), 31);
    assert_eq!(sources.iter().filter(|&&source| source == address(9)).count(), 69);
    assert_eq!(world.addresses(one), [address(9)]);
}

#[test]
fn an_address_can_move_to_another_node() {
    let (mut world, one, other) = sending_pair();
    let third = world.add(TestHost::default(), address(3));
    world.connect(one, third, Link { delay: Duration::from_millis(10), ..Link::default() });
    world.at(millis(30), move |world| world.assign(address(2), third));
    finish(&mut world);
    assert_eq!(received(&world, other), (0..20).collect::<Vec<_>>());
    assert_eq!(received(&world, third), (31..100).collect::<Vec<_>>());
    assert_eq!((world.addresses(other), world.addresses(third)), (&[][..], &[address(3), address(2)][..]));
}

#[test]
fn an_address_may_change_to_itself_or_to_another_of_the_same_node() {
    let (mut world, one, _) = sending_pair();
    world.assign(address(3), one);
    world.change_address(one, address(1), address(1));
    assert_eq!(world.addresses(one), [address(1), address(3)]);
    world.change_address(one, address(3), address(1));
    assert_eq!(world.addresses(one), [address(1)]);
}

#[test]
#[should_panic(expected = "node 0 does not have 192.0.2.9:7")]
fn only_an_address_that_a_node_has_can_change() {
    let (mut world, one, _) = sending_pair();
    world.change_address(one, address(9), address(8));
}
