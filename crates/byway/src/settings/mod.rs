//! Settings: as typed in files, flags and the environment, then as meant.

mod additions;
mod endpoint;
mod flags;
mod flows;
mod meaning;
mod network;
mod reference;
mod selectors;
mod tunnel;
mod typed;

pub(crate) use additions::{Other, Surroundings, agent_settings_with, surroundings};
pub(crate) use endpoint::Endpoint;
pub(crate) use flags::{AgentFlags, ControllerFlags, RelayFlags};
pub(crate) use flows::{Exposed, ExposedAt, Forward, Wanted, packets_for, without_address};
#[cfg(test)]
pub(crate) use meaning::agent_of;
pub(crate) use meaning::{
    AgentSettings, Belonging, LogSettings, OBSERVE_PORTS, RelaySettings, agent_settings, check_file,
    controller_settings, controller_state, hosts_in_file, relay_settings,
};
pub(crate) use network::StaticNetwork;
pub(crate) use reference::reference;
pub(crate) use selectors::TypedPrefix;
pub(crate) use tunnel::{Capture, MTU_MIN, Selection, Tunnel};
pub(crate) use typed::{TypedCopies, TypedFile, TypedFormat, TypedLevel, TypedService, TypedTraffic};
