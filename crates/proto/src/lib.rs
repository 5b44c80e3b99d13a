//! Byway's agent and relay as state machines, without I/O.
//!
//! | module | subject |
//! |---|---|
//! | [`agent`] | agent: sends, repairs and receives the flows of applications |
//! | [`conventions`] | conventions between agents: subjects, flow numbers, relay paths |
//! | [`copy_selection`] | selection of packets worth a copy |
//! | `counters` | macro for counters with names |
//! | `growth` | tables that grow in small steps |
//! | `index_table` | hash table from keys to small numbers |
//! | [`limits`] | limits of this crate, each with its reason |
//! | `local_addresses` | local addresses that received datagrams |
//! | `network_path` | local and remote address of a datagram |
//! | `outbox` | queues of outputs |
//! | [`parts`] | parts of both state machines: loss timer, batcher, pacer and others |
//! | `policy` | properties of services, and code rates |
//! | `random` | random generator from a seed |
//! | `reason` | reasons of deadlines |
//! | [`relay`] | relay: stores, codes and forwards sealed packets |
//! | `session` | sessions: handshakes, keys, paths and probes |
#![no_std]

extern crate alloc;

pub mod agent;
pub mod conventions;
pub mod copy_selection;
mod counters;
mod growth;
mod index_table;
pub mod limits;
mod local_addresses;
mod network_path;
mod outbox;
pub mod parts;
mod policy;
mod random;
mod reason;
pub mod relay;
mod session;

pub use local_addresses::LocalAddresses;
pub use network_path::{LocalAddress, Uplink, Uplinks};
pub use outbox::{Priority, Transmit};
pub use policy::{CodingRates, consent};
pub use reason::Reason;
pub use session::SessionCounters;
