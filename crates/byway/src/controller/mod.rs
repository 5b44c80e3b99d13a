//! The controller: membership of a network, and grants for the use of its relays.
//!
//! [`network`] decides, [`store`] writes, `http` serves requests. [`state_feed`] has the network
//! state that links report and applications read. Start with [`Controller`].

mod access;
mod commands;
mod costs;
mod counts;
mod http;
mod identity;
mod limits;
mod network;
mod node;
mod rate_limiter;
mod server;
mod state;
mod state_feed;
mod store;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use commands::{AdminClient, node_table, token_table};
pub(crate) use http::openapi::document as openapi_document;
pub(crate) use limits::{
    NODES_MAX, PAIRS_MAX, STATE_LINKS_MAX, STATE_PATH_LINKS_MAX, STATE_PATHS_MAX, STATE_PREFIXES_MAX,
    TOKENS_MAX,
};
pub(crate) use network::Quotas;
pub(crate) use node::run;
pub(crate) use server::{Controller, ControllerError, ControllerSettings};
pub(crate) use state_feed::{ReportedLink, RoutedPath, TenantNetwork, Topology};

/// Locks a mutex of the controller. Its value is consistent even after a panic, because each change
/// under a lock is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
