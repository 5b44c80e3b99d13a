//! Upper bound for codes over the packets of several flows: with the losses of the same run, a code
//! that restores as many packets as repair packets exist.

use byway_scenario::{FlowRecord, PacketRecord};

use crate::findings::{Findings, Unit, share};

/// Numbers of rounds that a code word may cover. A round is the nth packet of every flow.
const ROUNDS: [usize; 3] = [1, 2, 5];

/// Adds the share of losses that an ideal code with the flows' code rate could repair. Adds nothing
/// unless one batch has exactly one packet of each flow.
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

/// Counts the lost packets of each round. A round is the nth packet of every flow.
fn lost_by_round(records: &[&FlowRecord]) -> Vec<usize> {
    let rounds = records.iter().map(|record| record.packets.len()).max().unwrap_or(0);
    let is_lost =
        |record: &&FlowRecord, nth: usize| record.packets.get(nth).is_some_and(PacketRecord::is_lost);
    (0..rounds).map(|nth| records.iter().filter(|record| is_lost(record, nth)).count()).collect()
}
