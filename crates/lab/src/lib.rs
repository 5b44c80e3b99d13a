//! The lab: scenarios with real programs. Each machine is a network namespace with one TUN device; one thread carries the packets of all
//! of them over emulated links, the very links of the simulator.
//!
//! # Where to start
//! - [`Machine`]: a namespace, and how programs get into it.
//! - [`Carrier`]: carries packets between machines while they run.
//! - [`emulation`]: what becomes of a packet, without threads and devices; [`nat`]: what routers that translate addresses do to it.
//!
//! # What this crate leaves to others
//! What programs run, and what comes of them.

#![allow(clippy::disallowed_types, reason = "sockets are what a lab is about")]

pub mod bound;
pub mod capture;
pub mod emulation;
pub mod lateness;
pub mod limits;
pub mod nat;

mod carrier;
mod enclosure;
mod error;
mod machine;
mod waiting;
mod wakefulness;

pub use carrier::{Carried, Carrier};
pub use enclosure::{begin_process_table, enclose_children};
pub use error::LabError;
pub use machine::{DEVICE, Machine, addresses};
