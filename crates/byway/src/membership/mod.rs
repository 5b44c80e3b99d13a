//! A node's side of the controller: joining, the map as it changes, and what others have to know of the node.
//!
//! Start with [`Membership`]. What the controller said last is on the disk, so that a node starts and works without it.

pub(crate) mod files;
pub(crate) mod proof;
pub(crate) mod random;

mod backoff;
mod client;
mod error;
mod keys;
mod limits;
mod member;
mod reporter;
mod tasks;
mod tls;
mod verified;
mod wall_clock;

#[cfg(test)]
mod tests;

pub(crate) use client::{Client, Mark};
pub(crate) use error::MembershipError;
pub(crate) use keys::{KeyFileError, NodeKey};
pub(crate) use member::{Membership, MembershipSettings};
pub(crate) use tasks::Contact;
pub(crate) use wall_clock::{Date, Span, WallClock};
