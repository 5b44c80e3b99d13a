//! `byway explain`: queries an agent for the reasons of a flow's service, and prints them.

mod render;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use byway_api::{FlowExplanation, FlowList};
use clap::Args;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;

use crate::exit::{Cause, Failure};
use crate::node;
use crate::settings::OBSERVE_PORTS;
use crate::status::{NoAnswer, exchange, no_answer_message};

/// Queries for an explanation whose delays are not all measured: relays of earlier versions never
/// answer with theirs.
const QUERIES_FOR_DELAYS: u8 = 5;

/// Interval of these queries: most round trips to a relay are shorter.
const QUERY_INTERVAL: Duration = Duration::from_millis(200);

/// Flags of `byway explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainFlags {
    /// Flow, as the peer's name, a colon and the flow's number: `bob:7` [default: list the flows].
    flow: Option<String>,
    /// The agent's observe.listen [default: 127.0.0.1:4680].
    #[arg(long, env = "BYWAY_OBSERVE", value_name = "ADDRESS:PORT")]
    at: Option<SocketAddr>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the explanation of a flow's service, or the list of flows.
///
/// # Errors
/// If the agent does not answer, or has no such flow.
pub(crate) fn run(flags: &ExplainFlags) -> Result<(), Failure> {
    let at = flags.at.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, OBSERVE_PORTS[0]).into());
    node::block_on(async {
        let page = match &flags.flow {
            None => {
                let flows: FlowList = query(at, "/v1/flows", "").await?;
                if flags.json { json(&flows) } else { render::list(&flows) }
            }
            Some(id) => {
                check_id(id)?;
                let path = format!("/v1/flows/{id}/explanation");
                let explanation = explanation(at, &path, id).await?;
                if flags.json { json(&explanation) } else { render::explanation(&explanation) }
            }
        };
        print!("{page}");
        Ok(())
    })
}

/// Returns the explanation of a flow. An agent that lacks a delay requests it when it is queried,
/// so the query is repeated a few times.
async fn explanation(at: SocketAddr, path: &str, id: &str) -> Result<FlowExplanation, Failure> {
    for _ in 0..QUERIES_FOR_DELAYS {
        let explanation: FlowExplanation = query(at, path, id).await?;
        let measured = &explanation.measured;
        if measured.ingress.is_none() || measured.between_relays_ms.is_some() {
            return Ok(explanation);
        }
        tokio::time::sleep(QUERY_INTERVAL).await;
    }
    query(at, path, id).await
}

fn json(answer: &impl serde::Serialize) -> String {
    serde_json::to_string(answer).expect("answers have only texts and numbers") + "\n"
}

/// Checks the form of a flow's identifier.
fn check_id(id: &str) -> Result<(), Failure> {
    let parts = id.split_once(':');
    let is_valid = parts
        .is_some_and(|(peer, number)| byway_api::checked_name(peer).is_ok() && number.parse::<u16>().is_ok());
    if is_valid {
        return Ok(());
    }
    let message = format!(
        "invalid flow {id:?}: name the peer and the flow's number, as in bob:7; `byway explain` lists them"
    );
    Err(Failure::new(Cause::Settings, message))
}

async fn query<T: DeserializeOwned>(at: SocketAddr, path: &str, id: &str) -> Result<T, Failure> {
    let network = |message: String| Failure::new(Cause::Network, message);
    match exchange(at, Method::GET, path).await {
        Ok(body) => serde_json::from_slice(&body)
            .map_err(|error| network(format!("invalid answer of the node at {at}: {error}"))),
        Err(NoAnswer::Silent(error)) => Err(network(no_answer_message(&[(at, error)]))),
        Err(NoAnswer::Refused(StatusCode::NOT_FOUND, body)) if body.starts_with(b"flow not found") => {
            let message = format!("flow {id:?} not found: `byway explain` lists the agent's flows");
            Err(Failure::new(Cause::Refused, message))
        }
        Err(NoAnswer::Refused(StatusCode::NOT_FOUND, _)) => {
            let message = format!("the node at {at} has no flows: give an agent's observe.listen with --at");
            Err(Failure::new(Cause::Settings, message))
        }
        Err(NoAnswer::Refused(status, _)) => Err(network(format!("the node at {at} answers {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_named_by_peer_and_number() {
        assert!(check_id("bob:7").is_ok() && check_id("site-1.a:65535").is_ok());
        for id in ["", "bob", "bob:", ":7", "bob:65536", "bob:7/../..", "bob:-1", "b b:7"] {
            let failure = check_id(id).expect_err(id).to_string();
            assert!(failure.contains("as in bob:7"), "{failure}");
        }
    }
}
