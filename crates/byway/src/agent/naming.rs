//! The DNS names of an agent's settings: of relays and peers where there is no controller, and of targets.

use std::collections::BTreeSet;
use std::sync::Arc;

use byway_api::{AgentStatus, Role};
use byway_net::{ControlError, Controls};
use byway_units::AgentId;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::limits::TARGETS_LOOKED_UP_EVERY;
use super::role::AgentControl;
use crate::names::{Names, Resolved};
use crate::node::{TOLD_AGAIN_AFTER, follow_names};
use crate::settings::{AgentSettings, Belonging, Endpoint, Exposed, ExposedAt, StaticNetwork};
use crate::standing::{Bond, Standing};

/// Returns all of them.
pub(super) fn hosts(settings: &AgentSettings) -> BTreeSet<String> {
    let of_network = match &settings.belonging {
        Belonging::Static(network) => network.hosts(),
        Belonging::Managed(_) => BTreeSet::new(),
    };
    of_network.into_iter().chain(hosts_of_targets(&settings.exposed)).collect()
}

fn hosts_of_targets(exposed: &[Exposed]) -> impl Iterator<Item = String> {
    let targets = exposed.iter().filter_map(|exposed| match &exposed.at {
        ExposedAt::Target(target) => Some(target),
        ExposedAt::Network(_) => None,
    });
    targets.filter_map(Endpoint::host).map(str::to_owned)
}

/// Has names looked up again while nobody answers at their addresses, and tells the packet thread of what they stand for.
pub(super) fn follow(
    names: Names,
    hosts: watch::Receiver<BTreeSet<String>>,
    standing: &Standing,
    controls: Controls<AgentControl>,
) {
    let resolved = names.resolved();
    tokio::spawn(tell(resolved.clone(), controls.clone()));
    let network = match &standing.bond {
        Bond::File(network) => Some(network.clone()),
        Bond::Member(_) => None,
    };
    if let Some(network) = network.clone() {
        let number = AgentId::new(standing.number);
        let map = move |names: &Resolved| network.map_for_agent(number, names);
        let changes = resolved.borrow().changes();
        tokio::spawn(follow_names((resolved, changes), map, vec![controls.clone()], AgentControl::Map));
    }
    let of_network = network.as_ref().map(StaticNetwork::hosts).unwrap_or_default();
    let mut targets_due = Instant::now() + TARGETS_LOOKED_UP_EVERY;
    let all = hosts.clone();
    let silent = async move || {
        let mut silent = BTreeSet::new();
        if !of_network.is_empty()
            && let (Some(network), Some(status)) = (&network, ask(&controls).await)
        {
            silent = silent_hosts(network, &status);
        }
        if Instant::now() >= targets_due {
            targets_due = Instant::now() + TARGETS_LOOKED_UP_EVERY;
            silent.extend(all.borrow().iter().filter(|host| !of_network.contains(*host)).cloned());
        }
        silent
    };
    tokio::spawn(names.follow(hosts, silent));
}

/// Tells the packet thread what names stand for, until it has ended.
async fn tell(mut resolved: watch::Receiver<Arc<Resolved>>, controls: Controls<AgentControl>) {
    while resolved.changed().await.is_ok() {
        let names = resolved.borrow_and_update().clone();
        match controls.control(AgentControl::Names(names)) {
            Ok(()) => {}
            Err(ControlError::Ended(_)) => return,
            Err(ControlError::Full(_)) => {
                tokio::time::sleep(TOLD_AGAIN_AFTER).await;
                resolved.mark_changed();
            }
        }
    }
}

async fn ask(controls: &Controls<AgentControl>) -> Option<AgentStatus> {
    let (answer, status) = oneshot::channel();
    controls.control(AgentControl::Status(answer)).ok()?;
    status.await.ok()
}

/// Returns the names of relays and peers that do not answer.
fn silent_hosts(network: &StaticNetwork, status: &AgentStatus) -> BTreeSet<String> {
    let relays = status.relays.iter().filter(|relay| !relay.is_alive).map(|relay| (Role::Relay, &relay.name));
    let peers = status.peers.iter().filter(|peer| !peer.is_alive).map(|peer| (Role::Agent, &peer.name));
    relays.chain(peers).flat_map(|(role, name)| network.hosts_of(role, name)).collect()
}
