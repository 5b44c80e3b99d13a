//! `byway agent`: a proxy between applications and the overlay.

mod admission;
mod contacts;
mod known;
mod limits;
mod mappings;
mod notices;
mod numbers;
mod outsides;
mod role;
mod segments;
mod status;
mod subject;
mod terms;

use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{AgentStatus, Role, RoundTrip, SelfUpdate};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Clock, Controls, Handle, OverlaySockets, spawn};
use byway_proto::agent::{Agent, AgentIdentity};
use byway_units::AgentId;
use tokio::sync::oneshot;

use known::{Families, Known};
use role::{AgentControl, AgentRole};

use crate::exit::{Cause, Failure};
use crate::membership::{Contact, Membership, NodeKey};
use crate::node::{self, About};
use crate::observe::{self, Report, metrics};
use crate::settings::AgentSettings;
use crate::signals::Stop;
use crate::standing::{Applicant, Bond, Standing};
use crate::{listening, logs, platform, signals};

/// How often the controller is told what changed about this agent, and asked for peers that are not there yet: it takes 30
/// requests a minute.
const TELL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(3);

/// Runs an agent until it is asked to stop.
///
/// # Errors
/// If it cannot start, or its thread fails.
pub(crate) fn run(settings: AgentSettings) -> Result<(), Failure> {
    logs::start(settings.log);
    node::block_on(serve(settings))
}

async fn serve(settings: AgentSettings) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let key = NodeKey::load_or_create(&settings.key_file)?;
    let sockets = listening::bind(&settings.listen, settings.listens_by_default, OverlaySockets::bind)?;
    let listen = sockets.addresses();
    let observed = observe::bind(settings.observe).await?;
    let standing = tokio::select! {
        standing = Standing::of(applicant(&settings, &listen), &settings.belonging, &key) => standing?,
        () = stop.asked() => return Ok(()),
    };
    if settings.leaves {
        return standing.leave().await;
    }
    let clock = Clock::start();
    let handle = start(&settings, &key, sockets, &standing, clock).await?;
    let about = About::new(&settings.name, &standing, &listen, clock);
    let controls = handle.controls();
    let ask: observe::Ask = Arc::new(move || {
        let (controls, about) = (controls.clone(), about.clone());
        Box::pin(async move { report(&controls, &about).await })
    });
    tokio::spawn(observe::serve(observed, ask));
    let (number, network) = (standing.number, standing.network());
    if let Bond::Member(member) = standing.bond {
        tokio::spawn(node::pass_on(member.maps(), vec![handle.controls()], AgentControl::Map));
        let peers: Vec<String> = settings.forwards.iter().map(|forward| forward.peer.clone()).collect();
        let told = Told { own: settings.addresses.clone(), listen: listen.clone(), peers };
        tokio::spawn(tell(*member, told, handle.controls()));
    }
    tracing::info!(name = settings.name, number, network, ?listen, "the agent works");
    signals::tell_ready();
    stop.asked().await;
    signals::tell_stopping();
    // A thread that has ended already says why when it is joined.
    let _ = handle.control(AgentControl::Close);
    handle.join().map_err(|error| Failure::new(Cause::Byway, error))
}

fn applicant(settings: &AgentSettings, listen: &[SocketAddr]) -> Applicant {
    Applicant {
        role: Role::Agent,
        name: settings.name.clone(),
        state: settings.state.clone(),
        addresses: candidates(&settings.addresses, listen, &[]),
        shards: 1,
        relay: settings.relay.clone(),
    }
}

/// Starts the agent's thread, and waits until it has the ports of all forwards.
async fn start(
    settings: &AgentSettings,
    key: &NodeKey,
    sockets: OverlaySockets,
    standing: &Standing,
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
    let role = AgentRole::new(agent, known, forwards, exposed, random, started);
    let handle = spawn(&settings.name, sockets, role, clock)
        .map_err(|error| Failure::machine(format!("the agent's thread cannot be started: {error}")))?;
    let begun = starting.await.unwrap_or_else(|_| Err("the agent's thread ended at once".to_owned()));
    begun.map_err(Failure::machine)?;
    Ok(handle)
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
        // Who does not answer, or knows this agent no more, pairs it with nobody.
        if !matches!(*member.contact().borrow(), Contact::Fails(_)) {
            pair(&member, &told.peers).await;
        }
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

async fn report(controls: &Controls<AgentControl>, about: &About) -> Option<Report> {
    let (answer, status) = oneshot::channel();
    controls.control(AgentControl::Status(answer)).ok()?;
    let status = AgentStatus { node: about.status(), ..status.await.ok()? };
    let is_ready = status.forwards.iter().all(|forward| forward.problem.is_none());
    let json = serde_json::to_value(&status).ok()?;
    Some(Report { status: json, metrics: metrics::of_agent(status), is_ready })
}
