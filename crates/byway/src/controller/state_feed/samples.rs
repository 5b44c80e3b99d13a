//! Reception of links' samples, and the states that follow from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use byway_api::{NAME_BYTES_MAX, SampleBatch, SampledLink};
use byway_state::{ENTRY_LIFETIME, FlowCounts, LinkMeter, LinkSample, LinkState, SampleError};
use byway_units::{Bytes, Duration, Rate, Time};

use super::node_streams::NodeStreams;
use super::refusal::FeedRefusal;
use super::topology::Topology;
use crate::controller::access::LinkReporter;
use crate::controller::limits::LINKS_PER_BATCH_MAX;

const NANOS_PER_MICRO: u64 = 1_000;

/// Receivers of the samples of all links, and the streams that they arrive by.
#[derive(Debug)]
pub(super) struct SampleInputs {
    inputs: Vec<LinkInput>,
    /// Numbers of links, by node and name.
    numbers: BTreeMap<(String, String), usize>,
    streams: NodeStreams,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// Receiver of one link's samples.
#[derive(Debug)]
struct LinkInput {
    meter: Mutex<LinkMeter>,
    /// Indices of the paths that have the link.
    paths: Vec<usize>,
}

/// Link of a batch: its number in the topology, and its sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchLink<'a> {
    number: usize,
    pub(super) sampled: &'a SampledLink,
}

impl SampleInputs {
    /// Creates the receivers of a topology's links.
    pub(super) fn new(topology: &Topology) -> Self {
        let input = |number: u32| {
            let id = Topology::link_id(number);
            let has_link = topology.paths.iter().map(|path| path.path.links().contains(&id)).enumerate();
            let paths = has_link.filter(|(_, has_link)| *has_link).map(|(index, _)| index).collect();
            LinkInput { meter: Mutex::new(LinkMeter::new(id)), paths }
        };
        let names = topology.links.iter().map(|link| (link.node.clone(), link.name.clone()));
        Self {
            inputs: (0..).zip(&topology.links).map(|(number, _)| input(number)).collect(),
            numbers: names.zip(0..).collect(),
            streams: NodeStreams::default(),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Returns the numbers of samples that were accepted, and refused.
    pub(super) fn counts(&self) -> [u64; 2] {
        [&self.accepted, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the streams that samples arrive by.
    pub(super) const fn streams(&self) -> &NodeStreams {
        &self.streams
    }

    /// Returns the indices of the paths that have a link of a node.
    pub(super) fn paths_of(&self, reporter: &LinkReporter) -> Vec<usize> {
        let of_node = self.numbers.iter().filter(|((node, _), _)| **node == *reporter.name);
        let paths: BTreeSet<usize> =
            of_node.flat_map(|(_, number)| self.inputs[*number].paths.iter().copied()).collect();
        paths.into_iter().collect()
    }

    /// Returns the links of a batch.
    ///
    /// # Errors
    /// If a link does not exist, or another node reports it. Both have the same answer.
    pub(super) fn links<'a>(
        &self,
        reporter: &LinkReporter,
        batch: &'a SampleBatch,
    ) -> Result<Vec<BatchLink<'a>>, FeedRefusal> {
        if !(1..=LINKS_PER_BATCH_MAX).contains(&batch.links.len()) {
            return Err(FeedRefusal::LinkCount(batch.links.len()));
        }
        let link = |sampled: &'a SampledLink| {
            let key = (reporter.name.to_string(), sampled.link.clone());
            let number = self.numbers.get(&key).copied();
            let unknown = || FeedRefusal::NoLink(sampled.link.chars().take(NAME_BYTES_MAX).collect());
            number.map(|number| BatchLink { number, sampled }).ok_or_else(unknown)
        };
        batch.links.iter().map(link).collect()
    }

    /// Returns the state of a link since its last good sample, and the paths that have the link.
    /// `None` for a first sample.
    ///
    /// # Errors
    /// If the sample is refused. The last good one stays.
    pub(super) fn on_sample(
        &self,
        batch: &SampleBatch,
        link: BatchLink<'_>,
        now: Time,
    ) -> Result<Option<(LinkState, &[usize])>, SampleError> {
        let input = &self.inputs[link.number];
        let transit = micros(batch.transit_us).min(ENTRY_LIFETIME);
        let mut meter = input.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let state = meter.on_sample(sample_of(batch, link.sampled), transit, now);
        let counter = if state.is_ok() { &self.accepted } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(state?.map(|state| (state, input.paths.as_slice())))
    }
}

fn sample_of(batch: &SampleBatch, sampled: &SampledLink) -> LinkSample {
    let [interactive, other] = sampled.flows;
    LinkSample {
        incarnation: batch.incarnation,
        number: batch.number,
        clock: Time::START.saturating_add(micros(batch.clock_us)),
        sent: Bytes::new(sampled.sent_bytes),
        backlog: Bytes::new(sampled.backlog_bytes),
        shown: Rate::from_bits_per_second(sampled.shown_bits_per_second),
        guaranteed: Rate::from_bits_per_second(sampled.guaranteed_bits_per_second),
        delay: micros(sampled.delay_us),
        target: Bytes::new(sampled.target_bytes),
        flows: FlowCounts { interactive, other },
    }
}

/// Returns a duration of so many microseconds, or the longest one.
const fn micros(micros: u64) -> Duration {
    Duration::from_nanos(micros.saturating_mul(NANOS_PER_MICRO))
}

#[cfg(test)]
mod tests {
    use byway_state::{EntryError, EntryField, Path};

    use super::super::topology::{ReportedLink, RoutedPath};
    use super::*;

    fn reporter(name: &str) -> LinkReporter {
        LinkReporter { number: 7, name: name.into() }
    }

    /// Returns the receivers of `core-1` and `core-2` of `edge`, and `up` of `fra`. Path 0 has the
    /// first two, and path 1 the last two.
    fn inputs() -> SampleInputs {
        let link = |name: &str, node: &str| ReportedLink { name: name.to_owned(), node: node.to_owned() };
        let path = |links: [u32; 2]| RoutedPath {
            from: "10.0.0.0/8".parse().expect("a prefix"),
            to: "0.0.0.0/0".parse().expect("a prefix"),
            path: Path::new(links.map(Topology::link_id)).expect("a path"),
        };
        SampleInputs::new(&Topology {
            networks: vec![],
            links: vec![link("core-1", "edge"), link("core-2", "edge"), link("up", "fra")],
            paths: vec![path([0, 1]), path([1, 2])],
        })
    }

    fn sampled(link: &str, number: u64) -> SampledLink {
        SampledLink {
            link: link.to_owned(),
            sent_bytes: 31_250 * number,
            backlog_bytes: 1_500,
            shown_bits_per_second: 5_000_000,
            guaranteed_bits_per_second: 2_500_000,
            delay_us: 10_000,
            target_bytes: 1_500,
            flows: [1, 0],
        }
    }

    /// Returns the batch of this number, 50 ms after the one before.
    fn batch(number: u64, links: Vec<SampledLink>) -> SampleBatch {
        SampleBatch { incarnation: 1, number, clock_us: 50_000 * number, transit_us: 3_000, links }
    }

    fn at(number: u64) -> Time {
        Time::START + Duration::from_millis(3_600_000 + 50 * number)
    }

    /// Reports the first link of a batch of `edge`.
    fn report(
        inputs: &SampleInputs,
        batch: &SampleBatch,
    ) -> Result<Option<(LinkState, Vec<usize>)>, SampleError> {
        let links = inputs.links(&reporter("edge"), batch).expect("it is a link of edge");
        let reported = inputs.on_sample(batch, links[0], at(batch.number))?;
        Ok(reported.map(|(state, paths)| (state, paths.to_vec())))
    }

    #[test]
    fn the_second_sample_is_a_state_of_all_paths_with_the_link() {
        let inputs = inputs();
        assert_eq!(report(&inputs, &batch(1, vec![sampled("core-2", 1)])), Ok(None));
        let reported = report(&inputs, &batch(2, vec![sampled("core-2", 2)])).expect("it is good");
        let (state, paths) = reported.expect("it is the second");
        assert_eq!((state.link(), paths), (Topology::link_id(1), vec![0, 1]));
        let entry = state.entry();
        assert_eq!((entry.interval().as_millis(), entry.sent().count()), (50, 31_250));
        assert_eq!((entry.backlog().count(), entry.delay().as_millis()), (1_500, 10));
        assert_eq!((state.age().as_micros(), state.target().count()), (3_000, 1_500));
        assert_eq!(state.flows(), Some(FlowCounts { interactive: 1, other: 0 }));
    }

    #[test]
    fn unknown_links_and_those_of_other_nodes_have_the_same_answer() {
        let inputs = inputs();
        let links = |node: &str, link: &str| {
            let batch = batch(1, vec![sampled("core-1", 1), sampled(link, 1)]);
            inputs.links(&reporter(node), &batch).map(|links| links.len())
        };
        assert_eq!(links("edge", "core-2"), Ok(2));
        for unknown in ["up", "down", ""] {
            assert_eq!(links("edge", unknown), Err(FeedRefusal::NoLink(unknown.to_owned())));
        }
        assert_eq!(links("fra", "up"), Err(FeedRefusal::NoLink("core-1".to_owned())));
        let long = FeedRefusal::NoLink("x".repeat(63));
        assert_eq!(links("edge", &"x".repeat(20_000)), Err(long));
    }

    #[test]
    fn a_batch_has_one_to_64_links() {
        let inputs = inputs();
        for count in [0, 65] {
            let batch = batch(1, vec![sampled("core-1", 1); count]);
            assert_eq!(inputs.links(&reporter("edge"), &batch), Err(FeedRefusal::LinkCount(count)));
        }
        let most = batch(1, vec![sampled("core-1", 1); 64]);
        assert_eq!(inputs.links(&reporter("edge"), &most).map(|links| links.len()), Ok(64));
    }

    #[test]
    fn bad_samples_are_refused_and_the_last_good_one_stays() {
        let inputs = inputs();
        assert_eq!(report(&inputs, &batch(1, vec![sampled("core-1", 1)])), Ok(None));
        let refuse = |change: fn(&mut SampleBatch), error: SampleError| {
            let mut bad = batch(2, vec![sampled("core-1", 2)]);
            change(&mut bad);
            assert_eq!(report(&inputs, &bad), Err(error));
        };
        let out_of_range = |field| SampleError::Entry(EntryError::OutOfRange(field));
        refuse(|bad| bad.links[0].shown_bits_per_second = 0, out_of_range(EntryField::Shown));
        refuse(|bad| bad.links[0].shown_bits_per_second = 10_u64.pow(18), out_of_range(EntryField::Shown));
        refuse(
            |bad| bad.links[0].guaranteed_bits_per_second = u64::MAX,
            out_of_range(EntryField::Guaranteed),
        );
        refuse(|bad| bad.links[0].delay_us = 60_000_000, out_of_range(EntryField::Delay));
        refuse(|bad| bad.links[0].delay_us = u64::MAX, out_of_range(EntryField::Delay));
        // A buffer of 10 s at 5 Mbit/s is below 16 MiB.
        refuse(|bad| bad.links[0].backlog_bytes = (16 << 20) + 1, out_of_range(EntryField::Backlog));
        // A hundred times 5 Mbit/s in 50 ms are 3,125,000 bytes.
        refuse(|bad| bad.links[0].sent_bytes = 31_250 + 3_125_001, out_of_range(EntryField::Sent));
        refuse(|bad| bad.links[0].sent_bytes = 31_249, SampleError::CounterBackwards);
        refuse(|bad| bad.links[0].target_bytes = 0, out_of_range(EntryField::Target));
        refuse(|bad| bad.clock_us = 50_000, SampleError::ClockBackwards);
        refuse(|bad| bad.clock_us = 0, SampleError::ClockBackwards);
        refuse(|bad| bad.number = 1, SampleError::NotNewer);
        let (state, _) =
            report(&inputs, &batch(3, vec![sampled("core-1", 3)])).expect("it is good").expect("a state");
        assert_eq!((state.entry().interval().as_millis(), state.entry().sent().count()), (100, 62_500));
        assert_eq!(inputs.counts(), [2, 12]);
    }

    #[test]
    fn a_clock_that_jumps_ahead_begins_anew() {
        let inputs = inputs();
        assert_eq!(report(&inputs, &batch(1, vec![sampled("core-1", 1)])), Ok(None));
        for clock_us in [1_000_000_000_000_000, u64::MAX] {
            let jumped = SampleBatch { clock_us, ..batch(2 + clock_us % 2, vec![sampled("core-1", 2)]) };
            assert_eq!(report(&inputs, &jumped), Ok(None));
        }
    }

    #[test]
    fn a_node_has_the_paths_of_its_links() {
        let inputs = inputs();
        assert_eq!(inputs.paths_of(&reporter("edge")), [0, 1]);
        assert_eq!(inputs.paths_of(&reporter("fra")), [1]);
        assert_eq!(inputs.paths_of(&reporter("other")), [0; 0]);
    }
}
