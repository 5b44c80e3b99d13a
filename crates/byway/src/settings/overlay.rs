//! Tables that the program itself adds to those of an agent's file, for `byway protect`.

use byway_config_types::Problem;

use super::flags::AgentFlags;
use super::network::StaticNetwork;
use super::raw::{RawFile, RawTunnel};
use super::tunnel::TABLE;
use super::validated::{AgentSettings, agent, host_name};

/// Properties of an agent's own settings on which derived tables depend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentContext {
    /// Agents that are paired with this one; `None` if only a controller knows them.
    pub(crate) others: Option<Vec<OtherAgent>>,
    /// Number of the agent's routing table, which is also the firewall mark of Byway's own packets.
    pub(crate) table: u32,
    /// MTU of the agent's TUN device; `None` for the default.
    pub(crate) mtu: Option<u16>,
}

/// Another agent of a static network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherAgent {
    pub(crate) name: String,
}

/// Returns the properties on which derived tables depend, from an agent's flags and their file.
///
/// # Errors
/// If the file is not readable, or its network is invalid.
pub(crate) fn agent_context(flags: &AgentFlags) -> Result<AgentContext, Problem> {
    let typed = flags.typed()?;
    let network = typed.file.network.as_ref();
    let network = network.map(|network| StaticNetwork::check(network, &typed.source)).transpose()?;
    let tunnel = typed.file.tunnel.unwrap_or_default();
    let mut agent = typed.file.agent.unwrap_or_default();
    let name = agent.node().name.take().or_else(host_name).unwrap_or_default();
    Ok(AgentContext {
        others: network.map(|network| network.others(&name)),
        table: tunnel.table.unwrap_or(TABLE),
        mtu: tunnel.mtu,
    })
}

/// Returns the settings of an agent with additional tables. The agent's own `[tunnel]` settings
/// take precedence.
///
/// # Errors
/// If a setting is invalid, alone or together with the addition.
pub(crate) fn agent_settings_with(flags: &AgentFlags, addition: RawFile) -> Result<AgentSettings, Problem> {
    let mut typed = flags.typed()?;
    let file = &mut typed.file;
    file.capture.extend(addition.capture);
    file.expose.extend(addition.expose);
    if let Some(added) = addition.tunnel {
        let own = file.tunnel.get_or_insert_with(RawTunnel::default);
        own.mtu = own.mtu.or(added.mtu);
        own.own_table = own.own_table.or(added.own_table);
        own.watched_device = own.watched_device.take().or(added.watched_device);
    }
    let settings = agent(typed)?;
    Ok(AgentSettings { leaves: flags.leaves(), is_dry_run: flags.is_dry_run(), ..settings })
}
