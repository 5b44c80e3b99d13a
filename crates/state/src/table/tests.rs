extern crate std;

use std::vec::Vec;

use byway_units::{Bytes, Duration};
use proptest::prelude::*;

use super::*;
use crate::convert::float;
use crate::entry::LinkEntry;
use crate::test_values::{link, millis, state, ticks};

fn path(links: impl IntoIterator<Item = u32>) -> Path {
    Path::new(links.into_iter().map(|number| link(1, number))).expect("a path")
}

fn report(number: u32, sent: u64) -> LinkState {
    state(link(1, number), [0.05, float(sent), 1_500.0, 625_000.0, 0.01])
}

/// Returns a table of one link with the entries 1 to `count`, made one tick apart from tick 1 on.
fn filled(count: u64) -> Table {
    let mut table = Table::new(path([1]));
    for tick in 1..=count {
        assert!(table.report(&report(1, tick), ticks(tick)));
        assert_eq!(table.tick(ticks(tick)).map(PathEntry::index), Some(tick));
    }
    table
}

fn indices(table: &Table, last: u64, entries_max: usize, now: Time) -> Vec<u64> {
    table.after(StateQuery::new(last, entries_max), now).map(PathEntry::index).collect()
}

#[test]
fn entries_after_an_index_are_the_newest_oldest_first() {
    let table = filled(10);
    assert_eq!(indices(&table, 7, 40, ticks(10)), [8, 9, 10]);
    assert_eq!(indices(&table, 3, 2, ticks(10)), [9, 10]);
    assert_eq!(indices(&table, 10, 40, ticks(10)), [0; 0]);
    assert_eq!(indices(&table, 0, 3, ticks(10)), [8, 9, 10]);
}

#[test]
fn no_entries_are_asked_for_by_zero_and_all_by_a_huge_number() {
    let table = filled(10);
    assert_eq!(indices(&table, 0, 0, ticks(10)), [0; 0]);
    assert_eq!(indices(&table, 0, usize::MAX, ticks(10)).len(), 10);
}

#[test]
fn an_index_beyond_the_newest_is_a_restart() {
    let table = filled(3);
    for last in [4, u64::MAX] {
        assert_eq!(indices(&table, last, 40, ticks(3)), [1, 2, 3]);
    }
    assert_eq!(indices(&Table::new(path([1])), 5, 40, ticks(3)), [0; 0]);
}

#[test]
fn an_index_older_than_the_ring_gets_the_ring() {
    let table = filled(250);
    let all = indices(&table, 1, usize::MAX, ticks(250));
    assert_eq!((all.len(), all[0], all[99]), (100, 151, 250));
}

#[test]
fn entries_are_gone_after_five_seconds() {
    let table = filled(10);
    assert_eq!(indices(&table, 0, 40, ticks(105)), [5, 6, 7, 8, 9, 10]);
    assert_eq!(indices(&table, 0, 40, ticks(111)), [0; 0]);
    let mut slow = Table::new(path([1]));
    for second in 1..20 {
        slow.report(&report(1, 1), ticks(20 * second));
        slow.tick(ticks(20 * second));
    }
    assert_eq!(indices(&slow, 0, 40, ticks(380)), [14, 15, 16, 17, 18, 19]);
}

#[test]
fn a_path_is_known_once_all_its_links_report_and_unknown_after_silence() {
    let mut table = Table::new(path([1, 2]));
    table.report(&report(1, 1), ticks(1));
    assert_eq!(table.tick(ticks(1)), None);
    assert_eq!(table.silent_link(ticks(1)), Some(link(1, 2)));
    table.report(&report(2, 1), ticks(2));
    let entry = table.tick(ticks(2)).expect("both have reported");
    assert_eq!((entry.index(), entry.links().len()), (1, 2));
    table.report(&report(1, 1), ticks(100));
    assert!(table.tick(ticks(101)).is_some_and(|entry| !entry.links()[1].entry().has_news()));
    assert_eq!(table.tick(ticks(102)), None);
    assert_eq!(table.silent_link(ticks(102)), Some(link(1, 2)));
    table.report(&report(2, 1), ticks(103));
    assert_eq!(table.tick(ticks(103)).map(PathEntry::index), Some(3), "there are no gaps");
}

#[test]
fn reports_of_other_links_are_refused() {
    let mut table = Table::new(path([1]));
    assert!(!table.report(&report(2, 1), ticks(1)));
    assert_eq!(table.tick(ticks(1)), None);
}

#[test]
fn links_that_stay_on_a_new_path_go_on() {
    let mut table = filled(3);
    table.report(&report(1, 9), ticks(4));
    table.set_path(path([2, 1]));
    assert_eq!(table.tick(ticks(4)), None);
    table.report(&report(2, 7), ticks(5));
    let entry = table.tick(ticks(5)).expect("both have reported");
    let sent: Vec<u64> = entry.links().iter().map(|state| state.entry().sent().count()).collect();
    assert_eq!((entry.index(), sent), (4, std::vec![7, 9]));
    assert_eq!(indices(&table, 0, 40, ticks(5)), [1, 2, 3, 4]);
}

#[test]
fn a_clock_that_goes_backwards_loses_nothing() {
    let mut table = filled(10);
    table.report(&report(1, 1), ticks(1));
    assert_eq!(table.tick(ticks(1)).map(PathEntry::index), Some(11));
    assert_eq!(indices(&table, 8, 40, ticks(0)), [9, 10, 11]);
    assert_eq!(indices(&table, 8, 40, ticks(109)), [9, 10, 11], "the newest is not the first to expire");
}

/// The table as it is described, without a ring: all reports and entries of all time.
#[derive(Default)]
struct NaiveTable {
    reports: Vec<(Time, LinkState)>,
    entries: Vec<(Time, u64, LinkState)>,
    merged: usize,
}

impl NaiveTable {
    fn tick(&mut self, now: Time) {
        let Some((at, last)) = self.reports.last() else { return };
        if now.saturating_since(*at) >= ENTRY_LIFETIME {
            return;
        }
        let new = &self.reports[self.merged..];
        let (interval, sent) =
            new.iter().fold((Duration::ZERO, Bytes::ZERO), |(interval, sent), (_, state)| {
                (interval + state.entry().interval(), sent + state.entry().sent())
            });
        let backlog = if new.is_empty() { Bytes::ZERO } else { last.entry().backlog() };
        let entry = LinkEntry::new(interval, sent, backlog, last.entry().shown(), last.entry().delay());
        let state = LinkState::new(last.link(), entry.expect("the sum is short"), now.saturating_since(*at));
        self.merged = self.reports.len();
        self.entries.push((now, self.entries.len() as u64 + 1, state.expect("it is young")));
    }

    fn after(&self, query: StateQuery, now: Time) -> Vec<(u64, LinkState)> {
        let newest = self.entries.len() as u64;
        let last = if query.last() > newest { 0 } else { query.last() };
        let ring = self.entries.iter().rev().take(100);
        let young =
            ring.take_while(|(at, index, _)| *index > last && now.saturating_since(*at) <= ENTRY_LIFETIME);
        let mut entries: Vec<_> =
            young.take(query.entries_max()).map(|(_, index, state)| (*index, *state)).collect();
        entries.reverse();
        entries
    }
}

proptest! {
    #[test]
    fn the_ring_answers_as_a_table_of_all_entries(
        steps in prop::collection::vec((0_u64..3, 1_u64..40, 0_u64..30_000), 1..400),
        last in 0_u64..500, entries_max in 0_usize..150,
    ) {
        let (mut table, mut naive, mut now) = (Table::new(path([1])), NaiveTable::default(), ticks(1));
        for (step, wait, sent) in steps {
            now += millis(wait * wait);
            if step > 0 {
                table.report(&report(1, sent), now);
                naive.reports.push((now, report(1, sent)));
            } else {
                table.tick(now);
                naive.tick(now);
            }
        }
        let query = StateQuery::new(last, entries_max);
        let found: Vec<_> = table.after(query, now).map(|entry| (entry.index(), entry.links()[0])).collect();
        prop_assert_eq!(found, naive.after(query, now));
    }
}
