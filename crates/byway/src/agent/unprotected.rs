//! What people are told of what should be protected and is not, with the remedy.

use std::net::IpAddr;

use byway_net::Io;
use byway_proto::agent::{Duplication, OfferRefusal, PathState, Traffic};
use byway_units::Time;
use byway_wire::Service;

use super::log_limit::Topic;
use super::mappings::{Mapping, MappingId, Side};
use super::role::AgentRole;
use super::tunnel::Tunnelled;
use super::watchdog::{Direction, packets_sent};
use crate::settings::Wanted;

impl AgentRole {
    /// Looks whether all that should be protected is, and says what is not: at once in the log, and in status and metrics as long as it
    /// goes on.
    pub(super) fn look_whether_protected(&mut self, io: &Io) {
        let now = io.now();
        if !self.watchdog.is_due(now) {
            return;
        }
        self.look_at_device(now);
        let ids: Vec<MappingId> = self.mappings.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.look_at_losses(id, now);
        }
    }

    fn look_at_device(&mut self, now: Time) {
        let Some((device, _)) = &self.watchdog.device else {
            return;
        };
        let device = device.clone();
        let Some(counters) = device_counters() else {
            return;
        };
        let sent = packets_sent(&counters, &device);
        self.note_absence(&device, sent.is_none());
        let Some(sent) = sent else {
            return;
        };
        let seen = self.tunnel.as_ref().map_or(0, Tunnelled::seen);
        let unseen = self.watchdog.device_sent(sent, seen, now);
        let note = unseen.map(|packets| self.why_unseen(&device, packets, now));
        match (&self.watchdog.blind, &note) {
            (None, Some(note)) => tracing::warn!(device, "{note}"),
            (Some(_), None) => tracing::info!(device, "packets of the tunnel go by Byway again"),
            _ => {}
        }
        self.watchdog.blind = note;
    }

    /// Notes that a device is not there, or is again. The next one of its name counts from the beginning.
    fn note_absence(&mut self, device: &str, is_absent: bool) {
        if self.watchdog.absent.is_some() == is_absent {
            return;
        }
        if is_absent {
            let note = format!(
                "the device {device} is gone, and nothing of it is captured until it is there again (wg-quick up {device})"
            );
            tracing::warn!("{note}");
            self.watchdog.lose_device(note);
        } else {
            tracing::info!("the device {device} is there again");
            self.watchdog.absent = None;
        }
    }

    /// Why nothing of a device is captured.
    fn why_unseen(&self, device: &str, packets: u64, now: Time) -> String {
        let begin = format!("{device} has sent {packets} packets, and none of them went by Byway");
        let Some(tunnel) = &self.tunnel else {
            return begin;
        };
        if tunnel.captures_any() {
            return format!(
                "{begin}, although they are captured: their program pins them to a device. Install iptables, by which Byway routes them anew, and \
                 have the program bind its socket to no device; or send through a [[forward]]"
            );
        }
        let is_alive = |mapping: &Mapping| {
            self.agent.peer_status(mapping.peer, now).is_some_and(|status| status.is_alive)
        };
        let mut mappings = self.mappings.iter().map(|(_, mapping)| mapping);
        let refused =
            mappings.find(|mapping| mapping.refusal == Some(OfferRefusal::NotHere) && is_alive(mapping));
        if let Some(mapping) = refused {
            let peer = self.known.name_of(mapping.peer);
            return format!("{begin}: {}", not_here(&peer, self.destination_of(mapping)));
        }
        if tunnel.has_captures() {
            format!(
                "{begin}: the agent at the other end is not there, or lets them in by no [[expose]] of this name: see its status and log"
            )
        } else {
            format!(
                "{begin}: nothing is captured here, as no endpoint of a peer is known, and no peer has sent by Byway: run byway protect at the other end, \
                 and here again once the endpoint is known; or use a [[forward]]"
            )
        }
    }

    fn destination_of(&self, mapping: &Mapping) -> Option<IpAddr> {
        match mapping.side {
            Side::Capture { place, .. } => self.only_destination(place),
            _ => None,
        }
    }

    fn look_at_losses(&mut self, id: MappingId, now: Time) {
        let Some(mapping) = self.mappings.get(id) else {
            return;
        };
        let judged = self.judged(mapping);
        let received = self.agent.statistics(mapping.received);
        let received = received.map(|of| {
            let lost = of.lost.saturating_sub(of.congestion_losses);
            (lost, of.in_stream + of.cooperative + of.cached)
        });
        let sent = self.agent.reported(mapping.sent);
        let sent = sent.map(|of| (of.lost, of.in_stream + of.cooperative + of.cached));
        let mut note = None;
        for (direction, counts) in [(Direction::Sent, sent), (Direction::Received, received)] {
            let Some(counts) = counts.filter(|_| judged.contains(&direction)) else { continue };
            if let Some(lost) = self.watchdog.losses((id, direction), counts, now) {
                note = note.or_else(|| self.why_unrepaired(id, direction, lost));
            }
        }
        self.tell_of_losses(id, note, now);
    }

    fn tell_of_losses(&mut self, id: MappingId, note: Option<String>, now: Time) {
        if self.watchdog.unrepaired.contains_key(&id) != note.is_some() {
            self.log_losses(id, note.as_deref(), now);
        }
        match note {
            Some(note) => self.watchdog.unrepaired.insert(id, note),
            None => self.watchdog.unrepaired.remove(&id),
        };
    }

    /// Logs that losses of a mapping are not repaired, or that they are again. Flows of one peer share their fate.
    fn log_losses(&mut self, id: MappingId, note: Option<&str>, now: Time) {
        let subject =
            self.mappings.get(id).map(|mapping| (mapping.peer, self.subject_of(mapping).to_owned()));
        let Some((number, to)) = subject else { return };
        let topic = if note.is_some() { Topic::Unrepaired } else { Topic::Repaired };
        if !self.log_limit.is_due(topic, Some(number), &to, now) {
            return;
        }
        let peer = self.known.name_of(number);
        if let Some(note) = note {
            tracing::warn!(peer, to, "{note}");
        } else {
            tracing::info!(peer, to, "losses are repaired again, or have ended");
        }
    }

    /// The directions of which losses are to be repaired, as far as this end can tell.
    fn judged(&self, mapping: &Mapping) -> &'static [Direction] {
        const BOTH: &[Direction] = &[Direction::Sent, Direction::Received];
        let flow = self.agent.flow_status(mapping.sent).filter(|flow| flow.service != Service::Internet);
        let Some(flow) = flow else {
            return &[];
        };
        let is_asked_for = self.wanted(mapping.side).is_some_and(|(wanted, _)| wanted.traffic.is_some());
        match flow.traffic {
            // Bulk data that a capture has found itself is left alone.
            Traffic::CongestionControlled if !is_asked_for => &[],
            // Which losses were left to congestion, their receiver knows alone.
            Traffic::Mixture if flow.paths.contains(&PathState::Accepted) => &[Direction::Received],
            Traffic::Datagrams | Traffic::CongestionControlled | Traffic::Mixture => BOTH,
        }
    }

    /// Why no loss of a mapping is repaired.
    fn why_unrepaired(&self, id: MappingId, direction: Direction, lost: u64) -> Option<String> {
        let mapping = self.mappings.get(id)?;
        let peer = self.known.name_of(mapping.peer);
        let what = match direction {
            Direction::Sent => format!("of what is sent to {peer}"),
            Direction::Received => format!("of what comes from {peer}"),
        };
        let begin = format!("the last {lost} losses {what} were not repaired");
        let flow = self.agent.flow_status(mapping.sent)?;
        if !flow.paths.contains(&PathState::Accepted) {
            return Some(format!("{begin}: no relay takes the flow; see its paths and the relays above"));
        }
        let Some((wanted, traffic)) = self.wanted(mapping.side) else {
            return Some(format!("{begin}: the settings are those of {peer}; see the status there"));
        };
        Some(format!("{begin}: {}", remedy(wanted, traffic)))
    }
}

/// What keeps repairs away by a flow's own settings.
fn remedy(wanted: &Wanted, traffic: Traffic) -> &'static str {
    if wanted.terms.standby {
        return "copies wait for losses, and the first ones go unrepaired: standby = false";
    }
    match (wanted.terms.duplication, traffic) {
        (Duplication::Usual, Traffic::CongestionControlled) => {
            "bulk data of congestion-controlled traffic is not copied: traffic = \"mixture\", if it is a tunnel, or copies = \"all\""
        }
        (_, Traffic::CongestionControlled) => {
            "congestion-controlled packets wait a quarter of the round trip for a repair, and none comes so soon: traffic = \"mixture\" takes later \
             ones, or name relays that are nearer"
        }
        (Duplication::Marked | Duplication::Chosen(_), _) => {
            "only what marks name is copied: copies = \"usual\" copies everything"
        }
        (Duplication::OwnRepairs, _) => {
            "more is lost than repair packets make up for: in_stream = \"5+1\", or copies = \"usual\""
        }
        _ => {
            "no copy comes within latency_budget: make it longer than the round trips to the relays, and see whether copies are held back (copies held: \
             the uplink is too narrow, for which copies = \"own-repairs\" with service = \"coding\" is)"
        }
    }
}

/// What an agent is told whose peer's machine does not have the address that it captures packets for.
pub(super) fn not_here(peer: &str, address: Option<IpAddr>) -> String {
    let address = address.map_or_else(|| "the endpoint's address".to_owned(), |address| address.to_string());
    format!(
        "the machine of {peer} does not have {address} itself, as behind a NAT: what {peer} sends by Byway is answered by Byway, and what begins here \
         before goes without. If nothing begins there, give that machine its public address too (ip address add {address} dev lo), or use a [[forward]]"
    )
}

/// The system's counters of all devices.
fn device_counters() -> Option<String> {
    #![allow(clippy::disallowed_methods, reason = "the system's counters are a file, and no disk")]
    std::fs::read_to_string("/proc/thread-self/net/dev").ok()
}

#[cfg(test)]
mod tests {
    use byway_proto::agent::Terms;

    use super::*;

    #[test]
    fn each_remedy_names_what_to_set() {
        for (duplication, traffic, expected) in [
            (Duplication::Usual, Traffic::CongestionControlled, "traffic = \"mixture\", if it is a tunnel"),
            (Duplication::All, Traffic::CongestionControlled, "takes later ones"),
            (Duplication::Marked, Traffic::Datagrams, "copies = \"usual\""),
            (Duplication::OwnRepairs, Traffic::Mixture, "in_stream"),
            (Duplication::Usual, Traffic::Mixture, "latency_budget"),
        ] {
            let terms = Terms { duplication, ..Terms::default() };
            let wanted =
                Wanted { peer: "bob".into(), to: "call".into(), terms, traffic: None, marks: vec![] };
            assert!(remedy(&wanted, traffic).contains(expected), "{duplication:?} {traffic:?}");
        }
        assert!(not_here("bob", "203.0.113.9".parse().ok()).contains("ip address add 203.0.113.9 dev lo"));
    }
}
