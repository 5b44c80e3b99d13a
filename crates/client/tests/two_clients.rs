//! Two applications with the library and two relays, in virtual time.

mod support;

use byway_client::{
    Delivery, Duplication, Event, FlowPair, LocalAddress, OfferRefusal, Reason, Registration, SendError,
    Service, ServiceSelector,
};
use byway_units::AgentId;

use support::{TwoClients, ms};

const ALICE: AgentId = AgentId::new(1);
const BOB: AgentId = AgentId::new(2);

fn by_budget(budget: u64) -> Registration {
    Registration { latency_budget: ms(budget), ..Registration::default() }
}

fn cached() -> Registration {
    Registration { choice: ServiceSelector::Service(Service::Caching), ..by_budget(150) }
}

/// Bob exposes a call, and Alice registers it after one second.
fn call(seed: u64, loss_percent: u32, registration: &Registration) -> (TwoClients, FlowPair) {
    let mut two = TwoClients::new(seed, loss_percent);
    let (alice, bob) = (two.alice, two.bob);
    two.with(bob, |bob, _| bob.expose("call", None)).expect("fewer names than the limit");
    two.run_until(1_000);
    let flow = two.with(alice, |alice, now| alice.register("bob", "call", registration, now));
    two.run_until(2_000);
    (two, flow.expect("Bob is a peer"))
}

#[test]
fn a_lossy_call_is_repaired_and_its_true_loss_is_told() {
    let (mut two, flow) = call(1, 5, &cached());
    let (alice, bob) = (two.alice, two.bob);
    assert!(two.events(alice).contains(&Event::Accepted(flow)));
    let incoming = two.events(bob).into_iter().find_map(|event| match event {
        Event::Incoming { flow, peer: ALICE } => Some(flow),
        _ => None,
    });
    let incoming = incoming.expect("Bob hears of the call");
    assert_eq!(two.with(bob, |bob, _| bob.subject(incoming).map(str::to_owned)).as_deref(), Some("call"));
    for number in 0..1_500_u32 {
        let sent = two.with(alice, |alice, now| alice.send(flow, &number.to_be_bytes(), true, now));
        assert_eq!(sent, Ok(()));
        two.run_until(2_000 + 20 * u64::from(number + 1));
    }
    two.run_until(40_000);
    let delivered = two.delivered(bob);
    assert!(delivered.iter().all(|(of, ..)| *of == incoming));
    let repaired = delivered.iter().filter(|(.., how)| *how == Delivery::Cached).count() as u64;
    assert!(repaired > 20, "{repaired} are repaired");
    let segments = two.with(alice, |alice, _| *alice.segments());
    assert!(segments.direct_sent > 1_500 * 40 && segments.copies_sent > segments.direct_sent, "{segments:?}");
    let received = two.with(bob, |bob, _| *bob.segments());
    assert!(received.direct_received < segments.direct_sent && received.repairs_received > 0, "{received:?}");
    let report = two.with(alice, |alice, _| alice.report(flow)).expect("it is open");
    let sent = report.sent.expect("Bob reports");
    assert_eq!((sent.counted.direct + sent.counted.lost, sent.repaired()), (1_500, repaired));
    assert!((20_000..100_000).contains(&sent.lost_per_million()), "5 %: {sent:?}");
    assert!(sent.repaired() * 100 >= sent.counted.lost * 99, "{sent:?}");
    let received = two.with(bob, |bob, _| bob.report(incoming)).expect("it is open").received;
    assert_eq!((received.lost, received.cached), (sent.counted.lost, repaired));
    let mean = byway_client::mean_repair_time(&received).expect("there are repairs");
    assert!(mean > ms(10) && mean < ms(100), "{mean}");
}

#[test]
fn answers_come_back_by_the_same_pair() {
    let (mut two, flow) = call(2, 0, &by_budget(150));
    let (alice, bob) = (two.alice, two.bob);
    two.with(alice, |alice, now| alice.send(flow, b"hello?", false, now)).expect("it is accepted");
    two.run_until(2_200);
    let received = two.delivered(bob);
    assert_eq!(received.len(), 1);
    two.with(bob, |bob, now| bob.send(received[0].0, b"hello!", false, now)).expect("it is open");
    two.run_until(2_400);
    assert_eq!(two.delivered(alice), [(flow, b"hello!".to_vec(), Delivery::Direct)]);
}

#[test]
fn only_marked_packets_are_copied_if_so_agreed() {
    let registration = Registration { duplication: Duplication::Marked, ..by_budget(150) };
    let (mut two, flow) = call(3, 0, &registration);
    let alice = two.alice;
    for number in 0..100_u32 {
        let marked = number % 4 == 0;
        two.with(alice, |alice, now| alice.send(flow, &[0; 200], marked, now)).expect("accepted");
        two.run_until(2_000 + 20 * u64::from(number + 1));
    }
    let copies = two.with(alice, |alice, _| alice.agent().counters().copies);
    assert_eq!(copies, 25);
}

/// Sends 50 packets a second for ten seconds on a path of 50 ms that loses 2 %. Returns the service
/// at the end, and the reason for it.
fn selected(registration: &Registration) -> (Service, Option<Reason>) {
    let (mut two, flow) = call(4, 2, registration);
    let alice = two.alice;
    for number in 0..500_u64 {
        two.with(alice, |alice, now| alice.send(flow, &[0; 500], false, now)).expect("it is accepted");
        two.run_until(2_000 + 20 * (number + 1));
    }
    let report = two.with(alice, |alice, _| alice.report(flow)).expect("it is open");
    (report.status.service, report.selection.map(|selection| selection.reason))
}

#[test]
fn the_service_follows_the_budget_and_says_why() {
    // Retransmission: 50 + 25 + 50 + 60. Caching: 50 + 25 + 10.
    assert_eq!(selected(&by_budget(250)), (Service::Retransmission, Some(Reason::Cheapest)));
    assert_eq!(selected(&by_budget(100)).0, Service::Caching);
    assert_eq!(selected(&Registration::default()).0, Service::Retransmission);
    assert_eq!(selected(&cached()), (Service::Caching, None));
}

#[test]
fn a_flow_with_copies_of_some_packets_only_is_cached() {
    let marked = Registration { duplication: Duplication::Marked, ..by_budget(250) };
    assert_eq!(selected(&marked), (Service::Caching, None));
}

#[test]
fn nothing_is_sent_before_the_peer_accepts_nor_after_it_is_closed() {
    let mut two = TwoClients::new(6, 0);
    let (alice, bob) = (two.alice, two.bob);
    two.with(bob, |bob, _| bob.expose("call", Some(vec!["alice".to_owned()])))
        .expect("fewer names than the limit");
    let flow =
        two.with(alice, |alice, now| alice.register("bob", "call", &by_budget(150), now)).expect("a peer");
    let send = |two: &mut TwoClients| two.with(alice, |alice, now| alice.send(flow, b"x", false, now));
    assert_eq!(send(&mut two), Err(SendError::NotAccepted));
    two.run_until(1_000);
    assert_eq!(send(&mut two), Ok(()));
    two.with(alice, |alice, now| alice.close(flow, now));
    assert_eq!(send(&mut two), Err(SendError::Closed));
    two.run_until(3_000);
    assert!(two.events(bob).iter().any(|event| matches!(event, Event::Closed(_))), "Bob is notified");
}

#[test]
fn what_is_not_exposed_to_a_peer_is_refused_at_both_ends() {
    for (name, peers, refusal) in [
        ("call", Some(vec!["carol".to_owned()]), OfferRefusal::NotAllowed),
        ("game", None, OfferRefusal::UnknownSubject),
    ] {
        let mut two = TwoClients::new(7, 0);
        let (alice, bob) = (two.alice, two.bob);
        two.with(bob, |bob, _| bob.expose(name, peers)).expect("fewer names than the limit");
        let flow = two
            .with(alice, |alice, now| alice.register("bob", "call", &by_budget(150), now))
            .expect("a peer");
        two.run_until(1_000);
        assert!(two.events(alice).contains(&Event::Refused { flow, refusal }));
        assert!(two.events(bob).contains(&Event::Declined { peer: ALICE, refusal }));
    }
}

#[test]
fn who_leaves_says_so_and_is_of_no_use_any_more() {
    let (mut two, flow) = call(8, 0, &by_budget(150));
    let (alice, bob) = (two.alice, two.bob);
    two.with(alice, byway_client::Client::leave);
    two.run_until(5_000);
    assert_eq!(two.events(alice).last(), Some(&Event::Left));
    let events = two.events(bob);
    assert!(events.iter().any(|event| matches!(event, Event::Closed(_))), "{events:?}");
    assert!(events.contains(&Event::PeerLeft(ALICE)));
    let sent = two.with(alice, |alice, now| alice.send(flow, b"x", false, now));
    assert_eq!(sent, Err(SendError::Closed));
    assert!(two.with(alice, |alice, now| alice.register("bob", "call", &by_budget(150), now)).is_err());
}

#[test]
fn a_peers_flows_are_closed_when_nobody_uses_them() {
    let (mut two, _) = call(9, 0, &by_budget(150));
    let bob = two.bob;
    assert!(!two.events(bob).iter().any(|event| matches!(event, Event::Closed(_))));
    two.run_until(320_000);
    assert!(two.events(bob).iter().any(|event| matches!(event, Event::Closed(_))));
}

#[test]
fn strangers_bytes_change_nothing() {
    let (mut two, flow) = call(10, 0, &by_budget(150));
    let alice = two.alice;
    for length in 0..200_usize {
        let mut bytes: Vec<u8> =
            (0..length).map(|index| (index * 31 + length * 7).to_le_bytes()[0]).collect();
        let from = "203.0.113.9:9".parse().expect("an address");
        two.with(alice, |alice, now| {
            alice.received(from, LocalAddress::ANY, byway_client::Ecn::NotCapable, &mut bytes, now);
        });
    }
    assert!(two.with(alice, |alice, _| alice.report(flow)).is_some());
    assert_eq!(two.with(alice, |alice, _| alice.name_of(BOB).map(str::to_owned)).as_deref(), Some("bob"));
}
