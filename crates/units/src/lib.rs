//! Quantities and identifiers of all Byway crates.
//!
//! The types include the units: a [`Duration`] cannot be added to
//! [`Bytes`], and a [`FlowId`] cannot replace a [`RelayId`]. Formulas read like those of the
//! papers:
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
//! A mixture of quantities does not compile:
//!
//! ```compile_fail,E0308
//! use byway_units::{Bytes, Duration};
//!
//! let nonsense = Duration::from_millis(15) + Bytes::new(1_500);
//! ```
//!
//! # Overflow
//! Operators panic if a result does not fit, in every build profile, because a quantity out of
//! range is a broken invariant. For operands from outside (a peer, a configuration file), use the
//! `checked_` and `saturating_` methods. Division by a zero rate or a zero duration has no result:
//! the checked forms return `None`, and the operators panic.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `bytes` | amounts of data |
//! | `id` | identifiers |
//! | `money` | amounts of money |
//! | `probability` | probabilities and shares |
//! | `quantity` | arithmetic of all additive quantities |
//! | `rate` | bit rates |
//! | `time` | instants and durations |
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
