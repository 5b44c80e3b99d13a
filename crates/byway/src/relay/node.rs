//! A running relay whose settings can be reloaded.

use byway_net::{ControlError, Controls};
use tokio::sync::watch;

use super::driver::RelayControl;
use crate::agent::merged_network;
use crate::exit::Failure;
use crate::reload::{self, Load, ReloadOutcome, ReloadReport, Reloadable};
use crate::settings::{NetworkSource, RelaySettings};

/// Handle of a running relay for the rest of its process.
pub(super) struct RelayNode {
    pub(super) load: Load<RelaySettings>,
    /// Settings of the relay that are in force.
    pub(super) settings: RelaySettings,
    pub(super) controls: Vec<Controls<RelayControl>>,
    /// Network in force, with the prices of its relays.
    pub(super) network_source: watch::Sender<NetworkSource>,
}

impl Reloadable for RelayNode {
    async fn reload(&mut self) -> ReloadOutcome {
        let read = reload::read(&self.load).await?;
        let mut report = ReloadReport::new(&self.settings.name);
        report_restarts(&self.settings, &read, &mut report);
        let network_source =
            merged_network(&self.settings.network_source, read.network_source.clone(), &mut report);
        // With another number of shards, each shard would get the wrong part of the rate.
        if self.settings.uplink != read.uplink && self.settings.shards == read.shards {
            self.change_uplink(&read)?;
            self.settings.uplink = read.uplink;
            report.changed("[uplink]");
        }
        self.network_source.send_replace(network_source.clone());
        self.settings.network_source = network_source;
        reload::change_level(&mut self.settings.log.level, read.log.level, &mut report);
        Ok(report.answer())
    }
}

impl RelayNode {
    fn change_uplink(&self, read: &RelaySettings) -> Result<(), Failure> {
        let before = self.settings.uplink;
        for (index, shard) in self.controls.iter().enumerate() {
            let Err(error) = shard.control(RelayControl::Uplink(read.uplink)) else { continue };
            // The shards that were updated get the former promise again.
            for updated in &self.controls[..index] {
                let _ = updated.control(RelayControl::Uplink(before));
            }
            let ended = matches!(error, ControlError::Ended(_));
            let why =
                if ended { "a thread of the relay has ended" } else { "the relay is too busy: try again" };
            return Err(Failure::machine(why));
        }
        Ok(())
    }
}

fn report_restarts(old: &RelaySettings, read: &RelaySettings, report: &mut ReloadReport) {
    for (setting, differs) in [
        ("relay.name", old.name != read.name),
        ("relay.state", old.state != read.state),
        ("relay.key_file", old.key_file != read.key_file),
        ("relay.listen", old.listen != read.listen),
        ("relay.addresses", old.addresses != read.addresses),
        ("relay.shards", old.shards != read.shards),
        ("relay.memory", old.memory != read.memory),
        ("relay.tenant_sessions_max", old.tenant_limits.sessions != read.tenant_limits.sessions),
        ("relay.tenant_flows_max", old.tenant_limits.flows != read.tenant_limits.flows),
        ("relay.transit", old.transit != read.transit),
        ("observe.listen", old.observe != read.observe),
        ("log.format", old.log.format != read.log.format),
    ] {
        report.restart(setting, differs);
    }
}
