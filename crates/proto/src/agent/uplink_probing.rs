//! Uplink probing: measures whether the uplink sustains every packet twice, before copies fill it.

use byway_units::{Bytes, Rate, Time};
use byway_wire::Timestamp;

use super::relay_link::RelayLink;
use super::send_flow::{SendFlow, SendFlowId};
use super::{Agent, Role};
use crate::limits::{ENVELOPE_OVERHEAD, IP_AND_UDP_BYTES};
use crate::parts::uplink_backlog::UplinkBacklog;
use crate::parts::uplink_load::UplinkLoad;
use crate::session::SessionId;

/// Probes of the uplink's capacity that are due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UplinkProbing {
    /// Time of the next probe.
    pub(super) due: Option<Time>,
    /// Relay, by its index, that accepted flows with the current messages. The agent probes the
    /// uplink to it after them, because that scans all flows.
    pub(super) bound_at: Option<usize>,
    /// Relay, by its index, to which the current packet was not copied, because the uplink may not
    /// sustain it.
    pub(super) over_capacity: Option<usize>,
}

/// Estimates of the uplink to relays, from what the agent sends.
#[derive(Debug, Default)]
pub(super) struct UplinkEstimates {
    /// Measured load, with and without all copies.
    pub(super) load: UplinkLoad,
    /// Load of source packets that leave by another uplink than packets to relays.
    pub(super) load_beside: UplinkLoad,
    /// Packets that wait for a narrow uplink in an outage.
    pub(super) backlog: UplinkBacklog,
}

impl SendFlow {
    /// Returns true if all packets of the flow are copied besides the direct path, or covered by
    /// sender FEC. The uplink has to be fast enough for those; occasional copies are no load.
    pub(super) const fn copies_all(&self) -> bool {
        let settings = &self.settings;
        let is_selective = settings.duplication.is_selective(settings.traffic);
        crate::policy::copies(settings.service) && !self.needs_relay() && !is_selective
    }
}

impl Agent {
    /// Counts a source packet, and adds it and its copy or repair packets to the measured load of
    /// the uplink to relays, as far as they leave by it. In an outage, a flow with retransmission
    /// leaves nearly all source packets to relays. `source_packet` is its UDP payload in bytes,
    /// `coded` the length of its coded bytes.
    pub(super) fn note_load(
        &mut self,
        id: SendFlowId,
        source_packet: usize,
        coded: usize,
        copied: bool,
        now: Time,
    ) {
        self.senders[id.0 as usize].usage.source.add(source_packet);
        let flow = &self.senders[id.0 as usize];
        let (direct, copy) = (uplink_bytes(source_packet), uplink_bytes(coded + ENVELOPE_OVERHEAD));
        let source_packet = if self.shares_uplink_with_relays(flow.peer) { direct } else { Bytes::ZERO };
        let (source_packet, extras) = if flow.needs_relay() || (copied && flow.is_left_to_relays()) {
            (copy, Bytes::ZERO)
        } else if copied {
            (source_packet, copy)
        } else if let Some(shape) = flow.sender_fec_shape() {
            let repairs = direct * u64::from(shape.repair_packets());
            (source_packet, Bytes::new(repairs.count() / u64::from(shape.source_packets())))
        } else {
            (source_packet, Bytes::ZERO)
        };
        self.uplink.load.note(source_packet, extras, now);
        if source_packet.is_zero() {
            self.uplink.load_beside.note(direct, Bytes::ZERO, now);
        }
    }

    /// Adds a packet to the backlog of the uplink to relays, if earlier ones wait for it. `direct`
    /// and `copy` are the UDP payloads, in bytes, of the source packet and the copy that were sent.
    pub(super) fn note_backlog(
        &mut self,
        peer: SessionId,
        direct: Option<usize>,
        copy: Option<usize>,
        now: Time,
    ) {
        if !self.uplink.backlog.is_busy(now) {
            return;
        }
        let shared = direct.filter(|_| self.shares_uplink_with_relays(peer));
        for payload in [shared, copy].into_iter().flatten() {
            self.uplink.backlog.add(uplink_bytes(payload), now);
        }
    }

    /// True if packets to a peer leave by the same uplink as those to relays, whose capacity is
    /// measured.
    fn shares_uplink_with_relays(&self, peer: SessionId) -> bool {
        let relay = self.relays.first().map(|relay| relay.session);
        relay.is_none_or(|relay| self.sessions.share_uplink(peer, relay))
    }

    /// Returns true if the uplink sustains the measured load with all copies, as far as is known.
    ///
    /// On a narrower uplink, a probe would delay the packet behind it, and so follows a source
    /// packet. On an uplink that fits, such a probe would miss queueing, because the first packet
    /// after a pause does not wait.
    pub(super) fn fits_uplink(&self) -> bool {
        let load = self.uplink.load.measured().with_extras;
        // Relays are reached by one uplink, except for a moment after one of two fails. A relay
        // without a measurement does not contradict the others.
        let is_measured = self.relays.iter().any(|relay| relay.capacity_probe.capacity().is_some());
        self.relays.iter().any(|relay| !is_measured || relay.capacity_probe.sustains(load))
    }

    /// Returns the load that flows put on the uplink to a relay, by its index, if they copy all
    /// packets: twice their registered rates.
    fn expected_load(&mut self, index: usize) -> Rate {
        self.work.entries += self.senders.slots() as u64;
        let relay = self.relays[index].id;
        let begins_there = |flow: &SendFlow| {
            let path = flow.settings.paths.get(flow.registrations.in_use());
            flow.copies_all() && path.is_some_and(|path| path.ingress == relay)
        };
        let flows = self.senders.iter().filter(|(_, flow)| begins_there(flow));
        let bits: u64 = flows.map(|(_, flow)| flow.settings.rate.bits_per_second()).sum();
        Rate::from_bits_per_second(bits.saturating_mul(2))
    }

    /// Sends a probe train to a relay, by its index, unless the uplink is known to sustain the
    /// measured load. If the uplink is idle, the expected load counts, because a probe then
    /// disturbs nothing.
    #[cold]
    pub(super) fn probe_uplink(&mut self, index: usize, now: Time) {
        let load = if self.uplink.load.is_idle(now) {
            self.expected_load(index)
        } else {
            self.uplink.load.measured().with_extras
        };
        self.probe_uplink_for(index, load, now);
    }

    /// Measures the uplink of a flow with retransmission before an outage. Then it has to carry
    /// lost packets again beside new ones, and has no capacity for a probe train.
    pub(super) fn probe_uplink_for_outages(&mut self, id: SendFlowId, now: Time) {
        let flow = &self.senders[id.0 as usize];
        let is_needless = !flow.copies_on_loss_only() || flow.is_in_outage(now);
        if is_needless || (self.uplink.load.is_idle(now) && self.uplink.load_beside.is_idle(now)) {
            return;
        }
        if let Some((index, _)) = self.live_ingress_of(id) {
            self.probe_uplink_for(index, self.load_in_outages(), now);
        }
    }

    /// True if the uplink cannot sustain a flow's packets with all copies. Flows with
    /// retransmission send them on loss only, and leave source packets to relays for other reasons.
    #[cold]
    pub(super) fn is_too_narrow_for_copies(&self, id: SendFlowId) -> bool {
        !self.senders[id.0 as usize].copies_on_loss_only() && !self.fits_uplink()
    }

    /// Returns true if the uplink sustains every packet twice, as far as is known.
    pub(super) fn sustains_all_twice(&self, relay: usize) -> bool {
        let probe = &self.relays[relay].capacity_probe;
        probe.capacity().is_none() || probe.sustains(self.load_in_outages())
    }

    /// Returns the capacity of the uplink to a relay, by its index, if it is too narrow for every
    /// packet twice.
    pub(super) fn narrow_capacity(&self, relay: usize) -> Option<Rate> {
        let capacity = self.relays[relay].capacity_probe.capacity();
        capacity.filter(|_| !self.sustains_all_twice(relay))
    }

    /// Returns the load of the uplink if all lost packets are sent again.
    const fn load_in_outages(&self) -> Rate {
        let shared = self.uplink.load.measured().source_packets.bits_per_second();
        let beside = self.uplink.load_beside.measured().source_packets.bits_per_second();
        Rate::from_bits_per_second(shared.saturating_add(beside).saturating_mul(2))
    }

    /// Sends a probe train to a relay, by its index, unless the uplink is known to sustain this
    /// load.
    fn probe_uplink_for(&mut self, index: usize, load: Rate, now: Time) {
        // This input may be later than a probe train's timeout, which has to be handled first.
        self.relays[index].capacity_probe.handle_timeout(now);
        let relay = &self.relays[index];
        let session = relay.session;
        let is_usable = relay.is_free() && self.sessions.is_established(session, now);
        if load.is_zero() || !is_usable {
            return;
        }
        if relay.capacity_probe.capacity().is_none() {
            let is_shared = |relay: &&RelayLink| self.sessions.share_uplink(relay.session, session);
            let known = self.relays.iter().filter(is_shared);
            let known = known.filter_map(|relay| relay.capacity_probe.capacity()).max();
            self.relays[index].capacity_probe.assume_capacity(known);
        }
        let relay = &mut self.relays[index];
        if let Some(shape) = relay.capacity_probe.next_train(load, now) {
            relay.capacity_probe.on_train_sent(shape, self.sessions.round_trip(session), now);
            self.sessions.send_train(session, shape, now);
        }
        self.schedule_probing(now);
    }

    /// Schedules the next uplink probing for the earliest deadline of a relay's capacity probe.
    fn schedule_probing(&mut self, now: Time) {
        let deadlines = self.relays.iter().filter_map(|relay| relay.capacity_probe.deadline());
        self.uplink_probing.due = deadlines.filter(|at| *at > now).min();
    }

    /// Handles timeouts of probe trains and sends further ones, if the next uplink probing is due.
    pub(super) fn probe_uplinks_if_due(&mut self, now: Time) {
        if self.uplink_probing.due.is_none_or(|due| due > now) {
            return;
        }
        self.uplink_probing.due = None;
        for index in 0..self.relays.len() {
            self.relays[index].capacity_probe.handle_timeout(now);
            self.probe_uplink(index, now);
        }
        self.schedule_probing(now);
    }

    /// Handles the relay's record of one packet of a probe train: `index` in the train, and the
    /// time of its arrival there. The next probing follows the last such record of an input,
    /// because it may scan all flows.
    pub(super) fn on_train_packet(
        &mut self,
        session: SessionId,
        (index, received): (usize, Timestamp),
        is_last: bool,
        now: Time,
    ) {
        if let Some(relay) = self.relay_of(session) {
            relay.capacity_probe.on_train_packet(index, received.micros(), now);
            if is_last {
                self.probe_uplink_of(session, now);
            }
        }
    }

    /// Probes the uplink to the relay of a session; does nothing if the session is with a peer.
    pub(super) fn probe_uplink_of(&mut self, session: SessionId, now: Time) {
        if let Some(Role::Relay(index)) = self.roles.get(&session).copied() {
            self.probe_uplink(index, now);
        }
    }

    /// Probes the uplink again after losses of a flow whose copies the uplink could not sustain,
    /// because its capacity may have changed.
    pub(super) fn recheck_narrow_uplink(&mut self, id: SendFlowId, now: Time) {
        let flow = &self.senders[id.0 as usize];
        let path = flow.settings.paths.get(flow.registrations.in_use()).filter(|_| flow.copies_all());
        let Some(index) = path.and_then(|path| self.relay_indices.get(&path.ingress).copied()) else {
            return;
        };
        let load = if flow.copies_on_loss_only() {
            self.load_in_outages()
        } else {
            self.uplink.load.measured().with_extras
        };
        if !self.relays[index].capacity_probe.sustains(load) {
            self.relays[index].capacity_probe.doubt(load, now);
            self.probe_uplink(index, now);
        }
    }
}

/// Returns the bytes of a packet on the uplink from the length of its UDP payload.
pub(super) const fn uplink_bytes(payload: usize) -> Bytes {
    Bytes::new((payload + IP_AND_UDP_BYTES) as u64)
}
