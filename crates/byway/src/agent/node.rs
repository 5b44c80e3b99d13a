//! A running agent whose settings may be read again.

use std::collections::BTreeSet;
use std::time::Duration;

use byway_net::{ControlError, Controls};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::naming;
use super::reloading::Change;
use super::role::AgentControl;
use super::tunnel::{TunnelChange, Tunnelled};
use crate::capture::{self, Follower};
use crate::exit::{Cause, Failure};
use crate::membership::Mark;
use crate::reload::{self, Load, Outcome, Reloadable, Report};
use crate::settings::{AgentSettings, Belonging, Capture, Exposed, Forward, LogSettings, Tunnel};

/// How long the agent's thread may be too busy to take new settings: with its queue of controls full, the machine is overloaded.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// How soon it is asked again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A running agent, as the rest of its process sees it.
pub(super) struct AgentNode {
    pub(super) load: Load<AgentSettings>,
    /// Those in force.
    pub(super) settings: AgentSettings,
    pub(super) controls: Controls<AgentControl>,
    pub(super) capturing: Option<Follower>,
    /// The agents at the other ends of forwards and captures.
    pub(super) peers: watch::Sender<Vec<String>>,
    /// The DNS names of the settings.
    pub(super) hosts: watch::Sender<BTreeSet<String>>,
    pub(super) mark: Mark,
    /// The number of the settings in force.
    pub(super) generation: u64,
}

impl Reloadable for AgentNode {
    async fn reload(&mut self) -> Outcome {
        let read = reload::read(&self.load).await?;
        let mut report = Report::new(&self.settings.name);
        let next = merged(&self.settings, read, &mut report);
        self.generation += 1;
        let (tunnel, begins) = self.prepare(&next).await?;
        let ends = matches!(tunnel, TunnelChange::Ends);
        let change = Change { forwards: next.forwards.clone(), exposed: next.exposed.clone(), tunnel };
        if let Err(failure) = self.change(change).await {
            if let Some(follower) = begins {
                follower.ended().await;
            }
            return Err(failure);
        }
        if ends && let Some(follower) = self.capturing.take() {
            follower.ended().await;
        }
        self.capturing = begins.or(self.capturing.take());
        self.mark.set(next.tunnel.as_ref().map(|tunnel| tunnel.table));
        self.peers.send_replace(wanted_peers(&next));
        self.hosts.send_replace(naming::hosts(&next));
        let level = next.log.level;
        let mut former = std::mem::replace(&mut self.settings, next).log.level;
        reload::change_level(&mut former, level, &mut report);
        Ok(report.answer())
    }
}

impl AgentNode {
    /// Has the system ready for what is captured by other settings, and says what the thread has to change.
    async fn prepare(&self, next: &AgentSettings) -> Result<(TunnelChange, Option<Follower>), Failure> {
        match (&self.capturing, &next.tunnel) {
            (None, None) => Ok((TunnelChange::None, None)),
            (Some(_), None) => Ok((TunnelChange::Ends, None)),
            (None, Some(tunnel)) => {
                let (capturing, inlet) = capture::begin(tunnel, &next.exposed).await?;
                let (tunnelled, doors) = Tunnelled::new(tunnel.clone(), inlet);
                let begins = TunnelChange::Begins(Box::new(tunnelled), tunnel.table);
                Ok((begins, Some(Follower::start(capturing, doors))))
            }
            (Some(follower), Some(tunnel)) => {
                follower.prepare(tunnel, &next.exposed, self.generation).await?;
                Ok((TunnelChange::Captures(tunnel.captures.clone(), self.generation), None))
            }
        }
    }

    /// Has the thread work by other settings, and waits for its answer.
    async fn change(&self, change: Change) -> Result<(), Failure> {
        let (answer, outcome) = oneshot::channel();
        let until = Instant::now() + TAKEN_WITHIN;
        let mut control = AgentControl::Reload(Box::new(change), answer);
        loop {
            control = match self.controls.control(control) {
                Ok(()) => break,
                Err(ControlError::Full(control)) if Instant::now() < until => control,
                Err(ControlError::Full(_)) => {
                    return Err(Failure::machine(
                        "the agent's thread is too busy to take settings: try again, and give the machine less to do",
                    ));
                }
                Err(ControlError::Ended(_)) => return Err(ends()),
            };
            tokio::time::sleep(ASKED_AGAIN_AFTER).await;
        }
        outcome.await.map_err(|_| ends())?.map_err(Failure::machine)
    }
}

fn ends() -> Failure {
    Failure::new(
        Cause::Byway,
        "the agent's thread has ended: start the agent again, and report this with its log",
    )
}

/// The agents at the other ends of forwards and captures.
pub(super) fn wanted_peers(settings: &AgentSettings) -> Vec<String> {
    let forwards = settings.forwards.iter().map(|forward| &forward.wanted);
    let captures = settings.tunnel.iter().flat_map(|tunnel| &tunnel.captures).map(|capture| &capture.wanted);
    forwards.chain(captures).map(|wanted| wanted.peer.clone()).collect()
}

/// Settings to work by after a reload: those that cannot change while the agent works stay as they are.
fn merged(old: &AgentSettings, read: AgentSettings, report: &mut Report) -> AgentSettings {
    for (setting, differs) in [
        ("agent.name", old.name != read.name),
        ("agent.state", old.state != read.state),
        ("agent.key_file", old.key_file != read.key_file),
        ("agent.listen", old.listen != read.listen),
        ("agent.addresses", old.addresses != read.addresses),
        ("agent.relay", old.relay != read.relay),
        ("[network]", is_other_network(&old.belonging, &read.belonging)),
        ("observe.listen", old.observe != read.observe),
        ("log.format", old.log.format != read.log.format),
    ] {
        report.restart(setting, differs);
    }
    let tunnel = merged_tunnel(old.tunnel.as_ref(), read.tunnel, report);
    report.list(&old.forwards, &read.forwards, |forward: &Forward| format!("forward {}", forward.listen));
    report.list(&old.exposed, &read.exposed, |exposed: &Exposed| format!("expose {}", exposed.name));
    let captures = |tunnel: Option<&Tunnel>| tunnel.map(|tunnel| tunnel.captures.clone()).unwrap_or_default();
    report.list(&captures(old.tunnel.as_ref()), &captures(tunnel.as_ref()), |capture: &Capture| {
        format!("capture to {}/{}", capture.wanted.peer, capture.wanted.to)
    });
    AgentSettings {
        forwards: read.forwards,
        exposed: read.exposed,
        tunnel,
        log: LogSettings { level: read.log.level, ..old.log },
        ..old.clone()
    }
}

/// Whether a node would be of another network. The invitation of one that has joined is of no use any more.
pub(crate) fn is_other_network(old: &Belonging, read: &Belonging) -> bool {
    match (old, read) {
        (Belonging::Static(old), Belonging::Static(read)) => old != read,
        (Belonging::Managed(_), Belonging::Managed(_)) => false,
        _ => true,
    }
}

fn merged_tunnel(old: Option<&Tunnel>, read: Option<Tunnel>, report: &mut Report) -> Option<Tunnel> {
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
    // Marks of the firewall number the groups of all captures in a row.
    let groups = |tunnel: &Tunnel| -> Vec<String> {
        tunnel.captures.iter().flat_map(|capture| capture.cgroups.clone()).collect()
    };
    let has_other_groups = groups(old) != groups(read);
    report.restart("[[capture]], as its cgroups differ", has_other_groups);
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
        let (old, mut report) = (tunnel(&[], "byway0"), Report::default());
        let read = Tunnel { captures: vec![], ..tunnel(&[], "byway1") };
        let merged = merged_tunnel(Some(&old), Some(read), &mut report).expect("it stays");
        assert_eq!((merged.device.as_str(), merged.captures.len()), ("byway0", 0));
        let merged = merged_tunnel(Some(&old), Some(tunnel(&["calls"], "byway0")), &mut report);
        assert_eq!(merged.expect("it stays").captures, old.captures);
        assert_eq!(report.answer().needs_restart, ["tunnel.device", "[[capture]], as its cgroups differ"]);
    }
}
