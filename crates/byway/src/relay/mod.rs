//! `byway relay`.

mod node;
mod role;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use byway_api::{RelayStatus, Role};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Clock, Controls, Handle, OverlaySockets, bind_shards, spawn};
use byway_proto::relay::{Authority, Relay, RelaySettings as CoreSettings};
use byway_units::RelayId;
use byway_wire::Shard;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use node::RelayNode;
use role::{Others, RelayControl, RelayRole, ShardStatus};

use crate::exit::Failure;
use crate::membership::{Mark, NodeKey};
use crate::names::{Names, Resolved};
use crate::node::{About, block_on, close, follow_names, no_thread, one_ended, pass_on};
use crate::observe::{self, Report, metrics};
use crate::reload::{Load, Reloads};
use crate::settings::{Belonging, RelaySettings, StaticNetwork};
use crate::signals::Stop;
use crate::standing::{Applicant, Bond, Standing};
use crate::{listening, logs, platform, signals};

/// Interval between two lookups of other relays' names: agents go by another path meanwhile.
const RELAYS_LOOKED_UP_EVERY: Duration = Duration::from_secs(30);

/// Runs a relay until it is asked to stop. `load` reads its settings, at first and whenever they are to be read again.
///
/// # Errors
/// If it cannot start, or a thread of it fails.
pub(crate) fn run(load: Load<RelaySettings>) -> Result<(), Failure> {
    let settings = load()?;
    logs::start(settings.log);
    block_on(serve(settings, load))
}

async fn serve(settings: RelaySettings, load: Load<RelaySettings>) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let (reloads, asker) = Reloads::listen()?;
    let key = NodeKey::load_or_create(&settings.key_file)?;
    let shards = |listen: &[SocketAddr]| bind_shards(listen, settings.shards);
    let sockets =
        listening::bind(&settings.listen, settings.listens_by_default, shards).map_err(Failure::machine)?;
    let listen: Vec<SocketAddr> = sockets.first().map(OverlaySockets::addresses).unwrap_or_default();
    let observed = observe::bind(settings.observe).await?;
    let hosts = match &settings.belonging {
        Belonging::Static(network) => network.hosts_of_relays(),
        Belonging::Managed(_) => BTreeSet::new(),
    };
    let names = tokio::select! {
        names = Names::resolve(hosts.clone()) => names,
        () = stop.asked() => return Ok(()),
    };
    let resolved = names.resolved();
    let known = resolved.borrow().clone();
    let standing = tokio::select! {
        standing = Standing::of(applicant(&settings, &listen), &settings.belonging, &known, &key) => standing?,
        () = stop.asked() => return Ok(()),
    };
    if settings.leaves {
        return standing.leave().await;
    }
    let clock = Clock::start();
    let handles = start(&settings, &key, sockets, &standing, clock)?;
    let controls: Vec<Controls<RelayControl>> = handles.iter().map(Handle::controls).collect();
    let about = About::new(&settings.name, &standing, &listen, clock, resolved.clone());
    let shards = controls.clone();
    let ask: observe::Ask = Arc::new(move || {
        let (shards, about) = (shards.clone(), about.clone());
        Box::pin(async move { report(&shards, &about).await })
    });
    tokio::spawn(observe::serve(observed, ask, asker));
    if let Some(member) = standing.member() {
        tokio::spawn(pass_on(member.maps(), controls.clone(), RelayControl::Map));
    }
    if let Bond::File(network) = &standing.bond {
        follow(names, hosts, network.clone(), RelayId::new(standing.number), controls.clone());
    }
    let (number, network) = (standing.number, standing.network());
    tracing::info!(name = settings.name, number, network, ?listen, "the relay works");
    signals::tell_ready();
    let mut node = RelayNode { load, settings, controls };
    tokio::select! {
        () = stop.asked() => {}
        () = one_ended(&handles) => {}
        () = reloads.follow(&mut node) => {}
    }
    signals::tell_stopping();
    close(handles, || RelayControl::Close).await
}

/// Has the names of other relays looked up now and then, and tells the shards of what they stand for.
fn follow(
    names: Names,
    hosts: BTreeSet<String>,
    network: StaticNetwork,
    number: RelayId,
    controls: Vec<Controls<RelayControl>>,
) {
    if hosts.is_empty() {
        return;
    }
    let map = move |names: &Resolved| network.map_for_relay(number, names);
    let resolved = names.resolved();
    let changes = resolved.borrow().changes();
    tokio::spawn(follow_names((resolved, changes), map, controls, RelayControl::Map));
    let mut due = Instant::now() + RELAYS_LOOKED_UP_EVERY;
    let all = watch::Sender::new(hosts);
    let known = all.subscribe();
    let silent = async move || {
        if Instant::now() < due {
            return BTreeSet::new();
        }
        due = Instant::now() + RELAYS_LOOKED_UP_EVERY;
        all.borrow().clone()
    };
    tokio::spawn(names.follow(known, silent));
}

/// Where it may be reached on port 0 is where the kernel has it listen.
fn applicant(settings: &RelaySettings, listen: &[SocketAddr]) -> Applicant {
    let port = listen.first().map_or(0, SocketAddr::port);
    let filled = |address: &SocketAddr| {
        let port = if address.port() == 0 { port } else { address.port() };
        SocketAddr::new(address.ip(), port)
    };
    Applicant {
        role: Role::Relay,
        name: settings.name.clone(),
        state: settings.state.clone(),
        addresses: settings.addresses.iter().map(filled).collect(),
        shards: settings.shards,
        relay: None,
        mark: Mark::default(),
    }
}

fn authority(bond: &Bond) -> Authority {
    match bond {
        Bond::File(network) => Authority::Static(network.grants()),
        Bond::Member(member) => Authority::Controller(member.verifying_key()),
    }
}

/// Starts the threads of all shards.
fn start(
    settings: &RelaySettings,
    key: &NodeKey,
    sockets: Vec<OverlaySockets>,
    standing: &Standing,
    clock: Clock,
) -> Result<Vec<Handle<RelayControl>>, Failure> {
    let number = RelayId::new(standing.number);
    let shards = (0_u8..).zip(sockets);
    let start = |(shard, sockets): (u8, OverlaySockets)| {
        let others = Others::of(&standing.map, number, &sockets.addresses());
        let core = CoreSettings {
            number,
            shard: Shard::new(shard),
            secret: key.secret(),
            suite: platform::suite(),
            started_unix_nanos: clock.started_unix_nanos(),
            authority: authority(&standing.bond),
            relays: others.met.clone(),
            follows_up: true,
            memory: settings.memory,
            tenant_limits: settings.tenant_limits,
            uplink: settings.uplink,
        };
        let relay = Relay::new(core, Engine::fastest(), &AwsLc, platform::random_bytes(), clock.now());
        let role = RelayRole::new(relay, number, Shard::new(shard), others);
        let name = format!("{}-{shard}", settings.name);
        spawn(&name, sockets, role, clock).map_err(|error| no_thread(&format!("shard {shard}"), &error))
    };
    shards.map(start).collect()
}

async fn report(controls: &[Controls<RelayControl>], about: &About) -> Option<Report> {
    let mut all = ShardStatus::default();
    for control in controls {
        let (answer, shard) = oneshot::channel();
        control.control(RelayControl::Status(answer)).ok()?;
        all.add(&shard.await.ok()?);
    }
    let status = RelayStatus {
        node: about.status(),
        sessions: all.sessions,
        held_bytes: all.held_bytes,
        uplink: all.uplink,
        counters: all.counts.work.counted(),
        drops: all.counts.drops.counted(),
    };
    let json = serde_json::to_value(&status).ok()?;
    Some(Report { status: json, metrics: metrics::of_relay(status), is_ready: true })
}
