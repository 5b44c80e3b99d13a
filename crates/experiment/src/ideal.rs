//! What no code over the packets of several flows can pass: the losses of the same run, and a code that restores as many packets
//! as repair packets come, whichever they are.

use byway_scenario::{Fate, FlowRecord};

use crate::findings::{Findings, Unit, share};

/// Over how many rounds, of one packet of each flow, the code may reach.
const ROUNDS: [usize; 3] = [1, 2, 5];

/// Adds, for flows that are all coded together, the share of losses that is within reach of their code rate.
pub(crate) fn bounds(records: &[&FlowRecord], findings: &mut Findings) {
    let Some(shape) = records.first().and_then(|record| record.batch) else {
        return;
    };
    if usize::from(shape.source_packets()) != records.len() {
        return;
    }
    let lost = lost_by_round(records);
    for rounds in ROUNDS {
        let repairs = rounds * usize::from(shape.repair_packets());
        let (mut all, mut repaired) = (0, 0);
        for block in lost.chunks(rounds) {
            let count: usize = block.iter().sum();
            all += count;
            repaired += if count <= repairs { count } else { 0 };
        }
        findings.measure(&format!("ideal-{rounds}"), None, share(repaired as u64, all as u64), Unit::Share);
    }
}

/// How many packets are lost of those that are the nth of their flows.
fn lost_by_round(records: &[&FlowRecord]) -> Vec<usize> {
    let rounds = records.iter().map(|record| record.fates.len()).max().unwrap_or(0);
    let is_lost = |record: &&FlowRecord, nth: usize| record.fates.get(nth).is_some_and(Fate::is_lost);
    (0..rounds).map(|nth| records.iter().filter(|record| is_lost(record, nth)).count()).collect()
}
