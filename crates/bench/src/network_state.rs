//! Time of network state: a sender's window for each entry, and the entries of a table.

use std::fmt;
use std::hint::black_box;

use anyhow::Result;
use byway_state::{LinkEntry, LinkId, LinkState, NetworkId, Path, PathEntry, Rules, Table, Window};
use byway_units::{Bytes, Duration, Rate, Time};
use clap::Args;

use crate::contender::timed;
use crate::measure::median;

/// Goal for a window, in nanoseconds for each entry: a sender with a thousand flows spends 0.6 % of
/// a core on them.
const WINDOW_GOAL_NANOS: f64 = 300.0;

/// Goal for a table, in nanoseconds for each entry: a controller with ten thousand paths spends a
/// fifth of a core on them.
const TABLE_GOAL_NANOS: f64 = 1_000.0;

/// Entries in one turn.
const TURN: usize = 2_000;

/// Networks of the path, and links of each.
const NETWORKS: u32 = 4;
const LINKS_OF_NETWORK: u32 = 2;

const INTERVAL: Duration = Duration::from_millis(50);

/// Measure network state on one pinned thread: the window of a sender for each entry of a path, and
/// the table of a path over four networks.
///
/// The path has eight links. A table gets a report of each link for each entry. Both have a short
/// turn in each round; the results are medians over all rounds.
#[derive(Debug, Args)]
pub(crate) struct StateOptions {
    /// Number of rounds; more rounds give steadier medians.
    #[arg(long, default_value_t = 1_001, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Fail if a goal is missed; for a quiet machine.
    #[arg(long)]
    check: bool,
}

impl StateOptions {
    pub(crate) const fn is_for_machines(&self) -> bool {
        self.json
    }

    pub(crate) const fn must_meet_goals(&self) -> bool {
        self.check
    }
}

/// Part of network state that is timed.
struct TimedPart {
    name: &'static str,
    goal: f64,
    /// Handles the entries of one turn, and returns the mean time of one in nanoseconds.
    turn: Box<dyn FnMut() -> f64>,
    nanos: Vec<f64>,
}

impl TimedPart {
    fn new(name: &'static str, goal: f64, mut handle_entry: impl FnMut() + 'static) -> Self {
        Self { name, goal, turn: Box::new(move || timed(TURN, &mut handle_entry)), nanos: Vec::new() }
    }

    fn median(&self) -> f64 {
        median(self.nanos.clone())
    }

    fn is_met(&self) -> bool {
        self.median() <= self.goal
    }
}

impl fmt::Display for TimedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        let (name, nanos, goal) = (self.name, self.median(), self.goal);
        write!(f, "{name:<8} {nanos:7.1} ns an entry, goal {goal:.0} ns: {verdict}")
    }
}

/// Runs the measurement and prints its results; `true` if both goals are met.
pub(crate) fn run(options: &StateOptions) -> Result<bool> {
    let mut parts = [window()?, table()?];
    for round in 0..=options.rounds {
        for part in &mut parts {
            let nanos = (part.turn)();
            // The first round is a warm-up.
            if round > 0 {
                part.nanos.push(nanos);
            }
        }
    }
    if options.json {
        let row = |part: &TimedPart| {
            serde_json::json!({
                "part": part.name,
                "nanoseconds": part.median(),
                "goal_nanoseconds": part.goal,
            })
        };
        println!("{}", serde_json::json!({ "state": parts.iter().map(row).collect::<Vec<_>>() }));
    } else {
        for part in &parts {
            println!("{part}");
        }
    }
    Ok(parts.iter().all(TimedPart::is_met))
}

/// Makes the window of a sender that gets a fifth of its bottleneck.
fn window() -> Result<TimedPart> {
    let entry = PathEntry::new(1, states()?)?;
    let (mut window, mut now) = (Window::new(Rules::CORRECTED), Time::START);
    let (delivery, rest) = (Rate::from_megabits_per_second(1), Duration::from_millis(20));
    Ok(TimedPart::new("window", WINDOW_GOAL_NANOS, move || {
        now += INTERVAL;
        window.on_forward_entry(black_box(&entry), now);
        black_box(window.decide(delivery, rest));
    }))
}

/// Makes the table of a path whose links all report before each entry.
fn table() -> Result<TimedPart> {
    let states = states()?;
    let mut table = Table::new(Path::new(states.iter().map(LinkState::link))?);
    let mut now = Time::START;
    Ok(TimedPart::new("table", TABLE_GOAL_NANOS, move || {
        now += INTERVAL;
        for state in &states {
            black_box(table.report(black_box(state), now));
        }
        black_box(table.tick(now));
    }))
}

/// Returns the states of the path's links, which are busy, and of which the first one is slowest.
fn states() -> Result<Vec<LinkState>> {
    let state = |number: u32| -> Result<LinkState> {
        let link = LinkId::new(NetworkId::new(number / LINKS_OF_NETWORK), number);
        let rate = Rate::from_megabits_per_second(5 + u64::from(number));
        let delay = Duration::from_millis(10);
        let entry = LinkEntry::new(INTERVAL, rate * INTERVAL, Bytes::new(3_000), rate, delay)?;
        Ok(LinkState::new(link, entry, Duration::from_millis(20))?)
    };
    (0..NETWORKS * LINKS_OF_NETWORK).map(state).collect()
}
