//! Test of a small protocol in the world: pings with retransmission until they are answered, judged
//! by the checkers.

mod support;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use byway_sim::checkers::{ByteBudget, Deliveries, Delivery, DeliveryCounters, RepairSummary, Repairs};
use byway_sim::{
    Datagram, Ecn, Freeze, Host, Jitter, Link, Loss, Marks, NodeId, Observer, Record, Reordering, Seed, Span,
    Step, Transmit, World,
};
use byway_units::{Bytes, Duration, Probability, Time};
use support::{address, millis};

const DELAY: Duration = Duration::from_millis(20);
const RETRY: Duration = Duration::from_millis(60);
const INTERVAL: Duration = Duration::from_millis(10);
const PINGS: u64 = 1_000;
const DEADLINE: Duration = Duration::from_millis(200);
const FLOW: u8 = 1;

/// A host of this protocol. Messages are a byte, 0 for ping and 1 for pong, and a number.
#[derive(Default)]
struct Pinger {
    peer: Option<SocketAddr>,
    /// Unanswered pings, and the time of their next retransmission.
    unanswered: BTreeMap<u64, Time>,
    outgoing: VecDeque<(SocketAddr, [u8; 9])>,
    sending: [u8; 9],
    seen: BTreeSet<u64>,
    /// Pings for the application.
    delivered: VecDeque<[u8; 8]>,
}

impl Pinger {
    fn ping(&mut self, number: u64, now: Time) {
        if let Some(peer) = self.peer {
            self.unanswered.insert(number, now + RETRY);
            self.outgoing.push_back((peer, message(0, number)));
        }
    }
}

fn message(kind: u8, number: u64) -> [u8; 9] {
    let mut bytes = [kind; 9];
    bytes[1..].copy_from_slice(&number.to_be_bytes());
    bytes
}

impl Host for Pinger {
    fn receive(&mut self, datagram: Datagram<'_>, _now: Time) {
        let Some((&mut kind, number)) = datagram.payload.split_first_mut() else { return };
        let Ok(bytes) = <[u8; 8]>::try_from(&*number) else { return };
        let number = u64::from_be_bytes(bytes);
        if kind == 1 {
            self.unanswered.remove(&number);
            return;
        }
        self.outgoing.push_back((datagram.source, message(1, number)));
        if self.seen.insert(number) {
            self.delivered.push_back(bytes);
        }
    }

    fn wake(&mut self, now: Time) {
        let due: Vec<_> =
            self.unanswered.iter().filter(|&(_, &retry)| retry <= now).map(|(&number, _)| number).collect();
        for number in due {
            self.ping(number, now);
        }
    }

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        let (destination, bytes) = self.outgoing.pop_front()?;
        self.sending = bytes;
        Some(Transmit {
            source: None,
            destination,
            marks: Marks::default(),
            ecn: Ecn::NotCapable,
            payload: &self.sending,
        })
    }

    fn deadline(&self) -> Option<Time> {
        self.unanswered.values().min().copied()
    }
}

/// Records from the log the first transmissions that the link loses, and their cost.
struct LossObserver {
    repairs: Repairs<u64>,
    budget: ByteBudget,
    /// Packet numbers of the first transmissions in the world.
    first_transmissions: BTreeSet<u64>,
    next: u64,
}

impl Observer for LossObserver {
    fn packet(&mut self, record: &Record<'_>) {
        let Ok(bytes) = <[u8; 8]>::try_from(&record.payload[1..]) else { return };
        let number = u64::from_be_bytes(bytes);
        if record.payload[0] == 1 {
            return;
        }
        match record.step {
            Step::Sent => {
                let spent = self.budget.spend(Bytes::from(record.payload.len()), record.time);
                assert_eq!(spent, Ok(()));
                if number == self.next {
                    self.next += 1;
                    self.first_transmissions.insert(record.packet);
                    assert_eq!(self.repairs.on_sent(number, record.time, DELAY), Ok(()));
                }
            }
            Step::Lost(_) if self.first_transmissions.contains(&record.packet) => {
                assert_eq!(self.repairs.on_lost(number), Ok(()));
            }
            _ => {}
        }
    }
}

/// One side pings every 10 ms.
struct Pings {
    from: NodeId,
    to: NodeId,
    deliveries: Deliveries<u8>,
}

/// Actions of the pinging application.
enum PingAction {
    Ping(u64),
    Stop,
    Restart,
    Freeze,
    Resume,
    Rebind,
}

impl byway_sim::Scenario for Pings {
    type Host = Pinger;
    type Event = PingAction;
    type Observer = LossObserver;

    fn event(&mut self, act: PingAction, world: &mut World<Self>) {
        match act {
            PingAction::Ping(number) => {
                assert_eq!(self.deliveries.on_sent(FLOW, &number.to_be_bytes(), world.now()), Ok(()));
                world.input(self.from, |host, now| host.ping(number, now));
                if number + 1 < PINGS {
                    world.schedule_in(INTERVAL, PingAction::Ping(number + 1));
                }
            }
            PingAction::Stop => world.stop(self.to),
            PingAction::Restart => {
                // The application above survives with its record of received packets.
                let seen = std::mem::take(&mut world.host_mut(self.to).seen);
                world.restart(self.to, Pinger { seen, ..Pinger::default() });
            }
            PingAction::Freeze => world.freeze(self.to, Freeze::Buffer),
            PingAction::Resume => world.resume(self.to),
            PingAction::Rebind => world.change_address(self.from, address(1), address(11)),
        }
    }

    fn drained(&mut self, node: NodeId, world: &mut World<Self>) {
        let now = world.now();
        while let Some(ping) = world.host_mut(node).delivered.pop_front() {
            let delivery = self.deliveries.on_delivered(FLOW, &ping, now);
            assert!(matches!(delivery, Ok(Delivery::InTime | Delivery::Late)), "{delivery:?}");
            let number = u64::from_be_bytes(ping);
            assert_eq!(world.observer_mut().repairs.on_delivered(number, now), Ok(()));
        }
    }
}

fn pinging(seed: u64, link: &Link) -> (World<Pings>, Pings) {
    // Every ping once, and a retransmission of each, within any second.
    let budget = ByteBudget::new(Bytes::new(2 * 100 * 9), Duration::from_secs(1));
    let observer =
        LossObserver { repairs: Repairs::default(), budget, first_transmissions: BTreeSet::new(), next: 0 };
    let mut world = World::new(Seed::new(seed), observer);
    let from = world.add(Pinger { peer: Some(address(2)), ..Pinger::default() }, address(1));
    let to = world.add(Pinger::default(), address(2));
    world.connect_both(from, to, link);
    world.schedule(Time::START, PingAction::Ping(0));
    (world, Pings { from, to, deliveries: Deliveries::new(DEADLINE) })
}

fn finish(mut world: World<Pings>, mut pings: Pings) -> (DeliveryCounters, RepairSummary, u64) {
    world.run_until(millis(20_000), &mut pings);
    assert_eq!(world.check_conservation(), Ok(()));
    assert!(world.host(pings.from).unanswered.is_empty(), "after the faults, every ping is answered");
    let summary = world.observer().repairs.summary(DEADLINE, RETRY);
    (pings.deliveries.counters(), summary, world.digest())
}

fn lossy() -> Link {
    let share = |value| Probability::new(value).expect("a probability");
    Link {
        delay: DELAY,
        jitter: Jitter { max: Duration::from_millis(5), may_reorder: true },
        reordering: Reordering { probability: share(0.02), detour: Duration::from_millis(30) },
        loss: vec![Loss::Independent(share(0.1))],
        duplication: share(0.1),
        ..Link::default()
    }
}

#[test]
fn without_loss_every_ping_arrives_at_once() {
    let (world, pings) = pinging(1, &Link { delay: DELAY, ..Link::default() });
    let (counters, summary, _) = finish(world, pings);
    assert_eq!(counters, DeliveryCounters { sent: PINGS, in_time: PINGS, late: 0 });
    assert_eq!((summary.sent, summary.lost, summary.repair_times.max()), (PINGS, 0, None));
}

#[test]
fn lost_pings_are_repaired_one_retry_later() {
    let (world, pings) =
        pinging(1, &Link { loss: vec![Loss::Every { first: 7, period: 100 }], ..lossless() });
    let (counters, summary, _) = finish(world, pings);
    assert_eq!(counters.in_time, PINGS);
    assert!(summary.lost >= 10, "{summary:?}");
    assert_eq!((summary.repaired, summary.repaired_within), (summary.lost, summary.lost));
    assert_eq!((summary.repair_times.median(), summary.repair_times.max()), (Some(RETRY), Some(RETRY)));
}

fn lossless() -> Link {
    Link { delay: DELAY, ..Link::default() }
}

#[test]
fn a_bad_link_delivers_all_at_most_once_and_the_same_on_every_run() {
    let run = |seed| {
        let (world, pings) = pinging(seed, &lossy());
        finish(world, pings)
    };
    for seed in 0..20 {
        let (counters, summary, _) = run(seed);
        assert_eq!((counters.sent, counters.missing()), (PINGS, 0));
        // 100 with a standard deviation of 9.5.
        assert!(summary.lost.abs_diff(100) < 40 && summary.repaired > 0, "seed {seed}: {summary:?}");
    }
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_outage_a_crash_a_freeze_and_a_new_address_are_survived() {
    let outages = vec![Span::new(millis(1_000), Duration::from_millis(150))];
    let (mut world, pings) = pinging(1, &Link { outages, ..lossless() });
    for (time, act) in [
        (2_000, PingAction::Stop),
        (2_100, PingAction::Restart),
        (3_000, PingAction::Freeze),
        (3_100, PingAction::Resume),
        (4_000, PingAction::Rebind),
    ] {
        world.schedule(millis(time), act);
    }
    let (counters, summary, _) = finish(world, pings);
    assert_eq!((counters.sent, counters.missing()), (PINGS, 0));
    assert!(summary.lost >= 25, "{summary:?}");
    assert_eq!((summary.missing, summary.duplicates), (0, 0));
}
