//! `byway demo --seeds N`: how much of what is lost coding brings back, with other losses each time.

use super::measure::{percentile, within};
use super::plan::{Plan, ROUND_TRIP_MS};
use super::report::seeds_table;
use super::results::RunKind;
use super::run::Course;
use super::tour::{flown, prepared};
use super::{DemoFlags, Prerequisites};
use crate::interrupt;

pub(crate) fn run(flags: &DemoFlags, prerequisites: &Prerequisites, count: u32) -> anyhow::Result<()> {
    let Prerequisites { footage, tools, scratch, net } = prerequisites;
    let media = scratch.folder()?;
    let video = prepared(tools, footage, media.path())?;
    let (mut seeds, mut failed) = (Vec::new(), None);
    for seed in (flags.seed..).take(count as usize) {
        let plan = Plan { seed, ..flags.plan(net) };
        let (kind, datagrams) = (Some(RunKind::Coding), video.datagrams.len());
        let course = Course { plan: &plan, video: &video, scratch, kind, datagrams };
        let fates = match flown(&course, &format!("seed {seed}"), false) {
            Ok(outcome) => outcome.fates,
            Err(failure) => {
                interrupt::check()?;
                failed = Some(failure);
                continue;
            }
        };
        let repairs: Vec<_> = fates.iter().flatten().filter_map(super::measure::Fate::repair_ms).collect();
        seeds.push((seed, within(&fates, ROUND_TRIP_MS as f64), percentile(&repairs, 0.95)));
    }
    if let (true, Some(failure)) = (seeds.is_empty(), failed) {
        return Err(failure);
    }
    println!("\n{}", seeds_table(&seeds));
    let shares: Vec<_> = seeds.iter().filter_map(|&(_, share, _)| share).collect();
    if let Some(median) = percentile(&shares, 0.5) {
        println!(
            "Median of the seeds: {:.1} % of lost packets repaired within one round trip.",
            median * 100.0
        );
    }
    Ok(())
}
