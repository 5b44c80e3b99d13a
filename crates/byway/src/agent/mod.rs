//! `byway agent`: a proxy between applications and the overlay.

mod admission;
mod known;
mod limits;
mod mappings;
mod news;
mod notices;
mod numbers;
mod outsides;
mod role;
mod segments;
mod status;
mod terms;

use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{AgentStatus, Role};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Clock, Controls, Handle, OverlaySockets, spawn};
use byway_proto::agent::{Agent, AgentIdentity};
use byway_units::AgentId;
use tokio::sync::oneshot;

use known::{Families, Known};
use news::{Told, WantedPeers};
use role::{AgentControl, AgentRole};

use crate::exit::Failure;
use crate::membership::NodeKey;
use crate::node::{self, About};
use crate::observe::{self, Report, metrics};
use crate::settings::AgentSettings;
use crate::signals::Stop;
use crate::standing::{Applicant, Bond, Standing};
use crate::{listening, logs, platform, signals};

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
    let sockets = listening::bind(&settings.listen, settings.listens_by_default, OverlaySockets::bind)
        .map_err(Failure::machine)?;
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
        let told = Told::new(settings.addresses.clone(), listen.clone());
        tokio::spawn(news::tell(*member, told, WantedPeers::new(peers), handle.controls()));
    }
    tracing::info!(name = settings.name, number, network, ?listen, "the agent works");
    signals::tell_ready();
    let threads = vec![handle];
    tokio::select! {
        () = stop.asked() => {}
        () = node::one_ended(&threads) => {}
    }
    signals::tell_stopping();
    node::close(threads, || AgentControl::Close).await
}

fn applicant(settings: &AgentSettings, listen: &[SocketAddr]) -> Applicant {
    Applicant {
        role: Role::Agent,
        name: settings.name.clone(),
        state: settings.state.clone(),
        addresses: news::candidates(&settings.addresses, listen, &[]),
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
        .map_err(|error| node::no_thread("the agent's thread", &error))?;
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
