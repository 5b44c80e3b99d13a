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
