//! C interface of `byway-client`: opaque handles and error codes. Panics do not cross the boundary.
//!
//! cbindgen generates `include/byway.h` from these sources. Every function catches panics. Only
//! `memory` checks pointers and lengths.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `address` | network addresses |
//! | `client` | functions of clients |
//! | `error` | error codes and texts |
//! | `handle` | the client behind a pointer |
//! | `memory` | access through C pointers |
//! | `network` | functions of networks |
//! | `output` | outputs and events |
//! | `registration` | registrations of flows |
//! | `report` | delivery statistics and byte counts |
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "docs are those of the header, where brackets are those of addresses and tables"
)]
#![allow(clippy::doc_markdown, reason = "docs are those of the header, where names have no backticks")]
#![allow(clippy::missing_safety_doc, reason = "the header says once what holds of all pointers")]
#![allow(
    unsafe_code,
    reason = "C's pointers are followed, behind checks, and names are exported as C has them"
)]

mod address;
mod client;
mod error;
mod handle;
mod memory;
mod network;
mod output;
mod registration;
mod report;

pub use address::Address;
pub use client::{
    byway_client_close_flow, byway_client_deadline, byway_client_expose, byway_client_fd, byway_client_free,
    byway_client_leave, byway_client_new, byway_client_now, byway_client_open, byway_client_peer_name,
    byway_client_poll, byway_client_received, byway_client_register, byway_client_report,
    byway_client_segments, byway_client_send, byway_client_step, byway_client_subject, byway_client_timer,
};
pub use error::{Error, byway_error_text, byway_last_error};
pub use handle::Handle;
pub use network::{
    Network, byway_network_add_agent, byway_network_add_pair, byway_network_add_relay, byway_network_free,
    byway_network_new,
};
pub use output::*;
pub use registration::*;
pub use report::{Report, Segments};
