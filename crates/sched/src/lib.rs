//! What a congested link does with the packets that wait for it.
//!
//! *Rate-Delay* offers two classes, and the sender's marking chooses: in the *low-delay* class no packet waits longer than a bound; in the
//! *high-rate* class each flow gets a multiple of the rate. Neither is better, so nothing has to be paid, admitted or policed, and unmarked
//! traffic, which is high-rate, loses nothing by it. (Podlesny and Gorinsky, *Rate-Delay services*.)
//!
//! A link may have a third class, whose delay is low on average but may spike, for fewer losses.
//!
//! Start with [`RateDelay`], which holds the queues, and [`Settings`], which say what it promises. A packet's [`Class`] follows from its
//! DSCP by a [`Marking`]. How many flows there are in each class is estimated by a [`FlowCounter`] without a table of flows.
//!
//! # What this crate leaves to others
//! When a packet has left the link, and with that when the next one is asked for; reading headers; clocks: time is an argument.
#![no_std]

extern crate alloc;

mod allotment;
mod allowance;
mod brought;
mod buckets;
mod carried;
mod class;
mod counting;
mod discipline;
mod drop_tail;
mod fair;
mod fifo;
mod flows;
mod fq_codel;
mod governor;
mod guard;
mod lasting;
mod limits;
mod longest;
mod marker;
#[cfg(test)]
mod naive;
mod priority;
mod rate_delay;
mod settings;
mod sizing;
mod split;
mod spread;
#[cfg(test)]
mod tests;

pub use allotment::Allotment;
pub use class::{Class, Marking};
pub use discipline::{Arrival, Departure, Discipline, Dropped};
pub use drop_tail::DropTail;
pub use flows::{FlowCounter, FlowHash, FlowKey, FlowTuple, estimated_flows};
pub use fq_codel::FqCodel;
pub use limits::{DELAY_MAX, FLOW_EXPIRY, FLOW_SLOTS, UPDATE_INTERVAL};
pub use priority::StrictPriority;
pub use rate_delay::{RateDelay, Status};
pub use settings::{Discards, GuardMode, Settings, SettingsError};
