//! Measurements of a simulated network.

use byway_units::{Duration, Time};

use crate::flow::PACKET;
use crate::world::World;

fn at(millis: u64) -> Time {
    Time::START + Duration::from_millis(millis)
}

/// Returns a quantile of numbers; NaN if there are none.
pub(crate) fn quantile(mut numbers: Vec<f64>, part: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let index = (part * numbers.len() as f64) as usize;
    numbers.get(index.min(numbers.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

impl World {
    /// Returns the mean rate of a flow between two times, in Mbit/s of IP packets.
    pub(crate) fn rate(&self, flow: usize, from_ms: u64, to_ms: u64) -> f64 {
        let delivered = &self.flows[flow].log.delivered;
        let count = |millis| delivered.partition_point(|time| *time < at(millis));
        (count(to_ms) - count(from_ms)) as f64 * PACKET as f64 * 8e-3 / (to_ms - from_ms) as f64
    }

    /// Returns the rates of all flows together.
    pub(crate) fn total_rate(&self, from_ms: u64, to_ms: u64) -> f64 {
        (0..self.flows.len()).map(|flow| self.rate(flow, from_ms, to_ms)).sum()
    }

    /// Returns a quantile of the interactive backlog of a link at its samples, in packets.
    pub(crate) fn backlog(&self, link: usize, part: f64, from_ms: u64, to_ms: u64) -> f64 {
        let samples = self.links[link].trace.iter();
        let within = samples.filter(|(time, _)| (at(from_ms)..at(to_ms)).contains(time));
        quantile(within.map(|(_, backlog)| *backlog as f64 / PACKET as f64).collect(), part)
    }

    /// Returns the last sample, in ms, at which a link's interactive backlog was above so many
    /// packets.
    pub(crate) fn last_above(&self, link: usize, packets: f64) -> u64 {
        let above =
            self.links[link].trace.iter().filter(|(_, backlog)| *backlog as f64 > packets * PACKET as f64);
        above.map(|(time, _)| time.as_nanos() / 1_000_000).max().unwrap_or(0)
    }

    /// Returns a quantile of a flow's round trips, in ms.
    pub(crate) fn round_trip(&self, flow: usize, part: f64, from_ms: u64, to_ms: u64) -> f64 {
        let round_trips = self.flows[flow].log.round_trips.iter();
        let within = round_trips.filter(|(time, _)| (at(from_ms)..at(to_ms)).contains(time));
        quantile(within.map(|(_, round_trip)| round_trip.as_secs_f64() * 1e3).collect(), part)
    }

    /// Returns the least of Jain's fairness indices of windows of so many ms.
    pub(crate) fn fairness(&self, window_ms: u64, from_ms: u64, to_ms: u64) -> f64 {
        let begins = (from_ms..=to_ms - window_ms).step_by(window_ms as usize);
        begins
            .map(|begin| {
                let rates = (0..self.flows.len()).map(|flow| self.rate(flow, begin, begin + window_ms));
                let (sum, squares) =
                    rates.fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
                sum * sum / (self.flows.len() as f64 * squares)
            })
            .fold(1.0, f64::min)
    }

    /// Returns the coefficient of variation of a flow's rate in windows of so many ms.
    pub(crate) fn variation(&self, flow: usize, window_ms: u64, from_ms: u64, to_ms: u64) -> f64 {
        let begins = (from_ms..=to_ms - window_ms).step_by(window_ms as usize);
        let rates: Vec<f64> = begins.map(|begin| self.rate(flow, begin, begin + window_ms)).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let squares: f64 = rates.iter().map(|rate| (rate - mean) * (rate - mean)).sum();
        (squares / rates.len() as f64).sqrt() / mean
    }

    /// Returns the time after `from_ms` from which a flow's rate over 0.5 s stays between two
    /// bounds in Mbit/s for a second; `None` if it never does.
    pub(crate) fn settled_ms(&self, flow: usize, bounds: [f64; 2], from_ms: u64, to_ms: u64) -> Option<u64> {
        let is_within = |begin| {
            let rate = self.rate(flow, begin, begin + 500);
            bounds[0] <= rate && rate <= bounds[1]
        };
        let mut begins = (from_ms..to_ms - 1_500).step_by(100);
        let settled = begins.find(|begin| (0..10).all(|step| is_within(begin + 100 * step)))?;
        Some(settled - from_ms)
    }
}
