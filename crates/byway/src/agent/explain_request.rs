//! Requests for the explanations and costs of flows.

use byway_api::{AgentCost, FlowExplanation, FlowList};
use tokio::sync::oneshot;

/// Request for the flows, for the explanation of one, or for their costs.
pub(super) enum ExplainRequest {
    /// Return all flows that the agent sends.
    List(oneshot::Sender<FlowList>),
    /// Return the explanation of the flow with this identifier; `None` if there is none.
    Flow(String, oneshot::Sender<Option<FlowExplanation>>),
    /// Return the costs of all flows.
    Cost(oneshot::Sender<AgentCost>),
}
