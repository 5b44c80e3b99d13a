//! Limits of experiments, with their reasons.

/// Most arms (variants of the scenario) of an experiment: more points do not improve a curve.
pub const ARMS_MAX: usize = 100;

/// Most runs of an experiment, of all arms with all seeds: about a week of a machine.
pub const RUNS_MAX: usize = 10_000;
