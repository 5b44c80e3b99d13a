//! Simulated traffic for the batcher, and its outcome.

use byway_proto::parts::batcher::{
    BatchPacket, BatchedFlow, Batcher, BatcherCounters, BatcherSettings, ClosedQueue, CodingClass,
    RedundancyPolicy, Strategy,
};
use byway_units::{Bytes, Duration, Time};

use super::{below, random};

/// Duration of each run.
const RUN: Duration = Duration::from_secs(30);
/// Number of seeds that results cover.
const SEEDS: u64 = 8;
/// Interval of packets within a burst: 1,200 bytes at 48 Mbit/s.
const WITHIN_BURST: Duration = Duration::from_micros(200);

const FULL_BYTES: u16 = 1_200;
const VOICE_BYTES: u16 = 200;

/// Packet with its arrival time at the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArrivingPacket {
    time: Time,
    flow: u32,
    bytes: u16,
}

/// Kind of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// One packet of this length each interval, up to a millisecond late.
    Paced { interval: Duration, bytes: u16 },
    /// Frames of 1 to 20 packets (mean 5.4, geometric) in a burst, the last of any length, each
    /// late by up to `jitter`. Each fiftieth frame has `key_packets`, if not zero.
    Video { interval: Duration, jitter: Duration, key_packets: u64 },
}

impl Source {
    pub(crate) const MEDIA: Self = Self::Paced { interval: Duration::from_millis(10), bytes: FULL_BYTES };
    pub(crate) const VOICE: Self = Self::Paced { interval: Duration::from_millis(20), bytes: VOICE_BYTES };
    pub(crate) const BULK: Self = Self::Paced { interval: Duration::from_millis(1), bytes: FULL_BYTES };
    pub(crate) const VIDEO: Self =
        Self::Video { interval: Duration::from_millis(40), jitter: Duration::from_micros(1), key_packets: 0 };

    /// Returns video with jitter and key frames, at 30, 25 or 24 frames per second.
    pub(crate) const fn video_with_keys(frame_micros: u64) -> Self {
        let interval = Duration::from_micros(frame_micros);
        Self::Video { interval, jitter: Duration::from_millis(4), key_packets: 40 }
    }

    const fn interval(self) -> Duration {
        match self {
            Self::Paced { interval, .. } | Self::Video { interval, .. } => interval,
        }
    }

    /// Returns the rate at which it would be registered.
    const fn bytes_per_second(self) -> u64 {
        let per_interval = match self {
            Self::Paced { bytes, .. } => bytes as u64,
            // 5.4 packets, the last of them half as long.
            Self::Video { .. } => 5_900,
        };
        per_interval * 1_000_000 / self.interval().as_micros()
    }

    /// Returns the lateness and the lengths of the packets of one interval.
    fn burst(self, number: u64, random: &mut rand_pcg::Pcg64Mcg) -> (Duration, Vec<u16>) {
        match self {
            Self::Paced { bytes, .. } => (Duration::from_micros(below(1_000, random)), vec![bytes]),
            Self::Video { jitter, key_packets, .. } => {
                let is_key = key_packets > 0 && number.is_multiple_of(50);
                let packets = if is_key { key_packets } else { burst_packets(random) };
                let last = 100 + u16::try_from(below(1_100, random)).expect("below 1,100");
                let mut bytes = vec![FULL_BYTES; usize::try_from(packets - 1).expect("a few")];
                bytes.push(last);
                (Duration::from_nanos(below(jitter.as_nanos(), random)), bytes)
            }
        }
    }
}

/// Returns a number from 1 to 20, geometric with mean 6 without the upper bound.
fn burst_packets(random: &mut rand_pcg::Pcg64Mcg) -> u64 {
    loop {
        let mut packets = 1;
        while below(6, random) != 0 {
            packets += 1;
        }
        if packets <= 20 {
            return packets;
        }
    }
}

/// Returns all packets of these flows over one run, by time, each flow with a phase of its own.
pub(crate) fn arrivals(sources: &[Source], seed: u64) -> Vec<ArrivingPacket> {
    let mut random = random(seed);
    let mut arrivals = Vec::new();
    for (flow, source) in (0..).zip(sources) {
        let mut start = Time::from_nanos(below(source.interval().as_nanos(), &mut random));
        for number in below(50, &mut random).. {
            if start > Time::START + RUN {
                break;
            }
            let (late, lengths) = source.burst(number, &mut random);
            arrivals.extend((0..).zip(lengths).map(|(place, bytes)| ArrivingPacket {
                time: start + late + WITHIN_BURST * place,
                flow,
                bytes,
            }));
            start += source.interval();
        }
    }
    arrivals.sort_unstable();
    arrivals
}

/// Outcome of one or more runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) repair_packets: u64,
    pub(crate) repair_bytes: u64,
    pub(crate) counters: BatcherCounters,
    pub(crate) batches: u64,
    pub(crate) waits_total: Duration,
    pub(crate) wait_max: Duration,
    /// Packets in batches that tolerate one cooperating receiver without an answer.
    pub(crate) twice: u64,
    /// Sum over packets of the probability of a repair in an outage of the flow's path, if each
    /// cooperating receiver fails with 2 %.
    pub(crate) repairable: f64,
    /// Packets in a batch with one of the flow whose number differs in the last bit.
    pub(crate) beside_twin: u64,
}

impl Outcome {
    /// Returns the percentage of packets that no repair packet covers.
    pub(crate) fn uncovered(&self) -> f64 {
        percent(self.counters.alone + self.counters.unaffordable, self.packets)
    }

    pub(crate) fn unaffordable(&self) -> f64 {
        percent(self.counters.unaffordable, self.packets)
    }

    pub(crate) fn repeated(&self) -> f64 {
        percent(self.counters.repeated, self.packets)
    }

    pub(crate) fn twice(&self) -> f64 {
        percent(self.twice, self.packets)
    }

    pub(crate) fn beside_twin(&self) -> f64 {
        percent(self.beside_twin, self.packets)
    }

    pub(crate) fn repairable(&self) -> f64 {
        100.0 * self.repairable / to_f64(self.packets)
    }

    /// Returns repair packets for each source packet, over r/k.
    pub(crate) fn overhead(&self, rate: f64) -> f64 {
        to_f64(self.repair_packets) / to_f64(self.packets) / rate
    }

    /// Returns repair bytes for each source byte, over r/k.
    pub(crate) fn byte_overhead(&self, rate: f64) -> f64 {
        to_f64(self.repair_bytes) / to_f64(self.bytes) / rate
    }

    pub(crate) fn mean_wait_ms(&self) -> f64 {
        self.waits_total.as_secs_f64() * 1_000.0 / to_f64(self.packets)
    }

    pub(crate) fn mean_batch(&self) -> f64 {
        to_f64(self.counters.coded + self.counters.unaffordable) / to_f64(self.batches.max(1))
    }

    fn close(&mut self, closed: &ClosedQueue, waits: &mut Vec<(Time, u32)>, now: Time) {
        assert_eq!(closed.size, waits.len(), "the driver and the batcher agree");
        for (arrived, _) in waits.drain(..) {
            self.waits_total += now - arrived;
            self.wait_max = self.wait_max.max(now - arrived);
        }
        self.repair_packets += u64::from(closed.repairs);
        self.repair_bytes += u64::from(closed.repairs) * u64::from(closed.longest);
        self.batches += u64::from(closed.size > 1);
        if closed.repairs > 1 {
            self.twice += closed.size as u64;
        }
        self.repairable += to_f64(closed.size as u64) * chance_of_repair(closed.size, closed.repairs);
    }

    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.repair_packets += other.repair_packets;
        self.repair_bytes += other.repair_bytes;
        self.counters.coded += other.counters.coded;
        self.counters.repeated += other.counters.repeated;
        self.counters.alone += other.counters.alone;
        self.counters.unaffordable += other.counters.unaffordable;
        self.batches += other.batches;
        self.waits_total += other.waits_total;
        self.wait_max = self.wait_max.max(other.wait_max);
        self.twice += other.twice;
        self.repairable += other.repairable;
        self.beside_twin += other.beside_twin;
    }
}

/// Returns the probability that at most `repairs - 1` of the `size - 1` cooperating receivers fail,
/// each with 2 %.
fn chance_of_repair(size: usize, repairs: u8) -> f64 {
    let helpers = i32::try_from(size - 1).expect("a few");
    let (mut chance, mut ways) = (0.0, 1.0);
    for failing in 0..i32::from(repairs).min(helpers + 1) {
        chance += ways * 0.02_f64.powi(failing) * 0.98_f64.powi(helpers - failing);
        ways *= f64::from(helpers - failing) / f64::from(failing + 1);
    }
    chance
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * to_f64(part) / to_f64(whole)
}

#[allow(clippy::cast_precision_loss, reason = "results show a few digits")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

/// Runs the flows of `sources` through a batcher, over all seeds.
pub(crate) fn study<S: Strategy + Clone>(
    sources: &[Source],
    settings: BatcherSettings,
    wait: Duration,
    strategy: &S,
) -> Outcome {
    study_tagged(sources, settings, wait, strategy, |_| Networks::default())
}

/// Networks of a flow's ends; zeros if unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Networks {
    pub(crate) receiver: u32,
    pub(crate) sender: u32,
}

/// Runs flows with tags of their networks, which may lose packets together, like [`study`].
pub(crate) fn study_tagged<S: Strategy + Clone>(
    sources: &[Source],
    settings: BatcherSettings,
    wait: Duration,
    strategy: &S,
    networks: impl Fn(u32) -> Networks,
) -> Outcome {
    let mut total = Outcome::default();
    for seed in 0..SEEDS {
        let batcher = Batcher::new(settings, strategy.clone());
        total.add(&run(&arrivals(sources, seed), batcher, wait, &networks));
    }
    total
}

/// Returns settings for k = 8 and r = 2.
pub(crate) const fn settings(queues: u8, spending: RedundancyPolicy) -> BatcherSettings {
    BatcherSettings { batch_packets: 8, batch_repairs: 2, queues, redundancy: spending }
}

/// Returns a budget of this percentage of r/k, with the recommended reserve for these flows.
pub(crate) fn budget(percent: u16, sources: &[Source]) -> RedundancyPolicy {
    let bytes_per_second: u64 = sources.iter().map(|source| source.bytes_per_second()).sum();
    // An eighth of a second, at r/k = 2/8.
    let reserve = bytes_per_second * 2 / 8 * u64::from(percent) / 100 / 8;
    RedundancyPolicy::TokenBucket { percent, reserve: Bytes::new(reserve) }
}

fn run<S: Strategy>(
    arrivals: &[ArrivingPacket],
    mut batcher: Batcher<S>,
    wait: Duration,
    networks: impl Fn(u32) -> Networks,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut waiting = vec![Vec::new(); 64];
    for arrival in arrivals {
        while let Some(deadline) = batcher.deadline().filter(|deadline| *deadline <= arrival.time) {
            while let Some(closed) = batcher.expire(deadline) {
                outcome.close(&closed, &mut waiting[closed.queue], deadline);
            }
        }
        let Networks { receiver, sender } = networks(arrival.flow);
        let (slot, class) = (arrival.flow, CodingClass::SHARED);
        let flow = BatchedFlow { slot, class, receiver, sender, cohort: 0, avoids_network: false };
        let decision = batcher.add(&BatchPacket { flow, bytes: arrival.bytes }, wait, arrival.time);
        outcome.packets += 1;
        outcome.bytes += u64::from(arrival.bytes);
        if let Some(closed) = decision.closed_before {
            outcome.close(&closed, &mut waiting[closed.queue], arrival.time);
        }
        let has_twin = waiting[decision.queue].iter().any(|(_, flow)| *flow == arrival.flow ^ 1);
        outcome.beside_twin += u64::from(has_twin);
        waiting[decision.queue].push((arrival.time, arrival.flow));
        if let Some(closed) = decision.closed_after {
            outcome.close(&closed, &mut waiting[closed.queue], arrival.time);
        }
    }
    outcome.counters = *batcher.counters();
    outcome
}
