//! Tests of relay faults under every service and every arrangement: no fault harms the direct path.

use byway_proto::agent::{Delivery, Duplication};
use byway_sim::overlay::SendSchedule;
use byway_sim::{Freeze, Jitter, Link, Loss, LossReason, NodeId};
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{
    ARRANGEMENTS, DeliveredPacket, FlowPlan, Misbehaviour, OverlayWorld, Plan, Run, at, ms, secs, share,
};

/// A use of relays.
struct Use {
    name: &'static str,
    service: Service,
    set: fn(&mut FlowPlan),
}

/// Uses in which every packet takes the direct path.
const BESIDE: [Use; 7] = [
    Use { name: "internet", service: Service::Internet, set: |_| {} },
    Use { name: "coding", service: Service::Coding, set: |_| {} },
    Use { name: "caching", service: Service::Caching, set: |_| {} },
    Use { name: "both", service: Service::Both, set: |_| {} },
    Use { name: "pull", service: Service::Pull, set: |_| {} },
    Use {
        name: "own repairs",
        service: Service::Coding,
        set: |flow| flow.settings.duplication = Duplication::SenderFec,
    },
    Use {
        name: "selective",
        service: Service::Caching,
        set: |flow| {
            flow.settings.duplication = Duplication::Marked;
            flow.marks_one_in = Some(2);
        },
    },
];

/// Use in which every packet takes the direct path, except in an outage of it.
const ON_REQUEST: Use = Use { name: "retransmission", service: Service::Retransmission, set: |_| {} };

/// Uses in which no packet takes the direct path while relays deliver.
const THROUGH: [Use; 2] = [
    Use { name: "forwarding", service: Service::Forwarding, set: |_| {} },
    Use {
        name: "copies by relay",
        service: Service::Caching,
        set: |flow| flow.settings.duplication = Duplication::ByRelay,
    },
];

/// Fault of all relays.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Death,
    Freeze(Freeze),
    /// Half of all packets to and from relays are lost.
    Loss,
    /// Every link to and from relays has 300 ms more delay.
    Delay,
    /// Links to and from relays duplicate, damage and reorder packets.
    Damage,
    Misbehaviour(Misbehaviour),
}

/// The time at which a fault begins, and the time at which it ends.
#[derive(Clone, Copy, Debug)]
struct Period {
    from: Time,
    until: Time,
}

const FROM_THE_START: Period = Period { from: Time::START, until: Time::MAX };

/// Period of a fault that begins and ends while all flows send.
const UNDER_WAY: Period = Period { from: at(4_000), until: at(8_000) };

/// Time in which a flow moves to the direct path if relays deliver nothing, or garbage.
const MOVED_WITHIN: Duration = Duration::from_millis(600);

/// Time after an outage in which a flow with retransmission returns to the direct path. It is the
/// longest interval of source packets in an outage, and the round trip of the receiver's report.
const BACK_WITHIN: Duration = Duration::from_millis(350);

/// Outage of a direct path.
const OUTAGE: (Time, Duration) = (at(6_000), ms(700));

/// Begin of all flows.
const BEGIN: Time = at(2_000);

impl Fault {
    /// Applies this fault to a link to or from a relay.
    fn change(self, link: &mut Link) {
        match self {
            Self::Loss => link.loss = vec![Loss::Independent(share(0.5))],
            Self::Delay => link.delay += ms(300),
            Self::Damage => {
                link.duplication = share(0.3);
                link.corruption = share(0.05);
                link.jitter = Jitter { max: ms(20), may_reorder: true };
            }
            Self::None | Self::Death | Self::Freeze(_) | Self::Misbehaviour(_) => {}
        }
    }

    /// Returns the relevant periods: relays frozen from the start are equal to stopped ones.
    const fn periods(self) -> &'static [Period] {
        match self {
            Self::None => &[FROM_THE_START],
            Self::Freeze(_) => &[UNDER_WAY],
            _ => &[FROM_THE_START, UNDER_WAY],
        }
    }

    fn begin(self, run: &mut Run, world: &mut OverlayWorld) {
        match self {
            Self::None => {}
            Self::Death => run.relays.iter().for_each(|relay| world.stop(*relay)),
            Self::Freeze(hang) => run.relays.iter().for_each(|relay| world.freeze(*relay, hang)),
            Self::Misbehaviour(_) => {
                run.plan.faulty_relay.as_ref().expect("these relays may lie").set_lying(true);
            }
            Self::Loss | Self::Delay | Self::Damage => {
                let Plan { between, agents, .. } = &mut run.plan;
                let access = agents.iter_mut().flat_map(|agent| &mut agent.relays).map(|(_, link)| link);
                access.chain([between]).for_each(|link| self.change(link));
                run.connect(world);
            }
        }
    }

    fn end(self, before: &Plan, run: &mut Run, world: &mut OverlayWorld) {
        match self {
            Self::None => {}
            Self::Death => (0..run.relays.len()).for_each(|relay| run.restart_relay(relay, world)),
            Self::Freeze(_) => run.relays.iter().for_each(|relay| world.resume(*relay)),
            Self::Misbehaviour(_) => {
                run.plan.faulty_relay.as_ref().expect("these relays may lie").set_lying(false);
            }
            Self::Loss | Self::Delay | Self::Damage => {
                run.plan.between = before.between.clone();
                run.plan.agents.clone_from(&before.agents);
                run.connect(world);
            }
        }
    }

    /// Runs a plan with this fault.
    fn run(self, mut plan: Plan, period: Period) -> (OverlayWorld, Run) {
        if let Self::Misbehaviour(lie) = self {
            plan = plan.lying(lie);
            plan.faulty_relay.as_ref().expect("they lie").set_lying(false);
        }
        let before = plan.clone();
        let (mut world, mut run) = plan.build();
        if period.from == Time::START {
            self.begin(&mut run, &mut world);
        } else {
            Run::schedule(&mut world, period.from, move |run, world| self.begin(run, world));
            Run::schedule(&mut world, period.until, move |run, world| self.end(&before, run, world));
        }
        run.finish(&mut world);
        (world, run)
    }
}

/// Four flows on direct paths with losses, jitter and an outage.
fn impaired(usage: &Use, arrange: fn(Plan) -> Plan) -> Plan {
    let mut plan = lossy(usage, arrange);
    plan.add_outage(1, OUTAGE.0, OUTAGE.1);
    plan
}

/// Four flows on direct paths with losses and jitter.
fn lossy(usage: &Use, arrange: fn(Plan) -> Plan) -> Plan {
    arrange(Plan::pairs(4, usage.service)).each_flow(|flow| {
        flow.direct.loss = vec![Loss::Independent(share(0.02))];
        // A path that preserves the order would delay packets behind others, and the overlay adds
        // packets.
        flow.direct.jitter = Jitter { max: ms(5), may_reorder: true };
        // Packets of one instant share their draws in order: none is sent at the instant of a
        // probe.
        flow.sending = SendSchedule::Paced(Duration::from_micros(10_007));
        (usage.set)(flow);
    })
}

/// Two flows on direct paths that deliver everything.
fn clean(usage: &Use, arrange: fn(Plan) -> Plan) -> Plan {
    arrange(Plan::pairs(2, usage.service)).each_flow(|flow| {
        flow.length = secs(16);
        (usage.set)(flow);
    })
}

/// True if `these` is a subsequence of `others`.
fn is_among<T: PartialEq>(these: &[T], others: &[T]) -> bool {
    let mut others = others.iter();
    these.iter().all(|this| others.any(|other| other == this))
}

/// Returns the number of packets that relays delivered in a span.
fn relayed(run: &Run, from: Time, until: Time) -> usize {
    let is_relayed = |delivery: Delivery| delivery != Delivery::Direct;
    run.delivered.iter().filter(|got| is_relayed(got.delivery) && got.at >= from && got.at < until).count()
}

/// Asserts that the direct path delivers the same packets as without an overlay, and that no
/// delivery is later.
fn assert_direct_path_is_as_alone(case: &str, alone: &(OverlayWorld, Run), run: &(OverlayWorld, Run)) {
    let (seen, seen_alone) = (run.0.observer(), alone.0.observer());
    // Packets whose copies relays miss are sent again on the direct path, too: 16 of a flow, and
    // one in 16 of its packets.
    assert!(is_among(&seen_alone.lost, &seen.lost), "{case}: the same losses");
    assert!(is_among(&seen_alone.direct, &seen.direct), "{case}: the same arrivals");
    let arrivals = seen.direct.len();
    let again = alone.1.sent.iter().map(|sent| 16 + sent.len() / 16).sum::<usize>();
    assert!(arrivals <= seen_alone.direct.len() + again, "{case}: {arrivals} arrivals");
    for got in &alone.1.delivered {
        let again = run.1.delivered.iter().find(|again| (again.flow, again.number) == (got.flow, got.number));
        let at = again.map(|again| again.at);
        assert!(at.is_some_and(|at| at <= got.at), "{case}: {got:?}: {at:?}");
    }
}

/// Returns the number of packets sent in a span that were not delivered, or after the flow's
/// budget.
fn missing_or_late(run: &Run, from: Time, until: Time) -> usize {
    let late = run.delivered.iter().filter(|got| {
        let flow = &run.plan.flows[got.flow];
        let sent = run.sent[got.flow][usize::try_from(got.number).expect("few packets")];
        sent >= from && sent < until && got.at > sent + flow.settings.latency_budget
    });
    run.all_missing(from, until) + late.count()
}

impl Fault {
    /// Returns the most attempts of a flow to use only relays again after it has left them, each
    /// for [`MOVED_WITHIN`].
    ///
    /// Relays that lose half of everything appear to stop and to recover. Relays that are late, or
    /// falsify some packets, are detected later than stopped ones, which counts as one attempt. In
    /// a run of 16 s, a flow tries relays again once if they fail from the start.
    const fn tries_max(self, period: Period) -> usize {
        match self {
            Self::None
            | Self::Death
            | Self::Freeze(_)
            | Self::Misbehaviour(Misbehaviour::Receptions | Misbehaviour::RoundTrips) => 0,
            Self::Misbehaviour(Misbehaviour::Garbage) if period.is_in_flight() => 0,
            Self::Delay
            | Self::Damage
            | Self::Misbehaviour(Misbehaviour::Garbage | Misbehaviour::Anything) => 1,
            Self::Loss => 2,
        }
    }

    /// Asserts that the fault took effect.
    fn assert_happened(self, case: &str, period: Period, (world, run): &(OverlayWorld, Run)) {
        // Packets in flight at the beginning may arrive.
        let (from, until) = (period.from.saturating_add(ms(100)), period.until.min(run.end()));
        let is_relay = |node: &NodeId| run.relays.contains(node);
        let links = || world.links().filter(|(from, to, _)| is_relay(from) || is_relay(to));
        match self {
            Self::None => {}
            Self::Death | Self::Freeze(_) => assert_eq!(relayed(run, from, until), 0, "{case}"),
            Self::Loss => {
                let lost: u64 = links().map(|(_, _, link)| link.lost[LossReason::Random]).sum();
                assert!(lost > 20, "{case}: {lost} lost");
            }
            Self::Damage => {
                let damaged = links().map(|(_, _, link)| link.corrupted.min(link.duplicated)).max();
                assert!(damaged > Some(0), "{case}");
            }
            Self::Delay => {
                let sent =
                    |got: &DeliveredPacket| run.sent[got.flow][usize::try_from(got.number).expect("few")];
                let in_fault = |got: &&DeliveredPacket| sent(got) >= from && sent(got) + ms(500) < until;
                let soonest =
                    run.delivered.iter().filter(|got| got.delivery != Delivery::Direct).filter(in_fault);
                let soonest = soonest.map(|got| got.at.saturating_since(sent(got))).min();
                assert!(soonest.is_none_or(|soonest| soonest > ms(300)), "{case}: {soonest:?}");
            }
            Self::Misbehaviour(_) => {
                let false_messages = run.plan.faulty_relay.as_ref().expect("they lie").false_messages();
                assert!(false_messages > 0, "{case}");
            }
        }
    }
}

impl Period {
    const fn is_in_flight(self) -> bool {
        self.from.as_nanos() > 0
    }

    /// Returns the number of packets that relays delivered before the fault, and well after it.
    fn relayed_beside(self, run: &Run) -> [usize; 2] {
        let after = self.until.saturating_add(secs(1));
        [relayed(run, Time::START, self.from), relayed(run, after, Time::MAX)]
    }
}

/// Asserts that flows that send every packet on the direct path lose none of them because of a
/// fault.
fn assert_no_harm_beside(fault: Fault, period: Period) {
    let mut total = [0; 2];
    for (name, arrange) in ARRANGEMENTS {
        let alone = impaired(&BESIDE[0], arrange).each_flow(|flow| flow.paths.clear()).run();
        for usage in &BESIDE {
            let case = format!("{}, {name}", usage.name);
            let run = fault.run(impaired(usage, arrange), period);
            assert_direct_path_is_as_alone(&case, &alone, &run);
            let relayed = period.relayed_beside(&run.1);
            if usage.service != Service::Internet {
                fault.assert_happened(&case, period, &run);
                assert!(!period.is_in_flight() || relayed[0] > 0, "{case}: relays repair before the fault");
            }
            total = [total[0] + relayed[0], total[1] + relayed[1]];
        }
    }
    // Agents assume, for longer than the run, that relays with false round trips have a queue.
    let repairs_again =
        period.is_in_flight() && !matches!(fault, Fault::Misbehaviour(Misbehaviour::RoundTrips));
    assert!(!repairs_again || total[1] > 1_000, "relays repair after the fault: {total:?}");
}

/// Asserts that a flow with retransmission loses no packet because of a fault, and after an outage
/// of its direct path only those of [`BACK_WITHIN`].
fn assert_no_harm_on_request(fault: Fault, period: Period) {
    let mut resent = [0; 2];
    for (name, arrange) in ARRANGEMENTS {
        let case = format!("{}, {name}", ON_REQUEST.name);
        let alone = lossy(&BESIDE[0], arrange).each_flow(|flow| flow.paths.clear()).run();
        let run = fault.run(lossy(&ON_REQUEST, arrange), period);
        assert_direct_path_is_as_alone(&case, &alone, &run);
        fault.assert_happened(&case, period, &run);
        let relayed = period.relayed_beside(&run.1);
        resent = [resent[0] + relayed[0], resent[1] + relayed[1]];

        let mut plan = clean(&ON_REQUEST, arrange);
        (0..plan.flows.len()).for_each(|flow| plan.add_outage(flow, OUTAGE.0, OUTAGE.1));
        let (_, run) = fault.run(plan, period);
        let back_at = OUTAGE.0 + OUTAGE.1 + BACK_WITHIN;
        assert_eq!(run.all_missing(BEGIN, OUTAGE.0) + run.all_missing(back_at, Time::MAX), 0, "{case}");
    }
    assert!(!period.is_in_flight() || resent[0] > 100, "relays repair before the fault: {resent:?}");
}

/// Asserts that flows that use only relays move to the direct path soon after a fault begins.
fn assert_no_harm_through(fault: Fault, period: Period) {
    for (name, arrange) in ARRANGEMENTS {
        for usage in &THROUGH {
            let case = format!("{}, {name}", usage.name);
            let run = fault.run(clean(usage, arrange), period);
            fault.assert_happened(&case, period, &run);
            let (_, run) = run;
            // Packets in flight at the beginning of the fault are not counted.
            assert_eq!(missing_or_late(&run, BEGIN, period.from.saturating_sub(ms(100))), 0, "{case}");
            let moved_at = BEGIN.max(period.from) + MOVED_WITHIN;
            let packets = |time: Duration| time.as_nanos() / run.plan.flows[0].sending.interval().as_nanos();
            let packets = usize::try_from(packets(MOVED_WITHIN)).expect("few") * run.plan.flows.len();
            let missing = missing_or_late(&run, moved_at, Time::MAX);
            assert!(missing <= packets * fault.tries_max(period), "{case}: {missing}");
            // Forwarding relays know both ends only in some arrangements.
            if usage.service == Service::Forwarding && period.is_in_flight() {
                let [before, _] = period.relayed_beside(&run);
                assert!(before > 350, "{case}: {before}");
            }
        }
    }
}

/// Asserts that a fault harms no service in any arrangement, both from the start and for a period.
fn assert_no_harm(fault: Fault) {
    for period in fault.periods() {
        assert_no_harm_beside(fault, *period);
        assert_no_harm_on_request(fault, *period);
        assert_no_harm_through(fault, *period);
    }
}

#[test]
fn relays_that_work_do_no_harm() {
    assert_no_harm(Fault::None);
}

#[test]
fn relays_that_die_do_no_harm() {
    assert_no_harm(Fault::Death);
}

#[test]
fn relays_that_freeze_and_keep_what_comes_do_no_harm() {
    assert_no_harm(Fault::Freeze(Freeze::Buffer));
}

#[test]
fn relays_that_freeze_and_lose_what_comes_do_no_harm() {
    assert_no_harm(Fault::Freeze(Freeze::Drop));
}

#[test]
fn relays_that_lose_half_of_all_packets_do_no_harm() {
    assert_no_harm(Fault::Loss);
}

#[test]
fn slow_relays_do_no_harm() {
    assert_no_harm(Fault::Delay);
}

#[test]
fn relays_that_duplicate_damage_and_reorder_packets_do_no_harm() {
    assert_no_harm(Fault::Damage);
}

#[test]
fn relays_whose_packets_are_garbage_do_no_harm() {
    assert_no_harm(Fault::Misbehaviour(Misbehaviour::Garbage));
}

#[test]
fn relays_that_acknowledge_what_they_never_carried_do_no_harm() {
    assert_no_harm(Fault::Misbehaviour(Misbehaviour::Receptions));
}

#[test]
fn relays_that_misreport_round_trips_do_no_harm() {
    assert_no_harm(Fault::Misbehaviour(Misbehaviour::RoundTrips));
}

#[test]
fn relays_that_misreport_anything_do_no_harm() {
    assert_no_harm(Fault::Misbehaviour(Misbehaviour::Anything));
}
