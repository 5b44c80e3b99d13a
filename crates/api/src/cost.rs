//! Costs of flows and relays.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::prices::RelayPrices;

/// Traffic of a relay in the calendar month so far, and its bill.
///
/// Bytes are of IP packets. Months are of UTC. Amounts are in billionths of the currency's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayCost {
    /// Name of the relay.
    pub name: String,
    /// The month, as in `2026-11`.
    pub month: String,
    /// Time of the month's first record, in seconds of Unix time.
    pub since_unix_seconds: u64,
    /// Time of the month's latest record, in seconds of Unix time.
    pub until_unix_seconds: u64,
    /// Bytes that the relay received.
    pub received_bytes: u64,
    /// Bytes that the relay sent, by destination.
    pub sent: Vec<BytesToDestination>,
    /// Bytes of the five-minute sample at the 95th percentile, of the direction with more.
    pub percentile_95_sample_bytes: u64,
    /// The bill so far; absent if the relay does not know its prices.
    pub bill: Option<RelayBill>,
    /// Note for people, such as why there is no bill; absent if there is none.
    pub note: Option<String>,
    /// Bytes that the relay charged to each tenant; empty at a controller.
    #[serde(default)]
    pub tenants: Vec<TenantBytes>,
}

/// Bytes that a relay charged to the flows of one tenant in the calendar month so far.
///
/// They are of packets and repair packets, without headers, messages and probes. A batch's repair
/// packets are charged to its flows in proportion to their bytes in the batch, and a helper's
/// packet to the flows whose losses it repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantBytes {
    /// Number of the tenant, as in the controller's status.
    pub tenant: u32,
    /// Bytes that the relay sent for the flows.
    pub sent_bytes: u64,
    /// Bytes that helpers returned to repair losses of the flows.
    pub returned_bytes: u64,
}

/// Traffic of a relay in the calendar month so far, as it reports it to its controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayUsage {
    /// Time of the month's first record, in seconds of Unix time.
    pub since_unix_seconds: u64,
    /// Time of the month's latest record, in seconds of Unix time.
    pub until_unix_seconds: u64,
    /// Bytes that the relay received.
    pub received_bytes: u64,
    /// Bytes that the relay sent to agents and to each other relay.
    pub sent: Vec<BytesToRelay>,
    /// Bytes of the five-minute sample at the 95th percentile, of the direction with more.
    pub percentile_95_sample_bytes: u64,
}

/// Bytes that a relay sent to another relay, or to all agents together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BytesToRelay {
    /// Number of the other relay; absent for agents.
    pub relay: Option<u32>,
    /// Bytes of IP packets.
    pub bytes: u64,
}

/// Costs of all relays of a network, as they last reported their traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkCost {
    /// Name of the network.
    pub name: String,
    /// The relays that have reported.
    pub relays: Vec<RelayCost>,
}

/// Bytes that a relay sent to one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BytesToDestination {
    /// Name of the other relay, or `agents` for all agents together.
    pub to: String,
    /// Number of the other relay; absent for agents.
    pub relay: Option<u32>,
    /// Bytes of IP packets.
    pub bytes: u64,
}

/// Bill of a relay for the calendar month so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayBill {
    /// Currency of all amounts, as its ISO 4217 code.
    pub currency: String,
    /// Items of the bill: machine, port, ingress, and egress by destination.
    pub items: Vec<RelayBillItem>,
    /// Sum of the items.
    pub total_nanounits: i64,
    /// Sum of the items as on an invoice, each rounded to the nearest hundredth.
    pub invoiced_cents: i64,
    /// Prices of the next bytes, at the month's forecast.
    pub next: RelayPrices,
}

/// Item of a relay's bill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayBillItem {
    /// Name of the item.
    pub name: String,
    /// Bytes that the item is for; of a port at the 95th percentile, those of the billed sample.
    pub bytes: u64,
    /// Amount of the item.
    pub nanounits: i64,
}

/// Costs of an agent's flows since the agent started.
///
/// Bytes are of IP packets. The agent counts what it sends; what relays send for its flows follows
/// from its copies and from the receivers' reports. Machines are not included. Amounts are in
/// billionths of the currency's unit, at the prices of the next bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentCost {
    /// Name of the agent.
    pub name: String,
    /// Currency of all amounts, as its ISO 4217 code; absent if all prices are nominal.
    pub currency: Option<String>,
    /// Flows that the agent sends.
    pub flows: Vec<FlowCost>,
    /// Sum over flows that have ended.
    pub ended: CostTotals,
    /// Sum over all flows, those that have ended included.
    pub total: CostTotals,
}

/// Costs of a flow that an agent sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowCost {
    /// Identifier of the flow, as in `bob:7`.
    pub id: String,
    /// Service of the flow.
    pub service: String,
    /// Names of the ingress and the egress relay in use; absent without a relay path.
    pub relays: Option<[String; 2]>,
    /// Bytes and amounts of the flow.
    #[serde(flatten)]
    pub totals: CostTotals,
}

/// Bytes and amounts of one flow, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CostTotals {
    /// Bytes that the sender sent on the direct path.
    pub direct_bytes: u64,
    /// Bytes that the sender sent to relays.
    pub to_relays_bytes: u64,
    /// Bytes that ingress relays sent to egress relays.
    pub between_relays_bytes: u64,
    /// Bytes that egress relays sent to receivers.
    pub from_relays_bytes: u64,
    /// Amount of the relays' bytes.
    pub nanounits: i64,
    /// Amount if relays had forwarded every packet. Without relays, it is 0.
    pub all_relayed_nanounits: i64,
}

impl CostTotals {
    /// Adds the bytes and amounts of another flow.
    pub const fn add(&mut self, other: &Self) {
        self.direct_bytes = self.direct_bytes.saturating_add(other.direct_bytes);
        self.to_relays_bytes = self.to_relays_bytes.saturating_add(other.to_relays_bytes);
        self.between_relays_bytes = self.between_relays_bytes.saturating_add(other.between_relays_bytes);
        self.from_relays_bytes = self.from_relays_bytes.saturating_add(other.from_relays_bytes);
        self.nanounits = self.nanounits.saturating_add(other.nanounits);
        self.all_relayed_nanounits = self.all_relayed_nanounits.saturating_add(other.all_relayed_nanounits);
    }
}
