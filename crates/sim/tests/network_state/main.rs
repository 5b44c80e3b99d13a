//! Interactive flows beside TCP at a link that shares by flows, and in one queue as a control.
//!
//! The link has 5 Mbit/s, the round trip is 100 ms. The sender's window follows samples of the
//! link, which it gets every 50 ms and without delay.

mod sender;

use std::net::SocketAddr;

use byway_sched::{Marking, Sample, Settings, Sharing};
use byway_sim::tcp::{self, Algorithm, BulkSender, ConnectionId, Ports, Sink, TcpApplication, TcpHost};
use byway_sim::{Link, NodeId, QueueDiscipline, SchedulerSettings, Script, Seed, World};
use byway_state::{
    FlowCounts, LinkId, LinkMeter, LinkSample, NetworkId, Path, PathEntry, SAMPLE_INTERVAL, StateQuery,
    Table, target_backlog,
};
use byway_units::{Bytes, Duration, Rate, Time};

use sender::{InteractiveSender, PACKET, Receiver, TestHost};

const RATE: Rate = Rate::from_megabits_per_second(5);

/// Propagation delay of one direction.
const DELAY: Duration = Duration::from_millis(50);

/// Longest IP packet: a segment of TCP, with UDP's header.
const PACKET_MAX: Bytes = Bytes::new(1_508);

const HIGH: usize = 0;
const LOW: usize = 1;

type TestWorld = World<Script<TestHost>>;

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 7))
}

fn at(millis: u64) -> Time {
    Time::START + Duration::from_millis(millis)
}

/// Queues of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    /// One queue for interactive flows and one for others, each of 250 ms.
    ByFlows,
    /// One queue for all, of 2.4 s.
    One,
}

impl Queues {
    /// Returns the receive window of TCP: a quarter more than queue and path hold. So CUBIC loses
    /// packets, and always has some in the queue.
    ///
    /// With a larger window, slow start overfills the queue by as much as it holds, and
    /// retransmissions are lost, too. This TCP has neither `HyStart` nor RACK: it times out, and
    /// leaves the link idle for seconds.
    fn receive_window(self) -> Bytes {
        match self {
            // 250 ms at 5 Mbit/s, and 100 ms at 2.5 Mbit/s: 124 packets.
            Self::ByFlows => Bytes::new(155 * 1_448),
            // 2.4 s and 100 ms at 5 Mbit/s: 1,036 packets.
            Self::One => Bytes::new(1_295 * 1_448),
        }
    }

    fn link(self) -> Link {
        let settings = Settings::new(RATE, PACKET_MAX).expect("a usual link");
        let settings = match self {
            Self::ByFlows => settings.with_sharing(Sharing::ByFlows { floor_milli: 0 }).expect("two classes"),
            Self::One => settings.with_buffers(Bytes::new(4_000_000), Bytes::new(1_500_000)),
        };
        let scheduling = SchedulerSettings {
            rate: RATE,
            discipline: QueueDiscipline::RateDelay(settings),
            // No DSCP: only registered flows are interactive.
            marking: Marking::NONE,
            packet_bytes_max: PACKET_MAX,
        };
        Link { scheduling: Some(scheduling), delay: DELAY, ..Link::default() }
    }
}

/// State of one link on its way to the sender: samples, and the table of a path with that link.
struct LinkFeed {
    meter: LinkMeter,
    table: Table,
    number: u64,
}

impl LinkFeed {
    fn new(number: u32) -> Self {
        let link = LinkId::new(NetworkId::new(1), number);
        let table = Table::new(Path::new([link]).expect("a link"));
        Self { meter: LinkMeter::new(link), table, number: 0 }
    }

    fn report(&mut self, sample: LinkSample, now: Time) -> Option<&PathEntry> {
        self.number += 1;
        let sample = LinkSample { number: self.number, clock: now, ..sample };
        let state = self.meter.on_sample(sample, Duration::ZERO, now).expect("the sample is good");
        if let Some(state) = state {
            self.table.report(&state, now);
        }
        self.table.tick(now)
    }
}

/// Two routers with the link between them, an interactive flow, and a TCP host.
struct TestNetwork {
    world: TestWorld,
    queues: Queues,
    routers: [NodeId; 2],
    sender: NodeId,
    client: NodeId,
    feeds: [LinkFeed; 2],
    has_begun: bool,
    samples: Vec<(Time, Sample)>,
}

impl TestNetwork {
    fn new(queues: Queues) -> Self {
        let mut world: TestWorld = World::new(Seed::new(7), ());
        let tcp_host = |number: u64| {
            let receive_window = queues.receive_window();
            let settings =
                tcp::Settings { algorithm: Algorithm::Cubic, receive_window, ..Default::default() };
            let mut host = TcpHost::new(settings, Seed::new(number));
            host.listen(80, TcpApplication::Sink(Sink::default()));
            TestHost::Tcp(Box::new(host))
        };
        let routers = [1, 2].map(|number| world.add(TestHost::Router, address(number)));
        let sender = TestHost::Sender(Box::new(InteractiveSender::new(address(4))));
        let sender = world.add(sender, address(3));
        let receiver = world.add(TestHost::Receiver(Receiver::default()), address(4));
        let [client, server] = [5, 6].map(|number| world.add(tcp_host(number.into()), address(number)));
        world.connect(routers[0], routers[1], queues.link());
        world.connect(routers[1], routers[0], Link { delay: DELAY, ..Link::default() });
        for [from, to] in [[sender, receiver], [client, server]] {
            world.connect_both(from, routers[0], &Link::default());
            world.connect_both(routers[1], to, &Link::default());
            for (at, target, next) in [
                (from, to, routers[0]),
                (routers[0], to, routers[1]),
                (routers[1], to, to),
                (to, from, routers[1]),
                (routers[1], from, routers[0]),
                (routers[0], from, from),
            ] {
                world.route(at, target, next);
            }
        }
        if queues == Queues::ByFlows {
            let is_registered = world.register_flow(routers, [address(3), address(4)], at(1_000_000));
            assert!(is_registered);
        }
        let feeds = [LinkFeed::new(1), LinkFeed::new(2)];
        Self { world, queues, routers, sender, client, feeds, has_begun: false, samples: Vec::new() }
    }

    /// Returns what the link reports to the sender.
    fn link_sample(&self, sample: &Sample) -> LinkSample {
        let (class, rates) = match self.queues {
            Queues::ByFlows => (LOW, [sample.rates.shown, sample.rates.guaranteed]),
            Queues::One => (HIGH, [RATE; 2]),
        };
        LinkSample {
            incarnation: 1,
            number: 0,
            clock: Time::START,
            sent: sample.sent[class],
            backlog: sample.backlog[class],
            shown: rates[0],
            guaranteed: rates[1],
            // Propagation, and a full packet: the link stores and forwards.
            delay: DELAY + Bytes::new(u64::from(PACKET)) / RATE,
            target: target_backlog(RATE),
            flows: FlowCounts { interactive: sample.flows[LOW], other: sample.flows[HIGH] },
        }
    }

    /// Runs until this time, with samples of the link every 50 ms. The other direction has no
    /// queue.
    fn run_until(&mut self, end: Time) {
        while self.world.now() < end {
            self.world.run_for(SAMPLE_INTERVAL, &mut Script::new());
            let now = self.world.now();
            let sample = self.world.sample(self.routers[0], self.routers[1]).expect("a Rate-Delay queue");
            self.samples.push((now, sample));
            let forward = self.link_sample(&sample);
            let fast = Rate::from_megabits_per_second(1_000);
            let (sent, backlog) = (Bytes::ZERO, Bytes::ZERO);
            let back = LinkSample { sent, backlog, shown: fast, guaranteed: fast, delay: DELAY, ..forward };
            let [of_forward, of_back] = &mut self.feeds;
            let entries = (of_forward.report(forward, now), of_back.report(back, now));
            if self.has_begun {
                let (world, sender) = (&mut self.world, self.sender);
                world.input(sender, |host, now| host.sender().on_entries(entries.0, entries.1, now));
            }
        }
    }

    /// Begins the interactive flow, with the history of 2 s.
    fn begin(&mut self) {
        self.has_begun = true;
        let Self { world, sender, feeds: [forward, back], .. } = self;
        let now = world.now();
        let [forward, back] = [forward, back].map(|feed| feed.table.after(StateQuery::first(), now));
        world.input(*sender, |host, now| {
            host.sender().on_entries(forward, back, now);
            host.sender().begin();
        });
    }

    fn connection(number: u16) -> ConnectionId {
        ConnectionId { peer: address(6), ports: Ports { source: 1_000 + number, destination: 80 } }
    }

    fn open_tcp(&mut self, number: u16) {
        let bulk = TcpApplication::Bulk(BulkSender::new(None));
        let opened =
            self.world.input(self.client, |host, now| host.tcp().open(Self::connection(number), bulk, now));
        assert_eq!(opened, Some(true));
    }

    /// Ends a TCP flow at once: nothing more of it is sent.
    fn end_tcp(&mut self, number: u16) {
        let ended = self.world.input(self.client, |host, _| host.tcp().remove(Self::connection(number)));
        assert!(ended.flatten().is_some());
    }

    /// Returns the round trips of packets acknowledged in a period, in order of length.
    fn round_trips(&mut self, [from, until]: [u64; 2]) -> Vec<Duration> {
        let acknowledged = &self.world.host_mut(self.sender).sender().acknowledged;
        let within = acknowledged.iter().filter(|(time, _)| (at(from)..at(until)).contains(time));
        let mut round_trips: Vec<Duration> = within.map(|(_, round_trip)| *round_trip).collect();
        round_trips.sort_unstable();
        round_trips
    }

    /// Returns the rate of the interactive flow in a period of milliseconds, in Mbit/s.
    #[allow(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    fn rate(&mut self, [from, until]: [u64; 2]) -> f64 {
        let bits = self.round_trips([from, until]).len() as u64 * u64::from(PACKET) * 8;
        bits as f64 / ((until - from) as f64 * 1_000.0)
    }

    /// Asserts that the flow has this rate within 5 %, at once and on average.
    fn assert_rate(&mut self, [from, until]: [u64; 2], megabits: f64) {
        for period in [[from, from + 2_000], [from, until]] {
            let rate = self.rate(period);
            assert!(
                (rate / megabits - 1.0).abs() < 0.05,
                "{rate} instead of {megabits} Mbit/s in {period:?}"
            );
        }
        let sample = self.samples.iter().find(|(time, _)| *time >= at(from)).expect("it is over").1;
        for rate in [sample.rates.guaranteed, sample.rates.shown] {
            #[allow(clippy::cast_precision_loss, reason = "a rate to a few digits")]
            let rate = rate.bits_per_second() as f64 / 1e6;
            assert!((rate / megabits - 1.0).abs() < 0.05, "{:?}, not {megabits}", sample.rates);
        }
    }

    /// Returns the bytes of a class that wait at each sample of a period.
    fn waiting(&self, class: usize, [from, until]: [u64; 2]) -> Vec<u64> {
        let within = self.samples.iter().filter(|(time, _)| (at(from)..at(until)).contains(time));
        within.map(|(_, sample)| sample.backlog[class].count()).collect()
    }

    /// Asserts that TCP always had packets in its queue: it really competed.
    fn assert_tcp_waits(&self, period: [u64; 2]) {
        let least = self.waiting(HIGH, period).into_iter().min();
        assert!(least.is_some_and(|least| least > 0), "TCP was idle in {period:?}");
    }

    /// Asserts that packets of a flow with this rate wait for one packet of the flow, as its window
    /// wants, and for two packets that are sent.
    fn assert_short_queue(&mut self, period: [u64; 2], megabits: f64) {
        let round_trips = self.round_trips(period);
        let late = round_trips[round_trips.len() * 95 / 100].as_secs_f64();
        let longest = 0.1 + f64::from(3 * PACKET * 8) / (megabits * 1e6);
        assert!(late <= longest, "{late} s instead of {longest} s in {period:?}");
    }
}

#[test]
fn an_interactive_flow_has_its_share_beside_tcp_and_all_without_and_its_queue_stays_short() {
    let mut network = TestNetwork::new(Queues::ByFlows);
    network.run_until(at(2_000));
    network.begin();
    network.run_until(at(12_000));
    network.open_tcp(1);
    network.run_until(at(24_000));
    network.open_tcp(2);
    network.run_until(at(36_000));
    network.end_tcp(2);
    network.run_until(at(48_000));
    network.end_tcp(1);
    network.run_until(at(58_000));
    network.world.check_conservation().expect("nothing is lost track of");

    // C - M is 4.9 Mbit/s, and the window is rounded up.
    for alone in [[6_000, 12_000], [51_500, 58_000]] {
        let rate = network.rate(alone);
        assert!((4.65..=5.05).contains(&rate), "{rate} in {alone:?}");
        network.assert_short_queue(alone, 4.9);
    }
    // (n_I + 1)/(n_I + n_O + 2) of 5 Mbit/s, 2 s after a flow comes and 3.5 s after one goes.
    for (beside, megabits) in [([14_000, 24_000], 2.5), ([26_000, 36_000], 2.0), ([39_500, 48_000], 2.5)] {
        network.assert_tcp_waits(beside);
        network.assert_rate(beside, megabits);
        network.assert_short_queue(beside, megabits);
    }
    // TCP has the rest.
    let sent =
        |from: u64| network.samples.iter().find(|(time, _)| *time >= at(from)).expect("a sample").1.sent;
    let [high_rate, low_delay, _] = [0, 1, 2].map(|class| sent(24_000)[class] - sent(14_000)[class]);
    let all = RATE * Duration::from_secs(10);
    assert!(high_rate + low_delay > Bytes::new(all.count() / 100 * 98), "{high_rate} and {low_delay}");
    // What waits when the first TCP flow comes: the window was that of the whole link.
    let waiting = network.waiting(LOW, [12_000, 15_000]);
    let (peak, long) = (waiting.iter().max(), waiting.iter().filter(|bytes| **bytes > 3_000).count());
    assert!(peak.is_some_and(|peak| *peak <= 12 * 1_500), "{peak:?}");
    assert!(long <= 12, "more than two packets in {long} samples of 50 ms");
}

#[test]
fn in_one_queue_with_tcp_the_same_flow_waits_for_a_second_and_has_next_to_nothing() {
    let mut network = TestNetwork::new(Queues::One);
    network.run_until(at(2_000));
    network.begin();
    network.run_until(at(12_000));
    network.open_tcp(1);
    network.run_until(at(40_000));
    let alone = network.rate([6_000, 12_000]);
    assert!(alone > 4.5, "{alone} Mbit/s: without TCP it has the link");
    let rate = network.rate([20_000, 40_000]);
    assert!(rate < 0.2 * 5.0, "{rate} Mbit/s");
    network.assert_tcp_waits([20_000, 40_000]);
    let round_trips = network.round_trips([20_000, 40_000]);
    let middle = round_trips[round_trips.len() / 2];
    assert!(middle > Duration::from_secs(1), "{middle}");
    // Few packets get through. What waits is seen all the time.
    let mut waiting = network.waiting(HIGH, [20_000, 40_000]);
    waiting.sort_unstable();
    let middle = Bytes::new(waiting[waiting.len() / 2]) / RATE;
    assert!(middle > Duration::from_secs(1), "{middle}");
}
