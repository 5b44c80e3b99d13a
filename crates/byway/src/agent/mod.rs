//! `byway agent`: a proxy between applications and the overlay.

mod admission;
mod controller_reporter;
mod driver;
mod dscp;
mod eviction;
mod explain_request;
mod explanation;
mod flow_costs;
mod flow_prices;
mod http;
mod last_ports;
mod limits;
mod listeners;
mod log_limit;
mod mappings;
mod name_resolution;
mod network_view;
mod node;
mod notices;
mod offers;
mod protection_check;
mod segments;
mod settings_change;
mod source_ids;
mod source_ports;
mod status;
mod targets;
mod terms;
mod tunnel;
mod watchdog;

use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{AgentStatus, NodeStatus, Role};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Clock, Controls, Handle, OverlaySockets, spawn};
use byway_proto::agent::{Agent, AgentIdentity};
use byway_units::AgentId;
use tokio::sync::{oneshot, watch};

use controller_reporter::LastReported;
use driver::{AgentControl, AgentDriver};
use last_ports::LastPorts;
use network_view::{Families, NetworkView};
pub(crate) use node::merged_network;
use node::{AgentNode, wanted_peers};
pub(crate) use tunnel::CaptureState;
use tunnel::TunForwarder;

use crate::capture::{self, CaptureRouting, RoutingTask};
use crate::exit::Failure;
use crate::membership::{FirewallMark, NodeKey};
use crate::name_resolution::{NameResolver, ResolvedNames};
use crate::node::{NodeInfo, any_ended, close, distribute_maps, thread_failure};
use crate::node_identity::{IdentitySource, NodeConfig, NodeIdentity};
use crate::observe::{self, NodeReport, metrics};
use crate::reload::{Load, ReloadRequests};
use crate::settings::AgentSettings;
use crate::signals::StopSignal;
use crate::{listen_sockets, logs, platform, signals};

/// Runs an agent until the process is asked to stop. `load` reads its settings, at the start and at
/// each reload. With `--dry-run`, prints the changes that the agent would make.
pub(crate) fn run(load: Load<AgentSettings>) -> Result<(), Failure> {
    let settings = load()?;
    if settings.is_dry_run {
        print!("{}", dry_run(&settings));
        return Ok(());
    }
    logs::start(settings.log);
    run_with_settings(settings, load)
}

/// Runs an agent like [`run`], with settings that are read and a log that is started.
pub(crate) fn run_with_settings(settings: AgentSettings, load: Load<AgentSettings>) -> Result<(), Failure> {
    crate::node::block_on(serve(settings, load))
}

/// Describes the changes to this machine that the agent's captures would make.
pub(crate) fn dry_run(settings: &AgentSettings) -> String {
    match &settings.tunnel {
        Some(tunnel) => capture::show(tunnel, &settings.exposed),
        None => "The agent captures no packets and changes nothing on this machine: no [[capture]] is \
                 set, and no [[expose]] has `networks`.\n"
            .to_owned(),
    }
}

async fn serve(settings: AgentSettings, load: Load<AgentSettings>) -> Result<(), Failure> {
    let mut stop = StopSignal::listen()?;
    let (reloads, reload_handle) = ReloadRequests::listen()?;
    let key = NodeKey::load_or_create(&settings.key_file)?;
    let last_ports = LastPorts::read(&settings.state, &settings.listen.addresses);
    let devices = settings.listen.devices();
    let bind_all = |listen: &[_]| OverlaySockets::bind_to_devices(listen, &devices);
    let bind = |listen: &[_]| listen_sockets::bind(listen, settings.listen.is_default, bind_all);
    let sockets = last_ports.bind(bind).map_err(Failure::machine)?;
    let sockets = sockets.without_fragments().map_err(|error| {
        Failure::machine(format!("cannot disable fragmentation on the agent's sockets: {error}"))
    })?;
    let sockets = sockets.roaming();
    let listen = sockets.addresses();
    let observed = observe::bind(settings.observe).await?;
    let mark = FirewallMark::new(settings.tunnel.as_ref().map(|tunnel| tunnel.table));
    let names = tokio::select! {
        names = NameResolver::resolve(name_resolution::hosts(&settings)) => names,
        () = stop.wait() => return Ok(()),
    };
    let resolved = names.resolved();
    let known = resolved.borrow().clone();
    let identity = tokio::select! {
        identity = NodeIdentity::of(node_config(&settings, &listen, &mark), &settings.network_source, &known, &key) => identity?,
        () = stop.wait() => return Ok(()),
    };
    if settings.leaves {
        return identity.leave().await;
    }
    if let Err(error) = last_ports.replace(&listen) {
        tracing::warn!("cannot store the ports for the next start: {error}");
    }
    let clock = Clock::start();
    let (sockets, tunnel, capturing) = start_capture(&settings, sockets).await?;
    let handle = start(&settings, &key, (sockets, tunnel), (&identity, known), clock).await?;
    // The task ends with the thread, and undoes all changes.
    let capturing = capturing.map(|(capturing, capture_state)| RoutingTask::start(capturing, capture_state));
    let about = NodeInfo::new(&settings.name, &identity, &listen, clock, resolved.clone());
    if let Some(device) = settings.tunnel.as_ref().and_then(|tunnel| tunnel.watched_device.clone()) {
        tokio::spawn(capture::follow_renewals(device, reload_handle.clone()));
    }
    let (query, own) =
        (node_query(handle.controls(), about), http::router(&settings.name, handle.controls()));
    tokio::spawn(observe::serve(observed, query, reload_handle, own));
    let (number, network) = (identity.number, identity.network());
    let peers = watch::Sender::new(wanted_peers(&settings));
    let hosts = watch::Sender::new(name_resolution::hosts(&settings));
    name_resolution::refresh_names(names, hosts.subscribe(), &identity, handle.controls());
    if let IdentitySource::Member(member) = identity.source {
        tokio::spawn(distribute_maps(member.maps(), vec![handle.controls()], AgentControl::Map));
        let last_reported = LastReported::new(settings.addresses.clone(), listen.clone());
        tokio::spawn(controller_reporter::report_to_controller(
            *member,
            last_reported,
            peers.subscribe(),
            handle.controls(),
        ));
    }
    tracing::info!(name = settings.name, number, network, ?listen, "agent started");
    signals::notify_ready();
    let controls = handle.controls();
    let node = AgentNode { load, settings, controls, capturing, peers, hosts, mark, generation: 0 };
    until_stopped(node, handle, reloads, stop).await
}

/// Runs until the process is asked to stop, or the agent's thread ends. Applies reloads, and
/// finally closes all sessions and undoes the capture's changes.
async fn until_stopped(
    mut node: AgentNode,
    handle: Handle<AgentControl>,
    reloads: ReloadRequests,
    mut stop: StopSignal,
) -> Result<(), Failure> {
    let threads = vec![handle];
    tokio::select! {
        () = stop.wait() => {}
        () = any_ended(&threads) => {}
        () = reloads.follow(&mut node) => {}
    }
    signals::notify_stopping();
    let closed = close(threads, || AgentControl::Close).await;
    if let Some(capturing) = node.capturing {
        capturing.ended().await;
    }
    closed
}

fn node_query(controls: Controls<AgentControl>, about: NodeInfo) -> observe::NodeQuery {
    Arc::new(move || {
        let (controls, about) = (controls.clone(), about.clone());
        Box::pin(async move { report(&controls, &about).await })
    })
}

/// Creates the TUN device and binds the queues that the settings need. Marks the agent's own
/// packets, which captures exclude. Returns no forwarder without captures and exposed networks.
async fn start_capture(
    settings: &AgentSettings,
    sockets: OverlaySockets,
) -> Result<
    (OverlaySockets, Option<TunForwarder>, Option<(CaptureRouting, watch::Receiver<CaptureState>)>),
    Failure,
> {
    let Some(tunnel) = &settings.tunnel else {
        return Ok((sockets, None, None));
    };
    let (capturing, source) = capture::start(tunnel, &settings.exposed).await?;
    let sockets = sockets.with_mark(tunnel.table);
    let sockets =
        sockets.map_err(|error| Failure::machine(format!("cannot mark the agent's packets: {error}")))?;
    let (forwarder, capture_state) = TunForwarder::new(tunnel.clone(), source);
    Ok((sockets, Some(forwarder), Some((capturing, capture_state))))
}

fn node_config(settings: &AgentSettings, listen: &[SocketAddr], mark: &FirewallMark) -> NodeConfig {
    NodeConfig {
        role: Role::Agent,
        name: settings.name.clone(),
        state: settings.state.clone(),
        addresses: controller_reporter::candidates(&settings.addresses, listen, &[]),
        shards: 1,
        relay: settings.relay.clone(),
        mark: mark.clone(),
    }
}

/// Starts the agent's thread, and waits until it has opened the ports of all forwards.
async fn start(
    settings: &AgentSettings,
    key: &NodeKey,
    (sockets, tunnel): (OverlaySockets, Option<TunForwarder>),
    (node_identity, names): (&NodeIdentity, Arc<ResolvedNames>),
    clock: Clock,
) -> Result<Handle<AgentControl>, Failure> {
    let number = AgentId::new(node_identity.number);
    let identity = AgentIdentity {
        number,
        secret: key.secret(),
        suite: platform::suite(),
        started_unix_nanos: clock.started_unix_nanos(),
    };
    let mut agent = Agent::new(identity, Engine::fastest(), &AwsLc, platform::random_bytes(), clock.now());
    agent.set_uplinks(settings.listen.choice());
    let known = NetworkView::new(number, node_identity.map.clone(), Families::of(&sockets.addresses()));
    let random = u64::from_be_bytes(platform::random_bytes());
    let (forwards, exposed) = (settings.forwards.clone(), settings.exposed.clone());
    let (started, starting) = oneshot::channel();
    let role = AgentDriver::new(agent, known, forwards, exposed, tunnel, random, started);
    let role = role.with_limits(settings.mappings).with_names(names);
    let role = role.with_uplinks(settings.listen.uplinks.clone());
    let handle = spawn(&settings.name, sockets, role, clock)
        .map_err(|error| thread_failure("the agent's thread", &error))?;
    let result = starting.await.unwrap_or_else(|_| Err("the agent's thread ended at its start".to_owned()));
    result.map_err(Failure::machine)?;
    Ok(handle)
}

async fn report(controls: &Controls<AgentControl>, about: &NodeInfo) -> Option<NodeReport> {
    let (answer, status) = oneshot::channel();
    controls.control(AgentControl::Status(answer)).ok()?;
    let status = status.await.ok()?;
    let node = NodeStatus { uplinks: status.node.uplinks, ..about.status() };
    let status = AgentStatus { node, ..status };
    let is_ready = status.forwards.iter().all(|forward| forward.problem.is_none());
    let json = serde_json::to_value(&status).ok()?;
    Some(NodeReport { status: json, metrics: metrics::of_agent(status), is_ready })
}
