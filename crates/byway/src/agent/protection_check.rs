//! Warnings about traffic that should be protected and is not, with the remedy.

use std::net::IpAddr;

use byway_net::Io;
use byway_proto::agent::{Duplication, OfferRefusal, PathState, Traffic};
use byway_units::Time;
use byway_wire::Service;

use super::driver::AgentDriver;
use super::log_limit::Topic;
use super::mappings::{Mapping, MappingId, Side};
use super::tunnel::TunForwarder;
use super::watchdog::{Direction, packets_sent};
use crate::settings::FlowSpec;

impl AgentDriver {
    /// Checks for traffic that should be protected and is not, if a check is due. Logs each new
    /// finding. Status and metrics show a finding as long as it persists.
    pub(super) fn check_protection(&mut self, io: &Io) {
        let now = io.now();
        if !self.watchdog.is_due(now) {
            return;
        }
        self.check_device(now);
        let ids: Vec<MappingId> = self.mappings.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.check_losses(id, now);
        }
    }

    fn check_device(&mut self, now: Time) {
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
        let captured = self.tunnel.as_ref().map_or(0, TunForwarder::captured_packets);
        let uncaptured = self.watchdog.check_device(sent, captured, now);
        let note = uncaptured.map(|packets| self.uncaptured_reason(&device, packets, now));
        match (&self.watchdog.uncaptured, &note) {
            (None, Some(note)) => tracing::warn!(device, "{note}"),
            (Some(_), None) => tracing::info!(device, "packets of the tunnel are captured again"),
            _ => {}
        }
        self.watchdog.uncaptured = note;
    }

    /// Records whether the watched device is absent, and logs a change. A new device of that name
    /// has counters that begin at zero.
    fn note_absence(&mut self, device: &str, is_absent: bool) {
        if self.watchdog.absent.is_some() == is_absent {
            return;
        }
        if is_absent {
            let note = format!(
                "device {device} not found: nothing of it is captured until it exists again (wg-quick \
                 up {device})"
            );
            tracing::warn!("{note}");
            self.watchdog.on_device_removed(note);
        } else {
            tracing::info!("device {device} exists again");
            self.watchdog.absent = None;
        }
    }

    /// Returns the note for people that says why no packet of a device is captured. `packets` is
    /// the number that the device has sent.
    fn uncaptured_reason(&self, device: &str, packets: u64, now: Time) -> String {
        let begin = format!("{device} has sent {packets} packets, and Byway forwarded none of them");
        let Some(tunnel) = &self.tunnel else {
            return begin;
        };
        if tunnel.captures_any() {
            return format!(
                "{begin}, although they are captured: their program binds its socket to a device. \
                 Install iptables, with which Byway reroutes them, and bind the program's socket to no \
                 device; or send through a [[forward]]"
            );
        }
        let is_alive = |mapping: &Mapping| {
            self.agent.peer_status(mapping.peer, now).is_some_and(|status| status.is_alive)
        };
        let mut mappings = self.mappings.iter().map(|(_, mapping)| mapping);
        let refused =
            mappings.find(|mapping| mapping.refusal == Some(OfferRefusal::NotHere) && is_alive(mapping));
        if let Some(mapping) = refused {
            let peer = self.network_view.name_of(mapping.peer);
            return format!("{begin}: {}", address_mismatch_note(&peer, self.destination_of(mapping)));
        }
        if tunnel.has_captures() {
            format!(
                "{begin}: the agent at the other end is unreachable, or has no [[expose]] of this \
                 name that admits them; see its status and log"
            )
        } else {
            format!(
                "{begin}: nothing is captured, because no endpoint of a peer is known and no peer has \
                 sent through Byway. Run byway protect at the other end, and here again once the \
                 endpoint is known; or use a [[forward]]"
            )
        }
    }

    fn destination_of(&self, mapping: &Mapping) -> Option<IpAddr> {
        match mapping.side {
            Side::Capture { index, .. } => self.only_destination(index),
            _ => None,
        }
    }

    fn check_losses(&mut self, id: MappingId, now: Time) {
        let Some(mapping) = self.mappings.get(id) else {
            return;
        };
        let checked = self.checked_directions(mapping);
        let received = self.agent.statistics(mapping.received);
        let received = received.map(|of| {
            let lost = of.lost.saturating_sub(of.congestion_losses);
            (lost, of.repaired())
        });
        let sent = self.agent.reported_totals(mapping.sent);
        let sent = sent.map(|of| (of.lost, of.repaired()));
        let mut note = None;
        for (direction, counts) in [(Direction::Sent, sent), (Direction::Received, received)] {
            let Some(counts) = counts.filter(|_| checked.contains(&direction)) else { continue };
            if let Some(lost) = self.watchdog.check_losses((id, direction), counts, now) {
                note = note.or_else(|| self.unrepaired_reason(id, direction, lost));
            }
        }
        self.report_losses(id, note, now);
    }

    fn report_losses(&mut self, id: MappingId, note: Option<String>, now: Time) {
        if self.watchdog.unrepaired.contains_key(&id) != note.is_some() {
            self.log_losses(id, note.as_deref(), now);
        }
        match note {
            Some(note) => self.watchdog.unrepaired.insert(id, note),
            None => self.watchdog.unrepaired.remove(&id),
        };
    }

    /// Logs that a mapping's losses stay unrepaired (`note`), or are repaired again (`None`). Flows
    /// to one resource of a peer share a log limit.
    fn log_losses(&mut self, id: MappingId, note: Option<&str>, now: Time) {
        let subject =
            self.mappings.get(id).map(|mapping| (mapping.peer, self.subject_of(mapping).to_owned()));
        let Some((number, to)) = subject else { return };
        let topic = if note.is_some() { Topic::Unrepaired } else { Topic::Repaired };
        if !self.log_limit.is_due(topic, Some(number), &to, now) {
            return;
        }
        let peer = self.network_view.name_of(number);
        if let Some(note) = note {
            tracing::warn!(peer, to, "{note}");
        } else {
            tracing::info!(peer, to, "losses are repaired again, or have stopped");
        }
    }

    /// Returns the directions of a mapping in which losses should be repaired, as far as this agent
    /// knows.
    fn checked_directions(&self, mapping: &Mapping) -> &'static [Direction] {
        const BOTH: &[Direction] = &[Direction::Sent, Direction::Received];
        let flow = self.agent.flow_status(mapping.sent).filter(|flow| flow.service != Service::Internet);
        let Some(flow) = flow else {
            return &[];
        };
        let is_configured = self.flow_spec(mapping.side).is_some_and(|(wanted, _)| wanted.traffic.is_some());
        match flow.traffic {
            // A capture that classified the traffic itself does not repair its bulk data.
            Traffic::CongestionControlled if !is_configured => &[],
            // The receiver alone knows which losses it left to congestion control.
            Traffic::Mixture if flow.paths.contains(&PathState::Accepted) => &[Direction::Received],
            Traffic::Datagrams | Traffic::CongestionControlled | Traffic::Mixture => BOTH,
        }
    }

    /// Returns the note for people that says why none of a mapping's losses is repaired. `lost` is
    /// their number.
    fn unrepaired_reason(&self, id: MappingId, direction: Direction, lost: u64) -> Option<String> {
        let mapping = self.mappings.get(id)?;
        let peer = self.network_view.name_of(mapping.peer);
        let packets = match direction {
            Direction::Sent => format!("of packets to {peer}"),
            Direction::Received => format!("of packets from {peer}"),
        };
        let begin = format!("none of the last {lost} losses {packets} was repaired");
        let flow = self.agent.flow_status(mapping.sent)?;
        if !flow.paths.contains(&PathState::Accepted) {
            return Some(format!("{begin}: no relay accepts the flow; see its paths and the relays above"));
        }
        let Some((wanted, traffic)) = self.flow_spec(mapping.side) else {
            return Some(format!("{begin}: {peer} decides the settings of this flow; see its status"));
        };
        Some(format!("{begin}: {}", remedy(wanted, traffic)))
    }
}

/// Returns the remedy for a flow whose settings prevent repairs: the setting to change.
fn remedy(wanted: &FlowSpec, traffic: Traffic) -> &'static str {
    match (wanted.terms.duplication, traffic) {
        (Duplication::Usual, Traffic::CongestionControlled) => {
            "bulk data of congestion-controlled traffic is not copied: set traffic = \"mixture\" for \
             a tunnel, or copies = \"all\""
        }
        (_, Traffic::CongestionControlled) => {
            "repairs of congestion-controlled packets arrive later than a quarter of the round trip: \
             name nearer relays"
        }
        (Duplication::Marked | Duplication::Chosen(_), _) => {
            "only packets that `marks` selects are copied: copies = \"usual\" copies all"
        }
        (Duplication::SenderFec, _) => {
            "more packets are lost than repair packets can restore: set in_stream = \"5+1\", or \
             copies = \"usual\""
        }
        _ => {
            "no copy arrives within latency_budget: set it above the round trip to the relays. If \
             status shows `copies suppressed`, the uplink is too slow for copies: set copies = \
             \"sender-fec\" with service = \"coding\""
        }
    }
}

/// Returns the note about a capture whose destination address is not on the peer's machine.
/// `address` is that destination, if there is a single one.
pub(super) fn address_mismatch_note(peer: &str, address: Option<IpAddr>) -> String {
    let address = address.map_or_else(|| "the endpoint's address".to_owned(), |address| address.to_string());
    format!(
        "the machine of {peer} does not have {address}, as behind a NAT: replies to \
         packets of {peer} are captured, but packets sent from here before that are not. Unless it \
         always sends first, add the public address there (ip address add {address} dev lo), or use a \
         [[forward]]"
    )
}

/// Returns the system's counters of all devices.
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
            (Duplication::Usual, Traffic::CongestionControlled, "traffic = \"mixture\" for a tunnel"),
            (Duplication::All, Traffic::CongestionControlled, "name nearer relays"),
            (Duplication::Marked, Traffic::Datagrams, "copies = \"usual\""),
            (Duplication::SenderFec, Traffic::Mixture, "in_stream"),
            (Duplication::Usual, Traffic::Mixture, "latency_budget"),
        ] {
            let terms = Terms { duplication, ..Terms::default() };
            let wanted =
                FlowSpec { peer: "bob".into(), to: "call".into(), terms, traffic: None, marks: vec![] };
            assert!(remedy(&wanted, traffic).contains(expected), "{duplication:?} {traffic:?}");
        }
        assert!(
            address_mismatch_note("bob", "203.0.113.9".parse().ok())
                .contains("ip address add 203.0.113.9 dev lo")
        );
    }
}
