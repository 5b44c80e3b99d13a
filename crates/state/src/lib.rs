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
//! # Where to start
//! - [`LinkMeter`] turns samples of a link's counters into [`LinkState`]s.
//! - [`Table`] has the states of all links of a path, and answers [`StateQuery`]s.
//!
//! Floats are inside, and integers at the edges. Whatever comes from outside is checked before it
//! becomes an entry or a path, and nothing panics for any input.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `convert` | conversions between integers and floats |
//! | `entry` | checked state of a link over one interval |
//! | `least` | minimum over a sliding period |
//! | `limits` | constants |
//! | `link_state` | state of a named link |
//! | `merge` | consolidation of several reports of a link |
//! | `path` | links of one direction |
//! | `path_entry` | state of all links of a path at one index |
//! | `query` | queries of readers |
//! | `sample` | samples of a link's counters |
//! | `table` | network state table of a path |
//!
//! # What this crate leaves to others
//! Clocks, sockets, formats on the wire, authentication, routes, and the sending of packets.
#![no_std]

extern crate alloc;

mod convert;
mod entry;
mod least;
mod limits;
mod link_state;
mod merge;
mod path;
mod path_entry;
mod query;
mod sample;
mod table;

pub use entry::{EntryError, EntryField, LinkEntry};
pub use limits::{
    ENTRIES_MAX, ENTRY_LIFETIME, HISTORY_ENTRIES, INTERVAL_MAX, LINK_DELAY_MAX, LINK_RATE_MAX, LINK_RATE_MIN,
    LINKS_MAX, SAMPLE_INTERVAL, TARGET_BACKLOG,
};
pub use link_state::{FlowCounts, LinkId, LinkState, NetworkId, target_backlog};
pub use path::{Path, PathError};
pub use path_entry::{PathEntry, PathEntryError};
pub use query::{QueryError, StateQuery};
pub use sample::{LinkMeter, LinkSample, SampleError};
pub use table::Table;
