//! Settings on the command line and in the environment. A flag overrides an environment variable,
//! which overrides the configuration file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;

use super::endpoint::address;
use super::raw::{
    LogFormatSetting, LogLevelSetting, NodeTable, RawAgent, RawController, RawExpose, RawFile, RawForward,
    RawRelay,
};
use byway_config_types::{Problem, Source};

/// Flags of all roles.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommonFlags {
    /// Configuration file, described in docs/configuration.md.
    ///
    /// Flags override BYWAY_* variables, and those override the file.
    #[arg(long, short, env = "BYWAY_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address of this node's status server, for `byway status` and Prometheus.
    #[arg(long, env = "BYWAY_OBSERVE", value_name = "ADDRESS:PORT")]
    observe: Option<SocketAddr>,
    /// Least severity of log messages.
    #[arg(long, env = "BYWAY_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<LogLevelSetting>,
    /// Format of log messages.
    #[arg(long, env = "BYWAY_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormatSetting>,
}

/// Flags that agents and relays have in common.
#[derive(Clone, Debug, Default, Args)]
struct NodeFlags {
    /// Name of the node in the network [default: the host's].
    #[arg(long, env = "BYWAY_NAME")]
    name: Option<String>,
    /// Folder of the node's key and membership.
    #[arg(long, env = "BYWAY_STATE", value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Token: the controller's invitation.
    #[arg(long, env = "BYWAY_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File that contains the token.
    #[arg(long, env = "BYWAY_TOKEN_FILE", value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// File that contains the node's secret key.
    #[arg(long, env = "BYWAY_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Address to listen on, once for IPv4 and once for IPv6.
    #[arg(long, env = "BYWAY_LISTEN", value_name = "ADDRESS:PORT", value_delimiter = ',', value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Leave the network for good, remove the stored membership, and exit.
    #[arg(long)]
    leave: bool,
    /// Address at which others reach the node, if it cannot be detected.
    #[arg(
        long = "address",
        env = "BYWAY_ADDRESSES",
        value_name = "ADDRESS:PORT",
        value_delimiter = ',',
        value_parser = address
    )]
    addresses: Vec<SocketAddr>,
}

/// Flags of `byway agent`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentFlags {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    node: NodeFlags,
    /// Relay near it, by name.
    #[arg(long, env = "BYWAY_RELAY", value_name = "NAME")]
    relay: Option<String>,
    /// Forward a local port to a target that a peer exposes; repeatable.
    ///
    /// Example: `127.0.0.1:5000=bob/video,service="coding",rate="2 Mbit/s"`.
    #[arg(long, value_name = "ADDRESS:PORT=PEER/NAME[,KEY=VALUE]...")]
    forward: Vec<String>,
    /// Expose a target, by address or DNS name, as in `video=127.0.0.1:6000`; repeatable.
    #[arg(long, value_name = "NAME=ADDRESS:PORT")]
    expose: Vec<String>,
    /// Print the captures and the changes to this machine, without making them.
    #[arg(long)]
    dry_run: bool,
}

/// Flags of `byway relay`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RelayFlags {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    node: NodeFlags,
    /// Number of threads that share the work.
    #[arg(long, env = "BYWAY_SHARDS")]
    shards: Option<u8>,
}

/// Flags of `byway controller`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ControllerFlags {
    #[command(flatten)]
    common: CommonFlags,
    /// Folder of the controller's database and keys.
    #[arg(long, env = "BYWAY_STATE", value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Address to serve HTTPS on.
    #[arg(long, env = "BYWAY_LISTEN", value_name = "ADDRESS:PORT", value_delimiter = ',')]
    listen: Vec<SocketAddr>,
    /// Address of the controller for nodes, which tokens contain.
    #[arg(long = "address", env = "BYWAY_ADDRESSES", value_name = "HOST:PORT", value_delimiter = ',')]
    addresses: Vec<String>,
}

/// Parsed settings, and the text of the configuration file that they come from, for error messages.
pub(crate) struct ParsedFile {
    pub(super) file: RawFile,
    pub(super) source: Source,
}

/// Reads and parses a configuration file.
///
/// # Errors
/// If the file is not readable, or has an unknown key or an invalid value.
pub(crate) fn read(path: &Path) -> Result<ParsedFile, Problem> {
    #[allow(clippy::disallowed_methods, reason = "this is where the program reads its settings")]
    let text = std::fs::read_to_string(path).map_err(|error| {
        Problem::without_location(format!(
            "{}: cannot read the file ({error}): check --config and the file's permissions",
            path.display()
        ))
    })?;
    let source = Source::new(path, text);
    let file = toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
    Ok(ParsedFile { file, source })
}

impl CommonFlags {
    /// Returns the settings of the configuration file, overridden by these flags.
    fn typed(&self) -> Result<ParsedFile, Problem> {
        let mut typed = match &self.config {
            Some(path) => read(path)?,
            None => ParsedFile { file: RawFile::default(), source: Source::default() },
        };
        let file = &mut typed.file;
        over(&mut file.observe.listen, self.observe);
        over(&mut file.log.level, self.log_level);
        over(&mut file.log.format, self.log_format);
        Ok(typed)
    }
}

/// Overrides a setting by a flag's value, if the flag is present.
fn over<T>(setting: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *setting = value;
    }
}

fn list_over<T: Clone>(setting: &mut Vec<T>, value: &[T]) {
    if !value.is_empty() {
        *setting = value.to_vec();
    }
}

fn some_list<T: Clone>(value: &[T]) -> Option<Vec<T>> {
    (!value.is_empty()).then(|| value.to_vec())
}

impl NodeFlags {
    /// Overrides the settings of the file's table by these flags. A token on the command line
    /// replaces a token file in the file, and the reverse.
    fn over(self, table: NodeTable<'_>) {
        let NodeTable { name, state, token, token_file, key_file, listen, addresses } = table;
        if self.token.is_some() || self.token_file.is_some() {
            (*token, *token_file) = (self.token, self.token_file);
        }
        over(name, self.name);
        over(state, self.state);
        over(key_file, self.key_file);
        over(listen, some_list(&self.listen));
        list_over(addresses, &self.addresses);
    }
}

impl AgentFlags {
    /// True if the agent only has to leave its network (`--leave`).
    pub(super) const fn leaves(&self) -> bool {
        self.node.leave
    }

    /// True if the agent only has to describe its changes (`--dry-run`).
    pub(super) const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn typed(&self) -> Result<ParsedFile, Problem> {
        let mut typed = self.common.typed()?;
        let agent = typed.file.agent.get_or_insert_with(RawAgent::default);
        self.node.clone().over(agent.node());
        over(&mut agent.relay, self.relay.clone());
        for text in &self.forward {
            typed.file.forward.push(forward(text)?);
        }
        for text in &self.expose {
            typed.file.expose.push(expose(text)?);
        }
        Ok(typed)
    }
}

impl RelayFlags {
    /// True if the relay only has to leave its network (`--leave`).
    pub(super) const fn leaves(&self) -> bool {
        self.node.leave
    }

    pub(super) fn typed(&self) -> Result<ParsedFile, Problem> {
        let mut typed = self.common.typed()?;
        let relay = typed.file.relay.get_or_insert_with(RawRelay::default);
        self.node.clone().over(relay.node());
        over(&mut relay.shards, self.shards);
        Ok(typed)
    }
}

impl ControllerFlags {
    pub(super) fn typed(&self) -> Result<ParsedFile, Problem> {
        let mut typed = self.common.typed()?;
        let controller = typed.file.controller.get_or_insert_with(RawController::default);
        over(&mut controller.state, self.state.clone());
        over(&mut controller.listen, some_list(&self.listen));
        list_over(&mut controller.addresses, &self.addresses);
        Ok(typed)
    }
}

/// Parses the value of `--forward`: `ADDRESS:PORT=PEER/NAME`, and further keys of a `[[forward]]`
/// as in TOML.
fn forward(text: &str) -> Result<RawForward, Problem> {
    let wrong = |why: &str| {
        Problem::flag("--forward", format!("{text:?} {why}: write ADDRESS:PORT=PEER/NAME[,KEY=VALUE]..."))
    };
    let (listen, rest) = text.split_once('=').ok_or_else(|| wrong("has no \"=\""))?;
    let (to, keys) = rest.split_once(',').unwrap_or((rest, ""));
    let (peer, name) = to.split_once('/').ok_or_else(|| wrong("has no \"/\" between peer and name"))?;
    let [listen, peer, name] = [listen, peer, name].map(|value| toml::Value::from(value).to_string());
    let table = format!("{{ listen = {listen}, peer = {peer}, to = {name}, {keys} }}");
    parse_inline(&table).map_err(|error| Problem::flag("--forward", format!("{text:?}: {error}")))
}

/// Parses an inline table of TOML into a `T`.
fn parse_inline<T: serde::de::DeserializeOwned>(table: &str) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct Holder<T> {
        table: T,
    }
    let holder = toml::from_str::<Holder<T>>(&format!("table = {table}"));
    holder.map(|holder| holder.table).map_err(|error| error.message().trim().to_owned())
}

/// Parses the value of `--expose`: `NAME=ADDRESS:PORT`.
fn expose(text: &str) -> Result<RawExpose, Problem> {
    let form = "write NAME=ADDRESS:PORT";
    let (name, target) = text
        .split_once('=')
        .ok_or_else(|| Problem::flag("--expose", format!("{text:?} has no \"=\": {form}")))?;
    let target =
        target.parse().map_err(|error| Problem::flag("--expose", format!("{target:?}: {error}: {form}")))?;
    Ok(RawExpose {
        name: name.to_owned(),
        target: Some(target),
        networks: Vec::new(),
        sources: Vec::new(),
        ports: Vec::new(),
        marks: None,
        peers: None,
        keep_dscp: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ServiceSetting;

    #[test]
    fn a_forward_on_the_command_line_takes_all_keys_of_the_file() {
        let typed =
            forward("127.0.0.1:5000=bob/video,service=\"coding\",rate=\"2 Mbit/s\"").expect("a forward");
        assert_eq!((typed.peer.as_str(), typed.to.as_str()), ("bob", "video"));
        assert_eq!(typed.raw_flow().service, Some(ServiceSetting::Coding));
        assert_eq!(typed.raw_flow().rate.map(|rate| rate.0.bits_per_second()), Some(2_000_000));
        assert!(forward("127.0.0.1:5000=bob/video").is_ok());
    }

    #[test]
    fn a_wrong_forward_says_what_is_wrong() {
        for (text, expected) in [
            ("127.0.0.1:5000", "no \"=\""),
            ("127.0.0.1:5000=bob", "between peer and name"),
            ("here=bob/video", "here"),
            ("127.0.0.1:5000=bob/video,volume=11", "volume"),
        ] {
            let problem = forward(text).expect_err(text).to_string();
            assert!(problem.starts_with("--forward: ") && problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn an_exposed_target_is_a_name_and_an_address() {
        assert_eq!(expose("video=127.0.0.1:6000").expect("a target").name, "video");
        for text in ["video", "video=localhost", "video=127.0.0.1"] {
            assert!(expose(text).expect_err(text).to_string().contains("NAME=ADDRESS:PORT"));
        }
    }
}
