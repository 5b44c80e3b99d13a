//! Requests to the controller whose bodies do not end: lines of JSON to it, and lines from it.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper::Method;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{ControllerResponse, OpenedConnection, into_success, parse_body, read, timeout_message};
use super::limits::{
    ANSWER_TIMEOUT, LINE_BYTES_MAX, SILENCE_TIMEOUT, STREAM_BUFFER_BYTES, UNACKNOWLEDGED_TIMEOUT,
};
use super::{Client, MembershipError};

/// Body of a request that consists of lines, for as long as there are any.
pub(crate) type MessageBody = UnsyncBoxBody<Bytes, Infallible>;

/// Lines that the controller sends, one JSON object on each. If it is dropped, its connection ends.
#[derive(Debug)]
pub(crate) struct MessageStream {
    address: String,
    body: Incoming,
    /// Received bytes of lines that are not complete, or not read yet.
    received: Vec<u8>,
    /// Without it, the connection accepts no more requests, and might end.
    _sender: SendRequest<Empty<Bytes>>,
    _connection: JoinSet<()>,
}

impl Client {
    /// Sends a POST request on a connection of its own, whose body lasts until its lines end.
    /// Returns the parsed answer. If the future is dropped, the connection ends.
    ///
    /// `lines` returns the body for the least time that a line takes to the controller.
    ///
    /// # Errors
    /// If the controller does not answer, or ends the stream with an error.
    pub(crate) async fn post_messages<T: DeserializeOwned>(
        &mut self,
        path: &str,
        lines: impl FnOnce(Duration) -> MessageBody,
    ) -> Result<T, MembershipError> {
        let OpenedConnection { address, stream, round_trip } = self.open().await?;
        bound_unacknowledged(stream.get_ref().0);
        let failed = |problem: String| unreachable(&address, &problem);
        let mut builder = http1::Builder::new();
        builder.max_buf_size(STREAM_BUFFER_BYTES);
        let handshake = builder.handshake::<_, MessageBody>(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| failed(error.to_string()))?;
        let mut running = JoinSet::new();
        running.spawn(async { drop(connection.await) });
        let mut request = self.request(&address, (Method::POST, path), lines(round_trip / 2));
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
        let (status, retry_after, body) = timeout(ANSWER_TIMEOUT, read(response))
            .await
            .map_err(|_| failed(timeout_message(ANSWER_TIMEOUT)))?
            .map_err(failed)?;
        parse_body(&into_success(ControllerResponse { address, status, retry_after, body })?)
    }

    /// Sends a GET request on a connection of its own, whose answer consists of lines and does not
    /// end.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn get_messages(&mut self, path: &str) -> Result<MessageStream, MembershipError> {
        let OpenedConnection { address, stream, .. } = self.open().await?;
        let failed = |problem: String| unreachable(&address, &problem);
        let handshake = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| failed(error.to_string()))?;
        let mut running = JoinSet::new();
        running.spawn(async { drop(connection.await) });
        let request = self.request(&address, (Method::GET, path), Empty::<Bytes>::new());
        let answered = timeout(ANSWER_TIMEOUT, sender.send_request(request)).await;
        let response = answered
            .map_err(|_| failed(timeout_message(ANSWER_TIMEOUT)))?
            .map_err(|error| failed(error.to_string()))?;
        if !response.status().is_success() {
            let (status, retry_after, body) = timeout(ANSWER_TIMEOUT, read(response))
                .await
                .map_err(|_| failed(timeout_message(ANSWER_TIMEOUT)))?
                .map_err(failed)?;
            let refused = ControllerResponse { address, status, retry_after, body };
            return Err(match into_success(refused) {
                Ok(answer) => unreadable(answer.address, "an answer with two statuses".to_owned()),
                Err(error) => error,
            });
        }
        let (body, received) = (response.into_body(), Vec::new());
        Ok(MessageStream { address, body, received, _sender: sender, _connection: running })
    }
}

impl MessageStream {
    /// Returns the next line, parsed; `None` at the end. Empty lines show that the controller is
    /// there, and are ignored.
    ///
    /// # Errors
    /// If the connection fails or is silent for too long, or a line is too long or invalid.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, MembershipError> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                let parsed = serde_json::from_slice(&line);
                return parsed.map(Some).map_err(|error| unreadable(self.address.clone(), error.to_string()));
            }
            if self.received.len() > LINE_BYTES_MAX {
                return Err(unreadable(self.address.clone(), "a line is too long".to_owned()));
            }
            match timeout(SILENCE_TIMEOUT, self.body.frame()).await {
                Err(_) => return Err(unreachable(&self.address, &timeout_message(SILENCE_TIMEOUT))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(unreachable(&self.address, &error.to_string())),
                Ok(Some(Ok(frame))) => {
                    self.received.extend_from_slice(&frame.into_data().unwrap_or_default());
                }
            }
        }
    }
}

/// Lets a connection fail if the other end disappears without a word.
fn bound_unacknowledged(stream: &TcpStream) {
    // Without it, the system gives up after a quarter of an hour.
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
}

fn unreachable(address: &str, problem: &str) -> MembershipError {
    MembershipError::Unreachable { attempts: format!("{address}: {problem}") }
}

fn unreadable(address: String, problem: String) -> MembershipError {
    MembershipError::Unreadable { address, problem }
}
