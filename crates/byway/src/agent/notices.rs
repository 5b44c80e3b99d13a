//! Log messages about the agent's events.

use byway_proto::agent::Event;
use byway_units::{AgentId, Time};
use byway_wire::messages::Refusal;
use byway_wire::{FlowKey, Receiver};
use tracing::Level;

use super::log_limit::{LogLimit, Topic};
use super::network_view::NetworkView;
use super::status::QUOTA_NOTE;
use byway_proto::conventions::CONTACT_FLOW;

/// Log message about an event of the agent, such as a session that begins or a path that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    level: Level,
    number: AgentId,
    peer: String,
    /// Topic of the message, and further detail that distinguishes it.
    topic: (Topic, String),
    message: String,
}

impl Notice {
    /// Returns the log message about an event; `None` if the event concerns no operator.
    pub(super) fn of(event: &Event, known: &NetworkView) -> Option<Self> {
        let of_peer = |level, topic, peer: AgentId, message: &str| {
            let (message, topic) = (message.to_owned(), (topic, String::new()));
            Some(Self { level, number: peer, peer: known.name_of(peer), topic, message })
        };
        match event {
            Event::PeerEstablished(peer) => {
                of_peer(Level::INFO, Topic::Session, *peer, "session with the peer established")
            }
            Event::PeerLeft(peer) => of_peer(Level::INFO, Topic::Session, *peer, "peer left"),
            Event::PeerLost(peer) => of_peer(
                Level::WARN,
                Topic::PeerLost,
                *peer,
                "peer unreachable; retrying while there is traffic",
            ),
            Event::FlowRefused { flow, refusal } => {
                let (peer, flow_text) = subject(flow, known)?;
                let remedy = if *refusal == Refusal::QuotaReached { QUOTA_NOTE } else { "" };
                let message = format!("relay refused {flow_text}: {refusal:?}");
                let message = if remedy.is_empty() { message } else { format!("{message}: {remedy}") };
                let mut notice = of_peer(Level::WARN, Topic::RelayRefuses, peer, &message)?;
                notice.topic.1 = format!("{refusal:?}");
                Some(notice)
            }
            // Contact flows transport no datagrams of applications.
            Event::PathChanged { flow, .. } if flow.flow() == CONTACT_FLOW => None,
            Event::PathChanged { flow, path } => {
                let (peer, flow_text) = subject(flow, known)?;
                let relays = relays(flow, *path, known).unwrap_or_else(|| format!("path {path}"));
                of_peer(
                    Level::INFO,
                    Topic::Path,
                    peer,
                    &format!("{flow_text} switched to another relay path: {relays}"),
                )
            }
            _ => None,
        }
    }

    /// Logs the message, if the rate limit permits it.
    pub(super) fn log(&self, limit: &mut LogLimit, now: Time) {
        let Self { level, number, peer, topic: (topic, detail), message } = self;
        if !limit.is_due(*topic, Some(*number), detail, now) {
            return;
        }
        if *level == Level::WARN {
            tracing::warn!(peer, "{message}");
        } else {
            tracing::info!(peer, "{message}");
        }
    }
}

/// Returns the peer at the other end of a flow, and a description of the flow for people.
fn subject(flow: &FlowKey, known: &NetworkView) -> Option<(AgentId, String)> {
    let (peer, direction) =
        if flow.sender() == known.number() { (receiver(flow)?, "to") } else { (flow.sender(), "from") };
    let flow_text = match flow.flow() {
        CONTACT_FLOW => format!("the contact flow {direction} the peer"),
        number => format!("flow {} {direction} the peer", number.number()),
    };
    Some((peer, flow_text))
}

/// Returns the receiver of a flow; `None` if it is a multicast group.
pub(super) const fn receiver(flow: &FlowKey) -> Option<AgentId> {
    match flow.receiver() {
        Receiver::Agent(agent) => Some(agent),
        Receiver::Group(_) => None,
    }
}

/// Returns the names of both relays of a flow's path, by its index; `None` if the map has no such
/// path.
fn relays(flow: &FlowKey, path: usize, known: &NetworkView) -> Option<String> {
    let paths = known.paths(flow.sender(), receiver(flow)?);
    let path = paths.get(path)?;
    Some(format!("{} and {}", known.relay_name(path.ingress.0), known.relay_name(path.egress.0)))
}

#[cfg(test)]
mod tests {
    use byway_api::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayShard};
    use byway_proto::agent::flow_between;
    use byway_units::FlowId;

    use super::super::network_view::Families;
    use super::*;

    const OWN: AgentId = AgentId::new(1);
    const BOB: AgentId = AgentId::new(2);

    fn network_view() -> NetworkView {
        let agent = |number, name: &str| AgentEntry {
            number,
            name: name.to_owned(),
            key: String::new(),
            addresses: vec![],
        };
        let relay = |number, name: &str| RelayEntry {
            number,
            name: name.to_owned(),
            key: String::new(),
            shards: 1,
            addresses: vec![],
            prices: None,
        };
        let relay_shard = |relay| RelayShard { relay, shard: 0 };
        let path = |ingress, egress| PairingPath {
            ingress: relay_shard(ingress),
            egress: relay_shard(egress),
            grant: String::new(),
            expires_unix_seconds: None,
            has_coding_peers: false,
        };
        let pairing =
            Pairing { sender: OWN.number(), receiver: BOB.number(), paths: vec![path(1, 2), path(3, 2)] };
        let map = NetworkMap {
            revision: 1,
            agents: vec![agent(2, "bob")],
            relays: vec![relay(1, "east"), relay(2, "west"), relay(3, "spare")],
            pairings: vec![pairing],
        };
        NetworkView::new(OWN, map, Families { ipv4: true, ipv6: true })
    }

    fn message_of(event: Event) -> Option<(Level, String, String)> {
        Notice::of(&event, &network_view()).map(|Notice { level, peer, message, .. }| (level, peer, message))
    }

    #[test]
    fn another_path_of_a_flow_is_said_with_its_relays() {
        let flow = flow_between(OWN, BOB, FlowId::new(6));
        let message = "flow 6 to the peer switched to another relay path: spare and west".to_owned();
        assert_eq!(
            message_of(Event::PathChanged { flow, path: 1 }),
            Some((Level::INFO, "bob".to_owned(), message))
        );
        let flow = flow_between(BOB, OWN, FlowId::new(6));
        let message = "flow 6 from the peer switched to another relay path: path 1".to_owned();
        assert_eq!(
            message_of(Event::PathChanged { flow, path: 1 }),
            Some((Level::INFO, "bob".to_owned(), message))
        );
    }

    #[test]
    fn paths_of_contact_are_no_news_and_its_refusals_are() {
        let flow = flow_between(BOB, OWN, CONTACT_FLOW);
        assert_eq!(message_of(Event::PathChanged { flow, path: 1 }), None);
        let message = "relay refused the contact flow from the peer: NoGrant".to_owned();
        let refused = Event::FlowRefused { flow, refusal: Refusal::NoGrant };
        assert_eq!(message_of(refused), Some((Level::WARN, "bob".to_owned(), message)));
    }

    #[test]
    fn a_peer_that_does_not_answer_is_a_warning_and_one_that_leaves_is_none() {
        let level = |event| message_of(event).map(|(level, ..)| level);
        assert_eq!(level(Event::PeerLost(BOB)), Some(Level::WARN));
        assert_eq!(level(Event::PeerLeft(BOB)), Some(Level::INFO));
        assert_eq!(level(Event::PeerEstablished(BOB)), Some(Level::INFO));
        assert_eq!(level(Event::Left), None);
    }
}
