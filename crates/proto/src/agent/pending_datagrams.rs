//! Datagrams of applications that wait for a session with the peer, or for a path to it. If a peer
//! is first reached through a relay, the session may exist before its direct address is known.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::TrafficClass;

use super::Agent;
use super::closing::AgentState;
use super::send_flow::SendFlowId;
use crate::limits::{PENDING_BYTES_MAX, PENDING_DATAGRAM_LIFETIME};

/// Datagram of an application that waits for a path, with its sending options.
#[derive(Debug)]
struct PendingDatagram {
    flow: SendFlowId,
    sent_at: Time,
    traffic_class: TrafficClass,
    marked: bool,
    bytes: Vec<u8>,
}

/// Datagram that an application sends now, with its sending options.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingDatagram<'a> {
    pub(super) datagram: &'a [u8],
    pub(super) traffic_class: TrafficClass,
    pub(super) marked: bool,
    /// Time at which the application sent it to the agent or the driver.
    pub(super) sent_at: Time,
}

impl PendingDatagram {
    /// Returns the datagram's memory in bytes, with its metadata.
    fn cost(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

/// Datagrams of all flows that wait for a path, the oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingDatagrams {
    datagrams: VecDeque<PendingDatagram>,
    /// Number of pending datagrams of each flow that has any.
    by_flow: BTreeMap<SendFlowId, u32>,
    bytes: usize,
}

impl PendingDatagrams {
    /// Returns the number of pending datagrams of all flows.
    pub(super) fn count(&self) -> usize {
        self.datagrams.len()
    }

    /// Queues a datagram; returns the number of older ones that it replaces because the buffer is
    /// full.
    fn push(&mut self, datagram: PendingDatagram) -> u64 {
        self.bytes += datagram.cost();
        *self.by_flow.entry(datagram.flow).or_default() += 1;
        self.datagrams.push_back(datagram);
        let before = self.count();
        while self.bytes > PENDING_BYTES_MAX && self.pop().is_some() {}
        (before - self.count()) as u64
    }

    fn pop(&mut self) -> Option<PendingDatagram> {
        let oldest = self.datagrams.pop_front()?;
        self.bytes -= oldest.cost();
        if let Some(count) = self.by_flow.get_mut(&oldest.flow) {
            *count -= 1;
            if *count == 0 {
                self.by_flow.remove(&oldest.flow);
            }
        }
        Some(oldest)
    }

    /// Returns the time at which the oldest pending datagram expires.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.datagrams.front().map(|oldest| oldest.sent_at + PENDING_DATAGRAM_LIFETIME)
    }

    /// Drops datagrams older than [`PENDING_DATAGRAM_LIFETIME`]; returns their number.
    fn expire(&mut self, now: Time) -> u64 {
        let before = self.count();
        let is_expired =
            |oldest: &PendingDatagram| now.saturating_since(oldest.sent_at) >= PENDING_DATAGRAM_LIFETIME;
        while self.datagrams.front().is_some_and(is_expired) {
            self.pop();
        }
        (before - self.count()) as u64
    }

    /// Removes and returns the pending datagrams of the selected flows, the oldest first.
    fn remove_of_flows(&mut self, is_selected: impl Fn(SendFlowId) -> bool) -> VecDeque<PendingDatagram> {
        let (removed, remaining) =
            core::mem::take(&mut self.datagrams).into_iter().partition(|datagram| is_selected(datagram.flow));
        self.datagrams = remaining;
        self.bytes = self.datagrams.iter().map(PendingDatagram::cost).sum();
        self.by_flow.retain(|flow, _| !is_selected(*flow));
        removed
    }
}

impl Agent {
    /// True if a flow's datagrams can be sent now: its receiver is reachable, and no early
    /// datagrams have to be sent first.
    fn has_path(&self, id: SendFlowId, now: Time) -> bool {
        self.is_reachable(id, now) && !self.has_early(id)
    }

    /// True if the session with a flow's receiver has keys, and there is an address of the receiver
    /// or a relay that delivers the flow.
    pub(super) fn is_reachable(&self, id: SendFlowId, now: Time) -> bool {
        self.senders.get(id.0).is_some_and(|flow| {
            if !self.sessions.is_established(flow.peer, now) {
                return false;
            }
            if flow.needs_relay() {
                return flow.registrations.alias().is_some();
            }
            self.sessions.get(flow.peer).is_some_and(|session| session.path.address().is_some())
        })
    }

    /// Queues a datagram if there is no session with its receiver, or no path to it yet. Returns
    /// true if it was queued.
    pub(super) fn queue_if_unreachable(
        &mut self,
        flow: SendFlowId,
        outgoing: &OutgoingDatagram<'_>,
        now: Time,
    ) -> bool {
        if self.has_path(flow, now) {
            return false;
        }
        // While datagrams are pending, the agent needs to know whether the peer is alive.
        self.sessions.use_session(self.senders[flow.0 as usize].peer, now);
        let OutgoingDatagram { datagram, traffic_class, marked, sent_at } = *outgoing;
        let dropped = self.pending_datagrams.push(PendingDatagram {
            flow,
            sent_at,
            traffic_class,
            marked,
            bytes: datagram.to_vec(),
        });
        self.counters.datagrams_unsendable += dropped;
        true
    }

    /// Sends a datagram that the driver has buffered since the application sent it at `sent_at`,
    /// for example until the peer's consent. A datagram that waited longer than its flow's latency
    /// budget counts as late.
    pub fn send_buffered(
        &mut self,
        flow: SendFlowId,
        datagram: &[u8],
        traffic_class: TrafficClass,
        marked: bool,
        sent_at: Time,
        now: Time,
    ) {
        if self.state == AgentState::Open {
            self.send(flow, &OutgoingDatagram { datagram, traffic_class, marked, sent_at }, now);
            self.finish(now);
        }
    }

    /// Drops expired pending datagrams, and sends those of all flows that have a path now.
    #[cold]
    pub(super) fn send_pending_datagrams(&mut self, now: Time) {
        self.counters.datagrams_unsendable += self.pending_datagrams.expire(now);
        let pending = self.pending_datagrams.by_flow.keys().copied();
        let ready: BTreeSet<SendFlowId> = pending.filter(|flow| self.has_path(*flow, now)).collect();
        if ready.is_empty() {
            return;
        }
        for PendingDatagram { flow, sent_at, traffic_class, marked, bytes } in
            self.pending_datagrams.remove_of_flows(|flow| ready.contains(&flow))
        {
            self.send(flow, &OutgoingDatagram { datagram: &bytes, traffic_class, marked, sent_at }, now);
        }
    }

    /// Drops the pending datagrams of a closed flow, and counts them as unsendable.
    pub(super) fn drop_pending_datagrams(&mut self, id: SendFlowId) {
        if self.pending_datagrams.by_flow.contains_key(&id) {
            self.counters.datagrams_unsendable +=
                self.pending_datagrams.remove_of_flows(|flow| flow == id).len() as u64;
        }
    }

    /// Drops all pending and early datagrams, because the agent leaves, and counts them as
    /// unsendable.
    pub(super) fn drop_all_pending_datagrams(&mut self) {
        self.counters.datagrams_unsendable += core::mem::take(&mut self.pending_datagrams).count() as u64;
        self.drop_all_early();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_units::Duration;

    fn datagram(flow: u32, sent_at: Time, length: usize) -> PendingDatagram {
        PendingDatagram {
            flow: SendFlowId(flow),
            sent_at,
            traffic_class: TrafficClass::DEFAULT,
            marked: false,
            bytes: alloc::vec![0; length],
        }
    }

    #[test]
    fn the_oldest_make_room_and_who_waited_too_long_goes() {
        let mut pending = PendingDatagrams::default();
        let half = PENDING_BYTES_MAX / 2 - size_of::<PendingDatagram>();
        assert_eq!(pending.push(datagram(1, Time::START, half)), 0);
        assert_eq!(pending.push(datagram(2, Time::START, half)), 0);
        assert_eq!(pending.push(datagram(3, Time::START, 1)), 1);
        let end = Time::START + PENDING_DATAGRAM_LIFETIME;
        assert_eq!(pending.deadline(), Some(end));
        let before = end.saturating_sub(Duration::from_nanos(1));
        assert_eq!((pending.expire(before), pending.expire(end), pending.deadline()), (0, 2, None));
        assert_eq!((pending.bytes, pending.count(), pending.by_flow.len()), (0, 0, 0));
    }

    #[test]
    fn datagrams_without_bytes_take_memory_too() {
        let mut pending = PendingDatagrams::default();
        let most = PENDING_BYTES_MAX / size_of::<PendingDatagram>();
        let dropped: u64 = (0..most + 10).map(|_| pending.push(datagram(1, Time::START, 0))).sum();
        assert_eq!((dropped, pending.count()), (10, most));
    }

    #[test]
    fn what_is_taken_is_of_the_flows_that_are_meant_in_its_order() {
        let mut pending = PendingDatagrams::default();
        for (flow, length) in [(1, 10), (2, 20), (1, 30)] {
            pending.push(datagram(flow, Time::START, length));
        }
        let removed = pending.remove_of_flows(|flow| flow == SendFlowId(1));
        assert_eq!(removed.iter().map(|datagram| datagram.bytes.len()).collect::<Vec<_>>(), [10, 30]);
        assert_eq!((pending.bytes, pending.count()), (20 + size_of::<PendingDatagram>(), 1));
        assert!(pending.by_flow.keys().eq([&SendFlowId(2)]));
    }
}
