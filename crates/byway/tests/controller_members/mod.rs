//! Members of a network with a controller, which poll and report as agents and relays do. All of
//! them are in one process, each with an address of its own.

#![allow(unreachable_pub, reason = "module of tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "members use sockets and clocks")]
#![allow(clippy::cast_precision_loss, reason = "counts of members")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hmac;
use byway_api::{
    BytesToRelay, JoinAnswer, JoinRequest, NetworkAnswer, NetworkMap, PairingRequest, RelayUsage, Role,
    RoundTrip, SelfUpdate, SignedMap,
};
use byway_wire::seal::StaticSecret;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Serialize;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;

/// Longest time of any request: a poll is answered within 25 s.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Number of requests at the same time while members join.
const JOINS_AT_ONCE: usize = 16;

/// Number of agents with which each agent requests to be paired. Of flows, a controller sees only
/// these pairs.
pub const PAIRINGS: usize = 5;

/// Interval of a member's reports: agents repeat an unchanged one after five minutes, and report
/// changed round trips at once. Here, every other report has a changed one.
const REPORT_INTERVAL: Duration = Duration::from_secs(150);

/// Interval of a relay's reports of its traffic.
const USAGE_INTERVAL: Duration = Duration::from_secs(300);

/// Time in which all members begin to poll.
const BEGIN: Duration = Duration::from_secs(3);

/// Counts of what members requested.
#[derive(Debug, Default)]
pub struct Requests {
    pub maps: AtomicU64,
    pub unchanged: AtomicU64,
    pub reports: AtomicU64,
    pub failed: AtomicU64,
}

/// Client of a controller for members at addresses of their own.
#[derive(Clone)]
pub struct MemberClient {
    controller: SocketAddr,
    tls: TlsConnector,
    pub requests: Arc<Requests>,
}

/// A member of the network.
#[derive(Clone, Debug)]
pub struct LoadingMember {
    pub index: usize,
    pub role: Role,
    pub number: u32,
    bearer: String,
}

/// Connection of a member to the controller.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    bearer: Option<String>,
}

impl MemberClient {
    pub fn new(controller: SocketAddr, tls: rustls::ClientConfig) -> Self {
        Self { controller, tls: TlsConnector::from(Arc::new(tls)), requests: Arc::default() }
    }

    /// Joins the network with so many members of a role.
    pub async fn join(&self, role: Role, count: usize, token: &str) -> Vec<LoadingMember> {
        let secret = secret_of_token(token);
        let joining = stream::iter(0..count).map(|index| self.join_one(role, index, secret.clone()));
        joining.buffered(JOINS_AT_ONCE).collect().await
    }

    async fn join_one(&self, role: Role, index: usize, token: String) -> LoadingMember {
        let mut connection = self.connect(role, index, None).await;
        let network: NetworkAnswer = connection.get("/v1/network").await;
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&index.to_be_bytes());
        bytes[8] = u8::from(role == Role::Relay);
        let key = StaticSecret::from_bytes(bytes).public_key().to_string();
        let mut request = JoinRequest {
            token,
            role,
            name: format!("{role}-{index}"),
            key,
            proof: String::new(),
            addresses: vec![SocketAddr::new(source(role, index), 4_600)],
            shards: 1,
            unix_seconds: unix_seconds(),
        };
        let join_key = HEXLOWER.decode(network.join_key.as_bytes()).expect("digits");
        let secret = PrivateKey::from_private_key(&X25519, &bytes).expect("a key");
        let peer = UnparsedPublicKey::new(&X25519, join_key);
        let proof = agree(&secret, peer, (), |shared| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, shared);
            Ok(HEXLOWER.encode(hmac::sign(&key, request.proved().as_bytes()).as_ref()))
        });
        request.proof = proof.expect("they agree");
        let answer = connection.send(Method::POST, "/v1/join", &request).await;
        let joined: JoinAnswer = serde_json::from_slice(&expect_ok(answer)).expect("JSON");
        LoadingMember { index, role, number: joined.number, bearer: joined.bearer }
    }

    /// Pairs each agent with the next ones in the list.
    pub async fn pair(&self, agents: &[LoadingMember]) {
        let pairing = stream::iter(agents).map(async |agent: &LoadingMember| {
            let mut connection = self.connect(agent.role, agent.index, Some(&agent.bearer)).await;
            for step in 1..=PAIRINGS {
                let peer = format!("agent-{}", (agent.index + step) % agents.len());
                expect_ok(connection.send(Method::POST, "/v1/pairings", &PairingRequest { peer }).await);
            }
        });
        pairing.buffered(JOINS_AT_ONCE).collect::<()>().await;
    }

    /// Starts to poll and to report as each of these members does. The tasks never end, unless a
    /// request has no answer.
    pub fn start(&self, members: &[LoadingMember], relays: &[u32]) -> Vec<JoinHandle<()>> {
        let (begun, mut tasks) = (Instant::now(), Vec::new());
        for member in members {
            let phase = |interval: Duration| {
                interval.mul_f64(f64::from(u32::try_from(member.index).expect("few")) / members.len() as f64)
            };
            tasks.push(tokio::spawn(self.clone().poll(member.clone(), begun + phase(BEGIN))));
            let interval = if member.role == Role::Agent { REPORT_INTERVAL } else { USAGE_INTERVAL };
            let first = begun + phase(BEGIN);
            let next = begun + BEGIN + phase(interval);
            let reporting = self.clone().report(member.clone(), relays.to_vec(), [first, next], interval);
            tasks.push(tokio::spawn(reporting));
        }
        tasks
    }

    async fn poll(self, member: LoadingMember, at: Instant) {
        sleep_until(at).await;
        let mut connection = self.connect(member.role, member.index, Some(&member.bearer)).await;
        let mut path = "/v1/map".to_owned();
        loop {
            let (status, body) = connection.send(Method::GET, &path, &()).await;
            match status {
                StatusCode::NO_CONTENT => _ = self.requests.unchanged.fetch_add(1, Ordering::Relaxed),
                StatusCode::OK => {
                    let signed: SignedMap = serde_json::from_slice(&body).expect("JSON");
                    let map: NetworkMap = serde_json::from_str(&signed.map).expect("JSON");
                    path = format!("/v1/map?after={}", map.revision);
                    self.requests.maps.fetch_add(1, Ordering::Relaxed);
                }
                _ => _ = self.requests.failed.fetch_add(1, Ordering::Relaxed),
            }
        }
    }

    async fn report(self, member: LoadingMember, relays: Vec<u32>, times: [Instant; 2], interval: Duration) {
        sleep_until(times[0]).await;
        for number in 0_u32.. {
            if let Some(later) = number.checked_sub(1) {
                sleep_until(times[1] + interval * later).await;
            }
            // The controller closes connections that are idle for longer than a poll.
            let mut connection = self.connect(member.role, member.index, Some(&member.bearer)).await;
            let update = match member.role {
                Role::Agent => agent_report(&member, &relays, number),
                Role::Relay => relay_report(&relays, number),
                role @ (Role::Link | Role::Application) => unreachable!("no member is a {role:?}"),
            };
            let (status, _) = connection.send(Method::PUT, "/v1/self", &update).await;
            let counted = if status.is_success() { &self.requests.reports } else { &self.requests.failed };
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn connect(&self, role: Role, index: usize, bearer: Option<&str>) -> Connection {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::new(source(role, index), 0)).expect("the address is of the loopback");
        let stream = socket.connect(self.controller).await.expect("the controller listens");
        stream.set_nodelay(true).expect("a connection");
        let name = ServerName::try_from("byway-controller").expect("a name");
        let stream = self.tls.connect(name, stream).await.expect("TLS");
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(async { drop(connection.await) });
        Connection { sender, bearer: bearer.map(|bearer| format!("Bearer {bearer}")) }
    }
}

impl Connection {
    async fn get<T: serde::de::DeserializeOwned>(&mut self, path: &str) -> T {
        serde_json::from_slice(&expect_ok(self.send(Method::GET, path, &()).await)).expect("JSON")
    }

    /// Sends a request, and returns its status and body. Requests by GET have no body.
    async fn send(&mut self, method: Method, path: &str, body: &impl Serialize) -> (StatusCode, Bytes) {
        let has_body = method != Method::GET;
        let mut request = Request::builder().method(method).uri(path).header(HOST, "controller");
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        let mut content = Bytes::new();
        if has_body {
            request = request.header(CONTENT_TYPE, "application/json");
            content = serde_json::to_vec(body).expect("texts and numbers").into();
        }
        let request = request.body(Full::new(content)).expect("a request");
        let answering = async {
            self.sender.ready().await.expect("the connection lasts");
            let answer = self.sender.send_request(request).await.expect("an answer");
            let status = answer.status();
            (status, answer.into_body().collect().await.expect("its body").to_bytes())
        };
        timeout(TIMEOUT, answering).await.expect("the controller answers")
    }
}

fn expect_ok((status, body): (StatusCode, Bytes)) -> Bytes {
    assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    body
}

/// Returns the report of an agent: its round trips to all relays. In every other report, that to
/// one more of them has changed by three tenths.
fn agent_report(member: &LoadingMember, relays: &[u32], number: u32) -> SelfUpdate {
    let changed = number.div_ceil(2);
    let round_trip = |(nth, relay): (usize, &u32)| {
        let base = 5_000 + (member.index * 7_919 + nth * 104_729) as u64 % 95_000;
        let is_changed = changed as usize % (relays.len() + 1) > nth;
        RoundTrip { relay: *relay, microseconds: if is_changed { base * 13 / 10 } else { base } }
    };
    SelfUpdate {
        addresses: Some(vec![SocketAddr::new(source(member.role, member.index), 4_600)]),
        round_trips: Some(relays.iter().enumerate().map(round_trip).collect()),
        ..SelfUpdate::default()
    }
}

/// Returns the report of a relay: its traffic of the month to all agents and to each relay.
fn relay_report(relays: &[u32], number: u32) -> SelfUpdate {
    let bytes = 1_000_000_000 * u64::from(number + 1);
    let others = relays.iter().map(|relay| BytesToRelay { relay: Some(*relay), bytes });
    let usage = RelayUsage {
        since_unix_seconds: unix_seconds() - 60,
        until_unix_seconds: unix_seconds(),
        received_bytes: bytes,
        sent: std::iter::once(BytesToRelay { relay: None, bytes }).chain(others).collect(),
        percentile_95_sample_bytes: bytes,
    };
    SelfUpdate { usage: Some(usage), ..SelfUpdate::default() }
}

/// Returns the address of a member. A network of 256 addresses has 64 of them: more would exceed
/// the limit of joins from one network.
fn source(role: Role, index: usize) -> IpAddr {
    let [high, low] = u16::try_from(index).expect("few members").to_be_bytes();
    let (network, host) = ((high << 2) | (low >> 6), low & 63);
    Ipv4Addr::new(127, if role == Role::Relay { 33 } else { 32 }, network, host + 1).into()
}

/// Returns the secret of a token's text, as digits: before the checksum of four bytes.
fn secret_of_token(token: &str) -> String {
    let text = token.trim().strip_prefix("byway1.").expect("a token");
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).expect("Base64");
    let end = bytes.len() - 4;
    HEXLOWER.encode(&bytes[end - 32..end])
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}
