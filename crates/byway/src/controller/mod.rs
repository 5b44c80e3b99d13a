//! The controller: who is in the network, and what lets whom use which relay.
//!
//! [`network`] decides, [`store`] writes, `http` asks and answers. Start with [`Controller`].

mod commands;
mod counts;
mod http;
mod identity;
mod limits;
mod network;
mod node;
mod server;
mod state;
mod store;
mod throttle;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use commands::{Administration, node_table, token_table};
pub(crate) use http::openapi::document as openapi_document;
pub(crate) use limits::{NODES_MAX, PAIRS_MAX, TOKENS_MAX};
pub(crate) use network::Quotas;
pub(crate) use node::run;
pub(crate) use server::{Controller, ControllerError, ControllerSettings};

/// Locks. What a thread that panicked leaves is whole: everything under a lock is changed in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
