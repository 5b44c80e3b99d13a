//! Gates: limits on the instructions to plan routes over 300 relays.
//!
//! A core executes some 3,000 million instructions in a second. The limit of the table is 2 % of
//! that. Counts depend slightly on the compiler: each limit is the count plus five per cent. If a
//! search becomes faster, lower its limit.

#![allow(
    missing_docs,
    unused_qualifications,
    reason = "the benchmark macros generate public items and long paths"
)]

use std::hint::black_box;

use byway_plan::{AccessDelay, PlannedRoute, RelayDelays, RouteQuery, RouteTable};
use byway_units::{Duration, RelayId};
use gungraun::prelude::*;
use gungraun::{Callgrind, EventKind};

const RELAYS: u32 = 300;

/// Relays that an endpoint of the search can use.
const ACCESS: u32 = 8;

/// Returns delays from 1 to 200 ms between all relays, different in each direction.
fn delays() -> RelayDelays {
    let relays: Vec<RelayId> = (0..RELAYS).map(RelayId::new).collect();
    let mut delays = RelayDelays::new(&relays).unwrap_or_else(|error| panic!("{error}"));
    for (from, to) in relays.iter().flat_map(|from| relays.iter().map(move |to| (*from, *to))) {
        let mixed = (from.number() * 7_919 + to.number() * 104_729) % 199_000;
        delays.set(from, to, Some(Duration::from_micros(1_000 + u64::from(mixed))));
    }
    delays
}

fn access(first: u32) -> Vec<AccessDelay> {
    let access = |number: u32| AccessDelay {
        relay: RelayId::new(first + number),
        delay: Duration::from_millis(5 + u64::from(number)),
    };
    (0..ACCESS).map(access).collect()
}

fn searched() -> (RouteTable, [Vec<AccessDelay>; 2]) {
    (RouteTable::new(delays()), [access(0), access(RELAYS - ACCESS)])
}

/// Returns the configuration of a benchmark that fails above this number of instructions.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark]
#[bench::of_300_relays(args = (), setup = delays, config = at_most(60_800_000))]
fn table(delays: RelayDelays) -> RouteTable {
    RouteTable::new(black_box(delays))
}

#[library_benchmark]
#[bench::with_8_relays_at_each_end(args = (), setup = searched, config = at_most(73_000))]
fn search((table, ends): (RouteTable, [Vec<AccessDelay>; 2])) -> Option<PlannedRoute> {
    black_box(&table).plan(&RouteQuery::new(&ends[0], &ends[1]))
}

library_benchmark_group!(name = planning, benchmarks = [table, search]);

main!(library_benchmark_groups = [planning]);
