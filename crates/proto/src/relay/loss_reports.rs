//! Loss reports: the egress half reports losses of coded flows to ingress relays, which adapt the
//! redundancy of the flows' batches.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{FlowLosses, FlowsLosses, LossReport};
use byway_wire::{Alias, Capabilities, Message};

use super::Relay;
use super::egress::{FlowLossCount, drain_losses};
use super::ingress::RelayPeerId;
use crate::limits::LOSS_REPORT_FLOWS_MAX;
use crate::session::SessionId;

/// Sends the loss reports that are due: to each ingress relay of the flows, and to the ingress
/// half of this relay.
pub(super) fn send_loss_reports(relay: &mut Relay, now: Time) {
    let mut reported: Vec<(SessionId, FlowLosses)> = Vec::new();
    for (flow, count) in drain_losses(&mut relay.egress, now) {
        relay.work.entries += 1;
        let Some(key) = relay.egress.key(flow) else {
            continue;
        };
        for (peer, alias) in relay.peers.remote_aliases_of(key) {
            let is_permitted = relay.flow_table.is_permitted_ingress(key, relay.peers.relay_shard(peer));
            let session = relay.peers.session(peer).filter(|session| {
                is_permitted && relay.sessions.has_capabilities(*session, Capabilities::LOSS_REPORTS)
            });
            reported.extend(session.map(|session| (session, losses_of(alias, count))));
        }
        for (peer, alias) in relay.peers.local_aliases_of(key) {
            if let Some(advertised) = relay.peers.advertised_flow(peer, alias) {
                relay.ingress.on_losses(advertised.flow, &losses_of(alias, count), now);
            }
        }
    }
    reported.sort_by_key(|(session, _)| *session);
    for of_session in reported.chunk_by(|(before, _), (after, _)| before == after) {
        for flows in of_session.chunks(LOSS_REPORT_FLOWS_MAX) {
            let mut scratch = [[0; FlowLosses::BYTES]; LOSS_REPORT_FLOWS_MAX];
            let flows = FlowsLosses::collect(&mut flows.iter().map(|(_, losses)| *losses), &mut scratch);
            relay.sessions.queue_message(of_session[0].0, &Message::LossReport(LossReport { flows }), now);
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
