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
use crate::outbox::{Outbox, Owner, Priority, TransmitMeta};

const PROMISED: Duration = Duration::from_millis(10);

/// Payload of a packet of 1,500 bytes on the link.
const FULL: usize = 1_472;

fn promise(megabits: u64) -> Settings {
    Settings::new(Rate::from_megabits_per_second(megabits), UPLINK_PACKET).expect("a usual link")
}

fn to() -> NetworkPath {
    core::net::SocketAddr::from((Ipv4Addr::new(192, 0, 2, 7), 4_600)).into()
}

fn flow(number: u16, class: Class) -> Owner {
    let key = FlowKey::new(AgentId::new(1), Receiver::Agent(AgentId::new(2)), FlowId::new(number));
    Owner::Flow(key, class)
}

/// A packet that the uplink sent.
#[derive(Clone, Copy, Debug)]
struct SentPacket {
    at: Time,
    sojourn: Duration,
    owner: Option<Owner>,
    ecn: Ecn,
    bytes: u64,
}

impl SentPacket {
    const fn is_low_delay(&self) -> bool {
        matches!(self.owner, None | Some(Owner::Session(_) | Owner::Flow(_, Class::LowDelay)))
    }
}

/// An uplink and its senders.
struct UplinkHarness {
    uplink: Uplink,
    outbox: Outbox<TransmitMeta>,
    now: Time,
    /// Delay of each wake-up after the deadline.
    lateness: Duration,
    received: Vec<(Time, Option<Owner>)>,
    sent: Vec<SentPacket>,
    wakes: usize,
}

impl UplinkHarness {
    fn new(promised: Settings) -> Self {
        Self {
            uplink: Uplink::new(UplinkSettings::new(promised), &[7; 32], Time::START),
            outbox: Outbox::default(),
            now: Time::START,
            lateness: Duration::ZERO,
            received: Vec::new(),
            sent: Vec::new(),
            wakes: 0,
        }
    }

    fn drain(&mut self) {
        self.uplink.drain_outbox(&mut self.outbox, self.now);
        while let Some(transmit) = self.uplink.poll() {
            let (number, rest) = transmit.bytes.split_at(4);
            let number = u32::from_be_bytes(number.try_into().expect("four bytes"));
            assert!(
                rest.iter().all(|byte| *byte == number.to_be_bytes()[3]),
                "the bytes are another packet's"
            );
            let (received_at, owner) = self.received[number as usize];
            let (sojourn, bytes) = (self.now - received_at, transmit.bytes.len() as u64 + 28);
            self.sent.push(SentPacket { at: self.now, sojourn, owner, ecn: transmit.ecn, bytes });
        }
    }

    /// Advances the time to `end`, and wakes the uplink at its deadlines.
    fn advance_until(&mut self, end: Time) {
        while let Some(at) = self.uplink.deadline().filter(|at| *at + self.lateness <= end) {
            self.now = self.now.max(at + self.lateness);
            self.wakes += 1;
            self.drain();
        }
        self.now = end;
    }

    fn advance(&mut self, time: Duration) {
        self.advance_until(self.now + time);
    }

    fn push(&mut self, meta: TransmitMeta, payload: usize) {
        let number = u32::try_from(self.received.len()).expect("few packets");
        self.received.push((self.now, meta.owner));
        let mut bytes = vec![number.to_be_bytes()[3]; payload];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        self.outbox.add(meta, |out| out.extend_from_slice(&bytes));
    }

    fn send_as(&mut self, meta: TransmitMeta, payload: usize) {
        self.push(meta, payload);
        self.drain();
    }

    fn send(&mut self, owner: impl Into<Option<Owner>>, payload: usize) {
        self.send_as(TransmitMeta { owner: owner.into(), ..TransmitMeta::plain(to()) }, payload);
    }

    /// Sends packets of these flows periodically, each flow at its own phase.
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
            self.advance(apart);
        }
    }

    fn bytes_of(&self, is_meant: impl Fn(&SentPacket) -> bool) -> u64 {
        self.sent.iter().filter(|packet| is_meant(packet)).map(|packet| packet.bytes).sum()
    }

    fn longest(&self, is_meant: impl Fn(&SentPacket) -> bool) -> Duration {
        let sojourns = self.sent.iter().filter(|packet| is_meant(packet)).map(|packet| packet.sojourn);
        sojourns.max().expect("some of them left")
    }
}

#[test]
fn no_low_delay_packet_waits_longer_than_promised_and_a_high_rate_flow_gets_twice_the_rate() {
    for megabits in [20, 100, 1_000] {
        let mut harness = UplinkHarness::new(promise(megabits));
        let both = [flow(1, Class::LowDelay), flow(2, Class::HighRate)];
        // Each flow offers the link's rate.
        let every = Bytes::new(1_500) / Rate::from_megabits_per_second(megabits);
        harness.keep_sending(&both, every, FULL, Duration::from_secs(3));
        let longest = harness.longest(SentPacket::is_low_delay);
        assert!(longest <= PROMISED && longest > PROMISED / 2, "{megabits}: {longest}");
        assert!(harness.longest(|packet| !packet.is_low_delay()) > Duration::from_millis(100), "{megabits}");
        let late = |packet: &SentPacket| packet.at > Time::START + Duration::from_secs(1);
        let low = harness.bytes_of(|packet| packet.is_low_delay() && late(packet));
        let high = harness.bytes_of(|packet| !packet.is_low_delay() && late(packet));
        assert!((1_960..=2_040).contains(&(high * 1_000 / low)), "{megabits}: {high} to {low}");
        let counters = harness.uplink.counters;
        assert!(counters.full > 0 && counters.trimmed == 0, "{counters:?}");
        let total = harness.bytes_of(|_| true);
        assert_eq!(counters.high_rate_bytes + counters.low_delay_bytes, total);
        assert_eq!(harness.uplink.status().queue.share.delay, PROMISED, "{megabits}");
    }
}

#[test]
fn the_uplink_is_never_idle_with_a_backlog_and_never_exceeds_its_rate() {
    for owner in [Some(flow(1, Class::LowDelay)), Some(flow(1, Class::HighRate)), None] {
        let mut harness = UplinkHarness::new(promise(20));
        harness.keep_sending(&[owner], Duration::from_micros(500), FULL, Duration::from_secs(2));
        // Two seconds at this rate are 5 MB. Released packets that the link has not transmitted yet
        // count too.
        let total = harness.bytes_of(|_| true);
        assert!((4_995_000..=5_003_000).contains(&total), "{owner:?}: {total}");
    }
}

#[test]
fn a_packet_of_low_delay_passes_those_that_wait() {
    let mut harness = UplinkHarness::new(promise(10));
    (0..200).for_each(|_| harness.send(flow(1, Class::HighRate), FULL));
    harness.advance(Duration::from_millis(20));
    assert!(harness.sent.iter().all(|packet| !packet.is_low_delay()));
    let before = harness.sent.len();
    harness.send(flow(2, Class::LowDelay), 200);
    harness.advance(PROMISED);
    let (index, packet) = (harness.sent.iter().enumerate().skip(before))
        .find(|(_, packet)| packet.is_low_delay())
        .expect("it left in time");
    assert!(packet.sojourn <= PROMISED && index <= before + 3, "{packet:?}");
    harness.advance(Duration::from_secs(1));
    assert_eq!(harness.sent.len(), 201, "the others left as well");
}

#[test]
fn what_is_to_be_sent_at_once_goes_at_once_where_nothing_waits() {
    let mut harness = UplinkHarness::new(promise(10));
    for _ in 0..100 {
        harness.send(flow(1, Class::HighRate), FULL);
        harness.advance(Duration::from_millis(2));
    }
    assert_eq!(harness.longest(|_| true), Duration::ZERO);
    assert_eq!((harness.sent.len(), harness.uplink.deadline()), (100, None));
}

#[test]
fn packets_go_in_rows_where_they_take_less_than_a_quantum() {
    let mut harness = UplinkHarness::new(promise(1_000));
    (0..2_000).for_each(|_| harness.send(flow(1, Class::HighRate), FULL));
    harness.advance(Duration::from_millis(100));
    // 2,000 packets take 24 ms.
    assert_eq!(harness.sent.len(), 2_000);
    let rows = 24_000 / UPLINK_QUANTUM.as_micros();
    assert!((rows / 2..=rows + 2).contains(&(harness.wakes as u64)), "{}", harness.wakes);
}

#[test]
fn whoever_wakes_it_late_loses_no_rate_within_a_millisecond_and_gets_no_burst_beyond() {
    let sent_with = |lateness: Duration| {
        let mut harness = UplinkHarness::new(promise(100));
        harness.lateness = lateness;
        let owners = [flow(1, Class::HighRate)];
        (0..3_000).for_each(|_| harness.send(owners[0], FULL));
        harness.sent.clear();
        harness.advance(Duration::from_millis(200));
        let mut rows: Vec<(Time, u64)> = Vec::new();
        for packet in &harness.sent {
            match rows.last_mut().filter(|(at, _)| *at == packet.at) {
                Some((_, bytes)) => *bytes += packet.bytes,
                None => rows.push((packet.at, packet.bytes)),
            }
        }
        (harness.bytes_of(|_| true), rows.into_iter().map(|(_, bytes)| bytes).max().expect("some"))
    };
    // 200 ms are 2.5 MB.
    let (punctual, _) = sent_with(Duration::ZERO);
    let (late, row) = sent_with(UPLINK_CREDIT);
    assert!(punctual.abs_diff(late) <= 20_000, "{punctual} {late}");
    let most = Rate::from_megabits_per_second(100).bytes_in(UPLINK_CREDIT + UPLINK_QUANTUM).expect("few");
    assert!(row <= most.count() + 1_500, "{row}");
    let (too_late, row) = sent_with(Duration::from_millis(5));
    assert!(too_late < punctual / 2 && row <= most.count() + 1_500, "{too_late} {row}");
}

#[test]
fn repair_packets_leave_buffer_for_source_packets() {
    let mut harness = UplinkHarness::new(promise(10));
    let scavenger = TransmitMeta {
        priority: Priority::Scavenger,
        owner: Some(flow(1, Class::HighRate)),
        ..TransmitMeta::plain(to())
    };
    (0..400).for_each(|_| harness.send_as(scavenger, FULL));
    let [backlog, ..] = harness.uplink.status().queue.backlog;
    let [capacity, ..] = harness.uplink.status().queue.share.buffers;
    // 250 ms of 10 Mbit/s are 312 kB.
    assert!(capacity > Bytes::new(300_000), "{capacity}");
    assert!(backlog <= Bytes::new(capacity.count() / 2 + 1_500), "{backlog} of {capacity}");
    assert_eq!(harness.uplink.counters.full, 0);
    assert!(harness.uplink.counters.scavengers > 250, "{:?}", harness.uplink.counters);
    (0..90).for_each(|_| harness.send(flow(2, Class::HighRate), FULL));
    assert_eq!(harness.uplink.counters.full, 0, "source packets have the other half");
    harness.advance(Duration::from_secs(1));
    let [_, source_packets] = [1, 2].map(|number| {
        harness.sent.iter().filter(|packet| packet.owner == Some(flow(number, Class::HighRate))).count()
    });
    assert_eq!(source_packets, 90);
}

#[test]
fn a_repair_packet_goes_where_nothing_waits_however_little_room_there_is() {
    // The transmission time of two packets uses up the delay bound. The low-delay class has no
    // buffer before its first packet.
    let promised =
        promise(2).with_delay(UPLINK_PACKET / Rate::from_megabits_per_second(1)).expect("just enough");
    let mut harness = UplinkHarness::new(promised);
    let meta = TransmitMeta {
        priority: Priority::Scavenger,
        owner: Some(flow(1, Class::LowDelay)),
        ..TransmitMeta::plain(to())
    };
    harness.send_as(meta, FULL);
    assert_eq!(harness.sent.len(), 1, "{:?}", harness.uplink.counters);
}

#[test]
fn a_mark_is_given_only_to_what_may_be_marked() {
    let mut harness = UplinkHarness::new(promise(20).with_ecn());
    for number in 0..4_000 {
        let ecn = if number % 2 == 0 { Ecn::Capable0 } else { Ecn::NotCapable };
        let meta = TransmitMeta { ecn, owner: Some(flow(1, Class::LowDelay)), ..TransmitMeta::plain(to()) };
        harness.send_as(meta, FULL);
        harness.send(flow(2, Class::HighRate), FULL);
        harness.advance(Duration::from_micros(700));
    }
    let counters = harness.uplink.counters;
    let marked = harness.sent.iter().filter(|packet| packet.ecn == Ecn::CongestionExperienced).count() as u64;
    assert_eq!(counters.marked, marked);
    assert!(marked > 50 && counters.early > 50, "{counters:?}");
    assert!(harness.sent.iter().filter(|packet| packet.ecn == Ecn::NotCapable).count() > 100);
}

#[test]
fn once_grown_nothing_is_allocated() {
    let mut harness = UplinkHarness::new(promise(100));
    let payload = [0_u8; FULL];
    let fill_and_drain = |harness: &mut UplinkHarness| {
        for (owner, packets) in
            [(Some(flow(1, Class::HighRate)), 10), (Some(flow(2, Class::LowDelay)), 4), (None, 2)]
        {
            let meta = TransmitMeta { owner, ..TransmitMeta::plain(to()) };
            for _ in 0..packets {
                harness.outbox.add(meta, |out| out.extend_from_slice(&payload));
            }
        }
        harness.now += Duration::from_micros(900);
        harness.uplink.drain_outbox(&mut harness.outbox, harness.now);
        while harness.uplink.poll().is_some() {}
    };
    (0..3_000).for_each(|_| fill_and_drain(&mut harness));
    let buffer_bytes = harness.uplink.status().buffer_bytes;
    let cost = allocation_counter::measure(|| (0..3_000).for_each(|_| fill_and_drain(&mut harness)));
    assert_eq!(cost.count_total, 0);
    assert_eq!(harness.uplink.status().buffer_bytes, buffer_bytes);
    // 250 ms of 100 Mbit/s are 3.1 MB.
    assert!(buffer_bytes < Bytes::new(4_000_000), "{buffer_bytes}");
    assert!(harness.uplink.counters.full > 1_000, "{:?}", harness.uplink.counters);
}

#[test]
fn flows_of_one_agent_count_for_few_if_it_is_guarded() {
    let flows = |promised: Settings| {
        let mut harness = UplinkHarness::new(promised);
        let owners: Vec<_> = (0..500).map(|number| flow(number, Class::HighRate)).collect();
        harness.keep_sending(&owners, Duration::from_millis(100), 100, Duration::from_secs(2));
        harness.uplink.status().queue.flows[0]
    };
    assert!(flows(promise(100)) > 450);
    assert!(flows(promise(100).with_guard(GuardMode::Strict)) <= 32);
}

#[test]
fn a_greedy_flow_of_low_delay_gets_less_than_as_one_of_high_rate_if_it_is_guarded() {
    let share_of = |promised: Settings, class: Class| {
        let mut harness = UplinkHarness::new(promised);
        let greedy = flow(1, class);
        let others: Vec<_> = (2..6).map(|number| flow(number, Class::HighRate)).collect();
        // The greedy flow offers the link's rate, and so do the four others together. Sessions send
        // little.
        for turn in 0..40_000 {
            harness.send(greedy, FULL);
            harness.send(others[turn % 4], FULL);
            if turn % 50 == 0 {
                harness.send(Owner::Session(7), 100);
            }
            harness.advance(Duration::from_micros(240));
        }
        let late = Time::START + Duration::from_secs(3);
        let all = harness.bytes_of(|packet| packet.at > late);
        let sessions = harness.sent.iter().filter(|packet| packet.owner == Some(Owner::Session(7))).count();
        (harness.bytes_of(|packet| packet.at > late && packet.owner == Some(greedy)) * 100 / all, sessions)
    };
    let (as_high_rate, all) = share_of(promise(50).with_guard(GuardMode::Strict), Class::HighRate);
    assert_eq!(all, 800, "sessions get all through beside high-rate flows");
    let (as_low_delay, most) = share_of(promise(50).with_guard(GuardMode::Strict), Class::LowDelay);
    assert!(as_low_delay * 3 < as_high_rate * 2, "{as_low_delay} and {as_high_rate} of 100");
    assert!(most >= 795, "nor does a greedy neighbour take what sessions need: {most}");
}
