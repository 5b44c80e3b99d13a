//! Goals of the coder, and their verdicts on this machine.

use std::fmt;

use crate::report::{Report, Row};
use crate::shape::Op;

/// Goal of the coder: a bound on the ratios of one of Byway's engines.
struct Goal {
    what: &'static str,
    /// Name of the engine to which the goal applies.
    engine: &'static str,
    concerns: fn(&Row) -> bool,
    /// Least ratio of the peer's time to Byway's that meets the goal.
    least: f64,
}

/// Goals of the coder, for processors with GFNI and for those that only have shuffles.
const GOALS: [Goal; 5] = [
    Goal {
        what: "encoding 10+2 at 1200 B takes at most 1.35 times a loop that only reads",
        engine: "gfni-avx512",
        concerns: |row| row.op == Op::Encode && row.is("read-loop") && (row.k, row.bytes) == (10, 1_200),
        least: 1.0 / 1.35,
    },
    Goal {
        what: "encoding, over ISA-L",
        engine: "gfni-avx512",
        concerns: |row| row.op == Op::Encode && row.is("isa-l"),
        least: 1.2,
    },
    Goal {
        what: "encoding, over the best peer in Rust",
        engine: "gfni-avx512",
        concerns: |row| row.op == Op::Encode && row.is_rust(),
        least: 2.0,
    },
    Goal {
        what: "decoding with set-up, over the best peer",
        engine: "gfni-avx512",
        concerns: |row| row.op == Op::Decode && (row.is("isa-l") || row.is_rust()),
        least: 1.8,
    },
    Goal {
        what: "encoding with shuffles, over ISA-L",
        engine: "avx2",
        concerns: |row| row.op == Op::Encode && row.is("isa-l"),
        least: 0.7,
    },
];

/// Verdict of a report on one goal of the coder.
pub(crate) struct Verdict {
    what: &'static str,
    engine: &'static str,
    /// Worst ratio among the rows that the goal concerns; `None` if the engine or the peer was not
    /// measured.
    worst: Option<f64>,
    least: f64,
}

impl Verdict {
    pub(crate) fn is_met(&self) -> bool {
        self.worst.is_some_and(|worst| worst >= self.least)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, engine, worst, least } = self;
        match worst {
            None => write!(f, "not measured         {what} ({engine})"),
            Some(worst) => {
                let verdict = if self.is_met() { "met" } else { "MISSED" };
                write!(f, "{verdict:<7} {worst:>5.2}x of {least:.2}x {what} ({engine})")
            }
        }
    }
}

/// Returns the verdict of this report on each goal.
pub(crate) fn verdicts(report: &Report) -> Vec<Verdict> {
    let judge = |goal: &Goal| {
        let rows = report.rows.iter().filter(|row| row.engine == goal.engine && (goal.concerns)(row));
        let worst = rows.map(|row| row.ratio).min_by(f64::total_cmp);
        Verdict { what: goal.what, engine: goal.engine, worst, least: goal.least }
    };
    GOALS.iter().map(judge).collect()
}
