//! `byway status`: queries nodes for their status, and prints it for people.

mod render;

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::exit::{Cause, Failure};
use crate::node;
use crate::observe::COMMAND_HEADER;
use crate::settings::OBSERVE_PORTS;

/// Longest answer of a status server, in bytes. 4,096 mappings, the maximum of an agent, take 4 MB.
const STATUS_BYTES_MAX: usize = 16 << 20;

/// Timeout of a status server's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Flags of `byway status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusFlags {
    /// The node's observe.listen [default: all nodes at the usual ports of this machine].
    #[arg(long, env = "BYWAY_OBSERVE", value_name = "ADDRESS:PORT")]
    at: Option<SocketAddr>,
    /// Print JSON, one line for each node.
    #[arg(long)]
    json: bool,
    /// Refresh the status every second, until Ctrl-C.
    #[arg(long, short)]
    watch: bool,
}

/// Prints the status of one node, or of all nodes of this machine.
///
/// # Errors
/// If no node answers.
pub(crate) fn run(flags: &StatusFlags) -> Result<(), Failure> {
    node::block_on(async {
        loop {
            let page = page(flags).await?;
            if flags.watch && !flags.json {
                // Moves the cursor home, and clears the screen.
                print!("\x1b[H\x1b[2J");
            }
            print!("{page}");
            // The reader of the output may have ended.
            if std::io::stdout().flush().is_err() || !flags.watch {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
}

/// Returns the addresses of the status servers to query: `at`, or the usual ports of this machine.
pub(crate) fn addresses(at: Option<SocketAddr>) -> Vec<SocketAddr> {
    let usual = || OBSERVE_PORTS.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec();
    at.map_or_else(usual, |address| vec![address])
}

async fn page(flags: &StatusFlags) -> Result<String, Failure> {
    let mut page = String::new();
    let mut silent = Vec::new();
    for address in addresses(flags.at) {
        match fetch(address).await {
            Ok(status) => page.push_str(&render_status(&status, flags.json)),
            Err(error) => silent.push((address, error)),
        }
    }
    if page.is_empty() { Err(Failure::new(Cause::Network, no_answer_message(&silent))) } else { Ok(page) }
}

/// Returns the error message if no node answers: the addresses tried, and the remedy.
pub(crate) fn no_answer_message(silent: &[(SocketAddr, String)]) -> String {
    let attempts: Vec<String> = silent.iter().map(|(address, error)| format!("{address}: {error}")).collect();
    format!(
        "cannot reach a node at {}; start one (`systemctl status byway-agent byway-relay \
         byway-controller` shows why it ended), or give its observe.listen with --at",
        attempts.join(", or at ")
    )
}

fn render_status(status: &serde_json::Value, json: bool) -> String {
    if json { format!("{status}\n") } else { render::text(status) }
}

/// Fetches the status of the node whose status server has this address.
///
/// # Errors
/// If it does not answer, or with invalid content.
pub(crate) async fn fetch(address: SocketAddr) -> Result<serde_json::Value, String> {
    let body = get(address, "/v1/status").await?;
    serde_json::from_slice(&body).map_err(|error| format!("invalid status in the reply: {error}"))
}

/// True if the node at this address reports that it is ready. Blocks until the answer.
pub(crate) fn is_ready(address: SocketAddr) -> bool {
    runtime().is_ok_and(|runtime| runtime.block_on(get(address, "/v1/ready")).is_ok())
}

/// Returns the status of the node at this address. Blocks until the answer.
pub(crate) fn of(address: SocketAddr) -> anyhow::Result<serde_json::Value> {
    let status = runtime()?.block_on(fetch(address));
    status.map_err(|error| anyhow::anyhow!("cannot query {address} for its status: {error}"))
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Sends a GET request to a node's status server; returns the answer's body.
///
/// # Errors
/// If it does not answer within [`ANSWER_TIMEOUT`], or not with success.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<Bytes, String> {
    exchange(address, Method::GET, path).await.map_err(|error| match error {
        NoAnswer::Silent(error) => error,
        NoAnswer::Refused(status, _) => format!("status {status}"),
    })
}

/// Reason why a request to a status server had no success.
pub(crate) enum NoAnswer {
    /// The node does not answer, for this reason.
    Silent(String),
    /// The node answers with this status, which is no success, and with this body.
    Refused(StatusCode, Bytes),
}

/// Sends a request to a node's status server; returns the answer's body.
///
/// # Errors
/// If it does not answer within [`ANSWER_TIMEOUT`], or not with success.
pub(crate) async fn exchange(address: SocketAddr, method: Method, path: &str) -> Result<Bytes, NoAnswer> {
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, send_request(address, method, path)).await;
    let silent = || Err("no reply within 5 s".to_owned());
    let (status, body) = answer.unwrap_or_else(|_| silent()).map_err(NoAnswer::Silent)?;
    if status.is_success() { Ok(body) } else { Err(NoAnswer::Refused(status, body)) }
}

async fn send_request(
    address: SocketAddr,
    method: Method,
    path: &str,
) -> Result<(StatusCode, Bytes), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| text(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(COMMAND_HEADER, "1")
        .body(Empty::<Bytes>::new())
        .map_err(|error| text(&error))?;
    let response = sender.send_request(request).await.map_err(|error| text(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), STATUS_BYTES_MAX).collect().await;
    Ok((status, body.map_err(|error| text(&error))?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_were_tried_are_named_with_the_remedy() {
        let silent = OBSERVE_PORTS.map(|port| (([127, 0, 0, 1], port).into(), format!("refused {port}")));
        let message = no_answer_message(&silent);
        for port in OBSERVE_PORTS {
            assert!(message.contains(&format!("127.0.0.1:{port}: refused {port}")), "{message}");
        }
        assert!(message.contains("give its observe.listen with --at"), "{message}");
    }
}
