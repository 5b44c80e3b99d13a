//! `byway protect`: an agent for a tunnel of `WireGuard` that is there already, and stays as it is.

mod ask;
mod derived;
mod wireguard;

use std::sync::Arc;

use byway_typed::{TypedDuration, TypedRate};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::exit::{Cause, Failure};
use crate::settings::{
    self, AgentFlags, AgentSettings, TypedCopies, TypedFile, TypedPrefix, TypedService, TypedTraffic,
};
use crate::{agent, logs, node};
use derived::{Derived, NamedPeer, Wish, derive};

/// What `byway protect` takes.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ProtectFlags {
    /// The tunnel's device, as `wg show interfaces` names it.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// The agent at the tunnel's other end. With several peers, each agent with the beginning of its peer's public key, as in
    /// `--peer bob=xTIBA5 --peer carol=gN65Bk`. By default the only one that `[network]` pairs this agent with.
    #[arg(long, value_name = "NAME[=KEY]")]
    peer: Vec<NamedPeer>,
    /// What both ends call the tunnel.
    #[arg(long, value_name = "NAME", default_value = "wireguard")]
    tunnel: String,
    /// Where the peers' packets may come from: addresses or prefixes. By default anywhere, as the tunnel checks by itself who sends.
    #[arg(long, value_name = "PREFIX", value_parser = checked::<TypedPrefix>)]
    from: Vec<String>,
    /// Whether packets go to the peers as answers alone, as to those behind NATs. By default, each peer's agent says whether its
    /// machine has the endpoint's address itself.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    peer_behind_nat: Option<bool>,
    /// What relays do for the tunnel.
    #[arg(long, default_value = "caching")]
    service: TypedService,
    /// What of it goes to the relay.
    #[arg(long, default_value = "usual")]
    copies: TypedCopies,
    /// What is in it: a mixture, of which losses are repaired unless packets queue on the direct path; datagrams where all losses are to
    /// be repaired; congestion-controlled where nearly all is TCP, of which bulk data then is not copied.
    #[arg(long, default_value = "mixture")]
    traffic: TypedTraffic,
    /// What comes later than this is lost; 250 ms by default.
    #[arg(long, value_name = "TIME", value_parser = checked::<TypedDuration>)]
    latency_budget: Option<String>,
    /// What the tunnel carries at most in each direction: relays drop copies beyond it. 100 Mbit/s by default.
    #[arg(long, value_name = "RATE", value_parser = checked::<TypedRate>)]
    rate: Option<String>,
    /// With --dry-run: as JSON.
    #[arg(long, requires = "dry_run")]
    json: bool,
    #[command(flatten)]
    agent: AgentFlags,
}

/// Text that is a quantity.
fn checked<T: std::str::FromStr>(text: &str) -> Result<String, T::Err> {
    text.parse::<T>().map(|_| text.to_owned())
}

const EXAMPLE: &str = "\
Example: alice and bob have a tunnel, wg0 on both machines. Each machine has a file for its agent, as in docs/guide.md, without any
[[capture]] or [[expose]]:

  alice$ sudo byway protect wg0 --config agent.toml --peer bob --dry-run    # what would be done, and nothing else
  alice$ sudo byway protect wg0 --config agent.toml --peer bob
  bob$   sudo byway protect wg0 --config agent.toml --peer alice

The tunnel goes on as it is: what it sends is captured on its way to the peer's endpoint while the other agent is there, and goes
without Byway within a second of the end of either. It takes root, and `wg` (Debian: apt install wireguard-tools). Endpoints and
addresses are read at the start, after wg-quick down and up, and on byway reload.";

/// Runs an agent for a tunnel until it is asked to stop.
///
/// # Errors
/// If there is no such tunnel, it is not clear what goes where, or the agent cannot start.
pub(crate) fn run(flags: ProtectFlags) -> Result<(), Failure> {
    let (derived, settings) = load(&flags)?;
    if settings.is_dry_run {
        show(&flags, &derived, &settings);
        return Ok(());
    }
    logs::start(settings.log);
    for note in &derived.notes {
        tracing::warn!(device = flags.device, "{note}");
    }
    agent::work(settings, Arc::new(move || Ok(load(&flags)?.1)))
}

/// Reads the agent's settings, and adds what the tunnel needs as it is now.
fn load(flags: &ProtectFlags) -> Result<(Derived, AgentSettings), Failure> {
    let around = settings::surroundings(&flags.agent)?;
    let facts = node::block_on(ask::facts(&flags.device))?;
    let derived = derive(&facts, &flags.wish(), &around)?;
    let addition: TypedFile = toml::from_str(&derived.tables)
        .map_err(|error| Failure::new(Cause::Settings, format!("{}: {}", flags.device, error.message())))?;
    let settings = settings::agent_settings_with(&flags.agent, addition)?;
    Ok((derived, settings))
}

impl ProtectFlags {
    fn wish(&self) -> Wish {
        let of_choice = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let mut terms = vec![
            ("service", of_choice(self.service.to_possible_value())),
            ("copies", of_choice(self.copies.to_possible_value())),
            ("traffic", of_choice(self.traffic.to_possible_value())),
        ];
        terms.extend(self.latency_budget.clone().map(|budget| ("latency_budget", budget)));
        terms.extend(self.rate.clone().map(|rate| ("rate", rate)));
        Wish {
            peers: self.peer.clone(),
            name: self.tunnel.clone(),
            from: self.from.clone(),
            behind_nat: self.peer_behind_nat == Some(true),
            terms,
        }
    }
}

/// What would be done.
fn show(flags: &ProtectFlags, derived: &Derived, settings: &AgentSettings) {
    let changes = agent::dry_run(settings);
    if flags.json {
        let tables: toml::Table = toml::from_str(&derived.tables).unwrap_or_default();
        println!(
            "{}",
            json!({ "device": flags.device, "settings": tables, "notes": derived.notes, "changes": changes })
        );
        return;
    }
    let notes = derived.notes.iter().fold(String::new(), |notes, note| notes + "# Note: " + note + ".\n");
    print!(
        "# What `byway protect {}` adds to the agent's settings:\n{notes}\n{}\n{changes}",
        flags.device, derived.tables
    );
}
