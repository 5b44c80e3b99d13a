//! Agents and relays in the world: the production state machines as [`Host`](crate::Host)s, and
//! set-ups of them.

mod chain;
mod checksums;
mod delivery_ledger;
mod host;
mod pairs;
pub mod topology;

pub use chain::{Chain, ChainSettings, Stage};
pub use checksums::Checksums;
pub use delivery_ledger::DeliveryLedger;
pub use host::{DeliveredDatagram, OverlayHost, ReceivedOffer};
pub use pairs::{Pairs, PairsRun, PairsWorld, SendSchedule};
