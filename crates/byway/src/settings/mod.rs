//! Settings from files, flags and the environment: parsed, then validated.

mod endpoint;
mod flags;
mod flows;
mod mapping_limits;
mod network;
mod overlay;
mod prices;
mod raw;
mod raw_flow;
mod reference;
mod selectors;
mod shared_coding;
mod topology;
mod tunnel;
mod uplinks;
mod validated;

pub(crate) use endpoint::Endpoint;
pub(crate) use flags::{AgentFlags, ControllerFlags, RelayFlags};
pub(crate) use flows::{ExposedKind, ExposedResource, FlowSpec, Forward, packet_subject, without_address};
pub(crate) use mapping_limits::MappingLimits;
pub(crate) use network::StaticNetwork;
pub(crate) use overlay::{AgentContext, OtherAgent, agent_context, agent_settings_with};
pub(crate) use prices::{entries as price_entries, entry as price_entry};
pub(crate) use raw::{LogFormatSetting, LogLevelSetting, RawFile};
pub(crate) use raw_flow::{CopiesSetting, ServiceSetting, TrafficSetting};
pub(crate) use reference::reference;
pub(crate) use selectors::PrefixSetting;
pub(crate) use shared_coding::SharedTenant;
pub(crate) use tunnel::{Capture, MTU_MIN, Selection, Tunnel};
pub(crate) use uplinks::UplinkDevice;
pub(crate) use validated::{
    AgentSettings, LogSettings, NetworkSource, OBSERVE_PORTS, RelaySettings, agent_settings, check_file,
    controller_settings, controller_state, hosts_in_file, relay_settings,
};
#[cfg(test)]
pub(crate) use validated::{agent_of, controller_prices_of};
