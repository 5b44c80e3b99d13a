//! `byway agent`: a proxy between applications and the overlay.

mod contacts;
mod known;
mod limits;
mod mappings;
mod role;
mod segments;
mod status;
mod subject;
mod terms;

use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{AgentStatus, ControllerState, NetworkMap, Role, RoundTrip, SelfUpdate};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Clock, Controls, OverlaySockets, spawn};
use byway_proto::agent::{Agent, AgentIdentity};
use byway_units::AgentId;
use tokio::sync::{oneshot, watch};

use known::{Families, Known};
use role::{AgentControl, AgentRole};

use crate::exit::{Cause, Failure};
use crate::membership::{Membership, NodeKey};
use crate::observe::{self, Report, metrics};
use crate::settings::{AgentSettings, Belonging, StaticNetwork};
use crate::signals::Stop;
use crate::standing::{self, Applicant};
use crate::{logs, platform, signals};

/// How often the controller is told what changed about this agent, and asked for peers that are not there yet: it takes 30
/// requests a minute.
const TELL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(3);

/// Who the agent is, from its file or from its controller.
struct Standing {
    number: AgentId,
    map: NetworkMap,
    member: Option<Membership>,
}

/// Runs an agent until it is asked to stop.
///
/// # Errors
/// If it cannot start, or its thread fails.
pub(crate) fn run(settings: AgentSettings) -> Result<(), Failure> {
    logs::start(settings.log);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::machine(format!("no event loop: {error}")))?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: AgentSettings) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let key = NodeKey::load_or_create(&settings.key_file)?;
    let sockets = OverlaySockets::bind(&settings.listen).map_err(Failure::machine)?;
    let listen = sockets.addresses();
    let observed = observe::bind(settings.observe).await?;
    let standing = tokio::select! {
        standing = standing(&settings, &key, &listen) => standing?,
        () = stop.asked() => return Ok(()),
    };
    if settings.leaves {
        return standing::leave(standing.member).await;
    }
    let network = standing.member.as_ref().map(standing::network_of).unwrap_or_default();
    let clock = Clock::start();
    let identity = AgentIdentity {
        number: standing.number,
        secret: key.secret(),
        suite: platform::suite(),
        started_unix_nanos: clock.started_unix_nanos(),
    };
    let agent = Agent::new(identity, Engine::fastest(), &AwsLc, platform::random_bytes(), clock.now());
    let known = Known::new(standing.number, standing.map, Families::of(&listen));
    let random = u64::from_be_bytes(platform::random_bytes());
    let (started, starting) = oneshot::channel();
    let role =
        AgentRole::new(agent, known, settings.forwards.clone(), settings.exposed.clone(), random, started);
    let handle = spawn(&settings.name, sockets, role, clock)
        .map_err(|error| Failure::machine(format!("the agent's thread cannot be started: {error}")))?;
    let begun = starting.await.unwrap_or_else(|_| Err("the agent's thread ended at once".to_owned()));
    begun.map_err(Failure::machine)?;
    let maps = standing.member.as_ref().map(Membership::maps);
    let contact = standing.member.as_ref().map(Membership::contact);
    let (controls, name) = (handle.controls(), settings.name.clone());
    let ask: observe::Ask = Arc::new(move || {
        let (controls, name) = (controls.clone(), name.clone());
        let controller = standing::controller_state(contact.as_ref());
        Box::pin(async move { report(&controls, name, controller).await })
    });
    tokio::spawn(observe::serve(observed, ask));
    if let Some(maps) = maps {
        tokio::spawn(pass_on(maps, handle.controls()));
    }
    if let Some(member) = standing.member {
        let peers: Vec<String> = settings.forwards.iter().map(|forward| forward.peer.clone()).collect();
        let told = Told { own: settings.addresses.clone(), listen, peers };
        tokio::spawn(tell(member, told, handle.controls()));
    }
    tracing::info!(name = settings.name, number = standing.number.number(), network, "the agent works");
    signals::tell_ready();
    stop.asked().await;
    signals::tell_stopping();
    // A thread that has ended already says why when it is joined.
    let _ = handle.control(AgentControl::Close);
    handle.join().map_err(|error| Failure::new(Cause::Byway, error))
}

async fn standing(
    settings: &AgentSettings,
    key: &NodeKey,
    listen: &[SocketAddr],
) -> Result<Standing, Failure> {
    match &settings.belonging {
        Belonging::Static(network) => static_standing(&settings.name, network, key),
        Belonging::Managed(token) => {
            let applicant = Applicant {
                role: Role::Agent,
                name: settings.name.clone(),
                state: settings.state.clone(),
                token: token.clone(),
                addresses: candidates(&settings.addresses, listen, &[]),
                shards: 1,
                relay: settings.relay.clone(),
            };
            let member = standing::member(applicant, key).await?;
            let map = member.maps().borrow().as_ref().clone();
            Ok(Standing { number: AgentId::new(member.number()), map, member: Some(member) })
        }
    }
}

fn static_standing(name: &str, network: &StaticNetwork, key: &NodeKey) -> Result<Standing, Failure> {
    let Some((number, named)) = network.agent(name) else {
        return Err(Failure::new(Cause::Settings, format!("[network] has no agent {name:?}")));
    };
    standing::check_key(key, &named.to_string(), name)?;
    Ok(Standing { number, map: network.map_for_agent(number), member: None })
}

/// Where peers may try to reach this agent: what its owner says or, if that is nothing, where it listens; and where relays
/// see it.
fn candidates(own: &[SocketAddr], listen: &[SocketAddr], seen: &[SocketAddr]) -> Vec<SocketAddr> {
    let named = listen.iter().filter(|address| own.is_empty() && !address.ip().is_unspecified());
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in own.iter().chain(named).chain(seen) {
        if !all.contains(address) && all.len() < byway_proto::limits::CANDIDATES_MAX {
            all.push(*address);
        }
    }
    all
}

/// What the controller is told about an agent beside what is found out.
struct Told {
    own: Vec<SocketAddr>,
    listen: Vec<SocketAddr>,
    peers: Vec<String>,
}

/// Asks for the peers of forwards, and tells the controller where the agent is seen and how near its relays are.
async fn tell(member: Membership, told: Told, controls: Controls<AgentControl>) {
    let mut interval = tokio::time::interval(TELL_INTERVAL);
    loop {
        interval.tick().await;
        pair(&member, &told.peers).await;
        let (answer, seen) = oneshot::channel();
        if controls.control(AgentControl::Seen(answer)).is_err() {
            return;
        }
        let Ok(seen) = seen.await else {
            return;
        };
        let round_trip = |(relay, microseconds)| RoundTrip { relay, microseconds };
        member.report(SelfUpdate {
            addresses: Some(candidates(&told.own, &told.listen, &seen.addresses)),
            round_trips: Some(seen.round_trips_us.into_iter().map(round_trip).collect()),
            relay: None,
        });
    }
}

/// Asks to be paired with the peers of forwards that are not in the map.
async fn pair(member: &Membership, peers: &[String]) {
    let map = member.maps().borrow().clone();
    for peer in peers.iter().filter(|peer| map.agents.iter().all(|agent| agent.name != **peer)) {
        if let Err(error) = member.pair_with(peer).await {
            tracing::debug!(peer, %error, "not paired yet");
        }
    }
}

/// Passes maps on to the agent.
async fn pass_on(mut maps: watch::Receiver<Arc<NetworkMap>>, controls: Controls<AgentControl>) {
    while maps.changed().await.is_ok() {
        let map = maps.borrow_and_update().clone();
        if controls.control(AgentControl::Map(map)).is_err() {
            tracing::error!("the agent's thread does not take the new map");
        }
    }
}

async fn report(
    controls: &Controls<AgentControl>,
    name: String,
    controller: ControllerState,
) -> Option<Report> {
    let (answer, status) = oneshot::channel();
    controls.control(AgentControl::Status(answer)).ok()?;
    let status = AgentStatus { name, controller, ..status.await.ok()? };
    let is_ready = status.forwards.iter().all(|forward| forward.problem.is_none());
    let json = serde_json::to_value(&status).ok()?;
    Some(Report { status: json, metrics: metrics::of_agent(status), is_ready })
}
