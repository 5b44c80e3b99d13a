//! What the state machines of agent and relay are composed of.
//!
//! Each part does one thing, knows none of the others' business, and touches neither clock nor socket: time is
//! an argument, and where a part wants to be called again it says when. All are bounded by [`limits`](crate::limits), and
//! allocate while they grow to the size that their traffic needs, then no more.
//!
//! | part | what it answers |
//! |---|---|
//! | [`timers`] | which of many deadlines is next |
//! | [`packet_log`] | where are the bytes of a packet that passed a moment ago |
//! | [`sequence_ring`] | what is known of a recent sequence number |
//! | [`token_bucket`] | may this be sent within a rate and a burst |
//! | [`pacer`] | when may the next packet of a background flow leave |
//! | [`loss_timer`] | how long to wait for the next packet before asking for it |
//! | [`gap_tracker`] | which packets of a flow are missing, and when to ask for them |
//! | [`reordering_window`] | how long a gap may be mere reordering |
//! | [`resequencer`] | how long to hold back what follows a gap |
//! | [`queue_delay`] | do packets queue on this path |
//! | [`line_load`] | how much leaves by the uplink, and how much would with all copies |
//! | [`line_scale`] | how much does the uplink carry |
//! | [`delay_histogram`] | how late are packets |
//! | [`breaker`] | does this path still deliver |
//! | [`block_encoder`] | what are the repair packets over the last packets of one flow |
//! | [`placement`] | which packets of different flows are coded together, and with how many repair packets |

pub mod block_encoder;
pub mod breaker;
pub mod delay_histogram;
pub mod gap_tracker;
pub mod lateness;
pub mod line_load;
pub mod line_scale;
pub mod loss_timer;
pub mod pacer;
pub mod packet_log;
pub mod placement;
pub mod queue_delay;
pub mod reordering_window;
pub mod resequencer;
pub mod sequence_ring;
pub mod timers;
pub mod token_bucket;
