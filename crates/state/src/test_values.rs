//! Times and states of links, for tests.

use alloc::vec::Vec;

use byway_units::{Duration, Time};

use crate::entry::LinkEntry;
use crate::limits::SAMPLE_INTERVAL;
use crate::link_state::{LinkId, LinkState, NetworkId};
use crate::path_entry::PathEntry;

/// Link of 5 Mbit/s and 25 ms that was busy for 50 ms, in the published form: interval, sent bytes,
/// backlog, rate and delay.
pub(crate) const BUSY: [f64; 5] = [0.05, 31_250.0, 1_500.0, 625_000.0, 0.0274];

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the time after so many milliseconds.
pub(crate) fn at(number: u64) -> Time {
    Time::START + millis(number)
}

/// Returns the time after so many intervals of samples. The first one is long after the start of
/// time, so that ages have a beginning.
pub(crate) fn ticks(number: u64) -> Time {
    Time::START + Duration::from_secs(100) + SAMPLE_INTERVAL * number
}

pub(crate) fn link(network: u32, number: u32) -> LinkId {
    LinkId::new(NetworkId::new(network), number)
}

/// Returns the new state of a link with numbers in the published form.
pub(crate) fn state(link: LinkId, numbers: [f64; 5]) -> LinkState {
    let entry = LinkEntry::from_published(numbers).expect("the numbers are usual");
    LinkState::new(link, entry, Duration::ZERO).expect("it is new")
}

/// Returns the first entry of a path.
pub(crate) fn path_entry(links: &[LinkState]) -> PathEntry {
    PathEntry::new(1, Vec::from(links)).expect("the links are a path")
}

/// True if two numbers are equal to nine digits.
pub(crate) fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9 * b.abs().max(1.0)
}
