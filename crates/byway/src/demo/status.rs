//! Questions to the nodes' status interface.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;

use super::limits::STATUS_BYTES_MAX;

/// How long an answer may take: nodes answer at once, on a busy machine a little later.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether the node says that it can do its work.
pub(crate) fn is_ready(address: SocketAddr) -> bool {
    matches!(get(address, "/v1/ready"), Ok((StatusCode::OK, _)))
}

/// What the node says of itself.
pub(crate) fn status(address: SocketAddr) -> anyhow::Result<serde_json::Value> {
    let (code, body) =
        get(address, "/v1/status").with_context(|| format!("asking {address} for its status"))?;
    ensure!(code == StatusCode::OK, "{address} answers {code} when asked for its status");
    serde_json::from_slice(&body).with_context(|| format!("the status of {address}"))
}

fn get(address: SocketAddr, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match tokio::time::timeout(PATIENCE, ask(address, path)).await {
            Ok(answer) => answer,
            Err(_) => bail!("no answer within {} s", PATIENCE.as_secs()),
        }
    })
}

async fn ask(address: SocketAddr, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header(hyper::header::HOST, address.to_string());
    let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let code = response.status();
    let body = Limited::new(response.into_body(), STATUS_BYTES_MAX).collect().await;
    match body {
        Ok(body) => Ok((code, body.to_bytes())),
        Err(error) => bail!("the answer cannot be read: {error}"),
    }
}

/// What a node wants a person to know: every text under a key that is called `note`, each once, in the order of the document.
pub(crate) fn notes(status: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(status, &mut found);
    found
}

fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "note" => {
                        if !text.is_empty() && !found.contains(text) {
                            found.push(text.clone());
                        }
                    }
                    other => collect(other, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_wherever_they_stand_and_told_once() {
        let status = serde_json::json!({
            "flows": [{"note": "nobody to be coded with"}, {"note": "nobody to be coded with", "x": {"note": "use caching"}}, {"note": null}],
            "name": "alice", "note": "",
        });
        assert_eq!(notes(&status), ["nobody to be coded with", "use caching"]);
    }
}
