//! Conventions between agents that are no part of the protocol: subjects of offers, flow numbers,
//! admission, eviction, and the relay paths of a pair of agents.
//!
//! The program and the client library share them.

mod admission;
mod contacts;
mod eviction;
mod numbers;
mod offering;
mod relay_paths;
mod segments;
mod subject;

pub use admission::{AdmissionRequest, Exposure, admit};
pub use contacts::{ContactPeer, Contacts};
pub use eviction::{EvictionCandidate, PairLimits, PairUse, Progress, choose_beyond_share, choose_evicted};
pub use numbers::{CONTACT_FLOW, FlowNumbers};
pub use offering::{offer_for, reverse_terms};
pub use relay_paths::{relay_paths, shard_of};
pub use segments::{Segments, ip_bytes};
pub use subject::Subject;
