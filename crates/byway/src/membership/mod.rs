//! Client of the controller in a node: joins the network, follows changes of the map, and reports
//! about the node.
//!
//! Start with [`Membership`]. The controller's latest map is on the disk. A node therefore starts
//! and works without the controller.

pub(crate) mod files;
pub(crate) mod proof;
pub(crate) mod random;

mod backoff;
mod client;
mod error;
mod keys;
mod limits;
mod member;
mod membership_files;
mod message_stream;
mod poller;
mod reporter;
mod tls;
mod wall_clock;

#[cfg(test)]
mod tests;

pub(crate) use backoff::Backoff;
pub(crate) use client::{Client, FirewallMark};
pub(crate) use error::MembershipError;
pub(crate) use keys::{KeyFileError, NodeKey};
pub(crate) use member::{Membership, MembershipSettings, member_client};
pub(crate) use message_stream::MessageBody;
pub(crate) use poller::ControllerContact;
pub(crate) use wall_clock::{Date, Span, WallClock};
