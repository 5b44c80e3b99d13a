//! Stream of registered flows to a node, whose links serve them as interactive.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use byway_api::{FlowTuple, RegisteredFlow, RegisteredFlows};
use byway_state::LEASE;
use byway_units::{Duration, Time};
use tokio::sync::watch;

use super::feed::StateFeed;
use crate::controller::access::LinkReporter;
use crate::controller::limits::{FLOW_STREAMS_PER_NODE_MAX, FLOWS_PER_NODE_MAX, TUPLES_PER_LEASE_MAX};

/// Interval between two looks at a node's flows that have changed. A burst of registrations is one
/// look.
const CHANGE_INTERVAL: Duration = Duration::from_millis(250);

/// Interval between two looks at a node's flows that have not changed. Each look sends a line, from
/// which the node knows that the controller is there.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Time after which a flow is sent again. With the interval of checks, it is less than half of the
/// lease that a link has: one missed renewal ends no lease.
const RENEWAL: Duration = Duration::from_secs(20);

const _: () = assert!(RENEWAL.as_nanos() + KEEPALIVE_INTERVAL.as_nanos() < LEASE.as_nanos() / 2);

/// Stream of the registered flows on the paths of a node's links.
///
/// It begins with all of them. Later lines have the changes, and flows whose lease at the link is
/// to be renewed. If the stream ends, the link forgets them within a minute.
#[derive(Debug)]
pub(crate) struct FlowStream {
    feed: Arc<StateFeed>,
    reporter: LinkReporter,
    number: u64,
    /// Indices of the paths that have a link of the node.
    paths: Vec<usize>,
    /// Flows that the node knows, and when they were sent.
    known: BTreeMap<FlowTuple, Time>,
    /// Revision of the flows at the latest look, and its time.
    looked: Option<(u64, Time)>,
    lines: VecDeque<String>,
    beats: watch::Receiver<u64>,
}

impl FlowStream {
    /// Begins a stream to a node. It replaces the node's stream before. `None` if
    /// [`FLOW_STREAMS_PER_NODE_MAX`] streams of the node have not ended.
    pub(crate) fn begin(feed: &Arc<StateFeed>, reporter: LinkReporter) -> Option<Self> {
        let number = feed.flow_streams().begin_below(reporter.number, FLOW_STREAMS_PER_NODE_MAX)?;
        Some(Self {
            paths: feed.inputs().paths_of(&reporter),
            feed: Arc::clone(feed),
            reporter,
            number,
            known: BTreeMap::new(),
            looked: None,
            lines: VecDeque::new(),
            beats: feed.beats(),
        })
    }

    /// Returns the next line, once there is one. `None` if a newer stream replaces this one, or the
    /// node is no member any more.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            self.beats.mark_unchanged();
            let is_member = self.feed.access().reporter(self.reporter.number).as_ref() == Ok(&self.reporter);
            if !is_member || !self.feed.flow_streams().is_latest(self.reporter.number, self.number) {
                return None;
            }
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            let now = self.feed.now();
            if self.is_due(now) {
                self.look(now);
            } else {
                self.beats.changed().await.ok()?;
            }
        }
    }

    fn is_due(&self, now: Time) -> bool {
        let Some((revision, at)) = self.looked else { return true };
        let elapsed = now.saturating_since(at);
        elapsed >= KEEPALIVE_INTERVAL
            || elapsed >= CHANGE_INTERVAL && self.feed.leases().flows().revision(&self.paths) != revision
    }

    /// Compares the registered flows with those that the node knows, and queues lines of the
    /// differences; an empty one if there are none.
    fn look(&mut self, now: Time) {
        let (revision, current) = {
            let leases = self.feed.leases();
            (leases.flows().revision(&self.paths), leases.flows().of_paths(&self.paths, FLOWS_PER_NODE_MAX))
        };
        self.looked = Some((revision, now));
        let lease_s = LEASE.as_nanos() / Duration::from_secs(1).as_nanos();
        let ended = self.known.keys().filter(|tuple| !current.contains(*tuple));
        let mut flows: Vec<RegisteredFlow> = ended.map(|tuple| registered_flow(tuple, 0)).collect();
        self.known.retain(|tuple, _| current.contains(tuple));
        for tuple in current {
            let sent_at = self.known.get(&tuple);
            if sent_at.is_none_or(|at| now.saturating_since(*at) >= RENEWAL) {
                self.known.insert(tuple, now);
                flows.push(registered_flow(&tuple, lease_s));
            }
        }
        self.lines.extend(flows.chunks(TUPLES_PER_LEASE_MAX).map(|flows| {
            let line = RegisteredFlows { flows: flows.to_vec() };
            serde_json::to_string(&line).expect("flows have only texts and numbers") + "\n"
        }));
        if self.lines.is_empty() {
            self.lines.push_back("\n".to_owned());
        }
    }
}

impl Drop for FlowStream {
    fn drop(&mut self) {
        self.feed.flow_streams().end(self.reporter.number, self.number);
    }
}

fn registered_flow(tuple: &FlowTuple, lease_s: u64) -> RegisteredFlow {
    let FlowTuple { from, to, protocol } = *tuple;
    RegisteredFlow { from, to, protocol, lease_s }
}
