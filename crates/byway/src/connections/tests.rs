//! Attacks on connections: in virtual time over streams in memory, and with short timeouts over
//! real sockets.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use futures_util::stream;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::*;

/// Bytes of the test page: as many as the description of the controller's interface has.
const PAGE_BYTES: usize = 60 << 10;

/// Bytes that a stream in memory buffers, as the buffers of a connection do.
const STREAM_BYTES: usize = 128 << 10;

const REQUEST: &str = "GET /page HTTP/1.1\r\nhost: localhost\r\n\r\n";

const LIMITS: Limits = Limits {
    all: 64,
    strangers: 48,
    strangers_of_address: 40,
    strangers_of_network: 44,
    of_member: 2,
    timeout: Duration::from_secs(10),
    stranger_lifetime: Duration::from_secs(30),
};

fn router() -> Router {
    Router::new()
        .route("/page", get(async || "x".repeat(PAGE_BYTES)))
        .route("/long", get(async || "x".repeat(1 << 20)))
        .route("/poll", get(async || sleep(Duration::from_secs(25)).await))
        .route("/body", post(async |body: String| body.len().to_string()))
        .layer(DefaultBodyLimit::max(64 << 10))
}

fn service(limits: Limits) -> HttpService {
    HttpService { gate: ConnectionLimiter::new(limits), tls: None, router: router() }
}

/// One connection in memory.
struct TestConnection {
    service: HttpService,
    client: DuplexStream,
    /// Lifetime of the connection.
    lasted: JoinHandle<Duration>,
}

impl TestConnection {
    fn begin(service: HttpService, member: Option<u32>) -> Self {
        let (client, stream) = duplex(STREAM_BYTES);
        let permit = service.gate.admit(Ipv4Addr::LOCALHOST.into()).expect("below the limits");
        if let Some(member) = member {
            permit.note_member(member);
        }
        let peer = (Ipv4Addr::LOCALHOST, 50_000).into();
        let (serving, begun) = (service.clone(), Instant::now());
        let lasted = tokio::spawn(async move {
            serve_until_ended(stream, peer, permit, serving).await;
            begun.elapsed()
        });
        Self { service, client, lasted }
    }

    fn of_stranger() -> Self {
        Self::begin(service(LIMITS), None)
    }

    fn of_member() -> Self {
        Self::begin(service(LIMITS), Some(7))
    }

    async fn send(&mut self, text: &str) -> io::Result<()> {
        self.client.write_all(text.as_bytes()).await
    }

    /// Waits for the end of the connection; returns its lifetime in seconds.
    async fn lasted(self) -> f64 {
        let Self { client, lasted, .. } = self;
        let lasted = lasted.await.expect("no panic");
        drop(client);
        lasted.as_secs_f64()
    }

    fn ended(&self, reason: Reason) -> u64 {
        count(&self.service.gate, reason)
    }
}

fn count(gate: &ConnectionLimiter, reason: Reason) -> u64 {
    let index = Reason::ALL.iter().position(|one| *one == reason).expect("all are listed");
    gate.ended()[index].count
}

fn is_about(seconds: f64, expected: f64) -> bool {
    (expected..expected + 0.1).contains(&seconds)
}

#[tokio::test(start_paused = true)]
async fn who_pipelines_requests_and_reads_no_answer_is_gone_after_ten_seconds() {
    for begin in [TestConnection::of_stranger, TestConnection::of_member] {
        let mut conversation = begin();
        conversation.send(&REQUEST.repeat(400)).await.expect("it fits");
        let gate = conversation.service.gate.clone();
        let lasted = conversation.lasted().await;
        assert!(is_about(lasted, 10.0), "{lasted} s");
        assert!(count(&gate, Reason::Unread) == 1 && gate.connections() == [0, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_reads_costs_64_kib_until_it_ends_after_ten_seconds() {
    const EVENT: &[u8] = &[b'x'; 1 << 10];
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let endless = async move || {
        Body::from_stream(stream::repeat_with(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Bytes::from_static(EVENT))
        }))
    };
    let router = Router::new().route("/stream", get(endless));
    let mut conversation = TestConnection::begin(HttpService { router, ..service(LIMITS) }, Some(7));
    conversation.send("GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it fits");
    let lasted = conversation.lasted().await;
    assert!(is_about(lasted, 10.0), "{lasted} s");
    let bytes = made.load(Ordering::Relaxed) * EVENT.len();
    assert!(bytes > STREAM_BYTES / 2, "{bytes} bytes: it was not served");
    assert!(bytes < STREAM_BYTES + (64 << 10), "{bytes} bytes beside those of the kernel");
}

#[tokio::test(start_paused = true)]
async fn who_reads_a_byte_now_and_then_is_gone_also_as_a_member() {
    let mut conversation = TestConnection::of_member();
    conversation.send(&REQUEST.repeat(400)).await.expect("it fits");
    let begun = Instant::now();
    while conversation.client.read_u8().await.is_ok() && !conversation.lasted.is_finished() {
        sleep(Duration::from_secs(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
    }
    assert_eq!(conversation.ended(Reason::Unread), 1);
}

#[tokio::test(start_paused = true)]
async fn a_member_on_a_slow_link_gets_its_whole_map() {
    let mut conversation = TestConnection::of_member();
    conversation
        .send("GET /long HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .expect("it fits");
    let (mut chunk, mut bytes) = ([0; 8 << 10], 0);
    loop {
        let read = conversation.client.read(&mut chunk).await.expect("it is served");
        if read == 0 {
            break;
        }
        bytes += read;
        sleep(Duration::from_secs(1)).await;
    }
    assert!(bytes > 1 << 20, "{bytes} bytes");
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_sends_a_head_byte_by_byte_is_gone_after_ten_seconds() {
    let lasted = TestConnection::of_stranger().lasted().await;
    assert!(is_about(lasted, 10.0), "{lasted} s");
    let mut slow = TestConnection::of_stranger();
    let begun = Instant::now();
    for byte in REQUEST.repeat(9).bytes() {
        if slow.client.write_u8(byte).await.is_err() || slow.lasted.is_finished() {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(12), "it goes on");
    let lasted = slow.lasted().await;
    assert!(is_about(lasted, 10.0), "{lasted} s");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_byte_by_byte_ends_with_the_strangers_time() {
    let mut slow = TestConnection::of_stranger();
    slow.send("POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n")
        .await
        .expect("it fits");
    let begun = Instant::now();
    while slow.client.write_u8(b'x').await.is_ok() && !slow.lasted.is_finished() {
        sleep(Duration::from_secs(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
    }
    assert_eq!(slow.ended(Reason::Lifetime), 1);
    let lasted = slow.lasted().await;
    assert!(is_about(lasted, 30.0), "{lasted} s");
}

#[tokio::test(start_paused = true)]
async fn a_body_without_an_end_is_refused_before_it_is_read() {
    let mut endless = TestConnection::of_stranger();
    endless
        .send("POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000000000\r\n\r\n")
        .await
        .expect("it fits");
    let chunk = vec![b'x'; 16 << 10];
    let mut sent = 0;
    while endless.client.write_all(&chunk).await.is_ok() && sent < 64 << 20 {
        sent += chunk.len();
    }
    assert!(sent < 1 << 20, "{sent} bytes were taken");
    let mut answer = Vec::new();
    // The rest of a connection that its other end closed may be lost.
    let _ = endless.client.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer));
    let lasted = endless.lasted().await;
    assert!(lasted < 1.0, "{lasted} s");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_long_is_refused() {
    let mut long = TestConnection::of_stranger();
    long.send(&format!("GET /page HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(64 << 10)))
        .await
        .expect("it fits");
    let mut answer = String::new();
    long.client.read_to_string(&mut answer).await.expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_asks_again_and_again_has_thirty_seconds_and_a_member_has_no_end() {
    for lasts in [false, true] {
        let mut conversation =
            if lasts { TestConnection::of_member() } else { TestConnection::of_stranger() };
        let mut answers = 0;
        let mut buffer = [0; 1 << 10];
        for _ in 0..4 {
            let is_sent = conversation.send("GET /poll HTTP/1.1\r\nhost: localhost\r\n\r\n").await.is_ok();
            if is_sent && matches!(conversation.client.read(&mut buffer).await, Ok(1..)) {
                answers += 1;
            }
        }
        assert_eq!(answers, if lasts { 4 } else { 1 });
        assert_eq!(conversation.ended(Reason::Lifetime), u64::from(!lasts));
    }
}

fn tls() -> TlsAcceptor {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .expect("a key of its own");
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test(start_paused = true)]
async fn a_tls_handshake_that_does_not_come_is_waited_for_ten_seconds() {
    for hello in ["", "\x16\x03\x01\x02"] {
        let service = HttpService { tls: Some(tls()), ..service(LIMITS) };
        let gate = service.gate.clone();
        let mut silent = TestConnection::begin(service, None);
        silent.send(hello).await.expect("it fits");
        let lasted = silent.lasted().await;
        assert!(is_about(lasted, 10.0), "{lasted} s");
        assert_eq!(count(&gate, Reason::Handshake), 1);
    }
}

/// Service on a port of the loopback.
struct TestServer {
    address: SocketAddr,
    gate: ConnectionLimiter,
    _serving: JoinHandle<()>,
}

impl TestServer {
    async fn open(limits: Limits) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let service = service(limits);
        let (address, gate) = (listener.local_addr().expect("an address"), service.gate.clone());
        Self { address, gate, _serving: tokio::spawn(serve(listener, service, pending())) }
    }

    /// Connects from one of the loopback's addresses.
    async fn connect(&self, third: u8, last: u8) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        let from = IpAddr::from([127, 0, third, last]);
        socket.bind((from, 0).into()).expect("an address of this machine");
        socket.connect(self.address).await.expect("it is accepted")
    }

    /// Requests the page, and reads it.
    async fn page(&self, third: u8) -> io::Result<usize> {
        let mut client = self.connect(third, 1).await;
        client.write_all(REQUEST.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await
    }

    async fn until(&self, connections: [usize; 2]) {
        let waited = async {
            while self.gate.connections() != connections {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), waited)
            .await
            .unwrap_or_else(|_| panic!("{:?} connections", self.gate.connections()));
    }
}

#[tokio::test]
async fn real_clients_that_pipeline_and_read_nothing_lose_their_connections() {
    let limits = Limits { timeout: Duration::from_millis(300), ..LIMITS };
    let port = TestServer::open(limits).await;
    let mut clients = Vec::new();
    for last in 1..=20 {
        let mut client = port.connect(1, last).await;
        client.write_all(REQUEST.repeat(400).as_bytes()).await.expect("it fits");
        clients.push(client);
    }
    port.until([0, 0]).await;
    assert_eq!(count(&port.gate, Reason::Unread), 20);
    assert_eq!(count(&port.gate, Reason::Lifetime), 0);
}

#[tokio::test]
async fn connections_of_many_addresses_keep_no_newcomer_out() {
    let port = TestServer::open(LIMITS).await;
    let mut idle = Vec::new();
    for number in 0..200 {
        idle.push(port.connect(2 + number / 40, 1 + number % 40).await);
    }
    port.until([LIMITS.strangers, 0]).await;
    assert!(port.page(9).await.expect("it is answered") > PAGE_BYTES);
    assert!(port.page(2).await.expect("one of the busy network, too") > PAGE_BYTES);
    assert!(count(&port.gate, Reason::Full) >= 150);
}

#[tokio::test]
async fn one_address_has_its_share_and_is_answered_at_it() {
    let limits = Limits { strangers_of_address: 4, ..LIMITS };
    let port = TestServer::open(limits).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(port.connect(1, 1).await);
    }
    assert!(port.page(1).await.expect("it is answered") > PAGE_BYTES);
    assert!(count(&port.gate, Reason::AddressShare) >= 16);
}
