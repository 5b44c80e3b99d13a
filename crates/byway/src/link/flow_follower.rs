//! Task that follows the registered flows at the controller, for the low-delay class of a link.

use std::collections::BTreeSet;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use byway_api::{FlowProtocol, FlowTuple, RegisteredFlow, RegisteredFlows};
use byway_units::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::limits::{FOLLOWED_FLOWS_MAX, STABLE_TIME};
use super::registration::FlowRegistration;
use super::report_status::ReportStatus;
use crate::membership::{Backoff, Client, MembershipError};

/// Number of a protocol in the IP header.
const fn protocol_number(protocol: FlowProtocol) -> u8 {
    match protocol {
        FlowProtocol::Tcp => 6,
        FlowProtocol::Udp => 17,
    }
}

impl From<&RegisteredFlow> for FlowRegistration {
    fn from(flow: &RegisteredFlow) -> Self {
        let lease = Duration::from_secs(1).as_nanos().saturating_mul(flow.lease_s);
        Self { from: flow.from, to: flow.to, protocol: protocol_number(flow.protocol), lease_ns: lease }
    }
}

/// Follower of the registered flows. It sends their registrations to the link's loop, and waits
/// while that is busy.
pub(super) struct FlowFollower {
    registrations: mpsc::Sender<Vec<FlowRegistration>>,
    status: Arc<watch::Sender<ReportStatus>>,
    /// Flows that the controller names at present.
    flows: BTreeSet<FlowTuple>,
    /// Kind of the latest logged error; `None` while the controller sends flows.
    failing: Option<Discriminant<MembershipError>>,
}

impl FlowFollower {
    /// Creates a follower without flows.
    pub(super) fn new(
        registrations: mpsc::Sender<Vec<FlowRegistration>>,
        status: Arc<watch::Sender<ReportStatus>>,
    ) -> Self {
        Self { registrations, status, flows: BTreeSet::new(), failing: None }
    }

    /// Follows the flows until the link ends.
    pub(super) async fn run(mut self, mut client: Client) {
        let mut backoff = Backoff::default();
        while !self.registrations.is_closed() {
            let begun = Instant::now();
            let error = match self.follow(&mut client).await {
                Ok(()) => {
                    MembershipError::Unreachable { attempts: "the stream of flows has ended".to_owned() }
                }
                Err(error) => error,
            };
            if begun.elapsed() >= STABLE_TIME {
                backoff.succeeded();
                self.failing = None;
            }
            let kind = discriminant(&error);
            if self.failing.replace(kind) != Some(kind) {
                tracing::warn!("registered flows are not known: {error}; retrying");
            }
            backoff.wait(&error).await;
        }
    }

    /// Follows the flows in one stream, until it ends.
    async fn follow(&mut self, client: &mut Client) -> Result<(), MembershipError> {
        let mut lines = client.get_messages("/v1/samples/flows").await?;
        // The stream begins with all flows. Those that have ended meanwhile expire at the link.
        self.flows.clear();
        while let Some(update) = lines.next::<RegisteredFlows>().await? {
            let registrations = self.note(&update);
            if self.registrations.send(registrations).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Records an update of the flows, and returns it as registrations at the link.
    fn note(&mut self, update: &RegisteredFlows) -> Vec<FlowRegistration> {
        for flow in &update.flows {
            let tuple = FlowTuple { from: flow.from, to: flow.to, protocol: flow.protocol };
            if flow.lease_s == 0 {
                self.flows.remove(&tuple);
            } else if self.flows.len() < FOLLOWED_FLOWS_MAX {
                self.flows.insert(tuple);
            }
        }
        let count = u64::try_from(self.flows.len()).unwrap_or(u64::MAX);
        self.status.send_modify(|status| status.registered_flows = count);
        update.flows.iter().map(FlowRegistration::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16, lease_s: u64) -> RegisteredFlow {
        RegisteredFlow {
            from: ([10, 0, 0, 2], port).into(),
            to: ([198, 51, 100, 7], 9).into(),
            protocol: FlowProtocol::Udp,
            lease_s,
        }
    }

    fn follower() -> (FlowFollower, Arc<watch::Sender<ReportStatus>>) {
        let status = Arc::new(watch::Sender::new(ReportStatus::new("core-1")));
        (FlowFollower::new(mpsc::channel(1).0, Arc::clone(&status)), status)
    }

    #[test]
    fn flows_become_registrations_and_are_counted_while_they_last() {
        let (mut follower, status) = follower();
        let registrations = follower.note(&RegisteredFlows { flows: vec![flow(1, 60), flow(2, 60)] });
        let found = registrations[0];
        assert_eq!((found.from.port(), found.protocol, found.lease_ns), (1, 17, 60_000_000_000));
        follower.note(&RegisteredFlows { flows: vec![flow(2, 60), flow(3, 60)] });
        assert_eq!(status.borrow().registered_flows, 3);
        let ended = follower.note(&RegisteredFlows { flows: vec![flow(1, 0), flow(4, 0)] });
        assert_eq!((ended.len(), ended[0].lease_ns, status.borrow().registered_flows), (2, 0, 2));
    }

    #[test]
    fn a_controller_that_names_flows_without_end_takes_no_more_memory() {
        let (mut follower, status) = follower();
        for port in 1..=u16::MAX {
            follower.note(&RegisteredFlows { flows: vec![flow(port, u64::MAX)] });
        }
        assert_eq!(status.borrow().registered_flows, 16_384);
    }

    #[test]
    fn both_protocols_have_their_numbers() {
        assert_eq!([FlowProtocol::Tcp, FlowProtocol::Udp].map(protocol_number), [6, 17]);
    }
}
