//! Flows of a coding group that send: their number, for senders that select a service, and their
//! cohorts.
//!
//! Coding costs the less, the more flows share a batch. The ingress relay alone sees all of them.
//! It counts flows by intervals of [`ACTIVITY_INTERVAL`](crate::limits::ACTIVITY_INTERVAL), so a
//! packet costs one comparison.

use byway_units::Time;
use byway_wire::messages::GroupActivity;
use byway_wire::{SequenceNumber, Service};

use super::flow::FlowSlot;
use super::{CodingGroup, GroupKey, Ingress};
use crate::parts::active_flows::interval_of;
use crate::policy::batch_wait;

impl Ingress {
    /// Counts a flow that sends a copy, once in each interval.
    pub(super) fn count_active(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        let active = self.flow_mut(slot).and_then(|flow| flow.active_mut());
        if active.is_some_and(|active| !active.counted.contains(now)) {
            self.begin_interval(slot, sequence, now);
        }
    }

    /// Counts a flow with its first copy in an interval. A coded one joins a cohort.
    ///
    /// In the activity of its group, only a flow whose redundancy follows the losses counts:
    /// senders that select a service register no others.
    #[cold]
    pub(super) fn begin_interval(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        let Self { flows, groups, memory, .. } = self;
        let Some(flow) = flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let wait = batch_wait(flow.registration.latency_budget);
        let Some(participation) = flow.active_mut().map(|active| active.counted.begin(sequence, wait, now))
        else {
            return;
        };
        let (service, key) = (flow.registration.service, flow.registration.group);
        let Some(group) = key.and_then(|key| groups.iter_mut().find(|group| group.key == key)) else {
            return;
        };
        let (class, interval) = (flow.registration.batching.class, interval_of(now));
        if matches!(service, Service::Coding | Service::Caching)
            && let Some(active) = group.active_flows(class)
        {
            active.count(service == Service::Coding, interval);
        }
        if service == Service::Coding {
            let (risks, holder) = (flow.risks(), flow.registration.holder);
            let batching = &mut flow.registration.batching;
            group.join_cohort(batching, &risks, (participation, interval), (holder, memory));
        }
    }

    /// Returns the activity of a flow's coding group, for its sender; `None` if the flow is in no
    /// group whose redundancy follows the losses.
    pub(crate) fn group_activity(&mut self, slot: FlowSlot, now: Time) -> Option<GroupActivity> {
        let interval = interval_of(now);
        let flow = self.flow_mut(slot)?;
        let service = flow.registration.service;
        let (key, class) = (flow.registration.group?, flow.registration.batching.class);
        let sends = u8::from(flow.active_mut().is_some_and(|active| active.counted.is_recent(interval)));
        let active = self.group_mut(key)?.active_flows(class)?;
        let GroupActivity { coded, cached } = active.activity(interval);
        // The flow itself does not count. For some seconds after a change of its service, it is
        // among those of the former one.
        Some(match service {
            Service::Coding => GroupActivity { coded: coded.saturating_sub(sends), cached },
            Service::Caching => GroupActivity { coded, cached: cached.saturating_sub(sends) },
            _ => GroupActivity { coded, cached },
        })
    }

    /// True if a flow may share batches with other tenants' flows; `None` if it is in no group.
    pub(crate) fn shares_batches(&self, slot: FlowSlot) -> Option<bool> {
        let key = self.flow(slot)?.registration.group?;
        Some(key.tenant.is_none())
    }

    pub(super) fn group_mut(&mut self, key: GroupKey) -> Option<&mut CodingGroup> {
        self.groups.iter_mut().find(|group| group.key == key)
    }
}
