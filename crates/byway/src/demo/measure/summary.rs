//! Sums over the pairs of a run.

use super::after_kill::after_kill;
use super::outcomes::{DatagramOutcome, RepairMethod};
use super::percentile::percentile;
use crate::demo::media::{DATAGRAM_BYTES, Score};
use crate::demo::plan::{DEADLINE_MS, DemoNode};
use crate::demo::results::{Psnr, RepairTimes, RepairedBy, RunKind, RunResult};
use crate::demo::wan::LinkRecord;
use serde::{Deserialize, Serialize};

/// IP bytes of a run, by segment of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// Bytes between senders and receivers on direct paths, in both directions.
    pub(crate) direct: u64,
    /// Bytes from senders to relays.
    pub(crate) senders_to_relays: u64,
    /// Bytes from receivers to relays: NACKs, and packets for others' repairs.
    pub(crate) receivers_to_relays: u64,
    /// Bytes from relay to relay, which providers charge as traffic between regions.
    pub(crate) between_relays: u64,
    /// Bytes from relays to agents, which providers charge as traffic to the Internet.
    pub(crate) relays_to_agents: u64,
}

impl Traffic {
    pub(crate) fn of(links: &[LinkRecord]) -> Self {
        let mut traffic = Self::default();
        for link in links {
            let is_relay =
                |index| matches!(DemoNode::from_index(index), DemoNode::IngressRelay | DemoNode::EgressRelay);
            let segment = match (is_relay(link.from), is_relay(link.to), DemoNode::from_index(link.from)) {
                (true, true, _) => &mut traffic.between_relays,
                (true, false, _) => &mut traffic.relays_to_agents,
                (false, true, DemoNode::Sender(_)) => &mut traffic.senders_to_relays,
                (false, true, _) => &mut traffic.receivers_to_relays,
                (false, false, _) => &mut traffic.direct,
            };
            *segment += link.ip_bytes;
        }
        traffic
    }

    pub(crate) const fn relay_egress(&self) -> u64 {
        self.between_relays + self.relays_to_agents
    }

    pub(crate) const fn uplink(&self) -> u64 {
        self.direct + self.senders_to_relays + self.receivers_to_relays
    }
}

/// Returns the row of a run in `result.json`. `killed_ms` is the time at which its relays were
/// killed, if they were.
pub(crate) fn summarise(
    service: RunKind,
    pairs: &[Vec<DatagramOutcome>],
    traffic: &Traffic,
    score: Option<&Score>,
    killed_ms: Option<f64>,
) -> RunResult {
    let all = || pairs.iter().flatten();
    let count = |of: &dyn Fn(&DatagramOutcome) -> bool| all().filter(|fate| of(fate)).count() as u64;
    let in_time = |fate: &DatagramOutcome| fate.is_in_time(deadline_ms());
    let repaired = |fate: &DatagramOutcome| fate.is_lost && in_time(fate);
    let by = |method: RepairMethod| count(&|fate| repaired(fate) && fate.repair_method == Some(method));
    let times: Vec<_> = all().filter_map(DatagramOutcome::repair_ms).collect();
    let time = |share| percentile(&times, share);
    let sent = count(&|_| true);
    RunResult {
        service,
        sent,
        lost_direct: count(&|fate| fate.is_lost),
        repaired_in_time: count(&repaired),
        late: count(&|fate| fate.delivered_ms.is_some() && !in_time(fate)),
        unrepaired: count(&DatagramOutcome::is_missing),
        lost_by_machine: count(&|fate| fate.is_spoiled),
        duplicates_delivered: all().map(|fate| u64::from(fate.duplicates)).sum(),
        app_bytes: sent * DATAGRAM_BYTES as u64,
        relay_egress_bytes: traffic.relay_egress(),
        uplink_bytes: traffic.uplink(),
        repair_ms: RepairTimes { p50: time(0.5), p95: time(0.95), p99: time(0.99) },
        psnr_db: score.map_or_else(Psnr::default, psnr),
        repaired_by: RepairedBy {
            in_stream: by(RepairMethod::InStream),
            cooperative: by(RepairMethod::Cooperative),
            cache: by(RepairMethod::Cache),
            forward: by(RepairMethod::Forward),
        },
        after_kill: killed_ms.map(|killed_ms| after_kill(pairs, killed_ms, deadline_ms())),
    }
}

/// Returns the share of the packets lost on direct paths that were delivered at most `milliseconds`
/// after they were due; `None` if the direct paths lost none.
pub(crate) fn repaired_within(pairs: &[Vec<DatagramOutcome>], milliseconds: f64) -> Option<f64> {
    let lost = pairs.iter().flatten().filter(|fate| fate.is_lost).count();
    let times = pairs.iter().flatten().filter_map(DatagramOutcome::repair_ms);
    let repaired = times.filter(|&time| time <= milliseconds).count();
    (lost > 0).then(|| repaired as f64 / lost as f64)
}

const fn deadline_ms() -> f64 {
    DEADLINE_MS as f64
}

fn psnr(score: &Score) -> Psnr {
    let sum: f64 = score.psnr_db.iter().sum();
    let mean = (!score.psnr_db.is_empty()).then(|| sum / score.psnr_db.len() as f64);
    Psnr { mean, p5: percentile(&score.psnr_db, 0.05) }
}
