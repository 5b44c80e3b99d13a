//! Tests of the status server, over real sockets.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::*;
use crate::connections::Limits;

struct TestServer {
    address: SocketAddr,
    gate: ConnectionLimiter,
    _serving: JoinHandle<()>,
}

impl TestServer {
    async fn open(limits: Limits) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let query: NodeQuery = Arc::new(|| {
            let report =
                NodeReport { status: serde_json::json!({}), metrics: "# EOF\n".to_owned(), is_ready: true };
            Box::pin(async move { Some(report) })
        });
        let (_, reload_handle) = crate::reload::ReloadRequests::listen().expect("signals");
        let gate = ConnectionLimiter::new(limits);
        let service = service(gate.clone(), query, reload_handle, Router::new());
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(connections::serve(listener, service, std::future::pending()));
        Self { address, gate, _serving: serving }
    }

    async fn get(&self, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("it is accepted");
        let request = format!("GET {path} HTTP/1.1\r\n{host}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it is answered");
        answer
    }
}

#[tokio::test]
async fn a_request_to_another_host_is_refused_with_the_remedy_and_counted() {
    let port = TestServer::open(CONNECTIONS).await;
    for host in ["host: evil.example.com\r\n", "host: evil.example.com:4680\r\n", "host: 192.0.2.1\r\n"] {
        for path in ["/v1/status", "/metrics", "/v1/ready", "/nothing"] {
            let answer = port.get(path, host).await;
            assert!(
                answer.starts_with("HTTP/1.1 421") && answer.contains("observe.listen"),
                "{host}: {answer}"
            );
        }
    }
    let rebound = port.get("http://evil.example.com/v1/status", "host: localhost\r\n").await;
    assert!(rebound.starts_with("HTTP/1.1 421"), "{rebound}");
    for host in [format!("host: {}\r\n", port.address), "host: localhost\r\n".to_owned()] {
        let answer = port.get("/v1/status", &host).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let metrics = port.get("/metrics", "host: localhost\r\n").await;
    assert!(metrics.contains("byway_observe_refused_total{reason=\"host\"} 13"), "{metrics}");
}

#[tokio::test]
async fn connections_without_a_request_keep_nobody_from_the_status() {
    let port = TestServer::open(CONNECTIONS).await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(port.address).await.expect("it is accepted"));
    }
    let answer = port.get("/v1/status", "host: localhost\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(port.gate.connections()[0] <= CONNECTIONS_MAX);
}

#[tokio::test]
async fn a_connection_without_a_request_ends() {
    let port = TestServer::open(Limits { timeout: Duration::from_millis(100), ..CONNECTIONS }).await;
    let mut idle = TcpStream::connect(port.address).await.expect("it is accepted");
    let mut answer = Vec::new();
    // The connection closes with or without an answer.
    let _ = idle.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}
