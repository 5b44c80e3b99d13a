//! Changes of the services of open flows, at both ends.
//!
//! The receiver learns of a change first, and registers with its egress relays for the new service.
//! Its answer makes the sender use the service. So requests find somebody who answers them at any
//! time. For a while, the receiver requests packets by the rules of both services.
//!
//! A change without an answer is taken back: the receiver may have adopted it, and all its answers
//! may have been lost. The sender repeats that message, less and less often, until it has an
//! answer. An end that restarts has the service of its settings. If that is the receiver, the
//! sender begins the change anew.

use alloc::collections::{BTreeMap, BTreeSet};

use byway_units::Time;
use byway_wire::Service;

use super::routes::FlowRoutes;
use super::selection::FlowSelectors;
use crate::limits::{
    SERVICE_CHANGE_BACKOFF_MAX, SERVICE_CHANGE_INTERVAL, SERVICE_CHANGE_RETRY, SERVICE_CHANGE_TRIES,
    SERVICE_OVERLAP,
};

/// Change of a sent flow's service that the receiver has not answered yet.
#[derive(Clone, Copy, Debug)]
struct PendingChange {
    service: Service,
    /// Service of the flow until the answer. It is the same as `service` if the change takes back
    /// another one.
    before: Service,
    number: u8,
    tries: u8,
    next: Time,
}

/// Latest change of a received flow's service.
#[derive(Clone, Copy, Debug)]
struct AcceptedChange {
    number: u8,
    before: Service,
    /// Service of the flow before its first change.
    configured: Service,
    at: Time,
}

/// Result of a received message with a change of a flow's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acceptance {
    /// The change is new: the flow has the new service from now on.
    New,
    /// The receiver knows the change already, or a later one.
    Known,
    /// The latest change was less than [`SERVICE_CHANGE_INTERVAL`] ago. The sender repeats its
    /// message.
    TooSoon,
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
    /// Selectors of the flows whose service this agent chooses.
    pub(super) selectors: FlowSelectors,
    /// Selectors of the paths of flows with limits of their latency.
    pub(super) routes: FlowRoutes,
    /// Latest number of each sent flow. Numbers wrap around, and a receiver takes the nearer half
    /// of them for later ones, so changes of other flows do not count.
    numbers: BTreeMap<u32, u8>,
}

impl ServiceChanges {
    /// Begins a change of a sent flow's service from `before`, in place of a pending one. Its
    /// message is due now.
    pub(super) fn begin(&mut self, flow: u32, before: Service, service: Service, now: Time) {
        self.end(flow);
        let number = self.numbers.entry(flow).or_default();
        *number = number.wrapping_add(1);
        let change = PendingChange { service, before, number: *number, tries: 0, next: now };
        self.pending.insert(flow, change);
        self.due.insert((now, flow));
    }

    /// Begins the latest change of a sent flow anew, because its receiver has restarted. `known` is
    /// the flow's service. Does nothing if the flow was never changed.
    pub(super) fn begin_again(&mut self, flow: u32, known: Service, now: Time) {
        if self.numbers.contains_key(&flow) {
            let service = self.pending_service(flow).unwrap_or(known);
            self.begin(flow, known, service, now);
        }
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
        self.selectors.remove(flow);
        self.routes.remove(flow);
    }

    /// Forgets the changes of a received flow, because it was closed, or its sender restarted.
    /// Returns the flow's service before them; `None` if there were none.
    pub(super) fn forget_received(&mut self, flow: u32) -> Option<Service> {
        self.accepted.remove(&flow).map(|known| known.configured)
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
    /// [`SERVICE_CHANGE_TRIES`], it takes the change back. Call until it returns `None`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<DueChange> {
        let (_, flow) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        let PendingChange { service, before, tries, .. } = *self.pending.get(&flow)?;
        if tries == SERVICE_CHANGE_TRIES && service != before {
            self.begin(flow, before, before, now);
        }
        let change = self.pending.get_mut(&flow)?;
        self.due.remove(&(change.next, flow));
        change.next = now + SERVICE_CHANGE_RETRY * (1 << change.tries.min(SERVICE_CHANGE_BACKOFF_MAX));
        change.tries = change.tries.saturating_add(1);
        self.due.insert((change.next, flow));
        Some((flow, change.number, change.service))
    }

    /// Handles a receiver's answer; returns the new service of the flow, or `None` if the answer is
    /// about another change.
    pub(super) fn on_reply(&mut self, flow: u32, number: u8) -> Option<Service> {
        self.pending.get(&flow).filter(|change| change.number == number)?;
        self.end(flow).map(|change| change.service)
    }

    /// Records a change of a received flow's service from `before`, if it is new.
    pub(super) fn accept(&mut self, flow: u32, number: u8, before: Service, now: Time) -> Acceptance {
        let last = self.accepted.get(&flow).copied();
        if last.is_some_and(|last| !(1..128).contains(&number.wrapping_sub(last.number))) {
            return Acceptance::Known;
        }
        if last.is_some_and(|last| last.at + SERVICE_CHANGE_INTERVAL > now) {
            return Acceptance::TooSoon;
        }
        let configured = last.map_or(before, |last| last.configured);
        self.accepted.insert(flow, AcceptedChange { number, before, configured, at: now });
        Acceptance::New
    }

    /// Returns the former service of a received flow for [`SERVICE_OVERLAP`] after a change.
    pub(super) fn former_service(&self, flow: u32, now: Time) -> Option<Service> {
        let change = self.accepted.get(&flow).filter(|change| change.at + SERVICE_OVERLAP > now)?;
        Some(change.before)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use byway_units::Duration;

    use super::*;

    const FLOW: u32 = 3;
    const RECEIVED: u32 = 4;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    #[test]
    fn a_change_is_repeated_a_few_times_and_taken_back_until_that_is_answered() {
        let mut changes = ServiceChanges::default();
        changes.begin(FLOW, Service::Caching, Service::Pull, at(0));
        let mut messages = Vec::new();
        while messages.len() < 30 {
            let now = changes.deadline().expect("it repeats");
            let (_, number, service) = changes.pop_due(now).expect("it is due");
            messages.push((now, number, service));
        }
        let (wanted, back) = messages.split_at(usize::from(SERVICE_CHANGE_TRIES));
        assert!(wanted.iter().all(|(_, number, service)| (*number, *service) == (1, Service::Pull)));
        assert!(back.iter().all(|(_, number, service)| (*number, *service) == (2, Service::Caching)));
        let pauses = back.windows(2).map(|pair| pair[1].0 - pair[0].0).max().expect("there are many");
        assert_eq!(pauses, SERVICE_CHANGE_RETRY * (1 << SERVICE_CHANGE_BACKOFF_MAX));
        assert_eq!(changes.on_reply(FLOW, 1), None, "about an earlier change");
        assert_eq!(changes.on_reply(FLOW, 2), Some(Service::Caching));
        assert_eq!((changes.on_reply(FLOW, 2), changes.deadline()), (None, None));
    }

    #[test]
    fn a_restarted_receiver_learns_of_the_latest_change() {
        let mut changes = ServiceChanges::default();
        changes.begin_again(FLOW, Service::Caching, at(0));
        assert_eq!(changes.deadline(), None, "the flow was never changed");
        changes.begin(FLOW, Service::Caching, Service::Pull, at(0));
        let (_, number, _) = changes.pop_due(at(0)).expect("it is due");
        changes.on_reply(FLOW, number);
        changes.begin_again(FLOW, Service::Pull, at(1));
        assert_eq!(changes.pop_due(at(1)), Some((FLOW, number + 1, Service::Pull)));
    }

    #[test]
    fn changes_of_other_flows_do_not_make_one_outdated() {
        let (mut sender, mut receiver) = (ServiceChanges::default(), ServiceChanges::default());
        let mut change = |flow: u32, service| {
            sender.begin(flow, Service::Coding, service, at(0));
            let (due, number, service) = sender.pop_due(at(0)).expect("it is due");
            assert_eq!(sender.on_reply(due, number), Some(service));
            number
        };
        let first = change(FLOW, Service::Pull);
        assert_eq!(receiver.accept(RECEIVED, first, Service::Caching, at(0)), Acceptance::New);
        for other in 0..130 {
            change(FLOW + 1 + other % 2, Service::Forwarding);
        }
        let second = change(FLOW, Service::Caching);
        let result = receiver.accept(RECEIVED, second, Service::Pull, at(1_000));
        assert_eq!(result, Acceptance::New, "{first} before {second}");
    }

    #[test]
    fn a_change_that_a_later_one_overtook_is_ignored() {
        let mut changes = ServiceChanges::default();
        let mut accept = |number: u8, before, ms: u64| changes.accept(RECEIVED, number, before, at(ms));
        assert_eq!(accept(250, Service::Caching, 0), Acceptance::New);
        assert_eq!(accept(2, Service::Pull, 100), Acceptance::TooSoon);
        assert_eq!(accept(2, Service::Pull, 300), Acceptance::New);
        assert_eq!(accept(2, Service::Coding, 600), Acceptance::Known);
        assert_eq!(accept(251, Service::Coding, 600), Acceptance::Known);
        assert_eq!(changes.former_service(RECEIVED, at(301)), Some(Service::Pull));
        assert_eq!(changes.former_service(RECEIVED, at(300) + SERVICE_OVERLAP), None);
        assert_eq!(changes.forget_received(RECEIVED), Some(Service::Caching), "that of the settings");
        let result = changes.accept(RECEIVED, 1, Service::Pull, at(700));
        assert_eq!(result, Acceptance::New, "the sender restarted");
    }
}
