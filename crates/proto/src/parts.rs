//! Building blocks of the agent and relay state machines.
//!
//! Each part has one task, is independent of the others, and uses neither clock nor socket. Time is
//! an argument, and a part that needs a later call returns its deadline. All are bounded by
//! [`limits`](crate::limits). They allocate memory while they grow to the size that their traffic
//! needs, then no more.
//!
//! | module | subject |
//! |---|---|
//! | `active_flows` | number of flows that send |
//! | [`batcher`] | packets of different flows that are coded together, and the number of their repair packets |
//! | [`block_encoder`] | repair packets over the last packets of one flow |
//! | [`circuit_breaker`] | stop of copies on a path that delivers too little |
//! | `cohorts` | flows of a coding class that share batches, apart from those that lose packets with them |
//! | [`delay_histogram`] | percentiles of delays |
//! | [`forwarding_allowance`] | time for which a flow in an outage may be forwarded |
//! | [`gap_tracker`] | missing packets of a flow, and the times of their NACKs |
//! | [`lateness`] | share of late answers of a cooperating receiver |
//! | [`loss_cause`] | cause of a loss: congestion, or a lossy path |
//! | [`loss_quantile`] | quantile of the delays around losses |
//! | [`loss_timer`] | timeout for the next packet of a flow |
//! | `missing_ranges` | missing packets as ranges that share the state of their requests |
//! | [`pacer`] | pacing of background flows |
//! | [`packet_buffer`] | bytes of recent packets |
//! | [`path_probes`] | delays of one of several paths, by probes |
//! | [`queue_delay`] | queueing delay of a path |
//! | [`redundancy`] | number of repair packets of a batch, by the losses of batches |
//! | [`reordering_window`] | time for which a gap may be mere reordering |
//! | [`resequencer`] | delivery in order with a bounded delay |
//! | [`retransmissions`] | packets that were sent again, and how often |
//! | [`retry`] | times of the requests for one loss |
//! | [`sequence_ring`] | values by recent sequence number |
//! | [`timers`] | many timers, and the earliest of them |
//! | [`token_bucket`] | limit of a rate and a burst |
//! | [`uplink_backlog`] | packets that wait for an uplink of known capacity, as the sender estimates |
//! | [`uplink_load`] | load of the uplink, without and with all copies |
//! | [`uplink_probe`] | capacity of the uplink |

pub(crate) mod active_flows;
pub mod batcher;
pub mod block_encoder;
pub mod circuit_breaker;
pub(crate) mod cohorts;
pub mod delay_histogram;
pub mod forwarding_allowance;
pub mod gap_tracker;
pub mod lateness;
pub mod loss_cause;
pub mod loss_quantile;
pub mod loss_timer;
pub(crate) mod missing_ranges;
pub mod pacer;
pub mod packet_buffer;
pub mod path_probes;
pub mod queue_delay;
pub mod redundancy;
pub mod reordering_window;
pub mod resequencer;
pub mod retransmissions;
pub mod retry;
pub mod sequence_ring;
pub mod timers;
pub mod token_bucket;
pub mod uplink_backlog;
pub mod uplink_load;
pub mod uplink_probe;
