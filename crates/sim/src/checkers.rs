//! Checkers of invariants that hold in every run, and the statistics of reports.
//!
//! Checkers identify packets by the payload that the application sent, and take losses from the
//! world's log. They do not trust a host's own counters.

mod budget;
mod deliveries;
mod repairs;
mod sample;
mod work;

pub use budget::{BudgetExceeded, ByteBudget, SlidingBytes};
pub use deliveries::{Deliveries, Delivery, DeliveryCounters, DeliveryError};
pub use repairs::{RepairError, RepairSummary, Repairs};
pub use sample::Sample;
pub use work::{check_agent_input, check_relay_input};
