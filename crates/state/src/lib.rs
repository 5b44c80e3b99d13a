//! Network state: the table that links report to, and windows that interactive senders compute from
//! it.
//!
//! Links report their queues and rates many times a second. An interactive sender sets its window
//! from these reports. It uses its whole share of the bottleneck, and one packet of it waits there.
//!
//! "The paper" in this crate is: Naman, Wang, Habibi Gharakheili, Sivaraman and Taubman,
//! *Responsive high throughput congestion control for interactive applications over SDN-enabled
//! networks*.
//!
//! ```
//! use byway_state::{LinkEntry, LinkId, LinkState, NetworkId, Path};
//! use byway_state::{Rules, StateQuery, Table, Window};
//! use byway_units::{Bytes, Duration, Rate, Time};
//!
//! // A link of 5 Mbit/s and 50 ms is full, and two flows have a packet each in its queue.
//! let link = LinkId::new(NetworkId::new(1), 7);
//! let (interval, delay) = (Duration::from_millis(50), Duration::from_millis(50));
//! let rate = Rate::from_megabits_per_second(5);
//! let entry = LinkEntry::new(interval, rate * interval, Bytes::new(3_000), rate, delay)?;
//!
//! let mut table = Table::new(Path::new([link])?);
//! for tick in 1..=40 {
//!     let now = Time::START + interval * tick;
//!     table.report(&LinkState::new(link, entry, Duration::ZERO)?, now);
//!     table.tick(now);
//! }
//!
//! // A sender that gets half of the rate learns that this is its share.
//! let (mut window, now) = (Window::new(Rules::CORRECTED), Time::START + Duration::from_secs(2));
//! for entry in table.after(StateQuery::first(), now) {
//!     window.on_forward_entry(entry, now);
//! }
//! let half = Rate::from_kilobits_per_second(2_500);
//! let rest_of_path = Duration::from_millis(50);
//! let decision = window.decide(half, rest_of_path).expect("there is state");
//! assert_eq!(decision.rate, half);
//! // 100 ms at 2.5 Mbit/s, and the own packet.
//! assert_eq!(decision.window, Bytes::new(31_250 + 1_500));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Where to start
//! - [`LinkMeter`] turns samples of a link's counters into [`LinkState`]s.
//! - [`Table`] has the states of all links of a path, and answers [`StateQuery`]s.
//! - [`CongestionControl`] is all that a sender needs: its [`Window`], a start, and what it does
//!   without state.
//! - [`Policy`] sets the rates of a link with two queues.
//! - [`Federation`] exchanges states with neighbouring networks.
//!
//! Floats are inside, and integers at the edges. Whatever comes from outside is checked before it
//! becomes an entry or a path, and nothing panics for any input.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `averages` | averages of the links of a path, and whether their state is missing |
//! | `congestion` | congestion control of one flow |
//! | `convert` | conversions between integers and floats |
//! | `delay_window` | delay-based window without state |
//! | `delivery` | delivery rate of a flow, and packets of one acknowledgment |
//! | `entry` | checked state of a link over one interval |
//! | `federation` | queries and answers of neighbouring networks |
//! | `least` | minimum over a sliding period |
//! | `limits` | constants |
//! | `link_state` | state of a named link |
//! | `merge` | consolidation of several reports of a link |
//! | `naive` | the equations as they are written, as a reference for tests |
//! | `packets` | conversion between IP packets and a transport's bytes, rounding to packets |
//! | `path` | links of one direction |
//! | `path_entry` | state of all links of a path at one index |
//! | `policy` | rates of a link's interactive queue |
//! | `query` | queries of readers |
//! | `ramp` | start of a window |
//! | `refusal` | refusals of queries and answers |
//! | `rest` | delay of the parts of a path that no table has |
//! | `rules` | rules that a window follows |
//! | `sample` | samples of a link's counters |
//! | `slots` | values of a sliding period |
//! | `table` | network state table of a path |
//! | `test_values` | times and states of links, for tests |
//! | `window` | window and rate from network state (Equations 1 to 14) |
//!
//! # What this crate leaves to others
//! Clocks, sockets, formats on the wire, authentication, routes, and the sending of packets.
#![no_std]

extern crate alloc;

mod averages;
mod congestion;
mod convert;
mod delay_window;
mod delivery;
mod entry;
mod federation;
mod least;
mod limits;
mod link_state;
mod merge;
#[cfg(test)]
mod naive;
mod packets;
mod path;
mod path_entry;
mod policy;
mod query;
mod ramp;
mod refusal;
mod rest;
mod rules;
mod sample;
mod slots;
mod table;
#[cfg(test)]
mod test_values;
mod window;

pub use congestion::{Ack, Congestion, CongestionControl, Guidance, Pacing};
pub use delivery::DeliveryRate;
pub use entry::{EntryError, EntryField, LinkEntry};
pub use federation::{Direction, Ends, Federation, Location, NeighbourAnswer, NeighbourQuery, Viewer};
pub use limits::{
    DIRECTIONS_MAX, ENTRIES_MAX, ENTRY_LIFETIME, HISTORY_ENTRIES, INTERVAL_MAX, LEASE, LINK_DELAY_MAX,
    LINK_RATE_MAX, LINK_RATE_MIN, LINKS_MAX, NEIGHBOURS_MAX, NETWORKS_MAX, QUERY_LIFETIME, SAMPLE_INTERVAL,
    TARGET_BACKLOG,
};
pub use link_state::{FlowCounts, LinkId, LinkState, NetworkId, target_backlog};
pub use packets::{PacketSize, PacketSizeError};
pub use path::{Path, PathError};
pub use path_entry::{PathEntry, PathEntryError};
pub use policy::{InteractiveRates, Policy, PolicyError, PolicySettings, QueueObservation};
pub use query::{QueryError, StateQuery};
pub use refusal::{AnswerRefusal, PathUnknown, QueryRefusal};
pub use rules::{Corrections, OldStateRule, Rules};
pub use sample::{LinkMeter, LinkSample, SampleError};
pub use table::Table;
pub use window::{Decision, Window};
