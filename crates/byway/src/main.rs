//! Byway, the program: `byway agent`, `byway relay`, `byway controller`, and what one needs beside them.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program speaks to people and scripts on its standard streams"
)]

#[cfg(fuzzing)]
compile_error!("a fuzzing build has no ciphers: build byway without `--cfg fuzzing`");

mod administration;
mod agent;
mod allowance;
mod capture;
mod child;
mod classes;
mod connections;
mod controller;
mod demo;
mod enclosed;
mod environment;
mod exit;
mod experiment;
mod interrupt;
mod lab;
mod link;
mod listening;
mod logs;
mod membership;
mod names;
mod node;
mod observe;
mod parallel;
mod platform;
mod protect;
mod relay;
mod reload;
mod reserved;
mod scratch;
mod settings;
mod signals;
mod sim;
mod standing;
mod status;
mod table;
mod token;
mod verdicts;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};

use exit::{Cause, Failure};
use settings::{AgentFlags, ControllerFlags, RelayFlags};

/// Network quality for applications: repairs what the Internet loses, with a few relays.
///
/// Start with one command on each machine: `byway controller`, then `byway token create`, `byway relay` and `byway agent` with the token. docs/guide.md
/// goes through it step by step. Exit codes: 0 done, 1 a fault of Byway, 2 settings, 3 this machine, 4 the network, 5 refused,
/// 6 not as expected.
#[derive(Debug, Parser)]
#[command(name = "byway", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs an agent: protects what applications on this machine send and receive.
    Agent(Box<AgentFlags>),
    /// Runs a relay: keeps repairs near receivers, and makes them near senders.
    Relay(Box<RelayFlags>),
    /// Runs a controller: tells agents and relays of each other.
    Controller(Box<ControllerFlags>),
    #[command(
        about = "Protects a WireGuard tunnel that is there already, at both ends, without touching its configuration"
    )]
    Protect(Box<protect::ProtectFlags>),
    /// Shows what a node says of itself.
    Status(status::StatusFlags),
    #[command(about = "Have running nodes read their settings again, without cutting flows that stay")]
    Reload(reload::ReloadFlags),
    /// Invitations to a network, on the controller's machine.
    #[command(subcommand)]
    Token(administration::TokenCommand),
    /// The members of a network, on the controller's machine.
    #[command(subcommand)]
    Node(administration::NodeCommand),
    /// Makes a node's secret key, and shows its public key.
    Keygen {
        /// Where the secret key goes; must not exist yet.
        file: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Checks configuration files, and explains them.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Shows that a video call survives an outage, on this machine alone.
    Demo(Box<demo::DemoFlags>),
    /// Networks in virtual time.
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Two classes at a network device, high rate and low delay, which senders choose by their packets' DSCP.
    #[command(subcommand)]
    Link(link::LinkCommand),
    /// Published results, measured again in virtual time.
    #[command(subcommand)]
    Experiment(experiment::ExperimentCommand),
    /// Networks of real programs on this machine.
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// The emulated wide-area network of the demo.
    #[command(hide = true)]
    DemoWan,
    /// Undoes what an agent changed that was killed together with its guard: routing rules, and marks of the firewall.
    Uncapture {
        /// The agent's routing table.
        #[arg(long, default_value_t = 4_600)]
        table: u32,
    },
    /// A process that undoes what an agent changed when that has ended.
    #[command(hide = true)]
    CaptureGuard(capture::GuardFlags),
    /// A process that ends with the one that started it.
    #[command(hide = true)]
    TiedChild(child::ChildFlags),
    /// The process that has a program of a lab in a namespace of processes.
    #[command(hide = true)]
    Enclose(enclosed::EnclosedFlags),
    /// The first process of such a namespace.
    #[command(hide = true)]
    Enclosed(enclosed::EnclosedFlags),
}

impl Command {
    /// Whether it warns of foreign variables at once: nodes do in their logs, and processes of others leave it to those.
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
    /// Says whether a file is right, without starting anything.
    Check {
        /// The file.
        file: PathBuf,
        /// Also resolves its DNS names, and shows their addresses.
        #[arg(long)]
        resolve: bool,
    },
    /// Prints the reference of everything that a file may say, as Markdown.
    Reference,
    /// Prints the description of the controller's HTTP interface, as JSON.
    Openapi,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Whoever listens may have gone: that is no failure of its own.
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
        Command::Token(command) => administration::tokens(command),
        Command::Node(command) => administration::nodes(command),
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
        Command::TiedChild(flags) => child::run(&flags).map(drop).map_err(Failure::from),
        Command::Enclose(flags) => enclosed::run_outer(&flags).map(drop).map_err(Failure::from),
        Command::Enclosed(flags) => enclosed::run_inner(&flags).map(drop).map_err(Failure::from),
    }
}

fn uncapture(table: u32) -> Result<(), Failure> {
    let removed = node::block_on(capture::undo(table))?;
    println!("{removed} rules of the table {table} removed");
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
            "{}: says nothing to an agent, a relay or a controller: see docs/configuration.md",
            file.display()
        );
        return Err(Failure::new(Cause::Settings, message));
    }
    println!("{}: right for {}", file.display(), roles.join(", "));
    if !resolves {
        return Ok(());
    }
    let hosts = settings::hosts_in_file(file)?;
    node::block_on(async {
        for host in hosts {
            match names::look_up(&host).await {
                Ok(addresses) => println!("  {host}: {}", names::listed(&addresses)),
                Err(error) => println!("  {host}: cannot resolve it now: {error}"),
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
