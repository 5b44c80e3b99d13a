//! How far flows have come whose copies pause.

use super::*;

/// The ends that the receiver is told of within some time.
fn told(talk: &mut Talk, millis: u64) -> Vec<(u64, Said)> {
    let mut told = Vec::new();
    for passed in 1..=millis {
        talk.wait(1);
        talk.egress.tell_tails(talk.now, &mut talk.actions);
        told.extend(talk.said().into_iter().map(|said| (passed, said)));
    }
    told
}

#[test]
fn a_receiver_is_told_once_where_a_burst_ended() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    for sequence in 0..10 {
        talk.carried(flow, sequence);
    }
    assert_eq!(told(&mut talk, 500), [(8, Said::Confirm { flow, sequence: 9 })]);
    talk.carried(flow, 10);
    assert_eq!(told(&mut talk, 500), [(8, Said::Confirm { flow, sequence: 10 })]);
    assert_eq!(talk.egress.counters.tails, 2);
}

#[test]
fn steady_flows_are_soon_left_alone() {
    for every in [10, 20, 33] {
        let mut talk = Talk::new();
        let flow = talk.flow(Service::Caching);
        let mut count = 0;
        for sequence in 0..100 {
            talk.carried(flow, sequence);
            count += told(&mut talk, every).len();
        }
        assert!((4..=12).contains(&count), "{count} at {every} ms");
        assert_eq!(told(&mut talk, 500).len(), 1, "its end is told");
    }
}

#[test]
fn who_has_asked_is_not_told() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 0);
    talk.nack(flow, 1, 1);
    talk.carried(flow, 1);
    assert_eq!(talk.said(), [cached(flow, 1)]);
    talk.open(flow, 2);
    talk.carried(flow, 2);
    talk.said();
    assert_eq!(told(&mut talk, 500), []);
}

#[test]
fn what_is_delivered_or_coded_needs_no_telling() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Both);
    talk.carried(flow, 0);
    let [coded, other] = talk.flows();
    talk.batch(0, &[(coded, 64), (other, 64)], 1);
    talk.said();
    assert_eq!(told(&mut talk, 500), []);
}

#[test]
fn the_receiver_of_a_coded_flow_is_told_of_its_first_packets() {
    let mut talk = Talk::new();
    let [begun, under_way] = talk.flows();
    talk.batch(0, &[(begun, 63), (under_way, 1_000)], 1);
    talk.said();
    assert_eq!(told(&mut talk, 500), [(8, Said::Confirm { flow: begun, sequence: 63 })]);
}

#[test]
fn a_copy_that_was_sent_again_is_no_other_end() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    for sequence in [0, 2] {
        talk.carried(flow, sequence);
    }
    assert_eq!(told(&mut talk, 100).len(), 1);
    talk.carried(flow, 1);
    assert_eq!(told(&mut talk, 500), []);
}

#[test]
fn a_flow_that_left_is_nobodys() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 0);
    talk.egress.unregister(flow);
    assert_eq!(told(&mut talk, 500), []);
}

#[test]
fn bursts_with_pauses_are_told_soon_whatever_the_flow_did_before() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    for (sequence, every) in (0..60).zip([5, 10, 20, 40, 100, 200].into_iter().flat_map(|every| [every; 10]))
    {
        talk.carried(flow, sequence);
        told(&mut talk, every);
    }
    for burst in 15..25 {
        for sequence in burst * 4..burst * 4 + 4 {
            talk.carried(flow, sequence);
            talk.wait(1);
        }
        let told = told(&mut talk, 195);
        let last = burst * 4 + 3;
        assert!(burst == 15 || told == [(7, Said::Confirm { flow, sequence: last })], "{burst}: {told:?}");
    }
}
