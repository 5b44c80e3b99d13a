//! Validated settings of agents, relays and controllers, with their defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::endpoint::unicast_problem;
use super::flags::{AgentFlags, ControllerFlags, ParsedFile, RelayFlags};
use super::flows::{ExposedResource, Forward, exposed, forwards};
use super::mapping_limits::{MappingLimits, mapping_limits};
use super::network::StaticNetwork;
use super::prices::RawControllerRelay;
use super::raw::{LogFormatSetting, LogLevelSetting, NodeTable, RawLog, RawNetwork};
use super::shared_coding::shared_tenants;
use super::topology::topology;
use super::tunnel::{Tunnel, tunnel};
use super::uplinks::{ListenSettings, uplinks};
use crate::controller::{ControllerSettings, NODES_MAX, PAIRS_MAX, Quotas, TOKENS_MAX};
use crate::token::Token;
use byway_api::{RelayPrices, Role, checked_name};
use byway_config_types::{BytesSetting, KeyPath, PriceSheets, Problem, Source};
use byway_proto::limits::{RELAY_MEMORY, RELAY_MEMORY_MIN, SESSIONS_MAX, TENANT_FLOWS_LIMIT};
use byway_proto::relay::{TenantLimits, UplinkSettings};
use byway_scenario::{UplinkError, UplinkSetting};
use byway_units::Bytes;

/// Default UDP port of a relay.
const RELAY_PORT: u16 = 4_600;

/// Default HTTPS port of a controller.
const CONTROLLER_PORT: u16 = 4_443;

/// Default ports of the status servers of an agent, a relay and a controller. They differ, because
/// all may run on one machine.
pub(crate) const OBSERVE_PORTS: [u16; 3] = [4_680, 4_681, 4_682];

/// Maximum number of shards of one relay.
const SHARDS_MAX: u8 = 64;

/// Source from which a node knows the other nodes of its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkSource {
    /// A controller, with the token to join; `None` if the settings have no token.
    Managed(Option<Token>),
    /// A static network, in the node's own configuration file.
    Static(StaticNetwork),
}

impl NetworkSource {
    /// Returns the prices of the relays' next bytes, by the relay's number; `None` if a controller
    /// has them.
    pub(crate) fn price_entries(&self) -> Option<BTreeMap<u32, RelayPrices>> {
        match self {
            Self::Managed(_) => None,
            Self::Static(network) => Some(network.price_entries()),
        }
    }
}

/// Validated settings of an agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentSettings {
    pub(crate) name: String,
    pub(crate) state: PathBuf,
    pub(crate) key_file: PathBuf,
    pub(crate) network_source: NetworkSource,
    pub(crate) listen: ListenSettings,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) relay: Option<String>,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) exposed: Vec<ExposedResource>,
    /// Limits of the agent's mappings.
    pub(crate) mappings: MappingLimits,
    pub(crate) tunnel: Option<Tunnel>,
    pub(crate) observe: SocketAddr,
    pub(crate) log: LogSettings,
    /// True if the agent only leaves its network (`--leave`).
    pub(crate) leaves: bool,
    /// True if the agent only describes its changes to the machine (`--dry-run`).
    pub(crate) is_dry_run: bool,
}

/// Validated settings of a relay.
#[derive(Clone, Debug)]
pub(crate) struct RelaySettings {
    pub(crate) name: String,
    pub(crate) state: PathBuf,
    pub(crate) key_file: PathBuf,
    pub(crate) network_source: NetworkSource,
    pub(crate) listen: Vec<SocketAddr>,
    /// True if `listen` is the default.
    pub(crate) listens_by_default: bool,
    /// Addresses at which agents and other relays reach the relay.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shards: u8,
    /// Memory of each shard for all state that grows with traffic.
    pub(crate) memory: Bytes,
    /// Limits on one tenant's sessions and flows in each shard.
    pub(crate) tenant_limits: TenantLimits,
    /// Configuration of each shard's uplink. With `None`, the relay sends each packet immediately.
    pub(crate) uplink: Option<UplinkSettings>,
    /// True if the relay passes on packets between other relays.
    pub(crate) transit: bool,
    pub(crate) observe: SocketAddr,
    pub(crate) log: LogSettings,
    /// True if the relay only leaves its network (`--leave`).
    pub(crate) leaves: bool,
}

/// Settings of a process's log: least severity, and format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSettings {
    pub(crate) level: LogLevelSetting,
    pub(crate) format: LogFormatSetting,
}

/// Returns the settings of `byway agent`, from flags, environment and file.
///
/// # Errors
/// If a setting is invalid.
pub(crate) fn agent_settings(flags: &AgentFlags) -> Result<AgentSettings, Problem> {
    Ok(AgentSettings { leaves: flags.leaves(), is_dry_run: flags.is_dry_run(), ..agent(flags.typed()?)? })
}

/// Returns the settings of `byway relay`, from flags, environment and file.
///
/// # Errors
/// If a setting is invalid.
pub(crate) fn relay_settings(flags: &RelayFlags) -> Result<RelaySettings, Problem> {
    Ok(RelaySettings { leaves: flags.leaves(), ..relay(flags.typed()?)? })
}

/// Returns the settings of `byway controller`, the address of its status server, and its log
/// settings.
///
/// # Errors
/// If a setting is invalid.
pub(crate) fn controller_settings(
    flags: &ControllerFlags,
) -> Result<(ControllerSettings, SocketAddr, LogSettings), Problem> {
    controller(flags.typed()?)
}

/// Validates all tables of a configuration file; returns the roles for which it has settings.
///
/// # Errors
/// If a table is invalid.
pub(crate) fn check_file(path: &Path) -> Result<Vec<&'static str>, Problem> {
    let typed = || super::flags::read(path);
    let file = typed()?.file;
    let mut roles = Vec::new();
    let is_agents = !file.forward.is_empty() || !file.expose.is_empty() || !file.capture.is_empty();
    if file.agent.is_some() || is_agents {
        agent(typed()?)?;
        roles.push("agent");
    }
    if file.relay.is_none() {
        uplink(file.uplink.as_ref(), 1, &typed()?.source)?;
    } else {
        relay(typed()?)?;
        roles.push("relay");
    }
    if file.controller.is_some() {
        controller(typed()?)?;
        roles.push("controller");
    }
    if let Some(network) = &file.network {
        StaticNetwork::check(network, &typed()?.source)?;
    }
    Ok(roles)
}

/// Returns the DNS names of relays, agents and targets in a configuration file.
///
/// # Errors
/// If the file is not readable, or has an unknown key or an invalid value.
pub(crate) fn hosts_in_file(path: &Path) -> Result<BTreeSet<String>, Problem> {
    let ParsedFile { file, source } = super::flags::read(path)?;
    let network = file.network.as_ref().map(|network| StaticNetwork::check(network, &source)).transpose()?;
    let targets = file.expose.iter().filter_map(|exposed| exposed.target.as_ref()?.host());
    let of_network = network.map(|network| network.hosts()).unwrap_or_default();
    Ok(of_network.into_iter().chain(targets.map(str::to_owned)).collect())
}

/// Returns the log settings of a file, with defaults for missing ones.
pub(crate) fn log_settings(typed: &RawLog) -> LogSettings {
    LogSettings {
        level: typed.level.unwrap_or(LogLevelSetting::Info),
        format: typed.format.unwrap_or(LogFormatSetting::Text),
    }
}

/// Validated settings that agents and relays have in common.
struct NodeSettings {
    name: String,
    state: PathBuf,
    key_file: PathBuf,
    network_source: NetworkSource,
    listen: Vec<SocketAddr>,
    listens_by_default: bool,
    addresses: Vec<SocketAddr>,
}

fn node(
    role: Role,
    table: NodeTable<'_>,
    network: Option<&RawNetwork>,
    source: &Source,
) -> Result<NodeSettings, Problem> {
    let (table_name, port) = if role == Role::Relay { ("relay", RELAY_PORT) } else { ("agent", 0) };
    let root = KeyPath::of(table_name);
    let NodeTable { name, state: folder, token, token_file, key_file, listen, addresses } = table;
    let validated_source = network_source(&root, token.take(), token_file.take(), network, source)?;
    let name = validated_name(&root.key("name"), name.take().or_else(host_name).unwrap_or_default(), source)?;
    if let NetworkSource::Static(network) = &validated_source
        && !network.has(role, &name)
    {
        let message =
            format!("{role} {name:?} not found in [network]: set `name` to this {role}'s name there");
        return Err(source.problem(&root.key("name"), message));
    }
    let state = state(folder.take(), table_name, &root, source)?;
    let listens_by_default = listen.is_none();
    let listen = listen.take().unwrap_or_else(|| both_families(port));
    families(&root, &listen, source)?;
    unicast(&root.key("addresses"), addresses, source)?;
    Ok(NodeSettings {
        name,
        key_file: key_file.take().unwrap_or_else(|| state.join("key")),
        state,
        network_source: validated_source,
        listen,
        listens_by_default,
        addresses: std::mem::take(addresses),
    })
}

pub(super) fn agent(typed: ParsedFile) -> Result<AgentSettings, Problem> {
    let ParsedFile { file, source } = typed;
    let mut agent = file.agent.unwrap_or_default();
    let node = node(Role::Agent, agent.node(), file.network.as_ref(), &source)?;
    let relay_path = KeyPath::of("agent").key("relay");
    let uplinks = uplinks(agent.uplinks, &node.listen, &source)?;
    let listen = ListenSettings { addresses: node.listen, is_default: node.listens_by_default, uplinks };
    Ok(AgentSettings {
        name: node.name,
        state: node.state,
        key_file: node.key_file,
        network_source: node.network_source,
        listen,
        addresses: node.addresses,
        relay: agent.relay.map(|name| validated_name(&relay_path, name, &source)).transpose()?,
        tunnel: tunnel(file.tunnel.as_ref(), &file.capture, &file.expose, &source)?,
        forwards: forwards(&file.forward, &source)?,
        exposed: exposed(&file.expose, &source)?,
        mappings: mapping_limits(file.mappings, agent.consent, &source)?,
        observe: observe(file.observe.listen, OBSERVE_PORTS[0], &source)?,
        log: log_settings(&file.log),
        leaves: false,
        is_dry_run: false,
    })
}

fn relay(typed: ParsedFile) -> Result<RelaySettings, Problem> {
    let ParsedFile { file, source } = typed;
    let root = KeyPath::of("relay");
    let mut relay = file.relay.unwrap_or_default();
    let mut node = node(Role::Relay, relay.node(), file.network.as_ref(), &source)?;
    let shards = relay_shards(&root, relay.shards, &node, &source)?;
    if matches!(node.network_source, NetworkSource::Managed(_)) && node.addresses.is_empty() {
        let named = |address: &SocketAddr| !address.ip().is_unspecified();
        node.addresses = node.listen.iter().copied().filter(named).collect();
        if node.addresses.is_empty() {
            let message = "address for agents missing: set addresses = [\"203.0.113.7:4600\"], or --address";
            return Err(source.problem(&root.key("addresses"), message));
        }
    }
    Ok(RelaySettings {
        name: node.name,
        state: node.state,
        key_file: node.key_file,
        network_source: node.network_source,
        listen: node.listen,
        listens_by_default: node.listens_by_default,
        addresses: node.addresses,
        shards,
        memory: relay_memory(&root, relay.memory, shards, &source)?,
        tenant_limits: TenantLimits {
            sessions: tenant_limit(&root, "tenant_sessions_max", relay.tenant_sessions_max, &source)?,
            flows: tenant_limit(&root, "tenant_flows_max", relay.tenant_flows_max, &source)?,
        },
        uplink: uplink(file.uplink.as_ref(), shards, &source)?,
        transit: relay.transit.unwrap_or(false),
        observe: observe(file.observe.listen, OBSERVE_PORTS[1], &source)?,
        log: log_settings(&file.log),
        leaves: false,
    })
}

/// Returns the configuration of each shard's uplink, a part of the relay's; `None` without an
/// uplink.
fn uplink(
    typed: Option<&UplinkSetting>,
    shards: u8,
    source: &Source,
) -> Result<Option<UplinkSettings>, Problem> {
    let to_problem =
        |error: UplinkError| source.problem(&KeyPath::of("uplink").key(error.key), error.message);
    typed.map(|typed| typed.settings(shards).map_err(to_problem)).transpose()
}

/// Returns the number of a relay's shards. Its own settings and the static network may name it; if
/// both do, they must agree.
fn relay_shards(
    root: &KeyPath,
    typed: Option<u8>,
    node: &NodeSettings,
    source: &Source,
) -> Result<u8, Problem> {
    let in_network = match &node.network_source {
        NetworkSource::Static(network) => {
            network.relay(&node.name).and_then(|entry| u8::try_from(entry.shards).ok())
        }
        NetworkSource::Managed(_) => None,
    };
    let shards = checked_shards(root, typed.or(in_network).unwrap_or(1), source)?;
    if let Some(there) = in_network.filter(|there| *there != shards) {
        let message =
            format!("differs from [network], {there} for {:?}: set both to the same value", node.name);
        return Err(source.problem(&root.key("shards"), message));
    }
    if shards > 1 && node.listen.iter().any(|address| address.port() == 0) {
        return Err(source.problem(&root.key("listen"), "shards need a fixed port: set one instead of 0"));
    }
    Ok(shards)
}

/// Returns the memory of each shard: its part of the relay's memory, or the default. Fails if that
/// is too little.
fn relay_memory(
    root: &KeyPath,
    typed: Option<BytesSetting>,
    shards: u8,
    source: &Source,
) -> Result<Bytes, Problem> {
    let Some(BytesSetting(memory)) = typed else {
        return Ok(RELAY_MEMORY);
    };
    let of_shard = Bytes::new(memory.count() / u64::from(shards));
    if of_shard < RELAY_MEMORY_MIN {
        let message =
            format!("{memory} is too little: set at least {RELAY_MEMORY_MIN} for each of {shards} shards");
        return Err(source.problem(&root.key("memory"), message));
    }
    Ok(of_shard)
}

/// Validates a limit on one tenant's sessions or flows, by the setting's key.
fn tenant_limit(
    root: &KeyPath,
    key: &'static str,
    typed: Option<u64>,
    source: &Source,
) -> Result<Option<u64>, Problem> {
    let max = if key == "tenant_sessions_max" { SESSIONS_MAX as u64 } else { TENANT_FLOWS_LIMIT };
    match typed {
        Some(limit) if !(1..=max).contains(&limit) => {
            Err(source.problem(&root.key(key), format!("{limit} is out of range: 1 to {max}")))
        }
        limit => Ok(limit),
    }
}

/// Validates the number of a relay's shards.
pub(super) fn checked_shards(table: &KeyPath, shards: u8, source: &Source) -> Result<u8, Problem> {
    if (1..=SHARDS_MAX).contains(&shards) {
        return Ok(shards);
    }
    Err(source.problem(&table.key("shards"), format!("{shards} is out of range: 1 to {SHARDS_MAX}")))
}

fn controller(typed: ParsedFile) -> Result<(ControllerSettings, SocketAddr, LogSettings), Problem> {
    let ParsedFile { file, source } = typed;
    let root = KeyPath::of("controller");
    let controller = file.controller.unwrap_or_default();
    let state = state(controller.state, "controller", &root, &source)?;
    let listens_by_default = controller.listen.is_none();
    let listen = controller.listen.unwrap_or_else(|| both_families(CONTROLLER_PORT));
    let grant_lifetime = controller.grant_lifetime.map_or(ControllerSettings::GRANT_LIFETIME, |lifetime| {
        std::time::Duration::from_nanos(lifetime.0.as_nanos())
    });
    if grant_lifetime < ControllerSettings::GRANT_LIFETIME_MIN {
        let message = "is below 24 h, the time that relays work without the controller";
        return Err(source.problem(&root.key("grant_lifetime"), message));
    }
    let mut addresses = controller.addresses;
    if addresses.is_empty() {
        let named = |address: &SocketAddr| {
            if address.ip().is_unspecified() {
                host_name().map(|host| format!("{host}:{}", address.port()))
            } else {
                Some(address.to_string())
            }
        };
        addresses = listen.iter().filter_map(named).collect();
        addresses.dedup();
    }
    let quota = |key: &'static str, quota: Option<usize>, max: usize| match quota {
        Some(quota) if !(1..=max).contains(&quota) => {
            Err(source.problem(&root.key(key), format!("{quota} is out of range: 1 to {max}")))
        }
        quota => Ok(quota),
    };
    let quotas = Quotas {
        agents: quota("tenant_agents_max", controller.tenant_agents_max, NODES_MAX)?,
        pairs: quota("tenant_pairs_max", controller.tenant_pairs_max, PAIRS_MAX)?,
        tokens: quota("tenant_tokens_max", controller.tenant_tokens_max, TOKENS_MAX)?,
    };
    let network = controller.network.unwrap_or_else(|| "byway".to_owned());
    let settings = ControllerSettings {
        listen,
        listens_by_default,
        addresses,
        state,
        network: validated_name(&root.key("network"), network, &source)?,
        grant_lifetime,
        rate: controller.rate.map_or(ControllerSettings::RATE, |rate| rate.0),
        quotas,
        shared_coding: shared_tenants(&root.key("shared_coding"), &controller.shared_coding, &source)?,
        prices: controller_prices(&root.key("relays"), &controller.relays, &source)?,
        topology: topology(&root, &controller.networks, &controller.links, &controller.paths, &source)?,
    };
    let observe = observe(file.observe.listen, OBSERVE_PORTS[2], &source)?;
    Ok((settings, observe, log_settings(&file.log)))
}

/// Validates the prices of a controller's relays.
fn controller_prices(
    root: &KeyPath,
    typed: &[RawControllerRelay],
    source: &Source,
) -> Result<PriceSheets, Problem> {
    for (index, relay) in typed.iter().enumerate() {
        let path = root.index(index).key("name");
        validated_name(&path, relay.name.clone(), source)?;
        if typed[..index].iter().any(|known| known.name == relay.name) {
            return Err(source.problem(&path, "duplicate relay: name each relay once"));
        }
    }
    let priced = typed.iter().enumerate();
    let priced =
        priced.map(|(index, relay)| (root.index(index).key("prices"), relay.name.as_str(), &relay.prices));
    PriceSheets::check(priced, source)
}

/// Returns the state directory of the controller on this machine: the one of the flag, the file's,
/// or the default.
///
/// # Errors
/// If there is no default, or the file is invalid.
pub(crate) fn controller_state(named: Option<PathBuf>, config: Option<&Path>) -> Result<PathBuf, Problem> {
    let typed = config.map(super::flags::read).transpose()?;
    let in_file = typed.and_then(|typed| typed.file.controller?.state);
    state(named.or(in_file), "controller", &KeyPath::of("controller"), &Source::default())
}

/// Returns the source of the network: a controller with its token, or the file's static network.
/// Fails if both are set.
fn network_source(
    root: &KeyPath,
    token: Option<String>,
    token_file: Option<PathBuf>,
    network: Option<&RawNetwork>,
    source: &Source,
) -> Result<NetworkSource, Problem> {
    let path = root.key(if token.is_some() { "token" } else { "token_file" });
    let token = match (token, token_file) {
        (Some(_), Some(_)) => {
            return Err(source.problem(&path, "token_file is set too: remove one of them"));
        }
        (Some(token), None) => Some(token),
        (None, Some(file)) => Some(read_token(&file).map_err(|error| source.problem(&path, error))?),
        (None, None) => None,
    };
    let parsed = token.map(|token| token.parse::<Token>());
    let token = parsed.transpose().map_err(|error| source.problem(&path, error))?;
    match network {
        Some(_) if token.is_some() => Err(source.problem(
            &path,
            "[network] is set too: use the token for a network with a controller, the table for one without",
        )),
        Some(network) => StaticNetwork::check(network, source).map(NetworkSource::Static),
        None => Ok(NetworkSource::Managed(token)),
    }
}

fn read_token(file: &Path) -> Result<String, String> {
    #[allow(clippy::disallowed_methods, reason = "this is where the program reads its settings")]
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| {
        format!("cannot read {}: {error}; check its path and permissions", file.display())
    })?;
    Ok(text.trim().to_owned())
}

pub(super) fn host_name() -> Option<String> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_str().ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns a node's state directory: the setting, systemd's directory, or the default one.
fn state(typed: Option<PathBuf>, role: &str, root: &KeyPath, source: &Source) -> Result<PathBuf, Problem> {
    #[allow(clippy::disallowed_methods, reason = "this is where the program reads its settings")]
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(state) = typed.or_else(|| variable("STATE_DIRECTORY")) {
        return Ok(state);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(Path::new("/var/lib/byway").join(role));
    }
    let base = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    base.map(|base| base.join("byway").join(role)).ok_or_else(|| {
        source.problem(&root.key("state"), "home folder for the state not found: set a folder")
    })
}

fn both_families(port: u16) -> Vec<SocketAddr> {
    vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]
}

/// Checks that the listening addresses include each address family at most once, and that a socket
/// can be bound to each.
fn families(root: &KeyPath, listen: &[SocketAddr], source: &Source) -> Result<(), Problem> {
    let of_family = |is_ipv4| listen.iter().filter(|address| address.is_ipv4() == is_ipv4).count();
    if listen.is_empty() || of_family(true) > 1 || of_family(false) > 1 {
        let message = "name one IPv4 address, one IPv6 address, or one of each";
        return Err(source.problem(&root.key("listen"), message));
    }
    unicast(&root.key("listen"), listen, source)
}

/// Checks that each address identifies a single interface, or is unspecified.
fn unicast(path: &KeyPath, addresses: &[SocketAddr], source: &Source) -> Result<(), Problem> {
    let problem = |(index, address)| Some((index, unicast_problem(address)?));
    match addresses.iter().enumerate().find_map(problem) {
        Some((index, problem)) => Err(source.problem(&path.index(index), problem)),
        None => Ok(()),
    }
}

/// Returns the status server's address, or its default. Fails if it is no loopback address.
fn observe(typed: Option<SocketAddr>, port: u16, source: &Source) -> Result<SocketAddr, Problem> {
    let address = typed.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, port).into());
    if !address.ip().is_loopback() {
        let message = format!(
            "{address} is not a loopback address (127.0.0.1 or [::1]): to publish it, use a proxy \
             with access control"
        );
        return Err(source.problem(&KeyPath::of("observe").key("listen"), message));
    }
    Ok(address)
}

/// Validates the name of a node, a resource or a network.
pub(super) fn validated_name(path: &KeyPath, name: String, source: &Source) -> Result<String, Problem> {
    match checked_name(&name) {
        Ok(_) => Ok(name),
        Err(error) => Err(source.problem(path, error)),
    }
}

/// Returns the settings of an agent with these tables.
#[cfg(test)]
pub(crate) fn agent_of(text: &str) -> Result<AgentSettings, Problem> {
    let source = Source::default();
    let file = toml::from_str(text).map_err(|error| source.parse_problem(&error))?;
    agent(ParsedFile { file, source })
}

/// Returns the prices of a controller's relays with these tables.
#[cfg(test)]
pub(crate) fn controller_prices_of(text: &str) -> Result<PriceSheets, Problem> {
    let source = Source::default();
    let file = toml::from_str(text).map_err(|error| source.parse_problem(&error))?;
    Ok(controller(ParsedFile { file, source })?.0.prices)
}
