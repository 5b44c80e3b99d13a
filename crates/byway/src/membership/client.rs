//! HTTPS client of a controller, which may have several addresses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use byway_api::{ErrorAnswer, ErrorCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

use super::MembershipError;
use super::limits::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, CONNECT_TIMEOUT, ROUND_TRIP_MAX};
use super::tls::{connector, is_other_certificate, server_name};

/// Firewall mark on packets to the controller, by which the agent's captures exclude them. A reload
/// may change it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirewallMark(Arc<AtomicU32>);

impl FirewallMark {
    /// Creates the firewall mark with its first value; `None` for no mark.
    pub(crate) fn new(mark: Option<u32>) -> Self {
        Self(Arc::new(AtomicU32::new(mark.unwrap_or_default())))
    }

    /// Sets the firewall mark of connections that begin later.
    pub(crate) fn set(&self, mark: Option<u32>) {
        self.0.store(mark.unwrap_or_default(), Ordering::Relaxed);
    }

    fn get(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|mark| *mark != 0)
    }
}

/// HTTPS client of a controller. It reuses its connection for the next request.
pub(crate) struct Client {
    addresses: Vec<String>,
    tls: TlsConnector,
    bearer: Option<Zeroizing<String>>,
    mark: FirewallMark,
    connection: Option<Connection>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client(for {})", self.addresses.join(", "))
    }
}

struct Connection {
    address: String,
    sender: SendRequest<Full<Bytes>>,
}

/// Request that the client sends to the controller.
#[derive(Clone, Debug)]
struct ControllerRequest {
    method: Method,
    path: String,
    body: Option<Bytes>,
    timeout: Duration,
}

/// Response of the controller to a request.
pub(super) struct ControllerResponse {
    pub(super) address: String,
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

/// Reason why a connection to the controller failed.
enum ConnectFailure {
    OtherCertificate,
    Failed(String),
}

/// Connection to one of the controller's addresses, on which nothing has been sent.
pub(super) struct OpenedConnection {
    pub(super) address: String,
    pub(super) stream: TlsStream<TcpStream>,
    /// Round trip to the controller, rather too short than too long.
    pub(super) round_trip: Duration,
}

/// Opens a TCP connection to the first address of a host that accepts it, and measures the time
/// that this takes. `mark` is the firewall mark of its packets.
async fn connect(host: &str, mark: Option<u32>) -> io::Result<(TcpStream, Duration)> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in lookup_host(host).await? {
        let begun = Instant::now();
        match connect_address(address, mark).await {
            Ok(stream) => return Ok((stream, begun.elapsed())),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn connect_address(address: SocketAddr, mark: Option<u32>) -> io::Result<TcpStream> {
    let Some(mark) = mark else {
        return TcpStream::connect(address).await;
    };
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A process that may not mark packets may not capture any either. The capture reports that.
    let _ = SockRef::from(&socket).set_mark(mark);
    socket.connect(address).await
}

impl Client {
    /// Creates a client of the controller at these addresses, whose public key has this SHA-256.
    pub(crate) fn new(addresses: Vec<String>, pin: [u8; 32]) -> Self {
        Self { addresses, tls: connector(pin), bearer: None, mark: FirewallMark::default(), connection: None }
    }

    /// Sets the bearer secret by which the client authenticates.
    pub(crate) fn with_bearer(mut self, bearer: Zeroizing<String>) -> Self {
        self.bearer = Some(bearer);
        self
    }

    /// Sets the firewall mark of the client's packets.
    pub(crate) fn with_mark(mut self, mark: FirewallMark) -> Self {
        self.mark = mark;
        self
    }

    /// Creates a client of the same controller, as the same member, with a connection of its own.
    pub(crate) fn another(&self) -> Self {
        Self {
            addresses: self.addresses.clone(),
            tls: self.tls.clone(),
            bearer: self.bearer.clone(),
            mark: self.mark.clone(),
            connection: None,
        }
    }

    /// Sends a GET request; returns the parsed answer.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, MembershipError> {
        self.send_request(Method::GET, path, None).await.and_then(|answer| parse_body(&answer))
    }

    /// Sends a GET request that the controller may delay for less than `answer_timeout`. Returns
    /// `None` if the controller answers without content.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(super) async fn poll<T: DeserializeOwned>(
        &mut self,
        path: &str,
        answer_timeout: Duration,
    ) -> Result<Option<T>, MembershipError> {
        let request = ControllerRequest {
            method: Method::GET,
            path: path.to_owned(),
            body: None,
            timeout: answer_timeout,
        };
        let answer = into_success(self.exchange_with_failover(request).await?)?;
        if answer.status == StatusCode::NO_CONTENT { Ok(None) } else { parse_body(&answer).map(Some) }
    }

    /// Sends a POST request with a JSON body; returns the parsed answer.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, MembershipError> {
        self.send_request(Method::POST, path, Some(json(body))).await.and_then(|answer| parse_body(&answer))
    }

    /// Sends a PUT request with a JSON body, and ignores the answer's content.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn put(&mut self, path: &str, body: &impl Serialize) -> Result<(), MembershipError> {
        self.send_request(Method::PUT, path, Some(json(body))).await.map(drop)
    }

    /// Sends a DELETE request, and ignores the answer's content.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn delete(&mut self, path: &str) -> Result<(), MembershipError> {
        self.send_request(Method::DELETE, path, None).await.map(drop)
    }

    async fn send_request(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<ControllerResponse, MembershipError> {
        let request = ControllerRequest { method, path: path.to_owned(), body, timeout: ANSWER_TIMEOUT };
        into_success(self.exchange_with_failover(request).await?)
    }

    /// Sends a request on the present connection. If that fails, connects to the controller's
    /// addresses in turn, until one of them answers the request.
    async fn exchange_with_failover(
        &mut self,
        request: ControllerRequest,
    ) -> Result<ControllerResponse, MembershipError> {
        if let Some(connection) = self.connection.take()
            && let Ok(answer) = self.exchange(connection, &request).await
        {
            return Ok(answer);
        }
        let (mut attempts, mut other_certificate) = (Vec::new(), None);
        for address in self.addresses.clone() {
            match self.connect(&address).await {
                Ok(connection) => match self.exchange(connection, &request).await {
                    Ok(answer) => {
                        self.prefer(&address);
                        return Ok(answer);
                    }
                    Err(problem) => attempts.push(format!("{address}: {problem}")),
                },
                Err(ConnectFailure::OtherCertificate) => {
                    other_certificate = other_certificate.or(Some(address));
                }
                Err(ConnectFailure::Failed(problem)) => attempts.push(format!("{address}: {problem}")),
            }
        }
        Err(no_answer(&attempts, other_certificate))
    }

    /// Opens a new connection to the first of the controller's addresses that accepts one.
    ///
    /// # Errors
    /// If none does.
    pub(super) async fn open(&mut self) -> Result<OpenedConnection, MembershipError> {
        let (mut attempts, mut other_certificate) = (Vec::new(), None);
        for address in self.addresses.clone() {
            match self.connect_tls(&address).await {
                Ok((stream, round_trip)) => {
                    self.prefer(&address);
                    return Ok(OpenedConnection { address, stream, round_trip });
                }
                Err(ConnectFailure::OtherCertificate) => {
                    other_certificate = other_certificate.or(Some(address));
                }
                Err(ConnectFailure::Failed(problem)) => attempts.push(format!("{address}: {problem}")),
            }
        }
        Err(no_answer(&attempts, other_certificate))
    }

    /// Moves the address that answered to the front, for the next connection.
    fn prefer(&mut self, address: &str) {
        self.addresses.sort_by_key(|known| known != address);
    }

    async fn connect(&self, address: &str) -> Result<Connection, ConnectFailure> {
        let (stream, _) = self.connect_tls(address).await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| ConnectFailure::Failed(error.to_string()))?;
        // The task ends with the sender. The waiting request receives the reason of a failure.
        tokio::spawn(async { drop(connection.await) });
        Ok(Connection { address: address.to_owned(), sender })
    }

    /// Opens a TLS connection to an address of the controller, and measures its round trip.
    async fn connect_tls(&self, address: &str) -> Result<(TlsStream<TcpStream>, Duration), ConnectFailure> {
        let connecting = async {
            let (stream, accepted_in) = connect(address, self.mark.get()).await?;
            stream.set_nodelay(true)?;
            let begun = Instant::now();
            let stream = self.tls.connect(server_name(), stream).await?;
            Ok::<_, io::Error>((stream, least_round_trip(accepted_in, begun.elapsed())))
        };
        match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected.map_err(|error| connect_failure(&error)),
            Err(_) => Err(ConnectFailure::Failed(timeout_message(CONNECT_TIMEOUT))),
        }
    }

    async fn exchange(
        &mut self,
        mut connection: Connection,
        controller_request: &ControllerRequest,
    ) -> Result<ControllerResponse, String> {
        let method = controller_request.method.clone();
        let body = Full::new(controller_request.body.clone().unwrap_or_default());
        let mut request = self.request(&connection.address, (method, &controller_request.path), body);
        if controller_request.body.is_some() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answering = async {
            connection.sender.ready().await.map_err(|error| error.to_string())?;
            let response =
                connection.sender.send_request(request).await.map_err(|error| error.to_string())?;
            read(response).await
        };
        let answered = timeout(controller_request.timeout, answering).await;
        let (status, retry_after, body) =
            answered.map_err(|_| timeout_message(controller_request.timeout))??;
        let address = connection.address.clone();
        self.connection = Some(connection);
        Ok(ControllerResponse { address, status, retry_after, body })
    }

    /// Returns a request as this member, to the controller at an address.
    pub(super) fn request<B>(&self, host: &str, (method, path): (Method, &str), body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("paths of the interface are paths");
        let headers = request.headers_mut();
        if let Ok(host) = host.parse() {
            headers.insert(HOST, host);
        }
        let bearer = self.bearer.as_ref().and_then(|bearer| format!("Bearer {}", **bearer).parse().ok());
        if let Some(bearer) = bearer {
            headers.insert(AUTHORIZATION, bearer);
        }
        request
    }
}

/// Returns the round trip of a connection from the times that TCP and TLS took to begin. Each of
/// them is a round trip, or longer: a lost packet costs TCP a second.
fn least_round_trip(tcp: Duration, tls: Duration) -> Duration {
    tcp.min(tls).min(ROUND_TRIP_MAX)
}

/// Returns the error of a controller that answers at none of its addresses.
fn no_answer(attempts: &[String], other_certificate: Option<String>) -> MembershipError {
    other_certificate.map_or_else(
        || MembershipError::Unreachable { attempts: attempts.join("; ") },
        |address| MembershipError::OtherCertificate { address },
    )
}

/// Reads a response, up to the longest answer.
pub(super) async fn read(
    response: Response<Incoming>,
) -> Result<(StatusCode, Option<Duration>, Bytes), String> {
    let (status, retry_after) = (response.status(), retry_after(response.headers()));
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    body.map(|body| (status, retry_after, body.to_bytes())).map_err(|error| error.to_string())
}

/// Returns the pause that the controller asks for by `Retry-After` (RFC 9110, section 10.2.3).
/// Controllers state it in seconds only.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

fn connect_failure(error: &io::Error) -> ConnectFailure {
    if is_other_certificate(error) {
        ConnectFailure::OtherCertificate
    } else {
        ConnectFailure::Failed(error.to_string())
    }
}

pub(super) fn timeout_message(limit: Duration) -> String {
    format!("no reply within {} s", limit.as_secs())
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("requests have only texts and numbers").into()
}

pub(super) fn parse_body<T: DeserializeOwned>(answer: &ControllerResponse) -> Result<T, MembershipError> {
    serde_json::from_slice(&answer.body).map_err(|error| MembershipError::Unreadable {
        address: answer.address.clone(),
        problem: error.to_string(),
    })
}

/// Returns a response if its status is a success, and otherwise the error that it describes.
pub(super) fn into_success(answer: ControllerResponse) -> Result<ControllerResponse, MembershipError> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let refusal = parse_body::<ErrorAnswer>(&answer).unwrap_or_else(|_| ErrorAnswer {
        error: ErrorCode::Unknown,
        message: format!("{} replied with status {}", answer.address, answer.status),
    });
    Err(MembershipError::from_refusal(refusal.error, refusal.message, answer.retry_after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_packet_makes_no_round_trip_longer() {
        let millis = Duration::from_millis;
        for (tcp, tls, expected) in [
            (20, 22, 20),
            // The first packet of TCP was lost, then one of TLS, then one of each.
            (1_020, 22, 22),
            (20, 1_022, 20),
            (1_020, 1_022, 200),
            (200, 210, 200),
        ] {
            assert_eq!(least_round_trip(millis(tcp), millis(tls)), millis(expected), "{tcp} {tls}");
        }
    }
}
