//! `byway demo --seeds N`: share of lost packets that coding repairs, over several seeds.

use super::demo_run::{prepare_video, run_with_retry};
use super::measure::{percentile, repaired_within};
use super::plan::{DemoPlan, ROUND_TRIP_MS};
use super::report::seeds_table;
use super::results::RunKind;
use super::run::RunPlan;
use super::{DemoFlags, Prerequisites};
use crate::interrupt;

pub(crate) fn run(flags: &DemoFlags, prerequisites: &Prerequisites, count: u32) -> anyhow::Result<()> {
    let Prerequisites { footage, tools, scratch, net } = prerequisites;
    let media = scratch.folder()?;
    let video = prepare_video(tools, footage, media.path())?;
    let (mut seeds, mut failed) = (Vec::new(), None);
    for seed in (flags.seed..).take(count as usize) {
        let plan = DemoPlan { seed, ..flags.plan(net) };
        let (kind, datagrams) = (Some(RunKind::Coding), video.datagrams.len());
        let run_plan = RunPlan { plan: &plan, video: &video, scratch, kind, datagrams };
        let fates = match run_with_retry(&run_plan, &format!("seed {seed}"), false) {
            Ok(outcome) => outcome.fates,
            Err(failure) => {
                interrupt::check()?;
                failed = Some(failure);
                continue;
            }
        };
        let repairs: Vec<_> =
            fates.iter().flatten().filter_map(super::measure::DatagramOutcome::repair_ms).collect();
        seeds.push((seed, repaired_within(&fates, ROUND_TRIP_MS as f64), percentile(&repairs, 0.95)));
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
