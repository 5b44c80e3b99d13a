//! Sums over the pairs of a run.

use super::after_kill::after_kill;
use super::fates::{Fate, Way};
use super::percentile::percentile;
use crate::demo::media::{DATAGRAM_BYTES, Score};
use crate::demo::plan::{DEADLINE_MS, Node};
use crate::demo::results::{Psnr, RepairTimes, RepairedBy, RunKind, RunResult};
use crate::demo::wan::LinkRecord;
use serde::{Deserialize, Serialize};

/// IP bytes by segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// Between senders and receivers, both ways.
    pub(crate) direct: u64,
    /// From senders to relays.
    pub(crate) senders_to_relays: u64,
    /// From receivers to relays: what they ask for, and what they give for others' repairs.
    pub(crate) receivers_to_relays: u64,
    /// From relay to relay: what is charged as traffic between regions.
    pub(crate) between_relays: u64,
    /// From relays to agents: what is charged as traffic to the Internet.
    pub(crate) relays_to_agents: u64,
}

impl Traffic {
    pub(crate) fn of(links: &[LinkRecord]) -> Self {
        let mut traffic = Self::default();
        for link in links {
            let is_relay = |place| matches!(Node::at(place), Node::IngressRelay | Node::EgressRelay);
            let segment = match (is_relay(link.from), is_relay(link.to), Node::at(link.from)) {
                (true, true, _) => &mut traffic.between_relays,
                (true, false, _) => &mut traffic.relays_to_agents,
                (false, true, Node::Sender(_)) => &mut traffic.senders_to_relays,
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

/// The row of `result.json` of a run; `killed_ms` is when its relays were killed, if they were.
pub(crate) fn summarise(
    service: RunKind,
    pairs: &[Vec<Fate>],
    traffic: &Traffic,
    score: Option<&Score>,
    killed_ms: Option<f64>,
) -> RunResult {
    let all = || pairs.iter().flatten();
    let count = |of: &dyn Fn(&Fate) -> bool| all().filter(|fate| of(fate)).count() as u64;
    let in_time = |fate: &Fate| fate.is_in_time(deadline_ms());
    let repaired = |fate: &Fate| fate.is_lost && in_time(fate);
    let by = |way: Way| count(&|fate| repaired(fate) && fate.way == Some(way));
    let times: Vec<_> = all().filter_map(Fate::repair_ms).collect();
    let time = |share| percentile(&times, share);
    let sent = count(&|_| true);
    RunResult {
        service,
        sent,
        lost_direct: count(&|fate| fate.is_lost),
        repaired_in_time: count(&repaired),
        late: count(&|fate| fate.delivered_ms.is_some() && !in_time(fate)),
        unrepaired: count(&Fate::is_missing),
        lost_by_machine: count(&|fate| fate.is_spoiled),
        duplicates_delivered: all().map(|fate| u64::from(fate.duplicates)).sum(),
        app_bytes: sent * DATAGRAM_BYTES as u64,
        relay_egress_bytes: traffic.relay_egress(),
        uplink_bytes: traffic.uplink(),
        repair_ms: RepairTimes { p50: time(0.5), p95: time(0.95), p99: time(0.99) },
        psnr_db: score.map_or_else(Psnr::default, psnr),
        repaired_by: RepairedBy {
            in_stream: by(Way::InStream),
            cooperative: by(Way::Cooperative),
            cache: by(Way::Cache),
            forward: by(Way::Forward),
        },
        after_kill: killed_ms.map(|killed_ms| after_kill(pairs, killed_ms, deadline_ms())),
    }
}

/// The share of the packets lost on direct paths that were delivered no later than this after they were due; `None` if none
/// were lost.
pub(crate) fn within(pairs: &[Vec<Fate>], milliseconds: f64) -> Option<f64> {
    let lost = pairs.iter().flatten().filter(|fate| fate.is_lost).count();
    let times = pairs.iter().flatten().filter_map(Fate::repair_ms);
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
