//! What the demo has found, as it is written to `result.json`.

use serde::{Deserialize, Serialize};

/// A kind of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunKind {
    /// Coding, and nothing is lost: what Byway costs when it is not needed.
    Lossless,
    /// Nothing goes over relays.
    Internet,
    /// Repair packets across the pairs' flows.
    Coding,
    /// Copies in the egress relay's cache.
    Caching,
    /// Everything over the relays, nothing on the direct path.
    Forwarding,
    /// Coding, and both relays are killed half way.
    RelaysKilled,
    /// Coding, but one pair has nobody to be coded with.
    Lone,
}

impl RunKind {
    /// In the order in which they are shown.
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

    /// As in `result.json`.
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

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DemoResult {
    pub(crate) seed: u64,
    /// Between sender and receiver, without jitter.
    pub(crate) rtt_ms: f64,
    /// The least time that a cooperative repair can take.
    pub(crate) floor_ms: f64,
    pub(crate) runs: Vec<RunResult>,
    /// Runs without a result.
    pub(crate) failed: Vec<FailedRun>,
}

/// A run without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedRun {
    pub(crate) service: RunKind,
    /// The reason.
    pub(crate) error: String,
}

/// Sums over all pairs of one run; PSNR is that of the measured pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) service: RunKind,
    /// Datagrams that applications sent.
    pub(crate) sent: u64,
    /// Of these, the ones that the direct path lost; with forwarding, that it would have lost.
    pub(crate) lost_direct: u64,
    /// Of these, the ones that were delivered before the deadline.
    pub(crate) repaired_in_time: u64,
    /// Datagrams delivered after the deadline.
    pub(crate) late: u64,
    /// Datagrams never delivered.
    pub(crate) unrepaired: u64,
    /// Datagrams that this machine lost before they were on the network: neither lost nor unrepaired.
    pub(crate) lost_by_machine: u64,
    pub(crate) duplicates_delivered: u64,
    /// Bytes that applications sent.
    pub(crate) app_bytes: u64,
    /// IP bytes that left both relays.
    pub(crate) relay_egress_bytes: u64,
    /// IP bytes that left all agents.
    pub(crate) uplink_bytes: u64,
    /// From the moment the direct copy was due to delivery.
    pub(crate) repair_ms: RepairTimes,
    pub(crate) psnr_db: Psnr,
    /// Which way those that were repaired in time came.
    pub(crate) repaired_by: RepairedBy,
    /// Of a run whose relays were killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after_kill: Option<AfterKill>,
}

/// Percentiles in milliseconds, late repairs included; `None` if nothing was repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RepairTimes {
    pub(crate) p50: Option<f64>,
    pub(crate) p95: Option<f64>,
    pub(crate) p99: Option<f64>,
}

/// In dB; the fifth percentile is what the worst frames are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Psnr {
    pub(crate) mean: Option<f64>,
    pub(crate) p5: Option<f64>,
}

/// Datagrams by the way of their repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepairedBy {
    pub(crate) in_stream: u64,
    pub(crate) cooperative: u64,
    pub(crate) cache: u64,
    pub(crate) forward: u64,
}

/// What was sent after the relays had been killed, sums over all pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AfterKill {
    /// When they were killed, in milliseconds since the start.
    pub(crate) killed_ms: f64,
    /// Datagrams that applications sent from then on.
    pub(crate) sent: u64,
    /// Of these, the ones that the direct path lost: what would be missing on the Internet alone.
    pub(crate) lost_direct: u64,
    /// Of these, the ones that were delivered after the deadline.
    pub(crate) late: u64,
    /// Of these, the ones that were never delivered.
    pub(crate) unrepaired: u64,
    /// Pairs that missed more datagrams, late ones included, than their direct path lost. It has to be none.
    pub(crate) pairs_worse: u64,
}

impl AfterKill {
    /// Whether no application was worse off than on the Internet alone.
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
