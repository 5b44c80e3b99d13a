//! Network state at the controller: links report samples, and applications read the state of the
//! paths of their registered flows. Links get the registered flows on their paths.
//!
//! It is separate from the network's members: nothing of it is stored, and nothing waits for the
//! disk. Start with [`StateFeed`].

mod addresses;
mod encoding;
mod feed;
mod flow_stream;
mod leases;
mod node_streams;
mod path_table;
mod refusal;
mod routed_flows;
mod sample_stream;
mod samples;
mod stream_slots;
mod subscription;
mod topology;

#[cfg(test)]
pub(super) mod tests;

pub(crate) use feed::{StateFeed, run};
pub(crate) use flow_stream::FlowStream;
pub(crate) use leases::LeaseId;
pub(crate) use refusal::FeedRefusal;
pub(crate) use sample_stream::SampleStream;
pub(crate) use subscription::{Subscription, queries_after};
pub(crate) use topology::{ReportedLink, RoutedPath, TenantNetwork, Topology};
