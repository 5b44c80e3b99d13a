//! A running agent whose settings can be reloaded.

use std::collections::BTreeSet;
use std::time::Duration;

use byway_net::{ControlError, Controls};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::driver::AgentControl;
use super::name_resolution;
use super::settings_change::SettingsChange;
use super::tunnel::{TunForwarder, TunnelChange};
use crate::capture::{self, RoutingTask};
use crate::exit::{Cause, Failure};
use crate::membership::FirewallMark;
use crate::reload::{self, Load, ReloadOutcome, ReloadReport, Reloadable};
use crate::settings::{AgentSettings, Capture, ExposedResource, Forward, LogSettings, NetworkSource, Tunnel};

/// Longest time for which a reload waits until the agent's thread accepts the settings. A queue of
/// control messages that is full for longer shows an overloaded machine.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two attempts to send a control message to the agent's thread, while its queue
/// is full.
const CONTROL_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Handle of a running agent for the rest of its process.
pub(super) struct AgentNode {
    pub(super) load: Load<AgentSettings>,
    /// Settings of the agent that are in force.
    pub(super) settings: AgentSettings,
    pub(super) controls: Controls<AgentControl>,
    pub(super) capturing: Option<RoutingTask>,
    /// Peers of forwards and captures, for the task that requests pairings with them.
    pub(super) peers: watch::Sender<Vec<String>>,
    /// DNS names in the settings, for the task that resolves them.
    pub(super) hosts: watch::Sender<BTreeSet<String>>,
    pub(super) mark: FirewallMark,
    /// Generation of the settings in force.
    pub(super) generation: u64,
}

impl Reloadable for AgentNode {
    async fn reload(&mut self) -> ReloadOutcome {
        let read = reload::read(&self.load).await?;
        let mut report = ReloadReport::new(&self.settings.name);
        let next = merged(&self.settings, read, &mut report);
        self.generation += 1;
        let (tunnel, new_capture) = self.prepare_tunnel(&next).await?;
        let stops_capture = matches!(tunnel, TunnelChange::Stop);
        let change = SettingsChange {
            forwards: next.forwards.clone(),
            exposed: next.exposed.clone(),
            tunnel,
            prices: next.network_source.price_entries(),
        };
        if let Err(failure) = self.send_reload(change).await {
            if let Some(routing_task) = new_capture {
                routing_task.ended().await;
            }
            return Err(failure);
        }
        if stops_capture && let Some(routing_task) = self.capturing.take() {
            routing_task.ended().await;
        }
        self.capturing = new_capture.or(self.capturing.take());
        self.mark.set(next.tunnel.as_ref().map(|tunnel| tunnel.table));
        self.peers.send_replace(wanted_peers(&next));
        self.hosts.send_replace(name_resolution::hosts(&next));
        let level = next.log.level;
        let mut former = std::mem::replace(&mut self.settings, next).log.level;
        reload::change_level(&mut former, level, &mut report);
        Ok(report.answer())
    }
}

impl AgentNode {
    /// Prepares the system for the captures of new settings. Returns the change for the agent's
    /// thread, and the routing task if capturing begins.
    async fn prepare_tunnel(
        &self,
        next: &AgentSettings,
    ) -> Result<(TunnelChange, Option<RoutingTask>), Failure> {
        match (&self.capturing, &next.tunnel) {
            (None, None) => Ok((TunnelChange::None, None)),
            (Some(_), None) => Ok((TunnelChange::Stop, None)),
            (None, Some(tunnel)) => {
                let (capturing, source) = capture::start(tunnel, &next.exposed).await?;
                let (forwarder, capture_state) = TunForwarder::new(tunnel.clone(), source);
                let change = TunnelChange::Start(Box::new(forwarder), tunnel.table);
                Ok((change, Some(RoutingTask::start(capturing, capture_state))))
            }
            (Some(routing_task), Some(tunnel)) => {
                routing_task.prepare(tunnel, &next.exposed, self.generation).await?;
                Ok((TunnelChange::Captures(tunnel.captures.clone(), self.generation), None))
            }
        }
    }

    /// Sends new settings to the agent's thread, and waits for its answer.
    async fn send_reload(&self, change: SettingsChange) -> Result<(), Failure> {
        let (answer, outcome) = oneshot::channel();
        let until = Instant::now() + RELOAD_TIMEOUT;
        let mut control = AgentControl::Reload(Box::new(change), answer);
        loop {
            control = match self.controls.control(control) {
                Ok(()) => break,
                Err(ControlError::Full(control)) if Instant::now() < until => control,
                Err(ControlError::Full(_)) => {
                    return Err(Failure::machine(
                        "the agent's thread is too busy to apply settings: try again, and reduce the \
                         load of the machine",
                    ));
                }
                Err(ControlError::Ended(_)) => return Err(thread_ended()),
            };
            tokio::time::sleep(CONTROL_RETRY_INTERVAL).await;
        }
        outcome.await.map_err(|_| thread_ended())?.map_err(Failure::machine)
    }
}

fn thread_ended() -> Failure {
    Failure::new(
        Cause::Byway,
        "the agent's thread has ended: start the agent again, and report this with its log",
    )
}

/// Returns the names of the agents at the other ends of forwards and captures.
pub(super) fn wanted_peers(settings: &AgentSettings) -> Vec<String> {
    let forwards = settings.forwards.iter().map(|forward| &forward.spec);
    let captures = settings.tunnel.iter().flat_map(|tunnel| &tunnel.captures).map(|capture| &capture.spec);
    forwards.chain(captures).map(|wanted| wanted.peer.clone()).collect()
}

/// Returns the settings to apply at a reload: those read, except that settings which cannot change
/// while the agent runs retain their values. The report lists the differences.
fn merged(old: &AgentSettings, read: AgentSettings, report: &mut ReloadReport) -> AgentSettings {
    for (setting, differs) in [
        ("agent.name", old.name != read.name),
        ("agent.state", old.state != read.state),
        ("agent.key_file", old.key_file != read.key_file),
        ("agent.listen", old.listen.addresses != read.listen.addresses),
        ("agent.uplinks", old.listen.uplinks != read.listen.uplinks),
        ("agent.addresses", old.addresses != read.addresses),
        ("agent.relay", old.relay != read.relay),
        ("agent.consent", old.mappings.repair_consent != read.mappings.repair_consent),
        ("mappings", old.mappings.number != read.mappings.number),
        ("observe.listen", old.observe != read.observe),
        ("log.format", old.log.format != read.log.format),
    ] {
        report.restart(setting, differs);
    }
    let network_source = merged_network(&old.network_source, read.network_source, report);
    let tunnel = merged_tunnel(old.tunnel.as_ref(), read.tunnel, report);
    report.list(&old.forwards, &read.forwards, |forward: &Forward| format!("forward {}", forward.listen));
    report.list(&old.exposed, &read.exposed, |exposed: &ExposedResource| format!("expose {}", exposed.name));
    let captures = |tunnel: Option<&Tunnel>| tunnel.map(|tunnel| tunnel.captures.clone()).unwrap_or_default();
    report.list(&captures(old.tunnel.as_ref()), &captures(tunnel.as_ref()), |capture: &Capture| {
        format!("capture to {}/{}", capture.spec.peer, capture.spec.to)
    });
    AgentSettings {
        forwards: read.forwards,
        exposed: read.exposed,
        tunnel,
        network_source,
        log: LogSettings { level: read.log.level, ..old.log },
        ..old.clone()
    }
}

/// Returns the network with new prices of its relays, and reports their change. If the settings
/// name another network, the former one stays.
pub(crate) fn merged_network(
    old: &NetworkSource,
    read: NetworkSource,
    report: &mut ReloadReport,
) -> NetworkSource {
    let is_other = is_other_network(old, &read);
    report.restart("[network]", is_other);
    if is_other || matches!(read, NetworkSource::Managed(_)) {
        return old.clone();
    }
    if *old != read {
        report.changed("[network.relays.prices]");
    }
    read
}

/// True if new settings name another network. Prices do not count. Another token alone does not
/// count, because a node that has joined no longer uses it.
fn is_other_network(old: &NetworkSource, read: &NetworkSource) -> bool {
    match (old, read) {
        (NetworkSource::Static(old), NetworkSource::Static(read)) => {
            old.without_prices() != read.without_prices()
        }
        (NetworkSource::Managed(_), NetworkSource::Managed(_)) => false,
        _ => true,
    }
}

fn merged_tunnel(old: Option<&Tunnel>, read: Option<Tunnel>, report: &mut ReloadReport) -> Option<Tunnel> {
    let (Some(old), Some(read)) = (old, &read) else {
        return read;
    };
    for (setting, differs) in [
        ("tunnel.device", old.device != read.device),
        ("tunnel.table", old.table != read.table),
        ("tunnel.mtu", old.mtu != read.mtu),
        ("tunnel.own_table", old.own_table != read.own_table),
        ("tunnel.addresses", old.addresses != read.addresses),
    ] {
        report.restart(setting, differs);
    }
    // The firewall marks number the groups of all captures consecutively.
    let groups = |tunnel: &Tunnel| -> Vec<String> {
        tunnel.captures.iter().flat_map(|capture| capture.cgroups.clone()).collect()
    };
    let has_other_groups = groups(old) != groups(read);
    report.restart("[[capture]], because its cgroups differ", has_other_groups);
    let captures = if has_other_groups { &old.captures } else { &read.captures };
    Some(Tunnel { captures: captures.clone(), ..old.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(cgroups: &[&str], device: &str) -> Tunnel {
        let cgroups: Vec<String> = cgroups.iter().map(|group| format!("\"{group}\"")).collect();
        let text = format!(
            "[tunnel]\ndevice = \"{device}\"\n[[capture]]\npeer = \"bob\"\nto = \"lan\"\ndestinations = [\"192.0.2.1\"]\ncgroups = [{}]\n",
            cgroups.join(", ")
        );
        crate::settings::agent_of(&text).expect("right settings").tunnel.expect("there is a capture")
    }

    #[test]
    fn the_device_waits_for_a_restart_and_captures_do_not_unless_their_groups_differ() {
        let (old, mut report) = (tunnel(&[], "byway0"), ReloadReport::default());
        let read = Tunnel { captures: vec![], ..tunnel(&[], "byway1") };
        let merged = merged_tunnel(Some(&old), Some(read), &mut report).expect("it stays");
        assert_eq!((merged.device.as_str(), merged.captures.len()), ("byway0", 0));
        let merged = merged_tunnel(Some(&old), Some(tunnel(&["calls"], "byway0")), &mut report);
        assert_eq!(merged.expect("it stays").captures, old.captures);
        assert_eq!(
            report.answer().needs_restart,
            ["tunnel.device", "[[capture]], because its cgroups differ"]
        );
    }
}
