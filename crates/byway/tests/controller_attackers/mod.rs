//! Attackers of a controller's interface, over TLS from addresses of their own, one file for each.

#![allow(dead_code, unreachable_pub, reason = "each attacker uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "attackers use sockets, threads and clocks"
)]

mod huge_bodies;
mod idle_connections;
mod slow_bodies;
mod slow_heads;
mod token_guesses;
mod unread_answers;

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned, version,
};
use socket2::{Domain, Socket, Type};

/// Timeout of a client's write or answer; slower ones count as not answered.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// Head of a request without its last line.
pub const HEAD: &str = "POST /v1/join HTTP/1.1\r\nhost: controller\r\ncontent-type: application/json\r\n";

/// Controller under attack, and the addresses of an attacker.
#[derive(Clone)]
pub struct Target {
    pub controller: SocketAddr,
    pub from: Vec<IpAddr>,
    /// Number of concurrent connections of an attacker.
    pub connections: usize,
    tls: Arc<ClientConfig>,
}

/// Connection with TLS.
pub type Connection = StreamOwned<ClientConnection, TcpStream>;

impl Target {
    pub fn new(controller: SocketAddr, from: Vec<IpAddr>, connections: usize) -> Self {
        Self { controller, from, connections, tls: Arc::new(tls()) }
    }

    /// Connects from one of the addresses, without TLS.
    pub fn connect(&self, number: usize) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.controller), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(self.from[number % self.from.len()], 0).into())?;
        socket.connect_timeout(&self.controller.into(), TIMEOUT)?;
        let stream = TcpStream::from(socket);
        // As a node does. Otherwise a request waits 40 ms for the kernel's delayed acknowledgement.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }

    /// Connects with TLS, and sends this text.
    pub fn open(&self, number: usize, text: &str) -> io::Result<Connection> {
        let name = ServerName::try_from("byway-controller").expect("it is a name");
        let session = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        let mut connection = StreamOwned::new(session, self.connect(number)?);
        connection.write_all(text.as_bytes())?;
        connection.flush()?;
        Ok(connection)
    }

    /// Sends a request over a new connection, and reads the answer.
    pub fn ask(&self, number: usize, request: &str) -> io::Result<String> {
        let mut connection = self.open(number, request)?;
        let mut answer = Vec::new();
        match connection.read_to_end(&mut answer) {
            // A peer that closes without TLS's close message has still answered.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof || answer.is_empty() => Err(error),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }
}

/// Attacker with open connections.
pub trait Attacker: Send {
    /// Performs the next step of the attack in some milliseconds, and returns its number of
    /// attempts.
    fn step(&mut self) -> u32;
}

/// An attack on a controller.
#[derive(Clone, Copy)]
pub struct Attack {
    pub name: &'static str,
    /// Opens its connections.
    pub begin: fn(Target) -> Box<dyn Attacker>,
    /// Number of connections at full size.
    pub connections: usize,
}

struct Nobody;

impl Attacker for Nobody {
    fn step(&mut self) -> u32 {
        std::thread::sleep(Duration::from_millis(20));
        0
    }
}

pub const CONTROL: Attack = Attack { name: "nobody", begin: |_| Box::new(Nobody), connections: 0 };

pub const ATTACKS: &[Attack] = &[
    slow_heads::ATTACK,
    slow_bodies::ATTACK,
    huge_bodies::ATTACK,
    idle_connections::ATTACK,
    unread_answers::ATTACK,
    token_guesses::ATTACK,
];

/// Connections that get a piece of data regularly, and are reopened after they are closed.
pub struct Held {
    target: Target,
    /// Data sent at the beginning.
    first: String,
    /// Data sent regularly.
    piece: &'static [u8],
    connections: Vec<Option<Connection>>,
    next: usize,
}

impl Held {
    /// Opens all connections.
    pub fn open(target: Target, first: String, piece: &'static [u8]) -> Self {
        let connections = (0..target.connections).map(|number| target.open(number, &first).ok()).collect();
        Self { target, first, piece, connections, next: 0 }
    }

    /// Sends a piece over some of the connections, over each about once a second.
    pub fn send_pieces(&mut self) -> u32 {
        let count = (self.connections.len() / 50).max(1);
        for _ in 0..count {
            self.next = (self.next + 1) % self.connections.len();
            let connection = &mut self.connections[self.next];
            let is_open = connection.as_mut().is_some_and(|open| open.write_all(self.piece).is_ok());
            if !is_open {
                *connection = self.target.open(self.next, &self.first).ok();
            }
        }
        std::thread::sleep(Duration::from_millis(20));
        u32::try_from(count).expect("few connections")
    }
}

/// Returns a configuration of TLS 1.3 that accepts any certificate, because only timely answers are
/// measured.
pub fn tls() -> ClientConfig {
    let provider = Arc::new(default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .expect("the provider has suites of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.enable_sni = false;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// Verifier that accepts any certificate.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
