//! Every limit of experiments, with its reason.

/// Most variants of a scenario: a curve of more points says no more.
pub const ARMS_MAX: usize = 100;

/// Most runs, of all variants with all seeds: what a week of a machine bears.
pub const RUNS_MAX: usize = 10_000;
