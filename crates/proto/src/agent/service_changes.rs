//! Changes of the services of open flows, at both ends.
//!
//! The receiver learns of a change first, and registers with its egress relays for the new service.
//! Its answer makes the sender use the service. So requests find somebody who answers them at any
//! time. For a while, the receiver requests packets by the rules of both services.

use alloc::collections::{BTreeMap, BTreeSet};

use byway_units::Time;
use byway_wire::Service;

use crate::limits::{SERVICE_CHANGE_RETRY, SERVICE_CHANGE_TRIES, SERVICE_OVERLAP};

/// Change of a sent flow's service that the receiver has not answered yet.
#[derive(Clone, Copy, Debug)]
struct PendingChange {
    service: Service,
    number: u8,
    tries: u8,
    next: Time,
}

/// Latest change of a received flow's service.
#[derive(Clone, Copy, Debug)]
struct AcceptedChange {
    number: u8,
    before: Service,
    at: Time,
}

/// Service change message that is due: the flow, the number of the change, and the new service.
pub(super) type DueChange = (u32, u8, Service);

/// Changes of services: those that this agent has sent and that have no answer, and the latest one
/// of each received flow. Flows are numbered as in their tables.
#[derive(Debug, Default)]
pub(super) struct ServiceChanges {
    pending: BTreeMap<u32, PendingChange>,
    due: BTreeSet<(Time, u32)>,
    accepted: BTreeMap<u32, AcceptedChange>,
    /// Latest number of each sent flow. Numbers wrap around, and a receiver takes the nearer half
    /// of them for later ones, so changes of other flows do not count.
    numbers: BTreeMap<u32, u8>,
}

impl ServiceChanges {
    /// Begins a change of a sent flow's service, in place of a pending one. Its message is due now.
    pub(super) fn begin(&mut self, flow: u32, service: Service, now: Time) {
        self.end(flow);
        let number = self.numbers.entry(flow).or_default();
        *number = number.wrapping_add(1);
        let change = PendingChange { service, number: *number, tries: 0, next: now };
        self.pending.insert(flow, change);
        self.due.insert((now, flow));
    }

    /// Forgets the pending change of a sent flow; returns it.
    fn end(&mut self, flow: u32) -> Option<PendingChange> {
        let change = self.pending.remove(&flow)?;
        self.due.remove(&(change.next, flow));
        Some(change)
    }

    /// Forgets the changes of a closed flow.
    pub(super) fn forget_sent(&mut self, flow: u32) {
        self.end(flow);
        self.numbers.remove(&flow);
    }

    /// Forgets the changes of a received flow, because it was closed, or its sender restarted.
    pub(super) fn forget_received(&mut self, flow: u32) {
        self.accepted.remove(&flow);
    }

    /// Returns the service to which a sent flow is changing; `None` if it is not.
    pub(super) fn pending_service(&self, flow: u32) -> Option<Service> {
        self.pending.get(&flow).map(|change| change.service)
    }

    /// Returns the time of the next message.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns a change whose message is due, and schedules its repetition. After
    /// [`SERVICE_CHANGE_TRIES`], the flow keeps its service. Call until it returns `None`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<DueChange> {
        loop {
            let (_, flow) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
            self.due.pop_first();
            let change = self.pending.get_mut(&flow)?;
            if change.tries == SERVICE_CHANGE_TRIES {
                self.pending.remove(&flow);
                continue;
            }
            change.next = now + SERVICE_CHANGE_RETRY * (1 << change.tries);
            change.tries += 1;
            self.due.insert((change.next, flow));
            return Some((flow, change.number, change.service));
        }
    }

    /// Handles a receiver's answer; returns the new service of the flow, or `None` if the answer is
    /// about another change.
    pub(super) fn on_reply(&mut self, flow: u32, number: u8) -> Option<Service> {
        self.pending.get(&flow).filter(|change| change.number == number)?;
        self.end(flow).map(|change| change.service)
    }

    /// Records a change of a received flow's service from `before`. Returns `false` if it is known
    /// already, or a later one is.
    pub(super) fn accept(&mut self, flow: u32, number: u8, before: Service, now: Time) -> bool {
        let last = self.accepted.get(&flow).map(|known| known.number);
        let is_new = last.is_none_or(|last| (1..128).contains(&number.wrapping_sub(last)));
        if is_new {
            self.accepted.insert(flow, AcceptedChange { number, before, at: now });
        }
        is_new
    }

    /// Returns the former service of a received flow for [`SERVICE_OVERLAP`] after a change.
    pub(super) fn former_service(&self, flow: u32, now: Time) -> Option<Service> {
        let change = self.accepted.get(&flow).filter(|change| change.at + SERVICE_OVERLAP > now)?;
        Some(change.before)
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    const FLOW: u32 = 3;
    const RECEIVED: u32 = 4;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    #[test]
    fn a_change_is_repeated_until_it_is_answered_and_a_few_times_at_most() {
        let mut changes = ServiceChanges::default();
        changes.begin(FLOW, Service::Pull, at(0));
        let (mut messages, mut now) = (0, at(0));
        while let Some(next) = changes.deadline() {
            now = next;
            messages += usize::from(changes.pop_due(now).is_some());
        }
        assert_eq!((messages, changes.pending_service(FLOW)), (usize::from(SERVICE_CHANGE_TRIES), None));
        changes.begin(FLOW, Service::Pull, now);
        let (_, number, _) = changes.pop_due(now).expect("it is due");
        assert_eq!(changes.on_reply(FLOW, number.wrapping_sub(1)), None, "about an earlier change");
        assert_eq!(changes.on_reply(FLOW, number), Some(Service::Pull));
        assert_eq!((changes.on_reply(FLOW, number), changes.deadline()), (None, None));
    }

    #[test]
    fn changes_of_other_flows_do_not_make_one_outdated() {
        let (mut sender, mut receiver) = (ServiceChanges::default(), ServiceChanges::default());
        let mut change = |flow: u32, service| {
            sender.begin(flow, service, at(0));
            let (due, number, service) = sender.pop_due(at(0)).expect("it is due");
            assert_eq!(sender.on_reply(due, number), Some(service));
            number
        };
        let first = change(FLOW, Service::Pull);
        assert!(receiver.accept(RECEIVED, first, Service::Caching, at(0)));
        for other in 0..130 {
            change(FLOW + 1 + other % 2, Service::Forwarding);
        }
        let second = change(FLOW, Service::Caching);
        assert!(receiver.accept(RECEIVED, second, Service::Pull, at(1)), "{first} before {second}");
    }

    #[test]
    fn a_change_that_a_later_one_overtook_is_ignored() {
        let mut changes = ServiceChanges::default();
        assert!(changes.accept(RECEIVED, 250, Service::Caching, at(0)));
        assert!(changes.accept(RECEIVED, 2, Service::Pull, at(0)));
        assert!(
            !changes.accept(RECEIVED, 2, Service::Pull, at(0))
                && !changes.accept(RECEIVED, 251, Service::Pull, at(0))
        );
        assert_eq!(changes.former_service(RECEIVED, at(1)), Some(Service::Pull));
        assert_eq!(changes.former_service(RECEIVED, at(0) + SERVICE_OVERLAP), None);
        changes.forget_received(RECEIVED);
        assert!(changes.accept(RECEIVED, 1, Service::Pull, at(0)), "the sender restarted");
    }
}
