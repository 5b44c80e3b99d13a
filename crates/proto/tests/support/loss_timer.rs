//! Traffic for loss timers, and how they fared.

use byway_proto::parts::loss_timer::LossTimer;
use byway_units::{Duration, Time};
use rand_pcg::Pcg64Mcg;

use super::{below, random};

/// How long each run lasts.
const RUN: Duration = Duration::from_secs(600);
/// How many outages are tried in each run.
const OUTAGES: u64 = 400;
/// How long an outage lasts.
const OUTAGE: Duration = Duration::from_secs(1);

/// How a flow sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Traffic {
    /// One packet each interval.
    Paced { interval: Duration },
    /// So many packets back to back each interval.
    Frames { interval: Duration, packets: u64 },
    /// 1 to 20 packets (geometric, mean 5.4) back to back each interval.
    UnevenFrames { interval: Duration },
    /// Without end: 10 to 40 packets back to back, one round trip of 100 ms after those before.
    Windows,
    /// Windows of 10, 20 and 6 packets a round trip of 100 ms apart, then a pause of 1 s on average.
    Transfers,
    /// Packets at random, so far apart on average.
    Random { mean: Duration },
}

impl Traffic {
    /// When packets are sent from `start` on, until the next burst.
    fn burst(self, start: Time, random: &mut Pcg64Mcg) -> (Vec<Time>, Time) {
        let back_to_back = |at: Time, packets: u64| (0..packets).map(move |place| at + BACK_TO_BACK * place);
        match self {
            Self::Paced { interval } => (vec![start], start + interval),
            Self::Frames { interval, packets } => (back_to_back(start, packets).collect(), start + interval),
            Self::UnevenFrames { interval } => {
                let packets = (1..20).find(|_| below(6, random) == 0).unwrap_or(20);
                (back_to_back(start, packets).collect(), start + interval)
            }
            Self::Windows => (back_to_back(start, 10 + below(31, random)).collect(), start + WINDOW_RTT),
            Self::Transfers => {
                let windows = (0..).zip([10, 20, 6]);
                let sent =
                    windows.flat_map(|(trip, packets)| back_to_back(start + WINDOW_RTT * trip, packets));
                let pause = exponential(Duration::from_secs(1), random);
                (sent.collect(), start + WINDOW_RTT * 3 + pause)
            }
            Self::Random { mean } => (vec![start], start + exponential(mean, random)),
        }
    }
}

/// From one packet of a burst to the next.
const BACK_TO_BACK: Duration = Duration::from_micros(200);
const WINDOW_RTT: Duration = Duration::from_millis(100);

/// A random span, exponential with this mean, in steps of a 64th of it.
fn exponential(mean: Duration, random: &mut Pcg64Mcg) -> Duration {
    let steps = (1..1_000).find(|_| below(64, random) == 0).unwrap_or(1_000);
    mean * steps / 64
}

/// When packets arrive: in order, up to 5 ms late; each the same for all packets of a millisecond.
fn arrivals(traffic: Traffic, seed: u64) -> Vec<Time> {
    let mut random = random(seed);
    let (mut arrivals, mut start, mut latest) = (Vec::new(), Time::START, Time::START);
    while start < Time::START + RUN {
        let (sent, next) = traffic.burst(start, &mut random);
        let mut jitter = below(5_000, &mut random);
        let mut previous = start;
        for time in sent {
            if time - previous > Duration::from_millis(1) {
                jitter = below(5_000, &mut random);
            }
            previous = time;
            latest = latest.max(time + Duration::from_micros(jitter));
            arrivals.push(latest);
        }
        start = next;
    }
    arrivals
}

/// How a timer fared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) packets: u64,
    /// Questions while nothing was lost.
    pub(crate) needless: u64,
    /// Silences in which there were such questions.
    pub(crate) needless_silences: u64,
    /// From when the first lost packet was due until it was asked for: the mean and the 95th percentile.
    pub(crate) noticed_mean: Duration,
    pub(crate) noticed_p95: Duration,
    /// At the end.
    pub(crate) timeout: Duration,
}

/// Lets expire what expires until `until`; how often.
fn run_silence<T: LossTimer>(timer: &mut T, last: Time, until: Time) -> u64 {
    let mut expiries = 0;
    while last.saturating_add(timer.timeout()) < until {
        timer.expired(last.saturating_add(timer.timeout()));
        expiries += 1;
    }
    expiries
}

pub(crate) fn study<T: LossTimer + Clone>(traffic: Traffic, timer: &T, seed: u64) -> Outcome {
    let arrivals = arrivals(traffic, seed);
    let mut timer = timer.clone();
    let mut random = random(seed + 1_000);
    let mut outcome = Outcome { packets: arrivals.len() as u64, ..Outcome::default() };
    let mut noticed = Vec::new();
    let outages_from = arrivals.len() / 10;
    let every = (arrivals.len() as u64 * 9 / 10 / OUTAGES).max(1);
    let mut until_outage = below(every, &mut random);
    for (index, pair) in arrivals.windows(2).enumerate() {
        timer.arrival(index > 0, pair[0]);
        outcome.timeout = timer.timeout();
        if index >= outages_from {
            if until_outage == 0 {
                until_outage = below(2 * every, &mut random);
                noticed.push(notice(timer.clone(), pair[0], pair[1]));
            } else {
                until_outage -= 1;
            }
        }
        let expiries = run_silence(&mut timer, pair[0], pair[1]);
        outcome.needless += expiries;
        outcome.needless_silences += u64::from(expiries > 0);
    }
    noticed.sort_unstable();
    let total: Duration = noticed.iter().copied().sum();
    outcome.noticed_mean = total / noticed.len() as u64;
    outcome.noticed_p95 = noticed[noticed.len() * 95 / 100];
    outcome
}

/// How long after `due` the timer asks, if nothing arrives any more. What it asked before may have been
/// answered with "not sent yet", so that does not count.
fn notice<T: LossTimer>(mut timer: T, last: Time, due: Time) -> Duration {
    run_silence(&mut timer, last, due);
    last.saturating_add(timer.timeout()).saturating_since(due).min(OUTAGE)
}
