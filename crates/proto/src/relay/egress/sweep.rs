//! Giving up what nobody can use any more.

use byway_units::Time;

use super::Egress;
use crate::limits::{FLOW_REST, SWEEP_INTERVAL};

impl Egress {
    /// When [`Egress::sweep`] is due.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.next_sweep
    }

    /// Makes sure that a sweep comes.
    pub(super) fn sweep_from(&mut self, now: Time) {
        self.next_sweep.get_or_insert(now + SWEEP_INTERVAL);
    }

    /// Gives up rounds and requests past their time, and forgets the packets of flows at rest.
    pub(crate) fn sweep(&mut self, now: Time) {
        while let Some(slot) = self.rounds.expired(now) {
            let round = self.rounds.end(slot);
            self.stuck.retain(|stuck| *stuck != slot);
            self.counters.rounds_expired += 1;
            if let Some(batch) = self.batch_mut(round.batch).filter(|batch| batch.round == Some(slot)) {
                batch.round = None;
            }
        }
        let mut in_use = self.rounds.under_way() > 0;
        for flow in self.flows.iter_mut().flatten() {
            let Some(active) = flow.active_mut() else {
                continue;
            };
            let (given_up, open) = (&mut self.counters.given_up, &mut active.open);
            active.missing.expire(now, |packet| {
                *given_up += 1;
                // What only a timer asked for may have come.
                let of_dark_path =
                    open.as_mut().filter(|open| packet.certain && open.covers(packet.sequence));
                if let Some(open) = of_dark_path {
                    open.shortfall.settle(packet, false);
                }
            });
            if active.last_used + FLOW_REST <= now && active.missing.is_empty() {
                flow.rest();
            } else {
                in_use = true;
            }
        }
        self.next_sweep = in_use.then(|| now + SWEEP_INTERVAL);
    }
}
