//! `byway token` and `byway node`: what an administrator does on the controller's machine.

use std::path::PathBuf;

use byway_api::{AgentName, Role, TokenAnswer};
use clap::{Args, Subcommand};

use crate::controller::{Administration, node_table, token_table};
use crate::exit::{Cause, Failure};
use crate::node;
use crate::settings::controller_state;
use crate::token::Token;
use byway_typed::TypedDuration;

/// Where the controller's state is.
#[derive(Clone, Debug, Args)]
pub(crate) struct StateFlags {
    /// The controller's state folder.
    #[arg(long, env = "BYWAY_STATE", value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// The controller's configuration file, which may name its state folder.
    #[arg(long, short, env = "BYWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Invitations to a network.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Makes a token, and prints it: whoever has it may join.
    Create {
        #[command(flatten)]
        state: StateFlags,
        /// What joins with it.
        #[arg(long)]
        role: TypedRole,
        /// Whose agents: agents of one tenant may talk to each other, and are coded together.
        #[arg(long)]
        tenant: Option<String>,
        /// How many nodes may join with it; 0 for any number.
        #[arg(long, default_value_t = 1)]
        uses: u32,
        /// For how long it may be used: 24h, 7d, or forever.
        #[arg(long, default_value = "24h")]
        expires: String,
    },
    /// Lists the tokens, without their secrets.
    List {
        #[command(flatten)]
        state: StateFlags,
    },
    /// Makes a token useless. Nodes that have joined with it stay.
    Revoke {
        #[command(flatten)]
        state: StateFlags,
        /// Its number in the list.
        number: u32,
    },
    /// Says what is in a token, but for its secret.
    Show {
        /// The token.
        token: String,
    },
}

/// The members of a network.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Lists agents and relays.
    List {
        #[command(flatten)]
        state: StateFlags,
    },
    /// Removes a node: its bearer and its grants are renewed no more.
    Remove {
        #[command(flatten)]
        state: StateFlags,
        /// Its number in the list.
        number: u32,
    },
    /// Lets two agents talk to each other, of different tenants too.
    Pair {
        #[command(flatten)]
        state: StateFlags,
        /// Both, as TENANT/NAME.
        #[arg(num_args = 2, value_name = "TENANT/NAME")]
        agents: Vec<String>,
    },
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TypedRole {
    /// Protects applications.
    Agent,
    /// Repairs.
    Relay,
}

/// Does what `byway token` was asked for.
///
/// # Errors
/// If the controller does not answer, or refuses.
pub(crate) fn tokens(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Show { token } => {
            let token: Token = token.parse().map_err(|error| Failure::new(Cause::Settings, error))?;
            print!("{}", token.describe());
            Ok(())
        }
        TokenCommand::Create { state, role, tenant, uses, expires } => {
            let lifetime = lifetime(&expires)?;
            let role = match role {
                TypedRole::Agent => Role::Agent,
                TypedRole::Relay => Role::Relay,
            };
            let uses = (uses > 0).then_some(uses);
            let answer = administer(&state, async |mut controller| {
                controller.create_token(role, tenant, uses, lifetime).await
            })?;
            let token = |answer: &TokenAnswer| answer.token.clone();
            say(&state, &answer, token);
            Ok(())
        }
        TokenCommand::List { state } => {
            let list = administer(&state, async |mut controller| controller.tokens().await)?;
            say(&state, &list, |list| token_table(list).trim_end().to_owned());
            Ok(())
        }
        TokenCommand::Revoke { state, number } => {
            administer(&state, async |mut controller| controller.revoke_token(number).await)?;
            say(&state, &serde_json::json!({ "revoked": number }), |_| format!("token {number} is revoked"));
            Ok(())
        }
    }
}

/// Does what `byway node` was asked for.
///
/// # Errors
/// If the controller does not answer, or refuses.
pub(crate) fn nodes(command: NodeCommand) -> Result<(), Failure> {
    match command {
        NodeCommand::List { state } => {
            let list = administer(&state, async |mut controller| controller.nodes().await)?;
            say(&state, &list, |list| node_table(list).trim_end().to_owned());
            Ok(())
        }
        NodeCommand::Remove { state, number } => {
            administer(&state, async |mut controller| controller.remove_node(number).await)?;
            say(&state, &serde_json::json!({ "removed": number }), |_| format!("node {number} is removed"));
            Ok(())
        }
        NodeCommand::Pair { state, agents } => {
            let named = agents.iter().map(|text| agent_name(text)).collect::<Result<Vec<_>, _>>()?;
            let named: [AgentName; 2] = named.try_into().expect("clap takes two names");
            let answer = administer(&state, async |mut controller| controller.pair(named).await)?;
            say(&state, &answer, |answer| {
                format!("agents {} and {} are paired", answer.agents[0], answer.agents[1])
            });
            Ok(())
        }
    }
}

fn agent_name(text: &str) -> Result<AgentName, Failure> {
    text.parse().map_err(|error| Failure::new(Cause::Settings, error))
}

/// For how long a token may be used; `None`: for ever.
fn lifetime(text: &str) -> Result<Option<std::time::Duration>, Failure> {
    if text == "forever" {
        return Ok(None);
    }
    let wrong = |error| Failure::new(Cause::Settings, format!("--expires: {error}, or forever"));
    let typed: TypedDuration = text.parse().map_err(wrong)?;
    Ok(Some(std::time::Duration::from_nanos(typed.0.as_nanos())))
}

fn say<T: serde::Serialize>(flags: &StateFlags, answer: &T, text: impl Fn(&T) -> String) {
    if flags.json {
        println!("{}", serde_json::to_string(answer).expect("answers are JSON"));
    } else {
        println!("{}", text(answer));
    }
}

fn administer<T>(
    flags: &StateFlags,
    act: impl AsyncFnOnce(Administration) -> Result<T, crate::membership::MembershipError>,
) -> Result<T, Failure> {
    let state = controller_state(flags.state.clone(), flags.config.as_deref())?;
    node::block_on(async { Ok(act(Administration::open(&state)?).await?) })
}
