//! `byway status`: what a node says of itself, for people.

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

/// No status is longer: 4,096 mappings, as many as an agent may have, take 4 MB.
const STATUS_BYTES_MAX: usize = 16 << 20;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `byway status` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusFlags {
    /// Where the node answers: its observe.listen. By default all nodes at the usual ports of this machine.
    #[arg(long, env = "BYWAY_OBSERVE", value_name = "ADDRESS:PORT")]
    at: Option<SocketAddr>,
    /// As JSON: one line for each node.
    #[arg(long)]
    json: bool,
    /// Shows it anew every second, until Ctrl-C.
    #[arg(long, short)]
    watch: bool,
}

/// Shows the status of one node, or of those of this machine.
///
/// # Errors
/// If none answers.
pub(crate) fn run(flags: &StatusFlags) -> Result<(), Failure> {
    node::block_on(async {
        loop {
            let page = page(flags).await?;
            if flags.watch && !flags.json {
                // Home, and nothing below.
                print!("\x1b[H\x1b[2J");
            }
            print!("{page}");
            // A reader that has gone needs nothing more.
            if std::io::stdout().flush().is_err() || !flags.watch {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
}

/// Where nodes are asked: at one address, or at the usual ports of this machine.
pub(crate) fn addresses(at: Option<SocketAddr>) -> Vec<SocketAddr> {
    let usual = || OBSERVE_PORTS.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec();
    at.map_or_else(usual, |address| vec![address])
}

async fn page(flags: &StatusFlags) -> Result<String, Failure> {
    let mut page = String::new();
    let mut silent = Vec::new();
    for address in addresses(flags.at) {
        match fetch(address).await {
            Ok(status) => page.push_str(&shown(&status, flags.json)),
            Err(error) => silent.push((address, error)),
        }
    }
    if page.is_empty() { Err(Failure::new(Cause::Network, nobody(&silent))) } else { Ok(page) }
}

/// What is said when nobody answers: everywhere that was tried, and what to do.
pub(crate) fn nobody(silent: &[(SocketAddr, String)]) -> String {
    let attempts: Vec<String> = silent.iter().map(|(address, error)| format!("{address}: {error}")).collect();
    format!(
        "no node answers at {}; start one (`systemctl status byway-agent byway-relay byway-controller` shows why it ended), or say \
         --at with its observe.listen",
        attempts.join(", nor at ")
    )
}

fn shown(status: &serde_json::Value, json: bool) -> String {
    if json { format!("{status}\n") } else { render::text(status) }
}

/// The status of the node that answers here.
///
/// # Errors
/// If it does not answer, or with something else.
pub(crate) async fn fetch(address: SocketAddr) -> Result<serde_json::Value, String> {
    let body = get(address, "/v1/status").await?;
    serde_json::from_slice(&body).map_err(|error| format!("the answer is no status: {error}"))
}

/// Whether a node says that it can do its work; waits for the answer.
pub(crate) fn is_ready(address: SocketAddr) -> bool {
    runtime().is_ok_and(|runtime| runtime.block_on(get(address, "/v1/ready")).is_ok())
}

/// What a node says of itself; waits for the answer.
pub(crate) fn of(address: SocketAddr) -> anyhow::Result<serde_json::Value> {
    let status = runtime()?.block_on(fetch(address));
    status.map_err(|error| anyhow::anyhow!("asking {address} for its status: {error}"))
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// What a node answers to a question about itself.
///
/// # Errors
/// If it does not answer in time, or not with success.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<Bytes, String> {
    exchange(address, Method::GET, path).await.map_err(|error| match error {
        NoAnswer::Silent(error) => error,
        NoAnswer::Refused(status, _) => format!("it answers {status}"),
    })
}

/// Why there is no answer of success.
pub(crate) enum NoAnswer {
    /// Nobody answers.
    Silent(String),
    /// The answer is another one, with this body.
    Refused(StatusCode, Bytes),
}

/// Asks a node for something, or to do something.
///
/// # Errors
/// If it does not answer in time, or not with success.
pub(crate) async fn exchange(address: SocketAddr, method: Method, path: &str) -> Result<Bytes, NoAnswer> {
    let answer = tokio::time::timeout(PATIENCE, ask(address, method, path)).await;
    let silent = || Err("no answer within 5 s".to_owned());
    let (status, body) = answer.unwrap_or_else(|_| silent()).map_err(NoAnswer::Silent)?;
    if status.is_success() { Ok(body) } else { Err(NoAnswer::Refused(status, body)) }
}

async fn ask(address: SocketAddr, method: Method, path: &str) -> Result<(StatusCode, Bytes), String> {
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
        let said = nobody(&silent);
        for port in OBSERVE_PORTS {
            assert!(said.contains(&format!("127.0.0.1:{port}: refused {port}")), "{said}");
        }
        assert!(said.contains("--at with its observe.listen"), "{said}");
    }
}
