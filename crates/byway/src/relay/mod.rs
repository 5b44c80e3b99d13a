//! `byway relay`.

mod role;

use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{ControllerState, NetworkMap, RelayStatus, Role};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Clock, Controls, Handle, OverlaySockets, bind_shards, spawn};
use byway_proto::relay::{Authority, Relay, RelaySettings as CoreSettings};
use byway_units::RelayId;
use byway_wire::Shard;
use tokio::sync::{oneshot, watch};

use role::{RelayControl, RelayRole, ShardStatus, other_relays};

use crate::exit::{Cause, Failure};
use crate::membership::{Membership, NodeKey};
use crate::observe::counted::Sums;
use crate::observe::{self, Report, metrics};
use crate::settings::{Belonging, RelaySettings, StaticNetwork};
use crate::signals::Stop;
use crate::standing::{self, Applicant};
use crate::{logs, platform, signals};

/// What a relay goes by, whoever says so.
struct Standing {
    number: RelayId,
    map: NetworkMap,
    authority: Box<dyn Fn() -> Authority>,
    member: Option<Membership>,
}

/// Runs a relay until it is asked to stop.
///
/// # Errors
/// If it cannot start, or a thread of it fails.
pub(crate) fn run(settings: RelaySettings) -> Result<(), Failure> {
    logs::start(settings.log);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::machine(format!("no event loop: {error}")))?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: RelaySettings) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let key = NodeKey::load_or_create(&settings.key_file)?;
    let sockets = bind_shards(&settings.listen, settings.shards).map_err(Failure::machine)?;
    let listen: Vec<SocketAddr> = sockets.first().map(OverlaySockets::addresses).unwrap_or_default();
    let observed = observe::bind(settings.observe).await?;
    let standing = tokio::select! {
        standing = standing(&settings, &key, &listen) => standing?,
        () = stop.asked() => return Ok(()),
    };
    if settings.leaves {
        return standing::leave(standing.member).await;
    }
    let network = standing.member.as_ref().map(standing::network_of).unwrap_or_default();
    let handles = start(&settings, &key, sockets, &listen, &standing)?;
    let controls: Vec<Controls<RelayControl>> = handles.iter().map(Handle::controls).collect();
    let about = About { name: settings.name.clone(), number: standing.number, listen: listen.clone() };
    let maps = standing.member.as_ref().map(Membership::maps);
    let contact = standing.member.as_ref().map(Membership::contact);
    let asked = controls.clone();
    let revision = maps.clone();
    let ask: observe::Ask = Arc::new(move || {
        let (asked, about) = (asked.clone(), about.clone());
        let controller = standing::controller_state(contact.as_ref());
        let map_revision = revision.as_ref().map_or(1, |maps| maps.borrow().revision);
        Box::pin(async move { report(&asked, about, controller, map_revision).await })
    });
    tokio::spawn(observe::serve(observed, ask));
    if let Some(maps) = maps {
        tokio::spawn(pass_on(maps, controls.clone()));
    }
    tracing::info!(
        name = settings.name,
        number = standing.number.number(),
        network,
        ?listen,
        "the relay works"
    );
    signals::tell_ready();
    stop.asked().await;
    signals::tell_stopping();
    for handle in handles {
        // A thread that has ended already says why when it is joined.
        let _ = handle.control(RelayControl::Close);
        handle.join().map_err(|error| Failure::new(Cause::Byway, error))?;
    }
    Ok(())
}

/// Who this relay is, from its file or from its controller.
async fn standing(
    settings: &RelaySettings,
    key: &NodeKey,
    listen: &[SocketAddr],
) -> Result<Standing, Failure> {
    match &settings.belonging {
        Belonging::Static(network) => static_standing(&settings.name, network, key),
        Belonging::Managed(token) => {
            let port = listen.first().map_or(0, SocketAddr::port);
            let filled = |address: &SocketAddr| {
                let port = if address.port() == 0 { port } else { address.port() };
                SocketAddr::new(address.ip(), port)
            };
            let applicant = Applicant {
                role: Role::Relay,
                name: settings.name.clone(),
                state: settings.state.clone(),
                token: token.clone(),
                addresses: settings.addresses.iter().map(filled).collect(),
                shards: settings.shards,
                relay: None,
            };
            let member = standing::member(applicant, key).await?;
            let key = member.verifying_key();
            Ok(Standing {
                number: RelayId::new(member.number()),
                map: member.maps().borrow().as_ref().clone(),
                authority: Box::new(move || Authority::Controller(key)),
                member: Some(member),
            })
        }
    }
}

fn static_standing(name: &str, network: &StaticNetwork, key: &NodeKey) -> Result<Standing, Failure> {
    let Some(entry) = network.relay(name) else {
        return Err(Failure::new(Cause::Settings, format!("[network] has no relay {name:?}")));
    };
    standing::check_key(key, &entry.key, name)?;
    let number = RelayId::new(entry.number);
    let grants = network.grants();
    Ok(Standing {
        number,
        map: network.map_for_relay(number),
        authority: Box::new(move || Authority::Static(grants.clone())),
        member: None,
    })
}

/// Starts the threads of all shards.
fn start(
    settings: &RelaySettings,
    key: &NodeKey,
    sockets: Vec<OverlaySockets>,
    listen: &[SocketAddr],
    standing: &Standing,
) -> Result<Vec<Handle<RelayControl>>, Failure> {
    let clock = Clock::start();
    let shards = (0_u8..).zip(sockets);
    let start = |(shard, sockets): (u8, OverlaySockets)| {
        let others = other_relays(&standing.map, standing.number, listen);
        let core = CoreSettings {
            number: standing.number,
            shard: Shard::new(shard),
            secret: key.secret(),
            suite: platform::suite(),
            started_unix_nanos: clock.started_unix_nanos(),
            authority: (standing.authority)(),
            relays: others.clone(),
        };
        let relay = Relay::new(core, Engine::fastest(), &AwsLc, platform::random_bytes(), clock.now());
        let role = RelayRole::new(relay, standing.number, others);
        let name = format!("{}-{shard}", settings.name);
        spawn(&name, sockets, role, clock)
            .map_err(|error| Failure::machine(format!("shard {shard} cannot be started: {error}")))
    };
    shards.map(start).collect()
}

/// Passes maps on to all shards.
async fn pass_on(mut maps: watch::Receiver<Arc<NetworkMap>>, controls: Vec<Controls<RelayControl>>) {
    while maps.changed().await.is_ok() {
        let map = maps.borrow_and_update().clone();
        for control in &controls {
            if control.control(RelayControl::Map(map.clone())).is_err() {
                tracing::error!("a shard does not take the new map");
            }
        }
    }
}

#[derive(Clone)]
struct About {
    name: String,
    number: RelayId,
    listen: Vec<SocketAddr>,
}

async fn report(
    controls: &[Controls<RelayControl>],
    about: About,
    controller: ControllerState,
    map_revision: u64,
) -> Option<Report> {
    let mut all = ShardStatus::default();
    let mut uptime_seconds = 0.0;
    for control in controls {
        let (answer, shard) = oneshot::channel();
        control.control(RelayControl::Status(answer)).ok()?;
        let shard: ShardStatus = shard.await.ok()?;
        all.sessions += shard.sessions;
        all.held_bytes += shard.held_bytes;
        all.work.add_all(&shard.work);
        all.drops.add_all(&shard.drops);
        uptime_seconds = shard.uptime_seconds;
    }
    let counted = Sums::counted;
    let status = RelayStatus {
        name: about.name,
        number: about.number.number(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds,
        listen: about.listen,
        controller,
        map_revision,
        sessions: all.sessions,
        held_bytes: all.held_bytes,
        counters: counted(&all.work),
        drops: counted(&all.drops),
    };
    let json = serde_json::to_value(&status).ok()?;
    Some(Report { status: json, metrics: metrics::of_relay(status), is_ready: true })
}
