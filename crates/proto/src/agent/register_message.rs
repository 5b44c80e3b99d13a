//! Registration requests of flows.

use byway_wire::messages::{FlowOptions, FlowRole, Register};
use byway_wire::{FlowKey, KilobitsPerSecond, Microseconds};

use super::settings::{Duplication, FlowSettings, RedundancyMode};

/// Returns the registration request of one path of a flow, with these settings.
pub(super) fn register_message(
    (flow_key, role, revision): (FlowKey, FlowRole, u8),
    settings: &FlowSettings,
    path: usize,
) -> Register<'_> {
    let selective = settings.duplication.is_selective(settings.traffic);
    Register {
        flow_key,
        role,
        service: settings.service,
        in_stream: settings.rates.in_stream,
        batch: settings.rates.batch,
        options: FlowOptions {
            relay_side_duplication: matches!(settings.duplication, Duplication::ByRelay),
            sender_makes_repairs: matches!(settings.duplication, Duplication::SenderFec),
            coded_with_other_tenants: settings.shares,
            selective: selective || settings.waits_for_losses(),
            adaptive_redundancy: settings.redundancy == RedundancyMode::Adaptive
                || settings.selects_service(),
        },
        rate: KilobitsPerSecond::from_rate(settings.rate),
        budget: Microseconds::from_duration(settings.latency_budget),
        consent: settings.consent,
        far_relay: settings.paths[path].far_relay(role),
        grant: &settings.paths[path].grant,
        revision: Some(revision),
    }
}
