//! Packet schedulers and queue management for a congested link.
//!
//! *Rate-Delay* offers two classes, and the sender's marking chooses between them. In the
//! *low-delay* class, the sojourn time of packets is bounded. In the *high-rate* class, each flow
//! gets a multiple of a low-delay flow's rate. Neither class is better, so there is no need for
//! payment, admission control or policing. Unmarked traffic is high-rate and loses nothing.
//! (Podlesny and Gorinsky, *Rate-Delay services*.)
//!
//! Instead of a delay bound, a link may promise interactive flows a share by their number
//! ([`Sharing::ByFlows`]). Their senders keep the queue short, because they learn its state from
//! [`RateDelay::sample`]. The paper on that is by Naman and others: *Responsive high throughput
//! congestion control for interactive applications over SDN-enabled networks*.
//!
//! A link may have a third class, with low delay on average, occasional spikes and fewer losses.
//!
//! Start with [`RateDelay`], which has the queues, and [`Settings`], which configure them. A
//! [`Marking`] maps a packet's DSCP to its [`Class`]. A [`FlowCounter`] estimates the number of
//! flows in each class without a table of flows.
//!
//! | module | subject |
//! |---|---|
//! | `buckets` | token buckets that flows share by their hash |
//! | `buffer_sizing` | buffer sizes and weights of the classes |
//! | `byte_counts` | byte counts of flows |
//! | `class` | service classes and their markings |
//! | `counting` | flow counting of a link, plain or guarded |
//! | `demand` | offered load of flows |
//! | `discipline` | the interface of all queueing disciplines |
//! | `drop_tail` | a FIFO queue with tail drop |
//! | `ecn_marker` | ECN marking of low-delay packets |
//! | `fifo` | a queue of packets with a byte count |
//! | `flow_policer` | policer of flows and sources |
//! | `flow_sharing` | rates of the classes of a link that shares by flows |
//! | `flows` | flow hashes, and the counting of flows |
//! | `fq_codel` | fair queueing with `CoDel` |
//! | `limits` | constants |
//! | `link_share` | rates, buffers and delay of the classes, for other schedulers |
//! | `max_min` | max-min fair share of a class |
//! | `max_packet_size` | length of the longest recent low-delay packet |
//! | `misuse_guard` | protection from misbehaving senders |
//! | `naive` | the algorithms of the paper, as a reference for tests |
//! | `persistent_flows` | counting of flows that last, limited for each source |
//! | `pi2` | AQM of the low-average class |
//! | `priority` | strict priority of the low-delay class |
//! | `rate_delay` | the Rate-Delay scheduler |
//! | `rate_histogram` | histogram of bytes over flows |
//! | `registered_flows` | flows that applications registered as interactive |
//! | `settings` | configuration of a Rate-Delay link |
//! | `tests` | properties of all disciplines |
//! | `weighted_link_share` | division of a link between two parties by weights |
//!
//! # What this crate leaves to others
//! The decision when the link is free, parsing of headers, and clocks: time is an argument.
#![no_std]

extern crate alloc;

mod buckets;
mod buffer_sizing;
mod byte_counts;
mod class;
mod counting;
mod demand;
mod discipline;
mod drop_tail;
mod ecn_marker;
mod fifo;
mod flow_policer;
mod flow_sharing;
mod flows;
mod fq_codel;
mod limits;
mod link_share;
mod max_min;
mod max_packet_size;
mod misuse_guard;
#[cfg(test)]
mod naive;
mod persistent_flows;
mod pi2;
mod priority;
mod rate_delay;
mod rate_histogram;
mod registered_flows;
mod settings;
#[cfg(test)]
mod tests;
mod weighted_link_share;

pub use class::{Class, Marking};
pub use discipline::{Arrival, Departure, Discipline, DropReason};
pub use drop_tail::DropTail;
pub use flows::{FlowCounter, FlowHash, FlowKey, FlowTuple, estimated_flows};
pub use fq_codel::FqCodel;
pub use limits::{DELAY_MAX, FLOW_EXPIRY, FLOW_SLOTS, REGISTERED_FLOWS_MAX, UPDATE_INTERVAL};
pub use link_share::LinkShare;
pub use priority::StrictPriority;
pub use rate_delay::{RateDelay, Sample, Status};
pub use registered_flows::RegisteredFlows;
pub use settings::{DiscardPolicy, GuardMode, Settings, SettingsError, Sharing};
