//! What carries the traffic of a run: each world has the same machines and links.

use byway_scenario::Network;
use serde::Serialize;

/// What carries the traffic of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum World {
    /// The direct path, and no Byway at all.
    Bare,
    /// Agents, over the direct path alone.
    WithoutRelays,
    /// Agents and relays.
    Byway,
}

impl World {
    pub(super) const ALL: [Self; 3] = [Self::Bare, Self::WithoutRelays, Self::Byway];

    /// Those that differ: where there are no flows, nodes would do nothing.
    pub(super) const fn of(network: &Network) -> &'static [Self] {
        if network.flows.is_empty() { &[Self::Bare] } else { &Self::ALL }
    }

    /// What people call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::WithoutRelays => "without relays",
            Self::Byway => "byway",
        }
    }

    /// Whether agents and relays run.
    pub(super) const fn has_nodes(self) -> bool {
        !matches!(self, Self::Bare)
    }
}
