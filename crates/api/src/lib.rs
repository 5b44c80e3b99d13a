//! The public types of Byway's HTTP interface.
//!
//! What the controller answers and what every node's status says, as JSON. Keys and secrets are 64 hexadecimal digits,
//! grants and signatures are in Base64, addresses are `192.0.2.1:4600` or `[2001:db8::1]:4600`; every number has its unit
//! in its name. Whoever reads JSON passes over fields that it does not know.
//!
//! Start with [`NetworkMap`]. How a node comes to have one: [`JoinRequest`], [`SignedMap`]. How nodes are: [`AgentStatus`],
//! [`RelayStatus`].

mod administration;
mod error;
mod join;
mod map;
mod membership;
mod name;
mod reload;
mod status;

pub use administration::{
    AgentName, ConnectionCounts, ControllerStatus, Health, NodeEntry, NodeList, PairRequest, RequestCount,
    TenantUse, TokenAnswer, TokenEntry, TokenList, TokenRequest,
};
pub use error::{ErrorAnswer, ErrorCode};
pub use join::{JoinAnswer, JoinRequest, NetworkAnswer, Role};
pub use map::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayShard};
pub use membership::{MapQuery, PairingAnswer, PairingRequest, RoundTrip, SelfUpdate, SignedMap};
pub use name::{NAME_BYTES_MAX, NameError, checked_name};
pub use reload::{ChangeKind, ReloadAnswer, ReloadRefusal, SettingChange};
pub use status::{
    AgentStatus, CaptureStatus, ControllerState, Counted, FlowReceived, ForwardStatus, Histogram,
    MappingStatus, NodeStatus, PathStatus, PeerReach, PeerTotals, RelayReach, RelayStatus, SegmentBytes,
    UplinkClass, UplinkStatus,
};
