//! Of flows of which nobody knows what they carry, losses of a full path stay lost, and no others do.

use super::*;
use crate::agent::Traffic;
use byway_wire::messages::Confirm;

fn mixture() -> FlowSettings {
    FlowSettings { traffic: Traffic::Mixture, ..settings(Service::Caching) }
}

/// Packets 0 to 11, of which 10 is lost, where those from 5 on wait so long in a queue.
fn with_a_loss_in_a_queue(waits: Duration) -> Hall {
    let mut hall = Hall::new(&mixture());
    hall.loses_originals([10]);
    hall.stream(5);
    hall.direct += waits;
    hall.stream(15);
    hall.run(ms(30));
    hall
}

/// Whether the packet that was lost was asked for.
fn is_asked_for(hall: &Hall, number: u32) -> bool {
    let has = |said: &Said| matches!(said, Said::Nack { ranges, .. } if ranges.contains(&(number, 1)));
    hall.words(RECEIVER).iter().any(has)
}

#[test]
fn all_of_a_mixture_is_copied_and_delivered_as_it_comes() {
    let hall = with_a_loss_in_a_queue(Duration::ZERO);
    assert_eq!(hall.enveloped(EnvelopeRole::Copy).len(), 20);
    assert_eq!((hall.got.len(), hall.statistics().held), (19, 0));
}

#[test]
fn a_loss_on_an_empty_path_is_asked_for_and_one_in_a_standing_queue_is_not() {
    for (waits, left) in [(0, 0), (5, 0), (20, 1), (80, 1)] {
        let mut hall = with_a_loss_in_a_queue(ms(waits));
        assert_eq!(
            (is_asked_for(&hall, 10), hall.statistics().congestion_losses),
            (left == 0, left),
            "{waits} ms"
        );
        // Nor is it asked for later, when the queue is gone or a relay has it.
        hall.direct = ms(30);
        let tenth = ranges([10]);
        let confirm = Confirm { alias: alias_of(RECEIVER), ranges: tenth.ranges() };
        hall.relay_says(RECEIVER, &Message::Confirm(confirm));
        hall.stream(10);
        hall.run(ms(100));
        assert_eq!(is_asked_for(&hall, 10), left == 0, "{waits} ms, later");
    }
}

#[test]
fn what_an_outage_takes_is_asked_for_whatever_queued_before() {
    let mut hall = with_a_loss_in_a_queue(ms(40));
    hall.loses(|datagram| datagram.original().is_some());
    hall.stream(100);
    let is_open = |said: &Said| matches!(said, Said::Nack { open_from: Some(20), .. });
    assert!(hall.words(RECEIVER).iter().any(is_open), "{:?}", hall.words(RECEIVER));
}

#[test]
fn a_loss_of_datagrams_is_asked_for_whatever_queues() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.loses_originals([10]);
    hall.stream(5);
    hall.direct += ms(80);
    hall.stream(15);
    hall.run(ms(100));
    assert!(is_asked_for(&hall, 10) && hall.statistics().congestion_losses == 0);
}
