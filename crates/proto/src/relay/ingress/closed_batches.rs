//! Closed batches: their repair packets are counted, sent, and charged to tenants.

use super::super::flow_memory::FlowMemory;
use super::super::tenant_traffic::ByteShares;
use super::counters::IngressCounters;
use super::group::ClosedBatch;
use super::sink::Sink;

/// Sends a closed batch's repair packets, counts its packets as covered or not, and charges the
/// bytes that leave the relay.
pub(super) fn close_batch(
    batch: &ClosedBatch<'_>,
    counters: &mut IngressCounters,
    memory: &mut FlowMemory,
    sink: &mut impl Sink,
) {
    let packets = batch.covered.len() as u64;
    match (batch.repair_count(), packets) {
        (0, packets) if batch.is_lossless => counters.uncovered_lossless += packets,
        (0, 1) => counters.uncovered_alone += 1,
        (0, _) => counters.uncovered_budget += packets,
        (repairs, _) => {
            counters.covered += packets;
            counters.cross_stream += repairs as u64;
            let bytes = batch.repairs().map(|repair| repair.payload.len() as u64).sum::<u64>();
            counters.cross_stream_bytes += bytes;
            if sink.send_cross_stream(batch) {
                charge_batch(batch, bytes, memory);
            }
        }
    }
}

/// Charges the bytes of a batch's repair packets to the tenants of its flows, in proportion to the
/// bytes of the covered packets.
fn charge_batch(batch: &ClosedBatch<'_>, bytes: u64, memory: &mut FlowMemory) {
    if batch.is_of_one_tenant() {
        memory.count_sent(batch.covered[0].holder, bytes);
        return;
    }
    let mut shares = ByteShares::new(bytes, batch.bytes.into());
    for covered in batch.covered {
        memory.count_sent(covered.holder, shares.next_share(covered.bytes.into()));
    }
}
