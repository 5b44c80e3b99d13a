//! The quantities and identifiers every other Byway crate speaks in.
//!
//! A number that crosses a boundary carries its unit in its type: a [`Duration`] cannot be added to
//! [`Bytes`], a [`FlowId`] cannot stand where a [`RelayId`] is asked for, and a formula reads like the
//! paper it comes from:
//!
//! ```
//! use byway_units::{Bytes, Duration, Rate};
//!
//! let link = Rate::from_megabits_per_second(100);
//! let packet = Bytes::new(1_500);
//! assert_eq!(packet / link, Duration::from_micros(120));
//! assert_eq!(link * Duration::from_millis(250), Bytes::new(3_125_000));
//! ```
//!
//! What does not belong together does not compile:
//!
//! ```compile_fail,E0308
//! use byway_units::{Bytes, Duration};
//!
//! let nonsense = Duration::from_millis(15) + Bytes::new(1_500);
//! ```
//!
//! # Overflow
//! Operators panic when a result does not fit, in every build profile: a quantity out of range is a broken
//! invariant of ours. Where the operands come from outside (a peer, a configuration file), use the
//! `checked_` and `saturating_` methods. Dividing by a zero rate or a zero duration has no answer, so the
//! checked forms return `None` and the operators panic.
//!
//! # What this crate leaves to others
//! Reading a clock (driver), drawing random numbers (driver), parsing configuration.
//!
//! Start with [`Time`] and [`Duration`], then [`Rate`].
#![no_std]

mod bytes;
mod id;
mod money;
mod probability;
mod quantity;
mod rate;
mod time;

pub use bytes::Bytes;
pub use id::{AgentId, BatchId, FlowId, RelayId};
pub use money::Money;
pub use probability::{Probability, ProbabilityError};
pub use rate::Rate;
pub use time::{Duration, DurationError, Time};
