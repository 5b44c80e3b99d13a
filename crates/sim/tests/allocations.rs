//! Tests that a world in a steady state allocates nothing.

use std::net::SocketAddr;

use byway_sim::{Datagram, Ecn, Host, Jitter, Link, Marks, Scenario, Seed, Transmit, World};
use byway_units::{Duration, Probability, Time};

/// Sends a packet to its peer at every wake-up, and counts received packets.
struct WakeUpSender {
    peer: SocketAddr,
    next: Time,
    has_sent: bool,
    received: u64,
}

const INTERVAL: Duration = Duration::from_micros(100);

impl Host for WakeUpSender {
    fn receive(&mut self, _datagram: Datagram<'_>, _now: Time) {
        self.received += 1;
    }

    fn wake(&mut self, now: Time) {
        (self.next, self.has_sent) = (now + INTERVAL, false);
    }

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        let is_due = !core::mem::replace(&mut self.has_sent, true);
        is_due.then_some(Transmit {
            source: None,
            destination: self.peer,
            marks: Marks::default(),
            ecn: Ecn::NotCapable,
            payload: &[7; 1_200],
        })
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.next)
    }
}

/// Schedules an event every millisecond, because scheduled events must not allocate either.
struct Ticks(u64);

impl Scenario for Ticks {
    type Host = WakeUpSender;
    type Event = ();
    type Observer = ();

    fn event(&mut self, (): (), world: &mut World<Self>) {
        self.0 += 1;
        world.schedule_in(Duration::from_millis(1), ());
    }
}

#[test]
fn packets_and_events_allocate_nothing_after_warm_up() {
    let addresses = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 7)));
    let mut world = World::new(Seed::new(1), ());
    let sender = |peer| WakeUpSender { peer, next: Time::START, has_sent: true, received: 0 };
    let one = world.add(sender(addresses[1]), addresses[0]);
    let other = world.add(sender(addresses[0]), addresses[1]);
    let link = Link {
        delay: Duration::from_millis(10),
        jitter: Jitter { max: Duration::from_millis(5), may_reorder: true },
        duplication: Probability::new(0.01).expect("a probability"),
        ..Link::default()
    };
    world.connect_both(one, other, &link);
    world.schedule(Time::START, ());
    let mut ticks = Ticks(0);
    // Long enough for the largest number of packets in flight.
    world.run_for(Duration::from_secs(20), &mut ticks);
    let before = world.host(other).received;
    let allocations = allocation_counter::measure(|| world.run_for(Duration::from_secs(1), &mut ticks));
    assert!(world.host(other).received > before + 9_900, "packets arrived");
    assert_eq!(allocations.count_total, 0);
}
