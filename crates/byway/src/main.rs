//! The `byway` program: its command line, and the modules behind the subcommands.
//!
//! | module | subject |
//! |---|---|
//! | `abstract_names` | claims as abstract addresses of Unix sockets |
//! | `administration` | `byway token` and `byway node` |
//! | `agent` | `byway agent`: the proxy and its packet thread |
//! | `capture` | routing of an agent's captured packets, and its clean-up |
//! | `child_process` | child processes that end with their parent |
//! | `classes` | table of the counters of links' classes |
//! | `connections` | limits of HTTP connections to a controller or a status server |
//! | `controller` | `byway controller`: membership, grants and maps |
//! | `cost` | `byway cost`, and bills of relays |
//! | `demo` | `byway demo` |
//! | `environment` | warnings about unknown environment variables |
//! | `exit` | exit codes and failures |
//! | `experiment` | `byway experiment` |
//! | `explain` | `byway explain` |
//! | `interrupt` | Ctrl-C in commands that wait |
//! | `lab` | `byway lab` |
//! | `link` | `byway link`: two classes at a network device |
//! | `listen_sockets` | sockets on addresses of supported families |
//! | `logs` | log output |
//! | `membership` | a node's client of the controller |
//! | `name_resolution` | lookups of DNS names in the settings |
//! | `node` | runtime and thread ends of a node |
//! | `node_identity` | a node's key, number, map and membership |
//! | `observe` | a node's status server: status, metrics, readiness |
//! | `parallel` | parallel work on all cores |
//! | `pid_namespace` | a program in a namespace of processes |
//! | `platform` | randomness and fast ciphers of the machine |
//! | `protect` | `byway protect`: WireGuard tunnels |
//! | `relay` | `byway relay`: packet threads of the shards |
//! | `reload` | `byway reload`, and a node's side of it |
//! | `run_limits` | real time and memory that a run in virtual time may use |
//! | `settings` | flags, environment variables and configuration files |
//! | `signals` | stop and reload signals of a node |
//! | `sim` | `byway sim` |
//! | `status` | `byway status` |
//! | `table` | aligned tables of text |
//! | `temp_dir` | temporary folders that do not outlive the program |
//! | `token` | tokens, as text |
//! | `verdicts` | results of expectations on runs |

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program speaks to people and scripts on its standard streams"
)]

#[cfg(fuzzing)]
compile_error!("no ciphers in a fuzzing build: build byway without `--cfg fuzzing`");

mod abstract_names;
mod administration;
mod agent;
mod capture;
mod child_process;
mod classes;
mod connections;
mod controller;
mod cost;
mod demo;
mod environment;
mod exit;
mod experiment;
mod explain;
mod interrupt;
mod lab;
mod link;
mod listen_sockets;
mod logs;
mod membership;
mod name_resolution;
mod node;
mod node_identity;
mod observe;
mod parallel;
mod pid_namespace;
mod platform;
mod protect;
mod relay;
mod reload;
mod run_limits;
mod settings;
mod signals;
mod sim;
mod status;
mod table;
mod temp_dir;
mod token;
mod verdicts;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};

use exit::{Cause, Failure};
use settings::{AgentFlags, ControllerFlags, RelayFlags};

/// Network quality for applications: repair losses of the Internet with a few relays.
///
/// Start with one command on each machine: `byway controller`, then `byway token create`,
/// `byway relay` and `byway agent` with the token. docs/guide.md explains the steps. Exit codes: 0
/// success, 1 a fault of Byway, 2 settings, 3 this machine, 4 the network, 5 refused, 6 not as
/// expected.
#[derive(Debug, Parser)]
#[command(name = "byway", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an agent, which protects the traffic of applications on this machine.
    Agent(Box<AgentFlags>),
    /// Run a relay, which stores repairs near receivers and makes them near senders.
    Relay(Box<RelayFlags>),
    /// Run a controller, which makes agents and relays known to each other.
    Controller(Box<ControllerFlags>),
    #[command(
        about = "Protect an existing WireGuard tunnel, at both ends, without changing its configuration"
    )]
    Protect(Box<protect::ProtectFlags>),
    /// Show a node's status.
    Status(status::StatusFlags),
    /// Show what relays cost: bytes and bills of the month, and costs of an agent's flows.
    ///
    /// A relay shows its traffic of the calendar month (UTC) and, if its file has its prices, the
    /// bill so far. A controller shows both for all relays that report to it. An agent shows, for
    /// each flow since the agent started: bytes by segment, the cost of the relays' bytes, and what
    /// it would be if relays forwarded every packet. If all packets took the direct path, it would
    /// be 0.
    Cost(cost::CostFlags),
    /// Explain the service of a flow: all candidates, and what would change the choice.
    ///
    /// The table has the predicted time from sending to delivery of each service: the median, the
    /// 95th percentile, and that of a packet that the direct path loses. It also has the share that
    /// stays lost or is late, the cost of relays' bytes, and the bytes on the uplink and from
    /// relays. It says why each other service is not chosen. Without a flow, lists the agent's
    /// flows.
    Explain(explain::ExplainFlags),
    #[command(about = "Reload the settings of running nodes, without interrupting unchanged flows")]
    Reload(reload::ReloadFlags),
    /// Manage invitations to a network, on the controller's machine.
    #[command(subcommand)]
    Token(administration::TokenCommand),
    /// Manage the members of a network, on the controller's machine.
    #[command(subcommand)]
    Node(administration::NodeCommand),
    /// Create a node's secret key, and print its public key.
    Keygen {
        /// File for the secret key; must not exist.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check and explain configuration files.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Demonstrate that a video call survives an outage, on this machine alone.
    Demo(Box<demo::DemoFlags>),
    /// Run network simulations.
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Manage a high-rate and a low-delay class at a network device, selected by DSCP.
    #[command(subcommand)]
    Link(link::LinkCommand),
    /// Repeat published experiments in virtual time.
    #[command(subcommand)]
    Experiment(experiment::ExperimentCommand),
    /// Run scenarios with real programs in network namespaces.
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Run the emulated wide-area network of the demo.
    #[command(hide = true)]
    DemoWan,
    /// Undo the changes of an agent that was killed together with its guard.
    ///
    /// The changes are routing rules and firewall marks.
    Uncapture {
        /// Routing table of the agent.
        #[arg(long, default_value_t = 4_600)]
        table: u32,
    },
    /// Run the process that undoes an agent's changes after the agent's end.
    #[command(hide = true)]
    CaptureGuard(capture::GuardFlags),
    /// Run a process that ends with its parent.
    #[command(hide = true)]
    TiedChild(child_process::ChildFlags),
    /// Run a program of a lab in a PID namespace: the outer process.
    #[command(hide = true)]
    Enclose(pid_namespace::NamespaceFlags),
    /// Run the first process of such a namespace.
    #[command(hide = true)]
    Enclosed(pid_namespace::NamespaceFlags),
}

impl Command {
    /// True if the command warns of unknown variables at once. Nodes warn in their logs, and child
    /// processes leave it to their parents.
    const fn warns(&self) -> bool {
        let is_node =
            matches!(self, Self::Agent(_) | Self::Protect(_) | Self::Relay(_) | Self::Controller(_));
        let is_of_another = matches!(
            self,
            Self::DemoWan | Self::CaptureGuard(_) | Self::TiedChild(_) | Self::Enclose(_) | Self::Enclosed(_)
        );
        !is_node && !is_of_another
    }
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check a file without starting anything.
    Check {
        /// Configuration file.
        file: PathBuf,
        /// Resolve its DNS names, too, and print their addresses.
        #[arg(long)]
        resolve: bool,
    },
    /// Print the reference of all settings, as Markdown.
    Reference,
    /// Print the `OpenAPI` description of the controller's HTTP interface, as JSON.
    Openapi,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The other end of standard error may be closed, which is no failure of its own.
            let _ = writeln!(io::stderr(), "error: {failure}");
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    if command.warns()
        && let Some(warning) = environment::foreign_variables()
    {
        eprintln!("warning: {warning}");
    }
    match command {
        Command::Agent(flags) => agent::run(Arc::new(move || Ok(settings::agent_settings(&flags)?))),
        Command::Protect(flags) => protect::run(*flags),
        Command::Relay(flags) => relay::run(Arc::new(move || Ok(settings::relay_settings(&flags)?))),
        Command::Controller(flags) => {
            controller::run(Arc::new(move || Ok(settings::controller_settings(&flags)?)))
        }
        Command::Reload(flags) => reload::run(&flags),
        Command::Status(flags) => status::run(&flags),
        Command::Cost(flags) => cost::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Token(command) => administration::run_token_command(command),
        Command::Node(command) => administration::run_node_command(command),
        Command::Keygen { file, json } => keygen(&file, json),
        Command::Config(ConfigCommand::Check { file, resolve }) => check(&file, resolve),
        Command::Config(ConfigCommand::Reference) => {
            print!("{}", settings::reference());
            Ok(())
        }
        Command::Config(ConfigCommand::Openapi) => {
            print!("{}", controller::openapi_document());
            Ok(())
        }
        Command::Demo(flags) => demo::run(&flags).map_err(Failure::from),
        Command::Sim(command) => sim::run(&command),
        Command::Experiment(command) => experiment::run(&command),
        Command::Link(command) => link::run(&command),
        Command::Lab(command) => lab::run(&command).map_err(Failure::from),
        Command::DemoWan => demo::run_wan().map_err(Failure::from),
        Command::Uncapture { table } => uncapture(table),
        Command::CaptureGuard(flags) => capture::guard(&flags),
        Command::TiedChild(flags) => child_process::run(&flags).map(drop).map_err(Failure::from),
        Command::Enclose(flags) => pid_namespace::run_outer(&flags).map(drop).map_err(Failure::from),
        Command::Enclosed(flags) => pid_namespace::run_inner(&flags).map(drop).map_err(Failure::from),
    }
}

fn uncapture(table: u32) -> Result<(), Failure> {
    let removed = node::block_on(capture::undo(table))?;
    println!("{removed} rules of routing table {table} removed");
    Ok(())
}

fn keygen(file: &std::path::Path, json: bool) -> Result<(), Failure> {
    let key = membership::NodeKey::generate();
    key.save(file)?;
    let public = key.public_key();
    if json {
        println!("{}", serde_json::json!({ "file": file, "public_key": public.to_string() }));
    } else {
        println!("secret key: {}\npublic key: {public}", file.display());
    }
    Ok(())
}

fn check(file: &std::path::Path, resolves: bool) -> Result<(), Failure> {
    let roles = settings::check_file(file)?;
    if roles.is_empty() {
        let message = format!(
            "{}: no [agent], [relay] or [controller] settings found: see docs/configuration.md",
            file.display()
        );
        return Err(Failure::new(Cause::Settings, message));
    }
    println!("{}: valid for {}", file.display(), roles.join(", "));
    if !resolves {
        return Ok(());
    }
    let hosts = settings::hosts_in_file(file)?;
    node::block_on(async {
        for host in hosts {
            match name_resolution::resolve_host(&host).await {
                Ok(addresses) => println!("  {host}: {}", name_resolution::format_addresses(&addresses)),
                Err(error) => println!("  {host}: cannot resolve: {error}"),
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
