//! Results of the demo, as in `result.json`.

use serde::{Deserialize, Serialize};

/// Kind of a demo run: the service of the flows, and what happens to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunKind {
    /// Coding on a network without losses, which shows the delay that Byway adds when nothing needs
    /// repair.
    Lossless,
    /// Direct path only, without relays.
    Internet,
    /// Coding: repair packets across the pairs' flows.
    Coding,
    /// Copies that the egress relay caches and sends on request.
    Caching,
    /// All packets over the relays, none on the direct path.
    Forwarding,
    /// Coding, with both relays killed half way.
    RelaysKilled,
    /// Coding with a single pair: no other flow shares its batches.
    Lone,
}

impl RunKind {
    /// All kinds, in the order of the report.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 7] = [
        Self::Lossless,
        Self::Internet,
        Self::Coding,
        Self::Caching,
        Self::Forwarding,
        Self::RelaysKilled,
        Self::Lone,
    ];

    /// Returns the name as in `result.json`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Internet => "internet",
            Self::Coding => "coding",
            Self::Caching => "caching",
            Self::Forwarding => "forwarding",
            Self::RelaysKilled => "relays-killed",
            Self::Lone => "lone",
        }
    }
}

/// Results of the demo, as written to `result.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DemoResult {
    pub(crate) seed: u64,
    /// Round trip between sender and receiver, without jitter.
    pub(crate) rtt_ms: f64,
    /// Least time of a cooperative repair, in milliseconds.
    pub(crate) floor_ms: f64,
    pub(crate) runs: Vec<RunResult>,
    /// Runs that failed, and so have no row in `runs`.
    pub(crate) failed: Vec<FailedRun>,
}

/// A run without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedRun {
    pub(crate) service: RunKind,
    /// Error that ended the run, with its causes.
    pub(crate) error: String,
}

/// Sums over all pairs of one run; the PSNR is of the measured pair's video only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) service: RunKind,
    /// Number of datagrams that applications sent.
    pub(crate) sent: u64,
    /// Number of sent datagrams that the direct path lost. With forwarding, those that it would
    /// have lost.
    pub(crate) lost_direct: u64,
    /// Number of datagrams lost on the direct path that were delivered by the deadline.
    pub(crate) repaired_in_time: u64,
    /// Datagrams delivered after the deadline.
    pub(crate) late: u64,
    /// Number of datagrams that were never delivered.
    pub(crate) unrepaired: u64,
    /// Datagrams that this machine lost before they reached the network: neither lost nor
    /// unrepaired.
    pub(crate) lost_by_machine: u64,
    pub(crate) duplicates_delivered: u64,
    /// Payload bytes that applications sent.
    pub(crate) app_bytes: u64,
    /// IP bytes that left both relays.
    pub(crate) relay_egress_bytes: u64,
    /// IP bytes that left all agents.
    pub(crate) uplink_bytes: u64,
    /// Times from the due time of the direct copy until delivery.
    pub(crate) repair_ms: RepairTimes,
    pub(crate) psnr_db: Psnr,
    /// Sources of the repairs that were delivered in time.
    pub(crate) repaired_by: RepairedBy,
    /// Comparison with the direct paths after the kill; only in the run with killed relays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after_kill: Option<AfterKill>,
}

/// Percentiles of repair times in milliseconds, late repairs included; `None` without repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RepairTimes {
    pub(crate) p50: Option<f64>,
    pub(crate) p95: Option<f64>,
    pub(crate) p99: Option<f64>,
}

/// PSNR of a video's frames in dB; the fifth percentile is the quality of the worst frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Psnr {
    pub(crate) mean: Option<f64>,
    pub(crate) p5: Option<f64>,
}

/// Number of repaired datagrams by the source of their repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepairedBy {
    pub(crate) in_stream: u64,
    pub(crate) cooperative: u64,
    pub(crate) cache: u64,
    pub(crate) forward: u64,
}

/// Datagrams sent after the kill of the relays, as sums over all pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AfterKill {
    /// Time of the kill, in milliseconds since the start.
    pub(crate) killed_ms: f64,
    /// Datagrams that applications sent after the kill.
    pub(crate) sent: u64,
    /// Number of datagrams sent after the kill that the direct path lost: they would be missing on
    /// the Internet alone.
    pub(crate) lost_direct: u64,
    /// Number of datagrams sent after the kill that were delivered after the deadline.
    pub(crate) late: u64,
    /// Number of datagrams sent after the kill that were never delivered.
    pub(crate) unrepaired: u64,
    /// Number of pairs that missed more datagrams, late ones included, than their direct path lost.
    /// The demo expects zero.
    pub(crate) pairs_worse: u64,
}

impl AfterKill {
    /// True if no pair missed more datagrams than its direct path lost.
    pub(crate) const fn is_no_worse(&self) -> bool {
        self.pairs_worse == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_by_their_names() {
        for kind in RunKind::ALL {
            let written = serde_json::to_string(&kind).expect("JSON");
            assert_eq!(written, format!("\"{}\"", kind.name()));
        }
    }
}
