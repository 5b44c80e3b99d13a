//! What must hold in every run, and the arithmetic of reports.
//!
//! Checkers know packets by what the application sent, and losses from the world's log: nothing here believes a
//! host's own counters.

mod budget;
mod deliveries;
mod repairs;
mod sample;
mod work;

pub use budget::{ByteBudget, OverBudget, SlidingBytes};
pub use deliveries::{Deliveries, Delivery, DeliveryCounters, DeliveryError};
pub use repairs::{RepairError, RepairSummary, Repairs};
pub use sample::Sample;
pub use work::{check_agent_input, check_relay_input};
