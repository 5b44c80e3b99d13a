//! Number of flows of a coding group that send, for senders that select a service.
//!
//! Coding costs the less, the more flows share a batch. The ingress relay alone sees all of them.
//! It counts flows by intervals of [`ACTIVITY_INTERVAL`], so a packet costs one comparison.

use byway_units::Time;
use byway_wire::Service;
use byway_wire::messages::GroupActivity;

use super::flow::FlowSlot;
use super::{CodingGroup, GroupKey, Ingress};
use crate::limits::ACTIVITY_INTERVAL;

impl Ingress {
    /// Counts a flow that sends a copy, once in each interval. Only flows whose redundancy follows
    /// the losses count: senders that select a service register no others.
    pub(super) fn count_active(&mut self, slot: FlowSlot, now: Time) {
        let interval = interval_of(now);
        let Some(flow) = self.flow_mut(slot) else {
            return;
        };
        let (service, key) = (flow.registration.service, flow.registration.group);
        let class = flow.registration.batching.class;
        let is_counted = matches!(service, Service::Coding | Service::Caching);
        let Some(key) = key.filter(|key| key.is_adaptive && is_counted) else {
            return;
        };
        if flow.active_mut().is_none_or(|active| !active.begin_interval(interval)) {
            return;
        }
        if let Some(active) = self.group_mut(key).and_then(|group| group.active_flows(class)) {
            active.count(service == Service::Coding, interval);
        }
    }

    /// Returns the activity of a flow's coding group, for its sender; `None` if the flow is in no
    /// group whose redundancy follows the losses.
    pub(crate) fn group_activity(&mut self, slot: FlowSlot, now: Time) -> Option<GroupActivity> {
        let interval = interval_of(now);
        let flow = self.flow_mut(slot)?;
        let service = flow.registration.service;
        let (key, class) = (flow.registration.group?, flow.registration.batching.class);
        let sends = u8::from(flow.active_mut().is_some_and(|active| active.was_counted(interval)));
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

    pub(super) fn group_mut(&mut self, key: GroupKey) -> Option<&mut CodingGroup> {
        self.groups.iter_mut().find(|group| group.key == key)
    }
}

/// Returns the number of the interval that contains a time.
fn interval_of(now: Time) -> u64 {
    now.as_nanos() / ACTIVITY_INTERVAL.as_nanos()
}
