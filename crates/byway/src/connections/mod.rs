//! HTTP server with limits on connections, for the controller's interface and for a node's status.
//!
//! [`serve`] accepts connections, and [`ConnectionLimiter`] admits them. Timeouts end a slow TLS
//! handshake, a slow head of a request, a client that reads no answer, and the whole connection of
//! a stranger.

mod limiter;
mod source;
#[cfg(test)]
mod tests;
mod write_timeout;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub(crate) use limiter::{ConnectionLimiter, ConnectionPermit, Limits, Reason};
pub(crate) use source::Source;

use write_timeout::WriteTimeoutStream;

/// Longest head of a request, in bytes. Tokens and bearer secrets have less than 300 bytes. Six
/// thousand strangers that send such heads occupy 100 MB.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Bytes of an answer that the kernel buffers for one connection. A client that reads nothing
/// occupies no more than that.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// Bytes of an answer that TLS buffers for one connection: those of a record. With the default of
/// 64 KiB, a stream that nobody reads would occupy twice as much as it may.
const TLS_BUFFER_BYTES: usize = 16 << 10;

/// Interval between attempts to accept a connection while the process has no file descriptor left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// HTTP service for accepted connections: admission, TLS, and request handlers.
#[derive(Clone)]
pub(crate) struct HttpService {
    /// Limiter that admits connections.
    pub(crate) gate: ConnectionLimiter,
    /// Acceptor of TLS handshakes; `None` without TLS.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Request handlers. Each request has the client's address in a [`ConnectInfo`], and its
    /// connection's [`ConnectionPermit`] in an [`Arc`].
    pub(crate) router: Router,
}

/// Accepts connections and serves them until `stop` resolves, then ends all of them.
pub(crate) async fn serve(listener: TcpListener, service: HttpService, stop: impl Future<Output = ()>) {
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if let Some(permit) = service.gate.admit(peer.ip()) {
                        connections.spawn(serve_connection(stream, peer, permit, service.clone()));
                    }
                }
                Err(error) => refuse(&service.gate, &error).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}

/// Handles a failed accept. Waits for file descriptors if the process has none left, and counts and
/// logs that. An error that a client caused needs no wait.
async fn refuse(gate: &ConnectionLimiter, error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        if gate.count_files() {
            tracing::warn!("cannot accept connections: {error}; raise LimitNOFILE or ulimit -n");
        }
        tokio::time::sleep(ACCEPT_RETRY).await;
    }
}

/// Serves the requests of a connection until it ends, is evicted, or exceeds a time limit.
async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    permit: ConnectionPermit,
    service: HttpService,
) {
    let socket = SockRef::from(&stream);
    // A socket that accepts no options belongs to a connection that has ended.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    // Unread data does not outlive its connection in the kernel.
    let _ = socket.set_tcp_user_timeout(Some(service.gate.limits().timeout));
    serve_until_ended(stream, peer, permit, service).await;
}

async fn serve_until_ended<S>(stream: S, peer: SocketAddr, permit: ConnectionPermit, service: HttpService)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let permit = Arc::new(permit);
    tokio::select! {
        () = permit.ended() => {}
        () = stranger_lifetime(&permit) => permit.gate().count(Reason::Lifetime),
        () = serve_stream(stream, peer, &permit, &service) => {}
    }
}

/// Waits for [`Limits::stranger_lifetime`], and then forever if a valid bearer secret has arrived
/// on the connection.
async fn stranger_lifetime(permit: &ConnectionPermit) {
    tokio::time::sleep(permit.gate().limits().stranger_lifetime).await;
    if permit.is_known() {
        std::future::pending::<()>().await;
    }
}

async fn serve_stream<S>(stream: S, peer: SocketAddr, permit: &Arc<ConnectionPermit>, service: &HttpService)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let stream = WriteTimeoutStream::new(stream, Arc::clone(permit));
    let Some(tls) = &service.tls else {
        return serve_http(stream, peer, permit, &service.router).await;
    };
    let accepting = tls.accept_with(stream, |session| session.set_buffer_limit(Some(TLS_BUFFER_BYTES)));
    match timeout(permit.gate().limits().timeout, accepting).await {
        Ok(Ok(stream)) => serve_http(stream, peer, permit, &service.router).await,
        // The TLS alert informs a client that uses no TLS, or expects another certificate.
        Ok(Err(_)) => {}
        Err(_) => permit.gate().count(Reason::Handshake),
    }
}

async fn serve_http<S>(stream: S, peer: SocketAddr, permit: &Arc<ConnectionPermit>, router: &Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let router = TowerToHyperService::new(router.clone());
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(Arc::clone(permit));
        router.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(permit.gate().limits().timeout)
        .max_buf_size(HEAD_BYTES_MAX);
    // The client knows about a failed connection itself.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
