extern crate std;

use core::net::Ipv4Addr;

use alloc::vec;
use alloc::vec::Vec;
use byway_sched::{Class, GuardMode, Settings};
use byway_units::{AgentId, Bytes, Duration, FlowId, Rate, Time};
use byway_wire::{Ecn, FlowKey, Receiver};

use super::{Uplink, UplinkSettings};
use crate::limits::{UPLINK_CREDIT, UPLINK_PACKET, UPLINK_QUANTUM};
use crate::network_path::NetworkPath;
use crate::outbox::{Heading, Outbox, Owner, Urgency};

const PROMISED: Duration = Duration::from_millis(10);

/// The payload of a packet that takes 1,500 bytes of the line.
const FULL: usize = 1_472;

fn promise(megabits: u64) -> Settings {
    Settings::new(Rate::from_megabits_per_second(megabits), UPLINK_PACKET).expect("a usual line")
}

fn to() -> NetworkPath {
    core::net::SocketAddr::from((Ipv4Addr::new(192, 0, 2, 7), 4_600)).into()
}

fn flow(number: u16, class: Class) -> Owner {
    let key = FlowKey::new(AgentId::new(1), Receiver::Agent(AgentId::new(2)), FlowId::new(number));
    Owner::Flow(key, class)
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: Time,
    waited: Duration,
    owner: Option<Owner>,
    ecn: Ecn,
    bytes: u64,
}

impl Left {
    const fn is_low_delay(&self) -> bool {
        matches!(self.owner, None | Some(Owner::Session(_) | Owner::Flow(_, Class::LowDelay)))
    }
}

/// An uplink, and who sends.
struct Line {
    uplink: Uplink,
    outbox: Outbox<Heading>,
    now: Time,
    /// How much later than it wants it is woken.
    lateness: Duration,
    came: Vec<(Time, Option<Owner>)>,
    left: Vec<Left>,
    wakes: usize,
}

impl Line {
    fn new(promised: Settings) -> Self {
        Self {
            uplink: Uplink::new(UplinkSettings::new(promised), &[7; 32], Time::START),
            outbox: Outbox::default(),
            now: Time::START,
            lateness: Duration::ZERO,
            came: Vec::new(),
            left: Vec::new(),
            wakes: 0,
        }
    }

    fn drain(&mut self) {
        self.uplink.take(&mut self.outbox, self.now);
        while let Some(transmit) = self.uplink.poll() {
            let (number, rest) = transmit.bytes.split_at(4);
            let number = u32::from_be_bytes(number.try_into().expect("four bytes"));
            assert!(
                rest.iter().all(|byte| *byte == number.to_be_bytes()[3]),
                "the bytes are another packet's"
            );
            let (came, owner) = self.came[number as usize];
            let (waited, bytes) = (self.now - came, transmit.bytes.len() as u64 + 28);
            self.left.push(Left { at: self.now, waited, owner, ecn: transmit.ecn, bytes });
        }
    }

    /// Time passes.
    fn pass_until(&mut self, end: Time) {
        while let Some(at) = self.uplink.deadline().filter(|at| *at + self.lateness <= end) {
            self.now = self.now.max(at + self.lateness);
            self.wakes += 1;
            self.drain();
        }
        self.now = end;
    }

    fn pass(&mut self, time: Duration) {
        self.pass_until(self.now + time);
    }

    fn put(&mut self, heading: Heading, payload: usize) {
        let number = u32::try_from(self.came.len()).expect("few packets");
        self.came.push((self.now, heading.owner));
        let mut bytes = vec![number.to_be_bytes()[3]; payload];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        self.outbox.add(heading, |out| out.extend_from_slice(&bytes));
    }

    fn send_as(&mut self, heading: Heading, payload: usize) {
        self.put(heading, payload);
        self.drain();
    }

    fn send(&mut self, owner: impl Into<Option<Owner>>, payload: usize) {
        self.send_as(Heading { owner: owner.into(), ..Heading::plain(to()) }, payload);
    }

    /// These flows each send a packet again and again, at a moment of their own.
    fn keep_sending<T: Copy + Into<Option<Owner>>>(
        &mut self,
        owners: &[T],
        every: Duration,
        payload: usize,
        time: Duration,
    ) {
        let end = self.now + time;
        let apart = every / owners.len() as u64;
        for owner in owners.iter().cycle() {
            if self.now >= end {
                return;
            }
            self.send(*owner, payload);
            self.pass(apart);
        }
    }

    fn bytes_of(&self, is_meant: impl Fn(&Left) -> bool) -> u64 {
        self.left.iter().filter(|left| is_meant(left)).map(|left| left.bytes).sum()
    }

    fn longest(&self, is_meant: impl Fn(&Left) -> bool) -> Duration {
        let waits = self.left.iter().filter(|left| is_meant(left)).map(|left| left.waited);
        waits.max().expect("some of them left")
    }
}

#[test]
fn no_low_delay_packet_waits_longer_than_promised_and_a_high_rate_flow_gets_twice_the_rate() {
    for megabits in [20, 100, 1_000] {
        let mut line = Line::new(promise(megabits));
        let both = [flow(1, Class::LowDelay), flow(2, Class::HighRate)];
        // Each as fast as the line.
        let every = Bytes::new(1_500) / Rate::from_megabits_per_second(megabits);
        line.keep_sending(&both, every, FULL, Duration::from_secs(3));
        let longest = line.longest(Left::is_low_delay);
        assert!(longest <= PROMISED && longest > PROMISED / 2, "{megabits}: {longest}");
        assert!(line.longest(|left| !left.is_low_delay()) > Duration::from_millis(100), "{megabits}");
        let late = |left: &Left| left.at > Time::START + Duration::from_secs(1);
        let low = line.bytes_of(|left| left.is_low_delay() && late(left));
        let high = line.bytes_of(|left| !left.is_low_delay() && late(left));
        assert!((1_960..=2_040).contains(&(high * 1_000 / low)), "{megabits}: {high} to {low}");
        let counters = line.uplink.counters;
        assert!(counters.full > 0 && counters.trimmed == 0, "{counters:?}");
        let total = line.bytes_of(|_| true);
        assert_eq!(counters.high_rate_bytes + counters.low_delay_bytes, total);
        assert_eq!(line.uplink.status().queue.allotment.delay, PROMISED, "{megabits}");
    }
}

#[test]
fn the_line_is_never_idle_while_something_waits_and_never_carries_more_than_it_can() {
    for owner in [Some(flow(1, Class::LowDelay)), Some(flow(1, Class::HighRate)), None] {
        let mut line = Line::new(promise(20));
        line.keep_sending(&[owner], Duration::from_micros(500), FULL, Duration::from_secs(2));
        // 5 MB in two seconds, and what the line was given before it has carried it.
        let total = line.bytes_of(|_| true);
        assert!((4_995_000..=5_003_000).contains(&total), "{owner:?}: {total}");
    }
}

#[test]
fn a_packet_of_low_delay_passes_those_that_wait() {
    let mut line = Line::new(promise(10));
    (0..200).for_each(|_| line.send(flow(1, Class::HighRate), FULL));
    line.pass(Duration::from_millis(20));
    assert!(line.left.iter().all(|left| !left.is_low_delay()));
    let before = line.left.len();
    line.send(flow(2, Class::LowDelay), 200);
    line.pass(PROMISED);
    let (place, left) = (line.left.iter().enumerate().skip(before))
        .find(|(_, left)| left.is_low_delay())
        .expect("it left in time");
    assert!(left.waited <= PROMISED && place <= before + 3, "{left:?}");
    line.pass(Duration::from_secs(1));
    assert_eq!(line.left.len(), 201, "the others left as well");
}

#[test]
fn what_is_to_be_sent_at_once_goes_at_once_where_nothing_waits() {
    let mut line = Line::new(promise(10));
    for _ in 0..100 {
        line.send(flow(1, Class::HighRate), FULL);
        line.pass(Duration::from_millis(2));
    }
    assert_eq!(line.longest(|_| true), Duration::ZERO);
    assert_eq!((line.left.len(), line.uplink.deadline()), (100, None));
}

#[test]
fn packets_go_in_rows_where_they_take_less_than_a_quantum() {
    let mut line = Line::new(promise(1_000));
    (0..2_000).for_each(|_| line.send(flow(1, Class::HighRate), FULL));
    line.pass(Duration::from_millis(100));
    // 2,000 packets take 24 ms.
    assert_eq!(line.left.len(), 2_000);
    let rows = 24_000 / UPLINK_QUANTUM.as_micros();
    assert!((rows / 2..=rows + 2).contains(&(line.wakes as u64)), "{}", line.wakes);
}

#[test]
fn whoever_wakes_it_late_loses_no_rate_within_a_millisecond_and_gets_no_burst_beyond() {
    let carried = |lateness: Duration| {
        let mut line = Line::new(promise(100));
        line.lateness = lateness;
        let owners = [flow(1, Class::HighRate)];
        (0..3_000).for_each(|_| line.send(owners[0], FULL));
        line.left.clear();
        line.pass(Duration::from_millis(200));
        let mut rows: Vec<(Time, u64)> = Vec::new();
        for left in &line.left {
            match rows.last_mut().filter(|(at, _)| *at == left.at) {
                Some((_, bytes)) => *bytes += left.bytes,
                None => rows.push((left.at, left.bytes)),
            }
        }
        (line.bytes_of(|_| true), rows.into_iter().map(|(_, bytes)| bytes).max().expect("some"))
    };
    // 200 ms are 2.5 MB.
    let (punctual, _) = carried(Duration::ZERO);
    let (late, row) = carried(UPLINK_CREDIT);
    assert!(punctual.abs_diff(late) <= 20_000, "{punctual} {late}");
    let most = Rate::from_megabits_per_second(100).bytes_in(UPLINK_CREDIT + UPLINK_QUANTUM).expect("few");
    assert!(row <= most.count() + 1_500, "{row}");
    let (too_late, row) = carried(Duration::from_millis(5));
    assert!(too_late < punctual / 2 && row <= most.count() + 1_500, "{too_late} {row}");
}

#[test]
fn repair_packets_leave_room_for_originals() {
    let mut line = Line::new(promise(10));
    let scavenger = Heading {
        urgency: Urgency::Scavenger,
        owner: Some(flow(1, Class::HighRate)),
        ..Heading::plain(to())
    };
    (0..400).for_each(|_| line.send_as(scavenger, FULL));
    let [waits, ..] = line.uplink.status().queue.backlog;
    let [room, ..] = line.uplink.status().queue.allotment.room;
    // 250 ms of 10 Mbit/s are 312 kB.
    assert!(room > Bytes::new(300_000), "{room}");
    assert!(waits <= Bytes::new(room.count() / 2 + 1_500), "{waits} of {room}");
    assert_eq!(line.uplink.counters.full, 0);
    assert!(line.uplink.counters.scavengers > 250, "{:?}", line.uplink.counters);
    (0..90).for_each(|_| line.send(flow(2, Class::HighRate), FULL));
    assert_eq!(line.uplink.counters.full, 0, "originals have the other half");
    line.pass(Duration::from_secs(1));
    let [_, original] = [1, 2].map(|number| {
        line.left.iter().filter(|left| left.owner == Some(flow(number, Class::HighRate))).count()
    });
    assert_eq!(original, 90);
}

#[test]
fn a_repair_packet_goes_where_nothing_waits_however_little_room_there_is() {
    // Two packets take what was promised: a low-delay packet has no room before one was seen.
    let promised =
        promise(2).with_delay(UPLINK_PACKET / Rate::from_megabits_per_second(1)).expect("just enough");
    let mut line = Line::new(promised);
    let heading = Heading {
        urgency: Urgency::Scavenger,
        owner: Some(flow(1, Class::LowDelay)),
        ..Heading::plain(to())
    };
    line.send_as(heading, FULL);
    assert_eq!(line.left.len(), 1, "{:?}", line.uplink.counters);
}

#[test]
fn a_mark_is_given_only_to_what_may_be_marked() {
    let mut line = Line::new(promise(20).with_ecn());
    for number in 0..4_000 {
        let ecn = if number % 2 == 0 { Ecn::Capable0 } else { Ecn::NotCapable };
        let heading = Heading { ecn, owner: Some(flow(1, Class::LowDelay)), ..Heading::plain(to()) };
        line.send_as(heading, FULL);
        line.send(flow(2, Class::HighRate), FULL);
        line.pass(Duration::from_micros(700));
    }
    let counters = line.uplink.counters;
    let marked = line.left.iter().filter(|left| left.ecn == Ecn::CongestionExperienced).count() as u64;
    assert_eq!(counters.marked, marked);
    assert!(marked > 50 && counters.early > 50, "{counters:?}");
    assert!(line.left.iter().filter(|left| left.ecn == Ecn::NotCapable).count() > 100);
}

#[test]
fn once_grown_nothing_is_allocated() {
    let mut line = Line::new(promise(100));
    let payload = [0_u8; FULL];
    let round = |line: &mut Line| {
        for (owner, packets) in
            [(Some(flow(1, Class::HighRate)), 10), (Some(flow(2, Class::LowDelay)), 4), (None, 2)]
        {
            let heading = Heading { owner, ..Heading::plain(to()) };
            for _ in 0..packets {
                line.outbox.add(heading, |out| out.extend_from_slice(&payload));
            }
        }
        line.now += Duration::from_micros(900);
        line.uplink.take(&mut line.outbox, line.now);
        while line.uplink.poll().is_some() {}
    };
    (0..3_000).for_each(|_| round(&mut line));
    let held = line.uplink.status().held;
    let cost = allocation_counter::measure(|| (0..3_000).for_each(|_| round(&mut line)));
    assert_eq!(cost.count_total, 0);
    assert_eq!(line.uplink.status().held, held);
    // 250 ms of 100 Mbit/s are 3.1 MB.
    assert!(held < Bytes::new(4_000_000), "{held}");
    assert!(line.uplink.counters.full > 1_000, "{:?}", line.uplink.counters);
}

#[test]
fn flows_of_one_agent_count_for_few_if_it_is_guarded() {
    let flows = |promised: Settings| {
        let mut line = Line::new(promised);
        let owners: Vec<_> = (0..500).map(|number| flow(number, Class::HighRate)).collect();
        line.keep_sending(&owners, Duration::from_millis(100), 100, Duration::from_secs(2));
        line.uplink.status().queue.flows[0]
    };
    assert!(flows(promise(100)) > 450);
    assert!(flows(promise(100).with_guard(GuardMode::Strict)) <= 32);
}

#[test]
fn a_greedy_flow_of_low_delay_gets_less_than_as_one_of_high_rate_if_it_is_guarded() {
    let share_of = |promised: Settings, class: Class| {
        let mut line = Line::new(promised);
        let greedy = flow(1, class);
        let others: Vec<_> = (2..6).map(|number| flow(number, Class::HighRate)).collect();
        // The greedy one sends as much as the line carries, and so do four others together; sessions have little to say.
        for turn in 0..40_000 {
            line.send(greedy, FULL);
            line.send(others[turn % 4], FULL);
            if turn % 50 == 0 {
                line.send(Owner::Session(7), 100);
            }
            line.pass(Duration::from_micros(240));
        }
        let late = Time::START + Duration::from_secs(3);
        let all = line.bytes_of(|left| left.at > late);
        let sessions = line.left.iter().filter(|left| left.owner == Some(Owner::Session(7))).count();
        (line.bytes_of(|left| left.at > late && left.owner == Some(greedy)) * 100 / all, sessions)
    };
    let (as_high_rate, all) = share_of(promise(50).with_guard(GuardMode::Strict), Class::HighRate);
    assert_eq!(all, 800, "sessions get all through beside high-rate flows");
    let (as_low_delay, most) = share_of(promise(50).with_guard(GuardMode::Strict), Class::LowDelay);
    assert!(as_low_delay * 3 < as_high_rate * 2, "{as_low_delay} and {as_high_rate} of 100");
    assert!(most >= 795, "nor does a greedy neighbour take what sessions need: {most}");
}
