//! Benchmark: packets that the simulated world handles in a second of real time.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(
    clippy::disallowed_methods,
    reason = "it measures the speed of the world, which reads no clock itself"
)]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use byway_sim::{
    Bottleneck, Datagram, Ecn, GilbertElliott, Host, Jitter, Link, Loss, Marks, Reordering, Script, Seed,
    Transmit, World,
};
use byway_units::{Bytes, Duration, Probability, Rate, Time};

const PAIRS: u8 = 10;
const INTERVAL: Duration = Duration::from_micros(100);
const PAYLOAD: [u8; 1_200] = [7; 1_200];
const RUN: Duration = Duration::from_secs(10);

/// Sends a packet to its peer every 100 microseconds.
struct PeriodicSender {
    peer: SocketAddr,
    next: Time,
    is_due: bool,
}

impl Host for PeriodicSender {
    fn receive(&mut self, _datagram: Datagram<'_>, _now: Time) {}

    fn wake(&mut self, now: Time) {
        (self.next, self.is_due) = (now + INTERVAL, true);
    }

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        let is_due = core::mem::take(&mut self.is_due);
        is_due.then_some(Transmit {
            source: None,
            destination: self.peer,
            marks: Marks::default(),
            ecn: Ecn::Capable0,
            payload: &PAYLOAD,
        })
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.next)
    }
}

/// Pairs of hosts, connected by links with these properties.
fn world(link: &Link) -> World<Script<PeriodicSender>> {
    let mut world = World::new(Seed::new(1), ());
    for pair in 0..PAIRS {
        let addresses = [1, 2].map(|side| SocketAddr::from(([10, 0, pair, side], 7)));
        let sender = |peer| PeriodicSender { peer, next: Time::START, is_due: false };
        let one = world.add(sender(addresses[1]), addresses[0]);
        let other = world.add(sender(addresses[0]), addresses[1]);
        world.connect_both(one, other, link);
    }
    world
}

fn measure(name: &str, link: &Link) {
    let mut world = world(link);
    let start = Instant::now();
    world.run_for(RUN, &mut Script::new());
    let seconds = start.elapsed();
    let packets: u64 = world.links().map(|(.., counters)| counters.sent).sum();
    let nanos = seconds.as_nanos() / u128::from(packets);
    println!("{name:24} {packets} packets in {seconds:.2?}: {nanos} ns each, sent, woken for and delivered");
}

fn main() -> Result<(), Box<dyn Error>> {
    let delay = Duration::from_millis(20);
    let share = Probability::new(0.01)?;
    measure("delay only", &Link { delay, ..Link::default() });
    let everything = Link {
        bottleneck: Some(Bottleneck::new(Rate::from_megabits_per_second(200), Bytes::new(1_000_000))?),
        delay,
        jitter: Jitter { max: Duration::from_millis(5), may_reorder: true },
        reordering: Reordering { probability: share, detour: delay },
        loss: vec![
            Loss::Independent(share),
            Loss::GilbertElliott(GilbertElliott::bursts(share, 5.0, INTERVAL)?),
        ],
        duplication: share,
        corruption: share,
        ..Link::default()
    };
    measure("everything at once", &everything);
    Ok(())
}
