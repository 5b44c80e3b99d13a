//! Modes of a run: with Byway, without relays, or without Byway, on the same machines and links.

use byway_scenario::Network;
use serde::Serialize;

/// Parts of Byway that a lab run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OverlayMode {
    /// Direct path without agents and relays.
    Bare,
    /// Agents that use the direct path only, without relays.
    WithoutRelays,
    /// Agents and relays, as configured.
    Byway,
}

impl OverlayMode {
    pub(super) const ALL: [Self; 3] = [Self::Bare, Self::WithoutRelays, Self::Byway];

    /// Returns the modes whose results differ on this network. Without flows, nodes would be idle,
    /// so only [`OverlayMode::Bare`] remains.
    pub(super) const fn of(network: &Network) -> &'static [Self] {
        if network.flows.is_empty() { &[Self::Bare] } else { &Self::ALL }
    }

    /// Returns the name of the mode in tables and messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::WithoutRelays => "without relays",
            Self::Byway => "byway",
        }
    }

    /// True if agents run in this mode.
    pub(super) const fn has_nodes(self) -> bool {
        !matches!(self, Self::Bare)
    }
}
