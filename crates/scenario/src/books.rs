//! What became of each packet of a flow: kept until it can change no more, then only counted.

use std::collections::VecDeque;

use byway_proto::agent::Delivery;
use byway_units::{Duration, Time};

use crate::outcome::{Quantiles, RepairedBy};
use crate::record::{Fate, LossPlace, Terms, Way};

/// How long after its budget a packet is kept, in which it may still come late: what comes later yet is no part of any call.
const KEPT_AFTER: Duration = Duration::from_secs(5);

/// The books of one flow.
#[derive(Debug)]
pub(crate) struct Book {
    terms: Terms,
    /// The number of the first packet that is kept.
    first: u64,
    packets: VecDeque<Fate>,
    /// What became of those that are kept no more, if somebody wants to know.
    fates: Option<Vec<Fate>>,
}

/// What the packets of the flows of one name came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) repaired: u64,
    pub(crate) repaired_within_rtt: u64,
    pub(crate) late: u64,
    pub(crate) missing: u64,
    pub(crate) in_flight: u64,
    pub(crate) delivered: u64,
    pub(crate) duplicates: u64,
    pub(crate) by: RepairedBy,
    pub(crate) repair_times: Times,
    pub(crate) delays: Times,
}

impl Book {
    pub(crate) const fn new(terms: Terms) -> Self {
        Self { terms, first: 0, packets: VecDeque::new(), fates: None }
    }

    /// Writes down what becomes of each packet from now on.
    pub(crate) fn record(&mut self) {
        self.fates = Some(Vec::new());
    }

    /// What it takes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        (self.packets.len() + self.fates.as_ref().map_or(0, Vec::len)) * size_of::<Fate>()
    }

    /// What was written down.
    pub(crate) fn take_fates(&mut self) -> Vec<Fate> {
        self.fates.take().unwrap_or_default()
    }

    /// The application sends the next packet; its number.
    pub(crate) fn sent(&mut self, now: Time, counts: &mut Counts) -> u64 {
        self.settle(now.saturating_sub(self.terms.budget + KEPT_AFTER), Time::MAX, counts);
        self.packets.push_back(Fate { sent: now, ..Fate::default() });
        counts.sent += 1;
        self.first + self.packets.len() as u64 - 1
    }

    /// A direct copy of a packet is lost, or damaged.
    pub(crate) fn lost(&mut self, number: u64, place: LossPlace) {
        if let Some(packet) = self.packet(number) {
            packet.lost.get_or_insert(place);
        }
    }

    /// A link carries a second copy of a packet.
    pub(crate) fn duplicated(&mut self, number: u64) {
        if let Some(packet) = self.packet(number) {
            packet.is_duplicated = true;
        }
    }

    /// The application gets a packet.
    pub(crate) fn delivered(&mut self, number: u64, delivery: Delivery, now: Time, counts: &mut Counts) {
        let Some(packet) = self.packet(number) else {
            // It was counted as missing.
            counts.late += 1;
            counts.missing = counts.missing.saturating_sub(1);
            return;
        };
        if packet.delivered.is_some() {
            counts.duplicates += 1;
        } else {
            packet.delivered = Some((now, delivery.into()));
        }
    }

    fn packet(&mut self, number: u64) -> Option<&mut Fate> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.packets.get_mut(place)
    }

    /// Counts what was sent before an instant, and forgets it, when it is `now`.
    fn settle(&mut self, before: Time, now: Time, counts: &mut Counts) {
        while let Some(packet) = self.packets.front().copied().filter(|packet| packet.sent < before) {
            self.packets.pop_front();
            self.first += 1;
            self.count(packet, now, counts);
            self.fates.iter_mut().for_each(|fates| fates.push(packet));
        }
    }

    /// Counts all that is left at the end, when it is `now`.
    pub(crate) fn close(&mut self, now: Time, counts: &mut Counts) {
        self.settle(Time::MAX, now, counts);
    }

    fn count(&self, packet: Fate, now: Time, counts: &mut Counts) {
        let Some((at, way)) = packet.delivered else {
            if now.saturating_since(packet.sent) < self.terms.budget {
                counts.in_flight += 1;
                return;
            }
            counts.lost += u64::from(packet.is_lost());
            counts.missing += 1;
            return;
        };
        counts.lost += u64::from(packet.is_lost());
        let delay = at - packet.sent;
        counts.delays.push(delay);
        if delay > self.terms.budget {
            counts.late += 1;
            return;
        }
        counts.delivered += 1;
        if packet.is_lost() {
            self.count_repair(delay, way, counts);
        }
    }

    fn count_repair(&self, delay: Duration, way: Way, counts: &mut Counts) {
        let time = delay.saturating_sub(self.terms.due);
        counts.repaired += 1;
        counts.repaired_within_rtt += u64::from(time <= self.terms.round_trip);
        counts.repair_times.push(time);
        match way {
            Way::InStream => counts.by.in_stream += 1,
            Way::Cooperative => counts.by.cooperative += 1,
            Way::Cached => counts.by.cache += 1,
            Way::Forwarded => counts.by.forward += 1,
            Way::Direct => counts.by.resent += 1,
        }
    }
}

impl Counts {
    /// What its tables of times take of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.repair_times.held_bytes() + self.delays.held_bytes()
    }
}

/// Times in steps of 10 us up to 10 s: as many of each as there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    counts: Vec<u32>,
    total: u64,
}

/// The length of a step.
const STEP_NANOS: u64 = 10_000;

/// More steps than this are as long as the last.
const STEPS_MAX: usize = 1_000_000;

impl Times {
    pub(crate) fn push(&mut self, time: Duration) {
        let step = usize::try_from(time.as_nanos().div_ceil(STEP_NANOS)).unwrap_or(STEPS_MAX).min(STEPS_MAX);
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] = self.counts[step].saturating_add(1);
        self.total += 1;
    }

    fn held_bytes(&self) -> usize {
        self.counts.len() * size_of::<u32>()
    }

    /// The least time, in milliseconds and rounded up to a step, that so many parts of a hundred do not exceed.
    fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (step, count) in (0_u32..).zip(&self.counts) {
            below += u64::from(*count);
            if below >= rank {
                return Some(f64::from(step) / 100.0);
            }
        }
        None
    }

    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        Some(Quantiles { p50: self.percentile(50)?, p95: self.percentile(95)?, p99: self.percentile(99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Time {
        Time::START + ms(millis)
    }

    fn book() -> (Book, Counts) {
        (Book::new(Terms { budget: ms(200), due: ms(50), round_trip: ms(100) }), Counts::default())
    }

    #[test]
    fn each_packet_counts_where_it_belongs() {
        let (mut book, mut counts) = book();
        for number in 0..8 {
            assert_eq!(book.sent(at(0), &mut counts), number);
        }
        for number in 1..=5 {
            book.lost(number, LossPlace::Middle);
        }
        book.duplicated(5);
        for (number, delivery, millis) in [
            (0, Delivery::Direct, 50),
            (1, Delivery::Cached, 70),
            (2, Delivery::Cooperative, 151),
            (3, Delivery::InStream, 201),
            (5, Delivery::Direct, 60), // the other one of two copies
            (5, Delivery::Cached, 61),
            (6, Delivery::Direct, 300),
        ] {
            book.delivered(number, delivery, at(millis), &mut counts);
        }
        book.sent(at(900), &mut counts);
        book.close(at(1_000), &mut counts);
        assert_eq!((counts.sent, counts.lost, counts.repaired, counts.repaired_within_rtt), (9, 4, 2, 1));
        let all = (counts.delivered, counts.late, counts.missing, counts.in_flight, counts.duplicates);
        assert_eq!(all, (4, 2, 2, 1, 1));
        assert_eq!(counts.by, RepairedBy { in_stream: 0, cooperative: 1, cache: 1, forward: 0, resent: 0 });
        assert_eq!(counts.repair_times.quantiles(), Some(Quantiles { p50: 20.0, p95: 101.0, p99: 101.0 }));
    }

    #[test]
    fn what_comes_after_all_is_late_and_not_missing() {
        let (mut book, mut counts) = book();
        book.sent(at(0), &mut counts);
        book.sent(at(10_000), &mut counts);
        assert_eq!(counts.missing, 1);
        book.delivered(0, Delivery::Direct, at(10_000), &mut counts);
        assert_eq!((counts.missing, counts.late), (0, 1));
    }

    #[test]
    fn the_books_stay_small() {
        let (mut book, mut counts) = book();
        for number in 0..10_000 {
            book.sent(at(number * 10), &mut counts);
            book.delivered(number, Delivery::Direct, at(number * 10 + 50), &mut counts);
        }
        assert!(book.held_bytes() < 600 * size_of::<Fate>(), "{}", book.held_bytes());
        book.close(at(200_000), &mut counts);
        assert_eq!((counts.sent, counts.missing, counts.delivered), (10_000, 0, 10_000));
    }

    #[test]
    fn times_are_rounded_up_to_a_step() {
        let mut times = Times::default();
        assert_eq!(times.quantiles(), None);
        times.push(Duration::from_micros(15));
        times.push(Duration::from_secs(60));
        assert!(times.held_bytes() >= 4_000_000, "a table of all steps: {}", times.held_bytes());
        assert_eq!(times.quantiles(), Some(Quantiles { p50: 0.02, p95: 10_000.0, p99: 10_000.0 }));
    }
}
