//! `byway protect`: an agent that captures an existing `WireGuard` tunnel, without changes to the
//! tunnel.

mod derivation;
mod query;
mod wireguard;

use std::sync::Arc;

use byway_config_types::{DurationSetting, RateSetting};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::exit::{Cause, Failure};
use crate::settings::{
    self, AgentFlags, AgentSettings, CopiesSetting, PrefixSetting, RawFile, ServiceSetting, TrafficSetting,
};
use crate::{agent, logs, node};
use derivation::{DerivedConfig, NamedPeer, ProtectRequest, derive};

/// Flags of `byway protect`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ProtectFlags {
    /// Device of the tunnel, as `wg show interfaces` names it.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Agent at the tunnel's other end [default: the only one paired by `[network]`].
    ///
    /// With several peers, each agent with the beginning of its peer's public key, as in
    /// `--peer bob=xTIBA5 --peer carol=gN65Bk`.
    #[arg(long, value_name = "NAME[=KEY]")]
    peer: Vec<NamedPeer>,
    /// Name of the tunnel, the same at both ends.
    #[arg(long, value_name = "NAME", default_value = "wireguard")]
    tunnel: String,
    /// Source addresses or prefixes of the peers' packets [default: any].
    ///
    /// The tunnel itself authenticates senders.
    #[arg(long, value_name = "PREFIX", value_parser = checked::<PrefixSetting>)]
    from: Vec<String>,
    /// Capture only answers to the peers, as behind NATs [default: as each peer's agent reports].
    ///
    /// That agent knows whether its machine has the endpoint's address.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    peer_behind_nat: Option<bool>,
    /// Service of the relays for the tunnel.
    #[arg(long, default_value = "caching")]
    service: ServiceSetting,
    /// Packets of the tunnel that go to the relay.
    #[arg(long, default_value = "usual")]
    copies: CopiesSetting,
    /// Kind of the tunnel's packets.
    ///
    /// Losses of a mixture are repaired unless packets queue on the direct path. All losses of
    /// datagrams are repaired. If nearly all is TCP, `congestion-controlled` avoids copies of bulk
    /// data.
    #[arg(long, default_value = "mixture")]
    traffic: TrafficSetting,
    /// Latency budget, after which a packet counts as lost [default: 250 ms].
    #[arg(long, value_name = "TIME", value_parser = checked::<DurationSetting>)]
    latency_budget: Option<String>,
    /// One-way delay of the direct path beyond which packets go by relays, if these are faster
    /// [default: the direct path is used however slow it is].
    #[arg(long, value_name = "TIME", value_parser = checked::<DurationSetting>)]
    acceptable_delay: Option<String>,
    /// Least difference of the delays for which packets change to the faster path [default: 10 ms].
    #[arg(long, value_name = "TIME", requires = "acceptable_delay", value_parser = checked::<DurationSetting>)]
    delay_gain: Option<String>,
    /// Largest rate in each direction; relays drop copies beyond it [default: 100 Mbit/s].
    #[arg(long, value_name = "RATE", value_parser = checked::<RateSetting>)]
    rate: Option<String>,
    /// Print JSON, with --dry-run.
    #[arg(long, requires = "dry_run")]
    json: bool,
    #[command(flatten)]
    agent: AgentFlags,
}

/// Returns the text of a flag if it can be parsed as a `T`, such as a rate; otherwise the parser's
/// error.
fn checked<T: std::str::FromStr>(text: &str) -> Result<String, T::Err> {
    text.parse::<T>().map(|_| text.to_owned())
}

const EXAMPLE: &str = "\
Example: alice and bob have a tunnel, wg0 on both machines. Each machine has a file for its agent, as in docs/guide.md, without any
[[capture]] or [[expose]]:

  alice$ sudo byway protect wg0 --config agent.toml --peer bob --dry-run    # show the settings, change nothing
  alice$ sudo byway protect wg0 --config agent.toml --peer bob
  bob$   sudo byway protect wg0 --config agent.toml --peer alice

The tunnel stays unchanged. Its packets to the peer's endpoint are captured while the other agent is connected; within a second
after either agent has ended, they bypass Byway. Needs root, and `wg` (Debian: apt install wireguard-tools). Endpoints and addresses
are read at the start, after wg-quick down and up, and on byway reload.";

/// Runs an agent that captures the tunnel, until the process is asked to stop. A reload derives the
/// captures again.
///
/// # Errors
/// If the tunnel does not exist, its captures are ambiguous, or the agent cannot start.
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
    agent::run_with_settings(settings, Arc::new(move || Ok(load(&flags)?.1)))
}

/// Reads the agent's settings, and adds the captures and exposed networks for the tunnel's present
/// state.
fn load(flags: &ProtectFlags) -> Result<(DerivedConfig, AgentSettings), Failure> {
    let context = settings::agent_context(&flags.agent)?;
    let facts = node::block_on(query::facts(&flags.device))?;
    let derived = derive(&facts, &flags.request(), &context)?;
    let addition: RawFile = toml::from_str(&derived.tables)
        .map_err(|error| Failure::new(Cause::Settings, format!("{}: {}", flags.device, error.message())))?;
    let settings = settings::agent_settings_with(&flags.agent, addition)?;
    Ok((derived, settings))
}

impl ProtectFlags {
    fn request(&self) -> ProtectRequest {
        let of_choice = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let mut terms = vec![
            ("service", of_choice(self.service.to_possible_value())),
            ("copies", of_choice(self.copies.to_possible_value())),
            ("traffic", of_choice(self.traffic.to_possible_value())),
        ];
        terms.extend(self.latency_budget.clone().map(|budget| ("latency_budget", budget)));
        terms.extend(self.acceptable_delay.clone().map(|delay| ("latency.acceptable", delay)));
        terms.extend(self.delay_gain.clone().map(|gain| ("latency.gain", gain)));
        terms.extend(self.rate.clone().map(|rate| ("rate", rate)));
        ProtectRequest {
            peers: self.peer.clone(),
            name: self.tunnel.clone(),
            from: self.from.clone(),
            behind_nat: self.peer_behind_nat == Some(true),
            terms,
        }
    }
}

/// Prints the derived settings and the changes to this machine, for `--dry-run`.
fn show(flags: &ProtectFlags, derived: &DerivedConfig, settings: &AgentSettings) {
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
        "# Settings that `byway protect {}` adds to the agent's:\n{notes}\n{}\n{changes}",
        flags.device, derived.tables
    );
}
