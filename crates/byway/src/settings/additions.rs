//! Tables that the program itself adds to those of an agent's file.

use byway_typed::Problem;

use super::flags::AgentFlags;
use super::meaning::{AgentSettings, agent, host_name};
use super::network::StaticNetwork;
use super::tunnel::TABLE;
use super::typed::{TypedFile, TypedTunnel};

/// What an agent is told that matters to what is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The agents that are paired with it; `None` where a controller knows.
    pub(crate) others: Option<Vec<Other>>,
    /// Its routing table, which is the mark of Byway's own packets too.
    pub(crate) table: u32,
    /// The MTU of its device, where somebody has set it.
    pub(crate) mtu: Option<u16>,
}

/// Another agent of a static network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    pub(crate) name: String,
}

/// What the flags, and the file they name, say of the surroundings.
///
/// # Errors
/// If the file cannot be read, or its network is wrong.
pub(crate) fn surroundings(flags: &AgentFlags) -> Result<Surroundings, Problem> {
    let typed = flags.typed()?;
    let network = typed.file.network.as_ref();
    let network = network.map(|network| StaticNetwork::check(network, &typed.source)).transpose()?;
    let tunnel = typed.file.tunnel.unwrap_or_default();
    let mut agent = typed.file.agent.unwrap_or_default();
    let name = agent.node().name.take().or_else(host_name).unwrap_or_default();
    Ok(Surroundings {
        others: network.map(|network| network.others(&name)),
        table: tunnel.table.unwrap_or(TABLE),
        mtu: tunnel.mtu,
    })
}

/// What an agent is meant to do that has these tables in addition. What its own `[tunnel]` says stays.
///
/// # Errors
/// If a setting is wrong, of its own or together with the addition.
pub(crate) fn agent_settings_with(flags: &AgentFlags, addition: TypedFile) -> Result<AgentSettings, Problem> {
    let mut typed = flags.typed()?;
    let file = &mut typed.file;
    file.capture.extend(addition.capture);
    file.expose.extend(addition.expose);
    if let Some(added) = addition.tunnel {
        let own = file.tunnel.get_or_insert_with(TypedTunnel::default);
        own.mtu = own.mtu.or(added.mtu);
        own.own_table = own.own_table.or(added.own_table);
        own.watches = own.watches.take().or(added.watches);
    }
    let settings = agent(typed)?;
    Ok(AgentSettings { leaves: flags.leaves(), is_dry_run: flags.is_dry_run(), ..settings })
}
