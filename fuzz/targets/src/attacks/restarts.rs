//! An honest agent that restarts repeatedly, with an adversary that prevents its sessions with its
//! relay.

use std::fmt;

use byway_units::Duration;

use super::adversary::{NatPort, Promise, Siege};
use super::arrangement::Arrangement;
use super::virtual_testbed::VirtualTestbed;
use super::{cookies, initiations, milliseconds};

/// Time within which a restarted agent must have its session again.
const RESTARTED_WITHIN: Duration = Duration::from_secs(3);

/// Delay that forgeries may add to a handshake: the relay's time for the packets that they cause.
const FORGERIES_TAKE: Duration = Duration::from_millis(1);

/// Interval between packets of a flood: 50,000 a second.
const FLOOD_INTERVAL: Duration = Duration::from_micros(20);

/// Interval between restarts. It fills no table, and suffices to confirm the session.
const BETWEEN: Duration = Duration::from_millis(200);

const SIEGES: &[Siege] = &[
    cookies::ONE,
    cookies::THOUSAND,
    initiations::ELSEWHERE,
    initiations::SAME_NAT,
    initiations::SAME_NAT_WITH_COOKIES,
    initiations::SAME_NAT_WITH_COOKIES_AND_NEW_PORT,
];

/// Result of one restart of the honest agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restart {
    /// Time from the start to the established session; `None` if there was none in time.
    pub(super) took: Option<Duration>,
    /// Initiations that the agent sent to the relay in this time.
    pub(super) initiations: usize,
}

/// Results of the restarts of an agent with one adversary.
#[derive(Clone, Debug)]
pub struct Restarts {
    name: &'static str,
    promise: Promise,
    all: Vec<Restart>,
}

impl Restarts {
    fn completed_count(&self) -> usize {
        self.all.iter().filter(|restart| restart.took.is_some()).count()
    }

    fn slowest(&self) -> Duration {
        self.all.iter().filter_map(|restart| restart.took).max().unwrap_or(Duration::ZERO)
    }

    fn initiations_max(&self) -> usize {
        self.all.iter().map(|restart| restart.initiations).max().unwrap_or(0)
    }

    /// Returns the violated limits, in comparison with the control.
    #[must_use]
    pub fn faults(&self, control: &Self) -> Vec<String> {
        let slowest_max = match self.promise {
            Promise::NoLater => control.slowest() + FORGERIES_TAKE,
            Promise::InTime => RESTARTED_WITHIN,
            Promise::Nothing => return Vec::new(),
        };
        let initiations_max = control.initiations_max() + 1;
        let mut faults = Vec::new();
        if self.completed_count() < self.all.len() || self.slowest() > slowest_max {
            faults.push(format!("{self} not {slowest_max}"));
        }
        if self.initiations_max() > initiations_max {
            faults.push(format!("{self} not {initiations_max}"));
        }
        faults
    }
}

impl fmt::Display for Restarts {
    /// Writes a row of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, done, all) = (self.name, self.completed_count(), self.all.len());
        let slowest = milliseconds(self.slowest());
        write!(f, "| {name} | {done} of {all} | {slowest} | {} |", self.initiations_max())
    }
}

/// Restarts for each adversary without a guarantee. Few, because each takes all of the time.
const UNPROMISED_RESTARTS: usize = 5;

/// Restarts an agent `count` times without an adversary, and then with each adversary against which
/// there is a guarantee.
#[must_use]
pub fn restarts(count: usize) -> (Restarts, Vec<Restarts>) {
    let promised = SIEGES.iter().filter(|siege| siege.promise != Promise::Nothing);
    (run(&Siege::QUIET, count), promised.map(|siege| run(siege, count)).collect())
}

/// Restarts an agent with the other adversaries.
#[must_use]
pub fn unpromised_restarts() -> Vec<Restarts> {
    let unpromised = SIEGES.iter().filter(|siege| siege.promise == Promise::Nothing);
    unpromised.map(|siege| run(siege, UNPROMISED_RESTARTS)).collect()
}

fn run(siege: &Siege, count: usize) -> Restarts {
    let mut world = VirtualTestbed::new(Arrangement::USUAL);
    world.restarting.adversary = Some((siege.begin)());
    let restart = |_| {
        world.run_beside_flood(BETWEEN, FLOOD_INTERVAL, |_| false);
        world.restart(siege.port == NatPort::New);
        let begun = world.now;
        let is_back = world.run_beside_flood(
            RESTARTED_WITHIN,
            FLOOD_INTERVAL,
            VirtualTestbed::is_restarted_agent_established,
        );
        let took = is_back.then(|| world.now.saturating_since(begun));
        Restart { took, initiations: world.restarting.initiations }
    };
    Restarts { name: siege.name, promise: siege.promise, all: (0..count).map(restart).collect() }
}
