//! Outages of direct paths: the relay forwards the packets of such flows whole, for a limited time.

use alloc::collections::BTreeMap;

use byway_units::Time;

use super::{FlowSlot, GroupKey};
use crate::limits::{OUTAGE_BELIEVED_FOR, OUTAGE_FORWARDING_MAX, OUTAGE_PERIOD};

/// Report that a flow's direct path has an outage, or that the outage ended (`is_active` is false).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathOutage {
    pub(crate) is_active: bool,
    /// True if the flow's sender reports it, false if an egress relay does.
    pub(crate) by_sender: bool,
}

/// Outage reports in force for one flow.
#[derive(Clone, Copy, Debug)]
struct OutageRecord {
    /// Begin of the first outage in the current [`OUTAGE_PERIOD`].
    began_at: Time,
    /// Time until which the egress relay's report is valid.
    until: Time,
    /// Time until which the sender's report is valid. Until then, the sender may send fewer source
    /// packets on the direct path.
    until_by_sender: Time,
}

impl OutageRecord {
    /// True if the relay forwards the flow's packets whole: a report is valid, and the outage does
    /// not exceed [`OUTAGE_FORWARDING_MAX`].
    fn is_relayed(&self, now: Time) -> bool {
        now < self.until.max(self.until_by_sender) && now < self.began_at + OUTAGE_FORWARDING_MAX
    }
}

/// Flows with an outage of their direct path, by coding group.
///
/// A receiver may report false outages. The relay therefore forwards its flow for a quarter of the
/// time at most. While it does, it sends no in-stream repair packets for any flow of the coding
/// group, which compensates for the bytes.
#[derive(Debug, Default)]
pub(super) struct PathOutages(BTreeMap<(Option<GroupKey>, FlowSlot), OutageRecord>);

impl PathOutages {
    /// Records a report that an outage of a flow's direct path began or ended. An end without a
    /// known outage is ignored.
    ///
    /// A report of an egress relay is valid for [`OUTAGE_BELIEVED_FOR`]. A report of the sender is
    /// valid for as long as the relay may forward, because the sender also reports the end. Neither
    /// report ends the other: the sender learns later than the egress relay that the path delivers
    /// again.
    pub(super) fn set(&mut self, group: Option<GroupKey>, flow: FlowSlot, outage: PathOutage, now: Time) {
        let PathOutage { is_active, by_sender } = outage;
        let valid_for = if by_sender { OUTAGE_FORWARDING_MAX } else { OUTAGE_BELIEVED_FOR };
        if !is_active && !self.0.contains_key(&(group, flow)) {
            return;
        }
        let no_outage = OutageRecord { began_at: now, until: now, until_by_sender: now };
        let record = self.0.entry((group, flow)).or_insert(no_outage);
        let until = if by_sender { &mut record.until_by_sender } else { &mut record.until };
        *until = if is_active { (*until).max(now + valid_for) } else { now };
        if is_active && record.began_at + OUTAGE_PERIOD <= now {
            record.began_at = now;
        }
    }

    /// Removes the outage reports of a flow.
    pub(super) fn forget(&mut self, group: Option<GroupKey>, flow: FlowSlot) {
        self.0.remove(&(group, flow));
    }

    /// True if the relay forwards a flow's packets because of an outage.
    pub(super) fn relays_flow(&self, group: Option<GroupKey>, flow: FlowSlot, now: Time) -> bool {
        self.0.get(&(group, flow)).is_some_and(|outage| outage.is_relayed(now))
    }

    /// True if the relay forwards packets of this flow, or of another one of its group, because of
    /// an outage.
    pub(super) fn relays_any_of_group(&self, group: Option<GroupKey>, flow: FlowSlot, now: Time) -> bool {
        if group.is_none() {
            return self.relays_flow(group, flow, now);
        }
        let of_group = (group, FlowSlot(0))..=(group, FlowSlot(u32::MAX));
        self.0.range(of_group).any(|(_, outage)| outage.is_relayed(now))
    }
}
