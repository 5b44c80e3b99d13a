//! Flows that relays alone forward because their sender has selected that: changes of the direct
//! path and of relays meanwhile, and arrangements in which it is not selected.
//!
//! The limits are those of `docs/promises.md`.

use std::cell::RefCell;
use std::rc::Rc;

use byway_proto::Uplinks;
use byway_sim::{Link, Loss, Span};
use byway_units::{Bytes, Duration, Time};
use byway_wire::{Service, Services};

use crate::selection::{usages_at, with_receivers_at};
use crate::support::{OverlayWorld, Plan, Run, at, ms, secs, share};

/// Packets that a bad direct path loses: those whose number has one of these remainders modulo 7.
/// Every 16th packet is a sample, and a probe follows every 20th, so both meet all remainders.
const LOST: [u64; 4] = [0, 2, 3, 5];

/// Second in which the direct path becomes bad, unless a test has another one.
const BAD_FROM: u64 = 4;

/// Second at which a test changes something, after forwarding has begun.
///
/// A bad direct path loses 57 packets in a second. A thousand losses show what relays deliver, and
/// take 18 s. Relays alone forward the flow 30 s later, so 48 s after the first loss, and after a
/// few reports.
const CHANGE_SECOND: u64 = 66;
const CHANGE: Time = at(CHANGE_SECOND * 1_000);

/// Time in which a flow also uses the direct path if its relays do not deliver.
const MOVED_WITHIN: Duration = ms(600);

/// Shortest time from a failure of relays until they alone forward the flow again.
const NOT_ALONE_FOR: Duration = secs(30);

/// Most packets that a failure of relays costs:
///
/// - 30 packets until the direct path is used: 200 ms to detect the failure, and a round trip. A
///   silence of 100 ms shows it, of which notices are 80 ms apart.
/// - 18 packets after that, until 600 ms: the direct path loses four of seven of 30.
/// - 5 packets in flight, on the 7.5 ms to the first relay and the 35 ms to the second one.
const COST_MAX: usize = 30 + 18 + 5;

/// Returns the number of the packet that is sent at this second: a flow begins at 2 s, and sends a
/// packet every 10 ms.
const fn packet_at(second: u64) -> u64 {
    (second - 2) * 100
}

fn is_lost(number: u64) -> bool {
    LOST.contains(&(number % 7))
}

/// One flow until the second `end`, whose sender selects the service. Its direct path is bad from
/// one second until another one. Repairs would be late: a request to a relay takes 80 ms if the
/// receiver is 40 ms from it, and the budget is 105 ms.
fn automatic(end: u64, (from, until): (u64, u64)) -> Plan {
    let mut plan = Plan::pairs(1, Service::Both).each_flow(|flow| {
        flow.length = secs(end - 2);
        (flow.settings.latency_budget, flow.settings.automatic_service) = (ms(105), true);
    });
    for number in (packet_at(from)..packet_at(until)).filter(|number| is_lost(*number)) {
        plan.lose(0, number, 1);
    }
    plan
}

/// One flow whose direct path is bad from the fourth second on. It has one relay near each end.
fn between_two_relays(end: u64) -> Plan {
    with_receivers_at(ms(40), automatic(end, (BAD_FROM, end)))
}

/// One flow with one relay, 60 ms from the receiver.
fn through_one_relay(end: u64, bad: (u64, u64)) -> Plan {
    with_receivers_at(ms(60), automatic(end, bad).with_one_relay())
}

/// Changes the link between the two relays at a time.
fn change_between(world: &mut OverlayWorld, time: Time, change: impl FnOnce(&mut Link) + 'static) {
    Run::schedule(world, time, move |run, world| {
        let mut link = run.plan.between.clone();
        change(&mut link);
        world.connect_both(run.relays[0], run.relays[1], &link);
    });
}

/// Service and relay path of the flow in its sender's status, at one time.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    at: Time,
    service: Service,
    path_in_use: Option<usize>,
}

/// Looks at the flow every 100 ms until the end of a run.
fn watch(world: &mut OverlayWorld, end: Time) -> Rc<RefCell<Vec<Sighting>>> {
    let sightings = Rc::<RefCell<Vec<Sighting>>>::default();
    for look in 30..end.saturating_since(Time::START).as_millis() / 100 {
        let seen = sightings.clone();
        Run::schedule(world, at(look * 100), move |run, world| {
            let flow = run.sending[0].expect("the flow is open");
            let status = world.host(run.agents[0]).agent().flow_status(flow).expect("the flow is open");
            let (service, path_in_use) = (status.service, status.path_in_use);
            seen.borrow_mut().push(Sighting { at: world.now(), service, path_in_use });
        });
    }
    sightings
}

/// Finished run, with the sightings of its flow.
struct Outcome {
    world: OverlayWorld,
    run: Run,
    seen: Vec<Sighting>,
}

impl Outcome {
    /// Runs a plan with the events of a test.
    fn of(plan: Plan, schedule: impl FnOnce(&mut OverlayWorld)) -> Self {
        let (mut world, mut run) = plan.build();
        schedule(&mut world);
        let sightings = watch(&mut world, run.end());
        run.finish(&mut world);
        let seen = sightings.take();
        Self { world, run, seen }
    }

    /// Returns the services of the flow, each with the time from which it was seen.
    fn changes(&self) -> Vec<(Time, Service)> {
        let mut changes: Vec<(Time, Service)> = Vec::new();
        for seen in &self.seen {
            if changes.last().is_none_or(|(_, last)| *last != seen.service) {
                changes.push((seen.at, seen.service));
            }
        }
        changes
    }

    /// Returns the services of the flow, one after the other.
    fn services(&self) -> Vec<Service> {
        self.changes().into_iter().map(|(_, service)| service).collect()
    }

    /// Returns the sightings in a span of time.
    fn during(&self, from: Time, until: Time) -> impl Iterator<Item = &Sighting> {
        self.seen.iter().filter(move |seen| (from..until).contains(&seen.at))
    }

    /// Returns the packets that were sent in a span of time and not delivered.
    fn missing(&self, from: Time, until: Time) -> Vec<u64> {
        self.run.missing(0, from, until)
    }

    /// Asserts that the flow had this service in all of a span of time.
    fn assert_has(&self, service: Service, from: Time, until: Time) {
        assert!(self.during(from, until).next().is_some(), "nobody looked");
        let has_it = self.during(from, until).all(|seen| seen.service == service);
        assert!(has_it, "{service:?} from {from} until {until}: {:?}", self.changes());
    }

    /// Asserts that the flow had this relay path in all of a span of time.
    fn assert_uses(&self, path: Option<usize>, from: Time, until: Time) {
        assert!(self.during(from, until).next().is_some(), "nobody looked");
        for seen in self.during(from, until) {
            assert_eq!(seen.path_in_use, path, "{seen:?}: {:?}", self.changes());
        }
    }

    /// Asserts that relays alone forwarded the flow in the five seconds before this time.
    fn assert_forwarded_before(&self, end: Time) {
        self.assert_has(Service::Forwarding, end.saturating_sub(secs(5)), end);
    }

    /// Asserts that relays that fail at [`CHANGE`] cost no more than promised, and that they do not
    /// forward the flow alone for 30 s.
    fn assert_survives(&self) {
        let (from, moved) = (CHANGE.saturating_sub(ms(50)), CHANGE + MOVED_WITHIN);
        let case = format!("{:?}", self.changes());
        assert_eq!(self.missing(Time::START, from), [], "before the failure, {case}");
        let cost = self.missing(from, moved).len();
        assert!(cost <= COST_MAX, "{cost} packets, {case}");
        let after = self.missing(moved, Time::MAX);
        assert!(after.iter().all(|number| is_lost(*number)), "of the direct path: {after:?}, {case}");
        let mut after = self.during(moved, CHANGE + NOT_ALONE_FOR);
        assert!(after.all(|seen| seen.service != Service::Forwarding), "{case}");
    }
}

#[test]
fn where_one_of_two_relays_dies_both_paths_follow_within_600_ms_through_the_other() {
    // The paths are over both relays, over the first one alone, and over the second one alone.
    for (dies, path) in [(0, 2), (1, 1)] {
        let plan = automatic(98, (BAD_FROM, 98)).with_both_relays();
        let outcome = Outcome::of(with_receivers_at(ms(40), plan), |world| {
            Run::schedule(world, CHANGE, move |run, world| world.stop(run.relays[dies]));
        });
        outcome.assert_forwarded_before(CHANGE);
        outcome.assert_survives();
        let moved = CHANGE + MOVED_WITHIN;
        assert!(!outcome.missing(CHANGE, moved).is_empty(), "relay {dies}: its death shows");
        assert_eq!(outcome.missing(moved, Time::MAX), [], "relay {dies}: {:?}", outcome.changes());
        // The dead relay is known by then, and the service is selected with the next reports.
        let (from, until) = (CHANGE + ms(1_500), CHANGE + NOT_ALONE_FOR);
        outcome.assert_has(Service::Both, from, until);
        outcome.assert_uses(Some(path), from, until);
    }
}

#[test]
fn where_the_only_relay_dies_the_direct_path_follows_and_both_paths_once_it_is_back() {
    let back = CHANGE + ms(2_400);
    let outcome = Outcome::of(through_one_relay(98, (BAD_FROM, 98)), |world| {
        Run::schedule(world, CHANGE, |run, world| world.stop(run.relays[0]));
        Run::schedule(world, back, |run, world| run.restart_relay(0, world));
    });
    outcome.assert_forwarded_before(CHANGE);
    outcome.assert_survives();
    assert!(!outcome.missing(CHANGE, CHANGE + MOVED_WITHIN).is_empty(), "its death shows");
    outcome.assert_uses(None, CHANGE + secs(1), back);
    // Sessions resume within a second and a round trip, and both ends register the flow again.
    let served = back + secs(2);
    assert_eq!(outcome.missing(served, Time::MAX), [], "{:?}", outcome.changes());
    outcome.assert_has(Service::Both, served, CHANGE + NOT_ALONE_FOR);
    outcome.assert_uses(Some(0), served, CHANGE + NOT_ALONE_FOR);
}

#[test]
fn relays_that_begin_to_lose_packets_are_left_for_both_paths_within_two_reports() {
    let outcome = Outcome::of(between_two_relays(98), |world| {
        change_between(world, CHANGE, |link| link.loss = vec![Loss::Independent(share(0.3))]);
    });
    outcome.assert_forwarded_before(CHANGE);
    let before = outcome.missing(Time::START, CHANGE.saturating_sub(ms(50)));
    assert_eq!(before, [], "{:?}", outcome.changes());
    // Reports are a second apart, and the change takes a round trip of 100 ms. Relays that go on
    // losing packets do not forward the flow alone again.
    outcome.assert_has(Service::Both, CHANGE + secs(2) + ms(200), outcome.run.end());
}

#[test]
fn after_a_failure_relays_alone_forward_a_flow_again_at_the_earliest_30_s_later() {
    // Relays answer probes, which are short, and do not pass packets on.
    let outcome = Outcome::of(between_two_relays(128), |world| {
        change_between(world, CHANGE, |link| link.ip_bytes_max = Some(Bytes::new(300)));
        change_between(world, CHANGE + ms(500), |_| {});
    });
    outcome.assert_forwarded_before(CHANGE);
    outcome.assert_survives();
    let (moved, case) = (CHANGE + MOVED_WITHIN, format!("{:?}", outcome.changes()));
    assert_eq!(outcome.missing(moved, Time::MAX), [], "{case}");
    outcome.assert_has(Service::Both, moved, CHANGE + NOT_ALONE_FOR);
    // Relays show again that they deliver, in 18 s, and forwarding follows after 30 s.
    outcome.assert_forwarded_before(outcome.run.end());
}

#[test]
fn one_relay_alone_forwards_a_flow_until_its_direct_path_is_clean() {
    let mut usages = None;
    let outcome = Outcome::of(through_one_relay(152, (BAD_FROM, 54)), |world| {
        usages = Some(usages_at(world, [70_000, 86_000]));
    });
    outcome.assert_forwarded_before(CHANGE);
    let (changes, case) = (outcome.changes(), format!("{:?}", outcome.changes()));
    assert_eq!(outcome.services(), [Service::Both, Service::Forwarding, Service::Both], "{case}");
    // Forwarding begins 30 s after a thousand losses, and ends 30 s after a minute without any.
    assert!((at(51_500)..CHANGE).contains(&changes[1].0), "{case}");
    assert!((at(144_000)..at(152_000)).contains(&changes[2].0), "{case}");
    assert_eq!(outcome.missing(Time::START, Time::MAX), [], "{case}");
    let usages = usages.expect("they are recorded").take();
    let packets = usages[1].source.packets - usages[0].source.packets;
    let samples = usages[1].direct.packets - usages[0].direct.packets;
    assert_eq!((packets, samples), (1_600, 100), "one packet in 16 also uses the direct path");
}

#[test]
fn a_direct_path_that_becomes_bad_after_a_minute_is_left_to_relays() {
    let outcome = Outcome::of(with_receivers_at(ms(40), automatic(124, (60, 124))), |_| {});
    let (changes, case) = (outcome.changes(), format!("{:?}", outcome.changes()));
    let expected = [Service::Both, Service::Retransmission, Service::Both, Service::Forwarding];
    assert_eq!(outcome.services(), expected, "{case}");
    // The next reports show the losses. A thousand of them take 17.5 s, and the change follows
    // 30 s later.
    let upgraded = at(62_000);
    assert!((at(60_000)..upgraded).contains(&changes[2].0), "{case}");
    assert!((at(107_500)..at(119_000)).contains(&changes[3].0), "{case}");
    outcome.assert_forwarded_before(outcome.run.end());
    assert_eq!(outcome.missing(Time::START, at(60_000)), [], "{case}");
    assert_eq!(outcome.missing(upgraded, Time::MAX), [], "{case}");
}

#[test]
fn a_direct_path_that_goes_dark_loses_samples_and_no_packet() {
    let mut plan = between_two_relays(90);
    let dark = Span::new(CHANGE, secs(20));
    plan.flows[0].direct.outages.push(dark);
    plan.flows[0].back.outages.push(dark);
    let outcome = Outcome::of(plan, |_| {});
    let case = format!("{:?}", outcome.changes());
    outcome.assert_forwarded_before(CHANGE);
    outcome.assert_has(Service::Forwarding, dark.from, dark.until);
    assert_eq!(outcome.missing(Time::START, Time::MAX), [], "{case}");
    let sent = packet_at(CHANGE_SECOND)..packet_at(CHANGE_SECOND + 20);
    let lost = outcome.world.observer().lost.iter().map(|(_, number)| *number);
    let lost: Vec<u64> = lost.filter(|number| sent.contains(number)).collect();
    assert!(!lost.is_empty() && lost.iter().all(|number| number.is_multiple_of(16)), "{lost:?}, {case}");
}

#[test]
fn a_controllers_grants_decide_whether_relays_alone_may_forward_a_flow() {
    for (granted, expected) in [
        (Services::ALL, vec![Service::Both, Service::Forwarding]),
        (Services::ALL.without(Service::Forwarding), vec![Service::Both]),
    ] {
        let mut plan = between_two_relays(CHANGE_SECOND).each_flow(|flow| flow.terms.services = granted);
        plan.has_controller = true;
        let outcome = Outcome::of(plan, |_| {});
        assert_eq!(outcome.services(), expected, "{granted:?}: {:?}", outcome.changes());
        assert_eq!(outcome.missing(Time::START, Time::MAX), [], "{granted:?}");
    }
}

#[test]
fn a_flow_whose_relays_are_at_a_metered_uplink_keeps_both_paths() {
    for (is_second_metered, expected) in
        [(false, vec![Service::Both, Service::Forwarding]), (true, vec![Service::Both])]
    {
        let mut plan = between_two_relays(CHANGE_SECOND);
        plan.agents[0].uplinks = Uplinks::Two { is_second_metered };
        let outcome = Outcome::of(plan, |_| {});
        let case = format!("metered {is_second_metered}: {:?}", outcome.changes());
        assert_eq!(outcome.services(), expected, "{case}");
        // At a metered uplink, copies begin when the first loss is reported, just after 4 s.
        let statistics = outcome.run.statistics(0, &outcome.world);
        assert!(statistics.covered >= 1_000, "{case}: {statistics:?}");
        assert_eq!(outcome.missing(at(5_000), Time::MAX), [], "{case}");
    }
}
