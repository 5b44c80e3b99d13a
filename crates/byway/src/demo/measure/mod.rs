//! From logs to numbers.
//!
//! Losses come from the emulator's log, times of sending and delivery from the applications; nothing that an agent says of
//! itself counts. [`matching`] finds out which sealed packet carries which datagram, [`mod@fates`] what became of each,
//! [`summary`] adds up.

mod after_kill;
mod fates;
mod matching;
mod percentile;
mod summary;

pub(crate) use fates::{Fate, PairTraffic, fates};
pub(crate) use percentile::percentile;
pub(crate) use summary::{Traffic, summarise, within};

#[cfg(test)]
mod tests;
