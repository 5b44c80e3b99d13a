//! `byway relay`: starts a relay's shards, and runs them until the process is asked to stop.

mod driver;
mod meter;
mod node;
mod traffic;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use byway_api::{RelayStatus, Role, SelfUpdate};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Clock, Controls, Handle, OverlaySockets, bind_shards, spawn};
use byway_proto::relay::{Authority, Relay, RelaySettings as CoreSettings};
use byway_units::RelayId;
use byway_wire::Shard;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use driver::{PeerRelays, RelayControl, RelayDriver, ShardStatus};
use meter::Meter;
use node::RelayNode;

use crate::exit::Failure;
use crate::membership::{FirewallMark, NodeKey};
use crate::name_resolution::{NameResolver, ResolvedNames};
use crate::node::{NodeInfo, any_ended, block_on, close, distribute_maps, follow_names, thread_failure};
use crate::node_identity::{IdentitySource, NodeConfig, NodeIdentity};
use crate::observe::{self, NodeReport, metrics};
use crate::reload::{Load, ReloadRequests};
use crate::settings::{NetworkSource, RelaySettings, StaticNetwork};
use crate::signals::StopSignal;
use crate::{listen_sockets, logs, platform, signals};

/// Interval between two lookups of other relays' DNS names, in static mode. Agents use another
/// relay path meanwhile.
const RELAY_LOOKUP_INTERVAL: Duration = Duration::from_secs(30);

/// Runs a relay until the process is asked to stop. `load` reads its settings, at the start and at
/// each reload.
///
/// # Errors
/// If the relay cannot start, or one of its threads fails.
pub(crate) fn run(load: Load<RelaySettings>) -> Result<(), Failure> {
    let settings = load()?;
    logs::start(settings.log);
    block_on(serve(settings, load))
}

async fn serve(settings: RelaySettings, load: Load<RelaySettings>) -> Result<(), Failure> {
    let mut stop = StopSignal::listen()?;
    let (reloads, reload_handle) = ReloadRequests::listen()?;
    let key = NodeKey::load_or_create(&settings.key_file)?;
    let shards = |listen: &[SocketAddr]| bind_shards(listen, settings.shards);
    let sockets = listen_sockets::bind(&settings.listen, settings.listens_by_default, shards)
        .map_err(Failure::machine)?;
    let listen: Vec<SocketAddr> = sockets.first().map(OverlaySockets::addresses).unwrap_or_default();
    let observed = observe::bind(settings.observe).await?;
    let hosts = match &settings.network_source {
        NetworkSource::Static(network) => network.hosts_of_relays(),
        NetworkSource::Managed(_) => BTreeSet::new(),
    };
    let names = tokio::select! {
        names = NameResolver::resolve(hosts.clone()) => names,
        () = stop.wait() => return Ok(()),
    };
    let resolved = names.resolved();
    let known = resolved.borrow().clone();
    let identity = tokio::select! {
        identity = NodeIdentity::of(node_config(&settings, &listen), &settings.network_source, &known, &key) => identity?,
        () = stop.wait() => return Ok(()),
    };
    if settings.leaves {
        return identity.leave().await;
    }
    let clock = Clock::start();
    let handles = start(&settings, &key, sockets, &identity, clock)?;
    let controls: Vec<Controls<RelayControl>> = handles.iter().map(Handle::controls).collect();
    let about = NodeInfo::new(&settings.name, &identity, &listen, clock, resolved.clone());
    let (shards, transit) = (controls.clone(), settings.transit);
    let query: observe::NodeQuery = Arc::new(move || {
        let (shards, about) = (shards.clone(), about.clone());
        Box::pin(async move { report(&shards, &about, transit).await })
    });
    let network_source = watch::Sender::new(settings.network_source.clone());
    let meter = Meter::open(&settings.name, &settings.state, controls.clone(), network_source.subscribe());
    tokio::spawn(observe::serve(observed, query, reload_handle, meter::router(meter.clone())));
    if let Some(member) = identity.member() {
        tokio::spawn(distribute_maps(member.maps(), controls.clone(), RelayControl::Map));
        member.report(SelfUpdate { transit: Some(settings.transit), ..SelfUpdate::default() });
    }
    if let IdentitySource::File(network) = &identity.source {
        follow(names, hosts, network.clone(), RelayId::new(identity.number), controls.clone());
    }
    let (number, network) = (identity.number, identity.network());
    tracing::info!(name = settings.name, number, network, ?listen, "relay started");
    signals::notify_ready();
    let mut node = RelayNode { load, settings, controls, network_source };
    tokio::select! {
        () = stop.wait() => {}
        () = any_ended(&handles) => {}
        () = reloads.follow(&mut node) => {}
        () = meter.follow(identity.member()) => {}
    }
    signals::notify_stopping();
    meter.save();
    close(handles, || RelayControl::Close).await
}

/// Starts the tasks that look up the DNS names of other relays repeatedly, and send new addresses
/// to the shards as maps. Does nothing if no relay has a DNS name.
fn follow(
    names: NameResolver,
    hosts: BTreeSet<String>,
    network: StaticNetwork,
    number: RelayId,
    controls: Vec<Controls<RelayControl>>,
) {
    if hosts.is_empty() {
        return;
    }
    let map = move |names: &ResolvedNames| network.map_for_relay(number, names);
    let resolved = names.resolved();
    let changes = resolved.borrow().changes();
    tokio::spawn(follow_names((resolved, changes), map, controls, RelayControl::Map));
    let mut due = Instant::now() + RELAY_LOOKUP_INTERVAL;
    let all = watch::Sender::new(hosts);
    let known = all.subscribe();
    let silent = async move || {
        if Instant::now() < due {
            return BTreeSet::new();
        }
        due = Instant::now() + RELAY_LOOKUP_INTERVAL;
        all.borrow().clone()
    };
    tokio::spawn(names.follow(known, silent));
}

/// Returns the relay's configuration as a node of the network. In its addresses, port 0 becomes the
/// port on which the relay listens.
fn node_config(settings: &RelaySettings, listen: &[SocketAddr]) -> NodeConfig {
    let port = listen.first().map_or(0, SocketAddr::port);
    let filled = |address: &SocketAddr| {
        let port = if address.port() == 0 { port } else { address.port() };
        SocketAddr::new(address.ip(), port)
    };
    NodeConfig {
        role: Role::Relay,
        name: settings.name.clone(),
        state: settings.state.clone(),
        addresses: settings.addresses.iter().map(filled).collect(),
        shards: settings.shards,
        relay: None,
        mark: FirewallMark::default(),
    }
}

fn authority(source: &IdentitySource) -> Authority {
    match source {
        IdentitySource::File(network) => Authority::Static(network.grants()),
        IdentitySource::Member(member) => Authority::Controller(member.verifying_key()),
    }
}

/// Starts a thread for each shard of the relay, each with its socket.
fn start(
    settings: &RelaySettings,
    key: &NodeKey,
    sockets: Vec<OverlaySockets>,
    identity: &NodeIdentity,
    clock: Clock,
) -> Result<Vec<Handle<RelayControl>>, Failure> {
    let number = RelayId::new(identity.number);
    let shards = (0_u8..).zip(sockets);
    let start = |(shard, sockets): (u8, OverlaySockets)| {
        let others = PeerRelays::from_map(&identity.map, number, &sockets.addresses());
        let core = CoreSettings {
            number,
            shard: Shard::new(shard),
            secret: key.secret(),
            suite: platform::suite(),
            started_unix_nanos: clock.started_unix_nanos(),
            authority: authority(&identity.source),
            relays: others.reachable.clone(),
            follows_up: true,
            memory: settings.memory,
            tenant_limits: settings.tenant_limits,
            uplink: settings.uplink,
            transit: settings.transit,
        };
        let relay = Relay::new(core, Engine::fastest(), &AwsLc, platform::random_bytes(), clock.now());
        let role = RelayDriver::new(relay, number, Shard::new(shard), others);
        let name = format!("{}-{shard}", settings.name);
        spawn(&name, sockets, role, clock).map_err(|error| thread_failure(&format!("shard {shard}"), &error))
    };
    shards.map(start).collect()
}

async fn report(controls: &[Controls<RelayControl>], about: &NodeInfo, transit: bool) -> Option<NodeReport> {
    let mut all = ShardStatus::default();
    for control in controls {
        let (answer, shard) = oneshot::channel();
        control.control(RelayControl::Status(answer)).ok()?;
        all.add(&shard.await.ok()?);
    }
    let status = RelayStatus {
        node: about.status(),
        sessions: all.sessions,
        buffered_bytes: all.buffered_bytes,
        uplink: all.uplink,
        transit,
        routes: all.routes,
        counters: all.counts.work.counted(),
        drops: all.counts.drops.counted(),
    };
    let json = serde_json::to_value(&status).ok()?;
    Some(NodeReport { status: json, metrics: metrics::of_relay(status), is_ready: true })
}
