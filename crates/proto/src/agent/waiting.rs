//! Datagrams that wait for a way: a peer that was reached through a relay first can be spoken to before it is known where it is.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::TrafficClass;

use super::Agent;
use super::closing::Life;
use super::send_flow::SendFlowId;
use crate::limits::{WAITING_BYTES_MAX, WAITS_FOR_WAY};

/// A datagram of an application, as it was to be sent.
#[derive(Debug)]
struct Datagram {
    flow: SendFlowId,
    came: Time,
    traffic_class: TrafficClass,
    marked: bool,
    bytes: Vec<u8>,
}

/// The same, as it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) datagram: &'a [u8],
    pub(super) traffic_class: TrafficClass,
    pub(super) marked: bool,
    /// When the application sent it.
    pub(super) came: Time,
}

impl Datagram {
    /// What it takes in memory.
    fn cost(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

/// The datagrams that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    datagrams: VecDeque<Datagram>,
    /// How many of each flow.
    by_flow: BTreeMap<SendFlowId, u32>,
    bytes: usize,
}

impl Waiting {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.datagrams.len()
    }

    /// Lets a datagram wait; how many others have to make room.
    fn push(&mut self, datagram: Datagram) -> u64 {
        self.bytes += datagram.cost();
        *self.by_flow.entry(datagram.flow).or_default() += 1;
        self.datagrams.push_back(datagram);
        let before = self.count();
        while self.bytes > WAITING_BYTES_MAX && self.pop().is_some() {}
        (before - self.count()) as u64
    }

    fn pop(&mut self) -> Option<Datagram> {
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

    /// Returns when the oldest has waited too long.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.datagrams.front().map(|oldest| oldest.came + WAITS_FOR_WAY)
    }

    /// Drops those that waited too long; how many.
    fn expire(&mut self, now: Time) -> u64 {
        let before = self.count();
        let has_outwaited = |oldest: &Datagram| now.saturating_since(oldest.came) >= WAITS_FOR_WAY;
        while self.datagrams.front().is_some_and(has_outwaited) {
            self.pop();
        }
        (before - self.count()) as u64
    }

    /// Takes out what waits for some flows, the oldest first.
    fn take(&mut self, is_meant: impl Fn(SendFlowId) -> bool) -> VecDeque<Datagram> {
        let (taken, kept) =
            core::mem::take(&mut self.datagrams).into_iter().partition(|datagram| is_meant(datagram.flow));
        self.datagrams = kept;
        self.bytes = self.datagrams.iter().map(Datagram::cost).sum();
        self.by_flow.retain(|flow, _| !is_meant(*flow));
        taken
    }
}

impl Agent {
    /// True if a flow's packets can be sent now. Its early datagrams go first.
    fn has_way(&self, id: SendFlowId, now: Time) -> bool {
        self.reaches(id, now) && !self.has_early(id)
    }

    /// True if there are keys, and an address of a flow's receiver or a relay that delivers.
    pub(super) fn reaches(&self, id: SendFlowId, now: Time) -> bool {
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

    /// Lets a datagram wait if there is no session with its receiver or no way to it yet; whether it waits.
    pub(super) fn waits(&mut self, flow: SendFlowId, outgoing: &Outgoing<'_>, now: Time) -> bool {
        if self.has_way(flow, now) {
            return false;
        }
        // Whoever has something to say wants to know whether the other side is still there.
        self.sessions.use_session(self.senders[flow.0 as usize].peer, now);
        let Outgoing { datagram, traffic_class, marked, came } = *outgoing;
        let dropped =
            self.waiting.push(Datagram { flow, came, traffic_class, marked, bytes: datagram.to_vec() });
        self.counters.datagrams_unsendable += dropped;
        true
    }

    /// Sends a datagram of an application that has waited with the driver since `came`, as for the peer's consent. One that
    /// waited longer than its flow's latency budget counts as late.
    pub fn send_held(
        &mut self,
        flow: SendFlowId,
        datagram: &[u8],
        traffic_class: TrafficClass,
        marked: bool,
        came: Time,
        now: Time,
    ) {
        if self.life == Life::Open {
            self.send(flow, &Outgoing { datagram, traffic_class, marked, came }, now);
            self.finish(now);
        }
    }

    /// Sends what waits where there is a way now.
    #[cold]
    pub(super) fn send_what_waited(&mut self, now: Time) {
        self.counters.datagrams_unsendable += self.waiting.expire(now);
        let waiting = self.waiting.by_flow.keys().copied();
        let ready: BTreeSet<SendFlowId> = waiting.filter(|flow| self.has_way(*flow, now)).collect();
        if ready.is_empty() {
            return;
        }
        for Datagram { flow, came, traffic_class, marked, bytes } in
            self.waiting.take(|flow| ready.contains(&flow))
        {
            self.send(flow, &Outgoing { datagram: &bytes, traffic_class, marked, came }, now);
        }
    }

    /// A flow has ended: what waits for it goes nowhere.
    pub(super) fn drop_what_waited(&mut self, id: SendFlowId) {
        if self.waiting.by_flow.contains_key(&id) {
            self.counters.datagrams_unsendable += self.waiting.take(|flow| flow == id).len() as u64;
        }
    }

    /// No flow goes on: nothing waits any more.
    pub(super) fn drop_all_that_waited(&mut self) {
        self.counters.datagrams_unsendable += core::mem::take(&mut self.waiting).count() as u64;
        self.drop_all_early();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_units::Duration;

    fn datagram(flow: u32, came: Time, length: usize) -> Datagram {
        Datagram {
            flow: SendFlowId(flow),
            came,
            traffic_class: TrafficClass::DEFAULT,
            marked: false,
            bytes: alloc::vec![0; length],
        }
    }

    #[test]
    fn the_oldest_make_room_and_who_waited_too_long_goes() {
        let mut waiting = Waiting::default();
        let half = WAITING_BYTES_MAX / 2 - size_of::<Datagram>();
        assert_eq!(waiting.push(datagram(1, Time::START, half)), 0);
        assert_eq!(waiting.push(datagram(2, Time::START, half)), 0);
        assert_eq!(waiting.push(datagram(3, Time::START, 1)), 1);
        let end = Time::START + WAITS_FOR_WAY;
        assert_eq!(waiting.deadline(), Some(end));
        let before = end.saturating_sub(Duration::from_nanos(1));
        assert_eq!((waiting.expire(before), waiting.expire(end), waiting.deadline()), (0, 2, None));
        assert_eq!((waiting.bytes, waiting.count(), waiting.by_flow.len()), (0, 0, 0));
    }

    #[test]
    fn datagrams_without_bytes_take_memory_too() {
        let mut waiting = Waiting::default();
        let most = WAITING_BYTES_MAX / size_of::<Datagram>();
        let dropped: u64 = (0..most + 10).map(|_| waiting.push(datagram(1, Time::START, 0))).sum();
        assert_eq!((dropped, waiting.count()), (10, most));
    }

    #[test]
    fn what_is_taken_is_of_the_flows_that_are_meant_in_its_order() {
        let mut waiting = Waiting::default();
        for (flow, length) in [(1, 10), (2, 20), (1, 30)] {
            waiting.push(datagram(flow, Time::START, length));
        }
        let taken = waiting.take(|flow| flow == SendFlowId(1));
        assert_eq!(taken.iter().map(|datagram| datagram.bytes.len()).collect::<Vec<_>>(), [10, 30]);
        assert_eq!((waiting.bytes, waiting.count()), (20 + size_of::<Datagram>(), 1));
        assert!(waiting.by_flow.keys().eq([&SendFlowId(2)]));
    }
}
