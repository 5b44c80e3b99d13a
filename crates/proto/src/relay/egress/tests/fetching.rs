//! Copies that the ingress relay is asked for.

use super::*;

/// What is asked of the ingress relay now.
fn fetched(talk: &mut Talk) -> Vec<(u16, u32)> {
    let mut fetched = Vec::new();
    while let Some(asked) = talk.egress.next_asked(talk.now) {
        let alias = asked.feed.alias.number();
        fetched.extend(asked.absent.ranges().numbers_low().map(|low| (alias, low)));
        talk.egress.ask_again(&asked, ms(80), talk.now);
    }
    fetched
}

fn caught(flow: FlowSlot, sequence: u64) -> Said {
    Said::Give { flow, sequence, given: Given::Cached }
}

#[test]
fn one_packet_more_than_can_be_restored_is_fetched_and_the_others_are_decoded() {
    let mut talk = Talk::new();
    let [one, two, three, helper] = talk.flows();
    talk.batch(0, &[(one, 1), (two, 2), (three, 3), (helper, 4)], 2);
    talk.wait(20);
    talk.nack(one, 1, 1);
    talk.nack(two, 2, 2);
    assert_eq!(fetched(&mut talk), [], "two repair packets are enough for two");
    talk.nack(three, 3, 3);
    assert_eq!(fetched(&mut talk), [(1, 1)]);
    talk.answer(helper, 4);
    talk.said();
    talk.wait(80);
    talk.carried_from(None, one, 1);
    assert_eq!(talk.said(), [caught(one, 1), cooperative(two, 2), cooperative(three, 3)]);
    assert_eq!(talk.egress.counters.fetched, 1);
}

#[test]
fn who_cannot_wait_so_long_is_not_fetched_for() {
    let mut talk = Talk::new();
    let [one, two] = talk.flows();
    talk.egress.set_feed_round_trip(0, ms(160));
    for (number, patience, expected) in [(0, 209, 0), (1, 211, 1)] {
        talk.patience = ms(patience);
        talk.batch(number, &[(one, number.into()), (two, number.into())], 1);
        talk.wait(20);
        talk.nack(one, number.into(), number.into());
        talk.nack(two, number.into(), number.into());
        assert_eq!(fetched(&mut talk).len(), expected, "the receiver is 50 ms away");
    }
}

#[test]
fn what_only_a_timer_misses_is_not_fetched() {
    let mut talk = Talk::new();
    let [one, two] = talk.flows();
    talk.batch(0, &[(one, 0), (two, 0)], 1);
    talk.wait(20);
    talk.nack_by_timer(one, 0, 0);
    talk.nack_by_timer(two, 0, 0);
    assert_eq!(fetched(&mut talk), []);
}

#[test]
fn where_others_have_given_enough_nobody_is_asked_but_the_ingress_relay() {
    let mut talk = Talk::new();
    let [flow, willing] = talk.flows();
    let done = talk.flow_of(Service::Coding, RATE, NOTHING);
    talk.batch(0, &[(flow, 0), (willing, 0), (done, 0)], 1);
    talk.wait(20);
    talk.nack(flow, 0, 0);
    assert_eq!(talk.said(), [], "the willing one's packet would be of no use");
    assert_eq!(fetched(&mut talk), [(1, 0)]);
    talk.wait(80);
    talk.carried_from(None, flow, 0);
    assert_eq!(talk.said(), [caught(flow, 0)]);
}

#[test]
fn a_fetched_copy_does_not_stand_for_a_row_of_carried_ones() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    let refuses = talk.flow_of(Service::Coding, RATE, NOTHING);
    for number in [10, 14] {
        talk.batch(u32::try_from(number).expect("small"), &[(flow, number), (refuses, number)], 1);
        talk.wait(20);
        talk.nack(flow, number, number);
        assert_eq!(fetched(&mut talk).len(), 1);
        talk.carried_from(Some(Feed { ingress: 0, alias: ALIAS }), flow, number);
        talk.wait(20);
    }
    assert_eq!(fetched(&mut talk), [], "11 to 13 are not missed");
}

#[test]
fn a_fetched_copy_that_does_not_come_is_asked_for_once_more() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    let refuses = talk.flow_of(Service::Coding, RATE, NOTHING);
    talk.batch(0, &[(flow, 0), (refuses, 0)], 1);
    talk.wait(20);
    talk.nack(flow, 0, 0);
    assert_eq!(fetched(&mut talk), [(1, 0)]);
    talk.wait(119);
    assert_eq!(fetched(&mut talk), []);
    talk.wait(10);
    assert_eq!(fetched(&mut talk), [(1, 0)]);
    talk.wait(200);
    assert_eq!(fetched(&mut talk), []);
}

#[test]
fn a_fetch_that_came_to_nothing_is_no_hindrance_to_the_next() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    let refuses = talk.flow_of(Service::Coding, RATE, NOTHING);
    talk.patience = ms(2_000);
    talk.batch(0, &[(flow, 0), (refuses, 0)], 1);
    talk.wait(20);
    talk.nack(flow, 0, 0);
    for _ in 0..3 {
        fetched(&mut talk);
        talk.wait(200);
    }
    talk.nack(flow, 0, 0);
    assert_eq!(fetched(&mut talk), [(1, 0)]);
}

#[test]
fn a_fetched_copy_that_nobody_waits_for_any_more_begins_no_row() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    let refuses = talk.flow_of(Service::Coding, RATE, NOTHING);
    for number in [10, 14] {
        talk.batch(u32::try_from(number).expect("small"), &[(flow, number), (refuses, number)], 1);
        talk.wait(20);
        talk.nack(flow, number, number);
        assert_eq!(fetched(&mut talk).len(), 1);
        talk.wait(300);
        talk.sweep();
        talk.carried_from(Some(Feed { ingress: 0, alias: ALIAS }), flow, number);
        talk.wait(20);
    }
    assert_eq!(fetched(&mut talk), [], "11 to 13 are not missed");
}

/// What becomes due within some milliseconds.
fn pass(talk: &mut Talk, millis: u64) {
    for _ in 0..millis {
        talk.wait(1);
        talk.egress.review(talk.now, &mut talk.actions);
    }
}

#[test]
fn who_answers_late_is_asked_again_and_the_packet_is_fetched_meanwhile() {
    let mut talk = Talk::new();
    let [flow, helper] = talk.flows();
    talk.patience = ms(300);
    talk.batch(0, &[(flow, 100), (helper, 100)], 1);
    pass(&mut talk, 10);
    talk.nack(flow, 100, 100);
    assert_eq!(talk.said(), [asked(helper, 100)]);
    pass(&mut talk, 155);
    assert_eq!((talk.said(), fetched(&mut talk)), (Vec::new(), Vec::new()), "round trips begin with 100 ms");
    pass(&mut talk, 1);
    assert_eq!((talk.said(), fetched(&mut talk)), (alloc::vec![asked(helper, 100)], alloc::vec![(1, 100)]));
    talk.answer(helper, 100);
    assert_eq!(talk.said(), [cooperative(flow, 100)], "whichever comes first");
    pass(&mut talk, 300);
    assert_eq!((talk.said(), talk.egress.review_at()), (Vec::new(), None));
}

#[test]
fn who_cannot_answer_in_time_any_more_is_not_asked_again() {
    let mut talk = Talk::new();
    let [flow, helper] = talk.flows();
    talk.patience = ms(250);
    talk.batch(0, &[(flow, 100), (helper, 100)], 1);
    talk.nack(flow, 100, 100);
    assert_eq!(talk.said(), [asked(helper, 100)]);
    pass(&mut talk, 300);
    assert_eq!(talk.said(), [], "94 ms are left when it is late, and it is 100 ms away");
    assert_eq!(talk.egress.review_at(), None);
}

#[test]
fn nobody_is_asked_again_for_a_packet_that_was_repaired_meanwhile() {
    let mut talk = Talk::new();
    let [flow, helper] = talk.flows();
    talk.patience = ms(500);
    talk.batch(0, &[(flow, 100), (helper, 100)], 1);
    talk.nack(flow, 100, 100);
    assert_eq!(talk.said(), [asked(helper, 100)]);
    talk.wait(20);
    talk.block(flow, 100, 5, 1);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 100 }]);
    pass(&mut talk, 400);
    assert_eq!((talk.said(), fetched(&mut talk)), (Vec::new(), Vec::new()));
}

#[test]
fn those_that_become_late_after_a_fetched_copy_came_are_left_alone() {
    let mut talk = Talk::new();
    let [flow, near, far] = talk.flows();
    talk.egress.set_round_trip(near, ms(20));
    talk.patience = ms(500);
    talk.batch(0, &[(flow, 100), (near, 100), (far, 100)], 1);
    talk.nack(flow, 100, 100);
    assert_eq!(talk.said().len(), 2);
    pass(&mut talk, 36);
    assert_eq!((talk.said(), fetched(&mut talk)), (alloc::vec![asked(near, 100)], alloc::vec![(1, 100)]));
    talk.carried_from(None, flow, 100);
    assert_eq!(talk.said(), [caught(flow, 100)]);
    pass(&mut talk, 400);
    assert_eq!(talk.said(), []);
}

#[test]
fn a_round_that_ended_is_not_looked_at_again_in_the_place_of_another() {
    let mut talk = Talk::new();
    let [flow, helper] = talk.flows();
    talk.batch(0, &[(flow, 100), (helper, 100)], 1);
    talk.nack(flow, 100, 100);
    talk.answer(helper, 100);
    assert_eq!(talk.egress.review_at(), None);
    talk.wait(100);
    talk.batch(1, &[(flow, 101), (helper, 101)], 1);
    talk.nack(flow, 101, 101);
    talk.said();
    pass(&mut talk, 155);
    assert_eq!(talk.said(), []);
}

#[test]
fn a_late_answer_that_a_spare_repair_packet_stands_for_is_not_asked_for_again() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 100), (a, 100), (b, 100)], 2);
    pass(&mut talk, 10);
    talk.nack(flow, 100, 100);
    assert_eq!(talk.said(), [asked(a, 100), asked(b, 100)]);
    pass(&mut talk, 100);
    talk.answer(a, 100);
    assert_eq!(talk.said(), [cooperative(flow, 100)]);
    pass(&mut talk, 100);
    assert_eq!((talk.said(), fetched(&mut talk)), (Vec::new(), Vec::new()));
}

#[test]
fn where_answers_are_late_again_and_again_nobody_waits_for_them() {
    let mut talk = Talk::new();
    let [flow, late] = talk.flows();
    let mut at_once = 0;
    for number in 0..8_u32 {
        talk.batch(number, &[(flow, number.into()), (late, number.into())], 1);
        pass(&mut talk, 10);
        talk.nack(flow, number.into(), number.into());
        at_once += fetched(&mut talk).len();
        pass(&mut talk, 160);
        fetched(&mut talk);
        talk.answer(late, number.into());
        assert!(talk.said().contains(&cooperative(flow, number.into())));
    }
    assert_eq!(at_once, 5, "after the third late answer more than one of eight is expected");
    talk.batch(9, &[(flow, 9), (late, 9)], 2);
    pass(&mut talk, 10);
    talk.nack(flow, 9, 9);
    assert_eq!(fetched(&mut talk), [], "two repair packets need nobody");
}

#[test]
fn where_the_second_repair_packet_does_not_come_its_packet_is_fetched() {
    let mut talk = Talk::new();
    let [one, two] = talk.flows();
    let coded = code(&[(one, 0), (two, 0)], 2);
    talk.nack(one, 0, 0);
    talk.nack(two, 0, 0);
    talk.repair(0, &coded, 0);
    assert_eq!(fetched(&mut talk), [], "the other repair packet is on its way");
    pass(&mut talk, 5);
    assert_eq!(fetched(&mut talk), []);
    pass(&mut talk, 1);
    assert_eq!(fetched(&mut talk), [(1, 0)]);
}

#[test]
fn a_relay_that_does_not_follow_up_waits() {
    let mut talk = Talk::new();
    talk.egress = Egress::new(Engine::fastest(), false, LOG, FLOWS);
    let [one, two, helper] = talk.flows();
    talk.batch(0, &[(one, 0), (two, 0), (helper, 0)], 1);
    pass(&mut talk, 10);
    talk.nack(one, 0, 0);
    talk.nack(two, 0, 0);
    talk.said();
    pass(&mut talk, 150);
    assert_eq!((talk.said(), fetched(&mut talk)), (Vec::new(), Vec::new()));
}
