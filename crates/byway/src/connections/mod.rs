//! HTTP connections within limits: of the controller, and of the port where a node answers about itself.
//!
//! [`serve`] accepts, [`Gate`] decides who gets a place, and deadlines end what takes too long: a TLS handshake, the
//! head of a request, a client that reads no answer, and the whole connection of a stranger.

mod gate;
mod patience;
mod source;
#[cfg(test)]
mod tests;

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

pub(crate) use gate::{Gate, Limits, Place, Reason};
pub(crate) use source::Source;

use patience::Patient;

/// Longest head of a request: tokens and bearer secrets have below 300 bytes. Six thousand strangers that send such heads
/// hold 100 MB.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Bytes of an answer that the kernel holds for one connection: a client that reads nothing holds no more.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// Interval between attempts to accept a connection while the process has no file descriptor left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Service on accepted connections: admission, TLS, and answers.
#[derive(Clone)]
pub(crate) struct HttpService {
    /// Admission.
    pub(crate) gate: Gate,
    /// TLS, if it is spoken.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Answers. Requests have a [`ConnectInfo`], and their connection's [`Place`] in an [`Arc`].
    pub(crate) router: Router,
}

/// Accepts connections and answers them, until `stop` is there. All connections have ended when it returns.
pub(crate) async fn serve(listener: TcpListener, service: HttpService, stop: impl Future<Output = ()>) {
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if let Some(place) = service.gate.enter(peer.ip()) {
                        connections.spawn(attend(stream, peer, place, service.clone()));
                    }
                }
                Err(error) => refuse(&service.gate, &error).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}

/// Waits for file descriptors. What a client did to its own connection before it was accepted is nothing to wait for.
async fn refuse(gate: &Gate, error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        if gate.count_files() {
            tracing::warn!("cannot accept connections: {error}; raise LimitNOFILE or ulimit -n");
        }
        tokio::time::sleep(ACCEPT_RETRY).await;
    }
}

/// Answers the requests of a connection for as long as it may last.
async fn attend(stream: TcpStream, peer: SocketAddr, place: Place, service: HttpService) {
    let socket = SockRef::from(&stream);
    // A connection whose socket takes no options is over.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    // What a client did not read does not outlive its connection in the kernel.
    let _ = socket.set_tcp_user_timeout(Some(service.gate.limits().patience));
    converse(stream, peer, place, service).await;
}

async fn converse<S>(stream: S, peer: SocketAddr, place: Place, service: HttpService)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let place = Arc::new(place);
    tokio::select! {
        () = place.ended() => {}
        () = stranger_lifetime(&place) => place.gate().count(Reason::Lifetime),
        () = talk(stream, peer, &place, &service) => {}
    }
}

/// Waits for the end of a stranger's connection. One by which a valid bearer secret came has none.
async fn stranger_lifetime(place: &Place) {
    tokio::time::sleep(place.gate().limits().stranger_lifetime).await;
    if place.is_known() {
        std::future::pending::<()>().await;
    }
}

async fn talk<S>(stream: S, peer: SocketAddr, place: &Arc<Place>, service: &HttpService)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let stream = Patient::new(stream, Arc::clone(place));
    let Some(tls) = &service.tls else {
        return answer(stream, peer, place, &service.router).await;
    };
    match timeout(place.gate().limits().patience, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer(stream, peer, place, &service.router).await,
        // Whoever speaks no TLS, or has another certificate in mind, hears that by TLS.
        Ok(Err(_)) => {}
        Err(_) => place.gate().count(Reason::Handshake),
    }
}

async fn answer<S>(stream: S, peer: SocketAddr, place: &Arc<Place>, router: &Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let router = TowerToHyperService::new(router.clone());
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(Arc::clone(place));
        router.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(place.gate().limits().patience)
        .max_buf_size(HEAD_BYTES_MAX);
    // A connection that fails concerns its client, which knows it.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
