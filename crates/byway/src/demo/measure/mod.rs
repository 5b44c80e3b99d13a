//! Evaluation of logs.
//!
//! Losses are counted from the emulator's log, times of sending and delivery from the applications.
//! Statements of the agents do not count. [`matching`] finds the datagram in each sealed packet,
//! [`outcomes`] finds the outcome of each datagram, [`summary`] adds them up.

mod after_kill;
mod matching;
mod outcomes;
mod percentile;
mod summary;

pub(crate) use outcomes::{DatagramOutcome, PairTraffic, datagram_outcomes};
pub(crate) use percentile::percentile;
pub(crate) use summary::{Traffic, repaired_within, summarise};

#[cfg(test)]
mod tests;
