//! Byway's agent and relay as state machines.
#![no_std]

extern crate alloc;

pub mod agent;
pub mod conventions;
mod counters;
mod growth;
mod index_table;
pub mod limits;
mod local_addresses;
pub mod marking;
mod network_path;
mod outbox;
pub mod parts;
mod policy;
mod random;
mod reason;
pub mod relay;
mod session;

pub use local_addresses::LocalAddresses;
pub use network_path::LocalAddress;
pub use outbox::{Transmit, Urgency};
pub use policy::CodingRates;
pub use reason::Reason;
pub use session::SessionCounters;
