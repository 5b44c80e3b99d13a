//! Settings: as typed in files, flags and the environment, then as meant.

mod flags;
mod meaning;
mod network;
mod reference;
mod typed;

pub(crate) use flags::{AgentFlags, ControllerFlags, RelayFlags};
pub(crate) use meaning::{
    AgentSettings, Belonging, Exposed, Forward, LogSettings, OBSERVE_PORTS, RelaySettings, agent_settings,
    check_file, controller_settings, controller_state, relay_settings,
};
pub(crate) use network::StaticNetwork;
pub(crate) use reference::reference;
pub(crate) use typed::{TypedFormat, TypedLevel};
