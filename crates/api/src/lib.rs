//! Public types of Byway's HTTP interface: the controller's answers and the status of nodes, as
//! JSON.
//!
//! Formats:
//! - Keys and secrets are 64 hexadecimal digits.
//! - Grants and signatures are in Base64.
//! - Addresses are `192.0.2.1:4600` or `[2001:db8::1]:4600`.
//! - Names of quantities include their unit.
//! - Readers must ignore unknown fields.
//!
//! Start with [`NetworkMap`]. A node obtains its map by a [`JoinRequest`], and then as a
//! [`SignedMap`]. Nodes report their status as [`AgentStatus`] and [`RelayStatus`].
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `administration` | tokens, members, pairs and status, for administrators |
//! | `cost` | costs of flows and relays |
//! | `error` | errors of the controller |
//! | `explanation` | explanations of a flow's service |
//! | `join` | joining a network |
//! | `map` | a node's view of its network |
//! | `membership` | maps, updates and pairings, for members |
//! | `name` | valid names |
//! | `prices` | prices of relays, as maps carry them |
//! | `reload` | answers to a reload of settings |
//! | `state` | network state: queries, leases of flows, samples of links |
//! | `status` | status of agents and relays |

mod administration;
mod cost;
mod error;
mod explanation;
mod join;
mod map;
mod membership;
mod name;
mod prices;
mod reload;
mod state;
mod status;

pub use administration::{
    AgentName, ConnectionCounts, ControllerStatus, Health, NetworkStateUse, NodeEntry, NodeList, PairRequest,
    RequestCount, StorageStatus, TenantUse, TokenAnswer, TokenEntry, TokenList, TokenRequest,
};
pub use cost::{
    AgentCost, BytesToDestination, BytesToRelay, CostTotals, FlowCost, NetworkCost, RelayBill, RelayBillItem,
    RelayCost, RelayUsage, TenantBytes,
};
pub use error::{ErrorAnswer, ErrorCode};
pub use explanation::{
    FlowExplanation, FlowList, FlowMeasurements, FlowSummary, ServiceChangeEntry, ServicePrediction,
};
pub use join::{JoinAnswer, JoinRequest, NetworkAnswer, Role};
pub use map::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayShard};
pub use membership::{MapQuery, PairingAnswer, PairingRequest, RoundTrip, SelfUpdate, SignedMap};
pub use name::{NAME_BYTES_MAX, NameError, checked_name};
pub use prices::{PriceToRelay, RelayPrices};
pub use reload::{ChangeKind, ReloadAnswer, ReloadRefusal, SettingChange};
pub use state::{
    FlowProtocol, FlowRegistration, FlowTuple, LeaseAnswer, NamedEntry, NamedLink, PathState, RegisteredFlow,
    RegisteredFlows, SampleBatch, SampledLink, SamplesAnswer, StateAnswer, StateQuery,
};
pub use status::{
    AgentStatus, CaptureStatus, ControllerState, FlowDeliveries, ForwardStatus, Histogram, MappingStatus,
    NodeStatus, PathStatus, PeerReach, PeerTotals, ReasonCount, RelayReach, RelayRoute, RelayStatus,
    SegmentBytes, UplinkClass, UplinkStatus, UplinkUse,
};
