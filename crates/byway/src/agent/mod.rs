//! `byway agent`: a proxy between applications and the overlay.

mod accepting;
mod admission;
mod dscp;
mod evicting;
mod known;
mod last_ports;
mod limits;
mod listeners;
mod log_limit;
mod mappings;
mod naming;
mod news;
mod node;
mod notices;
mod numbers;
mod outsides;
mod reloading;
mod role;
mod segments;
mod status;
mod targets;
mod terms;
mod tunnel;
mod unprotected;
mod watchdog;

use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{AgentStatus, Role};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Clock, Controls, Handle, OverlaySockets, spawn};
use byway_proto::agent::{Agent, AgentIdentity};
use byway_units::AgentId;
use tokio::sync::{oneshot, watch};

use known::{Families, Known};
use last_ports::LastPorts;
use news::Told;
pub(crate) use node::is_other_network;
use node::{AgentNode, wanted_peers};
use role::{AgentControl, AgentRole};
pub(crate) use tunnel::Doors;
use tunnel::Tunnelled;

use crate::capture::{self, Capturing, Follower};
use crate::exit::Failure;
use crate::membership::{Mark, NodeKey};
use crate::names::{Names, Resolved};
use crate::node::{About, close, no_thread, one_ended, pass_on};
use crate::observe::{self, Report, metrics};
use crate::reload::{Load, Reloads};
use crate::settings::AgentSettings;
use crate::signals::Stop;
use crate::standing::{Applicant, Bond, Standing};
use crate::{listening, logs, platform, signals};

/// Runs an agent until it is asked to stop. `load` reads its settings, at first and whenever they are to be read again.
///
/// # Errors
/// If it cannot start, or its thread fails.
pub(crate) fn run(load: Load<AgentSettings>) -> Result<(), Failure> {
    let settings = load()?;
    if settings.is_dry_run {
        print!("{}", dry_run(&settings));
        return Ok(());
    }
    logs::start(settings.log);
    work(settings, load)
}

/// The same, where it is logged already.
///
/// # Errors
/// As [`run`].
pub(crate) fn work(settings: AgentSettings, load: Load<AgentSettings>) -> Result<(), Failure> {
    crate::node::block_on(serve(settings, load))
}

/// What the agent would do.
pub(crate) fn dry_run(settings: &AgentSettings) -> String {
    match &settings.tunnel {
        Some(tunnel) => capture::show(tunnel, &settings.exposed),
        None => "The agent captures no packets, and changes nothing of this machine: there is no [[capture]], and no [[expose]] has \
                 networks.\n"
            .to_owned(),
    }
}

async fn serve(settings: AgentSettings, load: Load<AgentSettings>) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let (reloads, asker) = Reloads::listen()?;
    let key = NodeKey::load_or_create(&settings.key_file)?;
    let last_ports = LastPorts::read(&settings.state, &settings.listen);
    let bind = |listen: &[_]| listening::bind(listen, settings.listens_by_default, OverlaySockets::bind);
    let sockets = last_ports.bind(bind).map_err(Failure::machine)?;
    let sockets = sockets
        .without_fragments()
        .map_err(|error| Failure::machine(format!("the agent's sockets fragment what they send: {error}")))?;
    let sockets = sockets.roaming();
    let listen = sockets.addresses();
    let observed = observe::bind(settings.observe).await?;
    let mark = Mark::new(settings.tunnel.as_ref().map(|tunnel| tunnel.table));
    let names = tokio::select! {
        names = Names::resolve(naming::hosts(&settings)) => names,
        () = stop.asked() => return Ok(()),
    };
    let resolved = names.resolved();
    let known = resolved.borrow().clone();
    let standing = tokio::select! {
        standing = Standing::of(applicant(&settings, &listen, &mark), &settings.belonging, &known, &key) => standing?,
        () = stop.asked() => return Ok(()),
    };
    if settings.leaves {
        return standing.leave().await;
    }
    if let Err(error) = last_ports.replace(&listen) {
        tracing::warn!("the next start of this agent has other ports: {error}");
    }
    let clock = Clock::start();
    let (sockets, tunnel, capturing) = begin_capturing(&settings, sockets).await?;
    let handle = start(&settings, &key, (sockets, tunnel), (&standing, known), clock).await?;
    // It ends, and undoes everything, when the thread has ended.
    let capturing = capturing.map(|(capturing, doors)| Follower::start(capturing, doors));
    let about = About::new(&settings.name, &standing, &listen, clock, resolved.clone());
    if let Some(device) = settings.tunnel.as_ref().and_then(|tunnel| tunnel.watches.clone()) {
        tokio::spawn(capture::follow_renewals(device, asker.clone()));
    }
    tokio::spawn(observe::serve(observed, ask(handle.controls(), about), asker));
    let (number, network) = (standing.number, standing.network());
    let peers = watch::Sender::new(wanted_peers(&settings));
    let hosts = watch::Sender::new(naming::hosts(&settings));
    naming::follow(names, hosts.subscribe(), &standing, handle.controls());
    if let Bond::Member(member) = standing.bond {
        tokio::spawn(pass_on(member.maps(), vec![handle.controls()], AgentControl::Map));
        let told = Told::new(settings.addresses.clone(), listen.clone());
        tokio::spawn(news::tell(*member, told, peers.subscribe(), handle.controls()));
    }
    tracing::info!(name = settings.name, number, network, ?listen, "the agent works");
    signals::tell_ready();
    let controls = handle.controls();
    let node = AgentNode { load, settings, controls, capturing, peers, hosts, mark, generation: 0 };
    until_stopped(node, handle, reloads, stop).await
}

/// Lets an agent work until somebody asks it to stop, or its thread has ended.
async fn until_stopped(
    mut node: AgentNode,
    handle: Handle<AgentControl>,
    reloads: Reloads,
    mut stop: Stop,
) -> Result<(), Failure> {
    let threads = vec![handle];
    tokio::select! {
        () = stop.asked() => {}
        () = one_ended(&threads) => {}
        () = reloads.follow(&mut node) => {}
    }
    signals::tell_stopping();
    let closed = close(threads, || AgentControl::Close).await;
    if let Some(capturing) = node.capturing {
        capturing.ended().await;
    }
    closed
}

fn ask(controls: Controls<AgentControl>, about: About) -> observe::Ask {
    Arc::new(move || {
        let (controls, about) = (controls.clone(), about.clone());
        Box::pin(async move { report(&controls, &about).await })
    })
}

/// Makes the device and takes queues, if any are needed, and has rules leave the agent's own packets alone.
async fn begin_capturing(
    settings: &AgentSettings,
    sockets: OverlaySockets,
) -> Result<(OverlaySockets, Option<Tunnelled>, Option<(Capturing, watch::Receiver<Doors>)>), Failure> {
    let Some(tunnel) = &settings.tunnel else {
        return Ok((sockets, None, None));
    };
    let (capturing, inlet) = capture::begin(tunnel, &settings.exposed).await?;
    let sockets = sockets.marked(tunnel.table);
    let sockets = sockets
        .map_err(|error| Failure::machine(format!("the agent's packets cannot be marked: {error}")))?;
    let (tunnelled, doors) = Tunnelled::new(tunnel.clone(), inlet);
    Ok((sockets, Some(tunnelled), Some((capturing, doors))))
}

fn applicant(settings: &AgentSettings, listen: &[SocketAddr], mark: &Mark) -> Applicant {
    Applicant {
        role: Role::Agent,
        name: settings.name.clone(),
        state: settings.state.clone(),
        addresses: news::candidates(&settings.addresses, listen, &[]),
        shards: 1,
        relay: settings.relay.clone(),
        mark: mark.clone(),
    }
}

/// Starts the agent's thread, and waits until it has the ports of all forwards.
async fn start(
    settings: &AgentSettings,
    key: &NodeKey,
    (sockets, tunnel): (OverlaySockets, Option<Tunnelled>),
    (standing, names): (&Standing, Arc<Resolved>),
    clock: Clock,
) -> Result<Handle<AgentControl>, Failure> {
    let number = AgentId::new(standing.number);
    let identity = AgentIdentity {
        number,
        secret: key.secret(),
        suite: platform::suite(),
        started_unix_nanos: clock.started_unix_nanos(),
    };
    let agent = Agent::new(identity, Engine::fastest(), &AwsLc, platform::random_bytes(), clock.now());
    let known = Known::new(number, standing.map.clone(), Families::of(&sockets.addresses()));
    let random = u64::from_be_bytes(platform::random_bytes());
    let (forwards, exposed) = (settings.forwards.clone(), settings.exposed.clone());
    let (started, starting) = oneshot::channel();
    let role = AgentRole::new(agent, known, forwards, exposed, tunnel, random, started);
    let role = role.limited_to(settings.mappings).with_names(names);
    let handle = spawn(&settings.name, sockets, role, clock)
        .map_err(|error| no_thread("the agent's thread", &error))?;
    let begun = starting.await.unwrap_or_else(|_| Err("the agent's thread ended at once".to_owned()));
    begun.map_err(Failure::machine)?;
    Ok(handle)
}

async fn report(controls: &Controls<AgentControl>, about: &About) -> Option<Report> {
    let (answer, status) = oneshot::channel();
    controls.control(AgentControl::Status(answer)).ok()?;
    let status = AgentStatus { node: about.status(), ..status.await.ok()? };
    let is_ready = status.forwards.iter().all(|forward| forward.problem.is_none());
    let json = serde_json::to_value(&status).ok()?;
    Some(Report { status: json, metrics: metrics::of_agent(status), is_ready })
}
