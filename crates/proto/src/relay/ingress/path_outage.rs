//! Outages of direct paths: the relay forwards the packets of such flows whole, for a limited time.

use alloc::collections::BTreeMap;

use byway_units::{Duration, Time};

use super::flow::FlowSlot;
use super::group::GroupKey;
use crate::limits::{COPY_RETENTION, OUTAGE_BELIEVED_FOR, OUTAGE_FORWARDING_MAX};
use crate::parts::forwarding_allowance::ForwardingAllowance;
use crate::policy::pulls;
use byway_wire::Service;

/// Report that a flow's direct path has an outage, or that the outage ended (`is_active` is false).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathOutage {
    pub(crate) is_active: bool,
    /// True if the flow's sender reports it, false if an egress relay does.
    pub(crate) by_sender: bool,
}

impl PathOutage {
    /// Returns the time for which the report is valid.
    ///
    /// A report of the sender is valid for as long as the relay may forward, because the sender
    /// also reports the end. An egress relay repeats its report while copies reach it. A pulled
    /// flow may pause before it does, so its report is valid until the flow counts as idle.
    const fn valid_for(self, service: Service) -> Duration {
        match (self.by_sender, pulls(service)) {
            (true, _) => OUTAGE_FORWARDING_MAX,
            (false, true) => COPY_RETENTION,
            (false, false) => OUTAGE_BELIEVED_FOR,
        }
    }
}

/// Outage reports in force for one flow.
#[derive(Clone, Copy, Debug)]
struct OutageRecord {
    service: Service,
    allowance: ForwardingAllowance,
    /// Time until which the egress relay's report is valid.
    until: Time,
    /// Time until which the sender's report is valid. Until then, the sender may send fewer source
    /// packets on the direct path.
    until_by_sender: Time,
}

impl OutageRecord {
    /// True if a report is valid.
    fn is_reported(&self, now: Time) -> bool {
        now < self.until.max(self.until_by_sender)
    }

    /// True if the relay forwards the flow's packets whole: a report is valid, and the allowance is
    /// not used up.
    fn is_relayed(&self, now: Time) -> bool {
        self.is_reported(now) && self.allowance.is_left(now)
    }

    /// True if the relay is forwarding packets that would otherwise be coded. A report without
    /// packets saves nothing.
    fn replaces_repairs(&self, now: Time) -> bool {
        let is_coded = self.service == Service::Coding;
        is_coded && self.is_relayed(now) && self.allowance.was_charged_within(OUTAGE_BELIEVED_FOR, now)
    }
}

/// Flows with an outage of their direct path, by coding group.
///
/// A receiver may report false outages. The relay therefore forwards its flow for a quarter of the
/// time at most (see [`ForwardingAllowance`]). While it forwards packets of a coded flow, it sends
/// no in-stream repair packets for any flow of the coding group, which compensates for the bytes.
#[derive(Debug, Default)]
pub(super) struct PathOutages(BTreeMap<(Option<GroupKey>, FlowSlot), OutageRecord>);

impl PathOutages {
    /// Records a report that an outage of a flow's direct path began or ended. An end without a
    /// known outage is ignored.
    ///
    /// A report of the sender does not end one of an egress relay. The sender learns later than the
    /// egress relay that the path delivers again, and its report of the end may be lost. So if an
    /// egress relay reports the end, the sender's report stays valid for [`OUTAGE_BELIEVED_FOR`].
    pub(super) fn set(
        &mut self,
        (group, flow): (Option<GroupKey>, FlowSlot),
        service: Service,
        outage: PathOutage,
        now: Time,
    ) {
        if !outage.is_active && !self.0.contains_key(&(group, flow)) {
            return;
        }
        let allowance = ForwardingAllowance::new(now);
        let no_outage = OutageRecord { service, allowance, until: now, until_by_sender: now };
        let record = self.0.entry((group, flow)).or_insert(no_outage);
        record.service = service;
        let until = if outage.by_sender { &mut record.until_by_sender } else { &mut record.until };
        *until = if outage.is_active { (*until).max(now + outage.valid_for(service)) } else { now };
        if !outage.is_active && !outage.by_sender {
            record.until_by_sender = record.until_by_sender.min(now + OUTAGE_BELIEVED_FOR);
        }
    }

    /// Removes the outage reports of a flow.
    pub(super) fn forget(&mut self, group: Option<GroupKey>, flow: FlowSlot) {
        self.0.remove(&(group, flow));
    }

    /// True if the relay forwards a packet of the flow because of an outage. It is charged to the
    /// flow's allowance.
    pub(super) fn relays_packet(&mut self, group: Option<GroupKey>, flow: FlowSlot, now: Time) -> bool {
        let outage = self.0.get_mut(&(group, flow)).filter(|outage| outage.is_reported(now));
        outage.is_some_and(|outage| outage.allowance.try_forward(now))
    }

    /// True if the relay forwards packets of this flow, or of another coded one of its group,
    /// because of an outage.
    pub(super) fn relays_any_of_group(&self, group: Option<GroupKey>, flow: FlowSlot, now: Time) -> bool {
        if group.is_none() {
            return self.0.get(&(group, flow)).is_some_and(|outage| outage.replaces_repairs(now));
        }
        let of_group = (group, FlowSlot(0))..=(group, FlowSlot(u32::MAX));
        self.0.range(of_group).any(|(_, outage)| outage.replaces_repairs(now))
    }
}
