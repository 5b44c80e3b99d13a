//! Lab: scenarios with real programs. Each machine is a network namespace with one TUN device. One
//! thread moves the packets of all machines over emulated links, with the link model of the
//! simulator.
//!
//! # Where to start
//! - [`Machine`]: a namespace, in which programs and sockets can be opened.
//! - [`EmulatorThread`]: moves packets between running machines.
//! - [`emulation`]: the network without threads and devices; [`nat`]: its NAT routers.
//!
//! # What this crate leaves to others
//! The choice of programs, and the evaluation of their results.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | [`capture`] | captures of machines' packets, for Wireshark |
//! | [`emulation`] | emulated links and routers |
//! | [`limits`] | limits of the lab |
//! | [`local_bind`] | ports bound in a machine |
//! | [`nat`] | NAT routers |
//! | [`timer_lateness`] | lateness of an emulator |
//! | `delay_queue` | packets in the queues of links with classes |
//! | `emulator_thread` | thread between the machines' devices |
//! | `error` | errors of a lab |
//! | `machine` | machines as network namespaces |
//! | `namespace` | PID namespaces |
//! | `wakeup_estimator` | choice between sleeping and spinning |

#![allow(clippy::disallowed_types, reason = "sockets are what a lab is about")]

pub mod capture;
pub mod emulation;
pub mod limits;
pub mod local_bind;
pub mod nat;
pub mod timer_lateness;

mod delay_queue;
mod emulator_thread;
mod error;
mod machine;
mod namespace;
mod wakeup_estimator;

pub use emulator_thread::{EmulationReport, EmulatorThread};
pub use error::LabError;
pub use machine::{DEVICE, Machine, addresses};
pub use namespace::{mount_proc, unshare_pid_namespace};
