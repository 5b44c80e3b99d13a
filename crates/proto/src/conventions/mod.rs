//! What agents agree on that is no part of the protocol: what an offer says it is for, how flows are numbered, who is let
//! in, and which relays a pair uses. The program and the library that applications embed go by the same.

mod admission;
mod contacts;
mod eviction;
mod numbers;
mod offering;
mod relay_paths;
mod segments;
mod subject;

pub use admission::{Exposure, Wish, admit};
pub use contacts::{Acquaintance, Contacts};
pub use eviction::{Candidate, PairLimits, PairUse, Progress, choose_beyond_share, choose_evicted};
pub use numbers::{CONTACT_FLOW, FlowNumbers};
pub use offering::{back, offer_for};
pub use relay_paths::{relay_paths, shard_of};
pub use segments::{Segments, ip_bytes};
pub use subject::Subject;
