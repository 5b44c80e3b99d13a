//! `byway cost`: queries nodes for their costs, and prints them. Also the bills of relays.

mod bills;
mod render;

use std::net::SocketAddr;

use byway_api::{AgentCost, NetworkCost, RelayCost};
use clap::Args;
use serde::Deserialize;

pub(crate) use bills::{PricedRelays, reported};

use crate::exit::{Cause, Failure};
use crate::node;
use crate::status::{addresses, get, no_answer_message};

/// Flags of `byway cost`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CostFlags {
    /// The node's observe.listen [default: all nodes at the usual ports of this machine].
    #[arg(long, env = "BYWAY_OBSERVE", value_name = "ADDRESS:PORT")]
    at: Option<SocketAddr>,
    /// Print JSON, one line for each node.
    #[arg(long)]
    json: bool,
}

/// Costs as a node answers them, by its role.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum NodeCost {
    Relay(RelayCost),
    Agent(AgentCost),
    Controller(NetworkCost),
}

/// Prints the costs of one node, or of all nodes of this machine.
///
/// # Errors
/// If no node answers.
pub(crate) fn run(flags: &CostFlags) -> Result<(), Failure> {
    node::block_on(async {
        let (mut page, mut silent) = (String::new(), Vec::new());
        for address in addresses(flags.at) {
            match fetch(address, flags.json).await {
                Ok(text) => page.push_str(&text),
                Err(error) => silent.push((address, error)),
            }
        }
        if page.is_empty() {
            return Err(Failure::new(Cause::Network, no_answer_message(&silent)));
        }
        print!("{page}");
        Ok(())
    })
}

async fn fetch(address: SocketAddr, is_json: bool) -> Result<String, String> {
    let body = get(address, "/v1/cost").await?;
    let invalid = |error: serde_json::Error| format!("invalid costs in the reply: {error}");
    if is_json {
        let json: serde_json::Value = serde_json::from_slice(&body).map_err(invalid)?;
        return Ok(format!("{json}\n"));
    }
    Ok(match serde_json::from_slice(&body).map_err(invalid)? {
        NodeCost::Relay(cost) => render::relay(&cost),
        NodeCost::Agent(cost) => render::agent(&cost),
        NodeCost::Controller(cost) => render::network(&cost),
    })
}
