//! What people see of the choice of a flow's service, and the prices on which it rests.

use byway_plan::{Criteria, Delays, RelayPriceTable, Selector};
use byway_units::Duration;

use super::Agent;
use super::selection::{criteria, delays};
use super::send_flow::SendFlowId;

impl Agent {
    /// Sets the prices of the next bytes of relays, by which services are compared from the next
    /// selection on.
    pub fn set_relay_prices(&mut self, prices: RelayPriceTable) {
        self.service_changes.selectors.prices = prices;
    }

    /// Returns the prices of the next bytes of relays.
    #[must_use]
    pub const fn relay_prices(&self) -> &RelayPriceTable {
        &self.service_changes.selectors.prices
    }

    /// Returns the selector of a sent flow's service, with its latest evaluation and its changes;
    /// `None` if the flow's settings name the service, or if the flow was closed.
    #[must_use]
    pub fn selector(&self, flow: SendFlowId) -> Option<&Selector> {
        self.service_changes.selectors.selector(flow.0)
    }

    /// Returns all delays of a sent flow's paths as selections have them, with assumptions for
    /// those that nobody has measured yet; `None` without a direct path or a relay path that is
    /// measured.
    #[must_use]
    pub fn predicted_delays(&self, flow: SendFlowId) -> Option<Delays> {
        self.flow_delays(flow).map(delays)
    }

    /// Returns the criteria by which the service of a flow with this latency budget is selected.
    #[must_use]
    pub fn selection_criteria(latency_budget: Duration) -> Criteria {
        criteria(latency_budget)
    }
}
