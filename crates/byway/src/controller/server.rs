//! Starting and ending a controller.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use byway_api::ControllerStatus;
use byway_net::is_family_unsupported;
use byway_units::Rate;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::http::{Served, router};
use super::identity::Identity;
use super::network::{GrantSettings, Quotas};
use super::state::{NetworkSettings, State};
use super::store::{Store, StoreError};
use crate::connections::{self, HttpService};
use crate::exit::Cause;
use crate::listening::{self, FamilyError};
use crate::membership::WallClock;
use crate::membership::files::{self, FileError};
use crate::token::{Token, TokenError};

/// The file in the state directory that administrators show.
pub(super) const ADMIN_TOKEN: &str = "admin.token";

const DATABASE: &str = "controller.redb";

/// Connections that wait to be accepted: those of a thousand nodes that return at once.
const BACKLOG: i32 = 1_024;

/// How a controller is to be.
#[derive(Clone, Debug)]
pub(crate) struct ControllerSettings {
    /// Where it listens.
    pub(crate) listen: Vec<SocketAddr>,
    /// Whether that is the default, of which a family that the machine does not speak is left out.
    pub(crate) listens_by_default: bool,
    /// Where nodes find it, as `host:port`: what tokens name. None: where it listens.
    pub(crate) addresses: Vec<String>,
    /// The folder of its state.
    pub(crate) state: PathBuf,
    /// The network's name, which counts on the first start.
    pub(crate) network: String,
    /// How long grants last: [`ControllerSettings::GRANT_LIFETIME_MIN`] at least.
    pub(crate) grant_lifetime: Duration,
    /// What all flows of a pairing may send together.
    pub(crate) rate: Rate,
    /// Quotas of tenants.
    pub(crate) quotas: Quotas,
}

impl ControllerSettings {
    /// How long grants last by default: the controller may be away for a day at any time, as they are renewed after half
    /// of it.
    pub(crate) const GRANT_LIFETIME: Duration = Duration::from_secs(48 * 3_600);

    /// The shortest life of grants: relays work for a day without the controller.
    pub(crate) const GRANT_LIFETIME_MIN: Duration = Duration::from_secs(24 * 3_600);

    /// What a pairing may send by default.
    pub(crate) const RATE: Rate = Rate::from_megabits_per_second(100);
}

/// Why there is no controller.
#[derive(Debug, Error)]
pub(crate) enum ControllerError {
    /// What tokens would name.
    #[error("`addresses` of [controller]: {0}")]
    Addresses(#[from] TokenError),
    /// An address to listen on.
    #[error(
        "listening on {address} fails: {cause}; set `listen` of [controller] to an address of this machine and a port that is free \
         (ss -tlpn shows who has it)"
    )]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        cause: io::Error,
    },
    /// None was named.
    #[error("there is no address to listen on: set `listen` of [controller]")]
    NowhereToListen,
    /// The state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file beside it.
    #[error(transparent)]
    File(#[from] FileError),
    /// What the state says of the controller.
    #[error("the controller's keys cannot be read: {0}; restore the state directory from a backup")]
    Identity(String),
    /// The connections' end.
    #[error("serving failed: {0}; start the controller again")]
    Serving(io::Error),
}

impl FamilyError for ControllerError {
    fn unspoken(&self) -> Option<SocketAddr> {
        match self {
            Self::Listen { address, cause } => is_family_unsupported(*address, cause).then_some(*address),
            _ => None,
        }
    }
}

impl ControllerError {
    /// Whom it is up to.
    pub(crate) const fn cause(&self) -> Cause {
        match self {
            Self::Addresses(_) | Self::NowhereToListen => Cause::Settings,
            Self::Listen { .. } | Self::Store(_) | Self::File(_) | Self::Identity(_) => Cause::Machine,
            Self::Serving(_) => Cause::Byway,
        }
    }
}

/// A controller that runs.
#[derive(Debug)]
pub(crate) struct Controller {
    addresses: Vec<SocketAddr>,
    state: Arc<State>,
    /// Ends all connections when it is dropped.
    stop: watch::Sender<()>,
    serving: JoinSet<()>,
}

impl Controller {
    /// Starts a controller. Once this returns, it answers.
    ///
    /// # Errors
    /// If its state cannot be read or, on the first start, written, or an address is taken.
    pub(crate) async fn start(
        settings: ControllerSettings,
        clock: WallClock,
    ) -> Result<Self, ControllerError> {
        let settings = checked(settings)?;
        let all = |addresses: &[SocketAddr]| addresses.iter().map(|address| listen(*address)).collect();
        let listeners: Vec<_> = listening::bind(&settings.listen, settings.listens_by_default, all)?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
        let addresses = addresses.map_err(ControllerError::Serving)?;
        let (state, served_at) = (settings.state.clone(), addresses.clone());
        let opened = tokio::task::spawn_blocking(move || open(&settings, &served_at, clock));
        let served = opened.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        tracing::info!("controller of {} listens on {addresses:?}", state.display());
        Self::serve(served, listeners, addresses)
    }

    fn serve(
        served: Opened,
        listeners: Vec<TcpListener>,
        addresses: Vec<SocketAddr>,
    ) -> Result<Self, ControllerError> {
        let tls =
            served.state.identity().tls().map_err(|error| ControllerError::Identity(error.to_string()))?;
        let state = served.state.clone();
        let service = HttpService {
            gate: state.connections().clone(),
            tls: Some(TlsAcceptor::from(Arc::new(tls))),
            router: router(Served::new(served.state, served.addresses)),
        };
        let (stop, mut serving) = (watch::Sender::new(()), JoinSet::new());
        for listener in listeners {
            let mut stopped = stop.subscribe();
            // It never changes: the wait ends with the sender.
            let stopped = async move { drop(stopped.changed().await) };
            serving.spawn(connections::serve(listener, service.clone(), stopped));
        }
        Ok(Self { addresses, state, stop, serving })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What says how it is, at any time.
    pub(crate) fn status(&self) -> impl Fn() -> ControllerStatus + Send + Sync + use<> {
        let state = self.state.clone();
        move || state.status()
    }

    /// Waits until it serves no more, which it does for ever unless something fails.
    ///
    /// # Errors
    /// Always: what failed.
    pub(crate) async fn ended(&mut self) -> Result<(), ControllerError> {
        match self.serving.join_next().await {
            Some(Ok(())) | None => Ok(()),
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Ends it. What was acknowledged is on the disk.
    pub(crate) async fn stop(mut self) {
        drop(self.stop);
        while self.serving.join_next().await.is_some() {}
    }
}

/// What is served.
struct Opened {
    state: Arc<State>,
    addresses: Arc<[String]>,
}

fn checked(settings: ControllerSettings) -> Result<ControllerSettings, ControllerError> {
    if settings.listen.is_empty() {
        return Err(ControllerError::NowhereToListen);
    }
    if !settings.addresses.is_empty() {
        // With these addresses tokens will be made.
        Token::new(settings.addresses.clone(), [0; 32], [0; 32])?;
    }
    Ok(settings)
}

fn open(
    settings: &ControllerSettings,
    served_at: &[SocketAddr],
    clock: WallClock,
) -> Result<Opened, ControllerError> {
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
    let state = State::new(identity, store, &stored, network, clock);
    let addresses = if settings.addresses.is_empty() { served_at } else { settings.addresses.clone() };
    Ok(Opened { state: Arc::new(state), addresses: addresses.into() })
}

/// Writes what `byway token` needs, unless it is there. A disk that is full does not keep a controller from starting that
/// had started before.
fn write_admin_token(state: &Path, identity: &Identity, served_at: &[String]) -> Result<(), ControllerError> {
    let path = state.join(ADMIN_TOKEN);
    let token = Token::new(served_at[..1].to_vec(), *identity.pin(), *identity.admin_secret())?;
    let known = files::read(&path)?;
    if known.as_deref() == Some(token.to_text().as_str()) {
        return Ok(());
    }
    match files::replace(&path, &token.to_text()) {
        Err(error) if known.is_some() => {
            tracing::warn!("{error}; `byway token` does not find the controller meanwhile");
            Ok(())
        }
        written => Ok(written?),
    }
}

/// Where to reach, from this machine, what listens there.
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
            // `[::]` and `0.0.0.0` can be listened on both.
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
            ControllerError::Listen { address, cause }.unspoken().is_some()
        };
        assert!(unspoken("[::]:4443", Errno::AFNOSUPPORT));
        assert!(unspoken("[::]:4443", Errno::ADDRNOTAVAIL));
        assert!(!unspoken("[2001:db8::1]:4443", Errno::ADDRNOTAVAIL), "it is of another machine");
        assert!(!unspoken("[::]:4443", Errno::ADDRINUSE));
    }
}
