//! Refresh of the DNS names in an agent's settings: of targets and, without a controller, of relays
//! and peers.

use std::collections::BTreeSet;
use std::sync::Arc;

use byway_api::{AgentStatus, Role};
use byway_net::{ControlError, Controls};
use byway_units::AgentId;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::driver::AgentControl;
use super::limits::TARGET_LOOKUP_INTERVAL;
use crate::name_resolution::{NameResolver, ResolvedNames};
use crate::node::{MAP_RETRY_INTERVAL, follow_names};
use crate::node_identity::{IdentitySource, NodeIdentity};
use crate::settings::{AgentSettings, Endpoint, ExposedKind, ExposedResource, NetworkSource, StaticNetwork};

/// Returns the DNS names in the settings: of targets and, without a controller, of relays and
/// peers.
pub(super) fn hosts(settings: &AgentSettings) -> BTreeSet<String> {
    let of_network = match &settings.network_source {
        NetworkSource::Static(network) => network.hosts(),
        NetworkSource::Managed(_) => BTreeSet::new(),
    };
    of_network.into_iter().chain(hosts_of_targets(&settings.exposed)).collect()
}

fn hosts_of_targets(exposed: &[ExposedResource]) -> impl Iterator<Item = String> {
    let targets = exposed.iter().filter_map(|exposed| match &exposed.at {
        ExposedKind::Target(target) => Some(target),
        ExposedKind::Network(_) => None,
    });
    targets.filter_map(Endpoint::host).map(str::to_owned)
}

/// Starts the tasks that look names up again, and that send the resolved addresses to the packet
/// thread. The names of relays and peers are due while these do not answer, and those of targets at
/// each [`TARGET_LOOKUP_INTERVAL`].
pub(super) fn refresh_names(
    names: NameResolver,
    hosts: watch::Receiver<BTreeSet<String>>,
    identity: &NodeIdentity,
    controls: Controls<AgentControl>,
) {
    let resolved = names.resolved();
    tokio::spawn(send_names(resolved.clone(), controls.clone()));
    let network = match &identity.source {
        IdentitySource::File(network) => Some(network.clone()),
        IdentitySource::Member(_) => None,
    };
    if let Some(network) = network.clone() {
        let number = AgentId::new(identity.number);
        let map = move |names: &ResolvedNames| network.map_for_agent(number, names);
        let changes = resolved.borrow().changes();
        tokio::spawn(follow_names((resolved, changes), map, vec![controls.clone()], AgentControl::Map));
    }
    let of_network = network.as_ref().map(StaticNetwork::hosts).unwrap_or_default();
    let mut targets_due = Instant::now() + TARGET_LOOKUP_INTERVAL;
    let all = hosts.clone();
    let silent = async move || {
        let mut silent = BTreeSet::new();
        if !of_network.is_empty()
            && let (Some(network), Some(status)) = (&network, query_status(&controls).await)
        {
            silent = silent_hosts(network, &status);
        }
        if Instant::now() >= targets_due {
            targets_due = Instant::now() + TARGET_LOOKUP_INTERVAL;
            silent.extend(all.borrow().iter().filter(|host| !of_network.contains(*host)).cloned());
        }
        silent
    };
    tokio::spawn(names.follow(hosts, silent));
}

/// Sends the resolved addresses to the packet thread, until the thread has ended.
async fn send_names(mut resolved: watch::Receiver<Arc<ResolvedNames>>, controls: Controls<AgentControl>) {
    while resolved.changed().await.is_ok() {
        let names = resolved.borrow_and_update().clone();
        match controls.control(AgentControl::Names(names)) {
            Ok(()) => {}
            Err(ControlError::Ended(_)) => return,
            Err(ControlError::Full(_)) => {
                tokio::time::sleep(MAP_RETRY_INTERVAL).await;
                resolved.mark_changed();
            }
        }
    }
}

async fn query_status(controls: &Controls<AgentControl>) -> Option<AgentStatus> {
    let (answer, status) = oneshot::channel();
    controls.control(AgentControl::Status(answer)).ok()?;
    status.await.ok()
}

/// Returns the DNS names of the relays and peers that do not answer, according to the agent's
/// status.
fn silent_hosts(network: &StaticNetwork, status: &AgentStatus) -> BTreeSet<String> {
    let relays = status.relays.iter().filter(|relay| !relay.is_alive).map(|relay| (Role::Relay, &relay.name));
    let peers = status.peers.iter().filter(|peer| !peer.is_alive).map(|peer| (Role::Agent, &peer.name));
    relays.chain(peers).flat_map(|(role, name)| network.hosts_of(role, name)).collect()
}
