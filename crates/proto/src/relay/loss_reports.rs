//! Loss reports: the egress half reports losses of coded flows to ingress relays, which adapt the
//! redundancy of the flows' batches.

use byway_units::Time;
use byway_wire::messages::{FlowLosses, FlowsLosses, LossReport};
use byway_wire::{Alias, Capabilities, Message};

use super::Relay;
use super::egress::{FlowLossCount, begin_loss_report, pop_losses};
use super::ingress::RelayPeerId;
use crate::limits::LOSS_REPORT_FLOWS_MAX;

/// Sends the loss reports that are due, those of [`LOSS_REPORT_FLOWS_MAX`] flows at most at once:
/// for each flow to its ingress relays, and to the ingress half of this relay.
pub(super) fn send_loss_reports(relay: &mut Relay, now: Time) {
    if !begin_loss_report(&mut relay.egress, now) {
        return;
    }
    for _ in 0..LOSS_REPORT_FLOWS_MAX {
        let Some((flow, count)) = pop_losses(&mut relay.egress, now) else {
            return;
        };
        relay.work.entries += 1;
        let Some(key) = relay.egress.key(flow) else {
            continue;
        };
        for &(peer, alias) in relay.peers.remote_aliases_of(key) {
            let is_permitted = relay.flow_table.is_permitted_ingress(key, relay.peers.relay_shard(peer))
                && relay.is_adaptive(peer, alias);
            let session = relay.peers.session(peer).filter(|session| {
                is_permitted && relay.sessions.has_capabilities(*session, Capabilities::LOSS_REPORTS)
            });
            if let Some(session) = session {
                let mut scratch = [[0; FlowLosses::BYTES]; 1];
                let flows =
                    FlowsLosses::collect(&mut core::iter::once(losses_of(alias, count)), &mut scratch);
                relay.sessions.queue_message(session, &Message::LossReport(LossReport { flows }), now);
            }
        }
        for &(peer, alias) in relay.peers.local_aliases_of(key) {
            if let Some(advertised) = relay.peers.advertised_flow(peer, alias) {
                relay.ingress.on_losses(advertised.flow, &losses_of(alias, count), now);
            }
        }
    }
}

/// Handles an egress relay's report of losses of flows that this relay codes.
pub(super) fn on_loss_report(relay: &mut Relay, peer: RelayPeerId, report: &LossReport<'_>, now: Time) {
    for losses in report.flows.iter() {
        relay.work.entries += 1;
        match relay.peers.advertised_flow(peer, losses.alias).map(|advertised| advertised.flow) {
            Some(flow) => relay.ingress.on_losses(flow, &losses, now),
            None => relay.counters.aliases_unknown += 1,
        }
    }
}

const fn losses_of(alias: Alias, count: FlowLossCount) -> FlowLosses {
    let FlowLossCount { losses, is_open_ended, queue_grows } = count;
    FlowLosses { alias, is_open_ended, queue_grows, losses }
}
