//! Report of the comparison of coders, as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::contender::Side;
use crate::measure::Times;
use crate::shape::{Op, Shape};

/// Results of the comparison of coders, for JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Model name of the processor.
    pub(crate) cpu: String,
    pub(crate) rows: Vec<Row>,
}

/// Comparison of one of Byway's engines with one peer on one shape.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) op: Op,
    pub(crate) k: usize,
    r: usize,
    lost: usize,
    pub(crate) bytes: usize,
    pub(crate) engine: String,
    peer: String,
    /// Peer's time divided by that of Byway's engine: above 1, Byway is faster.
    pub(crate) ratio: f64,
}

impl Row {
    /// True if this row compares with that peer.
    pub(crate) fn is(&self, peer: &str) -> bool {
        self.peer == peer
    }

    /// True if this row compares with a coder written in Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.peer.starts_with("reed-solomon-")
    }
}

impl Report {
    pub(crate) fn add(&mut self, shape: &Shape, times: &[Times]) {
        for engine in of_side(times, Side::Byway) {
            for peer in of_side(times, Side::Peer) {
                self.rows.push(Row {
                    op: shape.op,
                    k: shape.source_packets,
                    r: shape.repair_packets,
                    lost: shape.lost,
                    bytes: shape.packet_bytes,
                    engine: engine.name.clone(),
                    peer: peer.name.clone(),
                    ratio: (peer.ratio_to(engine) * 1_000.0).round() / 1_000.0,
                });
            }
        }
    }
}

/// Renders the table of one shape: a row for each of Byway's engines, a column for each peer.
pub(crate) fn table(shape: &Shape, times: &[Times]) -> String {
    let peers: Vec<_> = of_side(times, Side::Peer).collect();
    let mut table = format!("{:<28}{:>9}", shape.to_string(), "ns/batch");
    for peer in &peers {
        let _ = write!(table, "{:>22}", peer.name);
    }
    let _ = write!(table, "\n{:<28}{:>9}", "  (its own time)", "");
    for peer in &peers {
        let _ = write!(table, "{:>19.0} ns", peer.median());
    }
    for engine in of_side(times, Side::Byway) {
        let _ = write!(table, "\n  {:<26}{:>9.0}", engine.name, engine.median());
        for peer in &peers {
            let ratio = peer.ratio_to(engine);
            let decimals = if ratio < 0.1 { 4 } else { 2 };
            let _ = write!(table, "{ratio:>21.decimals$}x");
        }
    }
    table
}

fn of_side(times: &[Times], side: Side) -> impl Iterator<Item = &Times> {
    times.iter().filter(move |times| times.side == side)
}
