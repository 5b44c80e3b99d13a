//! Settings on the command line and in the environment: flag over variable over file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;

use super::endpoint::address;
use super::typed::{
    NodeTable, TypedAgent, TypedController, TypedExpose, TypedFile, TypedFormat, TypedForward, TypedLevel,
    TypedRelay,
};
use byway_typed::{Problem, Source};

/// What every role takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommonFlags {
    /// The configuration file; what it may say is in docs/configuration.md. Flags win over BYWAY_* variables, and those over
    /// the file.
    #[arg(long, short, env = "BYWAY_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where this node answers `byway status` and Prometheus.
    #[arg(long, env = "BYWAY_OBSERVE", value_name = "ADDRESS:PORT")]
    observe: Option<SocketAddr>,
    /// The least important messages shown.
    #[arg(long, env = "BYWAY_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<TypedLevel>,
    /// How messages look.
    #[arg(long, env = "BYWAY_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<TypedFormat>,
}

/// What an agent and a relay both take.
#[derive(Clone, Debug, Default, Args)]
struct NodeFlags {
    /// Its name in the network; by default the host's.
    #[arg(long, env = "BYWAY_NAME")]
    name: Option<String>,
    /// The folder of its key and its membership.
    #[arg(long, env = "BYWAY_STATE", value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// The controller's invitation.
    #[arg(long, env = "BYWAY_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file that holds the invitation.
    #[arg(long, env = "BYWAY_TOKEN_FILE", value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// Its secret key.
    #[arg(long, env = "BYWAY_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Where it meets others; once for IPv4 and once for IPv6.
    #[arg(long, env = "BYWAY_LISTEN", value_name = "ADDRESS:PORT", value_delimiter = ',', value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Leaves the network for good, forgets it, and ends.
    #[arg(long)]
    leave: bool,
    /// Where others may reach it, if they cannot find out by themselves.
    #[arg(
        long = "address",
        env = "BYWAY_ADDRESSES",
        value_name = "ADDRESS:PORT",
        value_delimiter = ',',
        value_parser = address
    )]
    addresses: Vec<SocketAddr>,
}

/// What `byway agent` takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentFlags {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    node: NodeFlags,
    /// The relay near it, by name.
    #[arg(long, env = "BYWAY_RELAY", value_name = "NAME")]
    relay: Option<String>,
    /// Sends what comes to a local port to what a peer exposes, as in
    /// `127.0.0.1:5000=bob/video,service="coding",rate="2 Mbit/s"`. May be given several times.
    #[arg(long, value_name = "ADDRESS:PORT=PEER/NAME[,KEY=VALUE]...")]
    forward: Vec<String>,
    /// Lets peers send to a target, an address or a DNS name, as in `video=127.0.0.1:6000`. May be given several times.
    #[arg(long, value_name = "NAME=ADDRESS:PORT")]
    expose: Vec<String>,
    /// Only says what would be captured, and what would be changed about this machine.
    #[arg(long)]
    dry_run: bool,
}

/// What `byway relay` takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RelayFlags {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    node: NodeFlags,
    /// Threads that share the work.
    #[arg(long, env = "BYWAY_SHARDS")]
    shards: Option<u8>,
}

/// What `byway controller` takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ControllerFlags {
    #[command(flatten)]
    common: CommonFlags,
    /// The folder of its database and keys.
    #[arg(long, env = "BYWAY_STATE", value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Where it answers HTTPS.
    #[arg(long, env = "BYWAY_LISTEN", value_name = "ADDRESS:PORT", value_delimiter = ',')]
    listen: Vec<SocketAddr>,
    /// Where nodes find it; written into tokens.
    #[arg(long = "address", env = "BYWAY_ADDRESSES", value_name = "HOST:PORT", value_delimiter = ',')]
    addresses: Vec<String>,
}

/// What was typed, and the text it came from.
pub(crate) struct Typed {
    pub(super) file: TypedFile,
    pub(super) source: Source,
}

/// Reads a configuration file.
///
/// # Errors
/// If it cannot be read, or says something that no file may say.
pub(crate) fn read(path: &Path) -> Result<Typed, Problem> {
    #[allow(clippy::disallowed_methods, reason = "this is where the program reads its settings")]
    let text = std::fs::read_to_string(path).map_err(|error| {
        Problem::nowhere(format!(
            "{}: cannot be read ({error}): check --config and who may read it",
            path.display()
        ))
    })?;
    let source = Source::new(path, text);
    let file = toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
    Ok(Typed { file, source })
}

impl CommonFlags {
    /// What the file says, with these flags over it.
    fn typed(&self) -> Result<Typed, Problem> {
        let mut typed = match &self.config {
            Some(path) => read(path)?,
            None => Typed { file: TypedFile::default(), source: Source::default() },
        };
        let file = &mut typed.file;
        over(&mut file.observe.listen, self.observe);
        over(&mut file.log.level, self.log_level);
        over(&mut file.log.format, self.log_format);
        Ok(typed)
    }
}

/// A setting that was given wins over one that was there.
fn over<T>(setting: &mut Option<T>, given: Option<T>) {
    if given.is_some() {
        *setting = given;
    }
}

fn list_over<T: Clone>(setting: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *setting = given.to_vec();
    }
}

fn some_list<T: Clone>(given: &[T]) -> Option<Vec<T>> {
    (!given.is_empty()).then(|| given.to_vec())
}

impl NodeFlags {
    /// Lets these win over what the file says. A token that is given replaces a file with another one, and the other way round.
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
    /// Whether the agent is to leave its network.
    pub(super) const fn leaves(&self) -> bool {
        self.node.leave
    }

    /// Whether the agent only says what it would do.
    pub(super) const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn typed(&self) -> Result<Typed, Problem> {
        let mut typed = self.common.typed()?;
        let agent = typed.file.agent.get_or_insert_with(TypedAgent::default);
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
    /// Whether the relay is to leave its network.
    pub(super) const fn leaves(&self) -> bool {
        self.node.leave
    }

    pub(super) fn typed(&self) -> Result<Typed, Problem> {
        let mut typed = self.common.typed()?;
        let relay = typed.file.relay.get_or_insert_with(TypedRelay::default);
        self.node.clone().over(relay.node());
        over(&mut relay.shards, self.shards);
        Ok(typed)
    }
}

impl ControllerFlags {
    pub(super) fn typed(&self) -> Result<Typed, Problem> {
        let mut typed = self.common.typed()?;
        let controller = typed.file.controller.get_or_insert_with(TypedController::default);
        over(&mut controller.state, self.state.clone());
        over(&mut controller.listen, some_list(&self.listen));
        list_over(&mut controller.addresses, &self.addresses);
        Ok(typed)
    }
}

/// `ADDRESS:PORT=PEER/NAME`, and further keys of a `[[forward]]` as in TOML.
fn forward(text: &str) -> Result<TypedForward, Problem> {
    let wrong = |why: &str| {
        Problem::flag("--forward", format!("{text:?} {why}: write ADDRESS:PORT=PEER/NAME[,KEY=VALUE]..."))
    };
    let (listen, rest) = text.split_once('=').ok_or_else(|| wrong("has no \"=\""))?;
    let (to, keys) = rest.split_once(',').unwrap_or((rest, ""));
    let (peer, name) = to.split_once('/').ok_or_else(|| wrong("names no peer and what it exposes"))?;
    let [listen, peer, name] = [listen, peer, name].map(|value| toml::Value::from(value).to_string());
    let table = format!("{{ listen = {listen}, peer = {peer}, to = {name}, {keys} }}");
    parse_inline(&table).map_err(|error| Problem::flag("--forward", format!("{text:?}: {error}")))
}

/// A table of TOML on one line.
fn parse_inline<T: serde::de::DeserializeOwned>(table: &str) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct Holder<T> {
        table: T,
    }
    let holder = toml::from_str::<Holder<T>>(&format!("table = {table}"));
    holder.map(|holder| holder.table).map_err(|error| error.message().trim().to_owned())
}

/// `NAME=ADDRESS:PORT`.
fn expose(text: &str) -> Result<TypedExpose, Problem> {
    let form = "write NAME=ADDRESS:PORT";
    let (name, target) = text
        .split_once('=')
        .ok_or_else(|| Problem::flag("--expose", format!("{text:?} has no \"=\": {form}")))?;
    let target =
        target.parse().map_err(|error| Problem::flag("--expose", format!("{target:?}: {error}: {form}")))?;
    Ok(TypedExpose {
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
    use crate::settings::typed::TypedService;

    #[test]
    fn a_forward_on_the_command_line_takes_all_keys_of_the_file() {
        let typed =
            forward("127.0.0.1:5000=bob/video,service=\"coding\",rate=\"2 Mbit/s\"").expect("a forward");
        assert_eq!((typed.peer.as_str(), typed.to.as_str()), ("bob", "video"));
        assert_eq!(typed.wish().service, TypedService::Coding);
        assert_eq!(typed.wish().rate.map(|rate| rate.0.bits_per_second()), Some(2_000_000));
        assert!(forward("127.0.0.1:5000=bob/video").is_ok());
    }

    #[test]
    fn a_wrong_forward_says_what_is_wrong() {
        for (text, expected) in [
            ("127.0.0.1:5000", "no \"=\""),
            ("127.0.0.1:5000=bob", "names no peer"),
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
