//! Open-ended NACKs: everything from a packet on, until an ACK.

use super::*;

const DARK: bool = true;

#[test]
fn later_batches_are_repaired_without_asking_once_the_receiver_confirmed() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.open(flow, 10);
    talk.batch(0, &[(flow, 10), (a, 0)], 1);
    assert_eq!(talk.said(), [Said::Confirm { flow, sequence: 10 }]);
    talk.wait(15);
    talk.ask(flow, &[(10, 10)], Some(10), true);
    assert_eq!(talk.said(), [asked(a, 0)]);
    for sequence in 11..20 {
        talk.wait(10);
        talk.batch(u32::try_from(sequence - 10).expect("small"), &[(flow, sequence), (a, sequence - 10)], 1);
        let said = talk.said();
        assert!(said.contains(&asked(a, sequence - 10)), "{said:?}");
        assert!(!said.contains(&Said::Confirm { flow, sequence }));
    }
}

#[test]
fn what_was_sent_when_the_question_came_is_repaired_at_once() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    for sequence in 0..4 {
        talk.batch(u32::try_from(sequence).expect("small"), &[(flow, sequence), (a, sequence)], 1);
    }
    talk.open(flow, 2);
    assert_eq!(talk.said(), [asked(a, 2), asked(a, 3)]);
    talk.batch(4, &[(flow, 4), (a, 4)], 1);
    assert_eq!(talk.said(), [asked(a, 4)], "evidently nothing arrives");
}

#[test]
fn an_ack_bounds_the_open_end_by_its_number() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 0), (a, 0)], 1);
    talk.open(flow, 0);
    talk.said();
    talk.ack(flow, 5);
    talk.batch(1, &[(flow, 4), (a, 4)], 1);
    assert_eq!(talk.said(), [asked(a, 4)], "sent before the path came back");
    talk.batch(2, &[(flow, 5), (a, 5)], 1);
    talk.batch(3, &[(flow, 6), (a, 6)], 1);
    assert_eq!(talk.said(), []);
}

#[test]
fn a_silence_after_an_outage_is_as_doubtful_as_one_before() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 0), (a, 0)], 1);
    talk.open(flow, 0);
    talk.ack(flow, 5);
    talk.said();
    talk.open(flow, 8);
    talk.batch(1, &[(flow, 8), (a, 8)], 1);
    assert_eq!(talk.said(), [Said::Confirm { flow, sequence: 8 }]);
}

#[test]
fn an_ack_of_the_first_packet_ends_it_altogether() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.open(flow, 3);
    talk.ack(flow, 3);
    talk.batch(0, &[(flow, 3), (a, 0)], 1);
    assert_eq!(talk.said(), []);
}

#[test]
fn an_outage_that_others_do_not_bridge_is_told_every_quarter_second_and_its_end_once() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    let a = talk.flow_of(Service::Coding, RATE, NOTHING);
    talk.batch(0, &[(flow, 0), (a, 0)], 1);
    talk.open(flow, 0);
    talk.said();
    let mut told = Vec::new();
    for sequence in 1..100 {
        talk.wait(10);
        talk.batch(u32::try_from(sequence).expect("small"), &[(flow, sequence), (a, sequence)], 1);
        if talk.said().contains(&Said::Outage { flow, is_dark: DARK }) {
            told.push(sequence * 10);
        }
    }
    assert_eq!(told, [200, 450, 700, 950], "a shorter silence may be a burst");
    talk.ack(flow, 100);
    assert_eq!(talk.said(), [Said::Outage { flow, is_dark: false }]);
    talk.ack(flow, 100);
    assert_eq!(talk.said(), []);
}

/// An outage of a second, in which the others of each batch give their packets or have lost them; whether it is told.
fn is_told(helps: impl Fn(u64) -> bool) -> bool {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 0), (a, 0)], 1);
    talk.open(flow, 0);
    let mut given = 0;
    let mut is_told = false;
    for sequence in 1..100 {
        talk.wait(10);
        talk.batch(u32::try_from(sequence).expect("small"), &[(flow, sequence), (a, sequence)], 1);
        if helps(sequence) {
            talk.answer(a, sequence);
            given += 1;
        } else {
            talk.lost(a, sequence, sequence);
        }
        let said = talk.said();
        assert_eq!(said.contains(&cooperative(flow, sequence)), helps(sequence), "{said:?}");
        is_told |= said.contains(&Said::Outage { flow, is_dark: DARK });
    }
    assert!(given > 80);
    is_told
}

#[test]
fn an_outage_that_others_bridge_is_not_told() {
    assert!(!is_told(|_| true));
    assert!(!is_told(|sequence| sequence % 30 != 0), "they may lose some themselves");
    assert!(is_told(|sequence| sequence % 10 != 0));
}

#[test]
fn an_outage_that_was_never_told_needs_no_end() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    talk.open(flow, 3);
    talk.ack(flow, 5);
    assert_eq!(talk.said(), []);
}

#[test]
fn an_early_open_end_of_a_timer_darkens_no_path() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.open(flow, 3);
    talk.batch(0, &[(flow, 3), (a, 0)], 1);
    assert_eq!(talk.said(), [Said::Confirm { flow, sequence: 3 }]);
}

#[test]
fn a_packet_is_of_use_from_when_it_could_be_repaired_first() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 0), (a, 0)], 1);
    talk.open(flow, 0);
    talk.wait(1_000);
    talk.sweep();
    talk.said();
    talk.batch(1, &[(flow, 50), (a, 1)], 1);
    assert!(talk.said().contains(&asked(a, 1)));
    talk.wait(199);
    talk.answer(a, 1);
    assert_eq!(talk.said(), [cooperative(flow, 50)]);
}

#[test]
fn a_repeated_open_end_asks_nobody_twice() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 0), (a, 0), (b, 0)], 1);
    talk.open(flow, 0);
    assert_eq!(talk.said().len(), 2);
    talk.wait(40);
    talk.open(flow, 0);
    assert_eq!(talk.said(), []);
    assert_eq!(talk.egress.counters.open_ended, 2);
}

#[test]
fn own_repair_packets_do_not_suffice_for_a_block_that_is_all_dark() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 0)], 1);
    talk.block(flow, 0, 5, 1);
    talk.open(flow, 0);
    let said = talk.said();
    assert!(said.contains(&asked(a, 0)), "{said:?}");
    assert_eq!(talk.egress.counters.in_stream, 0);
}

#[test]
fn own_repair_packets_suffice_where_the_open_end_begins_with_a_blocks_last_packet() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 0)], 1);
    talk.block(flow, 0, 5, 1);
    talk.open(flow, 4);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 0 }]);
}

#[test]
fn what_nobody_misses_after_all_is_not_counted_as_given_up() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.open(flow, 3);
    talk.batch(0, &[(flow, 3), (a, 0)], 1);
    talk.ack(flow, 3);
    talk.wait(300);
    talk.sweep();
    assert_eq!(talk.egress.counters.given_up, 0);
}

#[test]
fn what_an_ack_shows_to_be_missing_alone_is_repaired_with_what_there_is() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    talk.block(flow, 4, 2, 1);
    talk.open(flow, 4);
    assert_eq!(talk.said(), [], "one repair packet cannot stand for two");
    talk.ack(flow, 5);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 4 }]);
}

/// What is asked of others at each millisecond.
fn asked_each(talk: &mut Talk, millis: u64) -> Vec<(u64, u64)> {
    let mut asked = Vec::new();
    for passed in 1..=millis {
        talk.wait(1);
        talk.egress.give_up_in_flight(talk.now, &mut talk.actions);
        asked.extend(talk.said().into_iter().filter_map(|said| match said {
            Said::Ask { sequence, .. } => Some((passed, sequence)),
            _ => None,
        }));
    }
    asked
}

/// Batches over a flow and another one, 10 ms from one to the next; the last three are younger than the loss.
fn overtaken(talk: &mut Talk) -> FlowSlot {
    let [flow, a] = talk.flows();
    for sequence in 0..4 {
        talk.batch(u32::try_from(sequence).expect("small"), &[(flow, sequence), (a, sequence)], 1);
        talk.wait(10);
    }
    talk.open(flow, 0);
    assert_eq!(talk.said(), [asked(a, 0)], "the others may be in flight");
    flow
}

#[test]
fn what_overtook_the_direct_path_is_repaired_when_it_would_have_been_missed() {
    let mut talk = Talk::new();
    overtaken(&mut talk);
    assert_eq!(asked_each(&mut talk, 100), [(10, 1), (20, 2), (30, 3)]);
}

#[test]
fn what_comes_meanwhile_was_in_flight_and_what_it_passed_over_was_not() {
    let mut talk = Talk::new();
    let flow = overtaken(&mut talk);
    assert_eq!(asked_each(&mut talk, 5), []);
    talk.ack(flow, 2);
    assert!(matches!(talk.said()[..], [Said::Ask { sequence: 1, .. }]));
    assert_eq!(asked_each(&mut talk, 100), []);
}

#[test]
fn in_a_silence_that_lasts_nothing_waits() {
    let mut talk = Talk::new();
    let flow = overtaken(&mut talk);
    asked_each(&mut talk, 70);
    let other = FlowSlot(flow.0 + 1);
    talk.batch(9, &[(flow, 9), (other, 9)], 1);
    assert_eq!(talk.said(), []);
    assert_eq!(asked_each(&mut talk, 40), [(10, 9)], "80 ms after the silence was noticed");
    talk.batch(10, &[(flow, 10), (other, 10)], 1);
    assert_eq!(talk.said(), [asked(other, 10)]);
}

#[test]
fn a_silence_that_is_told_again_and_again_is_watched_once() {
    let mut talk = Talk::new();
    let flow = overtaken(&mut talk);
    for _ in 0..100 {
        talk.wait(1);
        talk.open(flow, 0);
        talk.ack(flow, 0);
    }
    assert_eq!(talk.egress.in_flight.count(), 3);
}
