//! Requests to a controller, at one of its addresses.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use byway_api::{ErrorAnswer, ErrorCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::MembershipError;
use super::limits::{ANSWER_BYTES_MAX, ANSWER_PATIENCE, CONNECT_PATIENCE};
use super::tls::{connector, is_other_certificate, server_name};

/// The firewall mark of packets to the controller, by which an agent does not capture them. It may change while connections are there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark(Arc<AtomicU32>);

impl Mark {
    /// This one, or none.
    pub(crate) fn new(mark: Option<u32>) -> Self {
        Self(Arc::new(AtomicU32::new(mark.unwrap_or_default())))
    }

    /// Has connections that begin from now on have another one.
    pub(crate) fn set(&self, mark: Option<u32>) {
        self.0.store(mark.unwrap_or_default(), Ordering::Relaxed);
    }

    fn get(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|mark| *mark != 0)
    }
}

/// Asks a controller. A connection is kept from one request to the next.
pub(crate) struct Client {
    addresses: Vec<String>,
    tls: TlsConnector,
    bearer: Option<Zeroizing<String>>,
    mark: Mark,
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

/// What is asked.
#[derive(Clone, Debug)]
struct Question {
    method: Method,
    path: String,
    body: Option<Bytes>,
    patience: Duration,
}

/// What came back.
struct Answer {
    address: String,
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Bytes,
}

/// Why a connection was of no use.
enum Useless {
    OtherCertificate,
    Failed(String),
}

/// A connection to the first of a host's addresses that takes one.
async fn connect(host: &str, mark: Option<u32>) -> io::Result<TcpStream> {
    let Some(mark) = mark else {
        return TcpStream::connect(host).await;
    };
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in lookup_host(host).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Who may not mark packets may not capture any either, and hears that when it tries.
        let _ = SockRef::from(&socket).set_mark(mark);
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl Client {
    /// A client of the controller at these addresses, whose key has this SHA-256.
    pub(crate) fn new(addresses: Vec<String>, pin: [u8; 32]) -> Self {
        Self { addresses, tls: connector(pin), bearer: None, mark: Mark::default(), connection: None }
    }

    /// And that shows a bearer secret.
    pub(crate) fn with_bearer(mut self, bearer: Zeroizing<String>) -> Self {
        self.bearer = Some(bearer);
        self
    }

    /// And whose packets have this firewall mark.
    pub(crate) fn with_mark(mut self, mark: Mark) -> Self {
        self.mark = mark;
        self
    }

    /// Asks for something.
    ///
    /// # Errors
    /// If nobody answers, or the controller refuses.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, MembershipError> {
        self.ask(Method::GET, path, None).await.and_then(|answer| parsed(&answer))
    }

    /// Asks for something that may take its time, and may not come.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(super) async fn poll<T: DeserializeOwned>(
        &mut self,
        path: &str,
        patience: Duration,
    ) -> Result<Option<T>, MembershipError> {
        let question = Question { method: Method::GET, path: path.to_owned(), body: None, patience };
        let answer = succeeded(self.answer(question).await?)?;
        if answer.status == StatusCode::NO_CONTENT { Ok(None) } else { parsed(&answer).map(Some) }
    }

    /// Says something and wants to know something.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, MembershipError> {
        self.ask(Method::POST, path, Some(json(body))).await.and_then(|answer| parsed(&answer))
    }

    /// Says something.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn put(&mut self, path: &str, body: &impl Serialize) -> Result<(), MembershipError> {
        self.ask(Method::PUT, path, Some(json(body))).await.map(drop)
    }

    /// Has something removed.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn delete(&mut self, path: &str) -> Result<(), MembershipError> {
        self.ask(Method::DELETE, path, None).await.map(drop)
    }

    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Answer, MembershipError> {
        let question = Question { method, path: path.to_owned(), body, patience: ANSWER_PATIENCE };
        succeeded(self.answer(question).await?)
    }

    /// The answer on the connection there is, or, as the controller may have closed that, on a new one to the first
    /// address that answers.
    async fn answer(&mut self, question: Question) -> Result<Answer, MembershipError> {
        if let Some(connection) = self.connection.take()
            && let Ok(answer) = self.exchange(connection, &question).await
        {
            return Ok(answer);
        }
        let (mut attempts, mut other_certificate) = (Vec::new(), None);
        for address in self.addresses.clone() {
            match self.connect(&address).await {
                Ok(connection) => match self.exchange(connection, &question).await {
                    Ok(answer) => {
                        self.prefer(&address);
                        return Ok(answer);
                    }
                    Err(problem) => attempts.push(format!("{address}: {problem}")),
                },
                Err(Useless::OtherCertificate) => other_certificate = other_certificate.or(Some(address)),
                Err(Useless::Failed(problem)) => attempts.push(format!("{address}: {problem}")),
            }
        }
        Err(other_certificate.map_or_else(
            || MembershipError::Unreachable { attempts: attempts.join("; ") },
            |address| MembershipError::OtherCertificate { address },
        ))
    }

    /// The address that answered is asked first from now on.
    fn prefer(&mut self, address: &str) {
        self.addresses.sort_by_key(|known| known != address);
    }

    async fn connect(&self, address: &str) -> Result<Connection, Useless> {
        let connecting = async {
            let stream = connect(address, self.mark.get()).await.map_err(|error| useless(&error))?;
            stream.set_nodelay(true).map_err(|error| useless(&error))?;
            let stream = self.tls.connect(server_name(), stream).await.map_err(|error| useless(&error))?;
            let shaken = http1::handshake(TokioIo::new(stream)).await;
            shaken.map_err(|error| Useless::Failed(error.to_string()))
        };
        let connected = timeout(CONNECT_PATIENCE, connecting).await;
        let (sender, connection) =
            connected.unwrap_or_else(|_| Err(Useless::Failed(too_long(CONNECT_PATIENCE))))?;
        // It ends with the sender; why it failed is told to who awaits an answer.
        tokio::spawn(async { drop(connection.await) });
        Ok(Connection { address: address.to_owned(), sender })
    }

    async fn exchange(&mut self, mut connection: Connection, question: &Question) -> Result<Answer, String> {
        let request = self.request(&connection.address, question);
        let answering = async {
            connection.sender.ready().await.map_err(|error| error.to_string())?;
            let response =
                connection.sender.send_request(request).await.map_err(|error| error.to_string())?;
            read(response).await
        };
        let answered = timeout(question.patience, answering).await;
        let (status, retry_after, body) = answered.map_err(|_| too_long(question.patience))??;
        let address = connection.address.clone();
        self.connection = Some(connection);
        Ok(Answer { address, status, retry_after, body })
    }

    fn request(&self, host: &str, question: &Question) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(question.body.clone().unwrap_or_default()));
        *request.method_mut() = question.method.clone();
        *request.uri_mut() = question.path.parse().expect("paths of the interface are paths");
        let headers = request.headers_mut();
        if let Ok(host) = host.parse() {
            headers.insert(HOST, host);
        }
        if question.body.is_some() {
            headers.insert(CONTENT_TYPE, "application/json".parse().expect("it is a header's value"));
        }
        let bearer = self.bearer.as_ref().and_then(|bearer| format!("Bearer {}", **bearer).parse().ok());
        if let Some(bearer) = bearer {
            headers.insert(AUTHORIZATION, bearer);
        }
        request
    }
}

async fn read(response: Response<Incoming>) -> Result<(StatusCode, Option<Duration>, Bytes), String> {
    let (status, retry_after) = (response.status(), retry_after(response.headers()));
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    body.map(|body| (status, retry_after, body.to_bytes())).map_err(|error| error.to_string())
}

/// `Retry-After` (RFC 9110, section 10.2.3) in seconds, which is the only form that controllers use.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

fn useless(error: &io::Error) -> Useless {
    if is_other_certificate(error) { Useless::OtherCertificate } else { Useless::Failed(error.to_string()) }
}

fn too_long(patience: Duration) -> String {
    format!("no answer within {} s", patience.as_secs())
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("requests have only texts and numbers").into()
}

fn parsed<T: DeserializeOwned>(answer: &Answer) -> Result<T, MembershipError> {
    serde_json::from_slice(&answer.body).map_err(|error| MembershipError::Unreadable {
        address: answer.address.clone(),
        problem: error.to_string(),
    })
}

/// The answer, if it is a success.
fn succeeded(answer: Answer) -> Result<Answer, MembershipError> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let refusal = parsed::<ErrorAnswer>(&answer).unwrap_or_else(|_| ErrorAnswer {
        error: ErrorCode::Unknown,
        message: format!("{} answers with status {}", answer.address, answer.status),
    });
    Err(MembershipError::refused(refusal.error, refusal.message, answer.retry_after))
}
