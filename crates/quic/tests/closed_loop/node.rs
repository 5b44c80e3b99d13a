//! Endpoints of the libraries, without sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use byway_quic::{Factory, PathController};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::{noq_node, quinn_node};

pub(crate) const CLIENT_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 50_112);
pub(crate) const SERVER_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), 4_433);

/// Most bytes of a stream that are written and not acknowledged: many windows.
pub(crate) const SEND_BUFFER: u64 = 1 << 20;

/// QUIC library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Noq,
    Quinn,
}

/// Congestion control of a connection, as its library sees it.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) window: u64,
    /// Pacing rate, in the library's unit.
    pub(crate) pacing_rate: Option<u64>,
    pub(crate) send_quantum: Option<u64>,
    pub(crate) path: PathController,
}

/// Endpoint with one connection.
pub(crate) trait TestNode {
    fn receive(&mut self, datagram: &[u8], now: Instant);
    /// Returns the datagrams that may be sent now.
    fn transmit(&mut self, now: Instant) -> Vec<Vec<u8>>;
    fn deadline(&mut self) -> Option<Instant>;
    fn on_deadline(&mut self, now: Instant);
    /// Writes to a stream what its buffer holds.
    fn fill_stream(&mut self);
    /// Returns the number of bytes that have arrived in order since the last call.
    fn read_stream(&mut self) -> u64;
    /// Returns the congestion control that `byway_quic` made.
    fn observe(&self) -> Observation;
}

/// Certificate of the server.
pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Identity {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a valid name");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Self { certificate: made.cert.der().clone(), key: key.into() }
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a valid certificate");
        Arc::new(roots)
    }
}

/// Returns a client that connects, and a server. Without a factory, the library's own congestion
/// control sends.
pub(crate) fn connect(
    library: Library,
    factory: Option<&Arc<Factory>>,
    start: Instant,
) -> [Box<dyn TestNode>; 2] {
    match library {
        Library::Noq => noq_node::connect(Identity::new(), factory, start),
        Library::Quinn => quinn_node::connect(Identity::new(), factory, start),
    }
}
