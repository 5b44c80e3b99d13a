//! Machines of a scenario as hosts of its world.

use std::collections::VecDeque;
use std::net::SocketAddr;

use byway_sim::overlay::OverlayHost;
use byway_sim::{Datagram, Host, Marks, Transmit};
use byway_units::Time;
use byway_wire::Ecn;

/// Machine of a scenario, as a host of the simulated world.
#[derive(Debug)]
pub(crate) enum Machine {
    /// An agent or a relay.
    Overlay(OverlayHost),
    /// A machine without Byway, whose applications send plain UDP.
    Bare(BareHost),
    /// A router, which only forwards packets.
    Router,
}

/// Machine without Byway: the reference for harm, because it adds nothing to its applications'
/// datagrams.
#[derive(Debug, Default)]
pub(crate) struct BareHost {
    /// Datagrams to send.
    queue: VecDeque<BareDatagram>,
    /// Datagram that is being sent: the world borrows it.
    sending: Option<BareDatagram>,
    /// Datagrams for the applications, with their ECN fields.
    delivered: Vec<(Vec<u8>, Ecn)>,
}

/// Datagram that a [`BareHost`] sends.
#[derive(Debug)]
struct BareDatagram {
    destination: SocketAddr,
    ecn: Ecn,
    payload: Vec<u8>,
}

impl BareHost {
    /// Queues a datagram of an application.
    pub(crate) fn send(&mut self, destination: SocketAddr, ecn: Ecn, payload: &[u8]) {
        self.queue.push_back(BareDatagram { destination, ecn, payload: payload.to_vec() });
    }

    /// Returns the datagrams that arrived since the last call.
    pub(crate) fn drain_delivered(&mut self) -> Vec<(Vec<u8>, Ecn)> {
        std::mem::take(&mut self.delivered)
    }
}

impl Host for BareHost {
    fn receive(&mut self, datagram: Datagram<'_>, _now: Time) {
        self.delivered.push((datagram.payload.to_vec(), datagram.ecn));
    }

    fn wake(&mut self, _now: Time) {}

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        self.sending = self.queue.pop_front();
        let BareDatagram { destination, ecn, payload } = self.sending.as_ref()?;
        let (destination, ecn) = (*destination, *ecn);
        Some(Transmit { source: None, destination, marks: Marks::default(), ecn, payload })
    }

    fn deadline(&self) -> Option<Time> {
        None
    }
}

impl Host for Machine {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        match self {
            Self::Overlay(host) => host.receive(datagram, now),
            Self::Bare(host) => host.receive(datagram, now),
            Self::Router => {}
        }
    }

    fn wake(&mut self, now: Time) {
        if let Self::Overlay(host) = self {
            host.wake(now);
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        match self {
            Self::Overlay(host) => host.transmit(now),
            Self::Bare(host) => host.transmit(now),
            Self::Router => None,
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Overlay(host) => host.deadline(),
            Self::Bare(_) | Self::Router => None,
        }
    }

    fn prepare(&self, depth: usize, datagram: Option<&[u8]>) {
        if let Self::Overlay(host) = self {
            host.prepare(depth, datagram);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{BuildError, Scenario};

    const CALL: &str = r#"
title = "Plain UDP"
length = "5 s"
node = [
    { name = "alice", role = "agent", bare = true },
    { name = "bob", role = "agent", bare = true },
]
link = [{ between = ["alice", "bob"], delay = "40 ms", loss = [{ share = "10 %" }] }]

[[flow]]
name = "call"
from = "alice"
to = "bob"
service = "internet"
sends = { kind = "steady", every = "10 ms", bytes = 100 }
"#;

    #[test]
    fn plain_udp_has_no_headers_but_those_of_ip_and_udp() {
        let outcome = Scenario::parse(CALL).expect("it is valid").run(1).expect("all are joined");
        let (flow, sender) = (&outcome.flows[0], &outcome.nodes[0]);
        assert!(flow.sent > 190 && flow.missing > 0 && flow.repaired == 0, "{flow:?}");
        assert_eq!(flow.lost_direct, flow.missing);
        assert_eq!((sender.sent, sender.sent_bytes), (flow.sent, flow.sent * 128));
    }

    #[test]
    fn transfers_run_over_plain_udp_too() {
        let bulk = "{ kind = \"bulk\", bytes = 100_000 }";
        let text = CALL.replace("{ kind = \"steady\", every = \"10 ms\", bytes = 100 }", bulk);
        let text = text.replace("10 %", "0.1 %");
        let outcome = Scenario::parse(&text).expect("it is valid").run(1).expect("all are joined");
        assert_eq!(outcome.flows[0].transfers.as_ref().map(|transfers| transfers.finished), Some(1));
    }

    #[test]
    fn machines_without_byway_have_no_service_and_no_other_peers() {
        let message = |old: &str, new: &str| {
            assert!(CALL.contains(old), "{old}");
            Scenario::parse(&CALL.replace(old, new)).expect_err("it is invalid").to_string()
        };
        let problem = message("service = \"internet\"", "");
        assert!(problem.contains("set service \"internet\""), "{problem}");
        let problem = message(
            "{ name = \"bob\", role = \"agent\", bare = true }",
            "{ name = \"bob\", role = \"agent\" }",
        );
        assert!(problem.contains("set it for both, or for none"), "{problem}");
        let problem = message("{ name = \"bob\", role = \"agent\"", "{ name = \"bob\", role = \"router\"");
        assert!(problem.contains("not allowed for a router"), "{problem}");
        let problem = message("delay = \"40 ms\"", "delay = \"40 ms\", corruption = \"1 %\"");
        assert!(problem.contains("conflicts with `corruption`"), "{problem}");
    }

    #[test]
    fn a_lab_has_byway_on_all_machines() {
        let error = Scenario::parse(CALL).expect("it is valid").network(1).expect_err("it is refused");
        assert!(matches!(error, BuildError::Bare { .. }), "{error}");
    }
}
