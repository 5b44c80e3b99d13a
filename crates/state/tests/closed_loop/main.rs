//! Closed loop of links, tables and windows in virtual time, packet by packet.
//!
//! Limits have a control that misses them: in most cases, the published equations alone.

#![allow(clippy::print_stdout, reason = "the harness shows measurements if a test fails")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "measurements are small numbers"
)]

mod fair;
mod faulty;
mod flow;
mod link;
mod measure;
mod old_state;
mod outage;
mod overstated;
mod policy;
mod single;
mod world;
