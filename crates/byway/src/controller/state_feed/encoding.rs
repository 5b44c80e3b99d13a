//! Entries as readers get them: in the published form, and in the form with names.

use byway_api::{NamedEntry, NamedLink};
use byway_state::{LinkEntry, LinkState, PathEntry};
use byway_units::{Duration, Rate};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use super::topology::Topology;

/// Entry in the published form: `[i, L, [interval, b, q, R, d], ...]`, in bytes and seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedEntry<'a>(pub(super) &'a PathEntry);

impl Serialize for PublishedEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let links = self.0.links();
        let mut array = serializer.serialize_seq(Some(2 + links.len()))?;
        array.serialize_element(&self.0.index())?;
        array.serialize_element(&links.len())?;
        for state in links {
            array.serialize_element(&published_link(state.entry()))?;
        }
        array.end()
    }
}

/// Returns a link entry in the published form. Bytes are whole numbers.
fn published_link(entry: &LinkEntry) -> (f64, u64, u64, f64, f64) {
    let [interval, _, _, shown, delay] = entry.published();
    (interval, entry.sent().count(), entry.backlog().count(), shown, delay)
}

/// Returns an entry with the names of its links, as it is `waited` after the table made it.
pub(super) fn named_entry(entry: &PathEntry, waited: Duration, topology: &Topology) -> NamedEntry {
    let links = entry.links().iter().map(|state| named_link(state, waited, topology));
    NamedEntry { index: entry.index(), links: links.collect() }
}

fn named_link(state: &LinkState, waited: Duration, topology: &Topology) -> NamedLink {
    let entry = state.entry();
    let name = topology.link(state.link()).map(|link| link.name.clone());
    NamedLink {
        link: name.unwrap_or_else(|| state.link().to_string()),
        interval_us: entry.interval().as_micros(),
        age_us: state.older_by(waited).age().as_micros(),
        sent_bytes: entry.sent().count(),
        backlog_bytes: entry.backlog().count(),
        shown_bits_per_second: entry.shown().bits_per_second(),
        guaranteed_bits_per_second: state.guaranteed().map(Rate::bits_per_second),
        delay_us: entry.delay().as_micros(),
        target_bytes: state.target().count(),
        flows: state.flows().map(|flows| [flows.interactive, flows.other]),
    }
}

#[cfg(test)]
mod tests {
    use byway_state::FlowCounts;
    use byway_units::Bytes;

    use super::super::topology::ReportedLink;
    use super::*;

    fn state(number: u32, numbers: [f64; 5]) -> LinkState {
        let entry = LinkEntry::from_published(numbers).expect("a usual entry");
        LinkState::new(Topology::link_id(number), entry, Duration::from_millis(11)).expect("it is young")
    }

    fn entry() -> PathEntry {
        let slow = state(0, [0.05, 31_250.0, 1_500.0, 625_000.0, 0.0274]);
        let fast = state(1, [0.05, 31_250.0, 0.0, 12_500_000.0, 0.005]);
        PathEntry::new(812, vec![slow, fast]).expect("a path")
    }

    #[test]
    fn the_published_form_is_that_of_the_paper_byte_for_byte() {
        let text = serde_json::to_string(&[PublishedEntry(&entry())]).expect("JSON");
        let expected = "[[812,2,[0.05,31250,1500,625000.0,0.0274],[0.05,31250,0,12500000.0,0.005]]]";
        assert_eq!(text, expected);
        assert_eq!(serde_json::to_string::<[PublishedEntry<'_>]>(&[]).expect("JSON"), "[]");
    }

    #[test]
    fn the_named_form_has_names_ages_and_settings() {
        let link = |name: &str| ReportedLink { name: name.to_owned(), node: name.to_owned() };
        let topology = Topology { links: vec![link("core-1")], ..Topology::default() };
        let slow = state(0, [0.05, 31_250.0, 1_500.0, 625_000.0, 0.0274]);
        let slow = slow.with_target(Bytes::new(6_250)).expect("in range");
        let slow = slow.with_guaranteed(Rate::from_kilobits_per_second(3_333)).expect("in range");
        let slow = slow.with_flows(FlowCounts { interactive: 1, other: 2 });
        let entry = PathEntry::new(813, vec![slow, state(1, [0.0, 0.0, 0.0, 625_000.0, 0.005])]);
        let named = named_entry(&entry.expect("a path"), Duration::from_millis(50), &topology);
        let expected = NamedLink {
            link: "core-1".to_owned(),
            interval_us: 50_000,
            age_us: 61_000,
            sent_bytes: 31_250,
            backlog_bytes: 1_500,
            shown_bits_per_second: 5_000_000,
            guaranteed_bits_per_second: Some(3_333_000),
            delay_us: 27_400,
            target_bytes: 6_250,
            flows: Some([1, 2]),
        };
        assert_eq!((named.index, &named.links[0]), (813, &expected));
        assert_eq!((named.links[1].interval_us, named.links[1].flows), (0, None));
        assert_eq!(named.links[1].link, "link 1 of network 0", "the settings have no name");
    }
}
