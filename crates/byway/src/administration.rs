//! `byway token` and `byway node`: commands of an administrator on the controller's machine.

use std::path::PathBuf;

use byway_api::{AgentName, Role, TokenAnswer};
use clap::{Args, Subcommand};

use crate::controller::{AdminClient, node_table, token_table};
use crate::exit::{Cause, Failure};
use crate::node;
use crate::settings::controller_state;
use crate::token::Token;
use byway_config_types::DurationSetting;

/// Location of the controller's state.
#[derive(Clone, Debug, Args)]
pub(crate) struct StateFlags {
    /// The controller's state folder.
    #[arg(long, env = "BYWAY_STATE", value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// The controller's configuration file, which may name its state folder.
    #[arg(long, short, env = "BYWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Invitations to a network.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it; any node that has it may join.
    Create {
        #[command(flatten)]
        state: StateFlags,
        /// Role of the nodes that join with it, or of the program that reads with it.
        #[arg(long)]
        role: RoleSetting,
        /// Tenant of the agents or the application: agents of one tenant may exchange flows, and
        /// are coded together.
        #[arg(long)]
        tenant: Option<String>,
        /// Number of nodes that may join with it; 0 for any number [default: 1]. Not for
        /// applications, which do not join.
        #[arg(long)]
        uses: Option<u32>,
        /// Lifetime of the token: 24h, 7d, or forever [default: 24h; of an application forever].
        #[arg(long)]
        expires: Option<String>,
    },
    /// List the tokens, without their secrets.
    List {
        #[command(flatten)]
        state: StateFlags,
    },
    /// Revoke a token; nodes that have joined with it stay members.
    Revoke {
        #[command(flatten)]
        state: StateFlags,
        /// Its number in the list.
        number: u32,
    },
    /// Show the content of a token, without its secret.
    Show {
        /// The token.
        token: String,
    },
}

/// The members of a network.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List agents, relays and links.
    List {
        #[command(flatten)]
        state: StateFlags,
    },
    /// Remove a node; its bearer secret becomes invalid, and its grants are not renewed.
    Remove {
        #[command(flatten)]
        state: StateFlags,
        /// Its number in the list.
        number: u32,
    },
    /// Permit two agents to exchange flows, also across tenants.
    Pair {
        #[command(flatten)]
        state: StateFlags,
        /// Both agents, as TENANT/NAME.
        #[arg(num_args = 2, value_name = "TENANT/NAME")]
        agents: Vec<String>,
    },
}

/// Role of the nodes that may join with a token, or of the application that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RoleSetting {
    /// Agent: protects applications.
    Agent,
    /// Relay: repairs losses.
    Relay,
    /// Link: reports its queues and rates.
    Link,
    /// Application: registers its flows, and reads network state; the token is its bearer secret.
    Application,
}

impl RoleSetting {
    /// Returns the number of uses of a token of this role: the one of `--uses`, or the default.
    /// `None` is any number.
    fn uses(self, typed: Option<u32>) -> Option<u32> {
        if self == Self::Application { typed } else { Some(typed.unwrap_or(1)).filter(|uses| *uses > 0) }
    }

    /// Returns the lifetime of a token of this role as typed by `--expires`, or the default. An
    /// application authenticates with the token for as long as it is valid.
    const fn expires(self) -> &'static str {
        if matches!(self, Self::Application) { "forever" } else { "24h" }
    }
}

impl From<RoleSetting> for Role {
    fn from(role: RoleSetting) -> Self {
        match role {
            RoleSetting::Agent => Self::Agent,
            RoleSetting::Relay => Self::Relay,
            RoleSetting::Link => Self::Link,
            RoleSetting::Application => Self::Application,
        }
    }
}

/// Runs a `byway token` command, and prints its result.
///
/// # Errors
/// If the controller does not answer, or refuses.
pub(crate) fn run_token_command(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Show { token } => {
            let token: Token = token.parse().map_err(|error| Failure::new(Cause::Settings, error))?;
            print!("{}", token.describe());
            Ok(())
        }
        TokenCommand::Create { state, role, tenant, uses, expires } => {
            let lifetime = lifetime(expires.as_deref().unwrap_or(role.expires()))?;
            let uses = role.uses(uses);
            let answer = administer(&state, async |mut controller| {
                controller.create_token(role.into(), tenant, uses, lifetime).await
            })?;
            let token = |answer: &TokenAnswer| answer.token.clone();
            print_answer(&state, &answer, token);
            Ok(())
        }
        TokenCommand::List { state } => {
            let list = administer(&state, async |mut controller| controller.tokens().await)?;
            print_answer(&state, &list, |list| token_table(list).trim_end().to_owned());
            Ok(())
        }
        TokenCommand::Revoke { state, number } => {
            administer(&state, async |mut controller| controller.revoke_token(number).await)?;
            print_answer(&state, &serde_json::json!({ "revoked": number }), |_| {
                format!("token {number} revoked")
            });
            Ok(())
        }
    }
}

/// Runs a `byway node` command, and prints its result.
///
/// # Errors
/// If the controller does not answer, or refuses.
pub(crate) fn run_node_command(command: NodeCommand) -> Result<(), Failure> {
    match command {
        NodeCommand::List { state } => {
            let list = administer(&state, async |mut controller| controller.nodes().await)?;
            print_answer(&state, &list, |list| node_table(list).trim_end().to_owned());
            Ok(())
        }
        NodeCommand::Remove { state, number } => {
            administer(&state, async |mut controller| controller.remove_node(number).await)?;
            print_answer(&state, &serde_json::json!({ "removed": number }), |_| {
                format!("node {number} removed")
            });
            Ok(())
        }
        NodeCommand::Pair { state, agents } => {
            let named = agents.iter().map(|text| agent_name(text)).collect::<Result<Vec<_>, _>>()?;
            let named: [AgentName; 2] = named.try_into().expect("clap takes two names");
            let answer = administer(&state, async |mut controller| controller.pair(named).await)?;
            print_answer(&state, &answer, |answer| {
                format!("agents {} and {} paired", answer.agents[0], answer.agents[1])
            });
            Ok(())
        }
    }
}

fn agent_name(text: &str) -> Result<AgentName, Failure> {
    text.parse().map_err(|error| Failure::new(Cause::Settings, error))
}

/// Parses the lifetime of a token (`--expires`); `None` for no end.
fn lifetime(text: &str) -> Result<Option<std::time::Duration>, Failure> {
    if text == "forever" {
        return Ok(None);
    }
    let wrong = |error| Failure::new(Cause::Settings, format!("--expires: {error}, or forever"));
    let typed: DurationSetting = text.parse().map_err(wrong)?;
    Ok(Some(std::time::Duration::from_nanos(typed.0.as_nanos())))
}

fn print_answer<T: serde::Serialize>(flags: &StateFlags, answer: &T, text: impl Fn(&T) -> String) {
    if flags.json {
        println!("{}", serde_json::to_string(answer).expect("answers are JSON"));
    } else {
        println!("{}", text(answer));
    }
}

fn administer<T>(
    flags: &StateFlags,
    act: impl AsyncFnOnce(AdminClient) -> Result<T, crate::membership::MembershipError>,
) -> Result<T, Failure> {
    let state = controller_state(flags.state.clone(), flags.config.as_deref())?;
    node::block_on(async { Ok(act(AdminClient::open(&state)?).await?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_nodes_are_for_one_and_a_day_and_those_of_applications_for_ever() {
        for role in [RoleSetting::Agent, RoleSetting::Relay, RoleSetting::Link] {
            assert_eq!([None, Some(3), Some(0)].map(|uses| role.uses(uses)), [Some(1), Some(3), None]);
            let day = std::time::Duration::from_secs(86_400);
            assert!(lifetime(role.expires()).is_ok_and(|lifetime| lifetime == Some(day)));
        }
        let role = RoleSetting::Application;
        assert_eq!(
            [None, Some(3)].map(|uses| role.uses(uses)),
            [None, Some(3)],
            "the controller refuses uses"
        );
        assert!(lifetime(role.expires()).is_ok_and(|lifetime| lifetime.is_none()));
    }
}
