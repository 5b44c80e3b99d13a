//! Start and stop of a controller, and its HTTPS server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use byway_api::{ControllerStatus, NetworkCost};
use byway_config_types::{PriceSheets, Problem};
use byway_net::is_family_unsupported;
use byway_units::Rate;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::http::{HttpState, router};
use super::identity::Identity;
use super::network::{GrantSettings, Quotas};
use super::state::{NetworkSettings, State};
use super::state_feed::{self, StateFeed, Topology};
use super::store::{Store, StoreError};
use crate::connections::{self, HttpService};
use crate::exit::Cause;
use crate::listen_sockets::{self, FamilyError};
use crate::membership::WallClock;
use crate::membership::files::{self, FileError};
use crate::membership::random;
use crate::settings::SharedTenant;
use crate::token::{Token, TokenError};

/// Name of the file in the state directory that contains the administrators' token.
pub(super) const ADMIN_TOKEN: &str = "admin.token";

const DATABASE: &str = "controller.redb";

/// Backlog of the listening sockets, in connections: a thousand nodes may return at the same time.
const BACKLOG: i32 = 1_024;

/// Settings of a controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerSettings {
    /// Addresses on which the controller listens.
    pub(crate) listen: Vec<SocketAddr>,
    /// True if `listen` is the default. The controller then ignores an address family that the
    /// machine does not support.
    pub(crate) listens_by_default: bool,
    /// Addresses at which nodes reach the controller, as `host:port`. Tokens contain them. If
    /// empty, tokens contain the listening addresses.
    pub(crate) addresses: Vec<String>,
    /// State directory, with the database and the administrators' token.
    pub(crate) state: PathBuf,
    /// Name of the network, which only the first start uses.
    pub(crate) network: String,
    /// Lifetime of grants, at least [`ControllerSettings::GRANT_LIFETIME_MIN`].
    pub(crate) grant_lifetime: Duration,
    /// Maximum rate of all flows of a pairing together.
    pub(crate) rate: Rate,
    /// Quotas of each tenant.
    pub(crate) quotas: Quotas,
    /// Tenants whose flows relays may code together.
    pub(crate) shared_coding: Vec<SharedTenant>,
    /// Prices of relays, which agents' maps carry.
    pub(crate) prices: PriceSheets,
    /// Links and paths whose state applications may read.
    pub(crate) topology: Topology,
}

impl ControllerSettings {
    /// Default lifetime of grants. Because the controller renews grants at half of their lifetime,
    /// it may be absent for a day at any time.
    pub(crate) const GRANT_LIFETIME: Duration = Duration::from_secs(48 * 3_600);

    /// Shortest lifetime of grants that the settings permit. Relays thus work for half a day
    /// without the controller.
    pub(crate) const GRANT_LIFETIME_MIN: Duration = Duration::from_secs(24 * 3_600);

    /// Default maximum rate of a pairing's flows.
    pub(crate) const RATE: Rate = Rate::from_megabits_per_second(100);
}

/// Reason why the controller cannot start or continue.
#[derive(Debug, Error)]
pub(crate) enum ControllerError {
    /// The addresses for tokens are invalid.
    #[error("invalid `addresses` of [controller]: {0}")]
    Addresses(#[from] TokenError),
    /// The controller cannot listen on an address.
    #[error(
        "cannot listen on {address}: {cause}; set `listen` of [controller] to an address of this \
        machine and a free port (ss -tlpn shows those in use)"
    )]
    Listen {
        /// Address on which the controller should listen.
        address: SocketAddr,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The settings name a tenant that the database does not have.
    #[error(transparent)]
    UnknownTenant(#[from] Problem),
    /// The settings name no address to listen on.
    #[error("no address to listen on: set `listen` of [controller]")]
    NowhereToListen,
    /// The database cannot be opened, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the state directory, other than the database, cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The controller's identity in the database is invalid.
    #[error("cannot read the controller's keys: {0}; restore the state directory from a backup")]
    Identity(String),
    /// The HTTPS server failed.
    #[error("HTTPS server failed: {0}; start the controller again")]
    Serving(io::Error),
}

impl FamilyError for ControllerError {
    fn unsupported_family(&self) -> Option<SocketAddr> {
        match self {
            Self::Listen { address, cause } => is_family_unsupported(*address, cause).then_some(*address),
            _ => None,
        }
    }
}

impl ControllerError {
    /// Returns the kind of cause, which decides the exit code.
    pub(crate) const fn cause(&self) -> Cause {
        match self {
            Self::Addresses(_) | Self::UnknownTenant(_) | Self::NowhereToListen => Cause::Settings,
            Self::Listen { .. } | Self::Store(_) | Self::File(_) | Self::Identity(_) => Cause::Machine,
            Self::Serving(_) => Cause::Byway,
        }
    }
}

/// A running controller: it serves members and the administrator over HTTPS, and signs maps and
/// grants.
///
/// # Contract
/// - **Inputs**: HTTPS requests. Each handler validates its request, decides on a change of the
///   network, and writes it to the database before it answers.
/// - **Commands**: [`start`](Self::start) opens the database and the listeners;
///   [`stop`](Self::stop) ends all connections. Acknowledged changes are on the disk.
/// - **Outputs**: answers, and maps for the polls that a change wakes.
/// - **Order**: one change at a time. Reads never wait for the disk.
/// - **Time**: the clock is an argument of `start`. It dates grants and tokens.
/// - **Getters**: [`addresses`](Self::addresses) and [`status`](Self::status) change nothing.
///
/// `controller/node.rs` is the loop of the process; the tests of `membership` run it without one.
#[derive(Debug)]
pub(crate) struct Controller {
    addresses: Vec<SocketAddr>,
    state: Arc<State>,
    feed: Arc<StateFeed>,
    /// Sender whose drop ends all connections.
    stop: watch::Sender<()>,
    serving: JoinSet<()>,
}

impl Controller {
    /// Starts a controller, which serves requests from then on.
    ///
    /// # Errors
    /// If its state cannot be read or, on the first start, written, or if an address is in use.
    pub(crate) async fn start(
        settings: ControllerSettings,
        clock: WallClock,
    ) -> Result<Self, ControllerError> {
        let settings = validate(settings)?;
        let all = |addresses: &[SocketAddr]| addresses.iter().map(|address| listen(*address)).collect();
        let listeners: Vec<_> = listen_sockets::bind(&settings.listen, settings.listens_by_default, all)?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
        let addresses = addresses.map_err(ControllerError::Serving)?;
        let (state, served_at) = (settings.state.clone(), addresses.clone());
        let opened = tokio::task::spawn_blocking(move || open(&settings, &served_at, clock));
        let served = opened.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        tracing::info!("controller of {} listens on {addresses:?}", state.display());
        Self::serve(served, listeners, addresses)
    }

    fn serve(
        served: OpenedController,
        listeners: Vec<TcpListener>,
        addresses: Vec<SocketAddr>,
    ) -> Result<Self, ControllerError> {
        let tls =
            served.state.identity().tls().map_err(|error| ControllerError::Identity(error.to_string()))?;
        let (state, feed) = (served.state.clone(), served.feed.clone());
        let service = HttpService {
            gate: state.connections().clone(),
            tls: Some(TlsAcceptor::from(Arc::new(tls))),
            router: router(HttpState::new(served.state, served.feed, served.addresses)),
        };
        let (stop, mut serving) = (watch::Sender::new(()), JoinSet::new());
        let mut stopped = stop.subscribe();
        serving.spawn(state_feed::run(feed.clone(), async move { drop(stopped.changed().await) }));
        for listener in listeners {
            let mut stopped = stop.subscribe();
            // The value never changes. The wait ends with the sender.
            let stopped = async move { drop(stopped.changed().await) };
            serving.spawn(connections::serve(listener, service.clone(), stopped));
        }
        Ok(Self { addresses, state, feed, stop, serving })
    }

    /// Returns the addresses on which the controller listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns a function that reports the controller's current status.
    pub(crate) fn status(&self) -> impl Fn() -> ControllerStatus + Send + Sync + use<> {
        let (state, feed) = (self.state.clone(), self.feed.clone());
        move || ControllerStatus { network_state: feed.usage(), ..state.status() }
    }

    /// Returns a function that reports the costs of the network's relays.
    pub(crate) fn costs(&self) -> impl Fn() -> NetworkCost + Clone + Send + Sync + use<> {
        let state = self.state.clone();
        move || state.costs()
    }

    /// Returns a function that replaces the prices of relays, and wakes the pending polls: maps
    /// carry the new prices.
    pub(crate) fn price_setter(&self) -> impl Fn(PriceSheets) + Send + Sync + use<> {
        let state = self.state.clone();
        move |prices| state.set_prices(prices)
    }

    /// Returns a function that replaces the tenants whose flows relays may code together, and wakes
    /// the pending polls: maps carry other grants. It fails with the problem of an unknown tenant.
    pub(crate) fn shared_coding_setter(
        &self,
    ) -> impl Fn(&[SharedTenant]) -> Result<(), Problem> + Send + Sync + use<> {
        let state = self.state.clone();
        move |tenants| state.set_shared_coding(tenants)
    }

    /// Waits until the controller stops serving, which happens only if a serving task panics.
    ///
    /// # Errors
    /// None at present; a panic of a serving task is propagated.
    pub(crate) async fn ended(&mut self) -> Result<(), ControllerError> {
        match self.serving.join_next().await {
            Some(Ok(())) | None => Ok(()),
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Stops the controller: ends all connections. All acknowledged changes are on the disk.
    pub(crate) async fn stop(mut self) {
        drop(self.stop);
        while self.serving.join_next().await.is_some() {}
    }
}

/// State of a controller whose database is open, and the addresses for its tokens.
struct OpenedController {
    state: Arc<State>,
    feed: Arc<StateFeed>,
    addresses: Arc<[String]>,
}

fn validate(settings: ControllerSettings) -> Result<ControllerSettings, ControllerError> {
    if settings.listen.is_empty() {
        return Err(ControllerError::NowhereToListen);
    }
    if !settings.addresses.is_empty() {
        // Tokens will contain these addresses.
        Token::new(settings.addresses.clone(), [0; 32], [0; 32])?;
    }
    Ok(settings)
}

fn open(
    settings: &ControllerSettings,
    served_at: &[SocketAddr],
    clock: WallClock,
) -> Result<OpenedController, ControllerError> {
    files::make_folder(&settings.state)?;
    let mut store = Store::open(&settings.state.join(DATABASE))?;
    let stored = store.read()?;
    let identity = if let Some(bytes) = &stored.identity {
        Identity::parse(bytes).map_err(ControllerError::Identity)?
    } else {
        let identity = Identity::generate(&settings.network);
        store.write_identity(&identity.to_bytes())?;
        identity
    };
    let served_at: Vec<_> = served_at.iter().map(|address| reachable(*address).to_string()).collect();
    write_admin_token(&settings.state, &identity, &served_at)?;
    let grants = GrantSettings { lifetime: settings.grant_lifetime, rate: settings.rate };
    let network = NetworkSettings { grants, quotas: settings.quotas };
    let state = State::new(identity, store, &stored, network, clock.clone());
    let access = state.access().clone();
    let feed = StateFeed::new(settings.topology.clone(), access, clock, random::bytes());
    state.set_prices(settings.prices.clone());
    state.set_shared_coding(&settings.shared_coding)?;
    let addresses = if settings.addresses.is_empty() { served_at } else { settings.addresses.clone() };
    Ok(OpenedController { state: Arc::new(state), feed: Arc::new(feed), addresses: addresses.into() })
}

/// Writes the administrators' token into the state directory, unless the file has it already. If
/// the file exists, a failure, as of a full disk, is only logged.
fn write_admin_token(state: &Path, identity: &Identity, served_at: &[String]) -> Result<(), ControllerError> {
    let path = state.join(ADMIN_TOKEN);
    let token = Token::new(served_at[..1].to_vec(), *identity.pin(), *identity.admin_secret())?;
    let known = files::read(&path)?;
    if known.as_deref() == Some(token.to_text().as_str()) {
        return Ok(());
    }
    match files::replace(&path, &token.to_text()) {
        Err(error) if known.is_some() => {
            tracing::warn!("{error}; until then `byway token` cannot find the controller");
            Ok(())
        }
        written => Ok(written?),
    }
}

/// Returns the address by which processes of this machine reach a listener: for an unspecified
/// address, the loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn listen(address: SocketAddr) -> Result<TcpListener, ControllerError> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            // Otherwise, `[::]` and `0.0.0.0` conflict.
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket.into())
    };
    listen().map_err(|cause| ControllerError::Listen { address, cause })
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_family_that_the_machine_does_not_speak_is_told_from_a_port_in_use() {
        let unspoken = |address: &str, errno: Errno| {
            let cause = io::Error::from_raw_os_error(errno.raw_os_error());
            let address = address.parse().expect("an address");
            ControllerError::Listen { address, cause }.unsupported_family().is_some()
        };
        assert!(unspoken("[::]:4443", Errno::AFNOSUPPORT));
        assert!(unspoken("[::]:4443", Errno::ADDRNOTAVAIL));
        assert!(!unspoken("[2001:db8::1]:4443", Errno::ADDRNOTAVAIL), "it is of another machine");
        assert!(!unspoken("[::]:4443", Errno::ADDRINUSE));
    }
}
