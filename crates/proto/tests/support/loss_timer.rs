//! Simulated traffic for loss timers, and its outcome.

use byway_proto::parts::loss_timer::LossTimer;
use byway_units::{Duration, Time};
use rand_pcg::Pcg64Mcg;

use super::{below, random};

/// Duration of each run.
const RUN: Duration = Duration::from_secs(600);
/// Outages tried in each run.
const OUTAGES: u64 = 400;
/// Duration of an outage.
const OUTAGE: Duration = Duration::from_secs(1);

/// Sending pattern of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Traffic {
    /// One packet each interval.
    Paced { interval: Duration },
    /// This number of packets back to back each interval.
    Frames { interval: Duration, packets: u64 },
    /// 1 to 20 packets (geometric, mean 5.4) back to back each interval.
    UnevenFrames { interval: Duration },
    /// Windows of 10 to 40 packets back to back, one round trip of 100 ms apart, without end.
    Windows,
    /// Windows of 10, 20 and 6 packets a round trip of 100 ms apart, then a pause of 1 s on
    /// average.
    Transfers,
    /// Packets at random, with this mean interval.
    Random { mean: Duration },
}

impl Traffic {
    /// Returns the times of packets sent from `start` on, and the start of the next burst.
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

/// Interval of packets within a burst.
const BACK_TO_BACK: Duration = Duration::from_micros(200);
const WINDOW_RTT: Duration = Duration::from_millis(100);

/// Returns a random duration, exponential with this mean, in steps of a 64th of it.
fn exponential(mean: Duration, random: &mut Pcg64Mcg) -> Duration {
    let steps = (1..1_000).find(|_| below(64, random) == 0).unwrap_or(1_000);
    mean * steps / 64
}

/// Returns the arrival times of packets: in order, up to 5 ms late, with the same lateness for all
/// packets of a millisecond.
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

/// Outcome of a loss timer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) packets: u64,
    /// NACKs while nothing was lost.
    pub(crate) needless: u64,
    /// Silences with such NACKs.
    pub(crate) needless_silences: u64,
    /// Time from the expected arrival of the first lost packet to the NACK: the mean and the 95th
    /// percentile.
    pub(crate) noticed_mean: Duration,
    pub(crate) noticed_p95: Duration,
    /// Timeout at the end.
    pub(crate) timeout: Duration,
}

/// Lets the timer expire until `until`; returns the number of times.
fn run_silence<T: LossTimer>(timer: &mut T, last: Time, until: Time) -> u64 {
    let mut expiries = 0;
    while last.saturating_add(timer.timeout()) < until {
        timer.on_timeout(last.saturating_add(timer.timeout()));
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
        timer.on_packet(index > 0, pair[0]);
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

/// Returns the time from `due` to the timer's NACK, if nothing arrives any more. Earlier NACKs do
/// not count, because the answer may have been "not sent yet".
fn notice<T: LossTimer>(mut timer: T, last: Time, due: Time) -> Duration {
    run_silence(&mut timer, last, due);
    last.saturating_add(timer.timeout()).saturating_since(due).min(OUTAGE)
}
