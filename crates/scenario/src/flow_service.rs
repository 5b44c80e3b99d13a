//! Service of a scenario's flow.

use byway_proto::agent::{Duplication, Traffic, initial_service};
use byway_wire::Service;

/// Overlay service of a flow: a named one, or the one that the sending agent selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowService {
    /// The service that the scenario names, throughout.
    Named(Service),
    /// The service that the sending agent selects, again and again.
    Automatic,
}

impl FlowService {
    /// Returns the service with which a flow of this traffic begins.
    #[must_use]
    pub const fn initial(self, traffic: Traffic, duplication: Duplication) -> Service {
        match self {
            Self::Named(service) => service,
            Self::Automatic => initial_service(traffic, duplication),
        }
    }

    /// True if the sending agent selects the service.
    #[must_use]
    pub const fn is_automatic(self) -> bool {
        matches!(self, Self::Automatic)
    }

    /// Returns the name of the service in the settings of an agent.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Named(service) => service.name(),
            Self::Automatic => "auto",
        }
    }
}
