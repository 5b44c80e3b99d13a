//! Flows whose direct path is dark: their packets are carried on whole, for a while.

use alloc::collections::BTreeMap;

use byway_units::Time;

use super::{FlowSlot, GroupKey};
use crate::limits::{OUTAGE_BELIEVED_FOR, OUTAGE_CARRIED_FOR, OUTAGE_PERIOD};

/// Somebody's word on a flow's direct path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathOutage {
    pub(crate) is_dark: bool,
    /// Whether the flow's sender says so, or an egress relay.
    pub(crate) by_sender: bool,
}

/// What is known of a flow's outages.
#[derive(Clone, Copy, Debug)]
struct Outage {
    /// When the first one began that counts against what is carried.
    began: Time,
    /// The end of the outage, as the egress relay says.
    until: Time,
    /// The same, as the sender says: it withholds originals until then.
    until_by_sender: Time,
}

impl Outage {
    /// Whether packets are carried: the path is dark, and has not been for too long.
    fn is_carried(&self, now: Time) -> bool {
        now < self.until.max(self.until_by_sender) && now < self.began + OUTAGE_CARRIED_FOR
    }
}

/// The flows whose direct path was dark, by coding group.
///
/// A receiver may claim what it likes: its flow is carried for a quarter of the time at most, whose group pays for that.
#[derive(Debug, Default)]
pub(super) struct DarkPaths(BTreeMap<(Option<GroupKey>, FlowSlot), Outage>);

impl DarkPaths {
    /// Notes that a path is dark, or not any more.
    ///
    /// What an egress relay says holds for a second, what the sender says for as long as anything is carried: it says when
    /// that ends. Neither ends what the other said: the sender learns later than the egress relay that the path delivers.
    pub(super) fn set(&mut self, group: Option<GroupKey>, flow: FlowSlot, outage: PathOutage, now: Time) {
        let PathOutage { is_dark, by_sender } = outage;
        let believed_for = if by_sender { OUTAGE_CARRIED_FOR } else { OUTAGE_BELIEVED_FOR };
        if !is_dark && !self.0.contains_key(&(group, flow)) {
            return;
        }
        let ended = Outage { began: now, until: now, until_by_sender: now };
        let known = self.0.entry((group, flow)).or_insert(ended);
        let until = if by_sender { &mut known.until_by_sender } else { &mut known.until };
        *until = if is_dark { (*until).max(now + believed_for) } else { now };
        if is_dark && known.began + OUTAGE_PERIOD <= now {
            known.began = now;
        }
    }

    /// Forgets a flow.
    pub(super) fn forget(&mut self, group: Option<GroupKey>, flow: FlowSlot) {
        self.0.remove(&(group, flow));
    }

    /// Whether a flow's packets are carried.
    pub(super) fn carries(&self, group: Option<GroupKey>, flow: FlowSlot, now: Time) -> bool {
        self.0.get(&(group, flow)).is_some_and(|outage| outage.is_carried(now))
    }

    /// Whether packets of this flow, or of another one of its group, are carried.
    pub(super) fn carries_one_of(&self, group: Option<GroupKey>, flow: FlowSlot, now: Time) -> bool {
        if group.is_none() {
            return self.carries(group, flow, now);
        }
        let of_group = (group, FlowSlot(0))..=(group, FlowSlot(u32::MAX));
        self.0.range(of_group).any(|(_, outage)| outage.is_carried(now))
    }
}
