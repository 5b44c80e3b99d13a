//! An emulated wide-area network on one machine, without privileges.
//!
//! Every program listens at its *real* address on the loopback. Other programs know it by a
//! *public* address, at which the emulator has a socket. A datagram that program X sends to Y's
//! public address reaches the emulator and passes the simulator's [`World`](byway_sim::World) in
//! real time. It leaves from X's public address to Y's real one, so Y can answer to its source.

mod client;
mod description;
mod emulation;
mod log;
mod process;
#[cfg(test)]
mod tests;

pub(crate) use client::Wan;
pub(crate) use description::{BurstDescription, Description, LinkDescription, NodeDescription};
pub(crate) use emulation::losses_at;
pub(crate) use log::{LinkRecord, PacketKind, PacketRecord, WanLog};
pub(crate) use process::main;
