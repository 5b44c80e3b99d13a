//! The comparison as a table for people and as JSON for machines.

use std::fmt::Write as _;

use serde::Serialize;

use crate::contender::Side;
use crate::measure::Times;
use crate::shape::{Op, Shape};

/// The machine-readable result.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The processor's name.
    pub(crate) cpu: String,
    pub(crate) rows: Vec<Row>,
}

/// One of Byway's engines against one peer on one shape.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) op: Op,
    pub(crate) k: usize,
    r: usize,
    lost: usize,
    pub(crate) bytes: usize,
    pub(crate) engine: String,
    peer: String,
    /// The peer's time divided by Byway's: above 1, Byway is faster.
    pub(crate) ratio: f64,
}

impl Row {
    /// Whether this row is about that peer.
    pub(crate) fn is(&self, peer: &str) -> bool {
        self.peer == peer
    }

    /// Whether this row is about a coder in Rust.
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

/// One shape's table: a line for each engine, a column for each peer.
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
